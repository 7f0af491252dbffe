"""Blobs that others have taken the places of, for the sake of those who were about to name them.

Who brings much content writes it to the packs first, or finds it there, and then commits what names it. Where the
content has become another in between, for good, so do the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import structs

from store.commit.request import Request
from store.disk.turn_format import REDACTED
from store.ids import Hash

_HEX = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Replaced:
    """What was replaced since the store was opened. Who commits holds the lock that guards it."""

    def __init__(self) -> None:
        self._new: dict[Hash, Hash] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, new: Mapping[Hash, Hash]) -> None:
        """Take note of blobs that took the places of others."""
        self._new |= new

    def written(self, digests: Iterable[Hash]) -> None:
        """Take note that somebody has brought blobs anew: who names them means them."""
        for digest in digests:
            self._new.pop(digest, None)

    def rename(self, request: Request) -> None:
        """Let a request name what is there, but for content that comes along with it."""
        self.written([blob.hash for blob in request.blobs])
        new = self._new
        if any(turn.payload_hash in new for turn in request.turns):
            request.turns = [
                structs.replace(turn, payload_hash=new[turn.payload_hash], flags=turn.flags | REDACTED)
                if turn.payload_hash in new
                else turn
                for turn in request.turns
            ]
        request.patches = [
            (turn, new[digest], flags | REDACTED, created) if digest in new else (turn, digest, flags, created)
            for turn, digest, flags, created in request.patches
        ]
        if request.fs_root is not None:
            request.fs_root = new.get(request.fs_root, request.fs_root)
        if request.changes is not None:
            request.changes = _HEX.sub(self._in_hex, request.changes)

    def _in_hex(self, match: re.Match[bytes]) -> bytes:
        name = self._new.get(Hash(bytes.fromhex(match[0].decode())))
        return match[0] if name is None else name.hex().encode()
