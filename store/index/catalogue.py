"""Look-ups of conversations in the index: by project and name, by day, by last change, by source."""

import msgspec
from msgspec import Struct

from store.events.conversation import Version, labels_of
from store.index.database import Database, Row
from store.index.labels import PINNED, USUAL
from store.index.origins import origin
from store.index.pruning import Pruned

_HEAD = "id, head, records, updated_ms, imported, head_sum"
_COLUMNS = (
    f"{_HEAD}, id, created_ms, project, name, title, format, source, day, trashed_ms, rank, described_ms, metadata, sum"
)


class Entry(Struct, frozen=True):
    """One context as the head log describes it; ``project`` and ``name`` are "" while it has none, or in the trash.

    ``head`` is its tip, ``imported`` the turn that the head was moved to by the last import, 0 if there was none;
    ``described_ms`` is when its metadata changed last.
    """

    id: int
    project: str
    name: str
    title: str
    format: str
    source: str
    head: int
    records: int
    created_ms: int
    updated_ms: int
    metadata: dict[str, object]
    imported: int = 0
    described_ms: int = 0

    @property
    def labels(self) -> list[str]:
        """The labels that it has."""
        return labels_of(self.metadata)

    @property
    def merged(self) -> bool:
        """Whether its branch has come to be from an import and from edits, or from another conversation."""
        return "imported_head" in self.metadata

    @property
    def imported_head(self) -> int:
        """The turn that the branch ends in which imports of a session have made, whatever was edited since."""
        head = self.metadata.get("imported_head")
        return head if isinstance(head, int) else self.imported


class Called(Struct, frozen=True, gc=False):
    """How a conversation is called."""

    id: int
    project: str
    name: str


class Sourced(Struct, frozen=True, gc=False):
    """Where a conversation was imported from."""

    id: int
    format: str
    source: str


class Superseded(Struct, frozen=True, gc=False):
    """The turns ``old``, ``old + 1`` … became ``new``, ``new + 1`` …, ``count`` of them, or nothing if ``new`` is 0."""

    seq: int
    old: int
    new: int
    count: int

    def of(self, turn: int) -> int:
        """Return what became of one of these turns, 0 for nothing."""
        return self.new + turn - self.old if self.new else 0


