"""A set of very many hashes, in one piece of memory.

A set of Python's takes as much again, in as many small pieces as there are hashes: what else is allocated meanwhile
lies between them, and keeps their memory from the system once they are gone.
"""

from collections.abc import Iterable

from store.ids import HASH_SIZE, Hash, hash_key

_FREE = bytes(HASH_SIZE)
"""Where none stands: no content has this hash."""
_LEAST = 1 << 10


class Hashes:
    """A set of hashes, as a hash table with linear probing; for one thread at a time."""

    def __init__(self) -> None:
        self._table = bytearray(_LEAST * HASH_SIZE)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, digest: Hash) -> bool:
        return digest != _FREE and self._table.startswith(digest, self._place(digest))

    def add(self, digest: Hash) -> None:
        """Add one, if it is none of them."""
        at = self._place(digest)
        if self._table.startswith(digest, at):
            return
        self._table[at : at + HASH_SIZE] = digest
        self._count += 1
        if 3 * HASH_SIZE * self._count > 2 * len(self._table):
            self._grow()

    def update(self, digests: Iterable[Hash]) -> None:
        """Add many."""
        for digest in digests:
            self.add(digest)

    def _place(self, digest: bytes) -> int:
        """Return where a hash stands, or is to stand."""
        table = self._table
        at = hash_key(digest) * HASH_SIZE % len(table)
        while not table.startswith((digest, _FREE), at):
            at = (at + HASH_SIZE) % len(table)
        return at

    def _grow(self) -> None:
        before, self._table = self._table, bytearray(2 * len(self._table))
        for start in range(0, len(before), HASH_SIZE):
            digest = bytes(before[start : start + HASH_SIZE])
            if digest != _FREE:
                at = self._place(digest)
                self._table[at : at + HASH_SIZE] = digest
