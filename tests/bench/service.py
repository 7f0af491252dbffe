"""The service: durable appends of 32 agents over the socket, and reads; and what it takes from a lean client.

Each agent is a process of its own with a connection of its own; the service is `convfs serve`. The lean client is one
process with 32 connections, so that most of the machine is left to the service. SQLite is used as people
use it in one process, 32 threads in WAL mode with synchronous=FULL: a connection each, and one behind a lock. That
peer has no socket to cross; so the same agents are also served by a process that inserts what they send into SQLite.
Every record has 10 KB and every acknowledgement is durable; afterwards what was acknowledged is counted.

By itself: ``python -m tests.bench.service [--quick] [--rounds N] [--dir DIR]``.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from store.commit.request import ContextHead
from store.content.compression import Member, pack_records
from store.content.zstd import QUICK
from store.disk.blob_format import Form
from store.disk.turn_format import Encoding, Turn
from store.ids import hash_bytes
from store.service.calls import create_context
from store.service.client import Client, ServiceGone
from store.service.frames import HEADER, Decoder, Frame, encode
from store.service.wire import (
    NONE,
    WHOLE,
    Appended,
    AppendTurn,
    GetLast,
    Hello,
    HelloAnswer,
    TurnsAnswer,
    encode_records,
)
from tests.bench import corpus
from tests.bench.appends import (
    INSERT,
    PAYLOAD_BYTES,
    PLAIN_SQLITE,
    SUSTAINED_SECONDS,
    TYPE_NAME,
    Entry,
    SqliteLocked,
    numbered,
    record_row,
)
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
_ANSWER_BYTES = HEADER.size + Appended.size
_SYNCS = 100

FORK = multiprocessing.get_context("fork")
SERVICE = "convfs, over the socket"
SERVED = "sqlite, one connection, over a socket"
FLOOR = "written and synced, nothing else"


def command(store: Path, *arguments: str | Path) -> list[str]:
    """Return a convfs command line."""
    return [sys.executable, "-m", "fusefs.cli", "--store", str(store), *map(str, arguments)]


@contextlib.contextmanager
def service(directory: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Serve a new store; give the socket and the process."""
    path = directory / "socket"
    with open(directory / "log", "wb") as log:
        daemon = subprocess.Popen(command(directory / "store", "serve", "--socket", path), stderr=log)
    try:
        until = time.monotonic() + _READY_SECONDS
        while True:
            try:
                Client(path).close()
                break
            except ServiceGone:
                if daemon.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((directory / "log").read_text()[-2000:]) from None
                time.sleep(0.01)
        yield path, daemon
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

    def flat_out(self, payloads: list[bytes], count: int, number: int) -> Rushed:
        """Append a round's records as fast as possible."""
        payloads = payloads[number * count :][:count]
        start = FORK.Barrier(AGENTS)
        works = [partial(self._flat_out, payloads[at::AGENTS], start) for at in range(AGENTS)]
        served = processor_seconds(self.daemon)
        found = in_processes(works)
        served = processor_seconds(self.daemon) - served
        self.acknowledged += count
        # the first three of each are when it began and ended, and its processor time
        begin, end = min(times[0] for times in found), max(times[1] for times in found)
        spent = sum(times[2] for times in found)
        self.rest()
        took = [one for times in found for one in times[3:]]
        return Rushed(count / (end - begin), took, served / count, spent / count)

    def _flat_out(self, payloads: list[bytes], start: threading.Barrier) -> list[float]:
        clock = time.perf_counter
        with Client(self.socket) as client:
            context = client.create_context().context
            start.wait()
            times = []
            spent = time.process_time()
            began = before = clock()
            for payload in payloads:
                client.append(context, payload, TYPE_NAME)
                now = clock()
                times.append(now - before)
                before = now
            spent = time.process_time() - spent
            # the end of a process takes its time, too: not from those who are still at it
            start.wait()
        return [began, before, spent, *times]

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


class Rushed(NamedTuple):
    """Records a second, the seconds that each took, and the processor seconds of the daemon and of clients for each."""

    rate: float
    times: list[float]
    served: float = 0.0
    spent: float = 0.0


