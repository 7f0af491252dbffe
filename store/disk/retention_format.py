"""What is told of things that are gone for good: frames of the head log, and the record of a turn that is.

The frames themselves are those of ``store.disk.head_format``; here are the bodies of some, little-endian, each layout
with its class.
"""

from struct import Struct as Layout

from msgspec import Struct

_DELETED = Layout("<Q")
_PRUNED = Layout("<QQ")
_RUN = Layout("<QQ")


class Deleted(Struct, frozen=True, gc=False):
    """Kind 15: ``time_ms u64``. A context is gone for good, and all that was said of it; its id is not used again."""

    time_ms: int


class VersionsPruned(Struct, frozen=True, gc=False):
    """Kind 16: ``last u64 | time_ms u64``. The versions of a context that began up to seq ``last`` are gone for good.

    But for the one that it is in, which always stays.
    """

    last: int
    time_ms: int


class Reclaimed(Struct, frozen=True, gc=False):
    """Kind 17: for each of ``runs`` ``first u64 | count u64``. Nothing leads to these turns any more.

    Their records are blanked (``turn_format.blank``) once this is on disk. No turn ever follows one of them.
    """

    runs: tuple[tuple[int, int], ...]


Gone = Deleted | VersionsPruned | Reclaimed
GONE = (Deleted, VersionsPruned, Reclaimed)


def encode(gone: Gone) -> tuple[int, bytes]:
    """Return the kind and the body of one of these."""
    match gone:
        case Deleted():
            return 15, _DELETED.pack(gone.time_ms)
        case VersionsPruned():
            return 16, _PRUNED.pack(gone.last, gone.time_ms)
        case Reclaimed():
            return 17, b"".join(_RUN.pack(*run) for run in gone.runs)


def decode(kind: int, data: bytes) -> Gone | None:
    """Return what is told by a kind and a body, None if that is no kind of these; ValueError if the body is too long
    or too short."""
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return None
    if len(data) % layout.size or (kind != 17 and len(data) != layout.size):
        raise ValueError(f"its body has {len(data)} bytes, {layout.size} belong there")
    match kind:
        case 15:
            return Deleted(*layout.unpack(data))
        case 16:
            return VersionsPruned(*layout.unpack(data))
        case _:
            return Reclaimed(tuple(layout.iter_unpack(data)))


_LAYOUTS = {15: _DELETED, 16: _PRUNED, 17: _RUN}
