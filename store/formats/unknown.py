"""Payloads that no format knows: shown as what they are."""

from store.events.event import Block, Event, Kind
from store.formats.editing import EditableLens
from store.formats.json_view import decode, pretty
from store.formats.lens import Before
from store.formats.shown import Header


def as_it_is(payload: bytes, kind: Kind = Kind.NOTE) -> Event:
    """Return an event that holds the text of a payload as it is, a damaged line for instance; blank ones are records.

    It is a note, unless another ``kind`` is given.
    """
    text = payload.decode("utf-8", "replace")
    if not text.strip():
        return Event(Kind.RECORD)
    return Event(kind, blocks=(Block("text", text),), lossy="\ufffd" in text and not _is_utf8(payload))


MOST_IN_HEX = 64 << 10
"""Bytes beyond these are not shown in hexadecimal."""

_LINE = 16
_PRINTED = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in range(256))


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
        header: Header = {"shown_as": "hex", "bytes": len(payload)}
        if len(payload) > MOST_IN_HEX:
            header["shown"] = MOST_IN_HEX
        return Event(Kind.NOTE, header=header, blocks=(Block("text", in_hex(payload[:MOST_IN_HEX])),), lossy=True)


def in_hex(data: bytes) -> str:
    """Return bytes in hexadecimal, 16 a line: the offset of the first, the bytes, what of them is ASCII."""
    lines = []
    for offset in range(0, len(data), _LINE):
        part = data[offset : offset + _LINE]
        lines.append(f"{offset:08x}  {part.hex(' '):<{_LINE * 3 - 1}}  |{part.translate(_PRINTED).decode()}|")
    return "\n".join(lines)


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
