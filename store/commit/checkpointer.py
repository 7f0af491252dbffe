"""Checkpoints: move the contents of the journal into packs and logs, then free the journal.

When the journal in use is full, or the store is idle, commits go on in another, and a thread of this module packs the
blobs of the first, group by group, syncs packs and logs, brings the index up to date, and then retires the first.
Packing is never on the way of a commit, and small blobs that came one by one are compressed with their neighbours.

Full journals are packed by a process of its own (``store.commit.packer``), and compressed quickly: sealing compresses
everything once more.

If the disk has no room, blobs that could not be packed stay in their journal, without loss, and are packed once there
is room. Meanwhile commits go on as long as there are journals left.

While commits come fast they have the processor to themselves, until the journals are half full; from then on they are
held back just so much that there is always one to go on in.

Dictionary: small groups are compressed with one, which is learnt from the store's own payloads.

Occasional appends go into packs in groups of a few records, too few to compress well together. A zstd dictionary holds
their common parts with all other records; with its tables even a line of text does not stay readable in the pack.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

from store.commit import packer
from store.commit.intake import Intake, Load
from store.commit.pace import Pace
from store.commit.packer import Packer, PackerGone
from store.commit.pending import Generation, Waiting
from store.commit.request import Request
from store.commit.writer import Writer
from store.content.compression import SMALL_GROUP_BYTES, Member, pack_single
from store.content.cuts import cut
from store.content.zstd import train
from store.disk.blob_format import Form
from store.disk.journal_format import Checkpoint
from store.errors import ConvfsError, DamageError, StoreFailed, StoreFull, Unreachable
from store.ids import hash_bytes

_FEWEST_TURNS = 512
_FEWEST_BYTES = 256 << 10
_MOST_TURNS = 4096
_MOST_BYTES = 4 << 20
_AT_ONCE = 64
_TRIED = "dictionary tried"
"""In the index, how many turns there were when there was too little to learn from."""


class Learning:
    """Trains a dictionary once: as soon as there is enough to learn from, and small groups that would use it.

    Of a space one machine does it, for all.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._writer = intake.writer
        self._wanted = False
        self._next_try = _FEWEST_TURNS

    def packed(self, blobs: Sequence[Waiting]) -> None:
        """Record the blobs that were packed together."""
        if blobs and sum(blob.length for blob in blobs) < SMALL_GROUP_BYTES:
            self._wanted = True

    @property
    def due(self) -> bool:
        """True if :meth:`learn` is worth a try."""
        return (
            self._wanted
            and self._writer.turns.count >= self._next_try
            and not self._writer.failed
            and not self._intake.has_dictionary
        )

    def learn(self) -> None:
        """Train a dictionary and register it, if there is enough to learn from. Not to be called under any lock."""
        writer = self._writer
        count, db = writer.turns.count, writer.index.db
        self._next_try = 2 * count
        try:
            # not once more in each of many short processes
            if count < 2 * (tried := db.number(_TRIED)):
                self._next_try = 2 * tried
                return
            with writer.order.alone("dictionary") as alone:
                if not alone:
                    return
                if writer.catch_up():
                    writer.settle()
                    self._intake.note_dictionary()
                if self._intake.has_dictionary:
                    return
                if (data := train(self._samples())) is None:
                    db.set_state(_TRIED, count)
                else:
                    self._register(data)
        except ConvfsError:
            # a store that has failed reports it at the next write; it can do without a dictionary
            return

    def _samples(self) -> list[bytes]:
        """Return bodies as the packs hold them, of turns from all over the log; none if they are too few."""
        intake, turns = self._intake, self._writer.turns
        step = max(1, turns.count // _MOST_TURNS)
        ids = range(turns.count, 0, -step)
        samples: list[bytes] = []
        size = 0
        for start in range(0, len(ids), _AT_ONCE):
            digests = []
            for turn_id in ids[start : start + _AT_ONCE]:
                try:
                    digests.append(turns.get(turn_id).payload_hash)
                except DamageError:
                    continue
            for payload in intake.resolver.blobs(digests).values():
                if isinstance(payload, bytes):
                    taken = cut(payload, intake.inline_limit)
                    samples.append(taken.body if taken else payload)
                    size += len(samples[-1])
            if size >= _MOST_BYTES:
                break
        return samples if size >= _FEWEST_BYTES else []

    def _register(self, data: bytes) -> None:
        digest = hash_bytes(data)
        record = pack_single(Member(digest, Form.PLAIN, len(data), data))
        # twice: one damaged block must not take every small group with it
        with self._intake.reliance.relying() as region:
            self._intake.write([(record, [digest]), (record, [digest])], region)
            self._intake.sync()
            # a standstill waits for this, so this does not wait for one
            self._writer.submit_alone(Request(0, dictionaries=((0, digest),), still=self._none_registered))
        self._intake.use_dictionary(digest, data)

    def _none_registered(self) -> bool:
        """Return whether nobody else has registered one, who believes to hold the lease."""
        if not self._writer.order.shared:
            return True
        self._writer.settle()
        self._intake.note_dictionary()
        return not self._intake.has_dictionary


log = logging.getLogger(__name__)

_IDLE_SECONDS = 1.0
_LONGEST_SECONDS = 15.0
_SLICE_BYTES = 1 << 20
_HELPED_SLICE_BYTES = 4 << 20
"""The size of a slice for the process that packs: with each, this thread waits several times for the interpreter."""
_BREATH_SECONDS = 0.05
_REST_SECONDS = 5.0
"""The time after which the process that packs full journals ends, if there were none."""
_RETRY_SECONDS = 1.0
"""The time after which packing is tried again when there was no room."""


class Checkpointer:
    """Runs the checkpoints of one writer, in a thread of its own from :meth:`start` on."""

    def __init__(self, writer: Writer, intake: Intake, learning: Learning, packed: Callable[[], None]) -> None:
        """``packed`` is called after each checkpoint, in its thread."""
        self._writer = writer
        self._intake = intake
        self._learning = learning
        self._packed = packed
        self._backlog = writer.backlog
        self._work = writer.backlog.work
        self._tasks = writer.backlog.tasks
        self._pace = Pace(writer)
        self._learns = False
        self._may_learn = True
        self._closing = False
        self._waits = False
        self._packer: Packer | None = None
        """The process that packs full journals, while they come."""
        self._helped = 0.0
        """The time when it last did."""
        self._thread = threading.Thread(target=self._run, name="convfs-checkpoint", daemon=True)

    def take_over(self, found: Sequence[Generation], *, at_once: bool) -> None:
        """Schedule packing of what the journal held at opening. ``at_once`` packs it now, before :meth:`start`."""
        if at_once:
            for generation in found:
                try:
                    self._pack(generation)
                except (StoreFailed, OSError) as error:
                    raise self._writer.failure(error) from error
        else:
            self._tasks.extend(found)

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def flush(self) -> None:
        """Pack and sync everything that has been committed, now. Raises StoreFailed.

        StoreFull where there is no room for that: it stays in the journal, and is packed once there is.
        """
        writer = self._writer
        if writer.read_only:
            return
        with writer.commit_lock:
            if writer.journal.used and not writer.failed:
                writer.switch()
        with self._work:
            last = self._tasks[-1] if self._tasks else None
            # no more than that: others may go on committing
            self._backlog.hurry(lambda: all(task is not last for task in self._tasks))
            full = self._backlog.full if last in self._tasks else None
        if writer.failed:
            writer.check()
        if full is not None:
            raise full

    def quiesce(self) -> None:
        """As :meth:`flush`, and wait until nothing is going on in the background."""
        self.flush()
        with self._work:
            learns = self._learns
            self._work.wait_for(lambda: not self._learns)
        if learns:
            # the learnt dictionary is committed, too
            self.flush()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Block commits. Inside the block every commit is in packs, logs and index, and the journal is empty.

        The block itself must not commit. Raises StoreFailed.
        """
        writer = self._writer
        writer.standing = True
        try:
            while True:
                self.quiesce()
                with writer.commit_lock:
                    writer.check()
                    if writer.journal.used:
                        writer.switch()
                    with self._work:
                        self._backlog.hurry(lambda: not self._tasks)
                        learns = self._learns
                        full = self._backlog.full if self._tasks else None
                    writer.check()
                    if full is not None:
                        raise full
                    if learns:
                        # it is about to commit the dictionary
                        continue
                    writer.settle()
                    yield
                    return
        finally:
            writer.standing = False

    def close(self) -> None:
        """Pack and sync everything, and end the thread. Raises StoreFailed if anything may be missing from the disk.

        Blobs that there is no room to pack stay in the journal, and are packed when the store is opened again.
        """
        writer = self._writer
        try:
            self._intake.sync()
            self.flush()
        except (StoreFull, Unreachable) as error:
            log.warning("what was committed last is left to the journal: %s", error)
        finally:
            with self._work:
                self._may_learn = False
                self._work.wait_for(lambda: not self._learns)
                self._closing = True
                self._work.notify_all()
            self._thread.join()
            self._end_packer()
            with writer.commit_lock:
                try:
                    # what has come since, from others and from learning; and blobs that came without any commit
                    noted = writer.journal.checkpoint
                    added = noted is None or writer.packs.end > (noted.pack, noted.pack_length)
                    if (writer.journal.used or added) and not (writer.failed or writer.read_only or self._tasks):
                        full = self._guarded(lambda: self._pack(writer.take()))
                        if full is not None:
                            log.warning("what was committed last is left to the journal: %s", full)
                finally:
                    writer.close()
        if writer.failed:
            writer.check()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (task := self._next()) is not None:
            full = self._guarded(partial(self._pack, task))
            with self._work:
                self._backlog.hurried = False
                self._note_full(full)
                if full is not None:
                    self._work.notify_all()
                    self._work.wait(_RETRY_SECONDS)
                    continue
                self._tasks.popleft()
                learn = self._may_learn and not self._learns and self._learning.due
                self._learns = self._learns or learn
                self._work.notify_all()
            self._guarded(self._packed)
            if learn:
                # not here: its commit may have to wait until the next journal has been packed
                threading.Thread(target=self._learn, name="convfs-learning", daemon=True).start()

    def _learn(self) -> None:
        self._guarded(self._learning.learn)
        with self._work:
            self._learns = False
            self._work.notify_all()

    def _note_full(self, full: StoreFull | Unreachable | None) -> None:
        if full is not None and not self._waits:
            log.warning("what was committed waits in the journal: %s", full)
        elif full is None and self._waits:
            log.warning("there is room again: what waited in the journal is packed")
        self._backlog.full = full
        self._waits = full is not None

    def _guarded(self, work: Callable[[], None]) -> StoreFull | Unreachable | None:
        """Do some work; return why it is to be tried again, None where it is not."""
        try:
            work()
        except Exception as error:
            # the journal stays as it is, so nothing is lost; but where the disk is in an unknown state, no more may be
            # taken in
            failure = self._writer.failure(error)
            if isinstance(failure, StoreFull | Unreachable):
                return failure
        return None

    def _hold_back(self) -> None:
        """Wait while commits come fast, unless room becomes scarce."""
        journal = self._writer.journal
        while not self._pace.calm() and 2 * (journal.backlog - self._backlog.packed) < journal.total:
            with self._work:
                if self._backlog.hurried or self._closing:
                    return
                self._work.wait(_BREATH_SECONDS)
                awake, self._backlog.awake = self._backlog.awake, False
            if awake:
                self._writer.settle()

    def _next(self) -> Generation | None:
        """Wait for work, and see to it that there is some when the store is idle; None to end."""
        writer = self._writer
        began = since = time.monotonic()
        seen = writer.seq
        while True:
            with self._work:
                if not self._tasks and not self._closing and not self._backlog.awake:
                    # nothing in the journal: nothing to do before somebody commits
                    watches = (writer.journal.used and not writer.failed) or self._packer is not None
                    self._work.wait(_IDLE_SECONDS / 2 if watches else None)
                self._backlog.awake = False
                if self._tasks and not (self._closing and self._waits):
                    return self._tasks[0]
                if self._closing:
                    return None
            try:
                writer.settle()
                now = time.monotonic()
                if now - self._helped > _REST_SECONDS:
                    self._end_packer()
                if writer.seq != seen:
                    seen, since = writer.seq, now
                if not writer.journal.used:
                    began = now
                elif now - since > _IDLE_SECONDS or now - began > _LONGEST_SECONDS:
                    self._switch_when_idle()
            except Exception as error:
                writer.failure(error)

    def _switch_when_idle(self) -> None:
        # not waiting for the lock: its holder may be waiting for this thread
        if self._writer.commit_lock.acquire(blocking=False):
            try:
                with self._work:
                    free = not self._tasks
                # blobs in the journal can wait until the disk has room for them elsewhere
                if free and self._writer.journal.used and self._writer.has_room():
                    self._writer.switch()
            finally:
                self._writer.commit_lock.release()

    def _pack(self, task: Generation) -> None:
        writer = self._writer
        # where one could not be packed, none after it may be: retiring that would retire both
        writer.check()
        if task.blobs:
            writer.check_least_room()
        self._backlog.packed = 0
        load = Load(self._intake, self._intake.packed_here, logged=True)
        helped = packer.worth(sum(blob.length for blob in task.blobs))
        # the process is done with the last ones when it is brought none
        slices = _slices(task.blobs, _HELPED_SLICE_BYTES if helped else _SLICE_BYTES)
        for some in chain(slices, ([],) if helped else ()):
            if some:
                self._hold_back()
            if not (helped and self._help(load, some)):
                helped = False
                again = load.left() + some
                if load.payloads(writer.pending.bodies(again), self._intake.earlier) != [blob.hash for blob in again]:
                    raise DamageError("the journal does not hold any more what was written to it")
            self._backlog.packed += sum(blob.length for blob in some)
        load.sync()
        writer.turns.sync()
        writer.head_log.sync()
        writer.settle()
        writer.pending.drop(task.blobs)
        self._intake.forget_earlier(blob.hash for blob in task.blobs)
        self._learning.packed(task.blobs)
        # what was made on the way is where it belongs
        writer.packs.check_place()
        pack, length = writer.packs.synced
        writer.journal.retire(Checkpoint(task.seq, task.turn_count, task.heads_length, pack, length))
        self._backlog.packed = 0

    def _help(self, load: Load, some: Sequence[Waiting]) -> bool:
        """Have the process add blobs to a load; False where there is none."""
        try:
            self._packer = self._packer or Packer(self._writer.journal.directory)
            load.journalled(some, self._packer, self._intake.earlier)
        except PackerGone as error:
            log.warning("what was committed is packed without a process of its own: %s", error)
            self._end_packer()
            return False
        self._helped = time.monotonic()
        return True

    def _end_packer(self) -> None:
        if self._packer is not None:
            self._packer.close()
            self._packer = None


def _slices(blobs: list[Waiting], least: int) -> Iterator[list[Waiting]]:
    some: list[Waiting] = []
    size = 0
    for blob in blobs:
        some.append(blob)
        size += blob.length
        if size >= least:
            yield some
            some, size = [], 0
    if some:
        yield some