class Catalogue:
    """Reads the ``contexts`` and ``versions`` tables. All methods raise DamageError where these are damaged."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._pruned = Pruned(db)

    def _entry(self, row: Row) -> Entry:
        context, head, records, updated, imported = self._db.checked("contexts", row[:6])
        _, created, project, name, title, format_, source, _day, _trashed, _rank, described, metadata = (
            self._db.checked("contexts", row[6:])
        )
        return Entry(
            context,
            project or "",
            name or "",
            title,
            format_,
            source,
            head,
            records,
            created,
            updated,
            msgspec.json.decode(metadata),
            imported,
            described,
        )

    def _entries(self, where: str, *parameters: object) -> list[Entry]:
        rows = self._db.query(f"SELECT {_COLUMNS} FROM contexts WHERE {where}", parameters)
        return [self._entry(row) for row in rows]

    def _first(self, where: str, *parameters: object) -> Entry | None:
        row = self._db.one(f"SELECT {_COLUMNS} FROM contexts WHERE {where} LIMIT 1", parameters)
        return self._entry(row) if row else None

    def head(self, context_id: int) -> tuple[int, int] | None:
        """Return (tip, records) of a context, None if there is none of that id."""
        row = self._db.one(f"SELECT {_HEAD} FROM contexts WHERE id = ?", (context_id,))
        return self._db.checked("contexts", row)[1:3] if row else None

    def by_id(self, context_id: int) -> Entry | None:
        """Return the context with that id."""
        return self._first("id = ?", context_id)

    def by_name(self, project: str, name: str) -> Entry | None:
        """Return the conversation ``project/name``."""
        found = self._first("project = ? AND name = ?", project, name)
        if found is not None and (found.project, found.name) != (project, name):
            raise self._db.damage("a row of contexts is out of place")
        return found

    def by_source(self, source: str) -> Entry | None:
        """Return the newest conversation that was imported from ``source``."""
        return self._first("source = ? AND source != '' ORDER BY id DESC", source)

    def of_one_file(self, *, trashed: bool = False) -> list[Sourced]:
        """Return the conversations whose session is one file, by where that lay, oldest first; or those in the trash.

        There may be very many, so their metadata is not parsed: what it has no key of stands nowhere in its text.
        """
        which = "trashed_ms != 0" if trashed else "name IS NOT NULL"
        rows = self._db.query(
            f"SELECT id, format, source FROM contexts WHERE source != '' AND {which}"
            " AND instr(metadata, '\"cursor\":') AND NOT instr(metadata, '\"main\":')"
            " AND NOT instr(metadata, '\"first\":') ORDER BY id"
        )
        return [Sourced(*row) for row in rows]

    def by_origin(self, name: str, most: int) -> list[Entry]:
        """Return up to ``most`` contexts that are found by the origin ``name``, the newest first."""
        rows = self._db.query(
            "SELECT origin, context, sum FROM origins WHERE origin = ? ORDER BY context DESC LIMIT ?", (name, most)
        )
        found = [self.by_id(self._db.checked("origins", row)[1]) for row in rows]
        return [entry for entry in found if entry is not None]

    def layouts(self) -> list[Entry]:
        """Return the contexts that stand for files of many conversations, by path."""
        rows = self._db.query(
            "SELECT origin, context, sum FROM origins WHERE origin >= ? AND origin < ? ORDER BY origin, context",
            (origin("layout", ""), origin("layout", "\U0010ffff")),
        )
        found = [self.by_id(self._db.checked("origins", row)[1]) for row in rows]
        return [entry for entry in found if entry is not None]

    def having(self, key: str) -> list[Entry]:
        """Return the contexts whose metadata has ``key``, or a value that looks so; reads all metadata."""
        return self._entries("metadata LIKE ? ORDER BY id", f'%"{key}":%')

    def mentioning(self, text: str) -> list[Entry]:
        """Return the contexts in whose metadata, as it is written in JSON, a text stands; reads all metadata."""
        return self._entries("instr(metadata, ?) ORDER BY id", text)

    def page(self, project: str | None, after: str, limit: int | None) -> list[Entry]:
        """Return conversations with names beyond ``after``, by project and name; of all projects if it is None."""
        count = -1 if limit is None else limit
        if project is None:
            return self._entries("name IS NOT NULL ORDER BY project, name LIMIT ?", count)
        return self._entries("project = ? AND name > ? ORDER BY name LIMIT ?", project, after, count)

    def heads_in(self, project: str) -> list[tuple[int, int, int]]:
        """Return (id, tip, records) of the conversations of a project: there may be very many."""
        rows = self._db.query(f"SELECT {_HEAD} FROM contexts WHERE project = ? AND name IS NOT NULL", (project,))
        return [self._db.checked("contexts", row)[:3] for row in rows]

    def forks(self, context_id: int) -> list[Entry]:
        """Return the conversations that branched off another, oldest first."""
        said = f'"forked_from":{{"context":{context_id},'
        return self._entries("id > ? AND name IS NOT NULL AND instr(metadata, ?) ORDER BY id", context_id, said)

    def every(self) -> list[Entry]:
        """Return all conversations, what is in the trash too, by id."""
        return self._entries("name IS NOT NULL OR trashed_ms != 0 ORDER BY id")

    def trash(self) -> list[Entry]:
        """Return what is in the trash, what came last first."""
        return self._entries("trashed_ms != 0 ORDER BY trashed_ms DESC, id DESC")

    def by_day(self, day: str) -> list[Entry]:
        """Return the conversations that began on ``day`` (``2026-03-05``)."""
        return self._entries("day = ? AND name IS NOT NULL ORDER BY project, name", day)

    def recent(self, count: int) -> list[Entry]:
        """Return the conversations that are pinned, then those that changed last, newest first; none of the archive."""
        latest = "name IS NOT NULL AND rank = {} ORDER BY updated_ms DESC, id DESC LIMIT ?"
        pinned = self._entries(latest.format(PINNED), count)
        return pinned + self._entries(latest.format(USUAL), count - len(pinned))

    def changed_ms(self) -> int:
        """Return when a conversation last changed, 0 if there is none."""
        row = self._db.one("SELECT max(updated_ms) FROM contexts WHERE name IS NOT NULL")
        return (row[0] or 0) if row else 0

    def labels(self) -> list[str]:
        """Return the labels that conversations have, sorted."""
        # a skip scan, as for projects
        found: list[str] = []
        step = "SELECT name, context, sum FROM labels WHERE name > ? ORDER BY name, context LIMIT 1"
        while row := self._db.one(step, (found[-1] if found else "",)):
            found.append(self._db.checked("labels", row)[0])
        return found

    def labelled(self, label: str) -> list[Called]:
        """Return how the conversations are called that have a label, oldest first: there may be very many."""
        rows = self._db.query(
            "SELECT labels.name, context, labels.sum, project, contexts.name FROM labels JOIN contexts ON id = context"
            " WHERE labels.name = ? ORDER BY context",
            (label,),
        )
        return [Called(self._db.checked("labels", row[:3])[1], row[3], row[4]) for row in rows]

    def projects(self) -> list[str]:
        """Return the projects that have conversations, by name."""
        # a skip scan: one look-up a project, however many conversations it has
        found: list[str] = []
        step = "SELECT min(project) FROM contexts WHERE name IS NOT NULL AND project > ?"
        while (row := self._db.one(step, (found[-1] if found else "",))) and row[0] is not None:
            found.append(row[0])
        return found

    def days(self, prefix: str, length: int) -> list[str]:
        """Return the distinct first ``length`` characters of the days that begin with ``prefix``."""
        rows = self._db.query(
            "SELECT DISTINCT substr(day, 1, ?) FROM contexts"
            " WHERE day >= ? AND day < ? AND day != '' AND name IS NOT NULL ORDER BY 1",
            (length, prefix, prefix + "\x7f"),
        )
        return [row[0] for row in rows]

    def count(self) -> int:
        """Return the number of conversations."""
        row = self._db.one("SELECT count(*) FROM contexts WHERE name IS NOT NULL")
        return row[0] if row else 0

    def nameless(self) -> list[int]:
        """Return the contexts without a name that have turns, but for what is in the trash; by id."""
        where = "name IS NULL AND trashed_ms = 0 AND head != 0 ORDER BY id"
        return [row[0] for row in self._db.query(f"SELECT id FROM contexts WHERE {where}", ())]

    def names_like(self, project: str, stem: str) -> set[str]:
        """Return the names within ``project`` that begin with ``stem``."""
        rows = self._db.query(
            "SELECT name FROM contexts WHERE project = ? AND name >= ? AND name < ?",
            (project, stem, stem + "\U0010ffff"),
        )
        return {row[0] for row in rows}

    def versions(self, context_id: int) -> list[Version]:
        """Return the states that a context has been in, oldest first, but for those that were pruned."""
        rows = self._db.query(
            "SELECT context, seq, time_ms, head, records, action, sum FROM versions WHERE context = ? ORDER BY seq",
            (context_id,),
        )
        first = self.pruned_versions(context_id) + 1
        return [Version(number, *self._db.checked("versions", row)[1:]) for number, row in enumerate(rows, first)]

    def pruned_versions(self, context_id: int) -> int:
        """Return how many versions of a context were pruned: the oldest."""
        return self._pruned.versions(context_id)

    def pruned(self, kind: str, *names: str) -> int:
        """Return the id that the newest context with an origin had which was deleted, 0 if none was."""
        return self._pruned.by_origin(kind, *names)

    def states(self) -> list[tuple[int, int]]:
        """Return (context, tip) of every state that a context is in or has been in."""
        query = "SELECT id, head FROM contexts UNION SELECT context, head FROM versions"
        return [(context, head) for context, head in self._db.query(query) if head]

    def with_versions(self) -> list[int]:
        """Return the contexts that have been in more than one state, by id."""
        rows = self._db.query("SELECT context FROM versions GROUP BY context HAVING count(*) > 1 ORDER BY context")
        return [row[0] for row in rows]

    def superseded(self, context_id: int) -> list[Superseded]:
        """Return what became of turns that a context's branch no longer has, in the order in which it happened."""
        rows = self._db.query(
            "SELECT context, seq, old, new, count, sum FROM superseded WHERE context = ? ORDER BY seq, old",
            (context_id,),
        )
        return [Superseded(*self._db.checked("superseded", row)[1:]) for row in rows]

    def successor(self, context_id: int, turn: int, after: int) -> Superseded | None:
        """Return the last of these, later than seq ``after``, that tells of ``turn``."""
        row = self._db.one(
            "SELECT context, seq, old, new, count, sum FROM superseded"
            " WHERE context = ? AND seq > ? AND old <= ? AND old + count > ? ORDER BY seq DESC LIMIT 1",
            (context_id, after, turn, turn),
        )
        return Superseded(*self._db.checked("superseded", row)[1:]) if row else None

    def projects_by_id(self) -> dict[int, str]:
        """Return which project each conversation is of, "" for what is in the trash and what has no name."""
        return {context: project or "" for context, project in self._db.query("SELECT id, project FROM contexts")}

    def ids(self) -> set[int]:
        """Return the ids of all contexts that there are."""
        return {row[0] for row in self._db.query("SELECT id FROM contexts")}

    def last_id(self) -> int:
        """Return the highest id that a context has or had, 0 if there was none."""
        row = self._db.one("SELECT coalesce(max(id), 0) FROM contexts")
        return max(row[0] if row else 0, self._pruned.last_context())
