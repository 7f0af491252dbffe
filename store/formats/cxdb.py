"""CXDB's conversation items, as its clients append them.

The numbered fields of ``cxdb.ConversationItem`` version 3, and of the structures in it.

As in the types of CXDB's clients (https://github.com/strongdm/cxdb, ``clients/``). Its clients in Go and Rust spell the
numbers as texts (``"10"``), others as integers; fields that are not set are missing, or null, or empty.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec

from store.errors import UsageError
from store.events.event import Block, Event, Kind, ValuePath
from store.formats.core.blocks import argument_blocks
from store.formats.core.composing import Particulars
from store.formats.core.editing import Lens, Twins
from store.formats.core.format import first_line
from store.formats.core.json_view import Decoded, JsonObject, as_list, as_object, as_text, scalar, value_at
from store.formats.core.lens import BOOKKEEPING, Before, FieldPlace, Header, Shown, View
from store.formats.core.msgpack_lens import MsgpackLens, UnknownMsgpackLens, document_blocks, in_integers
from store.formats.core.msgpack_view import Field, Schema
from store.formats.core.times import milliseconds


def describe(native: object) -> JsonObject:
    """Return the metadata that an item gives its conversation: title, project and labels, those that it has.

    ``native`` is as in its event; anything that is no such item gives nothing.
    """
    said = as_object(as_object(native).get("context_metadata"))
    labels = [label for label in as_list(said.get("labels")) if isinstance(label, str) and label]
    found: JsonObject = {
        "title": first_line(as_text(said.get("title"))),
        "project": as_text(said.get("client_tag")),
        "labels": labels,
    }
    return {key: value for key, value in found.items() if value}


_Item = dict[int, object]


def _in_texts(item: _Item) -> dict[str, object]:
    return {str(key): _in_texts(value) if isinstance(value, dict) else value for key, value in item.items()}


def _named(first: int, *names: str) -> Schema:
    """Return the fields of these names, numbered from ``first`` on."""
    return {number: Field(name) for number, name in enumerate(names, first)}


_USER_INPUT = _named(1, "text", "files", "synthetic")
_TOOL_CALL_RESULT = _named(1, "content", "content_truncated", "success", "exit_code")
_TOOL_CALL_ERROR = _named(1, "code", "message", "exit_code")
_TOOL_CALL_ITEM = {
    **_named(1, "id", "name", "args", "status", "description", "streaming_output", "streaming_output_truncated"),
    8: Field("result", _TOOL_CALL_RESULT),
    9: Field("error", _TOOL_CALL_ERROR),
    10: Field("duration_ms"),
}
_TURN_METRICS = {
    **_named(1, "input_tokens", "output_tokens", "total_tokens", "cached_tokens", "reasoning_tokens"),
    **_named(6, "duration_ms", "model", "usage_status"),
}
_ASSISTANT_TURN = {
    1: Field("text"),
    2: Field("tool_calls", _TOOL_CALL_ITEM),
    3: Field("reasoning"),
    4: Field("metrics", _TURN_METRICS),
    **_named(5, "agent", "turn_number", "max_turns", "finish_reason"),
}
_SYSTEM_MESSAGE = _named(1, "kind", "title", "content")
_HANDOFF_INFO = _named(1, "from_agent", "to_agent", "tool_name", "input", "reason")
_ASSISTANT = _named(1, "text", "reasoning", "model", "input_tokens", "output_tokens", "stop_reason")
_TOOL_CALL = _named(1, "call_id", "name", "args", "description")
_TOOL_RESULT = {
    **_named(1, "call_id", "content", "is_error", "exit_code"),
    **_named(5, "streaming_output", "output_truncated", "duration_ms"),
}
_PROVENANCE = {
    **_named(1, "parent_context_id", "spawn_reason", "root_context_id"),
    **_named(10, "trace_id", "span_id", "correlation_id"),
    **_named(20, "on_behalf_of", "on_behalf_of_source", "on_behalf_of_email"),
    **_named(30, "writer_method", "writer_subject", "writer_issuer"),
    **_named(40, "service_name", "service_version", "service_instance_id", "process_pid", "process_owner"),
    **_named(45, "host_name", "host_arch"),
    **_named(50, "client_address", "client_port"),
    60: Field("env_vars"),
    **_named(70, "sdk_name", "sdk_version"),
    80: Field("captured_at"),
}
_CONTEXT_METADATA = {
    **_named(1, "client_tag", "title", "labels", "custom", "tenant"),
    10: Field("provenance", _PROVENANCE),
}

CONVERSATION_ITEM: Schema = {
    **_named(1, "item_type", "status", "timestamp", "id"),
    10: Field("user_input", _USER_INPUT),
    11: Field("turn", _ASSISTANT_TURN),
    12: Field("system", _SYSTEM_MESSAGE),
    13: Field("handoff", _HANDOFF_INFO),
    20: Field("assistant", _ASSISTANT),
    21: Field("tool_call", _TOOL_CALL),
    22: Field("tool_result", _TOOL_RESULT),
    30: Field("context_metadata", _CONTEXT_METADATA),
}

_ENVELOPE = frozenset(("item_type", "status", "timestamp", "id", "context_metadata"))
_USUAL_STOPS = frozenset(("end_turn", "stop", "tool_calls", "tool_use"))
_CALLS: ValuePath = ("turn", "tool_calls")
_PLACES: dict[str, dict[str, ValuePath]] = {
    "assistant": {"model": ("assistant", "model"), "stop_reason": ("assistant", "stop_reason")},
    "assistant_turn": {"model": ("turn", "metrics", "model"), "stop_reason": ("turn", "finish_reason")},
    "system": {"level": ("system", "kind")},
    "tool_call": {"tool": ("tool_call", "name")},
    "tool_result": {"is_error": ("tool_result", "is_error")},
}


def _unknown(item: JsonObject) -> Shown:
    what = scalar(item.get("item_type"))
    header: Header = {"record": what} if what is not None else {}
    own = {key: value for key, value in item.items() if key not in _ENVELOPE and value is not None}
    return Shown(Kind.NOTE, argument_blocks(own, (), "record"), header=header)


def _user_input(said: JsonObject, before: Before) -> Shown:
    header: Header = {"synthetic": True} if said.get("synthetic") is True else {}
    blocks = _text(said, ("user_input", "text"))
    if files := as_list(said.get("files")):
        blocks += argument_blocks(files, ("user_input", "files"), "files")
    return Shown(Kind.USER, blocks, header=header) if blocks else BOOKKEEPING


def _assistant_turn(turn: JsonObject, before: Before) -> Shown:
    reasoning = _text(turn, ("turn", "reasoning"), "reasoning")
    text = _text(turn, ("turn", "text"))
    kind = Kind.ASSISTANT if text else Kind.REASONING if reasoning else Kind.RECORD
    if kind is Kind.REASONING:
        reasoning = _text(turn, ("turn", "reasoning"))
    blocks, tool = reasoning + text, ""
    header: Header = {}
    defines: list[tuple[str, str]] = []
    for number, at, call in _calls(turn):
        identifier, name = as_text(call.get("id")), as_text(call.get("name"))
        if number == 1:
            tool = name
            kind = kind if text else Kind.TOOL_CALL
        elif name:
            header[f"tool_{number}"] = name
        if identifier:
            defines.append((identifier, name))
        _about_call(call, header, f"_{number}" if number > 1 else "")
        blocks += _call_blocks(call, at, f"call{number}." if number > 1 else "")
    if kind is Kind.RECORD:
        return BOOKKEEPING
    model = as_object(turn.get("metrics")).get("model")
    _tell_answer(header, turn.get("agent"), model, turn.get("finish_reason"))
    return Shown(kind, blocks, tool, header, tuple(defines))


def _system(said: JsonObject, before: Before) -> Shown:
    header: Header = {}
    _tell(header, said, (("level", "kind"), ("title", "title")))
    blocks = _text(said, ("system", "content"))
    return Shown(Kind.SYSTEM, blocks, header=header) if blocks or "title" in header else BOOKKEEPING


def _handoff(said: JsonObject, before: Before) -> Shown:
    header: Header = {"record": "handoff"}
    _tell(header, said, (("from", "from_agent"), ("to", "to_agent"), ("through", "tool_name")))
    blocks = _text(said, ("handoff", "input"), "input") + _text(said, ("handoff", "reason"), "reason")
    return Shown(Kind.NOTE, blocks, header=header)


def _assistant(said: JsonObject, before: Before) -> Shown:
    text = _text(said, ("assistant", "text"))
    reasoning = _text(said, ("assistant", "reasoning"), "reasoning" if text else "")
    if not (text or reasoning):
        return BOOKKEEPING
    header: Header = {}
    _tell_answer(header, None, said.get("model"), said.get("stop_reason"))
    return Shown(Kind.ASSISTANT if text else Kind.REASONING, reasoning + text, header=header)


def _tool_call(call: JsonObject, before: Before) -> Shown:
    identifier, name = as_text(call.get("call_id")), as_text(call.get("name"))
    header: Header = {"id": identifier} if identifier else {}
    _tell(header, call, (("description", "description"),))
    blocks = document_blocks(as_text(call.get("args")), ("tool_call", "args"), "arguments")
    return Shown(Kind.TOOL_CALL, blocks, name, header, ((identifier, name),) if identifier else ())


def _tool_result(result: JsonObject, before: Before) -> Shown:
    identifier = as_text(result.get("call_id"))
    header: Header = {"id": identifier} if identifier else {}
    header["is_error"] = result.get("is_error") is True
    if isinstance(code := result.get("exit_code"), int):
        header["exit_code"] = code
    blocks = _text(result, ("tool_result", "content"))
    blocks += _output(result, ("tool_result",), ("content",), "output")
    return Shown(Kind.TOOL_RESULT, blocks, before.tool(identifier), header)


def _calls(turn: JsonObject) -> Iterator[tuple[int, int, JsonObject]]:
    """Yield the calls of a turn, numbered from 1, each with its place in the list."""
    number = 0
    for at, call in enumerate(as_list(turn.get("tool_calls"))):
        if isinstance(call, dict):
            number += 1
            yield number, at, call


def _about_call(call: JsonObject, header: Header, number: str) -> None:
    result, error = call.get("result"), call.get("error")
    for key in ("id", "status", "description"):
        if (said := scalar(call.get(key))) and (key != "status" or said != "complete"):
            header[f"{key}{number}"] = said
    if isinstance(error, dict) or isinstance(as_object(result).get("success"), bool):
        header[f"is_error{number}"] = isinstance(error, dict) or as_object(result).get("success") is False
    for ended in (result, error):
        if isinstance(code := as_object(ended).get("exit_code"), int):
            header[f"exit_code{number}"] = code


def _call_blocks(call: JsonObject, at: int, named: str) -> tuple[Block, ...]:
    path = (*_CALLS, at)
    return (
        *document_blocks(as_text(call.get("args")), (*path, "args"), f"{named}arguments"),
        *_output(call, path, ("result", "content"), f"{named}output"),
        *_text(as_object(call.get("result")), (*path, "result", "content"), f"{named}result"),
        *_text(as_object(call.get("error")), (*path, "error", "message"), f"{named}error"),
    )


def _output(holder: JsonObject, path: ValuePath, result: ValuePath, name: str) -> tuple[Block, ...]:
    """Return a tool's streamed output, unless it only repeats the result."""
    if holder.get("streaming_output") == value_at(holder, result):
        return ()
    return _text(holder, (*path, "streaming_output"), name)


