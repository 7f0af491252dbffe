"""Records of a session made ready for the store by a process that does not have it: read, hashed, seen, and packed.

All of that follows from the files alone, and is most of the work of an import. The process that has the store does not
read a session that was prepared to its end. Content that lies beside a session is read with the record that names it.
Where only the store can tell, as of content that is not there, it gets the record as well.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field

from store.content.compression import GROUP_BYTES, LEAST_BYTES, Member, Packed, pack_records, taken_apart
from store.conversations.chain import Alone
from store.disk.blob_format import Form
from store.errors import DamageError, NotFound
from store.events.event import Event
from store.formats.core.format import About, ExternalBlob, Format, Source
from store.formats.registry import format_named, learn, lens_for
from store.helper import Answer, Work
from store.ids import Hash, hash_bytes
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.reading import LOOKED_AT, Reading, Samples, beginning
from store.importing.snapshot import Cursor, Snapshot, Stamps, stamps_of
from store.importing.unseen import RECORDS_LOOKED_AT, Glimpse, glimpse

_CHUNK_BYTES = 1 << 20
_CHUNK_RECORDS = 512
_OUTSIDE_BYTES = 16 << 20
"""The bytes beside a session that one record may name: who has the store reads more of them, one by one."""
_LARGEST_PREPARED = 16 << 20
"""A larger record is for the process with the store alone: on the way there, it would be held several times."""
_REMEMBERED = 200_000
MORE, LAST = range(2)
"""The answers: a :class:`Chunk` of the session, and one that ends it."""


class Seen(Struct, array_like=True):
    """The first ``count`` of some records as events: their latest time, in Unix milliseconds, and their texts.

    How the others are seen only the store can tell. With the first of those come the definitions that they may refer
    to, of each record of the session before it. ``fault`` is of the first event that has one.
    """

    count: int = 0
    time_ms: int = 0
    glimpse: Glimpse = Glimpse()
    defines: tuple[tuple[tuple[str, str], ...], ...] = ()
    fault: str = ""


class Prepared(Struct, frozen=True, array_like=True, gc=False):
    """A record: the name of its payload, the size of that in bytes, and the name of its type.

    It has its ``payload`` where only the store can tell how it is seen, where it refers to content beside the session
    that could not be read, and where it is one of the first.
    """

    digest: Hash
    size: int
    type_name: str
    payload: bytes | None = None


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


Alias = tuple[str, bytes, Hash]
"""The name that a record has for content outside of it, an algorithm and a digest, and the hash of that."""


class Chunk(Struct, frozen=True, array_like=True, gc=False):
    """Records that follow each other, of ``size`` bytes, what they are made of, and how they are seen.

    What they are made of is ``packed`` as far as it fills groups; the ``rest`` may go with that of others, or be alike
    to what the store has. The last one says what the session is as a ``whole``. ``aliases`` are the names that records
    have for content that is in there, too.
    """

    records: list[Prepared]
    size: int = 0
    packed: list[Packed] = []
    rest: list[Member] = []
    seen: Seen = field(default_factory=Seen)
    whole: Whole | None = None
    aliases: list[Alias] = []


class TooLargeError(Exception):
    """A record is too large to be prepared."""


_encode = msgspec.msgpack.Encoder().encode


class Preparer:
    """Prepares the records of sessions. ``limit`` is where strings leave payloads, ``scratch`` for copies of files."""

    def __init__(self, limit: int, scratch: Path) -> None:
        self._limit = limit
        self._scratch = scratch
        self._pile = _Pile()

    def work(self, _number: int, source: object) -> Iterator[Answer]:
        """Prepare a :class:`Source`; what is wrong with it is told by the one that imports it."""
        assert isinstance(source, Source)
        chunks = self.chunks(source)
        what = MORE
        while what == MORE:
            chunk = Chunk([])
            try:
                chunk = next(chunks, chunk)
            except ImportError:
                raise
            except Exception:  # noqa: S110  (no session is worth more than the others)
                pass
            what = MORE if chunk.records and chunk.whole is None else LAST
            yield what, _encode(chunk)

    def chunks(self, source: Source) -> Iterator[Chunk]:
        """Yield the records of a session, some at a time; of a new one, that nothing is known of.

        Raises UsageError or OSError if it cannot be read, TooLargeError if only the process with the store can.
        """
        format_ = format_named(source.format)
        stamps, samples, envelope = stamps_of(source), Samples(format_), EnvelopeBuilder()
        pile = self._pile
        pile.begin()
        outside = _Outside(pile)
        sight = _Sight(outside)
        has_blobs = type(format_).blobs is not Format.blobs
        records: list[Prepared] = []
        size, count = 0, 0
        with Snapshot(source.main, self._scratch) as snapshot:
            reading = Reading(format_, source, snapshot, self._scratch, envelope)
            for type_name, data, _passed in reading.records():
                with data:
                    if len(data) > _LARGEST_PREPARED:
                        raise TooLargeError
                    payload = bytes(data)
                snapshot.passed(reading.passed)
                count += 1
                samples.see(count, payload)
                kind = format_.type_of(source, payload) if type_name == format_.main_type else type_name
                # always taken, and then seen
                wanted = has_blobs and not outside.takes(format_.blobs(source, payload))
                wanted = not sight.sees(kind, payload) or wanted or count <= LOOKED_AT
                digest = hash_bytes(payload)
                records.append(Prepared(digest, len(payload), kind, payload if wanted else None))
                pile.add(taken_apart(digest, payload, self._limit))
                size += len(payload)
                if size + outside.size >= _CHUNK_BYTES or len(records) == _CHUNK_RECORDS:
                    yield Chunk(records, size, *pile.taken(), sight.taken(), aliases=outside.taken())
                    records, size = [], 0
            stamps, cursor, rest = reading.end(count, stamps)
            about = format_.about(source, samples.records)
            begins = [beginning(one, format_) for one in samples.records[:LOOKED_AT]]
            whole = Whole(stamps, cursor, envelope.close(rest), len(snapshot.data), samples.titled(()), about, begins)
        yield Chunk(records, size, *pile.taken(), sight.taken(), whole, outside.taken())


class _Pile:
    """The blobs of sessions, packed as far as that needs no store: what only one has so far, and is not large."""

    def __init__(self) -> None:
        self._known: dict[Hash, int] = {}
        """The blobs of sessions so far, or the last ones of very many, and in which each was seen last."""
        self._session = 0
        self._packed: list[Packed] = []
        self._group: list[Member] = []
        self._group_bytes = 0
        self._apart: list[Member] = []

    def begin(self) -> None:
        """Begin with another session."""
        self._session += 1
        self.taken()

    def add(self, members: Iterable[Member]) -> None:
        for member in members:
            seen = self._known.get(member.hash)
            if seen == self._session:
                continue
            self._known[member.hash] = self._session
            if seen is not None or len(member.body) >= LEAST_BYTES:
                # the store may have it, or something like it
                self._apart.append(member)
                continue
            self._group.append(member)
            self._group_bytes += len(member.body)
            if self._group_bytes >= GROUP_BYTES:
                self._packed += pack_records(self._group)
                self._group, self._group_bytes = [], 0

    def taken(self) -> tuple[list[Packed], list[Member]]:
        """Return what was added since the last call: the groups, and what is not packed."""
        packed, rest = self._packed, self._apart + self._group
        self._packed, self._apart, self._group, self._group_bytes = [], [], [], 0
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        return packed, rest


class _Outside:
    """The content that lies beside one session, read as its records name it."""

    def __init__(self, pile: _Pile) -> None:
        self._pile = pile
        self._known: set[tuple[str, bytes]] = set()
        self._aliases: list[Alias] = []
        self._at_hand: dict[tuple[str, bytes], bytes] = {}
        """The contents that the last record names."""
        self.size = 0
        """The bytes since the last call of :meth:`taken`."""

    def takes(self, blobs: Iterable[ExternalBlob]) -> bool:
        """Take what a record names; return whether all of that could be: if not, the store may have it."""
        self._at_hand = {}
        are_here, room = True, _OUTSIDE_BYTES
        for blob in blobs:
            try:
                content = blob.read()
            except (NotFound, DamageError):
                are_here = False
                continue
            if len(content) > room:
                return False
            room -= len(content)
            own = blob.algorithm, blob.digest
            self._at_hand[own] = content
            if own not in self._known:
                self._known.add(own)
                digest = hash_bytes(content)
                self._pile.add((Member(digest, Form.PLAIN, len(content), content),))
                self._aliases.append((*own, digest))
                self.size += len(content)
        return are_here

    def get(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content that the last record names, None if it is not at hand."""
        return self._at_hand.get((algorithm, digest))

    def taken(self) -> list[Alias]:
        """Return the names of what was taken since the last call."""
        aliases, self._aliases, self.size = self._aliases, [], 0
        return aliases


