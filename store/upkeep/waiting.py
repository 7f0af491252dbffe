"""What a journal held when a store is opened, to be packed as a checkpoint would have done."""

from __future__ import annotations

from contextlib import suppress

from store.commit.versions import LEAST_BYTES
from store.disk.head_format import Frame, Patched, Superseded
from store.disk.turn_format import NO_PAYLOAD
from store.errors import DamageError, NotFound
from store.ids import Hash
from store.upkeep.recovery import Files


def earlier(files: Files) -> dict[Hash, Hash]:
    """Return of large payloads that wait, by their hashes, which ones they take the place of: edits say so."""
    waiting = {blob.hash for found in files.found for blob in found.blobs if blob.length >= LEAST_BYTES}
    found: dict[Hash, Hash] = {}
    if not waiting:
        return found
    noted = files.journal.checkpoint
    for frame in files.heads.frames(noted.heads_length if noted else None):
        if not isinstance(frame, Frame):
            continue
        if isinstance(frame.body, Patched):
            for turn_id, digest, _flags, _created in frame.body.turns:
                if digest in waiting:
                    with suppress(DamageError, NotFound):
                        before = files.turns.get(turn_id).payload_hash
                        found |= {digest: before} if before not in (digest, NO_PAYLOAD) else {}
        if not isinstance(frame.body, Superseded):
            continue
        for old, new, count in frame.body.turns:
            if not new:
                continue
            try:
                pairs = zip(files.turns.range(old, count), files.turns.range(new, count), strict=False)
            except (DamageError, NotFound):
                continue
            for was, turn in pairs:
                if turn.payload_hash in waiting and was.payload_hash not in (turn.payload_hash, NO_PAYLOAD):
                    found[turn.payload_hash] = was.payload_hash
    return found
