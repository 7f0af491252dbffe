"""Names for contexts that programs make without any, so that people find what is appended to them.

A program that speaks the wire protocol makes a context and appends; only contexts that have a project and a name are
conversations. So those that have none get them with their first turn, from what the first turns say.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Iterator, Sequence

import msgspec

from store.commit.request import Request
from store.conversations.chain import Recorded
from store.conversations.viewer import LARGEST_VIEWED
from store.errors import Conflict, ConvfsError
from store.events.change import Change
from store.events.event import Event, Kind
from store.formats.cxdb import about
from store.formats.titles import first_line
from store.importing.naming import free_name, project_name, slug
from store.index.catalogue import Entry
from store.store import Store

_PROJECT = "appended"
"""The project of conversations that say of none."""

_FIRST_TURNS = 8
_MOST_KNOWN = 1 << 16
_AT_ONCE = 64
_GATHERING_SECONDS = 0.01

log = logging.getLogger(__name__)


@contextlib.contextmanager
def naming(store: Store) -> Iterator[None]:
    """Name contexts of ``store``, in a thread of its own, while the block runs: those that are there, then new ones."""
    with contextlib.closing(_Naming(store)):
        yield


class _Naming:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._known: set[int] = set()
        """Contexts that need no name any more."""
        self._closed = threading.Event()
        store.subscribe(self._note)
        self._thread = threading.Thread(target=self._run, name="naming", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._store.unsubscribe(self._note)
        self._closed.set()
        self._changed.put(None)
        self._thread.join()

    def _note(self, change: Change) -> None:
        # called for every commit, by the thread that all writers wait for
        if not change.deleted and change.context_id not in self._known and not self._closed.is_set():
            self._changed.put(change.context_id)

    def _run(self) -> None:
        contexts: Sequence[int] = self._store.nameless()
        while not self._closed.is_set():
            for start in range(0, len(contexts), _AT_ONCE):
                self._name(contexts[start : start + _AT_ONCE])
            some = [self._changed.get()]
            # programs that begin together are named together
            self._closed.wait(_GATHERING_SECONDS)
            some += [self._changed.get() for _ in range(self._changed.qsize())]
            contexts = [context for context in dict.fromkeys(some) if context is not None]

    def _name(self, contexts: Sequence[int]) -> None:
        """Give contexts names, those that need any."""
        entries = [entry for context in contexts if context not in self._known and (entry := self._entry(context))]
        while entries and not self._closed.is_set():
            names: set[tuple[str, str]] = set()
            named = [(entry, request) for entry in entries if (request := self._request(entry, names))]
            try:
                self._store.submit_all([request for _entry, request in named])
            except ConvfsError as error:
                log.warning("%d contexts get no names: %s", len(named), error)
                return
            entries = []
            for entry, request in named:
                if isinstance(request.error, Conflict):
                    # somebody else took the name meanwhile
                    entries.append(entry)
                elif request.error is not None:
                    log.warning("context %d gets no name: %s", entry.id, request.error)

    def _entry(self, context: int) -> Entry | None:
        """Return a context if it needs a name, and take note of it if it never will."""
        try:
            entry = self._store.entry(context)
        except ConvfsError as error:
            log.warning("context %d gets no name: %s", context, error)
            return None
        if not entry.head:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(context)
        return None if entry.name or "trashed_ms" in entry.metadata else entry

    def _request(self, entry: Entry, names: set[tuple[str, str]]) -> Request | None:
        """Return what gives a context a name that is none of ``names``, and put it there."""
        try:
            changes = self._described(entry)
            project = project_name(str(entry.metadata.get("project") or changes.get("project") or _PROJECT))
            title = str(entry.metadata.get("title") or changes.get("title") or "")
            words = slug(title) or f"context-{entry.id}"
            name = free_name(self._store, project, entry.created_ms, words, names)
        except ConvfsError as error:
            log.warning("context %d gets no name: %s", entry.id, error)
            return None
        names.add((project, name))
        whole = msgspec.json.encode({**changes, "project": project, "name": name})
        return Request(entry.id, changes=whole, name=(project, name))

    def _described(self, entry: Entry) -> dict[str, object]:
        """Return the metadata that the first turns of a context give it, but for what it has."""
        store, found = self._store, dict[str, object]()
        for turn in store.range_by_depth(entry.id, 0, _FIRST_TURNS):
            if store.blob_size(turn.payload_hash) > LARGEST_VIEWED:
                continue
            event = store.viewer.lens(turn).view(store.payload(turn.turn_id), Recorded("", 0, store.aliased))
            if not found:
                found = {"format": store.viewer.format_name(turn.type_tag), **about.describe(event.native)}
            if "title" not in found and (title := _asked(event)):
                found["title"] = title
        return {key: value for key, value in found.items() if value and key not in entry.metadata}


def _asked(event: Event) -> str:
    """Return a title from what a user asks for, "" if the event is none."""
    if event.kind is not Kind.USER:
        return ""
    return first_line(next((block.text for block in event.blocks if block.text and not block.name), "") or "")
