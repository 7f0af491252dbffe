"""Roots of a store: everything that leads to turns, and everything else that names blobs.

Turns are led to by contexts (in the trash, too), by their versions, by what imports and exports compare these with, and
by what is about to be shown (:class:`store.commit.writer.Unshown`); and a turn leads to its parent. Blobs are named

* by turns: each has a payload;
* by the patches through which turns are seen, by aliases, and as dictionaries;
* by contexts' metadata: layouts, files that came beside a session, originals, outputs of tools … Any text there that
  looks like a hash counts, so this module need not know the keys;
* by the trees of files that were attached to turns. These are their clients' own: what in them looks like a hash
  counts.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct

from store import typed
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import Hash, turn_of
from store.index.database import Database
from store.index.patches import Patches
from store.index.views import Run

_AT_ONCE = 4096
_HEX = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])")


class TurnRuns:
    """The turns of some runs, in whatever order these are given; of what they have in common, once."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._firsts: list[int] = []
        self._beyond: list[int] = []
        for first, count in sorted(runs):
            if self._beyond and first <= self._beyond[-1]:
                self._beyond[-1] = max(self._beyond[-1], first + count)
            elif count:
                self._firsts.append(first)
                self._beyond.append(first + count)

    def __contains__(self, turn: int) -> bool:
        at = bisect_right(self._firsts, turn) - 1
        return at >= 0 and turn < self._beyond[at]

    def runs(self) -> Iterator[Run]:
        return ((first, beyond - first) for first, beyond in zip(self._firsts, self._beyond, strict=True))

    def batches(self, most: int) -> Iterator[list[Run]]:
        """Yield the runs in order, not more than ``most`` turns together."""
        some: list[Run] = []
        room = most
        for first, beyond in zip(self._firsts, self._beyond, strict=True):
            while first < beyond:
                taken = min(beyond - first, room)
                some.append((first, taken))
                first, room = first + taken, room - taken
                if not room:
                    yield some
                    some, room = [], most
        if some:
            yield some


class _Place(Struct):
    context: int
    tip: int


class _Layout(Struct):
    places: list[_Place]


class LiveTurns:
    """The turns up to ``count`` that something leads to. Takes a byte a turn."""

    def __init__(self, tips: Iterable[int], log: TurnLog, count: int) -> None:
        """DamageError where the record of one of them is damaged: what that leads to is not known."""
        self._count = count
        self._log = log
        self._live = live = bytearray(count + 1)
        for tip in tips:
            live[self._upto(turn_of(tip))] = 1
        # a parent comes before its children, so one pass finds them all
        for first in range(1 + (count - 1) // _AT_ONCE * _AT_ONCE, 0, -_AT_ONCE):
            beyond = min(first + _AT_ONCE, count + 1)
            if live.find(1, first, beyond) < 0:
                continue
            links = log.links(first, beyond - first)
            for turn in range(beyond - 1, first - 1, -1):
                if live[turn]:
                    link = links[turn - first]
                    if link is None:
                        raise DamageError(f"turn {turn} is damaged: what it leads to is not known")
                    live[link[0]] = 1

    def __contains__(self, turn: int) -> bool:
        return 0 < turn <= self._count and self._live[turn] == 1

    def _upto(self, turn: int) -> int:
        """Return what one that came since goes on from; 0 if there is no such turn, as clients' metadata may say."""
        while turn > self._count:
            try:
                turn = self._log.get(turn).parent
            except NotFound:
                return 0
        return turn

    def turns(self) -> Iterator[Turn]:
        for first, count in self._runs(1):
            for start in range(first, first + count, _AT_ONCE):
                yield from self._log.range(start, min(_AT_ONCE, first + count - start))

    def dead(self) -> Iterator[Run]:
        """Yield the other turns, as runs; those that were reclaimed before are left out."""
        for first, count in self._runs(0):
            gone = TurnRuns(
                (turn, 1)
                for turn, found in self._log.scan(first, first + count - 1)
                if isinstance(found, Turn) and found.reclaimed
            )
            at = first
            for gap, width in gone.runs():
                if gap > at:
                    yield at, gap - at
                at = gap + width
            if at < first + count:
                yield at, first + count - at

    def _runs(self, value: int) -> Iterator[Run]:
        at = 1
        while (at := self._live.find(value, at)) > 0:
            beyond = self._live.find(1 - value, at)
            beyond = beyond if beyond > 0 else self._count + 1
            yield at, beyond - at
            at = beyond


def tips(db: Database) -> Iterator[int]:
    """Yield the states that contexts are and were in, by what is filed of the head log."""
    for column, table in (("head", "contexts"), ("imported", "contexts"), ("head", "versions")):
        for (tip,) in db.rows(f"SELECT {column} FROM {table}"):
            yield tip


def imported(db: Database, read: Callable[[Hash], bytes]) -> Iterator[int]:
    """Yield the states that imports and exports compare conversations with, regardless of the versions that are left.

    They are the results of a session's imports alone, and the states of conversations when a file of many was imported:
    its layout holds these, and ``read`` reads it. Nothing is compared of a deleted conversation. Raises DamageError if
    a layout cannot be read.
    """
    where = "instr(metadata, '\"imported_head\":') OR instr(metadata, '\"layout\":')"
    for (metadata,) in db.rows(f"SELECT metadata FROM contexts WHERE {where}"):
        told = msgspec.json.decode(metadata)
        if isinstance(head := told.get("imported_head"), int):
            yield head
        if isinstance(layout := told.get("layout"), str):
            try:
                places = typed.decode(read(Hash(bytes.fromhex(layout))), _Layout).places
            except (ConvfsError, ValueError) as error:
                raise DamageError(f"the layout {layout} of a file cannot be read: {error}") from error
            for place in places:
                if place.tip and db.one("SELECT 1 FROM contexts WHERE id = ?", (place.context,)):
                    yield place.tip


def named(db: Database) -> Iterator[Hash]:
    """Yield the hashes that the filed head log names, apart from those of turns and trees."""
    for patch in Patches(db).in_force():
        for digest, _flags, _created in patch.turns.values():
            yield digest
    for (digest,) in db.rows("SELECT hash FROM aliases UNION ALL SELECT hash FROM dictionaries"):
        yield Hash(digest)
    for (metadata,) in db.rows("SELECT metadata FROM contexts"):
        yield from named_in(metadata)


def named_in(metadata: str) -> Iterator[Hash]:
    """Yield what in metadata is spelled like a hash."""
    return (Hash(bytes.fromhex(match[0])) for match in _HEX.finditer(metadata))
