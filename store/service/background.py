"""The background work of a daemon: jobs for when it is idle, and three threads that follow appends.

One measures new records, so that a reader of a conversation finds that done: a few records at a time, with a small part
of the processor while more come, then with half of one; under very many appends it waits, as for a redaction. It could
not be a job, which waits until no requests come any more.

One has helpers file what a large import has brought (``store.filing``), which the jobs would be long at. Under very
many appends it waits as well, also where it had begun.

One names contexts that programs make without a name (``store.service.naming``), with their first turn, at once.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from store.commit.pace import Pace
from store.errors import ConvfsError, told
from store.events.conversation import Change
from store.filing import WORTH_RECORDS, Filing
from store.ids import now_ms
from store.retention.pruner import RuleJob
from store.service.jobs import ArchivingJob, Collecting, SealingJob, SpaceSealingJob
from store.service.naming import Names
from store.store import Store
from store.upkeep.idle import Abreast, Idle

if TYPE_CHECKING:
    from store.shared.replica import Replica

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


_LITTLE_SECONDS = 0.05
_WORTH_SECONDS = 0.5


class RestingJob:
    """A job: gives memory back to the system once this process has hardly worked for a while.

    What it worked at before need not show in the store: whoever lists everything reads no contents.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen = 0.0
        self._rested = 0.0
        """The processor time that had been taken when it last looked, and when memory was given back."""

    def step(self) -> bool:
        """Do all of it; see :class:`store.upkeep.idle.Job`."""
        now = time.process_time()
        if now - self._seen < _LITTLE_SECONDS and now - self._rested > _WORTH_SECONDS:
            self._store.rest()
            self._rested = now = time.process_time()
        self._seen = now
        return False


class _Changed:
    """The contexts that have changed, for the one thread that follows them."""

    def __init__(self, *, skipped: Container[int] = ()) -> None:
        """Changes of contexts that are ``skipped`` are not told."""
        self.closed = threading.Event()
        self.coming = False
        """True if any changes came since the last call of :meth:`take`."""
        self._skipped = skipped
        self._contexts: dict[int, None] = {}
        self._lock = threading.Lock()
        self._something = threading.Event()

    def note(self, change: Change) -> None:
        """Add the context of a change; called for every commit, by the thread that all writers wait for."""
        if change.context_id not in self._skipped and not change.deleted:
            self.coming = True
            # who takes it out after this sees the change
            if change.context_id not in self._contexts:
                self.put(change.context_id)

    def put(self, context: int) -> None:
        """Add a context to those that have changed."""
        with self._lock:
            self._contexts[context] = None
        if not self._something.is_set():
            self._something.set()

    def wait(self, gathering: float) -> bool:
        """Wait until there are some, then ``gathering`` seconds for more; False to end."""
        return self._something.wait() and not self.closed.wait(gathering)

    def take(self, most: int) -> list[int]:
        """Remove and return up to ``most``."""
        self.coming = False
        with self._lock:
            taken = list(islice(self._contexts, most))
            for context in taken:
                del self._contexts[context]
            # once closed, it stays awake until it looks
            if not self._contexts and not self.closed.is_set():
                self._something.clear()
            return taken

    def close(self) -> None:
        """Wake the thread, to end."""
        with self._lock:
            self.closed.set()
        self._something.set()


@contextmanager
def _following(
    store: Store, name: str, changed: _Changed, left: Callable[[], Iterable[int]], work: Callable[[], None]
) -> Iterator[None]:
    """Have a thread work on the contexts that were ``left`` when it began, and on those that change."""

    def run() -> None:
        # here, where nobody waits for it: the more there are, the longer it takes
        try:
            for context in left():
                changed.put(context)
        except Exception as error:
            _log.warning("%s: what was left is not known: %s", name, told(error))
        work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    store.observers.add(changed.note)
    thread.start()
    try:
        yield
    finally:
        store.observers.remove(changed.note)
        changed.close()
        thread.join()


_RECORDS = 32
_RECORDS_AT_REST = 256
_PAUSE_SECONDS = 0.02
_PAUSES_AS_LONG = 9
"""The least length of the pause while more comes, as a multiple of the time that measuring took; else as long."""
_WHILE_OTHERS_WORK_SECONDS = 0.2


@contextmanager
def measuring(store: Store) -> Iterator[None]:
    """Measure new records of ``store`` while the block runs; first those that tell which conversations are listed."""
    if store.viewer.renderer is None:
        yield
        return
    changed = _Changed()
    with _following(store, "measuring", changed, store.catalogue.unmeasured, partial(_measure, store, changed)):
        yield


def _measure(store: Store, changed: _Changed) -> None:
    pause, pace = _PAUSE_SECONDS, Pace(store.writer)
    while changed.wait(pause):
        if store.filing.locked() or store.redacting.locked():
            # helpers measure what is new; what they leave is looked at after that
            pause = _WHILE_OTHERS_WORK_SECONDS
            continue
        began, coming = time.monotonic(), changed.coming
        for context in changed.take(1) if pace.calm() else ():
            try:
                if not store.library.measure_some(context, _RECORDS if coming else _RECORDS_AT_REST):
                    changed.put(context)
            except Exception as error:
                level = logging.INFO if isinstance(error, ConvfsError) else logging.WARNING
                _log.log(level, "what is new in context %d cannot be measured: %s", context, told(error))
        took = time.monotonic() - began
        pause = max(_PAUSE_SECONDS, took * _PAUSES_AS_LONG if coming else took)


