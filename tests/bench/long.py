"""Long: one conversation of very many events, and everybody else meanwhile.

The first name and all names of ``events/``, the save of an edit at its start, in its middle and at its end, and an
event added as a file. While each goes on, another process asks every few milliseconds for files of another
conversation: the slowest answer says how long the long one held anybody up.

By itself: ``python -m tests.bench.long [--quick] [--rounds N] [--dir DIR]``.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tests.bench import corpus, mounts, words
from tests.bench.harness import (
    compared,
    disk_usage,
    fresh,
    megabytes,
    note,
    options,
    parse,
    percentile,
    print_summary,
    print_table,
    resident,
    run,
    scaled,
    seconds,
    timed,
)

OTHER_EVENTS = 2000
SCALE = 0.05
_EVERY_SECONDS = 0.005
ASKED = {
    "first name": 0.3,
    "all names": 3.0,
    "a save at the start": 0.05,
    "a save at the middle": 0.05,
    "a save at the end": 0.05,
    "an added event": 0.05,
}
"""The seconds that each may take at most,"""
SLOWEST = 0.05
"""… an answer to others meanwhile,"""
LARGEST = 300e6
"""… and the resident bytes of the daemon after all of it."""


class Gesture(NamedTuple):
    """One thing done: the seconds that it took, and those of the answers to others meanwhile; memory afterwards."""

    took: float
    others: list[float]
    memory: int


def _probe(directory: str, connection: Connection) -> None:
    """Ask for events of a conversation until told to end; send the seconds of the answers whenever told to."""
    took: list[float] = []
    number = 0
    while True:
        number = number % OTHER_EVENTS + 1
        began = time.perf_counter()
        # a name that leads to the event, and is not the one that the kernel remembers
        with suppress(FileNotFoundError):
            os.stat(f"{directory}/{number:05}-probe.md")
        took.append(time.perf_counter() - began)
        if connection.poll(max(_EVERY_SECONDS - took[-1], 0)):
            if not connection.recv():
                return
            connection.send(took)
            took = []


class Others:
    """Another process, which looks at another conversation all the time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def seconds(self) -> list[float]:
        """Return the seconds that the answers since the last call took."""
        self._connection.send(True)
        took: list[float] = self._connection.recv()
        return took


