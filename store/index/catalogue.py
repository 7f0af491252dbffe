"""Look-ups of conversations in the index: by project and name, by day, by last change, by source."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from store import visible
from store.errors import NotFound
from store.events.conversation import CAME_FROM, Version, labels_of
from store.index.asides import UNTITLED, WARM_UP
from store.index.database import Database, Row, among
from store.index.frames import PINNED, USUAL
from store.index.origins import mark_of, origin

_HEAD = "id, head, records, updated_ms, imported, head_sum"
_COLUMNS = (
    f"{_HEAD}, id, created_ms, project, name, title, format, source, day, trashed_ms, rank, described_ms, metadata, sum"
)

_FORKED_FROM = "json_extract(metadata, '$.forked_from.context')"
"""The conversation that one branched off; ``contexts_by_forked`` is the index of it."""

_BEYOND = "\x7f"
"""A character that sorts after all days that begin alike."""
_AT_ONCE = 500

_BRANCH = "CASE json_type(metadata, '$.branch') WHEN 'text' THEN json_extract(metadata, '$.branch') END"

_SILENT = "EXISTS (SELECT 1 FROM measures m WHERE m.context = contexts.id AND m.head = contexts.head AND said = 0)"
_QUIET = f"(kind = {WARM_UP} OR kind = {UNTITLED} AND {_SILENT})"


class Among(StrEnum):
    """Which conversations to return: those that listings show, or those that have a place beside these. In SQL.

    Beside them are warm-ups, and sessions in which nobody speaks. Subagents that are in their parents are neither.
    """

    LISTED = f"NOT EXISTS (SELECT 1 FROM asides WHERE asides.context = contexts.id AND (parent != 0 OR {_QUIET}))"
    BESIDE = f"EXISTS (SELECT 1 FROM asides WHERE asides.context = contexts.id AND parent = 0 AND {_QUIET})"
    ALL = "NOT EXISTS (SELECT 1 FROM asides WHERE asides.context = contexts.id AND parent != 0)"


class ContextEntry(Struct, frozen=True):
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
    def is_file(self) -> bool:
        """True if it stands for a file of many conversations, and is none itself."""
        return "layout_of" in self.metadata

    @property
    def labels(self) -> list[str]:
        """The labels that it has."""
        return labels_of(self.metadata)

    @property
    def merged(self) -> bool:
        """True if its branch was made by an import and edits, or from another conversation."""
        return "imported_head" in self.metadata

    @property
    def imported_head(self) -> int:
        """The last turn of the branch that imports of its session have made, whatever was edited since."""
        head = self.metadata.get("imported_head")
        return head if isinstance(head, int) else self.imported


def _no_such(context_id: int) -> NotFound:
    return NotFound(f"there is no conversation with id {context_id}: `convfs ls` lists them all")


class Called(Struct, frozen=True, gc=False):
    """The name of a conversation."""

    id: int
    project: str
    name: str


class Sourced(Struct, frozen=True, gc=False):
    """The source of a conversation: its format and where it was imported from."""

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
        """Return the successor of one of these turns, 0 for none."""
        return self.new + turn - self.old if self.new else 0


_NAMES = ("called", "project", "born")
"""The kinds of origins that mean the same on all machines of a space, and lead to what any of them has imported."""


class Catalogue:
    """Contexts, found by name, day, source and other marks, without what they are drawn as.

    Reads the ``contexts`` and ``versions`` tables, which ``settle`` brings up to the last commit before each look-up.
    All methods raise DamageError where these are damaged. ``list_all``: listings show warm-ups and the like, too.
    In a space, ``machine`` is this one: paths of others, and ids that tools gave there, lead to nothing here.
    """

    def __init__(
        self,
        db: Database,
        settle: Callable[[], None] = lambda: None,
        *,
        list_all: bool = False,
        machine: str = "",
    ) -> None:
        self.machine = machine
        self._here = " AND json_extract(metadata, '$.machine') = ?" if machine else ""
        self._machine = (machine,) if machine else ()
        self._db = db
        self._settle = settle
        self._listed = Among.ALL if list_all else Among.LISTED
        self._list_all = list_all

    def _query(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        self._settle()
        return self._db.query(query, parameters)

    def _one(self, query: str, parameters: Sequence[object] = ()) -> Row | None:
        self._settle()
        return self._db.one(query, parameters)

    def _rows(self, table: str, where: str, *parameters: object) -> list[Row]:
        """Return rows of a table that have checksums, without these."""
        return [self._db.checked(table, row) for row in self._query(f"SELECT * FROM {table} WHERE {where}", parameters)]

    def _number(self, query: str) -> int:
        row = self._one(query)
        return (row[0] or 0) if row else 0

    def _entry(self, row: Row) -> ContextEntry:
        context, head, records, updated, imported = self._db.checked("contexts", row[:6])
        _, created, project, name, title, format_, source, _day, _trashed, _rank, described, metadata = (
            self._db.checked("contexts", row[6:])
        )
        named = (project or "", name or "", title, format_, source)
        said = msgspec.json.decode(metadata)
        return ContextEntry(context, *named, head, records, created, updated, said, imported, described)

    def _entries(self, where: str, *parameters: object) -> list[ContextEntry]:
        rows = self._query(f"SELECT {_COLUMNS} FROM contexts WHERE {where}", parameters)
        return [self._entry(row) for row in rows]

    def _first(self, where: str, *parameters: object) -> ContextEntry | None:
        row = self._one(f"SELECT {_COLUMNS} FROM contexts WHERE {where} LIMIT 1", parameters)
        return self._entry(row) if row else None

    def head(self, context_id: int) -> tuple[int, int] | None:
        """Return (tip, records) of a context, None if there is none of that id."""
        row = self._one(f"SELECT {_HEAD} FROM contexts WHERE id = ?", (context_id,))
        return self._db.checked("contexts", row)[1:3] if row else None

    def by_id(self, context_id: int) -> ContextEntry | None:
        """Return the context with that id."""
        return self._first("id = ?", context_id)

    def entry(self, context_id: int) -> ContextEntry:
        """Return the context with that id; NotFound if there is none."""
        found = self.by_id(context_id)
        if found is None:
            raise _no_such(context_id)
        return found

    def conversation(self, context_id: int) -> ContextEntry:
        """Return the conversation with that id, as people know it; NotFound if there is none."""
        found = self.entry(context_id)
        if found.is_file:
            raise _no_such(context_id)
        return found

    def by_name(self, project: str, name: str) -> ContextEntry | None:
        """Return the conversation ``project/name``."""
        found = self._first("project = ? AND name = ?", project, name)
        if found is not None and (found.project, found.name) != (project, name):
            raise self._db.damage("a row of contexts is out of place")
        return found

    def called_before(self, project: str, name: str) -> ContextEntry | None:
        """Return the conversation that was called ``project/name`` before its session told better."""
        return next((entry for entry in self.by_origin("called", project, name) if entry.name), None)

    def by_source(self, source: str) -> ContextEntry | None:
        """Return the newest conversation that was imported from ``source``."""
        return self._first(f"source = ? AND source != ''{self._here} ORDER BY id DESC", source, *self._machine)

    def by_source_within(self, folder: str, ending: str) -> ContextEntry | None:
        """Return the newest conversation that was imported from a path below ``folder`` that ends in ``ending``."""
        where = f"source > ? AND source < ? AND source != '' AND substr(source, -?) = ?{self._here} ORDER BY id DESC"
        return self._first(where, f"{folder}/", f"{folder}0", len(ending), ending, *self._machine)

    def of_one_file(self, *, trashed: bool = False) -> list[Sourced]:
        """Return the conversations whose session is one file, by where that lay, oldest first; or those in the trash.

        There may be very many, so their metadata is not parsed: what it has no key of stands nowhere in its text.
        """
        which = "trashed_ms != 0" if trashed else "name IS NOT NULL"
        rows = self._query(
            f"SELECT id, format, source FROM contexts WHERE source != '' AND {which}"
            " AND instr(metadata, '\"cursor\":') AND NOT instr(metadata, '\"main\":')"
            " AND NOT instr(metadata, '\"first\":') ORDER BY id"
        )
        return [Sourced(*row) for row in rows]

    def by_origin(self, kind: str, *names: str, most: int = 1) -> list[ContextEntry]:
        """Return up to ``most`` contexts (-1: all) that an import finds by these names, the newest first.

        The kinds are those of :func:`store.index.frames.origin`.
        """
        where, mark = "origin = ? ORDER BY context DESC LIMIT ?", origin(kind, *names)
        if not self.machine or kind in _NAMES:
            return self._found_by(where, mark, most)
        found = [entry for entry in self._found_by(where, mark, -1) if entry.metadata.get("machine") == self.machine]
        return found[:most] if most >= 0 else found

    def has_any(self, marks: Sequence[str]) -> bool:
        """Return whether any of some marks (:func:`store.index.origins.origin`) finds a context, of any machine."""
        some, wanted = among(marks)
        return bool(self._query(f"SELECT 1 FROM origins WHERE origin IN ({some}) LIMIT 1", wanted))

    def elsewhere(self, kind: str, *names: str, most: int = -1) -> list[ContextEntry]:
        """Return those that other machines of a space have imported, or that came from another store."""

        def of_others(metadata: Mapping[str, object]) -> bool:
            return CAME_FROM in metadata or metadata.get("machine", "") != self.machine

        where = "origin = ? ORDER BY context DESC"
        found = [entry for entry in self._found_by(where, origin(kind, *names)) if of_others(entry.metadata)]
        return found[:most] if most >= 0 else found

    def newest(self) -> int:
        """Return the id of the newest context, 0 if there is none."""
        rows = self._query("SELECT max(id) FROM contexts")
        return int(rows[0][0] or 0)

    def is_claimed(self, after: int, seq: int, marks: Iterable[str]) -> bool:
        """Return whether one of some marks finds a context newer than ``after``, or of others and moved after ``seq``.

        The others are the other machines of a space, and ``seq`` is the number of a commit.
        """
        newer = "SELECT 1 FROM origins WHERE origin = ? AND context > ?"
        moved = (
            "SELECT 1 FROM origins JOIN versions USING (context) JOIN contexts ON id = context"
            " WHERE origin = ? AND seq > ? AND json_extract(metadata, '$.machine') != ?"
        )
        return any(
            self._query(newer, (mark, after)) or self._query(moved, (mark, seq, self.machine)) for mark in marks
        )

    def layouts(self) -> list[ContextEntry]:
        """Return the contexts that stand for files of many conversations, by path."""
        where = "origin >= ? AND origin < ? ORDER BY origin, context"
        return self._found_by(where, origin("layout", ""), origin("layout", "\U0010ffff"))

    def _found_by(self, where: str, *parameters: object) -> list[ContextEntry]:
        found = [self.by_id(context) for _origin, context in self._rows("origins", where, *parameters)]
        return [entry for entry in found if entry is not None]

    def having(self, key: str) -> list[ContextEntry]:
        """Return the contexts whose metadata has ``key``; reads all metadata."""
        found = self._entries("metadata LIKE ? ORDER BY id", f'%"{key}":%')
        return [entry for entry in found if key in entry.metadata]

    def mentioning(self, text: str) -> list[ContextEntry]:
        """Return the contexts in whose metadata, as it is written in JSON, a text stands; reads all metadata."""
        return self._entries("instr(metadata, ?) ORDER BY id", text)

    def page(
        self, project: str | None = None, *, after: str = "", limit: int | None = None, among: Among | None = None
    ) -> list[ContextEntry]:
        """Return the conversations of a project, or of all, by name; within a project from beyond name ``after``.

        Only some of them if ``among`` says which.
        """
        count = -1 if limit is None else limit
        which = "" if among is None else f"AND {self._chosen(among)}"
        if project is None:
            return self._entries(f"name IS NOT NULL {which} ORDER BY project, name LIMIT ?", count)
        return self._entries(f"project = ? AND name > ? {which} ORDER BY name LIMIT ?", project, after, count)

    def _chosen(self, among: Among) -> str:
        if among is Among.LISTED:
            return self._listed
        return "FALSE" if self._list_all and among is Among.BESIDE else among

    def place(self, context_id: int) -> tuple[int, bool]:
        """Return the conversation that one is in, 0 for none, and whether listings leave it out wherever it is."""
        return self.places((context_id,)).get(context_id, (0, False))

    def places(self, context_ids: Sequence[int]) -> dict[int, tuple[int, bool]]:
        """Return what :meth:`place` says of several conversations; (0, False) are left out."""
        found: dict[int, tuple[int, bool]] = {}
        for start in range(0, len(context_ids), _AT_ONCE):
            marks, some = among(context_ids[start : start + _AT_ONCE])
            for context, parent, kind in self._rows("asides", f"context IN ({marks})", *some):
                found[context] = parent, kind != 0 and self._is_quiet(context)
        return found

    def _is_quiet(self, context_id: int) -> bool:
        quiet = f"SELECT 1 FROM asides JOIN contexts ON id = context WHERE id = ? AND {_QUIET}"
        return not self._list_all and self._one(quiet, (context_id,)) is not None

    def subagents(self, context_id: int) -> list[ContextEntry]:
        """Return the conversations of subagents that are in another, oldest first."""
        inside = "SELECT context FROM asides WHERE parent = ? AND parent != 0"
        return self._entries(f"id IN ({inside}) ORDER BY id", context_id)

    def with_subagents(self, context_ids: Sequence[int]) -> set[int]:
        """Return those of some conversations that subagents are in."""
        marks, some = among(context_ids)
        rows = self._query(f"SELECT DISTINCT parent FROM asides WHERE parent != 0 AND parent IN ({marks})", some)
        return {row[0] for row in rows}

    def started_by(self, context_id: int) -> list[int]:
        """Return the conversations of subagents that a session started, wherever they are; by id."""
        found = self.by_id(context_id)
        mark = mark_of("agent", found.metadata, "session") if found else ""
        rows = self._rows("origins", "origin = ? ORDER BY context", mark) if mark else []
        return [context for _origin, context in rows]

    def unmeasured(self) -> list[int]:
        """Return the conversations of which only a measure can tell whether listings show them, and that have none."""
        rows = self._query(
            f"SELECT c.id FROM asides a JOIN contexts c ON c.id = a.context WHERE kind = {UNTITLED}"
            " AND NOT EXISTS (SELECT 1 FROM measures m WHERE m.context = c.id AND m.head = c.head)"
        )
        return [row[0] for row in rows]

    def without_sums(self) -> list[tuple[int, int]]:
        """Return (id, tip) of the contexts that have turns and no sums at their tip, by id: there may be very many."""
        rows = self._query(
            f"SELECT {_HEAD} FROM contexts c WHERE head != 0"
            " AND NOT EXISTS (SELECT 1 FROM measures m WHERE m.context = c.id AND m.head = c.head) ORDER BY id"
        )
        return [(found[0], found[1]) for found in (self._db.checked("contexts", row) for row in rows)]

    def titles(self) -> list[tuple[int, str]]:
        """Return (id, title) of all conversations: there may be very many."""
        return [*self._query("SELECT id, title FROM contexts WHERE name IS NOT NULL")]

    def heads_in(self, project: str) -> list[tuple[int, int, int]]:
        """Return (id, tip, records) of the conversations of a project: there may be very many."""
        rows = self._query(f"SELECT {_HEAD} FROM contexts WHERE project = ? AND name IS NOT NULL", (project,))
        return [self._db.checked("contexts", row)[:3] for row in rows]

    def forks(self, context_id: int) -> list[ContextEntry]:
        """Return the conversations that branched off another, oldest first."""
        return self._entries(f"{_FORKED_FROM} = ? AND name IS NOT NULL ORDER BY id", context_id)

    def every(self) -> list[ContextEntry]:
        """Return all conversations, including those in the trash, by id."""
        return self._entries("name IS NOT NULL OR trashed_ms != 0 ORDER BY id")

    def latest(self, count: int) -> list[ContextEntry]:
        """Return up to ``count`` contexts that have a name, turns, or a place in the trash, the last changed first."""
        order = "ORDER BY updated_ms DESC, id DESC LIMIT ?"
        nameless = "name IS NULL AND trashed_ms"
        groups = ("name IS NOT NULL", f"{nameless} != 0", f"{nameless} = 0 AND head != 0")
        # of each group by itself, as each has an index, and no metadata is read of what is left out
        ids = " UNION ALL ".join(f"SELECT * FROM (SELECT id FROM contexts WHERE {group} {order})" for group in groups)
        return self._entries(f"id IN ({ids}) {order}", *[count] * (len(groups) + 1))

    def trash(self) -> list[ContextEntry]:
        """Return the conversations in the trash, latest first."""
        return self._entries("trashed_ms != 0 ORDER BY trashed_ms DESC, id DESC")

    def by_day(self, day: str) -> list[ContextEntry]:
        """Return the conversations that began on ``day`` (``2026-03-05``), of those that listings show."""
        return self._entries(f"day = ? AND name IS NOT NULL AND {self._listed} ORDER BY project, name", day)

    def recent(self, count: int) -> list[ContextEntry]:
        """Return the conversations that are pinned, then those that changed last, newest first; none of the archive.

        Of those that listings show.
        """
        latest = f"name IS NOT NULL AND rank = {{}} AND {self._listed} ORDER BY updated_ms DESC, id DESC LIMIT ?"
        pinned = self._entries(latest.format(PINNED), count)
        return pinned + self._entries(latest.format(USUAL), count - len(pinned))

    def matching(self, words: Sequence[str], count: int, skipped: int = 0) -> list[ContextEntry]:
        """Return ``count`` conversations that have all ``words`` in title, project or name, the last changed first.

        The first ``skipped`` of them are left out.
        """
        where = " AND ".join(
            ["name IS NOT NULL", *["instr(lower(title || char(10) || project || char(10) || name), ?)"] * len(words)]
        )
        latest = f"{where} ORDER BY updated_ms DESC, id DESC LIMIT ? OFFSET ?"
        return self._entries(latest, *(word.lower() for word in words), count, skipped)

    def changed_ms(self) -> int:
        """Return when a conversation last changed, 0 if there is none."""
        return self._number("SELECT max(updated_ms) FROM contexts WHERE name IS NOT NULL")

    def labels(self) -> list[str]:
        """Return the labels that conversations have, sorted."""
        # a skip scan: one look-up a label, however many conversations have it
        found: list[str] = []
        while rows := self._rows("labels", "name > ? ORDER BY name, context LIMIT 1", found[-1] if found else ""):
            found.append(rows[0][0])
        return found

    def labelled(self, label: str, most: int = -1) -> list[Called]:
        """Return how the conversations are called that have a label, oldest first: there may be very many.

        With ``most``, the first of them.
        """
        rows = self._query(
            "SELECT labels.name, context, labels.sum, project, contexts.name FROM labels JOIN contexts ON id = context"
            " WHERE labels.name = ? ORDER BY context LIMIT ?",
            (label, most),
        )
        return [Called(self._db.checked("labels", row[:3])[1], row[3], row[4]) for row in rows]

    def tools(self) -> list[str]:
        """Return the formats that conversations are of, of those that listings show."""
        return self._values("format")

    def of_tool(self, tool: str) -> list[ContextEntry]:
        """Return the conversations of a format that listings show."""
        return self._entries(f"name IS NOT NULL AND format = ? AND {self._listed} ORDER BY id", tool)

    def branches(self) -> list[str]:
        """Return the branches of version control that conversations were on, of those that listings show."""
        return self._values(_BRANCH)

    def on_branch(self, branch: str) -> list[ContextEntry]:
        """Return the conversations on a branch that listings show."""
        return self._entries(f"name IS NOT NULL AND {_BRANCH} = ? AND {self._listed} ORDER BY id", branch)

    def listed(self, context_ids: Iterable[int]) -> list[ContextEntry]:
        """Return those of some conversations that listings show."""
        some = ",".join(map(str, context_ids))
        return self._entries(f"id IN ({some}) AND name IS NOT NULL AND {self._listed} ORDER BY id")

    def _values(self, column: str) -> list[str]:
        where = f"name IS NOT NULL AND {column} != '' AND {self._listed}"
        return [row[0] for row in self._query(f"SELECT DISTINCT {column} FROM contexts WHERE {where} ORDER BY 1")]

    def projects(self) -> list[str]:
        """Return the projects that have conversations, by name."""
        return [row[0] for row in self._rows("projects", "true ORDER BY name")]

    def days(self, prefix: str = "") -> list[str]:
        """Return the years (``""``), months (``"2026"``) or days (``"2026-03"``) on which those conversations began."""
        length = {0: 4, 4: 7, 7: 10}.get(len(prefix), 10)
        step = (
            f"SELECT day FROM contexts WHERE day > ? AND day < ? AND name IS NOT NULL AND {self._listed}"
            " ORDER BY day LIMIT 1"
        )
        # a skip scan, as of labels
        found: list[str] = []
        while row := self._one(step, (found[-1] + _BEYOND if found else prefix, prefix + _BEYOND)):
            found.append(row[0][:length])
        return found

    def nameless(self) -> list[int]:
        """Return the contexts without a name that have turns, except those in the trash; by id."""
        where = "name IS NULL AND trashed_ms = 0 AND head != 0 ORDER BY id"
        return [row[0] for row in self._query(f"SELECT id FROM contexts WHERE {where}", ())]

    def names_like(self, project: str, stem: str) -> set[str]:
        """Return the names within ``project`` that begin with ``stem``, and those that conversations had before."""
        rows = self._query(
            "SELECT name FROM contexts WHERE project = ? AND name >= ? AND name < ?",
            (project, stem, stem + "\U0010ffff"),
        )
        first = origin("called", project, stem)
        before = self._rows("origins", "origin >= ? AND origin < ?", first, first + "\U0010ffff")
        return {row[0] for row in rows} | {called.rpartition("\0")[2] for called, _context in before}

    def has_been_project(self, project: str) -> bool:
        """Return whether any conversation was formerly in a project."""
        found = self._one(
            "SELECT 1 FROM origins WHERE origin > ? AND origin < ? LIMIT 1",
            (origin("called", project, ""), origin("called", project, "\U0010ffff")),
        )
        return found is not None

    def versions(self, context_id: int) -> list[Version]:
        """Return the states that a context has been in, oldest first, but for those that were pruned."""
        rows = self._rows("versions", "context = ? ORDER BY seq", context_id)
        first = self.pruned_versions(context_id) + 1
        return [Version(number, *row[1:]) for number, row in enumerate(rows, first)]

    def last_action(self, context_id: int) -> str:
        """Return the action of the last version of a context, "" if there is none."""
        rows = self._rows("versions", "context = ? ORDER BY seq DESC LIMIT 1", context_id)
        return rows[0][5] if rows else ""

    def version(self, context_id: int, number: int) -> Version:
        """Return a version of a conversation by its number; NotFound if there is none, or it was pruned."""
        versions = self.versions(context_id)
        at = number - versions[0].number if versions else 0
        if 0 <= at < len(versions):
            return versions[at]
        entry = self.entry(context_id)
        name = f"{entry.project}/{entry.name}"
        listing = visible.command("convfs", "log", name)
        if at < 0 < number:
            raise NotFound(f"version {number} of {name} was pruned: `{listing}` lists those that are left")
        raise NotFound(f"{name} has no version {number}: `{listing}` lists them")

    def pruned_versions(self, context_id: int) -> int:
        """Return how many versions of a context were pruned: the oldest."""
        rows = self._rows("pruned_versions", "context = ?", context_id)
        return rows[0][1] if rows else 0

    def pruned(self, kind: str, *names: str) -> int:
        """Return the id that the newest context found by these names had which was deleted for good, 0 if none was.

        The kinds are those of :func:`store.index.frames.origin`.
        """
        if self._machine and kind in _NAMES:
            # whichever machine had it last
            mark = origin(kind, *names)
            where, marks = "(origin = ? OR origin > ? AND origin < ?)", [mark, f"{mark}\0", f"{mark}\1"]
        else:
            where, marks = "origin = ?", [origin(kind, *names, *(self._machine if kind else ()))]
        rows = self._rows("pruned", f"{where} ORDER BY context DESC LIMIT 1", *marks)
        return rows[0][1] if rows else 0

    def states(self) -> list[tuple[int, int]]:
        """Return (context, tip) of every state that a context is in or has been in."""
        query = "SELECT id, head FROM contexts UNION SELECT context, head FROM versions"
        return [(context, head) for context, head in self._query(query) if head]

    def with_versions(self) -> list[int]:
        """Return the contexts that have been in more than one state, by id."""
        rows = self._query("SELECT context FROM versions GROUP BY context HAVING count(*) > 1 ORDER BY context")
        return [row[0] for row in rows]

    def superseded(self, context_id: int) -> list[Superseded]:
        """Return the successors of turns that a context's branch no longer has, in the order of the edits."""
        rows = self._rows("superseded", "context = ? ORDER BY seq, old", context_id)
        return [Superseded(*row[1:]) for row in rows]

    def successor(self, context_id: int, turn: int, after: int) -> Superseded | None:
        """Return the last of these, later than seq ``after``, that tells of ``turn``."""
        where = "context = ? AND seq > ? AND old <= ? AND old + count > ? ORDER BY seq DESC LIMIT 1"
        rows = self._rows("superseded", where, context_id, after, turn, turn)
        return Superseded(*rows[0][1:]) if rows else None

    def projects_by_id(self) -> dict[int, str]:
        """Return the project of each conversation, "" for those in the trash and those without a name."""
        return {context: project or "" for context, project in self._query("SELECT id, project FROM contexts")}

    def ids(self) -> set[int]:
        """Return the ids of all contexts that there are."""
        return {row[0] for row in self._query("SELECT id FROM contexts")}

    def last_id(self) -> int:
        """Return the highest id that a context has or had, 0 if there was none."""
        return max(self._number("SELECT max(id) FROM contexts"), self.pruned(""))
