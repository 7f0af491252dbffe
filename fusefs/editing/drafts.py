"""Drafts: what was written and not committed yet, made durable: nothing is lost that a program was told is saved.

One file a draft, in ``scratch/.drafts/``: a line of JSON that says what it is of, then the text. A file that is not
whole is no draft.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from store.disk import durable
from store.ids import hash_bytes

_DIRECTORY = ".drafts"

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
    """The drafts of one store."""

    def __init__(self, scratch: Path) -> None:
        self._directory = scratch / _DIRECTORY
        self._numbers = itertools.count(1)

    def keep(self, draft: Draft, text: bytes, earlier: Path | None = None) -> Path:
        """Make a draft durable and return where it is; it replaces ``earlier``. Raises OSError."""
        if not self._directory.exists():
            self._directory.mkdir(mode=0o700, parents=True)
            durable.sync_directory(self._directory.parent)
        head = msgspec.json.encode(msgspec.structs.replace(draft, digest=hash_bytes(text).hex()))
        path = self._directory / f"{os.getpid()}-{next(self._numbers)}"
        try:
            fd = durable.open_file(path, create=True)
            try:
                durable.pwrite_all(fd, head + b"\n" + text, 0)
                durable.fdatasync(fd)
            finally:
                os.close(fd)
            durable.sync_directory(self._directory)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        if earlier is not None:
            self.drop(earlier)
        return path

    def drop(self, path: Path) -> None:
        """Throw a draft away: it was committed, or is kept elsewhere."""
        path.unlink(missing_ok=True)

    def left(self) -> Iterator[tuple[Path, Draft, bytes]]:
        """Yield the drafts that an earlier mount left, oldest first; those that are not whole are removed."""
        try:
            paths = sorted(self._directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        except FileNotFoundError:
            return
        for path in paths:
            head, _, text = path.read_bytes().partition(b"\n")
            try:
                draft = msgspec.json.decode(head, type=Draft)
            except msgspec.DecodeError:
                draft = None
            if draft is None or draft.digest != hash_bytes(text).hex():
                path.unlink(missing_ok=True)
            else:
                yield path, draft, text
