"""Sealed groups: many blobs of a few conversations in one record, without their names.

The stored bytes of a SEALED record, little-endian::

    records u32 | contents u32 | cuts u32 | outside u32 | names u32 | veiled u32 | table length u32 | stretches u32
    names x hash[32]
    table frame [table length] | frame of the bodies [the rest]

Of ``veiled``, bit 0 is set where the frame of the table is veiled, bit 1 that of the bodies: combined with a stream of
bytes (``store.content.zstd``), each for itself.

Records are payloads of turns, contents is what was cut out of them, and blobs of other kinds. A blob's *member* number
counts first through the records, then through the contents. The table, uncompressed, is nine columns of u32:

    of each record     how many bytes of its frame are its body | how many cuts it has
    of each content    how many bytes of its frame it is
    of each cut        how many bytes of the body stand between the cut before and this one | its length in the payload
                       | its spelling | what was cut out
    of each stretch    how many contents it has | how many records

The bodies stand stretch by stretch, in each the contents before the records, both by rising numbers.

Of a column the lowest bytes stand first, all together, then the next higher, and so on. A record without cuts is its
body; of one with cuts, the body is what is left of the payload (``store.disk.skeleton_format`` says what a cut is).
What was cut out is the number of a member without cuts or, from the number of members on, one of the ``outside`` names
that stand first.

A SEALED_APART group is of an earlier version: it has no stretches, and two frames of bodies. In place of the number of
stretches its head has the length of the first, which is of the records; the last is of the contents, with bit 2 of
``veiled``.

A member without cuts is named by the hash of its bytes, one with cuts by that of its payload. Neither is said, but for
records with a cut that is outside: their names stand behind the first ``outside``, in order.
"""

from array import array
from collections.abc import Sequence
from struct import Struct as Layout
from sys import byteorder

from msgspec import Struct
from msgspec.structs import astuple

from store.errors import DamageError
from store.ids import HASH_SIZE, Hash

_HEAD = Layout("<8I")
_WIDTH = 4
_MOST = 1 << 22
"""The most members, and the most cuts, of one group: this bounds the memory that their tables take."""

Column = Sequence[int]


class Table(Struct, frozen=True, gc=False):
    """The table of a sealed group, column by column; see the module."""

    bodies: Column
    counts: Column
    contents: Column
    gaps: Column
    lengths: Column
    spellings: Column
    members: Column
    stretch_contents: Column = ()
    stretch_records: Column = ()


class Head(Struct, frozen=True, gc=False):
    """The beginning of the stored bytes of a sealed group.

    ``records_length`` is set where records and contents are ``apart``, ``stretches`` where they are not.
    """

    records: int
    contents: int
    cuts: int
    outside: list[Hash]
    named: list[Hash]
    veiled: int
    table_length: int
    stretches: int
    records_length: int = 0
    apart: bool = False

    @property
    def size(self) -> int:
        """Its own length; the first frame lies behind it."""
        return _HEAD.size + HASH_SIZE * (len(self.outside) + len(self.named))

    @property
    def table_size(self) -> int:
        """The length of the table, uncompressed."""
        return _WIDTH * (2 * self.records + self.contents + 4 * self.cuts + 2 * self.stretches)


def encode_head(head: Head) -> bytes:
    """Return the head of the stored bytes of a sealed group; its frames follow."""
    names = (*head.outside, *head.named)
    counts = (head.records, head.contents, head.cuts, len(head.outside), len(names))
    last = head.records_length if head.apart else head.stretches
    return b"".join((_HEAD.pack(*counts, head.veiled, head.table_length, last), *names))


def decode_head(stored: memoryview, *, apart: bool = False) -> Head:
    """Read the head of a sealed group, with records and contents ``apart`` or not; DamageError if it makes no sense."""
    if len(stored) < _HEAD.size:
        raise DamageError(f"a sealed group is cut off after {len(stored)} bytes")
    records, contents, cuts, outside, names, veiled, table_length, last = _HEAD.unpack_from(stored)
    stretches, records_length = (0, last) if apart else (last, 0)
    end = _HEAD.size + names * HASH_SIZE
    fits = end + table_length + records_length <= len(stored) and outside <= names
    if not fits or records + contents + cuts > _MOST or stretches > records + contents:
        raise DamageError(f"a sealed group of {records + contents} blobs does not fit in {len(stored)} bytes")
    listed = [Hash(bytes(stored[at : at + HASH_SIZE])) for at in range(_HEAD.size, end, HASH_SIZE)]
    lengths = (table_length, stretches, records_length)
    return Head(records, contents, cuts, listed[:outside], listed[outside:], veiled, *lengths, apart)


def encode_table(table: Table) -> bytes:
    """Return a table, uncompressed. Every number is below 4 GiB."""
    return b"".join(map(_planes, astuple(table)))


def decode_table(data: bytes, head: Head) -> Table:
    """Read the table behind ``head``; DamageError if it is not as long as it must be, or counts otherwise."""
    if len(data) != head.table_size:
        raise DamageError(f"the table of a sealed group has {len(data)} bytes where {head.table_size} belong")
    columns = []
    at = 0
    for count in (head.records, head.records, head.contents, *(4 * [head.cuts]), *(2 * [head.stretches])):
        columns.append(_column(data, at, count))
        at += _WIDTH * count
    table = Table(*columns)
    if sum(table.counts) != head.cuts:
        raise DamageError("the records of a sealed group do not have the cuts that it has")
    placed = sum(table.stretch_contents), sum(table.stretch_records)
    if not head.apart and placed != (head.contents, head.records):
        raise DamageError("the stretches of a sealed group do not have the blobs that it has")
    return table


def _planes(column: Column) -> bytes:
    data = _u32(column).tobytes()
    return b"".join(data[plane::_WIDTH] for plane in range(_WIDTH))


def _column(data: bytes, start: int, count: int) -> Column:
    woven = bytearray(_WIDTH * count)
    for plane in range(_WIDTH):
        woven[plane::_WIDTH] = data[start + plane * count : start + (plane + 1) * count]
    return _u32(bytes(woven))


def _u32(values: bytes | Column) -> "array[int]":
    made = array("I")
    assert made.itemsize == _WIDTH
    if isinstance(values, bytes):
        made.frombytes(values)
    else:
        made.extend(values)
    if byteorder == "big":
        made.byteswap()
    return made
