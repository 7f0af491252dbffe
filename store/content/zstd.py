"""zstd with bounds: the one place that compresses and decompresses.

(De)compressors are not safe to share: each thread has its own. Compressing and decompressing release the interpreter
lock, so several threads do gain.

zstd leaves little text, or what does not shrink, readable, where a search over the store's own files must not find it.
Such frames are *veiled*: combined with a stream of bytes that follows from the record's hash. This keeps nothing
secret from anyone who reads the format's description.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import local
from typing import BinaryIO

import zstandard
from blake3 import blake3

from store.errors import DamageError
from store.ids import Hash, hash_bytes

DICTIONARY_BYTES = 112 << 10
"""The largest dictionary that is trained."""

MAGIC = b"\x28\xb5\x2f\xfd"
"""The beginning of every frame."""
SUFFIX = ".zst"
"""The end of the names of compressed files."""

_FEWEST_SAMPLES = 32
_LEAST_RATIO = 4
_MOST_BYTES = 8 << 20
_LARGEST_SAMPLE = 128 << 10
_SEGMENT = 1024
_DMER = 8


def train(samples: Sequence[bytes]) -> bytes | None:
    """Return a dictionary for bodies like ``samples``; None where these are too few or too small to learn from.

    At most some 8 MB of the samples are looked at, spread evenly over them.
    """
    usable: list[bytes | bytearray | memoryview] = [
        sample[:_LARGEST_SAMPLE] for sample in samples if len(sample) >= _DMER
    ]
    total = sum(map(len, usable))
    if total > _MOST_BYTES:
        step = total / _MOST_BYTES
        usable = [usable[int(index * step)] for index in range(int(len(usable) / step))]
        total = sum(map(len, usable))
    size = min(DICTIONARY_BYTES, total // _LEAST_RATIO)
    if len(usable) < _FEWEST_SAMPLES or size < 1024:
        return None
    try:
        return zstandard.train_dictionary(size, usable, k=_SEGMENT, d=_DMER).as_bytes()
    except zstandard.ZstdError:
        return None  # the samples have nothing in common


# Types of blocks; of literals in a block, 0 is raw, too.
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2

_PERIOD = 4096


def veil(data: bytes | memoryview, digest: Hash) -> bytes:
    """Return ``data`` exclusive-or BLAKE3's extended output for ``digest``; done twice, it is the data again."""
    return _combined(data, blake3(digest).digest(length=len(data)))