def _tell(header: Header, holder: JsonObject, fields: tuple[tuple[str, str], ...]) -> None:
    """Add fields of the head, each given with the key of its value in ``holder``; one that says nothing is left out."""
    for name, key in fields:
        if said := scalar(holder.get(key)):
            header[name] = said


def _tell_answer(header: Header, agent: object, model: object, stop: object) -> None:
    _tell(header, {"agent": agent, "model": model}, (("agent", "agent"), ("model", "model")))
    if (said := scalar(stop)) and said not in _USUAL_STOPS:
        header["stop_reason"] = said


def _text(holder: JsonObject, path: ValuePath, name: str = "") -> tuple[Block, ...]:
    text = holder.get(str(path[-1]))
    return (Block("text", text, name=name, path=path),) if isinstance(text, str) and text else ()


_VIEWS: dict[str, tuple[str, View]] = {
    "assistant": ("assistant", _assistant),
    "assistant_turn": ("turn", _assistant_turn),
    "handoff": ("handoff", _handoff),
    "system": ("system", _system),
    "tool_call": ("tool_call", _tool_call),
    "tool_result": ("tool_result", _tool_result),
    "user_input": ("user_input", _user_input),
}
"""By ``item_type``: the field that holds the item, and its view."""

_LAST_MS = 1 << 53
_SAID = {
    **dict.fromkeys((Kind.ASSISTANT, Kind.REASONING), ("assistant_turn", 11)),
    Kind.SYSTEM: ("system", 12),
    Kind.USER: ("user_input", 10),
    Kind.TOOL_CALL: ("tool_call", 21),
    Kind.TOOL_RESULT: ("tool_result", 22),
}


