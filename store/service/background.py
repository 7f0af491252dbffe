"""The background work of a daemon: jobs for when it is idle, and two threads that follow appends.

One measures new records, so that a reader of a conversation finds that done: a few records at a time, with a small part
of the processor; under very many appends it waits. It could not be a job, which waits until no requests come any more.

One gives names to contexts that programs make without any, so that people find their contents. A program that speaks
the wire protocol makes a context and appends; only contexts that have a project and a name are conversations. So
contexts without them get them with their first turn, at once, from the contents of the first turns.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice

import msgspec

from store.commit.request import Request
from store.conversations.chain import Recorded
from store.conversations.names import free_name, project_name, slug
from store.conversations.viewer import LARGEST_VIEWED
from store.errors import Conflict, ConvfsError
from store.events.conversation import Change
from store.events.event import Event, Kind
from store.formats import cxdb
from store.formats.core.format import first_line
from store.ids import now_ms
from store.index.catalogue import ContextEntry
from store.retention.pruner import RuleJob
from store.service.upkeep import Collecting, SealingJob
from store.store import Store
from store.upkeep.idle import Idle

_log = logging.getLogger(__name__)

_ABANDONED_SECONDS = 600.0


class AbandonedJob:
    """A job: ends the open turns that nobody has added to for a day."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def step(self) -> bool:
        """Do all of it; see :class:`store.upkeep.idle.Job`."""
        try:
            for text, turn in self._store.open_turns.end_abandoned(now_ms()):
                what = (
                    "had no text, and was dropped" if turn is None else f"was sealed as it was, as turn {turn.turn_id}"
                )
                _log.warning("open turn %d of context %d was left for a day: it %s", text.number, text.context_id, what)
        except ConvfsError as error:
            _log.warning("open turns that were left for a day stay open: %s", error)
        return False


class _Changed:
    """The contexts that have changed, for the one thread that follows them."""

    def __init__(self, *, skipped: Container[int] = ()) -> None:
        """Changes of contexts that are ``skipped`` are not told."""
        self.closed = threading.Event()
        self._skipped = skipped
        self._contexts: dict[int, None] = {}
        self._seen = 0
        self._lock = threading.Lock()
        self._something = threading.Event()

    def note(self, change: Change) -> None:
        """Add the context of a change; called for every commit, by the thread that all writers wait for."""
        if change.context_id not in self._skipped and not change.deleted:
            self.put(change.context_id)

    def put(self, context: int) -> None:
        """Add a context to those that have changed."""
        with self._lock:
            self._seen += 1
            self._contexts[context] = None
        if not self._something.is_set():
            self._something.set()

    def wait(self, gathering: float) -> bool:
        """Wait until there are some, then ``gathering`` seconds for more; False to end."""
        return self._something.wait() and not self.closed.wait(gathering)

    def take(self, most: int, limit: float = math.inf) -> list[int]:
        """Remove and return up to ``most``; none if more than ``limit`` changes came since the last call."""
        with self._lock:
            seen, self._seen = self._seen, 0
            if seen > limit:
                return []
            taken = list(islice(self._contexts, most))
            for context in taken:
                del self._contexts[context]
            if not self._contexts:
                self._something.clear()
            return taken

    def close(self) -> None:
        """Wake the thread, to end."""
        self.closed.set()
        self._something.set()


@contextmanager
def _following(store: Store, name: str, changed: _Changed, work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work, name=name, daemon=True)
    store.observers.add(changed.note)
    thread.start()
    try:
        yield
    finally:
        store.observers.remove(changed.note)
        changed.close()
        thread.join()


_RECORDS = 32
_PAUSE_SECONDS = 0.02
_PAUSES_AS_LONG = 9
"""The least length of the pause, as a multiple of the time that measuring took."""
_MANY_A_SECOND = 2000


@contextmanager
def measuring(store: Store) -> Iterator[None]:
    """Measure new records of ``store`` while the block runs; first those that tell which conversations are listed."""
    if store.viewer.renderer is None:
        yield
        return
    changed = _Changed()
    for context in store.catalogue.unmeasured():
        changed.put(context)
    with _following(store, "measuring", changed, partial(_measure, store, changed)):
        yield


