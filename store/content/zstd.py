"""zstd with bounds: the one place that compresses and decompresses.

(De)compressors are not safe to share: each thread has its own. Compressing and decompressing release the interpreter
lock, so several threads do gain.
"""

from collections import OrderedDict
from collections.abc import Generator
from threading import local

import zstandard

from store.errors import DamageError
from store.ids import Hash, hash_bytes

LEVEL = 3
_KEPT = 16
_LEAST_HASH_BITS = 17
_WINDOW_BYTES = 64 << 20
_STEP_BYTES = 128 << 10


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


_tools = _Tools()


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
    return compressor.compress(data)


def compress_in_steps(data: bytes, level: int) -> Generator[int, None, bytes]:
    """Return one frame that declares its size, pausing after each step of some hundredths of a second.

    Yields how many bytes each step has compressed.
    """
    tool = zstandard.ZstdCompressor(level=level).compressobj(size=len(data))
    pieces = []
    for start in range(0, len(data), _STEP_BYTES):
        step = data[start : start + _STEP_BYTES]
        pieces.append(tool.compress(step))
        yield len(step)
    pieces.append(tool.flush())
    return b"".join(pieces)


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
    """Return what ``frame`` holds.

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
    try:
        with _decompressor(None).stream_reader(frame) as reader:
            return reader.read(length)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed content is damaged: {error}") from None


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
    """Return what a frame of :func:`compress_beside` holds; errors as in :func:`decompress`."""
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
    return decompressor
