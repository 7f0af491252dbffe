"""The kernel's caches of the mount: invalidating what changed.

Open turns are shown as they grow: the kernel is told at once after a pause, and then a few times a second.

Pieces may come much faster than anybody reads. Pieces that came meanwhile are announced together, and less often if
drawing takes long: so a text of any size that grows word by word costs little CPU time.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import pyfuse3
import trio

from fusefs.editing.inode import Kernel
from fusefs.editing.stand_in import StandIn
from fusefs.inodes import Lookups, Place
from fusefs.tree.changes import CONTENT_PLACES, ShownConversation, Stale, stale_since, still_at
from fusefs.tree.tree import Tree
from store.errors import ConvfsError
from store.events.conversation import Change

_FLOW_PAUSE_SECONDS = 0.02
_PAUSES_AS_LONG = 4
"""The least ratio of the pause to the time that telling took."""


class Flow:
    """Follows the open turns of a store, and has ``invalidate`` tell the kernel, in a thread of its own."""

    def __init__(self, tree: Tree, lookups: Lookups, invalidate: Callable[[Stale], None]) -> None:
        self._tree = tree
        self._lookups = lookups
        self._invalidate = invalidate
        self._grown: set[int] = set()
        """The contexts whose open turns have grown since."""
        self._followed: set[int] = set()
        """The contexts with open turns, of which the loop has been told or is about to be."""
        self._held = 0
        """The number of those of which it is about to be."""
        self._lock = threading.Lock()
        self._something = threading.Event()
        self._ended = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    def start(self) -> None:
        """Begin; called in the loop that answers requests."""
        self._token = trio.lowlevel.current_trio_token()
        self._tree.store.observers.add(self._changed, texts=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the thread; the loop has ended."""
        self._tree.store.observers.remove(self._changed)
        self._ended.set()
        self._something.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _changed(self, change: Change) -> None:
        """Record a change; called by the thread that has made it durable."""
        # of moves and metadata is told elsewhere, and of open turns with them
        if change.streamed and not change.moved:
            with self._lock:
                self._grown.add(change.context_id)
                if change.context_id not in self._followed:
                    self._followed.add(change.context_id)
                    self._held += 1
                    self._tree.opens.hold(1)
            self._something.set()

    def _run(self) -> None:
        while self._something.wait() and not self._ended.is_set():
            self._something.clear()
            with self._lock:
                grown, self._grown = self._grown, set()
                held, self._held = self._held, 0
            began = time.monotonic()
            for context in grown:
                try:
                    self._tell(context)
                except trio.RunFinishedError:
                    return
                except Exception:
                    log.exception("how context %d goes on may be shown late", context)
            self._tree.opens.hold(-held)
            self._ended.wait(max(_FLOW_PAUSE_SECONDS, _PAUSES_AS_LONG * (time.monotonic() - began)))

    def _tell(self, context: int) -> None:
        for stale in trio.from_thread.run_sync(partial(self._stale, context), trio_token=self._token):
            self._invalidate(stale)

    def _stale(self, context: int) -> list[Stale]:
        """Return the outdated files that the kernel knows; called in the loop. Draws nothing that no one has seen."""
        tree, lookups = self._tree, self._lookups
        view_id = tree.view_id(context)
        with self._lock:
            if not tree.store.writer.texts.has(context):
                self._followed.discard(context)
        tree.ask_again(view_id)
        if all(tree.place(view_id, place) not in lookups for place in (Place.TRANSCRIPT, Place.EVENTS)):
            return []
        return [stale for stale in tree.streams.stale(view_id) if stale.ino in lookups]


log = logging.getLogger(__name__)

_Called = tuple[int, Stale, str]
"""A context, an entry by which the kernel knows it, and the path that it had then."""

_EVERYTHING = Stale(0)
"""Stands for all that the kernel knows."""
_END_SECONDS = 1.0
_PAUSE_SECONDS = 0.005
"""Changes that follow each other within this time are announced together."""
_MOST_AT_ONCE = 8
"""The number of conversations that the loop handles at a time before it goes on to answer: each takes some 0.3 ms."""