_LOOK_SECONDS = 2.0
"""The time in which an import that goes on brings more: what is filed together takes less."""
_BREATH_SECONDS = 0.05


class _Ended(Exception):
    """The store is about to be closed."""


@contextmanager
def filing(store: Store) -> Iterator[None]:
    """File with helpers what is new in ``store``, in a thread of its own, while the block runs, once it is much."""
    if store.viewer.renderer is None:
        yield
        return
    changed = _Changed()

    def left() -> Iterator[int]:
        return (context for context, _head in store.catalogue.without_sums())

    with _following(store, "filing", changed, left, partial(_file, store, changed)):
        yield


def _file(store: Store, changed: _Changed) -> None:
    looked, pace = 0.0, Pace(store.writer)

    def breathe(_filed: int, _records: int) -> None:
        nonlocal looked
        while (now := time.monotonic()) - looked > _BREATH_SECONDS and not changed.closed.is_set():
            looked = now
            if pace.calm():
                break
            changed.closed.wait(2 * _BREATH_SECONDS)
        if changed.closed.is_set():
            raise _Ended

    records: dict[int, int] = {}
    """How many there are in contexts of which none were measured."""
    while changed.wait(_LOOK_SECONDS):
        try:
            for context in changed.take(sys.maxsize) if pace.calm() else ():
                records[context] = (store.catalogue.head(context) or (0, 0))[1]
            for context in store.views.measures(list(records)):
                del records[context]
            if sum(records.values()) >= WORTH_RECORDS:
                records = {}
                Filing(store, breathe).draw()
        except _Ended:
            return
        except Exception as error:
            _log.warning("what is new is filed while nothing else goes on: %s", told(error))


_AT_ONCE = 64
_GATHERING_SECONDS = 0.01
"""Programs that begin together are named together."""


@contextmanager
def naming(store: Store) -> Iterator[None]:
    """Name contexts of ``store``, in a thread of its own, while the block runs: those that are there, then new ones."""
    names = Names(store)
    changed = _Changed(skipped=names.known)
    with _following(store, "naming", changed, store.catalogue.nameless, partial(_name, names, changed)):
        yield


def _name(names: Names, changed: _Changed) -> None:
    while changed.wait(_GATHERING_SECONDS):
        while not changed.closed.is_set() and (contexts := changed.take(_AT_ONCE)):
            names.give(contexts, changed.closed.is_set)


class OutputsJob:
    """A job: keeps the outputs that have ended while the space was away, once it is back. A mount does so itself."""

    def __init__(self, store: Store, replica: "Replica") -> None:
        self._artifacts = store.artifacts
        self._replica = replica

    def step(self) -> bool:
        """See :class:`store.upkeep.idle.Job`."""
        if self._artifacts.waiting and not self._replica.status():
            self._artifacts.settle_waiting()
        return False


_ARCHIVE_SECONDS = 600.0
_CHECK_SECONDS = 3600.0
_COLLECT_SECONDS = 600.0
_INDEX_SECONDS = 2.0
_KEEP_SECONDS = 1.0
_REST_SECONDS = 5.0
_COUNT_SECONDS = 30.0
_PRUNE_SECONDS = 3600.0
_SEAL_SECONDS = 60.0


def reading(store: Store) -> Abreast:
    """Return the job that reads the contents of turns, once for all that is derived from them."""
    found = Abreast()
    found.add(store.search, _INDEX_SECONDS)
    found.add(store.known_files, _INDEX_SECONDS)
    found.add(store.texts, _INDEX_SECONDS)
    found.add(store.insight, _COUNT_SECONDS)
    return found


@contextmanager
def in_background(store: Store) -> Iterator[Idle]:
    """Run the background work while the block runs."""
    idle = Idle(lambda: store.activity)
    collecting = Collecting(store)
    sealing = [SealingJob(store), SpaceSealingJob(store)]
    archiving = ArchivingJob(store)
    idle.add(store.files.check, _CHECK_SECONDS, at_once=True)
    idle.add(AbandonedJob(store), _ABANDONED_SECONDS, at_once=True)
    idle.add(RestingJob(store), _REST_SECONDS)
    if store.replica is not None:
        idle.add(OutputsJob(store, store.replica), _KEEP_SECONDS)
    if not store.files.read_only:
        idle.add(collecting, _COLLECT_SECONDS)
        for job in sealing:
            idle.add(job, _SEAL_SECONDS)
        idle.add(archiving, _ARCHIVE_SECONDS)
    if store.viewer.renderer is not None:
        if not store.files.read_only:
            idle.add(RuleJob(store), _PRUNE_SECONDS)
        idle.add(reading(store), _INDEX_SECONDS)

    def let_go() -> None:
        collecting.let_go()
        idle.wake(collecting)

    def noted(change: Change) -> None:
        if change.deleted:
            let_go()

    store.observers.add(noted)
    if store.replica is not None:
        store.replica.drops = let_go
        if store.replica.owes:
            let_go()
    idle.start()
    try:
        yield idle
    finally:
        store.observers.remove(noted)
        idle.close()
        collecting.close()
        archiving.close()
        for job in sealing:
            job.close()
