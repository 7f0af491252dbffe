"""The texts of a session that no event shows.

A file of another tool, or of another version, may come in without an error and say nothing. So everything in its
records that looks like prose is compared with the texts of the events.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from store.events.event import Event, Kind
from store.formats.core.json_view import first_texts, sentence_in

_FEWEST = 5
"""Fewer texts than this tell nothing."""
_TOLD_FROM = 0.1
RECORDS_LOOKED_AT = 1000
"""No more records of a session than its first ones are looked at,"""
_LOOKED_AT = 400
"""and characters of their texts."""
_BEGINNING = 48
_MOST_HELD = 4 << 20
"""The number of characters of events' texts that are held, to look for repetitions."""


class Glimpse(Struct, frozen=True, array_like=True, gc=False):
    """The beginnings of the texts that an event shows; of a record that is none, its texts: beginnings, first words."""

    seen: tuple[str, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()


def glimpse(event: Event) -> Glimpse:
    """Return what is known of the texts of an event."""
    if event.kind is not Kind.RECORD:
        return Glimpse(tuple(_beginning(text) for text in _texts(event)))
    told = ((_beginning(text), sentence_in(text)) for text in first_texts(event.native) if " " in text)
    return Glimpse((), tuple((beginning, words) for beginning, words in told if words))


class Unseen:
    """Counts the texts of a file that no event shows, as its records come in, each as the event that it is."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        """The beginnings of texts that events show."""
        self._hidden: dict[str, str] = {}
        """Texts of records that are no events, by their beginnings: the first words in a row."""
        self.fault = ""
        """The fault for which a record, the first such, is shown as it is; "" if there is none."""
        self._records = 0
        self._events: list[Callable[[], Iterator[Event]]] = []

    def read_by(self, events: Callable[[], Iterator[Event]]) -> None:
        """Have the events of records, of these and those before, read by a function if they are needed."""
        if self._records < RECORDS_LOOKED_AT:
            self._events.append(events)

    def add(self, event: Event) -> None:
        self.fault = self.fault or event.fault
        if self._records < RECORDS_LOOKED_AT:
            self.note(glimpse(event))

    def note(self, found: Glimpse, count: int = 1, fault: str = "") -> None:
        """Add the next ``count`` records, of which only so much is known."""
        self.fault = self.fault or fault
        if self._records < RECORDS_LOOKED_AT:
            self._seen.update(found.seen)
            for beginning, words in found.hidden:
                self._hidden.setdefault(beginning, words)
        self._records += count

    def end(self) -> str:
        """Return the warning to give, "" for none, once the records are in the store. Nothing is added any more."""
        try:
            return self._warning()
        finally:
            # they hold what they read by
            self._events = []

    def _warning(self) -> str:
        hidden = self._not_seen()
        if self._is_much(len(hidden)):
            shown = self._shown()
            # some tools repeat what they show
            hidden = self._not_seen()
            if self._is_much(len(hidden)):
                # a repetition may have other text around it
                hidden = [words for words in hidden if words not in shown]
        if not self._is_much(len(hidden)):
            return ""
        return (
            "more than a tenth of its texts is in no event: it may be of another tool or a newer version;"
            " what it says is kept whole, and an export has it"
        )

    def _shown(self) -> str:
        """See the events once more; return their texts, as far as they are held."""
        held: list[str] = []
        room = _MOST_HELD
        for events in self._events:
            for event in islice(events(), RECORDS_LOOKED_AT):
                for text in _texts(event):
                    self._seen.add(_beginning(text))
                    room -= len(text)
                    if room >= 0:
                        held.append(text)
        return "\n".join(held)

    def _not_seen(self) -> list[str]:
        return [words for beginning, words in self._hidden.items() if beginning not in self._seen]

    def _is_much(self, hidden: int) -> bool:
        every = hidden + len(self._seen)
        # one may be the title
        return every >= _FEWEST and hidden > max(1, _TOLD_FROM * every)


def _texts(event: Event) -> Iterator[str]:
    if event.kind is not Kind.RECORD:
        yield from (block.text for block in event.blocks if block.text and " " in block.text)


def _beginning(text: str) -> str:
    return text[:_LOOKED_AT].strip()[:_BEGINNING]
