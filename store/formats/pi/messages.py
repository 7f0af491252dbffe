"""Messages and entries of a session: texts, thoughts, calls and results, and additions of the program.

The first line of oh-my-pi's files is the session's title, padded so that a new one can be written in its place:
``{"type":"title","v":1,"title":"…","source":"auto","updatedAt":"…","pad":"   "}``, always 256 bytes with its newline.
"""

from collections.abc import Callable

import msgspec
from msgspec import structs

from store.errors import UsageError
from store.events.event import Block, Compaction, Kind, ValuePath
from store.formats.core.blocks import argument_blocks
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in, scalar
from store.formats.core.lens import BOOKKEEPING, Before, Gathered, Header, Shown, View, bookkeeping, unknown_record
from store.formats.core.media import file_uri, from_base64, mime_of, suffix_of
from store.formats.core.splices import put
from store.formats.pi.images import ALGORITHM, digest_of, is_reference

CUT = "[Session persistence truncated large content]"
"""The end of a text that the program cut when it wrote it."""


class PiContent(Gathered, kw_only=True):
    """The collected contents of a line; ``owner`` is its id, for the names of its images."""

    before: Before
    owner: str
    strict: bool = True

    def add_part(self, part: object, path: ValuePath, name: str = "") -> None:
        if not isinstance(part, dict):
            self.add_json(part, path, name)
        elif part.get("type") == "text" and isinstance(text := part.get("text"), str):
            self.blocks.append(Block("text", text, name=name, path=(*path, "text")))
        elif part.get("type") == "image" and isinstance(part.get("data"), str):
            self.add_image(part, path, name)
        else:
            self.add_json(part, path, name)

    def add_image(self, part: JsonObject, path: ValuePath, name: str = "") -> None:
        """Add an image; one whose bytes are missing is shown as the text that stands for them."""
        encoded, place = as_text(part.get("data")), (*path, "data")
        data = None
        if is_reference(encoded):
            digest = digest_of(encoded)
            data = self.before.blob(ALGORITHM, digest) if digest else None
        elif not encoded.endswith(CUT):
            data = from_base64(encoded)
        if data is None:
            self.blocks.append(Block("text", encoded, name=name or "image", path=place))
            return
        mime = as_text(part.get("mimeType")) or "image/png"
        uri = f"attachment:{self.owner or 'line'}/image-{len(self.resources) + 1}.{suffix_of(mime)}"
        self.attach(data, uri, mime, place, shape="image", name=name, encoding="base64")

    def point_to_whole(self, holder: JsonObject, *path: str) -> None:
        """Record where the whole of an overlong output is: a file, or an artifact beside the session."""
        self.field("full_output", holder.get("fullOutputPath"), *path, "fullOutputPath")
        truncation = as_object(as_object(holder.get("meta")).get("truncation"))
        if (artifact := scalar(truncation.get("artifactId"))) is not None:
            self.header["artifact"] = f"artifact://{artifact}"


_MESSAGE = ("message",)
_DETAILS = ("message", "details")
_CONTENT: ValuePath = ("message", "content")
_USUAL_STOPS = frozenset(("stop", "toolUse"))


def message(line: JsonObject, before: Before) -> Shown:
    """View a message by its role."""
    said = as_object(line.get("message"))
    view = _VIEWS.get(as_text(said.get("role")))
    if view is not None:
        return view(said, PiContent(before=before, owner=as_text(line.get("id"))))
    role = scalar(said.get("role"))
    blocks = argument_blocks(said, _MESSAGE, "message")
    return Shown(Kind.NOTE, blocks, header={"role": role} if role is not None else {})


def custom(said: JsonObject, path: ValuePath, content: PiContent) -> Shown:
    """View an addition of an extension to the context: ``said`` stands at ``path`` of the line."""
    content.add(said.get("content"), (*path, "content"))
    content.field("custom_type", said.get("customType"), *path, "customType")
    return content.shown_if_any(Kind.USER if said.get("attribution") == "user" else Kind.SYSTEM)


