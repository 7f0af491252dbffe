"""A session of Claude Code that grows, or is written anew, after it was imported."""

from pathlib import Path

from store.store import Store
from tests.store.importing.sessions import imported, line


def texts(count: int, start: int = 0) -> list[bytes]:
    """Return the records of the session, from number ``start``, counted from 0, up to ``count``."""
    return [line(f"Text {number}", number) for number in range(start, count)]


def file_of(records: list[bytes]) -> bytes:
    """Return the session's file."""
    return b"".join(record + b"\n" for record in records)


def grow(store: Store, path: Path, records: list[bytes]) -> None:
    """Have the session consist of ``records``, and import it once more."""
    path.write_bytes(file_of(records))
    imported(store, path)
