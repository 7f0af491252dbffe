"""Records of a session made ready for the store by a process that does not have it: read, cut, hashed, seen and drawn,
and their words collected for the search index.

All of that follows from the files alone, and is most of the work of an import. The process that has the store does not
read a session that was prepared to its end. Where only the store can tell, as of content that lies beside a session, it
gets the record as well.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from store.content.cuts import MAX_CUT_BYTES, Taken, cut
from store.conversations.chain import Chain
from store.conversations.viewer import Measured, Measurement
from store.disk.turn_format import Encoding
from store.events.conversation import Renderer, Sizes
from store.events.event import Event
from store.formats.core.format import About, Format, Source
from store.formats.registry import format_named, lens_for
from store.ids import hash_bytes, type_tag
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.reading import LOOKED_AT, Reading, Samples, beginning
from store.importing.snapshot import Cursor, Snapshot, Stamps, stamps_of
from store.importing.unseen import Glimpse, glimpse
from store.search.documents import Gathered, Gathering, Key, key
from store.texts import BLOCK_BYTES, Block, Blocks, is_kept

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


class Prepared(Taken, frozen=True, array_like=True, gc=False):
    """A record: how it is taken in, the name of its type, and how it is seen.

    It has its ``payload`` where it is not cut, where it is ``seen`` as None, because only the store can tell, where it
    refers to content beside the session, and where it is one of the first.
    """

    type_name: str
    seen: Seen | None


class Whole(Struct, frozen=True, array_like=True):
    """A session that was read to its end: what an import keeps of its files, and what they say of themselves.

    ``size`` is that of what was read of the main file, in bytes, ``titled`` are the numbers of late records that may
    have told the title. ``about`` and the beginnings that identify it are known of one that was prepared.
    """

    stamps: Stamps
    cursor: Cursor
    envelope: Envelope
    size: int
    titled: tuple[int, ...]
    about: About | None = None
    begins: list[str] = []


class Chunk(Struct, frozen=True, array_like=True, gc=False):
    """Records that follow each other, and texts by number; the last one says what the session is as a ``whole``."""

    records: list[Prepared]
    texts: list[Block]
    whole: Whole | None = None


class TooLargeError(Exception):
    """A record is too large to be prepared."""


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
        """Yield the records of a session, some at a time; of a new one, that nothing is known of.

        Raises UsageError or OSError if it cannot be read, TooLargeError if only the process with the store can.
        """
        format_ = format_named(source.format)
        stamps, samples, envelope = stamps_of(source), Samples(format_), EnvelopeBuilder()
        chain, self._texts, self._session = _Alone(), Blocks(), session
        has_blobs = type(format_).blobs is not Format.blobs
        chunk, size, count = Chunk([], []), 0, 0
        with Snapshot(source.main, self._scratch) as snapshot:
            reading = Reading(format_, source, snapshot, self._scratch, envelope)
            for type_name, data, _passed in reading.records():
                with data:
                    if len(data) > MAX_CUT_BYTES:
                        raise TooLargeError
                    payload = bytes(data)
                snapshot.passed(reading.passed)
                count += 1
                samples.see(count, payload)
                kind = format_.type_of(source, payload) if type_name == format_.main_type else type_name
                wanted = count <= LOOKED_AT or (has_blobs and any(True for _blob in format_.blobs(source, payload)))
                chunk.records.append(self._prepared(kind, payload, chain, wanted=wanted))
                size += len(payload)
                if self._texts.size >= BLOCK_BYTES:
                    chunk.texts.extend(self._drawn())
                if size >= _CHUNK_BYTES or len(chunk.records) == _CHUNK_RECORDS:
                    chunk.texts.extend(self._drawn())
                    yield chunk
                    chunk, size = Chunk([], []), 0
            chunk.texts.extend(self._drawn())
            cursor, rest = reading.end(count, stamps.main)
            about = format_.about(source, samples.records)
            begins = [beginning(one, format_) for one in samples.records[:LOOKED_AT]]
            whole = Whole(stamps, cursor, envelope.close(rest), len(snapshot.data), samples.titled(()), about, begins)
        yield Chunk(chunk.records, chunk.texts, whole)

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

    def _prepared(self, type_name: str, payload: bytes, chain: "_Alone", *, wanted: bool) -> Prepared:
        digest, taken = hash_bytes(payload), cut(payload, self._limit)
        seen: Seen | None = None
        if not chain.lost:
            number = chain.number
            event = lens_for(type_name).view(payload, chain)
            chain.advance(event)
            # what was asked for while it was seen is content that only the store may have
            if not chain.lost:
                drawn, format_ = self._renderer.drawn(number, event), type_name.partition(".")[0]
                json, shown = self._renderer.element(number, event, format_, len(payload))
                sizes = Sizes(len(drawn.file), len(drawn.section), json)
                if is_kept(event.kind, sizes.file):
                    self._texts.add(number, drawn)
                own = key(digest, type_tag(type_name), Encoding.JSON, event)
                self._shows.append((self._session, number, own))
                if own not in self._gathering:
                    text = drawn.file[drawn.content :] if drawn.content else self._renderer.content(event).encode()
                    references = [name for name, _content in taken.contents] if taken else []
                    self._gathering.add(own, event.kind, text, event.resources, references, shown)
                seen = Seen(Measured.of(event, sizes, len(payload)), event.defines, glimpse(event))
        has_payload = wanted or taken is None or seen is None
        return Prepared(digest, len(payload), taken, payload if has_payload else None, type_name, seen)


class _Alone(Chain):
    """The chain of a session whose records are all at hand, without a store; ``lost`` once it had to be asked."""

    def __init__(self) -> None:
        self.lost = False
        self.number = 1
        super().__init__(1, lambda _number: None, self._asked)

    def advance(self, event: Event | None) -> None:
        super().advance(event)
        self.number += 1

    def _asked(self, _algorithm: str, _digest: bytes) -> bytes | None:
        self.lost = True
        return None
