"""Storing what an edit has made against what was there before it.

Who corrects a line of a long tool result has a new payload whose contents resemble those of the payload that it takes
the place of. Such a content is stored as a delta, against the earlier one or against what that is a delta against
itself: the one that lies there whole, as long as the delta stays small, so that reading seldom takes more than two
records, and never more than nine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from store.content import zstd
from store.content.chunking import pieces
from store.content.compression import Member, pack_delta
from store.content.cutting import cut
from store.content.delta import Delta, difference
from store.content.resolver import Resolver
from store.disk.blob_format import Form
from store.errors import ConvfsError
from store.ids import Hash

LEAST_BYTES = 16 << 10
"""Shorter contents are packed with their neighbours: they are small anyway."""

_DEEPEST = 8
_TINY = 512
_SMALL, _HALF, _EIGHTH = 32, 2, 8
"""What part of the content as it would be alone, compressed, makes a delta good, good enough, or worth more depth."""

_PIECE = 1 << 10


class Versions:
    """Makes the deltas of one load.

    ``limit`` is where strings leave payloads. Earlier payloads are read by ``resolver``, wherever they are; contents
    are deltas only against what is ``there``, in the packs or written by this load already, and ``packed`` reads those:
    a blob that waits in the journal may be packed as a delta against this very one.
    """

    def __init__(self, resolver: Resolver, packed: Resolver, limit: int, there: Callable[[Hash], bool]) -> None:
        self._resolver = resolver
        self._packed = packed
        self._limit = limit
        self._there = there
        self._bases: dict[Hash, list[Hash]] = {}
        """What this load has stored as deltas, with what each needs, nearest first."""
        self._parts = _Parts(None, [])

    def record(self, member: Member, earlier: Hash) -> bytes | None:
        """Return a record that holds a blob of a payload that takes the place of the payload ``earlier``.

        None where a delta would not be much smaller than the blob alone.
        """
        body = member.body
        if len(body) < LEAST_BYTES:
            return None
        if self._parts.payload != earlier:
            self._parts = self._taken_apart(earlier)
        nearest = self._parts.nearest(member)
        if nearest is None or not self._there(nearest[0]):
            return None
        try:
            # the one that lies there whole first
            chain = [nearest[0], *self._needs(nearest[0])][::-1]
        except ConvfsError:
            return None
        best: tuple[int, int, Delta] | None = None
        alone = 0
        for depth, base in enumerate(chain[:_DEEPEST]):
            data = nearest[1] if base == nearest[0] else self._read(base)
            if data is None:
                continue
            delta = difference(data, body)
            if best is None or delta.size < best[0]:
                best = delta.size, depth, delta
            if delta.size <= _TINY:
                break
            alone = alone or len(zstd.compress(body))
            if delta.size <= alone // _SMALL:
                break
        if best is None or best[0] > max(alone // (_HALF if len(chain) <= _DEEPEST else _EIGHTH), _TINY):
            return None
        _size, depth, delta = best
        self._bases[member.hash] = chain[depth::-1]
        return pack_delta(member, chain[depth], delta)

    def _needs(self, digest: Hash) -> list[Hash]:
        known = self._bases.get(digest)
        if known is not None:
            return known
        try:
            return self._packed.bases(digest)
        except ConvfsError:
            if self._there(digest):
                return []
            raise

    def _read(self, digest: Hash) -> bytes | None:
        try:
            return self._packed.blob(digest)
        except ConvfsError:
            return None  # not in the packs yet, perhaps

    def _taken_apart(self, earlier: Hash) -> _Parts:
        try:
            payload = self._resolver.blob(earlier)
        except ConvfsError:
            return _Parts(None, [])
        taken = cut(payload, self._limit)
        contents = taken.contents if taken else []
        return _Parts((earlier, payload), [part for part in contents if len(part[1]) >= LEAST_BYTES])


class _Parts:
    """A payload, and the contents that it was made of; finds the one that resembles another most."""

    def __init__(self, whole: tuple[Hash, bytes] | None, contents: list[tuple[Hash, bytes]]) -> None:
        self.payload = whole[0] if whole else None
        self._whole = whole
        self._contents = contents
        self._pieces: dict[bytes, int] | None = None

    def nearest(self, member: Member) -> tuple[Hash, bytes] | None:
        """Return what ``member`` has most in common with, if it is a content; a skeleton has with the payload."""
        if not self._contents or member.form == Form.SKELETON:
            return self._whole
        if len(self._contents) == 1:
            return self._contents[0]
        if self._pieces is None:
            self._pieces = {
                piece: number for number, (_digest, content) in enumerate(self._contents) for piece in _pieces(content)
            }
        shared = Counter(self._pieces[piece] for piece in _pieces(member.body) if piece in self._pieces)
        return self._contents[shared.most_common(1)[0][0]] if shared else None


def _pieces(content: bytes) -> Iterator[bytes]:
    return (content[start:stop] for start, stop in pieces(content, _PIECE))
