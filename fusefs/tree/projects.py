"""The directories that list conversations: ``conversations/``, ``transcripts/``, and a directory a project in each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.conversation import conversation_attributes
from fusefs.tree.documents import Transcript, transcript_attributes
from fusefs.tree.node import FIRST_POSITION, UNCOUNTED, Attributes, DirEntry, Entries, Link
from fusefs.tree.paths import MARKDOWN, numbered
from fusefs.tree.view_node import BranchesDirectory, FixedDirectory
from store.errors import NotFound
from store.events.conversation import Conversation
from store.filenames import Named, shown_name
from store.index.catalogue import ContextEntry

_PAGE = 200
"""Conversations that are fetched at once for a listing: about what one readdir request has room for."""


class ProjectsDirectory(BranchesDirectory):
    """``conversations/`` or ``transcripts/`` (``key`` says which): one directory a project."""

    @property
    def key(self) -> str:
        return self.path[0]

    def branches(self) -> Mapping[str, str]:
        return self.tree.projects()

    def lookup(self, name: str) -> int | None:
        project = self.tree.projects().get(name)
        if project is None and self.tree.store.catalogue.has_been_project(name):
            project = name
        return None if project is None else self.below(project)


class ProjectDirectory(FixedDirectory, Entries):
    """``conversations/PROJECT/``: a directory a conversation."""

    place = Place.CONVERSATION
    ending = ""
    links = UNCOUNTED

    @property
    def key(self) -> str:
        return self.path[0]

    @property
    def project(self) -> str:
        return self.path[1]

    def lookup(self, name: str) -> int | None:
        stem = name.removesuffix(self.ending)
        if self.ending and stem == name:
            return None
        conversation = self.find(stem)
        if conversation is None:
            return self._called_before(stem)
        view_id = self.tree.view_id(conversation.id)
        self._call(view_id, conversation)
        return self.tree.place(view_id, self.place)

    def _called_before(self, name: str) -> int | None:
        """Return a link to the conversation that was called otherwise before, which no listing shows."""
        conversation = self.tree.store.catalogue.called_before(self.project, name)
        if conversation is None:
            return None
        now = f"../{self.tree.project_name(conversation.project)}/{shown_name(conversation)}{self.ending}"
        path = (*self.path, name + self.ending)
        return self.tree.made(path, lambda ino: FormerName(ino, now, conversation, self.project, name))

    def _call(self, view_id: int, conversation: Named) -> tuple[int, str]:
        """Return the number of a conversation here, and the name that the kernel is told."""
        own, name = inodes.base(Space.PLACE, view_id) + self.place, shown_name(conversation)
        self.tree.called[own] = (self.project, name)
        return own, name

    def entries(self, after: int) -> Iterator[DirEntry]:
        name = ""
        if after >= FIRST_POSITION:
            try:
                name = self.tree.store.catalogue.entry(after - FIRST_POSITION + 1).name
            except NotFound:
                return
        # positions are context ids, which a rename does not change
        while page := self._page(name):
            for conversation in page:
                view_id = self.tree.view_id(conversation.id)
                own, called = self._call(view_id, conversation)
                shown = self._attributes(own, view_id, conversation)
                yield DirEntry(conversation.id + FIRST_POSITION - 1, (called + self.ending).encode(), shown)
            name = page[-1].name

    def _page(self, after: str) -> Sequence[ContextEntry | Conversation]:
        # listed files are not measured
        return self.tree.store.catalogue.page(self.project, after=after, limit=_PAGE)

    def _attributes(self, own: int, _view_id: int, conversation: ContextEntry | Conversation) -> Attributes:
        return conversation_attributes(own, conversation.updated_ms)

    def find(self, name: str) -> ContextEntry | None:
        """Return the conversation that is shown under a name, None if there is none."""
        found = self.tree.store.catalogue.by_name(self.project, name)
        if found is None and (number := numbered(name)) is not None:
            with suppress(NotFound):
                found = self.tree.store.catalogue.entry(number)
        is_it = found is not None and (found.project, shown_name(found)) == (self.project, name)
        return found if is_it else None


class FormerName(Link):
    """A former name of a conversation whose session now tells a better one: a link to its place."""

    def __init__(self, ino: int, target: str, conversation: ContextEntry, project: str, name: str) -> None:
        super().__init__(ino, target, conversation.updated_ms, 0.0)
        self.context = conversation.id
        self.project = project
        self.name = name


class TranscriptsDirectory(ProjectDirectory):
    """``transcripts/PROJECT/``: a file a conversation."""

    place = Place.TRANSCRIPT
    ending = MARKDOWN
    links = 2

    def _page(self, after: str) -> Sequence[ContextEntry | Conversation]:
        return self.tree.store.library.conversations(self.project, after=after, limit=_PAGE)

    def _attributes(self, own: int, view_id: int, conversation: ContextEntry | Conversation) -> Attributes:
        held = self.tree.view_at_hand(view_id)
        if self.tree.streams.of(view_id):
            return Transcript(self.tree, self.tree.place(view_id, self.place), view_id).attributes()
        # as it is read, and no newer
        now = held.conversation if held else conversation
        assert isinstance(now, Conversation)
        return transcript_attributes(own, now)
