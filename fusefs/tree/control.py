"""``.convfs/``: the mount and its store themselves: numbers, settings, errors, the log, any blob by its hash."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.text.names import safe_name
from fusefs.tree.conversation import conversation_attributes
from fusefs.tree.drawings import DrawnFile
from fusefs.tree.native.files import NATIVE, native_node
from fusefs.tree.native.sidecars import SIDECARS, SidecarFile
from fusefs.tree.node import (
    DERIVED_FILE,
    DIRECTORY,
    HELD_BY,
    SHORT,
    Attributes,
    Content,
    Directory,
    Entry,
    File,
    InParts,
    Lazy,
    Node,
)
from fusefs.tree.numbers import STATS, STATS_SVG, StatsFile, stats_drawing
from fusefs.tree.paths import CONTROL, TRASH, trash_names
from fusefs.tree.top_directory import TopDirectory
from fusefs.tree.view import FIRST_POSITION
from store.errors import NotFound
from store.events.conversation import Conversation
from store.ids import HASH_SIZE, Hash, now_ms
from store.settings import FILE_NAME

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

SETTINGS, ERRORS, LOG, BLOBS = "settings.toml", "errors", "log", "blobs"
_LISTED = (BLOBS, ERRORS, LOG, NATIVE, SETTINGS, STATS, STATS_SVG, TRASH)

_ERRORS_KEPT = 200


class ControlDirectory(TopDirectory):
    """``.convfs/``."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 6, SHORT)

    def lookup(self, name: str) -> Node | None:
        return self.tree.fixed((CONTROL, name)) if name in _LISTED else None

    def entries(self, after: int) -> Iterator[Entry]:
        for position, name in enumerate(_LISTED, FIRST_POSITION):
            if position > after:
                node = self.tree.fixed((CONTROL, name))
                shown = node.listed() if isinstance(node, DrawnFile) else node.attributes()
                yield Entry(position, name.encode(), shown)


