"""Durable appends: latency of one thread, and throughput of 32 threads in one process.

Every contestant makes the same records of 10 KB durable, one acknowledgement a record. SQLite takes part in the
ways that people write it (WAL, synchronous=FULL): a connection a thread, one connection behind a lock, and one
writer thread that commits what waits together. The JSONL file is appended to and synced with fdatasync, by each
thread for itself and under a lock. Afterwards each is opened again and its records counted and compared.

By itself: ``python -m tests.bench.appends [--quick] [--rounds N] [--dir DIR]``.
"""

import contextlib
import itertools
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from store.commit.gathering import Gathering
from store.commit.request import Request
from store.disk.blob_format import Form
from store.disk.journal_format import JournalBlob
from store.ids import hash_bytes
from tests.bench import corpus
from tests.bench.harness import (
    Skipped,
    fresh,
    interleaved,
    median,
    note,
    options,
    parse,
    percentile,
    print_table,
    ratio,
    seconds,
)

PAYLOAD_BYTES = 10 * 1024
THREADS = 32
SUSTAINED_SECONDS = 60.0
TYPE_NAME = "claude-code.line.v1"

SCHEMA = (
    "create table turns (id integer primary key, context integer, parent integer, depth integer, type text,"
    " created integer, payload blob)"
)
INSERT = "insert into turns (context, parent, depth, type, created, payload) values (?, ?, ?, ?, ?, ?)"

Append = Callable[[bytes], object]


class Contestant(Protocol):
    """One way to keep records; opened on an empty directory."""

    def writer(self) -> contextlib.AbstractContextManager[Append]:
        """Give the calling thread its append function, which returns once the record is durable."""

    def rest(self) -> None:
        """Do now what would go on in the background, beside whoever comes next."""

    def close(self) -> None:
        """End as a program would end it."""

    def stored(self) -> list[bytes]:
        """Return every record, after ``close``, read from disk again."""

    def count(self) -> int:
        """Return the number of records, after ``close``."""


def numbered(payloads: list[bytes]) -> Iterator[bytes]:
    """Yield records again and again, each time with another number in them, so that none is there already."""
    for number in itertools.count():
        for payload in payloads:
            yield payload.replace(b'"content":"', b'"content":"%08d ' % number, 1)


def record_row(context: int, depth: int, payload: bytes) -> tuple[object, ...]:
    """Return the values for :data:`INSERT`."""
    return context, depth - 1, depth, TYPE_NAME, time.time_ns() // 1_000_000, payload


class Idle:
    """Nothing goes on in the background."""

    def rest(self) -> None:
        """Nothing to do."""


class SqliteBase(Idle):
    """Parts that the ways of using SQLite share."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "turns.db"
        self._contexts = iter(range(1, 1_000_000))
        with contextlib.closing(self.connect()) as connection:
            connection.execute(SCHEMA)

    def connect(self) -> sqlite3.Connection:
        """Open a connection with the settings under which a commit survives a power loss."""
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        return connection

    def stored(self) -> list[bytes]:
        """Return every payload."""
        with contextlib.closing(self.connect()) as connection:
            return [payload for (payload,) in connection.execute("select payload from turns")]

    def count(self) -> int:
        """Return the number of rows."""
        with contextlib.closing(self.connect()) as connection:
            return int(connection.execute("select count(*) from turns").fetchone()[0])


class SqliteConnections(SqliteBase):
    """A connection a thread; SQLite's busy timeout settles who writes."""

    @contextlib.contextmanager
    def writer(self) -> Iterator[Append]:
        """Open this thread's own connection."""
        context = next(self._contexts)
        depth = 0
        with contextlib.closing(self.connect()) as connection:

            def append(payload: bytes) -> None:
                nonlocal depth
                depth += 1
                connection.execute(INSERT, record_row(context, depth, payload))

            yield append

    def close(self) -> None:
        """Nothing is open any more."""


