"""Files that a tool writes into the folder called as a session is: they are kept beside its conversation.

Until one has been quiet for a while it is a scratch file. Then a thread brings it into the store, and it is removed
from the disk: what is read under its name is the same.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from fusefs.editing.drafts import remove_quietly
from fusefs.editing.handle import ScratchHandle
from fusefs.editing.native.jobs import Beside
from fusefs.editing.scratch import ScratchNode
from fusefs.tree.changes import Stale
from fusefs.tree.native.files import KEY
from fusefs.tree.native.paths import Parts
from fusefs.tree.native.sidecars import SIDECARS

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from store.index.catalogue import Entry

log = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_MOST = 10_000
"""So many are kept beside a session; what is more stays scratch."""


class Companions:
    """The files of one mount that are to be kept beside sessions, by tool and path."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._noted: set[tuple[str, Parts]] = set()
        self._busy = False
        self._look_at = 0.0

    def note(self, tool: str, parts: Parts) -> None:
        """Take note of a scratch file below a tool's directory."""
        if len(parts) > 1:
            self._noted.add((tool, parts))

    def tick(self) -> None:
        """Have those brought in that have been quiet for a while."""
        now = time.monotonic()
        if not self._noted or self._busy or now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        found: dict[int, dict[str, tuple[Parts, Path, os.stat_result]]] = {}
        held = self._held()
        for tool, parts in list(self._noted):
            path = self._tree.native.on_disk(tool, parts)
            context, name = self._tree.native.sidecars.owner(tool, parts)
            try:
                status = os.lstat(path)
            except OSError:
                status = None
            if status is None or not context or not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                self._noted.discard((tool, parts))
            elif time.time() - status.st_ctime >= _QUIET_SECONDS and path not in held:
                found.setdefault(context, {})[name] = (parts, path, status)
        for context, files in found.items():
            if self._bring(context, files):
                return

    def _held(self) -> set[Path]:
        """Return the scratch files that are open for writing."""
        handles = [handle for handle in self._desk.handles.values() if isinstance(handle, ScratchHandle)]
        return {Path(os.readlink(f"/proc/self/fd/{handle.fd}")) for handle in handles}

    def _bring(self, context: int, files: dict[str, tuple[Parts, Path, os.stat_result]]) -> bool:
        file = self._tree.native.file(context)
        if len(file.imported.sidecars) + len(files) > _MOST:
            for parts, _path, _status in files.values():
                self._noted.discard((file.entry.format, parts))
            return False
        # as an import would have called them
        folder = PurePath(file.name.stem)
        job = Beside(self._tree.store, context, {str(folder / name): path for name, (_, path, _) in files.items()})
        self._busy = True
        self._desk.native.later(job, partial(self._done, list(files.values())), self._failed)
        return True

    def _failed(self, error: Exception) -> None:
        self._busy = False
        self._desk.native.failures.add("what lies beside a session", error)

    def _done(self, files: list[tuple[Parts, Path, os.stat_result]], entry: Entry) -> None:
        """Remove from the disk what the store has, but for what was written to meanwhile."""
        self._busy = False
        tree = self._tree
        tree.renew(tree.view_id(entry.id))
        held = self._held()
        for parts, path, before in files:
            try:
                now = os.lstat(path)
            except OSError:
                continue
            if path in held or (now.st_ino, now.st_size, now.st_ctime_ns) != (
                before.st_ino,
                before.st_size,
                before.st_ctime_ns,
            ):
                continue
            self._noted.discard((entry.format, parts))
            number = self._desk.scratch.number(now.st_ino)
            node = tree.bound(number)
            kept = tree.fixed((KEY[0], SIDECARS, entry.format, *parts))
            if remove_quietly(path) and isinstance(node, ScratchNode) and kept is node:
                # it was made of what the store kept, and is that again
                self._desk.scratch.drop(node)
            folder = tree.fixed((*KEY, entry.format, *parts[:-1]))
            self._desk.invalidate(Stale(folder.ino, os.fsencode(parts[-1])))
