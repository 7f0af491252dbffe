"""Actions and observations of OpenHands, and the events of its later software kit, by what they are.

An action has ``action`` and ``args``, an observation ``observation``, ``content`` and ``extras``; both may name the
model's call (``tool_call_metadata``). Later events have a ``kind``.
"""

from collections.abc import Iterable

from msgspec import structs

from store.events.event import Block, Compaction, Kind, Path, Resource
from store.formats.blocks import argument_blocks
from store.formats.chat_messages import gather_message, shown
from store.formats.chat_parts import Gathered, arguments, gather
from store.formats.json_view import JsonObject, as_list, as_object, as_text, is_object, scalar
from store.formats.lens import Before
from store.formats.media import file_uri, mime_of
from store.formats.shown import BOOKKEEPING, Header, Shown, View

_SPEAKERS = {"agent": Kind.ASSISTANT, "environment": Kind.SYSTEM, "user": Kind.USER}
_BOOKKEEPING_ACTIONS = frozenset(
    ["change_agent_state", "condensation_request", "loop_recovery", "null", "recall", "start_hook_execution"]
)
_BOOKKEEPING_OBSERVATIONS = frozenset(["agent_state_changed", "null"])
_NO_ARGUMENTS = frozenset(
    ["blocking", "confirmation_state", "hidden", "is_confirmed", "is_input", "is_static", "security_risk", "thought"]
)
_CALL: Path = ("tool_call_metadata",)
TOOL: Path = (*_CALL, "function_name")
CALL: Path = (*_CALL, "tool_call_id")
_FILES = frozenset(("edit", "read", "write"))
_MOST_FORGOTTEN = 1 << 20
"""Events that a summary takes the place of, whatever numbers it tells."""


def event(record: JsonObject, before: Before) -> Shown:
    """View a record of a trajectory."""
    if isinstance(what := record.get("action"), str):
        return _action(record, what)
    if isinstance(what := record.get("observation"), str):
        return _observation(record, what, before)
    if isinstance(what := record.get("kind"), str):
        return (_LATER.get(what, _other))(record, before)
    if "role" in record:
        gathered = Gathered()
        return shown(gather_message(record, (), gathered), gathered, before)
    if isinstance(patch := record.get("model_patch", record.get("git_patch")), str):
        return _prediction(record, patch)
    return BOOKKEEPING


def is_event(value: object) -> bool:
    """Say whether a parsed value is an event of a trajectory."""
    if not is_object(value) or not ("timestamp" in value or "source" in value or "id" in value):
        return False
    if isinstance(value.get("action"), str):
        return is_object(value.get("args"))
    if isinstance(value.get("observation"), str):
        return "extras" in value or "content" in value
    return "timestamp" in value and "source" in value and as_text(value.get("kind")) in _LATER


def _action(record: JsonObject, what: str) -> Shown:
    if what in _BOOKKEEPING_ACTIONS:
        return BOOKKEEPING
    args = as_object(record.get("args"))
    if what in ("message", "system"):
        kind = Kind.SYSTEM if what == "system" else _SPEAKERS.get(as_text(record.get("source")), Kind.NOTE)
        return _texts(kind, (("content", ""),), args)
    if what == "think":
        return _texts(Kind.REASONING, (("thought", ""),), args)
    if what in ("finish", "reject"):
        return _texts(Kind.ASSISTANT, (("thought", ""), ("final_thought", "final_thought")), args)
    if what == "condensation":
        return _compacting(_texts(Kind.SUMMARY, (("summary", ""),), args), args)
    tool = as_text(as_object(record.get("tool_call_metadata")).get("function_name")) or what
    own = {key: value for key, value in args.items() if value is not None and key not in _NO_ARGUMENTS}
    thought = as_text(args.get("thought"))
    blocks: tuple[Block, ...] = (Block("text", thought, path=("args", "thought")),) if thought else ()
    blocks += argument_blocks(own, ("args",), "arguments")
    header = _call(record)
    defines = tuple((key, tool) for key in (as_text(header.get("id")), key_of(record.get("id"))) if key)
    return Shown(Kind.TOOL_CALL, blocks, tool, header, defines)


