"""The kinds of conversation items, each as what it says; and where it holds what the head shows."""

from collections.abc import Iterator

from store.errors import UsageError
from store.events.event import Block, Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.edit_checks import value_at
from store.formats.editing import Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.msgpack_lens import document_blocks
from store.formats.shown import BOOKKEEPING, Header, Shown, View

_ENVELOPE = frozenset(("item_type", "status", "timestamp", "id", "context_metadata"))
_USUAL_STOPS = frozenset(("end_turn", "stop", "tool_calls", "tool_use"))
_CALLS: Path = ("turn", "tool_calls")
_PLACES: dict[str, dict[str, Path]] = {
    "assistant": {"model": ("assistant", "model"), "stop_reason": ("assistant", "stop_reason")},
    "assistant_turn": {"model": ("turn", "metrics", "model"), "stop_reason": ("turn", "finish_reason")},
    "system": {"level": ("system", "kind")},
    "tool_call": {"tool": ("tool_call", "name")},
    "tool_result": {"is_error": ("tool_result", "is_error")},
}


def place(item: JsonObject, key: str) -> Place | None:
    """Return where field ``key`` stands, None where nowhere. Raises UsageError for the tool of a result."""
    what = as_text(item.get("item_type"))
    if what == "tool_result" and key == "tool":
        raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
    if path := _PLACES.get(what, {}).get(key):
        return Place(path)
    if what != "assistant_turn":
        return None
    # those of the second call of a turn are tool_2, is_error_2
    name, _, number = key.rpartition("_")
    name, number = (name, number) if number.isdecimal() else (key, "1")
    for which, at, _call in _calls(item):
        if str(which) == number and name == "tool":
            return Place((*_CALLS, at, "name"))
        if str(which) == number and name == "is_error":
            return Place((*_CALLS, at, "result", "success"), write=lambda value: not value)
    return None


