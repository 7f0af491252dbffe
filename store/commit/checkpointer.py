"""Checkpoints: moving what the journal holds into packs and logs, then freeing the journal.

There are two journals. When the one in use is full, or the store is idle, commits go on in the other, and a thread
of this module packs the blobs of the first, group by group, syncs packs and logs, brings the index up to date, and
then retires the first. Packing is never on the way of a commit, and small blobs that came one by one are compressed
with their neighbours.

While commits come fast they have the processor to themselves, until the second journal is half full; from then on they
are held back just so much that packing is done before the second is full, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from store.commit.intake import Intake
from store.commit.learning import Learning
from store.commit.writer import Writer
from store.disk.journal_format import Checkpoint, JournalBlob

_IDLE_SECONDS = 1.0
_LONGEST_SECONDS = 15.0
_SLICE_BYTES = 1 << 20
_QUIET_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.005


class _Task(Struct, frozen=True):
    """One journal to be packed: its blobs, and what it brought the store to."""

    blobs: list[JournalBlob]
    seq: int
    turn_count: int
    heads_length: int


class Checkpointer:
    """Runs the checkpoints of one writer, in a thread of its own from :meth:`start` on."""

    def __init__(self, writer: Writer, intake: Intake, learning: Learning) -> None:
        self._writer = writer
        self._intake = intake
        self._learning = learning
        self._work = threading.Condition()
        self._task: _Task | None = None
        self._packed = 0.0
        """The share of the task's bytes that has been packed."""
        self._learns = False
        self._may_learn = True
        self._awake = False
        self._hurried = False
        self._closing = False
        self.packed: Callable[[], None] = lambda: None
        """Called after each checkpoint, in its thread."""
        self._thread = threading.Thread(target=self._run, name="convfs-checkpoint", daemon=True)
        writer.journal_full = self.switch
        writer.wanted = self._wake
        writer.pace = self.pace

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def switch(self) -> None:
        """Go on in the other journal and have the first one packed. The caller holds ``writer.commit_lock``."""
        writer = self._writer
        with self._work:
            self._finish_task()
            writer.check()
            self._task = self._take()
            self._work.notify_all()

    def pace(self) -> None:
        """Hold a commit back a little where commits come faster than what came before them can be packed."""
        if self._task is not None:
            journal = self._writer.journal
            ahead = 2 * journal.used / journal.capacity - 1 - self._packed
            if ahead > 0:
                time.sleep(min(ahead / 20, _LONGEST_PAUSE_SECONDS))

    def flush(self) -> None:
        """Pack and sync everything that has been committed, now. Raises StoreFailed."""
        writer = self._writer
        with writer.commit_lock:
            if writer.journal.used and not writer.failed:
                self.switch()
        with self._work:
            self._finish_task()
        if writer.failed:
            writer.check()

    def quiesce(self) -> None:
        """As :meth:`flush`, and wait until nothing is going on in the background."""
        self.flush()
        with self._work:
            learns = self._learns
            self._work.wait_for(lambda: not self._learns)
        if learns:
            # what was learnt is committed, too
            self.flush()

    def close(self) -> None:
        """Pack and sync everything, and end the thread. Raises StoreFailed if anything may be missing from the disk."""
        writer = self._writer
        try:
            self._intake.sync()
            self.flush()
        finally:
            with self._work:
                self._may_learn = False
                self._work.wait_for(lambda: not self._learns)
                self._closing = True
                self._work.notify_all()
            self._thread.join()
            with writer.commit_lock:
                try:
                    # what has come since, from others and from learning; and blobs that came without any commit
                    noted = writer.journal.checkpoint
                    added = noted is None or writer.packs.end > (noted.pack, noted.pack_length)
                    if (writer.journal.used or added) and not writer.failed:
                        self._guarded(partial(self._pack, self._take()))
                finally:
                    writer.close()
        if writer.failed:
            writer.check()

    def _take(self) -> _Task:
        writer = self._writer
        writer.journal.switch()
        self._packed = 0.0
        return _Task(writer.pending.take(), writer.seq, writer.turns.count, writer.head_log.length)

    def _finish_task(self) -> None:
        while self._task is not None:
            self._hurried = True
            self._work.notify_all()
            self._work.wait()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with self._work:
            self._awake = True
            self._work.notify_all()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            self._hold_back()
            self._guarded(partial(self._pack, task))
            with self._work:
                self._task = None
                self._hurried = False
                learn = self._may_learn and not self._learns and self._learning.due
                self._learns = self._learns or learn
                self._work.notify_all()
            self._guarded(self.packed)
            if learn:
                # not here: what it commits may have to wait until the next journal has been packed
                threading.Thread(target=self._learn, name="convfs-learning", daemon=True).start()

    def _learn(self) -> None:
        self._guarded(self._learning.learn)
        with self._work:
            self._learns = False
            self._work.notify_all()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # the journal stays as it is, so nothing is lost; but no more may be taken in
            self._writer.fail(error)

    def _hold_back(self) -> None:
        """Wait until commits become rare, or room scarce."""
        writer, seen = self._writer, -1
        half = writer.journal.capacity // 2
        with self._work:
            while not self._hurried and not self._closing and writer.journal.used < half and writer.seq != seen:
                seen = writer.seq
                self._work.wait(_QUIET_SECONDS)

    def _next(self) -> _Task | None:
        """Wait for work, and see to it that there is some when the store is idle; None to end."""
        writer = self._writer
        began = since = time.monotonic()
        seen = writer.seq
        while True:
            with self._work:
                if self._task is None and not self._closing and not self._awake:
                    # nothing in the journal: nothing to do before somebody commits
                    self._work.wait(_IDLE_SECONDS / 2 if writer.journal.used and not writer.failed else None)
                self._awake = False
                if self._task is not None:
                    return self._task
                if self._closing:
                    return None
            try:
                writer.settle()
                now = time.monotonic()
                if writer.seq != seen:
                    seen, since = writer.seq, now
                if not writer.journal.used:
                    began = now
                elif now - since > _IDLE_SECONDS or now - began > _LONGEST_SECONDS:
                    self._switch_when_idle()
            except Exception as error:
                writer.fail(error)

    def _switch_when_idle(self) -> None:
        # not waiting for the lock: its holder may be waiting for this thread
        if self._writer.commit_lock.acquire(blocking=False):
            try:
                with self._work:
                    free = self._task is None
                # what is in the journal can wait until the disk has room for it elsewhere
                if free and self._writer.journal.used and self._writer.has_room():
                    self.switch()
            finally:
                self._writer.commit_lock.release()

    def _pack(self, task: _Task) -> None:
        writer = self._writer
        load = self._intake.repack()
        total = sum(len(blob.body) for blob in task.blobs) or 1
        size, some = 0, []
        for blob in task.blobs:
            some.append(blob.body)
            size += len(blob.body)
            if size >= _SLICE_BYTES:
                load.payloads(some, self._intake.earlier)
                # the syncs at the end take their time, too
                self._packed += 0.85 * size / total
                size, some = 0, []
        load.payloads(some, self._intake.earlier)
        load.sync()
        writer.turns.sync()
        writer.head_log.sync()
        writer.settle()
        writer.pending.drop(task.blobs)
        self._intake.forget_earlier(blob.hash for blob in task.blobs)
        self._learning.packed(task.blobs)
        pack, length = writer.packs.synced
        writer.journal.retire(Checkpoint(task.seq, task.turn_count, task.heads_length, pack, length))
