"""What the exports of web services have in common: files of many conversations, each of them a tree of messages."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence, Set
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from store.formats import export_files
from store.formats.archives import is_archive
from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_view import JsonObject, decode
from store.formats.lines import let_go
from store.formats.look import Look
from store.formats.message_tree import Branch, Node, branches
from store.formats.outlines import RELEASED_AT_ONCE, outlines
from store.ids import hash_bytes


class Conversation(Struct, frozen=True):
    """What a file says of a conversation: its messages as nodes, in the order of the file, with times in milliseconds.

    ``current`` is the id of the message that was seen last. Where no node follows another, they follow in order.
    """

    session: str
    nodes: Sequence[Node]
    current: str
    about: About


class _Message(Span, frozen=True, gc=False):
    """A message that knows the other members of its conversation, which all of that one's share."""

    members: dict[str, bytes]


class ExportFormat(Format):
    """A web service."""

    holder: str
    """The member of a conversation that has its messages."""

    read: Set[str]
    """Its other members that say something of it."""

    joints = (b"", b", ", b"")

    @abstractmethod
    def begins(self, head: bytes) -> bool:
        """Say whether a file that begins so holds conversations of this service."""

    @abstractmethod
    def belongs(self, name: str, is_folder: bool) -> bool:
        """Say whether a file of this name, or a folder, may belong to an export."""

    @abstractmethod
    def told(self, members: JsonObject, records: Sequence[bytes]) -> Conversation:
        """Return what a file says of a conversation: those of its members that are read, and its messages."""

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield nothing: an export lies wherever it was saved."""
        return iter(())

    def claim(self, look: Look) -> Source | None:
        """Claim a file of conversations by how it begins, and an archive that holds one."""
        if not any(map(self.begins, export_files.beginnings(look))):
            return None
        sidecars: tuple[tuple[str, Path], ...] = ()
        if not is_archive(look.head) and export_files.is_first(look.path):
            beside = export_files.files_beside(look.path, self.belongs)
            sidecars = tuple((name, look.path.parent / name) for name in beside)
        return Source(self.name, look.path, look.path, sidecars=sidecars)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the messages of every conversation."""
        for _end, outline in outlines(data, self.holder):
            members = outline.members
            for message in outline.messages:
                if message.start >= start:
                    yield _Message(message.start, message.end, members)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a file whose conversations say nothing of themselves."""
        return About(title=source.path.stem, project=self.name)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return the conversations, and each branch of one: what was seen last is the conversation."""
        found: list[Part] = []
        released = 0
        numbered = ((at, span) for at, span in enumerate(spans) if isinstance(span, _Message))
        for _members, messages in groupby(numbered, lambda message: id(message[1].members)):
            conversation = list(messages)
            found += self._parts(data, conversation, len(found))
            if (end := conversation[-1][1].end) - released >= RELEASED_AT_ONCE:
                let_go(data, released, end)
                released = end
        return found

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        """Return the conversations of an archive as one file."""
        return export_files.rendition(source.path, scratch)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write an archive anew with its conversations as they are now."""
        export_files.restore(original, rendition, target)

    def _parts(self, data: memoryview, messages: Sequence[tuple[int, _Message]], before: int) -> Iterator[Part]:
        """Yield the branches of a conversation, of whose messages the positions are given.

        ``before`` is how many parts precede them.
        """
        records = [bytes(data[span.start : span.end]) for _at, span in messages]
        members = messages[0][1].members
        read = {key: decode(value) for key, value in members.items() if key in self.read}
        said = {key: decoded.value for key, decoded in read.items() if decoded}
        told = self.told(said, records)
        nodes, about = told.nodes, told.about
        linked = any(node.parent for node in nodes)
        ways = branches(nodes, told.current) if linked else [Branch(list(range(len(nodes))))]
        session = told.session or _name_of(nodes, ways[0].nodes, records)
        for at, way in enumerate(ways):
            own = nodes[way.nodes[0]]
            key = f"{session}/{own.id}" if at else session
            started = round(own.time) if at and own.time else about.started_ms
            described = About(about.title, about.project, started, key, about.extra)
            places = [messages[node][0] for node in way.nodes]
            yield Part(key, places, described, before + way.base if way.base >= 0 else -1, way.shared)


def _name_of(nodes: Sequence[Node], way: Sequence[int], records: Sequence[bytes]) -> str:
    """Return an id for a conversation whose own is lost, as it stands behind the messages: that of its first one.

    What others follow may be called alike in all conversations.
    """
    ids = (nodes[at].id for at in way if nodes[at].parent)
    return next(filter(None, ids), "") or hash_bytes(records[way[0]]).hex()
