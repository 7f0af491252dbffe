"""Checkpoints: moving what the journal holds into packs and logs, then freeing the journal.

There are two journals. When the one in use is full, or the store is idle, commits go on in the other, and a thread
of this module packs the blobs of the first, group by group, syncs packs and logs, brings the index up to date, and
then retires the first. Packing is never on the way of a commit, and small blobs that came one by one are compressed
with their neighbours.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from store.commit.intake import Intake
from store.commit.writer import Writer
from store.content.compression import Member, pack_records
from store.disk.journal_format import Checkpoint, JournalBlob
from store.errors import StoreFailed

_IDLE_SECONDS = 1.0
_LONGEST_SECONDS = 15.0


class Checkpointer:
    """Runs the checkpoints of one writer. One thread, started with the first commit that needs it."""

    def __init__(self, writer: Writer, intake: Intake) -> None:
        self._writer = writer
        self._intake = intake
        self._work = threading.Condition()
        self._task: tuple[list[JournalBlob], Checkpoint] | None = None
        self._closing = False
        self._thread: threading.Thread | None = None
        writer.journal_full = self.switch

    def start(self) -> None:
        """Start the background thread."""
        self._thread = threading.Thread(target=self._run, name="convfs-checkpoint", daemon=True)
        self._thread.start()

    def switch(self) -> None:
        """Go on in the other journal and have the first one packed. The caller holds ``writer.commit_lock``."""
        writer = self._writer
        with self._work:
            while self._task is not None:
                if writer.failure is not None:
                    raise StoreFailed(f"the last checkpoint failed: {writer.failure}")
                self._work.wait(0.1)
            writer.journal.switch()
            pack, length = writer.packs.end
            state = Checkpoint(writer.seq, writer.turns.count, writer.head_log.length, pack, length)
            self._task = (writer.pending.take(), state)
            self._work.notify_all()

    def flush(self) -> None:
        """Pack and sync everything that has been committed, now."""
        if self._writer.failure is None and self._writer.journal.used:
            with self._writer.commit_lock:
                self.switch()
        with self._work:
            while self._task is not None and self._writer.failure is None:
                self._work.wait(0.1)

    def close(self) -> None:
        """Flush, and end the thread."""
        self.flush()
        with self._work:
            self._closing = True
            self._work.notify_all()
        if self._thread is not None:
            self._thread.join()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        seen, since, began = self._writer.seq, time.monotonic(), time.monotonic()
        while True:
            with self._work:
                if self._task is None and not self._closing:
                    self._work.wait(_IDLE_SECONDS / 2)
                if self._closing:
                    return
                task = self._task
            if task is not None:
                self._guard(lambda task=task: self._pack(*task))  # type: ignore[misc]  # bound now, run now
                with self._work:
                    self._task = None
                    self._work.notify_all()
                began = time.monotonic()
                continue
            now = time.monotonic()
            if self._writer.seq != seen:
                seen, since = self._writer.seq, now
            if not self._writer.journal.used:
                began = now
            elif now - since > _IDLE_SECONDS or now - began > _LONGEST_SECONDS:
                self._guard(self._switch_when_idle)

    def _switch_when_idle(self) -> None:
        if self._writer.commit_lock.acquire(timeout=_IDLE_SECONDS):
            try:
                self.switch()
            finally:
                self._writer.commit_lock.release()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            # the journal stays as it is, so nothing is lost; but no more may be taken in
            self._writer.failure = self._writer.failure or error

    def _pack(self, blobs: list[JournalBlob], state: Checkpoint) -> None:
        writer = self._writer
        load = self._intake.repack()
        load.payloads([blob.body for blob in blobs])
        load.sync()
        writer.turns.sync()
        writer.head_log.sync()
        writer.settle()
        writer.pending.drop(blobs)
        pack, length = writer.packs.synced
        writer.journal.retire(Checkpoint(state.seq, state.turn_count, state.heads_length, pack, length))


