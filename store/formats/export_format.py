"""What the exports of web services have in common: files of many conversations, each of them a tree of messages."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from store.formats import export_files
from store.formats.archives import is_archive
from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_view import JsonObject, decode
from store.formats.look import Look
from store.formats.message_tree import Branch, Node, branches
from store.formats.outlines import Outline, outlines


class Conversation(Struct, frozen=True):
    """What a file says of a conversation: its messages as nodes, in the order of the file, with times in milliseconds.

    ``current`` is the id of the message that was seen last. Where no node follows another, they follow in order.
    """

    session: str
    nodes: Sequence[Node]
    current: str
    about: About


class ExportFormat(Format):
    """A web service."""

    holder: str
    """The member of a conversation that has its messages."""

    joints = (b"", b", ", b"")

    @abstractmethod
    def begins(self, head: bytes) -> bool:
        """Say whether a file that begins so holds conversations of this service."""

    @abstractmethod
    def belongs(self, name: str, is_folder: bool) -> bool:
        """Say whether a file of this name, or a folder, may belong to an export."""

    @abstractmethod
    def told(self, members: JsonObject, keys: Sequence[str], records: Sequence[bytes]) -> Conversation:
        """Return what a file says of a conversation: its other ``members``, and its messages with their keys."""

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
            yield from (Span(entry.start, entry.end) for entry in outline.entries if entry.start >= start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a file whose conversations say nothing of themselves."""
        return About(title=source.path.stem, project=self.name)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return the conversations, and each branch of one: what was seen last is the conversation."""
        positions = {span.start: at for at, span in enumerate(spans)}
        found: list[Part] = []
        for _end, outline in outlines(data, self.holder):
            if outline.entries:
                found += self._parts(data, outline, positions, len(found))
        return found

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        """Return the conversations of an archive as one file."""
        return export_files.rendition(source.path, scratch)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write an archive anew with its conversations as they are now."""
        export_files.restore(original, rendition, target)

    def _parts(self, data: memoryview, outline: Outline, positions: dict[int, int], before: int) -> Iterator[Part]:
        """Yield the branches of a conversation; ``before`` is how many parts precede them."""
        records = [bytes(data[entry.start : entry.end]) for entry in outline.entries]
        members = {key: decoded.value for key, value in outline.members.items() if (decoded := decode(value))}
        told = self.told(members, [entry.key for entry in outline.entries], records)
        nodes, about = told.nodes, told.about
        linked = any(node.parent for node in nodes)
        ways = branches(nodes, told.current) if linked else [Branch(list(range(len(nodes))))]
        for at, way in enumerate(ways):
            own = nodes[way.nodes[0]]
            key = f"{told.session}/{own.id}" if at else told.session or own.id
            started = round(own.time) if at and own.time else about.started_ms
            places = [positions[outline.entries[node].start] for node in way.nodes]
            described = About(about.title, about.project, started, key, about.extra)
            yield Part(key, places, described, before + way.base if way.base >= 0 else -1, way.shared)
