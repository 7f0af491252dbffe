"""Sessions that begin with what another one says: they have its turns, and the file says what it has otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from store.errors import UsageError
from store.ids import Hash
from store.importing.respelling import Change, read_changes, respelled
from store.store import Store


class Copied(Struct, frozen=True, omit_defaults=True):
    """How the beginning of a branch stands in the file of its session.

    The first ``records`` of the branch are those of another session; the file has not the first ``left_out`` of them.
    Before the others stand the ``first`` records that follow them in the branch. ``changes`` is a blob, in hex, of how
    the file spells them.
    """

    records: int
    left_out: int = 0
    first: int = 0
    changes: str = ""

    @property
    def reach(self) -> int:
        """How many records of the file are not simply those that follow each other in the branch."""
        return self.records - self.left_out + self.first

    def number(self, position: int) -> int:
        """Return the number, from 1, in the branch of the record at a position of the file."""
        if position < self.first:
            return self.records + position + 1
        if position < self.reach:
            return position - self.first + self.left_out + 1
        return position + self.left_out + 1

    def position(self, number: int) -> int | None:
        """Return where in the file a record of the branch stands, None if it does not."""
        if number <= self.left_out:
            return None
        if number <= self.records:
            return number - 1 - self.left_out + self.first
        if number <= self.records + self.first:
            return number - 1 - self.records
        return number - 1 - self.left_out

    def read_changes(self, store: Store) -> dict[int, Change]:
        """Return how the file spells records, by their numbers. Raises DamageError and NotFound."""
        if not self.changes:
            return {}
        return read_changes(store.blob(Hash(bytes.fromhex(self.changes)))).by_number()


class Spelling:
    """The records of a branch as they are in the file of its session; ``copied`` is None where that is all the same."""

    def __init__(self, store: Store, copied: Copied | None) -> None:
        self.copied = copied
        self._changes = copied.read_changes(store) if copied else {}

    def in_file(self, turns: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return which records of a branch of ``turns`` the file has, in its order: their numbers, and their turns."""
        if self.copied is None:
            return list(range(1, len(turns) + 1)), list(turns)
        count = len(turns) - self.copied.left_out
        numbers = [self.copied.number(position) for position in range(max(count, 0))]
        numbers = [number for number in numbers if number <= len(turns)]
        return numbers, [turns[number - 1] for number in numbers]

    def spell(self, numbers: Iterable[int | None], records: Iterable[Iterable[bytes]]) -> Iterator[Iterable[bytes]]:
        """Yield records, each in pieces, as the file has them; ``numbers`` are what they were as they were imported."""
        if not self._changes:
            yield from records
            return
        for number, pieces in zip(numbers, records, strict=True):
            change = self._changes.get(number or 0)
            yield (self.one(b"".join(pieces), change),) if change else pieces

    def changes(self, number: int) -> bool:
        """Say whether the file has a record otherwise."""
        return number in self._changes

    def spelled(self, number: int, record: bytes) -> bytes:
        """Return one record as the file has it."""
        change = self._changes.get(number)
        return self.one(record, change) if change else record

    def one(self, record: bytes, change: Change) -> bytes:
        """Return a record with a change; one that was edited so that it cannot be changed as it is."""
        try:
            return respelled(record, change)
        except UsageError:
            return record
