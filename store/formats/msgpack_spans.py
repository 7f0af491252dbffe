"""Where values stand in the bytes of a MessagePack document, found without parsing it.

https://github.com/msgpack/msgpack/blob/master/spec.md. Nothing is believed of what a header says: no memory is taken
for it, and what goes beyond the end is damage.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from store.errors import UsageError


class Family(IntEnum):
    """What a header leads."""

    NIL = 0
    BOOL = 1
    INTEGER = 2
    FLOAT = 3
    STR = 4
    BIN = 5
    EXT = 6
    LIST = 7
    MAP = 8


class Token(NamedTuple):
    """A header: ``start`` is where what it leads begins; ``size`` how many bytes that has, or items, or pairs.

    The type of an extension stands in the byte before ``start``.
    """

    family: Family
    start: int
    size: int


class Member(NamedTuple):
    """A pair of a map: where its key, its value and all of it begins and ends."""

    key: int
    value: int
    end: int


class Layout(NamedTuple):
    """How the header that begins with a certain byte is read: sizes stand in it or in the ``sized`` bytes after it.

    ``lead`` is how many bytes there are between the size and what is led (the type of an extension).
    """

    family: Family
    size: int
    sized: int = 0
    lead: int = 0


def _layouts() -> list[Layout | None]:
    found: list[Layout | None] = [Layout(Family.INTEGER, 0)] * 0x80
    found += [Layout(Family.MAP, size) for size in range(16)]
    found += [Layout(Family.LIST, size) for size in range(16)]
    found += [Layout(Family.STR, size) for size in range(32)]
    found += [Layout(Family.NIL, 0), None, Layout(Family.BOOL, 0), Layout(Family.BOOL, 0)]
    found += [Layout(Family.BIN, 0, sized) for sized in (1, 2, 4)]
    found += [Layout(Family.EXT, 0, sized, 1) for sized in (1, 2, 4)]
    found += [Layout(Family.FLOAT, size) for size in (4, 8)]
    found += [Layout(Family.INTEGER, size) for size in (1, 2, 4, 8) * 2]
    found += [Layout(Family.EXT, size, 0, 1) for size in (1, 2, 4, 8, 16)]
    found += [Layout(Family.STR, 0, sized) for sized in (1, 2, 4)]
    found += [Layout(Family.LIST, 0, sized) for sized in (2, 4)]
    found += [Layout(Family.MAP, 0, sized) for sized in (2, 4)]
    return [*found, *[Layout(Family.INTEGER, 0)] * 0x20]


_LAYOUTS = _layouts()


def token(payload: bytes, at: int) -> Token:
    """Return the header at ``at``. Raises UsageError where none is, or what it leads is cut off."""
    layout = _LAYOUTS[payload[at]] if at < len(payload) else None
    if layout is None:
        raise damaged(at)
    family, size, sized, lead = layout
    start = at + 1 + sized + lead
    if sized:
        size = int.from_bytes(payload[at + 1 : at + 1 + sized], "big")
    least = size * 2 if family is Family.MAP else size
    if start + least > len(payload):
        raise damaged(at)
    return Token(family, start, size)


def value_end(payload: bytes, at: int) -> int:
    """Return where the value that begins at ``at`` ends."""
    waiting = 1
    while waiting:
        family, start, size = token(payload, at)
        waiting -= 1
        if family is Family.LIST:
            waiting += size
            at = start
        elif family is Family.MAP:
            waiting += size * 2
            at = start
        else:
            at = start + size
    return at


def members(payload: bytes, at: int) -> Iterator[Member]:
    """Yield the pairs of the map that begins at ``at``, in order."""
    _, position, count = token(payload, at)
    for _ in range(count):
        value = value_end(payload, position)
        end = value_end(payload, value)
        yield Member(position, value, end)
        position = end


def elements(payload: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield where each item of the list that begins at ``at`` begins and ends, in order."""
    _, position, count = token(payload, at)
    for _ in range(count):
        end = value_end(payload, position)
        yield position, end
        position = end


def damaged(at: int) -> UsageError:
    """Return what is said of bytes that are no MessagePack from ``at`` on."""
    return UsageError(f"the record is no MessagePack from byte {at} on: it can only be changed as a whole")
