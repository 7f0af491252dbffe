"""A search that looks at the files of all events."""

from fusefs.text.render import render_event
from store.events.event import Event, Kind
from store.search.search import Search
from store.store import Store

Places = dict[str, list[int]]
"""Line numbers in each event's file, by the conversation's name and the event's number."""


def contents(store: Store) -> dict[str, tuple[int, list[str]]]:
    """Return of every event's file on which line the content begins, and its lines."""
    found: dict[str, tuple[int, list[str]]] = {}
    for conversation in store.library.conversations():
        for row, event in store.viewer.events(store.records.rows(conversation.head)):
            if row.kind is Kind.RECORD or not isinstance(event, Event):
                continue
            lines = render_event(row.number, event).decode().split("\n")[:-1]
            head = lines.index("---", 1) + 1
            found[f"{conversation.name}/{row.number}"] = (head + 1, lines[head:])
    return found


def looked(store: Store, text: str, *, ignore_case: bool = False) -> Places:
    """Return where a text is found by looking."""
    found: Places = {}
    for place, (first, lines) in contents(store).items():
        for number, line in enumerate(lines, first):
            if text in line or (ignore_case and text.casefold() in line.casefold()):
                found.setdefault(place, []).append(number)
    return found


def searched(search: Search, query: str) -> Places:
    """Return where a query finds something; each place once."""
    found: Places = {}
    for hit in search.run(query, lines=1_000_000):
        place = f"{hit.conversation.name}/{hit.row.number}"
        assert place not in found
        found[place] = [line.number for line in hit.lines]
    return found
