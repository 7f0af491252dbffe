"""The journal on real files: crashes, damage, reuse."""

import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from store.disk import durable, journal_format
from store.disk.blob_format import Form
from store.disk.file_header import HEADER_SIZE
from store.disk.journal import Journal
from store.disk.journal_format import BLOCK, FRAME_OVERHEAD, Checkpoint, JournalBlob, JournalEntry
from store.errors import DamageError, StoreFailed, UsageError
from store.ids import Hash
from tests.store.disk.lossy import mixture

Flip = Callable[[Path, int, int], None]
CAPACITY = 16 * 1024
START = Checkpoint(0, 0, HEADER_SIZE, 1, HEADER_SIZE)
HEADS = 40


def entry(seq: int, size: int = 20) -> JournalEntry:
    """Return the entry of the commit ``seq``; each has ``HEADS`` bytes of frames and one turn."""
    return JournalEntry(
        seq,
        seq,
        bytes([seq % 256]) * 80,
        HEADER_SIZE + (seq - 1) * HEADS,
        bytes([seq % 256]) * HEADS,
        (1, HEADER_SIZE),
        [JournalBlob(Hash(bytes([seq % 256]) * 32), Form.PLAIN, size, bytes([seq % 256]) * size)],
    )


def upto(seq: int) -> Checkpoint:
    return Checkpoint(seq, seq, HEADER_SIZE + seq * HEADS, 1, HEADER_SIZE + seq)


def encoded(seq: int, size: int = 20) -> bytes:
    return journal_format.encode_entry(entry(seq, size))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def opened(directory: Path, store_id: bytes) -> Iterator[Callable[[], Journal]]:
    """Return what opens the journal anew, as after a crash: nothing is said to the one before."""
    journals: list[Journal] = []

    def open_again() -> Journal:
        journals.append(Journal(directory, store_id, CAPACITY))
        return journals[-1]

    yield open_again
    for journal in journals:
        journal.close()


@pytest.fixture
def journal(opened: Callable[[], Journal]) -> Journal:
    journal = opened()
    journal.retire(START)
    return journal


def seqs(journal: Journal) -> list[int]:
    return [found.seq for found in entries(journal)]


def entries(journal: Journal, after: int | None = None) -> list[JournalEntry]:
    """Return what is to be replayed; each blob must lie where it is said to."""
    found = []
    for item, (number, end) in journal.entries(after):
        body = b"".join(blob.body for blob in item.blobs)
        assert journal.read(number, len(body), end - len(body)) == body
        found.append(item)
    return found


def test_a_new_journal_waits_for_its_first_checkpoint(opened: Callable[[], Journal], directory: Path) -> None:
    journal = opened()
    assert journal.checkpoint is None
    assert seqs(journal) == []
    with pytest.raises(UsageError, match="before a checkpoint"):
        journal.append(encoded(1))
    journal.retire(START)
    assert journal.checkpoint == START
    assert (directory / "1").stat().st_size == (directory / "2").stat().st_size == HEADER_SIZE
    journal.append(encoded(1))
    assert (directory / "1").stat().st_size == CAPACITY
    assert not journal.problems


def test_entries_come_back_after_a_crash(journal: Journal, opened: Callable[[], Journal]) -> None:
    for seq in (1, 2, 3):
        journal.append(encoded(seq))
    again = opened()
    assert entries(again) == [entry(1), entry(2), entry(3)]
    assert entries(again, 1) == [entry(2), entry(3)]
    assert again.problems == []
    assert again.checkpoint == START


def test_an_append_is_one_write_and_one_sync(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.append(encoded(1))
    calls: list[str] = []
    for name in ("pwrite", "fdatasync", "fsync", "write", "pwritev", "ftruncate"):
        real = getattr(os, name)

        def noted(*args: object, name: str = name, real: Callable[..., object] = real) -> object:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, noted)
    for seq in (2, 3, 4):
        journal.append(encoded(seq))
    assert calls == ["pwrite", "fdatasync"] * 3


def test_a_backed_journal_is_synced_when_it_is_asked_for(
    directory: Path, store_id: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Journal(directory, store_id, CAPACITY, backed=True)) as journal:
        journal.retire(START)
        synced: list[str] = []
        real = durable.fdatasync

        def noted(fd: int) -> None:
            synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
            real(fd)

        monkeypatch.setattr(durable, "fdatasync", noted)
        journal.append(encoded(1))
        journal.switch()
        journal.append(encoded(2))
        assert synced == []
        journal.sync()
        journal.sync()
        assert sorted(synced) == ["1", "2"]