class Invalidations:
    """Follows the store, and makes the kernel forget all that a change has made untrue.

    A thread of its own does it, not a handler: taking back an entry waits for every request in that directory, and
    taking back pages for every read of them, each of which waits for the loop. New contents are measured here too, so
    that the loop finds it done. Changes in quick succession are announced together: their cost grows with the number of
    conversations changed, and with the amount added to these.

    Before the kernel is told, ``changed`` is called in the loop with the view that has changed, and ``forget_all`` when
    contents have changed for good.
    """

    def __init__(
        self,
        tree: Tree,
        kernel: Kernel,
        stand_in: StandIn,
        changed: Callable[[int], None],
        forget_all: Callable[[], None],
    ) -> None:
        self._tree = tree
        self._stand_in = stand_in
        self._lookups = kernel.lookups
        self._changed = kernel.changed
        self._described: set[int] = set()
        """Conversations whose metadata has changed: subagents may be in others now."""
        self._settling: set[int] = set()
        """The files that the kernel has been told of, and that are not noted as settled yet."""
        self._view_changed = changed
        self._forget_all = forget_all
        self._thread = threading.Thread(target=self._run, name="invalidations", daemon=True)
        self._flow = Flow(tree, kernel.lookups, invalidate)

    def start(self) -> None:
        """Begin; called in the loop that answers requests."""
        self._tree.store.observers.add(self._note)
        self._tree.store.forgetting.append(lambda: self._changed.put(_EVERYTHING))
        self._thread.start()
        self._flow.start()

    def _note(self, change: Change) -> None:
        """Record a change; called by the thread that has made it durable."""
        if change.described:
            self._described.add(change.context_id)
        self._tree.opens.hold(1)
        self._changed.put(change.context_id)

    def end(self) -> None:
        """Stop the thread after its current task; called when the loop has ended, before the mount does.

        Waits only briefly: the kernel may keep the thread until the mount has ended.
        """
        self._changed.put(None)
        self._flow.end()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while None not in (changed := self._next()):
            # a conversation once, however often it has changed
            contexts = list(dict.fromkeys(one for one in changed if isinstance(one, int)))
            try:
                # or the loop would
                self._tree.store.writer.settle()
                contexts += self._moved_with(contexts)
                if _EVERYTHING in changed:
                    for known in self._stand_in.from_thread(self._take_everything):
                        invalidate(known)
                for start in range(0, len(contexts), _MOST_AT_ONCE):
                    self._follow(contexts[start : start + _MOST_AT_ONCE])
                for one in changed:
                    if isinstance(one, Stale) and one is not _EVERYTHING:
                        invalidate(one)
                        self._settling.add(one.ino)
                if self._settling:
                    self._stand_in.from_thread(self._settle)
            except trio.RunFinishedError:
                return
            except Exception:
                log.exception("what has changed (%r) is shown once the kernel has forgotten everything", changed)
                if _EVERYTHING not in changed:
                    self._changed.put(_EVERYTHING)
            self._tree.opens.hold(-sum(isinstance(one, int) for one in changed))
            if len(changed) > 1:
                # there will be more
                time.sleep(_PAUSE_SECONDS)

    def _next(self) -> list[int | Stale | None]:
        changed = [self._changed.get()]
        changed += [self._changed.get() for _ in range(self._changed.qsize())]
        return changed

    def _moved_with(self, contexts: Sequence[int]) -> list[int]:
        """Return the conversations of subagents that stand elsewhere if what has changed does."""
        described = self._described.intersection(contexts)
        self._described -= described
        started_by = self._tree.store.catalogue.started_by
        return [one for context in sorted(described) for one in started_by(context) if one not in contexts]

    def _follow(self, contexts: Sequence[int]) -> None:
        looked_into, stale, called = self._stand_in.from_thread(self._take, contexts)
        for context_id in looked_into:
            try:
                self._tree.store.library.conversation(context_id)
            except ConvfsError as error:
                log.info("what is new in context %d cannot be measured: %s", context_id, error)
        shown: list[ShownConversation] = []
        if looked_into:
            shown, more = self._stand_in.from_thread(self._take_shown, looked_into)
            stale += more
        for one in stale:
            invalidate(one)
        for context_id, entry, path in called:
            if not self._is_at(context_id, path):
                invalidate(entry)
        differ: list[Stale] = []
        for earlier in shown:
            try:
                differ += stale_since(self._tree.store, earlier)
            except ConvfsError as error:
                log.warning("what has changed in context %d may be shown late: %s", earlier.context, error)
        if differ:
            for one in self._stand_in.from_thread(self._known_as, differ):
                invalidate(one)

    def _known_as(self, differ: Sequence[Stale]) -> list[Stale]:
        return list(filter(None, map(self._tree.as_known, differ)))

    def _is_at(self, context_id: int, path: str) -> bool:
        try:
            now = self._tree.store.catalogue.entry(context_id)
            # an earlier name that still leads to it need not be looked up anew
            return still_at(self._tree.store, now, path)
        except ConvfsError:
            return False

    def _take(self, contexts: Sequence[int]) -> tuple[list[int], list[Stale], list[_Called]]:
        """Sort changed conversations: return those that were looked into, and what is stale of the others.

        Also return these others' entries, which are stale if their names have changed.
        """
        tree = self._tree
        looked_into: list[int] = []
        stale: list[Stale] = []
        called: list[_Called] = []
        for context_id in contexts:
            view_id = tree.view_id(context_id)
            if tree.has_shown(view_id):
                looked_into.append(context_id)
            else:
                tree.renew(view_id)
                stale += self._known(view_id)
                called += ((context_id, *entry) for entry in tree.entries_of(view_id))
        return looked_into, stale, called

    def _take_everything(self) -> list[Stale]:
        """Forget all contents, since any may have changed; return all that the kernel knows and is not being saved."""
        self._forget_all()
        names = (Stale(folder, name.encode()) for folder, name, _path in self._tree.called.values())
        return [*names, *(Stale(ino, content=True) for ino in self._lookups if ino not in self._tree.served)]

    def _take_shown(self, contexts: Sequence[int]) -> tuple[list[ShownConversation], list[Stale]]:
        tree = self._tree
        shown: list[ShownConversation] = []
        stale: list[Stale] = []
        for context_id in contexts:
            view_id = tree.view_id(context_id)
            shown += tree.changed(view_id)
            stale += self._known(view_id)
        return shown, stale

    def _known(self, view_id: int) -> list[Stale]:
        """Return the outdated things that the kernel knows of a conversation that has changed."""
        tree = self._tree
        self._settling |= tree.unsettled
        self._view_changed(view_id)
        places = (Stale(tree.place(view_id, place), content=place in CONTENT_PLACES) for place in Place)
        places = (stale for stale in places if stale.ino not in tree.served)
        return [stale for stale in (*places, *tree.streams.stale(view_id)) if stale.ino in self._lookups]

    def _settle(self) -> None:
        """Record that the kernel has been told, unless more is queued, perhaps for the same files."""
        if self._changed.empty():
            self._tree.unsettled -= self._settling
            self._settling.clear()


def invalidate(stale: Stale) -> None:
    """Make the kernel forget something. For attributes this does not block, so handlers may call it for those."""
    try:
        if stale.name is None:
            pyfuse3.invalidate_inode(stale.ino, attr_only=not stale.content)
        else:
            pyfuse3.invalidate_entry(stale.ino, stale.name)
    except FileNotFoundError:
        pass  # the kernel does not know it, or not any more
    except OSError as error:
        log.warning("%r could not be invalidated: %s", stale, error)
