"""Appends in a space on PostgreSQL, beside local ones and the server's own commits, and when others see them.

And then spaces at size: ``tests.bench.joining``.

By itself: ``python -m tests.bench.spaces [--quick] [--rounds N] [--dir DIR]``.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from store.events.conversation import Change
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.bench import joining
from tests.bench.harness import (
    compared,
    fresh,
    interleaved,
    median,
    note,
    options,
    parse,
    percentile,
    print_table,
    ratio,
)
from tests.servers import Postgres
from tests.spaces import let_in

_BYTES = 10_000
_NAME = "bench"


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run, and print both tables; the work lies under ``directory``."""
    work = fresh(directory / "spaces")
    with _site(work) as (server, stores):
        _appends(server, stores, work, 100 if quick else 300, rounds or (3 if quick else 9))
        _seen(stores, 50 if quick else 300)
    joining.bench(work, quick=quick, rounds=rounds)


@contextmanager
def _site(work: Path) -> Iterator[tuple[Postgres, list[Store]]]:
    with ExitStack() as held:
        # PostgreSQL does not run as root, and must reach its directory
        os.chmod(work, 0o755)
        server = Postgres(work / "postgres", durable=True)
        server.make()
        server.start()
        held.callback(server.stop)
        place = Place(postgres=server.url(), objects=f"file://{work}/objects")
        remote.init(place, _NAME)
        remote.join(place, _NAME, work / "a", "a")
        let_in(work / "a", work / "b", "b")
        stores = [held.enter_context(Store.open(work / name)) for name in "ab"]
        yield server, stores


def _appends(server: Postgres, stores: list[Store], work: Path, count: int, rounds: int) -> None:
    note(f"spaces: {rounds} rounds of {count} appends")
    replica, follower = stores
    with ExitStack() as held:
        local = held.enter_context(Store.open(work / "local"))
        connection = held.enter_context(psycopg.connect(server.url(), autocommit=True))
        connection.execute("CREATE TABLE plain (number bigserial PRIMARY KEY, body bytea NOT NULL)")
        connection.execute("ALTER TABLE plain ALTER body SET STORAGE EXTERNAL")
        contexts = {store: store.contexts.create().context for store in (local, replica)}
        follower.writer.catch_up()

        def to(store: Store) -> list[tuple[float, float]]:
            return [
                _took(lambda: store.contexts.append(contexts[store], os.urandom(_BYTES), "bench")) for _ in range(count)
            ]

        def plain() -> list[tuple[float, float]]:
            statement = "INSERT INTO plain (body) VALUES (%s)"
            return [
                _took(lambda: connection.execute(statement, [os.urandom(_BYTES)], prepare=True, binary=True))
                for _ in range(count)
            ]

        contestants = {
            "local append": lambda _: to(local),
            "one PostgreSQL commit": lambda _: plain(),
            "append in a space": lambda _: to(replica),
        }
        found = {
            name: [one for some in results for one in some]
            for name, results in interleaved(rounds, contestants).items()
        }
    clock = {name: percentile([one[0] for one in took], 0.5) for name, took in found.items()}
    late = {name: percentile([one[0] for one in took], 0.99) for name, took in found.items()}
    spent = {name: median(one[1] for one in took) for name, took in found.items()}
    base = [sum(list(some.values())[:2]) for some in (clock, spent)]
    print_table(
        f"Appends of {_BYTES // 1000} KB, one by one",
        ("", "p50", "p99", "to local and commit", "processor time", "to both"),
        [
            (
                name,
                f"{clock[name] * 1e3:.2f} ms",
                f"{late[name] * 1e3:.2f} ms",
                ratio(clock[name], base[0]),
                f"{spent[name] * 1e6:.0f} µs",
                ratio(spent[name], base[1]),
            )
            for name in found
        ],
        "In turns, on one connection each. Processor time is that of the appending thread.",
    )
    compared("append in a space, p50, to local and commit", clock["append in a space"] / base[0], 1.15, "{:.2f}".format)


def _took(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time and the processor time of this thread that work takes, in seconds."""
    clock, spent = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - clock, time.thread_time() - spent


def _seen(stores: list[Store], count: int) -> None:
    """See when another machine is told of an append."""
    here, there = stores
    context = here.contexts.create().context
    told = threading.Event()
    tip = 0

    def observe(change: Change) -> None:
        if change.tip >= tip > 0:
            told.set()

    there.writer.catch_up()
    there.observers.add(observe)
    took = []
    for _ in range(count):
        told.clear()
        began = time.perf_counter()
        tip = here.contexts.append(context, os.urandom(_BYTES), "bench").turn_id
        if there.writer.head(context).turn != tip:
            assert told.wait(10)
        took.append(time.perf_counter() - began)
        time.sleep(0.02)
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    print_table(
        "From an append on one machine to the other that is told of it",
        ("p50", "p99"),
        [(f"{p50 * 1e3:.1f} ms", f"{p99 * 1e3:.1f} ms")],
        "A mount forgets its pages when it is told.",
    )
    compared("seen by another machine, p50, ms", p50 * 1e3, 50, "{:.0f}".format)
    compared("seen by another machine, p99, ms", p99 * 1e3, 500, "{:.0f}".format)


if __name__ == "__main__":
    arguments = parse(options(__doc__ or ""))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
