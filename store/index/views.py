"""Measures of events in the index: a row a record, its resources, and a conversation's sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import astuple

from store.events.conversation import EventRow, ResourceRow
from store.events.event import Kind
from store.index.database import (
    DERIVED_FROM_RENDERER,
    Database,
    Row,
    among,
    held_if_full,
    numbered_holds,
    numbered_sum,
    put,
)

_KINDS = tuple(Kind)
_AT_ONCE = 500
_FILED_AT_ONCE = 512
"""Others that change something wait for so many rows at most."""
_LONG = 64
"""The length of a run, in turns, from which on it is queried by itself."""

_number = attrgetter("number")

_Part = tuple[str, Sequence[int], Callable[[int], int]]
"""A condition on turns, its parameters, and what tells the number of a turn that meets it."""


# a row that is damaged stays it: its sum is wrong by as much as before
_COPIES = tuple(
    f"INSERT OR IGNORE INTO {table} SELECT turn + :shift, {columns}, sum + :shift"
    f" FROM {table} WHERE turn BETWEEN :first AND :last"
    for table, columns in (
        ("views", "kind, tool, parent, time_ms, file_size, section_size, json_size, payload_size, deleted"),
        ("resources", "seq, uri, mime, size, hash"),
    )
)

Run = tuple[int, int]
"""Consecutive turns of a branch: the first turn's id and how many there are."""


SAYING = frozenset(Kind) - {Kind.RECORD, Kind.SYSTEM, Kind.CONFIG, Kind.NOTE}
"""The kinds of events that make a conversation of a session: what people and models say, and what tools do."""


class Measure(Struct, frozen=True):
    """The sums over a conversation's rows at ``head``; ``said`` counts those of :data:`SAYING`."""

    head: int
    events: int = 0
    transcript_size: int = 0
    json_size: int = 0
    said: int = 0

    def plus(self, more: Measure) -> Measure:
        """Return the sums over these rows and others, at the head of these others."""
        sums = zip(astuple(self)[1:], astuple(more)[1:], strict=True)
        return Measure(more.head, *(known + come for known, come in sums))

    def at(self, head: int, more: Sequence[EventRow], less: Sequence[EventRow] = ()) -> Measure:
        """Return the sums at ``head``, which has some rows more, and some less."""
        sums = zip(astuple(self)[1:], _sums(more), _sums(less), strict=True)
        return Measure(head, *(known + come - gone for known, come, gone in sums))


def _sums(rows: Sequence[EventRow]) -> Iterator[int]:
    yield sum(1 for row in rows if row.kind is not Kind.RECORD)
    yield sum(row.section_size for row in rows)
    yield sum(row.json_size for row in rows)
    yield sum(1 for row in rows if row.kind in SAYING)


_SUMS = (
    f"count(*), coalesce(sum(kind != {int(Kind.RECORD)}), 0), coalesce(sum(section_size), 0),"
    f" coalesce(sum(json_size), 0), coalesce(sum(kind IN ({','.join(str(int(kind)) for kind in sorted(SAYING))})), 0)"
)
"""The number of rows, and their sums in the order of :class:`Measure`."""


def _as_filed(rows: Iterable[EventRow]) -> list[Row]:
    sizes = attrgetter("tool", "parent", "time_ms", "file_size", "section_size", "json_size", "payload_size")
    return [(row.turn, int(row.kind), *sizes(row), int(row.deleted)) for row in rows]