def _measure(store: Store, changed: _Changed) -> None:
    pause = _PAUSE_SECONDS
    while changed.wait(pause):
        began = time.monotonic()
        for context in changed.take(1, pause * _MANY_A_SECOND):
            try:
                if not store.library.measure_some(context, _RECORDS):
                    changed.put(context)
            except ConvfsError as error:
                _log.info("what is new in context %d cannot be measured: %s", context, error)
        pause = max(_PAUSE_SECONDS, _PAUSES_AS_LONG * (time.monotonic() - began))


_PROJECT = "appended"
"""The project of conversations that say of none."""

_FIRST_TURNS = 8
_MOST_KNOWN = 1 << 16
_AT_ONCE = 64
_GATHERING_SECONDS = 0.01
"""Programs that begin together are named together."""


@contextmanager
def naming(store: Store) -> Iterator[None]:
    """Name contexts of ``store``, in a thread of its own, while the block runs: those that are there, then new ones."""
    names = _Naming(store)
    with _following(store, "naming", names.changed, names.run):
        yield


class _Naming:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[int] = set()
        """Contexts that need no name any more."""
        self.changed = _Changed(skipped=self._known)

    def run(self) -> None:
        """Give names until all is closed."""
        for context in self._store.catalogue.nameless():
            self.changed.put(context)
        self._name_changed()
        while self.changed.wait(_GATHERING_SECONDS):
            self._name_changed()

    def _name_changed(self) -> None:
        while not self.changed.closed.is_set() and (contexts := self.changed.take(_AT_ONCE)):
            self._name(contexts)

    def _name(self, contexts: Sequence[int]) -> None:
        entries = [entry for context in contexts if context not in self._known and (entry := self._entry(context))]
        while entries and not self.changed.closed.is_set():
            names: set[tuple[str, str]] = set()
            named = [(entry, request) for entry in entries if (request := self._request(entry, names))]
            try:
                self._store.writer.submit_all([request for _entry, request in named])
            except ConvfsError as error:
                _log.warning("%d contexts get no names: %s", len(named), error)
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
        except ConvfsError as error:
            _log.warning("context %d gets no name: %s", context, error)
            return None
        if not entry.head:
            return None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(context)
        return None if entry.name or "trashed_ms" in entry.metadata else entry

    def _request(self, entry: ContextEntry, names: set[tuple[str, str]]) -> Request | None:
        """Return the request that gives a context a name not in ``names``, and add the name there."""
        try:
            changes = self._described(entry)
            project = project_name(str(entry.metadata.get("project") or changes.get("project") or _PROJECT))
            title = str(entry.metadata.get("title") or changes.get("title") or "")
            words = slug(title) or f"context-{entry.id}"
            name = free_name(self._store.catalogue, project, entry.created_ms, words, names)
        except ConvfsError as error:
            _log.warning("context %d gets no name: %s", entry.id, error)
            return None
        names.add((project, name))
        whole = msgspec.json.encode({**changes, "project": project, "name": name})
        return Request(entry.id, changes=whole, name=(project, name))

    def _described(self, entry: ContextEntry) -> dict[str, object]:
        """Return the metadata that the first turns of a context give it, except members that it has."""
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


_CHECK_SECONDS = 3600.0
_COLLECT_SECONDS = 600.0
_INDEX_SECONDS = 2.0
_COUNT_SECONDS = 30.0
_PRUNE_SECONDS = 3600.0
_SEAL_SECONDS = 60.0


@contextmanager
def in_background(store: Store) -> Iterator[Idle]:
    """Run the background work while the block runs."""
    idle = Idle(lambda: store.activity)
    collecting = Collecting(store)
    sealing = SealingJob(store)
    idle.add(store.files.check, _CHECK_SECONDS, at_once=True)
    idle.add(AbandonedJob(store), _ABANDONED_SECONDS, at_once=True)
    if not store.files.read_only:
        idle.add(collecting, _COLLECT_SECONDS)
        idle.add(sealing, _SEAL_SECONDS)
    if store.viewer.renderer is not None:
        if not store.files.read_only:
            idle.add(RuleJob(store), _PRUNE_SECONDS)
        idle.add(store.search, _INDEX_SECONDS)
        idle.add(store.insight, _COUNT_SECONDS)
        idle.add(store.known_files, _INDEX_SECONDS)
    idle.start()
    try:
        yield idle
    finally:
        idle.close()
        collecting.close()
        sealing.close()
