"""Databases beside ``index.db`` that follow from the rest of the store: opened if they can be trusted, or made anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from store.disk import replacing
from store.errors import DamageError
from store.index.database import Database, Schema


def open_beside(
    path: Path, boot: str, schema: Schema, own: Mapping[str, str | int], usable: Callable[[Database], bool]
) -> Database:
    """Return the database at ``path``, empty where what is there is not to be trusted.

    ``own`` is what its table ``state`` must say, and does when it is new; ``usable`` looks at one that says so. For
    ``boot`` see :class:`Database`.
    """
    if path.exists() and (db := _sound(path, boot, schema, own, usable)) is not None:
        return db
    remove_database(path)
    db = Database(path, boot, schema)
    path.chmod(0o600)
    for key, value in own.items():
        db.set_state(key, value)
    return db


def remove_database(path: Path) -> None:
    """Delete the files of a database that is not open."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def erase_database(path: Path) -> None:
    """As :func:`remove_database`; what the files took on the disk is zeros before it is free."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            replacing.erase(path.with_name(path.name + suffix))


def _sound(
    path: Path, boot: str, schema: Schema, own: Mapping[str, str | int], usable: Callable[[Database], bool]
) -> Database | None:
    try:
        db = Database(path, boot, schema)
    except DamageError:
        return None
    try:
        if db.trusted and db.current and all(db.state(key) == value for key, value in own.items()) and usable(db):
            return db
    except DamageError:
        pass
    db.close()
    return None
