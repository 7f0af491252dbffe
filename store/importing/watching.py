"""Sessions imported as they grow: what tools write where they keep them is in the store a moment later.

The directories of tools are followed, and those that do not exist yet are looked for twice a second. A line that is not
whole is waited for a little. What the kernel has missed is found by looking at everything again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event

from store.errors import ConvfsError
from store.formats.registry import FORMATS
from store.importing.importer import ImportReport
from store.importing.notices import Notices
from store.importing.paths import path_text
from store.importing.settling import Settling
from store.importing.walk import claim, leads_into, own_mounts

log = logging.getLogger(__name__)

_HOMES_SECONDS = 0.5
_RETRY_SECONDS = 2.0
_RESCAN_SECONDS = 10.0
"""How often all is looked at where the kernel has no room for watches."""
_DATABASE_SECONDS = 3.0
_UNFINISHED_SECONDS = 1.0
_SIDE_FILES = ("-wal", "-journal", "-shm")
_DATABASE = b"SQLite format 3\0"

Take = Callable[[Sequence[Path]], ImportReport]
"""Imports what is at some paths."""


class Watching:
    """Follows the directories that ``homes`` returns, and has ``take`` import what changes in them.

    ``apart`` is the directory of the store. ``told`` gets the report of every import that brought something. Mounts of
    convfs are never looked into, whatever leads there.
    """

    def __init__(
        self,
        homes: Callable[[], Iterable[Path]],
        take: Take,
        apart: Path,
        told: Callable[[ImportReport], None] = lambda _report: None,
    ) -> None:
        self._homes = homes
        self._take = take
        self._apart = Path(os.path.realpath(apart))
        self._told = told
        self._settling = Settling()
        self._since: dict[Path, float] = {}
        """When files ended within a line that end there still."""
        self._unread: dict[Path, float] = {}
        """Directories that are to be imported as a whole, and when."""
        self._failed: dict[Path, str] = {}
        """What was last wrong with what could not be imported, so that it is said once."""

    def run(self, ended: Event, ready: Callable[[], None] = lambda: None) -> None:
        """Import what is there, say that it is ``ready``, and go on until ``ended`` is set."""
        notices = Notices(self._passed_by)
        look = rescan = 0.0
        is_ready = False
        try:
            while not ended.is_set():
                now = time.monotonic()
                if now >= look:
                    self._follow(notices)
                    look = time.monotonic() + _HOMES_SECONDS
                    if not is_ready:
                        is_ready = True
                        ready()
                if notices.full and now >= rescan:
                    rescan = self._rescan(notices)
                until = min(look, self._settling.next() or look)
                noticed = notices.read(until - time.monotonic())
                now = time.monotonic()
                for path in noticed.changed:
                    self._settling.changed(_main_file(path), now)
                if noticed.missed:
                    log.info("the kernel has told of too much at once: everything is looked at again")
                    rescan = self._rescan(notices)
                self._look_at(self._settling.due(time.monotonic()), notices.roots)
        finally:
            notices.close()

    # -- where -----------------------------------------------------------------------------------------------------

    def _follow(self, notices: Notices) -> None:
        """Begin to follow directories of tools that are there by now, and import what is in them."""
        for home in self._homes():
            root = Path(os.path.realpath(home))
            if root in notices.roots or self._passed_by(root) or any(above in notices.roots for above in root.parents):
                continue
            # first: what changes while it is read is told of
            notices.add(root)
            self._unread[root] = 0.0
        self._read(notices.roots)

    def _read(self, roots: set[Path]) -> None:
        """Import all that is below directories whose time has come."""
        now = time.monotonic()
        self._unread = {root: at for root, at in self._unread.items() if root in roots}
        for root in sorted(root for root, at in self._unread.items() if at <= now):
            if self._import([root]):
                del self._unread[root]
            else:
                self._unread[root] = time.monotonic() + _RETRY_SECONDS

    def _rescan(self, notices: Notices) -> float:
        """Look at everything; return when that is to be done again, if it must."""
        notices.look_again()
        self._unread |= dict.fromkeys(notices.roots, 0.0)
        self._read(notices.roots)
        return time.monotonic() + _RESCAN_SECONDS

    def _passed_by(self, folder: Path) -> bool:
        return leads_into(folder, own_mounts() | {self._apart})

    # -- what ------------------------------------------------------------------------------------------------------

    def _look_at(self, paths: Sequence[Path], roots: set[Path]) -> None:
        """Import the sessions that files belong to which have changed."""
        now = time.monotonic()
        sessions: dict[Path, list[Path]] = {}
        for path in paths:
            if self._is_unfinished(path, now):
                self._settling.changed(path, now)
                continue
            for session in _sessions(path, roots):
                sessions.setdefault(session, []).append(path)
        for session, changed in sessions.items():
            began = time.monotonic()
            is_done = self._import([session])
            now = time.monotonic()
            rest = _RETRY_SECONDS if not is_done else _DATABASE_SECONDS if _is_database(session) else 0.0
            for path in changed:
                self._settling.looked_at(path, now, now - began, rest=rest)
                if not is_done:
                    self._settling.changed(path, now)

    def _is_unfinished(self, path: Path, now: float) -> bool:
        """Say whether a file of lines ends within one, which is being written; not for long."""
        if path.suffix != ".jsonl" or _ends_a_line(path):
            self._since.pop(path, None)
            return False
        if now - self._since.setdefault(path, now) < _UNFINISHED_SECONDS:
            return True
        del self._since[path]
        return False

    def _import(self, paths: Sequence[Path]) -> bool:
        """Import what is at some paths; False if it should be tried again."""
        try:
            report = self._take(paths)
        except (ConvfsError, OSError) as error:
            self._note(paths[0], str(error))
            return False
        for path in paths:
            # that a home has nothing in it yet is no news
            errors = [line for line in report.errors if "holds no session" not in line]
            self._note(path, "; ".join(errors))
        if report.conversations:
            self._told(report)
        return True

    def _note(self, path: Path, reason: str) -> None:
        """Log what is wrong with a path, once."""
        if reason and self._failed.get(path) != reason:
            log.warning("%s", reason if path_text(path) in reason else f"{path_text(path)}: {reason}")
        if reason:
            self._failed[path] = reason
        else:
            self._failed.pop(path, None)


def _main_file(path: Path) -> Path:
    """Return the database that a file beside it belongs to, else the file."""
    for ending in _SIDE_FILES:
        if path.name.endswith(ending):
            return path.with_name(path.name.removesuffix(ending))
    return path


def _sessions(path: Path, roots: set[Path]) -> list[Path]:
    """Return where the sessions stand that a file below one of ``roots`` belongs to.

    It is one itself, or lies in the folder of one, or in a folder that is called as the session's file beside it.
    """
    try:
        if claim(path, FORMATS) is not None:
            return [path]
        above: list[Path] = []
        for folder in path.parents:
            if path in roots or folder in roots or not any(root in folder.parents for root in roots):
                break
            if claim(folder, FORMATS) is not None:
                return [folder]
            with os.scandir(folder.parent) as entries:
                beside = (folder.parent / entry.name for entry in entries if entry.name.startswith(f"{folder.name}."))
                above += (file for file in beside if claim(file, FORMATS) is not None)
    except OSError:
        # it has gone by now
        return []
    return above


def _ends_a_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
    except OSError:
        return True


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False
