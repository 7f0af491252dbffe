"""TurnRecordV1: the 80 bytes of one turn.

Layout, little-endian: ``turn_id u64 | parent_turn_id u64 (0 = root) | depth u32 (root 0) | codec u32 | type_tag u64
| payload_hash[32] | flags u32 | created_at_unix_ms u64 | crc32 u32`` of the 76 bytes before it.

The low half of ``codec`` is the encoding of the payload, the high half the version of its type. The high half of
``flags`` is that of the encoding, 0 but for encodings of clients that need more than 16 bits.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import starmap
from struct import Struct as Layout

from isal.isal_zlib import crc32
from msgspec import Struct
from msgspec.structs import astuple

from store.errors import DamageError
from store.ids import HASH_SIZE, Hash

RECORD_SIZE = 80

DELETED = 1
"""The flag of a turn whose record was deleted: it keeps its number and its payload, and is not shown."""

EDITED = 2
"""The flag of a turn that took the place of another with other content: it was changed at ``created_ms``."""

WIDE_ENCODING = 0xFFFF0000
"""The bits of the flags, and of an encoding, that hold the encoding's high half."""

NO_PAYLOAD = Hash(bytes(HASH_SIZE))
"""The payload hash of a reclaimed turn, which is not the hash of any payload."""
REDACTED = 4
"""The flag of a turn whose payload has lost a secret: the original is no longer known."""

_FIELDS = Layout("<QQIIQ32sIQ")
_RECORD = Layout("<QQIIQ32sIQ4x")
_LINKS = Layout("<QQI60x")
_CRC = Layout("<I")
_pack, _pack_crc = _FIELDS.pack, _CRC.pack

# The CRC-32 of bytes followed by their own CRC-32 is the same for all bytes; so a run of n sound records has a CRC
# that depends on n alone, and one call checks the run. _RUNS[n] is that of n records.
_RUN = 1024
_SOUND = bytes(76) + _CRC.pack(crc32(bytes(76)))
_RUNS = [0]
for _ in range(_RUN):
    _RUNS.append(crc32(_SOUND, _RUNS[-1]))


class Encoding(IntEnum):
    """The encoding of a payload. 1 is Msgpack, as in the wire protocol; 0 says nothing."""

    UNKNOWN = 0
    MSGPACK = 1
    GO_PROTOBUF = 2
    GO_GOB = 3
    FLATBUFFERS = 4
    CAPNP = 5
    CBOR = 6
    JSON = 7
    RAW_BYTES = 8


class Turn(Struct, frozen=True, gc=False):
    """One immutable turn. ``parent`` is 0 at a root, whose depth is 0; ``created_ms`` is Unix milliseconds."""

    turn_id: int
    parent: int
    depth: int
    codec: int
    type_tag: int
    payload_hash: Hash
    flags: int
    created_ms: int

    @property
    def encoding(self) -> int:
        """The number of the payload's encoding, of :class:`Encoding` or one that a client chose."""
        return self.codec & 0xFFFF | self.flags & WIDE_ENCODING

    @property
    def type_version(self) -> int:
        """The version of the payload's type."""
        return self.codec >> 16

    @property
    def deleted(self) -> bool:
        """True if its record was deleted."""
        return bool(self.flags & DELETED)

    @property
    def reclaimed(self) -> bool:
        """True if it was blanked because nothing led to it: only its place is left."""
        return self.payload_hash == NO_PAYLOAD

    @property
    def edited_ms(self) -> int:
        """The time at which its record's content was changed, in Unix milliseconds; 0 if it never was."""
        return self.created_ms if self.flags & EDITED else 0


def codec(encoding: int, type_version: int) -> int:
    """Return the codec field of a turn; ValueError if either half does not fit 16 bits."""
    if not (0 <= encoding <= 0xFFFF and 0 <= type_version <= 0xFFFF):
        raise ValueError(f"encoding {encoding} and type version {type_version} must fit 16 bits each")
    return encoding | type_version << 16


def encode(turn: Turn) -> bytes:
    """Return the 80 bytes of ``turn``."""
    fields = _pack(*astuple(turn))
    return fields + _pack_crc(crc32(fields))


