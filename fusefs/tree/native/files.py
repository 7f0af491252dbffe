"""``.convfs/native/TOOL/…``: the tools' own files, byte for byte."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fusefs.inodes import Place
from fusefs.tree.disk_space import SCRATCH
from fusefs.tree.native.paths import NativePaths, Parts
from fusefs.tree.native.sidecars import SIDECARS, Sidecars
from fusefs.tree.node import (
    DIRECTORY,
    FILE,
    SHORT,
    UNCOUNTED,
    Attributes,
    Content,
    Directory,
    Entry,
    File,
    Node,
    Through,
)
from fusefs.tree.overlay import Served
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import ViewNode
from store.errors import NotFound
from store.importing.native import NativeFile, is_one_file

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

NATIVE = "native"
KEY = (".convfs", NATIVE)
"""The key of ``native/`` among the nodes that belong to no conversation."""
_FILES_KEPT = 64
_FIRST_FILE = 1 << 48
"""Positions of sessions in listings are counted from here, by their conversations; before stand folders."""


class Native:
    """The tools' files of one tree: where each stands, and those that were looked into lately."""

    def __init__(self, tree: Tree, home: Path) -> None:
        self._tree = tree
        self.paths = NativePaths(tree.store, home)
        self.sidecars = Sidecars(self)
        self.root = tree.store.root / SCRATCH / NATIVE
        """Where what is no session lies on the disk, at the same paths."""
        self._files: OrderedDict[int, NativeFile] = OrderedDict()
        self._outdated: set[int] = set()
        self.served: dict[int, Served] = {}
        """By conversation: what is shown in place of what the store has, since it was written and waits."""
        self.times: dict[int, int] = {}
        """When conversations' files were written to through the mount, in Unix nanoseconds."""

    def file(self, context: int) -> NativeFile:
        """Return the file of a conversation as it is now. Raises NotFound if it has none."""
        known = self._files.get(context)
        if known is not None and context not in self._outdated:
            self._files.move_to_end(context)
            return known
        entry = self._tree.store.entry(context)
        if not is_one_file(entry):
            raise NotFound(f"conversation {context} is no file of a tool")
        self._outdated.discard(context)
        file = self._files[context] = known.go_on(entry) if known else NativeFile(self._tree.store, entry)
        if len(self._files) > _FILES_KEPT:
            self._outdated.discard(self._files.popitem(last=False)[0])
        return file

    def changed(self, context: int) -> None:
        """Take note that a conversation has changed."""
        if context in self._files:
            self._outdated.add(context)
        self.paths.changed(context)

    def on_disk(self, tool: str, parts: Parts) -> Path:
        """Return where what is no session lies on the disk."""
        return self.root.joinpath(tool, *parts)

    def node(self, context: int) -> Node:
        """Return the node of a conversation's file, under the number that it is known by."""
        return self._tree.place(self._tree.view_id(context), Place.NATIVE)


