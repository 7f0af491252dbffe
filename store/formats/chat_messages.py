"""Messages, items and answers of the model vendors' APIs as events.

``{"role": …, "content": …}`` of Anthropic's Messages and OpenAI's Chat Completions, ``{"role": …, "parts": […]}`` of
Gemini, and the items of OpenAI's Responses (``{"type": "function_call", …}``).
"""

from collections.abc import Sequence

from store.events.event import Block, Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.chat_parts import Gathered, arguments, gather
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode, is_object
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Shown

ROLES: dict[str, Kind] = {
    "ai": Kind.ASSISTANT,
    "assistant": Kind.ASSISTANT,
    "developer": Kind.SYSTEM,
    "function": Kind.TOOL_RESULT,
    "human": Kind.USER,
    "model": Kind.ASSISTANT,
    "supervisor": Kind.SYSTEM,
    "system": Kind.SYSTEM,
    "tool": Kind.TOOL_RESULT,
    "user": Kind.USER,
}
"""What the speakers of messages are called."""

ITEMS = frozenset(
    [
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "file_search_call",
        "function_call",
        "function_call_output",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "reasoning",
        "shell_call",
        "shell_call_output",
        "web_search_call",
    ]
)
"""The types of the items of a Responses request that are no messages."""

_ENVELOPE = frozenset(("type", "id", "status", "call_id"))
_PLAIN = frozenset(("role", "content"))
_THOUGHTS = ("reasoning_content", "reasoning")
_USUAL_STOPS = frozenset(("end_turn", "function_call", "stop", "stop_sequence", "tool_calls", "tool_use", "STOP"))


def is_message(value: object) -> bool:
    """Say whether a parsed value is a message or an item."""
    if not is_object(value):
        return False
    if as_text(value.get("role")) in ROLES:
        return "content" in value or "parts" in value or "tool_calls" in value or "function_call" in value
    return as_text(value.get("type")) in ITEMS or (value.keys() == {"parts"} and isinstance(value["parts"], list))


def message(record: JsonObject, before: Before) -> Shown:
    """View a message or an item."""
    gathered = Gathered()
    kind = gather_message(record, (), gathered)
    return shown(kind, gathered, before)


def shown(kind: Kind, gathered: Gathered, before: Before) -> Shown:
    """Return what was gathered of a message of a ``kind``."""
    if kind is Kind.TOOL_RESULT and gathered.asked:
        gathered.tool = before.tool(gathered.asked)
    if not gathered.blocks and kind not in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
        return BOOKKEEPING
    return Shown(
        kind,
        tuple(_named(gathered.blocks)),
        gathered.tool,
        gathered.header,
        tuple(gathered.defines),
        tuple(gathered.resources),
    )


def first_request(records: Sequence[bytes]) -> str:
    """Return the first text of a user's message among records, "" where there is none."""
    for record in records:
        decoded = decode(record)
        if decoded is None or not is_object(decoded.value) or not is_message(decoded.value):
            continue
        gathered = Gathered()
        if gather_message(decoded.value, (), gathered) is Kind.USER:
            text = next((block.text for block in gathered.blocks if block.text), "")
            if text:
                return text
    return ""


def gather_message(record: JsonObject, path: Path, into: Gathered) -> Kind:
    """Take in a message or an item that stands at ``path``; return what kind of event it is."""
    what = as_text(record.get("type"))
    if "role" not in record and what in ITEMS:
        return _item(record, what, path, into)
    kind = ROLES.get(as_text(record.get("role")), Kind.USER if "parts" in record else Kind.NOTE)
    if record.keys() == _PLAIN and kind is not Kind.TOOL_RESULT:
        gather(record["content"], (*path, "content"), "", into)
        return _kind(kind, into)
    if record.get("role") in ("tool", "function"):
        into.result(record, path, "tool_call_id" if "tool_call_id" in record else "name")
    for key in _THOUGHTS:
        if text := as_text(record.get(key)):
            into.text(text, (*path, key), "thinking")
            break
    for key in ("content", "parts"):
        gather(record.get(key), (*path, key), "", into)
    into.text(as_text(record.get("refusal")), (*path, "refusal"), "refusal")
    for at, call in enumerate(as_list(record.get("tool_calls"))):
        _call(as_object(call), (*path, "tool_calls", at), into)
    if is_object(called := record.get("function_call")):
        name = into.call(called, (*path, "function_call"), "name", "id")
        arguments(called.get("arguments"), (*path, "function_call", "arguments"), name, into)
    _model(record, path, into)
    return _kind(kind, into)


