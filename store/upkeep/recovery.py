"""Recovery: opens a store after any kind of crash or damage.

The journal's checkpoint records how far logs and packs were certainly on disk. The logs are cut to that, and later
entries of the journal are applied again, so an acknowledged commit is there whole, and an incomplete one is not there
at all. A pack keeps all sound records behind the checkpoint: blobs that nothing names yet do no harm. Of a replica the
journal is not synced: it may have less than was acknowledged, and the rest is in the space.

The index is derived. After a clean close, or a kill of the process (the kernel has every write), it is brought up to
the logs; after anything else (another boot: a power failure may have lost any of SQLite's unsynced pages without a
trace) it is rebuilt, and loses nothing that the old one had (:mod:`store.upkeep.rebuild`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import structs

from store import paths
from store.commit.pending import Generation, Pending
from store.content.compression import LEAST_BYTES
from store.disk import durable, files, identity
from store.disk.blob_format import encode_record
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Commit, HeadFrame, Patched, Superseded, reclaimed_in
from store.disk.head_format import encode as encode_frame
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import Checkpoint, JournalEntry
from store.disk.jumps import Jumps
from store.disk.pack import PackSet
from store.disk.turn_format import NO_PAYLOAD, RECORD_SIZE
from store.disk.turn_format import encode as encode_turn
from store.disk.turn_log import TurnLog
from store.errors import DamageError, NotFound, StoreFailed, StoreFull, UsageError
from store.ids import Hash, new_store_id
from store.index.beside import Aside, remove_database
from store.index.catalogue import Catalogue
from store.index.index import Index
from store.index.notes import Notes
from store.index.patches import Patches
from store.index.views import Views
from store.upkeep.log_check import LogCheck
from store.upkeep.rebuild import (
    Told,
    catch_up,
    file_packs,
    forget_old,
    lost_from_log,
    missing_packs,
    rebuild,
    set_aside,
)

JOURNAL_BYTES = 32 << 20
"""The size that each journal grows to."""
JOURNALS = 8
"""The most journals: together they bound the bytes that can be committed before any are packed."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_INCOMPLETE = "incomplete"
"""In the index, 1 if the log of a replica was damaged when it was made of that, or it is not made yet."""
_LOOKED_THROUGH = 1 << 20
_GROUP = 10_000

_BEFORE_IT = {paths.LOCK, paths.SETTINGS, paths.FORMATS}
"""One of these is in a directory in which a store was begun, or that somebody has prepared for one."""
_OF_DISKS = "lost+found"
_WRITTEN = ("", paths.TURNS, paths.TURN_LOG, paths.HEAD_LOG, paths.JOURNAL, paths.CHECKPOINT, paths.BLOBS, paths.LOCK)


