"""User and assistant lines: what was said, thought, called and returned.

Shapes as in Anthropic's Messages API, one line a content block in files of today, several in older ones.
"""

import re

from store.events.event import Block, BlockType, Compaction, Kind, Path, Resource
from store.formats.blocks import argument_blocks, numbered
from store.formats.claude_code.results import pointers, read_resources
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.lens import Before
from store.formats.media import file_uri, from_base64, mime_of, suffix_of
from store.formats.shown import BOOKKEEPING, Header, Shown

_CONTENT: Path = ("message", "content")
_COMMAND_OUTPUT = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_INJECTED = ("<local-command-caveat>", "<system-reminder>", "<task-notification>", "Caveat: The messages below")
_empty_output = re.compile(r"(?:\s*<([\w-]+)>\s*</\1>)+\s*").fullmatch
_ide_tag = re.compile(r"<(ide_\w+)>").match
_USUAL_STOPS = frozenset(("end_turn", "tool_use", "stop_sequence"))
CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))


def assistant(line: JsonObject, before: Before) -> Shown:
    """View a line of the model: text, thinking or tool calls."""
    message = as_object(line.get("message"))
    content = message.get("content")
    header: Header = {}
    if isinstance(content, str):
        _model(message, line, header)
        return Shown(Kind.ASSISTANT, (Block("text", content, path=_CONTENT),), header=header)
    kind = Kind.RECORD
    tool = ""
    blocks: list[Block] = []
    defines: list[tuple[str, str]] = []
    calls = 0
    parts = as_list(content)
    for at, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        path = (*_CONTENT, at)
        match part.get("type"):
            case "text":
                if isinstance(text := part.get("text"), str):
                    blocks.append(Block("text", text, path=(*path, "text")))
                    kind = kind if kind is Kind.TOOL_CALL else Kind.ASSISTANT
            case "thinking":
                if text := as_text(part.get("thinking")):
                    name = "thinking" if len(parts) > 1 else ""
                    blocks.append(Block("text", text, name=name, path=(*path, "thinking")))
                    kind = kind or Kind.REASONING
            case "redacted_thinking":
                continue
            case str(called) if called in CALLS:
                name, call = as_text(part.get("name")), as_text(part.get("id"))
                label = "arguments"
                if calls:
                    label = f"call{calls + 1}.arguments"
                    header |= {f"tool_{calls + 1}": name, f"id_{calls + 1}": call}
                else:
                    tool = name
                    header |= {"id": call} if call else {}
                calls += 1
                if call:
                    defines.append((call, name))
                blocks += argument_blocks(part.get("input"), (*path, "input"), label)
                kind = Kind.TOOL_CALL
            case other:
                blocks += _other(part, path, as_text(other))
                kind = kind or Kind.ASSISTANT
    if kind is Kind.RECORD:
        return BOOKKEEPING
    _model(message, line, header)
    return Shown(kind, tuple(blocks), tool, header, tuple(defines))


def user(line: JsonObject, before: Before) -> Shown:
    """View a line of the user's side: a request, or what tools and the program itself put there."""
    content = as_object(line.get("message")).get("content")
    if isinstance(content, str):
        kind = _kind_of_text(line, content)
        if kind is Kind.RECORD:
            return BOOKKEEPING
        said = (Block("text", content, path=_CONTENT),)
        return Shown(kind, said, compaction=_compaction(kind, said))
    header: Header = {}
    tool = ""
    results = 0
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, part in enumerate(as_list(content)):
        if not isinstance(part, dict):
            continue
        if part.get("type") == "tool_result":
            results += 1
            call = as_text(part.get("tool_use_id"))
            number = f"_{results}" if results > 1 else ""
            header[f"id{number}"] = call
            header[f"is_error{number}"] = part.get("is_error") is True
            if results == 1:
                tool = before.tool(call)
            label = f"result{results}" if results > 1 else ""
            _content_blocks(line, part.get("content"), (*_CONTENT, at, "content"), label, blocks, resources)
        else:
            _content_block(line, part, (*_CONTENT, at), "", blocks, resources)
    if results:
        resources += read_resources(line)
        header |= pointers(line)
        return Shown(Kind.TOOL_RESULT, tuple(blocks), tool, header, (), tuple(resources))
    if not blocks:
        return BOOKKEEPING
    spoken = [block.text for block in blocks if block.text is not None and not block.name]
    kind = _kind_of_text(line, next(filter(None, spoken), "")) if spoken else Kind.USER
    compaction = _compaction(kind, tuple(blocks))
    return Shown(kind or Kind.USER, tuple(blocks), "", header, (), tuple(resources), compaction)


