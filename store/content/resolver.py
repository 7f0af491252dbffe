"""Blobs by their hashes: found, read, put together, verified.

Many blobs at once take one pass over the packs for the blobs, and one more for contents that lie elsewhere. A content
that is a delta takes one pass more for each base down to the one that lies there whole.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Protocol

from blake3 import blake3

from store.content.compression import Member
from store.content.cuts import join
from store.content.sealed import SealedGroup, is_inner
from store.content.shelf import OpenRecord, Shelf, StoredBlobs, nearest
from store.content.sparing import is_sparing
from store.disk import skeleton_format
from store.disk.blob_format import Chunk, Form, Record
from store.disk.pack import PackRemoved, RecordPlace
from store.disk.skeleton_format import Skeleton
from store.errors import Away, ConvfsError, DamageError, FormatTooNew, Missing, NotFound
from store.ids import Hash, hash_bytes

_DEEPEST = 64


class Batch:
    """Gathers blobs and everything that they are made of, then puts them together. Of one thread, used once.

    Without ``contents``, what is cut out of skeletons is not read: then they can only be asked what that is.
    """

    def __init__(self, shelf: Shelf, *, contents: bool = True) -> None:
        self._shelf = shelf
        self._contents = contents
        self._at_hand: dict[Hash, OpenRecord] = {}
        self._sealed: dict[Hash, tuple[SealedGroup, int]] = {}
        self._waiting: dict[Hash, tuple[Form, bytes]] = {}
        self._bodies: dict[Hash, bytes] = {}
        self._skeletons: dict[Hash, Skeleton] = {}
        self._lists: dict[Hash, list[Chunk]] = {}
        self._deltas: dict[Hash, OpenRecord] = {}
        self._late: dict[Hash, None] = {}
        """Skeletons that are deltas: their needs are known once their bases have been gathered."""

    def gather(self, digests: Sequence[Hash]) -> None:
        """Read the blobs that ``digests`` need; unreadable ones are missing afterwards."""
        seen: set[Hash] = set()
        todo = digests
        while todo or self._late:
            if todo:
                seen.update(todo)
                self._look_up(todo)
            else:
                todo = self._patched()
            needs: dict[Hash, None] = {}
            for digest in todo:
                try:
                    self._take(digest, needs)
                except ConvfsError:
                    continue
            todo = [digest for digest in needs if digest not in seen]

    def references(self, digest: Hash) -> list[Hash] | None:
        """Return the contents that are cut out of a blob, each once, in order; None if it was not gathered."""
        if (skeleton := self._skeletons.get(digest)) is not None:
            return list(dict.fromkeys(cut[3] for cut in skeleton.cuts))
        return [] if digest in self._bodies or digest in self._lists or digest in self._deltas else None

    def assemble(self, digest: Hash, depth: int = 0) -> bytes:
        """Return a blob, not yet compared with its hash. Raises KeyError for a missing one, DamageError."""
        skeleton = self._skeletons.get(digest)
        if skeleton is None:
            if digest in self._deltas and digest not in self._late:
                self._bodies[digest] = self._patch(digest, depth)
            chunks = self._lists.get(digest)
            return self._bodies[digest] if chunks is None else self._joined(chunks)
        if depth > _DEEPEST:
            raise DamageError(f"blob {digest.hex()} contains itself")
        bodies = self._bodies
        for cut in skeleton.cuts:
            content = cut[3]
            if content not in bodies:
                bodies[content] = self.assemble(content, depth + 1)
        return join(skeleton, bodies)

    def _patch(self, digest: Hash, depth: int) -> bytes:
        """Return the body of a delta; errors as in :meth:`assemble`."""
        if depth > _DEEPEST:
            raise DamageError(f"blob {digest.hex()} contains itself")
        opened = self._deltas[digest]
        base = opened.lacks
        if base is not None:
            opened.patch(self.assemble(base, depth + 1))
        body = opened.body(opened.members[digest])
        del self._deltas[digest]
        return body

    def _patched(self) -> list[Hash]:
        """Make the body of a skeleton that is a delta, one that no other waits for; return it if that could be done."""
        digest = next(reversed(self._late))
        for _ in range(_DEEPEST):
            base = self._deltas[digest].base
            if base is None or base not in self._late:
                break
            digest = base
        del self._late[digest]
        try:
            self._patch(digest, 0)
        except (ConvfsError, KeyError):
            del self._deltas[digest]
            return []
        return [digest]

    def _joined(self, chunks: list[Chunk]) -> bytes:
        pieces = []
        for digest, length in chunks:
            piece = self._bodies[digest]
            if len(piece) != length:
                raise DamageError(f"chunk {digest.hex()} has another length than it should")
            pieces.append(piece)
        return b"".join(pieces)

    def _look_up(self, digests: Sequence[Hash]) -> None:
        at_hand, pending = self._at_hand, self._shelf.source.pending
        missing = []
        for digest in digests:
            if digest in at_hand:
                continue
            waiting = pending(digest)
            if waiting is None:
                missing.append(digest)
            else:
                self._waiting[digest] = waiting
        if missing:
            found = self._shelf.source.locations(missing)
            sealed = self._read({location[:2] for locations in found.values() for location in nearest(locations)})
            if sealed:
                self._note_sealed(found, sealed)

    def _note_sealed(
        self, found: Mapping[Hash, Sequence[tuple[int, int, int]]], sealed: Mapping[RecordPlace, SealedGroup]
    ) -> None:
        """Record which blobs are in sealed groups, as far as the index knows: the groups do not hold names."""
        expected: dict[RecordPlace, list[int]] = {}
        for digest, locations in found.items():
            if digest not in self._at_hand:
                for pack, offset, member in locations:
                    if (group := sealed.get((pack, offset))) is not None:
                        self._sealed[digest] = group, member
                        expected.setdefault((pack, offset), []).append(member)
        for place, members in expected.items():
            # what is damaged shows where it is asked for
            with suppress(DamageError):
                sealed[place].expect(members)

    def _read(self, places: set[RecordPlace]) -> dict[RecordPlace, SealedGroup]:
        """Open the records at ``places``; return those that are sealed groups."""
        shelf = self._shelf
        found = {place: opened for place in places if (opened := shelf.kept(place)) is not None}
        if len(found) < len(places):
            for place, record in shelf.source.read_many(sorted(places - found.keys())):
                if isinstance(record, ConvfsError):
                    continue
                try:
                    opened = found[place] = shelf.open(record)
                except ConvfsError:
                    continue
                shelf.keep(place, opened)
        sealed: dict[RecordPlace, SealedGroup] = {}
        for place, opened in found.items():
            if opened.sealed is not None:
                sealed[place] = opened.sealed
            else:
                self._at_hand.update(dict.fromkeys(opened.members, opened))
        return sealed

    def _take(self, digest: Hash, needs: dict[Hash, None]) -> None:
        """Decode one blob that is in memory or pending, and add the blobs that it is made of to ``needs``."""
        form: int
        opened = self._at_hand.get(digest)
        sealed = self._sealed.get(digest)
        if opened is None and sealed is not None:
            self._unseal(digest, *sealed, needs)
            return
        if opened is None:
            waiting = self._waiting.get(digest)
            if waiting is None:
                return
            form, body = waiting
        elif opened.chunks is not None:
            self._lists[digest] = opened.chunks
            if self._contents:
                for chunk in opened.chunks:
                    needs[chunk.hash] = None
            return
        elif (base := opened.lacks) is not None:
            self._deltas[digest] = opened
            if opened.members[digest][0] == Form.SKELETON:
                self._late[digest] = None
            needs[base] = None
            return
        else:
            entry = opened.members[digest]
            form, body = entry[0], opened.body(entry)
        if form == Form.SKELETON:
            skeleton = skeleton_format.decode(body)
            self._skeletons[digest] = skeleton
            if self._contents:
                for cut in skeleton.cuts:
                    needs[cut[3]] = None
        else:
            self._bodies[digest] = body

    def _unseal(self, digest: Hash, group: SealedGroup, member: int, needs: dict[Hash, None]) -> None:
        """Decode one blob of a sealed group, as :meth:`_take` does; blobs in the same group are at hand at once."""
        if group.form(member) == Form.PLAIN:
            self._bodies[digest] = group.plain(member)
            return
        skeleton = group.skeleton(member)
        for cut in skeleton.cuts:
            name = cut[3]
            if is_inner(name):
                if name not in self._bodies:
                    self._bodies[name] = group.inner(name)
            else:
                needs[name] = None
        self._skeletons[digest] = skeleton


class Reader(Protocol):
    """A content that is being read."""

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on, fewer at the end. Raises DamageError, NotFound."""