def twins(item: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
    """Yield the output of a tool as it came in, where it is the same as its result."""
    for ending in (("content",), ("result", "content")):
        output = (*path[: -len(ending)], "streaming_output")
        if path[-len(ending) :] == ending and value_at(item, output) == old:
            yield output, new


def unknown(item: JsonObject, before: Before) -> Shown:
    """View an item of a kind that a newer CXDB has, or that lacks what its kind says."""
    what = scalar(item.get("item_type"))
    header: Header = {"record": what} if what is not None else {}
    own = {key: value for key, value in item.items() if key not in _ENVELOPE and value is not None}
    return Shown(Kind.NOTE, argument_blocks(own, (), "record"), header=header)


def _user_input(item: JsonObject, before: Before) -> Shown:
    said = as_object(item["user_input"])
    header: Header = {"synthetic": True} if said.get("synthetic") is True else {}
    blocks = _text(said, ("user_input", "text"))
    if files := as_list(said.get("files")):
        blocks += argument_blocks(files, ("user_input", "files"), "files")
    return Shown(Kind.USER, blocks, header=header) if blocks else BOOKKEEPING


def _assistant_turn(item: JsonObject, before: Before) -> Shown:
    turn = as_object(item["turn"])
    reasoning = _text(turn, ("turn", "reasoning"), "reasoning")
    text = _text(turn, ("turn", "text"))
    kind = Kind.ASSISTANT if text else Kind.REASONING if reasoning else Kind.RECORD
    if kind is Kind.REASONING:
        reasoning = _text(turn, ("turn", "reasoning"))
    blocks, tool = reasoning + text, ""
    header: Header = {}
    defines: list[tuple[str, str]] = []
    for number, at, call in _calls(item):
        identifier, name = as_text(call.get("id")), as_text(call.get("name"))
        if number == 1:
            tool = name
            kind = kind if text else Kind.TOOL_CALL
        elif name:
            header[f"tool_{number}"] = name
        if identifier:
            defines.append((identifier, name))
        _about_call(call, header, f"_{number}" if number > 1 else "")
        blocks += _call_blocks(item, call, at, f"call{number}." if number > 1 else "")
    if kind is Kind.RECORD:
        return BOOKKEEPING
    metrics = as_object(turn.get("metrics"))
    _about_answer(header, turn.get("agent"), metrics.get("model"), turn.get("finish_reason"))
    return Shown(kind, blocks, tool, header, tuple(defines))


def _system(item: JsonObject, before: Before) -> Shown:
    said = as_object(item["system"])
    header: Header = {}
    for name, key in (("level", "kind"), ("title", "title")):
        if value := scalar(said.get(key)):
            header[name] = value
    blocks = _text(said, ("system", "content"))
    return Shown(Kind.SYSTEM, blocks, header=header) if blocks or "title" in header else BOOKKEEPING


def _handoff(item: JsonObject, before: Before) -> Shown:
    said = as_object(item["handoff"])
    header: Header = {"record": "handoff"}
    for name, key in (("from", "from_agent"), ("to", "to_agent"), ("through", "tool_name")):
        if value := scalar(said.get(key)):
            header[name] = value
    blocks = _text(said, ("handoff", "input"), "input") + _text(said, ("handoff", "reason"), "reason")
    return Shown(Kind.NOTE, blocks, header=header)


def _assistant(item: JsonObject, before: Before) -> Shown:
    said = as_object(item["assistant"])
    text = _text(said, ("assistant", "text"))
    reasoning = _text(said, ("assistant", "reasoning"), "reasoning" if text else "")
    if not (text or reasoning):
        return BOOKKEEPING
    header: Header = {}
    _about_answer(header, None, said.get("model"), said.get("stop_reason"))
    return Shown(Kind.ASSISTANT if text else Kind.REASONING, reasoning + text, header=header)


def _tool_call(item: JsonObject, before: Before) -> Shown:
    call = as_object(item["tool_call"])
    identifier, name = as_text(call.get("call_id")), as_text(call.get("name"))
    header: Header = {"id": identifier} if identifier else {}
    if description := scalar(call.get("description")):
        header["description"] = description
    blocks = document_blocks(as_text(call.get("args")), ("tool_call", "args"), "arguments")
    return Shown(Kind.TOOL_CALL, blocks, name, header, ((identifier, name),) if identifier else ())


def _tool_result(item: JsonObject, before: Before) -> Shown:
    result = as_object(item["tool_result"])
    identifier = as_text(result.get("call_id"))
    header: Header = {"id": identifier} if identifier else {}
    header["is_error"] = result.get("is_error") is True
    if isinstance(code := result.get("exit_code"), int):
        header["exit_code"] = code
    blocks = _text(result, ("tool_result", "content"))
    blocks += _output(item, result, ("tool_result",), ("content",), "output")
    return Shown(Kind.TOOL_RESULT, blocks, before.tool(identifier), header)


def _calls(item: JsonObject) -> Iterator[tuple[int, int, JsonObject]]:
    """Yield the calls of a turn, numbered from 1, each with its place in the list."""
    number = 0
    for at, call in enumerate(as_list(as_object(item.get("turn")).get("tool_calls"))):
        if isinstance(call, dict):
            number += 1
            yield number, at, call


def _about_call(call: JsonObject, header: Header, number: str) -> None:
    result, error = call.get("result"), call.get("error")
    if identifier := scalar(call.get("id")):
        header[f"id{number}"] = identifier
    if (status := scalar(call.get("status"))) and status != "complete":
        header[f"status{number}"] = status
    if description := scalar(call.get("description")):
        header[f"description{number}"] = description
    if isinstance(error, dict) or isinstance(as_object(result).get("success"), bool):
        header[f"is_error{number}"] = isinstance(error, dict) or as_object(result).get("success") is False
    for ended in (result, error):
        if isinstance(code := as_object(ended).get("exit_code"), int):
            header[f"exit_code{number}"] = code


def _call_blocks(item: JsonObject, call: JsonObject, at: int, named: str) -> tuple[Block, ...]:
    path = (*_CALLS, at)
    return (
        *document_blocks(as_text(call.get("args")), (*path, "args"), f"{named}arguments"),
        *_output(item, call, path, ("result", "content"), f"{named}output"),
        *_text(as_object(call.get("result")), (*path, "result", "content"), f"{named}result"),
        *_text(as_object(call.get("error")), (*path, "error", "message"), f"{named}error"),
    )


def _output(item: JsonObject, holder: JsonObject, path: Path, result: Path, name: str) -> tuple[Block, ...]:
    """Return what a tool put out while it ran, unless it is its result once more."""
    if holder.get("streaming_output") == value_at(item, (*path, *result)):
        return ()
    return _text(holder, (*path, "streaming_output"), name)


def _about_answer(header: Header, agent: object, model: object, stop: object) -> None:
    if said := scalar(agent):
        header["agent"] = said
    if said := scalar(model):
        header["model"] = said
    if (said := scalar(stop)) and said not in _USUAL_STOPS:
        header["stop_reason"] = said


def _text(holder: JsonObject, path: Path, name: str = "") -> tuple[Block, ...]:
    text = holder.get(str(path[-1]))
    return (Block("text", text, name=name, path=path),) if isinstance(text, str) and text else ()


VIEWS: dict[str, tuple[str, View]] = {
    "assistant": ("assistant", _assistant),
    "assistant_turn": ("turn", _assistant_turn),
    "handoff": ("handoff", _handoff),
    "system": ("system", _system),
    "tool_call": ("tool_call", _tool_call),
    "tool_result": ("tool_result", _tool_result),
    "user_input": ("user_input", _user_input),
}
"""By what ``item_type`` says: the field that holds it, and how it is seen."""