def gather_answer(record: JsonObject, path: Path, into: Gathered) -> Kind:
    """Take in the answer to a request, or one of several that a model gave; return what kind of event it is."""
    for at, choice in enumerate(as_list(record.get("choices"))):
        gather_answer(as_object(choice), (*path, "choices", at), into)
    for at, candidate in enumerate(as_list(record.get("candidates"))):
        gather_answer(as_object(candidate), (*path, "candidates", at), into)
    for at, item in enumerate(as_list(record.get("output"))):
        gather_message(as_object(item), (*path, "output", at), into)
    for key in ("message", "content"):
        if is_object(said := record.get(key)):
            gather_message(said, (*path, key), into)
    if "role" in record:
        gather_message(record, path, into)
    if is_object(error := record.get("error")):
        into.text(as_text(error.get("message")), (*path, "error", "message"), "error")
    _model(record, path, into)
    return _kind(Kind.ASSISTANT, into)


def _item(record: JsonObject, what: str, path: Path, into: Gathered) -> Kind:
    if what == "reasoning":
        for key in ("summary", "content"):
            gather(record.get(key), (*path, key), "thinking", into)
        return Kind.REASONING
    if what == "item_reference":
        return Kind.RECORD
    if what.endswith(("_output", "_response")):
        into.result(record, path, "call_id")
        gather(record.get("output"), (*path, "output"), "", into)
        return Kind.TOOL_RESULT
    if what == "mcp_list_tools":
        return Kind.RECORD
    label = into.call(record, path, "name", "call_id" if "call_id" in record else "id")
    into.tool = into.tool or what.removesuffix("_call")
    for key in ("arguments", "input", "action"):
        if key in record:
            arguments(record[key], (*path, key), label, into)
            return Kind.TOOL_CALL
    own = {key: value for key, value in record.items() if key not in _ENVELOPE}
    into.blocks += argument_blocks(own, path, label)
    return Kind.TOOL_CALL


def _call(call: JsonObject, path: Path, into: Gathered) -> None:
    """Take in one of the calls of a Chat Completions message: a function's, or that of a tool of free input."""
    key = "function" if "function" in call else as_text(call.get("type"))
    called = as_object(call.get(key))
    name = into.call({**called, "id": call.get("id")}, path, "name", "id")
    number = f"_{into.calls}" if into.calls > 1 else ""
    into.places[f"tool{number}"] = (*path, key, "name")
    for held in ("arguments", "input"):
        if held in called:
            arguments(called[held], (*path, key, held), name, into)


def _model(record: JsonObject, path: Path, into: Gathered) -> None:
    if model := as_text(record.get("model")):
        into.header["model"] = model
        into.places["model"] = (*path, "model")
    for key in ("stop_reason", "finish_reason", "finishReason"):
        stop = as_text(record.get(key))
        if stop and stop not in _USUAL_STOPS:
            into.header["stop_reason"] = stop
            into.places["stop_reason"] = (*path, key)


def _kind(kind: Kind, gathered: Gathered) -> Kind:
    if gathered.calls:
        return Kind.TOOL_CALL
    if gathered.results:
        return Kind.TOOL_RESULT
    if kind is Kind.ASSISTANT and gathered.blocks and not gathered.said:
        return Kind.REASONING
    return kind


def _named(blocks: list[Block]) -> list[Block]:
    """Return blocks, those of structured values under names of their own; a lone thought needs no name."""
    if len(blocks) == 1 and blocks[0].name == "thinking" and blocks[0].type == "text":
        block = blocks[0]
        return [Block("text", block.text, path=block.path)]
    return blocks
