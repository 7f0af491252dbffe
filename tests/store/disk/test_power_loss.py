"""Power fails at every single write and sync: what was acknowledged is there afterwards, and nothing is half there.

The writer here is the smallest that follows the rules of ``store/FORMAT.md``; the real one is tested elsewhere.
"""

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from store.disk import blob_format, durable, head_format, journal_format, turn_format
from store.disk.blob_format import Compression, Form, Record
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import Commit, HeadFrame, HeadMoved
from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.journal_format import Checkpoint, JournalBlob, JournalEntry
from store.disk.pack import PackSet
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.ids import hash_bytes
from tests.store.disk.lossy import LossyDisk, PowerLoss

STORE_ID = bytes(range(16))
CODEC = blob_format.codec(Compression.RAW, Form.PLAIN)


def payload(number: int) -> bytes:
    return b"payload %d " % number * (number % 50 + 1)


class Tiny:
    """Commits of one turn each; every third ends a journal, which is then checkpointed."""

    def __init__(self, root: Path) -> None:
        with ExitStack() as opened:
            self.turns = TurnLog(root / "turns.log", STORE_ID)
            opened.callback(self.turns.close)
            self.heads = HeadLog(root / "heads.log", STORE_ID)
            opened.callback(self.heads.close)
            self.packs = PackSet(root / "blobs", STORE_ID, segment_bytes=1500)
            opened.callback(self.packs.close)
            self.journal = Journal(root / "journal", STORE_ID, capacity=8192)
            opened.callback(self.journal.close)
            self.waiting: list[JournalBlob] = []
            self.seq = 0
            self.recover()
            self.close = opened.pop_all().close

    def recover(self) -> None:
        reached = self.journal.checkpoint
        if reached is None:
            assert self.turns.count == 0
            assert self.heads.length == HEADER_SIZE
            reached = Checkpoint(0, 0, HEADER_SIZE, 1, HEADER_SIZE)
        self.turns.cut(reached.turn_count)
        self.heads.cut(reached.heads_length)
        self.seq = reached.seq
        entries = [entry for entry, _end in self.journal.entries()]
        self.packs.cut(*max([(reached.pack, reached.pack_length), *(entry.pack for entry in entries)]))
        for entry in entries:
            assert entry.first_turn == self.turns.count + 1
            assert entry.heads_offset == self.heads.length
            self.turns.append(entry.turns)
            self.heads.append(entry.heads)
            self.waiting += entry.blobs
            self.seq = entry.seq
        assert self.journal.problems == []
        self.checkpoint()

    def commit(self, direct: bool = False) -> None:
        number = self.turns.count + 1
        content = payload(number)
        digest = hash_bytes(content)
        turn = turn_format.encode(Turn(number, number - 1, number - 1, 7, 1, digest, 0, 0))
        frames = head_format.encode(self.seq + 1, 1, HeadMoved(number, number - 1, 0, "append"))
        blobs = []
        if direct:
            # as an import does
            self.packs.append([blob_format.encode_record(CODEC, len(content), digest, content)])
            self.packs.sync()
        else:
            blobs = [JournalBlob(digest, Form.PLAIN, len(content), content)]
        frames += head_format.encode(self.seq + 2, 0, Commit(number, *self.packs.synced, self.heads.length))
        entry = JournalEntry(self.seq + 2, number, turn, self.heads.length, frames, self.packs.synced, blobs)
        self.journal.append(journal_format.encode_entry(entry))
        self.turns.append(turn)
        self.heads.append(frames)
        self.waiting += blobs
        self.seq += 2

    def switch(self) -> tuple[int, int, int]:
        self.journal.switch()
        return self.seq, self.turns.count, self.heads.length

    def checkpoint(self, state: tuple[int, int, int] | None = None) -> None:
        state = state or (self.seq, self.turns.count, self.heads.length)
        self.packs.append([blob_format.encode_record(CODEC, one.raw_len, one.hash, one.body) for one in self.waiting])
        self.waiting = []
        self.packs.sync()
        self.turns.sync()
        self.heads.sync()
        self.journal.retire(Checkpoint(*state, *self.packs.end))


def live(tiny: Tiny, acknowledged: list[int]) -> None:
    """Commit some turns, noting each when it is acknowledged."""
    for number in range(1, 11):
        tiny.commit(direct=number % 4 == 0)
        acknowledged.append(tiny.turns.count)
        if number % 3 == 0:
            state = tiny.switch()
            tiny.commit()
            acknowledged.append(tiny.turns.count)
            tiny.checkpoint(state)


def check(tiny: Tiny, acknowledged: list[int]) -> None:
    """Every turn that was acknowledged is there with its frames and its payload; at most one more is."""
    count = tiny.turns.count
    assert len(acknowledged) <= count <= len(acknowledged) + 1
    found = [item for _, _, item in tiny.packs.scan()]
    assert not [item for item in found if isinstance(item, Damage)]
    contents = {bytes(item.hash): bytes(item.stored) for item in found if isinstance(item, Record)}
    for turn in tiny.turns.range(1, count) if count else []:
        assert contents[turn.payload_hash] == payload(turn.turn_id)
    frames = list(tiny.heads.frames())
    assert all(isinstance(frame, HeadFrame) for frame in frames)
    moves = [frame.body.tip for frame in frames if isinstance(frame, HeadFrame) and isinstance(frame.body, HeadMoved)]
    assert moves == list(range(1, count + 1))


@contextmanager
def on(disk: LossyDisk) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        yield


def length_of_a_life(root: Path) -> int:
    root.mkdir()
    disk = LossyDisk(root)
    with on(disk):
        tiny = Tiny(root)
        live(tiny, [])
        tiny.close()
    disk.close()
    return disk.operations


def test_power_loss_at_every_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the power fails in the mind of LossyDisk only
    monkeypatch.setattr(durable, "fdatasync", lambda fd: None)
    monkeypatch.setattr(durable, "sync_directory", lambda path: None)
    open_files = len(os.listdir("/proc/self/fd"))
    steps = length_of_a_life(tmp_path / "whole")
    assert steps > 100
    for step in range(steps):
        root = tmp_path / f"life-{step}"
        root.mkdir()
        disk = LossyDisk(root, step)
        acknowledged: list[int] = []
        with on(disk), pytest.raises(PowerLoss), closing(Tiny(root)) as tiny:
            live(tiny, acknowledged)
        for seed in range(3):
            after = tmp_path / f"after-{step}-{seed}"
            after.mkdir()
            disk.after_power_loss(after, seed)
            if seed == 0:
                second_loss(after, acknowledged, tmp_path / f"again-{step}", step % 17)
            again = Tiny(after)
            check(again, acknowledged)
            # and goes on
            again.commit()
            again.close()
            again = Tiny(after)
            assert again.turns.count in (len(acknowledged) + 1, len(acknowledged) + 2)
            again.close()
        disk.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= open_files


def second_loss(root: Path, acknowledged: list[int], after: Path, step: int) -> None:
    """The power fails again while the store is being opened."""
    # in a copy of its own, for what follows needs the first
    copy = after.with_name(after.name + "-copy")
    shutil.copytree(root, copy)
    disk = LossyDisk(copy, step)
    with on(disk), suppress(PowerLoss):
        Tiny(copy).close()
    after.mkdir()
    disk.after_power_loss(after, step)
    disk.close()
    tiny = Tiny(after)
    check(tiny, acknowledged)
    tiny.close()
