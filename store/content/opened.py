"""Records from a pack, opened: which blobs they hold, and their bodies."""

from __future__ import annotations

from collections.abc import Callable

from store.content import zstd
from store.content.zstd import Dictionary
from store.disk.blob_format import Chunk, Compression, Form, Record, decode_chunks, decode_group_table
from store.errors import DamageError
from store.ids import HASH_SIZE, Hash

MAX_BODY_BYTES = 128 << 20
"""No body is larger than this; larger blobs are chunked."""

Entry = tuple[int, int, int, int]
"""One blob of a record: its form, its own length, and where its body begins and ends in the uncompressed bytes."""

_GROUPS = frozenset((Compression.GROUP, Compression.GROUP_DICT))


class Opened:
    """A record whose bodies are decompressed when one is first asked for. Safe to share between threads.

    ``members`` has the record's blobs. ``chunks`` is set instead of bodies where the blob is stored in pieces.
    """

    __slots__ = ("_data", "_dictionary", "_frame", "chunks", "members", "size")

    def __init__(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        """Read the table of a record; errors are DamageError and what ``dictionary`` raises."""
        compression, stored = record.compression, record.stored
        self._data: bytes | None = None
        self._dictionary: Dictionary | None = None
        self.chunks: list[Chunk] | None = None
        self.members: dict[Hash, Entry] = {}
        self.size = record.raw_len
        if compression in _GROUPS:
            table = decode_group_table(compression, stored)
            position = 0
            for digest, form, raw_len, body_len in table.members:
                self.members[digest] = (form, raw_len, position, position + body_len)
                position += body_len
            if position != record.raw_len or position > MAX_BODY_BYTES:
                raise DamageError(f"a group's bodies have {position} bytes where the record says {record.raw_len}")
            if table.dictionary is not None:
                self._dictionary = dictionary(table.dictionary)
            self._frame = stored[table.frame_offset :]
            return
        self.members[record.hash] = (record.form, record.raw_len, 0, -1)
        self._frame = stored
        if compression == Compression.CHUNKS:
            self.chunks = decode_chunks(stored)
            if sum(chunk.length for chunk in self.chunks) != record.raw_len:
                raise DamageError("the chunks of a blob do not add up to its length")
        elif compression == Compression.RAW:
            self._data = bytes(stored)
        elif compression == Compression.ZSTD_DICT:
            self._dictionary = dictionary(Hash(bytes(stored[:HASH_SIZE])))
            self._frame = stored[HASH_SIZE:]
        if record.form == Form.SKELETON:
            self.size = MAX_BODY_BYTES

    def body(self, entry: Entry) -> bytes:
        """Return the body of a blob of this record; DamageError if it cannot be decompressed."""
        _form, _length, start, stop = entry
        frame = self._frame  # before _data: another thread sets that first, then drops the frame
        data = self._data
        if data is None:
            data = zstd.decompress(frame, self.size, self._dictionary)
            if stop >= 0 and len(data) != self.size:
                raise DamageError(f"a group's bodies have {len(data)} bytes where the record says {self.size}")
            self._data = data
            self._frame = memoryview(b"")
        return data if stop < 0 else data[start:stop]
