"""Rewrites: all that a save of a file that shows many records changes in them, as one version."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from store.conversations.contexts import Append
from store.editing.commit import Changed, Item
from store.editing.editor import with_echoes
from store.events.conversation import EventRow
from store.events.event import Replacement
from store.ids import Hash
from store.store import Store


class Rewrite(Struct, frozen=True):
    """Records that change, by number, and records to append; ``items``: the whole new conversation instead.

    ``title`` is the conversation's new title, "" if that stays.
    """

    changes: dict[int, Replacement]
    added: tuple[Append, ...] = ()
    items: tuple[Item, ...] | None = None
    title: str = ""

    @property
    def new(self) -> int:
        """How many records are new."""
        return sum(isinstance(item, Append) for item in (self.added if self.items is None else self.items))


def rewrite(
    store: Store, rows: Sequence[EventRow], order: Sequence[int | Append], changes: dict[int, Replacement]
) -> Rewrite | None:
    """Return the shortest way to bring the records ``rows`` into an order; those that are not in it keep their place.

    None where that changes nothing. ``changes`` are other contents, by number.
    """
    numbers = [item for item in order if isinstance(item, int)]
    added = tuple(item for item in order[len(numbers) :] if not isinstance(item, int))
    in_place = numbers == sorted(numbers) and len(numbers) + len(added) == len(order)
    if in_place and not (changes and added):
        return Rewrite(changes, added) if changes or added else None
    if not changes and len(numbers) == len(order):
        payloads = _payloads(store, rows)
        if [payloads[number - 1] for number in numbers] == [payloads[number - 1] for number in sorted(numbers)]:
            # only records that are the same have changed their places
            return None
    changes = with_echoes(store, lambda number: rows[number - 1], len(rows), changes)
    return Rewrite(changes, items=tuple(_items(len(rows), order, changes)))


def following(records: int, present: Iterable[int], number: int) -> int:
    """Return the number of the first record behind ``number`` that does not keep its place behind that."""
    return min((other for other in present if other > number), default=records + 1)


def _payloads(store: Store, rows: Sequence[EventRow]) -> list[Hash]:
    return [store.turns.get(row.turn).payload_hash for row in rows]


def _items(records: int, order: Sequence[int | Append], changes: dict[int, Replacement]) -> Iterator[Item]:
    present = {item for item in order if isinstance(item, int)}

    def place(number: int) -> Iterator[Item]:
        # a record that is no longer shown keeps its place behind its predecessor
        while number <= records:
            yield Changed(number, changes[number]) if number in changes else number
            number += 1
            if number in present:
                return

    if 1 not in present:
        yield from place(1)
    for item in order:
        if isinstance(item, int):
            yield from place(item)
        else:
            yield item