@contextmanager
def others(directory: Path) -> Iterator[Others]:
    """Look at the files of ``directory`` for the time of the block."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_probe, args=(str(directory), there), daemon=True)
    process.start()
    try:
        yield Others(here)
    finally:
        here.send(False)
        process.join(10)


def write_sessions(directory: Path, events: int) -> None:
    """Write a session of that many events, and a short one, under ``directory``."""
    vocabulary = words.Vocabulary()
    for number, count in enumerate((events, OTHER_EVENTS)):
        project = corpus.Project(number, vocabulary)
        folder = directory / "projects" / project.directory
        folder.mkdir(parents=True)
        session = corpus.Session(number, project, vocabulary, SCALE)
        with open(folder / f"{session.id}.jsonl", "wb") as file:
            file.writelines(session.records(count))


def _names(events: Path) -> list[str]:
    with os.scandir(events) as entries:
        return [entry.name for entry in entries]


def _first_name(events: Path) -> str:
    with os.scandir(events) as entries:
        return next(entries).name


def _save(events: Path, name: str, line: str) -> None:
    """Save an event with one more line, and look at it."""
    with open(events / name, "rb") as file:
        text = file.read()
    (events / name).write_bytes(text + line.encode())
    if not (events / name).read_bytes().endswith(line.encode()):
        raise RuntimeError(f"{name} was not saved")


def _add(events: Path, line: str) -> None:
    (events / "user.md").write_text(line)
    os.stat(events / "user.md")


def _long_events(root: Path) -> tuple[Path, Path]:
    """Return ``events/`` of the long conversation, and of the other one."""
    found = sorted(
        (path for path in (root / "conversations").glob("*/*") if path.is_dir() and not path.name.startswith(".")),
        key=lambda path: os.stat(path / "events.json").st_size,
    )
    return found[-1] / "events", found[0] / "events"


def measure(store: Path, mountpoint: Path, events: int) -> dict[str, Gesture]:
    """Mount a store, do everything once, in order; return what each took."""
    with mounts.mounted(mounts.convfs(store), mountpoint, mountpoint.with_suffix(".log")) as mount:
        if mount.daemon is None:
            raise RuntimeError("there is no daemon to measure")
        pid = mount.daemon.pid
        long, other = _long_events(mountpoint)
        done: dict[str, Gesture] = {}
        with others(other) as meanwhile:
            time.sleep(0.5)

            def do(name: str, work: Callable[[], object]) -> None:
                meanwhile.seconds()
                took = timed(work)
                # what follows from it is a part of it
                time.sleep(0.5)
                done[name] = Gesture(took, meanwhile.seconds(), resident(pid)[0])
                note(f"long: {name}: {seconds(took)}, others {seconds(max(done[name].others))}")

            do("nothing", lambda: None)
            do("first name", partial(_first_name, long))
            do("all names", partial(_names, long))
            do("all names again", partial(_names, long))
            names = _names(long)
            if len(names) < events:
                raise RuntimeError(f"{len(names)} names of {events} events")
            places = {"start": 40, "middle": len(names) // 2, "end": -40}
            for where, at in places.items():
                own = [name for name in names[at : at + 40 or None] if name.endswith("-user.md")]
                name = own[0] if own else names[at]
                do(f"a save at the {where}", partial(_save, long, name, f"saved at the {where}\n"))
                do(f"all names after a save at the {where}", partial(_names, long))
            do("an added event", partial(_add, long, "one more\n"))
            do("all names after an added event", partial(_names, long))
            mount.check_alive()
            if len(_names(long)) != len(names) + 1:
                raise RuntimeError("the added event is not there once")
        return done


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run and print a table for each size; the work lies under ``directory``."""
    work = fresh(directory / "long")
    for events in (5_000,) if quick else (50_000, 500_000):
        source, store = work / f"sessions-{events}", work / f"store-{events}"
        note(f"long: writing and importing {events} events")
        write_sessions(source, events)
        size = disk_usage(source)[1]
        run([*mounts.convfs_command(store), "import", source / "projects"])
        runs = [measure(store, work / f"mnt-{events}", events) for _ in range(rounds or 1)]
        print_table(
            f"A conversation of {events} events",
            ("", "took", "others p99", "others slowest", "memory"),
            [
                (
                    name,
                    seconds(min(one[name].took for one in runs)),
                    seconds(percentile([took for one in runs for took in one[name].others], 0.99)),
                    seconds(max(took for one in runs for took in one[name].others)),
                    megabytes(max(one[name].memory for one in runs)),
                )
                for name in runs[0]
            ],
            f"Others: another process, which looks up an event of a conversation of {OTHER_EVENTS} events every"
            f" {1000 * _EVERY_SECONDS:.0f} ms, also for half a second after each. Times are the least of"
            f" {len(runs)} runs, which edit the same store in turns; memory is that of the daemon, afterwards.",
        )
        for name, asked in ASKED.items():
            took = min(one[name].took for one in runs)
            compared(f"{name}, {events} events", took, asked, seconds)
            scaled(f"long: {name}", size, took, seconds)
        others_waited = max(took for one in runs for gesture in one.values() for took in gesture.others)
        memory = max(gesture.memory for one in runs for gesture in one.values())
        compared(f"slowest stat of others, {events} events", others_waited, SLOWEST, seconds)
        compared(f"memory after all, {events} events", memory, LARGEST, megabytes)
        scaled("long: memory after all", size, memory, megabytes)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("One very long conversation."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()


if __name__ == "__main__":
    main()
