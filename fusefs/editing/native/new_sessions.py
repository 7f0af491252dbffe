"""New files below ``.convfs/native/TOOL/``: one that is a session of that tool becomes a conversation's file.

Until then it is a scratch file at the same path on the disk. The kernel knows the new session by the same number, and
programs that have it open go on writing.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from fusefs.editing.delays import Quiet
from fusefs.editing.drafts import remove_quietly
from fusefs.editing.inode import Inodes, ScratchRole
from fusefs.editing.native.beside import Companions, SharedFiles
from fusefs.editing.native.jobs import Begin, NewSession, Worker
from fusefs.editing.native.spool import are_same, last_line, reader
from fusefs.editing.native.writer import PATIENCE_SECONDS, QUIET_SECONDS, SETTLED_SECONDS, NativeWriter
from fusefs.editing.scratch import ScratchFile
from fusefs.tree.native.files import NativeDirectory
from fusefs.tree.native.paths import KEY, Parts
from store.conversations.names import free_name
from store.disk import durable
from store.editing.keeper import Keeper
from store.errors import ConvfsError, StoreBusy, UsageError
from store.formats.core.format import Format, Source
from store.formats.core.look import read_head
from store.formats.registry import format_named
from store.importing.native import is_one_file
from store.importing.snapshot import path_text
from store.importing.walk import claim
from store.index.catalogue import ContextEntry
from store.store import Store

if TYPE_CHECKING:
    from store.importing.importer import ImportReport

log = logging.getLogger(__name__)

_BUSY_SECONDS = 0.1
_MANY_SECONDS = 1.0
"""After so long without a write, a file of many conversations is imported."""


class NewSessions:
    """The new files of one mount that may be sessions, by inode number."""

    def __init__(
        self, inodes: Inodes, writing: NativeWriter, companions: Companions, shared: SharedFiles, worker: Worker
    ) -> None:
        self._inodes = inodes
        self._writing = writing
        self._companions = companions
        self._shared = shared
        self._worker = worker
        self._tree = writing.tree
        self._store = writing.tree.store
        self._keeper = Keeper(self._store)

    def _new(self, ino: int) -> NewSession | None:
        return self._inodes.candidate(ino, NewSession)

    def named(self, node: ScratchFile, directory: NativeDirectory, name: bytes) -> None:
        """Record a name that a scratch file has below a tool's directory."""
        parts = (*directory.parts, os.fsdecode(name))
        self._companions.note(directory.tool, parts)
        known = self._new(node.ino)
        if known is None or known.parts != parts or known.tool != directory.tool:
            self._inodes.be_candidate(node.ino, NewSession(directory.tool, parts))

    def forget(self, ino: int) -> None:
        """Record that a scratch file is no longer known, or is elsewhere."""
        if self._new(ino) is not None:
            self._inodes.be_candidate(ino, None)

    def moved(self, tool: str, old: Parts, new: Parts) -> None:
        """Record that a folder has a new path."""
        for _ino, file in self._inodes.candidates(NewSession):
            if file.tool == tool and file.parts[: len(old)] == old:
                file.parts = (*new, *file.parts[len(old) :])

    def written(self, ino: int, offset: int) -> None:
        """Record that something was written at ``offset``."""
        new = self._new(ino)
        if new is not None:
            new.lowest = min(new.lowest, offset)
            new.quiet.written(self._worker.clock())
            self._worker.wake()

    def settle_waiting(self) -> None:
        """Make conversations of those that have been quiet for a moment."""
        now = self._worker.clock()
        for ino, new in self._inodes.candidates(NewSession):
            if new.quiet.is_due(now, QUIET_SECONDS, PATIENCE_SECONDS):
                new.quiet.looked_at()
                self.settle_quietly(ino)

    @property
    def waits(self) -> bool:
        """Return whether any has been written to and not been looked at since."""
        return any(new.quiet.first for _ino, new in self._inodes.candidates(NewSession))

    def tick(self) -> None:
        """Make a session of each file that is one and has been quiet for a while without a complete line."""
        now = self._worker.clock()
        for ino, new in self._inodes.candidates(NewSession):
            is_open = self._inodes.is_open(ino)
            if new.is_partial and not is_open and new.quiet.rests(now, SETTLED_SECONDS):
                new.is_partial = False
                self.settle_quietly(ino, everything=True)
            if new.is_many and not new.busy and new.quiet.rests(now, _MANY_SECONDS):
                new.busy, new.is_many = True, False
                # it stays where it is
                job = partial(_import, self._store, self._tree.native.on_disk(new.tool, new.parts))
                self._worker.later(job, partial(self._imported, new), partial(self._gave_up, new))

    def settle(self, ino: int, *, everything: bool = False) -> None:
        """Make a conversation of a file if it is a session; ``everything``: of incomplete lines too."""
        new, node = self._new(ino), self._tree.bound(ino)
        if new is None or new.busy or not isinstance(node, ScratchFile):
            return
        if new.begun is not None:
            self._become(ino, new, new.begun, new.begun.run())
            return
        file = self._tree.native.on_disk(new.tool, new.parts)
        paths = self._tree.native.paths
        format_, path = paths.format_of(new.tool), paths.path(new.tool, new.parts)
        size = node.status().st_size
        known = self._known(new, path)
        suffixes, name = paths.tools[new.tool].suffixes, new.parts[-1]
        # not a temporary file
        may_be_one = not name.startswith(".") and (not suffixes or Path(name).suffix in suffixes)
        if not size or (known is None and not (may_be_one and _claims(format_, file))):
            return
        new.is_many = known is None and _holds_many(format_, file)
        if new.is_many:
            return
        is_open = self._inodes.is_open(ino)
        end = size if everything else _end(format_, file, size, is_open=is_open)
        new.is_partial = not end
        if not end:
            return
        if known is not None:
            self._bring_back(known)
        job = Begin(self._store, format_, file, path, end, known)
        if not job.is_large:
            try:
                entry = job.run()
            except StoreBusy:
                # something else is being imported: this is not reported, and tried again before long
                at = self._worker.clock() + _BUSY_SECONDS
                new.quiet = Quiet(at, at)
                self._worker.wake()
                return
            self._become(ino, new, job, entry)
            return
        new.busy, new.lowest = True, end
        self._worker.later(job.run, partial(self._become, ino, new, job), partial(self._gave_up, new))

    def _known(self, new: NewSession, path: Path) -> ContextEntry | None:
        """Return the conversation that had this file before, and is in the trash."""
        removed = self._tree.native.paths.removed.get((new.tool, new.parts))
        known = self._store.catalogue.entry(removed) if removed else self._store.catalogue.by_source(path_text(path))
        return known if known is not None and "trashed_ms" in known.metadata and is_one_file(known) else None

    def _imported(self, new: NewSession, report: ImportReport) -> None:
        new.busy = False
        self._shared.imported(self._tree.native.on_disk(new.tool, new.parts))
        for error in report.errors:
            self._worker.note(new.label, error)

    def settle_quietly(self, ino: int, *, everything: bool = False) -> None:
        """Do the work of :meth:`settle` when there is nobody to report errors to."""
        new = self._new(ino)
        try:
            self.settle(ino, everything=everything)
        except Exception as error:
            if new is not None:
                self._gave_up(new, error)

    def _gave_up(self, new: NewSession, error: Exception) -> None:
        new.busy = False
        now = self._worker.clock()
        new.quiet = Quiet(now, now)
        self._worker.failed(new.label, error)

    def _bring_back(self, known: ContextEntry) -> None:
        try:
            self._keeper.bring_back(known.id)
        except UsageError:
            project = str(known.metadata.get("project", ""))
            words = str(known.metadata.get("name", ""))
            self._keeper.bring_back(known.id, name=free_name(self._store.catalogue, project, known.created_ms, words))

    def _become(self, ino: int, new: NewSession, job: Begin, entry: ContextEntry) -> None:
        """Make the file a conversation's, which has its bytes up to where the job ended."""
        tree, writing, end = self._tree, self._writing, job.end
        new.begun, new.lowest = job, min(new.lowest, end) if new.busy or new.begun else end
        tree.renew(tree.view_id(entry.id))
        node = tree.bound(ino)
        if self._new(ino) is not new or not isinstance(node, ScratchFile):
            # it was removed or renamed
            return
        # failures are retried, as long as nothing has changed
        writing.size(entry.id)
        self.forget(ino)
        file = tree.native.on_disk(new.tool, new.parts)
        status = node.status()
        spool = None
        rest = node.opened(os.O_RDONLY)
        try:
            if new.lowest < end:
                # it was written anew meanwhile
                spool, _held, _size = writing.replaced(entry.id, file)
                end = status.st_size
            tail = os.pread(rest, max(status.st_size - end, 0), end)
        finally:
            os.close(rest)
        if (spool is None and not remove_quietly(file)) or status.st_nlink > 1:
            self._inodes.scratch.renumber(node)
        self._inodes.become(ino, writing.place(entry.id))
        self._inodes.change(ino, ScratchRole, partial(writing.go_on_as, ino, entry.id))
        if spool is not None:
            writing.hold(spool)
        writing.go_on(entry.id, tail, status.st_mtime_ns)

    async def take_up(self) -> None:
        """Look at the files that are there when the mount begins: one may have been written and not looked at."""
        for tool, parts, is_session in await trio.to_thread.run_sync(self._left):
            try:
                if is_session:
                    await self._worker.stand_in.make(self._take_up, tool, parts)
                else:
                    self._companions.note(tool, parts)
            except Exception as error:
                self._worker.failed("/".join((tool, *parts)), error)

    def _left(self) -> list[tuple[str, Parts, bool]]:
        found = []
        root = self._tree.native.root
        for folder, _folders, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                tool, *parts = path.relative_to(root).parts
                with suppress(ConvfsError, OSError):
                    if parts and path.is_file() and not path.is_symlink():
                        found.append((tool, tuple(parts), _claims(format_named(tool), path)))
        return found

    def _take_up(self, tool: str, parts: Parts) -> None:
        tree = self._tree
        file, context = tree.native.on_disk(tool, parts), tree.native.paths.context(tool, parts)
        directory = self._writing.router.fixed(*KEY, tool, *parts[:-1])
        if not file.exists() or not isinstance(directory, NativeDirectory):
            return
        if durable.before_start(file.stat()):
            fd = durable.open_file(file)
            try:
                durable.truncate(fd, durable.text_end(fd))
            finally:
                os.close(fd)
        if not context:
            node = self._inodes.scratch.find(directory, os.fsencode(parts[-1]))
            if isinstance(node, ScratchFile) and self._new(node.ino) is None:
                self.named(node, directory, os.fsencode(parts[-1]))
                self.written(node.ino, 0)
            return
        # it was made a conversation's before it could be removed
        size = self._writing.size(context)
        with file.open("rb") as opened:
            if are_same(reader(opened), partial(self._writing.read, context), 0, size):
                opened.seek(size)
                self._writing.go_on(context, opened.read(), os.fstat(opened.fileno()).st_mtime_ns)
                durable.remove(file)


