"""Deltas: content stored as the parts that it shares with other content, and the parts that are new.

The parts that two versions share at their ends are found by comparing; the parts that large ones share in the middle,
by cutting both into content-defined chunks. So a delta of any size is made and undone about as fast as bytes are
copied. The rest, mostly a few lines, is compressed together, with the base's bytes in those places as a dictionary: it
stays small even if something has changed on each line.

Content-defined chunks: how a blob too large for one record is cut, how two large ones are compared, and how one finds
another that it resembles.

Boundaries depend on the bytes around them only, so that two versions of a large file share most of their chunks, and
a part in the middle can be read without the rest. The parameters are part of the store's format in this sense: with
others, new content no longer shares chunks with stored content.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from store.content import zstd
from store.disk.blob_format import Stretch
from store.errors import DamageError
from store.ids import hash_bytes, hash_key

_AVERAGE = 64 << 10
_MOST = 4 * _AVERAGE
_HELD = 4 << 20
"""The number of bytes of a content in pieces that are cut at a time."""


def chunks(data: bytes | bytearray | memoryview, average: int = _AVERAGE) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each chunk of ``data``, which may be a mapped file of any size; none where it is empty.

    With another ``average`` length than that of stored chunks, it is for comparing only.
    """
    # imported here, as few processes cut anything
    from pyfastcdc import FastCDC

    chunker = FastCDC(average, min_size=average // 4, max_size=average * 4, normalized_chunking=1, seed=0)
    for chunk in chunker.cut_buf(data):
        yield chunk.offset, chunk.offset + chunk.length


def chunks_of(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield the chunks of content in pieces: the same as :func:`chunks` cuts of the whole. Holds a few MB of it."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) < _HELD:
            continue
        done = 0
        with memoryview(held) as view:
            for start, end in chunks(view):
                if start + _MOST > len(view):
                    # where this one ends, what follows may say
                    break
                yield bytes(view[start:end])
                done = end
        del held[:done]
    with memoryview(held) as view:
        for start, end in chunks(view):
            yield bytes(view[start:end])


_BLOCK = 64 << 10
_PIECE = 4 << 10
_COMPARED = 1 << 20
"""Content that is no larger is left to zstd, which compares it quickly."""

_SHORTEST = 32
"""A shorter stretch is worth no row of the table."""

_LEAST_DICTIONARY = 8
_MOST_DICTIONARY = 8 << 20
"""Tables for a dictionary take about as much memory as itself, and time to fill."""

_FEATURES = 4

_Common = tuple[int, int, int]
"""A shared run of bytes: its start in the base, its start in the content, and its length."""


class Delta(Struct, frozen=True, gc=False):
    """Stretches to take from a base, and the compressed bytes that come before, between and behind."""

    stretches: Sequence[Stretch]
    frame: bytes

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 12 * len(self.stretches) + len(self.frame)


def sketch(data: bytes) -> list[int]:
    """Return a few numbers of 64 bits, with sign, that stand for ``data``: contents that share much share some of them.

    They are the least hashes of its chunks (min-wise hashing).
    """
    return sorted({hash_key(hash_bytes(data[start:stop])) for start, stop in chunks(data, _PIECE)})[:_FEATURES]


def difference(base: bytes, data: bytes) -> Delta:
    """Return ``data`` as a delta against ``base``. Of both, at most 4 GiB."""
    stretches: list[Stretch] = []
    fresh: list[bytes] = []
    at = 0
    for offset, start, length in _in_common(base, data):
        if length >= _SHORTEST:
            stretches.append(Stretch(start - at, offset, length))
            fresh.append(data[at:start])
            at = start + length
    fresh.append(data[at:])
    dictionary = _left(base, stretches)
    together = b"".join(fresh)
    return Delta(stretches, zstd.compress_beside(together, dictionary) if dictionary else zstd.compress(together))


def apply(base: bytes, stretches: Sequence[Stretch], frame: bytes | memoryview, at_most: int) -> bytes:
    """Return the content that a delta against ``base`` spells.

    Raises DamageError where the frame is damaged, or the delta takes what the base does not have, or would become more
    than ``at_most`` bytes.
    """
    taken = sum(stretch.length for stretch in stretches)
    if taken > at_most or (stretches and stretches[-1].offset + stretches[-1].length > len(base)):
        raise DamageError("a delta takes more of its base than there is")
    dictionary = _left(base, stretches)
    at_most -= taken
    fresh = zstd.decompress_beside(frame, at_most, dictionary) if dictionary else zstd.decompress(frame, at_most)
    if sum(stretch.fresh for stretch in stretches) > len(fresh):
        raise DamageError(f"a delta has no more than {len(fresh)} fresh bytes")
    parts: list[bytes] = []
    at = 0
    for count, offset, length in stretches:
        parts += (fresh[at : at + count], base[offset : offset + length])
        at += count
    parts.append(fresh[at:])
    return b"".join(parts)


def shared_ends(one: bytes, other: bytes) -> tuple[int, int]:
    """Return how many bytes two contents share at their beginnings, and how many of the rest at their ends."""
    last, other_last = len(one), len(other)
    most = min(last, other_last)
    ahead = _shared(most, lambda start, stop: one[start:stop] == other[start:stop])
    behind = _shared(
        most - ahead,
        lambda start, stop: one[last - stop : last - start] == other[other_last - stop : other_last - start],
    )
    return ahead, behind


def _shared(most: int, same: Callable[[int, int], bool]) -> int:
    """Return up to where all is the same, which ``same`` tells of a range; ``most`` if it is to the end."""
    start = 0
    while start < most and same(start, min(start + _BLOCK, most)):
        start += _BLOCK
    if start >= most:
        return most
    stop = min(start + _BLOCK, most)
    while stop - start > 1:
        middle = (start + stop) // 2
        if same(start, middle):
            start = middle
        else:
            stop = middle
    return start


def _in_common(base: bytes, data: bytes) -> list[_Common]:
    """Return the parts that two contents share, in the order in which both have them."""
    ahead, behind = shared_ends(base, data)
    base_end, data_end = len(base) - behind, len(data) - behind
    between: Sequence[_Common] = ()
    if min(base_end, data_end) - ahead > _PIECE and max(base_end, data_end) - ahead > _COMPARED:
        between = [
            (ahead + offset, ahead + start, length)
            for offset, start, length in _rising(_same_pieces(base[ahead:base_end], data[ahead:data_end]))
        ]
    found: list[_Common] = [(0, 0, ahead)]
    for offset, start, length in (*between, (base_end, data_end, behind)):
        earlier, at, count = found[-1]
        # pieces were cut coarsely: what they share goes on beyond
        more, before = shared_ends(base[earlier + count : offset], data[at + count : start])
        count += more
        offset, start, length = offset - before, start - before, length + before
        if earlier + count == offset and at + count == start:
            found[-1] = earlier, at, count + length
        else:
            found[-1:] = (earlier, at, count), (offset, start, length)
    return found


def _same_pieces(base: bytes, data: bytes) -> Iterator[_Common]:
    """Yield pieces of ``data`` that are in one place of ``base``."""
    places: dict[bytes, int] = {}
    for start, stop in chunks(base, _PIECE):
        piece = base[start:stop]
        places[piece] = -1 if piece in places else start
    for start, stop in chunks(data, _PIECE):
        offset = places.get(data[start:stop], -1)
        if offset >= 0:
            yield offset, start, stop - start


def _rising(found: Iterator[_Common]) -> list[_Common]:
    """Return the longest part of ``found`` that is in the order of the base, too."""
    listed = list(found)
    lowest: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (offset, _start, _length) in enumerate(listed):
        rank = bisect_left(lowest, offset)
        before.append(last[rank - 1] if rank else -1)
        lowest[rank : rank + 1] = (offset,)
        last[rank : rank + 1] = (number,)
    kept: list[_Common] = []
    number = last[-1] if last else -1
    while number >= 0:
        kept.append(listed[number])
        number = before[number]
    kept.reverse()
    return kept


def _left(base: bytes, stretches: Sequence[Stretch]) -> bytes:
    """Return the bytes of ``base`` that no stretch takes: the dictionary; none where they are too few, or too many."""
    size = len(base) - sum(stretch.length for stretch in stretches)
    if not _LEAST_DICTIONARY <= size <= _MOST_DICTIONARY:
        return b""
    parts: list[bytes] = []
    at = 0
    for _fresh, offset, length in stretches:
        parts.append(base[at:offset])
        at = offset + length
    parts.append(base[at:])
    return b"".join(parts)
