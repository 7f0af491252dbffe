"""Who relies on which blobs, so that none is dropped that somebody is about to name.

A blob is written, or found to be there already, some time before the commit that names it. Between the two, nothing in
the store leads to it. Whoever sweeps must not drop it, and must not wait either until everybody is done: an import may
take hours. So every piece of work that finds or writes blobs is a :class:`Region`, from before its first question
until its commit has been made, and what it wrote or was told to be there is noted in it, in eight bytes a blob.

A sweep goes so, and drops nothing that anything names, or will name:

1. It *watches*: from now on, regions that end are remembered with what they noted.
2. It looks at what has been committed. A region that ended before step 1 has committed by now, and is seen.
3. It *dooms* what nothing leads to, but for what regions have noted, and all that this needs. Noting and dooming
   exclude each other: whoever asks later is told that a doomed blob is not there, and writes it anew, into the last
   pack.
4. It removes the doomed from index and packs, and *ends*. Who had looked a blob up before, and has not noted it when
   the sweep ends, looks it up once more: the number of sweeps (``epoch``) tells.

Blobs are known by the first eight bytes of their hashes. Where two have the same, both are kept.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from store.ids import Hash, hash_key

_LASTING_SECONDS = 3600.0


class Region:
    """One piece of work, as long as somebody holds it: ``keys`` are those of the blobs that it relies on."""

    __slots__ = ("__weakref__", "_ended", "keys")

    def __init__(self, ended: Callable[[Region], None]) -> None:
        self.keys = array("q")
        self._ended = ended

    def __del__(self) -> None:
        self._ended(self)


class Reliance:
    """The regions of one store. Safe to share between threads."""

    def __init__(self) -> None:
        self.epoch = 0
        """How many sweeps have ended."""
        self._lock = threading.RLock()
        self._local = threading.local()
        self._regions: WeakSet[Region] = WeakSet()
        self._watched = False
        self._past: deque[array[int]] = deque()
        """The keys of regions that have ended while a sweep watches."""
        self._lasting: deque[tuple[float, int]] = deque()
        """Blobs that were given without anything that names them, and when."""
        self._doomed: Container[int] = ()

    # -- those who write -------------------------------------------------------------------------------------------

    def region(self) -> Region:
        """Return the region that this thread is in; where it is in none, begin one for the caller to hold."""
        inside: Region | None = getattr(self._local, "region", None)
        if inside is None:
            with self._lock:
                inside = Region(self._end_of)
                self._regions.add(inside)
        return inside

    @contextmanager
    def relying(self) -> Iterator[None]:
        """Have everything that the block puts into the store, or finds there, be in one region."""
        before: Region | None = getattr(self._local, "region", None)
        self._local.region = before or self.region()
        try:
            yield
        finally:
            self._local.region = before

    def note(self, region: Region, found: Collection[Hash], epoch: int | None = None) -> set[Hash] | None:
        """Rely on blobs that were ``found`` to be there, and return which still are.

        None where that may have changed since it was ``epoch``: look again. What is yet to come into the packs has no
        such moment.
        """
        keys = {digest: hash_key(digest) for digest in found}
        with self._lock:
            if epoch not in (None, self.epoch):
                return None
            region.keys.extend(keys.values())
            doomed = self._doomed
        return {digest for digest, key in keys.items() if key not in doomed} if doomed else set(keys)

    def last(self, digest: Hash) -> None:
        """Rely for an hour on a blob that its owner may name only later."""
        now = time.monotonic()
        with self._lock:
            while self._lasting and self._lasting[0][0] < now - _LASTING_SECONDS:
                self._lasting.popleft()
            self._lasting.append((now, hash_key(digest)))

    def _end_of(self, region: Region) -> None:
        # called wherever the last reference goes, so it takes no lock
        if self._watched:
            self._past.append(region.keys)

    # -- those who sweep -------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block runs; one at a time does."""
        self._watched = True
        try:
            yield
        finally:
            with self._lock:
                self._doomed = ()
                self.epoch += 1
                self._watched = False
                self._past.clear()

    def doom(self, garbage: Container[int], spare: Callable[[set[int]], None]) -> None:
        """Have what is ``garbage`` count as not there until the watch ends.

        Before, ``spare`` is to take out of it the blobs that it is called with, and what they need.
        """
        seen: dict[int, int] = {}
        # what there is to begin with is looked at while others go on
        if relied := self._relied(garbage, seen):
            spare(relied)
        while True:
            with self._lock:
                relied = self._relied(garbage, seen)
                if not relied:
                    self._doomed = garbage
                    return
            spare(relied)

    def _relied(self, garbage: Container[int], seen: dict[int, int]) -> set[int]:
        """Return what of ``garbage`` somebody relies on; ``seen`` is how much of each region has been looked at."""
        oldest = time.monotonic() - _LASTING_SECONDS
        found = {key for since, key in list(self._lasting) if since >= oldest and key in garbage}
        for keys in self._noted():
            at = seen.get(id(keys), 0)
            fresh = keys[at:]
            seen[id(keys)] = at + len(fresh)
            found.update(key for key in fresh if key in garbage)
        return found

    def _noted(self) -> list[array[int]]:
        with self._lock:
            # those that end meanwhile are in both
            return [*(region.keys for region in list(self._regions)), *self._past]
