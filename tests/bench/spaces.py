"""Appends in a space on PostgreSQL: beside local ones and the server's own commits, by many machines at once, and when
another mount shows them.

And then spaces at size: ``tests.bench.joining``.

By itself: ``python -m tests.bench.spaces [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.bench import joining, mounts
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
    run,
)
from tests.proxy import Proxy
from tests.servers import Postgres, postgres_below
from tests.spaces import let_in

_BYTES = 10_000
_NAME = "bench"
_MACHINES = 4
_DELAY = 0.04
"""Of a round trip, in seconds."""


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run, and print both tables; the work lies under ``directory``."""
    work = fresh(directory / "spaces")
    with _site(work) as server:
        _appends(server, work, 100 if quick else 300, rounds or (3 if quick else 9))
        _seen(work, 50 if quick else 300)
        _saturated(server, work, 5.0 if quick else 20.0)
    joining.bench(work, quick=quick, rounds=rounds)


@contextmanager
def _site(work: Path) -> Iterator[Postgres]:
    with ExitStack() as held:
        server = held.enter_context(postgres_below(work))
        place = Place(postgres=server.url(), objects=f"file://{work}/objects")
        remote.init(place, _NAME)
        remote.join(place, _NAME, work / "a", "a")
        let_in(work / "a", work / "b", "b")
        yield server


def _appends(server: Postgres, work: Path, count: int, rounds: int) -> None:
    note(f"spaces: {rounds} rounds of {count} appends")
    with ExitStack() as held:
        # other machines have processors of their own
        replica = held.enter_context(Store.open(work / "a"))
        local = held.enter_context(Store.open(work / "local"))
        connection = held.enter_context(psycopg.connect(server.url(), autocommit=True))
        connection.execute("CREATE TABLE plain (number bigserial PRIMARY KEY, body bytea NOT NULL)")
        connection.execute("ALTER TABLE plain ALTER body SET STORAGE EXTERNAL")
        contexts = {store: store.contexts.create().context for store in (local, replica)}

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


def _seen(work: Path, count: int) -> None:
    """See when a mount shows what was saved in a mount of another machine."""
    note(f"spaces: {count} saves, seen in another mount")
    session = work / "sessions" / "-home-dev-shop" / "0b5e7f5e-0000-4000-8000-000000000001.jsonl"
    session.parent.mkdir(parents=True)
    record = {"type": "user", "uuid": "u0", "sessionId": session.stem, "cwd": "/home/dev/shop"}
    record |= {"timestamp": "2026-03-05T19:31:54.356Z", "message": {"role": "user", "content": "Please."}}
    session.write_text(json.dumps(record) + "\n")
    run([*mounts.convfs_command(work / "a"), "import", session])
    took = []
    with ExitStack() as held:
        here, there = (
            held.enter_context(mounts.mounted(mounts.convfs(work / name), work / f"mnt-{name}", work / "log")).root
            for name in "ab"
        )
        event = next(here.glob("conversations/*/*/events/*-user.md")).relative_to(here)
        head, _, _text = (here / event).read_text().rpartition("---\n")
        while not (there / event).exists():
            time.sleep(0.01)
        for number in range(count):
            text = f"{head}---\nPlease, for the {number}th time.\n"
            began = time.perf_counter()
            (here / event).write_text(text)
            while (there / event).read_text() != text:
                assert time.perf_counter() - began < 30
                time.sleep(0.002)
            took.append(time.perf_counter() - began)
            time.sleep(0.05)
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    print_table(
        "From a save in the mount of one machine until that of another shows it",
        ("p50", "p99"),
        [(f"{p50 * 1e3:.1f} ms", f"{p99 * 1e3:.1f} ms")],
        "The save is in it. Two daemons, and a reader that asks again and again.",
    )
    compared("seen in another mount, p50, ms", p50 * 1e3, 50, "{:.0f}".format)
    compared("seen in another mount, p99, ms", p99 * 1e3, 500, "{:.0f}".format)


def _saturated(server: Postgres, work: Path, seconds: float) -> None:
    """See what machines that append without a pause get, and one more behind a line with a delay."""
    note(f"spaces: {_MACHINES} machines at once, and one behind {_DELAY * 1e3:.0f} ms, {seconds:.0f} s")
    names = [f"m{number}" for number in range(_MACHINES + 1)]
    with Proxy(server.port) as line:
        for name in names:
            place = None
            if name == names[-1]:
                place = Place(
                    postgres=server.url().replace(str(server.port), str(line.port)), objects=f"file://{work}/objects"
                )
            let_in(work / "a", work / name, name, place)
        line.delay = _DELAY / 2
        said = [work / f"{name}.said" for name in names]
        with ExitStack() as held:
            for name, path in zip(names, said, strict=True):
                command = [sys.executable, "-m", "tests.store.shared.machine", work / name, name, "0"]
                process = subprocess.Popen(command, stdout=held.enter_context(path.open("wb")))
                held.callback(process.wait)
                held.callback(process.kill)
            while not all(path.stat().st_size for path in said):
                time.sleep(0.1)
            before = [path.read_bytes().count(b"\n") for path in said]
            time.sleep(seconds)
            rates = [(path.read_bytes().count(b"\n") - one) / seconds for path, one in zip(said, before, strict=True)]
    *near, far = rates
    print_table(
        "Appends a second of machines that append without a pause, all on this one",
        ("together", "slowest, of its share", f"behind {_DELAY * 1e3:.0f} ms"),
        [(f"{sum(near):.0f}", f"{min(near) * len(near) / sum(near):.2f}", f"{far:.1f}")],
        "Processes of their own, as many as there are machines, and the server, on the processors of one machine.",
    )
    compared("commits a second of four machines", sum(near), 250, "{:.0f}".format, at_least=True)
    compared("the slowest, of its share", min(near) * len(near) / sum(near), 0.5, "{:.2f}".format, at_least=True)
    compared("appends a second behind 40 ms", far, 1, "{:.1f}".format, at_least=True)


if __name__ == "__main__":
    arguments = parse(options(__doc__ or ""))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