def test_a_backed_journal_ends_at_the_first_gap(directory: Path, store_id: bytes, flip: Flip) -> None:
    with closing(Journal(directory, store_id, CAPACITY, backed=True)) as journal:
        journal.retire(START)
        journal.append(encoded(1))
        place = BLOCK + journal.used + 50
        for seq in (2, 3):
            journal.append(encoded(seq))
        journal.switch()
        journal.append(encoded(4))
    flip(directory / "1", place, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as alone:
        assert seqs(alone) == [1, 3, 4]
    with closing(Journal(directory, store_id, CAPACITY, backed=True)) as journal:
        assert seqs(journal) == [1]
        assert journal.problems == []
        journal.switch()
        # fetched again, and longer than before
        journal.append(encoded(2, 99))
        journal.retire(upto(2))
    with closing(Journal(directory, store_id, CAPACITY, backed=True)) as journal:
        assert seqs(journal) == []


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_backed_journal_holds_what_was_committed_whatever_is_lost(chance: random.Random) -> None:
    """Power failures, one after the other: of all that was not synced, any sectors are on the disk."""
    with tempfile.TemporaryDirectory() as work:
        directory = Path(work) / "journal"
        certain: dict[Path, bytes] = {}
        reached = last = 0
        for _life in range(5):
            with closing(Journal(directory, bytes(16), CAPACITY, 3, backed=True)) as journal:
                if journal.checkpoint is None:
                    journal.retire(START)
                found = seqs(journal)
                assert found == list(range(reached + 1, reached + 1 + len(found)))
                assert entries(journal) == [entry(seq, 40 * seq % 999) for seq in found]
                seq = reached + len(found)
                assert seq <= last
                if not journal.free:
                    # what was found is in the logs before anything follows
                    reached = seq
                    journal.retire(upto(reached))
                if not journal.room(2000):
                    journal.switch()
                for _step in range(chance.randrange(25)):
                    body = encoded(seq + 1, 40 * (seq + 1) % 999)
                    if (not journal.room(len(body)) or chance.random() < 0.1) and journal.free:
                        journal.switch()
                    if journal.room(len(body)):
                        journal.append(body)
                        seq += 1
                    if chance.random() < 0.1 or not journal.room(2000):
                        reached = chance.randint(reached, seq)
                        journal.retire(upto(reached))
                last = max(last, seq)
            for path in (directory / "1", directory / "2", directory / "3"):
                if path.exists():
                    path.write_bytes(mixture(certain.get(path, path.read_bytes()[:BLOCK]), path.read_bytes(), chance))
                    certain[path] = path.read_bytes()


def test_an_append_does_not_change_the_files_size(journal: Journal, directory: Path) -> None:
    assert journal.used == 0
    journal.append(encoded(1))
    before = [(directory / name).stat() for name in "12"]
    journal.append(encoded(2))
    assert journal.used == 2 * (len(encoded(1)) + FRAME_OVERHEAD)
    after = [(directory / name).stat() for name in "12"]
    assert [(stat.st_size, stat.st_blocks) for stat in before] == [(stat.st_size, stat.st_blocks) for stat in after]


def test_a_journal_grows_in_steps_and_is_cut_at_the_end(directory: Path, store_id: bytes) -> None:
    capacity = 18 << 20
    with closing(Journal(directory, store_id, capacity)) as journal:
        journal.retire(START)
        sizes, seq = [HEADER_SIZE], 0
        while journal.room(len(encoded(seq + 1, 30_000))):
            seq += 1
            journal.append(encoded(seq, 30_000))
            size = (directory / "1").stat().st_size
            assert size >= BLOCK + journal.used
            if size != sizes[-1]:
                sizes.append(size)
        steps = [after - before for before, after in pairwise(sizes)]
        assert steps == sorted(steps[:-1]) + steps[-1:]
        assert steps[0] == 64 << 10
        assert max(steps) == 4 << 20
        assert sizes[-1] == capacity
        journal.cut()
        assert (directory / "1").stat().st_size == capacity
        with closing(Journal(directory, store_id, capacity)) as again:
            assert seqs(again) == list(range(1, seq + 1))
        journal.switch()
        journal.append(encoded(seq + 1))
        journal.retire(upto(seq))
        journal.cut()
        assert (directory / "1").stat().st_size == capacity
        journal.switch()
        journal.retire(upto(seq + 1))
        journal.cut()
        assert (directory / "1").stat().st_size == (directory / "2").stat().st_size == HEADER_SIZE
        with closing(Journal(directory, store_id, capacity)) as again:
            assert seqs(again) == []
        # and it can go on
        journal.append(encoded(seq + 2))
        with closing(Journal(directory, store_id, capacity)) as again:
            assert seqs(again) == [seq + 2]


def test_room(journal: Journal) -> None:
    largest = CAPACITY - BLOCK - FRAME_OVERHEAD
    assert journal.room(largest)
    with pytest.raises(UsageError, match="too large for a journal"):
        journal.room(largest + 1)
    overhead = len(encoded(1, 0))
    journal.append(encoded(1, largest - overhead - 1000))
    assert not journal.room(1000)
    assert journal.room(1000 - FRAME_OVERHEAD)
    with pytest.raises(UsageError, match="ask for room"):
        journal.append(encoded(2, 1000))
    journal.append(encoded(2, 1000 - FRAME_OVERHEAD - overhead))
    assert not journal.room(0)


def test_the_journals_take_turns(journal: Journal, opened: Callable[[], Journal]) -> None:
    seq = 0
    for _ in range(5):
        first = seq + 1
        while journal.room(len(encoded(seq + 1, 500))):
            seq += 1
            journal.append(encoded(seq, 500))
        assert journal.free
        journal.switch()
        assert not journal.free
        assert journal.used == 0
        with pytest.raises(UsageError, match="not yet in the logs"):
            journal.switch()
        for _ in range(3):
            seq += 1
            journal.append(encoded(seq))
        # as a crash here would find it
        assert seqs(opened()) == list(range(first, seq + 1))
        journal.retire(upto(seq - 3))
        assert journal.free
        assert seqs(opened()) == [seq - 2, seq - 1, seq]
        journal.retire(upto(seq))
        journal.switch()
        journal.retire(upto(seq))
    assert opened().problems == []


def test_a_checkpoint_that_does_not_cover_the_other_journal_does_not_free_it(
    journal: Journal, opened: Callable[[], Journal]
) -> None:
    for seq in (1, 2, 3):
        journal.append(encoded(seq))
    journal.switch()
    journal.append(encoded(4))
    journal.retire(upto(2))
    assert not journal.free
    assert seqs(opened()) == [3, 4]
    journal.retire(upto(3))
    assert journal.free
    assert seqs(opened()) == [4]


def test_a_torn_entry_is_dropped_without_a_word(journal: Journal, directory: Path, store_id: bytes) -> None:
    # an older use of the same file lies underneath
    for seq in range(1, 30):
        journal.append(encoded(seq))
    journal.switch()
    journal.retire(upto(29))
    journal.append(encoded(30))
    journal.switch()
    journal.retire(upto(30))
    older = (directory / "1").read_bytes()
    journal.append(encoded(31))
    begin = BLOCK + journal.used
    journal.append(encoded(32))
    end = BLOCK + journal.used
    whole, checkpoint = (directory / "1").read_bytes(), (directory / "checkpoint").read_bytes()
    for cut in range(begin, end):
        (directory / "1").write_bytes(whole[:cut] + older[cut:])
        with closing(Journal(directory, store_id, CAPACITY)) as again:
            assert seqs(again) == [31]
            assert again.problems == []
            again.retire(upto(31))
            again.append(encoded(32))
        with closing(Journal(directory, store_id, CAPACITY)) as again:
            assert seqs(again) == [32]
        (directory / "checkpoint").write_bytes(checkpoint)


def test_the_first_entry_of_a_new_use_is_torn(journal: Journal, directory: Path, store_id: bytes) -> None:
    for seq in (1, 2, 3):
        journal.append(encoded(seq))
    journal.switch()
    journal.append(encoded(4))
    journal.retire(upto(4))
    journal.switch()
    journal.retire(upto(4))
    older = (directory / "1").read_bytes()
    journal.append(encoded(5, 400))
    end = BLOCK + journal.used
    whole = (directory / "1").read_bytes()
    for cut in (*range(BLOCK, end, 7), end):
        (directory / "1").write_bytes(whole[:cut] + older[cut:])
        with closing(Journal(directory, store_id, CAPACITY)) as again:
            assert seqs(again) == ([5] if cut == end else [])
            assert again.problems == []


def test_damage_is_reported_and_what_follows_still_counts(
    journal: Journal, directory: Path, store_id: bytes, flip: Flip
) -> None:
    ends = []
    for seq in (1, 2, 3, 4):
        journal.append(encoded(seq))
        ends.append(BLOCK + journal.used)
    for offset in range(BLOCK, ends[-1]):
        hit = 1 + sum(end <= offset for end in ends)
        flip(directory / "1", offset, offset % 8)
        with closing(Journal(directory, store_id, CAPACITY)) as again:
            assert entries(again) == [entry(seq) for seq in (1, 2, 3, 4) if seq != hit]
            # the last cannot be told from one that was never finished
            lost = [] if hit == 4 else [f"the journal lost {HEADS} bytes of head records before seq {hit + 1}"]
            assert again.problems == lost
        flip(directory / "1", offset, offset % 8)


def test_no_flipped_bit_loses_the_checkpoint(journal: Journal, directory: Path, store_id: bytes, flip: Flip) -> None:
    path = directory / "checkpoint"
    for round_ in (1, 2, 3):
        for offset in (offset for block in range(5) for offset in range(block * BLOCK, block * BLOCK + 140)):
            flip(path, offset, offset % 8)
            with closing(Journal(directory, store_id, CAPACITY)) as again:
                assert again.checkpoint == journal.checkpoint
                assert bool(again.problems) == (offset < HEADER_SIZE)
            flip(path, offset, offset % 8)
        journal.append(encoded(round_))
        journal.switch()
        journal.retire(upto(round_))


def test_without_any_checkpoint_everything_is_there(
    journal: Journal, opened: Callable[[], Journal], directory: Path
) -> None:
    for seq in (1, 2):
        journal.append(encoded(seq))
    journal.switch()
    journal.append(encoded(3))
    journal.retire(upto(2))
    (directory / "checkpoint").unlink()
    again = opened()
    assert again.checkpoint is None
    assert seqs(again) == [1, 2, 3]
    assert [found.seq for found in entries(again, 2)] == [3]
    again.retire(upto(2))
    assert seqs(again) == seqs(opened()) == [3]
    with pytest.raises(UsageError, match="before a checkpoint"):
        again.append(encoded(4))
    again.retire(upto(3))
    again.append(encoded(4))
    assert seqs(opened()) == [4]


def test_a_lost_journal_is_made_again(journal: Journal, opened: Callable[[], Journal], directory: Path) -> None:
    journal.append(encoded(1))
    (directory / "2").unlink()
    (directory / "1").write_bytes((directory / "1").read_bytes()[: BLOCK + 2000])
    again = opened()
    assert seqs(again) == [1]
    again.retire(upto(1))
    while again.room(len(encoded(2))):
        again.append(encoded(2))
    again.switch()
    again.append(encoded(3))
    assert (directory / "1").stat().st_size == (directory / "2").stat().st_size == CAPACITY


def test_a_damaged_header_costs_no_entry(
    journal: Journal, opened: Callable[[], Journal], directory: Path, flip: Flip
) -> None:
    journal.append(encoded(1))
    flip(directory / "1", 9, 1)
    again = opened()
    assert seqs(again) == [1]
    [problem] = again.problems
    assert "checksum of the file header" in problem


def test_another_stores_journal_is_refused(journal: Journal, directory: Path) -> None:
    with pytest.raises(DamageError, match="belongs to the store"):
        Journal(directory, bytes(16), CAPACITY)


@pytest.mark.parametrize("failing", ["pwrite_all", "fdatasync"])
def test_after_a_failure_nothing_more_is_taken(
    journal: Journal, opened: Callable[[], Journal], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    journal.append(encoded(1))

    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, failing, fail)
        with pytest.raises(OSError, match="Input/output"):
            journal.append(encoded(2))
    with pytest.raises(StoreFailed, match="opened again"):
        journal.append(encoded(2))
    with pytest.raises(StoreFailed, match="opened again"):
        journal.retire(upto(1))
    again = opened()
    # it was never acknowledged; that it is there is as good as that it is not
    assert seqs(again) == ([1] if failing == "pwrite_all" else [1, 2])


@pytest.mark.parametrize("failing", ["pwrite_all", "fdatasync"])
def test_a_failed_checkpoint_frees_nothing(
    journal: Journal, opened: Callable[[], Journal], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    journal.append(encoded(1))
    journal.switch()

    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, failing, fail)
        with pytest.raises(OSError, match="Input/output"):
            journal.retire(upto(1))
    assert journal.checkpoint == START
    assert not journal.free
    with pytest.raises(StoreFailed):
        journal.append(encoded(2))


def test_a_torn_checkpoint_leaves_the_one_before(journal: Journal, directory: Path, store_id: bytes) -> None:
    path = directory / "checkpoint"
    journal.append(encoded(1))
    journal.switch()
    before = path.read_bytes()
    journal.retire(upto(1))
    after = path.read_bytes()
    changed = [offset for offset in range(len(after)) if after[offset] != before[offset]]
    for cut in changed:
        path.write_bytes(after[:cut] + before[cut:])
        with closing(Journal(directory, store_id, CAPACITY)) as again:
            assert again.checkpoint in (START, upto(1))
            assert seqs(again) == ([1] if again.checkpoint == START else [])
            again.retire(upto(1))
        with closing(Journal(directory, store_id, CAPACITY)) as again:
            assert again.checkpoint == upto(1)


@pytest.mark.parametrize("other_file", [False, True])
def test_an_entry_that_can_be_read_again_does_not_come_back(
    journal: Journal, directory: Path, store_id: bytes, flip: Flip, other_file: bool
) -> None:
    """A read that fails once and then no more: what was committed in the meantime stays."""
    for seq in (1, 2):
        journal.append(encoded(seq))
    place = BLOCK + journal.used + 50
    journal.append(encoded(3))
    flip(directory / "1", place, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert seqs(again) == [1, 2]
        again.retire(upto(2))
        if other_file:
            again.switch()
        again.append(encoded(3, 7))
    flip(directory / "1", place, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert entries(again) == [entry(3, 7)]
        again.retire(upto(3))
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert entries(again) == []


def test_the_same_in_one_file_without_a_checkpoint_in_between(
    journal: Journal, directory: Path, store_id: bytes, flip: Flip
) -> None:
    journal.append(encoded(1))
    journal.retire(upto(1))
    journal.append(encoded(2))
    place = BLOCK + journal.used + 50
    journal.append(encoded(3))
    flip(directory / "1", place, 0)
    flip(directory / "1", place - 200, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert seqs(again) == []
        again.append(encoded(2, 7))
    flip(directory / "1", place, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert entries(again) == [entry(2, 7)]


def test_an_entry_that_can_be_read_again_without_a_checkpoint_in_between(
    journal: Journal, directory: Path, store_id: bytes, flip: Flip
) -> None:
    journal.append(encoded(1))
    journal.switch()
    journal.retire(upto(1))
    place = BLOCK + 50
    journal.append(encoded(2))
    flip(directory / "2", place, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert seqs(again) == []
        again.append(encoded(2, 7))
        again.append(encoded(3, 7))
    flip(directory / "2", place, 0)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert entries(again) == [entry(2, 7), entry(3, 7)]


def test_a_block_that_cannot_be_read_is_read_around(
    journal: Journal, directory: Path, store_id: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seq in (1, 2, 3, 4):
        journal.append(encoded(seq, 2600))
    real = os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset <= 2 * BLOCK < offset + length and os.fstat(fd).st_ino == inode:
            raise OSError(5, "Input/output error")
        return real(fd, length, offset)

    inode = (directory / "1").stat().st_ino
    monkeypatch.setattr(os, "pread", failing)
    with closing(Journal(directory, store_id, CAPACITY)) as again:
        assert seqs(again) == [1, 4]
        assert len(again.problems) == 1


def test_an_entry_in_a_blob_is_not_an_entry(journal: Journal, opened: Callable[[], Journal], directory: Path) -> None:
    """A conversation about a journal may hold a journal's bytes; they lie at other places than they name."""
    inner = journal_format.frame([encoded(99)], 1, BLOCK, journal._seed)
    body = journal_format.encode_entry(
        JournalEntry(
            1, 1, b"", HEADER_SIZE, bytes(HEADS), (1, 32), [JournalBlob(Hash(bytes(32)), Form.PLAIN, 1, inner * 3)]
        )
    )
    journal.append(body)
    path = directory / "1"
    with path.open("r+b") as file:
        file.seek(BLOCK + 30)
        file.write(b"torn")
    again = opened()
    assert seqs(again) == []


def test_appends_beside_checkpoints(journal: Journal, opened: Callable[[], Journal]) -> None:
    """One thread commits, another retires what it is handed, as in the running store."""
    handed: list[int] = []
    ready = threading.Event()
    done = threading.Event()
    errors: list[BaseException] = []

    def checkpoints() -> None:
        try:
            while not done.is_set() or handed:
                if ready.wait(0.01):
                    ready.clear()
                    journal.retire(upto(handed.pop()))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=checkpoints)
    thread.start()
    for seq in range(1, 400):
        while not journal.room(len(encoded(seq, 300))):
            if journal.free:
                journal.switch()
                handed.append(seq - 1)
                ready.set()
        journal.append(encoded(seq, 300))
    done.set()
    thread.join()
    assert not errors
    again = opened()
    assert again.checkpoint is not None
    assert seqs(again) == list(range(again.checkpoint.seq + 1, 400))
    assert again.problems == []


def test_opening_after_a_clean_close_reads_little(
    journal: Journal, opened: Callable[[], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(encoded(1))
    journal.switch()
    journal.retire(upto(1))
    real, total = os.pread, 0

    def noted(fd: int, length: int, offset: int) -> bytes:
        nonlocal total
        total += length
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", noted)
    assert seqs(opened()) == []
    assert total < 2000


class Life(RuleBasedStateMachine):
    """Any order of commits, switches, checkpoints, crashes and torn writes, against what must be replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="convfs-journal-"))
        self.seq = 0
        self.ends: list[int] = []
        """The last seq of each journal that is to be retired."""
        self.retired = 0

    @initialize(files=st.integers(2, 4))
    def begin(self, files: int) -> None:
        self.files = files
        self.journal = self.opened()
        self.journal.retire(START)

    def opened(self) -> Journal:
        return Journal(self.directory / "journal", bytes(16), CAPACITY, self.files)

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
        shutil.rmtree(self.directory)

    @rule(size=st.sampled_from([0, 10, 300, 5000]))
    def append(self, size: int) -> None:
        if self.journal.room(len(encoded(self.seq + 1, size))):
            self.seq += 1
            self.journal.append(encoded(self.seq, size))

    @precondition(lambda self: self.journal.free)
    @rule()
    def switch(self) -> None:
        self.journal.switch()
        self.ends.append(self.seq)
        assert self.journal.used == 0
        assert len(list((self.directory / "journal").iterdir())) <= self.files + 1

    @rule(which=st.integers(0, 4))
    def retire(self, which: int) -> None:
        """Retire some of the journals, or all there is."""
        self.retired = self.ends[which] if which < len(self.ends) else self.seq
        self.journal.retire(upto(self.retired))
        self.ends = [end for end in self.ends if end > self.retired]
        assert self.journal.free
        assert (self.journal.backlog == 0) == (self.journal.used == 0 and not self.ends)

    @precondition(lambda self: self.retired == self.seq and not self.ends)
    @rule()
    def cut(self) -> None:
        self.journal.cut()
        assert len(list((self.directory / "journal").iterdir())) <= self.files + 1

    @rule(torn=st.none() | st.floats(0, 1, exclude_max=True), replayed=st.booleans(), packed=st.booleans())
    def crash(self, torn: float | None, replayed: bool, packed: bool) -> None:
        """Open anew, perhaps after half a write; perhaps the recovery itself dies before it has packed anything."""
        if torn is not None and self.journal.room(len(encoded(self.seq + 1, 300))):
            file = self.journal._current
            assert file is not None
            framed = journal_format.frame(
                [encoded(self.seq + 1, 300)], self.journal._epoch, file.position, self.journal._seed
            )
            os.pwrite(file.fd, framed[: int(len(framed) * torn)], file.position)
        for _ in range(1 if replayed else 2):
            self.journal.close()
            self.journal = self.opened()
            assert seqs(self.journal) == list(range(self.retired + 1, self.seq + 1))
            assert self.journal.problems == []
        if packed or not self.journal.free:
            self.journal.retire(upto(self.seq))
            self.retired, self.ends = self.seq, []
        else:
            # what was found is packed while commits go on
            self.ends = [self.seq] if self.seq > self.retired else []
            self.journal.switch()

    @invariant()
    def a_crash_now_would_lose_nothing(self) -> None:
        with closing(self.opened()) as journal:
            assert journal.checkpoint == upto(self.retired)
            found = entries(journal)
            assert [item.seq for item in found] == list(range(self.retired + 1, self.seq + 1))
            assert found == [entry(item.seq, item.blobs[0].raw_len) for item in found]
            assert journal.problems == []


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
