"""Reliance: the record of blobs that running work is about to name, so that no sweep drops one of them.

A blob is written, or found in the store, some time before the commit that names it. Between the two, nothing in the
store leads to it. A sweep must not drop it, and cannot wait until all work is done: an import may take hours. So every
piece of work that finds or writes blobs is a :class:`Region`, from before its first lookup until after its commit. The
region notes each blob that it wrote or found, in eight bytes a blob.

A sweep has four steps, and drops nothing that anything names, or will name:

1. It *watches*: from here on, regions that end are remembered with the blobs that they noted.
2. It looks at what has been committed. A region that ended before step 1 has already committed, so its blobs are seen.
3. It *dooms* every blob that nothing leads to, except those that regions have noted and the blobs that these need.
   Noting and dooming exclude each other: a later lookup does not find a doomed blob, so the caller writes it again,
   into the last pack.
4. It removes the doomed blobs from index and packs, and *ends*. A caller that looked a blob up before, and has not
   noted it when the sweep ends, looks it up once more: the number of sweeps (``epoch``) has changed.

Blobs are identified by the first eight bytes of their hashes. If two have the same, both are kept.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from store.ids import Hash, hash_key, hash_keys

_LASTING_SECONDS = 3600.0


class Region:
    """One piece of work, for as long as it is held. ``keys`` are those of the blobs that it relies on."""

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
        """The number of sweeps that have ended."""
        self._lock = threading.RLock()
        self._local = threading.local()
        self._regions: WeakSet[Region] = WeakSet()
        self._watched = False
        self._past: deque[array[int]] = deque()
        """The keys of regions that have ended while a sweep watches."""
        self._lasting: deque[tuple[float, int]] = deque()
        """Blobs that were stored before anything names them, with their times."""
        self._doomed: Container[int] = ()
        self.gone: Collection[int] = ()
        """The keys of what a space does not hold (``store.commit.doomed``): it counts as missing."""
        self.lost: set[int] = set()
        """The keys of what running work has found, and of which some has gone since: it counts as missing, too."""

    # -- writers ---------------------------------------------------------------------------------------------------

    def region(self) -> Region:
        """Return the region of this thread; if it has none, begin one for the caller to hold."""
        inside: Region | None = getattr(self._local, "region", None)
        if inside is None:
            with self._lock:
                inside = Region(self._end_of)
                self._regions.add(inside)
        return inside

    @contextmanager
    def relying(self) -> Iterator[Region]:
        """Put every blob that the block writes to the store, or finds there, into one region."""
        before: Region | None = getattr(self._local, "region", None)
        inside = self._local.region = before or self.region()
        try:
            yield inside
        finally:
            self._local.region = before

    def note(
        self, region: Region, found: Collection[Hash], epoch: int | None = None, *, gone: bool = False
    ) -> set[Hash] | None:
        """Rely on blobs that were ``found`` in the store, and return those that are still there.

        None if that may have changed since ``epoch``: look again. Blobs on their way into the packs have no epoch.
        With ``gone``, those that the space does not hold count, too.
        """
        there = set(found)
        keys = hash_keys(there)
        with self._lock:
            if epoch not in (None, self.epoch):
                return None
            region.keys.extend(keys)
            doomed, missing, lost = self._doomed, () if gone else self.gone, self.lost
        if doomed or missing or lost:
            each = zip(there, keys, strict=True)
            return {one for one, key in each if key not in doomed and key not in missing and key not in lost}
        return there

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

    # -- sweeps ----------------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block runs. Only one sweep may watch at a time."""
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
        """Treat all ``garbage`` as missing until the watch ends.

        Before that, ``spare`` must remove from it the blobs that it is called with, and the blobs that they need.
        """
        seen: dict[int, int] = {}
        # the first blobs are checked while others go on
        if relied := self._relied(garbage, seen):
            spare(relied)
        while True:
            with self._lock:
                relied = self._relied(garbage, seen)
                if not relied:
                    self._doomed = garbage
                    return
            spare(relied)

    def drop(self, keys: Container[int], drop: Callable[[], None]) -> set[int]:
        """Have ``drop`` make blobs count as missing for good; return the keys of those that running work relies on."""
        with self._lock:
            drop()
            self.epoch += 1
            return self._relied(keys, {})

    def _relied(self, garbage: Container[int], seen: dict[int, int]) -> set[int]:
        """Return the part of ``garbage`` that is relied on; ``seen`` is how much of each region has been looked at."""
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