def _user(said: JsonObject, content: PiContent) -> Shown:
    content.add(said.get("content"), _CONTENT)
    for at, attached in enumerate(as_list(said.get("attachments"))):
        _attach(as_object(attached), (*_MESSAGE, "attachments", at), content)
    return content.shown_if_any(Kind.USER if said.get("role") == "user" else Kind.SYSTEM)


def _assistant(said: JsonObject, content: PiContent) -> Shown:
    kind = Kind.RECORD
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
                    content.text(text, (*path, "thinking"), "thinking" if len(listed) > 1 else "")
                    kind = kind or Kind.REASONING
            case {"type": "redactedThinking"}:
                continue
            case {"type": "toolCall"} as call:
                label = content.call(call, path, "name", "id")
                content.blocks += argument_blocks(call.get("arguments"), (*path, "arguments"), label)
                kind = Kind.TOOL_CALL
            case _:
                content.add_part(part, path)
                kind = kind if kind is Kind.TOOL_CALL else Kind.ASSISTANT
    if error := said.get("errorMessage"):
        content.add(error, (*_MESSAGE, "errorMessage"), "error")
        # nothing that a model said
        kind = kind or Kind.NOTE
    if kind is Kind.RECORD:
        return BOOKKEEPING
    content.tell_model(said, _MESSAGE, "stopReason", _USUAL_STOPS)
    return content.shown(kind)


def _result(said: JsonObject, content: PiContent) -> Shown:
    content.result(said, _MESSAGE, "toolCallId")
    content.failed(said, _MESSAGE, "isError")
    content.tool = content.before.tool(content.asked) or as_text(said.get("toolName"))
    content.point_to_whole(as_object(said.get("details")), *_DETAILS)
    content.add(said.get("content"), _CONTENT)
    return content.shown(Kind.TOOL_RESULT)


def _execution(said: JsonObject, content: PiContent) -> Shown:
    """View a command that its user ran by hand (``!ls``)."""
    what = "code" if said.get("role") == "pythonExecution" else "command"
    for key, name in (("exitCode", "exit_code"), ("cancelled", "cancelled"), ("excludeFromContext", "hidden")):
        # false values are not shown
        content.field(name, None if said.get(key) is False else said.get(key), "message", key)
    content.point_to_whole(said, "message")
    for key in (what, "output"):
        content.add(said.get(key), (*_MESSAGE, key), key)
    return content.shown(Kind.NOTE)


def _custom(said: JsonObject, content: PiContent) -> Shown:
    return custom(said, _MESSAGE, content)


def _summary(said: JsonObject, content: PiContent) -> Shown:
    content.add(said.get("summary"), (*_MESSAGE, "summary"))
    return content.shown_if_any(Kind.SUMMARY)


def _mention(said: JsonObject, content: PiContent) -> Shown:
    for at, item in enumerate(as_list(said.get("files"))):
        file, path = as_object(item), (*_MESSAGE, "files", at)
        named, text = as_text(file.get("path")), file.get("content")
        if isinstance(text, str) and named:
            content.attach(text, file_uri(named), mime_of(named), (*path, "content"))
        if isinstance(image := file.get("image"), dict):
            content.add_image(image, (*path, "image"))
    return content.shown_if_any(Kind.SYSTEM)


def _attach(attached: JsonObject, path: ValuePath, content: PiContent) -> None:
    """Add a file that an old version kept beside a message's text."""
    data = from_base64(as_text(attached.get("content")))
    if not data:
        return
    name = as_text(attached.get("fileName")) or "file"
    uri, mime = f"attachment:{content.owner or 'line'}/{name}", as_text(attached.get("mimeType")) or mime_of(name)
    content.attach(data, uri, mime, (*path, "content"), encoding="base64")


