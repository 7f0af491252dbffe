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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import structs

from store.commit.pending import Generation, Pending
from store.disk import durable, file_header, replacing
from store.disk.blob_format import encode_record
from store.disk.file_header import CHECKPOINT, HEAD_LOG, HEADER_SIZE, JOURNAL, PACK, TURN_LOG, Damage, FileKind
from store.disk.head_format import Commit
from store.disk.head_format import encode as encode_frame
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import Checkpoint, Entry
from store.disk.jumps import Jumps
from store.disk.pack import PackSet
from store.disk.turn_format import RECORD_SIZE
from store.disk.turn_format import encode as encode_turn
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError, NotFound, StoreFailed
from store.ids import new_store_id
from store.upkeep.opening_index import open_index, remove_index

JOURNAL_BYTES = 32 << 20
"""How large each journal grows."""
JOURNALS = 8
"""How many there are at most: what they hold together is what can be taken in before any of it is packed."""


REDACTING = "redacting"
"""A file that is there while a redaction is under way. What that is to remove, nothing on the disk says."""


class Files:
    """The open files of a store, recovered. ``notes`` says, a line each, what was cut, replayed or found damaged.

    ``pending`` are the blobs that the journal brings, ``found`` the same in the order in which they are to be packed.
    Where ``must_pack``, all must be before any commit.
    """

    def __init__(self, root: Path, store_id: bytes, held: ExitStack) -> None:
        self.root = root
        self.store_id = store_id
        self.notes: list[str] = []
        self.seq = 0
        self._replayed = 0
        replacing.clean(root / "turns")
        if (root / REDACTING).exists():
            self.notes.append("a redaction was interrupted: run convfs redact once more, with what it was given")
        self.turns = TurnLog(root / "turns" / "turns.log", store_id)
        held.callback(self.turns.close)
        self.heads = HeadLog(root / "turns" / "heads.log", store_id)
        held.callback(self.heads.close)
        self.packs = PackSet(root / "blobs", store_id)
        held.callback(self.packs.close)
        self.journal = Journal(root / "journal", store_id, JOURNAL_BYTES, JOURNALS)
        held.callback(self.journal.close)
        self.pending = Pending(self.journal)
        self.found: list[Generation] = []
        self.must_pack = False
        self._recover()
        self.index, sound = open_index(self)
        held.callback(self.index.close)
        self.jumps = Jumps(root / "turns" / "turns.jump", store_id, self.turns, trusted=sound)
        held.callback(self.jumps.close)
        if self.jumps.damage:
            self.notes.append(f"what follows from the turn log could not be used ({self.jumps.damage}); made it anew")
        if not sound:
            self.jumps.extend()
        self._held = held.pop_all()

    def settle(self) -> None:
        """Note that everything is where it belongs, if no blobs are pending."""
        self.packs.sync()
        if self.pending:
            return
        pack, length = self.packs.end
        state = Checkpoint(self.seq, self.turns.count, self.heads.length, pack, length)
        if self._replayed or state != self.journal.checkpoint:
            self.turns.sync()
            self.heads.sync()
            self.journal.retire(state)

    def close(self, *, clean: bool) -> None:
        """Close everything and unlock; ``clean`` says that everything has been brought to disk."""
        with self._held:
            if clean:
                with suppress(OSError):
                    self.journal.cut()
                try:
                    self.jumps.extend()
                    self.jumps.sync()
                except OSError:
                    clean = False
            self.index.close(sync=clean)
            if self.index.db.damaged:
                # made anew at the next opening
                remove_index(self.root)

    def _recover(self) -> None:
        turns, heads, journal = self.turns, self.heads, self.journal
        reached = journal.checkpoint or self._from_logs()
        entries = self._entries(reached.seq)
        lost = self._lost(reached, entries)
        # what was not certain to be on disk is cut, and comes back from the journal if it was acknowledged
        turns.cut(reached.turn_count)
        heads.cut(reached.heads_length)
        self.seq = reached.seq
        packed = (reached.pack, reached.pack_length)
        for run in _runs(entries + lost):
            if turns.count != run[0].first_turn - 1:
                turns.cut(run[0].first_turn - 1)
            if heads.length != run[0].heads_offset:
                heads.cut(run[0].heads_offset)
            turns.append(b"".join([entry.turns for entry in run]))
            heads.append(b"".join([entry.heads for entry in run]))
            self.seq = run[-1].seq
            packed = max(packed, *(entry.pack for entry in run))
        self._replayed = len(entries) + len(lost)
        self.must_pack = bool(lost) or journal.checkpoint is None
        if entries:
            self.notes.append(f"recovered {len(entries)} commits from the journal")
        if lost:
            self.notes.append(f"the journal has lost {len(lost)} commits: their turns are there, their content may not")
        self.notes += journal.problems
        self._mend_packs(packed)

    def _entries(self, after: int) -> list[Entry]:
        """Return the journal's entries, whose blobs are pending from now on and left out."""
        entries: list[Entry] = []
        number = 0
        for entry, end in self.journal.entries(after):
            if entries and end[0] != number:
                self.found.append(self.pending.take(*_end(entries[-1])))
            number = end[0]
            self.pending.add(entry.blobs, end, keep=False)
            entries.append(structs.replace(entry, blobs=()))
        if self.pending:
            self.found.append(self.pending.take(*_end(entries[-1])))
        return entries

    def _lost(self, reached: Checkpoint, entries: list[Entry]) -> list[Entry]:
        """Return commits that the logs have behind everything that the journal has, without the blobs they brought.

        Logs are written after the journal has been synced. So these commits were acknowledged, and their entries are
        damaged: an entry at the end cannot be told from an unfinished one otherwise.
        """
        seq, turn_count, offset = reached.seq, reached.turn_count, reached.heads_length
        if entries:
            seq, turn_count, offset = _end(entries[-1])
        lost: list[Entry] = []
        group: list[bytes] = []
        for frame in self.heads.frames(offset):
            if isinstance(frame, Damage) or frame.seq != seq + len(group) + 1:
                break
            group.append(encode_frame(frame.seq, frame.context, frame.body))
            commit = frame.body
            if isinstance(commit, Commit):
                records = self._records(turn_count + 1, commit.turn_count)
                if records is None or commit.heads_length != offset:
                    break
                packed = (commit.pack_number, commit.pack_length)
                lost.append(Entry(frame.seq, turn_count + 1, records, offset, b"".join(group), packed, []))
                seq, turn_count, offset = frame.seq, commit.turn_count, offset + sum(map(len, group))
                group = []
        return lost

    def _records(self, first: int, last: int) -> bytes | None:
        """Return the records of some turns as the log has them; None if it does not have them all."""
        if last < first:
            return b"" if last == first - 1 else None
        try:
            turns = self.turns.range(first, last - first + 1)
        except (DamageError, NotFound):
            return None
        return b"".join(map(encode_turn, turns)) if len(turns) == last - first + 1 else None

    def _from_logs(self) -> Checkpoint:
        """Work out how far the logs reach from their own last COMMIT: of a new store, or where the note is lost."""
        found = self.heads.last_commit()
        if found is None:
            return Checkpoint(0, 0, HEADER_SIZE, 1, HEADER_SIZE)
        frame, end = found
        self.notes.append("the journal's checkpoint is lost: went by the last COMMIT of the head log")
        commit = frame.body
        assert isinstance(commit, Commit)
        return Checkpoint(frame.seq, commit.turn_count, end, commit.pack_number, commit.pack_length)

    def _mend_packs(self, packed: tuple[int, int]) -> None:
        """Take out what is no whole record at the end of the packs, beyond what is known to be on disk.

        Sound records behind it are blobs that somebody may have been told are stored: they move up. Damage before
        that place stays where it is, to be reported.
        """
        packs = self.packs
        if packs.end < packed:
            self.notes.append(f"the packs end at {packs.end}, but were written up to {packed}: content is lost")
            packs.cut(*packed)
            return
        torn: tuple[int, int] | None = None
        behind: list[bytes] = []
        for pack, offset, found in packs.scan(packed, packs.appended()):
            if isinstance(found, Damage):
                if torn is None:
                    _refuse_newer(packs, pack, offset)
                    torn = (pack, offset)
            elif torn is not None:
                behind.append(encode_record(found.codec, found.raw_len, found.hash, found.stored))
        if torn is not None:
            went = packs.cut(*torn)
            packs.append(behind)
            self.notes.append(f"cut {went - sum(map(len, behind))} bytes of an unfinished write from the packs")
            # it may know something where it was
            remove_index(self.root)


