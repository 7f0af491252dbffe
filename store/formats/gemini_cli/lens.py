"""One record of a session as an event."""

from collections.abc import Iterable

from store.errors import UsageError
from store.events.edit import EventEdit
from store.events.event import Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats.editing import EditableLens, Place
from store.formats.gemini_cli import compose, messages, twins, usage
from store.formats.json_view import JsonObject, decode
from store.formats.lens import Before, Nothing
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is


class GeminiCliLens(EditableLens):
    """Sees messages. Of those with the same id the first one is shown: records are brought in in such an order."""

    type_name = "gemini-cli.record.v1"
    telling = usage.MAY_TELL

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a record tells of; what is no JSON is a note with its text, a list is bookkeeping."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        record = decoded.value
        if not isinstance(record, dict):
            return Event(Kind.RECORD, native=record, lossy=decoded.lossy)
        shown, _ = messages.view(record, before)
        return shown.event(record, milliseconds(record.get("timestamp")), lossy=decoded.lossy)

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """See :meth:`store.formats.lens.Lens.edit`."""
        edited = super().edit(payload, edit, before)
        if b"\n" in edited and b"\n" not in payload:
            raise UsageError("this record is one line of its file: keep it on one line")
        return edited

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what a message took."""
        return usage.usage(record), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a message holds field ``key``."""
        if key == "timestamp":
            return Place(("timestamp",))
        _, gathered = messages.view(record, Nothing())
        return Place(gathered.places[key]) if key in gathered.places else None

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield where else a message says the same."""
        return twins.twins(record, path, old, new)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a message that follows ``previous``."""
        return compose.compose(kind, text, previous, now_ms)
