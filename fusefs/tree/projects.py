"""The directories that list conversations: ``conversations/``, ``transcripts/``, and a directory a project in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.conversation import conversation_attributes
from fusefs.tree.documents import transcript_attributes
from fusefs.tree.node import DIRECTORY, SHORT, UNCOUNTED, Attributes, Directory, Entry, Node
from fusefs.tree.paths import CONVERSATIONS, TRANSCRIPTS
from fusefs.tree.shown_names import Named, numbered, shown_name
from fusefs.tree.view import FIRST_POSITION
from store.errors import NotFound
from store.index.catalogue import Entry as Described

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

MARKDOWN = ".md"

N = TypeVar("N", bound=Named)

_PAGE = 200
"""Conversations that are fetched at once for a listing: about what one readdir request has room for."""


class ProjectsDirectory(Directory):
    """``conversations/`` or ``transcripts/`` (``key`` says which): one directory a project."""

    __slots__ = ("key", "tree")

    def __init__(self, tree: Tree, ino: int, key: str) -> None:
        super().__init__(ino)
        self.tree = tree
        self.key = key

    @property
    def parent(self) -> int:
        """The inode number of the root."""
        return inodes.ROOT

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2 + len(self.tree.projects()), SHORT)

    def lookup(self, name: str) -> Node | None:
        project = self.tree.projects().get(name)
        return None if project is None else self.tree.fixed((self.key, project))

    def entries(self, after: int) -> Iterator[Entry]:
        found = [(name, self.tree.fixed((self.key, project))) for name, project in self.tree.projects().items()]
        for name, node in sorted(found, key=lambda item: item[1].ino):
            position = FIRST_POSITION + node.ino
            if position > after:
                yield Entry(position, name.encode(), node.attributes())


class ProjectDirectory(Directory):
    """``conversations/PROJECT/``: a directory a conversation."""

    __slots__ = ("project", "tree")

    key = CONVERSATIONS
    links = UNCOUNTED

    def __init__(self, tree: Tree, ino: int, project: str) -> None:
        super().__init__(ino)
        self.tree = tree
        self.project = project

    @property
    def parent(self) -> int:
        """The inode number of the directory of all projects."""
        return self.tree.fixed((self.key,)).ino

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), self.links, SHORT)

    def lookup(self, name: str) -> Node | None:
        return self._node(self.find(name), Place.CONVERSATION)

    def _node(self, conversation: Described | None, place: Place) -> Node | None:
        if conversation is None:
            return None
        view_id = self.tree.view_id(conversation.id)
        self._call(view_id, place, conversation)
        return self.tree.place(view_id, place)

    def _call(self, view_id: int, place: Place, conversation: Named) -> str:
        """Return the name that a conversation is shown under, which the kernel is told of."""
        name = shown_name(conversation)
        self.tree.called[inodes.base(Space.PLACE, view_id) + place] = (self.project, name)
        return name

    def entries(self, after: int) -> Iterator[Entry]:
        # what is listed is not measured
        for conversation in self._pages(after, partial(self.tree.store.listed, self.project)):
            view_id = self.tree.view_id(conversation.id)
            yield Entry(
                conversation.id + FIRST_POSITION - 1,
                self._call(view_id, Place.CONVERSATION, conversation).encode(),
                conversation_attributes(
                    inodes.base(Space.PLACE, view_id) + Place.CONVERSATION, conversation.updated_ms
                ),
            )

    def find(self, name: str) -> Described | None:
        """Return the conversation that is shown under a name, None if there is none."""
        conversation = self.tree.store.named(self.project, name)
        if conversation is not None:
            return conversation if shown_name(conversation) == name else None
        number = numbered(name)
        if number is None:
            return None
        try:
            conversation = self.tree.store.entry(number)
        except NotFound:
            return None
        return conversation if (conversation.project, shown_name(conversation)) == (self.project, name) else None

    def _pages(self, after: int, fetch: Callable[..., Sequence[N]]) -> Iterator[N]:
        """Yield conversations by name, fetched in pages; positions are context ids, which a rename does not change."""
        name = ""
        if after >= FIRST_POSITION:
            try:
                name = self.tree.store.entry(after - FIRST_POSITION + 1).name
            except NotFound:
                return
        while page := fetch(after=name, limit=_PAGE):
            yield from page
            name = page[-1].name


class TranscriptsDirectory(ProjectDirectory):
    """``transcripts/PROJECT/``: a file a conversation."""

    __slots__ = ()

    key = TRANSCRIPTS
    links = 2

    def lookup(self, name: str) -> Node | None:
        stem = name.removesuffix(MARKDOWN)
        return self._node(self.find(stem) if stem != name else None, Place.TRANSCRIPT)

    def entries(self, after: int) -> Iterator[Entry]:
        for conversation in self._pages(after, partial(self.tree.store.conversations, self.project)):
            view_id = self.tree.view_id(conversation.id)
            ino = inodes.base(Space.PLACE, view_id) + Place.TRANSCRIPT
            held = self.tree.view_at_hand(view_id)
            if self.tree.streams.of(view_id):
                attributes = self.tree.place(view_id, Place.TRANSCRIPT).attributes()
            else:
                # as it is read, and no newer
                attributes = transcript_attributes(ino, held.conversation if held else conversation)
            yield Entry(
                conversation.id + FIRST_POSITION - 1,
                (self._call(view_id, Place.TRANSCRIPT, conversation) + MARKDOWN).encode(),
                attributes,
            )
