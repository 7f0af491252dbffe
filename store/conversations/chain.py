"""Chain: answers a lens's questions about earlier records, as the records are read in order."""

from collections.abc import Callable

from msgspec import Struct

from store.events.event import Event

Backwards = Callable[[int], "Event | None"]
"""Returns the event of an earlier record by number, None if it cannot be read just now."""

Blobs = Callable[[str, bytes], "bytes | None"]
"""Returns content by (algorithm, digest), None if the store does not hold it."""


class Chain:
    """Implements :class:`store.formats.core.lens.Before` for one branch, record by record.

    Started at a record other than the first, it knows nothing of those before and looks them up, nearest first, as
    far back as a question needs: but no more of them than ``reach``, if that is given.
    """

    def __init__(self, number: int, backwards: Backwards, blobs: Blobs, reach: int | None = None) -> None:
        self._number = number
        self._backwards = backwards
        self._unread = number - 1
        self._beyond = 0 if reach is None else max(self._unread - reach, 0)
        """The record up to which none is looked up."""
        self.blob = blobs
        self._defined: dict[str, tuple[int, str]] = {}
        self._last = 0
        """The number of the last record that defined a key, 0 if none is known."""
        self._lost = 0
        """The number of the last record that could not be read, 0 if all could."""
        self.doubtful = False
        """True if an answer for the current record might differ if all earlier records could be read."""

    def advance(self, event: Event | None) -> None:
        """Advance to the record after ``event``, the current one (None: it could not be read)."""
        self.doubtful = False
        if event is None:
            self._lost = self._number
        elif event.defines:
            self._last = self._number
            for key, tool in event.defines:
                self._defined[key] = (self._number, tool)
        self._number += 1

    def tool(self, call_id: str) -> str:
        """See :meth:`store.formats.core.lens.Before.tool`."""
        found = self._find(call_id)
        self.doubtful = self.doubtful or (found is None and self._lost > 0)
        return found[1] if found else ""

    def parent(self, key: str | None) -> int:
        """See :meth:`store.formats.core.lens.Before.parent`."""
        while not self._last and self._unread > self._beyond:
            self._read_one_back()
        if key is None:
            self.doubtful = self.doubtful or self._lost > 0 >= self._last
            return -1 if self._last else 0
        found = self._find(key)
        if found is None:
            self.doubtful = self.doubtful or self._lost > 0
            return -1
        if found[0] != self._last:
            return found[0]
        self.doubtful = self.doubtful or self._lost > self._last
        return 0

    def _find(self, key: str) -> tuple[int, str] | None:
        while key not in self._defined and self._unread > self._beyond:
            self._read_one_back()
        return self._defined.get(key)

    def _read_one_back(self) -> None:
        event = self._backwards(self._unread)
        if event is None:
            self._lost = max(self._lost, self._unread)
        elif event.defines:
            self._last = self._last or self._unread
            for key, tool in event.defines:
                # nearer records were read before and stand
                self._defined.setdefault(key, (self._unread, tool))
        self._unread -= 1


class Alone(Chain):
    """The chain of a branch whose records are all at hand, without a store; ``lost`` once it had to be asked.

    ``outside`` finds content that is at hand, too.
    """

    def __init__(self, outside: Blobs = lambda _algorithm, _digest: None) -> None:
        self.lost = False
        self._outside = outside
        self.number = 1
        super().__init__(1, lambda _number: None, self._asked)

    def advance(self, event: Event | None) -> None:
        super().advance(event)
        self.number += 1

    def _asked(self, algorithm: str, digest: bytes) -> bytes | None:
        found = self._outside(algorithm, digest)
        self.lost = self.lost or found is None
        return found


class Recorded(Struct, frozen=True):
    """Answers a lens from what was recorded when the event was measured: nothing else is read."""

    recorded_tool: str
    recorded_parent: int
    blob: Blobs

    def tool(self, _call_id: str) -> str:
        """Return the recorded name of the tool."""
        return self.recorded_tool

    def parent(self, _key: str | None) -> int:
        """Return the recorded parent."""
        return self.recorded_parent
