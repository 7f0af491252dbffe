"""Log repair of a replica: its damaged or missing logs, put back from its space.

All replicas of a space have the same logs, byte for byte. So another one is made aside, by the entries of the space and
their chain, and its logs take the place of those of this one. Whatever is sound in these must be the same there; how
far they go is for the journal to say, as whenever a store is opened. Packs, journal and drafts are not touched.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from store import paths
from store.disk import durable, files, head_format, turn_format
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import HeadFrame
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.turn_format import RECORD_SIZE, Turn
from store.disk.turn_log import TurnLog
from store.errors import Unreachable, UsageError
from store.shared import remote
from store.shared.published import PublishedFile
from store.shared.space import ANOTHER, Membership
from store.store import Store

LOGS = (paths.TURN_LOG, paths.HEAD_LOG)


def put_logs_back(root: Path) -> list[str]:
    """Put back the logs of the replica at ``root`` if one is damaged or gone; return the names of those that were.

    Then the index is to be made anew. Raises StoreBusy while somebody has it open, Unreachable; UsageError where the
    space has another history, or lacks something of it.
    """
    member = remote.membership_of(root)
    broken = _broken(root)
    if not broken:
        return []
    with ExitStack() as held:
        held.callback(os.close, durable.lock_directory(root))
        aside = held.enter_context(files.temporary_folder(root / paths.SCRATCH)) / "replica"
        remote.follow(root, aside)
        with Store.open(aside) as other:
            assert other.replica is not None
            if away := other.replica.status():
                raise Unreachable(away)
            seq = other.writer.seq
        _check(root, aside, member, seq)
        for name in LOGS:
            fd = durable.open_file(aside / name)
            try:
                durable.fdatasync(fd)
            finally:
                os.close(fd)
        for name in broken:
            durable.replace(aside / name, root / name)
            durable.sync_directory((root / name).parent)
        with suppress(FileNotFoundError):
            durable.remove(root / paths.CHECKED)
    return broken


def _broken(root: Path) -> list[str]:
    gone = [name for name in LOGS if not (root / name).exists()]
    if gone:
        return gone
    with Store.open(root, create=False) as store:
        heads, turns = store.files.heads, store.files.turns
        found = []
        if turns.damage or any(not isinstance(turn, Turn) for _number, turn in turns.scan()):
            found.append(paths.TURN_LOG)
        if heads.damage or any(not isinstance(frame, HeadFrame) for frame in heads.frames()):
            found.append(paths.HEAD_LOG)
    return found


def _check(root: Path, aside: Path, member: Membership, seq: int) -> None:
    """Raise UsageError unless the logs in ``aside``, up to the commit ``seq``, are those of a replica."""
    there, here = PublishedFile(aside).now.generation, PublishedFile(root).now.generation
    if there != here:
        raise UsageError(f"the space {member.space} was redacted, and this replica was not: {ANOTHER}")
    reached = _reached(root, member)
    if seq < reached:
        raise UsageError(
            f"the space {member.space} does not have commit {reached}, which this replica had:"
            " run this on another replica first, which may have it"
        )
    other = UsageError(f"the space {member.space} has another history than this replica: {ANOTHER}")
    if (root / paths.HEAD_LOG).exists():
        log = HeadLog(root / paths.HEAD_LOG, member.files_id, read_only=True)
        try:
            with _mapped(aside / paths.HEAD_LOG) as rebuilt:
                for frame in log.frames():
                    if isinstance(frame, HeadFrame):
                        encoded = head_format.encode(frame.seq, frame.context, frame.body)
                        if rebuilt[frame.offset : frame.offset + len(encoded)] != encoded:
                            raise other
        finally:
            log.close()
    if (root / paths.TURN_LOG).exists():
        turns = TurnLog(root / paths.TURN_LOG, member.files_id, read_only=True)
        try:
            with _mapped(aside / paths.TURN_LOG) as rebuilt:
                for turn in turns.scan():
                    if not _same(turn, rebuilt):
                        raise other
        finally:
            turns.close()


def _same(found: tuple[int, object], rebuilt: mmap.mmap) -> bool:
    """Return whether a turn is damaged, or as it is in the log that was made; there it may be reclaimed meanwhile."""
    number, turn = found
    start = HEADER_SIZE + (number - 1) * RECORD_SIZE
    record = rebuilt[start : start + RECORD_SIZE]
    if not isinstance(turn, Turn) or turn_format.encode(turn) == record:
        return True
    return len(record) == RECORD_SIZE and turn_format.decode(record, number).reclaimed


def _reached(root: Path, member: Membership) -> int:
    """Return the last commit that the journal of a replica knows of, 0 if it is lost, too."""
    if not (root / paths.JOURNAL).exists():
        return 0
    journal = Journal(root / paths.JOURNAL, member.files_id, read_only=True, backed=True)
    try:
        known = journal.checkpoint
        seq = known.seq if known else 0
        return max([seq, *(entry.seq for entry, _end in journal.entries(seq))])
    finally:
        journal.close()


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped
