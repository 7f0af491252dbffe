"""Records of a session made ready for the store by a process that does not have it: cut, hashed, seen and drawn, and
their words collected for the search index.

All of that follows from the file alone, and is most of the work of an import. The process that has the store reads the
file, too, and takes what was prepared of a record only if that has the same hash, and so had all those before it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from store.content.cuts import MAX_CUT_BYTES, Cut, cut
from store.conversations.chain import Chain
from store.conversations.viewer import Measured, Measurement
from store.disk.turn_format import Encoding
from store.events.conversation import Drawn, Renderer, Sizes
from store.events.event import Event, Kind
from store.formats.core.format import Format, Source, Span
from store.formats.registry import format_named, lens_for
from store.ids import Hash, hash_bytes, type_tag
from store.importing.snapshot import Snapshot
from store.importing.unseen import Glimpse, glimpse
from store.search.documents import Gathered, Gathering, Key, key
from store.texts import BLOCK_BYTES, Block, Blocks, is_kept

_LONGEST_GAP = 64 << 10
"""A gap between records of more bytes than this is a record itself."""
_CHUNK_BYTES = 1 << 20
_CHUNK_RECORDS = 512
_FILED_BYTES = 2 << 20
"""The bytes of texts that make a segment of the search index: more are fewer segments, and more memory."""
_FILED_RECORDS = 8192


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """A record as an event: what is measured of it, what later ones may refer to, and its texts (:class:`Glimpse`)."""

    measurement: Measurement
    defines: tuple[tuple[str, str], ...]
    glimpse: Glimpse


class Prepared(Struct, frozen=True, array_like=True, gc=False):
    """A record: its hash, how it is cut, and how it is seen; ``seen`` is None where only the store can tell."""

    digest: Hash
    cut: Cut | None
    seen: Seen | None


class Chunk(Struct, frozen=True, array_like=True, gc=False):
    """Records that follow each other, and their texts by number; None stands for a record too large to be held."""

    records: list[Prepared | None]
    texts: list[Block]


class Filing(Struct, frozen=True, array_like=True, gc=False):
    """Documents for the search index, and which record shows each: the number of its session, its own, and the key.

    They are of sessions that follow each other, and so are their records.
    """

    gathered: Gathered
    shows: list[tuple[int, int, Key]]


class Preparer:
    """Prepares the records of sessions. ``limit`` is where strings leave payloads, ``scratch`` for copies of files."""

    def __init__(self, renderer: Renderer, limit: int, scratch: Path) -> None:
        self._renderer = renderer
        self._limit = limit
        self._scratch = scratch
        self._texts = Blocks()
        self._session = 0
        self._gathering = Gathering()
        self._shows: list[tuple[int, int, Key]] = []

    def chunks(self, session: int, source: Source) -> Iterator[Chunk]:
        """Yield the records of a session, some at a time. Raises UsageError or OSError if it cannot be read."""
        chain, self._texts, self._session = _Alone(), Blocks(), session
        chunk = Chunk([], [])
        size = 0
        for type_name, payload in self._records(source):
            chunk.records.append(None if payload is None else self._prepared(type_name, payload, chain))
            size += len(payload or b"")
            if payload is None:
                chain.advance(None)
            if self._texts.size >= BLOCK_BYTES:
                chunk.texts.extend(self._drawn())
            if size >= _CHUNK_BYTES or len(chunk.records) == _CHUNK_RECORDS:
                chunk.texts.extend(self._drawn())
                yield chunk
                chunk, size = Chunk([], []), 0
        chunk.texts.extend(self._drawn())
        yield chunk

    @property
    def is_full(self) -> bool:
        """True if a filing should be taken."""
        return self._gathering.size >= _FILED_BYTES or len(self._shows) >= _FILED_RECORDS

    def filing(self) -> Filing | None:
        """Return what has been gathered for the search index since the last time; None if that is nothing."""
        gathering, shows = self._gathering, self._shows
        self._gathering, self._shows = Gathering(), []
        return Filing(gathering.end(), shows) if shows else None

    def _drawn(self) -> list[Block]:
        block = self._texts.end()
        return [] if block is None else [block]

    def _records(self, source: Source) -> Iterator[tuple[str, bytes | None]]:
        format_ = format_named(source.format)
        types = source.first_types or (format_.first_type,) * len(source.first)
        for path, kind in zip(source.first, types, strict=True):
            with Snapshot(path, self._scratch) as file:
                yield kind, self._payload(file.data)
        with Snapshot(source.main, self._scratch) as snapshot:
            for span in record_spans(format_, snapshot.data, 0):
                with snapshot.data[span.start : span.end] as data:
                    payload = self._payload(data)
                yield format_.main_type if payload is None else format_.type_of(source, payload), payload
                snapshot.passed(span.end)

    def _payload(self, data: memoryview) -> bytes | None:
        return None if len(data) > MAX_CUT_BYTES else bytes(data)

    def _prepared(self, type_name: str, payload: bytes, chain: "_Alone") -> Prepared:
        digest, taken = hash_bytes(payload), cut(payload, self._limit)
        seen: Seen | None = None
        if not chain.lost:
            number = chain.number
            event = lens_for(type_name).view(payload, chain)
            chain.advance(event)
            # what was asked for while it was seen is content that only the store may have
            if not chain.lost:
                drawn, format_ = self._renderer.drawn(number, event), type_name.partition(".")[0]
                json = self._renderer.element_size(number, event, format_, len(payload))
                sizes = Sizes(len(drawn.file), len(drawn.section), json)
                if is_kept(event.kind, sizes.file):
                    self._texts.add(number, drawn)
                self._gather(number, key(digest, type_tag(type_name), Encoding.JSON, event), event, drawn, taken)
                seen = Seen(Measured.of(event, sizes, len(payload)), event.defines, glimpse(event))
        return Prepared(digest, taken, seen)

    def _gather(self, number: int, of: Key, event: Event, drawn: Drawn, taken: Cut | None) -> None:
        self._shows.append((self._session, number, of))
        if of not in self._gathering:
            text = drawn.file[drawn.content :] if drawn.content else self._renderer.content(event).encode()
            references = [digest for digest, _content in taken.contents] if taken else []
            shown = self._renderer.contents(event)
            self._gathering.add(of, event.kind, text, event.resources, references, shown)


class _Alone(Chain):
    """The chain of a session whose records are all at hand, without a store; ``lost`` once it had to be asked."""

    def __init__(self) -> None:
        self.lost = False
        self.number = 1
        super().__init__(1, lambda _number: None, self._asked)

    def advance(self, event: Event | None) -> None:
        # a record that is not held refers to nothing
        super().advance(event or Event(Kind.NOTE))
        self.number += 1

    def _asked(self, _algorithm: str, _digest: bytes) -> bytes | None:
        self.lost = True
        return None


def record_spans(format_: Format, data: memoryview, start: int) -> Iterator[Span]:
    """Yield the records of a session's main file from ``start`` on, and long gaps between them."""
    end = start
    for span in format_.spans(data, start):
        if span.start - end > _LONGEST_GAP:
            yield Span(end, span.start)
        yield span
        end = span.end
    if len(data) - end > _LONGEST_GAP:
        yield Span(end, len(data))


def cuts_of(some: Sequence[Prepared | None]) -> Mapping[Hash, Cut | None]:
    """Return how records are cut, by their hashes."""
    return {one.digest: one.cut for one in some if one is not None}
