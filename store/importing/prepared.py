"""Records of a session made ready for the store by a process that does not have it: read, cut, hashed and seen.

All of that follows from the files alone, and is most of the work of an import. The process that has the store does not
read a session that was prepared to its end. Where only the store can tell, as of content that lies beside a session, it
gets the record as well.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from store.content.cuts import MAX_CUT_BYTES, Taken, cut
from store.conversations.chain import Alone
from store.formats.core.format import About, Format, Source
from store.formats.registry import format_named, learn, lens_for
from store.helper import Answer, Work
from store.ids import hash_bytes
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.reading import LOOKED_AT, Reading, Samples, beginning
from store.importing.snapshot import Cursor, Snapshot, Stamps, stamps_of
from store.importing.unseen import Glimpse, glimpse

_CHUNK_BYTES = 1 << 20
_CHUNK_RECORDS = 512
MORE, LAST = range(2)
"""The answers: a :class:`Chunk` of the session, and one that ends it."""


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """A record as an event: its time in Unix milliseconds, what later ones may refer to, its texts."""

    time_ms: int
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
    """Records that follow each other; the last one says what the session is as a ``whole``."""

    records: list[Prepared]
    whole: Whole | None = None


class TooLargeError(Exception):
    """A record is too large to be prepared."""


_encode = msgspec.msgpack.Encoder().encode


class Preparer:
    """Prepares the records of sessions. ``limit`` is where strings leave payloads, ``scratch`` for copies of files."""

    def __init__(self, limit: int, scratch: Path) -> None:
        self._limit = limit
        self._scratch = scratch

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
        chain = Alone()
        has_blobs = type(format_).blobs is not Format.blobs
        records: list[Prepared] = []
        size, count = 0, 0
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
                records.append(self._prepared(kind, payload, chain, wanted=wanted))
                size += len(payload)
                if size >= _CHUNK_BYTES or len(records) == _CHUNK_RECORDS:
                    yield Chunk(records)
                    records, size = [], 0
            cursor, rest = reading.end(count, stamps.main)
            about = format_.about(source, samples.records)
            begins = [beginning(one, format_) for one in samples.records[:LOOKED_AT]]
            whole = Whole(stamps, cursor, envelope.close(rest), len(snapshot.data), samples.titled(()), about, begins)
        yield Chunk(records, whole)

    def _prepared(self, type_name: str, payload: bytes, chain: Alone, *, wanted: bool) -> Prepared:
        digest, taken = hash_bytes(payload), cut(payload, self._limit)
        seen: Seen | None = None
        if not chain.lost:
            event = lens_for(type_name).view(payload, chain)
            chain.advance(event)
            # what was asked for while it was seen is content that only the store may have
            if not chain.lost:
                seen = Seen(event.time_ms, event.defines, glimpse(event))
        has_payload = wanted or taken is None or seen is None
        return Prepared(digest, len(payload), taken, payload if has_payload else None, type_name, seen)


def work(formats: Path, limit: int, scratch: Path) -> Work:
    """Return what a helper does that prepares sessions."""
    # who imports tells of pages that are wrong
    learn(formats)
    return Preparer(limit, scratch).work
