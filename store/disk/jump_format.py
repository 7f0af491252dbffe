"""Jumps: for each turn one ancestor farther away, so that steps as few as a logarithm lead to any ancestor.

The jump of a turn at depth d leads to depth d - w, where w is the least term of d written as a sum of numbers
2 ** k - 1, greedily (skew binary): so it follows from the depth alone how far a jump goes. (Myers, An applicative
random-access stack, 1983.)

An entry, little-endian: ``jump u64 | crc32 u32`` of the turn's id and the jump, u64 both. ``jump`` is 0 at a root, and
where the record of a turn that it depends on could not be read: then there is only the parent to go on with.
"""

import zlib
from struct import Struct as Layout

from store.errors import DamageError

ENTRY_SIZE = 12
_ENTRY = Layout("<QI")
_SUMMED = Layout("<QQ")


def jump_depth(depth: int) -> int:
    """Return the depth that the jump of a turn at ``depth`` leads to; of a root, its own."""
    rest = depth
    while rest:
        term = (1 << (rest + 1).bit_length() - 1) - 1
        if term == rest:
            return depth - term
        rest -= term
    return 0


def encode(turn_id: int, jump: int) -> bytes:
    """Return the entry of a turn."""
    return _ENTRY.pack(jump, zlib.crc32(_SUMMED.pack(turn_id, jump)))


def decode(entry: bytes, turn_id: int) -> int:
    """Return the jump of a turn; DamageError if its checksum does not hold."""
    if len(entry) != ENTRY_SIZE:
        raise DamageError(f"the jump of turn {turn_id} is cut off after {len(entry)} bytes")
    jump: int
    jump, crc = _ENTRY.unpack(entry)
    if zlib.crc32(_SUMMED.pack(turn_id, jump)) != crc:
        raise DamageError(f"the checksum of the jump of turn {turn_id} does not hold")
    return jump
