"""Derived databases of a store: what the search, the counts and others keep beside the index.

Each is opened when it is first asked for, made anew where it is damaged, and emptied where it knows of turns or frames
that are gone because logs had to be cut.
"""

import logging
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress

from store.conversations.library import Library
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import HeadFrame
from store.errors import Away, ConvfsError, DamageError, NotFound, StoreFailed
from store.index.beside import erase_database, open_beside, remove_database
from store.index.database import Database, Schema, held_if_full
from store.upkeep.idle import SLICE_SECONDS
from store.upkeep.recovery import Files

_LOG = logging.getLogger(__name__)


class Derived(ABC):
    """Keeps the database ``name`` of one store. Safe to call from any thread.

    Its table ``state`` says under ``turns`` up to which turn, and under ``heads`` up to where in the head log, it was
    brought up to date.
    """

    def __init__(self, files: Files, library: Library, name: str, schema: Schema, turns: str) -> None:
        self.files = files
        self.library = library
        self._name = name
        self._schema = schema
        self._turns = turns
        self._opening = threading.RLock()
        self._filing = threading.Lock()
        """Held while something is filed."""
        self._db: Database | None = None
        self._closed = False

    @abstractmethod
    def _own(self) -> dict[str, str | int]:
        """Return what the state of a database says that can be used, apart from the store that it is of."""

    @property
    def db(self) -> Database:
        """The database. StoreFailed once the store has been closed."""
        db = self._db
        if db is None or db.damaged or db.renewed:
            with self._opening:
                db = self._db
                if db is None or db.damaged or db.renewed:
                    db = self._db = self._open(anew=db is not None)
        return db

    def _open(self, *, anew: bool) -> Database:
        files = self.files

        def usable(db: Database) -> bool:
            return db.number(self._turns) <= files.turns.count and db.number("heads") <= files.heads.length

        own = {"store": files.files_id.hex(), **self._own()}
        if self._closed:
            raise StoreFailed("the store has been closed")
        if self._db is not None:
            self._db.close(renewed=True)
        if anew:
            remove_database(files.aside.path(self._name))
        return open_beside(files.aside, self._name, files.index.db.boot, self._schema, own, usable)

    def shrink(self) -> None:
        """Give back the memory of what was read and filed."""
        if (db := self._db) is not None:
            db.shrink()

    def renew(self) -> None:
        """Begin again with an empty database, and leave nothing of the old one on the disk."""
        with self._filing, self._opening:
            if self._db is not None:
                self._db.close(renewed=True)
                self._db = None
            erase_database(self.files.aside.path(self._name))

    def close(self) -> None:
        """Bring the database to disk and close it; the store does so when it is closed."""
        with self._filing, self._opening:
            # another thread that is filing must not open it again
            self._closed = True
            db, self._db = self._db, None
            if db is not None:
                with suppress(ConvfsError):
                    # it is recreated
                    db.close(sync=not db.damaged)
                if db.damaged:
                    remove_database(db.path)


PROGRESS = """
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- The head up to which what follows from a conversation is there.
CREATE TABLE conversations (context INTEGER PRIMARY KEY, head INTEGER NOT NULL, sum INTEGER NOT NULL);
-- Conversations that have changed since they were looked at.
CREATE TABLE waiting (context INTEGER PRIMARY KEY);
"""
"""The tables of a :class:`PerConversation`, apart from its own."""

_NOTHING = (-1, -1)


