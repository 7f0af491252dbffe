"""The archive of a space: old entries of its log, in objects.

A log need not keep all entries where they were appended. Those that are old are put into objects of some 16 MiB, called
segments, and removed from the log once a record names these. Whoever asks for what follows an old commit gets it from
there (:func:`archived`), and knows no difference.

The record ``archive`` is JSON: ``{"seq", "segments": [{"after", "last", "key", "length", "size", "entries", "thinned"},
…]}``. All entries up to the commit ``seq`` are in the segments, in order: each has those behind the commit ``after`` up
to ``last``. ``key`` is its object, ``log/`` and 32 random hex digits, of ``length`` bytes; ``entries`` are in it, of
``size`` bytes. The object is one zstd frame of entries as in :mod:`store.shared.entry`, one behind the other; in an
encrypted space they are plain inside of it, and the object is sealed as any other.

A segment is never changed: another takes its place. Everything is decided by the compare-and-swap of the record, and a
segment is named only by a change of a version that was read before its object was put. So who changes the record knows
that no object which it saw before that, and which the record does not name, is ever named: it can be removed.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from store import typed
from store.content import zstd
from store.disk.journal_format import decode_entry, encode_entry
from store.errors import DamageError, Missing, Unreachable
from store.ids import hash_key
from store.shared import entry as entries
from store.shared import generations
from store.shared.entry import BEGINNING, Entry, chained
from store.shared.space import ARCHIVE, Behind, Log, LogOver, Record, Space

PREFIX = "log/"
SEGMENT_BYTES = 16 << 20
"""The bytes of entries in a segment, roughly."""
AT_ONCE_BYTES = 4 << 20
_TRIES = 3
_BACKUP = "put it back from a backup, or run convfs remote repair on a machine that has everything"


class Segment(Struct, frozen=True):
    """The entries behind the commit ``after``, up to ``last``: the object ``key`` of ``length`` bytes.

    ``size`` are the bytes of the entries, ``entries`` their number. ``thinned`` is the last commit that has dropped
    something before contents were looked for that can go.
    """

    after: int
    last: int
    key: str
    length: int
    size: int
    entries: int
    thinned: int = 0


class Segments(Struct, frozen=True):
    """The record: all entries up to the commit ``seq`` are in ``segments``."""

    seq: int = 0
    segments: tuple[Segment, ...] = ()

    def holding(self, after: int) -> Segment | None:
        """Return the segment with the entry that follows the commit ``after``; None if there is none."""
        at = bisect_left(self.segments, True, key=lambda segment: segment.last > after)
        found = self.segments[at] if at < len(self.segments) else None
        return found if found is not None and found.after <= after else None


class Archive:
    """The archive of one space, as its keys open it."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._read_last: tuple[str, list[Entry]] = ("", [])
        """The key of the segment that was read last, and what is in it."""

    # -- reading ---------------------------------------------------------------------------------------------------

    def now(self) -> Segments:
        """Return what the record says. Raises Unreachable, DamageError."""
        return _decode(self._space.records.record(ARCHIVE))

    def entries(self, after: int) -> list[Entry]:
        """Return entries that follow the commit ``after``, some 4 MiB; none if they are not archived.

        Raises Unreachable, DamageError.
        """
        why = Missing("")
        for _try in range(_TRIES):
            said = self.now()
            if after >= said.seq:
                return []
            segment = said.holding(after)
            if segment is None:
                raise DamageError(f"the archive of the space has nothing behind commit {after}: {_BACKUP}")
            try:
                found = self.read(segment)
            except Missing as error:
                # another has taken its place
                why = error
                continue
            start = bisect_left(found, after, key=lambda entry: entry.prev)
            if start == len(found) or found[start].prev != after:
                raise Unreachable(f"the space does not have commit {after}, which this replica has")
            return _some(found, start)
        raise DamageError(f"entries of the space are gone: {why}: {_BACKUP}")

    def read(self, segment: Segment) -> list[Entry]:
        """Return the entries of a segment. DamageError if they are not as the record says; Missing, Unreachable."""
        key, found = self._read_last
        if key != segment.key:
            text = self._text(segment)
            found = entries.decode_all(text, segment.after, self._space.id)
            if not found or found[-1].seq != segment.last:
                raise DamageError(f"{segment.key}: this object has not the entries that the space says: {_BACKUP}")
            # who has lost a key may still make what is sealed with it
            sealed, newest = self._space.sealed_with(segment.key), 0
            for entry in found:
                if not newest <= entry.generation <= sealed:
                    raise DamageError(f"{segment.key}: commit {entry.seq} is sealed with key {sealed}, an older one")
                newest = entry.generation
            self._read_last = segment.key, found
        return found

    def _text(self, segment: Segment) -> bytes:
        return zstd.decompress(self._space.bucket.get(segment.key), segment.size)

    def forget(self) -> None:
        """Keep nothing of what was read."""
        self._read_last = ("", [])

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the archive, reading all of it: each entry follows the one before. Unreachable."""
        chain, reached = BEGINNING, 0
        for segment in self.now().segments:
            if segment.after != reached:
                yield f"the archive of the space has nothing between the commits {reached} and {segment.after}"
            reached = segment.last
            try:
                found = self.read(segment)
            except (DamageError, Missing) as error:
                yield str(error)
                chain = b""
                continue
            for entry in found:
                if chain and chained(chain, entry.body) != entry.chain:
                    yield f"{segment.key}: commit {entry.seq} follows another history"
                chain = entry.chain

    # -- growing ---------------------------------------------------------------------------------------------------

    def grow(self, upto: int) -> int:
        """Put entries that the log has, up to the commit ``upto``, into one segment; return how many.

        0 if there are none, another has done so, or the space is to be purged first. They are still in the log
        (:meth:`Log.trim`). Raises StoreFailed, DamageError.
        """
        record = self._space.records.record(ARCHIVE)
        said = _decode(record)
        if said.seq >= upto or not generations.current(self._space.records).purged:
            return 0
        segments = list(said.segments)
        found: list[Entry] = []
        chain, size, begins = BEGINNING, 0, said.seq
        if segments:
            before = self.read(segments[-1])
            chain = before[-1].chain
            if segments[-1].size < SEGMENT_BYTES // 2:
                small = segments.pop()
                found, size, begins = list(before), small.size, small.after
        known = len(found)
        for entry in self._following(said.seq, upto):
            linked = chained(chain, entry.body)
            # the entries of format 1 have neither chain nor token
            if linked != (entry.chain or linked):
                # a redaction is under way
                break
            chain = linked
            found.append(structs.replace(entry, chain=chain, token=entry.token or bytes(entries.TOKEN_BYTES)))
            size += len(entry.body)
            if size >= SEGMENT_BYTES:
                break
        if len(found) == known:
            return 0
        made = self._put(begins, found)
        if not self._swap(record, Segments(made.last, (*segments, made))):
            return 0
        # the next one goes on from it
        self._read_last = made.key, found
        return len(found) - known

    def _following(self, after: int, upto: int) -> Iterator[Entry]:
        while after < upto and (found := self._space.log.entries(after)):
            for entry in found:
                if entry.seq > upto:
                    return
                yield entry
            after = found[-1].seq

    def _put(self, after: int, found: Sequence[Entry], thinned: int = 0) -> Segment:
        """Put entries into an object, durably."""
        text = b"".join(entries.encode(entry, self._space.id) for entry in found)
        data = zstd.compress(text)
        key = f"{PREFIX}{os.urandom(16).hex()}"
        self._space.bucket.put(key, data)
        return Segment(after, found[-1].seq, key, len(data), len(text), len(found), thinned)

    def _swap(self, record: Record, made: Segments) -> bool:
        value = msgspec.json.encode(made)
        records = self._space.records
        # the answer may have been lost, and it was asked once more
        return records.swap(ARCHIVE, record.version, value) or records.record(ARCHIVE).value == value

    # -- changing --------------------------------------------------------------------------------------------------

    def thin(self, dropped: Mapping[int, int], last: int, least_part: float) -> Iterator[int]:
        """Leave contents out that were dropped, where these are ``least_part`` of a segment or more.

        ``dropped`` says by the key of a blob which commit has dropped it, ``last`` which was the last that dropped
        any. Yields the bytes that each segment has freed. Raises StoreFailed, DamageError.
        """
        looked: dict[str, Segment] = {}
        for segment in self.now().segments:
            if segment.thinned >= last:
                continue
            record = self._space.records.record(ARCHIVE)
            said = _decode(record)
            if segment not in said.segments or not generations.current(self._space.records).purged:
                # another is at work
                return
            found = self.read(segment)
            left = [_without(entry, dropped) for entry in found]
            gone = sum(len(entry.body) - len(thin.body) for entry, thin in zip(found, left, strict=True))
            if not gone or gone < least_part * segment.size:
                looked[segment.key] = structs.replace(segment, thinned=last)
                yield 0
                continue
            made = self._put(segment.after, left, last)
            if not self._swap(record, _replaced(said, {segment.key: made})):
                return
            yield segment.length - made.length
        if looked:
            record = self._space.records.record(ARCHIVE)
            self._swap(record, _replaced(_decode(record), looked))

    def rewrite(self, changing: Callable[[], Callable[[Entry], Entry]], generation: int) -> None:
        """Replace all entries by what a function makes of them, one after the other, as :meth:`Log.replace` does.

        ``changing`` returns that function, which may be called from the first entry on more than once. What is sealed
        with an older key than that of ``generation`` is sealed anew. Raises StoreFailed, DamageError.
        """
        while True:
            record = self._space.records.record(ARCHIVE)
            said = _decode(record)
            changed = changing()
            made: dict[str, Segment] = {}
            for segment in said.segments:
                old = self.read(segment)
                new = list(map(changed, old))
                if new != old or self._space.sealed_with(segment.key) < generation:
                    made[segment.key] = self._put(segment.after, new, segment.thinned)
            if not made or self._swap(record, _replaced(said, made)):
                return

    def gone(self) -> list[Segment]:
        """Return the segments that cannot be read, having read all of them. Raises Unreachable."""
        found = []
        for segment in self.now().segments:
            try:
                self.read(segment)
            except (DamageError, Missing):
                found.append(segment)
        return found

    def put_back(self, segments: Collection[Segment], known: Sequence[Entry], packs: int) -> int:
        """Make segments anew of ``known``, all entries of the space that a replica has; return how many entries.

        What they name is in the packs of the space up to ``packs``. Entries without a chain cannot be put back. Raises
        StoreFailed, DamageError.
        """
        record = self._space.records.record(ARCHIVE)
        made: dict[str, Segment] = {}
        count = 0
        for segment in segments:
            first, end = (
                bisect_left(known, seq, key=lambda entry: entry.prev) for seq in (segment.after, segment.last)
            )
            if end > first and known[end - 1].seq == segment.last and known[end - 1].chain:
                some = [structs.replace(entry, packs=packs) for entry in known[first:end]]
                made[segment.key] = self._put(segment.after, some)
                count += end - first
        if made and not self._swap(record, _replaced(_decode(record), made)):
            raise Unreachable("another machine changes the archive of the space meanwhile: try again")
        return count

    # -- what nobody names -----------------------------------------------------------------------------------------

    def objects(self) -> list[str]:
        """Return the keys of all objects that are segments, or were to be. Raises Unreachable."""
        return [key for key, _length in self._space.bucket.list(PREFIX)]

    def orphans(self) -> list[str]:
        """Return the keys of objects that are no segments now. Raises Unreachable, DamageError."""
        objects = self.objects()
        known = {segment.key for segment in self.now().segments}
        return [key for key in objects if key not in known]

    def bar(self) -> Segments:
        """Change the version of the record, so that nothing is named any more that was about to; return the record."""
        while True:
            record = self._space.records.record(ARCHIVE)
            said = _decode(record)
            if self._space.records.swap(ARCHIVE, record.version, msgspec.json.encode(said)):
                return said

    def remove(self, keys: Collection[str]) -> None:
        """Remove objects that were there a moment ago, but for the segments among them. Raises Unreachable."""
        if keys:
            known = {segment.key for segment in self.bar().segments}
            for key in keys:
                if key not in known:
                    self._space.bucket.delete(key)


class _Log(LogOver):
    """A log with what is behind it in the archive; see :class:`store.shared.space.Log`."""

    def __init__(self, log: Log, archive: Archive) -> None:
        super().__init__(log)
        self._archive = archive
        self._end = 0
        """A commit up to which the log is known to have nothing any more."""

    def append(self, entry: Entry) -> Sequence[Entry]:
        try:
            return self._log.append(entry)
        except Behind:
            others = self._archive.entries(entry.prev)
            if not others:
                raise
            return () if others[0].token == entry.token else others

    def entries(self, after: int) -> Sequence[Entry]:
        found: list[Entry] = []
        # few are all that there are, as those of the log itself
        while sum(len(entry.body) for entry in found) < AT_ONCE_BYTES:
            reached = found[-1].seq if found else after
            if reached >= self._end:
                try:
                    some = self._log.entries(reached)
                except DamageError:
                    if found:
                        return found
                    raise
                except Behind:
                    self._end = self._archive.now().seq
                    if reached >= self._end:
                        raise
                else:
                    self._archive.forget()
                    return [*found, *some] if found else some
            if not (archived := self._archive.entries(reached)):
                # the space was put back from a backup
                self._end = 0
            found += archived
        return found

    def replace(self, entry: Entry) -> None:
        self._log.replace(entry)


def archived(space: Space) -> Space:
    """Return a space, as its keys open it, whose log has what is in the archive."""
    space.log = _Log(space.log, Archive(space))
    return space


def _decode(record: Record) -> Segments:
    try:
        return typed.decode(record.value, Segments) if record.value else Segments()
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its archive makes no sense: {error}") from None


def _some(found: Sequence[Entry], start: int) -> list[Entry]:
    """Return the entries from one on, the first or more of some bytes."""
    size, end = 0, start
    while end < len(found) and size < AT_ONCE_BYTES:
        size += len(found[end].body)
        end += 1
    return list(found[start:end])


def _replaced(said: Segments, made: Mapping[str, Segment]) -> Segments:
    return structs.replace(said, segments=tuple(made.get(segment.key, segment) for segment in said.segments))


def _without(entry: Entry, dropped: Mapping[int, int]) -> Entry:
    """Return an entry without the contents that a later commit has dropped."""
    group = decode_entry(entry.body)
    left = [blob for blob in group.blobs if dropped.get(hash_key(blob.hash), 0) <= entry.seq]
    if len(left) == len(group.blobs):
        return entry
    return structs.replace(entry, body=encode_entry(structs.replace(group, blobs=left)))
