"""Files in ``artifacts/`` and ``agents/`` that programs make and write.

A file that is made gets its number at once and is listed under it; the name that was typed leads to it until the mount
ends. While it is written it is a file on the disk, and when it is closed for the last time it is brought into the store
(:class:`OutputKeeper`).
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.outputs.handle import OutputHandle
from fusefs.editing.outputs.keeper import OutputKeeper
from fusefs.tree.outputs import Key, OutputFile, OutputsDirectory, found
from store.artifacts.names import may_name
from store.disk import durable

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from fusefs.tree.node import Directory, Node

LARGEST_COPY = 64 << 20
"""Bytes of an output that is written to without being written anew: all of it is copied first."""

_COPIED_AT_ONCE = 1 << 20


class OutputFiles:
    """The outputs of one mount, as files that are written."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._tree = desk.tree
        self._known = desk.tree.outputs
        self._artifacts = desk.tree.outputs.artifacts
        self.keeper = OutputKeeper(desk)

    # -- finding ---------------------------------------------------------------------------------------------------

    def asked(self, directory: Directory, name: bytes) -> Key | None:
        """Return which output a name is, or asks for; None where it is a program's own file, or elsewhere."""
        if not isinstance(directory, OutputsDirectory):
            return None
        try:
            text = name.decode()
        except UnicodeDecodeError:
            return None
        return directory.key(text) if may_name(text) else None

    def shown(self, key: Key) -> OutputFile | None:
        """Return the node of an output if there is one, and it is not being removed."""
        is_there = key not in self._known.hidden and found(self._tree, self._tree.view(key.view_id), key) is not None
        return self.file(key) if is_there else None

    def file(self, key: Key) -> OutputFile:
        """Return the node of an output."""
        return OutputFile(self._tree, self._known.ino(key), key)

    def growing(self, key: Key) -> bool:
        """Say whether an output is a file on the disk."""
        return self._artifacts.growing_one(self.context(key), key.outputs, key.name) is not None

    def path(self, key: Key) -> Path:
        """Return where that file is, or would be."""
        return self._artifacts.path(self.context(key), key.outputs, key.name)

    def context(self, key: Key) -> int:
        """Return the conversation that an output is kept beside."""
        return self._desk.records.context(key.view_id)

    # -- making and writing ----------------------------------------------------------------------------------------

    def create(self, directory: Directory, name: bytes, flags: int) -> tuple[Node, OutputHandle] | None:
        """Make an output and open it, or open one that is there; None where a name is meant for something else."""
        key = self.asked(directory, name)
        if key is None:
            return None
        node = self.shown(key)
        if node is not None:
            if flags & os.O_EXCL:
                raise FUSEError(errno.EEXIST)
            return node, self.open(node, flags)
        if key in self._known.hidden:
            # it was removed to be written anew
            self._known.hidden.discard(key)
            node = self.file(key)
            return node, self.open(node, os.O_TRUNC)
        context = self.context(key)
        leaving = self._known.leaving(key)
        listed = key._replace(name=self._artifacts.begin(context, key.outputs, key.name, leaving=leaving))
        self.called(key, listed)
        node = self.file(listed)
        return node, OutputHandle(self, node.ino, listed, self._artifacts.open(context, key.outputs, listed.name))

    def called(self, asked: Key, listed: Key) -> None:
        """Have the name that somebody typed lead to an output."""
        if asked != listed:
            self._known.aliases[asked] = listed.name

    def open(self, node: OutputFile, flags: int) -> OutputHandle:
        """Open an output for writing."""
        handle = OutputHandle(self, node.ino, node.key)
        if flags & os.O_TRUNC:
            handle.truncate(0)
        elif self.growing(node.key):
            handle.fd = self.begin(node.key, anew=False)
        return handle

    def begin(self, key: Key, *, anew: bool) -> int:
        """Return the descriptor of the file that an output is written as, with what there is of it unless ``anew``."""
        kept = None
        if not anew and not self.growing(key):
            node = self.file(key)
            if node.output.size > LARGEST_COPY:
                raise FUSEError(errno.EFBIG)
            kept = node.begin()
        fd = self._artifacts.open(self.context(key), key.outputs, key.name)
        offset = 0
        while kept is not None and (piece := kept.read(offset, _COPIED_AT_ONCE)):
            durable.pwrite_all(fd, piece, offset)
            offset += len(piece)
        return fd

    def truncate(self, node: OutputFile, size: int) -> None:
        """Make an output ``size`` bytes long by its name."""
        if size != node.output.size:
            handle = OutputHandle(self, node.ino, node.key)
            try:
                handle.truncate(size)
            finally:
                handle.release()

    def set_time(self, node: OutputFile, time_ns: int) -> None:
        """Set the time of an output that is being written; one that is kept has that of its last write."""
        with suppress(FileNotFoundError):
            os.utime(self.path(node.key), ns=(time_ns, time_ns))

    def sync(self, key: Key) -> None:
        """Make the name of an output that is being written durable."""
        durable.sync_directory(self.path(key).parent)
