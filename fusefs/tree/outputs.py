"""``artifacts/`` and ``agents/``: the full outputs of tools and of agents, kept beside a conversation."""

from collections.abc import Mapping

from fusefs.inodes import Place
from fusefs.tree.node import DIRECTORY, FILE, SHORT, Attributes, File, Item, Lazy, Listing, OpenContent
from fusefs.tree.tree import Key, Tree
from fusefs.tree.view import View
from fusefs.tree.view_node import ViewDirectory, ViewNode
from store.artifacts.names import Output, has_outputs, identity, kept_output, kept_outputs
from store.errors import NotFound
from store.events.conversation import AGENTS, ARTIFACTS, Outputs
from store.ids import Hash, hash_bytes

PLACES = {Place.ARTIFACTS: ARTIFACTS, Place.AGENTS: AGENTS}

_FIRST_POSITION = 1 << 50
"""Beyond it are the positions of names, which are made of their hashes; those of scratch files come after."""
_KEY_BYTES = 6


class OutputsDirectory(ViewDirectory, Listing):
    """``artifacts/`` or ``agents/``. A file that is made here becomes an output, with the next number."""

    @property
    def outputs(self) -> Outputs:
        return PLACES[Place(self.number)]

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.described_ms, 2, SHORT)

    def key(self, name: str) -> Key:
        """Return the output that a name here stands for, if any: the name that one was made with leads to it, too."""
        key = Key(self.view_id, self.outputs, name)
        return key._replace(name=self.tree.outputs.aliases.get(key, name))

    def lookup(self, name: str) -> int | None:
        key = self.key(name)
        if key in self.tree.outputs.hidden or found(self.tree, self.view, key) is None:
            return None
        return self.tree.outputs.ino(key)

    def items(self) -> Mapping[str, Item]:
        conversation, outputs, known = self.view.conversation, self.outputs, self.tree.outputs
        growing = known.artifacts.growing(conversation.id, outputs)
        there = {**kept_outputs(self.tree.store.blobs, conversation, outputs), **growing}
        leaving = known.leaving(Key(self.view_id, outputs, ""))
        return {name: self._item(name, output) for name, output in there.items() if name not in leaving}

    def _item(self, name: str, output: Output) -> Item:
        ino = self.tree.outputs.ino(Key(self.view_id, self.outputs, output.name))
        digest = hash_bytes(name.encode())[:_KEY_BYTES]
        return Item(_FIRST_POSITION + int.from_bytes(digest), ino, _attributes(ino, output))


def shows_outputs(tree: Tree, view: View, outputs: Outputs) -> bool:
    """Return whether a directory of outputs is listed: it is if there are any."""
    if view.version is not None:
        return False
    return has_outputs(view.conversation, outputs) or bool(
        tree.outputs.artifacts.growing(view.entry.id, outputs)
    )


def found(tree: Tree, view: View, key: Key) -> Output | None:
    """Return an output as it is now; None if there is none."""
    context = view.entry.id
    growing = tree.outputs.artifacts.growing_one(context, key.outputs, key.name)
    if growing is not None:
        return growing
    kept = kept_output(tree.store.blobs, view.conversation, key.outputs, key.name)
    # it may have ended since the view was made
    return kept or kept_output(tree.store.blobs, tree.store.catalogue.entry(context), key.outputs, key.name)


def _attributes(ino: int, output: Output) -> Attributes:
    return Attributes(ino, FILE, output.size, 0, timeout=SHORT, time_ns=output.modified_ns)


class OutputFile(ViewNode, File):
    """One output: while it is written, as far as it has come."""

    def __init__(self, tree: Tree, ino: int, key: Key) -> None:
        super().__init__(tree, ino, key.view_id)
        self.key = key

    @property
    def output(self) -> Output:
        """The output as it is now. Raises NotFound if it is gone."""
        output = found(self.tree, self.view, self.key)
        if output is None:
            raise NotFound(f"there is no {self.label()}")
        return output

    @property
    def name(self) -> str:
        return self.key.name

    def label(self) -> str:
        return f"{self.key.outputs.directory}/{self.key.name}"

    def attributes(self) -> Attributes:
        return _attributes(self.ino, self.output)

    def xattrs(self) -> Mapping[str, str]:
        output, outputs = self.output, self.key.outputs
        known = {"uri": f"{outputs.scheme}://{identity(outputs, self.key.name)}"}
        return known | ({"hash": output.blob.hex()} if output.blob else {})

    def content_hash(self) -> Hash | None:
        return self.output.blob

    def open(self) -> OpenContent:
        return Lazy(self.begin)

    def begin(self) -> OpenContent:
        """Begin to read it. Raises Missing where its content is; what names it goes on to."""
        return self.tree.outputs.artifacts.reader(self.view.entry.id, self.key.outputs, self.output)