def encode_all(turns: Iterable[Turn]) -> list[bytes]:
    """Return the 80 bytes of each turn."""
    return [fields + _pack_crc(crc32(fields)) for fields in starmap(_pack, map(astuple, turns))]


def blank(turn_id: int, parent: int, depth: int) -> bytes:
    """Return the 80 bytes of a turn that was reclaimed: where it stood, and nothing else."""
    return encode(Turn(turn_id, parent, depth, 0, 0, NO_PAYLOAD, 0, 0))


def decode(buf: bytes | memoryview, offset: int = 0) -> Turn:
    """Read the record at ``offset``; DamageError if it is cut off or its checksum does not hold."""
    record = buf[offset : offset + RECORD_SIZE]
    if len(record) != RECORD_SIZE:
        raise DamageError(f"a turn's record is cut off after {len(record)} of its {RECORD_SIZE} bytes")
    if crc32(record) != _RUNS[1]:
        raise DamageError("the checksum of a turn's record does not hold")
    return Turn(*_RECORD.unpack(record))


def mended(record: bytes) -> list[Turn]:
    """Return the turns that a damaged record may have been of, if one of its bytes is wrong: whose checksum holds."""
    found = []
    for place in range(len(record) if len(record) == RECORD_SIZE else 0):
        for byte in range(256):
            tried = record[:place] + bytes((byte,)) + record[place + 1 :]
            if crc32(tried) == _RUNS[1]:
                found.append(Turn(*_RECORD.unpack(tried)))
    return found


def decode_run(buf: bytes | memoryview, first: int) -> list[Turn]:
    """Read records that follow each other, whose ids must be ``first``, ``first + 1`` and so on.

    DamageError if any of them is damaged or stands in another's place; :func:`decode_each` then says which.
    """
    view = memoryview(buf)
    count = len(view) // RECORD_SIZE
    if not are_sound(view):
        raise DamageError(f"a checksum among the turns {first} to {first + count - 1} does not hold")
    turns = list(starmap(Turn, _RECORD.iter_unpack(view)))
    if [turn.turn_id for turn in turns] != list(range(first, first + count)):
        raise DamageError(f"the turns {first} to {first + count - 1} are not in their places")
    return turns


def are_sound(buf: bytes | memoryview) -> bool:
    """Return whether the checksums of all records in ``buf`` hold. Their places are not checked."""
    view = memoryview(buf)
    for start in range(0, len(view), _RUN * RECORD_SIZE):
        run = view[start : start + _RUN * RECORD_SIZE]
        if crc32(run) != _RUNS[len(run) // RECORD_SIZE]:
            return False
    return True


def links_of(buf: bytes | memoryview, first: int) -> list[tuple[int, int] | None]:
    """Return (parent, depth) of records that follow each other from ``first`` on, None for those that are damaged."""
    view = memoryview(buf)
    found: list[tuple[int, int] | None] = []
    for start in range(0, len(view) // RECORD_SIZE, _RUN):
        run = view[start * RECORD_SIZE : (start + _RUN) * RECORD_SIZE]
        links = list(_LINKS.iter_unpack(run))
        count = len(links)
        sound = crc32(run) == _RUNS[count]
        if sound and [turn_id for turn_id, _parent, _depth in links] == list(range(first, first + count)):
            found += [(parent, depth) for _turn_id, parent, depth in links]
        else:
            found += [
                (turn.parent, turn.depth) if isinstance(turn, Turn) else None
                for _turn_id, turn in decode_each(run, first)
            ]
        first += count
    return found


def decode_each(buf: bytes | memoryview, first: int) -> Iterator[tuple[int, Turn | DamageError]]:
    """Yield ``(turn id, turn or its fault)`` for records that follow each other from ``first`` on."""
    for place in range(len(buf) // RECORD_SIZE):
        expected = first + place
        try:
            turn = decode(buf, place * RECORD_SIZE)
        except DamageError:
            yield expected, DamageError(f"the record of turn {expected} is damaged: its checksum does not hold")
            continue
        if turn.turn_id == expected:
            yield expected, turn
        else:
            yield expected, DamageError(f"the record of turn {turn.turn_id} stands in the place of turn {expected}")
