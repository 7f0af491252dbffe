"""Looking through the packs: which blobs hold a secret, which are made of such, and which name them.

Every record is decompressed once. What a payload is made of is looked at where it lies, so a content that a thousand
payloads share is looked at once, too: a secret is a string, or a part of one, and no cut goes through a string.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from store.content.opened import Opened
from store.content.resolver import Resolver
from store.disk import skeleton_format
from store.disk.blob_format import Chunk, Form, Record
from store.disk.file_header import Damage
from store.disk.pack import PackSet
from store.errors import ConvfsError, DamageError
from store.ids import HASH_SIZE, Hash, hash_key
from store.redaction import containers
from store.redaction.names import keys_in
from store.redaction.secrets import Secrets


class Bodies:
    """The blobs of records, as they are stored: payloads without their contents, contents, chunks."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def of(self, opened: Opened) -> Iterator[tuple[Hash, Form, bytes]]:
        """Yield hash, form and body of every blob of a record that is not stored in chunks. Raises ConvfsError."""
        if opened.chunks is not None:
            return
        if opened.sealed is not None:
            yield from ((member.hash, member.form, member.body) for member in opened.sealed.members())
            return
        if (base := opened.lacks) is not None:
            opened.patch(self._resolver.blob(base))
        for digest, entry in opened.members.items():
            yield digest, Form(entry[0]), opened.body(entry)


class Survey:
    """What was found of some secrets in the packs that have been looked through. For one thread."""

    def __init__(self, resolver: Resolver, secrets: Secrets, scratch: Path) -> None:
        """Prepare; files that programs of their own read go through ``scratch``."""
        self.held: set[Hash] = set()
        """Blobs that hold a secret, or are made of one that does, or name one: they must become others."""
        self.torn: set[Hash] = set()
        """Chunks that only a part of a secret lies in."""
        self.damaged: list[str] = []
        """What could not be looked into, a line each."""
        self.looked_at = 0
        """How many bytes have been looked at."""
        self._resolver = resolver
        self._bodies = Bodies(resolver)
        self._secrets = secrets
        self._scratch = scratch
        self._names = bytearray()
        self._makers = array("I")
        self._made_of = array("q")
        self._listed: dict[Hash, list[Chunk]] = {}

    def look_through(self, packs: PackSet, numbers: Sequence[int], passed: Callable[[int], None]) -> None:
        """Look at every blob of the packs ``numbers``; ``passed`` is told of bytes of these that have been."""
        for pack, offset, found in packs.scan(numbers=numbers):
            if isinstance(found, Damage):
                self.damaged.append(f"{packs.path(pack).name}, offset {found.offset}: {found.reason}")
                continue
            try:
                self._record(found)
            except ConvfsError as error:
                self.damaged.append(f"{packs.path(pack).name}, offset {offset}: {error}")
            passed(len(found.stored))

    def _within(self, body: bytes) -> bool:
        """Say whether an archive or a database holds a secret that is not seen from outside."""
        try:
            return containers.hold(body, self._secrets, self._scratch)
        except DamageError:
            # it only begins like one
            return False

    def look_within(self, digests: Iterable[Hash]) -> None:
        """Look into archives and databases of any size."""
        for digest in digests:
            try:
                if containers.hold(self._resolver.blob(digest), self._secrets, self._scratch):
                    self.held.add(digest)
            except ConvfsError as error:
                self.damaged.append(f"blob {digest.hex()}: {error}")

    def close(self, known_as: Mapping[Hash, Sequence[bytes]]) -> None:
        """Find what is made of what was found, and what names it.

        ``known_as`` has the digests of blobs by other algorithms.
        """
        for digest, chunks in self._listed.items():
            self._look_at_chunks(digest, chunks)
        makers: dict[int, list[int]] = {}
        for maker, key in zip(self._makers, self._made_of, strict=True):
            makers.setdefault(key, []).append(maker)
        todo = list(self.held)
        while todo:
            digest = todo.pop()
            for name in (digest, *known_as.get(digest, ())):
                for maker in makers.get(hash_key(name), ()):
                    other = self._named(maker)
                    if other not in self.held:
                        self.held.add(other)
                        todo.append(other)
        self._spare_chunks()

    def _record(self, record: Record) -> None:
        opened = self._resolver.open(record)
        if opened.chunks is not None:
            self._listed[record.hash] = opened.chunks
            return
        for digest, form, body in self._bodies.of(opened):
            self.looked_at += len(body)
            made_of: list[int] = []
            text = body
            if form == Form.SKELETON:
                skeleton = skeleton_format.decode(body)
                made_of = [hash_key(cut[3]) for cut in skeleton.cuts]
                text = bytes(skeleton.rest)
            if self._secrets.hold(text) or (form == Form.PLAIN and containers.is_one(body) and self._within(body)):
                self.held.add(digest)
            made_of += keys_in(text)
            if made_of:
                self._makers.extend([len(self._names) // HASH_SIZE] * len(made_of))
                self._made_of.extend(made_of)
                self._names += digest

    def _named(self, maker: int) -> Hash:
        return Hash(bytes(self._names[maker * HASH_SIZE : (maker + 1) * HASH_SIZE]))

    def _look_at_chunks(self, digest: Hash, chunks: Sequence[Chunk]) -> None:
        """Look at what lies across the ends of chunks; what lies in one has been found."""
        if any(chunk.hash in self.held for chunk in chunks):
            self.held.add(digest)
        try:
            for start, window in across_chunks(self._resolver, chunks, self._secrets.reach):
                if self._secrets.hold(window):
                    self.held.add(digest)
                    for place in self._secrets.places(window):
                        self.torn.update(_between(chunks, start + place.start, start + place.end))
        except ConvfsError as error:
            self.damaged.append(f"blob {digest.hex()}: {error}")

    def _spare_chunks(self) -> None:
        """Leave out chunks that others are made of which hold nothing: alone they tell nothing."""
        self.torn -= self.held
        for digest, chunks in self._listed.items() if self.torn else ():
            if digest not in self.held:
                self.torn.difference_update(chunk.hash for chunk in chunks)


def across_chunks(resolver: Resolver, chunks: Sequence[Chunk], reach: int) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a blob that is stored in chunks, and where each begins: the next one goes back by ``reach``.

    Raises what reading a chunk does.
    """
    before, start = b"", 0
    for chunk in chunks:
        window = before + resolver.blob(chunk.hash)
        yield start, window
        before = window[-reach:]
        start += len(window) - len(before)


def _between(chunks: Sequence[Chunk], start: int, end: int) -> Iterator[Hash]:
    """Yield the chunks that a part of a blob lies in."""
    at = 0
    for chunk in chunks:
        if at < end and start < at + chunk.length:
            yield chunk.hash
        at += chunk.length
