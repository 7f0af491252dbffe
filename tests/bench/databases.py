"""Databases that are watched: what a look costs once one message is new, once nothing is, and what is read for it.

Beside it, the copy and the reading of the whole database, which it took before. The writer keeps the database open, so
that what is new lies in the log beside it. Then a watcher follows it while other tables are written to all the time:
how much of a processor that takes, and after how long a new message is in the store.

By itself: ``python -m tests.bench.databases [--quick] [--rounds N] [--dir DIR]``.
"""

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer, ImportReport
from store.importing.watch import Watching
from store.store import Store
from tests.bench import words
from tests.bench.harness import fresh, median, megabytes, note, options, parse, print_table, ratio, seconds
from tests.store.importing import test_database_changes as databases

KINDS = tuple(databases.MADE)
WITHOUT_INDEX = ("kiro-db",)
"""Those in which a change to an older row may wait: there, a new conversation is measured."""
_MESSAGES = 10
_WATCHED_S = 20.0
_WRITES_A_SECOND = 5


def _write(path: Path, kind: str, size: int) -> tuple[sqlite3.Connection, int]:
    """Write a database of some bytes; return its writer's connection, and the number of its sessions."""
    schema, write = databases.MADE[kind]
    database = sqlite3.connect(path)
    database.executescript("PRAGMA journal_mode = wal;" + schema + "; CREATE TABLE other (a)")
    sessions = 0
    while path.stat().st_size < size:
        write(database, sessions, _MESSAGES)
        sessions += 1
        if sessions % 20 == 0:
            database.commit()
            database.execute("PRAGMA wal_checkpoint")
    database.commit()
    return database, sessions


def _look(store: Store, path: Path) -> tuple[float, int, int]:
    """Return the processor time of a look, the bytes that were read, and how many conversations came or grew."""
    read, began = databases.read_bytes(), time.process_time()
    report = Importer(store).run([path], by_hand=False)
    if report.errors:
        raise RuntimeError(report.errors[0])
    return time.process_time() - began, databases.read_bytes() - read, report.imported + report.grown


def _watched(store: Store, path: Path, database: sqlite3.Connection, write: Callable[[], None]) -> tuple[float, float]:
    """Return the share of a processor that a watcher takes while nothing is new, and the seconds a message takes."""
    came, ended, ready = threading.Event(), threading.Event(), threading.Event()

    def take(paths: Sequence[Path]) -> ImportReport:
        report = Importer(store).run(paths, by_hand=False)
        if report.imported + report.grown:
            came.set()
        return report

    watching = Watching(lambda: [path.parent], take, store.root)
    thread = threading.Thread(target=watching.run, args=(ended, ready.set))
    thread.start()
    try:
        ready.wait()
        writing = taken = 0.0
        began, spent = time.monotonic(), time.process_time()
        while time.monotonic() < began + _WATCHED_S:
            before = time.thread_time()
            database.execute("INSERT INTO other VALUES (1)")
            database.commit()
            writing += time.thread_time() - before
            time.sleep(1 / _WRITES_A_SECOND)
        taken = time.process_time() - spent - writing
        share = taken / (time.monotonic() - began)
        came.clear()
        write()
        began = time.monotonic()
        came.wait(60)
        return share, time.monotonic() - began
    finally:
        ended.set()
        thread.join()


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Watch a database of each kind; print the table; the work lies under ``directory``."""
    work = fresh(directory / "databases")
    size, count = (32 << 20, 3) if quick else (1 << 30, rounds or 5)
    made, vocabulary = random.Random(1), words.Vocabulary()
    pool = [words.prose(made, vocabulary, 100_000) for _ in range(100)]
    databases.words = lambda session, message: f"{session} says {message}: {pool[(session * 31 + message) % len(pool)]}"
    rows = []
    for kind in KINDS:
        path = fresh(work / kind) / "data.db"
        database, sessions = _write(path, kind, size)
        note(f"{kind}: {sessions} sessions, {megabytes(path.stat().st_size)}")
        with closing(database), Store.open(work / kind / "store", renderer=FileRenderer()) as store:
            whole, all_read, came = _look(store, path)
            if came != sessions:
                raise RuntimeError(f"{came} of {sessions} sessions came")
            grown, idle = [], []
            for number in range(count):
                at = sessions + number if kind in WITHOUT_INDEX else number % sessions
                databases.MADE[kind][1](database, at, _MESSAGES + 1 + number // sessions)
                database.commit()
                grown.append(_look(store, path))
                if grown[-1][2] != 1:
                    raise RuntimeError(f"{kind}: {grown[-1][2]} conversations have grown")
                database.execute("INSERT INTO other VALUES (1)")
                database.commit()
                idle.append(_look(store, path))
            new, read, nothing = (median(one[at] for one in some) for some, at in ((grown, 0), (grown, 1), (idle, 0)))
            at = sessions + count if kind in WITHOUT_INDEX else sessions - 1

            def write_one(kind: str = kind, database: sqlite3.Connection = database, at: int = at) -> None:
                databases.MADE[kind][1](database, at, _MESSAGES + 9)
                database.commit()

            share, after = _watched(store, path, database, write_one)
            times = (seconds(whole), seconds(new), seconds(nothing))
            rows.append((kind, *times, ratio(new, whole), ratio(read, all_read), f"{share:.2%}", seconds(after)))
    print_table(
        f"Databases of {megabytes(size)} that are watched (processor time)",
        ("kind", "all of it", "a new message", "nothing new", "new : all", "read : all", "watched", "is in after"),
        rows,
        f"Watched: the share of a processor while another table is written to {_WRITES_A_SECOND} times a second; is in"
        " after: the time on the clock until a new message is in the store."
        " Of kiro-db, a new conversation: it has no index that tells of changes to older ones, and walks through its"
        " table are put off so that they take a four-hundredth of a processor.",
    )


if __name__ == "__main__":
    arguments = parse(options(__doc__ or ""))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