class Files:
    """The open files of a store, recovered. ``notes`` says, a line each, what was cut, replayed or found damaged.

    ``files_id`` is what their headers say, ``store_id`` what the store is known by, ``directory`` the key of its
    directory (``store.disk.identity``).
    ``pending`` are the blobs that the journal brings, ``found`` the same in the order in which they are to be packed.
    Where ``must_pack``, all must be before any commit.
    """

    def __init__(
        self,
        root: Path,
        files_id: bytes,
        directory: int,
        held: ExitStack,
        *,
        read_only: str = "",
        repair: bool = False,
        backed: bool = False,
    ) -> None:
        self.root = root
        self.files_id = files_id
        self._path = str(root)
        self._opened = os.fstat(directory)
        self.directory = identity.directory_key(directory)
        self.read_only = read_only
        """The reason why nothing can be written, "" if it can. Recovery then happens in memory."""
        copied = False
        if read_only:
            self.notes: list[str] = []
            self.store_id, copied = identity.look(root, files_id)
        else:
            self.store_id, self.notes = identity.settle(root, files_id)
        self.seq = 0
        self._replayed = 0
        self.backed = backed
        self.incomplete = False
        """True of a replica whose head log is damaged, and whose index was made of what is left of it."""
        self.aside = Aside(root, self.notes, read_only=bool(read_only), trusted=not copied)
        """The place of the files that are derived from the logs."""
        held.callback(self.aside.close)
        only = bool(read_only)
        if read_only:
            self.notes.append(f"{root} may only be read: what must be brought up to date is so for this time alone")
        else:
            durable.clean(root / paths.TURNS)
        if (root / paths.REDACTING).exists():
            self.notes.append("a redaction was interrupted: run convfs redact once more, with what it was given")
        if not repair:
            _refuse_without_logs(root, backed=backed)
        self.turns = TurnLog(root / paths.TURN_LOG, files_id, read_only=only)
        held.callback(self.turns.close)
        self.heads = HeadLog(root / paths.HEAD_LOG, files_id, read_only=only)
        held.callback(self.heads.close)
        self.packs = PackSet(root / paths.BLOBS, files_id, check_place=self.check_place, read_only=only)
        held.callback(self.packs.close)
        self.journal = Journal(
            root / paths.JOURNAL, files_id, JOURNAL_BYTES, JOURNALS, read_only=only, backed=backed
        )
        held.callback(self.journal.close)
        self.pending = Pending(self.journal)
        self.found: list[Generation] = []
        self.must_pack = False
        self.settled: Callable[[], None] = lambda: None
        """Called once, when everything is where it belongs."""
        self._recover()
        self.index, sound = _open_index(self)
        held.callback(self.index.close)
        self.jumps = self._open_jumps(trusted=sound)
        held.callback(self.jumps.close)
        if self.jumps.damage:
            self.notes.append(f"what follows from the turn log could not be used ({self.jumps.damage}); made it anew")
        if not sound:
            self.jumps.extend()
        self.check = LogCheck(root, self.heads, self.turns)
        """Damage that is known in the logs."""
        if repair:
            self.check.accept()
        else:
            self.check.begin()
        self._held = held.pop_all()

    def check_place(self) -> None:
        """Raise StoreFailed if the path of the store now leads to another directory, such as a backup, or to none.

        Open files stay those of this store. Files that are made, renamed or removed by path would not be.
        """
        try:
            same = os.path.samestat(os.stat(self._path), self._opened)
        except OSError:
            same = False
        if not same:
            raise StoreFailed(f"{self.root} is another directory by now, or gone: end this process, and open it again")

    def _open_jumps(self, *, trusted: bool) -> Jumps:
        try:
            return Jumps(self.aside.path(paths.JUMPS), self.files_id, self.turns, trusted=trusted)
        except OSError as error:
            if error.errno not in durable.FULL:
                raise
            return Jumps(self.aside.elsewhere(paths.JUMPS), self.files_id, self.turns, trusted=False)

    def settle(self) -> None:
        """Record that everything is in its place, if no blobs are pending and there is room."""
        if self.read_only:
            return
        if not self._is_settled():
            self.packs.sync()
        if self.pending:
            return
        try:
            self._retire()
        except (OSError, StoreFull) as error:
            if isinstance(error, OSError) and error.errno not in durable.FULL:
                raise
            self.notes.append(f"{error}: what was recovered from the journal stays there, too, until there is room")

    def _state(self) -> Checkpoint:
        pack, length = self.packs.end
        return Checkpoint(self.seq, self.turns.count, self.heads.length, pack, length)

    def _is_settled(self) -> bool:
        """Return whether the journal says already that everything is on disk, as it was brought there before that."""
        return not self._replayed and self._state() == self.journal.checkpoint

    def _retire(self) -> None:
        if not self._is_settled():
            self.turns.sync()
            self.heads.sync()
            self.journal.retire(self._state())
        self.settled()
        self.settled = lambda: None

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
                # rebuilt at the next opening
                with suppress(StoreFailed):
                    self.check_place()
                    if self.index.db.path.parent == self.root:
                        set_aside(self.root)
                    else:
                        remove_database(self.index.db.path)

    def _recover(self) -> None:
        turns, heads, journal = self.turns, self.heads, self.journal
        reached = journal.checkpoint or self._from_logs()
        entries = self._entries(reached.seq)
        # what a space has is not put together of what may be left of it here
        lost = [] if self.backed else self._lost(reached, entries)
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
            if not self.read_only:
                # what was reclaimed was blanked after its frame had been written, or was to be
                for reclaimed in reclaimed_in(b"".join([entry.heads for entry in run])):
                    for first, count in reclaimed.runs:
                        turns.blank(first, count)
        self._replayed = len(entries) + len(lost)
        self.must_pack = bool(lost) or journal.checkpoint is None
        if entries:
            self.notes.append(f"recovered {len(entries)} commits from the journal")
        if lost:
            self.notes.append(f"the journal has lost {len(lost)} commits: their turns are there, their content may not")
        self.notes += journal.problems
        self._mend_packs(packed)

    def _entries(self, after: int) -> list[JournalEntry]:
        """Return the journal's entries, whose blobs are pending from now on and left out."""
        entries: list[JournalEntry] = []
        number = 0
        for entry, end in self.journal.entries(after):
            if entries and end[0] != number:
                self.found.append(self.pending.take(*_end(entries[-1])))
            number = end[0]
            self.pending.add(entry.blobs, end)
            entries.append(structs.replace(entry, blobs=()))
        if self.pending:
            self.found.append(self.pending.take(*_end(entries[-1])))
        return entries

    def _lost(self, reached: Checkpoint, entries: list[JournalEntry]) -> list[JournalEntry]:
        """Return commits that the logs have behind everything that the journal has, without the blobs they brought.

        Logs are written after the journal has been synced. So these commits were acknowledged, and their entries are
        damaged: an entry at the end cannot be told from an unfinished one otherwise.
        """
        seq, turn_count, offset = reached.seq, reached.turn_count, reached.heads_length
        if entries:
            seq, turn_count, offset = _end(entries[-1])
        lost: list[JournalEntry] = []
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
                lost.append(JournalEntry(frame.seq, turn_count + 1, records, offset, b"".join(group), packed, []))
                seq, turn_count, offset = frame.seq, commit.turn_count, offset + sum(map(len, group))
                group = []
        return lost

    def _records(self, first: int, last: int) -> bytes | None:
        if last < first:
            return b"" if last == first - 1 else None
        try:
            turns = self.turns.range(first, last - first + 1)
        except (DamageError, NotFound):
            return None
        return b"".join(map(encode_turn, turns)) if len(turns) == last - first + 1 else None

    def _from_logs(self) -> Checkpoint:
        found = self.heads.last_commit()
        if found is None:
            return Checkpoint(0, 0, HEADER_SIZE, 1, HEADER_SIZE)
        frame, end = found
        self.notes.append("the journal's checkpoint is lost: went by the last COMMIT of the head log")
        commit = frame.body
        assert isinstance(commit, Commit)
        return Checkpoint(frame.seq, commit.turn_count, end, commit.pack_number, commit.pack_length)

    def _mend_packs(self, packed: tuple[int, int]) -> None:
        """Cut off incomplete records at the end of the packs, beyond the part that is known to be on disk.

        Sound records behind it may be blobs that were reported as stored: they move up. Damage before
        that place stays where it is, to be reported.
        """
        packs = self.packs
        if self.read_only:
            # incomplete records are skipped
            return
        if packs.end < packed:
            self.notes.append(f"the packs end at {packs.end}, but were written up to {packed}: content is lost")
            packs.cut(*packed)
            return
        torn: tuple[int, int] | None = None
        behind: list[bytes] = []
        for pack, offset, found in packs.scan(packed, packs.appended()):
            if isinstance(found, Damage):
                if torn is None:
                    with suppress(DamageError):
                        # FormatTooNew, where it is a record that a newer version has written
                        packs.read(pack, offset)
                    torn = (pack, offset)
            elif torn is not None:
                behind.append(encode_record(found.codec, found.raw_len, found.hash, found.stored))
        if torn is not None:
            went = packs.cut(*torn)
            packs.append(behind)
            self.notes.append(f"cut {went - sum(map(len, behind))} bytes of an unfinished write from the packs")
            # the index may know something where it was
            set_aside(self.root)


