"""What is to be found, found by looking at the files of all events."""

from fusefs.text.render import FileRenderer, render_event
from store.events.event import Event, Kind
from store.search.search import Search
from store.store import Store

Places = dict[str, list[int]]
"""Line numbers by the path of each event's file."""


def contents(store: Store) -> dict[str, tuple[int, list[str]]]:
    """Return of every event's file, by path, on which line the content begins, and its lines."""
    found: dict[str, tuple[int, list[str]]] = {}
    for conversation in store.conversations():
        for row, event in store.events(store.rows(conversation.head)):
            if row.kind is Kind.RECORD or not isinstance(event, Event):
                continue
            lines = render_event(row.number, event).decode().split("\n")[:-1]
            head = lines.index("---", 1) + 1
            path = FileRenderer().path(row, conversation.records)
            found[f"conversations/{conversation.project}/{conversation.name}/{path}"] = (head + 1, lines[head:])
    return found


def looked(store: Store, text: str, *, ignore_case: bool = False) -> Places:
    """Return where a text is found by looking."""
    found: Places = {}
    for path, (first, lines) in contents(store).items():
        for number, line in enumerate(lines, first):
            if text in line or (ignore_case and text.casefold() in line.casefold()):
                found.setdefault(path, []).append(number)
    return found


def searched(search: Search, query: str) -> Places:
    """Return where a query finds something; each place once."""
    found: Places = {}
    for hit in search.run(query, lines=1_000_000):
        assert hit.path not in found
        found[hit.path] = [line.number for line in hit.lines]
    return found
