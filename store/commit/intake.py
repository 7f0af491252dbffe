"""Blobs on their way into the packs: cut, deduplicated, grouped.

An append carries its payload whole in its journal entry: cutting and deduplicating can wait for the checkpoint. An
import would push every byte through the journal for nothing, so it writes straight to the packs, and journals only its
turns, after the packs are synced. Both use a :class:`Load`.

Deltas: large content is stored against earlier content that it resembles.

Correcting a line of a long tool result makes a new payload whose contents resemble those of the payload that it
replaces. What is appended or imported may resemble anything: sketches of large contents find that (``Index.sketched``).
Such a content is stored as a delta, against the earlier one or, if that is itself a delta, against its base, which is
stored whole, as long as the delta stays small. So reading seldom takes more than two records, and never more than nine.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import chain, islice, starmap

from blake3 import blake3

from store import paths
from store.commit import patience
from store.commit.doomed import Doomed
from store.commit.interrupts import WHOLE
from store.commit.packer import Packer, Part
from store.commit.pending import Waiting
from store.commit.reliance import Region, Reliance
from store.commit.writer import Writer
from store.content import zstd
from store.content.compression import (
    GROUP_BYTES,
    LEAST_BYTES,
    MAX_BODY_BYTES,
    SMALL_GROUP_BYTES,
    Member,
    Packed,
    pack_delta,
    pack_records,
    taken_apart,
)
from store.content.cuts import cut
from store.content.delta import Delta, chunks, chunks_of, difference, sketch
from store.content.resolver import Resolver, members
from store.content.sealed import names_of
from store.content.shelf import StoredBlobs
from store.disk.blob_format import Chunk, Compression, Form, codec, decode_record, encode_chunks, encode_record
from store.errors import Away, ConvfsError, UsageError
from store.ids import Hash, hash_bytes, hash_key
from store.index.index import places_in
from store.paths import REMOTE

_LOG = logging.getLogger(__name__)

_NOTHING: Mapping[Hash, Hash] = {}
_CHUNKED_BYTES = MAX_BODY_BYTES // 2
_GROUPS_AHEAD = 4
_READ_AT_ONCE = 1 << 20


class Load:
    """Writes many blobs straight into the packs, in groups, in the order in which they are added.

    Added blobs can be read, and named by turns, after :meth:`sync`. For one thread. A write that fails raises
    StoreFailed, and the store takes no more.
    """

    def __init__(
        self,
        intake: Intake,
        held: Callable[[Sequence[Hash], Region], set[Hash]],
        packer: Executor | None = None,
        *,
        logged: bool = False,
    ) -> None:
        """``logged`` says that all of it has been committed with the entries that name it."""
        self._intake = intake
        self._logged = logged
        self._region = region = intake.reliance.region()
        self._packer = packer
        self._held = held
        self._group: list[Member] = []
        self._group_bytes = 0
        self._new: set[Hash] = set()
        self._packing: deque[Future[list[Packed]]] = deque()
        """Groups that are being compressed, in order."""
        self._left: list[Waiting] = []
        """The payloads that another process compresses, and in the next line the parts of them that it has."""
        self._left_parts: set[Hash] = set()
        self._lists: list[Packed] = []
        """The lists of chunks that are to be written once these are durable."""
        new, packed = self._new, intake.packed_here if logged else intake.packed
        self._versions = Versions(intake, lambda digest: digest in new or bool(packed([digest], region)))

    def payloads(self, payloads: Sequence[bytes], earlier: Mapping[Hash, Hash] = _NOTHING) -> list[Hash]:
        """Add payloads of turns, whose large strings become blobs of their own; return their hashes.

        ``earlier`` holds the payloads that new ones replace, by hash: the parts that they share are not stored again.
        """
        digests = [hash_bytes(payload) for payload in payloads]
        missing = self._missing(digests)
        limit = self._intake.inline_limit
        new = {digest: payload for digest, payload in zip(digests, payloads, strict=True) if digest in missing}
        apart = [taken_apart(digest, payload, limit) for digest, payload in new.items()]
        missing = self._missing([content.hash for parts in apart for content in parts[:-1]])
        if self._logged:
            # the entries have these payloads whole: what is cut out of them here others do not have by its name
            self._intake.keep_local(missing)
        for *contents, whole in apart:
            before = earlier.get(whole.hash)
            for content in contents:
                if content.hash in missing:
                    missing.remove(content.hash)
                    self._add(content, before)
            self._add(whole, before)
        return digests

    def prepared(self, records: Sequence[Packed], rest: Sequence[Member]) -> None:
        """Add blobs that another process has made of payloads: those that it has packed, and the rest of them."""
        missing = self._missing([*(name for _record, names in records for name in names), *(one.hash for one in rest)])
        whole: list[Packed] = []
        for record in records:
            if missing.issuperset(record[1]):
                whole.append(record)
                missing.difference_update(record[1])
                self._new.update(record[1])
            elif not missing.isdisjoint(record[1]):
                # some of it is here already
                resolver = self._intake.resolver
                for member in members(resolver, resolver.open(decode_record(memoryview(record[0])))):
                    self._add_missing(member, missing)
        if whole:
            self._put_packed(whole)
        for member in rest:
            self._add_missing(member, missing)

    def _add_missing(self, member: Member, missing: set[Hash]) -> None:
        if member.hash in missing:
            missing.remove(member.hash)
            self._add(member)

    def journalled(self, blobs: Sequence[Waiting], packer: Packer, earlier: Mapping[Hash, Hash]) -> None:
        """Add payloads that lie in the journals, as :meth:`payloads` does, by another process.

        It goes on with these while their caller brings the next; bringing none waits for the last. Raises PackerGone
        where it has ended: these can be added otherwise then, after those :meth:`left`. DamageError where one is not
        there.
        """
        missing = self._missing([blob.hash for blob in blobs])
        records = packer.packed() if self._left else []
        self._left, self._left_parts = [], set()
        try:
            if missing:
                packer.cut([blob for blob in blobs if blob.hash in missing], self._intake.inline_limit)
        finally:
            self._intake.write(records, self._region, logged=self._logged)
        if not missing:
            return
        taken = packer.taken()
        missing = self._missing([part.hash for parts in taken for part in parts[:-1]])
        self._intake.keep_local(missing)
        group: list[Part] = []
        for *contents, whole in taken:
            for part in (*(one for one in contents if one.hash in missing), whole):
                missing.discard(part.hash)
                if part.size < LEAST_BYTES:
                    group.append(part)
                else:
                    self._add(packer.fetch(part), earlier.get(whole.hash))
        if group:
            small = sum(part.size for part in group) < SMALL_GROUP_BYTES
            packer.pack(group, self._intake.dictionary() if small else None)
            self._left, self._left_parts = list(blobs), {part.hash for part in group}
            self._new |= self._left_parts

    def left(self) -> list[Waiting]:
        """Return the payloads that another process has had, and did not give back: they are to be added once more."""
        self._new -= self._left_parts
        left, self._left, self._left_parts = self._left, [], set()
        return left

    def blob(self, data: bytes) -> Hash:
        """Add a blob as it is; a very large one in chunks."""
        if len(data) > _CHUNKED_BYTES:
            return self.huge(memoryview(data))
        digest = hash_bytes(data)
        if self._missing([digest]):
            self._add(Member(digest, Form.PLAIN, len(data), data))
        return digest

    def huge(self, data: memoryview, passed: Callable[[int], None] = lambda _position: None) -> Hash:
        """Add a blob of any size without holding it: in chunks; ``passed`` is told how far reading has come."""
        return self.stream(_passing(data, passed))[0]

    def stream(self, pieces: Iterable[bytes | memoryview]) -> tuple[Hash, int]:
        """Add a blob that comes in pieces, of any size and in chunks, and return its hash and its size."""
        whole, size = blake3(), 0
        listed: list[Chunk] = []
        for chunk in chunks_of(pieces):
            whole.update(chunk)
            size += len(chunk)
            listed.append(Chunk(self._chunk(chunk), len(chunk)))
        if len(listed) < 2:
            return (listed[0].hash if listed else self._chunk(b"")), size
        digest = Hash(whole.digest())
        if self._missing([digest]):
            self._list(digest, size, encode_chunks(listed))
        return digest, size

    def _list(self, digest: Hash, size: int, listed: bytes) -> None:
        record = encode_record(codec(Compression.CHUNKS, Form.PLAIN), size, digest, listed)
        self._lists.append((record, [digest]))
        self._new.add(digest)

    def sync(self) -> None:
        """Make what was added durable and readable."""
        if self._left:
            raise UsageError("another process still has some of it")
        self._flush()
        if self._lists:
            # a power failure might leave a list of missing chunks otherwise; one sync is for all lists
            self._intake.sync()
            lists, self._lists = self._lists, []
            self._intake.write(lists, self._region, logged=self._logged)
        self._intake.note_sketches(self._versions.taken_sketches())
        self._intake.sync()
        self._new.clear()

    def _chunk(self, data: bytes) -> Hash:
        digest = hash_bytes(data)
        if self._missing([digest]):
            # all of a large content is compressed now, and once more when it is sealed
            self._put(Member(digest, Form.PLAIN, len(data), data), zstd.QUICK)
        return digest

    def _missing(self, digests: Sequence[Hash]) -> set[Hash]:
        unknown = set(digests) - self._new
        return unknown - self._held(list(unknown), self._region) if unknown else unknown

    def _add(self, member: Member, earlier: Hash | None = None) -> None:
        large = len(member.body) >= LEAST_BYTES
        if large and (record := self._versions.record(member, earlier)) is not None:
            self._new.add(member.hash)
            self._put_packed([(record, [member.hash])])
            return
        self._put(member)

    def _put_packed(self, records: list[Packed]) -> None:
        packed: Future[list[Packed]] = Future()
        packed.set_result(records)
        # behind the groups that are being compressed: so the packs do not depend on how fast that is
        self._packing.append(packed)
        self._write_packed()

    def _put(self, member: Member, level: int = zstd.LEVEL) -> None:
        self._new.add(member.hash)
        self._group.append(member)
        self._group_bytes += len(member.body)
        if self._group_bytes >= GROUP_BYTES:
            self._pass_on(level)

    def _flush(self) -> None:
        self._pass_on()
        while self._packing:
            self._intake.write(self._packing.popleft().result(), self._region, logged=self._logged)

    def _pass_on(self, level: int = zstd.LEVEL) -> None:
        """Start compressing the current group, and write the groups that are done."""
        if self._group:
            dictionary = self._intake.dictionary() if self._group_bytes < SMALL_GROUP_BYTES else None
            group, self._group, self._group_bytes = self._group, [], 0
            if self._packer is None:
                self._intake.write(pack_records(group, dictionary, level), self._region, logged=self._logged)
            else:
                self._packing.append(self._packer.submit(pack_records, group, dictionary, level))
        self._write_packed()

    def _write_packed(self) -> None:
        """Write the groups that are done; wait for those that come first if there are many."""
        while self._packing and (len(self._packing) > _GROUPS_AHEAD or self._packing[0].done()):
            self._intake.write(self._packing.popleft().result(), self._region, logged=self._logged)


def _passing(data: memoryview, passed: Callable[[int], None]) -> Iterator[memoryview]:
    for start in range(0, len(data), _READ_AT_ONCE):
        yield data[start : start + _READ_AT_ONCE]
        passed(min(start + _READ_AT_ONCE, len(data)))


_DEEPEST = 8
_TINY = 512
_SMALL, _HALF, _EIGHTH = 32, 2, 8

_PIECE = 1 << 10
_AT_HAND_BYTES = 16 << 20


class Versions:
    """Makes the deltas of one load.

    ``limit`` is where strings leave payloads. Earlier payloads are read by ``resolver``, wherever they are; contents
    are deltas only against what is ``there``, in the packs or written by this load already, and ``packed`` reads those:
    a blob that waits in the journal may be packed as a delta against this very one.

    Without an earlier payload, or if nothing in that will do, the base is what the sketch of a content leads to.
    """

    def __init__(self, intake: Intake, there: Callable[[Hash], bool]) -> None:
        self._resolver = intake.resolver
        self._packed = intake.in_packs
        self._sketched = intake.writer.index.sketched
        self._limit = intake.inline_limit
        self._there = there
        self._bases: dict[Hash, list[Hash]] = {}
        """The blobs that this load has stored as deltas, with the blobs that each needs, nearest first."""
        self._parts = _Parts(None, [])
        self._sketches: dict[int, Hash] = {}
        self._at_hand: dict[Hash, bytes] = {}
        """The contents that were added last: until the load is synced, they cannot be read."""
        self._at_hand_bytes = 0

    def taken_sketches(self) -> dict[int, Hash]:
        """Return the sketches of what was added since the last call: by each feature, the last content with it."""
        taken, self._sketches = self._sketches, {}
        return taken

    def record(self, member: Member, earlier: Hash | None) -> bytes | None:
        """Return a record that holds a blob as a delta; None where that would not be much smaller than the blob alone.

        Not for blobs of less than :data:`LEAST_BYTES`. ``earlier`` is the payload that the blob's takes the place of,
        if any.
        """
        features = sketch(member.body)
        nearest = self._replaced(member, earlier) if earlier is not None else None
        if nearest is None or not self._there(nearest[0]):
            nearest = self._alike(member, features)
        record = self._record(member, nearest) if nearest is not None else None
        self._sketches.update(dict.fromkeys(features, member.hash))
        if member.form == Form.PLAIN:
            self._keep_at_hand(member)
        return record

    def _replaced(self, member: Member, earlier: Hash) -> tuple[Hash, bytes] | None:
        if self._parts.payload != earlier:
            self._parts = self._taken_apart(earlier)
        return self._parts.nearest(member)

    def _alike(self, member: Member, features: list[int]) -> tuple[Hash, bytes] | None:
        """Return what there is that shares most features with a blob."""
        found = self._sketched(features) | {
            feature: self._sketches[feature] for feature in features if feature in self._sketches
        }
        for digest, _count in Counter(found.values()).most_common():
            if digest != member.hash and self._there(digest):
                data = self._at_hand.get(digest) or self._read(digest)
                if data is not None:
                    return digest, data
        return None

    def _keep_at_hand(self, member: Member) -> None:
        self._at_hand[member.hash] = member.body
        self._at_hand_bytes += len(member.body)
        while self._at_hand_bytes > _AT_HAND_BYTES and len(self._at_hand) > 1:
            self._at_hand_bytes -= len(self._at_hand.pop(next(iter(self._at_hand))))

    def _record(self, member: Member, nearest: tuple[Hash, bytes]) -> bytes | None:
        body = member.body
        try:
            # the one that lies there whole first
            chain = [nearest[0], *self._needs(nearest[0])][::-1]
        except ConvfsError:
            return None
        if member.hash in chain:
            # it was damaged, and is written once more
            return None
        best: tuple[int, int, Delta] | None = None
        alone = 0
        for depth, base in enumerate(chain[:_DEEPEST]):
            data = nearest[1] if base == nearest[0] else self._read(base) if self._there(base) else None
            if data is None:
                continue
            delta = difference(data, body)
            if best is None or delta.size < best[0]:
                best = delta.size, depth, delta
            if delta.size <= _TINY:
                break
            alone = alone or len(zstd.compress(body))
            if delta.size <= alone // _SMALL:
                break
        if best is None or best[0] > max(alone // (_HALF if len(chain) <= _DEEPEST else _EIGHTH), _TINY):
            return None
        _size, depth, delta = best
        self._bases[member.hash] = chain[depth::-1]
        return pack_delta(member, chain[depth], delta)

    def _needs(self, digest: Hash) -> list[Hash]:
        known = self._bases.get(digest)
        if known is not None:
            return known
        try:
            return self._packed.bases(digest)
        except ConvfsError:
            if self._there(digest):
                return []
            raise

    def _read(self, digest: Hash) -> bytes | None:
        try:
            return self._packed.blob(digest)
        except ConvfsError:
            return None  # not in the packs yet, perhaps

    def _taken_apart(self, earlier: Hash) -> _Parts:
        try:
            payload = self._resolver.blob(earlier)
        except ConvfsError:
            return _Parts(None, [])
        taken = cut(payload, self._limit)
        contents = taken.contents if taken else []
        return _Parts((earlier, payload), [part for part in contents if len(part[1]) >= LEAST_BYTES])


class _Parts:
    """A payload, and the contents that it was made of; finds the one that resembles another most."""

    def __init__(self, whole: tuple[Hash, bytes] | None, contents: list[tuple[Hash, bytes]]) -> None:
        self.payload = whole[0] if whole else None
        self._whole = whole
        self._contents = contents
        self._pieces: dict[bytes, int] | None = None

    def nearest(self, member: Member) -> tuple[Hash, bytes] | None:
        """Return what ``member`` has most in common with, if it is a content; a skeleton has with the payload."""
        if not self._contents or member.form == Form.SKELETON:
            return self._whole
        if len(self._contents) == 1:
            return self._contents[0]
        if self._pieces is None:
            self._pieces = {
                piece: number for number, (_digest, content) in enumerate(self._contents) for piece in _pieces(content)
            }
        shared = Counter(self._pieces[piece] for piece in _pieces(member.body) if piece in self._pieces)
        return self._contents[shared.most_common(1)[0][0]] if shared else None


def _pieces(content: bytes) -> Iterator[bytes]:
    return (content[start:stop] for start, stop in chunks(content, _PIECE))


def _none_waits(_digest: Hash) -> None:
    return None


_REMEMBERED = 100_000
_SOUND = 1 << 13
"""The blobs of which it is remembered that they are intact, at most: some 1 MB."""
_CACHE_BYTES = 8 << 20


def _remember(known: dict[Hash, None], digests: Collection[Hash]) -> None:
    if len(known) + len(digests) > _SOUND:
        known.clear()
    known.update(dict.fromkeys(islice(digests, _SOUND)))


_OUTGOING_BYTES = 16 << 20
"""The size of a published pack, roughly."""


class Intake:
    """Knows for one store which blobs it holds, and begins loads. Safe to share between threads."""

    def __init__(self, writer: Writer, resolver: Resolver, inline_limit: int) -> None:
        self.writer = writer
        self.resolver = resolver
        self.inline_limit = inline_limit
        names = writer.index.dictionaries()
        self._dictionary_name = names[-1][1] if names else None
        self._dictionary: tuple[Hash, bytes] | None = None
        # blobs in the journal must not vouch for those in the packs
        self.in_packs = Resolver(StoredBlobs(_none_waits, writer.index, writer.packs), _CACHE_BYTES)
        self._here = Resolver(StoredBlobs(_none_waits, writer.index, writer.packs, only_here=True), _CACHE_BYTES)
        self._sound: dict[Hash, None] = {}
        self._sound_here: dict[Hash, None] = {}
        self.earlier: dict[Hash, Hash] = {}
        """The payload that each payload in the journal replaces, where the caller named one."""
        self._packer = ThreadPoolExecutor(1, "convfs-packing")
        self._append_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self.reliance = Reliance()
        """The regions that rely on blobs."""
        self.doomed = Doomed(writer.journal.directory.parent / paths.DOOMED)
        """The blobs that the space of this store does not hold."""
        self.reliance.gone = self.doomed
        self._unfiled: list[tuple[int, int, list[Hash]]] = []
        """The records that were written and are not filed: the pack and the offset of each, and its blobs."""
        self._written: set[Hash] = set()
        """The hashes of the blobs in ``_unfiled``."""
        self._sketches: dict[int, Hash] = {}
        """Not filed yet, either."""
        self.publish: Callable[[Sequence[bytes]], None] | None = None
        """Brings records to the other machines of a space; None if alone."""
        self.admit: Callable[[], None] = lambda: None
        """Called before something is written that is to be published. Raises StoreFailed if this machine must not."""
        self.prepare: Callable[[], None] = lambda: None
        """Called before packs are rewritten: it sees to what an earlier process may have left there."""
        self.owes: Callable[[], bool] = lambda: False
        """Says whether packs may have what the space has dropped: nothing that is new is to be made of that."""
        self.published: Callable[[tuple[int, int]], None] = lambda end: None
        """Called when everything in the packs, up to a place, is in the space or in its log."""
        self._outgoing: list[bytes] = []
        """The records that were written and have not been published."""
        self._outgoing_bytes = 0
        self._again: list[int] = []
        """The keys of blobs that were written, doomed ones perhaps by then, and are not known to be published."""

    def held(self, digests: Sequence[Hash], region: Region) -> set[Hash]:
        """Return the blobs that the store holds intact, in a pack or in the journal, or will hold after a sync."""
        pending, written = self.writer.pending, self._written
        # these are on their way into the last pack: no sweep touches that
        waiting = written.intersection(digests) | pending.among(digests)
        found = self.reliance.note(region, waiting)
        waiting = waiting if found is None else found
        return waiting | self.packed([digest for digest in digests if digest not in waiting], region)

    def packed(self, digests: Sequence[Hash], region: Region) -> set[Hash]:
        """Return the blobs that a pack holds intact. A damaged one is not deduplicated onto but written again.

        They stay as long as ``region`` is held.
        """
        return self._packed(digests, region, gone=False)

    def _packed(self, digests: Sequence[Hash], region: Region, *, gone: bool) -> set[Hash]:
        while True:
            epoch = self.reliance.epoch
            sound = set(filter(self._sound.__contains__, digests))
            for digest in self.writer.index.locate([digest for digest in digests if digest not in sound]):
                try:
                    self.in_packs.check(digest)
                except ConvfsError:
                    continue
                sound.add(digest)
            noted = self.reliance.note(region, sound, epoch, gone=gone)
            if noted is not None:
                _remember(self._sound, noted)
                return noted

    def packed_here(self, digests: Sequence[Hash], region: Region) -> set[Hash]:
        """Return the blobs that a pack holds intact, and that can be read without the space of this replica.

        What the space does not know by its names must be made of these alone: it does not keep others for that. They
        count even if it does not hold them by their own names, but for what it has dropped and is still to be removed.
        """
        if self.publish is None:
            return self.packed(digests, region)
        # first: most are new, and an error would keep the region for as long as it is kept itself
        there = self._packed(digests, region, gone=not self.owes())
        return {digest for digest in there if self._is_here(digest)}

    def _is_here(self, digest: Hash) -> bool:
        if digest not in self._sound_here:
            try:
                self._here.check(digest)
            except ConvfsError:
                return False
            _remember(self._sound_here, (digest,))
        return True

    def has(self, digest: Hash) -> bool:
        """Return whether a blob is in the packs or in the journal, whatever it is worth."""
        return digest in self.writer.pending or bool(self.writer.index.locate([digest]))

    def load(self) -> Load:
        """Begin to write blobs straight into the packs. They are compressed on another thread.

        While the load is held, no blob that it has written or found is dropped. A caller that lets go of it before
        the commit that names its blobs must do both within ``reliance.relying()``.
        """
        return Load(self, self.held, self._packer)

    def put(self, data: bytes) -> Hash:
        """Store ``data`` and return its name once it is durable. For a day at least nothing need name it."""
        load = self.load()
        digest = load.blob(data)
        load.sync()
        self.touch(digest)
        return digest

    def close(self) -> None:
        """End the compressing thread."""
        self._packer.shutdown()

    # -- versions --------------------------------------------------------------------------------------------------

    def note_earlier(self, earlier: Mapping[Hash, Hash]) -> None:
        """Record the payloads that new payloads, about to be journalled, replace."""
        if len(self.earlier) >= _REMEMBERED:
            self.earlier = {}
        self.earlier.update(earlier)

    def forget_earlier(self, digests: Iterable[Hash]) -> None:
        """Forget about payloads that were packed."""
        for digest in digests:
            self.earlier.pop(digest, None)

    def note_sketches(self, sketches: Mapping[int, Hash]) -> None:
        """File sketches of contents with the places of these, at the next sync."""
        with self._append_lock:
            self._sketches.update(sketches)

    # -- the dictionary --------------------------------------------------------------------------------------------

    @property
    def has_dictionary(self) -> bool:
        """True if the store has a dictionary, readable or not."""
        return self._dictionary_name is not None

    def dictionary(self) -> tuple[Hash, bytes] | None:
        """Return what small groups are compressed with, hash and bytes; None if there is none, or it is damaged."""
        if self._dictionary is None and self._dictionary_name is not None:
            try:
                self.use_dictionary(self._dictionary_name, self.resolver.blob(self._dictionary_name))
            except ConvfsError:
                return None
        return self._dictionary

    def use_dictionary(self, digest: Hash, data: bytes) -> None:
        """Compress small groups with a dictionary from now on; it is in the packs and registered."""
        self._dictionary_name = digest
        self._dictionary = (digest, data)

    def note_dictionary(self) -> None:
        """Use the dictionary that the index has by now, if any: another machine has registered it."""
        names = self.writer.index.dictionaries()
        if names:
            self._dictionary_name, self._dictionary = names[-1][1], None

    def use_no_dictionary(self) -> None:
        """Compress small groups without a dictionary from now on, until there is a new one."""
        self._dictionary_name = self._dictionary = None

    # -- packs -----------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[Packed], region: Region, *, logged: bool = False) -> None:
        """Append records, each with the hashes of its blobs, to the packs. Raises StoreFailed.

        Skips blobs that another thread has written since the look-up: blobs that many bring at once are stored once.
        With ``logged``, all machines of a space have these blobs already.
        """
        # in a space it may have to wait for others, for long
        with nullcontext() if self.publish is not None else WHOLE:
            self._write(records, region, logged=logged)

    def _write(self, records: Sequence[Packed], region: Region, *, logged: bool) -> None:
        writer = self.writer
        writer.check()
        if self.publish is not None and not logged:
            # what is in the packs and cannot be published would keep all that comes later from being filed
            self.admit()
        try:
            with self._append_lock:
                new = [one for one in records if not self._are_there(one[1], region, logged=logged)]
                at = writer.packs.append([record for record, _hashes in new])
                for _record, hashes in new if writer.replaced else ():
                    writer.replaced.written(hashes)
                for (pack, offset), (_record, hashes) in zip(at, new, strict=True):
                    self._unfiled.append((pack, offset, hashes))
                    self._written.update(hashes)
                    self.reliance.note(region, hashes)
                    if self.reliance.lost:
                        self.reliance.lost.difference_update(map(hash_key, hashes))
                if self.publish is not None and not logged:
                    self._outgoing += [record for record, _hashes in new]
                    self._outgoing_bytes += sum(len(record) for record, _hashes in new)
                    self._again += [hash_key(digest) for _record, hashes in new for digest in hashes]
            if self._outgoing_bytes > _OUTGOING_BYTES:
                with patience.waiting(), self._sync_lock:
                    self._publish()
        except Exception as error:
            raise writer.failure(error) from error
        except BaseException:
            # interrupted (Ctrl-C): blobs in the packs may never be filed
            writer.index.db.damaged = True
            raise

    def sync(self) -> None:
        """Sync all writes to disk, and file them. Raises StoreFailed."""
        writer = self.writer
        if not self._unfiled:
            return
        writer.check()
        try:
            # the first caller does it for all
            with patience.waiting() if self.publish is not None else nullcontext(), self._sync_lock:
                with self._append_lock:
                    records = self._unfiled[:]
                    end = writer.packs.end
                if records:
                    with self._append_lock:
                        sketches, self._sketches = self._sketches, {}
                        again, self._again = self._again, []
                    writer.packs.sync()
                    # before these blobs count as held, and anything names them
                    self._publish()
                    self.doomed.restore(again)
                    packs = {number: writer.packs.length(number) for number in {record[0] for record in records}}
                    places = chain.from_iterable(starmap(places_in, records))
                    # the last pack may have grown since
                    writer.index.add_blobs(places, packs | dict((end,)), sketches)
                    with self._append_lock:
                        del self._unfiled[: len(records)]
                        _remember(self._sound, [name for _pack, _offset, names in records for name in names])
                        self._written = {name for _pack, _offset, names in self._unfiled for name in names}
                    self.published(end)
        except Exception as error:
            raise writer.failure(error) from error

    def _publish(self) -> None:
        """Publish what is to be. The caller holds ``_sync_lock``: who syncs afterwards finds it done."""
        with self._append_lock:
            outgoing = self._outgoing[:]
        if outgoing and self.publish is not None:
            self.publish(outgoing)
            with self._append_lock:
                del self._outgoing[: len(outgoing)]
                self._outgoing_bytes = sum(map(len, self._outgoing))

    def adopt(self, records: Sequence[Packed], *, again: bool = False) -> None:
        """Write what other machines have published, but for records whose blobs are all here. Raises StoreFailed.

        What they have published ``again`` may be dropped, and stays it.
        """
        region = self.reliance.region()
        held = self.packed_here([name for _record, names in records for name in names], region)
        new = [one for one in records if not held.issuperset(one[1])]
        self.write(new, region, logged=True)
        if not again:
            self.doomed.restore([hash_key(name) for _record, names in records for name in names])
        if held:
            # another machine may be about to name what it has brought once more
            self._touch_packs(sorted(held))

    def drop(self, keys: Collection[int]) -> None:
        """Have blobs count as missing that a space holds no longer; what running work relies on is brought again.

        What nobody has by now stays missing, and must not be named (:meth:`lacks`). Raises StoreFailed; OSError where
        that cannot be recorded.
        """
        relied = self.reliance.drop(keys, lambda: self.doomed.add(keys))
        brought = self._bring(self._names(relied), self.held)
        self.reliance.lost |= relied.difference(map(hash_key, brought))

    def lacks(self, name: Hash) -> bool:
        """Return whether a commit must not name a blob, as running work has lost it, or some of what is in it."""
        key, lost = hash_key(name), self.reliance.lost
        if lost and key not in lost:
            source = self.writer.pending.get, self.writer.index, self.writer.packs
            try:
                # nothing that was read before vouches for it
                Resolver(StoredBlobs(*source), _CACHE_BYTES).check(name)
            except Away:
                raise
            except ConvfsError:
                lost.add(key)
        return key in lost

    def keep_local(self, digests: Collection[Hash]) -> None:
        """Have blobs that are about to be written count as missing, as only this replica of a space has them."""
        if self.publish is not None and digests:
            places = self.writer.index.locate(list(digests))
            # some the space has all the same, by their names
            keys = {hash_key(one) for one in digests if all(place[0] < REMOTE for place in places.get(one, ()))}
            self.reliance.drop((), lambda: self.doomed.add(keys))

    def _names(self, keys: Collection[int]) -> list[Hash]:
        """Return the names of blobs that wait in the journal or are filed, by their keys."""
        found = dict.fromkeys(self.writer.pending.called(keys))
        for key in keys:
            for pack, offset, _member in self.writer.index.places_of(key):
                with suppress(ConvfsError):
                    names = names_of(self.writer.packs.read(pack, offset))
                    found.update(dict.fromkeys(name for name in names if hash_key(name) == key))
        return list(found)

    def _bring(self, digests: Sequence[Hash], held: Callable[[Sequence[Hash], Region], set[Hash]]) -> list[Hash]:
        """Write blobs once more, with what they are made of and is not ``held``; return those that could be read."""
        load, brought = Load(self, held), []
        for digest in digests:
            try:
                if self.resolver.size(digest) > _CHUNKED_BYTES:
                    load.stream(self.resolver.pieces(digest))
                else:
                    load.payloads([self.resolver.blob(digest)])
                brought.append(digest)
            except ConvfsError as error:
                _LOG.info("a blob that the space has dropped cannot be brought again: %s", error)
        load.sync()
        return brought

    def cold(self, *, roll: bool) -> list[int]:
        """Return the packs that are no longer written to and whose blobs are all filed, and in a space published.

        With ``roll``, these are all current packs.
        """
        packs = self.writer.packs
        self.writer.check()
        self.prepare()
        try:
            with self._append_lock:
                if roll:
                    packs.roll()
                found = packs.cold()
        except Exception as error:
            raise self.writer.failure(error) from error
        self.sync()
        self.writer.index.settle()
        return found

    def touch(self, digest: Hash) -> None:
        """Count a blob that nothing names yet as written just now, in a space on all machines."""
        self.reliance.last(digest)
        if self._touch_packs([digest]) and self.publish is not None:
            # it is written although it is there
            self._sound.pop(digest, None)
            self._bring([digest], lambda names, region: self.held([one for one in names if one != digest], region))

    def _touch_packs(self, digests: Sequence[Hash]) -> bool:
        """Count the packs that have blobs as written just now; return whether one of them was not so by and large."""
        located = self.writer.index.locate(digests).values()
        packs = {pack for places in located for pack, _offset, _member in places}
        touched = [self.writer.packs.touch(pack) for pack in packs]
        return any(touched)

    def forget_packed(self) -> None:
        """Forget which blobs were seen intact in packs."""
        self._sound, self._sound_here = {}, {}

    def shrink(self) -> None:
        """Give back the memory of what was looked up: it is looked up again."""
        self.forget_packed()
        self.in_packs.forget()
        self._here.forget()

    def _are_there(self, digests: Sequence[Hash], region: Region, *, logged: bool) -> bool:
        epoch = self.reliance.epoch
        if logged and self.publish is not None:
            there = all(digest in self._sound_here for digest in digests)
        else:
            there = all(digest in self._written or digest in self._sound for digest in digests)
        if not there:
            return False
        noted = self.reliance.note(region, digests, epoch)
        return noted is not None and len(noted) == len(set(digests))
