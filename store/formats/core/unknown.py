"""Lenses for payloads that belong to no tool: those of unknown types, and those that are a bare text.

``text.assistant.v1`` and its like hold a message in UTF-8. Programs that stream a model's answer append these: the text
can be shown, and is the same, from its first word on.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import structs

from store.errors import UsageError
from store.events.event import Block, Compaction, Event, Kind
from store.formats.core.composing import Particulars
from store.formats.core.editing import Lens
from store.formats.core.json_view import decode, pretty
from store.formats.core.lens import Before, Header, as_it_is, is_utf8

MOST_IN_HEX = 64 << 10
"""Bytes beyond these are not shown in hexadecimal."""

_LINE = 16
_PRINTED = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in range(256))


class UnknownLens(Lens):
    """Sees payloads of types that nothing is registered for: pretty JSON, else text, else hexadecimal."""

    type_name = ""

    def view(self, payload: bytes, before: Before) -> Event:
        decoded = decode(payload)
        if decoded is not None:
            block = Block("json", pretty(decoded.value))
            return Event(Kind.NOTE, blocks=(block,), native=decoded.value, lossy=decoded.lossy)
        if b"\0" not in payload and is_utf8(payload):
            return as_it_is(payload)
        header: Header = {"shown_as": "hex", "bytes": len(payload)}
        if len(payload) > MOST_IN_HEX:
            header["shown"] = MOST_IN_HEX
        return Event(Kind.NOTE, header=header, blocks=(Block("text", in_hex(payload[:MOST_IN_HEX])),), lossy=True)


def in_hex(data: bytes) -> str:
    """Return bytes in hexadecimal, 16 a line: the offset of the first, the bytes, the ASCII ones as text."""
    lines = []
    for offset in range(0, len(data), _LINE):
        part = data[offset : offset + _LINE]
        lines.append(f"{offset:08x}  {part.hex(' '):<{_LINE * 3 - 1}}  |{part.translate(_PRINTED).decode()}|")
    return "\n".join(lines)


KINDS = (Kind.SYSTEM, Kind.USER, Kind.ASSISTANT, Kind.REASONING, Kind.SUMMARY, Kind.NOTE)
"""The kinds of events that are a text and nothing else."""


class TextLens(Lens):
    """Sees payloads that are a text as events of one kind; blank ones are bookkeeping."""

    writes = KINDS
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, "a record is a text and nothing else")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.type_name = type_named(kind)

    def view(self, payload: bytes, before: Before) -> Event:
        event = as_it_is(payload, self.kind)
        if event.kind is Kind.SUMMARY:
            return structs.replace(event, compaction=Compaction(event.blocks))
        return event

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        if kind is not self.kind:
            raise UsageError(f"a record of type {self.type_name} is no {kind.word} that can be written")
        if not text.strip():
            raise UsageError("there is nothing to say: write a text")
        return text.encode("utf-8", "replace")


def type_named(kind: Kind) -> str:
    """Return the type of texts of a kind."""
    return f"text.{kind.name.lower()}.v1"


TEXT_LENSES = tuple(TextLens(kind) for kind in KINDS)
