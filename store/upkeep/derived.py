"""Derived databases of a store: what the search and the counts keep beside the index.

Each is opened when it is first asked for, made anew where it is damaged, and emptied where it knows of turns or frames
that are gone because logs had to be cut.
"""

import threading
from abc import ABC, abstractmethod
from contextlib import suppress

from store.conversations.library import Library
from store.errors import ConvfsError, StoreFailed
from store.index.beside import erase_database, open_beside, remove_database
from store.index.database import Database, Schema
from store.upkeep.recovery import Files


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
        if db is None or db.damaged:
            with self._opening:
                db = self._db
                if db is None or db.damaged:
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
            self._db.close()
        if anew:
            remove_database(files.aside.path(self._name))
        return open_beside(files.aside, self._name, files.index.db.boot, self._schema, own, usable)

    def renew(self) -> None:
        """Begin again with an empty database, and leave nothing of the old one on the disk."""
        with self._filing, self._opening:
            if self._db is not None:
                self._db.close()
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
