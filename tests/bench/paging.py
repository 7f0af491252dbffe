"""Paging: the last turns, a page in the middle and a fork of one very long context among many.

Its ids interleave with those of the others: each of its turns is followed by one of another context, so that no two of
them lie together. Beside it stands SQLite with a row a turn and an index by context and depth. What both return is
compared.

By itself: ``python -m tests.bench.paging [--quick] [--rounds N] [--dir DIR]``.
"""

import contextlib
import itertools
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.harness import (
    fresh,
    megabytes,
    note,
    options,
    parse,
    percentile,
    print_table,
    ratio,
    resident,
    seconds,
    timed,
)

OTHERS = 31
PAGE = 64
AT_ONCE = 4000

Page = list[tuple[int, int]]
"""Turns: (id, depth) each."""


class Contestant:
    """One way to keep turns; ``page(start)`` returns a page by depth."""

    def __init__(self, last: Callable[[], Page], page: Callable[[int], Page], fork: Callable[[int], object]) -> None:
        self.last = last
        self.page = page
        self.fork = fork


@contextlib.contextmanager
def convfs(directory: Path, length: int) -> Iterator[Contestant]:
    """Fill a store, open it again, and yield it."""
    from store.commit.request import Request
    from store.disk.turn_format import Turn
    from store.store import Store

    def plain(turns: list[Turn]) -> Page:
        return [(turn.turn_id, turn.depth) for turn in turns]

    with Store.open(directory) as store:
        contexts = [store.contexts.create().context for _ in range(1 + OTHERS)]
        store.contexts.register_type("test.v1")
        turns = [store.contexts.new_turn(store.intake.put(b"a turn"), "test.v1", 0)]
        others = itertools.cycle(contexts[1:])
        for start in range(0, length, AT_ONCE // 2):
            ids = [contexts[0], 0] * min(AT_ONCE // 2, length - start)
            store.writer.submit_all([Request(context or next(others), turns=turns) for context in ids])
    with Store.open(directory) as store:
        own = contexts[0]
        yield Contestant(
            lambda: plain(store.contexts.last(own, PAGE)),
            lambda start: plain(store.contexts.range_by_depth(own, start, PAGE)),
            lambda depth: store.contexts.fork(own, store.contexts.range_by_depth(own, depth, 1)[0].turn_id),
        )


@contextlib.contextmanager
def sqlite(directory: Path, length: int) -> Iterator[Contestant]:
    """Fill a database, and yield it. A fork is a row that names where it begins."""
    directory.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(directory / "turns.db", isolation_level=None)) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma synchronous=full")
        database.execute("create table turns (id integer primary key, context integer, depth integer, hash blob)")
        database.execute("create table forks (id integer primary key, context integer, depth integer)")
        database.execute("begin")
        database.executemany(
            "insert into turns values (?, ?, ?, ?)",
            (
                (number + 1, number % 2 and 1 + number // 2 % OTHERS, number // 2, bytes(32))
                for number in range(2 * length)
            ),
        )
        database.execute("create index places on turns (context, depth)")
        database.execute("commit")
        by_depth = "select id, depth from turns where context = 0 and depth >= ? order by depth limit ?"
        backwards = "select id, depth from turns where context = 0 order by depth desc limit ?"
        yield Contestant(
            lambda: database.execute(backwards, (PAGE,)).fetchall()[::-1],
            lambda start: database.execute(by_depth, (start, PAGE)).fetchall(),
            lambda depth: database.execute("insert into forks (context, depth) values (0, ?)", (depth,)),
        )


CONTESTANTS = {"convfs": convfs, "sqlite, an index by depth": sqlite}


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run and print the table; the work lies under ``directory``."""
    work = fresh(directory / "paging")
    length = 20_000 if quick else 1_000_000
    rounds = rounds or (50 if quick else 300)
    source = random.Random(7)
    depths = [source.randrange(length) for _ in range(rounds)]
    times: dict[str, dict[str, list[float]]] = {}
    pages: list[list[Page]] = []
    memory: dict[str, int] = {}
    for name, contestant in CONTESTANTS.items():
        note(f"paging: {name}: {2 * length} turns")
        with contestant(work / name.split(",")[0], length) as one:
            pages.append([one.last(), *map(one.page, depths)])
            times[name] = {
                "last": [timed(one.last) for _ in depths],
                "page": [timed(partial(one.page, depth)) for depth in depths],
                "fork": [timed(partial(one.fork, depth)) for depth in depths],
            }
            memory[name] = resident(os.getpid())[0]
    if pages[0] != pages[1]:
        raise RuntimeError("the contestants returned other turns than each other")
    base = times["sqlite, an index by depth"]
    print_table(
        f"Pages of {PAGE} turns of a context of {length}",
        ("", "last p50", "p99", "to sqlite", "page p50", "p99", "to sqlite", "fork p50", "p99", "to sqlite", "memory"),
        [
            (
                name,
                *(
                    cell
                    for what, values in measured.items()
                    for cell in (
                        seconds(percentile(values, 0.5)),
                        seconds(percentile(values, 0.99)),
                        ratio(percentile(values, 0.5), percentile(base[what], 0.5)),
                    )
                ),
                megabytes(memory[name]),
            )
            for name, measured in times.items()
        ],
        f"{rounds} of each, at random depths, by one process that has just opened it. The context's ids interleave"
        f" with those of {OTHERS} others. SQLite's fork writes a row, durably; its rows hold no parents, so that a"
        " branch of a branch would be found otherwise. Memory of the process, one contestant after the other.",
    )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Pages of a very long context."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
