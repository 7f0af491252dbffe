"""Blobs that are durable in the journal but not yet in a pack."""

import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from store.disk.blob_format import Form
from store.disk.journal import Journal, JournalPlace
from store.disk.journal_format import JournalBlob
from store.errors import StoreFull, Unreachable
from store.ids import Hash, hash_key


class Waiting(Struct, gc=False):
    """One of them: where its body lies in the journal."""

    hash: Hash
    form: Form
    number: int
    offset: int
    length: int


class Generation(Struct, frozen=True, gc=False):
    """Blobs to be packed together, in order, and what the commits that brought them have brought the logs to."""

    blobs: list[Waiting]
    seq: int
    turn_count: int
    heads_length: int


class Pending:
    """The journalled blobs, by hash, in generations: that of the journal in use, and those to be packed.

    No memory is taken for the bodies: they are read from the journal. Safe to share between threads.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._blobs: dict[Hash, Waiting] = {}
        self._fresh: list[Waiting] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._blobs)

    def __contains__(self, digest: Hash) -> bool:
        """Return whether the blob waits to be packed."""
        return digest in self._blobs

    def among(self, digests: Iterable[Hash]) -> set[Hash]:
        """Return those of some blobs that wait to be packed."""
        return set(filter(self._blobs.__contains__, digests))

    def hashes(self) -> list[Hash]:
        """Return the blobs that wait to be packed."""
        with self._lock:
            return list(self._blobs)

    def called(self, keys: Container[int]) -> list[Hash]:
        """Return the names of the blobs that wait, of those with some keys."""
        with self._lock:
            return [digest for digest in self._blobs if hash_key(digest) in keys]

    @property
    def body_bytes(self) -> int:
        """The total size of all bodies, in bytes."""
        with self._lock:
            return sum(waiting.length for waiting in self._blobs.values())

    def bodies(self, some: Sequence[Waiting]) -> list[bytes]:
        """Return the bodies of blobs that have not been dropped, read as one where they lie together."""
        found: list[bytes] = []
        for number, group in groupby(some, lambda waiting: waiting.number):
            near = list(group)
            start, end = near[0].offset, near[-1].offset + near[-1].length
            data = self._journal.read(number, end - start, start)
            found += [data[(at := waiting.offset - start) : at + waiting.length] for waiting in near]
        return found

    def get(self, digest: Hash) -> tuple[Form, bytes] | None:
        """Return the blob if it waits to be packed; its bytes are to be compared with its hash."""
        while (found := self._blobs.get(digest)) is not None:
            body = self._journal.read(found.number, found.length, found.offset)
            # it is forgotten before its place in the journal is written to again
            if self._blobs.get(digest) is found:
                return found.form, body
        return None

    def add(self, blobs: Sequence[JournalBlob], end: JournalPlace) -> None:
        """Add the blobs of an entry that ends at ``end``."""
        number, offset = end
        offset -= sum([len(blob.body) for blob in blobs])
        with self._lock:
            known, fresh = self._blobs, self._fresh
            for blob in blobs:
                digest, length = blob.hash, len(blob.body)
                if digest not in known:
                    known[digest] = waiting = Waiting(digest, blob.form, number, offset, length)
                    fresh.append(waiting)
                offset += length

    def take(self, seq: int, turn_count: int, heads_length: int) -> Generation:
        """Begin a new generation; return the one that ends (its blobs stay readable)."""
        with self._lock:
            taken, self._fresh = self._fresh, []
        return Generation(taken, seq, turn_count, heads_length)

    def drop(self, some: Sequence[Waiting]) -> None:
        """Forget blobs that can now be read from a pack."""
        with self._lock:
            for waiting in some:
                self._blobs.pop(waiting.hash, None)


_LONGEST_PAUSE_SECONDS = 0.005


class Backlog:
    """Generations that wait to be packed: the writer adds them, the checkpointer takes them out.

    ``work`` guards all of it, and is notified of every change.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.work = threading.Condition()
        self.tasks: deque[Generation] = deque()
        """Oldest first."""
        self.packed = 0
        """The number of bytes of the first task that have been packed."""
        self.full: StoreFull | Unreachable | None = None
        """The reason why packing failed when it was last tried."""
        self.awake = False
        """True if there is a commit that the checkpointer has not looked at."""
        self.hurried = False
        """True if a thread waits for the first task."""

    def wake(self) -> None:
        """Tell the checkpointer that there is work."""
        if self.awake:
            # it has been told, and has not looked yet
            return
        with self.work:
            self.awake = True
            self.work.notify_all()

    @property
    def pause(self) -> float:
        """The seconds for which a commit is held back, where commits come faster than what came before is packed."""
        if not self.tasks:
            return 0.0
        ahead = 2 * (self._journal.backlog - self.packed) / self._journal.total - 1
        return min(max(ahead / 100, 0.0), _LONGEST_PAUSE_SECONDS)

    def hurry(self, done: Callable[[], bool]) -> None:
        """Wait until something is done, nothing is left to do, or there is no room. The caller holds ``work``."""
        self.full = None
        while self.tasks and not done() and self.full is None:
            self.hurried = True
            self.work.notify_all()
            self.work.wait()
