"""Checkpoints: moving what the journal holds into packs and logs, then freeing the journal.

When the journal in use is full, or the store is idle, commits go on in another, and a thread of this module packs the
blobs of the first, group by group, syncs packs and logs, brings the index up to date, and then retires the first.
Packing is never on the way of a commit, and small blobs that came one by one are compressed with their neighbours.

While commits come fast they have the processor to themselves, until the journals are half full; from then on they are
held back just so much that there is always one to go on in.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from store.commit.intake import Intake
from store.commit.learning import Learning
from store.commit.pending import Generation, Waiting
from store.commit.writer import Writer
from store.disk.journal_format import Checkpoint
from store.errors import DamageError

_IDLE_SECONDS = 1.0
_LONGEST_SECONDS = 15.0
_SLICE_BYTES = 1 << 20
_BREATH_SECONDS = 0.05
_FAST = 4000
"""So many frames a second leave nothing of the processor to others."""
_LONGEST_PAUSE_SECONDS = 0.005


class Checkpointer:
    """Runs the checkpoints of one writer, in a thread of its own from :meth:`start` on."""

    def __init__(self, writer: Writer, intake: Intake, learning: Learning) -> None:
        self._writer = writer
        self._intake = intake
        self._learning = learning
        self._work = threading.Condition()
        self._tasks: deque[Generation] = deque()
        """Oldest first."""
        self._packed = 0
        """How many bytes of the first task have been packed."""
        self._seen = (0.0, writer.seq)
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

    def take_over(self, found: Sequence[Generation], *, at_once: bool) -> None:
        """Have packed what the journal held when it was opened; ``at_once``, before :meth:`start`."""
        if at_once:
            for generation in found:
                self._pack(generation)
        else:
            self._tasks += found

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def switch(self) -> None:
        """Go on in another journal and have the one in use packed. The caller holds ``writer.commit_lock``."""
        writer = self._writer
        with self._work:
            self._hurry(lambda: writer.journal.free)
            writer.check()
            self._tasks.append(self._take())
            self._work.notify_all()

    def pace(self) -> None:
        """Hold a commit back a little where commits come faster than what came before them can be packed."""
        if not self._tasks:
            return
        journal = self._writer.journal
        ahead = 2 * (journal.backlog - self._packed) / journal.total - 1
        if ahead > 0:
            time.sleep(min(ahead / 100, _LONGEST_PAUSE_SECONDS))

    def flush(self) -> None:
        """Pack and sync everything that has been committed, now. Raises StoreFailed."""
        writer = self._writer
        with writer.commit_lock:
            if writer.journal.used and not writer.failed:
                self.switch()
        with self._work:
            last = self._tasks[-1] if self._tasks else None
            # no more than that: others may go on committing
            self._hurry(lambda: all(task is not last for task in self._tasks))
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

    @contextmanager
    def still(self) -> Iterator[None]:
        """Let commits wait; meanwhile all that was committed is in packs, logs and index, and the journal is empty.

        Nobody may commit within. Raises StoreFailed.
        """
        writer = self._writer
        while True:
            self.quiesce()
            with writer.commit_lock:
                writer.check()
                if writer.journal.used:
                    self.switch()
                with self._work:
                    self._hurry(lambda: not self._tasks)
                    learns = self._learns
                writer.check()
                if learns:
                    # it is about to commit what it has learnt
                    continue
                writer.settle()
                yield
                return

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

    def _take(self) -> Generation:
        writer = self._writer
        try:
            writer.journal.switch()
        except OSError as error:
            raise writer.fail(error) from error
        return writer.pending.take(writer.seq, writer.turns.count, writer.head_log.length)

    def _hurry(self, done: Callable[[], bool]) -> None:
        """Wait until something is done, or nothing is left to do."""
        while self._tasks and not done():
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
            self._guarded(partial(self._pack, task))
            with self._work:
                self._tasks.popleft()
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
        """Wait while commits come fast, unless room becomes scarce."""
        journal = self._writer.journal
        while not self._calm() and 2 * (journal.backlog - self._packed) < journal.total:
            with self._work:
                if self._hurried or self._closing:
                    return
                self._work.wait(_BREATH_SECONDS)
                awake, self._awake = self._awake, False
            if awake:
                self._writer.settle()

    def _calm(self) -> bool:
        """Say whether few commits have come since this was last asked."""
        before, seq = self._seen
        self._seen = now, reached = time.monotonic(), self._writer.seq
        return reached - seq < _FAST * (now - before)

    def _next(self) -> Generation | None:
        """Wait for work, and see to it that there is some when the store is idle; None to end."""
        writer = self._writer
        began = since = time.monotonic()
        seen = writer.seq
        while True:
            with self._work:
                if not self._tasks and not self._closing and not self._awake:
                    # nothing in the journal: nothing to do before somebody commits
                    self._work.wait(_IDLE_SECONDS / 2 if writer.journal.used and not writer.failed else None)
                self._awake = False
                if self._tasks:
                    return self._tasks[0]
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
                    free = not self._tasks
                # what is in the journal can wait until the disk has room for it elsewhere
                if free and self._writer.journal.used and self._writer.has_room():
                    self.switch()
            finally:
                self._writer.commit_lock.release()

    def _pack(self, task: Generation) -> None:
        writer = self._writer
        # where one could not be packed, none after it may be: retiring that would retire both
        writer.check()
        load = self._intake.repack()
        for some in _slices(task.blobs):
            self._hold_back()
            if load.payloads(writer.pending.bodies(some), self._intake.earlier) != [blob.hash for blob in some]:
                raise DamageError("the journal does not hold any more what was written to it")
            self._packed += sum(blob.length for blob in some)
        load.sync()
        writer.turns.sync()
        writer.head_log.sync()
        writer.settle()
        writer.pending.drop(task.blobs)
        self._intake.forget_earlier(blob.hash for blob in task.blobs)
        self._learning.packed(task.blobs)
        pack, length = writer.packs.synced
        writer.journal.retire(Checkpoint(task.seq, task.turn_count, task.heads_length, pack, length))
        self._packed = 0


def _slices(blobs: list[Waiting]) -> Iterator[list[Waiting]]:
    """Yield some of the blobs at a time."""
    some: list[Waiting] = []
    size = 0
    for blob in blobs:
        some.append(blob)
        size += blob.length
        if size >= _SLICE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
