"""Writing to the tools' own files: what is appended to a session's file, or written in the place of it, is committed.

What is written goes to a spool (:mod:`fusefs.editing.native.spool`) and is shown at once. Lines that are complete are
committed when the program closes the file or syncs it, and otherwise after some milliseconds of quiet; a file that is
written anew, when it is closed for the last time. What takes long is done by a thread, while the spool goes on to be
shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from fusefs.editing.native.failures import Failures
from fusefs.editing.native.jobs import Append, Job, Rewrite
from fusefs.editing.native.spool import Spool
from fusefs.editing.native.target import NativeTarget
from fusefs.tree.changes import Stale
from fusefs.tree.node import Content
from store.errors import Conflict, ConvfsError
from store.importing.native import NativeFile
from store.index.catalogue import Entry

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk

log = logging.getLogger(__name__)

_FOLDER = ".native"
_QUIET_SECONDS = 0.005
_PATIENCE_SECONDS = 0.1
"""So long complete lines wait, at most, that a program appends without a pause."""
_SETTLED_SECONDS = 2.0
"""After so long without a write, what is no complete line is committed too, as is what was written anew and is open."""
_MOST_TRIES = 3

T = TypeVar("T")
_Later = tuple[Job[Any], Callable[[Any], None], Callable[[Exception], None]]


class NativeWriting:
    """The sessions of one mount that are being written by their tools."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._store = desk.tree.store
        self.folder = desk.scratch.root / _FOLDER
        self._spools: dict[int, Spool] = {}
        self._open: dict[int, int] = {}
        """By conversation: how many handles there are that may write."""
        self._tries: dict[int, int] = {}
        """By conversation: how often what was written anew did not become what the store then had."""
        self.failures = Failures(desk.tree)
        self._large: list[_Later] = []
        self._something = trio.Event()

    # -- looking ---------------------------------------------------------------------------------------------------

    def target(self, context: int) -> NativeTarget:
        """Return a conversation's file as what the kernel may know by another number than its own."""
        return NativeTarget(self._tree, self._tree.view_id(context))

    def ino(self, context: int) -> int:
        """Return the number by which the kernel knows a conversation's file."""
        return self._desk.identities.known(self.target(context))

    def size(self, context: int) -> int:
        """Return the size of a conversation's file as it is shown."""
        spool = self._spools.get(context)
        return spool.size if spool else self._tree.native.file(context).size

    def read(self, context: int, offset: int, size: int) -> bytes:
        """Return a part of a conversation's file as it is shown."""
        spool = self._spools.get(context)
        return spool.read(offset, size) if spool else self._tree.native.file(context).read(offset, size)

    # -- writing ---------------------------------------------------------------------------------------------------

    def opened(self, context: int) -> None:
        """Take note of a handle that may write."""
        self._open[context] = self._open.get(context, 0) + 1

    def closed(self, context: int) -> None:
        """Take note that a handle is closed for good: what is ready is committed."""
        left = self._open.pop(context, 1) - 1
        if left:
            self._open[context] = left
        self.commit_quietly(context)

    def write(self, context: int, offset: int, data: bytes) -> None:
        """Write to a conversation's file."""
        self.begin(context).write(offset, data)
        self.wake()

    def truncate(self, context: int, size: int) -> None:
        """Make a conversation's file ``size`` bytes long."""
        if size != self.size(context):
            self.begin(context).truncate(size)
            self.wake()

    def set_time(self, context: int, time_ns: int) -> None:
        """Let a conversation's file have been written at a time, as programs set it."""
        self._tree.native.times[context] = time_ns
        spool = self._spools.get(context)
        if spool is not None:
            spool.time_ns = time_ns

    def begin(self, context: int) -> Spool:
        """Return the spool of a conversation's file, a new one where it has none."""
        spool = self._spools.get(context)
        if spool is None:
            lower = self._tree.native.file(context)
            spool = self.hold(Spool(self.folder, lower, lower.size))
        return spool

    def hold(self, spool: Spool) -> Spool:
        """Let a spool be what is shown of a conversation's file."""
        self._spools[spool.context] = spool
        self._tree.native.served[spool.context] = spool
        self.wake()
        return spool

    def replaced(self, context: int, path: Path) -> tuple[Spool, Content, int]:
        """Take what lies at ``path`` for a conversation's file; return it, and what that was, with its size."""
        lower, size = self._tree.native.file(context), self.size(context)
        spool = Spool(self.folder, lower, lower.size)
        earlier = self._spools.get(context)
        if earlier is not None:
            earlier.drop()
        spool.take(path)
        self._tree.native.served.pop(context, None)
        self._spools.pop(context, None)
        return spool, earlier or lower, size

    def go_on(self, context: int, tail: bytes) -> None:
        """Let what a new session's file had beyond what was committed be what waits."""
        if tail:
            self.write(context, self.size(context), tail)

    def drop(self, context: int) -> Spool | None:
        """Let go of what was written to a file that has been removed; who has it open goes on to read it."""
        spool = self._spools.pop(context, None)
        self._tree.native.served.pop(context, None)
        if spool is not None:
            spool.drop()
        return spool

    def sync(self, context: int) -> None:
        """Make what was written durable: in the store as far as it is ready for that, else on the disk."""
        spool = self._spools.get(context)
        if spool is not None:
            spool.sync()
        self.commit(context)

    # -- committing ------------------------------------------------------------------------------------------------

    def commit(self, context: int, *, everything: bool = False) -> None:
        """Commit what is ready; ``everything``: unfinished lines too. Raises what the store and the disk say.

        What takes long is left to the thread.
        """
        spool = self._spools.get(context)
        if spool is None or spool.busy or spool.stuck:
            return
        self._follow(spool)
        if spool.is_empty:
            self._settled(spool)
            return
        end = self._ready(spool, everything=everything)
        if end < 0:
            return
        entry = spool.lower.entry
        format_ = self._tree.native.paths.format_of(entry.format)
        parts = self._tree.native.paths.place(entry.format, context)
        name = self._tree.native.on_disk(entry.format, parts or (spool.lower.name.name,))
        job = (Rewrite if spool.rewrites else Append)(self._store, format_, name, spool, end)
        spool.lowest = spool.size
        if job.is_large:
            spool.busy = True
            self.later(
                job, lambda entry: self._finish(spool, job.end, entry), lambda error: self._gave_up(spool, error)
            )
            return
        try:
            entry = job.run()
        except Conflict:
            # somebody has changed the conversation in this very moment
            spool.waits_since = time.monotonic()
            self.wake()
            return
        self._finish(spool, end, entry)

    def commit_quietly(self, context: int, *, everything: bool = False) -> None:
        """Commit what is ready, when there is nobody to be told what is wrong: it is tried again later."""
        try:
            self.commit(context, everything=everything)
        except (ConvfsError, OSError) as error:
            self.failures.add(f"conversation {context}", error)

    def _gave_up(self, spool: Spool, error: Exception) -> None:
        spool.busy = False
        self.failures.add(f"conversation {spool.context}", error)

    def _ready(self, spool: Spool, *, everything: bool) -> int:
        """Return the offset up to which a file can be committed, -1 if nothing can."""
        if everything:
            return spool.size
        is_open = bool(self._open.get(spool.context))
        if spool.rewrites and (is_open or not spool.size):
            # an empty file is about to be written
            return -1
        if self._tree.native.paths.format_of(spool.lower.entry.format).joints[1] != b"\n":
            return -1 if is_open else spool.size
        end = spool.last_line()
        if spool.rewrites:
            return end or -1
        return end if end > spool.base else -1

    def _finish(self, spool: Spool, end: int, entry: Entry) -> None:
        """Take note that a file has been committed up to ``end``."""
        spool.busy = False
        context = spool.context
        self._tree.renew(self._tree.view_id(context))
        if self._spools.get(context) is not spool:
            return
        rewritten, now = spool.rewrites, self._tree.native.file(context)
        if now.size == end:
            self._tries.pop(context, None)
            spool.put(now, min(spool.lowest, end))
        elif rewritten:
            # somebody has changed the conversation in this very moment: what the tool wrote is tried again
            tries = self._tries[context] = self._tries.get(context, 0) + 1
            spool.keep_all()
            spool.put(now, 0)
            spool.stuck = tries >= _MOST_TRIES
        else:
            self._rebase(spool, now, end)
        if spool.is_empty:
            self._settled(spool)

    def _settled(self, spool: Spool) -> None:
        context = spool.context
        if self._spools.get(context) is spool:
            del self._spools[context]
            self._tree.native.served.pop(context, None)
            self._tree.native.times[context] = spool.time_ns
            spool.drop()

    def _follow(self, spool: Spool) -> None:
        """Let what waits stand behind what the store has by now, if somebody else has changed that."""
        now = self._tree.native.file(spool.context)
        if not now.is_same(spool.lower) and not spool.rewrites:
            self._rebase(spool, now, spool.base)

    def _rebase(self, spool: Spool, now: NativeFile, end: int) -> None:
        """Let what stands behind ``end`` in a spool stand behind what the store has now."""
        tail = spool.read(end, spool.size - end)
        spool.put(now, now.size, tail)
        ino = self.ino(spool.context)
        self._tree.unsettled.add(ino)
        self._desk.refresh(ino)
        self._desk.invalidate(Stale(ino, content=True))

    def changed(self, context: int) -> None:
        """Take note that a conversation has changed; called in the loop."""
        spool = self._spools.get(context)
        if spool is not None and not spool.busy:
            try:
                self._follow(spool)
            except (ConvfsError, OSError) as error:
                self.failures.add(f"conversation {context}", error)

    # -- what a thread does ----------------------------------------------------------------------------------------

    def later(self, job: Job[T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Have a thread do a job; ``done`` or ``failed`` is called in the loop then."""
        self._large.append((job, done, failed))
        self._something.set()

    def wake(self) -> None:
        """See to it that what was written is committed before long."""
        self._something.set()

    async def run(self) -> None:
        """Commit what was written, as long as the mount lasts."""
        await self._desk.new_sessions.take_up()
        while True:
            while self._large or self._waiting() or self._desk.new_sessions.wait:
                while self._large:
                    await self._do(*self._large.pop(0))
                if time.monotonic() >= self.failures.again_at:
                    self._commit_waiting()
                await trio.sleep(_QUIET_SECONDS)
            await self._something.wait()
            self._something = trio.Event()

    async def _do(self, job: Job[T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        try:
            done(await trio.to_thread.run_sync(job.run))
        except (ConvfsError, OSError) as error:
            failed(error)
        except Exception as error:
            log.exception("what was written is not committed")
            failed(error)

    def _commit_waiting(self) -> None:
        now = time.monotonic()
        for spool in self._waiting():
            if now - spool.changed_at >= _QUIET_SECONDS or now - spool.waits_since >= _PATIENCE_SECONDS:
                spool.waits_since = 0.0
                self.commit_quietly(spool.context)
        for ino in self._desk.new_sessions.due(_QUIET_SECONDS, _PATIENCE_SECONDS):
            self._desk.new_sessions.settle_quietly(ino)

    def _waiting(self) -> list[Spool]:
        return [spool for spool in self._spools.values() if spool.waits_since]

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Commit what has been quiet for a while, whatever it is, and what could not be committed before."""
        now = time.monotonic()
        if now < self.failures.again_at:
            return
        for spool in list(self._spools.values()):
            if not spool.busy and not spool.stuck and now - spool.changed_at >= _SETTLED_SECONDS:
                partly = self._open.get(spool.context) and not spool.rewrites
                self.commit_quietly(spool.context, everything=not partly)

        self._desk.new_sessions.tick()

    def close(self) -> None:
        """Commit what is ready, when the mount ends; the rest is there at the next start."""
        for context in list(self._spools):
            self.commit_quietly(context)
