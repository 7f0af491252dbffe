"""Messages: what was asked, thought, said, called and returned, a message of the model all of it together."""

from store.events.event import Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.chat_parts import Gathered, arguments, gather
from store.formats.gemini_cli.records import is_message
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Shown

REPLACED = "replaced"
"""As what a message is defined: a later record of the same id is an earlier state of it."""

_INJECTED = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_NOTES = frozenset(("error", "info", "warning"))
_OWN = frozenset(
    [
        "content",
        "displayContent",
        "id",
        "model",
        "parts",
        "role",
        "thoughts",
        "timestamp",
        "tokens",
        "toolCalls",
        "type",
    ]
)
_DONE = ("", "success")
_FAILED = ("cancelled", "error")


def view(record: JsonObject, before: Before) -> tuple[Shown, Gathered]:
    """View a record of any type; also returns where the fields of the head stand."""
    into = Gathered()
    if not is_message(record):
        return BOOKKEEPING, into
    identifier = as_text(record.get("id"))
    key = f"message {identifier}"
    if before.tool(key) == REPLACED:
        return Shown(Kind.RECORD, tool=REPLACED), into
    shown = _message(record, as_text(record.get("type")) or as_text(record.get("role")), into)
    defines = ((key, REPLACED), *shown.defines)
    return Shown(shown.kind, shown.blocks, shown.tool, shown.header, defines, shown.resources), into


def _message(record: JsonObject, what: str, into: Gathered) -> Shown:
    if (model := scalar(record.get("model"))) is not None:
        into.header["model"] = model
        into.places["model"] = ("model",)
    _thoughts(record, into)
    content = "content" if "content" in record else "parts"
    gather(record.get(content), (content,), "", into)
    if (displayed := record.get("displayContent")) is not None and displayed != record.get(content):
        gather(displayed, ("displayContent",), "display", into)
    for at, call in enumerate(as_list(record.get("toolCalls"))):
        if isinstance(call, dict):
            _call(call, ("toolCalls", at), into)
    if what in _NOTES:
        into.header["level"] = what
        into.places["level"] = ("type",)
        kind = Kind.NOTE
    elif into.calls:
        kind = Kind.TOOL_CALL
    elif into.results:
        kind = Kind.TOOL_RESULT
    elif what == "user":
        text = next((block.text for block in into.blocks if block.text and not block.name), "") or ""
        kind = Kind.SYSTEM if text.startswith(_INJECTED) else Kind.USER
    elif what in ("gemini", "model", "assistant"):
        kind = Kind.ASSISTANT if into.said else Kind.REASONING
    else:
        own = {key: value for key, value in record.items() if key not in _OWN}
        into.blocks += argument_blocks(own, (), "record")
        kind = Kind.NOTE
    if not into.blocks and kind is not Kind.TOOL_CALL:
        return BOOKKEEPING
    return Shown(kind, tuple(into.blocks), into.tool, into.header, tuple(into.defines), tuple(into.resources))


def _thoughts(record: JsonObject, into: Gathered) -> None:
    """Take in what the model thought: each thought has a heading and a text."""
    for at, thought in enumerate(as_list(record.get("thoughts"))):
        for key in ("subject", "description"):
            if isinstance(text := as_object(thought).get(key), str):
                into.text(text, ("thoughts", at, key), "thinking")


def _call(call: JsonObject, path: Path, into: Gathered) -> None:
    """Take in a call with what it returned."""
    label = into.call(call, path, "name", "id")
    if (status := as_text(call.get("status"))) not in _DONE:
        mark = f"_{into.calls}" if into.calls > 1 else ""
        into.header[f"status{mark}"] = status
        into.places[f"status{mark}"] = (*path, "status")
        if status in _FAILED:
            into.header[f"is_error{mark}"] = True
    arguments(call.get("args"), (*path, "args"), label, into)
    name = label.replace("arguments", "result")
    returned = call.get("result")
    shown = len(into.blocks)
    for at, part in enumerate(returned if isinstance(returned, list) else [returned]):
        place: Path = (*path, "result", at) if isinstance(returned, list) else (*path, "result")
        response = as_object(part).get("functionResponse")
        if isinstance(response, dict):
            _response(response.get("response"), (*place, "functionResponse", "response"), name, into)
        else:
            gather(part, place, name, into)
    if len(into.blocks) == shown:
        gather(call.get("resultDisplay"), (*path, "resultDisplay"), name, into)


def _response(response: object, path: Path, name: str, into: Gathered) -> None:
    held = as_object(response)
    for key in ("output", "error"):
        if held.keys() == {key} and isinstance(text := held[key], str):
            into.text(text, (*path, key), name)
            return
    into.blocks += argument_blocks(response, path, name)
