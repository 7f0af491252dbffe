"""JP's events, one an element of ``events.json``, and the configuration that a conversation began with."""

from store.events.event import Event, Kind, Path
from store.formats.blocks import Decode, argument_blocks
from store.formats.editing import EditableLens, Place
from store.formats.jp import editing
from store.formats.jp.encoding import plain_text
from store.formats.jp.events import VIEWS, unknown
from store.formats.json_view import JsonObject, decode
from store.formats.lens import Before
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is


class JpEventLens(EditableLens):
    """Sees events of a JP conversation. Types that are not known are notes that hold their JSON."""

    type_name = "jp.event.v1"

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that an element of ``events.json`` tells of."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        stored = decoded.value
        what = stored.get("type")
        shown = (VIEWS.get(what, unknown) if isinstance(what, str) else unknown)(stored, before)
        header = shown.header
        stamp = stored.get("timestamp")
        if (time := milliseconds(stamp)) and isinstance(stamp, str) and shown.kind is not Kind.RECORD:
            # JP counts microseconds; the event's own time would lose them.
            header = {**header, "timestamp": _in_iso(stamp)}
        return shown.event(stored, time, lossy=decoded.lossy, header=header)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where an event holds field ``key``."""
        return editing.place(record, key)

    def decoder(self, record: JsonObject, path: Path) -> Decode | None:
        """Return what reads base64, for arguments and results."""
        return plain_text if editing.is_read_through_base64(record, path) else None

    def written(self, payload: bytes, path: Path, text: str) -> bytes:
        """Return ``payload`` with ``text`` in the place of a reference to a blob."""
        return editing.written(payload, path, text)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a request or an answer."""
        return editing.compose(kind, text, previous, now_ms)


class JpConfigLens(EditableLens):
    """Sees ``base_config.json``."""

    type_name = "jp.config.v1"

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the configuration as JSON, its prompts as text."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        blocks = argument_blocks(decoded.value, (), "config")
        return Event(Kind.CONFIG, blocks=blocks, native=decoded.value, lossy=decoded.lossy)


def _in_iso(stamp: str) -> str:
    """Spell JP's ``2026-03-05 23:12:34.3``, which is in UTC, as ISO 8601 does."""
    return stamp.replace(" ", "T") + "Z" if " " in stamp else stamp
