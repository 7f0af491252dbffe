"""Messages: what was said, thought, called and returned, and what the program puts into the context by itself."""

from collections.abc import Callable

from store.events.event import Block, BlockType, Kind, Path, Resource
from store.formats.blocks import argument_blocks
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.media import file_uri, from_base64, mime_of
from store.formats.pi.content import Content
from store.formats.shown import BOOKKEEPING, Header, Shown

_MESSAGE: Path = ("message",)
_CONTENT: Path = ("message", "content")
_USUAL_STOPS = frozenset(("stop", "toolUse"))


def message(line: JsonObject, before: Before) -> Shown:
    """View a message by who says it."""
    said = as_object(line.get("message"))
    view = _VIEWS.get(as_text(said.get("role")))
    if view is not None:
        return view(said, Content(before, as_text(line.get("id"))))
    role = scalar(said.get("role"))
    blocks = argument_blocks(said, _MESSAGE, "message")
    return Shown(Kind.NOTE, blocks, header={"role": role} if role is not None else {})


def custom(said: JsonObject, path: Path, content: Content) -> Shown:
    """View what an extension put into the context: ``said`` stands at ``path`` of the line."""
    content.add(said.get("content"), (*path, "content"))
    if not content.blocks:
        return BOOKKEEPING
    kind = Kind.USER if said.get("attribution") == "user" else Kind.SYSTEM
    header: Header = {}
    if (what := scalar(said.get("customType"))) is not None:
        header["custom_type"] = what
    return Shown(kind, tuple(content.blocks), header=header, resources=tuple(content.resources))


def _user(said: JsonObject, content: Content) -> Shown:
    content.add(said.get("content"), _CONTENT)
    for at, attached in enumerate(as_list(said.get("attachments"))):
        _attach(as_object(attached), (*_MESSAGE, "attachments", at), content)
    if not content.blocks:
        return BOOKKEEPING
    kind = Kind.USER if said.get("role") == "user" else Kind.SYSTEM
    return Shown(kind, tuple(content.blocks), resources=tuple(content.resources))


def _assistant(said: JsonObject, content: Content) -> Shown:
    header: Header = {}
    kind = Kind.RECORD
    tool = ""
    calls = 0
    defines: list[tuple[str, str]] = []
    parts = said.get("content")
    if isinstance(parts, str):
        content.add(parts, _CONTENT)
        kind = Kind.ASSISTANT
    listed = as_list(parts)
    for at, part in enumerate(listed):
        path = (*_CONTENT, at)
        match as_object(part):
            case {"type": "thinking", "thinking": str(text)}:
                if text:
                    name = "thinking" if len(listed) > 1 else ""
                    content.blocks.append(Block("text", text, name=name, path=(*path, "thinking")))
                    kind = kind or Kind.REASONING
            case {"type": "redactedThinking"}:
                continue
            case {"type": "toolCall"} as call:
                name, identifier = as_text(call.get("name")), as_text(call.get("id"))
                calls += 1
                label = "arguments" if calls == 1 else f"call{calls}.arguments"
                if calls > 1:
                    header |= {f"tool_{calls}": name, f"id_{calls}": identifier}
                else:
                    tool = name
                    header |= {"id": identifier} if identifier else {}
                if identifier:
                    defines.append((identifier, name))
                content.blocks += argument_blocks(call.get("arguments"), (*path, "arguments"), label)
                kind = Kind.TOOL_CALL
            case _:
                content.add_part(part, path)
                kind = kind if kind is Kind.TOOL_CALL else Kind.ASSISTANT
    if error := as_text(said.get("errorMessage")):
        content.blocks.append(Block("text", error, name="error", path=(*_MESSAGE, "errorMessage")))
        # nothing that a model said
        kind = kind or Kind.NOTE
    if kind is Kind.RECORD:
        return BOOKKEEPING
    if model := as_text(said.get("model")):
        header["model"] = model
    stop = as_text(said.get("stopReason"))
    if stop and stop not in _USUAL_STOPS:
        header["stop_reason"] = stop
    return Shown(kind, tuple(content.blocks), tool, header, tuple(defines), tuple(content.resources))


