"""One line of a rollout as an event."""

from collections.abc import Iterable, Mapping

from store.events.event import Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats.codex import compose, echoes, events, fields, items, notes, usage
from store.formats.codex.records import said
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, decode
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

_VIEWS: dict[str, items.View] = {
    "compacted": notes.compacted,
    "event_msg": events.event,
    "response_item": items.item,
    "session_meta": notes.session_meta,
}
_IS_ITEM = (items.ITEMS, items.SAID)
_QUIET = frozenset(("inter_agent_communication_metadata", "state", "turn_context", "world_state"))


class CodexLens(EditableLens):
    """Sees lines of a rollout. What an item and an event both say is shown once, as the item, which the model gets.

    An edit of the item is one of the event, too.
    """

    type_name = "codex.line.v1"
    one_line = True
    reach = 32
    telling = usage.MAY_TELL
    counts_on = True

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a line tells of; a line that is no JSON object is a note with its text."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        line = decoded.value
        what, value, base = said(line)
        shown = BOOKKEEPING if what in _QUIET else _VIEWS.get(what, items.unknown)(value, base, before)
        defines = (_IS_ITEM, *shown.defines) if what == "response_item" else shown.defines
        time_ms = milliseconds(line.get("timestamp"))
        return shown.event(line, time_ms, lossy=decoded.lossy, defines=defines)

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what the answer before a line took, and what session and model go on."""
        return usage.usage(record, running)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a line holds field ``key``."""
        return fields.place(record, key)

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield the other members of a command's event that hold its output."""
        what, value, base = said(record)
        if what == "event_msg" and value.get(path[-1] if isinstance(path[-1], str) else "") == old:
            yield from (((*base, key), new) for key, _ in events.repeated_outputs(value) if (*base, key) != path)

    def echoes(
        self, old: bytes, new: bytes, before: Iterable[tuple[int, bytes]], after: Iterable[tuple[int, bytes]]
    ) -> Mapping[int, bytes]:
        """Return the events that repeat an item."""
        return echoes.echoes(old, new, before, after)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a line that follows ``previous``."""
        return compose.compose(kind, text, previous, now_ms)