def prompt_blocks(line: JsonObject, prompt: object, path: Path) -> tuple[tuple[Block, ...], tuple[Resource, ...]]:
    """Return the blocks and resources of content that is a string or a list of content blocks."""
    blocks: list[Block] = []
    resources: list[Resource] = []
    _content_blocks(line, prompt, path, "", blocks, resources)
    return tuple(blocks), tuple(resources)


def _kind_of_text(line: JsonObject, text: str) -> Kind:
    if line.get("isCompactSummary") is True:
        return Kind.SUMMARY
    if text.startswith(_COMMAND_OUTPUT):
        return Kind.RECORD if _empty_output(text) else Kind.NOTE
    if line.get("isMeta") is True or text.startswith(_INJECTED):
        return Kind.SYSTEM
    return Kind.USER


def _compaction(kind: Kind, summary: tuple[Block, ...]) -> Compaction | None:
    return Compaction(summary) if kind is Kind.SUMMARY else None


def _model(message: JsonObject, line: JsonObject, header: Header) -> None:
    if model := as_text(message.get("model")):
        header["model"] = model
    stop = as_text(message.get("stop_reason"))
    if stop and stop not in _USUAL_STOPS:
        header["stop_reason"] = stop
    if line.get("isApiErrorMessage") is True:
        header["api_error"] = True


def _content_blocks(
    line: JsonObject, content: object, path: Path, label: str, blocks: list[Block], resources: list[Resource]
) -> None:
    if isinstance(content, str):
        blocks.append(Block("text", content, name=label, path=path))
    elif isinstance(content, list):
        for at, part in enumerate(content):
            _content_block(line, part, (*path, at), label, blocks, resources)
    elif content is not None:
        blocks += argument_blocks(content, path, label or "content")


def _content_block(
    line: JsonObject, part: object, path: Path, label: str, blocks: list[Block], resources: list[Resource]
) -> None:
    if isinstance(part, str):
        blocks.append(Block("text", part, name=label, path=path))
        return
    if not isinstance(part, dict):
        blocks += argument_blocks(part, path, numbered(label or "content", path))
        return
    what = part.get("type")
    text = part.get("text")
    if what == "text" and isinstance(text, str):
        tag = _ide_tag(text)
        blocks.append(Block("text", text, name=tag[1] if tag and not label else label, path=(*path, "text")))
        return
    if what in ("image", "document"):
        source = as_object(part.get("source"))
        mime = as_text(source.get("media_type")) or ("image/png" if what == "image" else "application/octet-stream")
        encoded = source.get("data")
        if isinstance(encoded, str) and source.get("type") == "text":
            blocks.append(Block("text", encoded, name=label or "document", path=(*path, "source", "data")))
            return
        data = from_base64(encoded) if isinstance(encoded, str) else None
        if data is not None:
            uri = f"attachment:{as_text(line.get('uuid')) or 'line'}/{what}-{len(resources) + 1}.{suffix_of(mime)}"
            place = (*path, "source", "data")
            shape: BlockType = "image" if what == "image" else "resource"
            blocks.append(Block(shape, data=data, name=label, uri=uri, mime=mime, path=place, encoding="base64"))
            resources.append(Resource(uri, mime, data, place, "base64"))
            return
    if what == "file" and isinstance(opened := as_object(part.get("file")).get("content"), str):
        named = as_text(as_object(part.get("file")).get("filePath"))
        uri, mime = file_uri(named), mime_of(named)
        place = (*path, "file", "content")
        blocks.append(Block("resource", opened, name=label, uri=uri, mime=mime, path=place))
        resources.append(Resource(uri, mime, opened, place))
        return
    blocks += _other(part, path, label or as_text(what))


def _other(part: JsonObject, path: Path, label: str) -> tuple[Block, ...]:
    """Show a content block of another type as JSON."""
    own = {key: item for key, item in part.items() if key != "type"}
    return argument_blocks(own, path, numbered(label or "content", path))
