"""What programs append, measured a little later: who looks at a conversation finds it done.

A thread of its own does it, a few records at a time, and takes a small part of the processor; while very much is
appended it waits.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from store.errors import ConvfsError
from store.events.change import Change
from store.store import Store

_RECORDS = 32
_PAUSE_SECONDS = 0.02
_PAUSES_AS_LONG = 9
"""How many times as long as measuring took the pause is, at least."""
_MANY_A_SECOND = 2000

log = logging.getLogger(__name__)


@contextlib.contextmanager
def measuring(store: Store) -> Iterator[None]:
    """Measure what is appended to ``store`` while the block runs."""
    if store.viewer.renderer is None:
        yield
        return
    with contextlib.closing(_Measuring(store)):
        yield


class _Measuring:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[int, None] = {}
        """The contexts that have records which are not measured."""
        self._seen = 0
        self._lock = threading.Lock()
        self._something = threading.Event()
        self._closed = threading.Event()
        store.subscribe(self._note)
        self._thread = threading.Thread(target=self._run, name="measuring", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._store.unsubscribe(self._note)
        self._closed.set()
        self._something.set()
        self._thread.join()

    def _note(self, change: Change) -> None:
        # called for every commit, by the thread that all writers wait for
        with self._lock:
            self._seen += 1
            self._waiting[change.context_id] = None
        if not self._something.is_set():
            self._something.set()

    def _run(self) -> None:
        pause = _PAUSE_SECONDS
        while self._something.wait() and not self._closed.wait(pause):
            began = time.monotonic()
            context = self._next(pause)
            if context:
                self._measure(context)
            pause = max(_PAUSE_SECONDS, _PAUSES_AS_LONG * (time.monotonic() - began))

    def _next(self, pause: float) -> int:
        """Return whose records to measure now, 0 for nobody's; ``pause`` is how long nothing was done."""
        with self._lock:
            seen, self._seen = self._seen, 0
            if seen > pause * _MANY_A_SECOND:
                return 0
            if not self._waiting:
                self._something.clear()
                return 0
            context = next(iter(self._waiting))
            del self._waiting[context]
            return context

    def _measure(self, context: int) -> None:
        try:
            done = self._store.measure_some(context, _RECORDS)
        except ConvfsError as error:
            log.info("what is new in context %d cannot be measured: %s", context, error)
            return
        if not done:
            with self._lock:
                self._waiting[context] = None
