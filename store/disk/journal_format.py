"""The journal's bytes: entries, and the checkpoint that says which of them are in the logs already.

An entry as it lies in a journal, little-endian: ``magic u32 'CVJE' | length u32 (of the whole entry) | epoch u64 |
position u64 (its own offset in the file) | body | crc32 u32`` of the store's id and all before it. A journal is used
again and again from its beginning; an epoch is one such use, numbered upwards over all files.

The body: ``seq u64 | first_turn u64 | heads_offset u64 | pack_length u64 | pack_number u32 | turns_length u32 |
heads_length u32 | blob_count u32 | turn records | head frames | blob_count x (hash[32] | form u16 | raw_len u32 |
body_len u32) | the blobs' bodies``.

A checkpoint slot, 128 bytes: ``generation u64 | epoch u64 | seq u64 | turn_count u64 | heads_length u64 |
pack_length u64 | pack_number u32 | zeros | crc32 u32`` of all before it.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from struct import error as layout_error
from typing import NamedTuple

from isal.isal_zlib import crc32
from msgspec import Struct

from store.disk.blob_format import Form
from store.errors import DamageError, UsageError
from store.ids import Hash

BLOCK = 4096
"""The unit that no two writes share: file headers, slots and a journal's first entry begin in blocks of their own."""

MAGIC = b"CVJE"
_FRAME = Layout("<4sIQQ")
_CRC = Layout("<I")
FRAME_HEAD = _FRAME.size
FRAME_OVERHEAD = FRAME_HEAD + _CRC.size
_NO_FRAME, _NO_CRC = bytes(FRAME_HEAD), bytes(_CRC.size)
SLOT_SIZE = 128

_BODY = Layout("<QQQQIIII")
_BLOB = Layout("<32sHII")
_pack_blob = _BLOB.pack
_SLOT = Layout("<QQQQQQI72x")
_MAX_BODY = 0xFFFF_FFFF - FRAME_OVERHEAD


class JournalBlob(Struct, frozen=True, gc=False):
    """A blob that waits to be packed: ``body`` is how ``form`` spells its ``raw_len`` bytes."""

    hash: Hash
    form: Form
    raw_len: int
    body: bytes


class JournalEntry(Struct, frozen=True, gc=False):
    """One group, as it was committed.

    ``turns`` are the records of the turns ``first_turn`` and following; ``heads`` are the frames that lie at
    ``heads_offset`` of the head log, COMMIT last, whose sequence number is ``seq``. ``pack`` is the (number, length)
    up to which the packs must be there for this entry's payloads, beside the ``blobs`` that it brings itself.
    """

    seq: int
    first_turn: int
    turns: bytes
    heads_offset: int
    heads: bytes
    pack: tuple[int, int]
    blobs: Sequence[JournalBlob]


class Checkpoint(Struct, frozen=True, gc=False):
    """The state of the logs and packs on disk: everything up to ``seq``, and how far that reaches in each."""

    seq: int
    turn_count: int
    heads_length: int
    pack: int
    pack_length: int


class Slot(NamedTuple):
    """One writing of a checkpoint: the highest ``generation`` counts; older epochs than ``epoch`` are all in it."""

    generation: int
    epoch: int
    checkpoint: Checkpoint


class Framed(NamedTuple):
    """An entry as found in a journal: its epoch, the length of its frame, and its body."""

    epoch: int
    length: int
    body: memoryview


def encode_entry(entry: JournalEntry) -> bytes:
    """Return the body of an entry. UsageError if it is 4 GiB or more."""
    return b"".join(entry_pieces(entry))


def entry_pieces(entry: JournalEntry) -> list[bytes]:
    """Return the body of an entry in pieces, so that its blobs are not copied. UsageError if it is 4 GiB or more."""
    blobs = entry.blobs
    pack, pack_length = entry.pack
    turns, heads = entry.turns, entry.heads
    head = _BODY.pack(
        entry.seq, entry.first_turn, entry.heads_offset, pack_length, pack, len(turns), len(heads), len(blobs)
    )
    rows = [_pack_blob(blob.hash, blob.form, blob.raw_len, len(blob.body)) for blob in blobs]
    pieces = [head, turns, heads, *rows, *[blob.body for blob in blobs]]
    if (size := sum(map(len, pieces))) > _MAX_BODY:
        raise UsageError(f"a group of {size} bytes is too large for the journal")
    return pieces


