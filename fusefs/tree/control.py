"""The root with its ``README.md`` and ``import/``; and ``.convfs/``, the mount and its store themselves.

In ``.convfs/`` are numbers, settings, errors, the log, any blob by its hash.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree import paths
from fusefs.tree.conversation import conversation_attributes
from fusefs.tree.node import (
    DERIVED_FILE,
    DIRECTORY,
    SHORT,
    UNCOUNTED,
    Attributes,
    Bytes,
    DerivedFile,
    File,
    Item,
    Lazy,
    Listing,
    OpenContent,
)
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import BranchesDirectory, FixedDirectory, NamesDirectory
from fusefs.tree.waiting import Asked
from store.errors import NotFound
from store.events.conversation import Conversation
from store.ids import HASH_SIZE, Hash

SETTINGS, LOG = "settings.toml", "log"
STATS, STATS_SVG = "stats.json", "stats.svg"


class RootDirectory(NamesDirectory):
    """The root of the mount."""

    names = paths.TOP
    links = 2 + len(paths.TOP) - 1

    def lookup(self, name: str) -> int | None:
        return self.below(name) if name in (*self.names, paths.BY_RESOURCE, paths.CONTROL, paths.IGNORE) else None


class ImportDirectory(NamesDirectory):
    """``import/``. What is in it are scratch files, until they have been imported."""

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.mounted_ms, UNCOUNTED, SHORT)


class ControlDirectory(NamesDirectory):
    """``.convfs/``."""

    names = (paths.BLOBS, paths.ERRORS, LOG, paths.NATIVE, SETTINGS, STATS, STATS_SVG, paths.TRASH)
    links = 6


class DiskFile(File):
    """A file of the store that is shown as it is; empty while there is none."""

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

    def open(self) -> OpenContent:
        return self

    def read(self, offset: int, size: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                return os.pread(file.fileno(), size, offset)
        except FileNotFoundError:
            return b""


class ErrorsDirectory(BranchesDirectory):
    """``errors/``: why a file could not be read."""

    timeout = 0.0
    links = 2

    def branches(self) -> Mapping[str, str]:
        return {name: name for name in self.tree.errors}


def error_file(tree: Tree, ino: int, name: str) -> DerivedFile:
    """Return the node of one error."""

    def note() -> tuple[int, bytes]:
        found = tree.errors.get(name)
        if found is None:
            raise NotFound(f"{name} is no longer kept")
        return found

    return DerivedFile(ino, lambda: (len(note()[1]), note()[0]), lambda: Lazy(lambda: Bytes(note()[1])))


class BlobsDirectory(NamesDirectory):
    """``blobs/``: any content by its hash. It lists nothing: there may be millions."""

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, 0, 2)

    def lookup(self, name: str) -> int | None:
        try:
            digest = bytes.fromhex(name)
        except ValueError:
            return None
        if len(digest) != HASH_SIZE or digest.hex() != name:
            return None
        there = self.tree.store.addresses.blob("", digest) or _shown(self.tree, Hash(digest)) is not None
        return self.below(name) if there else None


def blob_file(tree: Tree, ino: int, name: str) -> DerivedFile:
    """Return the node of a content, which may be a blob or only in records. Its calls may raise Later."""
    named, blobs = Hash(bytes.fromhex(name)), tree.store.blobs
    digest = tree.store.addresses.blob("", named)
    if digest is not None:
        begin = partial(Lazy, partial(blobs.reader, digest))
        return DerivedFile(ino, lambda: (blobs.size(digest), 0), begin, direct=False, digest=digest)

    def content() -> bytes:
        found = _shown(tree, named)
        if found is None:
            raise NotFound(f"no record has the content {name} any more")
        return found

    return DerivedFile(ino, lambda: (len(content()), 0), lambda: Bytes(content()), direct=False, digest=named)


def _shown(tree: Tree, digest: Hash) -> bytes | None:
    """Return a content that only records have; a thread looks for it."""

    def begin() -> Asked:
        return Asked(tree.workers.begin(partial(tree.store.addresses.content, "", digest)), tree.changes)

    found: bytes | None = tree.shown_contents.of(digest.hex(), begin, changes=tree.changes).work.result()
    return found


class TrashDirectory(FixedDirectory, Listing):
    """``trash/``: the conversations that were removed. Moved back into ``conversations/``, they are there again."""

    links = 1
    timeout = 0.0

    def items(self) -> Mapping[str, Item]:
        return {name: self._item(trashed) for name, trashed in paths.trash_names(self.tree.store).items()}

    def _item(self, trashed: Conversation) -> Item:
        ino = inodes.base(Space.PLACE, self.tree.view_id(trashed.id)) + Place.CONVERSATION
        return Item(trashed.id, ino, conversation_attributes(ino, trashed.updated_ms))
