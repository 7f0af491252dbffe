"""User and assistant lines: texts, thoughts, calls and results.

Shapes as in Anthropic's Messages API, one line a content block in files of today, several in older ones.

Beside the message of a tool's result stands ``toolUseResult``, the program's own copy. It is not shown again; but a
file that was read is there without line numbers, under its path, and that is a resource. Two things more are named:
the subagent that ran, and the file that holds output too long for a line.
"""

import re

from store.events.event import Block, BlockType, Compaction, Kind, Resource, ValuePath
from store.formats.core.blocks import argument_blocks
from store.formats.core.chat_messages import CALLS
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.core.lens import BOOKKEEPING, Before, Gathered, Shown
from store.formats.core.media import file_uri, from_base64, mime_of, suffix_of

READ_FILE: ValuePath = ("toolUseResult", "file", "content")
"""The path of a read file's content without line numbers."""


_ide_tag = re.compile(r"<(ide_\w+)>").match


class ClaudeContent(Gathered, kw_only=True):
    """The collected contents of a line."""

    line: JsonObject
    strict: bool = True

    def add_part(self, part: object, path: ValuePath, name: str = "") -> None:
        """Add a content block."""
        what = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict):
            self.add_json(part, path, name)
        elif what == "text" and isinstance(text := part.get("text"), str):
            tag = _ide_tag(text)
            self.blocks.append(Block("text", text, name=tag[1] if tag and not name else name, path=(*path, "text")))
        elif what == "file" and isinstance(opened := as_object(part.get("file")).get("content"), str):
            file = as_object(part.get("file"))
            uri, mime = file_uri(named := as_text(file.get("filePath"))) + lines_told(file), mime_of(named)
            self.attach(opened, uri, mime, (*path, "file", "content"), name=name)
        elif what not in ("image", "document") or not self._add_media(part, (*path, "source", "data"), name):
            self.add_json(part, path, name)

    def _add_media(self, part: JsonObject, place: ValuePath, name: str) -> bool:
        """Add an image or a document; return whether it is one."""
        what, source = as_text(part.get("type")), as_object(part.get("source"))
        mime = as_text(source.get("media_type")) or ("image/png" if what == "image" else "application/octet-stream")
        encoded = source.get("data")
        if isinstance(encoded, str) and source.get("type") == "text":
            self.blocks.append(Block("text", encoded, name=name or "document", path=place))
            return True
        if not isinstance(encoded, str) or (data := from_base64(encoded)) is None:
            return False
        number = len(self.resources) + 1
        uri = f"attachment:{as_text(self.line.get('uuid')) or 'line'}/{what}-{number}.{suffix_of(mime)}"
        shape: BlockType = "image" if what == "image" else "resource"
        self.attach(data, uri, mime, place, shape=shape, name=name, encoding="base64")
        return True


def _read(line: JsonObject, into: ClaudeContent) -> None:
    """Add the file that a Read returned (a part of one has its lines as a fragment, ``#L10-20``).

    Fields of the head that point to more of a result: ``subagent`` (the id in its file's name), ``full_output`` (a
    path).
    """
    result = as_object(line.get("toolUseResult"))
    file = as_object(result.get("file"))
    path, content = file.get("filePath"), file.get("content")
    if isinstance(path, str) and isinstance(content, str) and path:
        lines = total if isinstance(total := file.get("totalLines"), int) else 0
        uri = file_uri(path) + lines_told(file)
        into.resources.append(Resource(uri, mime_of(path), content, READ_FILE, lines=lines))
    for key, name in (("agentId", "subagent"), ("persistedOutputPath", "full_output")):
        if (value := scalar(result.get(key))) is not None:
            into.header[name] = value


def lines_told(file: JsonObject) -> str:
    """Return which lines of a file a record holds, as the fragment of a URI; "" if it holds all."""
    first, count, total = file.get("startLine"), file.get("numLines"), file.get("totalLines")
    if not (isinstance(first, int) and isinstance(count, int) and isinstance(total, int)):
        return ""
    return f"#L{first}-{first + count - 1}" if first > 1 or count < total else ""


_CONTENT: ValuePath = ("message", "content")
_COMMAND_OUTPUT = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_INJECTED = ("<local-command-caveat>", "<system-reminder>", "<task-notification>", "Caveat: The messages below")
_empty_output = re.compile(r"(?:\s*<([\w-]+)>\s*</\1>)+\s*").fullmatch
_USUAL_STOPS = frozenset(("end_turn", "tool_use", "stop_sequence"))


def assistant(line: JsonObject, before: Before) -> Shown:
    """View a line of the model: text, thinking or tool calls."""
    message = as_object(line.get("message"))
    content = message.get("content")
    into = ClaudeContent(line=line)
    kind = Kind.RECORD
    parts = as_list(content)
    if content is not parts:
        into.add(content, _CONTENT)
        kind = Kind.ASSISTANT if into.blocks else kind
    for at, part in enumerate(parts):
        path = (*_CONTENT, at)
        said = as_object(part)
        what = as_text(said.get("type"))
        if what == "text" and isinstance(text := said.get("text"), str):
            into.blocks.append(Block("text", text, path=(*path, "text")))
            kind = kind if kind is Kind.TOOL_CALL else Kind.ASSISTANT
        elif what == "thinking" and isinstance(text := said.get("thinking"), str):
            if text:
                into.text(text, (*path, "thinking"), "thinking" if len(parts) > 1 else "")
                kind = kind or Kind.REASONING
        elif what in CALLS:
            label = into.call(said, path, "name", "id")
            into.blocks += argument_blocks(said.get("input"), (*path, "input"), label)
            kind = Kind.TOOL_CALL
        elif what != "redacted_thinking":
            into.add_json(part, path)
            kind = kind or (Kind.ASSISTANT if into.blocks else kind)
    if kind is Kind.RECORD:
        return BOOKKEEPING
    into.tell_model(message, ("message",), "stop_reason", _USUAL_STOPS)
    if line.get("isApiErrorMessage") is True:
        into.header["api_error"] = True
    return into.shown(kind)


def user(line: JsonObject, before: Before) -> Shown:
    """View a line of the user's side: a request, or something that tools or the program itself put there."""
    content = as_object(line.get("message")).get("content")
    if isinstance(content, str):
        kind, said = _kind_of_text(line, content), (Block("text", content, path=_CONTENT),)
        return Shown(kind, said, compaction=_compaction(kind, said)) if kind is not Kind.RECORD else BOOKKEEPING
    into = ClaudeContent(line=line)
    parts = as_list(content)
    if content is not parts:
        into.add(content, _CONTENT)
    for at, part in enumerate(parts):
        path = (*_CONTENT, at)
        if isinstance(part, dict) and part.get("type") == "tool_result":
            label = into.result(part, path, "tool_use_id")
            into.failed(part, path, "is_error")
            if into.results == 1:
                into.tool = before.tool(as_text(part.get("tool_use_id")))
            into.add(part.get("content"), (*path, "content"), label)
        else:
            into.add_part(part, path)
    if into.results:
        _read(line, into)
        return into.shown(Kind.TOOL_RESULT)
    if not into.blocks:
        return BOOKKEEPING
    spoken = [block.text for block in into.blocks if block.text is not None and not block.name]
    kind = _kind_of_text(line, next(filter(None, spoken), "")) if spoken else Kind.USER
    return into.shown(kind or Kind.USER, _compaction(kind, tuple(into.blocks)))


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
