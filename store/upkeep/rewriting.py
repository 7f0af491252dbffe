"""Putting rewritten packs in the place of those that they were made from.

Whoever rewrites reads cold packs, writes what is to stay into packs of :meth:`Rewriting.pack`, and finishes these: now
everything is there twice. :meth:`Rewriting.switch` then tells the index of the new places and, in the same
transaction, that the old packs are not filed any more; drops the rows of the old places, a part at a time; and removes
the old files. Whoever is killed on the way leaves

* before a new pack is finished: a file under a temporary name, which the next opening removes;
* before the transaction: new packs that the index does not know. The next opening files them beside the old;
* after it: old packs that the index does not know, and some rows of theirs. The next opening files them once more.

So there is always one whole set of copies, and sometimes two, which costs room until packs are rewritten again. After a
power failure the index is made anew from the packs that are there, which comes to the same.

Readers hold no locks. Who looked up a place before the switch, and finds its pack gone, looks it up once more
(``store.content.shelf``).
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from store.commit.intake import Intake
from store.disk.pack_files import PackWriter
from store.errors import DamageError, StoreFailed, StoreFull
from store.ids import Hash
from store.index.places import Place, Places
from store.upkeep.rebuild import blob_places

_AT_ONCE = 500
_NOTHING: frozenset[Hash] = frozenset()


@contextmanager
def told() -> Iterator[None]:
    """Tell what the system does not do in the block as a ConvfsError: what was there before is there still."""
    try:
        yield
    except OSError as error:
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreFailed
        raise kind(f"packs could not be written anew ({error.strerror}): they stay as they are") from error


class Alone:
    """A lock that says whether somebody waits for it: work in the background then gives up, and comes back to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[None] = deque()

    @property
    def wanted(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock; without ``blocking``, only if it is free. Returns whether it was taken."""
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        self._waiting.append(None)
        try:
            return self._lock.acquire()
        finally:
            self._waiting.pop()

    def release(self) -> None:
        """Let go of the lock; not always does who took it."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class Rewriting:
    """Rewrites packs of one store. Whoever does holds ``alone`` from choosing packs until they are removed."""

    def __init__(self, intake: Intake) -> None:
        self.alone = Alone()
        self._intake = intake
        self._packs = intake.writer.packs
        self._index = intake.writer.index

    def cold(self, *, roll: bool = False) -> list[int]:
        """Return which packs can be rewritten: nothing is written to them any more, and the index has all of them.

        With ``roll``, these are all that there are now.
        """
        return self._intake.cold(roll=roll)

    def pack(self) -> PackWriter:
        """Begin a new pack."""
        return self._packs.rewrite()

    def switch(
        self,
        places: Places | Iterable[tuple[Hash, Place]],
        packs: Mapping[int, int],
        replaced: Sequence[int],
        *,
        dropped: Collection[Hash] = _NOTHING,
        overwrite: bool = False,
    ) -> None:
        """Have ``packs``, finished ones by number with their lengths, take the place of the cold packs ``replaced``.

        ``places`` are those of all blobs in the new packs. What the old ones hold must lie there, or in packs that
        stay, but for what is ``dropped``: else nothing is removed, and DamageError says so, as it does where they
        cannot be read. With ``overwrite``, which gets along with damage, nothing is left of the old files on the disk.
        """
        places = places if isinstance(places, Places) else Places(places)
        for digest in self._left_out(places, replaced, dropped, overwrite=overwrite):
            raise DamageError(f"blob {digest.hex()} would be lost: the packs that hold it stay")
        self._index.replace_packs(places, packs, replaced)
        self._intake.forget_packed()
        self._index.forget_packs(replaced)
        with told():
            self._packs.remove(replaced, overwrite=overwrite)

    def _left_out(
        self, places: Places, replaced: Sequence[int], dropped: Collection[Hash], *, overwrite: bool
    ) -> Iterator[Hash]:
        """Yield what only the packs ``replaced`` have."""
        damage: list[str] = []
        held = (digest for digest, _place in blob_places(self._packs, replaced, damage))
        left = (digest for digest in held if digest not in places and digest not in dropped)
        while some := list(islice(left, _AT_ONCE)):
            found = self._index.locate(some)
            for digest in some:
                if all(pack in replaced for pack, _offset, _member in found.get(digest, ())):
                    yield digest
        if damage and not overwrite:
            raise DamageError(f"{damage[0]}: the packs that are damaged stay")
