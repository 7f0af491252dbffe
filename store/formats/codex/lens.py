"""One line of a rollout as an event, and the usage of the answers.

Since September 2025 a line is ``{"timestamp", "type", "payload"}``. Before, the first one was ``{"id", "timestamp",
"instructions"}`` and the others the items themselves, or ``{"record_type": "state"}``.

``token_count`` counts the session on and on; the same count comes again whenever a limit changes. A fork repeats its
parent's lines, with new times but behind the parent's own ``session_meta``: so the session that is counted, and how far
it had come, name an answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

import msgspec
from msgspec import structs

from store.errors import UsageError
from store.events.event import Kind, ValuePath
from store.events.usage import Running, Tokens, Usage
from store.formats.codex import events, items
from store.formats.codex.events import OUTPUTS
from store.formats.codex.items import plain_text
from store.formats.core.blocks import document_in
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.editing import JsonLens, Near, Twins
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, Places, Shown
from store.formats.core.splices import put, spell
from store.formats.core.times import in_iso
from store.formats.core.token_counts import counted
from store.formats.core.twins import copies

_encode = msgspec.json.Encoder().encode

_MEASURED = ("security_risk_score", "token_usage_record")
QUIET = frozenset(("inter_agent_communication_metadata", "state", "turn_context", "world_state", *_MEASURED))
"""The types of lines that no reader asks for."""

_SPEAKING = ("compacted", "event_msg", "inter_agent_communication", "realtime_item", "response_item", "session_meta")
ENVELOPED = QUIET.union(_SPEAKING) - {"state"}
"""The types of lines that have a payload."""

_BARE_CALLS = ("custom_tool_call", "function_call", "local_shell_call", "web_search_call")
BARE_ITEMS = frozenset(
    (*_BARE_CALLS, "custom_tool_call_output", "function_call_output", "ghost_snapshot", "message", "reasoning")
)
"""The types of items that stand on lines of their own in the oldest files."""

_PLAIN_MEMBERS = frozenset(
    ("arguments", "content", "function", "model", "name", "result", "role", "text", "timestamp", "type")
)
_PLAIN_TYPES = frozenset(("error", "tool_call", "tool_result"))
_FIRST_LINE = frozenset(("instructions", "git"))


class Said(NamedTuple):
    """The content of a line: its type, the value that holds it, and where in the line that stands."""

    what: str
    item: JsonObject
    base: ValuePath


def said(line: JsonObject) -> Said:
    """Return the contents of a line; one without envelope gets the type of a line with one."""
    what, payload = line.get("type"), line.get("payload")
    if isinstance(payload, dict):
        return Said(as_text(what), payload, ("payload",))
    if "record_type" in line:
        return Said("state", line, ())
    if what is None and "id" in line and "role" not in line:
        return Said("session_meta", line, ())
    return Said("response_item", line, ())


def is_line(line: JsonObject) -> bool:
    """Return whether a parsed JSON object is a line of a rollout that only Codex writes."""
    what = line.get("type")
    if isinstance(line.get("payload"), dict):
        return isinstance(what, str) and what in ENVELOPED and "timestamp" in line
    if not isinstance(what, str):
        return _begins_bare(line) or line.get("record_type") == "state" or ("role" in line and _is_plain(line))
    if what in _PLAIN_TYPES:
        return _is_plain(line)
    return what in BARE_ITEMS and ("role" in line or "call_id" in line or what not in ("message", "reasoning"))


def is_own(line: JsonObject) -> bool:
    """Return whether a line is more than a message with a time, which any program may write."""
    return is_line(line) and not (line.get("type") is None and _is_plain(line))


def _begins_bare(line: JsonObject) -> bool:
    return "id" in line and "timestamp" in line and not _FIRST_LINE.isdisjoint(line)


def _is_plain(line: JsonObject) -> bool:
    """Return whether a line is a message, call or result with a time, as viewers of rollouts have them in samples."""
    return line.keys() <= _PLAIN_MEMBERS and "timestamp" in line


SPEAKERS = {
    Kind.ASSISTANT: ("assistant", "output_text"),
    Kind.SYSTEM: ("developer", "input_text"),
    Kind.USER: ("user", "input_text"),
}
"""The speakers of messages of these kinds, and the type of the parts that hold their texts."""


def _new_item(kind: Kind, text: str, more: Particulars) -> tuple[str, JsonObject]:
    """Return the type of a line and what it holds."""
    match kind:
        case Kind.REASONING:
            thought: JsonObject = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
            return "response_item", thought | {"content": None, "encrypted_content": None}
        case Kind.TOOL_CALL:
            call: JsonObject = {"name": more.tool, "call_id": more.new_id("call_")}
            if more.document is None and text.strip():
                # such a tool takes no JSON
                return "response_item", {"type": "custom_tool_call", "status": "completed", **call, "input": text}
            arguments = _encode(more.arguments(text)).decode()
            return "response_item", {"type": "function_call", **call, "arguments": arguments}
        case Kind.TOOL_RESULT:
            what = as_text(said(object_in(more.asked)).item.get("type"))
            what = what if what in ("custom_tool_call", "local_shell_call") else "function_call"
            failed = {"output": text, "metadata": {"exit_code": 1, "duration_seconds": 0.0}}
            output = _encode(failed).decode() if more.failed else text
            return "response_item", {"type": f"{what}_output", "call_id": more.id, "output": output}
        case Kind.SUMMARY:
            return "compacted", {"message": text}
        case Kind.NOTE:
            return "event_msg", {"type": "warning", "message": text}
    role, part = SPEAKERS[kind]
    return "response_item", {"type": "message", "role": role, "content": [{"type": part, "text": text}]}


_SAID_IN = {"agent_message": "message", "agent_reasoning": "text", "task_complete": "last_agent_message"}


def _put_first(changed: dict[int, bytes], near: Iterable[Near], what: str, old: str, new: str) -> None:
    """Change ``old`` to ``new`` in the first record of type ``what`` that says ``old``."""
    if old == new or not old:
        return
    for number, record in (found for some in near for found in some):
        line = said(object_in(record))
        for path, text in _places(line, what):
            if text == old and number not in changed:
                changed[number] = put(record, path, spell(new, record))
                return


def _places(line: Said, what: str) -> Iterator[tuple[ValuePath, str]]:
    """Yield the place and text of a line of type ``what``: the type of an event, or the role of an item."""
    if line.what == "event_msg" and line.item.get("type") == what:
        key = _SAID_IN.get(what, "message")
        yield (*line.base, key), as_text(line.item.get(key))
    elif line.what == "response_item" and line.item.get("role") == what:
        parts = as_list(line.item.get("content"))
        if len(parts) == 1:
            yield (*line.base, "content", 0, "text"), as_text(as_object(parts[0]).get("text"))


def _put_outputs(changed: dict[int, bytes], near: Iterable[Near], call: str, old: str, new: str) -> None:
    if old == new or not call:
        return
    for number, record in (found for some in near for found in some):
        line = said(object_in(record))
        if line.what != "event_msg" or line.item.get("call_id") != call:
            continue
        edited = record
        for key in OUTPUTS:
            for place, now in copies(line.item.get(key), (*line.base, key), old, new, 0):
                edited = put(edited, place, spell(now, record))
        if edited != record:
            changed[number] = edited
            return


def _summary(item: JsonObject) -> list[str]:
    return [as_text(as_object(part).get("text")) for part in as_list(item.get("summary"))]


def _output(item: JsonObject) -> str:
    output = item.get("output")
    if isinstance(output, str):
        wrapped = as_object(document_in(output)).get("output") if output.startswith('{"output":') else None
        return wrapped if isinstance(wrapped, str) else output
    return plain_text(output) or as_text(as_object(output).get("content"))


def _since(before: Tokens, total: Tokens) -> Tokens | None:
    """Return the tokens counted since; None where counting began anew."""
    grown = Tokens(*(now - then for now, then in zip(structs.astuple(total), structs.astuple(before), strict=True)))
    return None if min(structs.astuple(grown)) < 0 else grown


_VIEWS: dict[str, items.ItemView] = {
    "compacted": events.compacted,
    "event_msg": events.event,
    "inter_agent_communication": items.agent_message,
    "realtime_item": items.spoken,
    "response_item": items.item,
    "session_meta": events.session_meta,
}
_IS_ITEM, _HAS_THOUGHTS = (items.ITEMS, items.SAID), (items.THOUGHTS, items.SAID)


class CodexLens(JsonLens):
    """A lens for rollout lines. Text in both an item and an event is shown once, as the item, which the model gets.

    An edit of the item is one of the event, too.
    """

    type_name = "codex.line.v1"
    one_line = True
    reach = 32
    telling = (b'"token_count"', b'"turn_context"', b'"session_meta"', b'"usage"')
    counts_on = True
    writes = (*SPEAKERS, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.SUMMARY, Kind.NOTE)
    lacks: ClassVar[Mapping[Kind, str]] = {Kind.CONFIG: "Codex notes how it is set in lines that nobody is shown"}
    places: ClassVar[Places] = {
        **dict.fromkeys(("encrypted", "item", "kept", "record"), "says what the record is: it cannot be changed"),
        "is_error": "is what the record says by its 'exit_code' or 'success': change that",
    }

    def shown(self, record: JsonObject, before: Before) -> Shown:
        what, value, base = said(record)
        if what in QUIET:
            return events.TURN if what == "turn_context" else BOOKKEEPING
        shown = _VIEWS.get(what, items.unknown)(value, base, before)
        if what != "response_item":
            return shown
        defines = (_IS_ITEM, _HAS_THOUGHTS) if value.get("type") == "reasoning" else (_IS_ITEM,)
        return structs.replace(shown, defines=(*defines, *shown.defines))

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        what, item, _base = said(record)
        if what == "session_meta":
            if (session := as_text(item.get("id"))) == running.session:
                return None, running
            return None, Running(session, running.model)
        if what == "turn_context":
            return None, structs.replace(running, model=as_text(item.get("model")) or running.model)
        if what != "event_msg":
            return None, running
        if item.get("type") != "token_count":
            # how `codex exec` told of whole turns
            tokens = counted(as_object(item.get("usage")))
            return (Usage("", running.model, tokens) if tokens.total else None), running
        told = as_object(item.get("info"))
        total = counted(as_object(told.get("total_token_usage")))
        if not total.total or total == running.counted:
            return None, running
        name = f"{running.session}@{total.input}+{total.cache_read}+{total.cache_write}+{total.output}"
        tokens = _since(running.counted, total) or counted(as_object(told.get("last_token_usage")))
        counting = structs.replace(running, counted=total)
        return (Usage(name, running.model, tokens) if tokens.total else None), counting

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the other members of a command's event that hold its output."""
        what, value, base = said(record)
        if what == "event_msg" and value.get(path[-1] if isinstance(path[-1], str) else "") == old:
            yield from (((*base, key), new) for key, _ in events.repeated_outputs(value) if (*base, key) != path)

    def echoes(self, old: bytes, new: bytes, before: Near, after: Near) -> Mapping[int, bytes]:
        """Return the events that repeat an item, or the item that an event repeats."""
        was, now = said(object_in(old)), said(object_in(new))
        changed: dict[int, bytes] = {}
        if was.what == "event_msg":
            if was.item.get("type") == "user_message":
                texts = as_text(was.item.get("message")), as_text(now.item.get("message"))
                _put_first(changed, (after,), "user", *texts)
            return changed
        if was.what != "response_item":
            return changed
        match was.item.get("type"):
            case "message" | None:
                texts = plain_text(was.item.get("content")), plain_text(now.item.get("content"))
                if was.item.get("role") == "user":
                    _put_first(changed, (after,), "user_message", *texts)
                elif was.item.get("role") == "assistant":
                    _put_first(changed, (before, after), "agent_message", *texts)
                    _put_first(changed, (after,), "task_complete", *texts)
            case "reasoning":
                for one, other in zip(_summary(was.item), _summary(now.item), strict=False):
                    _put_first(changed, (before, after), "agent_reasoning", one, other)
            case str(what) if what.endswith("_output"):
                call, texts = as_text(was.item.get("call_id")), (_output(was.item), _output(now.item))
                _put_outputs(changed, (before, after), call, *texts)
        return changed

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        line = said(record)
        return items.part(line.item, line.base, path, text) if line.what == "response_item" else None

    def room(self, record: JsonObject) -> ValuePath | None:
        line = said(record)
        if line.what == "response_item":
            return items.room(line.item, line.base)
        named = {"compacted": "message", "session_meta": "instructions"}.get(line.what, "")
        return (*line.base, named) if named in line.item else None

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        line = said(record)
        if line.what in ("event_msg", "response_item") and (call := as_text(line.item.get("call_id"))):
            yield CallLink((), 0, call, as_text(line.item.get("type")).endswith("_call"))

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        """Return an item, so that the model is told, after ``previous``; bare where the lines before are."""
        before = object_in(previous)
        what, item = _new_item(kind, text, more)
        if not before or said(before).base:
            # where lines are numbered, Codex does not resume one whose last line is not
            last = before.get("ordinal")
            numbered = {"ordinal": last + 1} if isinstance(last, int) else {}
            return new_record({"timestamp": in_iso(now_ms), **numbered, "type": what, "payload": item}, previous)
        if what != "response_item":
            # the oldest files are items and nothing else
            raise UsageError(f"a {kind.word} is a line with an envelope, and this rollout has none: write assistant")
        return new_record(item, previous)