class DiskFile(File):
    """A file of the store that is shown as it is; empty while there is none."""

    __slots__ = ("path",)

    direct = True

    def __init__(self, ino: int, path: Path) -> None:
        super().__init__(ino)
        self.path = path

    def attributes(self) -> Attributes:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return Attributes(self.ino, DERIVED_FILE, 0, 0, timeout=0.0)
        return Attributes(self.ino, DERIVED_FILE, status.st_size, status.st_mtime_ns // 1_000_000, timeout=0.0)

    def open(self) -> Content:
        return DiskContent(self.path)


class DiskContent:
    """An open file of the store."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of the file."""
        try:
            with self._path.open("rb") as file:
                return os.pread(file.fileno(), size, offset)
        except FileNotFoundError:
            return b""


class Errors:
    """What went wrong lately, by the name of the file that tells of it; the oldest go first."""

    def __init__(self) -> None:
        self._notes: OrderedDict[str, tuple[int, bytes]] = OrderedDict()

    def add(self, subject: str, reason: str) -> None:
        """Note that something about ``subject`` failed; a later note of the same subject replaces it."""
        name = safe_name(subject.replace("/", "--") + ".txt")
        self._notes[name] = (now_ms(), f"{subject}: {reason}\n".encode(errors="replace"))
        self._notes.move_to_end(name)
        if len(self._notes) > _ERRORS_KEPT:
            self._notes.popitem(last=False)

    def clear(self) -> None:
        """Forget all of it."""
        self._notes.clear()

    def get(self, name: str) -> tuple[int, bytes] | None:
        """Return (time in Unix milliseconds, text) of one."""
        return self._notes.get(name)

    def names(self) -> list[str]:
        """Return the names, oldest first."""
        return list(self._notes)


class ControlPart(Directory):
    """A directory in ``.convfs/``."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree, ino: int) -> None:
        super().__init__(ino)
        self.tree = tree

    @property
    def parent(self) -> int:
        """The inode number of ``.convfs/``."""
        return self.tree.fixed((CONTROL,)).ino


class ErrorsDirectory(ControlPart):
    """``errors/``: why a file could not be read."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2, timeout=0.0)

    def lookup(self, name: str) -> Node | None:
        return self.tree.fixed((CONTROL, ERRORS, name)) if self.tree.errors.get(name) else None

    def entries(self, after: int) -> Iterator[Entry]:
        for name in self.tree.errors.names():
            node = self.tree.fixed((CONTROL, ERRORS, name))
            if node.ino + FIRST_POSITION > after:
                yield Entry(node.ino + FIRST_POSITION, name.encode(), node.attributes())


class ErrorFile(File):
    """One error."""

    __slots__ = ("name", "tree")

    direct = True

    def __init__(self, tree: Tree, ino: int, name: str) -> None:
        super().__init__(ino)
        self.tree = tree
        self.name = name

    def _note(self) -> tuple[int, bytes]:
        note = self.tree.errors.get(self.name)
        if note is None:
            raise NotFound(f"{self.name} is no longer kept")
        return note

    def attributes(self) -> Attributes:
        time_ms, text = self._note()
        return Attributes(self.ino, DERIVED_FILE, len(text), time_ms, timeout=0.0)

    def open(self) -> Content:
        return Lazy(lambda: self._note()[1])


class BlobsDirectory(ControlPart):
    """``blobs/``: any content by its hash. It lists nothing: there may be millions."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, 0, 2)

    def lookup(self, name: str) -> Node | None:
        try:
            digest = bytes.fromhex(name)
        except ValueError:
            return None
        if len(digest) != HASH_SIZE or digest.hex() != name:
            return None
        try:
            self.tree.store.blob_size(Hash(digest))
        except NotFound:
            return None
        return self.tree.fixed((CONTROL, BLOBS, name))

    def entries(self, after: int) -> Iterator[Entry]:
        return iter(())


class TrashDirectory(ControlPart):
    """``trash/``: the conversations that were removed. Moved back into ``conversations/``, they are there again."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 1, timeout=0.0)

    def _ino(self, trashed: Conversation) -> int:
        return inodes.base(Space.PLACE, self.tree.view_id(trashed.id)) + Place.CONVERSATION

    def lookup(self, name: str) -> Node | None:
        trashed = trash_names(self.tree.store).get(name)
        return self.tree.node(self._ino(trashed)) if trashed else None

    def entries(self, after: int) -> Iterator[Entry]:
        for name, trashed in sorted(trash_names(self.tree.store).items(), key=lambda item: item[1].id):
            position = trashed.id + FIRST_POSITION - 1
            if position > after:
                yield Entry(position, name.encode(), conversation_attributes(self._ino(trashed), trashed.updated_ms))


class BlobFile(File):
    """``blobs/HASH``."""

    __slots__ = ("digest", "tree")

    def __init__(self, tree: Tree, ino: int, digest: Hash) -> None:
        super().__init__(ino)
        self.tree = tree
        self.digest = digest

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, self.tree.store.blob_size(self.digest), 0)

    def unlisted_xattr(self, name: str) -> str | None:
        return self.tree.resources.held_by(self.digest) if name == HELD_BY else None

    def open(self) -> Content:
        return InParts(lambda: self.tree.store.blob_reader(self.digest))


def control_node(tree: Tree, ino: int, path: tuple[str, ...]) -> Node:
    """Return the node at ``path`` within ``.convfs/``."""
    match path:
        case ():
            return ControlDirectory(tree, ino)
        case (name,) if name == STATS:
            return StatsFile(tree, ino)
        case (name,) if name == STATS_SVG:
            return stats_drawing(tree, ino)
        case ("settings.toml",):
            return DiskFile(ino, tree.store.root / FILE_NAME)
        case ("log",):
            return DiskFile(ino, tree.store.root / LOG)
        case ("errors",):
            return ErrorsDirectory(tree, ino)
        case ("errors", name):
            return ErrorFile(tree, ino, name)
        case ("trash",):
            return TrashDirectory(tree, ino)
        case (name, *rest) if name == NATIVE:
            return native_node(tree, ino, tuple(rest))
        case (name, tool, *rest) if name == SIDECARS:
            return SidecarFile(tree, ino, tool, tuple(rest))
        case ("blobs",):
            return BlobsDirectory(tree, ino)
        case ("blobs", name):
            return BlobFile(tree, ino, Hash(bytes.fromhex(name)))
    raise NotFound(f"there is no {'/'.join(path)} in {CONTROL}")
