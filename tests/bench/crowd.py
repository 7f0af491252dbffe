"""200 connections beside a mount: what they wait for, how quick the mount is, how soon it shows an append, its memory.

The load is bounded: as much as is appended to 20 conversations in ten minutes of it has been appended before, and
measured as a daemon does in the background: the minute that is run is the one after these.

By itself: ``python -m tests.bench.crowd [--quick] [--dir DIR]``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.service.client import Client
from store.store import Store
from tests.bench.appends import TYPE_NAME
from tests.bench.harness import (
    Skipped,
    fresh,
    megabytes,
    needs,
    note,
    options,
    parse,
    percentile,
    print_table,
    resident,
    seconds,
)
from tests.bench.mounts import mounted
from tests.bench.service import in_processes
from tests.threads import side_by_side

CONNECTIONS = 200
CONVERSATIONS = 20
PROJECT = "bench"
_PROCESSES = 20
_LS_SECONDS = 0.1
_PARTS = 4
_APPENDED_BEFORE = 6000
_PATIENCE_SECONDS = 10.0


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run and print the table; the work lies under ``directory``. There is one round, whatever ``rounds`` says."""
    try:
        needs("fusermount3")
    except Skipped as error:
        note(f"crowd: skipped: {error}")
        return
    directory = fresh(directory / "crowd")
    length, before = (5.0, 200) if quick else (60.0, _APPENDED_BEFORE)
    store, mountpoint = directory / "store", directory / "mnt"
    note(f"crowd: {CONVERSATIONS} conversations of {before} turns each")
    _fill(store, before)
    with mounted(partial(_command, store), mountpoint, directory / "mount.log") as mount:
        assert mount.daemon is not None
        socket = _socket(store)
        note("crowd: how soon an append is seen, by nobody else's side")
        (alone,) = in_processes([partial(_delays, socket, mountpoint, min(length, 10.0))])
        note(f"crowd: {CONNECTIONS} connections for {length:.0f} s, beside a mount")
        loads = [partial(_mixed, socket, length, number) for number in range(_PROCESSES)]
        watches: list[Callable[[], list[float]]] = [
            partial(_memory, mount.daemon.pid, length),
            partial(_list, mountpoint / "conversations" / PROJECT, length),
            partial(_list, store / "turns", length),
            partial(_delays, socket, mountpoint, length),
        ]
        # each in a process of its own: what is forked off a process with threads would wait for these
        memory, listings, plain, delays, *took = in_processes([*watches, *loads])
        mount.check_alive()
    parts = [f"memory {at}/{_PARTS}" for at in range(1, _PARTS + 1)]
    times = [one for some in took for one in some]
    print_table(
        f"{CONNECTIONS} connections that append, read and list, beside a mount",
        (
            "",
            "requests",
            "p50",
            "p99",
            "ls p50",
            "ls p99",
            "slowest ls",
            *parts,
        ),
        [
            (
                "convfs",
                f"{len(times) / length:.0f}/s",
                *(seconds(percentile(times, share)) for share in (0.5, 0.99)),
                *(seconds(percentile(listings, share)) for share in (0.5, 0.99)),
                seconds(max(listings)),
                *map(megabytes, memory),
            )
        ],
        "One error in any of the requests would have ended the run. `ls` of a directory of the disk, at the same time:"
        f" p50 {seconds(percentile(plain, 0.5))}, p99 {seconds(percentile(plain, 0.99))}, slowest"
        f" {seconds(max(plain))}. An append is seen in `ls` and `stat` of a"
        f" conversation that was looked at before {_said(alone)} after its acknowledgement where nobody else appends,"
        f" {_said(delays)} beside the load.",
    )


def _said(delays: list[float]) -> str:
    return f"p50 {seconds(percentile(delays, 0.5))}, p99 {seconds(percentile(delays, 0.99))}"


def _command(store: Path, mountpoint: Path) -> list[str]:
    return [sys.executable, "-m", "fusefs.cli", "--store", str(store), "mount", "--foreground", str(mountpoint)]


