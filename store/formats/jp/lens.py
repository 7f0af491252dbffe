"""JP's events, one an element of ``events.json``, and the configuration that a conversation began with."""

from collections.abc import Callable

from store.events.event import Block, Event, Kind
from store.formats.blocks import argument_blocks
from store.formats.jp.content import read_content, resource_blocks, result_blocks
from store.formats.jp.encoding import plain_text
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode, scalar
from store.formats.lens import Before
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

Header = dict[str, str | int | float | bool]
_ENVELOPE = frozenset(("event_id", "metadata", "timestamp", "type"))


class JpEventLens:
    """Sees events of a JP conversation. Types that are not known are notes that hold their JSON."""

    type_name = "jp.event.v1"

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that an element of ``events.json`` tells of."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        stored = decoded.value
        what = stored.get("type")
        view = _VIEWS.get(what, _unknown) if isinstance(what, str) else _unknown
        return view(stored, before, milliseconds(stored.get("timestamp")), decoded.lossy)


class JpConfigLens:
    """Sees ``base_config.json``."""

    type_name = "jp.config.v1"

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the configuration as JSON, its prompts as text."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        blocks = argument_blocks(decoded.value, (), "config")
        return Event(Kind.CONFIG, blocks=blocks, native=decoded.value, lossy=decoded.lossy)


_View = Callable[[JsonObject, Before, int, bool], Event]


def _turn_start(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    if stored.keys() <= _ENVELOPE:
        return Event(Kind.RECORD, time_ms=time, native=stored, lossy=lossy)
    return _unknown(stored, before, time, lossy)


def _chat_request(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    read = read_content(stored, (), "text/plain", before)
    blocks: tuple[Block, ...] = ()
    if read and isinstance(read.value, str):
        blocks = (Block("text", read.value, path=read.path, encoding=read.encoding),)
    elif "content" in stored:
        blocks = result_blocks(stored["content"], ("content",), before)[0]
    blocks += argument_blocks(stored.get("schema"), ("schema",), "schema")
    attached, resources = resource_blocks(as_list(stored.get("resources")), ("resources",), before)
    return Event(Kind.USER, "", {}, blocks + attached, time, 0, (), resources, stored, lossy)


def _chat_response(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    if isinstance(message := stored.get("message"), str):
        return _text(Kind.ASSISTANT, message, "message", stored, time, lossy)
    if isinstance(reasoning := stored.get("reasoning"), str):
        return _text(Kind.REASONING, reasoning, "reasoning", stored, time, lossy)
    if "data" in stored:
        blocks = argument_blocks(stored["data"], ("data",), "data")
        return Event(Kind.ASSISTANT, blocks=blocks, time_ms=time, native=stored, lossy=lossy)
    return _unknown(stored, before, time, lossy)


def _tool_call_request(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    tool, call = as_text(stored.get("name")), as_text(stored.get("id"))
    blocks = argument_blocks(stored.get("arguments"), ("arguments",), "arguments", plain_text)
    return Event(Kind.TOOL_CALL, tool, {"id": call}, blocks, time, 0, ((call, tool),), (), stored, lossy)


def _tool_call_response(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    call = as_text(stored.get("id"))
    failed = stored.get("is_error") is True or stored.get("isError") is True
    blocks, resources = result_blocks(stored.get("content"), ("content",), before)
    header: Header = {"id": call, "is_error": failed}
    return Event(Kind.TOOL_RESULT, before.tool(call), header, blocks, time, 0, (), resources, stored, lossy)


def _inquiry_request(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    source, question = as_object(stored.get("source")), as_object(stored.get("question"))
    inquiry = as_text(stored.get("id"))
    tool = as_text(source.get("name")) if source.get("source") == "tool" else ""
    header: Header = {"id": inquiry}
    answer = as_object(question.get("answer_type"))
    for name, value in (
        ("from", source.get("source") if not tool else None),
        ("answer_type", answer.get("type")),
        ("default", question.get("default")),
    ):
        if (said := scalar(value)) is not None:
            header[name] = said
    blocks: tuple[Block, ...] = ()
    if text := as_text(question.get("text")):
        blocks = (Block("text", text, path=("question", "text")),)
    blocks += argument_blocks(answer.get("options"), ("question", "answer_type", "options"), "options")
    return Event(Kind.QUESTION, tool, header, blocks, time, 0, ((inquiry, tool),), (), stored, lossy)


def _inquiry_response(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    inquiry = as_text(stored.get("id"))
    answer = stored.get("answer")
    blocks: tuple[Block, ...]
    if isinstance(answer, str):
        blocks = (Block("text", answer, path=("answer",)),)
    else:
        blocks = argument_blocks(answer, ("answer",), "answer")
    return Event(Kind.ANSWER, before.tool(inquiry), {"id": inquiry}, blocks, time, 0, (), (), stored, lossy)


def _config_delta(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    own = {key: value for key, value in stored.items() if key not in _ENVELOPE}
    if own.keys() == {"delta"}:
        blocks = argument_blocks(own["delta"], ("delta",), "config")
    else:
        blocks = argument_blocks(own, (), "config")
    return Event(Kind.CONFIG, blocks=blocks, time_ms=time, native=stored, lossy=lossy)


def _compaction(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    header: Header = {}
    for key in ("from_turn", "to_turn"):
        if (turn := scalar(stored.get(key))) is not None:
            header[key] = turn
    policies = {key: value for key, value in stored.items() if key not in _ENVELOPE and key not in header}
    blocks: tuple[Block, ...] = ()
    match policies.get("summary"):
        case {"summary": str(text)}:
            blocks = (Block("text", text, path=("summary", "summary")),)
            kept = {key: value for key, value in as_object(policies.pop("summary")).items() if key != "summary"}
            policies |= {"summary": kept} if kept else {}
        case str(text):
            blocks = (Block("text", text, path=("summary",)),)
            del policies["summary"]
    blocks += argument_blocks(policies, (), "policy")
    return Event(Kind.SUMMARY, "", header, blocks, time, 0, (), (), stored, lossy)


def _unknown(stored: JsonObject, before: Before, time: int, lossy: bool) -> Event:
    what = scalar(stored.get("type"))
    header: Header = {"record": what} if what is not None else {}
    own = {key: value for key, value in stored.items() if key not in _ENVELOPE}
    return Event(Kind.NOTE, "", header, argument_blocks(own, (), "record"), time, 0, (), (), stored, lossy)


def _text(kind: Kind, text: str, key: str, stored: JsonObject, time: int, lossy: bool) -> Event:
    if not text:
        return Event(Kind.RECORD, time_ms=time, native=stored, lossy=lossy)
    return Event(kind, "", {}, (Block("text", text, path=(key,)),), time, 0, (), (), stored, lossy)


_VIEWS: dict[str, _View] = {
    "chat_request": _chat_request,
    "chat_response": _chat_response,
    "compaction": _compaction,
    "config_delta": _config_delta,
    "inquiry_request": _inquiry_request,
    "inquiry_response": _inquiry_response,
    "tool_call_request": _tool_call_request,
    "tool_call_response": _tool_call_response,
    "turn_start": _turn_start,
}