class SqliteLocked(SqliteBase):
    """One connection, and a lock around each insert."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._connection = self.connect()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def writer(self) -> Iterator[Append]:
        """Share the connection."""
        context = next(self._contexts)
        depth = 0

        def append(payload: bytes) -> None:
            nonlocal depth
            depth += 1
            row = record_row(context, depth, payload)
            with self._lock:
                self._connection.execute(INSERT, row)

        yield append

    def close(self) -> None:
        """Close the connection, which checkpoints the WAL."""
        self._connection.close()


class Grouping:
    """One thread that takes everything that waits and has it committed together; waiting callers are answered then."""

    def __init__(self, commit: Callable[[list[Any]], None]) -> None:
        self._commit = commit
        self._queue: queue.SimpleQueue[tuple[Any, threading.Lock] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def caller(self) -> Callable[[Any], None]:
        """Return a function for one thread: it hands an item over, and returns once that is committed."""
        answer = threading.Lock()
        answer.acquire()

        def hand(item: object) -> None:
            self._queue.put((item, answer))
            answer.acquire()

        return hand

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            waiting = [item]
            with contextlib.suppress(queue.Empty):
                while (more := self._queue.get_nowait()) is not None:
                    waiting.append(more)
            self._commit([one for one, _ in waiting])
            for _, answer in waiting:
                answer.release()


class SqliteGrouped(SqliteBase):
    """One writer thread that takes everything that waits and commits it in one transaction."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._connection = self.connect()
        self._group = Grouping(self._commit)

    @contextlib.contextmanager
    def writer(self) -> Iterator[Append]:
        """Hand records to the writer thread and wait for its answer."""
        context, depths, hand = next(self._contexts), itertools.count(1), self._group.caller()
        yield lambda payload: hand(record_row(context, next(depths), payload))

    def _commit(self, rows: list[tuple[object, ...]]) -> None:
        self._connection.execute("begin immediate")
        self._connection.executemany(INSERT, rows)
        self._connection.execute("commit")

    def close(self) -> None:
        """End the writer thread."""
        self._group.close()
        self._connection.close()


_FLOOR_BYTES = 32 << 20