def _result(said: JsonObject, content: Content) -> Shown:
    call = as_text(said.get("toolCallId"))
    tool = content.before.tool(call) or as_text(said.get("toolName"))
    header: Header = {"id": call, "is_error": said.get("isError") is True}
    details = as_object(said.get("details"))
    _point_to_whole(details, header)
    content.add(said.get("content"), _CONTENT)
    return Shown(Kind.TOOL_RESULT, tuple(content.blocks), tool, header, (), tuple(content.resources))


def _execution(said: JsonObject, content: Content) -> Shown:
    """View what its user ran by hand (``!ls``)."""
    what = "code" if said.get("role") == "pythonExecution" else "command"
    header: Header = {}
    for key, name in (("exitCode", "exit_code"), ("cancelled", "cancelled"), ("excludeFromContext", "hidden")):
        value = scalar(said.get(key))
        if value is not None and value is not False:
            header[name] = value
    _point_to_whole(said, header)
    for key in (what, "output"):
        if isinstance(text := said.get(key), str):
            content.add(text, (*_MESSAGE, key), key)
    return Shown(Kind.NOTE, tuple(content.blocks), header=header)


def _custom(said: JsonObject, content: Content) -> Shown:
    return custom(said, _MESSAGE, content)


def _summary(said: JsonObject, content: Content) -> Shown:
    if not isinstance(text := said.get("summary"), str):
        return BOOKKEEPING
    content.add(text, (*_MESSAGE, "summary"))
    return Shown(Kind.SUMMARY, tuple(content.blocks))


def _mention(said: JsonObject, content: Content) -> Shown:
    """View the files that a message named, read for it."""
    for at, item in enumerate(as_list(said.get("files"))):
        file, path = as_object(item), (*_MESSAGE, "files", at)
        named, text = as_text(file.get("path")), file.get("content")
        if isinstance(text, str) and named:
            uri, mime, place = file_uri(named), mime_of(named), (*path, "content")
            content.blocks.append(Block("resource", text, uri=uri, mime=mime, path=place))
            content.resources.append(Resource(uri, mime, text, place))
        if isinstance(image := file.get("image"), dict):
            content.add_image(image, (*path, "image"))
    if not content.blocks:
        return BOOKKEEPING
    return Shown(Kind.SYSTEM, tuple(content.blocks), resources=tuple(content.resources))


def _attach(attached: JsonObject, path: Path, content: Content) -> None:
    """Add a file that an old version kept beside a message's text."""
    data = from_base64(as_text(attached.get("content")))
    if not data:
        return
    name = as_text(attached.get("fileName")) or "file"
    uri, mime = f"attachment:{content.owner or 'line'}/{name}", as_text(attached.get("mimeType")) or mime_of(name)
    place = (*path, "content")
    shape: BlockType = "image" if mime.startswith("image/") else "resource"
    content.blocks.append(Block(shape, data=data, uri=uri, mime=mime, path=place, encoding="base64"))
    content.resources.append(Resource(uri, mime, data, place, "base64"))


def _point_to_whole(details: JsonObject, header: Header) -> None:
    """Name where the whole of an output is that was too long: a file, or an artifact beside the session."""
    if (path := scalar(details.get("fullOutputPath"))) is not None:
        header["full_output"] = path
    truncation = as_object(as_object(details.get("meta")).get("truncation"))
    if (artifact := scalar(truncation.get("artifactId"))) is not None:
        header["artifact"] = f"artifact://{artifact}"


_VIEWS: dict[str, Callable[[JsonObject, Content], Shown]] = {
    "assistant": _assistant,
    "bashExecution": _execution,
    "branchSummary": _summary,
    "compactionSummary": _summary,
    "custom": _custom,
    "developer": _user,
    "fileMention": _mention,
    "hookMessage": _custom,
    "pythonExecution": _execution,
    "system": _user,
    "toolResult": _result,
    "user": _user,
}
