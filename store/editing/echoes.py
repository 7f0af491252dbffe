"""Records near an edited one that repeat what it says, and are bookkeeping for that reason: they are edited with it."""

from collections.abc import Callable, Iterator, Mapping

from store.conversations.viewer import LARGEST_VIEWED
from store.events.conversation import EventRow
from store.events.deletion import DELETED, Content
from store.events.event import Kind
from store.formats.editing import EditableLens
from store.store import Store


def with_echoes(
    store: Store, row: Callable[[int], EventRow], records: int, changed: Mapping[int, Content]
) -> dict[int, Content]:
    """Return changes of a branch of ``records`` records, with those of the records that repeat what is changed.

    ``row`` gives the rows of its records, by number.
    """
    found = dict(changed)
    near = _Near(store, row, changed)
    for number, content in changed.items():
        if content is DELETED:
            continue
        turn = store.turn(row(number).turn)
        lens = store.viewer.lens(turn)
        if not isinstance(lens, EditableLens) or not lens.reach or row(number).payload_size > LARGEST_VIEWED:
            continue
        before = range(number - 1, max(0, number - 1 - lens.reach), -1)
        after = range(number + 1, min(records, number + lens.reach) + 1)
        payload = store.payload(turn.turn_id)
        found |= lens.echoes(payload, content, _Records(near, before), _Records(near, after))
    return found


class _Near:
    """Reads bookkeeping records near an edited one, each once."""

    def __init__(self, store: Store, row: Callable[[int], EventRow], changed: Mapping[int, Content]) -> None:
        self._store = store
        self._row = row
        self._changed = changed
        self._read: dict[int, bytes | None] = {}

    def record(self, number: int) -> bytes | None:
        """Return a record's payload, None where it is none that only repeats."""
        if number not in self._read:
            row = self._row(number)
            passed = row.kind is not Kind.RECORD or row.deleted or number in self._changed
            large = row.payload_size > LARGEST_VIEWED
            self._read[number] = None if passed or large else self._store.payload(row.turn)
        return self._read[number]


class _Records:
    """Records by number, as often as they are gone through."""

    def __init__(self, near: _Near, numbers: range) -> None:
        self._near = near
        self._numbers = numbers

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for number in self._numbers:
            if (record := self._near.record(number)) is not None:
                yield number, record
