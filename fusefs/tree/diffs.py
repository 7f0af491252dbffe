"""``changes/``: what a conversation did to each file, as a diff of its own at the file's path.

It takes a replay of the conversation to know them, by a thread, once something in the directory is looked for. So it is
not listed: a walk through a mount costs no replay. Names and sizes are exact, and not kept by the kernel.
"""

from collections.abc import Mapping

from msgspec import structs

from fusefs.inodes import Place
from fusefs.text.resource_names import resource_path
from fusefs.tree.node import DERIVED_FILE, DIRECTORY, UNCOUNTED, Attributes, Bytes, File, Item, Listing, Node
from fusefs.tree.paths import CHANGES, IN_CHANGES
from fusefs.tree.tree import Tree
from fusefs.tree.view import View
from fusefs.tree.view_node import ViewNode
from fusefs.tree.waiting import Asked, Lately, Later
from store.errors import NotFound, StoreBusy
from store.worktree.changes import file_changes

_ENDING = ".diff"
_KEPT = 8
"""Of how many conversations the diffs are remembered."""


class FileDiffs(Asked):
    """The diffs of one state of a conversation, by path below ``changes/``; files at one path have one together."""

    def __init__(self, tree: Tree, view: View) -> None:
        self._library = tree.store.library
        self._conversation = structs.replace(view.conversation, head=view.head)
        self.texts: dict[str, bytes] = {}
        self.folders: dict[str, dict[str, str]] = {"": {}}
        """The paths of what is directly in each directory, by name."""
        super().__init__(tree.workers.begin(self._draw), tree.changes)

    def _draw(self) -> None:
        told: dict[str, str] = {}
        for change in file_changes(self._library, self._conversation):
            path = resource_path(change.path)
            told[path] = told.get(path, "") + change.text
        above = {path[:at] for path in told for at, character in enumerate(path) if character == "/"}
        for path, text in told.items():
            path += _ENDING
            while path in above:
                path += _ENDING
            self.texts[path] = text.encode(errors="replace")
            self._place(path)

    def _place(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if folder not in self.folders:
            self.folders[folder] = {}
            self._place(folder)
        self.folders[folder][name] = path


class Diffs:
    """The diffs of the conversations of one mount that were looked at last."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._drawn: Lately[FileDiffs] = Lately(_KEPT)

    def of(self, view: View) -> FileDiffs:
        """Return those of a view. Raises Later while they are drawn, and StoreBusy where that takes too long."""
        diffs = self._drawn.of(f"{view.id} {view.head}", lambda: FileDiffs(self._tree, view), changes=None)
        try:
            diffs.work.result()
        except (Later, StoreBusy):
            raise
        except Exception:
            # the next one who asks has them drawn again
            self.forget()
            raise
        return diffs

    def node(self, ino: int, view_id: int, path: str = "") -> Node:
        """Return the node at a path below ``changes/``. Raises NotFound if there is none."""
        if not path or path in self.of(self._tree.view(view_id)).folders:
            return DiffsDirectory(self._tree, ino, view_id, self, path)
        return DiffFile(self._tree, ino, view_id, self, path)

    def forget(self) -> None:
        self._drawn.forget()


class _DiffNode(ViewNode):
    """A node in ``changes/``, or that itself (``path`` is "")."""

    def __init__(self, tree: Tree, ino: int, view_id: int, diffs: Diffs, path: str) -> None:
        super().__init__(tree, ino, view_id)
        self.diffs = diffs
        self.path = path

    def label(self) -> str:
        return f"{CHANGES}/{self.path}"

    def at(self, path: str) -> int:
        """Return the inode number of a path below ``changes/``."""
        return self.tree.ino((IN_CHANGES, str(self.view_id), path)) if path else self.place(Place.DIFFS)


class DiffsDirectory(_DiffNode, Listing):
    """``changes/``, or a directory in it."""

    @property
    def parent(self) -> int:
        return self.at(self.path.rpartition("/")[0]) if self.path else self.place(Place.CONVERSATION)

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, UNCOUNTED, timeout=0.0)

    def items(self) -> Mapping[str, Item]:
        held = self.diffs.of(self.view).folders.get(self.path, {})
        return {name: Item(position, self.at(path)) for position, (name, path) in enumerate(held.items(), 1)}


class DiffFile(_DiffNode, File):
    """``changes/PATH.diff``."""

    direct = True

    @property
    def _text(self) -> bytes:
        text = self.diffs.of(self.view).texts.get(self.path)
        if text is None:
            raise NotFound(f"{self.label()} is no longer there")
        return text

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, len(self._text), self.view.time_ms, timeout=0.0)

    def open(self) -> Bytes:
        return Bytes(self._text)
