"""``.versions/``: every state that a conversation has been in, a read-only directory each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.conversation import ConversationDirectory, conversation_attributes
from fusefs.tree.node import Entry, Node
from fusefs.tree.paths import version_name
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import ViewDirectory
from store.events.conversation import Version

_NUMBER = re.compile(r"[0-9]{4,18}(?=-)")


class VersionsDirectory(ViewDirectory):
    """``.versions/``."""

    __slots__ = ()

    @property
    def _versions(self) -> list[Version]:
        return self.tree.store.versions(self.view.conversation.id)

    def lookup(self, name: str) -> Node | None:
        found = _NUMBER.match(name)
        number = int(found[0]) if found else 0
        # a directory has one name only: no shorthands here
        if all(version.number != number or version_name(version) != name for version in self._versions):
            return None
        view_id = self.tree.version_view(self.view.conversation.id, number)
        return ConversationDirectory(self.tree, inodes.base(Space.PLACE, view_id) + Place.CONVERSATION, view_id)

    def entries(self, after: int) -> Iterator[Entry]:
        context = self.view.conversation.id
        for version in self._versions:
            if version.number + FIRST_POSITION - 1 <= after:
                continue
            ino = inodes.base(Space.PLACE, self.tree.version_view(context, version.number)) + Place.CONVERSATION
            yield Entry(
                version.number + FIRST_POSITION - 1,
                version_name(version).encode(),
                conversation_attributes(ino, version.time_ms),
            )