class PerConversation(Derived):
    """Keeps what follows from each conversation; one that has changed is looked at again. Safe to call from any thread.

    It is a job for when the store is idle.
    """

    def __init__(self, files: Files, library: Library, name: str, schema: Schema) -> None:
        super().__init__(files, library, name, schema, "turns")
        self.reached = 0
        """As of :class:`store.upkeep.idle.Reading`: a conversation is gone through at once, whatever lies between."""
        self._passed = 0
        """The last conversation that has to wait, as its contents cannot be fetched now: those behind it come first."""
        self._done = _NOTHING
        """The lengths of the logs when there was nothing left to do."""

    def _open(self, *, anew: bool) -> Database:
        # nothing is known of a database other than before
        self._done = _NOTHING
        return super()._open(anew=anew)

    @abstractmethod
    def _look_at(self, context: int, head: int, until: float) -> int:
        """File what follows from a conversation, ``until`` then at most; return how many records are left."""

    @abstractmethod
    def _drop(self, sql: sqlite3.Connection, context: int) -> None:
        """Drop what was filed of a conversation that is gone."""

    def _note(self, sql: sqlite3.Connection, frame: HeadFrame) -> None:
        """Note a frame of the head log, if it says more than that a conversation has changed."""

    def _known_head(self, context: int) -> int:
        try:
            row = self.db.one("SELECT * FROM conversations WHERE context = ?", (context,))
            head: int = self.db.checked("conversations", row)[1] if row else 0
        except (OSError, StoreFailed) as error:
            # a full disk: what is asked for can be found all the same
            _LOG.info("what is known of conversations cannot be looked up: %s", error)
            return 0
        return head

    def step(self) -> bool:
        """Look at a few events of conversations that have changed; return whether there are more."""
        seen = (self.files.turns.count, self.files.heads.length)
        if seen == self._done and self._db is not None:
            return False
        try:
            if self._look(time.monotonic() + SLICE_SECONDS):
                return True
        except StoreFailed as error:
            # a full disk: this is tried again when something has changed
            _LOG.warning("%s", error)
        self._done = seen
        return False

    def _look(self, until: float) -> bool:
        """Look at the next conversation that has changed, ``until`` then at most; return whether there was one."""
        with self._filing:
            self._follow()
            found = self.db.one(
                "SELECT context FROM waiting WHERE context > ? ORDER BY context LIMIT 1", (self._passed,)
            )
            if found is None:
                self._passed = 0
                self.reached = self.files.turns.count
                return False
            [context] = found
            now = self.library.catalogue.head(context)
            if now is not None and now[0] and (known := self._known_head(context)) != now[0]:
                try:
                    left = self._look_at(context, now[0], until)
                    self.reached = self._beyond(known, now[0], left)
                    if left:
                        return True
                except Away as error:
                    _LOG.info("%s does not know context %d yet: %s", self.db.path.name, context, error)
                    self._passed = context
                    return True
                except (DamageError, NotFound) as error:
                    _LOG.warning("%s knows nothing of context %d: %s", self.db.path.name, context, error)
            self._done_with(context, there=now is not None and now[0] != 0)
            return True

    def _beyond(self, known: int, head: int, left: int) -> int:
        """Return the turn up to which a branch is done, as if what is new since ``known`` were turns in a row."""
        turns = self.library.turns
        length = self.library.records.length(head)
        start = self.library.records.length(known) if known and turns.goes_on(known, head) else 0
        return turns.ancestor(head, min(start, length - 1)) + max(length - start - left, 0)

    @held_if_full
    def _done_with(self, context: int, *, there: bool) -> None:
        with self.db.writing() as sql:
            sql.execute("DELETE FROM waiting WHERE context = ?", (context,))
            if not there:
                sql.execute("DELETE FROM conversations WHERE context = ?", (context,))
                self._drop(sql, context)

    @held_if_full
    def _follow(self) -> None:
        """Note which conversations have changed."""
        heads, db = self.files.heads, self.db
        start, end = db.number("heads") or HEADER_SIZE, heads.length
        if start == end:
            return
        moved: set[int] = set()
        with db.writing() as sql:
            for frame in heads.frames(start):
                if isinstance(frame, Damage):
                    continue
                if frame.offset >= end:
                    break
                moved.add(frame.context)
                self._note(sql, frame)
            sql.executemany("INSERT OR IGNORE INTO waiting VALUES (?)", [(context,) for context in moved if context])
            db.set_state("turns", self.files.turns.count)
            db.set_state("heads", end)
