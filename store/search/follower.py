"""``search.db`` of one store, kept up to date with the store.

The places of turns and heads are brought up to date by every caller: that is little work. Documents
(``store.search.documents``) are filed a few at a time, in the background. The latest turns, and few others, have none
yet: a caller who asks for everything must look at these, too, see :meth:`Follower.unfiled_turns`.

The file can be trusted as ``index.db`` can (``store.index.database``); where it cannot be, it is deleted and recreated.

A *document* is the searchable form of one payload: however many turns carry that payload, its text is indexed once.
Texts are indexed in *blocks* of some documents that came together: looking tells which of them it is, and small texts
cost little. The numbers of documents (``store.search.documents``) say which block each is of, and rise with how much a
reader is likely to care.

A *line* is a branch as it grew, kept by its first turn: a turn that follows the last of a line goes on with it; one
that branches off from further up, by a fork or an edit, begins a line of its own, which knows where it branched off. A
conversation's head is a place on a line, and so is every turn. So a fork adds one row, however much it shares; and the
branches that have a turn end on its line, no higher up than it, or on a line that branched off there, or off such a
line.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from store import paths
from store.conversations.library import Library
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Patched, Reclaimed
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import Away, ConvfsError, NotFound, StoreFailed, UsageError
from store.events.conversation import EventRow, Renderer, ResourceRow
from store.events.event import Event, Kind
from store.ids import Hash, tip_of, turn_of
from store.index.database import Database, Row, Schema, among, asked_again, held_if_full
from store.search import documents, segments
from store.search.documents import Gathered, Gathering, Key
from store.search.reader import ShownTurn, TurnReader
from store.search.segments import Segments
from store.upkeep.derived import Derived
from store.upkeep.recovery import Files

_AT_ONCE = 4096
_RUN = "SELECT first, last, line, depth FROM runs WHERE first <= ? ORDER BY first DESC LIMIT 1"

# the lines from which a place is reached, and how far up: the place's own, and all that branched off behind it
_HOLDING = (
    "WITH RECURSIVE above (line, depth) AS (VALUES (?, ?) UNION ALL"
    " SELECT lines.id, lines.depth FROM above JOIN lines ON lines.parent = above.line AND lines.depth > above.depth)"
    " SELECT context, tip FROM above JOIN heads ON heads.line = above.line AND heads.depth >= above.depth"
    " ORDER BY context"
)
TABLES = """
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- payload: the key of its hash (store.ids); sight: what else decides on how it is seen, as a checksum.
CREATE TABLE documents (
    payload INTEGER NOT NULL, sight INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (payload, sight)
) WITHOUT ROWID;

-- The document of every turn; of one that is seen through a patch, under the id that it has then.
CREATE TABLE turns (turn INTEGER PRIMARY KEY, document INTEGER NOT NULL);
CREATE INDEX turns_by_document ON turns (document);

-- Turns that have no document yet though those after them do; or get none (tried): they could not be read.
CREATE TABLE waiting (turn INTEGER PRIMARY KEY, tried INTEGER NOT NULL);

-- Which documents' payloads a content was cut out of, or show it, by the key of a digest of either algorithm; and
-- under which URIs.
CREATE TABLE contents (
    content INTEGER NOT NULL, document INTEGER NOT NULL, PRIMARY KEY (content, document)
) WITHOUT ROWID;
CREATE TABLE resources (
    uri TEXT NOT NULL, document INTEGER NOT NULL, content INTEGER NOT NULL, PRIMARY KEY (uri, document, content)
) WITHOUT ROWID;

