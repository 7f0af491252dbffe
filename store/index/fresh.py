"""Places of blobs on their way into the index, and a sieve for those that it does not have.

Hashes come in no order, so the row of each new blob lies in a page of its own, and each look-up of one that is not
there reads one. A large import would write most pages of a large index with every commit, and read one for every blob.
So some of its rows wait in memory, to be filed together in the order in which they lie, and it asks for those alone
that may be there. Rows that wait when the process is killed are filed at the next opening, from the packs.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from store.ids import Hash

BlobPlace = tuple[int, int, int]
"""The place of a blob: pack number, offset of the record in it, member of the group (0 if it is none)."""

KeyPlace = tuple[int, int, int, int]
"""Where a blob lies: the key of its hash, and its place."""


KEY_BITS = 64
_PARTS, _PART_BITS = 16, 4
_LEAST_SLOTS = 64


class Fresh:
    """Rows that wait to be filed, in a few pieces of memory. One thread at a time changes them; any may look.

    As objects they would take four times as much, between what else is allocated meanwhile: once they are gone, that
    would keep their memory from the system.
    """

    def __init__(self) -> None:
        self._keys, self._members = array("q"), array("I")
        self._packs, self._offsets = array("Q"), array("Q")
        self._slots = array("i", bytes(_LEAST_SLOTS * 4))
        """A hash table with linear probing: by its key, the number of each row, from 1; 0 where there is none."""
        self.packs: dict[int, int] = {}
        """Of which packs, and up to where, all blobs are filed once these are."""
        self.sketches: dict[int, Hash] = {}
        """The last blob with each feature."""

    def __len__(self) -> int:
        return len(self._keys)

    def __bool__(self) -> bool:
        return bool(self._keys or self.packs or self.sketches)

    def add(self, rows: Sequence[KeyPlace], packs: Mapping[int, int], sketches: Mapping[int, Hash]) -> None:
        if 2 * (len(self._keys) + len(rows)) > len(self._slots):
            self._grow(len(rows))
        keys, slots = self._keys, self._slots
        mask = len(slots) - 1
        for key, pack, offset, member in rows:
            at = key & mask
            while (number := slots[at]) and (keys[number - 1] != key or self._place(number) != (pack, offset, member)):
                at = (at + 1) & mask
            if not number:
                self._packs.append(pack)
                self._offsets.append(offset)
                self._members.append(member)
                keys.append(key)
                # now that all of it is there
                slots[at] = len(keys)
        self.packs.update(packs)
        self.sketches.update(sketches)

    def _grow(self, more: int) -> None:
        slots = array("i", bytes(4 << (2 * (len(self._keys) + more)).bit_length()))
        mask = len(slots) - 1
        for number, key in enumerate(self._keys, 1):
            at = key & mask
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = number
        self._slots = slots

    def _place(self, number: int) -> BlobPlace:
        return self._packs[number - 1], self._offsets[number - 1], self._members[number - 1]

    def of(self, key: int) -> list[BlobPlace]:
        """Return the places of a blob, by its key."""
        keys, slots = self._keys, self._slots
        mask = len(slots) - 1
        found: list[BlobPlace] = []
        at = key & mask
        while number := slots[at]:
            if keys[number - 1] == key:
                found.append(self._place(number))
            at = (at + 1) & mask
        return found

    def parts(self) -> Iterator[list[KeyPlace]]:
        """Yield all rows, some at a time, which lie in the same part of the index."""
        parts = [array("I") for _ in range(_PARTS)]
        for number, key in enumerate(self._keys, 1):
            parts[key >> KEY_BITS - _PART_BITS].append(number)
        for part in filter(None, parts):
            yield [(self._keys[number - 1], *self._place(number)) for number in part]


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