def _end(entry: JournalEntry) -> tuple[int, int, int]:
    """Return the seq, the count of turns and the length of the head log that an entry ends with."""
    return entry.seq, entry.first_turn - 1 + len(entry.turns) // RECORD_SIZE, entry.heads_offset + len(entry.heads)


def _runs(entries: Sequence[JournalEntry]) -> Iterator[list[JournalEntry]]:
    """Yield the entries that follow each other without a gap, in either log, together."""
    run: list[JournalEntry] = []
    for entry in entries:
        if run:
            _seq, turn_count, heads_length = _end(run[-1])
            if (turn_count, heads_length) != (entry.first_turn - 1, entry.heads_offset):
                yield run
                run = []
        run.append(entry)
    if run:
        yield run


# -- the index -------------------------------------------------------------------------------------------------------


def _open_index(files: Files) -> tuple[Index, bool]:
    """Return the index, and whether it was there: then what is derived beside it can be trusted as well."""
    path = files.aside.path(paths.INDEX)
    boot = _BOOT_ID.read_text().strip()
    try:
        # one that was set aside has not been compared with the one that took its place
        if path.exists() and not (files.root / paths.OLD_INDEX).exists():
            index = _sound_index(files, path, boot)
            if index is not None:
                return index, True
        return _rebuilt(files, path, boot), False
    except StoreFull:
        # the old one stays: it can be used as soon as there is room
        return _rebuilt(files, files.aside.elsewhere(paths.INDEX), boot), False


