"""Two ways of waiting: things that come back in time were never gone, and files that rest are complete.

Programs that save remove a file and make it again, or move it away and write a new one; and they write a file in many
pieces. Neither tells when it is done, so both are judged by time. Callers pass the clock: tests set it.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Clock = Callable[[], float]
"""Returns seconds that only rise."""


class Delayed(Generic[G, K, V]):
    """Things with values that are hidden in groups; a group is due when nothing was added to it for some seconds."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._hidden: dict[G, dict[K, V]] = {}
        self._due: dict[G, float] = {}

    def __contains__(self, group: G) -> bool:
        return group in self._hidden

    def hide(self, group: G, key: K, value: V) -> None:
        """Add to a group, which is then due anew."""
        self._hidden.setdefault(group, {})[key] = value
        self._due[group] = self._clock() + self._seconds

    def come_back(self, group: G, key: K) -> bool:
        """Take something out of a group and return whether it was in it."""
        hidden = self._hidden.get(group, {})
        was_hidden = key in hidden
        hidden.pop(key, None)
        return was_hidden

    def of(self, group: G) -> Mapping[K, V]:
        """Return what is hidden in a group."""
        return self._hidden.get(group, {})

    def take(self, group: G) -> dict[K, V]:
        """Remove a group and return its hidden items."""
        self._due.pop(group, None)
        return self._hidden.pop(group, {})

    def due(self) -> list[G]:
        """Return the groups whose time has come."""
        now = self._clock()
        return [group for group, due in self._due.items() if due <= now]

    def groups(self) -> list[G]:
        """Return all groups."""
        return list(self._hidden)


class Quiet(Struct):
    """The times of the first write to a file that nobody has looked at, and of the last; 0 stands for never."""

    first: float = 0.0
    last: float = 0.0

    def written(self, now: float) -> None:
        """Record a write."""
        self.last = now
        self.first = self.first or now

    def rests(self, now: float, seconds: float) -> bool:
        """Return whether nothing was written for ``seconds``."""
        return now - self.last >= seconds

    def is_due(self, now: float, quiet: float, patience: float) -> bool:
        """Return whether it is time to look: nothing came for ``quiet`` seconds, or it has waited for ``patience``."""
        return bool(self.first) and (self.rests(now, quiet) or now - self.first >= patience)

    def looked_at(self) -> None:
        """Record that nothing waits any more."""
        self.first = 0.0
