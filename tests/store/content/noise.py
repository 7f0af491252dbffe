"""Text that hardly compresses, and edits of it."""

import random

EDIT = b"this line was edited"


def noise(size: int, seed: int = 1) -> bytes:
    """Return lines of hexadecimal digits that zstd makes no less than half of."""
    digits = random.Random(seed).randbytes(size // 2).hex().encode()
    return b"\n".join(digits[start : start + 79] for start in range(0, size, 79))


def edited(data: bytes, *places: float) -> bytes:
    """Return ``data`` with a line replaced at each of some places, told as parts of the whole."""
    lines = data.split(b"\n")
    for place in places:
        lines[int(place * (len(lines) - 1))] = EDIT
    return b"\n".join(lines)
