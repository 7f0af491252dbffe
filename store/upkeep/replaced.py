"""What the payloads that a journal brings take the place of, where edits made them: known from the logs."""

from __future__ import annotations

from store.commit.versions import LEAST_BYTES
from store.disk.head_format import Frame, Superseded
from store.errors import DamageError, NotFound
from store.ids import Hash
from store.upkeep.recovery import Files


def replaced(files: Files) -> dict[Hash, Hash]:
    """Return of large payloads that wait in ``files``, by their hashes, which ones they take the place of."""
    waiting = {blob.hash for blob in files.waiting if blob.raw_len >= LEAST_BYTES}
    found: dict[Hash, Hash] = {}
    if not waiting:
        return found
    noted = files.journal.checkpoint
    for frame in files.heads.frames(noted.heads_length if noted else None):
        if not isinstance(frame, Frame) or not isinstance(frame.body, Superseded):
            continue
        for old, new, count in frame.body.turns:
            if not new:
                continue
            try:
                pairs = zip(files.turns.range(old, count), files.turns.range(new, count), strict=False)
            except (DamageError, NotFound):
                continue
            for was, turn in pairs:
                if turn.payload_hash in waiting and was.payload_hash != turn.payload_hash:
                    found[turn.payload_hash] = was.payload_hash
    return found