class Floor(Idle):
    """Next to nothing: records are hashed by their threads, and those that wait together written over others and
    synced, as in a journal. They are gathered as convfs gathers them. It keeps nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / "floor", os.O_RDWR | os.O_CREAT, 0o600)
        # a sync has no metadata to write then
        os.pwrite(self._file, bytes(_FLOOR_BYTES), 0)
        os.fsync(self._file)
        self._at = self._count = 0
        self._gathering = Gathering(self._commit, lambda _group: None, _FLOOR_BYTES)

    @contextlib.contextmanager
    def writer(self) -> Iterator[Append]:
        """Hash, and have it committed."""

        def append(payload: bytes) -> None:
            blob = JournalBlob(hash_bytes(payload), Form.PLAIN, len(payload), payload)
            self._gathering.submit([Request(blobs=[blob])])

        yield append

    def _commit(self, records: list[Request]) -> None:
        entry = b"".join([part for record in records for part in (record.blobs[0].hash, record.blobs[0].body)])
        self._at = self._at if self._at + len(entry) <= _FLOOR_BYTES else 0
        os.pwrite(self._file, entry, self._at)
        self._gathering.wake()
        os.fdatasync(self._file)
        self._at += len(entry)
        self._count += len(records)

    def close(self) -> None:
        """End."""
        os.close(self._file)

    def stored(self) -> list[bytes]:
        """It keeps nothing."""
        return []

    def count(self) -> int:
        """Return the number of records that came."""
        return self._count


class Jsonl(Idle):
    """One file; each thread appends a line and syncs it (syncs of several threads may share one of the disk's)."""

    locked = False

    def __init__(self, directory: Path) -> None:
        self.path = directory / "turns.jsonl"
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def writer(self) -> Iterator[Append]:
        """Share the file descriptor."""

        def append(payload: bytes) -> None:
            os.write(self._file, payload + b"\n")
            os.fdatasync(self._file)

        def append_locked(payload: bytes) -> None:
            with self._lock:
                append(payload)

        yield append_locked if self.locked else append

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def stored(self) -> list[bytes]:
        """Return the lines."""
        return self.path.read_bytes().splitlines()

    def count(self) -> int:
        """Return the number of lines."""
        with open(self.path, "rb") as file:
            return sum(1 for _line in file)


class JsonlLocked(Jsonl):
    """The same, with a lock around write and sync."""

    locked = True


class Convfs:
    """The store; a context a thread."""

    def __init__(self, directory: Path) -> None:
        try:
            from store.store import Store
        except ImportError as error:
            raise Skipped(f"no store to measure: {error}") from error
        self._root = directory / "store"
        self._open = Store.open
        self._store = Store.open(self._root)
        self._contexts: list[int] = []

    @contextlib.contextmanager
    def writer(self) -> Iterator[Append]:
        """Create a context and append to it."""
        context = self._store.contexts.create().context
        self._contexts.append(context)
        yield lambda payload: self._store.contexts.append(context, payload, TYPE_NAME)

    def rest(self) -> None:
        """Have the journal packed."""
        self._store.checkpointer.flush()

    def close(self) -> None:
        """Close the store, which checkpoints the journal."""
        self._store.close()

    def stored(self) -> list[bytes]:
        """Return the payloads of all contexts."""
        found: list[bytes] = []
        with self._open(self._root) as store:
            for context in self._contexts:
                turns = store.turns.path_to_root(store.writer.head(context).turn)
                for turn_id, payload in store.contents.payloads([turn.turn_id for turn in turns]):
                    if isinstance(payload, Exception):
                        raise RuntimeError(f"turn {turn_id} cannot be read") from payload
                    found.append(payload)
        return found

    def count(self) -> int:
        """Return the number of turns."""
        with self._open(self._root) as store:
            return store.files.turns.count


FLOOR = "hashed, written and synced, nothing else"

CONTESTANTS: dict[str, Callable[[Path], Contestant]] = {
    "convfs": Convfs,
    "sqlite, a connection a thread": SqliteConnections,
    "sqlite, one connection and a lock": SqliteLocked,
    "sqlite, a thread that groups": SqliteGrouped,
    "jsonl, fdatasync": Jsonl,
    "jsonl, fdatasync under a lock": JsonlLocked,
    FLOOR: Floor,
}


class Thronged(NamedTuple):
    """Records a second of many threads, and the processor seconds for each."""

    rate: float
    spent: float


class Entry:
    """One contestant during a run: what it is given, and what it must hold in the end."""

    def __init__(self, name: str, directory: Path) -> None:
        self.contestant = CONTESTANTS[name](fresh(directory / name.replace(", ", "-").replace(" ", "_")))
        self.given: list[bytes] = []

    def latencies(self, payloads: list[bytes], count: int, number: int) -> list[float]:
        """Append round ``number``'s ``count`` records from one thread; return the seconds that each took."""
        payloads = payloads[number * count :][:count]
        self.given += payloads
        times = []
        clock = time.perf_counter
        with self.contestant.writer() as append:
            for payload in payloads:
                start = clock()
                append(payload)
                times.append(clock() - start)
        self.contestant.rest()
        return times

    def throughput(self, payloads: list[bytes], count: int, number: int) -> Thronged:
        """Append a round's records from 32 threads, from a common start to the last's end."""
        payloads = payloads[number * count :][:count]
        self.given += payloads
        start = threading.Barrier(THREADS + 1)
        failures: list[BaseException] = []

        def work(mine: list[bytes]) -> None:
            try:
                with self.contestant.writer() as append:
                    start.wait()
                    for payload in mine:
                        append(payload)
            except BaseException as error:
                failures.append(error)
                start.abort()

        threads = [threading.Thread(target=work, args=(payloads[at::THREADS],)) for at in range(THREADS)]
        for thread in threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            start.wait()
        begin, spent = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        rate = len(payloads) / (time.perf_counter() - begin)
        spent = time.process_time() - spent
        self.contestant.rest()
        return Thronged(rate, spent / len(payloads))

    def sustained(self, payloads: list[bytes], length: float) -> float:
        """Append from 32 threads for ``length`` seconds, each time another number in the records; return records a
        second. What is there afterwards is counted.
        """
        until = time.perf_counter() + length
        counts: list[int] = []

        def work(mine: list[bytes]) -> None:
            with self.contestant.writer() as append:
                done = 0
                for payload in numbered(mine):
                    append(payload)
                    done += 1
                    if time.perf_counter() > until:
                        break
                counts.append(done)

        threads = [threading.Thread(target=work, args=(payloads[at::THREADS],)) for at in range(THREADS)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        self.contestant.close()
        if len(counts) != THREADS or self.contestant.count() != sum(counts):
            raise RuntimeError("records were acknowledged that are not there")
        return sum(counts) / took

    def verify(self) -> None:
        """Close, read everything again, and raise if a record is missing or another."""
        self.contestant.close()
        if sorted(self.contestant.stored()) != sorted(self.given):
            raise RuntimeError("records were acknowledged that are not there, or are not the same")


PLAIN_SQLITE = ("sqlite, a connection a thread", "sqlite, one connection and a lock")


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run and print the table; the work lies under ``directory``."""
    rounds = rounds or (3 if quick else 7)
    single, together = (200, 640) if quick else (700, 4800)
    payloads = corpus.payloads((single + together) * rounds, PAYLOAD_BYTES)
    entries: dict[str, Entry] = {}
    for name in CONTESTANTS:
        try:
            entries[name] = Entry(name, directory / "appends")
        except Skipped as error:
            note(f"{name}: skipped: {error}")

    shared = payloads[: rounds * single], payloads[rounds * single :]
    note(f"appends: {rounds} rounds of one thread, then of {THREADS}")
    alone = interleaved(rounds, {name: partial(entry.latencies, shared[0], single) for name, entry in entries.items()})
    crowd = interleaved(
        rounds, {name: partial(entry.throughput, shared[1], together) for name, entry in entries.items()}
    )
    p50 = {name: median(percentile(times, 0.5) for times in values) for name, values in alone.items()}
    p99 = {name: median(percentile(times, 0.99) for times in values) for name, values in alone.items()}
    rate = {name: median(run.rate for run in runs) for name, runs in crowd.items()}
    spent = {name: median(run.spent for run in runs) for name, runs in crowd.items()}
    base50 = min(p50[name] for name in PLAIN_SQLITE)
    base99 = min(p99[name] for name in PLAIN_SQLITE)
    base_rate = max(rate[name] for name in PLAIN_SQLITE)
    print_table(
        f"Durable appends of {PAYLOAD_BYTES // 1024} KB",
        ("", "p50", "to sqlite", "p99", "to sqlite", f"{THREADS} threads", "to sqlite", "processor each"),
        [
            (
                name,
                seconds(p50[name]),
                ratio(p50[name], base50),
                seconds(p99[name]),
                ratio(p99[name], base99),
                f"{rate[name]:.0f}/s",
                ratio(rate[name], base_rate),
                seconds(spent[name]),
            )
            for name in entries
        ],
        "Ratios are to the better of SQLite's first two ways, column by column: below 1 is better for latencies, above"
        f" 1 for the rate. Medians of {rounds} rounds; a round is {single} appends of one thread, {together} of"
        f" {THREADS}. Processor: of all threads, while {THREADS} append, for each record; the rest of its time is"
        " waiting, for the disk and for each other.",
    )
    for name, entry in entries.items():
        if name == FLOOR:
            entry.contestant.close()
        else:
            entry.verify()
    length = 5.0 if quick else SUSTAINED_SECONDS
    held = {}
    for name in ("convfs", *PLAIN_SQLITE, FLOOR):
        note(f"appends: {THREADS} threads for {length:.0f} s: {name}")
        held[name] = Entry(name, directory / "sustained").sustained(shared[1], length)
    base = max(held[name] for name in PLAIN_SQLITE)
    print_table(
        f"Durable appends of {PAYLOAD_BYTES // 1024} KB by {THREADS} threads for {length:.0f} s",
        ("", "rate", "to sqlite"),
        [(name, f"{rate:.0f}/s", ratio(rate, base)) for name, rate in held.items()],
        "All begin empty; what is left to do when the time is over is not in it.",
    )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Durable appends: latency and throughput."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
