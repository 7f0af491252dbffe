"""Writing to the tools' own files: bytes appended to a session's file, or written in its place, are committed.

Writes go to a spool (:mod:`fusefs.editing.native.spool`) and are shown at once. Complete lines are committed when the
program closes or syncs the file, else after some milliseconds of quiet; a rewritten file when it is closed for the last
time. A thread does long work, while the spool goes on to be shown.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyfuse3 import FUSEError

from fusefs import inodes
from fusefs.editing.inode import LARGEST_SCRATCH, Inodes, OrphanFile, ScratchRole
from fusefs.editing.native.jobs import AppendJob, RewriteJob, SpoolJob, Worker
from fusefs.editing.native.spool import COPY, KEPT, Noted, Spool, are_same, last_line, noted
from fusefs.inodes import Place, Space
from fusefs.tree.changes import Stale
from fusefs.tree.native.files import SessionFile
from fusefs.tree.node import OpenContent
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.disk import durable
from store.errors import Conflict, ConvfsError
from store.formats.core.look import HEAD_SIZE
from store.importing.native import NativeFile, is_one_file
from store.index.catalogue import ContextEntry
from store.paths import SPOOLS

log = logging.getLogger(__name__)

QUIET_SECONDS = 0.005
PATIENCE_SECONDS = 0.1
"""The longest that complete lines wait while a program appends without a pause."""
SETTLED_SECONDS = 2.0
"""After so long without a write, incomplete lines are committed too, as are rewritten files that are open."""
_MOST_TRIES = 3


class SessionPlace(NamedTuple):
    """The file of a session by its conversation, whatever number the kernel knows it by."""

    tree: Tree
    view_id: int

    @property
    def ino(self) -> int:
        """Its own number."""
        return inodes.base(Space.PLACE, self.view_id) + Place.NATIVE

    def node(self, ino: int) -> SessionFile:
        """Return the node that shows it under a number."""
        return SessionFile(self.tree, ino, self.view_id)


class NativeWriter:
    """The sessions of one mount that are being written by their tools."""

    def __init__(self, router: Router, inodes: Inodes, worker: Worker) -> None:
        self.router = router
        self.tree = tree = router.tree
        self.inodes = inodes
        self._worker = worker
        self._store = tree.store
        self._folder = inodes.scratch.root / SPOOLS
        self._spools: dict[int, Spool] = {}
        """By conversation: the files that are shown as they were written."""
        self.tree.native.served = self._spools
        self._unfinished: dict[int, SpoolJob] = {}
        """By conversation: the jobs that committed something and then failed."""

    def place(self, context: int) -> SessionPlace:
        """Return a conversation's file as what the kernel may know by another number than its own."""
        return SessionPlace(self.tree, self.tree.view_id(context))

    def _ino(self, context: int) -> int:
        return self.inodes.known(self.place(context))

    def size(self, context: int) -> int:
        """Return the size of a conversation's file as it is shown."""
        spool = self._spools.get(context)
        return spool.size if spool else self.tree.native.file(context).size

    def read(self, context: int, offset: int, size: int) -> bytes:
        """Return a part of a conversation's file as it is shown."""
        spool = self._spools.get(context)
        return spool.read(offset, size) if spool else self.tree.native.file(context).read(offset, size)

    def go_on_as(self, ino: int, context: int, earlier: ScratchRole) -> SessionRole:
        """Return the new role of a file on the disk that has become a conversation's."""
        role = SessionRole(self, ino, context, appends=earlier.appends)
        os.close(earlier.fd)
        return role

    def write(self, context: int, offset: int, data: bytes) -> None:
        """Write to a conversation's file."""
        self.begin(context).write(offset, data)
        self._worker.wake()

    def truncate(self, context: int, size: int) -> None:
        """Make a conversation's file ``size`` bytes long."""
        if size != self.size(context):
            self.begin(context).truncate(size)
            self._worker.wake()

    def set_time(self, context: int, time_ns: int) -> None:
        """Set the time of a conversation's file."""
        spool = self._spools.get(context)
        if spool is not None:
            # it is committed with the writes
            spool.time_ns = time_ns
        else:
            self._keep_time(context, time_ns)

    def _keep_time(self, context: int, time_ns: int) -> None:
        if self.tree.native.file(context).imported.written_ns != time_ns:
            self._store.contexts.set_metadata(context, {"written_ns": time_ns})
            self.tree.renew(self.tree.view_id(context))

    def begin(self, context: int) -> Spool:
        """Return the spool of a conversation's file, a new one where it has none."""
        spool = self._spools.get(context)
        if spool is None:
            lower = self.tree.native.file(context)
            spool = self.hold(Spool(self._folder, lower, lower.size, self._worker.clock))
        return spool

    def hold(self, spool: Spool) -> Spool:
        """Show a spool as a conversation's file, and return it."""
        self._spools[spool.context] = spool
        self._worker.wake()
        return spool

    def replaced(self, context: int, path: Path) -> tuple[Spool, OpenContent, int]:
        """Replace a conversation's file by the one at ``path``; return it, and the old content with its size."""
        lower, size = self.tree.native.file(context), self.size(context)
        spool = Spool(self._folder, lower, lower.size, self._worker.clock)
        earlier = self._spools.get(context)
        if earlier is not None:
            earlier.drop()
        spool.take(path)
        self._spools.pop(context, None)
        self._unfinished.pop(context, None)
        return spool, earlier or lower, size

    def go_on(self, context: int, tail: bytes, time_ns: int) -> None:
        """Queue the uncommitted tail of a new session's file; the time is that of the file."""
        if tail:
            self.write(context, self.size(context), tail)
        self.set_time(context, time_ns)

    def drop(self, context: int) -> Spool | None:
        """Drop and return the spool of a removed file; programs that have the file open can still read it."""
        spool = self._spools.pop(context, None)
        self._unfinished.pop(context, None)
        if spool is not None:
            spool.drop()
        return spool

    def sync(self, context: int) -> None:
        """Make all writes durable: in the store as far as they are ready, else on the disk."""
        spool = self._spools.get(context)
        if spool is not None:
            spool.sync()
        self.commit(context)

    def commit(self, context: int, *, everything: bool = False) -> None:
        """Commit the writes that are ready; ``everything``: unfinished lines too. Raises errors of store and disk."""
        spool = self._spools.get(context)
        if spool is None or spool.busy or spool.stuck:
            return
        job = self._unfinished.get(context)
        if job is None:
            self._follow(spool)
            if spool.is_empty:
                self._settled(spool)
                return
            end = self._ready(spool, everything=everything)
            if end < 0:
                return
            format_name, native = spool.lower.entry.format, self.tree.native
            parts = native.paths.place(format_name, context)
            name = native.on_disk(format_name, parts or (spool.lower.name.name,))
            format_ = native.paths.format_of(format_name)
            job = (RewriteJob if spool.rewrites else AppendJob)(self._store, format_, name, spool, end)
            spool.lowest = spool.size
        if job.is_large:
            spool.busy = True
            self._worker.later(job.run, partial(self._done, spool, job), partial(self._gave_up, spool, job))
            return
        try:
            entry = job.run()
        except Exception as error:
            self._failed(spool, job)
            if not isinstance(error, Conflict):
                raise
            # somebody has changed the conversation in this very moment
            spool.quiet.first = self._worker.clock()
            self._worker.wake()
            return
        self._done(spool, job, entry)

    def _failed(self, spool: Spool, job: SpoolJob) -> None:
        spool.busy = False
        if self._spools.get(spool.context) is not spool:
            return
        if job.committed is not None:
            self._unfinished[spool.context] = job
        else:
            self._unfinished.pop(spool.context, None)

    def _done(self, spool: Spool, job: SpoolJob, entry: ContextEntry) -> None:
        """Record that a job is done. A failure here is tried again: the writes are in the store."""
        try:
            self._finish(spool, job.end, entry)
        except Exception:
            self._failed(spool, job)
            raise
        self._unfinished.pop(spool.context, None)

    def commit_quietly(self, context: int, *, everything: bool = False) -> None:
        """Commit the writes that are ready, when there is nobody to report errors to: they are retried later."""
        try:
            self.commit(context, everything=everything)
        except Exception as error:
            self._worker.failed(f"conversation {context}", error)

    def _gave_up(self, spool: Spool, job: SpoolJob, error: Exception) -> None:
        self._failed(spool, job)
        self._worker.failed(f"conversation {spool.context}", error)

    def _ready(self, spool: Spool, *, everything: bool) -> int:
        """Return the offset up to which a file can be committed, -1 if nothing can."""
        if everything:
            return spool.size
        is_open = self.inodes.is_open(self._ino(spool.context))
        if spool.rewrites and (is_open or not spool.size):
            # an empty file is about to be written
            return -1
        format_ = self.tree.native.paths.format_of(spool.lower.entry.format)
        if not format_.in_lines(lambda: spool.read(0, HEAD_SIZE)):
            return -1 if is_open else spool.size
        end = last_line(spool.read, spool.base, spool.size)
        if spool.rewrites:
            return end or -1
        return end if end > spool.base else -1

    def _finish(self, spool: Spool, end: int, entry: ContextEntry) -> None:
        spool.busy = False
        context = spool.context
        self.tree.renew(self.tree.view_id(context))
        if self._spools.get(context) is not spool:
            return
        rewritten, now = spool.rewrites, self.tree.native.file(context)
        if now.size == end:
            spool.tries = 0
            spool.put(now, min(spool.lowest, end))
        elif rewritten:
            # somebody has changed the conversation in this very moment: the tool's writes are tried again
            spool.tries += 1
            spool.begin(0)
            spool.put(now, 0)
            spool.stuck = spool.tries >= _MOST_TRIES
        else:
            self._rebase(spool, now, end)
        if spool.is_empty:
            self._settled(spool)

    def _settled(self, spool: Spool) -> None:
        context = spool.context
        if self._spools.get(context) is spool:
            # it may have been set while a thread was at work
            self._keep_time(context, spool.time_ns)
            del self._spools[context]
            spool.drop()

    def _follow(self, spool: Spool) -> None:
        if spool.context in self._unfinished:
            # the change most likely came from the bytes here
            return
        now = self.tree.native.file(spool.context)
        if not now.is_same(spool.lower) and not spool.rewrites:
            self._rebase(spool, now, spool.base)

    def _rebase(self, spool: Spool, now: NativeFile, end: int) -> None:
        """Move the bytes after ``end`` in a spool behind the stored ones, which are ``now``."""
        size, tail = now.size, spool.read(end, spool.size - end)
        spool.put(now, size, tail)
        self.inodes.drawn_again(self._ino(spool.context))

    def changed(self, context: int) -> None:
        """Record that a conversation has changed; called in the loop."""
        spool = self._spools.get(context)
        if spool is not None and not spool.busy:
            try:
                self._follow(spool)
            except Exception as error:
                self._worker.failed(f"conversation {context}", error)

    @property
    def waits(self) -> bool:
        """Return whether something was written that nothing has looked at."""
        return any(spool.quiet.first for spool in self._spools.values())

    def commit_waiting(self) -> None:
        """Commit the writes that have been quiet for a moment, as far as they are ready."""
        now = self._worker.clock()
        for spool in list(self._spools.values()):
            if spool.quiet.is_due(now, QUIET_SECONDS, PATIENCE_SECONDS):
                spool.quiet.looked_at()
                self.commit_quietly(spool.context)

    def tick(self) -> None:
        """Commit all writes that have been quiet for a while, and those that could not be committed before."""
        now = self._worker.clock()
        for spool in list(self._spools.values()):
            if not spool.busy and not spool.stuck and spool.quiet.rests(now, SETTLED_SECONDS):
                partly = not spool.rewrites and self.inodes.is_open(self._ino(spool.context))
                self.commit_quietly(spool.context, everything=not partly)

    def close(self) -> None:
        """Commit the writes that are ready when the mount ends; the rest is there at the next start."""
        for context in list(self._spools):
            self.commit_quietly(context)
        for spool in self._spools.values():
            spool.leave()

    def take_up(self) -> None:
        """Show the writes of earlier mounts and commit them before long; called before the mount answers."""
        try:
            paths = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        except FileNotFoundError:
            return
        for path in paths:
            try:
                self._take_up(path)
            except Exception as error:
                log.error("what was written to a session stays at %s: %s", path, error)

    def _take_up(self, path: Path) -> None:
        said = noted(path)
        if said is None:
            if path.name.startswith(COPY):
                path.unlink()
            return
        if not _was_written(path, said):
            return
        entry = self._store.catalogue.entry(said.context)
        if not is_one_file(entry):
            raise ConvfsError(f"conversation {said.context} is no file of a tool")
        lower = self.tree.native.file(said.context)
        size = path.stat().st_size
        spool = Spool(
            self._folder, lower, min(said.base, lower.size) if said.rewrites else said.base, self._worker.clock
        )
        spool.adopt(path)
        if entry.head != said.head or (not said.rewrites and said.base != lower.size):
            is_whole = not said.rewrites or size == lower.size
            if size <= lower.size and is_whole and are_same(spool.written, lower.read, said.base, size):
                # it was committed before its file could be removed
                spool.discard()
                return
            if not said.rewrites:
                # of the lines that are there the first may be in the store already
                tail = spool.written(said.base, size - said.base)
                held = lower.read(said.base, lower.size - said.base) if lower.size > said.base else b""
                tail = tail[len(held) :] if held and tail.startswith(held) else tail
                spool.put(lower, lower.size, tail)
        self.hold(spool)


