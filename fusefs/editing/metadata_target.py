"""``metadata.json``, to be saved: its title, labels and marks. A save is one change of the metadata, and no version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from fusefs.editing.target import WholeTarget
from fusefs.inodes import Place
from fusefs.text.metadata import (
    ADDABLE,
    SETTABLE,
    line_of,
    metadata_changes,
    metadata_said,
    metadata_table,
    metadata_text,
)
from fusefs.text.parse import ParseError
from fusefs.tree.documents import MetadataFile
from store.editing.editor import Editor
from store.errors import Conflict, UsageError
from store.ids import hash_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from store.events.conversation import Conversation

KEY = "metadata.json"


class MetadataTarget(WholeTarget):
    """The metadata of one conversation. Its state is a hash of what may be changed, and one of all that is shown."""

    place = Place.METADATA
    file_name = KEY

    @property
    def conversation(self) -> Conversation:
        """The conversation as everything stands that is committed."""
        context = self.view.conversation.id
        return self.tree.store.conversation(context)

    def node(self, ino: int) -> MetadataFile:
        return MetadataFile(self.tree, ino, self.view_id)

    def size(self) -> int:
        return len(self.drawn())

    def drawn(self) -> bytes:
        return metadata_text(self.view.conversation)

    def state(self) -> str:
        return _state(self.conversation)

    def prepare(self, state: str, data: bytes) -> PreparedMetadata | None:
        conversation = self.conversation
        _check(state, conversation)
        shown, said = metadata_table(conversation), metadata_said(data)
        changes = metadata_changes(shown, said, data)
        editor = Editor(self.tree.store)
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
            Editor(self.tree.store).describe(self.conversation.id, changes)
            self.tree.renew(self.view_id)
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
    settable = msgspec.json.encode([table.get(key) for key in (*SETTABLE, *ADDABLE)])
    return f"{hash_bytes(settable).hex()} {hash_bytes(metadata_text(conversation)).hex()}"


def _check(state: str, conversation: Conversation) -> None:
    """Raise Conflict if what may be changed is not what it was; the rest changes as a conversation goes on."""
    if state.partition(" ")[0] != _state(conversation).partition(" ")[0]:
        raise Conflict("it was changed by somebody else in the meantime: compare, and save again")