class Chunked:
    """A blob in chunks, which ``fetch`` reads and verifies; one of them is in memory at a time."""

    def __init__(self, chunks: Sequence[Chunk], fetch: Callable[[Chunk], bytes]) -> None:
        self._chunks = chunks
        self._fetch = fetch
        self._ends = list(accumulate(chunk.length for chunk in chunks))
        self._held: tuple[int, bytes] = (-1, b"")

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of it; chunks that are not needed are not read."""
        pieces: list[bytes] = []
        at, stop = bisect_right(self._ends, offset), offset + size
        while at < len(self._chunks) and (start := self._ends[at] - self._chunks[at].length) < stop:
            pieces.append(self._chunk(at)[max(offset - start, 0) : stop - start])
            at += 1
        return b"".join(pieces)

    def _chunk(self, at: int) -> bytes:
        # set as one: threads may share it
        held, data = self._held
        if held != at:
            data = self._fetch(self._chunks[at])
            self._held = (at, data)
        return data


def salvage(shelf: Shelf, digest: Hash) -> bytes:
    """Return a blob from the first place that has it intact.

    Raises NotFound where the store does not have it, DamageError (or FormatTooNew) where no place will do.
    """
    return _Salvage(shelf).blob(digest, 0)


class _Salvage:
    """Remembers every blob that it has tried, so that blobs made of each other in hostile ways cost no more."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._tried: dict[Hash, bytes | ConvfsError] = {}

    def blob(self, digest: Hash, depth: int) -> bytes:
        known = self._tried.get(digest)
        if known is None:
            inside = DamageError(f"blob {digest.hex()} contains itself")
            if depth > _DEEPEST:
                raise inside
            self._tried[digest] = inside
            try:
                known = self._search(digest, depth)
            except ConvfsError as error:
                known = error
            self._tried[digest] = known
        if isinstance(known, ConvfsError):
            raise known
        return known

    def _search(self, digest: Hash, depth: int) -> bytes:
        source = self._shelf.source
        pending = source.pending(digest)
        if pending is not None:
            try:
                spelt = self._spelt(*pending, depth)
            except NotFound as error:
                raise DamageError(f"blob {digest.hex()} cannot be read: {error}") from error
            return _verified(spelt, digest, "it waits to be packed, but")

        def take(place: RecordPlace, member: int) -> bytes | None:
            try:
                return self._at(place, member, digest, depth)
            except (Away, FormatTooNew, PackRemoved):
                raise
            except ConvfsError as error:
                raise DamageError(f"blob {digest.hex()} cannot be read: {error}") from error

        return self._shelf.search(digest, take, Missing(f"no blob {digest.hex()} in this store"))

    def _at(self, place: RecordPlace, member: int, digest: Hash, depth: int) -> bytes | None:
        """Return a blob from one place; None if another blob lies there."""
        opened = self._shelf.at(place, afresh=True)
        where = f"in pack {place[0]} at offset {place[1]},"
        if opened.sealed is not None:
            return _verified(self._unsealed(opened.sealed, member, depth), digest, where)
        entry = opened.members.get(digest)
        if entry is None:
            return None
        if opened.chunks is not None:
            data = b"".join([self.blob(chunk.hash, depth + 1) for chunk in opened.chunks])
        else:
            if opened.base is not None:
                opened.patch(self.blob(opened.base, depth + 1))
            data = self._spelt(entry[0], opened.body(entry), depth)
        return _verified(data, digest, where)

    def _unsealed(self, group: SealedGroup, member: int, depth: int) -> bytes:
        if group.form(member) == Form.PLAIN:
            return group.plain(member)
        skeleton = group.skeleton(member)
        names = {cut[3] for cut in skeleton.cuts}
        return join(
            skeleton, {name: group.inner(name) if is_inner(name) else self.blob(name, depth + 1) for name in names}
        )

    def _spelt(self, form: int, body: bytes, depth: int) -> bytes:
        if form == Form.PLAIN:
            return body
        skeleton = skeleton_format.decode(body)
        return join(skeleton, {cut[3]: self.blob(cut[3], depth + 1) for cut in skeleton.cuts})


