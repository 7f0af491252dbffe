"""CXDB's conversation items, as its clients append them.

The numbered fields of ``cxdb.ConversationItem`` version 3, and of the structures in it.

As in the types of CXDB's clients (https://github.com/strongdm/cxdb, ``clients/``). Its clients in Go and Rust spell the
numbers as texts (``"10"``), others as integers; fields that are not set are missing, or null, or empty.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import structs

from store.events.event import Kind, ValuePath
from store.formats.core.blocks import document_blocks
from store.formats.core.editing import Twins
from store.formats.core.format import first_line
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, scalar, value_at
from store.formats.core.lens import BOOKKEEPING, Before, FieldPlace, Gathered, Header, Shown, nth
from store.formats.core.msgpack_lens import MsgpackLens, UnknownSaid
from store.formats.core.msgpack_view import Field, Schema
from store.formats.core.times import milliseconds
from store.formats.declared.description import read_views
from store.formats.declared.lens import DeclaredLens


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


_STRUCTURES = """
    user_input 1 text files synthetic
    tool_call_result 1 content content_truncated success exit_code
    tool_call_error 1 code message exit_code
    tool_call_item 1 id name args status description streaming_output streaming_output_truncated
        result:tool_call_result error:tool_call_error duration_ms
    turn_metrics 1 input_tokens output_tokens total_tokens cached_tokens reasoning_tokens duration_ms model usage_status
    assistant_turn 1 text tool_calls:tool_call_item reasoning metrics:turn_metrics agent turn_number max_turns
        finish_reason
    system_message 1 kind title content
    handoff_info 1 from_agent to_agent tool_name input reason
    assistant 1 text reasoning model input_tokens output_tokens stop_reason
    tool_call 1 call_id name args description
    tool_result 1 call_id content is_error exit_code streaming_output output_truncated duration_ms
    provenance 1 parent_context_id spawn_reason root_context_id 10 trace_id span_id correlation_id
        20 on_behalf_of on_behalf_of_source on_behalf_of_email 30 writer_method writer_subject writer_issuer
        40 service_name service_version service_instance_id process_pid process_owner host_name host_arch
        50 client_address client_port 60 env_vars 70 sdk_name sdk_version 80 captured_at
    context_metadata 1 client_tag title labels custom tenant 10 provenance:provenance
    item 1 item_type status timestamp id 10 user_input:user_input turn:assistant_turn system:system_message
        handoff:handoff_info 20 assistant:assistant tool_call:tool_call tool_result:tool_result
        30 context_metadata:context_metadata
"""
"""Structures before those that hold them, each with its fields: they count up from the number before them."""


def _schemas() -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for structure in re.split(r"\n {4}(?! )", _STRUCTURES.rstrip())[1:]:
        name, *words = structure.split()
        fields: dict[int, Field] = {}
        number = 0
        for word in words:
            if word.isdecimal():
                number = int(word)
                continue
            field, _colon, held = word.partition(":")
            fields[number] = Field(field, found.get(held, {}))
            number += 1
        found[name] = fields
    return found


CONVERSATION_ITEM: Schema = _schemas()["item"]

_USUAL_STOPS = frozenset(("end_turn", "stop", "tool_calls", "tool_use"))


def _assistant_turn(turn: JsonObject) -> Shown:
    into, text = Gathered(), as_text(turn.get("text"))
    calls = [(at, call) for at, call in enumerate(as_list(turn.get("tool_calls"))) if is_object(call)]
    into.text(as_text(turn.get("reasoning")), ("turn", "reasoning"), "thinking" if text or calls else "")
    into.text(text, ("turn", "text"))
    if not into.blocks and not calls:
        return BOOKKEEPING
    for at, call in calls:
        _add_call(call, ("turn", "tool_calls", at), into)
    metrics = as_object(turn.get("metrics"))
    into.field("agent", turn.get("agent"), "turn", "agent")
    into.field("model", metrics.get("model"), "turn", "metrics", "model")
    into.field("stop_reason", turn.get("finish_reason"), "turn", "finish_reason")
    return into.shown(Kind.ASSISTANT if text else Kind.TOOL_CALL if calls else Kind.REASONING)


def _add_call(call: JsonObject, path: ValuePath, into: Gathered) -> None:
    """Add a call of a turn, which holds what it brought."""
    label = into.call(call, path, "name", "id")
    number, named = into.calls, f"call{into.calls}." if into.calls > 1 else ""
    result, error = as_object(call.get("result")), as_object(call.get("error"))
    for key in ("status", "description"):
        if (said := scalar(call.get(key))) and said != "complete":
            into.header[nth(key, number)] = said
    worked = result.get("success")
    if is_object(call.get("error")) or isinstance(worked, bool):
        into.header[nth("is_error", number)] = is_object(call.get("error")) or worked is False
    if isinstance(worked, bool):
        into.places[nth("is_error", number)] = FieldPlace((*path, "result", "success"), write=lambda value: not value)
    for ended in (result, error):
        if isinstance(code := ended.get("exit_code"), int):
            into.header[nth("exit_code", number)] = code
    _add_document(call, path, label, into)
    _add_output(call, path, ("result", "content"), f"{named}output", into)
    into.text(as_text(result.get("content")), (*path, "result", "content"), f"{named}result")
    into.text(as_text(error.get("message")), (*path, "error", "message"), f"{named}error")


def _add_document(call: JsonObject, path: ValuePath, label: str, into: Gathered) -> None:
    """Add the arguments of a call: a text, which mostly is JSON."""
    if text := as_text(call.get("args")):
        into.blocks += document_blocks(text, (*path, "args"), label)


def _add_output(holder: JsonObject, path: ValuePath, result: ValuePath, name: str, into: Gathered) -> None:
    """Add a tool's streamed output, unless it only repeats the result."""
    if holder.get("streaming_output") != value_at(holder, result):
        into.text(as_text(holder.get("streaming_output")), (*path, "streaming_output"), name)


