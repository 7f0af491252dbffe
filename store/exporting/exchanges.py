"""Exchanges: a request of the user, and everything up to the next one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from store.events.event import Event, Kind
from store.exporting.steps import OF_THE_MODEL


class Spoken(NamedTuple):
    """What counting exchanges needs of an event of the user or of the model."""

    number: int
    kind: Kind
    has_text: bool


def spoken_by(number: int, event: Event) -> Spoken | None:
    """Return that of an event, None if nobody spoke."""
    if event.kind is not Kind.USER and event.kind not in OF_THE_MODEL:
        return None
    return Spoken(number, event.kind, any(block.type == "text" for block in event.blocks))


class Requests:
    """The requests of a user, as they come; files may come apart from what is asked of them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        """Of each request, the number of its first event."""
        self._asking = False
        self._asked = False

    def add(self, spoken: Spoken) -> None:
        """Take in the next event of the user or of the model."""
        if spoken.kind is not Kind.USER:
            self._asking = False
        elif not self._asking or (spoken.has_text and self._asked):
            self.numbers.append(spoken.number)
            self._asking, self._asked = True, spoken.has_text
        else:
            self._asked = self._asked or spoken.has_text

    def before(self, number: int) -> list[int]:
        """Return those before an event."""
        return self.numbers[: bisect_left(self.numbers, number)]

    def exchange(self, number: int) -> int:
        """Return in which exchange an event is; the first is 1."""
        return max(1, bisect_right(self.numbers, number))