def veil_much(data: bytes | memoryview, digest: Hash) -> bytes:
    """As :func:`veil`, with the first 4096 bytes of the output again and again: that takes no time to make."""
    size = len(data)
    return _combined(data, (blake3(digest).digest(length=_PERIOD) * (size // _PERIOD + 1))[:size])


def veil_quickly(data: bytes | memoryview, digest: Hash) -> bytes:
    """As :func:`veil`, with one byte again and again: no byte of ASCII is one of what comes of it."""
    key = 0x80 | digest[0]
    return bytes(data).translate(bytes(byte ^ key for byte in range(256)))


def _combined(data: bytes | memoryview, stream: bytes) -> bytes:
    size = len(data)
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(size, "little")


def shows(frame: bytes) -> bool:
    """Return whether a zstd frame (RFC 8878) holds any content as is: raw blocks, or raw literals."""
    descriptor = frame[4]
    single = descriptor >> 5 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    place = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content_size
    last = False
    while not last:
        header = int.from_bytes(frame[place : place + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        place += 3
        if (kind == _RAW and size) or (kind == _COMPRESSED and frame[place] & 3 == _RAW):
            return True
        place += 1 if kind == _REPEATED else size
    return False


LEVEL = 3
QUICK = 1
"""The level for what is compressed once more soon, by sealing, and must be compressed fast now."""
_KEPT = 16
_LEAST_HASH_BITS = 17
_WINDOW_BYTES = 64 << 20
_STEP_BYTES = 128 << 10
_READ_BYTES = 16 << 10
_DAMAGED_STEP_BYTES = 256
"""A read that fails gives nothing of what stood before the damage."""


class Dictionary:
    """A zstd dictionary. Safe to share between threads. ``hash`` names the blob that holds it."""

    __slots__ = ("data", "hash", "zstd")

    def __init__(self, data: bytes, digest: Hash | None = None) -> None:
        self.data = data
        self.hash = digest if digest is not None else hash_bytes(data)
        self.zstd = zstandard.ZstdCompressionDict(data)


class _Tools(local):
    """The compressors and decompressors of one thread, the most recently used dictionaries' last."""

    def __init__(self) -> None:
        self.compressors: OrderedDict[tuple[int, Hash | None], zstandard.ZstdCompressor] = OrderedDict()
        self.decompressors: OrderedDict[Hash | None, zstandard.ZstdDecompressor] = OrderedDict()
        self.stepping: dict[int, zstandard.ZstdCompressor] = {}
        """By level: those that compress in steps, unless they do so just now."""


_tools = _Tools()


def let_go() -> None:
    """Let go of this thread's compressors and decompressors, each of which has tables of its own."""
    _tools.compressors.clear()
    _tools.decompressors.clear()
    _tools.stepping.clear()


def compress(data: bytes | memoryview, level: int = LEVEL, dictionary: Dictionary | None = None) -> bytes:
    """Return one frame that declares its size."""
    key = (level, dictionary.hash if dictionary else None)
    kept = _tools.compressors
    compressor = kept.get(key)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(
            level=level, dict_data=dictionary.zstd if dictionary else None, write_dict_id=False
        )
        kept[key] = compressor
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return compressor.compress(data)


def compress_in_steps(pieces: Sequence[bytes], level: int) -> Generator[int, None, bytes]:
    """Return one frame of some pieces that declares its size, pausing after each step of some hundredths of a second.

    No block of it has bytes of two pieces, whose letters may be of other kinds. Yields how many bytes each step has
    compressed.
    """
    # kept for the next one: to free the tables of a high level takes 15 ms, in which no other thread runs
    compressor = _tools.stepping.pop(level, None) or zstandard.ZstdCompressor(level=level)
    try:
        tool = compressor.compressobj(size=sum(map(len, pieces)))
        frame = []
        for number, piece in enumerate(pieces):
            if number:
                frame.append(tool.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            for start in range(0, len(piece), _STEP_BYTES):
                step = piece[start : start + _STEP_BYTES]
                frame.append(tool.compress(step))
                yield len(step)
        frame.append(tool.flush())
    finally:
        _tools.stepping[level] = compressor
    return b"".join(frame)


def declared_size(frame: bytes | memoryview, at_most: int) -> int:
    """Return how many bytes ``frame`` says it holds. DamageError if it is no frame, says nothing, or says too much."""
    try:
        declared = zstandard.frame_content_size(frame)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None
    if declared < 0:
        raise DamageError("compressed content does not say how large it is")
    if declared > at_most:
        raise DamageError(f"compressed content claims {declared} bytes where {at_most} is the most")
    return declared


def decompress(frame: bytes | memoryview, at_most: int, dictionary: Dictionary | None = None) -> bytes:
    """Return the contents of ``frame``.

    Raises DamageError if it is no frame, does not declare its size, or declares more than ``at_most`` bytes: the
    declared size is what the library takes memory for, so it is looked at first.
    """
    declared_size(frame, at_most)
    try:
        return _decompressor(dictionary).decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None


def beginning(frame: bytes | memoryview, size: int, length: int) -> bytes:
    """Return the first ``length`` bytes of the ``size`` that ``frame`` holds; errors as in :func:`decompress`."""
    if declared_size(frame, size) != size:
        raise DamageError(f"compressed content does not hold {size} bytes")
    with reading(frame, size) as read:
        return read(length)


@contextmanager
def reading(frame: bytes | memoryview, at_most: int) -> Iterator[Callable[[int], bytes]]:
    """Yield a function that returns the next so many bytes of what ``frame`` holds, or fewer at its end.

    No more is decompressed than was asked for, and a little. Errors as in :func:`decompress`.
    """
    declared_size(frame, at_most)
    try:
        with _decompressor(None).stream_reader(frame) as reader:
            yield reader.read
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None


def undamaged(frame: bytes | memoryview, size: int) -> bytes:
    """Return what stands before the damage in a frame of ``size`` bytes: as many of its first bytes as can be had."""
    data = bytearray()
    with suppress(zstandard.ZstdError), _decompressor(None).stream_reader(frame) as reader:
        while len(data) < size and (piece := reader.read(_DAMAGED_STEP_BYTES)):
            data += piece
    return bytes(data)


def expand(frame: bytes, size: int) -> bytes:
    """Return the ``size`` bytes that ``frame``, made by somebody else, holds; it need not declare them.

    Raises DamageError where it is no frame or holds more or less. Memory is taken for ``size`` bytes and a window.
    """
    try:
        declared = zstandard.frame_content_size(frame)
        if declared not in (-1, size):
            raise DamageError(f"compressed content claims {declared} bytes, not {size}")
        tool = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        data = bytearray(size + 1)
        at = 0
        with tool.stream_reader(frame) as reader, memoryview(data) as view:
            while at <= size and (count := reader.readinto(view[at:])):
                at += count
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None
    if at != size:
        raise DamageError(f"compressed content does not hold {size} bytes")
    return bytes(data[:size])


def expand_up_to(frame: bytes, at_most: int) -> bytes:
    """Return what ``frame``, made by somebody else, holds. Raises DamageError where that is no frame, or is more."""
    pieces: list[bytes] = []
    left = at_most
    try:
        tool = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        with tool.stream_reader(frame) as reader:
            while left >= 0 and (piece := reader.read(_DAMAGED_STEP_BYTES)):
                pieces.append(piece)
                left -= len(piece)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None
    if left < 0:
        raise DamageError(f"compressed content holds more than {at_most} bytes")
    return b"".join(pieces)


class Torn(DamageError):
    """A stream of frames that somebody else made is damaged from some point on."""


def expanded(file: BinaryIO) -> Iterator[bytes]:
    """Yield what the frames in a file, made by somebody else, hold; the rest of one that ends early is left out.

    Raises Torn where they are damaged, after all that can be read.
    """
    tool = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    try:
        with tool.stream_reader(file, read_across_frames=True, closefd=False) as reader:
            # what a read that goes on to damage has unpacked before it would be lost
            while piece := reader.read1(_READ_BYTES):
                yield piece
    except zstandard.ZstdError as error:
        raise Torn(f"compressed content is damaged: {error}") from None


def compress_file(file: BinaryIO, target: BinaryIO) -> None:
    """Write the content of a file as one frame."""
    zstandard.ZstdCompressor(level=LEVEL).copy_stream(file, target)


def compress_beside(data: bytes, beside: bytes) -> bytes:
    """Return one frame that declares its size, made with bytes that need no training to be a dictionary."""
    # zstd takes in no more of a dictionary than eight times the entries of its table, the last of it
    bits = max(_LEAST_HASH_BITS, len(beside).bit_length() - 3)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        source_size=len(data),
        dict_size=len(beside),
        window_log=max(zstandard.WINDOWLOG_MIN, (len(data) + len(beside)).bit_length()),
        hash_log=bits,
        chain_log=bits - 1,
        write_dict_id=False,
        write_content_size=True,
    )
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=_raw(beside)).compress(data)


def decompress_beside(frame: bytes | memoryview, at_most: int, beside: bytes) -> bytes:
    """Return the contents of a frame of :func:`compress_beside`; errors as in :func:`decompress`."""
    declared_size(frame, at_most)
    try:
        return zstandard.ZstdDecompressor(dict_data=_raw(beside)).decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None


def _raw(beside: bytes) -> zstandard.ZstdCompressionDict:
    # whatever it begins with: content may be a dictionary, too
    return zstandard.ZstdCompressionDict(beside, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _decompressor(dictionary: Dictionary | None) -> zstandard.ZstdDecompressor:
    key = dictionary.hash if dictionary else None
    kept = _tools.decompressors
    decompressor = kept.get(key)
    if decompressor is None:
        decompressor = zstandard.ZstdDecompressor(dict_data=dictionary.zstd if dictionary else None)
        kept[key] = decompressor
        if len(kept) > _KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return decompressor