def _rebuilt(files: Files, path: Path, boot: str) -> Index:
    own = path.parent == files.root
    if own:
        set_aside(files.root)
    else:
        remove_database(path)
    index = Index(path, boot)
    try:
        with index.db.writing(hold=False):
            index.db.set_state("store", files.files_id.hex())
            if files.backed:
                # until it is known that it is not: whoever is killed meanwhile leaves one that is not used
                index.db.set_state(_INCOMPLETE, 1)
        lost = rebuild(index, files.heads, files.packs)
        files.notes += lost
        damaged = any(line.startswith(files.heads.name) for line in lost)
        if damaged and files.backed:
            # what the log has lost is in the space: told once more, it would be a commit that the space lacks
            files.incomplete = True
            return index
        if files.backed:
            index.db.set_state(_INCOMPLETE, 0)
        if own and (files.root / paths.OLD_INDEX).exists():
            _compare(files, index, damaged=damaged)
    except BaseException:
        index.close()
        raise
    return index


def _compare(files: Files, index: Index, *, damaged: bool) -> None:
    """Copy the rows that only the old index has, if the log is ``damaged``; an index with more is kept."""
    if not damaged:
        forget_old(files.root, keep=False)
        return
    lost = lost_from_log(files.root, index, files.heads, files.turns, files.seq)
    for start in range(0, len(lost.told), _GROUP):
        _tell(files, index, lost.told[start : start + _GROUP])
    files.notes += lost.lines
    # not before what was brought over is certain to be on disk
    files.must_pack = True

    def forget() -> None:
        if kept := forget_old(files.root, keep=lost.unproved):
            files.notes.append(f"the old index is kept as {files.root / kept}")

    files.settled = forget


def _tell(files: Files, index: Index, told: Sequence[Told]) -> None:
    """Append a group of frames to the log, durably, and file them.

    The journal knows nothing of these: they are to be in its checkpoint before anything is committed.
    """
    files.packs.sync()
    commit = Commit(files.turns.count, *files.packs.end, files.heads.length)
    frames = [
        HeadFrame(0, seq, context, body) for seq, (context, body) in enumerate([*told, (0, commit)], files.seq + 1)
    ]
    files.heads.append(b"".join(encode_frame(frame.seq, frame.context, frame.body) for frame in frames))
    files.heads.sync()
    files.seq = frames[-1].seq
    index.apply(frames)


def _sound_index(files: Files, path: Path, boot: str) -> Index | None:
    """Return the index, brought up to the logs, or None if it cannot be trusted."""
    with ExitStack() as held:
        try:
            index = Index(path, boot)
            held.callback(index.close)
            reached = index.seq
            if not index.usable or index.db.state("store") != files.files_id.hex() or reached > files.seq:
                return None
            if index.db.number(_INCOMPLETE):
                return None
            if reached < files.seq or not index.db.clean:
                catch_up(index, files.heads)
            # a process that was killed before its first change to the index may have written to the packs
            file_packs(index, files.packs, [])
            files.notes += missing_packs(index, files.packs)
            # a small one is looked through, which takes a millisecond; of any, what opening asks for
            if path.stat().st_size <= _LOOKED_THROUGH and list(index.db.problems()):
                raise index.db.damage("its pages are damaged")
            index.type_names()
            index.dictionaries()
            Catalogue(index.db).last_id()
            Notes(index.db).open_turns()
            Patches(index.db).last()
            Views(index.db).renderer()
        except DamageError as error:
            files.notes.append(f"the index could not be used ({error}); made it anew")
            return None
        held.pop_all()
        return index


# -- the directory ---------------------------------------------------------------------------------------------------


def _refuse_without_logs(root: Path, *, backed: bool) -> None:
    """Raise DamageError if a log is not there that was: a new one in its place would be an empty store."""
    logs = [root / paths.TURN_LOG, root / paths.HEAD_LOG]
    missing = [path for path in logs if not path.exists()]
    # a process that was killed while it made the store has left files of which none holds anything
    held = (*logs, root / paths.CHECKPOINT, *root.glob(paths.PACKS))
    if missing and any(path.exists() and path.stat().st_size > HEADER_SIZE for path in held):
        how = "put it back from a backup, or have `convfs fsck --repair` make another of what is known"
        if backed:
            how = "`convfs remote repair` puts it back from the space"
        raise DamageError(f"{missing[0]}: the log is gone, and nothing is shown without it: {how}")


