"""The service: durable appends of 32 agents over the socket, and reads.

Each agent is a process of its own with a connection of its own; the service is `convfs serve`. SQLite is used as people
use it in one process, 32 threads in WAL mode with synchronous=FULL: a connection each, and one behind a lock. Every
record has 10 KB and every acknowledgement is durable; afterwards what was acknowledged is counted.

By itself: ``python -m tests.bench.service [--quick] [--rounds N] [--dir DIR]``.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from store.service.client import Client, ServiceGone
from store.service.wire import GetLast, TurnsAnswer
from tests.bench import corpus
from tests.bench.appends import PAYLOAD_BYTES, PLAIN_SQLITE, TYPE_NAME, Entry
from tests.bench.harness import (
    fresh,
    interleaved,
    median,
    note,
    options,
    parse,
    percentile,
    print_table,
    processor_seconds,
    ratio,
    seconds,
)

AGENTS = 32
A_SECOND = 10
READ_TURNS = 64
_READY_SECONDS = 30.0
_REST_SECONDS = 1.5
_IDLE_SHARE = 0.25

FORK = multiprocessing.get_context("fork")
SERVICE = "convfs, over the socket"


def command(store: Path, *arguments: str | Path) -> list[str]:
    """Return a convfs command line."""
    return [sys.executable, "-m", "fusefs.cli", "--store", str(store), *map(str, arguments)]


@contextlib.contextmanager
def service(directory: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Serve a new store; give the socket and the process."""
    socket = directory / "socket"
    with open(directory / "log", "wb") as log:
        daemon = subprocess.Popen(command(directory / "store", "serve", "--socket", socket), stderr=log)
    try:
        until = time.monotonic() + _READY_SECONDS
        while True:
            try:
                Client(socket).close()
                break
            except ServiceGone:
                if daemon.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((directory / "log").read_text()[-2000:]) from None
                time.sleep(0.01)
        yield socket, daemon
    finally:
        daemon.terminate()
        daemon.wait(60)


def in_processes(works: list[Callable[[], list[float]]]) -> list[list[float]]:
    """Do each of these in a process of its own, all at once; return what each returned, in their order."""
    pipes: list[Connection] = []
    processes = []
    for work in works:
        receiver, sender = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_send_result, args=(work, sender))
        process.start()
        sender.close()
        pipes.append(receiver)
        processes.append(process)
    try:
        return [pipe.recv() for pipe in pipes]
    except EOFError:
        raise RuntimeError("an agent failed: see above") from None
    finally:
        for process in processes:
            process.join()


def _send_result(work: Callable[[], list[float]], sender: Connection) -> None:
    sender.send(work())


def paced(append: Callable[[bytes], object], payloads: list[bytes], offset: float) -> list[float]:
    """Append ten times a second; return the seconds that each append took."""
    clock = time.perf_counter
    due = clock() + offset
    times = []
    for payload in payloads:
        time.sleep(max(due - clock(), 0))
        due += 1 / A_SECOND
        start = clock()
        append(payload)
        times.append(clock() - start)
    return times


class Agents:
    """32 processes, each with its own connection and its own conversation."""

    def __init__(self, socket: Path, daemon: int) -> None:
        self.socket = socket
        self.daemon = daemon
        self.acknowledged = 0

    def rest(self) -> None:
        """Wait until the daemon has done what it left for later, so that nobody else's turn is disturbed by it."""
        before = -1.0
        while (spent := processor_seconds(self.daemon)) - before > _IDLE_SHARE * _REST_SECONDS:
            before = spent
            time.sleep(_REST_SECONDS)

    def flat_out(self, payloads: list[bytes], count: int, number: int) -> tuple[float, list[float]]:
        """Append a round's records as fast as possible; return records a second, and what each took."""
        payloads = payloads[number * count :][:count]
        start = FORK.Barrier(AGENTS)
        works = [partial(self._flat_out, payloads[at::AGENTS], start) for at in range(AGENTS)]
        found = in_processes(works)
        self.acknowledged += count
        # the first two of each are when it began and ended
        begin, end = min(times[0] for times in found), max(times[1] for times in found)
        self.rest()
        return count / (end - begin), [took for times in found for took in times[2:]]

    def _flat_out(self, payloads: list[bytes], start: threading.Barrier) -> list[float]:
        clock = time.perf_counter
        with Client(self.socket) as client:
            context = client.create_context().context
            start.wait()
            times = []
            began = before = clock()
            for payload in payloads:
                client.append(context, payload, TYPE_NAME)
                now = clock()
                times.append(now - before)
                before = now
            # the end of a process takes its time, too: not from those who are still at it
            start.wait()
        return [began, before, *times]

    def paced(self, payloads: list[bytes], count: int, number: int) -> list[float]:
        """Append a round's records, ten a second from each agent; return what each took."""
        payloads = payloads[number * count :][:count]
        self.acknowledged += count
        found = in_processes([partial(self._paced, payloads[at::AGENTS], at) for at in range(AGENTS)])
        return [took for times in found for took in times]

    def _paced(self, payloads: list[bytes], at: int) -> list[float]:
        with Client(self.socket) as client:
            context = client.create_context().context
            return paced(partial(client.append, context, type_name=TYPE_NAME), payloads, at / AGENTS / A_SECOND)

    def read(self, count: int, _number: int) -> list[float]:
        """Read the last 64 turns with their payloads, warm; return what each time took."""
        with Client(self.socket) as client:
            context = client.create_context().context
            for payload in corpus.payloads(READ_TURNS, PAYLOAD_BYTES, seed=1):
                client.append(context, payload, TYPE_NAME)
            return in_processes([partial(self._read, context, count)])[0]

    def _read(self, context: int, count: int) -> list[float]:
        from store.service.call import Ask

        message = GetLast(context, READ_TURNS, True)
        ask = Ask(message.number, 0, message.encode(), lambda answers: TurnsAnswer.decode(answers[-1]))
        times = []
        with Client(self.socket) as client:
            for _ in range(count):
                start = time.perf_counter()
                answer = client.ask(ask)
                times.append(time.perf_counter() - start)
                if len(answer.items) != READ_TURNS:
                    raise RuntimeError(f"{len(answer.items)} turns came")
        return times


