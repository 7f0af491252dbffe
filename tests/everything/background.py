"""The work that rewrites a store, done at once or while other steps go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from store.redaction.proof import prove
from store.redaction.redaction import Redaction
from store.redaction.wanted import Wanted, find
from store.store import Store
from tests.everything.expected import Step


class Background:
    """Does steps that change no conversation; those that are called ``other`` "meanwhile", in a thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._works: dict[str, Callable[[], None]] = {
            "flush": store.checkpointer.flush,
            "seal": lambda: exhaust(store.sealer.steps()),
            "collect": lambda: exhaust(store.collector.steps(grace_seconds=0, least_part=0, dry_run=False)),
        }
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.wait()

    def do(self, step: Step) -> bool:
        """Do a step, or begin to, if it is one of these; say whether it is. Raises also what the last one raised."""
        if step.what == "redact":
            redact(self._store, step.texts[0].encode())
            return True
        work = self._works.get(step.what)
        if work is None:
            return False
        if step.other != "meanwhile":
            work()
            return True
        self.wait()
        self._thread = threading.Thread(target=self._guarded, args=(work,))
        self._thread.start()
        return True

    def wait(self) -> None:
        """Wait for what is going on; raise what that raised."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error


def redact(store: Store, secret: bytes) -> None:
    """Redact a text, and have it proved that it is gone."""
    found = find(store, Wanted(texts=(secret,)))
    done = Redaction(store, found.secrets, found.also).run()
    proof = prove(store, found.secrets, done.gone)
    assert not proof.found, proof.found


def exhaust(steps: Iterable[None]) -> None:
    """Do all of some work that is done in steps."""
    for _ in steps:
        pass
