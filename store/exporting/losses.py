"""What an export leaves out or changes, for whoever asked for it to know."""

from __future__ import annotations

from msgspec import Struct

DAMAGED = "what is damaged in the store"
TOO_LARGE = "a record too large to be looked into: the native format has it"
_SHOWN = 8


class Loss(Struct, frozen=True):
    """One thing that the other form cannot say: ``what`` it is, and the numbers of the ``events`` that said it."""

    what: str
    events: tuple[int, ...]

    def line(self) -> str:
        """Return this as a sentence of one line."""
        count = len(self.events)
        if not count:
            return self.what
        shown = ", ".join(map(str, self.events[:_SHOWN])) + (", …" if count > _SHOWN else "")
        return f"{self.what} ({count} events: {shown})" if count > 1 else f"{self.what} (event {shown})"


class Losses:
    """Collects what one export loses, things of a kind together."""

    def __init__(self) -> None:
        self._events: dict[str, list[int]] = {}

    def add(self, what: str, *events: int) -> None:
        """Note that ``what`` was lost of events, by number."""
        noted = self._events.setdefault(what, [])
        for event in events:
            if not noted or noted[-1] != event:
                noted.append(event)

    def all(self) -> tuple[Loss, ...]:
        """Return what was noted, in the order in which it was first met."""
        return tuple(Loss(what, tuple(events)) for what, events in self._events.items())