def sqlite_paced(entry: Entry, payloads: list[bytes], count: int, number: int) -> list[float]:
    """Let 32 threads append ten times a second each."""
    payloads = payloads[number * count :][:count]
    entry.given += payloads
    found: list[float] = []

    def work(mine: list[bytes], at: int) -> None:
        with entry.contestant.writer() as append:
            found.extend(paced(append, mine, at / AGENTS / A_SECOND))

    threads = [threading.Thread(target=work, args=(payloads[at::AGENTS], at)) for at in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run and print the tables; the work lies under ``directory``."""
    directory = fresh(directory / "service")
    _appends(directory, rounds or (2 if quick else 5), quick=quick)


def _appends(directory: Path, rounds: int, *, quick: bool) -> None:
    slow, fast, long = (320, 3200, 3200) if quick else (1600, 9600, 38_400)
    # a connection each takes SQLite twenty times as long
    counts = dict(zip(PLAIN_SQLITE, (fast // 20, fast), strict=True))
    # what is stored already would be cheaper to store
    payloads = corpus.payloads((slow + fast) * rounds, PAYLOAD_BYTES)
    payloads, calm_payloads = payloads[slow * rounds :], payloads[: slow * rounds]
    entries = {name: Entry(name, directory / "sqlite") for name in PLAIN_SQLITE}
    with service(directory) as (socket, daemon):
        agents = Agents(socket, daemon.pid)
        note(f"service: {rounds} rounds of {AGENTS} agents, ten a second each")
        calm = interleaved(
            rounds,
            {
                SERVICE: partial(agents.paced, calm_payloads, slow),
                **{name: partial(sqlite_paced, entry, calm_payloads, slow) for name, entry in entries.items()},
            },
        )
        note(f"service: {rounds} rounds of {AGENTS} agents, as fast as they can")
        rushed: dict[str, list[tuple[float, list[float]]]] = interleaved(
            rounds,
            {
                SERVICE: partial(agents.flat_out, payloads, fast),
                **{name: partial(_sqlite_flat_out, entry, payloads, counts[name]) for name, entry in entries.items()},
            },
        )
        note("service: without a pause")
        endless, endless_times = agents.flat_out(corpus.payloads(long, PAYLOAD_BYTES, seed=2), long, 0)
        note("service: reading")
        read = agents.read(200 if quick else 1000, 0)
        with Client(socket) as client:
            stored = client.stats().turns - READ_TURNS
        if stored != agents.acknowledged:
            raise RuntimeError(f"{agents.acknowledged} appends were acknowledged, {stored} are there")
    for entry in entries.values():
        entry.verify()

    def over(name: str, share: float) -> float:
        return median(percentile(times, share) for times in calm[name])

    rate = {name: median(value for value, _times in results) for name, results in rushed.items()}
    base50, base99 = (min(over(name, share) for name in PLAIN_SQLITE) for share in (0.5, 0.99))
    base_rate = max(rate[name] for name in PLAIN_SQLITE)
    rows = [
        (
            name,
            seconds(over(name, 0.5)),
            ratio(over(name, 0.5), base50),
            seconds(over(name, 0.99)),
            ratio(over(name, 0.99), base99),
            f"{rate[name]:.0f}/s",
            ratio(rate[name], base_rate),
            seconds(median(percentile(times, 0.99) for _value, times in rushed[name])) if rushed[name][0][1] else "",
        )
        for name in (SERVICE, *PLAIN_SQLITE)
    ]
    print_table(
        f"{AGENTS} agents append {PAYLOAD_BYTES // 1024} KB, durably",
        ("", "10/s each: p50", "to sqlite", "p99", "to sqlite", "flat out", "to sqlite", "p99"),
        rows,
        "convfs: a process and a connection an agent. sqlite: 32 threads of one process, no socket in between. Ratios"
        " are to the better of the two, column by column: below 1 is better for latencies, above 1 for the rate."
        f" GET_LAST of {READ_TURNS} with payloads, warm: p50 {seconds(percentile(read, 0.5))}, p99"
        f" {seconds(percentile(read, 0.99))}. {long * PAYLOAD_BYTES / 1e6:.0f} MB without a pause:"
        f" {endless:.0f}/s = {ratio(endless, base_rate)}, p99 {seconds(percentile(endless_times, 0.99))}.",
    )


def _sqlite_flat_out(entry: Entry, payloads: list[bytes], count: int, number: int) -> tuple[float, list[float]]:
    return entry.throughput(payloads, count, number), []


def main() -> None:
    """Run by itself."""
    arguments = parse(options("The service: 32 agents, reads."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
