"""What tools keep in the folder that is called as a session is, and the store beside its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from fusefs.tree.native.paths import Parts
from fusefs.tree.node import FILE, SHORT, Attributes, Content, File, InParts
from store.errors import NotFound
from store.ids import Hash

if TYPE_CHECKING:
    from fusefs.tree.native.files import Native
    from fusefs.tree.tree import Tree

SIDECARS = "native sidecars"
"""Leads the keys of their nodes, after that of ``.convfs/``."""
GONE = "native_gone"
"""The key of metadata under which those are that a tool has removed: the store keeps them."""


class Sidecars:
    """Finds them by their paths below a tool's directory."""

    def __init__(self, native: Native) -> None:
        self._native = native

    def owner(self, tool: str, parts: Parts) -> tuple[int, str]:
        """Return whose file a path is: a conversation, and its name in the session's folder; (0, "") for nobody's.

        Those of a session that was removed stay, as they would on a disk, until they are removed themselves.
        """
        folders, removed = self._native.paths.tools[tool], self._native.paths.removed
        for at in range(len(parts) - 1):
            names = folders.names(parts[:at])
            for suffix in folders.suffixes:
                called = parts[at] + suffix
                context = names.get(called, 0) or removed.get((tool, (*parts[:at], called)), 0)
                if context > 0 and PurePath(parts[-1]).suffix != suffix:
                    return context, "/".join(parts[at + 1 :])
        return 0, ""

    def of(self, context: int) -> Mapping[str, tuple[str, Hash]]:
        """Return those of a conversation by their names in the session's folder: the whole name, and the content."""
        try:
            file = self._native.file(context)
        except NotFound:
            return {}
        gone = file.entry.metadata.get(GONE)
        hidden = gone if isinstance(gone, list) else []
        return {
            name.partition("/")[2]: (name, Hash(bytes.fromhex(digest)))
            for name, digest in file.imported.sidecars.items()
            if "/" in name and name not in hidden
        }

    def digest(self, tool: str, parts: Parts) -> Hash | None:
        """Return the content of the file at a path, None if there is none."""
        context, name = self.owner(tool, parts)
        found = self.of(context).get(name) if context else None
        return found[1] if found else None

    def listed(self, tool: str, parts: Parts) -> tuple[set[str], set[str]]:
        """Return the names of folders, and of files, that are in a folder because of them."""
        folders: set[str] = set()
        files: set[str] = set()
        for name, context in self._native.paths.tools[tool].names(parts).items():
            if context > 0 and any(self.of(context)):
                folders.add(PurePath(name).stem)
        owner, below = self.owner(tool, (*parts, ""))
        for kept in self.of(owner) if owner else ():
            if kept.startswith(below):
                first, slash, _rest = kept[len(below) :].partition("/")
                (folders if slash else files).add(first)
        return folders, files

    def is_folder(self, tool: str, parts: Parts) -> bool:
        """Say whether there are any below a path."""
        context, below = self.owner(tool, (*parts, ""))
        return bool(context) and any(name.startswith(below) for name in self.of(context))


class SidecarFile(File):
    """One of them. It becomes a file of the disk when it is written to."""

    __slots__ = ("parts", "tool", "tree")

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
        size = self.tree.store.blob_size(self.digest)
        return Attributes(self.ino, FILE, size, native.file(context).entry.updated_ms, timeout=SHORT)

    def open(self) -> Content:
        digest = self.digest
        return InParts(lambda: self.tree.store.blob_reader(digest))
