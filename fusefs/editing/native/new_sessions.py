"""New files below ``.convfs/native/TOOL/``: one that is a session of that tool becomes a conversation's file.

Until it is one, it is a scratch file like any other, and is that on the disk at the same path. What has become one is
known to the kernel by the same number, and whoever has it open goes on to write.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import trio
from msgspec import Struct

from fusefs.editing.drafts import remove_quietly
from fusefs.editing.handle import ScratchHandle
from fusefs.editing.native.handle import SessionHandle
from fusefs.editing.native.jobs import Begin, Whole
from fusefs.editing.scratch import ScratchFile
from fusefs.tree.native.files import KEY, NativeDirectory
from fusefs.tree.native.paths import Parts
from store.disk import durable
from store.editing.keeper import Keeper
from store.errors import ConvfsError, StoreBusy, UsageError
from store.formats.format import Format, Source
from store.formats.look import Look
from store.formats.registry import format_named
from store.importing.importer import ImportReport
from store.importing.naming import free_name
from store.importing.native import is_one_file
from store.importing.paths import path_text
from store.index.catalogue import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusefs.editing.desk import Desk

log = logging.getLogger(__name__)

_LOOKED_AT = 1 << 20
_SETTLED_SECONDS = 2.0
_BUSY_SECONDS = 0.1
_MANY_SECONDS = 1.0
"""After so long without a write, a file of many conversations is imported."""


class _New(Struct):
    """A file that may be a session: ``waits_since`` is when the first of what waits was written, 0 if nothing does.

    ``lowest`` is the lowest offset that was written to since a thread began to make a conversation of it.
    ``is_partial`` says that it is a session whose first line is not complete, ``is_many`` that it holds several
    conversations and is to be imported.
    """

    tool: str
    parts: Parts
    changed_at: float = 0.0
    waits_since: float = 0.0
    lowest: int = 0
    busy: bool = False
    is_partial: bool = False
    is_many: bool = False


class NewSessions:
    """The new files of one mount that may be sessions, by inode number."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._store = desk.tree.store
        self._keeper = Keeper(self._store)
        self._files: dict[int, _New] = {}

    # -- what programs do ------------------------------------------------------------------------------------------

    def named(self, node: ScratchFile, directory: NativeDirectory, name: bytes) -> None:
        """Take note of a name that a scratch file has below a tool's directory."""
        parts = (*directory.parts, os.fsdecode(name))
        self._desk.companions.note(directory.tool, parts)
        known = self._files.get(node.ino)
        if known is None or known.parts != parts or known.tool != directory.tool:
            self._files[node.ino] = _New(directory.tool, parts)

    def forget(self, ino: int) -> None:
        """Take note that a scratch file is no longer known, or is elsewhere."""
        self._files.pop(ino, None)

    def has(self, ino: int) -> bool:
        """Say whether a scratch file may be a session."""
        return ino in self._files

    def written(self, ino: int, offset: int) -> None:
        """Take note that something was written at ``offset``."""
        new = self._files.get(ino)
        if new is not None:
            new.lowest = min(new.lowest, offset)
            new.changed_at = time.monotonic()
            new.waits_since = new.waits_since or new.changed_at
            self._desk.native.wake()

    def due(self, quiet: float, patience: float) -> Iterator[int]:
        """Yield those that have been quiet for so many seconds, or have waited for as many as ``patience``."""
        now = time.monotonic()
        for ino, new in list(self._files.items()):
            if new.waits_since and (now - new.changed_at >= quiet or now - new.waits_since >= patience):
                new.waits_since = 0.0
                yield ino

    @property
    def wait(self) -> bool:
        """Whether any has been written to and not been looked at since."""
        return any(new.waits_since for new in self._files.values())

    def tick(self) -> None:
        """Take for a session what is one and has been quiet for a while without a line that is complete."""
        now = time.monotonic()
        for ino, new in list(self._files.items()):
            is_open = any(handle.ino == ino for handle in self._desk.handles.values())
            if new.is_partial and not is_open and now - new.changed_at >= _SETTLED_SECONDS:
                new.is_partial = False
                self.settle_quietly(ino, everything=True)
            if new.is_many and not new.busy and now - new.changed_at >= _MANY_SECONDS:
                new.busy, new.is_many = True, False
                job = Whole(self._store, self._tree.native.on_disk(new.tool, new.parts))
                self._desk.native.later(job, partial(self._imported, new), partial(self._gave_up, new))

    # -- becoming a session ----------------------------------------------------------------------------------------

    def settle(self, ino: int, *, everything: bool = False) -> None:
        """Make a conversation of a file if it is a session; ``everything``: of lines that are not complete, too.

        Raises what the store says.
        """
        new, node = self._files.get(ino), self._tree.bound(ino)
        if new is None or new.busy or not isinstance(node, ScratchFile):
            return
        file = self._tree.native.on_disk(new.tool, new.parts)
        paths = self._tree.native.paths
        format_, path = paths.format_of(new.tool), paths.path(new.tool, new.parts)
        size = node.status().st_size
        known = self._known(new, path)
        if not size or (known is None and not (self._may_be_one(new) and _claims(format_, file))):
            return
        new.is_many = known is None and _holds_many(format_, file)
        if new.is_many:
            return
        is_open = any(handle.ino == ino for handle in self._desk.handles.values())
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
                # something else is being imported: nobody is told of that, and it is tried again before long
                new.waits_since = new.changed_at = time.monotonic() + _BUSY_SECONDS
                self._desk.native.wake()
                return
            self._become(ino, new, end, entry)
            return
        new.busy, new.lowest = True, end
        self._desk.native.later(job, partial(self._become, ino, new, end), partial(self._gave_up, new))

    def _may_be_one(self, new: _New) -> bool:
        """Say whether a file is called as sessions are, and not as one that is only written for a moment is."""
        suffixes, name = self._tree.native.paths.tools[new.tool].suffixes, Path(new.parts[-1])
        return not name.name.startswith(".") and (not suffixes or name.suffix in suffixes)

    def _known(self, new: _New, path: Path) -> Entry | None:
        """Return the conversation that had this file before, and is in the trash."""
        removed = self._tree.native.paths.removed.get((new.tool, new.parts))
        known = self._store.entry(removed) if removed else self._store.by_source(path_text(path))
        return known if known is not None and "trashed_ms" in known.metadata and is_one_file(known) else None

    def _imported(self, new: _New, report: ImportReport) -> None:
        """Take note that a file of many conversations was imported. It stays on the disk."""
        new.busy = False
        for error in report.errors:
            self._desk.native.failures.note("/".join((new.tool, *new.parts)), error)

    def settle_quietly(self, ino: int, *, everything: bool = False) -> None:
        """Do what :meth:`settle` does, when there is nobody to be told what is wrong."""
        new = self._files.get(ino)
        try:
            self.settle(ino, everything=everything)
        except (ConvfsError, OSError) as error:
            if new is not None:
                self._gave_up(new, error)

    def _gave_up(self, new: _New, error: Exception) -> None:
        new.busy = False
        new.waits_since = new.changed_at = time.monotonic()
        self._desk.native.failures.add("/".join((new.tool, *new.parts)), error)

    def _bring_back(self, known: Entry) -> None:
        """Take a conversation out of the trash whose session is there again."""
        try:
            self._keeper.bring_back(known.id)
        except UsageError:
            project = str(known.metadata.get("project", ""))
            words = str(known.metadata.get("name", ""))
            self._keeper.bring_back(known.id, name=free_name(self._store, project, known.created_ms, words))

    def _become(self, ino: int, new: _New, end: int, entry: Entry) -> None:
        """Let the file be a conversation's, which has it up to ``end``."""
        desk, tree = self._desk, self._tree
        tree.renew(tree.view_id(entry.id))
        node = tree.bound(ino)
        if self._files.get(ino) is not new or not isinstance(node, ScratchFile):
            # it was removed, or is called otherwise by now
            return
        self.forget(ino)
        file = tree.native.on_disk(new.tool, new.parts)
        status = node.status()
        spool = None
        if new.busy and new.lowest < end:
            # it was written anew meanwhile
            spool, _held, _size = desk.native.replaced(entry.id, file)
            end = status.st_size
        rest = os.open(node.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            tail = os.pread(rest, max(status.st_size - end, 0), end)
        finally:
            os.close(rest)
        if (spool is None and not remove_quietly(file)) or status.st_nlink > 1:
            desk.scratch.renumber(node)
        desk.identities.become(ino, desk.native.target(entry.id))
        tree.native.times[entry.id] = status.st_mtime_ns
        for fh, handle in list(desk.handles.items()):
            if isinstance(handle, ScratchHandle) and handle.ino == ino:
                desk.handles[fh] = SessionHandle(desk, ino, entry.id, appends=handle.appends)
                handle.close()
        if spool is not None:
            desk.native.hold(spool)
        desk.native.go_on(entry.id, tail)

    # -- what an earlier process left ------------------------------------------------------------------------------

    async def take_up(self) -> None:
        """Look at the files that are there when the mount begins: one may have been written and not looked at."""
        for tool, parts, is_session in await trio.to_thread.run_sync(self._left):
            try:
                if is_session:
                    self._take_up(tool, parts)
                else:
                    self._desk.companions.note(tool, parts)
            except (ConvfsError, OSError) as error:
                self._desk.native.failures.add("/".join((tool, *parts)), error)

    def _left(self) -> list[tuple[str, Parts, bool]]:
        """Return the files that lie on the disk, and whether each may be a session."""
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
        directory = tree.fixed((*KEY, tool, *parts[:-1]))
        if not file.exists() or not isinstance(directory, NativeDirectory):
            return
        if not context:
            node = self._desk.scratch.find(directory, os.fsencode(parts[-1]))
            if isinstance(node, ScratchFile) and not self.has(node.ino):
                self.named(node, directory, os.fsencode(parts[-1]))
                self.written(node.ino, 0)
            return
        # it was made a conversation's before it could be removed
        size = self._desk.native.size(context)
        with file.open("rb") as opened:
            if _begins_with(opened, partial(self._desk.native.read, context), size):
                opened.seek(size)
                self._desk.native.go_on(context, opened.read())
                durable.remove(file)


def _begins_with(file: BinaryIO, read: Callable[[int, int], bytes], size: int) -> bool:
    """Say whether a file begins with the ``size`` bytes that are read."""
    return all(
        file.read(min(_LOOKED_AT, size - offset)) == read(offset, min(_LOOKED_AT, size - offset))
        for offset in range(0, size, _LOOKED_AT)
    )


def _claims(format_: Format, file: Path) -> bool:
    source = format_.claim(Look(file))
    return source is not None and source.path == source.main and not source.first


def _holds_many(format_: Format, file: Path) -> bool:
    """Say whether a file that a format claims is more than one conversation, or may become so."""
    if type(format_).parts is Format.parts:
        return False
    data = memoryview(file.read_bytes())
    source = Source(format_.name, file, file)
    return format_.parts(source, data, list(format_.spans(data, 0))) is not None


def _end(format_: Format, file: Path, size: int, *, is_open: bool) -> int:
    """Return up to where a file can be committed: where its last complete line ends, if it is made of lines."""
    if format_.joints[1] != b"\n":
        return 0 if is_open else size
    with file.open("rb") as opened:
        end = size
        while end > 0:
            start = max(end - _LOOKED_AT, 0)
            opened.seek(start)
            newline = opened.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0
