"""What is made of the rows of a conversation, one after the other, and goes on when the conversation does."""

from collections.abc import Callable, Sequence, Sized
from typing import Generic, TypeVar

from store.conversations.rows import NO_ROWS, Rows
from store.events.conversation import EventRow

T = TypeVar("T", bound=Sized)


class Extending(Generic[T]):
    """Something that grows with the rows that it is made of, and is made anew for others.

    ``make`` makes an empty one, ``add`` adds what further rows bring at its end, and nothing else: who was given the
    same thing before goes on to use as much of it as there was then.
    """

    def __init__(self, make: Callable[[], T], add: Callable[[T, Sequence[EventRow]], None]) -> None:
        self._make = make
        self._add = add
        self._made = make()
        self._rows = NO_ROWS

    def of(self, rows: Rows) -> tuple[T, int]:
        """Return what is made of ``rows``, and how much of it is: there may be more by now."""
        if not self._rows.begins(rows):
            self._made, self._rows = self._make(), Rows(rows.shared, 0)
        if len(self._rows) < len(rows):
            self._add(self._made, rows[len(self._rows) :])
            self._rows = rows
        return self._made, len(self._made)
