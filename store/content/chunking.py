"""Content-defined chunks: how a blob too large for one record is cut, and how two large ones are compared.

Boundaries depend on the bytes around them only, so that two versions of a large file share most of their chunks, and
a part in the middle can be read without the rest. The parameters are part of the store's format in this sense: with
others, what is written anew no longer shares chunks with what is there.
"""

from collections.abc import Callable, Iterable, Iterator

from blake3 import blake3
from pyfastcdc import FastCDC

from store.disk.blob_format import Chunk, encode_chunks
from store.ids import Hash, hash_bytes

_AVERAGE = 64 << 10
_LEAST = 16 << 10
_MOST = 256 << 10
_HELD = 4 << 20
"""So much of what comes in pieces is cut at a time."""


def chunks(data: bytes | bytearray | memoryview) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each chunk of ``data``, which may be a mapped file of any size; none where it is empty."""
    chunker = FastCDC(_AVERAGE, min_size=_LEAST, max_size=_MOST, normalized_chunking=1, seed=0)
    for chunk in chunker.cut_buf(data):
        yield chunk.offset, chunk.offset + chunk.length


def chunks_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of what comes in pieces: the same as :func:`chunks` cuts of all of it. Holds a few MB of it."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) < _HELD:
            continue
        done = 0
        for start, end in chunks(held):
            if start + _MOST > len(held):
                # where this one ends, what follows may say
                break
            yield bytes(held[start:end])
            done = end
        del held[:done]
    for start, end in chunks(held):
        yield bytes(held[start:end])


def pieces(data: bytes, average: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each piece of ``data``, pieces being about ``average`` long: for comparing only."""
    chunker = FastCDC(average, min_size=average // 4, max_size=average * 4, normalized_chunking=1, seed=0)
    for piece in chunker.cut_buf(data):
        yield piece.offset, piece.offset + piece.length


def chunk_list(data: memoryview, passed: Callable[[int], None]) -> tuple[Hash, bytes]:
    """Return the hash of ``data`` and the stored bytes of a CHUNKS record for it, reading it once, forwards.

    ``passed`` is told after each chunk how many bytes have been read. ``data`` must not be empty.
    """
    whole = blake3()
    listed: list[Chunk] = []
    for start, end in chunks(data):
        piece = bytes(data[start:end])
        whole.update(piece)
        listed.append(Chunk(hash_bytes(piece), end - start))
        passed(end)
    return Hash(whole.digest()), encode_chunks(listed)