_LAST_MS = 1 << 53
class ConversationItemLens(DeclaredLens):
    """A lens for conversation items. Those of unknown kinds are notes that hold them as JSON."""

    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, "CXDB's items have no such type")

    def __init__(self, type_name: str) -> None:
        super().__init__(read_views("cxdb"), type_name)

    def held(self, record: JsonObject) -> JsonObject:
        return {key: value for key, value in record.items() if value is not None}

    def shown(self, record: JsonObject, before: Before) -> Shown:
        is_turn = record.get("item_type") == "assistant_turn" and is_object(record.get("turn"))
        shown = _assistant_turn(as_object(record["turn"])) if is_turn else super().shown(record, before)
        if shown.kind is Kind.RECORD:
            return shown
        header = _envelope(record) | shown.header
        if header.get("stop_reason") in _USUAL_STOPS:
            del header["stop_reason"]
        blocks, result = shown.blocks, as_object(record.get("tool_result"))
        if result and result.get("streaming_output") == result.get("content"):
            blocks = tuple(block for block in blocks if block.path != ("tool_result", "streaming_output"))
        return structs.replace(shown, header=header, blocks=blocks)

    def shown_other(self, value: object, before: Before) -> Shown:
        return _NOT_AN_ITEM.shown_other(value, before)

    def time_ms(self, record: JsonObject) -> int:
        return _time(record.get("timestamp"))

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        for ending in (("content",), ("result", "content")):
            output = (*path[: -len(ending)], "streaming_output")
            if path[-len(ending) :] == ending and value_at(record, output) == old:
                yield output, new


def _envelope(item: JsonObject) -> Header:
    """Return the head's fields for every item: its id, its state, and the first one's facts about the conversation."""
    about = as_object(item.get("context_metadata"))
    told: dict[str, object] = {"item": item.get("id"), "state": item.get("status")}
    told |= {"conversation": about.get("title"), "client": about.get("client_tag")}
    told["labels"] = ", ".join(as_text(label) for label in as_list(about.get("labels")))
    return {name: said for name, value in told.items() if (said := scalar(value)) and said != "complete"}


def _time(stamp: object) -> int:
    """Return a timestamp in Unix milliseconds: as a number, as its digits, or as MessagePack's own."""
    if isinstance(stamp, dict):
        return milliseconds(stamp.get("$timestamp"))
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdecimal() and len(stamp) <= len(str(_LAST_MS)):
        stamp = int(stamp)
    return stamp if type(stamp) is int and 0 <= stamp <= _LAST_MS else 0


_NOT_AN_ITEM = UnknownSaid()
# the second is its name in earlier clients
_NAMES = ("cxdb.ConversationItem", "cxdb.v3:ConversationItem")
LENSES = tuple(MsgpackLens(ConversationItemLens(name), CONVERSATION_ITEM) for name in _NAMES)