class Pipes:
    """One process with many connections and an epoll: the least that a client can be, so that the service is measured.

    Each connection has one append on its way at a time.
    """

    def __init__(self, agents: Agents, *, store: bool = True) -> None:
        """Connect to where ``agents`` do; ``store`` says that there is one behind the socket."""
        self.path = agents.socket
        self.daemon = agents.daemon
        self._rest = agents.rest
        self.acknowledged = 0
        self._store = store

    def append(self, connections: int, payloads: list[bytes], each: int, number: int) -> Piped:
        """Append a round's records, whose frames are made before."""
        run = self._run(connections, payloads[number * each :][:each], 0.0)
        self._rest()
        return run

    def sustained(self, connections: int, payloads: list[bytes], length: float) -> Piped:
        """Append for ``length`` seconds: these records again and again, each time with another number in them."""
        return self._run(connections, payloads, length)

    def _run(self, connections: int, payloads: list[bytes], length: float) -> Piped:
        spent = processor_seconds(self.daemon)
        ((took, share, *times),) = in_processes([partial(self._append, connections, payloads, length)])
        spent = processor_seconds(self.daemon) - spent
        self.acknowledged += len(times)
        return Piped(len(times) / took, times, share, spent / len(times))

    def _append(self, connections: int, payloads: list[bytes], length: float) -> list[float]:
        contexts = list(range(1, connections + 1))
        if self._store:
            with Client(self.path) as client:
                contexts = [client.create_context().context for _ in range(connections)]
        made: list[Iterator[bytes]] = []
        for at, context in enumerate(contexts):
            mine = payloads[at::connections]
            # in a short run, nothing but sending is timed
            made.append(_framed(context, numbered(mine)) if length else iter(list(_framed(context, mine))))
        with contextlib.ExitStack() as stack:
            epoll = stack.enter_context(contextlib.closing(select.epoll()))
            ready: dict[int, tuple[socket.socket, Iterator[bytes]]] = {}
            for frames in made:
                pipe = stack.enter_context(socket.socket(socket.AF_UNIX))
                pipe.connect(str(self.path))
                # a frame goes out in one call
                pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                epoll.register(pipe.fileno(), select.EPOLLIN)
                ready[pipe.fileno()] = (pipe, frames)
            clock, times, sent = time.perf_counter, list[float](), dict[int, float]()
            began, spent = clock(), time.process_time()
            for fd, (pipe, frames) in ready.items():
                sent[fd] = clock()
                pipe.sendall(next(frames))
            while sent:
                for fd, _events in epoll.poll():
                    pipe, frames = ready[fd]
                    answer = pipe.recv(_ANSWER_BYTES + 1)
                    if len(answer) != _ANSWER_BYTES or answer[4] != AppendTurn.number:
                        raise RuntimeError(f"this is no answer to an append: {answer!r}")
                    now = clock()
                    times.append(now - sent.pop(fd))
                    frame = None if length and now - began > length else next(frames, None)
                    if frame is not None:
                        sent[fd] = now
                        pipe.sendall(frame)
            took = clock() - began
            return [took, (time.process_time() - spent) / took, *times]


class Piped(NamedTuple):
    """Records a second, the seconds that each took, the client's share of one core, and the daemon's processor seconds
    for each.
    """

    rate: float
    times: list[float]
    share: float
    cost: float


def _framed(context: int, payloads: Iterable[bytes]) -> Iterator[bytes]:
    for payload in payloads:
        described = (TYPE_NAME, 0, Encoding.JSON, NONE, len(payload), hash_bytes(payload))
        yield encode(Frame(AppendTurn.number, 0, AppendTurn(context, 0, *described, payload).encode()))


@contextlib.contextmanager
def floor(directory: Path, place: Path | None = None) -> Iterator[Agents]:
    """Serve what does next to nothing: a process that reads what comes with an epoll, and answers each frame. At most,
    it writes what has come to the file at ``place``, and syncs that, before it answers all of it.
    """
    path = directory / ("floor" if place is None else "floor-synced")
    with _served(path, partial(_do_nothing, place)) as agents:
        yield agents


@contextlib.contextmanager
def sqlite_service(directory: Path) -> Iterator[tuple[Agents, SqliteLocked]]:
    """Serve SQLite as the floor is served, in place of its file: each record is committed before it is answered."""
    kept = SqliteLocked(fresh(directory))
    kept.close()
    with _served(directory / "socket", partial(_insert, kept)) as agents:
        yield agents, kept


@contextlib.contextmanager
def _served(path: Path, work: Callable[[socket.socket], None]) -> Iterator[Agents]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(AGENTS)
        process = FORK.Process(target=work, args=(listener,))
        process.start()
        try:
            yield Agents(path, process.pid or 0)
        finally:
            process.kill()
            process.join()


