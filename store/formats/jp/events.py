"""JP's event types, each as what it says."""

from store.events.event import Block, Compaction, Kind
from store.formats.blocks import argument_blocks
from store.formats.jp.content import read_content, resource_blocks, result_blocks
from store.formats.jp.encoding import plain_text
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Header, Shown, View

_ENVELOPE = frozenset(("event_id", "metadata", "timestamp", "type"))


def _turn_start(stored: JsonObject, before: Before) -> Shown:
    if stored.keys() <= _ENVELOPE:
        return BOOKKEEPING
    return unknown(stored, before)


def _chat_request(stored: JsonObject, before: Before) -> Shown:
    read = read_content(stored, (), "text/plain", before)
    blocks: tuple[Block, ...] = ()
    if read and isinstance(read.value, str):
        blocks = (Block("text", read.value, path=read.path, encoding=read.encoding),)
    elif "content" in stored:
        blocks = result_blocks(stored["content"], ("content",), before)[0]
    blocks += argument_blocks(stored.get("schema"), ("schema",), "schema")
    attached, resources = resource_blocks(as_list(stored.get("resources")), ("resources",), before)
    return Shown(Kind.USER, blocks + attached, resources=resources)


def _chat_response(stored: JsonObject, before: Before) -> Shown:
    if isinstance(message := stored.get("message"), str):
        return _text(Kind.ASSISTANT, message, "message")
    if isinstance(reasoning := stored.get("reasoning"), str):
        return _text(Kind.REASONING, reasoning, "reasoning")
    if "data" in stored:
        blocks = argument_blocks(stored["data"], ("data",), "data")
        return Shown(Kind.ASSISTANT, blocks)
    return unknown(stored, before)


def _tool_call_request(stored: JsonObject, before: Before) -> Shown:
    tool, call = as_text(stored.get("name")), as_text(stored.get("id"))
    blocks = argument_blocks(stored.get("arguments"), ("arguments",), "arguments", plain_text)
    return Shown(Kind.TOOL_CALL, blocks, tool, _id(call), _defines(call, tool))


def _tool_call_response(stored: JsonObject, before: Before) -> Shown:
    call = as_text(stored.get("id"))
    failed = stored.get("is_error") is True or stored.get("isError") is True
    blocks, resources = result_blocks(stored.get("content"), ("content",), before)
    header: Header = {**_id(call), "is_error": failed}
    return Shown(Kind.TOOL_RESULT, blocks, before.tool(call), header, (), resources)


def _inquiry_request(stored: JsonObject, before: Before) -> Shown:
    source, question = as_object(stored.get("source")), as_object(stored.get("question"))
    inquiry = as_text(stored.get("id"))
    tool = as_text(source.get("name")) if source.get("source") == "tool" else ""
    header = _id(inquiry)
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
    return Shown(Kind.QUESTION, blocks, tool, header, _defines(inquiry, tool))


def _inquiry_response(stored: JsonObject, before: Before) -> Shown:
    inquiry = as_text(stored.get("id"))
    answer = stored.get("answer")
    blocks: tuple[Block, ...]
    if isinstance(answer, str):
        blocks = (Block("text", answer, path=("answer",)),)
    else:
        blocks = argument_blocks(answer, ("answer",), "answer")
    return Shown(Kind.ANSWER, blocks, before.tool(inquiry), _id(inquiry))


def _config_delta(stored: JsonObject, before: Before) -> Shown:
    own = {key: value for key, value in stored.items() if key not in _ENVELOPE}
    if own.keys() == {"delta"}:
        blocks = argument_blocks(own["delta"], ("delta",), "config")
    else:
        blocks = argument_blocks(own, (), "config")
    return Shown(Kind.CONFIG, blocks)


def _compaction(stored: JsonObject, before: Before) -> Shown:
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
    said = blocks
    blocks += argument_blocks(policies, (), "policy")
    return Shown(Kind.SUMMARY, blocks, header=header, compaction=_policy(stored, said))


def _policy(stored: JsonObject, summary: tuple[Block, ...]) -> Compaction | None:
    """Return what a compaction leaves out; None where it does not say of which exchanges."""
    first, last = stored.get("from_turn"), stored.get("to_turn")
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    if summary:
        return Compaction(summary, exchanges=(first, last))
    calls = stored.get("tool_calls")
    table = as_object(calls)
    named = as_text(calls) or as_text(table.get("policy"))
    return Compaction(
        exchanges=(first, last),
        reasoning=stored.get("reasoning") is not None,
        requests=named == "strip-requests" or (named == "strip" and table.get("request") is not False),
        responses=named == "strip-responses" or (named == "strip" and table.get("response") is not False),
        calls=named == "omit",
    )


def unknown(stored: JsonObject, before: Before) -> Shown:
    """View an event of a type that a newer JP writes."""
    what = scalar(stored.get("type"))
    header: Header = {"record": what} if what is not None else {}
    own = {key: value for key, value in stored.items() if key not in _ENVELOPE}
    return Shown(Kind.NOTE, argument_blocks(own, (), "record"), header=header)


def _id(identifier: str) -> Header:
    return {"id": identifier} if identifier else {}


def _defines(identifier: str, tool: str) -> tuple[tuple[str, str], ...]:
    return ((identifier, tool),) if identifier else ()


def _text(kind: Kind, text: str, key: str) -> Shown:
    return Shown(kind, (Block("text", text, path=(key,)),))


VIEWS: dict[str, View] = {
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
