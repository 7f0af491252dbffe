"""Blobs that may lie in the packs of this replica, and that its space does not hold: not any longer, or not by itself.

The latter were cut out of payloads that entries have whole. All of them count as missing: who brings one stores it
again, and then it is one like any other. They lie where they lie until a sweep (``store.upkeep.gc``) removes them.

The file ``doomed``: records one after another, each ``kind u8 (1: doomed, 2: there again) | count u32 | keys[count] i64
| crc32 u32`` of all before it. The keys are the first eight bytes of the blobs' hashes. What is cut off at its end was
not acknowledged.
"""

import os
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout
from zlib import crc32

from store.disk import durable

_HEAD = Layout("<BI")
_CRC = Layout("<I")
_DOOMED, _AGAIN = 1, 2
_KEY_SIZE = 8


class Doomed(Collection[int]):
    """The keys of these blobs. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Read the file at ``path``, if there is one. Raises OSError."""
        self._path = path
        self._keys: set[int] = set()
        self._lock = threading.Lock()
        with suppress(FileNotFoundError):
            self._keys = _read(path.read_bytes())

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys.copy())

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Iterable[int]) -> None:
        """Doom blobs, durably. Raises OSError."""
        with self._lock:
            fresh = sorted(set(keys) - self._keys)
            self._append(_DOOMED, fresh)
            self._keys.update(fresh)

    def restore(self, keys: Iterable[int]) -> None:
        """Record, durably, that blobs are there again. Raises OSError."""
        if not self._keys:
            return
        with self._lock:
            back = sorted(self._keys.intersection(keys))
            self._append(_AGAIN, back)
            self._keys.difference_update(back)

    def keep(self, there: Callable[[int], bool]) -> None:
        """Forget those that are not ``there`` any more. Raises OSError."""
        with self._lock:
            kept = {key for key in self._keys if there(key)}
            if len(kept) == len(self._keys):
                return
            durable.write_whole(self._path, _record(_DOOMED, sorted(kept)))
            self._keys = kept

    def _append(self, kind: int, keys: Collection[int]) -> None:
        if not keys:
            return
        fd = durable.open_file(self._path, create=True)
        try:
            end = _end(os.pread(fd, os.fstat(fd).st_size, 0))
            durable.truncate(fd, end)
            durable.pwrite_all(fd, _record(kind, keys), end)
            durable.fdatasync(fd)
        finally:
            os.close(fd)
        if not end:
            durable.sync_directory(self._path.parent)


def _record(kind: int, keys: Collection[int]) -> bytes:
    data = _HEAD.pack(kind, len(keys)) + array("q", keys).tobytes()
    return data + _CRC.pack(crc32(data))


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the end, the kind and the keys of each whole record."""
    at = 0
    while at + _HEAD.size <= len(data):
        kind, count = _HEAD.unpack_from(data, at)
        keys_at = at + _HEAD.size
        end = keys_at + count * _KEY_SIZE
        if end + _CRC.size > len(data) or _CRC.unpack_from(data, end)[0] != crc32(data[at:end]):
            return
        at = end + _CRC.size
        yield at, kind, data[keys_at:end]


def _end(data: bytes) -> int:
    return max((end for end, _kind, _keys in _records(data)), default=0)


def _read(data: bytes) -> set[int]:
    found: set[int] = set()
    for _end_of_it, kind, keys in _records(data):
        (found.update if kind == _DOOMED else found.difference_update)(array("q", keys))
    return found
