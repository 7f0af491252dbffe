"""Notes: frames of the head log that tell of single turns, and of turns that are still being written.

The frames themselves are those of ``store.disk.head_format``; here are the bodies of some, little-endian, each layout
with its class.
"""

from struct import Struct as Layout

from msgspec import Struct

from store.ids import HASH_SIZE, Hash

_APPENDED = Layout("<QQ")
_FS_ROOT = Layout("<Q32s")
_OPENED = Layout("<QIQ")
_TEXT_ADDED = Layout("<QQQ")
_CLOSED = Layout("<QQ")


class Appended(Struct, frozen=True, gc=False):
    """Kind 10: ``turn u64 | time_ms u64 | key``. A client appended ``turn`` to a context under a key of its own."""

    turn: int
    time_ms: int
    key: bytes


class FsRoot(Struct, frozen=True, gc=False):
    """Kind 11: ``turn u64 | root[32]``. The files that a turn was made with are those of the tree ``root``."""

    turn: int
    root: Hash


class Opened(Struct, frozen=True, gc=False):
    """Kind 12: ``tag u64 | codec u32 | time_ms u64``. A turn of a context is being written; its number is the seq."""

    tag: int
    codec: int
    time_ms: int


class TextAdded(Struct, frozen=True, gc=False):
    """Kind 13: ``number u64 | offset u64 | time_ms u64 | text``. It goes on with a text at ``offset``, veiled."""

    number: int
    offset: int
    time_ms: int
    text: bytes


class Closed(Struct, frozen=True, gc=False):
    """Kind 14: ``number u64 | turn u64``. An open turn was sealed as ``turn``, or dropped (0)."""

    number: int
    turn: int


Note = Appended | FsRoot | Opened | TextAdded | Closed
NOTES = (Appended, FsRoot, Opened, TextAdded, Closed)
TEXT_NOTES = (Opened, TextAdded, Closed)


def encode(note: Note) -> tuple[int, bytes]:
    """Return the kind and the body of a note."""
    match note:
        case TextAdded():
            return 13, _TEXT_ADDED.pack(note.number, note.offset, note.time_ms) + note.text
        case Appended():
            return 10, _APPENDED.pack(note.turn, note.time_ms) + note.key
        case FsRoot():
            return 11, _FS_ROOT.pack(note.turn, note.root)
        case Opened():
            return 12, _OPENED.pack(note.tag, note.codec, note.time_ms)
        case Closed():
            return 14, _CLOSED.pack(note.number, note.turn)


def decode(kind: int, data: bytes) -> Note | None:
    """Return the note of a kind and a body, None if that is no kind of note; ValueError if it is too short, or long."""
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return None
    open_ended = kind in (10, 13)
    if len(data) < layout.size or (len(data) > layout.size and not open_ended):
        raise ValueError(f"its body has {len(data)} bytes, {layout.size} belong there")
    if kind == 11:
        return FsRoot(int.from_bytes(data[:8], "little"), Hash(data[-HASH_SIZE:]))
    first, second, *more = layout.unpack_from(data)
    match kind:
        case 10:
            return Appended(first, second, data[layout.size :])
        case 12:
            return Opened(first, second, more[0])
        case 13:
            return TextAdded(first, second, more[0], data[layout.size :])
        case _:
            return Closed(first, second)


_LAYOUTS = {10: _APPENDED, 11: _FS_ROOT, 12: _OPENED, 13: _TEXT_ADDED, 14: _CLOSED}
