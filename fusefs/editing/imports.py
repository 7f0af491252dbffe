"""Importing what was copied into ``import/``: when nobody writes to it any more, and by a thread.

All that must be known stands on the disk: what has no report that is newer than it is, is to be imported. So what an
earlier process did not come to is taken up by the next.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from fusefs.editing.handle import ScratchHandle
from fusefs.text.names import NAME_MAX, cut
from fusefs.tree.changes import Stale
from fusefs.tree.imports import IMPORT
from store.errors import ConvfsError, StoreFailed
from store.importing.taking import take

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk

log = logging.getLogger(__name__)

REPORT = ".report.txt"
"""What is added to a name to make that of the report on it."""

_APART = "imported"
_LOOK_SECONDS = 0.25
_QUIET_SECONDS = 0.5
_PAUSES_AS_LONG = 8
"""How many times as long as looking took the pause is, at least."""
_AGAIN_SECONDS = 5.0


class Imports:
    """What is in ``import/`` of one mount."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._folder = desk.scratch.root / IMPORT
        self._apart = desk.scratch.root / _APART

    async def run(self) -> None:
        """Import what is put down, as long as the mount lasts."""
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
        """Return what is to be imported, and is not being written to."""
        try:
            with os.scandir(self._folder) as entries:
                paths = [Path(entry.path) for entry in entries if not entry.name.endswith(REPORT)]
        except FileNotFoundError:
            return []
        held = self._held() if paths else []
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

    def _held(self) -> list[Path]:
        """Return the scratch files that are open for writing."""
        handles = [handle for handle in self._desk.handles.values() if isinstance(handle, ScratchHandle)]
        return [Path(os.readlink(f"/proc/self/fd/{handle.fd}")) for handle in handles]

    async def _take(self, path: Path) -> None:
        try:
            said = await trio.to_thread.run_sync(partial(take, self._desk.tree.store, path, self._apart))
        except StoreFailed:
            raise
        except (ConvfsError, OSError) as error:
            said = f"not imported: {error}\n"
        report = _report(path)
        try:
            if report.exists():
                self._desk.drafts.put_again(report, said.encode(errors="replace"))
            else:
                self._desk.drafts.put_new(report, said.encode(errors="replace"))
        except OSError as error:
            log.error("what became of %s/%s cannot be told: %s", IMPORT, path.name, error)
            await trio.sleep(_AGAIN_SECONDS)
        directory = self._desk.tree.fixed((IMPORT,))
        for name in (path.name, report.name):
            self._desk.invalidate(Stale(directory.ino, os.fsencode(name)))


def _report(path: Path) -> Path:
    return path.with_name(cut(path.name, NAME_MAX - len(REPORT)) + REPORT)


def _last_change(path: Path) -> int:
    """Return when something last changed at or below a path, in Unix nanoseconds."""
    changed = os.lstat(path).st_ctime_ns
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                changed = max(changed, os.lstat(os.path.join(folder, name)).st_ctime_ns)
    return changed
