"""Rewriting of packs, which take the place of those that they were made from.

A rewriter reads cold packs, writes the blobs that stay into packs of :meth:`PackSet.rewrite`, and finishes these: now
everything is there twice. :meth:`Rewriting.switch` then files the new places in the index and, in the same transaction,
unfiles the old packs; drops the rows of the old places, a part at a time; and removes the old files. A process that is
killed on the way leaves

* before a new pack is finished: a file under a temporary name, which the next opening removes;
* before the transaction: new packs that the index does not know. The next opening files them beside the old;
* after it: old packs that the index does not know, and some rows of theirs. The next opening files them once more.

So there is always one whole set of copies, and sometimes two, which costs room until packs are rewritten again. After a
power failure the index is rebuilt from the packs that are there, which comes to the same.

Readers hold no locks. A reader that looked up a place before the switch, and finds its pack gone, looks it up once more
(``store.content.shelf``).
"""

import threading
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from store.commit.intake import Intake
from store.disk import durable
from store.disk.pack import PackSet, PackWriter, RecordPlace
from store.errors import DamageError, StoreFailed, StoreFull
from store.ids import Hash
from store.index.fresh import BlobPlace
from store.index.index import Places
from store.upkeep.rebuild import blob_places

_AT_ONCE = 500
_PACK_BYTES = 64 << 20


@contextmanager
def told(root: Path) -> Iterator[None]:
    """Raise failures of the system in the block, which writes packs in ``root``, as ConvfsError: the old ones stay."""
    try:
        yield
    except OSError as error:
        kind = StoreFull if error.errno in durable.FULL else StoreFailed
        what = "free space on its disk, then try again" if kind is StoreFull else "they stay as they are"
        raise kind(f"{root}: packs could not be written anew ({error.strerror}): {what}") from error


class NewPacks:
    """The packs that a rewriter writes, one after the other."""

    def __init__(self, packs: PackSet) -> None:
        self._packs = packs
        self._writers: list[PackWriter] = []

    def append(self, record: bytes) -> RecordPlace:
        """Write a record, and return its place."""
        if not self._writers or self._writers[-1].length + len(record) > _PACK_BYTES:
            self._writers.append(self._packs.rewrite())
        return self._writers[-1].append(record)

    def finish(self) -> dict[int, int]:
        """Sync the new packs; return their numbers and lengths."""
        done = {}
        while self._writers:
            writer = self._writers[0]
            writer.finish()
            del self._writers[0]
            done[writer.number] = writer.length
        return done

    def abandon(self) -> None:
        """Remove what was written."""
        for writer in self._writers:
            writer.abandon()
        self._writers.clear()


class Alone:
    """A lock that shows whether a thread waits for it: background work then gives up, and comes back later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[None] = deque()

    @property
    def wanted(self) -> bool:
        """True if a thread waits for the lock."""
        return bool(self._waiting)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Acquire the lock; without ``blocking``, only if it is free. Return whether it was acquired."""
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
        """Release the lock. Another thread than the one that acquired it may do so."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class Rewriting:
    """Rewrites packs of one store. The caller holds ``alone`` from choosing packs until they are removed."""

    def __init__(self, intake: Intake) -> None:
        self.alone = Alone()
        self._intake = intake
        self._packs = intake.writer.packs
        self._index = intake.writer.index

    def switch(
        self,
        places: Places | Iterable[tuple[Hash, BlobPlace]],
        packs: Mapping[int, int],
        replaced: Sequence[int],
        *,
        dropped: Container[object] = (),
        held: Iterable[Hash] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Replace the cold packs ``replaced`` with ``packs``: finished ones, by number with their lengths.

        ``places`` are those of all blobs in the new packs. Every blob of the old ones, except those ``dropped``, must
        lie there or in packs that stay. Otherwise, or if the old ones cannot be read, nothing is removed, and
        DamageError is raised. ``held`` are those that were not copied with their whole records; None: all are looked
        for. With ``overwrite``, which tolerates damage, the old files are erased from the disk.
        """
        places = places if isinstance(places, Places) else Places(places)
        # nor may a power failure bring back what led to a blob that is not copied
        self._intake.writer.journal.sync()
        for digest in self._left_out(places, replaced, dropped, held, overwrite=overwrite):
            raise DamageError(f"blob {digest.hex()} would be lost: the packs that hold it stay")
        self._index.replace_packs(places, packs, replaced)
        self._intake.forget_packed()
        self._index.forget_packs(replaced)
        with told(self._packs.directory):
            self._packs.remove(replaced, overwrite=overwrite)

    def _left_out(
        self,
        places: Places,
        replaced: Sequence[int],
        dropped: Container[object],
        held: Iterable[Hash] | None,
        *,
        overwrite: bool,
    ) -> Iterator[Hash]:
        damage: list[str] = []
        if held is None:
            held = (digest for digest, _place in blob_places(self._packs, replaced, damage))
        left = (digest for digest in held if digest not in places and digest not in dropped)
        while some := list(islice(left, _AT_ONCE)):
            found = self._index.locate(some)
            for digest in some:
                if all(pack in replaced for pack, _offset, _member in found.get(digest, ())):
                    yield digest
        if damage and not overwrite:
            raise DamageError(f"{damage[0]}: the packs that are damaged stay")
