"""Watching directories for sessions that grow: the kernel (inotify) tells which files change below them.

A watch holds for one directory, so every new one needs its own; files that were made in it before that are found by
listing it. If the kernel has lost something, or has no room for more watches, it says so, and everything is looked at
again.

The directories of tools are followed, and those that do not exist yet are looked for twice a second. A session is in
the store a moment after its tool has written it; a line that is not whole is waited for a little.
"""

import errno
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event

from inotify_simple import INotify, flags  # type: ignore[import-untyped]  # it has no annotations
from msgspec import UNSET, Struct, field

from store.errors import ConvfsError, told
from store.formats.core.look import DATABASE, open_regular
from store.formats.registry import FORMATS
from store.importing.importer import ImportReport
from store.importing.snapshot import path_text
from store.importing.walk import claim, leads_into, own_mounts

_CHANGES = flags.CREATE | flags.MODIFY | flags.CLOSE_WRITE | flags.MOVED_TO
_GONE = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT
_WATCHED = _CHANGES | flags.MOVED_FROM | _GONE | flags.ONLYDIR
_READ_DELAY_MS = 5
"""Events within this time are read together."""


class Noticed(Struct):
    """News from the kernel: files that were written to, or moved here, and whether something may have been missed."""

    changed: set[Path] = field(default_factory=set)
    missed: bool = False


