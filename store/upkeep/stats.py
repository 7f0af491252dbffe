"""Statistics of a store: its contents in numbers, and its size on disk."""

import os
from pathlib import Path

from msgspec import Struct

from store import paths
from store.index.database import Database


class Stats(Struct, frozen=True):
    """Counts, and sizes in bytes. ``payload_bytes`` is what the producers wrote, turn by turn; the others are files
    of the store as the disk holds them (allocated blocks, as ``du`` counts).
    """

    conversations: int
    events: int
    turns: int
    blobs: int
    payload_bytes: int
    pack_bytes: int
    log_bytes: int
    index_bytes: int
    total_bytes: int


def collect(root: Path, db: Database, turns: int) -> Stats:
    """Count what the index knows of, and the files under ``root``."""

    def one(query: str) -> int:
        row = db.one(query)
        return int(row[0]) if row else 0

    return Stats(
        one("SELECT count(*) FROM contexts WHERE name IS NOT NULL"),
        one("SELECT coalesce(sum(events), 0) FROM measures"),
        turns,
        one("SELECT count(*) FROM blobs"),
        one("SELECT coalesce(sum(payload_size), 0) FROM views"),
        _allocated(root / paths.BLOBS),
        _allocated(root / paths.TURNS),
        sum(_blocks(path) for path in root.glob(f"{paths.INDEX}*")),
        _allocated(root),
    )


def _allocated(directory: Path) -> int:
    return sum(_blocks(Path(folder, name)) for folder, _folders, names in os.walk(directory) for name in names)


def _blocks(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