-- A line's number is its first turn, depth is that one's; it branched off the line parent (0: none).
CREATE TABLE lines (
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, depth INTEGER NOT NULL, tip INTEGER NOT NULL
);
CREATE INDEX lines_by_parent ON lines (parent, depth);
-- Turns that follow each other in the log and on a line; depth is that of the first.
CREATE TABLE runs (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, line INTEGER NOT NULL, depth INTEGER NOT NULL);
CREATE TABLE heads (
    context INTEGER PRIMARY KEY, tip INTEGER NOT NULL, line INTEGER NOT NULL, depth INTEGER NOT NULL
);
CREATE INDEX heads_by_line ON heads (line, depth);
"""

SEARCH = Schema(3, TABLES + segments.TABLES, ("auto_vacuum = INCREMENTAL",))

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_TURNS_AT_ONCE = 300
_BYTES_AT_ONCE = 1 << 19
_TURNS_FILED = 1200
_BYTES_FILED = 2 << 20
"""More turns make fewer segments, which cost less to be made and merged, but hold the processor longer."""
_NOTHING = (-1, -1)
_AGAIN_SECONDS = 600.0
"""The interval of retrying unreadable turns: the disk may have failed for a moment only."""
_AWAY_SECONDS = 10.0
"""The same, where the space that has them was away."""
_PAGES_FREED = 1000
_LEAST_FREE = 64
"""Free pages are given back if there are more than one in this many."""


def add_turns(sql: sqlite3.Connection, log: TurnLog, after: int, last: int) -> None:
    """File the lines on which the turns after ``after`` lie, up to turn ``last``. Damaged turns lie on none."""
    while after < last:
        links = log.links(after + 1, min(last - after, _AT_ONCE))
        _add(sql, links, after + 1)
        after += len(links)


def _add(sql: sqlite3.Connection, links: Iterable[tuple[int, int] | None], first: int) -> None:
    begun = end = 0
    line = start = 0
    for turn, link in enumerate(links, first):
        if link is not None and begun and link[0] == turn - 1 == end:
            end = turn
            continue
        if begun:
            _put(sql, begun, end, line, start)
            begun = 0
        if link is not None:
            parent, start = link
            line = _line_of(sql, turn, parent, start)
            begun = end = turn
    if begun:
        _put(sql, begun, end, line, start)


def _put(sql: sqlite3.Connection, first: int, last: int, line: int, depth: int) -> None:
    before: Row | None = sql.execute(_RUN, (first - 1,)).fetchone()
    if before is not None and before[1] == first - 1 and before[2] == line:
        sql.execute("UPDATE runs SET last = ? WHERE first = ?", (last, before[0]))
    else:
        sql.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", (first, last, line, depth))
    sql.execute("UPDATE lines SET tip = ? WHERE id = ?", (last, line))


def _line_of(sql: sqlite3.Connection, turn: int, parent: int, depth: int) -> int:
    """Return the line of a turn, which it may begin."""
    row: Row | None = sql.execute(_RUN, (parent,)).fetchone() if parent else None
    before = row[2] if row is not None and row[1] >= parent else 0
    if before and sql.execute("SELECT 1 FROM lines WHERE id = ? AND tip = ?", (before, parent)).fetchone():
        return int(before)
    sql.execute("INSERT INTO lines VALUES (?, ?, ?, ?)", (turn, before, depth, turn))
    return turn


def set_head(sql: sqlite3.Connection, context: int, tip: int) -> None:
    """File the end of a context's branch; ``tip`` is 0 if it has none."""
    row: Row | None = sql.execute(_RUN, (turn_of(tip),)).fetchone() if tip else None
    if row is None or row[1] < turn_of(tip):
        sql.execute("DELETE FROM heads WHERE context = ?", (context,))
    else:
        depth = row[3] + turn_of(tip) - row[0]
        sql.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?)", (context, tip, row[2], depth))


def depth_of(db: Database, turn: int) -> int | None:
    """Return the depth of a turn (the root's is 0), None if it lies on no line."""
    row = db.one(_RUN, (turn,))
    return row[3] + turn - row[0] if row is not None and row[1] >= turn else None


def holding(db: Database, turn: int) -> list[tuple[int, int]]:
    """Return (context, tip) of the contexts whose present branch has a turn as appended or patched, by context."""
    row = db.one(_RUN, (turn,))
    if row is None or row[1] < turn:
        return []
    first, _last, line, depth = row
    found: list[tuple[int, int]] = db.query(_HOLDING, (line, depth + turn - first))
    return found


class _Read(Struct):
    """Turns that were read and are not filed yet, the last of them ``last`` unless they are filed late.

    ``drops`` is how often turns had been dropped when the first was read; ``known`` the documents that were there.
    """

    last: int
    drops: int
    ids: list[int] = []
    keys: dict[int, Key] = {}
    known: dict[Key, int] = {}
    gathering: Gathering = field(default_factory=Gathering)
    failed: list[int] = []
    size: int = 0


