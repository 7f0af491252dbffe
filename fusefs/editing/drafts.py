"""Drafts: what was written and not committed yet, made durable: nothing is lost that a program was told is saved.

One file a draft, in ``scratch/.drafts/``: a line of JSON that says what it is of, then the text. A file that is not
whole is no draft.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from store.disk import durable
from store.ids import hash_bytes

log = logging.getLogger(__name__)

_DIRECTORY = ".drafts"
_UNFINISHED = ".new"

NEW = "new"
"""The key of what is to become a new event."""


class Draft(Struct, frozen=True):
    """What a draft is of.

    ``context`` and ``key`` say which file it belongs to (:attr:`fusefs.editing.target.Target.key`, or :data:`NEW`),
    ``name`` what that is called. ``base`` is the state of the file that it was made from and ``result`` the one which
    it leads to; "" where that is not known. ``complete`` says that the program which wrote it had closed the file, and
    so meant it to be saved.
    """

    context: int
    key: str
    name: str
    base: str
    result: str
    complete: bool
    digest: str


class Drafts:
    """The drafts of one store, and what else must be in its place whole or not at all."""

    def __init__(self, scratch: Path) -> None:
        self._directory = scratch / _DIRECTORY
        self._numbers = itertools.count(1)

    def keep(self, draft: Draft, text: bytes, earlier: Path | None = None) -> Path:
        """Make a draft durable and return where it is; it takes the place of ``earlier``. Raises OSError."""
        head = msgspec.json.encode(msgspec.structs.replace(draft, digest=hash_bytes(text).hex()))
        # there is never more than one of a file that is being written: the earlier one would be saved first
        path = earlier or self._unused("")
        try:
            self._put(head + b"\n" + text, path)
        except BaseException:
            if earlier is None:
                # nobody knows of it, so nobody would ever drop it
                remove_quietly(path)
            raise
        return path

    def drop(self, path: Path) -> None:
        """Throw a draft away: it was committed, or is kept elsewhere."""
        remove_quietly(path)

    def put_new(self, path: Path, data: bytes) -> None:
        """Make a new file, durably, with all of ``data`` in it. Raises FileExistsError if the name is taken."""
        temporary = self.temporary(data, synced=True)
        try:
            durable.link(temporary, path)
        finally:
            remove_quietly(temporary)
        durable.sync_directory(path.parent)

    def put_again(self, path: Path, data: bytes) -> None:
        """Let a file that is there hold ``data``, durably: all of that, or still what it held."""
        self._put(data, path)

    def temporary(self, data: bytes, *, synced: bool) -> Path:
        """Write ``data`` to a file that is to be given a name. Without one it is gone at the next start."""
        if not self._directory.exists():
            durable.make_directory(self._directory)
        path = self._unused(_UNFINISHED)
        try:
            fd = durable.open_file(path, create=True)
            try:
                durable.pwrite_all(fd, data, 0)
                if synced:
                    durable.fdatasync(fd)
            finally:
                os.close(fd)
        except BaseException:
            remove_quietly(path)
            raise
        return path

    def left(self) -> Iterator[tuple[Path, Draft, bytes]]:
        """Yield the drafts that an earlier mount left, oldest first; those that are not whole are removed."""
        try:
            paths = sorted(self._directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        except FileNotFoundError:
            return
        for path in paths:
            draft = None
            if path.suffix != _UNFINISHED:
                try:
                    head, _, text = path.read_bytes().partition(b"\n")
                except OSError as error:
                    log.error("the draft %s cannot be read: %s", path, error)
                    continue
                with suppress(msgspec.DecodeError):
                    draft = msgspec.json.decode(head, type=Draft)
            if draft is None or draft.digest != hash_bytes(text).hex():
                remove_quietly(path)
            else:
                yield path, draft, text

    def _put(self, data: bytes, path: Path) -> None:
        temporary = self.temporary(data, synced=True)
        try:
            durable.replace(temporary, path)
        except BaseException:
            remove_quietly(temporary)
            raise
        durable.sync_directory(path.parent)

    def _unused(self, ending: str) -> Path:
        """Return the path of a new file. An earlier process may have had this one's number."""
        while (path := self._directory / f"{os.getpid()}-{next(self._numbers)}{ending}").exists():
            pass
        return path


def remove_quietly(path: Path) -> bool:
    """Remove a file if it is there. What it was for is done: a failure changes nothing, and is only noted."""
    try:
        durable.remove(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        log.error("%s could not be removed: %s", path, error)
        return False
    return True