def decode_entry(body: bytes | memoryview) -> JournalEntry:
    """Read the body of an entry; DamageError if its lengths do not add up."""
    view = memoryview(body)
    try:
        seq, first_turn, heads_offset, pack_length, pack, turns_len, heads_len, count = _BODY.unpack_from(view)
        turns_at = _BODY.size
        heads_at = turns_at + turns_len
        table_at = heads_at + heads_len
        at = table_at + count * _BLOB.size
        blobs = []
        for digest, form, raw_len, body_len in _BLOB.iter_unpack(view[table_at:at]):
            blobs.append(JournalBlob(digest, Form(form), raw_len, bytes(view[at : at + body_len])))
            at += body_len
    except (layout_error, ValueError) as error:
        raise DamageError(f"an entry of the journal makes no sense: {error}") from None
    if at != len(view) or len(blobs) != count:
        raise DamageError(f"an entry of the journal has {len(view)} bytes, but its parts end at {at}")
    turns, heads = bytes(view[turns_at:heads_at]), bytes(view[heads_at:table_at])
    return JournalEntry(seq, first_turn, turns, heads_offset, heads, (pack, pack_length), blobs)


def chained_part(body: bytes | memoryview) -> memoryview:
    """Return the turn records and the head frames of an encoded entry: what goes to the logs as it is."""
    _seq, _first, _offset, _length, _pack, turns_length, heads_length, _count = _BODY.unpack_from(body)
    return memoryview(body)[_BODY.size : _BODY.size + turns_length + heads_length]


def heads_place(body: bytes | memoryview) -> tuple[int, int]:
    """Return where in the head log the frames of an encoded entry begin and end."""
    _seq, _first, offset, _length, _pack, _turns_length, heads_length, _count = _BODY.unpack_from(body)
    return offset, offset + heads_length


def entry_seq(body: bytes | bytearray | memoryview) -> int:
    """Return the ``seq`` of an encoded entry, or of its beginning."""
    return int.from_bytes(body[:8], "little")


def frame(body: Sequence[bytes], epoch: int, position: int, seed: int) -> bytearray:
    """Return an entry's body, given in pieces, as it lies in a journal; ``seed`` is the CRC-32 of the store's id."""
    framed = bytearray().join((_NO_FRAME, *body, _NO_CRC))
    length = len(framed)
    _FRAME.pack_into(framed, 0, MAGIC, length, epoch, position)
    end = length - _CRC.size
    with memoryview(framed) as view:
        _CRC.pack_into(framed, end, crc32(view[:end], seed))
    return framed


def unframe(data: memoryview, position: int, seed: int, base: int = 0) -> Framed | None:
    """Return the entry at ``position`` of a journal's bytes; None if no sound one begins there.

    The bytes are those from offset ``base`` of the file on.
    """
    if len(data) - position < FRAME_OVERHEAD:
        return None
    magic, length, epoch, place = _FRAME.unpack_from(data, position)
    end = position + length
    if magic != MAGIC or place != base + position or length < FRAME_OVERHEAD + _BODY.size or end > len(data):
        return None
    body_end = end - _CRC.size
    if _CRC.unpack_from(data, body_end)[0] != crc32(data[position:body_end], seed):
        return None
    return Framed(epoch, length, data[position + _FRAME.size : body_end])


def encode_slot(slot: Slot) -> bytes:
    """Return the 128 bytes of a slot."""
    state = slot.checkpoint
    fields = _SLOT.pack(
        slot.generation, slot.epoch, state.seq, state.turn_count, state.heads_length, state.pack_length, state.pack
    )
    return fields + _CRC.pack(crc32(fields))


def decode_slot(data: bytes) -> Slot | None:
    """Read a slot; None if it is not whole."""
    if len(data) != SLOT_SIZE or _CRC.unpack_from(data, _SLOT.size)[0] != crc32(data[: _SLOT.size]):
        return None
    generation, epoch, seq, turn_count, heads_length, pack_length, pack = _SLOT.unpack_from(data)
    return Slot(generation, epoch, Checkpoint(seq, turn_count, heads_length, pack, pack_length))
