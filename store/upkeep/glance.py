"""A glance at a store that nobody has open and that was closed in order: what the index tells, with nothing opened.

Nothing has to be recovered then, and the index is up to the logs. So a command that lists conversations reads a few
kilobytes, and neither loads nor opens what writes, packs or draws.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from store import paths
from store.conversations.listing import Listing
from store.disk import durable, file_header, identity, journal
from store.disk.file_header import HEADER_SIZE, TURN_LOG
from store.disk.head_log import HeadLog
from store.disk.turn_format import RECORD_SIZE
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError
from store.index.catalogue import Catalogue
from store.index.database import Unchanging
from store.index.views import Views
from store.settings import Settings
from store.upkeep.log_check import LogCheck, noted_damage

_TELLING = (paths.REDACTING, paths.OLD_INDEX)
"""Files of which whoever opens the store has something to report, or to do."""


@contextmanager
def glance(root: Path, settings: Settings, renderer: int) -> Iterator[Listing | None]:
    """Yield the conversations of the store at ``root``, locked meanwhile; None if it must be opened.

    ``renderer`` is the version of the renderer by which the sums must have been measured.
    """
    try:
        lock = durable.lock_shared(root)
    except (ConvfsError, OSError):
        yield None
        return
    try:
        db = _settled(root, renderer)
        if db is None:
            yield None
            return
        with closing(db):
            yield Listing(Catalogue(db, list_all=settings.list_all), Views(db))
    finally:
        os.close(lock)


def _settled(root: Path, renderer: int) -> Unchanging | None:
    """Return the index of a store that needs no recovery and has nothing to report, None of any other."""
    try:
        known, there = identity.read(root), os.stat(root)
        if known is None or (known.device, known.inode) != (there.st_dev, there.st_ino):
            return None
        if known.path != os.fsencode(os.path.realpath(root)) or not os.access(root / paths.INDEX, os.W_OK):
            return None
        if any((root / name).exists() for name in _TELLING):
            return None
        if (reached := journal.settled(root / paths.JOURNAL)) is None:
            return None
        turns, heads = os.stat(root / paths.TURN_LOG), os.stat(root / paths.HEAD_LOG)
        if turns.st_size != HEADER_SIZE + reached.turn_count * RECORD_SIZE or heads.st_size != reached.heads_length:
            return None
        if (root / paths.CHECKED).exists() and noted_damage(root):
            return None
        files_id = file_header.read(root / paths.TURN_LOG, TURN_LOG)
        if not _logs_are_sound(root, files_id):
            return None
        db = Unchanging(root / paths.INDEX)
    except (ConvfsError, OSError):
        return None
    try:
        own = (db.number("seq"), db.state("store"), db.number("renderer"))
        if own == (reached.seq, files_id.hex(), renderer):
            return db
    except ConvfsError:
        pass
    db.close()
    return None


def _logs_are_sound(root: Path, store_id: bytes) -> bool:
    """Return whether nothing is wrong with the part of the logs that opening the store would look at."""
    with (
        closing(HeadLog(root / paths.HEAD_LOG, store_id, read_only=True)) as heads,
        closing(TurnLog(root / paths.TURN_LOG, store_id, read_only=True)) as turns,
    ):
        return LogCheck(root, heads, turns).is_sound()
