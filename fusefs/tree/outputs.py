"""``artifacts/`` and ``agents/``: the full outputs of tools and of agents, kept beside a conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from fusefs import inodes
from fusefs.inodes import Handed, Place, Space
from fusefs.tree.node import DIRECTORY, FILE, HELD_BY, SHORT, Attributes, Content, Entry, File, InParts, Node
from fusefs.tree.view_node import ViewDirectory, ViewNode
from store.artifacts.artifacts import Artifacts
from store.artifacts.kept import Output, has_outputs, kept_output, kept_outputs
from store.artifacts.names import identity
from store.errors import NotFound
from store.events.outputs import AGENTS, ARTIFACTS, Outputs

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree
    from fusefs.tree.view import View

PLACES = {Place.ARTIFACTS: ARTIFACTS, Place.AGENTS: AGENTS}

_FIRST_POSITION = 1 << 50
"""Beyond it are the positions of names, which are made of their hashes; those of scratch files come after."""
_KEY_BYTES = 6


class Key(NamedTuple):
    """Which output a file is: its conversation's view, its sort, its name."""

    view_id: int
    outputs: Outputs
    name: str


class OutputNames:
    """What the mount knows of names of outputs, beside what the store has."""

    def __init__(self, tree: Tree) -> None:
        self.artifacts = Artifacts(tree.store)
        self.numbers: Handed[Key] = Handed(1)
        """Their inode numbers, handed out until the kernel forgets them."""
        self.aliases: dict[Key, str] = {}
        """The names that they were made with, and the names that they have."""
        self.hidden: set[Key] = set()
        """Those that are being removed."""

    def ino(self, key: Key) -> int:
        """Return the inode number of an output."""
        return inodes.base(Space.OUTPUT, key.view_id) + self.numbers.number(key)

    def leaving(self, beside: Key) -> set[str]:
        """Return the names of outputs that are being removed, among those that one belongs to."""
        return {key.name for key in self.hidden if key[:2] == beside[:2]}

    def forget(self, ino: int) -> None:
        """Take note that the kernel no longer knows one, or another by its number."""
        if inodes.split(ino)[0] == Space.OUTPUT:
            self.numbers.drop(ino & inodes.MAX_NUMBER)


def output_node(tree: Tree, view_id: int, ino: int) -> OutputFile:
    """Return the node of space OUTPUT with that inode number. Raises NotFound."""
    key = tree.outputs.numbers.key(ino & inodes.MAX_NUMBER)
    if key is None or key.view_id != view_id:
        raise NotFound("this output is no longer there")
    return OutputFile(tree, ino, key)


class OutputsDirectory(ViewDirectory):
    """``artifacts/`` or ``agents/``. A file that is made here becomes an output, with the next number."""

    __slots__ = ()

    @property
    def outputs(self) -> Outputs:
        """Which of the two it is."""
        return PLACES[Place(self.number)]

    def attributes(self) -> Attributes:
        view = self.view
        return Attributes(self.ino, DIRECTORY, 0, max(view.time_ms, view.conversation.described_ms), 2, SHORT)

    def key(self, name: str) -> Key:
        """Return which output a name here stands for, if it is one's: the name that one was made with leads to it."""
        key = Key(self.view_id, self.outputs, name)
        return key._replace(name=self.tree.outputs.aliases.get(key, name))

    def file(self, key: Key) -> OutputFile:
        """Return the node of an output."""
        return OutputFile(self.tree, self.tree.outputs.ino(key), key)

    def lookup(self, name: str) -> Node | None:
        key = self.key(name)
        if key in self.tree.outputs.hidden or found(self.tree, self.view, key) is None:
            return None
        return self.file(key)

    def entries(self, after: int) -> Iterator[Entry]:
        known = self.tree.outputs
        context = self.view.conversation.id
        growing = known.artifacts.growing(context, self.outputs)
        there = {**kept_outputs(self.tree.store, self.view.conversation, self.outputs), **growing}
        for position, name in sorted((_position(name), name) for name in there):
            key = Key(self.view_id, self.outputs, name)
            if position > after and key not in known.hidden:
                yield Entry(position, name.encode(), _attributes(known.ino(key), there[name]))


def _position(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=_KEY_BYTES).digest()
    return _FIRST_POSITION + int.from_bytes(digest)


def shows_outputs(tree: Tree, view: View, outputs: Outputs) -> bool:
    """Say whether a directory of outputs is listed: where there are any."""
    if view.version is not None:
        return False
    return has_outputs(view.conversation, outputs) or bool(
        tree.outputs.artifacts.growing(view.conversation.id, outputs)
    )


def found(tree: Tree, view: View, key: Key) -> Output | None:
    """Return an output as it is now; None if there is none."""
    context = view.conversation.id
    growing = tree.outputs.artifacts.growing_one(context, key.outputs, key.name)
    if growing is not None:
        return growing
    kept = kept_output(tree.store, view.conversation, key.outputs, key.name)
    # it may have ended since the view was made
    return kept or kept_output(tree.store, tree.store.entry(context), key.outputs, key.name)


def _attributes(ino: int, output: Output) -> Attributes:
    return Attributes(ino, FILE, output.size, 0, timeout=SHORT, time_ns=output.modified_ns)


class OutputFile(ViewNode, File):
    """One output: while it is written, as far as it has come."""

    __slots__ = ("key",)

    def __init__(self, tree: Tree, ino: int, key: Key) -> None:
        super().__init__(tree, ino, key.view_id)
        self.key = key

    @property
    def output(self) -> Output:
        """What it shows now. Raises NotFound if it is gone."""
        output = found(self.tree, self.view, self.key)
        if output is None:
            raise NotFound(f"there is no {self.label()}")
        return output

    @property
    def name(self) -> str:
        """The name that it is listed under."""
        return self.key.name

    def label(self) -> str:
        return f"{self.key.outputs.directory}/{self.key.name}"

    def attributes(self) -> Attributes:
        return _attributes(self.ino, self.output)

    def xattrs(self) -> Mapping[str, str]:
        output, outputs = self.output, self.key.outputs
        known = {"uri": f"{outputs.scheme}://{identity(outputs, self.key.name)}"}
        return known | ({"hash": output.blob.hex()} if output.blob else {})

    def unlisted_xattr(self, name: str) -> str | None:
        blob = self.output.blob if name == HELD_BY else None
        return self.tree.resources.held_by(blob) if blob else None

    def open(self) -> Content:
        return InParts(self.begin)

    def begin(self) -> Content:
        """Begin to read it. Raises NotFound where its content is missing; what names it goes on to."""
        context = self.view.conversation.id
        output = self.output
        try:
            return self.tree.outputs.artifacts.reader(context, self.key.outputs, output)
        except NotFound as error:
            self.tree.errors.add(self.tree.describe(self.ino), f"its content is missing: {error}")
            raise