class _Sight:
    """Sees the records of one session, in order, as far as that needs no store."""

    def __init__(self, outside: _Outside) -> None:
        self._chain = Alone(outside.get)
        self._defines: list[tuple[tuple[str, str], ...]] = []
        """The definitions of each record that was seen, until they are told."""
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._count = self._time_ms = 0
        self._seen: dict[str, None] = {}
        self._hidden: dict[str, str] = {}
        self._fault = ""

    def sees(self, type_name: str, payload: bytes) -> bool:
        """See the next record; return whether that could be done: if not, nor can it be of any later one."""
        chain = self._chain
        if not chain.lost:
            event = lens_for(type_name).view(payload, chain)
            chain.advance(event)
            # what was asked for while it was seen is content that only the store may have
            if not chain.lost:
                self._note(event)
        return not chain.lost

    def _note(self, event: Event) -> None:
        self._number += 1
        self._count += 1
        self._time_ms = max(self._time_ms, event.time_ms)
        self._fault = self._fault or event.fault
        self._defines.append(event.defines)
        if self._number <= RECORDS_LOOKED_AT:
            found = glimpse(event)
            self._seen |= dict.fromkeys(found.seen)
            for beginning, words in found.hidden:
                self._hidden.setdefault(beginning, words)

    def taken(self) -> Seen:
        """Return how the records since the last call are seen."""
        texts = Glimpse(tuple(self._seen), tuple(self._hidden.items()))
        seen = Seen(self._count, self._time_ms, texts, fault=self._fault)
        if self._chain.lost:
            seen.defines, self._defines = tuple(self._defines), []
        self._begin()
        return seen


def work(formats: Path, limit: int, scratch: Path) -> Work:
    """Return what a helper does that prepares sessions."""
    # who imports tells of pages that are wrong
    learn(formats)
    return Preparer(limit, scratch).work