class Notices:
    """Follows directories, with all that are below them, and single files. Links to directories are not followed.

    ``passed_by`` says which directories to skip. For one thread.
    """

    def __init__(self, passed_by: Callable[[Path], bool]) -> None:
        self._inotify = INotify()
        self._passed_by = passed_by
        self._paths: dict[int, Path] = {}
        self._watches: dict[Path, int] = {}
        self._alone: dict[Path, set[str]] = {}
        """Directories of which only some files are followed, and the beginnings of their names."""
        self.roots: set[Path] = set()
        """The directories and files that are followed, as long as they are there."""
        self.full = False
        """True if there was no room for a watch: then some directories give no news."""

    def close(self) -> None:
        self._inotify.close()

    def add(self, root: Path) -> None:
        """Begin to follow a directory, or a file and those beside it whose names begin with its own."""
        if os.path.isdir(root):
            self._alone.pop(root, None)
            self._follow(root, Noticed())
        elif self._watch(root.parent) and root.parent not in self.roots:
            self._alone.setdefault(root.parent, set()).add(root.name)
        self.roots.add(root)

    def read(self, seconds: float) -> Noticed:
        """Wait for something to happen, for ``seconds`` at most; return it."""
        noticed = Noticed()
        # rounded down, the last part of a millisecond would be waited for by asking again and again
        wait_ms = max(math.ceil(seconds * 1000), 0)
        for wd, mask, _cookie, name in self._inotify.read(wait_ms, _READ_DELAY_MS):
            if mask & flags.Q_OVERFLOW:
                noticed.missed = True
                continue
            folder = self._paths.get(wd)
            if folder is None:
                continue
            if mask & flags.MOVE_SELF:
                self._leave(folder)
            elif mask & (_GONE | flags.IGNORED):
                self._forget(folder)
            elif mask & flags.ISDIR:
                if mask & flags.MOVED_FROM and folder not in self._alone:
                    self._leave(folder / name)
                elif mask & (flags.CREATE | flags.MOVED_TO) and folder not in self._alone:
                    self._follow(folder / name, noticed)
            elif mask & _CHANGES and self._is_followed(folder, name):
                noticed.changed.add(folder / name)
        return noticed

    def look_again(self) -> None:
        self.full = False
        for root in self.roots:
            if os.path.isdir(root):
                self._follow(root, Noticed())

    def _is_followed(self, folder: Path, name: str) -> bool:
        beginnings = self._alone.get(folder)
        return beginnings is None or any(name.startswith(beginning) for beginning in beginnings)

    def _follow(self, path: Path, noticed: Noticed) -> None:
        """Watch a directory and all below it; changes in them before the watch may not have been told."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            if self._passed_by(folder) or not self._watch(folder):
                continue
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(folder / entry.name)
                        else:
                            noticed.changed.add(folder / entry.name)
            except OSError:
                # gone, or not to be read
                continue

    def _watch(self, folder: Path) -> bool:
        if folder in self._watches:
            return True
        try:
            wd = self._inotify.add_watch(folder, _WATCHED)
        except OSError as error:
            self.full = self.full or error.errno in (errno.ENOSPC, errno.ENOMEM)
            return False
        if (other := self._paths.get(wd)) is not None:
            # the same directory under another name: it was moved, or is mounted twice
            self._watches.pop(other, None)
        self._paths[wd] = folder
        self._watches[folder] = wd
        return True

    def _leave(self, folder: Path) -> None:
        """Stop following a directory and those below: it is elsewhere now, and its news would be wrong."""
        for below in [below for below in self._watches if below == folder or folder in below.parents]:
            with suppress(OSError):
                self._inotify.rm_watch(self._watches[below])
            self._forget(below)

    def _forget(self, folder: Path) -> None:
        self._paths.pop(self._watches.pop(folder, -1), None)
        self._alone.pop(folder, None)
        self.roots = {root for root in self.roots if folder not in (root, root.parent)}


QUIET_SECONDS = 0.1
"""A file that nobody has written to for this long is looked at,"""
LONGEST_SECONDS = 0.4
"""one that is written to all the time, at this interval;"""
RESTS = 4
"""after a look it is left alone for this many times as long as the look took."""


class Settling:
    """The files that have changed since they were looked at; times are seconds of one clock that the caller reads."""

    def __init__(self) -> None:
        self._waiting: dict[Path, tuple[float, float]] = {}
        """The times of the first and the last change."""
        self._not_before: dict[Path, float] = {}
        self._slow: dict[Path, float] = {}
        """The seconds that the last look at a file took, of those that others waited for."""

    def changed(self, path: Path, now: float) -> None:
        first, _last = self._waiting.get(path, (now, now))
        self._waiting[path] = first, now

    def due(self, now: float) -> list[Path]:
        """Return the files to look at now: quick ones first, then those that waited longest; they stop waiting."""
        waited = self._waiting.items()
        due = sorted((self._slow.get(path, 0.0), first, path) for path, (first, _) in waited if self._at(path) <= now)
        for _seconds, _first, path in due:
            del self._waiting[path]
        self._not_before = {path: at for path, at in self._not_before.items() if at > now or path in self._waiting}
        return [path for _seconds, _first, path in due]

    def next(self) -> float | None:
        """Return when the next file is due, None if none has changed."""
        return min(map(self._at, self._waiting), default=None)

    def looked_at(self, path: Path, now: float, seconds: float, *, rest: float = 0.0) -> None:
        """Note that looking at a file took ``seconds``: it is left alone for a while, ``rest`` seconds at least."""
        self._not_before[path] = now + max(RESTS * seconds, rest)
        if seconds > LONGEST_SECONDS:
            self._slow[path] = seconds
        else:
            self._slow.pop(path, None)

    def _at(self, path: Path) -> float:
        first, last = self._waiting[path]
        settled = min(last + QUIET_SECONDS, first + LONGEST_SECONDS)
        return max(settled, self._not_before.get(path, 0.0))


log = logging.getLogger(__name__)

_HOMES_SECONDS = 0.5
_RETRY_SECONDS = 2.0
_RESCAN_SECONDS = 10.0
"""The interval at which everything is looked at where the kernel has no room for watches."""
_DATABASE_SECONDS = 0.7
"""A database is left alone this long, whatever is written to it: to see that nothing is new takes 1/200 of it."""
_UNFINISHED_SECONDS = 1.0
_READ_AT_ONCE = 4
"""So many files may be read at the same time: one that takes long holds up no other."""
_SIDE_FILES = ("-wal", "-journal", "-shm")


class _Reading(Struct, frozen=True):
    """The import of a session that is not done yet: since when, and on account of which files."""

    outcome: Future[ImportReport]
    changed: list[Path]
    began: float


class Watching:
    """Follows the directories that ``homes`` returns, and makes ``take`` import the changes in them.

    ``apart`` is the directory of the store. ``told`` gets the report of every import that brought something. Mounts of
    convfs are never looked into, not even through links.
    """

    def __init__(
        self,
        homes: Callable[[], Iterable[Path]],
        take: Callable[[Sequence[Path]], ImportReport],
        apart: Path,
        told: Callable[[ImportReport], None] = lambda _report: None,
    ) -> None:
        self._homes = homes
        self._take = take
        self._apart = Path(os.path.realpath(apart))
        self._told = told
        self._settling = Settling()
        self._since: dict[Path, float] = {}
        """The times since when files have ended within a line."""
        self._unread: dict[Path, float] = {}
        """Directories to import as a whole, and when."""
        self._put_off: dict[Path, float] = {}
        """Databases of which something was left out, and when to look at them again."""
        self._databases: set[Path] = set()
        """Those in which sessions were found at the last look."""
        self._failed: dict[Path, str] = {}
        """The last error of each path that could not be imported, so that it is logged once."""
        self._warned: set[str] = set()
        self._readers = ThreadPoolExecutor(_READ_AT_ONCE, "watch")
        self._reading: dict[Path, _Reading] = {}
        self._ended = Event()

    def run(self, ended: Event, ready: Callable[[], None] = lambda: None) -> None:
        """Import what is there, call ``ready``, and go on until ``ended`` is set."""
        self._ended = ended
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
                for path in [path for path, at in self._put_off.items() if at <= now]:
                    del self._put_off[path]
                    self._settling.changed(path, now)
                for path in noticed.changed:
                    self._settling.changed(_main_file(path), now)
                if noticed.missed:
                    log.info("the kernel has told of too much at once: everything is looked at again")
                    rescan = self._rescan(notices)
                self._look_at(self._settling.due(time.monotonic()), notices.roots)
                self._take_what_is_read()
        finally:
            self._readers.shutdown()
            notices.close()

    def _follow(self, notices: Notices) -> None:
        """Begin to follow tools' directories that exist now, and import their content."""
        for home in self._homes():
            root = Path(os.path.realpath(home))
            if root in notices.roots or self._passed_by(root) or any(above in notices.roots for above in root.parents):
                continue
            # first: what changes while it is read is told of
            notices.add(root)
            self._unread[root] = 0.0
        self._read(notices.roots)

    def _read(self, roots: set[Path]) -> None:
        now = time.monotonic()
        self._unread = {root: at for root, at in self._unread.items() if root in roots}
        for root in sorted(root for root, at in self._unread.items() if at <= now):
            if self._came(root, partial(self._take, [root])):
                del self._unread[root]
            else:
                self._unread[root] = time.monotonic() + _RETRY_SECONDS

    def _rescan(self, notices: Notices) -> float:
        """Look at everything; return when to do so again, if necessary."""
        notices.look_again()
        self._unread |= dict.fromkeys(notices.roots, 0.0)
        self._read(notices.roots)
        return time.monotonic() + _RESCAN_SECONDS

    def _passed_by(self, folder: Path) -> bool:
        return leads_into(folder, own_mounts() | {self._apart})

    def _look_at(self, paths: Sequence[Path], roots: set[Path]) -> None:
        now = time.monotonic()
        sessions: dict[Path, list[Path]] = {}
        busy = {path for session, one in self._reading.items() for path in (session, *one.changed)}
        for path in paths:
            if path in busy or self._is_unfinished(path, now):
                self._settling.changed(path, now)
                continue
            # whose a database is takes longer to say than whether it has changed
            for session in [path] if path in self._databases else _sessions(path, roots):
                sessions.setdefault(session, []).append(path)
        for session, changed in sessions.items():
            if session in self._reading:
                for path in changed:
                    self._settling.changed(path, now)
                continue
            outcome = self._readers.submit(self._take, [session])
            self._reading[session] = _Reading(outcome, changed, time.monotonic())
            wait([outcome], LONGEST_SECONDS)
            self._take_what_is_read()

    def _take_what_is_read(self) -> None:
        """Note the imports that are done."""
        for session, reading in [(session, one) for session, one in self._reading.items() if one.outcome.done()]:
            del self._reading[session]
            is_done = self._came(session, reading.outcome.result)
            now = time.monotonic()
            rest = _RETRY_SECONDS if not is_done else _DATABASE_SECONDS if _is_database(session) else 0.0
            for path in reading.changed:
                self._settling.looked_at(path, now, now - reading.began, rest=rest)
                if not is_done:
                    self._settling.changed(path, now)

    def _is_unfinished(self, path: Path, now: float) -> bool:
        """Return whether a file of lines ends within a line that is being written; after a short while, False."""
        if path.suffix != ".jsonl" or _ends_a_line(path):
            self._since.pop(path, None)
            return False
        if now - self._since.setdefault(path, now) < _UNFINISHED_SECONDS:
            return True
        del self._since[path]
        return False

    def _came(self, path: Path, outcome: Callable[[], ImportReport]) -> bool:
        """Note the import of everything at a path; return False if it should be tried again."""
        try:
            report = outcome()
        except Exception as error:
            if self._ended.is_set():
                raise
            self._note(path, str(told(error)))
            return False
        # that a home has nothing in it yet is no news
        self._note(path, "; ".join(line for line in report.errors if "holds no session" not in line))
        for line in report.warnings:
            if line not in self._warned:
                self._warned.add(line)
                log.warning("%s", line)
        if report.put_off is not UNSET:
            self._put_off[path] = time.monotonic() + report.put_off
        if report.conversations:
            self._told(report)
        is_one = report.imported + report.grown + report.unchanged > 0 and _is_database(path)
        (self._databases.add if is_one else self._databases.discard)(path)
        return True

    def _note(self, path: Path, reason: str) -> None:
        """Log the problem with a path, once."""
        if reason and self._failed.get(path) != reason:
            log.warning("%s", reason if path_text(path) in reason else f"{path_text(path)}: {reason}")
        if reason:
            self._failed[path] = reason
        else:
            self._failed.pop(path, None)


def _main_file(path: Path) -> Path:
    """Return the database to which a file beside it belongs, else the file."""
    ending = next((ending for ending in _SIDE_FILES if path.name.endswith(ending)), "")
    return path.with_name(path.name.removesuffix(ending))


def _sessions(path: Path, roots: set[Path]) -> list[Path]:
    """Return the sessions of a file below one of ``roots``: itself, a folder above it, or a file named like one."""
    try:
        if (found := claim(path, FORMATS)) is not None:
            # of a folder of files, any may have changed
            return [found.path]
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
        # it has gone
        return []
    except ConvfsError:
        # importing it tells why
        return [path]
    return above


def _ends_a_line(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
    except OSError:
        return True


def _is_database(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(len(DATABASE)) == DATABASE
    except OSError:
        return False
