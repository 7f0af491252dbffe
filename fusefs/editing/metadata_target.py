"""``metadata.json``, to be saved: its title, labels and marks. A save is one change of the metadata, and no version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from fusefs.editing.target import Target
from fusefs.inodes import Place, Space, base
from fusefs.text.metadata import SETTABLE, line_of, metadata_changes, metadata_said, metadata_table, metadata_text
from fusefs.text.parse import ParseError
from fusefs.tree.documents import MetadataFile
from fusefs.tree.node import Bytes, Content, Directory
from store.editing.editor import Editor
from store.errors import Conflict, UsageError
from store.ids import hash_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusefs.tree.tree import Tree
    from store.events.conversation import Conversation

KEY = "metadata.json"


class MetadataTarget(Target):
    """The metadata of one conversation. Its state is a hash of what may be changed, and one of all that is shown."""

    def __init__(self, tree: Tree, view_id: int) -> None:
        self._tree = tree
        self._view = view_id

    @property
    def view_id(self) -> int:
        return self._view

    @property
    def ino(self) -> int:
        return base(Space.PLACE, self._view) + Place.METADATA

    @property
    def key(self) -> str:
        return KEY

    @property
    def name(self) -> str:
        return KEY

    @property
    def path(self) -> str:
        return KEY

    @property
    def conversation(self) -> Conversation:
        """The conversation as everything stands that is committed."""
        context = self._tree.view(self._view).conversation.id
        return self._tree.store.conversation(context)

    def directory(self) -> Directory:
        directory = self._tree.place(self._view, Place.CONVERSATION)
        assert isinstance(directory, Directory)
        return directory

    def node(self, ino: int) -> MetadataFile:
        return MetadataFile(self._tree, ino, self._view)

    def size(self) -> int:
        return len(self.drawn())

    def read(self, offset: int, size: int) -> bytes:
        return self.drawn()[offset : offset + size]

    def drawn(self) -> bytes:
        return metadata_text(self._tree.view(self._view).conversation)

    def snapshot(self) -> Content:
        return Bytes(self.drawn())

    def state(self) -> str:
        return _state(self.conversation)

    def prepare(self, state: str, data: bytes) -> PreparedMetadata | None:
        conversation = self.conversation
        _check(state, conversation)
        shown, said = metadata_table(conversation), metadata_said(data)
        changes = metadata_changes(shown, said, data)
        editor = Editor(self._tree.store)
        for key, value in changes.items():
            try:
                editor.described(conversation.id, {key: value})
            except UsageError as error:
                raise ParseError(line_of(data, key), str(error)) from None
        return None if {**SETTABLE, **said} == shown else PreparedMetadata(self, state, said, changes)

    def describe(self, state: str, changes: Mapping[str, object]) -> Conversation:
        """Change the metadata, which was in ``state``, and return what becomes of it."""
        _check(state, self.conversation)
        if changes:
            Editor(self._tree.store).describe(self.conversation.id, changes)
            self._tree.renew(self._view)
        return self.conversation


class PreparedMetadata(Struct, frozen=True):
    """What the metadata is to say."""

    target: MetadataTarget
    state: str
    said: dict[str, object]
    changes: dict[str, object]

    @property
    def result(self) -> str:
        """The state that this leads to."""
        conversation = self.target.conversation
        metadata = {**conversation.metadata, **self.changes}
        known = {key: value for key, value in metadata.items() if value is not None}
        return _state(msgspec.structs.replace(conversation, title=str(known.get("title", "")), metadata=known))

    @property
    def touches(self) -> tuple[int, ...]:
        """Nothing that is not drawn from all of a conversation."""
        return ()

    def commit(self) -> str:
        """Say it. What has gone on meanwhile is then shown as it is, and not as it was written back."""
        conversation = self.target.describe(self.state, self.changes)
        return _state(conversation) if {**SETTABLE, **self.said} == metadata_table(conversation) else ""


def _state(conversation: Conversation) -> str:
    table = metadata_table(conversation)
    settable = msgspec.json.encode([table[key] for key in SETTABLE])
    return f"{hash_bytes(settable).hex()} {hash_bytes(metadata_text(conversation)).hex()}"


def _check(state: str, conversation: Conversation) -> None:
    """Raise Conflict if what may be changed is not what it was; the rest changes as a conversation goes on."""
    if state.partition(" ")[0] != _state(conversation).partition(" ")[0]:
        raise Conflict("it was changed by somebody else in the meantime: compare, and save again")
