"""Names for contexts that programs make without any, so that people find their contents.

A program that speaks the wire protocol makes a context and appends; only contexts that have a project and a name are
conversations. So contexts without them get them from the contents of their first turns.
"""

import logging
from collections.abc import Callable, Sequence

import msgspec

from store.commit.request import Request
from store.conversations.chain import Recorded
from store.conversations.names import free_name, project_name, slug
from store.conversations.viewer import LARGEST_VIEWED
from store.errors import Conflict, told
from store.events.event import Event, Kind
from store.formats.core.format import first_line
from store.index.catalogue import ContextEntry
from store.store import Store

_log = logging.getLogger(__name__)

_PROJECT = "appended"
"""The project of conversations that say of none."""
_FIRST_TURNS = 8
_MOST_KNOWN = 1 << 16


class Names:
    """Gives names in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.known: set[int] = set()
        """Contexts that need no name any more."""

    def give(self, contexts: Sequence[int], is_ended: Callable[[], bool] = lambda: False) -> None:
        """Name those of some contexts that need it."""
        entries = [entry for context in contexts if context not in self.known and (entry := self._entry(context))]
        while entries and not is_ended():
            names: set[tuple[str, str]] = set()
            named = [(entry, request) for entry in entries if (request := self._request(entry, names))]
            try:
                self._store.writer.submit_all([request for _entry, request in named])
            except Exception as error:
                _log.warning("%d contexts get no names: %s", len(named), told(error))
                return
            entries = []
            for entry, request in named:
                if isinstance(request.error, Conflict):
                    # another client took the name meanwhile
                    entries.append(entry)
                elif request.error is not None:
                    _log.warning("context %d gets no name: %s", entry.id, request.error)

    def _entry(self, context: int) -> ContextEntry | None:
        """Return a context if it needs a name, and take note of it if it never will."""
        try:
            entry = self._store.catalogue.entry(context)
        except Exception as error:
            _log.warning("context %d gets no name: %s", context, told(error))
            return None
        if not entry.head:
            return None
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        self.known.add(context)
        return None if entry.name or "trashed_ms" in entry.metadata else entry

    def _request(self, entry: ContextEntry, names: set[tuple[str, str]]) -> Request | None:
        """Return the request that gives a context a name not in ``names``, and add the name there."""
        try:
            changes = self._described(entry)
            project = project_name(str(entry.metadata.get("project") or changes.get("project") or _PROJECT))
            title = str(entry.metadata.get("title") or changes.get("title") or "")
            words = slug(title) or f"context-{entry.id}"
            name = free_name(self._store.catalogue, project, entry.created_ms, words, names)
        except Exception as error:
            _log.warning("context %d gets no name: %s", entry.id, told(error))
            return None
        names.add((project, name))
        whole = msgspec.json.encode({**changes, "project": project, "name": name})
        return Request(entry.id, changes=whole, name=(project, name))

    def _described(self, entry: ContextEntry) -> dict[str, object]:
        """Return the metadata that the first turns of a context give it, except members that it has."""
        # with a page to parse: most services are never asked
        from store.formats import cxdb

        store, found = self._store, dict[str, object]()
        for turn in store.contexts.range_by_depth(entry.id, 0, _FIRST_TURNS):
            if store.blobs.size(turn.payload_hash) > LARGEST_VIEWED:
                continue
            event = store.viewer.lens(turn).view(
                store.contents.payload(turn.turn_id), Recorded("", 0, store.contents.aliased)
            )
            if not found:
                found = {"format": store.viewer.format_name(turn.type_tag), **cxdb.describe(event.native)}
            if "title" not in found and (title := _asked(event)):
                found["title"] = title
        return {key: value for key, value in found.items() if value and key not in entry.metadata}


def _asked(event: Event) -> str:
    """Return a title from a user's request, "" if the event is none."""
    if event.kind is not Kind.USER:
        return ""
    return first_line(next((block.text for block in event.blocks if block.text and not block.name), "") or "")