class Views:
    """Reads and writes the tables that follow from payloads and the renderer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def renderer(self) -> int:
        """Return the renderer version that the rows were measured by (0: none yet)."""
        return self._db.number("renderer")

    @held_if_full
    def reset(self, renderer: int) -> None:
        """Drop every row; from now on they are those of ``renderer``."""
        with self._db.writing() as sql:
            for table in DERIVED_FROM_RENDERER:
                sql.execute(f"DELETE FROM {table}")
            self._db.set_state("renderer", renderer)

    def add(
        self,
        rows: Iterable[EventRow],
        resources: Iterable[ResourceRow],
        measures: Iterable[tuple[int, Measure]] = (),
        moves: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        """File measured records, but for those that are unsure, and the sums of conversations by their ids.

        ``moves`` are records that others are like: what was measured of some turns (the first of them) is filed for
        others too (the first of these, and how many).
        """
        rows = list(rows)
        unsure = {row.turn for row in rows if row.unsure}
        sure = [row for row in rows if not row.unsure]
        held = [(r.turn, r.seq, r.uri, r.mime, r.size, r.hash) for r in resources if r.turn not in unsure]
        sums = [(context, m.head, m.events, m.transcript_size, m.json_size, m.said) for context, m in measures]
        # a record is measured once it has a row: what it holds comes before that, and what sums up rows last
        while len(held) > _FILED_AT_ONCE:
            self._file((), held[:_FILED_AT_ONCE], (), ())
            del held[:_FILED_AT_ONCE]
            self._db.give_way()
        while len(sure) > _FILED_AT_ONCE:
            self._file(_as_filed(sure[:_FILED_AT_ONCE]), (), (), ())
            del sure[:_FILED_AT_ONCE]
            self._db.give_way()
        self._file(_as_filed(sure), held, list(moves), sums)

    @held_if_full
    def _file(
        self, views: Sequence[Row], held: Sequence[Row], moves: Sequence[tuple[int, int, int]], sums: Sequence[Row]
    ) -> None:
        with self._db.writing() as sql:
            put(sql, "views", views, numbered_sum)
            put(sql, "resources", held, numbered_sum)
            for first, to, count in moves:
                for copy in _COPIES:
                    sql.execute(copy, {"shift": to - first, "first": first, "last": first + count - 1})
            put(sql, "measures", sums, numbered_sum)

    def rows(self, runs: Iterable[Run], number: int) -> list[EventRow]:
        """Return the rows that are there of a part of a branch, in its order; its first record is event ``number``."""
        found: list[EventRow] = []
        for where, parameters, at in _parts(runs, number):
            there = self._db.query(f"SELECT * FROM views WHERE {where}", parameters)
            self._db.check_all("views", there, numbered_holds)
            rows = [
                EventRow(turn, at(turn), _KINDS[kind], tool, parent, time_ms, file, section, json, size, gone != 0)
                for turn, kind, tool, parent, time_ms, file, section, json, size, gone, _sum in there
            ]
            # what is seen through a patch has another id than its place says
            rows.sort(key=_number)
            found += rows
        return found

    def sums(self, runs: Iterable[Run], head: int = 0) -> tuple[int, Measure]:
        """Return of how many records of a branch there are rows, and the sums over these, as those at ``head``."""
        totals = [0] * 5
        for where, parameters, _numbered in _parts(runs, 1):
            if (found := self._db.one(f"SELECT {_SUMS} FROM views WHERE {where}", parameters)) is not None:
                totals = [known + more for known, more in zip(totals, found, strict=True)]
        return totals[0], Measure(head, *totals[1:])

    def measured(self, runs: Iterable[Run]) -> int:
        """Return of how many records of a branch there are rows."""
        return sum(
            found[0]
            for where, parameters, _numbered in _parts(runs, 1)
            if (found := self._db.one(f"SELECT count(*) FROM views WHERE {where}", parameters)) is not None
        )

    def payload_bytes(self, runs: Iterable[Run]) -> int:
        """Return how many bytes the payloads of a branch have together, as far as they were measured."""
        total = 0
        for where, parameters, _numbered in _parts(runs, 1):
            found = self._db.one(f"SELECT coalesce(sum(payload_size), 0) FROM views WHERE {where}", parameters)
            total += found[0] if found else 0
        return total

    def resources(self, runs: Iterable[Run], number: int) -> list[ResourceRow]:
        """Return the resources that a part of a branch holds, in order; its first record is event ``number``."""
        found: list[ResourceRow] = []
        for where, parameters, numbered in _parts(runs, number):
            rows = []
            for *row, time_ms in self._db.query(
                "SELECT r.*, time_ms FROM resources r JOIN views v ON v.turn = r.turn"
                f" WHERE r.{where} ORDER BY r.turn, seq",
                parameters,
            ):
                turn, seq, uri, mime, size, digest = self._db.checked("resources", tuple(row), numbered_holds)
                rows.append(ResourceRow(turn, numbered(turn), seq, uri, mime, size, time_ms, digest))
            rows.sort(key=_number)
            found += rows
        return found

    def count_resources(self, runs: Iterable[Run]) -> int:
        """Return how many resources a part of a branch holds."""
        counts = (
            self._db.one(f"SELECT count(*) FROM resources WHERE {where}", parameters)
            for where, parameters, _numbered in _parts(runs, 1)
        )
        return sum(found[0] for found in counts if found)

    def measures(self, context_ids: Sequence[int]) -> dict[int, Measure]:
        """Return the sums of several conversations; those that were never taken are left out."""
        found: dict[int, Measure] = {}
        for start in range(0, len(context_ids), _AT_ONCE):
            marks, some = among(context_ids[start : start + _AT_ONCE])
            for row in self._db.query(f"SELECT * FROM measures WHERE context IN ({marks})", some):
                context, *sums = self._db.checked("measures", row, numbered_holds)
                found[context] = Measure(*sums)
        return found

    @held_if_full
    def forget(self, context_id: int, runs: Iterable[Run]) -> None:
        """Drop the rows of turns, and the sums of the conversation that they belong to."""
        with self._db.writing() as sql:
            for first, count in runs:
                for table in ("views", "resources"):
                    sql.execute(f"DELETE FROM {table} WHERE turn BETWEEN ? AND ?", (first, first + count - 1))
            sql.execute("DELETE FROM measures WHERE context = ?", (context_id,))

    def drop(self, turns: Sequence[int], context_ids: Iterable[int]) -> None:
        """Drop the rows of turns, and the sums of conversations: their records are others now."""
        with self._db.writing() as sql:
            for table in ("views", "resources"):
                sql.executemany(f"DELETE FROM {table} WHERE turn = ?", [(turn,) for turn in turns])
            sql.executemany("DELETE FROM measures WHERE context = ?", [(context,) for context in context_ids])


def _parts(runs: Iterable[Run], number: int) -> Iterator[_Part]:
    """Yield what to ask for, in order, to find all turns of runs; the first is that of record ``number``.

    A branch of which every turn was appended by itself is all short runs: a query for each would take very long.
    """
    turns: dict[int, int] = {}
    for first, count in runs:
        if turns and (count >= _LONG or len(turns) + count > _AT_ONCE):
            yield _either(turns)
            turns = {}
        if count >= _LONG:
            yield "turn BETWEEN ? AND ?", (first, first + count - 1), (number - first).__add__
        else:
            turns |= zip(range(first, first + count), range(number, number + count), strict=True)
        number += count
    if turns:
        yield _either(turns)


def _either(turns: dict[int, int]) -> _Part:
    marks, wanted = among(turns)
    return f"turn IN ({marks})", wanted, turns.__getitem__