def _was_written(path: Path, said: Noted) -> bool:
    """Cut the bytes off a spool that nobody wrote; return whether it is still one.

    Part of a file that was being rewritten is none: the stored file is shown, and the part is kept.
    """
    fd = durable.open_file(path)
    try:
        status = os.fstat(fd)
        if not durable.before_start(status):
            return True
        end = max(durable.text_end(fd, said.base), said.base)
        if end >= status.st_size and (end or not said.rewrites):
            return True
        log.warning("%s has %d bytes that nobody wrote: the power has failed", path, status.st_size - end)
        durable.truncate(fd, end)
    finally:
        os.close(fd)
    if not said.rewrites:
        return True
    if end:
        durable.replace(path, path.with_name(f"{KEPT}{time.time_ns()}-{path.name}"))
    else:
        durable.remove(path)
    return False


class SessionRole:
    """The file of a conversation that is open for writing; ``appends``: whatever is written goes to its end."""

    __slots__ = ("_context", "_ino", "_writing", "appends")

    def __init__(self, writing: NativeWriter, ino: int, context: int, *, appends: bool) -> None:
        self._writing = writing
        self._ino = ino
        self._context = context
        self.appends = appends

    @property
    def _is_there(self) -> bool:
        return isinstance(self._writing.router.node(self._ino), SessionFile)

    def read(self, offset: int, size: int) -> bytes:
        node = self._writing.router.node(self._ino)
        if isinstance(node, SessionFile):
            return self._writing.read(self._context, offset, size)
        return node.content.read(offset, size) if isinstance(node, OrphanFile) else b""

    def write(self, offset: int, data: bytes) -> int:
        if self._is_there:
            at = self._writing.size(self._context) if self.appends else offset
            if at + len(data) > LARGEST_SCRATCH:
                raise FUSEError(errno.EFBIG)
            self._writing.write(self._context, at, data)
            if at != offset:
                # the kernel believes it to stand elsewhere
                self._writing.inodes.kernel.invalidate(Stale(self._ino, content=True))
        return len(data)

    def truncate(self, size: int) -> None:
        if size > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        if self._is_there:
            self._writing.truncate(self._context, size)

    def flush(self) -> None:
        """Commit the writes that are ready."""
        if self._is_there:
            self._writing.commit(self._context)

    def sync(self, *, data_only: bool) -> None:
        if self._is_there:
            self._writing.sync(self._context)

    def release(self) -> None:
        """Commit the writes that are ready: the last descriptor is closed."""
        self._writing.commit_quietly(self._context)
