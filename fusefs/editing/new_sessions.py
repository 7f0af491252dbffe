"""New files below ``.convfs/native/TOOL/``: one that is a session of that tool becomes a conversation's file.

Until it is one, it is a scratch file like any other, and is that on the disk at the same path. What has become one is
known to the kernel by the same number, and whoever has it open goes on to write.
"""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs.editing.drafts import remove_quietly
from fusefs.editing.handle import ScratchHandle
from fusefs.editing.native_handle import SessionHandle
from fusefs.editing.native_jobs import Begin
from fusefs.editing.scratch import ScratchFile
from fusefs.tree.native_paths import Parts
from store.editing.keeper import Keeper
from store.errors import ConvfsError, UsageError
from store.formats.format import Format
from store.formats.look import Look
from store.importing.naming import free_name
from store.importing.native import is_one_file
from store.importing.paths import path_text
from store.index.catalogue import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusefs.editing.desk import Desk
    from fusefs.tree.native import NativeDirectory

log = logging.getLogger(__name__)

_LOOKED_AT = 1 << 20


class _New(Struct):
    """A file that may be a session: ``waits_since`` is when the first of what waits was written, 0 if nothing does."""

    tool: str
    parts: Parts
    changed_at: float = 0.0
    waits_since: float = 0.0
    busy: bool = False


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
        known = self._files.get(node.ino)
        if known is None or known.parts != parts or known.tool != directory.tool:
            self._files[node.ino] = _New(directory.tool, parts)

    def forget(self, ino: int) -> None:
        """Take note that a scratch file is no longer known, or is elsewhere."""
        self._files.pop(ino, None)

    def has(self, ino: int) -> bool:
        """Say whether a scratch file may be a session."""
        return ino in self._files

    def written(self, ino: int) -> None:
        """Take note that something was written."""
        new = self._files.get(ino)
        if new is not None:
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

    # -- becoming a session ----------------------------------------------------------------------------------------

    def settle(self, ino: int) -> None:
        """Make a conversation of a file if it is a session. Raises what the store says."""
        new, node = self._files.get(ino), self._tree.bound(ino)
        if new is None or new.busy or not isinstance(node, ScratchFile):
            return
        file = self._tree.native.on_disk(new.tool, new.parts)
        paths = self._tree.native.paths
        format_, path = paths.format_of(new.tool), paths.path(new.tool, new.parts)
        size = node.status().st_size
        known = self._known(new, path)
        if not size or (known is None and not _is_session(format_, file)):
            return
        is_open = any(handle.ino == ino for handle in self._desk.handles.values())
        end = _end(format_, file, size, is_open=is_open)
        if not end:
            return
        if known is not None:
            self._bring_back(known)
        job = Begin(self._store, format_, file, path, end, known)
        if not job.is_large:
            self._become(ino, new, end, job.run())
            return
        new.busy = True
        self._desk.native.later(job, partial(self._become, ino, new, end), partial(self._gave_up, new))

    def _known(self, new: _New, path: Path) -> Entry | None:
        """Return the conversation that had this file before, and is in the trash."""
        removed = self._tree.native.paths.removed.get((new.tool, new.parts))
        known = self._store.entry(removed) if removed else self._store.by_source(path_text(path))
        return known if known is not None and "trashed_ms" in known.metadata and is_one_file(known) else None

    def settle_quietly(self, ino: int) -> None:
        """Do what :meth:`settle` does, when there is nobody to be told what is wrong."""
        new = self._files.get(ino)
        try:
            self.settle(ino)
        except (ConvfsError, OSError) as error:
            if new is not None:
                self._gave_up(new, error)

    def _gave_up(self, new: _New, error: Exception) -> None:
        new.busy = False
        new.waits_since = new.changed_at = time.monotonic()
        self._desk.native.failed("/".join((new.tool, *new.parts)), error)

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
        new.busy = False
        tree.renew(tree.view_id(entry.id))
        node = tree.bound(ino)
        if self._files.get(ino) is not new or not isinstance(node, ScratchFile):
            # it was removed, or is called otherwise by now
            return
        self.forget(ino)
        file = tree.native.on_disk(new.tool, new.parts)
        status = node.status()
        rest = os.open(node.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            tail = os.pread(rest, max(status.st_size - end, 0), end)
        finally:
            os.close(rest)
        if not remove_quietly(file) or status.st_nlink > 1:
            desk.scratch.renumber(node)
        desk.identities.become(ino, desk.native.target(entry.id))
        tree.native.times[entry.id] = status.st_mtime_ns
        for fh, handle in list(desk.handles.items()):
            if isinstance(handle, ScratchHandle) and handle.ino == ino:
                desk.handles[fh] = SessionHandle(desk, ino, entry.id, appends=handle.appends)
                handle.close()
        desk.native.go_on(entry.id, tail)


def _is_session(format_: Format, file: Path) -> bool:
    source = format_.claim(Look(file))
    if source is None or source.path != source.main or source.first:
        return False
    if type(format_).parts is Format.parts:
        return True
    # of some tools one file is several conversations, and such a one is imported as a whole
    data = memoryview(file.read_bytes())
    return format_.parts(source, data, list(format_.spans(data, 0))) is None


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