class Follower(Derived):
    """Keeps ``search.db``. Safe to call from any thread."""

    def __init__(self, files: Files, library: Library) -> None:
        super().__init__(files, library, paths.SEARCH, SEARCH, "placed")
        self.reading = TurnReader(library)
        self.reached = 0
        """As of :class:`store.upkeep.idle.Reading`."""
        self._done = _NOTHING
        """The place in the logs up to which nothing was left to do."""
        self._segments: Segments | None = None
        self._read: _Read | None = None
        self._drops = 0
        """How often turns were dropped, or the database was opened anew."""
        self._again = 0.0
        """The next time to try unreadable turns, by the monotonic clock."""

    @property
    def renderer(self) -> Renderer:
        """The renderer of events. UsageError where the store was opened without one."""
        renderer = self.library.viewer.renderer
        if renderer is None:
            raise UsageError("this store was opened without a renderer: nothing can be searched")
        return renderer

    def _own(self) -> dict[str, str | int]:
        return {"renderer": self.renderer.version}

    def _open(self, *, anew: bool) -> Database:
        # nothing is known of a database other than before
        self._done = _NOTHING
        self._read = None
        self._drops += 1
        return super()._open(anew=anew)

    @property
    def segments(self) -> Segments:
        """The words of what is filed."""
        known, db = self._segments, self.db
        if known is None or known.db is not db:
            self._segments = known = Segments(db)
        return known

    @asked_again
    @held_if_full
    def follow(self) -> Database:
        """Bring the known turns and heads up to date with the logs; return the database that has them."""
        files, db = self.files, self.db
        if db.number("placed") == files.turns.count and db.number("heads") == files.heads.length:
            return db
        with db.writing() as sql:
            start = db.number("heads") or HEADER_SIZE
            end = files.heads.length
            moved: dict[int, None] = {}
            patched: list[int] = []
            for frame in files.heads.frames(start):
                if isinstance(frame, Damage):
                    continue
                if frame.offset >= end:
                    break
                moved[frame.context] = None
                if isinstance(body := frame.body, Patched):
                    patched += [tip_of(turn, body.number) for turn, *_what in body.turns]
                elif isinstance(body, Reclaimed):
                    self._drops += 1
                    documents.drop(sql, body.runs)
            tips = {context: self.library.catalogue.head(context) for context in moved if context}
            # not before: a head is never ahead of the turns
            count = files.turns.count
            add_turns(sql, files.turns, db.number("placed"), count)
            for context, tip in tips.items():
                set_head(sql, context, tip[0] if tip else 0)
            sql.executemany("INSERT OR IGNORE INTO waiting VALUES (?, 0)", [(turn,) for turn in patched])
            db.set_state("placed", count)
            db.set_state("heads", end)
        return db

    @asked_again
    def unfiled_turns(self) -> list[int]:
        """Return the turns that have no document."""
        db = self.follow()
        waiting: list[int] = [turn for (turn,) in db.query("SELECT turn FROM waiting ORDER BY turn")]
        return [*range(db.number("filed") + 1, db.number("placed") + 1), *waiting]

    @property
    @asked_again
    def lacks_some(self) -> bool:
        """Whether there are :meth:`unfiled_turns`."""
        db = self.db
        return db.number("filed") < db.number("placed") or db.one("SELECT 1 FROM waiting LIMIT 1") is not None

    def turns_between(self, first: int, beyond: int) -> dict[int, list[int]]:
        """Return the turns of the documents with numbers from ``first`` to ``beyond``."""
        turns: dict[int, list[int]] = {}
        query = "SELECT document, turn FROM turns WHERE document >= ? AND document < ? ORDER BY document"
        for document, turn in self.db.query(query, (first, beyond)):
            turns.setdefault(document, []).append(turn)
        return turns

    def documents_with(self, wanted: Callable[[str], bool]) -> set[int]:
        """Return the documents that have a resource with a URI that is ``wanted``."""
        uris = [uri for (uri,) in self.db.query("SELECT DISTINCT uri FROM resources") if wanted(uri)]
        found: set[int] = set()
        for some in batched(uris, _TURNS_AT_ONCE):
            marks, parameters = among(some)
            rows = self.db.query(f"SELECT document FROM resources WHERE uri IN ({marks})", parameters)
            found.update(document for (document,) in rows)
        return found

    def contents(self, turns: Sequence[int]) -> Iterator[tuple[int, list[bytes]]]:
        """Yield readable turns with the contents that ``events.json`` can name by their hashes."""
        shown = [pair for pair in self.reading.rows(turns) if not isinstance(pair, ConvfsError)]
        for (turn, _row), (_same, event) in zip(
            shown, self.library.viewer.events([row for _turn, row in shown]), strict=True
        ):
            if not isinstance(event, ConvfsError):
                yield turn.turn_id, self.renderer.contents(event)

    def unfiled_contents(self, *, shown: bool = False) -> Iterator[tuple[Turn, set[Hash], list[ResourceRow]]]:
        """Yield the readable turns of :meth:`unfiled_turns`, the hashes of their contents, and their resources.

        Only if ``shown`` is True, also of the contents that records hold themselves: each has to be read.
        """
        for ids in batched(self.unfiled_turns(), _TURNS_AT_ONCE):
            readable = [pair for pair in self.reading.rows(ids) if not isinstance(pair, ConvfsError)]
            references = self.library.contents.blobs.references([turn.payload_hash for turn, _row in readable])
            resources: dict[int, list[ResourceRow]] = {}
            for resource in self.library.views.resources([(turn.turn_id, 1) for turn, _row in readable], 1):
                resources.setdefault(resource.turn, []).append(resource)
            said = dict(self.contents(ids)) if shown and self.library.viewer.renderer is not None else {}
            for turn, _row in readable:
                own = resources.get(turn.turn_id, [])
                contents = {*references.get(turn.payload_hash, ()), *documents.digests(said.get(turn.turn_id, ()))}
                yield turn, {*contents, *(Hash(resource.hash) for resource in own)}, own

    def step(self) -> bool:
        """File a few documents or, if there are none, make the index a little smaller; return whether to go on."""
        with self._filing:
            seen = (self.files.turns.count, self.files.heads.length)
            again = time.monotonic() >= self._again
            if seen == self._done and not again:
                return False
            try:
                if again:
                    self._try_again()
                if self._file_some() or self._tidy():
                    return True
            except StoreFailed as error:
                # a full disk: searches read unfiled turns, and filing is tried again when something has changed
                _LOG.warning("%s", error)
            self._done = seen
            return False

    def file_until(self, until: float) -> None:
        """File documents, ``until`` a monotonic time at most; what :meth:`step` does besides can wait."""
        with self._filing:
            try:
                if time.monotonic() >= self._again:
                    self._try_again()
                while time.monotonic() < until and self._file_some():
                    pass
                self._file_read()
            except StoreFailed as error:
                _LOG.warning("%s", error)

    @property
    def opening(self) -> int:
        """A number that is another one once turns are dropped, or the database is opened anew."""
        self.follow()
        return self._drops

    def add(self, gathered: Gathered, shown: Mapping[int, Key], opening: int) -> None:
        """File documents that were gathered of turns which were committed since then, and which turn shows each.

        ``opening`` is what :attr:`opening` was before; if that is over, they are read and filed as all others.
        """
        if not shown:
            return
        try:
            with self._filing:
                # what was read in the background ends where all turns are filed
                self._file_read()
                self.follow()
                if opening == self._drops:
                    self._file(gathered, shown)
        except ConvfsError as error:
            # they can be read all the same
            _LOG.warning("what was imported is read again for the index of words: %s", error)

    @held_if_full
    def _file(self, gathered: Gathered, shown: Mapping[int, Key]) -> None:
        db, last = self.db, max(shown)
        there = documents.known(db, shown.values())
        with db.writing() as sql:
            found = documents.add(sql, self.segments, gathered, there, {*shown.values()})
            rows = sorted((turn, found[key]) for turn, key in shown.items())
            sql.executemany("INSERT OR REPLACE INTO turns VALUES (?, ?)", rows)
            filed = db.number("filed")
            sql.executemany("DELETE FROM waiting WHERE turn = ?", [(turn,) for turn, _own in rows if turn <= filed])
            if last > filed:
                between = [(turn,) for turn in range(filed + 1, last) if turn not in shown]
                sql.executemany("INSERT OR IGNORE INTO waiting VALUES (?, 0)", between)
                db.set_state("filed", last)

    def _try_again(self) -> None:
        self._again = time.monotonic() + _AGAIN_SECONDS
        if self.db.one("SELECT 1 FROM waiting WHERE tried != 0 LIMIT 1") is not None:
            with self.db.writing() as sql:
                sql.execute("UPDATE waiting SET tried = 0")

    def _tidy(self) -> bool:
        """Merge a few segments of the index, or give back some of the freed space; return whether there was any."""
        if self.segments.merge():
            return True
        if self.db.number("dropped") * 2 > self.segments.span:
            # most of it is unreachable
            with self._opening:
                self._db = self._open(anew=True)
            return True
        (free,), (pages,) = (self.db.query(f"PRAGMA {what}")[0] for what in ("freelist_count", "page_count"))
        if free * _LEAST_FREE < pages:
            return False
        self.db.give_back(_PAGES_FREED)
        return True

    def _file_some(self) -> bool:
        """Read a few turns, and file what was read if that is much or all there is; return whether there were any."""
        self.follow()
        db = self.db
        read = self._read or _Read(db.number("filed"), self._drops)
        late: list[int] = []
        if not read.ids:
            rows = db.query("SELECT turn FROM waiting WHERE tried = 0 LIMIT ?", (_TURNS_AT_ONCE,))
            late = [turn for (turn,) in rows]
        count = db.number("placed")
        self._read_on(read, late or range(read.last + 1, min(read.last + _TURNS_AT_ONCE, count) + 1))
        if not read.ids:
            return False
        if not late:
            read.last = read.ids[-1]
        self.reached = read.last
        self._read = read
        if late or read.last == count or len(read.ids) >= _TURNS_FILED or read.size >= _BYTES_FILED:
            self._file_read()
        return True

    def _read_on(self, read: _Read, ids: Sequence[int]) -> None:
        shown, failed, taken = self._some(ids)
        keys = {turn.turn_id: documents.key_of(turn, row) for turn, row in shown}
        read.known |= documents.known(self.db, keys.values())
        new = [pair for pair in shown if keys[pair[0].turn_id] not in read.known]
        self._gather(read.gathering, new, keys)
        read.ids += ids[:taken]
        read.keys |= keys
        read.failed += failed
        read.size += sum(row.payload_size for _turn, row in shown)

    def _file_read(self) -> None:
        """File what was read."""
        read, self._read = self._read, None
        if read is None:
            return
        with self.db.writing() as sql:
            if read.drops != self._drops:
                # some of it may be gone
                return
            found = documents.add(sql, self.segments, read.gathering.end(), read.known, {*read.keys.values()})
            shows = [(turn, found[key]) for turn, key in read.keys.items() if key in found]
            sql.executemany("INSERT OR REPLACE INTO turns VALUES (?, ?)", shows)
            tried = [turn for turn, key in read.keys.items() if key not in found] + read.failed
            sql.executemany("DELETE FROM waiting WHERE turn = ?", [(turn,) for turn in read.ids])
            sql.executemany("INSERT OR REPLACE INTO waiting VALUES (?, 1)", [(turn,) for turn in tried])
            self.db.set_state("filed", read.last)

    def _some(self, ids: Sequence[int]) -> tuple[list[ShownTurn], list[int], int]:
        """Return the first of some turns, as many as are read at once, the unreadable ones among them, and how many.

        Reclaimed turns are in neither: there is nothing to be read. A turn that will look different once everything
        that it follows from is readable counts as unreadable.
        """
        shown: list[ShownTurn] = []
        failed: list[int] = []
        size = 0
        for place, (turn_id, pair) in enumerate(zip(ids, self.reading.rows(ids), strict=True)):
            if isinstance(pair, ConvfsError):
                if not isinstance(pair, NotFound):
                    failed.append(turn_id)
                continue
            if pair[1].unsure:
                failed.append(turn_id)
                continue
            size += pair[1].payload_size
            if shown and size > _BYTES_AT_ONCE:
                return shown, failed, place
            shown.append(pair)
        return shown, failed, len(ids)

    def _gather(self, into: Gathering, shown: Sequence[ShownTurn], keys: Mapping[int, Key]) -> None:
        one_each = {keys[pair[0].turn_id]: pair for pair in reversed(shown) if keys[pair[0].turn_id] not in into}
        references = self.library.contents.blobs.references([turn.payload_hash for turn, _row in one_each.values()])
        read = self.library.viewer.events([row for _turn, row in one_each.values()])
        for (key, (turn, row)), (_row, event) in zip(one_each.items(), read, strict=True):
            if isinstance(event, Away):
                self._again = min(self._again, time.monotonic() + _AWAY_SECONDS)
            elif not isinstance(event, ConvfsError) and (contents := references.get(turn.payload_hash)) is not None:
                text, shown_in_it = self.text(row, event).encode(), self.renderer.contents(event)
                into.add(key, row.kind, text, event.resources, contents, shown_in_it)

    def text(self, row: EventRow, event: Event) -> str:
        """Return the searched text of an event: the content of its file, "" if it has none."""
        return "" if row.kind is Kind.RECORD else self.renderer.content(event)


def batched(ids: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield batches of up to ``most`` ids."""
    return (ids[start : start + most] for start in range(0, len(ids), most))