class NativeDirectory(Directory):
    """``native/`` (``tool`` is ""), ``native/TOOL/``, or a folder in that."""

    __slots__ = ("parts", "tool", "tree")

    def __init__(self, tree: Tree, ino: int, tool: str = "", parts: Parts = ()) -> None:
        super().__init__(ino)
        self.tree = tree
        self.tool = tool
        self.parts = parts

    @property
    def _key(self) -> tuple[str, ...]:
        return (*KEY, *((self.tool,) if self.tool else ()), *self.parts)

    @property
    def parent(self) -> int:
        """The inode number of the folder that it is in."""
        return self.tree.fixed(self._key[:-1]).ino

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), UNCOUNTED, SHORT)

    def on_disk(self) -> Path:
        """Return where what is no session in it lies on the disk."""
        return self.tree.native.on_disk(self.tool, self.parts)

    def has_session(self, name: str) -> bool:
        """Say whether a name in it is that of a conversation's file."""
        return self.tree.native.paths.context(self.tool, (*self.parts, name)) > 0

    def _folder(self, name: str) -> Node:
        return self.tree.fixed((*self._key, name))

    def lookup(self, name: str) -> Node | None:
        native = self.tree.native
        if not self.tool:
            return self._folder(name) if name in native.paths.tools else None
        parts = (*self.parts, name)
        if context := native.paths.context(self.tool, parts):
            return native.node(context)
        on_disk = native.on_disk(self.tool, parts)
        if native.paths.is_folder(self.tool, parts) or os.path.isdir(on_disk):
            return self._folder(name)
        if native.sidecars.is_folder(self.tool, parts):
            return self._folder(name)
        # what lies on the disk is found there
        kept = native.sidecars.digest(self.tool, parts) is not None and not os.path.lexists(on_disk)
        return self._sidecar(name) if kept else None

    def _sidecar(self, name: str) -> Node:
        return self.tree.fixed((KEY[0], SIDECARS, self.tool, *self.parts, name))

    def entries(self, after: int) -> Iterator[Entry]:
        folders, files, sidecars = self._listed()
        drawn = [(self._folder(name), name) for name in folders]
        drawn += [(self._sidecar(name), name) for name in sidecars]
        for node, name in sorted(drawn, key=lambda found: found[0].ino):
            position = FIRST_POSITION + node.ino
            if position > after:
                yield Entry(position, os.fsencode(name), node.attributes())
        for name, context in sorted(files.items(), key=lambda item: item[1]):
            if _FIRST_FILE + context > after:
                try:
                    yield Entry(_FIRST_FILE + context, os.fsencode(name), self.tree.native.node(context).attributes())
                except NotFound:
                    continue

    def _listed(self) -> tuple[set[str], Mapping[str, int], set[str]]:
        """Return the names of folders, the sessions by name, and the names of sidecars."""
        native = self.tree.native
        if not self.tool:
            return set(native.paths.tools), {}, set()
        names = dict(native.paths.tools[self.tool].listed(self.parts))
        folders, sidecars = native.sidecars.listed(self.tool, self.parts)
        folders |= {name for name, context in names.items() if context < 0}
        try:
            with os.scandir(native.on_disk(self.tool, self.parts)) as entries:
                for entry in entries:
                    sidecars.discard(entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        folders.add(entry.name)
        except FileNotFoundError:
            pass
        return folders, {name: context for name, context in names.items() if context > 0}, sidecars


class SessionFile(ViewNode, File):
    """The file of a session."""

    __slots__ = ()

    @property
    def context(self) -> int:
        """Its conversation."""
        return self.tree.context_at_head(self.view_id)

    @property
    def file(self) -> NativeFile:
        """What the store has of it. Raises NotFound once there is none."""
        return self.tree.native.file(self.context)

    def label(self) -> str:
        return NATIVE

    def attributes(self) -> Attributes:
        native, context = self.tree.native, self.context
        served = native.served.get(context)
        if served is not None:
            return Attributes(self.ino, FILE, served.size, 0, timeout=SHORT, time_ns=served.time_ns)
        file = self.file
        time_ns = max(native.times.get(context, 0), file.entry.updated_ms * 1_000_000)
        return Attributes(self.ino, FILE, file.size, 0, timeout=SHORT, time_ns=time_ns)

    def xattrs(self) -> Mapping[str, str]:
        entry = self.file.entry
        return {"context": str(entry.id), "head": str(entry.head), "source": entry.source}

    def open(self) -> Content:
        return Through(self._read)

    def _read(self, offset: int, size: int) -> bytes:
        now = self.tree.bound(self.ino)
        if isinstance(now, File) and not isinstance(now, SessionFile):
            # the file is known under another number by now, and this one keeps what it had
            return now.open().read(offset, size)
        served = self.tree.native.served.get(self.context)
        return self.file.read(offset, size) if served is None else served.read(offset, size)


def native_node(tree: Tree, ino: int, path: tuple[str, ...]) -> Node:
    """Return the directory at ``path`` in ``native/``."""
    return NativeDirectory(tree, ino, *((path[0], path[1:]) if path else ()))
