"""What was measured of events, in the index: a row a record, its resources, and a conversation's sums."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from store.events.conversation import EventRow, ResourceRow
from store.events.event import Kind
from store.index.database import Database
from store.index.schema import DERIVED_FROM_RENDERER

_KINDS = tuple(Kind)

Run = tuple[int, int]
"""Consecutive turns of a branch: the first turn's id and how many there are."""


class Measure(Struct, frozen=True):
    """The sums over a conversation's rows at ``head``."""

    head: int
    events: int
    transcript_size: int
    json_size: int


class Views:
    """Reads and writes the tables that follow from payloads and the renderer."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def renderer(self) -> int:
        """Return the renderer version that the rows were measured by (0: none yet)."""
        value = self._db.state("renderer")
        return value if isinstance(value, int) else 0

    def reset(self, renderer: int) -> None:
        """Drop every row; from now on they are those of ``renderer``."""
        with self._db.writing() as sql:
            for table in DERIVED_FROM_RENDERER:
                sql.execute(f"DELETE FROM {table}")
            self._db.set_state("renderer", renderer)

    def add(self, rows: Iterable[EventRow], resources: Iterable[ResourceRow]) -> None:
        """File measured records."""
        with self._db.writing() as sql:
            sql.executemany(
                "INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        row.turn,
                        row.kind,
                        row.tool,
                        row.parent,
                        row.time_ms,
                        row.file_size,
                        row.section_size,
                        row.json_size,
                        row.payload_size,
                    )
                    for row in rows
                ],
            )
            sql.executemany(
                "INSERT OR REPLACE INTO resources VALUES (?, ?, ?, ?, ?, ?)",
                [(r.turn, r.seq, r.uri, r.mime, r.size, r.hash) for r in resources],
            )

    def rows(self, run: Run, number: int) -> list[EventRow]:
        """Return the rows that are there of a run of turns whose first is event ``number``."""
        first, count = run
        return [
            EventRow(turn, turn - first + number, _KINDS[kind], *rest)
            for turn, kind, *rest in self._db.reader.execute(
                "SELECT turn, kind, tool, parent, time_ms, file_size, section_size, json_size, payload_size"
                " FROM views WHERE turn BETWEEN ? AND ?",
                (first, first + count - 1),
            )
        ]

    def resources(self, run: Run, number: int) -> list[ResourceRow]:
        """Return the resources that a run of turns holds."""
        first, count = run
        return [
            ResourceRow(turn, turn - first + number, seq, uri, mime, size, time_ms, digest)
            for turn, seq, uri, mime, size, digest, time_ms in self._db.reader.execute(
                "SELECT r.turn, seq, uri, mime, size, hash, time_ms FROM resources r JOIN views v ON v.turn = r.turn"
                " WHERE r.turn BETWEEN ? AND ? ORDER BY r.turn, seq",
                (first, first + count - 1),
            )
        ]

    def measure(self, context_id: int) -> Measure | None:
        """Return the sums of a conversation, None if they were never taken."""
        row = self._db.reader.execute(
            "SELECT head, events, transcript_size, json_size FROM measures WHERE context = ?", (context_id,)
        ).fetchone()
        return Measure(*row) if row else None

    def measures(self, context_ids: Sequence[int]) -> dict[int, Measure]:
        """Return the sums of several conversations."""
        found: dict[int, Measure] = {}
        for start in range(0, len(context_ids), 500):
            some = context_ids[start : start + 500]
            for context, *row in self._db.reader.execute(
                "SELECT context, head, events, transcript_size, json_size FROM measures"
                f" WHERE context IN ({','.join('?' * len(some))})",
                some,
            ):
                found[context] = Measure(*row)
        return found

    def set_measure(self, context_id: int, measure: Measure) -> None:
        """File the sums of a conversation."""
        with self._db.writing() as sql:
            sql.execute(
                "INSERT OR REPLACE INTO measures VALUES (?, ?, ?, ?, ?)",
                (
                    context_id,
                    measure.head,
                    measure.events,
                    measure.transcript_size,
                    measure.json_size,
                ),
            )
