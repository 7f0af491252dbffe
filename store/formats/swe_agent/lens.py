"""Messages and steps of a trajectory as events."""

from collections.abc import Iterable

from store.errors import UsageError
from store.events.event import Block, Event, Kind, Path
from store.events.usage import Running, Tokens, Usage
from store.formats.blocks import argument_blocks
from store.formats.chat_messages import gather_message, shown
from store.formats.chat_parts import Gathered
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode, is_object, scalar
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.token_counts import count, dollars
from store.formats.twins import carried
from store.formats.unknown import as_it_is

_LAST_ACTION = "action"
"""The key under which a message that calls a tool without an id of the call is asked for."""
_RESULT_OF_RUN = frozenset(("exit_status", "submission", "model_stats"))
_SAID_AGAIN = ("thought", "action")


class SweAgentLens(EditableLens):
    """Sees what a trajectory's ``history`` holds, or its steps where it has none; and how the run ended."""

    type_name = "swe-agent.record.v1"
    telling = (b'"model_stats"',)

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a record tells of; steps that the history repeats are bookkeeping."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        record = decoded.value
        seen = _view(record, before) if is_object(record) else BOOKKEEPING
        return Event(
            seen.kind, seen.tool, seen.header, seen.blocks, 0, 0, seen.defines, seen.resources, record, decoded.lossy
        )

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what all answers of a run took, which its end tells."""
        told = as_object(record.get("model_stats"))
        tokens = Tokens(count(told, "tokens_sent"), count(told, "tokens_received"))
        cost = dollars(told.get("instance_cost"))
        return (Usage("", "", tokens, cost or None) if tokens.total or cost else None), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a message holds field ``key``. Raises UsageError for the tool of a result."""
        if key == "tool" and "tool_calls" not in record:
            raise UsageError("the tool is the first word of the action: change that")
        if key == "id" and "tool_call_ids" in record:
            return Place(("tool_call_ids", 0))
        if key == "exit_status":
            return Place((key,))
        gathered = Gathered()
        gather_message(record, (), gathered)
        path = gathered.places.get(key)
        return Place(path) if path else None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield the thought and the action that were taken out of what the model said, or out of its call."""
        for key in _SAID_AGAIN:
            twin = record.get(key)
            if path != (key,) and isinstance(twin, str) and (now := carried(twin, old, new)) is not None:
                yield (key,), now


def _view(record: JsonObject, before: Before) -> Shown:
    if "role" in record:
        return _message(record, before)
    if "action" in record and ("observation" in record or "response" in record):
        return _step(record)
    if record.keys() & _RESULT_OF_RUN:
        header: Header = {}
        own = dict(record)
        if (status := scalar(record.get("exit_status"))) is not None:
            header["exit_status"] = status
            del own["exit_status"]
        return Shown(Kind.SUMMARY, argument_blocks(own, (), "info"), header=header)
    return Shown(Kind.CONFIG, argument_blocks(record, (), "config"))


def _message(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    kind = gather_message(record, (), gathered)
    action = as_text(record.get("action"))
    if kind is Kind.ASSISTANT and (action.strip() or _runs_commands(record)):
        kind = Kind.TOOL_CALL
        gathered.tool = _tool(action) or "bash"
    if kind is Kind.TOOL_CALL:
        gathered.defines.append((_LAST_ACTION, gathered.tool))
    if record.get("is_demo") is True:
        gathered.header["demonstration"] = True
        return shown(Kind.USER if kind is Kind.USER else kind, gathered, before)
    if kind is Kind.TOOL_RESULT and (calls := as_list(record.get("tool_call_ids"))):
        gathered.asked = as_text(calls[0])
        gathered.header = {"id": gathered.asked} if gathered.asked else {}
    elif kind is Kind.USER and (tool := before.tool(_LAST_ACTION)):
        gathered.tool = tool
        kind = Kind.TOOL_RESULT
    return shown(kind, gathered, before)


def _runs_commands(record: JsonObject) -> bool:
    """Say whether a message of the mini version asks for commands: they stand in its text, and beside it."""
    extra = as_object(record.get("extra"))
    return bool(extra) and (bool(extra.get("actions")) or "```bash\n" in as_text(record.get("content")))


def _step(record: JsonObject) -> Shown:
    """View a step: what the model said, and what came of it."""
    said = "response" if as_text(record.get("response")) else "thought"
    blocks = [Block("text", text, path=(said,))] if (text := as_text(record.get(said))) else []
    action = as_text(record.get("action"))
    if action and action.strip() not in text:
        blocks.append(Block("text", action, name="action", path=("action",)))
    if observed := as_text(record.get("observation")):
        blocks.append(Block("text", observed, name="observation", path=("observation",)))
    return Shown(Kind.TOOL_CALL, tuple(blocks), _tool(action))


def _tool(action: str) -> str:
    """Return the first word of an action, the command that it runs."""
    return (action.split(None, 1) or [""])[0][:100]
