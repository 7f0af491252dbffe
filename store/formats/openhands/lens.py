"""One event of a trajectory, as an event."""

from collections.abc import Iterable

from store.errors import UsageError
from store.events.event import Event, Path
from store.events.usage import Running, Usage
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode, is_object
from store.formats.lens import Before
from store.formats.nested import document_in
from store.formats.new_literals import spell
from store.formats.openhands import usage
from store.formats.openhands.events import CALL, TOOL, event, key_of
from store.formats.shown import BOOKKEEPING
from store.formats.splices import put
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

_ANSWER: Path = ("tool_call_metadata", "model_response", "choices", 0, "message")
_PLACES: dict[str, Path] = {
    "id": CALL,
    "instance_id": ("instance_id",),
    "model_name_or_path": ("model_name_or_path",),
    "tool": TOOL,
}
_LATER_PLACES: dict[str, Path] = {"id": ("tool_call_id",), "tool": ("tool_name",)}


class OpenHandsLens(EditableLens):
    """Sees events; states, acknowledgements and what an evaluation measured are bookkeeping."""

    type_name = "openhands.event.v1"
    telling = usage.MAY_TELL

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a record tells of; damaged ones are notes."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        record = decoded.value
        seen = event(record, before) if is_object(record) else BOOKKEEPING
        time = milliseconds(record.get("timestamp")) if is_object(record) else 0
        if not is_object(record):
            return Event(seen.kind, native=record, lossy=decoded.lossy)
        defines = seen.defines
        if (key := key_of(record.get("id"))) and all(key != defined for defined, _tool in defines):
            defines = (*defines, (key, ""))
        return seen.event(record, time, lossy=decoded.lossy, defines=defines)

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what the answer behind an event took."""
        return usage.usage(record), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where an event holds field ``key``. Raises UsageError for what comes from another one."""
        if key == "is_error":
            if "observation" in record and isinstance(record["observation"], dict):
                return Place(("observation", "is_error"))
            raise UsageError("an error is a kind of observation: it cannot be changed")
        if key == "exit_code":
            extras = as_object(record.get("extras"))
            held: Path = ("extras", "metadata") if "exit_code" in as_object(extras.get("metadata")) else ("extras",)
            return Place((*held, "exit_code"))
        if key == "tool" and "tool_call_metadata" not in record and "tool_name" not in record:
            raise UsageError("the tool is what the action is called, here or in the event that it answers")
        path = (_LATER_PLACES if "kind" in record else _PLACES).get(key)
        return Place(path) if path else None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield what else an event says of itself: its message in short, and the model's own answer."""
        if record.get("message") == old:
            yield ("message",), new
        metadata = as_object(record.get("tool_call_metadata"))
        choices = as_list(as_object(metadata.get("model_response")).get("choices"))
        answer = as_object(as_object(choices[0]).get("message")) if choices else {}
        if path == ("args", "thought") and answer.get("content") == old:
            yield (*_ANSWER, "content"), new
        for at, call in enumerate(as_list(answer.get("tool_calls"))):
            held = as_text(as_object(as_object(call).get("function")).get("arguments"))
            document = document_in(held)
            if path[:1] == ("args",) and isinstance(document, dict):
                for key, value in document.items():
                    if value == old and len(path) == 2:
                        said = held.encode()
                        changed = put(said, (key,), spell(new, said)).decode()
                        yield (*_ANSWER, "tool_calls", at, "function", "arguments"), changed
                        break
