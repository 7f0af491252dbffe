"""Inode numbers, and the lookup counts of the kernel.

Numbers are computed, not handed out, for everything that belongs to a conversation: 53 bits (so that programs that
keep them in a double do not see two files as one), from the top

    kind 3 | view 24 | number 26

where a *view* is a conversation at its head (its context id) or at an earlier version (handed out, from the upper half
of the range), and ``number`` is an event's number or a place's. Such a number says which node it is without any
table, and it stays the same when an edit gives all later events other turns. Numbers of kind FIXED are handed out.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import IntEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

NUMBER_BITS = 26
VIEW_BITS = 24
MAX_NUMBER = (1 << NUMBER_BITS) - 1
FIRST_DERIVED = 1 << (NUMBER_BITS - 1)
"""The first number of a file in ``resources/`` that no record holds, but that follows from several."""
FIRST_HANDED_OUT_VIEW = 1 << (VIEW_BITS - 1)

ROOT = 1

_VIEW_MASK = (1 << VIEW_BITS) - 1
_KIND_SHIFT = VIEW_BITS + NUMBER_BITS


class Space(IntEnum):
    """The kinds of inode numbers: each is a space of its own for ``number``."""

    FIXED = 0
    PLACE = 1
    EVENT = 2
    RECORD = 3
    RESOURCE = 4
    OUTPUT = 5


class Place(IntEnum):
    """The numbers in space PLACE: nodes that there are once in every view."""

    CONVERSATION = 0
    EVENTS = 1
    EVENTS_JSON = 2
    RESOURCES = 3
    METADATA = 4
    VERSIONS = 5
    RECORDS = 6
    TRANSCRIPT = 7
    DAY_LINK = 8
    RECENT_LINK = 9
    FORKS = 10
    FORK_LINK = 11
    LABEL_LINK = 12
    ARTIFACTS = 13
    AGENTS = 14
    NATIVE = 15
    CONTEXT = 16
    FAMILY = 17
    CHANGES = 18
    DIFFS = 19
    PAGE = 20
    SUBAGENTS = 21
    TRANSCRIPTS = 22
    BRANCH_LINK = 23
    TOOL_LINK = 24
    MODEL_LINK = 25
    SNAPSHOTS = 26


def base(space: Space, view: int) -> int:
    """Return the inode number of number 0 in ``space`` of ``view``; numbers up to MAX_NUMBER are added to it."""
    return space << _KIND_SHIFT | view << NUMBER_BITS


_FIRST_IN_PAGES = base(Space.EVENT, 0)
"""The first of the spaces in which numbers follow each other."""


def split(ino: int) -> tuple[int, int, int]:
    """Return (space, view, number) of an inode number."""
    return ino >> _KIND_SHIFT, ino >> NUMBER_BITS & _VIEW_MASK, ino & MAX_NUMBER


class Handed(Generic[K]):
    """Numbers handed out to keys, rising; a key keeps its number until it is dropped, and none is used twice."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._numbers: dict[K, int] = {}
        self._keys: dict[int, K] = {}

    def number(self, key: K) -> int:
        """Return the number of ``key``, a new one where it has none."""
        number = self._numbers.get(key)
        if number is None:
            number = self._next
            self._next += 1
            self._numbers[key] = number
            self._keys[number] = key
        return number

    def key(self, number: int) -> K | None:
        return self._keys.get(number)

    def move(self, key: K, to: K) -> None:
        """Give a key's number to another key, in place of the one that that has."""
        number = self._numbers.pop(key)
        if (before := self._numbers.get(to)) is not None:
            del self._keys[before]
        self._numbers[to], self._keys[number] = number, to

    def having(self, begins: Callable[[K], bool]) -> list[K]:
        """Return the keys of which something is true."""
        return [key for key in self._numbers if begins(key)]

    def drop(self, number: int) -> None:
        key = self._keys.pop(number, None)
        if key is not None:
            del self._numbers[key]


_PAGE_BITS = 6
_PAGE = 1 << _PAGE_BITS
_IN_PAGE = _PAGE - 1
_FULL = 255


class InodeSet:
    """A set of inode numbers. Those of events follow each other: such take a few bits each."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}
        """Bits of numbers that follow each other."""

    def __contains__(self, ino: int) -> bool:
        return self._pages.get(ino >> _PAGE_BITS, 0) >> (ino & _IN_PAGE) & 1 == 1

    def add(self, ino: int) -> None:
        page = ino >> _PAGE_BITS
        self._pages[page] = self._pages.get(page, 0) | 1 << (ino & _IN_PAGE)

    def discard(self, ino: int) -> None:
        page = ino >> _PAGE_BITS
        if (bits := self._pages.get(page, 0) & ~(1 << (ino & _IN_PAGE))) != 0:
            self._pages[page] = bits
        else:
            self._pages.pop(page, None)

    def clear(self) -> None:
        self._pages.clear()


class Lookups:
    """The kernel's lookup counts: which inodes it knows, and how many replies told it so.

    It knows an inode for each file that was ever listed, until it needs the memory. Numbers of events and the like
    follow each other: their counts take a byte each, up to 255.
    """

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._counts: dict[int, int] = {}
        """The counts of other inodes; and those beyond 255, the whole of them."""

    def __contains__(self, ino: int) -> bool:
        page = self._pages.get(ino >> _PAGE_BITS)
        return page[ino & _IN_PAGE] != 0 if page is not None else ino in self._counts

    def __iter__(self) -> Iterator[int]:
        for number, page in self._pages.items():
            yield from ((number << _PAGE_BITS) + at for at, count in enumerate(page) if count)
        yield from (ino for ino in self._counts if ino < _FIRST_IN_PAGES)

    def count(self, ino: int) -> int:
        """Return the count of ``ino``."""
        page = self._pages.get(ino >> _PAGE_BITS)
        few = page[ino & _IN_PAGE] if page is not None else 0
        return few if 0 < few < _FULL else self._counts.get(ino, 0)

    def add(self, ino: int) -> None:
        """Count one reply that named ``ino``."""
        if ino >= _FIRST_IN_PAGES:
            page = self._pages.get(ino >> _PAGE_BITS)
            if page is None:
                page = self._pages[ino >> _PAGE_BITS] = bytearray(_PAGE)
            at = ino & _IN_PAGE
            if page[at] < _FULL - 1:
                page[at] += 1
                return
            if page[at] < _FULL:
                page[at] = _FULL
                self._counts[ino] = _FULL
                return
        self._counts[ino] = self._counts.get(ino, 0) + 1

    def drop(self, ino: int) -> None:
        """Drop all counts of ``ino``: the kernel does not know it, whatever was counted."""
        self._counts.pop(ino, None)
        page = self._pages.get(ino >> _PAGE_BITS)
        if page is not None:
            page[ino & _IN_PAGE] = 0
            if not any(page):
                del self._pages[ino >> _PAGE_BITS]

    def forget(self, forgotten: Iterable[tuple[int, int]]) -> list[int]:
        """Subtract lookups, given as (ino, count) pairs; return the inodes that the kernel no longer knows."""
        gone: list[int] = []
        for ino, count in forgotten:
            left = self.count(ino) - count
            if left <= 0:
                self.drop(ino)
                gone.append(ino)
            elif ino in self._counts and (left >= _FULL or ino < _FIRST_IN_PAGES):
                self._counts[ino] = left
            else:
                self._counts.pop(ino, None)
                self._pages[ino >> _PAGE_BITS][ino & _IN_PAGE] = left
        return gone