def _fill(path: Path, turns: int) -> None:
    with Store.open(path, renderer=FileRenderer()) as store:
        names = ({"project": PROJECT, "name": f"conversation-{number:02}"} for number in range(CONVERSATIONS))
        contexts = [store.contexts.create(metadata=dict(name)).context for name in names]
        for number in range(turns):
            # as agents do that append side by side: no conversation's turns lie together
            payloads = [f"turn {number} of {context}".encode() for context in contexts]
            requests = [
                store.contexts.appending(context, payload, TYPE_NAME)
                for context, payload in zip(contexts, payloads, strict=True)
            ]
            store.writer.submit_all([request for request in requests if request is not None])
        for context in contexts:
            store.library.conversation(context)


def _socket(store: Path) -> Path:
    for line in (store / "lock").read_text().splitlines():
        if line.startswith("socket "):
            return Path(line.removeprefix("socket "))
    raise RuntimeError("the mount has no socket")


# -- what is measured beside the load ----------------------------------------------------------------------------------


def _memory(pid: int, length: float) -> list[float]:
    """Return the resident bytes of a process at the end of each part of the time."""
    found: list[float] = []
    for _ in range(_PARTS):
        time.sleep(length / _PARTS)
        found.append(resident(pid)[0])
    return found


def _list(directory: Path, length: float) -> list[float]:
    """List a directory every now and then; return what it took."""
    times = []
    until = time.monotonic() + length
    while time.monotonic() < until:
        time.sleep(_LS_SECONDS)
        start = time.perf_counter()
        subprocess.run(["ls", str(directory)], check=True, stdout=subprocess.DEVNULL, timeout=60)
        times.append(time.perf_counter() - start)
    return times


def _delays(socket: Path, mountpoint: Path, length: float) -> list[float]:
    """Append to a conversation of its own; return how long after each acknowledgement both ways to look show it."""
    name = f"seen-{os.getpid()}"
    found = []
    transcript = mountpoint / "transcripts" / PROJECT / f"{name}.md"
    events = mountpoint / "conversations" / PROJECT / name / "events"
    with Client(socket) as client:
        context = client.create_context(metadata={"project": PROJECT, "name": name}).context
        until = time.monotonic() + length
        while time.monotonic() < until:
            before = (transcript.stat().st_size, len(os.listdir(events)))
            client.append(context, b"one more", TYPE_NAME)
            start = time.perf_counter()
            while transcript.stat().st_size == before[0] or len(os.listdir(events)) == before[1]:
                if time.perf_counter() > start + _PATIENCE_SECONDS:
                    raise RuntimeError("an append is not seen in the mount")
            found.append(time.perf_counter() - start)
            time.sleep(_LS_SECONDS)
    return found


# -- the load ----------------------------------------------------------------------------------------------------------


def _mixed(socket: Path, length: float, number: int) -> list[float]:
    """Do this and that over ten connections, a thread each, with pauses as an agent has; return what each took."""
    each = CONNECTIONS // _PROCESSES

    def work(at: int) -> list[float]:
        seed = number * each + at
        rng = random.Random(seed)
        times: list[float] = []
        with Client(socket) as client:
            # half of them go on with what is there, five with each conversation
            shared = client.find(PROJECT, f"conversation-{seed // 2 % CONVERSATIONS:02}") if seed % 2 else None
            context = shared.id if shared else client.create_context().context
            until = time.monotonic() + length
            while time.monotonic() < until:
                time.sleep(rng.random() / 5)
                start = time.perf_counter()
                match rng.randrange(5):
                    case 0 | 1:
                        client.append(context, rng.randbytes(rng.randrange(1, 5000)).hex().encode(), TYPE_NAME)
                    case 2:
                        client.last(context, 64)
                    case 3:
                        client.head(context)
                    case 4:
                        client.range_by_depth(context, 0, 16)
                times.append(time.perf_counter() - start)
        return times

    return list(chain.from_iterable(side_by_side(each, work)))


def main() -> None:
    """Run by itself."""
    arguments = parse(options("200 connections beside a mount."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
