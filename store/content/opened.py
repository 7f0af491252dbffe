"""Records from a pack, opened: which blobs they hold, and their bodies."""

from __future__ import annotations

from collections.abc import Callable

from store.content import delta, zstd
from store.content.compression import MAX_BODY_BYTES
from store.content.sealed import SealedGroup
from store.content.veil import veil
from store.content.zstd import Dictionary
from store.disk.blob_format import (
    Chunk,
    Compression,
    DeltaTable,
    Form,
    Record,
    decode_chunks,
    decode_delta_table,
    decode_group_table,
)
from store.errors import DamageError
from store.ids import HASH_SIZE, Hash

Entry = tuple[int, int, int, int]
"""One blob of a record: its form, its own length, and where its body begins and ends in the uncompressed bytes."""

_GROUPS = frozenset((Compression.GROUP, Compression.GROUP_DICT))


class Opened:
    """A record whose bodies are decompressed when one is first asked for. Safe to share between threads.

    ``members`` has the record's blobs, ``size`` is about how many bytes it takes when it is decompressed. ``chunks`` is
    set, and there is no body, where the blob is stored in pieces; ``base`` names the blob that it is a delta against.
    A ``sealed`` group has no ``members`` here: it does not say their names.
    """

    __slots__ = ("_data", "_delta", "_dictionary", "_frame", "base", "chunks", "members", "sealed", "size")

    def __init__(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        """Read the table of a record; errors are DamageError and what ``dictionary`` raises."""
        self._data: bytes | None = None
        self._dictionary: Dictionary | None = None
        self._frame = memoryview(b"")
        self._delta: DeltaTable | None = None
        self.base: Hash | None = None
        self.chunks: list[Chunk] | None = None
        self.members: dict[Hash, Entry] = {}
        self.sealed: SealedGroup | None = None
        if record.compression == Compression.SEALED:
            self.sealed = SealedGroup(record)
            self.size = self.sealed.size
        elif record.compression in _GROUPS:
            self._open_group(record, dictionary)
        else:
            self.members[record.hash] = (record.form, record.raw_len, 0, -1)
            self._open_single(record, dictionary)

    def _open_group(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        table = decode_group_table(record.compression, record.stored)
        position = 0
        for digest, form, raw_len, body_len in table.members:
            self.members[digest] = (form, raw_len, position, position + body_len)
            position += body_len
        if position != record.raw_len or position > MAX_BODY_BYTES:
            raise DamageError(f"a group's bodies have {position} bytes where the record says {record.raw_len}")
        if table.dictionary is not None:
            self._dictionary = dictionary(table.dictionary)
        self._frame = _unveiled(record, table.frame_offset)
        self.size = position

    def _open_single(self, record: Record, dictionary: Callable[[Hash], Dictionary]) -> None:
        compression, stored = record.compression, record.stored
        self.size = len(stored)
        if compression == Compression.RAW:
            self._data = bytes(_unveiled(record, 0))
        elif compression == Compression.CHUNKS:
            self.chunks = decode_chunks(stored)
            if sum(chunk.length for chunk in self.chunks) != record.raw_len:
                raise DamageError("the chunks of a blob do not add up to its length")
        elif compression == Compression.DELTA:
            self._open_delta(record)
        else:
            start = 0
            if compression == Compression.ZSTD_DICT:
                start = HASH_SIZE
                self._dictionary = dictionary(Hash(bytes(stored[:start])))
            stored = _unveiled(record, start)
            # how long a skeleton is, the record does not say
            at_most = MAX_BODY_BYTES if record.form == Form.SKELETON else record.raw_len
            self.size = zstd.declared_size(stored, at_most)
            self._frame = stored

    def _open_delta(self, record: Record) -> None:
        table = decode_delta_table(record.stored)
        taken = sum(stretch.length for stretch in table.stretches)
        at_most = MAX_BODY_BYTES if record.form == Form.SKELETON else record.raw_len
        if taken > at_most:
            raise DamageError(f"a delta claims {taken} bytes where {at_most} is the most")
        self._frame = _unveiled(record, table.frame_offset)
        self.size = taken + zstd.declared_size(self._frame, at_most - taken)
        self.base = table.base
        self._delta = table

    @property
    def needs(self) -> list[Hash]:
        """The blobs without which none of these can be read: a dictionary, the base of a delta, chunks."""
        found = [chunk.hash for chunk in self.chunks or ()]
        if self.base is not None:
            found.append(self.base)
        if self._dictionary is not None:
            found.append(self._dictionary.hash)
        return found

    @property
    def lacks(self) -> Hash | None:
        """The blob whose bytes :meth:`patch` needs before there is a body; None where there is one."""
        return self.base if self._data is None else None

    def patch(self, base: bytes) -> None:
        """Make the body of a delta from the bytes of the blob :attr:`base`; DamageError if that cannot be done."""
        frame = self._frame
        if self._data is None and self._delta is not None:
            self._data = delta.apply(base, self._delta.stretches, frame, self.size)
            self._frame = memoryview(b"")

    def body(self, entry: Entry) -> bytes:
        """Return the body of a blob of this record, :meth:`patch`-ed before if it :attr:`lacks` another blob.

        DamageError if it cannot be decompressed, or still lacks it.
        """
        _form, _length, start, stop = entry
        frame = self._frame  # before _data: another thread sets that first, then drops the frame
        data = self._data
        if data is None:
            if self._delta is not None:
                raise DamageError("a delta stands where none may")
            data = zstd.decompress(frame, self.size, self._dictionary)
            if stop >= 0 and len(data) != self.size:
                raise DamageError(f"a group's bodies have {len(data)} bytes where the record says {self.size}")
            self._data = data
            self._frame = memoryview(b"")
        return data if stop < 0 else data[start:stop]


def _unveiled(record: Record, start: int) -> memoryview:
    """Return what is stored from ``start`` on."""
    stored = record.stored[start:]
    return memoryview(veil(stored, record.hash)) if record.veiled else stored
