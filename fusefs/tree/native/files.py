"""``.convfs/native/TOOL/…``: the tools' own files, byte for byte."""

import os
from collections.abc import Mapping
from pathlib import Path

from fusefs.inodes import Place
from fusefs.tree.native.paths import KEY, SIDECARS, Parts
from fusefs.tree.node import FILE, SHORT, UNCOUNTED, Attributes, File, Item, Lazy, Listing, OpenContent
from fusefs.tree.paths import CONTROL
from fusefs.tree.tree import FixedPath, Tree
from fusefs.tree.view_node import FixedDirectory, ServedFile
from store.errors import NotFound
from store.ids import Hash
from store.importing.native import NativeFile

_FIRST_FILE = 1 << 48
"""Positions of sessions in listings are counted from here, by their conversations; before stand folders."""


class NativeDirectory(FixedDirectory, Listing):
    """``native/`` (``tool`` is ""), ``native/TOOL/``, or a folder in that."""

    links = UNCOUNTED

    def __init__(self, tree: Tree, ino: int, path: FixedPath) -> None:
        super().__init__(tree, ino, path)
        self.tool = "".join(path[len(KEY) : len(KEY) + 1])

    @property
    def parts(self) -> Parts:
        """Its path below that of the tool."""
        return self.path[len(KEY) + 1 :]

    @parts.setter
    def parts(self, parts: Parts) -> None:
        self.path = (*KEY, self.tool, *parts)

    def on_disk(self) -> Path:
        """Return the path on the disk of the files in it that are no sessions."""
        return self.tree.native.on_disk(self.tool, self.parts)

    def has_session(self, name: str) -> bool:
        """Return whether a name in it is that of a conversation's file."""
        return self.tree.native.paths.context(self.tool, (*self.parts, name)) > 0

    def _sidecar(self, name: str) -> int:
        return self.tree.ino((CONTROL, SIDECARS, self.tool, *self.parts, name))

    def _session(self, context: int) -> int:
        return self.tree.place(self.tree.view_id(context), Place.NATIVE)

    def lookup(self, name: str) -> int | None:
        native = self.tree.native
        native.load()
        if not self.tool:
            return self.below(name) if name in native.paths.tools else None
        parts = (*self.parts, name)
        if context := native.paths.context(self.tool, parts):
            return self._session(context)
        on_disk = native.on_disk(self.tool, parts)
        if native.paths.is_folder(self.tool, parts) or os.path.isdir(on_disk):
            return self.below(name)
        if native.sidecars.is_folder(self.tool, parts):
            return self.below(name)
        # files on the disk are found there
        kept = native.sidecars.digest(self.tool, parts) is not None and not os.path.lexists(on_disk)
        return self._sidecar(name) if kept else None

    def items(self) -> Mapping[str, Item]:
        native = self.tree.native
        native.load()
        if not self.tool:
            return {name: Item(ino := self.below(name), ino) for name in native.paths.tools}
        names = dict(native.paths.tools[self.tool].names(self.parts))
        folders, sidecars = native.sidecars.listed(self.tool, self.parts)
        folders |= {name for name, context in names.items() if context < 0}
        if not self.parts:
            folders |= set(native.paths.folders.get(self.tool, ()))
        try:
            with os.scandir(native.on_disk(self.tool, self.parts)) as entries:
                for entry in entries:
                    sidecars.discard(entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        folders.add(entry.name)
        except FileNotFoundError:
            pass
        numbers = {name: self.below(name) for name in folders} | {name: self._sidecar(name) for name in sidecars}
        there = {name: Item(ino, ino) for name, ino in numbers.items()}
        sessions = {name: context for name, context in names.items() if context > 0}
        return there | {name: Item(_FIRST_FILE + of, self._session(of)) for name, of in sessions.items()}


class SessionFile(ServedFile):
    """The file of a session."""

    @property
    def context(self) -> int:
        return self.tree.context_at_head(self.view_id)

    @property
    def file(self) -> NativeFile:
        """The file as the store has it. Raises NotFound once there is none."""
        return self.tree.native.file(self.context)

    def attributes(self) -> Attributes:
        native, context = self.tree.native, self.context
        served = native.served.get(context)
        if served is not None:
            return Attributes(self.ino, FILE, served.size, 0, timeout=SHORT, time_ns=served.time_ns)
        file = self.file
        return Attributes(self.ino, FILE, file.size, 0, timeout=SHORT, time_ns=file.time_ns)

    def xattrs(self) -> Mapping[str, str]:
        entry = self.file.entry
        return {"context": str(entry.id), "head": str(entry.head), "source": entry.source}

    def instead(self) -> OpenContent | None:
        instead = super().instead()
        return self.tree.native.served.get(self.context) if instead is None else instead

    def draw(self, offset: int, size: int) -> bytes:
        return self.file.read(offset, size)


class SidecarFile(File):
    """A file that a tool keeps beside a session. It becomes a file of the disk when it is written to."""

    def __init__(self, tree: Tree, ino: int, tool: str, parts: Parts) -> None:
        super().__init__(ino)
        self.tree = tree
        self.tool = tool
        self.parts = parts

    @property
    def digest(self) -> Hash:
        """Its content. Raises NotFound once there is none."""
        digest = self.tree.native.sidecars.digest(self.tool, self.parts)
        if digest is None:
            raise NotFound(f"{'/'.join(self.parts)} is no longer kept")
        return digest

    def attributes(self) -> Attributes:
        native = self.tree.native
        context, _name = native.sidecars.owner(self.tool, self.parts)
        size = self.tree.store.blobs.size(self.digest)
        return Attributes(self.ino, FILE, size, native.file(context).entry.updated_ms, timeout=SHORT)

    def open(self) -> OpenContent:
        digest = self.digest
        return Lazy(lambda: self.tree.store.blobs.reader(digest))