def _verified(data: bytes, digest: Hash, where: str) -> bytes:
    if hash_bytes(data) != digest:
        raise DamageError(f"{where} its bytes do not have its hash")
    return data


_ASIDE_BYTES = 4 << 20
"""The decompressed records that are kept for threads that are sparing."""


class Resolver:
    """Reads blobs. Safe to share between threads; no lock is held while anything is read or decompressed.

    Every blob that is returned has been compared with its hash. A content that is only put into a payload is not
    compared by itself: the payload's hash covers it. ``cache_bytes`` bounds the decompressed records that are kept;
    threads that are sparing (``store.content.sparing``) share a few more of them.
    """

    def __init__(self, source: StoredBlobs, cache_bytes: int) -> None:
        self.asked = 0
        """The number of times that blobs were asked for, by and large: threads do not wait for each other to count."""
        self._source = source
        self._cache_bytes = cache_bytes
        self._shared = self._aside = Shelf(source, cache_bytes)
        self.forget()

    @property
    def _shelf(self) -> Shelf:
        return self._aside if is_sparing() else self._shared

    def blob(self, digest: Hash) -> bytes:
        """Return one blob. Raises NotFound, DamageError, FormatTooNew."""
        found = self.blobs((digest,))[digest]
        if isinstance(found, ConvfsError):
            raise found
        return found

    def blobs(self, digests: Sequence[Hash]) -> dict[Hash, bytes | ConvfsError]:
        """Return many blobs, with errors in place of missing or damaged ones.

        Reads in the order of the packs, once for the blobs and once more for contents that lie elsewhere. All of it is
        in memory at the same time.
        """
        self.asked += 1
        batch = Batch(self._shelf)
        batch.gather(digests)
        results: dict[Hash, bytes | ConvfsError] = {}
        for digest in digests:
            try:
                data = batch.assemble(digest)
                if blake3(data).digest() == digest:
                    results[digest] = data
                    continue
            except (ConvfsError, KeyError):
                pass  # salvage finds another copy, or the reason
            try:
                results[digest] = salvage(self._shelf, digest)
            except ConvfsError as error:
                results[digest] = error
        return results

    def references(self, digests: Sequence[Hash]) -> dict[Hash, list[Hash]]:
        """Return which contents are cut out of each of many payloads; those that cannot be read are left out.

        The contents themselves are not read.
        """
        batch = Batch(self._shelf, contents=False)
        batch.gather(digests)
        found = ((digest, batch.references(digest)) for digest in digests)
        return {digest: references for digest, references in found if references is not None}

    def parts(self, digests: Iterable[Hash]) -> set[Hash]:
        """Return some blobs and all that is named in them: the contents of payloads, and the chunks of large ones.

        Contents that lie in the sealed group of their payload have no names there, and are left out.
        """
        found = set(digests)
        todo = list(found)
        while todo:
            named = {part for parts in self.references(todo).values() for part in parts if not is_inner(part)}
            for digest in todo:
                with suppress(ConvfsError):
                    named.update(chunk.hash for chunk in self._chunks(digest) or ())
            todo = [digest for digest in named if digest not in found]
            found.update(todo)
        return found

    def check(self, digest: Hash) -> None:
        """Return if the blob is there and intact. Raises NotFound, DamageError, FormatTooNew."""
        for _piece in self.pieces(digest):
            pass

    def size(self, digest: Hash) -> int:
        """Return the length of a blob, from the table of its record. Raises NotFound, DamageError, FormatTooNew."""
        pending = self._source.pending(digest)
        if pending is None:
            opened, member = self._find(digest)
            return opened.members[digest][1] if opened.sealed is None else opened.sealed.length(member)
        form, body = pending
        return skeleton_format.decode(body).payload_length if form == Form.SKELETON else len(body)

    def bases(self, digest: Hash) -> list[Hash]:
        """Return the chain of bases of a blob: the base of its delta, that one's base, and so on to a whole blob.

        Errors as :meth:`size`; DamageError where that would not end.
        """
        found: list[Hash] = []
        at: Hash | None = digest
        while at is not None and self._source.pending(at) is None and (at := self._find(at)[0].base) is not None:
            if at in found or at == digest:
                raise DamageError(f"blob {digest.hex()} is made from itself")
            found.append(at)
        return found

    def pieces(self, digest: Hash) -> Iterator[bytes]:
        """Yield the bytes of a blob in order; of one that is stored in chunks, only one is in memory at a time.

        Each chunk is verified before it is yielded; whether they make up the blob is known at the end (DamageError).
        """
        chunks = self._chunks(digest)
        if chunks is None:
            yield self.blob(digest)
            return
        whole = blake3()
        for chunk in chunks:
            piece = self._chunk(digest, chunk)
            whole.update(piece)
            yield piece
        if whole.digest() != digest:
            raise DamageError(f"blob {digest.hex()} is damaged: its chunks are not those that it was cut into")

    def part(self, digest: Hash, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start`` on, fewer at the end; chunks that are not needed are not read."""
        return self.reader(digest).read(start, length)

    def reader(self, digest: Hash) -> Reader:
        """Begin to read a blob in parts. Raises NotFound, DamageError, FormatTooNew."""
        chunks = self._chunks(digest)
        if chunks is None:
            data = self.blob(digest)
            return Chunked([Chunk(digest, len(data))], lambda _chunk: data)
        return Chunked(chunks, partial(self._chunk, digest))

    def open(self, record: Record) -> OpenRecord:
        """Open a record that was read without the help of this. Raises DamageError, NotFound (of a dictionary)."""
        return self._shelf.open(record)

    def forget(self) -> None:
        """Drop everything that was read so far."""
        self._shared = Shelf(self._source, self._cache_bytes)
        self._aside = Shelf(self._source, min(self._cache_bytes, _ASIDE_BYTES))

    def _find(self, digest: Hash) -> tuple[OpenRecord, int]:
        """Return an open record that has the blob, and which of its members that is, as far as the index knows."""

        def take(place: RecordPlace, member: int) -> tuple[OpenRecord, int] | None:
            opened = self._shelf.at(place)
            if opened.sealed is None:
                return (opened, member) if digest in opened.members else None
            return (opened, member) if opened.sealed.is_called(member, digest) else None

        return self._shelf.search(digest, take, Missing(f"no blob {digest.hex()} in this store"))

    def _chunks(self, digest: Hash) -> list[Chunk] | None:
        return None if self._source.pending(digest) is not None else self._find(digest)[0].chunks

    def _chunk(self, whole: Hash, chunk: Chunk) -> bytes:
        try:
            piece = self.blob(chunk.hash)
        except ConvfsError as error:
            raise DamageError(f"blob {whole.hex()} is damaged in one of its chunks: {error}") from error
        if len(piece) != chunk.length:
            raise DamageError(f"blob {whole.hex()} is damaged: a chunk has another length than it should")
        return piece


def bodies(resolver: Resolver, opened: OpenRecord) -> Iterator[tuple[Hash, Form, bytes]]:
    """Yield hash, form and body, as stored, of every blob of a record that is not in chunks. Raises ConvfsError."""
    if opened.chunks is not None:
        return
    if opened.sealed is not None:
        yield from ((member.hash, member.form, member.body) for member in opened.sealed.members())
        return
    if (base := opened.lacks) is not None:
        opened.patch(resolver.blob(base))
    for digest, entry in opened.members.items():
        yield digest, Form(entry[0]), opened.body(entry)


def members(resolver: Resolver, opened: OpenRecord) -> Iterator[Member]:
    """Yield the blobs of a record that is no sealed group, to be packed anew. Raises ConvfsError."""
    for digest, form, body in bodies(resolver, opened):
        yield Member(digest, form, opened.members[digest][1], body)
