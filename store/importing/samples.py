"""The records by which a session is described: its first ones, and later ones that may give it a title."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from store.conversations import branch
from store.errors import ConvfsError
from store.formats.format import Format
from store.importing.copied import Spelling
from store.index.views import Run
from store.store import Store

_FIRST_RECORDS = 200
_FIRST_BYTES = 8 << 20
_LARGEST_TITLE = 64 << 10
_MOST_TITLES = 256


class Samples:
    """Collects these records, as an import sees them."""

    def __init__(self, format_: Format) -> None:
        self._titles = format_.titles
        self._first: list[bytes] = []
        self._room = _FIRST_BYTES
        self._late: deque[tuple[int, bytes]] = deque(maxlen=_MOST_TITLES)
        self.tell = False
        """Whether a record may give another title."""

    def see(self, number: int, payload: bytes) -> None:
        """Look at record ``number``."""
        titles = len(payload) <= _LARGEST_TITLE and self._titles(payload)
        if titles:
            self.tell = True
        if number <= _FIRST_RECORDS:
            if len(payload) <= self._room:
                self._room -= len(payload)
                self._first.append(payload)
        elif titles:
            self._late.append((number, payload))

    @property
    def records(self) -> list[bytes]:
        """The records, in order."""
        return [*self._first, *(payload for _number, payload in self._late)]

    def titled(self, earlier: Iterable[int]) -> tuple[int, ...]:
        """Return the numbers of the late ones; ``earlier`` are those of the import before."""
        return (*earlier, *(number for number, _payload in self._late))[-_MOST_TITLES:]


def recalled(
    store: Store, runs: tuple[Run, ...], spelling: Spelling, seen: int, titled: Iterable[int]
) -> Iterator[bytes]:
    """Yield what an earlier import saw of the first ``seen`` records of a session; ``titled`` are the late ones.

    The branch ``runs`` has them as ``spelling`` says.
    """
    room = _FIRST_BYTES
    for count in (*range(1, min(seen, _FIRST_RECORDS) + 1), *titled):
        number = spelling.copied.number(count - 1) if spelling.copied else count
        digest = store.turn(branch.position(runs, number)).payload_hash
        try:
            size = store.blob_size(digest)
            if size <= room:
                room -= size
                yield spelling.spelled(number, store.blob(digest))
        except ConvfsError:
            # a damaged record tells nothing
            continue