_RECORD = Turn(1, 0, 0, 0, 0, hash_bytes(b""), 0, 0)
_NOTHING: dict[tuple[int, int], bytes] = {
    (Hello.number, 0): HelloAnswer(1).encode(),
    (create_context.number, 0): create_context.result.encode(ContextHead(1, 0, 0)),
    (AppendTurn.number, 0): Appended(1, 1, 0, _RECORD.payload_hash).encode(),
    (AppendTurn.number, WHOLE): encode_records([_RECORD]),
}
"""The answers of the floor, by message and flags."""
_FLOOR_BYTES = 32 << 20


def _do_nothing(place: Path | None, listener: socket.socket) -> None:
    file, at = -1, 0
    if place is not None:
        # as a journal is: written over, so that a sync has no metadata to write
        file = os.open(place, os.O_RDWR | os.O_CREAT)
        os.pwrite(file, bytes(_FLOOR_BYTES), 0)
        os.fsync(file)
    for frames in _gathered(listener):
        if place is not None and frames:
            entry = b"".join([frame.payload for _pipe, frame in frames])
            at = at if at + len(entry) <= _FLOOR_BYTES else 0
            os.pwrite(file, entry, at)
            os.fdatasync(file)
            at += len(entry)
        for pipe, frame in frames:
            _answer(pipe, frame)


def _insert(kept: SqliteLocked, listener: socket.socket) -> None:
    depths = itertools.count(1)
    with contextlib.closing(kept.connect()) as connection:
        for frames in _gathered(listener):
            for pipe, frame in frames:
                if frame.msg_type == AppendTurn.number:
                    turn = AppendTurn.decode(frame.payload, frame.flags)
                    connection.execute(INSERT, record_row(turn.context, next(depths), turn.payload))
                _answer(pipe, frame)


def _answer(pipe: socket.socket, frame: Frame) -> None:
    pipe.send(encode(Frame(frame.msg_type, frame.req_id, _NOTHING[frame.msg_type, frame.flags])))


def _gathered(listener: socket.socket) -> Iterator[list[tuple[socket.socket, Frame]]]:
    """Yield the frames that are there, and the sockets that they came from, again and again."""
    epoll = select.epoll()
    epoll.register(listener.fileno(), select.EPOLLIN)
    pipes: dict[int, tuple[socket.socket, Decoder]] = {}
    while True:
        frames: list[tuple[socket.socket, Frame]] = []
        ready, seen = epoll.poll(), -1
        # as long as more comes, as the service does
        while len(frames) > seen:
            seen = len(frames)
            for fd, _events in ready:
                if fd == listener.fileno():
                    pipe, _address = listener.accept()
                    pipes[pipe.fileno()] = (pipe, Decoder())
                    epoll.register(pipe.fileno(), select.EPOLLIN)
                    continue
                pipe, decoder = pipes[fd]
                data = pipe.recv(256 << 10)
                if not data:
                    pipes.pop(fd)[0].close()
                    continue
                frames += [(pipe, frame) for frame in decoder.feed(data)]
            ready = epoll.poll(0)
        yield frames


def hash_seconds(payloads: list[bytes]) -> tuple[float, float]:
    """Return the processor seconds that one thread takes to hash a record, and to compress one as packs are."""
    start = time.process_time()
    for payload in payloads:
        hash_bytes(payload)
    hashed = time.process_time()
    pack_records([Member(hash_bytes(one), Form.PLAIN, len(one), one) for one in payloads], None, QUICK)
    packed = time.process_time()
    return (hashed - start) / len(payloads), (packed - hashed) / len(payloads)


def sync_seconds(directory: Path, size: int) -> float:
    """Return the median time that a write of ``size`` bytes over others and its fdatasync take."""
    place = directory / "sync"
    data = bytes(size)
    times = []
    with open(place, "wb", buffering=0) as file:
        file.write(bytes(_SYNCS * size))
        os.fsync(file.fileno())
        for at in range(_SYNCS):
            start = time.perf_counter()
            os.pwrite(file.fileno(), data, at * size)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    place.unlink()
    return median(times)


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
    _piped(fresh(directory), rounds or (2 if quick else 5), quick=quick)


