"""The survey of packs: the blobs that hold a secret, are made of such blobs, or name them.

Every record is decompressed once. The parts of a payload are searched where they lie, so a content that a thousand
payloads share is searched once, too: a secret is a string, or a part of one, and no cut goes through a string.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from store.content.resolver import Resolver, bodies
from store.disk import skeleton_format
from store.disk.blob_format import Chunk, Form, Record
from store.disk.file_header import Damage
from store.disk.pack import PackSet
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import HASH_SIZE, HEX, Hash, hash_key
from store.redaction import containers
from store.redaction.secrets import Secrets

_BINARY = re.compile(rb"(\xc4\x20)(.{32})", re.DOTALL)
"""32 bytes in MessagePack, after their prefix."""

Renamed = Callable[[bytes], bytes | None]
"""Returns the new digest for a digest of any algorithm; None if it stays."""


_LONGEST = 64
"""The bytes of the longest name that a pattern finds."""
_AS_ZEROS = bytes(ord("0") if byte in b"0123456789abcdef" else 0 for byte in range(256))
"""The table that makes each digit a zero, and of anything else something else."""
_ZEROS = b"0" * _LONGEST
_STEP = 1 << 15
"""The bytes in which a pattern is looked for at a time: every other thread is held up meanwhile."""


def keys_in(data: bytes) -> Iterator[int]:
    """Yield the keys of all digests that bytes may name."""
    for match in _matches(HEX, data):
        yield hash_key(bytes.fromhex(match[0].decode()))
    for match in _matches(_BINARY, data):
        yield hash_key(match[2])


def renamed(data: bytes, new: Renamed) -> bytes:
    """Return bytes of the same length with new names in place of old ones."""

    def in_hex(match: re.Match[bytes]) -> bytes:
        name = new(bytes.fromhex(match[0].decode()))
        return match[0] if name is None else name.hex().encode()

    def binary(match: re.Match[bytes]) -> bytes:
        name = new(match[2])
        return match[0] if name is None else match[1] + name

    return _replaced(_BINARY, _replaced(HEX, data, in_hex), binary)


def _matches(pattern: re.Pattern[bytes], data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield what ``pattern.finditer`` would, in steps."""
    at = 0
    while at < len(data):
        beyond = at + _STEP
        if pattern is HEX and _ZEROS not in data[at : beyond + _LONGEST - 1].translate(_AS_ZEROS):
            # the pattern takes thirty times as long to find out
            at = beyond
            continue
        # one that begins in this step ends in sight, and so does what must not follow it
        for match in pattern.finditer(data, at, beyond + _LONGEST + 1):
            if match.start() >= beyond:
                break
            yield match
            at = match.end()
        at = max(at, beyond)


def _replaced(pattern: re.Pattern[bytes], data: bytes, instead: Callable[[re.Match[bytes]], bytes]) -> bytes:
    """Return what ``pattern.sub`` would, in steps."""
    at = 0
    pieces = []
    for match in _matches(pattern, data):
        pieces += [data[at : match.start()], instead(match)]
        at = match.end()
    return b"".join([*pieces, data[at:]]) if pieces else data


class Survey:
    """The finds of some secrets in the surveyed packs. For one thread."""

    def __init__(self, resolver: Resolver, secrets: Secrets, scratch: Path) -> None:
        """Prepare; containers that programs must read as files go through ``scratch``."""
        self.held: set[Hash] = set()
        """Blobs that hold a secret, are made of one that does, or name one: they must be replaced."""
        self.torn: set[Hash] = set()
        """Chunks with only a part of a secret."""
        self.damaged: list[str] = []
        """The places that could not be searched, one line each."""
        self._resolver = resolver
        self._secrets = secrets
        self._scratch = scratch
        self._names = bytearray()
        self._makers = array("I")
        self._made_of = array("q")
        self._listed: dict[Hash, list[Chunk]] = {}

    def look_through(self, packs: PackSet, numbers: Sequence[int], passed: Callable[[int], None]) -> None:
        """Search every blob of the packs ``numbers``; ``passed`` gets the number of searched bytes."""
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
        """Return whether an archive or a database holds a secret that is invisible from outside."""
        try:
            return containers.hold(body, self._secrets, self._scratch)
        except DamageError:
            # it only begins like one
            return False

    def look_within(self, originals: Iterable[Mapping[str, Hash]]) -> None:
        """Search files that were kept as imported, of any size: each with those beside it, which change together."""
        for kept in originals:
            try:
                data, beside = kept_files(self._resolver, kept)
                if not self.held.isdisjoint(kept.values()) or containers.hold(
                    data, self._secrets, self._scratch, beside
                ):
                    self.held.update(kept.values())
            except NotFound:
                # nothing leads to it any more
                continue
            except ConvfsError as error:
                self.damaged.append(f"blob {kept[''].hex()}: {error}")

    def close(self, known_as: Mapping[Hash, Sequence[bytes]]) -> None:
        """Find the blobs that are made of the finds, or name them, by their hashes or the digests in ``known_as``."""
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
                    other = Hash(bytes(self._names[maker * HASH_SIZE : (maker + 1) * HASH_SIZE]))
                    if other not in self.held:
                        self.held.add(other)
                        todo.append(other)
        # chunks of blobs without a secret reveal nothing alone
        self.torn -= self.held
        for digest, chunks in self._listed.items() if self.torn else ():
            if digest not in self.held:
                self.torn.difference_update(chunk.hash for chunk in chunks)

    def _record(self, record: Record) -> None:
        opened = self._resolver.open(record)
        if opened.chunks is not None:
            self._listed[record.hash] = opened.chunks
            return
        for digest, form, body in bodies(self._resolver, opened):
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

    def _look_at_chunks(self, digest: Hash, chunks: Sequence[Chunk]) -> None:
        """Search across the ends of chunks; their insides are already searched."""
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


def kept_files(resolver: Resolver, kept: Mapping[str, Hash]) -> tuple[bytes, dict[str, bytes]]:
    """Return a file that was kept as imported, and those beside it. Raises as reading a blob does.

    ``kept`` is as of :func:`store.redaction.containers.originals`.
    """
    return resolver.blob(kept[""]), {end: resolver.blob(digest) for end, digest in kept.items() if end}


def across_chunks(resolver: Resolver, chunks: Sequence[Chunk], reach: int) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a blob in chunks, and their offsets; they overlap by ``reach``. Raises as reading a chunk does."""
    before, start = b"", 0
    for chunk in chunks:
        window = before + resolver.blob(chunk.hash)
        yield start, window
        before = window[-reach:]
        start += len(window) - len(before)


def _between(chunks: Sequence[Chunk], start: int, end: int) -> Iterator[Hash]:
    at = 0
    for chunk in chunks:
        if at < end and start < at + chunk.length:
            yield chunk.hash
        at += chunk.length