class ConversationItemLens(MsgpackLens):
    """A lens for conversation items. Those of unknown kinds are notes that hold them as JSON."""

    schema: ClassVar[Schema] = CONVERSATION_ITEM
    writes = tuple(_SAID)
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, "CXDB's items have no such type")

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def shown(self, decoded: Decoded, before: Before) -> Event:
        item = decoded.value
        if not isinstance(item, dict):
            return _NOT_AN_ITEM.shown(decoded, before)
        holder, view = _VIEWS.get(as_text(item.get("item_type")), ("", None))
        said = item.get(holder)
        shown = view(said, before) if view and isinstance(said, dict) else _unknown(item)
        header = _envelope(item) | shown.header if shown.kind is not Kind.RECORD else {}
        time_ms = _time(item.get("timestamp"))
        return Event(shown.kind, shown.tool, header, shown.blocks, time_ms, 0, shown.defines, (), item, decoded.lossy)

    def place(self, record: JsonObject, key: str) -> FieldPlace | None:
        what = as_text(record.get("item_type"))
        if what == "tool_result" and key == "tool":
            raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
        if path := _PLACES.get(what, {}).get(key):
            return FieldPlace(path)
        if what != "assistant_turn":
            return None
        # those of the second call of a turn are tool_2, is_error_2
        name, _, number = key.rpartition("_")
        name, number = (name, number) if number.isdecimal() else (key, "1")
        for which, at, _call in _calls(as_object(record.get("turn"))):
            if str(which) == number and name == "tool":
                return FieldPlace((*_CALLS, at, "name"))
            if str(which) == number and name == "is_error":
                return FieldPlace((*_CALLS, at, "result", "success"), write=lambda value: not value)
        return None

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        for ending in (("content",), ("result", "content")):
            output = (*path[: -len(ending)], "streaming_output")
            if path[-len(ending) :] == ending and value_at(record, output) == old:
                yield output, new

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        what, number = _SAID[kind]
        said: _Item = {1: text}
        match kind:
            case Kind.SYSTEM:
                said = {1: "info", 3: text}
            case Kind.REASONING:
                said = {3: text}
            case Kind.TOOL_CALL:
                arguments = msgspec.json.encode(more.arguments(text)).decode()
                said = {1: more.new_id("call_"), 2: more.tool, 3: arguments}
            case Kind.TOOL_RESULT:
                said = {1: more.id, 2: text, 3: more.failed}
        item: _Item = {1: what, 2: "complete", 3: now_ms, number: said}
        return msgspec.msgpack.encode(item if previous and in_integers(previous) else _in_texts(item))


def _envelope(item: JsonObject) -> Header:
    """Return the head's fields for every item: its id, its state, and the first one's facts about the conversation."""
    header: Header = {}
    _tell(header, item, (("item", "id"), ("state", "status")))
    if header.get("state") == "complete":
        del header["state"]
    if about := as_object(item.get("context_metadata")):
        _tell(header, about, (("conversation", "title"), ("client", "client_tag")))
        if labels := scalar(", ".join(as_text(label) for label in as_list(about.get("labels")))):
            header["labels"] = labels
    return header


def _time(stamp: object) -> int:
    """Return a timestamp in Unix milliseconds: as a number, as its digits, or as MessagePack's own."""
    if isinstance(stamp, dict):
        return milliseconds(stamp.get("$timestamp"))
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdecimal() and len(stamp) <= len(str(_LAST_MS)):
        stamp = int(stamp)
    return stamp if type(stamp) is int and 0 <= stamp <= _LAST_MS else 0


_NOT_AN_ITEM = UnknownMsgpackLens()
# the second is its name in earlier clients
LENSES: Sequence[Lens] = tuple(map(ConversationItemLens, ("cxdb.ConversationItem", "cxdb.v3:ConversationItem")))
