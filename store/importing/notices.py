"""Which files change below some directories, as the kernel tells it (inotify).

A watch holds for one directory, so that every new one needs its own; what was made in it before that is found by
listing it. Where the kernel has lost something, or has no room for more watches, it says so: look at all then.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from inotify_simple import INotify, flags  # type: ignore[import-untyped]  # it has no annotations
from msgspec import Struct, field

_CHANGES = flags.CREATE | flags.MODIFY | flags.CLOSE_WRITE | flags.MOVED_TO
_GONE = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT
_WATCHED = _CHANGES | flags.MOVED_FROM | _GONE | flags.ONLYDIR
_READ_DELAY_MS = 5
"""What comes within so little is read together."""


class Noticed(Struct):
    """What has happened: files that were written to, or moved here, and whether something may have been missed."""

    changed: set[Path] = field(default_factory=set)
    missed: bool = False


class Notices:
    """Follows directories, with all that are below them, and single files. Links to directories are not followed.

    ``passed_by`` says which directories are not looked into. Of one thread.
    """

    def __init__(self, passed_by: Callable[[Path], bool]) -> None:
        self._inotify = INotify()
        self._passed_by = passed_by
        self._paths: dict[int, Path] = {}
        self._watches: dict[Path, int] = {}
        self._alone: dict[Path, set[str]] = {}
        """Directories of which only some files are followed, and what the names of these begin with."""
        self.roots: set[Path] = set()
        """What is followed, as long as it is there."""
        self.full = False
        """Whether there was no room for a watch: then nothing is told of some directories."""

    def close(self) -> None:
        """Follow nothing any more."""
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
        """Wait for something to happen, but no longer than that; return what has."""
        noticed = Noticed()
        for wd, mask, _cookie, name in self._inotify.read(max(int(seconds * 1000), 0), _READ_DELAY_MS):
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
                self._directory(folder / name, mask, noticed)
            elif mask & _CHANGES and self._is_followed(folder, name):
                noticed.changed.add(folder / name)
        return noticed

    def look_again(self) -> None:
        """Follow directories that were missed."""
        self.full = False
        for root in self.roots:
            if os.path.isdir(root):
                self._follow(root, Noticed())

    def _directory(self, path: Path, mask: int, noticed: Noticed) -> None:
        if path.parent in self._alone:
            return
        if mask & flags.MOVED_FROM:
            self._leave(path)
        elif mask & (flags.CREATE | flags.MOVED_TO):
            self._follow(path, noticed)

    def _is_followed(self, folder: Path, name: str) -> bool:
        beginnings = self._alone.get(folder)
        return beginnings is None or any(name.startswith(beginning) for beginning in beginnings)

    def _follow(self, path: Path, noticed: Noticed) -> None:
        """Watch a directory and all below it; what is in them by then may not have been told of."""
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
        """Follow a directory no more, nor those below: it is elsewhere now, and so would be what is told of it."""
        for below in [below for below in self._watches if below == folder or folder in below.parents]:
            with suppress(OSError):
                self._inotify.rm_watch(self._watches[below])
            self._forget(below)

    def _forget(self, folder: Path) -> None:
        self._paths.pop(self._watches.pop(folder, -1), None)
        self._alone.pop(folder, None)
        self.roots = {root for root in self.roots if root != folder and root.parent != folder}
