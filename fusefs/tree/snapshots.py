"""``fs/``: the files that a turn was made with, where its program uploaded them, in a directory for each such event.

They are trees of hashes (``store.content.trees``), read one directory at a time as they are looked at. Nothing in them
is believed: names that no file can have are left out there, a tree or a link that is missing, damaged or too large is
EIO, and a file's content is what has its hash, whatever size the tree tells. No tree can be within itself.
"""

import stat
from collections import OrderedDict
from collections.abc import Mapping

from msgspec.structs import replace

from fusefs.inodes import Place
from fusefs.text.event_names import number_width
from fusefs.tree.node import DIRECTORY, SHORT, UNCOUNTED, Attributes, File, Item, Lazy, Link, Listing, Node
from fusefs.tree.paths import IN_SNAPSHOTS, SNAPSHOTS
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import ViewNode
from store.content.resolver import Reader
from store.content.trees import EntryKind, TreeEntry, entries
from store.errors import DamageError, NotFound
from store.ids import Hash

_LARGEST_TREE = 16 << 20
_LONGEST_TARGET = 4095
_KEPT = 64
"""The number of trees that are remembered."""

_MODES = {EntryKind.FILE: stat.S_IFREG | 0o400, EntryKind.DIRECTORY: stat.S_IFDIR | 0o500, EntryKind.LINK: stat.S_IFLNK}
"""Types, and the permissions that every entry has, so that who owns the mount can look at it."""