def _observation(record: JsonObject, what: str, before: Before) -> Shown:
    extras = as_object(record.get("extras"))
    content = as_text(record.get("content"))
    if what in _BOOKKEEPING_OBSERVATIONS or (what == "recall" and not content):
        return BOOKKEEPING
    blocks = (Block("text", content, path=("content",)),) if content else ()
    if what == "recall":
        return Shown(Kind.SYSTEM, blocks)
    header = _call(record)
    tool = as_text(as_object(record.get("tool_call_metadata")).get("function_name"))
    tool = tool or before.tool(key_of(record.get("cause"))) or what
    code = scalar(as_object(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
    if code is not None:
        header["exit_code"] = code
    if what == "error":
        header["is_error"] = True
    path = as_text(extras.get("path"))
    read = what in _FILES and path.startswith("/") and content
    resources = (Resource(file_uri(path), mime_of(path), content, ("content",)),) if read else ()
    return Shown(Kind.TOOL_RESULT, blocks, tool, header, (), resources)


def _prediction(record: JsonObject, patch: str) -> Shown:
    """View what an evaluation was handed in: the patch that came of a run."""
    key = "model_patch" if "model_patch" in record else "git_patch"
    header: Header = {}
    for name in ("instance_id", "model_name_or_path"):
        if (said := scalar(record.get(name))) is not None:
            header[name] = said
    blocks = (Block("text", patch, name="patch", path=(key,)),) if patch else ()
    return Shown(Kind.SUMMARY, blocks, header=header) if blocks else BOOKKEEPING


def _texts(kind: Kind, keys: tuple[tuple[str, str], ...], args: JsonObject) -> Shown:
    blocks = tuple(
        Block("text", text, name=name, path=("args", key)) for key, name in keys if (text := as_text(args.get(key)))
    )
    return Shown(kind, blocks) if blocks else BOOKKEEPING


def _call(record: JsonObject) -> Header:
    call = as_text(as_object(record.get("tool_call_metadata")).get("tool_call_id"))
    return {"id": call} if call else {}


def key_of(value: object) -> str:
    """Return the key of an event by its own id, "" for what is none."""
    return f"event {value}" if (value and isinstance(value, str)) or type(value) is int else ""


def _compacting(shown: Shown, said: JsonObject) -> Shown:
    """Return a summary as that of the events whose ids stand in ``said``, in a list or as the first and the last."""
    first, last = said.get("forgotten_events_start_id"), said.get("forgotten_events_end_id")
    ids: Iterable[object] = as_list(said.get("forgotten_event_ids"))
    if isinstance(first, int) and isinstance(last, int):
        ids = range(first, min(last, first + _MOST_FORGOTTEN) + 1)
    forgotten = tuple(key for key in map(key_of, ids) if key)
    if not forgotten or shown.kind is not Kind.SUMMARY:
        return shown
    return structs.replace(shown, compaction=Compaction(shown.blocks, forgotten=forgotten))


# -- events of the software kit --------------------------------------------------------------------------------------


def _message(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    kind = gather_message(as_object(record.get("llm_message")), ("llm_message",), gathered)
    return shown(kind, gathered, before)


def _system_prompt(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    gather(record.get("system_prompt"), ("system_prompt",), "", gathered)
    return shown(Kind.SYSTEM, gathered, before)


def _called(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    gathered.text(as_text(record.get("reasoning_content")), ("reasoning_content",), "thinking")
    gather(record.get("thought"), ("thought",), "", gathered)
    label = gathered.call(record, (), "tool_name", "tool_call_id")
    own = {key: value for key, value in as_object(record.get("action")).items() if key != "kind"}
    arguments(own, ("action",), label, gathered)
    return shown(Kind.TOOL_CALL, gathered, before)


def _returned(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    observed = as_object(record.get("observation"))
    gathered.result(record, (), "tool_call_id")
    if "is_error" in observed:
        gathered.failed(observed, ("observation",), "is_error")
    for key in ("content", "output", "error"):
        gather(observed.get(key), ("observation", key), "" if key == "content" else key, gathered)
    if not gathered.blocks:
        own = {key: value for key, value in observed.items() if key not in ("is_error", "kind")}
        arguments(own, ("observation",), "observation", gathered)
    return shown(Kind.TOOL_RESULT, gathered, before)


def _failed(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    gathered.result(record, (), "tool_call_id")
    for key in ("error", "detail", "rejection_reason"):
        gathered.text(as_text(record.get(key)), (key,))
    kind = Kind.TOOL_RESULT if gathered.asked else Kind.NOTE
    return shown(kind, gathered, before)


def _condensed(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    gathered.text(as_text(record.get("summary")), ("summary",))
    return _compacting(shown(Kind.SUMMARY, gathered, before), record)


def _other(record: JsonObject, before: Before) -> Shown:
    return BOOKKEEPING


_LATER: dict[str, View] = {
    "ActionEvent": _called,
    "AgentErrorEvent": _failed,
    "Condensation": _condensed,
    "CondensationRequest": _other,
    "ConversationErrorEvent": _failed,
    "ConversationStateUpdateEvent": _other,
    "MessageEvent": _message,
    "ObservationEvent": _returned,
    "PauseEvent": _other,
    "SystemPromptEvent": _system_prompt,
    "TokenEvent": _other,
    "UserRejectObservation": _failed,
}
"""Events of OpenHands' software kit, by ``kind``."""
