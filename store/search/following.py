"""``search.db`` of one store, kept up with what the store takes in.

Where turns lie and where heads are (``store.search.lines``) is brought up to date by whoever asks: that is little work.
Documents (``store.search.documents``) are filed a few at a time, by the background. Those turns that come after what is
filed, and few others, have none yet: who asks for everything looks at these himself, see :meth:`Following.unfiled`.

The file can be trusted as ``index.db`` can (``store.index.database``), and is deleted and made anew where it cannot be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Patched
from store.disk.retention_format import Reclaimed
from store.disk.turn_format import Turn
from store.errors import ConvfsError, NotFound, StoreFailed, UsageError
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Event, Kind
from store.events.renderer import Renderer
from store.ids import Hash, tip_of
from store.index.beside import erase_database, open_beside, remove_database
from store.index.database import Database
from store.search import documents, lines
from store.search.documents import Document, Key
from store.search.reading import Reading, Shown
from store.search.schema import SEARCH
from store.store import Store

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

FILE_NAME = "search.db"
_TURNS_AT_ONCE = 300
_BYTES_AT_ONCE = 1 << 19
_NOTHING = (-1, -1)
_PAGES_MERGED = 100
_PAGES_FREED = 1000
_LEAST_FREE = 16
"""If more than one page in so many is free, it is given back."""


class Following:
    """Keeps ``search.db``. Safe to call from any thread."""

    def __init__(self, store: Store) -> None:
        renderer = store.viewer.renderer
        if renderer is None:
            raise UsageError("this store was opened without a renderer: nothing can be searched")
        self.store = store
        self.renderer: Renderer = renderer
        self.reading = Reading(store)
        self._lock = threading.RLock()
        self._filing = threading.Lock()
        self._db: Database | None = None
        self._done = _NOTHING
        """How far the logs reached when there was nothing left to do."""

    @property
    def db(self) -> Database:
        """The database, opened when it is first asked for."""
        db = self._db
        if db is None or db.damaged:
            with self._lock:
                db = self._db
                if db is None or db.damaged:
                    if db is not None:
                        db.close()
                    db = self._db = self._open(anew=db is not None)
        return db

    def close(self, *, sync: bool) -> None:
        """Close the database; see :meth:`Database.close`."""
        with self._filing, self._lock:
            if self._db is not None:
                self._db.close(sync=sync and not self._db.damaged)
                if self._db.damaged:
                    remove_database(self.store.root / FILE_NAME)

    def renew(self) -> None:
        """Begin anew with an empty database, and leave nothing on the disk of what this one has held."""
        with self._filing, self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None
            erase_database(self.store.root / FILE_NAME)

    def _open(self, *, anew: bool) -> Database:
        store, path = self.store, self.store.root / FILE_NAME

        def usable(db: Database) -> bool:
            # what it knows of may be gone where logs had to be cut
            placed, heads = db.number("placed"), db.number("heads")
            return placed <= store.files.turns.count and heads <= store.files.heads.length

        if anew:
            remove_database(path)
        # if it is another one than before, nothing is known of it
        self._done = _NOTHING
        own: dict[str, str | int] = {"store": store.store_id.hex(), "renderer": self.renderer.version}
        return open_beside(path, store.files.index.db.boot, SEARCH, own, usable)

    # -- where turns and heads are -----------------------------------------------------------------------------------

    def follow(self) -> None:
        """Bring what is known of turns and heads up to the logs."""
        store, db = self.store, self.db
        if db.number("placed") == store.files.turns.count and db.number("heads") == store.files.heads.length:
            return
        with db.writing() as sql:
            start = db.number("heads") or HEADER_SIZE
            end = store.files.heads.length
            moved: dict[int, None] = {}
            patched: list[int] = []
            for frame in store.files.heads.frames(start):
                if isinstance(frame, Damage):
                    continue
                if frame.offset >= end:
                    break
                moved[frame.context] = None
                if isinstance(body := frame.body, Patched):
                    patched += [tip_of(turn, body.number) for turn, *_what in body.turns]
                elif isinstance(body, Reclaimed):
                    documents.drop(sql, body.runs)
            tips = {context: self._tip(context) for context in moved if context}
            # not before: a head is never ahead of the turns
            count = store.files.turns.count
            lines.add_turns(sql, store.files.turns, db.number("placed"), count)
            for context, tip in tips.items():
                lines.set_head(sql, context, tip)
            sql.executemany("INSERT OR IGNORE INTO waiting VALUES (?, 0)", [(turn,) for turn in patched])
            db.set_state("placed", count)
            db.set_state("heads", end)

    def _tip(self, context: int) -> int:
        try:
            return self.store.head(context).tip
        except NotFound:
            return 0

    @property
    def placed(self) -> int:
        """The last turn that is known of."""
        return self.db.number("placed")

    # -- documents ---------------------------------------------------------------------------------------------------

    def unfiled(self) -> list[int]:
        """Return the turns that have no document: call :meth:`follow` before."""
        db = self.db
        waiting: list[int] = [turn for (turn,) in db.query("SELECT turn FROM waiting ORDER BY turn")]
        return [*range(db.number("filed") + 1, db.number("placed") + 1), *waiting]

    def turns_between(self, first: int, beyond: int) -> dict[int, list[int]]:
        """Return the turns of the documents with numbers from ``first`` to ``beyond``."""
        turns: dict[int, list[int]] = {}
        query = "SELECT document, turn FROM turns WHERE document >= ? AND document < ? ORDER BY document"
        for document, turn in self.db.query(query, (first, beyond)):
            turns.setdefault(document, []).append(turn)
        return turns

    def documents_with(self, wanted: Callable[[str], bool]) -> set[int]:
        """Return the documents that have a resource with one of the URIs that are wanted."""
        uris = [uri for (uri,) in self.db.query("SELECT DISTINCT uri FROM resources") if wanted(uri)]
        found: set[int] = set()
        for some in batched(uris, _TURNS_AT_ONCE):
            marks = ",".join("?" * len(some))
            rows = self.db.query(f"SELECT document FROM resources WHERE uri IN ({marks})", some)
            found.update(document for (document,) in rows)
        return found

    def unfiled_contents(self) -> Iterator[tuple[Turn, set[Hash], list[ResourceRow]]]:
        """Yield the turns of :meth:`unfiled` with what they hold: contents by their hashes, and their resources.

        Those that cannot be read are left out.
        """
        for ids in batched(self.unfiled(), _TURNS_AT_ONCE):
            shown = [pair for pair in self.reading.rows(ids) if not isinstance(pair, ConvfsError)]
            references = self.store.resolver.references([turn.payload_hash for turn, _row in shown])
            resources: dict[int, list[ResourceRow]] = {}
            for resource in self.store.views.resources([(turn.turn_id, 1) for turn, _row in shown], 1):
                resources.setdefault(resource.turn, []).append(resource)
            for turn, _row in shown:
                own = resources.get(turn.turn_id, [])
                yield turn, {*references[turn.payload_hash], *(Hash(resource.hash) for resource in own)}, own

    def step(self) -> bool:
        """File a few documents or, if all are, make what the index takes a little smaller; return whether to go on."""
        with self._filing:
            seen = (self.store.files.turns.count, self.store.files.heads.length)
            if seen == self._done:
                return False
            try:
                if self._file_some() or self._tidy():
                    return True
            except StoreFailed as error:
                # a full disk: searches read what is not filed, and it is tried again when something has changed
                _LOG.warning("%s", error)
            self._done = seen
            return False

    def _tidy(self) -> bool:
        """Merge a few segments of the index, or give back some of what that has left free; return whether there was."""
        with self.db.writing() as sql:
            before = sql.total_changes
            sql.execute("INSERT INTO texts (texts, rank) VALUES ('merge', ?)", (_PAGES_MERGED,))
            # the command itself counts as one
            if sql.total_changes - before > 1:
                return True
        if self.db.number("dropped") * 2 > self.db.number("blocks"):
            # nothing leads to most of what it has
            with self._lock:
                self.db.close()
                self._db = self._open(anew=True)
            return True
        (free,), (pages,) = (self.db.query(f"PRAGMA {what}")[0] for what in ("freelist_count", "page_count"))
        if free * _LEAST_FREE < pages:
            return False
        with self.db.writing() as sql:
            sql.execute(f"PRAGMA incremental_vacuum({_PAGES_FREED})").fetchall()
        return True

    def _file_some(self) -> bool:
        self.follow()
        db = self.db
        filed, count = db.number("filed"), db.number("placed")
        late: list[int] = [
            turn for (turn,) in db.query("SELECT turn FROM waiting WHERE tried = 0 LIMIT ?", (_TURNS_AT_ONCE,))
        ]
        if not late and filed == count:
            return False
        ids = late or list(range(filed + 1, min(filed + _TURNS_AT_ONCE, count) + 1))
        shown, failed, taken = self._some(ids)
        keys = {turn.turn_id: documents.key_of(turn, row) for turn, row in shown}
        found = documents.known(db, keys.values())
        new = self._documents([pair for pair in shown if keys[pair[0].turn_id] not in found], keys)
        with db.writing() as sql:
            found |= documents.add(sql, new)
            documents.give(sql, [(turn, found[key]) for turn, key in keys.items() if key in found])
            tried = [turn for turn, key in keys.items() if key not in found] + failed
            sql.executemany("DELETE FROM waiting WHERE turn = ?", [(turn,) for turn in ids[:taken]])
            sql.executemany("INSERT OR REPLACE INTO waiting VALUES (?, 1)", [(turn,) for turn in tried])
            if not late:
                db.set_state("filed", ids[taken - 1])
        return True

    def _some(self, ids: Sequence[int]) -> tuple[list[Shown], list[int], int]:
        """Return the first of some turns, as many as are read at once, those of them that cannot be read, and how many.

        What was reclaimed is in neither: there is nothing to be read.
        """
        shown: list[Shown] = []
        failed: list[int] = []
        size = 0
        for place, (turn_id, pair) in enumerate(zip(ids, self.reading.rows(ids), strict=True)):
            if isinstance(pair, ConvfsError):
                if not isinstance(pair, NotFound):
                    failed.append(turn_id)
                continue
            size += pair[1].payload_size
            if shown and size > _BYTES_AT_ONCE:
                return shown, failed, place
            shown.append(pair)
        return shown, failed, len(ids)

    def _documents(self, shown: Sequence[Shown], keys: Mapping[int, Key]) -> dict[Key, Document]:
        """Return the documents of turns, each once; those that cannot be read are left out."""
        one_each = {keys[pair[0].turn_id]: pair for pair in reversed(shown)}
        references = self.store.resolver.references([turn.payload_hash for turn, _row in one_each.values()])
        found: dict[Key, Document] = {}
        for key, ((turn, row), event) in zip(one_each, self.reading.events([*one_each.values()]), strict=True):
            if not isinstance(event, ConvfsError):
                text = self.text(row, event)
                found[key] = documents.document_of(row, event, text, references[turn.payload_hash])
        return found

    def text(self, row: EventRow, event: Event) -> str:
        """Return what is searched of an event: the content of its file as a transcript shows it, "" if it has none."""
        return "" if row.kind is Kind.RECORD else self.renderer.content(event)


def batched(ids: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield what is given, up to ``most`` at a time."""
    return (ids[start : start + most] for start in range(0, len(ids), most))
