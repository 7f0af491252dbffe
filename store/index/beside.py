"""Derived databases beside ``index.db``, which follow from the rest of the store: opened if trusted, or else rebuilt.

They lie in the store, or, if it takes no writes, elsewhere for as long as it is open. The databases of a store that may
only be read may be out of date: copies of them are brought up to date. Small copies lie in memory, larger ones among
the temporary files of this machine, which is reported.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from store import paths
from store.disk import durable
from store.errors import DamageError, StoreFull
from store.index.database import Database, Schema

_PREFIX = "convfs-aside-"
_HELD = "held"
_MEMORY = Path("/dev/shm")  # noqa: S108  (the folder made in it is its owner's alone)
_SMALL_BYTES = 64 << 20
_LEAST_BYTES = 16 << 20
_PARTS = ("", "-wal")


class Aside:
    """The derived files of one store. Safe to share between threads.

    ``notes`` gets a line if much is written elsewhere. Unless ``trusted``, databases of a store that is only read are
    rebuilt.
    """

    def __init__(self, root: Path, notes: list[str], *, read_only: bool, trusted: bool) -> None:
        self._root = root
        self._notes = notes
        self._read_only = read_only
        self._trusted = trusted
        self._folders: dict[Path, int] = {}
        self._paths: dict[str, Path] = {}
        self._lock = threading.Lock()

    def path(self, name: str) -> Path:
        """Return the path of a derived file, or of its copy if the store is only read."""
        with self._lock:
            if name in self._paths or not self._read_only:
                return self._paths.get(name, self._root / name)
            parts = [self._root / (name + part) for part in _PARTS if self._trusted]
            sizes = [part.stat().st_size if part.exists() else 0 for part in parts]
            path = self._place(name, sum(sizes))
            for part, size in zip(parts, sizes, strict=True):
                if size:
                    import shutil

                    shutil.copyfile(part, path.parent / part.name)
            return path

    def elsewhere(self, name: str) -> Path:
        """Return a path outside the store at which to rebuild a derived file that the store has no room for."""
        with self._lock:
            return self._place(name, 0)

    @property
    def scratch(self) -> Path:
        """The directory for temporary files; it need not be there."""
        with self._lock:
            if not self._read_only:
                return self._root / paths.SCRATCH
            return self._paths.get(paths.SCRATCH) or self._place(paths.SCRATCH, _SMALL_BYTES)

    def _place(self, name: str, size: int) -> Path:
        import tempfile

        for base in (_MEMORY, Path(tempfile.gettempdir())) if size <= _SMALL_BYTES else (Path(tempfile.gettempdir()),):
            with suppress(OSError):
                if durable.free_bytes(base) >= 2 * size + _LEAST_BYTES:
                    path = self._paths[name] = self._folder(base) / Path(name).name
                    if size > _SMALL_BYTES:
                        self._notes.append(f"{name} cannot be kept up to date where it is: a copy is, in {path.parent}")
                    return path
        raise StoreFull(
            f"{self._root}: it cannot be written, and there is no room for {name} elsewhere: free space, or set TMPDIR"
        )

    def _folder(self, base: Path) -> Path:
        folder = next((folder for folder in self._folders if folder.parent == base), None)
        if folder is None:
            import tempfile

            _sweep(base)
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
            self._folders[folder] = durable.lock_exclusive(folder / _HELD)
        return folder

    def close(self) -> None:
        """Remove the files outside the store."""
        with self._lock:
            for folder, lock in self._folders.items():
                _remove(folder)
                os.close(lock)
            self._folders.clear()


def _sweep(base: Path) -> None:
    """Remove the leftovers of killed processes of this user."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.geteuid() or folder.is_symlink():
                continue
            # one that was just made has none yet
            fd = durable.open_file(folder / _HELD)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(fd)


# What makes and removes files elsewhere is imported where that is done: most stores are where they can be written.


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def open_beside(
    aside: Aside, name: str, boot: str, schema: Schema, own: Mapping[str, str | int], usable: Callable[[Database], bool]
) -> Database:
    """Return the database ``name`` of a store, emptied if it cannot be trusted.

    ``own`` is what its table ``state`` must say, and does when it is new; ``usable`` looks at one that says so. For
    ``boot`` see :class:`Database`.
    """

    def sound(path: Path) -> Database | None:
        try:
            db = Database(path, boot, schema)
        except DamageError:
            return None
        with suppress(DamageError):
            if db.trusted and db.current and all(db.state(key) == value for key, value in own.items()) and usable(db):
                return db
        db.close()
        return None

    def empty(path: Path) -> Database:
        remove_database(path)
        db = Database(path, boot, schema)
        try:
            with db.writing(hold=False):
                for key, value in own.items():
                    db.set_state(key, value)
        except BaseException:
            db.close()
            raise
        return db

    path = aside.path(name)
    try:
        return (sound(path) if path.exists() else None) or empty(path)
    except StoreFull:
        return empty(aside.elsewhere(name))


def remove_database(path: Path) -> None:
    """Delete the files of a database that is not open."""
    for suffix in paths.DATABASE_PARTS:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def erase_database(path: Path) -> None:
    """Remove a database as :func:`remove_database` does, but overwrite its files with zeros first."""
    for suffix in paths.DATABASE_PARTS:
        with suppress(FileNotFoundError):
            durable.erase(path.with_name(path.name + suffix))