def _end(entry: Entry) -> tuple[int, int, int]:
    """Return the seq, the count of turns and the length of the head log that an entry ends with."""
    return entry.seq, entry.first_turn - 1 + len(entry.turns) // RECORD_SIZE, entry.heads_offset + len(entry.heads)


def _runs(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the entries that follow each other without a gap, in either log, together."""
    run: list[Entry] = []
    for entry in entries:
        if run:
            _seq, turn_count, heads_length = _end(run[-1])
            if (turn_count, heads_length) != (entry.first_turn - 1, entry.heads_offset):
                yield run
                run = []
        run.append(entry)
    if run:
        yield run


def _refuse_newer(packs: PackSet, pack: int, offset: int) -> None:
    """Raise FormatTooNew if what looks like damage is a record that a newer version has written."""
    try:
        packs.read(pack, offset)
    except DamageError:
        return


def open_files(root: Path, *, create: bool, reindex: bool = False) -> Files:
    """Open the store at ``root``, recovering it where need be; make one if there is none and ``create``.

    Raises NotFound, StoreBusy, FormatTooNew, DamageError, and StoreFailed if the disk does not take what it must.
    """
    found = _store_id(root)
    if found is None and not create:
        raise NotFound(f"there is no store at {root}: make one with convfs import or convfs mount")
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as held:
            held.callback(os.close, durable.lock_exclusive(root / "lock"))
            durable.make_directory(root / "turns")
            if reindex:
                remove_index(root)
            return Files(root, found or _store_id(root) or new_store_id(), held)
    except OSError as error:
        raise cannot_open(root, error) from error


def cannot_open(root: Path, error: OSError) -> StoreFailed:
    """Return what to raise when the system does not let a store be opened."""
    return StoreFailed(f"{root}: the store cannot be opened: {error}")


def _store_id(root: Path) -> bytes | None:
    """Return the id that the files of a store have in their headers; None if there is no store.

    Any one file will do: a damaged header costs no more than a report.
    """
    damage: ConvfsError | None = None
    for path, kind in _headed(root):
        try:
            return file_header.read(path, kind).store_id
        except FileNotFoundError:
            continue
        except DamageError as error:
            damage = damage or error
    if damage is not None:
        raise damage
    return None


def _headed(root: Path) -> Iterator[tuple[Path, FileKind]]:
    yield root / "turns" / "turns.log", TURN_LOG
    yield root / "turns" / "heads.log", HEAD_LOG
    yield root / "journal" / "checkpoint", CHECKPOINT
    yield root / "journal" / "1", JOURNAL
    yield root / "journal" / "2", JOURNAL
    for path in sorted((root / "blobs").glob("*.pack")):
        yield path, PACK
