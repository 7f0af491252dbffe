"""Opening a store after whatever happened to it.

The journal's checkpoint says how far logs and packs were on disk for certain. The logs are cut to that and what the
journal holds beyond it is put back, so an acknowledged commit is there whole, and one that was not is not there at
all. A pack keeps whatever sound records lie behind the checkpoint: blobs that nothing names yet harm nobody.

The index is derived. After a clean close, or a kill of the process (the kernel has every write), it is brought up to
the logs; after anything else (another boot: a power failure may have lost any of SQLite's unsynced pages without a
trace) it is made anew.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from store.content.compression import Member, pack_records
from store.disk import durable, file_header
from store.disk.file_header import HEADER_SIZE, TURN_LOG, Damage
from store.disk.head_format import Commit
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import Checkpoint, JournalBlob
from store.disk.pack import PackSet
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, NotFound
from store.ids import new_store_id
from store.index.index import Index
from store.upkeep.rebuild import blob_places, catch_up, rebuild

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Files:
    """The open files of a store. ``notes`` says, a line each, what recovery cut, replayed or found damaged."""

    def __init__(self, root: Path, lock: int, store_id: bytes) -> None:
        self.root = root
        self.store_id = store_id
        self.notes: list[str] = []
        self._lock = lock
        self.turns = TurnLog(root / "turns" / "turns.log", store_id)
        self.heads = HeadLog(root / "turns" / "heads.log", store_id)
        self.packs = PackSet(root / "blobs", store_id)
        self.journal = Journal(root / "journal", store_id)
        self.seq = 0
        self.index: Index

    def close(self, clean: bool) -> None:
        """Close everything and unlock; ``clean`` says that the index needs no second look."""
        if clean:
            self.index.db.set_state("clean", 1)
        self.index.close()
        self.journal.close()
        self.packs.close()
        self.heads.close()
        self.turns.close()
        os.close(self._lock)


def open_files(root: Path, *, create: bool, reindex: bool = False) -> Files:
    """Open the store at ``root``, recovering it where need be; make one if there is none and ``create``.

    Raises NotFound, StoreBusy, FormatTooNew, DamageError.
    """
    turns = root / "turns" / "turns.log"
    if not turns.exists() and not create:
        raise NotFound(f"there is no store at {root}: make one with convfs import or convfs mount")
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = durable.lock_exclusive(root / "lock")
    try:
        durable.make_directory(root / "turns")
        store_id = file_header.read(turns, TURN_LOG).store_id if turns.exists() else new_store_id()
        files = Files(root, lock, store_id)
        _recover(files)
        if reindex:
            remove_index(root)
        files.index = _open_index(files)
    except BaseException:
        os.close(lock)
        raise
    return files


def _recover(files: Files) -> None:
    turns, heads, packs, journal = files.turns, files.heads, files.packs, files.journal
    reached = journal.checkpoint or _from_logs(files)
    # what was not certain to be on disk is cut, and comes back from the journal if it was acknowledged
    turns.cut(reached.turn_count)
    heads.cut(reached.heads_length)
    files.seq = reached.seq
    waiting: list[JournalBlob] = []
    replayed = 0
    for entry in journal.entries(reached.seq):
        if turns.count != entry.first_turn - 1:
            turns.cut(entry.first_turn - 1)
        if heads.length != entry.heads_offset:
            heads.cut(entry.heads_offset)
        turns.append(entry.turns)
        heads.append(entry.heads)
        waiting += entry.blobs
        files.seq = entry.seq
        replayed += 1
    if replayed:
        files.notes.append(f"recovered {replayed} commits from the journal")
    files.notes += journal.problems
    _cut_torn_pack(files, reached)
    if waiting:
        packs.append([record for record, _hashes in pack_records([Member(*blob) for blob in waiting])])
    packs.sync()
    turns.sync()
    heads.sync()
    pack, length = packs.end
    state = Checkpoint(files.seq, turns.count, heads.length, pack, length)
    if replayed or state != journal.checkpoint:
        journal.retire(state)


def _from_logs(files: Files) -> Checkpoint:
    """Work out how far the logs reach from their own last COMMIT: of a new store, or where the note is lost."""
    found = files.heads.last_commit()
    if found is None:
        return Checkpoint(0, 0, HEADER_SIZE, 1, HEADER_SIZE)
    frame, end = found
    files.notes.append("the journal's checkpoint is lost: went by the last COMMIT of the head log")
    commit = frame.body
    assert isinstance(commit, Commit)
    return Checkpoint(frame.seq, commit.turn_count, end, commit.pack_number, commit.pack_length)


def _cut_torn_pack(files: Files, reached: Checkpoint) -> None:
    """Cut what is no whole record at the very end of the packs; damage with sound records behind it stays."""
    torn: tuple[int, int] | None = None
    packs = files.packs
    if packs.end < (reached.pack, reached.pack_length):
        missing = (reached.pack, reached.pack_length)
        files.notes.append(f"the packs end at {packs.end}, but were written up to {missing}: content is lost")
        packs.cut(*missing)
        return
    for pack, offset, found in packs.scan((reached.pack, reached.pack_length)):
        if not isinstance(found, Damage):
            torn = None
        elif torn is None:
            torn = (pack, offset)
    if torn is not None:
        went = packs.cut(*torn)
        files.notes.append(f"cut {went} bytes of an unfinished write from the packs")


# -- the index -----------------------------------------------------------------------------------------------------


def _open_index(files: Files) -> Index:
    path = files.root / "index.db"
    boot = _BOOT_ID.read_text().strip()
    index = _sound_index(files, path, boot)
    if index is None:
        remove_index(files.root)
        index = Index(path)
        index.db.set_state("store", files.store_id.hex())
        files.notes += rebuild(index, files.heads, files.packs)
    index.db.set_state("clean", 0)
    index.db.set_state("boot", boot)
    return index


def _sound_index(files: Files, path: Path, boot: str) -> Index | None:
    """Return the index, brought up to the logs, or None if it cannot be trusted."""
    if not path.exists():
        return None
    try:
        index = Index(path)
    except sqlite3.DatabaseError:
        return None
    try:
        clean, same_boot = index.db.state("clean") == 1, index.db.state("boot") == boot
        if (
            index.usable
            and index.db.state("store") == files.store_id.hex()
            and (clean or same_boot)
            and index.seq <= files.seq
        ):
            if index.seq < files.seq or not clean:
                catch_up(index, files.heads)
                index.add_blobs(blob_places(files.packs, _last_filed_pack(index)))
            return index
    except (sqlite3.DatabaseError, ConvfsError) as error:
        files.notes.append(f"the index could not be used ({error}); made it anew")
    index.close()
    return None


def _last_filed_pack(index: Index) -> tuple[int, int]:
    row = index.db.reader.execute("SELECT max(pack) FROM blobs").fetchone()
    return row[0] or 1, HEADER_SIZE


def remove_index(root: Path) -> None:
    """Delete the index, so that it is made anew."""
    for suffix in ("", "-wal", "-shm"):
        (root / f"index.db{suffix}").unlink(missing_ok=True)


