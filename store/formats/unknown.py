"""Payloads that no format knows: shown as what they are."""

from store.events.event import Block, Event, Kind
from store.formats.editing import EditableLens
from store.formats.json_view import decode, pretty
from store.formats.lens import Before


def as_it_is(payload: bytes) -> Event:
    """Return a note that holds the text of a payload as it is, a damaged line for instance; blank ones are records."""
    text = payload.decode("utf-8", "replace")
    if not text.strip():
        return Event(Kind.RECORD)
    return Event(Kind.NOTE, blocks=(Block("text", text),), lossy="\ufffd" in text and not _is_utf8(payload))


class UnknownLens(EditableLens):
    """Sees payloads of types that nothing is registered for: pretty JSON, else text, else hexadecimal."""

    type_name = ""

    def view(self, payload: bytes, before: Before) -> Event:
        """Return a note that shows ``payload``."""
        decoded = decode(payload)
        if decoded is not None:
            block = Block("json", pretty(decoded.value))
            return Event(Kind.NOTE, blocks=(block,), native=decoded.value, lossy=decoded.lossy)
        if b"\0" not in payload and _is_utf8(payload):
            return as_it_is(payload)
        return Event(Kind.NOTE, header={"shown_as": "hex"}, blocks=(Block("text", payload.hex(" ", 2)),), lossy=True)


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