_VIEWS: dict[str, Callable[[JsonObject, PiContent], Shown]] = {
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


_CHANGES = ("mode_change", "model_change", "service_tier_change", "thinking_level_change", "title_change")
_STATES = ("archive", "credential_pin", "custom", "model_usage", "reset_boundary", "session_info", "title")
_BOOKKEEPING_TYPES = (*_CHANGES, *_STATES, "ttsr_injection")
"""Line types that no reader asks for; titles among them are read when a session is described."""

_ENVELOPE = frozenset(("id", "parentId", "timestamp", "type"))


def unknown(line: JsonObject, before: Before) -> Shown:
    """View a line of a type that a newer program writes."""
    return unknown_record(line, _ENVELOPE)


def _prompt(line: JsonObject, before: Before) -> Shown:
    """View the system prompt, of a subagent or of the oldest sessions; the first line of today's has none."""
    prompt = line.get("systemPrompt")
    texts: list[tuple[object, ValuePath]] = [(prompt, ("systemPrompt",))]
    if isinstance(prompt, list):
        texts = [(text, ("systemPrompt", at)) for at, text in enumerate(as_list(prompt))]
    blocks = tuple(Block("text", text, path=path) for text, path in texts if isinstance(text, str) and text)
    return Shown(Kind.SYSTEM, blocks) if blocks else BOOKKEEPING


def _compaction(line: JsonObject, before: Before) -> Shown:
    into = Gathered()
    into.field("tokens_before", line.get("tokensBefore"), "tokensBefore")
    shown = _summary_entry(line, into)
    if shown.kind is not Kind.SUMMARY:
        return shown
    return structs.replace(shown, compaction=Compaction(shown.blocks[:1], as_text(line.get("firstKeptEntryId"))))


def _branch_summary(line: JsonObject, before: Before) -> Shown:
    into = Gathered(places={"from": ("fromId",)})
    if left := as_text(line.get("fromId")):
        into.header["from"] = left
    return _summary_entry(line, into)


def _summary_entry(line: JsonObject, into: Gathered) -> Shown:
    into.add(line.get("summary"), ("summary",))
    into.text(as_text(line.get("shortSummary")), ("shortSummary",), "short")
    return into.shown_if_any(Kind.SUMMARY)


def _label(line: JsonObject, before: Before) -> Shown:
    """View the mark that a user put on an entry."""
    text = as_text(line.get("label"))
    if not text:
        return BOOKKEEPING
    header: Header = {"record": "label", "target": as_text(line.get("targetId"))}
    return Shown(Kind.NOTE, (Block("text", text, path=("label",)),), header=header, places={"target": ("targetId",)})


def _custom_message(line: JsonObject, before: Before) -> Shown:
    return custom(line, (), PiContent(before=before, owner=as_text(line.get("id"))))


VIEWS: dict[str, View] = {
    **dict.fromkeys(_BOOKKEEPING_TYPES, bookkeeping),
    "branch_summary": _branch_summary,
    "compaction": _compaction,
    "custom_message": _custom_message,
    "label": _label,
    "message": message,
    "session": _prompt,
    "session_init": _prompt,
}


SLOT_BYTES = 256
"""The length of the line, its newline included."""
_encode = msgspec.json.Encoder().encode


def is_slot(line: JsonObject) -> bool:
    """Return whether a line is the one that holds the title."""
    return line.get("type") == "title" and isinstance(line.get("pad"), str)


def title_slot(title: str, updated: str) -> bytes:
    """Return the line for a title given at ``updated`` (ISO 8601), cut to its place as the program does."""
    while True:
        line: JsonObject = {"type": "title", "v": 1, "title": title, "source": "user", "updatedAt": updated, "pad": ""}
        room = SLOT_BYTES - 1 - len(_encode(line))
        if room >= 0:
            return _encode(line | {"pad": " " * room}) + b"\n"
        # a character has at most six bytes, written as an escape
        title = title[: min(len(title) - 1, len(title) + room // 6)]


def padded(payload: bytes) -> bytes:
    """Return a line that holds the title, without its newline, with as much padding as its place needs.

    Lines of other types come back as they are. Raises UsageError where the title is too long for its place.
    """
    line = object_in(payload)
    if not is_slot(line):
        return payload
    pad = len(as_text(line["pad"])) + SLOT_BYTES - 1 - len(payload)
    if pad < 0:
        raise UsageError(f"the title is {-pad} bytes too long for its place at the beginning of the file: shorten it")
    return put(payload, ("pad",), b'"%b"' % (b" " * pad))
