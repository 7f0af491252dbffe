"""A stand-in for the mount's loop: a thread that makes the changes of a mount whose store is in a space.

A commit in a space waits for servers that may be far away, and the loop must answer others meanwhile. But a change is
made of many steps, of which a commit is one, and nobody else may come between the others. So a thread makes it while
the loop waits, as if the loop did; only while it waits for the space (``store.commit.patience``) the loop goes on, and
then lets it have its place again. Changes are made one after the other, in the order in which they were asked for. A
change waits there with a state that others may see: the one that they see, too, if the space turns out to be away.

Requests of a conversation that come after a change of it are answered after it (``pending``), as are those that come
while something is committed to it. All others are answered at once.

A commit of a store of its own waits for the disk alone, mostly, and handing it over would cost more than it gains: the
loop makes such changes itself. But a redaction holds up commits for seconds, and so do journals that are full; what is
changed then the thread makes, too (``needed``).
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, Unpack

import trio

from fusefs.editing.programs import Programs
from fusefs.inodes import Place
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Work
from store.commit import patience

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE_SECONDS = 0.8
"""The most that a change waits for a space each time that it asks; then what was saved is a draft."""
ANYWHERE = 0
"""The place of what tells of all changes."""
_END_SECONDS = 1.0


class _Change:
    """A change that the thread is to make, and what came of it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._make()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:  # noqa: ANN401 - whatever it returns
        if self._error is not None:
            raise self._error
        return self._result


class StandIn:
    """Makes the changes of one mount. All methods but :meth:`from_thread` and :meth:`soon` are the loop's."""

    def __init__(self, tree: Tree, programs: Programs) -> None:
        self._begun = False
        """True while the loop runs."""
        self._tree = tree
        self._programs = programs
        self.pending: dict[int, Work[None]] = {}
        """The last change that was asked for and is not made yet, by the places that it is of."""
        self._lock = trio.Lock()
        self._waiting: list[Callable[[], None]] = []
        """The calls for once the change is made that is being made."""
        self._changes: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._left: queue.SimpleQueue[trio.Event | None] = queue.SimpleQueue()
        """Says that the thread leaves its place: for good, or until the event, which it sets to have it again."""
        self._entered: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Says that it has its place again."""
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="stand-in", daemon=True)

    def start(self) -> None:
        """Begin; called in the loop that answers requests."""
        self._token = trio.lowlevel.current_trio_token()
        self._begun = True
        self._thread.start()

    def end(self) -> None:
        """End the thread; the loop has ended, and whoever changes something now does so itself."""
        self._begun = False
        self._changes.put(None)
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    @property
    def needed(self) -> bool:
        """True if the loop is to be spared waiting for what is changed now, or for a change that was asked for before.

        For the loop.
        """
        writer = self._tree.store.writer
        return self._begun and (writer.order.shared or self._lock.locked() or not writer.at_once)

    async def make(self, change: Callable[[Unpack[Ts]], T], *arguments: *Ts, places: Sequence[int] = ()) -> T:
        """Make a change, in whose course something may be committed. It is not given up when the caller is."""
        if not self.needed:
            return change(*arguments)
        made = _Change(partial(change, *arguments))
        with trio.CancelScope(shield=True), self._pending(places):
            async with self._lock:
                self._changes.put(made)
                while (asks := self._left.get()) is not None:
                    await asks.wait()
                    self._entered.put(None)
                waiting, self._waiting = self._waiting, []
                for call in waiting:
                    call()
        return made.result()  # type: ignore[no-any-return]  # it is what the change returns

    async def make_here(self, change: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        """Make a change that commits nothing, after those that were asked for before."""
        if self._lock.locked():
            with trio.CancelScope(shield=True), self._pending():
                # those that wait for it then come after this one
                await self._lock.acquire()
                self._lock.release()
        return change(*arguments)

    def once_made(self, call: Callable[[], None]) -> None:
        """Call something that commits nothing once no change is being made: nobody waits for it, nor may it fail."""
        if self._lock.locked():
            self._waiting.append(call)
        else:
            call()

    @contextmanager
    def _pending(self, places: Sequence[int] = ()) -> Iterator[None]:
        work = Work[None](lambda: None)
        before = {place: self.pending.get(place) for place in (*places, ANYWHERE)}
        self.pending.update(dict.fromkeys(before, work))
        self._tree.changing(1)
        try:
            yield
        finally:
            self._tree.changing(-1)
            for place, earlier in before.items():
                if self.pending.get(place) is work:
                    del self.pending[place]
                    if earlier is not None and not earlier.is_done:
                        self.pending[place] = earlier
            work.run()

    def from_thread(self, call: Callable[[Unpack[Ts]], T], *arguments: *Ts, commits: bool = False) -> T:
        """Have the loop make a change for another thread, which waits for it. Raises RunFinishedError."""
        made: list[T] = []

        def at_once() -> None:
            if not self.needed:
                made.append(call(*arguments))

        # to begin a task for it would cost the loop more
        trio.from_thread.run_sync(at_once, trio_token=self._token)
        if made:
            return made[0]
        return trio.from_thread.run(self.make if commits else self.make_here, call, *arguments, trio_token=self._token)

    def soon(self, call: Callable[[], object]) -> None:
        """Have the loop call something, at once where this is the loop."""
        if threading.get_ident() == self._thread.ident and self._token is not None:
            self._token.run_sync_soon(call)
        else:
            call()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with patience.at_most(PATIENCE_SECONDS, self._aside), suppress(trio.RunFinishedError):
            while (change := self._changes.get()) is not None:
                change.run()
                self._left.put(None)

    @contextmanager
    def _aside(self, contexts: Sequence[int]) -> Iterator[None]:
        """Leave the loop its place for the block, in which something is committed to some contexts."""
        assert self._token is not None
        asks = trio.Event()
        places = [self._tree.place(self._tree.view_id(context), Place.CONVERSATION) for context in contexts]
        with self._programs.others(), self._pending(places):
            self._left.put(asks)
            try:
                yield
            finally:
                self._token.run_sync_soon(asks.set)
                self._entered.get()
