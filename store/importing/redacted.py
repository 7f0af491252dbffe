"""Records that were redacted since they were imported, compared with what their files still say."""

from __future__ import annotations

MARK = b"[redacted]"
"""What stands where a secret stood."""


def is_of(kept: bytes, brought: bytes) -> bool:
    """Say whether a record is one that was redacted: whether it differs where that has marks, and nowhere else."""
    first, *pieces = kept.split(MARK)
    if not pieces or not brought.startswith(first):
        return False
    last = pieces.pop()
    at, end = len(first), len(brought) - len(last)
    if end < at or not brought.endswith(last):
        return False
    for piece in pieces:
        found = brought.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