class Snapshots:
    """The snapshots of one mount. Used by one thread."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._read: OrderedDict[Hash, dict[str, TreeEntry]] = OrderedDict()

    def node(self, ino: int, view_id: int, path: str = "") -> Node:
        """Return the node at a path below ``fs/``. Raises NotFound if there is none, DamageError."""
        if not path:
            return SnapshotsDirectory(self.tree, ino, view_id)
        kind = self.entry(view_id, path).kind
        if kind is EntryKind.LINK:
            return self._link(ino, view_id, path)
        make = SnapshotDirectory if kind is EntryKind.DIRECTORY else SnapshotFile
        return make(self, ino, view_id, path)

    def entry(self, view_id: int, path: str) -> TreeEntry:
        """Return the entry at a path below ``fs/``; errors as :meth:`node`."""
        event, *parts = path.split("/")
        root = self.tree.roots.of(self.tree.view(view_id)).get(int(event))
        if root is None:
            raise NotFound(f"{SNAPSHOTS}/{event} is no longer there")
        entry = TreeEntry("", EntryKind.DIRECTORY, 0o700, 0, root)
        for part in parts:
            found = self.read(entry.hash).get(part) if entry.kind is EntryKind.DIRECTORY else None
            if found is None:
                raise NotFound(f"{SNAPSHOTS}/{path} is not there")
            entry = found
        return entry

    def read(self, digest: Hash) -> dict[str, TreeEntry]:
        """Return the entries of a tree by name. Raises DamageError where there is none."""
        found = self._read.get(digest)
        if found is None:
            found = {entry.name: entry for entry in entries(self._blob(digest, _LARGEST_TREE, "tree"))}
            self._read[digest] = found
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return found

    def attributes(self, ino: int, view_id: int, path: str, entry: TreeEntry) -> Attributes:
        """Return the attributes of what is at a path below ``fs/``."""
        view = self.tree.view(view_id)
        time_ms = view.time_of(view.row(int(path.partition("/")[0])))
        size, links = (0, UNCOUNTED) if entry.kind is EntryKind.DIRECTORY else (entry.size, 1)
        mode = 0o777 if entry.kind is EntryKind.LINK else entry.mode
        return Attributes(ino, _MODES[entry.kind] | mode, size, time_ms, links, SHORT)

    def xattrs(self, view_id: int, path: str) -> Mapping[str, str]:
        """Return where it comes from."""
        view = self.tree.view(view_id)
        event, _, below = path.partition("/")
        root = self.tree.roots.of(view).get(int(event), b"")
        return {
            "event": str(int(event)),
            "turn": str(view.row(int(event)).turn),
            "root": root.hex(),
            "path": below,
            "hash": self.entry(view_id, path).hash.hex(),
        }

    def forget(self) -> None:
        """Forget all trees: stored contents have changed."""
        self._read.clear()

    def _blob(self, digest: Hash, at_most: int, what: str) -> bytes:
        blobs = self.tree.store.blobs
        try:
            if blobs.size(digest) > at_most:
                raise DamageError(f"the {what} {digest.hex()} of a snapshot has more than {at_most} bytes")
            return blobs.blob(digest)
        except NotFound:
            raise DamageError(f"the {what} {digest.hex()} of a snapshot was not uploaded") from None

    def _link(self, ino: int, view_id: int, path: str) -> Link:
        digest = self.entry(view_id, path).hash
        target = self._blob(digest, _LONGEST_TARGET, "link")
        if not target or b"\0" in target:
            raise DamageError(f"the link {digest.hex()} of a snapshot leads nowhere")
        return SnapshotLink(self, ino, view_id, path, target)


class SnapshotsDirectory(ViewNode, Listing):
    """``fs/``."""

    def label(self) -> str:
        return SNAPSHOTS

    @property
    def parent(self) -> int:
        return self.place(Place.CONVERSATION)

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, UNCOUNTED, SHORT)

    def items(self) -> Mapping[str, Item]:
        view = self.view
        width, key = number_width(view.records), (IN_SNAPSHOTS, str(self.view_id))
        return {
            (name := f"{number:0{width}}"): Item(number, self.tree.ino((*key, name)))
            for number in self.tree.roots.of(view)
        }


class _SnapshotNode(ViewNode):
    """A node in a snapshot, or the root of one; ``path`` begins with the number of its event."""

    def __init__(self, snapshots: Snapshots, ino: int, view_id: int, path: str) -> None:
        super().__init__(snapshots.tree, ino, view_id)
        self.snapshots = snapshots
        self.path = path

    def label(self) -> str:
        return f"{SNAPSHOTS}/{self.path}"

    @property
    def entry(self) -> TreeEntry:
        return self.snapshots.entry(self.view_id, self.path)

    def attributes(self) -> Attributes:
        return self.snapshots.attributes(self.ino, self.view_id, self.path, self.entry)

    def xattrs(self) -> Mapping[str, str]:
        return self.snapshots.xattrs(self.view_id, self.path)


class SnapshotDirectory(_SnapshotNode, Listing):
    """``fs/NNNNN/``, or a directory in it."""

    @property
    def parent(self) -> int:
        above = self.path.rpartition("/")[0]
        return self._at(above) if above else self.place(Place.SNAPSHOTS)

    def _at(self, path: str) -> int:
        return self.tree.ino((IN_SNAPSHOTS, str(self.view_id), path))

    def lookup(self, name: str) -> int | None:
        return self._at(f"{self.path}/{name}") if name in self.snapshots.read(self.entry.hash) else None

    def items(self) -> Mapping[str, Item]:
        shown: dict[str, Item] = {}
        for position, (name, entry) in enumerate(self.snapshots.read(self.entry.hash).items(), 1):
            path = f"{self.path}/{name}"
            ino = self._at(path)
            shown[name] = Item(position, ino, self.snapshots.attributes(ino, self.view_id, path, entry))
        return shown


class SnapshotFile(_SnapshotNode, File):
    """A file of a snapshot. Read past the page cache: the tree may tell another size than it has."""

    direct = True

    def content_hash(self) -> Hash:
        return self.entry.hash

    def open(self) -> Lazy:
        return Lazy(self._reader)

    def _reader(self) -> Reader:
        digest = self.entry.hash
        try:
            return self.tree.store.blobs.reader(digest)
        except NotFound:
            raise DamageError(f"the content {digest.hex()} of a snapshot was not uploaded") from None


class SnapshotLink(Link):
    """A symbolic link of a snapshot."""

    def __init__(self, snapshots: Snapshots, ino: int, view_id: int, path: str, target: bytes) -> None:
        super().__init__(ino, "", 0)
        self.to = target
        self._snapshots, self._at = snapshots, (view_id, path)

    def attributes(self) -> Attributes:
        shown = self._snapshots.attributes(self.ino, *self._at, self._snapshots.entry(*self._at))
        return replace(shown, size=len(self.to))

    def xattrs(self) -> Mapping[str, str]:
        return self._snapshots.xattrs(*self._at)