class NewSessionRole(ScratchRole):
    """A file below a tool's directory that is open for writing, and may be a session."""

    __slots__ = ("_ino", "_new_sessions")

    def __init__(self, new_sessions: NewSessions, ino: int, fd: int, *, appends: bool) -> None:
        super().__init__(fd, appends=appends)
        self._ino = ino
        self._new_sessions = new_sessions

    def write(self, offset: int, data: bytes) -> int:
        at = os.fstat(self.fd).st_size if self.appends else offset
        done = super().write(at, data)
        self._new_sessions.written(self._ino, at)
        return done

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self._new_sessions.written(self._ino, size)

    def flush(self) -> None:
        """Make a conversation of it, if it is a session."""
        self._new_sessions.settle(self._ino)

    def sync(self, *, data_only: bool) -> None:
        super().sync(data_only=data_only)
        self._new_sessions.settle(self._ino)

    def release(self) -> None:
        super().release()
        self._new_sessions.settle_quietly(self._ino)


def _claims(format_: Format, file: Path) -> bool:
    source = claim(file, (format_,))
    return source is not None and source.path == source.main and not source.first


def _holds_many(format_: Format, file: Path) -> bool:
    """Return whether a file that a format claims is more than one conversation, or may become so."""
    if type(format_).parts is Format.parts:
        return False
    data = memoryview(file.read_bytes())
    source = Source(format_.name, file, file)
    return format_.parts(source, data, list(format_.spans(data, 0))) is not None


def _end(format_: Format, file: Path, size: int, *, is_open: bool) -> int:
    """Return up to where a file can be committed: where its last complete line ends, if it is made of lines."""
    if not format_.in_lines(lambda: read_head(file) or b""):
        return 0 if is_open else size
    with file.open("rb") as opened:
        return last_line(reader(opened), 0, size)


def _import(store: Store, path: Path) -> ImportReport:
    # imported here, as few files hold many conversations
    from store.importing.importer import Importer

    return Importer(store).run([path])
