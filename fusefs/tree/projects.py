"""The directories that list conversations: ``conversations/``, ``transcripts/``, and a directory a project in each.

Subagents' conversations are in the one that started them, and their transcripts in a directory beside its own. What
listings leave out (warm-ups of tools, sessions in which nobody speaks) is in ``.aside/``.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.conversation import conversation_attributes
from fusefs.tree.documents import Transcript, transcript_attributes
from fusefs.tree.node import DIRECTORY, FIRST_POSITION, SHORT, UNCOUNTED, Attributes, Directory, DirEntry, Entries, Link
from fusefs.tree.paths import CONTROL, CONVERSATIONS, MARKDOWN, Paths, numbered, transcript_path
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import BranchesDirectory, FixedDirectory, ViewDirectory
from store.conversations.places import ASIDE, subagents_in
from store.errors import NotFound
from store.events.conversation import Conversation, called_before
from store.filenames import Named, shown_name
from store.index.catalogue import Among, ContextEntry

_PAGE = 200
"""Conversations that are fetched at once for a listing: about what one readdir request has room for."""
_LAST = 1 << 40
"""The position of ``.aside/``."""


def _control(tree: Tree, depth: int) -> int:
    """Return an unlisted link to ``.convfs/`` from some directory: links in files below lead as from usual places."""
    return tree.made(("/control", str(depth)), lambda ino: Link(ino, "../" * depth + CONTROL, tree.mounted_ms))


class ProjectsDirectory(BranchesDirectory):
    """``conversations/`` or ``transcripts/`` (``key`` says which): one directory a project."""

    @property
    def key(self) -> str:
        return self.path[0]

    def branches(self) -> Mapping[str, str]:
        return self.tree.projects()

    def lookup(self, name: str) -> int | None:
        if name == CONTROL:
            return _control(self.tree, 1)
        project = self.tree.projects().get(name)
        if project is None and self.tree.store.catalogue.has_been_project(name):
            project = name
        return None if project is None else self.below(project)


class ConversationsDirectory(Directory):
    """A directory with conversations in it, ``shown`` as their directories or their transcripts."""

    __slots__ = ()

    tree: Tree
    shown = Place.CONVERSATION
    ending = ""

    @property
    @abstractmethod
    def prefix(self) -> str:
        """The path of the directory that they are in; for transcripts, of the one that their conversations are in."""

    def entry(self, conversation: ContextEntry | Conversation, name: str, prefix: str) -> DirEntry:
        """Return the entry of a conversation that is here under a name; ``prefix`` is the own one."""
        view_id = self.tree.view_id(conversation.id)
        own = self._call(view_id, name, prefix)
        is_file = self.shown is Place.TRANSCRIPT
        draw = self._transcript(own, view_id, conversation) if is_file else None
        attributes = draw or conversation_attributes(own, conversation.updated_ms)
        return DirEntry(_position(conversation.id), (name + self.ending).encode(), attributes)

    def _transcript(self, own: int, view_id: int, conversation: ContextEntry | Conversation) -> Attributes:
        held = self.tree.view_at_hand(view_id)
        ino = self.tree.known.get(own, own)
        if ino != own or ino in self.tree.served or self.tree.streams.of(view_id):
            return Transcript(self.tree, ino, view_id).attributes()
        # as it is read, and no newer
        now = held.conversation if held else conversation
        if isinstance(now, ContextEntry):
            [now] = self.tree.with_sums([now])
        return transcript_attributes(own, now)

    def known(self, conversation: ContextEntry, name: str) -> int:
        """Return the number of a conversation that is looked up here by its name."""
        view_id = self.tree.view_id(conversation.id)
        self._call(view_id, name, self.prefix)
        return self.tree.place(view_id, self.shown)

    def _call(self, view_id: int, name: str, prefix: str) -> int:
        """Return the own number of a conversation here, and record the name that the kernel is told."""
        own = inodes.base(Space.PLACE, view_id) + self.shown
        self.tree.called[own] = (self.ino, name + self.ending, f"{prefix}/{name}")
        return own


def _position(context: int) -> int:
    # a conversation's id, which a rename does not change; the place after it is that of its subagents' transcripts
    return FIRST_POSITION + 2 * context


def _context(position: int) -> int:
    return (position - FIRST_POSITION) // 2


class _Paged(FixedDirectory, ConversationsDirectory, Entries):
    """A directory with many conversations of one project in it: some ``among`` those that it has."""

    links = UNCOUNTED
    among = Among.LISTED

    @property
    def key(self) -> str:
        return self.path[0]

    @property
    def project(self) -> str:
        return self.path[1]

    @property
    def prefix(self) -> str:
        return "/".join((CONVERSATIONS, self.tree.project_name(self.project), *self.path[2:]))

    def lookup(self, name: str) -> int | None:
        if name == CONTROL:
            return _control(self.tree, len(self.path))
        stem = name.removesuffix(self.ending)
        if not self.ending or stem != name:
            conversation = self.find(stem)
            if conversation is not None and self._is_here(conversation):
                return self.known(conversation, stem)
            return self._elsewhere(stem, conversation)
        return self._beside(name)

    def _is_here(self, conversation: ContextEntry) -> bool:
        return self.ino in self.tree.folders(conversation)

    def _beside(self, name: str) -> int | None:
        """Return the directory with the transcripts of subagents of the conversation of a name."""
        conversation = self.find(name)
        if conversation is None or not self._is_here(conversation):
            return None
        return _transcripts_inside(self.tree, conversation.id)

    def _elsewhere(self, name: str, conversation: ContextEntry | None) -> int | None:
        """Return a link to a conversation of this project that is in another, or that was called so before."""
        return None

    def entries(self, after: int) -> Iterator[DirEntry]:
        name, prefix = "", self.prefix
        catalogue = self.tree.store.catalogue
        if after >= _LAST:
            return
        if after >= FIRST_POSITION:
            try:
                last = catalogue.entry(_context(after))
            except NotFound:
                return
            name = last.name
            if after == _position(last.id) and self.ending:
                yield from self._inside([last.id])
        while page := self._page(name):
            with_more = catalogue.with_subagents([conversation.id for conversation in page]) if self.ending else ()
            for conversation in page:
                yield self.entry(conversation, shown_name(conversation), prefix)
                if conversation.id in with_more:
                    yield from self._inside([conversation.id])
            name = page[-1].name
        yield from self._last()

    def _inside(self, contexts: Sequence[int]) -> Iterator[DirEntry]:
        """Yield the directories with the transcripts of subagents, of those conversations that have any."""
        for context in contexts:
            ino = _transcripts_inside(self.tree, context)
            if ino is not None:
                entry = self.tree.store.catalogue.entry(context)
                shown = Attributes(ino, DIRECTORY, 0, entry.updated_ms, UNCOUNTED, SHORT)
                yield DirEntry(_position(context) + 1, shown_name(entry).encode(), shown)

    def _last(self) -> Iterator[DirEntry]:
        """Yield what stands behind all conversations."""
        return iter(())

    def _page(self, after: str) -> Sequence[ContextEntry | Conversation]:
        store = self.tree.store
        # listed files are measured, directories are not
        page = store.catalogue.page(self.project, after=after, limit=_PAGE, among=self.among)
        if not self.ending:
            return page
        return self.tree.with_sums(page)

    def find(self, name: str) -> ContextEntry | None:
        """Return the conversation of this project that is shown under a name, wherever it is; None if there is none."""
        found = self.tree.store.catalogue.by_name(self.project, name)
        if found is None and (number := numbered(name)) is not None:
            with suppress(NotFound):
                found = self.tree.store.catalogue.entry(number)
        is_it = found is not None and (found.project, shown_name(found)) == (self.project, name)
        return found if is_it else None


class ProjectDirectory(_Paged):
    """``conversations/PROJECT/``: a directory a conversation."""

    def lookup(self, name: str) -> int | None:
        if name == ASIDE and self._has_aside:
            return self.below(ASIDE)
        return super().lookup(name)

    @property
    def _has_aside(self) -> bool:
        return bool(self.tree.store.catalogue.page(self.project, limit=1, among=Among.BESIDE))

    def _last(self) -> Iterator[DirEntry]:
        if self._has_aside:
            yield DirEntry(_LAST, ASIDE.encode(), Attributes(self.below(ASIDE), DIRECTORY, 0, 0, UNCOUNTED, SHORT))

    def _elsewhere(self, name: str, conversation: ContextEntry | None) -> int | None:
        catalogue, path = self.tree.store.catalogue, (*self.path, name + self.ending)
        meant = conversation or catalogue.called_before(self.project, name)
        if meant is None:
            return None
        now = self._target(meant)
        if conversation is not None:
            return self.tree.made(path, lambda ino: Link(ino, now, conversation.updated_ms, 0.0))
        return self.tree.made(path, lambda ino: FormerName(ino, now, meant, self.project, name))

    def _target(self, conversation: ContextEntry) -> str:
        """Return where a link from here leads to a conversation."""
        now = Paths(self.tree.store).conversation(conversation)
        return "../" + (transcript_path(now) if self.ending else now).partition("/")[2]


class FormerName(Link):
    """A former name of a conversation whose session now tells a better one: a link to its place."""

    def __init__(self, ino: int, target: str, conversation: ContextEntry, project: str, name: str) -> None:
        super().__init__(ino, target, conversation.updated_ms, 0.0)
        self.context = conversation.id
        self.project = project
        self.name = name


class AsideDirectory(_Paged):
    """``conversations/PROJECT/.aside/``: what the listing of the project leaves out."""

    among = Among.BESIDE

    @property
    def parent(self) -> int:
        return self.tree.ino(self.path[:-1])


class TranscriptsDirectory(ProjectDirectory):
    """``transcripts/PROJECT/``: a file a conversation."""

    shown = Place.TRANSCRIPT
    ending = MARKDOWN


class AsideTranscripts(AsideDirectory):
    """``transcripts/PROJECT/.aside/``."""

    shown = Place.TRANSCRIPT
    ending = MARKDOWN


class SubagentsDirectory(ViewDirectory, ConversationsDirectory, Entries):
    """``subagents/`` of a conversation: the conversations of the subagents that it started."""

    __slots__ = ()

    @property
    def prefix(self) -> str:
        return f"{self._of}/{Place.SUBAGENTS.name.lower()}"

    @property
    def _of(self) -> str:
        return Paths(self.tree.store).conversation(self.view.entry)

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, UNCOUNTED, SHORT)

    def named(self) -> Mapping[str, ContextEntry]:
        """Return the conversations by their names here."""
        return subagents_in(self.tree.store.catalogue, self.view.entry.id)

    def lookup(self, name: str) -> int | None:
        if name == CONTROL:
            return _control(self.tree, self._of.count("/") + 2)
        found = self.named().get(name)
        return self._called_before(name) if found is None else self.known(found, name)

    def _called_before(self, name: str) -> int | None:
        """Return a link to the conversation here that had a name before; its transcript has one in the project."""
        for now, conversation in self.named().items():
            if any(name == called for _project, called in called_before(conversation.metadata)):
                key = ("/called", str(conversation.id), name)
                return self.tree.made(key, lambda ino, now=now, at=conversation.updated_ms: Link(ino, now, at, 0.0))  # type: ignore[misc]  # the values of now
        return None

    def entries(self, after: int) -> Iterator[DirEntry]:
        prefix = self.prefix
        for name, conversation in self.named().items():
            if _position(conversation.id) > after:
                yield self.entry(conversation, name, prefix)


class SubagentTranscripts(SubagentsDirectory):
    """``transcripts/PROJECT/NAME/``, beside the transcript of a conversation: those of the subagents in it."""

    __slots__ = ()

    shown = Place.TRANSCRIPT
    ending = MARKDOWN

    @property
    def parent(self) -> int:
        return self.tree.folders(self.view.entry)[1]

    def lookup(self, name: str) -> int | None:
        if name == CONTROL:
            return _control(self.tree, transcript_path(self._of).count("/") + 1)
        stem = name.removesuffix(self.ending)
        found = self.named().get(stem)
        if found is None or stem != name:
            return None if found is None else self.known(found, stem)
        return _transcripts_inside(self.tree, found.id)

    def entries(self, after: int) -> Iterator[DirEntry]:
        for entry in super().entries(after - 1):
            if entry.position > after:
                yield entry
            context = _context(entry.position)
            ino = _transcripts_inside(self.tree, context)
            if ino is not None:
                name = entry.name.removesuffix(self.ending.encode())
                yield DirEntry(entry.position + 1, name, replace(entry.attributes, ino=ino, mode=DIRECTORY, size=0))


def _transcripts_inside(tree: Tree, context: int) -> int | None:
    """Return the number of the directory with the transcripts of a conversation's subagents, None if it has none."""
    if not tree.store.catalogue.with_subagents([context]):
        return None
    return inodes.base(Space.PLACE, tree.view_id(context)) + Place.TRANSCRIPTS


def transcripts_with(tree: Tree, conversation: Named) -> Directory:
    """Return the directory that the transcript of a conversation is in."""
    ino = tree.folders(conversation)[1]
    path = tree.path(ino)
    if path is None:
        return SubagentTranscripts(tree, ino, inodes.split(ino)[1])
    return (TranscriptsDirectory if len(path) == 2 else AsideTranscripts)(tree, ino, path)


def transcript_name(tree: Tree, conversation: Named) -> str:
    """Return the name of the transcript of a conversation."""
    return Paths(tree.store).conversation(conversation).rpartition("/")[2] + MARKDOWN
