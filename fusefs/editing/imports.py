"""Importing the files copied into ``import/``, in a thread, once they are quiet.

The disk has all that must be known: a file without a newer report is to be imported. So the next process takes up the
files that an earlier one left.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from fusefs.editing.drafts import Drafts
from fusefs.editing.inode import Inodes
from fusefs.tree.changes import Stale
from fusefs.tree.paths import IMPORT
from store import visible
from store.errors import ConvfsError, StoreFailed, told
from store.filenames import NAME_MAX, cut
from store.paths import IMPORTED

if TYPE_CHECKING:
    from store.importing.drop import Drop

log = logging.getLogger(__name__)

REPORT = ".report.txt"
"""The suffix that turns a file's name into that of the report on it."""

_LOOK_SECONDS = 0.25
_QUIET_SECONDS = 0.5
_PAUSES_AS_LONG = 8
"""The least ratio of the pause to the time that looking took."""
_AGAIN_SECONDS = 5.0
_LARGEST_AGAIN = 64 << 20
"""A file larger than this is not written again for a program that goes on at its end."""


class Imports:
    """The files in ``import/`` of one mount."""

    def __init__(self, inodes: Inodes, drafts: Drafts) -> None:
        self._tree = inodes.tree
        self._inodes = inodes
        self._drafts = drafts
        self._folder = inodes.scratch.root / IMPORT
        self._apart = inodes.scratch.root / IMPORTED

    async def run(self) -> None:
        """Import new files as long as the mount lasts."""
        while True:
            began = time.monotonic()
            try:
                for path in self._ready():
                    await self._take(path)
            except Exception:
                log.exception("what is in %s/ is imported later", IMPORT)
                await trio.sleep(_AGAIN_SECONDS)
            await trio.sleep(max(_LOOK_SECONDS, _PAUSES_AS_LONG * (time.monotonic() - began)))

    def _ready(self) -> list[Path]:
        try:
            with os.scandir(self._folder) as entries:
                paths = [Path(entry.path) for entry in entries if not entry.name.endswith(REPORT)]
        except FileNotFoundError:
            return []
        held = self._inodes.open_paths() if paths else set()
        now = time.time()
        ready = []
        for path in sorted(paths):
            if any(file == path or file.is_relative_to(path) for file in held):
                continue
            try:
                reported = os.stat(_report(path)).st_ctime_ns
            except FileNotFoundError:
                reported = 0
            with suppress(FileNotFoundError):
                changed = _last_change(path)
                if reported < changed <= (now - _QUIET_SECONDS) * 1e9 and not path.is_symlink():
                    ready.append(path)
        return ready

    def go_on(self, path: Path) -> None:
        """Restore a file as it was imported, for its writer to continue at its end. Raises OSError."""
        if not path.is_relative_to(self._folder):
            return
        # imported here, as below: most mounts import nothing
        from store.importing.drop import taken_before

        try:
            earlier = taken_before(self._tree.store, path, self._apart)
            if earlier is None or earlier.size > _LARGEST_AGAIN:
                return
            content = b"".join(earlier.pieces())
        except ConvfsError as error:
            log.warning("%s/%s is begun anew: %s", IMPORT, path.name, error)
            return
        with path.open("xb") as file:
            file.write(content)

    async def _take(self, path: Path) -> None:
        try:
            said = await self._taken(path)
        except StoreFailed:
            raise
        except Exception as error:
            said = f"not imported: {visible.line(str(told(error)))}\n"
        if said is None:
            return
        report = _report(path)
        try:
            if report.exists():
                self._drafts.put(report, said.encode(errors="replace"))
            else:
                self._drafts.put_new(report, said.encode(errors="replace"))
        except OSError as error:
            log.error("what became of %s/%s cannot be told: %s", IMPORT, path.name, error)
            await trio.sleep(_AGAIN_SECONDS)
        directory = self._tree.ino((IMPORT,))
        for name in (path.name, report.name):
            self._inodes.kernel.invalidate(Stale(directory, os.fsencode(name)))

    async def _taken(self, path: Path) -> str | None:
        """Import the file at a path and remove it; None if it is being written to, and must be looked at again."""
        with ExitStack() as taking:

            def run() -> Drop:
                from store.importing.drop import take

                return taking.enter_context(take(self._tree.store, path, self._apart))

            taken = await trio.to_thread.run_sync(run)
            # here, where nobody can open a file between the look and the removal
            return taken.said if taken.remove(self._inodes.open_paths()) else None


def _report(path: Path) -> Path:
    return path.with_name(cut(path.name, NAME_MAX - len(REPORT)) + REPORT)


def _last_change(path: Path) -> int:
    """Return when something last changed at or below a path, in Unix nanoseconds; 0 if there is no file in it."""
    status = os.lstat(path)
    changed, has_files = status.st_ctime_ns, not stat.S_ISDIR(status.st_mode)
    for folder, folders, files in os.walk(path):
        has_files = has_files or bool(files)
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                changed = max(changed, os.lstat(os.path.join(folder, name)).st_ctime_ns)
    return changed if has_files else 0