def _appends(directory: Path, rounds: int, *, quick: bool) -> None:
    slow, fast, long = (320, 3200, 3200) if quick else (1600, 9600, 38_400)
    # a connection each takes SQLite twenty times as long
    counts = dict(zip(PLAIN_SQLITE, (fast // 20, fast), strict=True))
    # what is stored already would be cheaper to store
    payloads = corpus.payloads((slow + fast) * rounds, PAYLOAD_BYTES)
    payloads, calm_payloads = payloads[slow * rounds :], payloads[: slow * rounds]
    entries = {name: Entry(name, directory / "sqlite") for name in PLAIN_SQLITE}
    with (
        service(directory) as (path, daemon),
        floor(directory, directory / "synced") as least,
        sqlite_service(directory / "served") as (served_agents, kept),
    ):
        agents = Agents(path, daemon.pid)
        note(f"service: {rounds} rounds of {AGENTS} agents, ten a second each")
        calm = interleaved(
            rounds,
            {
                SERVICE: partial(agents.paced, calm_payloads, slow),
                **{name: partial(sqlite_paced, entry, calm_payloads, slow) for name, entry in entries.items()},
            },
        )
        note(f"service: {rounds} rounds of {AGENTS} agents, as fast as they can")
        rushed: dict[str, list[Rushed]] = interleaved(
            rounds,
            {
                SERVICE: partial(agents.flat_out, payloads, fast),
                FLOOR: partial(least.flat_out, payloads, fast),
                SERVED: partial(served_agents.flat_out, payloads, fast),
                **{name: partial(_sqlite_flat_out, entry, payloads, counts[name]) for name, entry in entries.items()},
            },
        )
        note("service: without a pause")
        endless = agents.flat_out(corpus.payloads(long, PAYLOAD_BYTES, seed=2), long, 0)
        note("service: reading")
        read = agents.read(200 if quick else 1000, 0)
        with Client(path) as client:
            stored = client.stats().turns - READ_TURNS
        if stored != agents.acknowledged:
            raise RuntimeError(f"{agents.acknowledged} appends were acknowledged, {stored} are there")
    if kept.count() != served_agents.acknowledged:
        raise RuntimeError(f"{served_agents.acknowledged} appends were acknowledged, {kept.count()} are there")
    for entry in entries.values():
        entry.verify()

    def over(name: str, share: float) -> float:
        return median(percentile(times, share) for times in calm[name])

    rate = {name: median(run.rate for run in results) for name, results in rushed.items()}
    served, spent = (median(costs) for costs in zip(*((run.served, run.spent) for run in rushed[SERVICE]), strict=True))
    locked, idle, inserting = (
        median(costs)
        for costs in (
            [run.spent for run in rushed[PLAIN_SQLITE[1]]],
            [run.served for run in rushed[FLOOR]],
            [run.served for run in rushed[SERVED]],
        )
    )
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
            seconds(median(percentile(run.times, 0.99) for run in rushed[name])) if rushed[name][0].times else "",
        )
        for name in (SERVICE, *PLAIN_SQLITE)
    ]
    print_table(
        f"{AGENTS} agents append {PAYLOAD_BYTES // 1024} KB, durably",
        ("", "10/s each: p50", "to sqlite", "p99", "to sqlite", "flat out", "to sqlite", "p99"),
        rows,
        "convfs: a process and a connection an agent. sqlite: 32 threads of one process, no socket in between. Ratios"
        " are to the better of the two, column by column: below 1 is better for latencies, above 1 for the rate. Flat"
        f" out, an append took the daemon {seconds(served)} of processor, the agents {seconds(spent)}, SQLite behind a"
        f" lock {seconds(locked)}: the next table has clients that take next to nothing, of both. The floor, a service"
        f" that writes and syncs what has come and does nothing else, answers these agents at {rate[FLOOR]:.0f}/s ="
        f" {ratio(rate[FLOOR], base_rate)}, with {seconds(idle)} of processor. SQLite behind a socket like that answers"
        f" these agents at {rate[SERVED]:.0f}/s, with {seconds(inserting)} of processor; convfs is at"
        f" {ratio(rate[SERVICE], rate[SERVED])} of that."
        f" GET_LAST of {READ_TURNS} with payloads, warm: p50 {seconds(percentile(read, 0.5))}, p99"
        f" {seconds(percentile(read, 0.99))}. {long * PAYLOAD_BYTES / 1e6:.0f} MB without a pause:"
        f" {endless.rate:.0f}/s = {ratio(endless.rate, base_rate)}, p99 {seconds(percentile(endless.times, 0.99))}.",
    )


def _piped(directory: Path, rounds: int, *, quick: bool) -> None:
    """Measure the service itself, with a client that takes next to nothing, and SQLite beside it."""
    one, many, basis = (200, 3200, 640) if quick else (1000, 9600, 4800)
    payloads = corpus.payloads((one + many) * rounds, PAYLOAD_BYTES, seed=3)
    alone, together = payloads[: one * rounds], payloads[one * rounds :]
    locked = Entry(PLAIN_SQLITE[1], directory / "sqlite")
    loop = Entry(PLAIN_SQLITE[1], directory / "sqlite-loop")
    note(f"service: {rounds} rounds of one connection and of {AGENTS}, from one process")
    with (
        service(directory) as (path, daemon),
        floor(directory) as idler,
        floor(directory, directory / "synced") as least,
    ):
        pipes = Pipes(Agents(path, daemon.pid))
        results: dict[str, list[Any]] = interleaved(
            rounds,
            {
                "one": partial(pipes.append, 1, alone, one),
                "many": partial(pipes.append, AGENTS, together, many),
                "synced": partial(Pipes(least, store=False).append, AGENTS, together, many),
                "floor": partial(Pipes(idler, store=False).append, AGENTS, together, many),
                "sqlite": partial(_sqlite_flat_out, locked, together, basis),
                "loop": partial(_sqlite_in_turns, loop, alone, one),
                "sync": lambda _number: [sync_seconds(directory, size * PAYLOAD_BYTES) for size in (1, AGENTS)],
            },
        )
        note("service: for a while")
        results["sustained"] = [pipes.sustained(AGENTS, together, 5.0 if quick else SUSTAINED_SECONDS)]
        with Client(path) as client:
            stored = client.stats().turns
        if stored != pipes.acknowledged:
            raise RuntimeError(f"{pipes.acknowledged} appends were acknowledged, {stored} are there")
    locked.verify()
    loop.verify()
    note("service: sqlite for a while")
    for_long = Entry(PLAIN_SQLITE[1], directory / "sqlite").sustained(together, 5.0 if quick else SUSTAINED_SECONDS)
    base, looped = (median(run.rate for run in results[name]) for name in ("sqlite", "loop"))
    names = {
        "one": "one connection",
        "many": f"{AGENTS} connections",
        "sustained": f"{AGENTS} connections, sustained",
        "synced": f"{AGENTS} connections, {FLOOR}",
        "floor": f"{AGENTS} connections, answered without anything",
    }
    rows = [
        (
            name,
            f"{median(run.rate for run in results[key]):.0f}/s",
            ratio(median(run.rate for run in results[key]), for_long if key == "sustained" else base),
            ratio(median(run.rate for run in results[key]), looped),
            *(seconds(median(percentile(run.times, share) for run in results[key])) for share in (0.5, 0.99)),
            seconds(median(run.cost for run in results[key])),
            f"{median(run.share for run in results[key]):.0%}",
        )
        for key, name in names.items()
    ]
    hashed, packed = hash_seconds(together[:many])
    single, grouped = (median(syncs[at] for syncs in results["sync"]) for at in (0, 1))
    print_table(
        f"Appends of {PAYLOAD_BYTES // 1024} KB over the socket, from one process that does nothing else",
        ("", "rate", "to sqlite", "to its loop", "p50", "p99", "daemon's processor each", "client's share of a core"),
        rows,
        f"sqlite: {AGENTS} threads with one connection behind a lock, {base:.0f}/s, sustained"
        f" {for_long:.0f}/s. Its loop: one thread that appends one record after the other, as little as a client of it"
        f" can be, {looped:.0f}/s. Writing and syncing {PAYLOAD_BYTES}"
        f" bytes takes this disk {seconds(single)}, {AGENTS} times as much {seconds(grouped)}: one connection's p50 is"
        " that and what the service adds. The daemon's processor time has what it did in the background meanwhile: of"
        f" that, and of all, hashing one record takes {seconds(hashed)}, compressing it for the packs {seconds(packed)}"
        " (several together, once, in a thread that does nothing else).",
    )


def _sqlite_flat_out(entry: Entry, payloads: list[bytes], count: int, number: int) -> Rushed:
    run = entry.throughput(payloads, count, number)
    return Rushed(run.rate, [], spent=run.spent)


def _sqlite_in_turns(entry: Entry, payloads: list[bytes], count: int, number: int) -> Rushed:
    times = entry.latencies(payloads, count, number)
    return Rushed(len(times) / sum(times), times)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("The service: 32 agents, reads."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
