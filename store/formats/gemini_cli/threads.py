"""Which records of a file of lines are a conversation: the last of each id, where the first one stood.

A record that replaces another takes its place, and that one goes to the place of the new record: so every other record
keeps its own, however often the program replaces one. What was taken back is a branch of its own.
"""

from collections.abc import Iterable
from typing import NamedTuple

from store.formats.gemini_cli.records import is_message
from store.formats.json_view import JsonObject, as_text


class Thread(NamedTuple):
    """Records, by position, in the order of the conversation. ``key`` is the message that was taken back, "" for the
    conversation itself; ``shared`` says how many records of that come before these."""

    key: str
    records: list[int]
    shared: int = 0


def threads(records: Iterable[JsonObject]) -> list[Thread]:
    """Return the conversation that records (empty ones for damaged lines) are, then what was taken back of it."""
    order: list[int] = []
    places: dict[str, int] = {}
    taken_back: list[Thread] = []
    for at, record in enumerate(records):
        rewound = record.get("$rewindTo")
        if isinstance(rewound, str):
            start = places.get(rewound, min(places.values(), default=len(order)))
            if start < len(order):
                taken_back.append(Thread(rewound, order[start:], start))
            order = order[:start]
            places = {key: place for key, place in places.items() if place < start}
        identifier = as_text(record.get("id")) if is_message(record) else ""
        if identifier in places:
            place = places[identifier]
            order[place], replaced = at, order[place]
            order.append(replaced)
            continue
        if identifier:
            places[identifier] = len(order)
        order.append(at)
    return [Thread("", order), *taken_back]
