"""Where very many blobs lie, in little memory: 28 bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from store.ids import Hash, hash_key

Place = tuple[int, int, int]
"""Where a blob lies: pack number, offset of the record in it, member of the group (0 if it is none)."""


class Places:
    """Blobs, by the first eight bytes of their hashes, and their places."""

    def __init__(self, places: Iterable[tuple[Hash, Place]] = ()) -> None:
        self._keys = array("q")
        self._packs = array("Q")
        self._offsets = array("Q")
        self._members = array("I")
        self._sorted = array("q")
        for digest, place in places:
            self.add(digest, place)

    def add(self, digest: Hash, place: Place) -> None:
        """Note where a blob lies."""
        pack, offset, member = place
        self._keys.append(hash_key(digest))
        self._packs.append(pack)
        self._offsets.append(offset)
        self._members.append(member)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, digest: Hash) -> bool:
        """Whether a blob is one of them, as far as the first eight bytes tell."""
        if len(self._sorted) != len(self._keys):
            self._sorted = array("q", sorted(self._keys))
        key = hash_key(digest)
        at = bisect_left(self._sorted, key)
        return at < len(self._sorted) and self._sorted[at] == key

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield key, pack, offset and member of all of them, in the order of the keys."""
        for at in sorted(range(len(self._keys)), key=self._keys.__getitem__):
            yield self._keys[at], self._packs[at], self._offsets[at], self._members[at]