def open_files(
    root: Path,
    *,
    create: bool,
    reindex: bool = False,
    repair: bool = False,
    only_read: bool = False,
    new_id: bytes | None = None,
    backed: bool = False,
) -> Files:
    """Open the store at ``root``, recovering it where need be; make one if there is none and ``create``.

    ``only_read``: change nothing of it, as where it cannot be written.
    With ``repair`` also where a log is gone: of what that held, there is what the index knows. A new store's files have
    ``new_id``, if there is one. ``backed``: a space has all commits (``store.disk.journal``).
    Raises NotFound, StoreBusy, FormatTooNew, DamageError, and StoreFailed if the disk does not take what it must.
    """
    found = identity.files_id(root)
    if found is None and not create:
        raise NotFound(f"there is no store at {root}: make one with convfs import or convfs mount")
    if found is None and new_id is None:
        _check_place(root)
    unwritable = durable.unwritable(root / name for name in _WRITTEN)
    if found is not None and (unwritable is not None or only_read):
        why = f"nothing can be changed in {root}, since {unwritable} cannot be written: change a copy of it"
        if unwritable is None:
            why = f"nothing is changed in {root}: it was opened to be read"
        if reindex:
            raise StoreFailed(why)
        try:
            with ExitStack() as held:
                directory = durable.lock_shared(root)
                held.callback(os.close, directory)
                return Files(root, found, directory, held, read_only=why, backed=backed)
        except OSError as error:
            raise cannot_open(root, error) from error
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as held:
            directory = durable.lock_directory(root)
            held.callback(os.close, directory)
            if os.fstat(directory).st_mode & 0o077:
                # it was there before there was a store in it
                os.fchmod(directory, 0o700)
            held.callback(os.close, durable.lock_exclusive(root / paths.LOCK))
            durable.make_directory(root / paths.TURNS)
            files.sweep(root / paths.SCRATCH)
            if reindex:
                if not repair:
                    _refuse_without_logs(root, backed=backed)
                set_aside(root)
            files_id = found or identity.files_id(root) or new_id or new_store_id()
            return Files(root, files_id, directory, held, repair=repair, backed=backed)
    except OSError as error:
        raise cannot_open(root, error) from error


def _check_place(root: Path) -> None:
    """Raise UsageError where a new store would be among other files, and hide them from other users."""
    with suppress(FileNotFoundError, NotADirectoryError):
        there = {name for name in os.listdir(root) if not name.startswith(".")} - {_OF_DISKS}
        if there and not there & _BEFORE_IT:
            raise UsageError(f"{root} holds other files: a new store needs a directory of its own")


def cannot_open(root: Path, error: OSError) -> StoreFailed:
    """Return what to raise when the system does not let a store be opened."""
    return StoreFailed(f"{root}: the store cannot be opened: {error}")


def earlier(files: Files) -> dict[Hash, Hash]:
    """Return of large payloads that wait, by their hashes, which ones they take the place of: edits say so."""
    waiting = {blob.hash for found in files.found for blob in found.blobs if blob.length >= LEAST_BYTES}
    found: dict[Hash, Hash] = {}
    if not waiting:
        return found
    noted = files.journal.checkpoint
    for frame in files.heads.frames(noted.heads_length if noted else None):
        if not isinstance(frame, HeadFrame):
            continue
        if isinstance(frame.body, Patched):
            for turn_id, digest, _flags, _created in frame.body.turns:
                if digest in waiting:
                    with suppress(DamageError, NotFound):
                        before = files.turns.get(turn_id).payload_hash
                        found |= {digest: before} if before not in (digest, NO_PAYLOAD) else {}
        if not isinstance(frame.body, Superseded):
            continue
        for old, new, count in frame.body.turns:
            if not new:
                continue
            try:
                pairs = zip(files.turns.range(old, count), files.turns.range(new, count), strict=False)
            except (DamageError, NotFound):
                continue
            for was, turn in pairs:
                if turn.payload_hash in waiting and was.payload_hash not in (turn.payload_hash, NO_PAYLOAD):
                    found[turn.payload_hash] = was.payload_hash
    return found
