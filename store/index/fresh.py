"""Places of blobs on their way into the index, and a sieve for those that it does not have.

Hashes come in no order, so the row of each new blob lies in a page of its own, and each look-up of one that is not
there reads one. A large import would write most pages of a large index with every commit, and read one for every blob.
So some of its rows wait in memory, to be filed together in the order in which they lie, and it asks for those alone
that may be there. Rows that wait when the process is killed are filed at the next opening, from the packs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from store.ids import Hash

BlobPlace = tuple[int, int, int]
"""The place of a blob: pack number, offset of the record in it, member of the group (0 if it is none)."""

KeyPlace = tuple[int, int, int, int]
"""Where a blob lies: the key of its hash, and its place."""


KEY_BITS = 64
_PARTS, _PART_BITS = 16, 4


class Fresh:
    """Rows that wait to be filed. One thread at a time changes them; any may look."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        """The place of each blob by its key, as one number: a tuple takes three times as much memory."""
        self._further: dict[int, list[int]] = {}
        """The other places of blobs that have several, by key."""
        self.packs: dict[int, int] = {}
        """Of which packs, and up to where, all blobs are filed once these are."""
        self.sketches: dict[int, Hash] = {}
        """The last blob with each feature."""

    def __len__(self) -> int:
        return len(self._places) + len(self._further)

    def __bool__(self) -> bool:
        return bool(self._places or self.packs or self.sketches)

    def add(self, rows: Sequence[KeyPlace], packs: Mapping[int, int], sketches: Mapping[int, Hash]) -> None:
        new = {row[0]: _joined(row) for row in rows}
        if len(new) == len(rows) and new.keys().isdisjoint(self._places):
            self._places.update(new)
        else:
            for row in rows:
                key, place = row[0], _joined(row)
                if self._places.setdefault(key, place) != place and place not in self._further.get(key, ()):
                    self._further.setdefault(key, []).append(place)
        self.packs.update(packs)
        self.sketches.update(sketches)

    def of(self, key: int) -> list[BlobPlace]:
        """Return the places of a blob, by its key."""
        place = self._places.get(key)
        return [] if place is None else [_parted(one) for one in (place, *self._further.get(key, ()))]

    def parts(self) -> Iterator[list[KeyPlace]]:
        """Yield all rows, some at a time, which lie in the same part of the index."""
        parts: list[list[int]] = [[] for _ in range(_PARTS)]
        for key in self._places:
            parts[key >> KEY_BITS - _PART_BITS].append(key)
        for part in filter(None, parts):
            yield [(key, *place) for key in part for place in self.of(key)]


_OFFSET_BITS = 64
_MEMBER_BITS = 32


def _joined(row: KeyPlace) -> int:
    _key, pack, offset, member = row
    return (pack << _OFFSET_BITS | offset) << _MEMBER_BITS | member


def _parted(place: int) -> BlobPlace:
    rest, member = divmod(place, 1 << _MEMBER_BITS)
    return (*divmod(rest, 1 << _OFFSET_BITS), member)


_PLACES_A_KEY = 8
_LEAST_PLACES, _MOST_PLACES = 1 << 20, 16 << 20


class Sieve:
    """Tells of keys whether they may be among some, or cannot be: of those that are not, it lets one in eight pass."""

    def __init__(self, room: int) -> None:
        """``room`` is for how many keys it is made."""
        # a byte each: bits would take three times as long
        size = 1 << (room * _PLACES_A_KEY).bit_length()
        self._taken = bytearray(min(max(size, _LEAST_PLACES), _MOST_PLACES))
        self._count = 0

    @property
    def is_full(self) -> bool:
        """True if it has more keys than it is made for, and a larger one lets fewer others pass."""
        return self._count * _PLACES_A_KEY > len(self._taken) < _MOST_PLACES

    def add(self, keys: Sequence[int]) -> None:
        taken, mask = self._taken, len(self._taken) - 1
        for key in keys:
            taken[key & mask] = 1
        self._count += len(keys)

    def passing(self, keys: Iterable[int]) -> list[int]:
        """Return those of some keys that may be among these."""
        taken, mask = self._taken, len(self._taken) - 1
        return [key for key in keys if taken[key & mask]]
