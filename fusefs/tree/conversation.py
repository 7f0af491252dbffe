"""The directory of one conversation, or of an earlier version of one."""

from collections.abc import Iterator, Mapping

from fusefs.inodes import Place
from fusefs.tree.node import DIRECTORY, Attributes, Entry, Node
from fusefs.tree.outputs import PLACES as OUTPUTS
from fusefs.tree.outputs import shows_outputs
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import ViewDirectory
from store.events.outputs import AGENTS, ARTIFACTS

LABEL_ATTRIBUTE = "label."
"""Leads the names of extended attributes that are a conversation's labels."""

_LONGEST_LABEL = 255 - len("user.convfs.label.")

_LINKS = 5
"""Of a conversation's directory: itself twice, ``events``, ``forks`` and ``resources``; few have the others."""

_LISTED: Mapping[str, Place] = {
    AGENTS.directory: Place.AGENTS,
    ARTIFACTS.directory: Place.ARTIFACTS,
    "events": Place.EVENTS,
    "events.json": Place.EVENTS_JSON,
    "forks": Place.FORKS,
    "metadata.json": Place.METADATA,
    "resources": Place.RESOURCES,
}
_UNLISTED: Mapping[str, Place] = {
    ".records": Place.RECORDS,
    ".versions": Place.VERSIONS,
    "context.json": Place.CONTEXT,
    "family.svg": Place.FAMILY,
}
_OF_THE_HEAD = (Place.FAMILY, Place.VERSIONS, *OUTPUTS)
"""What earlier versions do not have."""


def conversation_attributes(ino: int, time_ms: int) -> Attributes:
    """Return the attributes of a conversation's directory."""
    return Attributes(ino, DIRECTORY, 0, time_ms, _LINKS)


def _fits(label: str) -> bool:
    """Say whether the name of an extended attribute can hold a label."""
    return "\0" not in label and len(label.encode()) <= _LONGEST_LABEL


class ConversationDirectory(ViewDirectory):
    """``conversations/PROJECT/NAME/``, and ``.versions/…/`` in it."""

    __slots__ = ()

    @property
    def parent(self) -> int:
        """The inode number of the project's directory, or of ``.versions``."""
        return self.tree.parent_of(self.view)

    def attributes(self) -> Attributes:
        return conversation_attributes(self.ino, self.view.time_ms)

    def xattrs(self) -> Mapping[str, str]:
        view = self.view
        conversation = view.conversation
        shown = {
            "context": str(conversation.id),
            "head": str(view.head),
            "title": conversation.title,
            "format": conversation.format,
            "source": conversation.source,
        }
        shown = {name: value for name, value in shown.items() if value}
        shown |= {LABEL_ATTRIBUTE + label: "1" for label in conversation.labels if _fits(label)}
        return shown

    def lookup(self, name: str) -> Node | None:
        place = _LISTED.get(name) or _UNLISTED.get(name)
        if place is None or (place in _OF_THE_HEAD and self.view.version is not None):
            return None
        return self.tree.place(self.view_id, place)

    def entries(self, after: int) -> Iterator[Entry]:
        for position, (name, place) in enumerate(_LISTED.items(), FIRST_POSITION):
            if position > after and (place not in OUTPUTS or shows_outputs(self.tree, self.view, OUTPUTS[place])):
                yield Entry(position, name.encode(), self.tree.place(self.view_id, place).attributes())
