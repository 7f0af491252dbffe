"""Memory of the daemon, and how long others wait: while it seals, at rest, after ``find`` and ``grep`` over everything.

Two synthetic corpora are imported and mounted, one thirty times the other. While a command runs over the mount, another
process asks for a name that is not there every 5 ms, which only the daemon can answer. The stores are made once a run
and copied for each round. After an import the daemon has much to do in the background, and a minute later it would
seal, whatever runs then: so it is told to first. What that leaves in its memory is told; the commands run over a mount
that is made anew. A daemon is at rest once it takes next to no processor time.

By itself: ``python -m tests.bench.memory [--quick] [--rounds N] [--dir DIR]``.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench import corpus, mounts
from tests.bench.harness import (
    can_drop_caches,
    compared,
    drop_caches,
    forget_peak,
    fresh,
    interleaved,
    median,
    megabytes,
    note,
    options,
    parse,
    print_summary,
    print_table,
    processor_seconds,
    remove,
    resident,
    run,
    scaled,
    seconds,
    timed,
)

EVENTS = 200
PROJECTS = 40
SIZES = (100, 3000)
QUICK_SIZES = (10, 100)
REST_SECONDS = 20.0
RESTING_SHARE = 0.01
"""The share of a processor that a daemon at rest may take."""
COMMAND_SECONDS = 3600

LARGEST = {"at rest": 60e6, "find": 150e6, "grep, events": 200e6, "grep, transcripts": 200e6}
"""The resident bytes that a daemon may have at most, after each."""
SLOWEST = 0.05
"""Seconds that the slowest answer to another process may take."""

_POLLER = """
import os, select, sys, time
slowest = asked = 0
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.005)[0]:
    began = time.perf_counter()
    os.path.lexists(f"{sys.argv[1]}/nothing-{asked}")
    slowest = max(slowest, time.perf_counter() - began)
    asked += 1
print(slowest)
"""


class Sample(NamedTuple):
    """One command: seconds it took, processor seconds of the daemon, resident bytes after it, slowest answer.

    Of sealing, the most resident bytes meanwhile.
    """

    took: float
    processor: float
    memory: int
    slowest: float


@contextlib.contextmanager
def polled(root: Path) -> Iterator[Callable[[], float]]:
    """Have a process ask a mount something every 5 ms during the block; what is yielded ends it, and says the slowest.

    That is in seconds.
    """
    poller = subprocess.Popen(
        [sys.executable, "-c", _POLLER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert poller.stdout is not None
    try:
        assert poller.stdout.readline() == "ready\n"
        yield lambda: float(poller.communicate("\n", timeout=COMMAND_SECONDS)[0])
    finally:
        poller.kill()
        poller.wait()


def commands(root: Path) -> dict[str, list[str | Path]]:
    """Return the commands by name, in the order in which they run."""
    return {
        "find": ["find", root],
        "grep, events": ["grep", "-rl", corpus.NEEDLE, root / "conversations", "--include=[0-9]*.md"],
        "grep, transcripts": ["grep", "-rl", corpus.NEEDLE, root / "transcripts"],
    }


def measure(store: Path, mountpoint: Path, files: int, _round: int) -> dict[str, Sample]:
    """Mount a store, have it seal, mount it again and run the commands; ``find`` must find so many ``files``."""
    if can_drop_caches():
        drop_caches()
    samples: dict[str, Sample] = {}
    copy = fresh(mountpoint.with_suffix(".store"))
    shutil.copytree(store, copy, dirs_exist_ok=True)

    def sampled(mount: mounts.Mount, name: str, work: Callable[[], object], *, at_most: bool = False) -> None:
        assert mount.daemon is not None
        pid = mount.daemon.pid
        before = processor_seconds(pid)
        forget_peak(pid)
        with polled(mountpoint) as slowest:
            took = timed(work)
            samples[name] = Sample(took, processor_seconds(pid) - before, resident(pid)[at_most], slowest())
        mount.check_alive()

    resting = partial(time.sleep, REST_SECONDS)
    with mounts.mounted(mounts.convfs(copy), mountpoint, mountpoint.with_suffix(".log")) as mount:
        sampled(mount, "after the import", resting)
        sampled(mount, "while it seals", partial(run, [*mounts.convfs_command(copy), "seal"]), at_most=True)
        _settle(mount)
        sampled(mount, "after all that", resting)
    with mounts.mounted(mounts.convfs(copy), mountpoint, mountpoint.with_suffix(".log")) as mount:
        _settle(mount)
        sampled(mount, "at rest", resting)
        for name, command in commands(mountpoint).items():
            sampled(mount, name, partial(_answered, command, files if name == "find" else 1))
    remove(copy)
    return samples


def _settle(mount: mounts.Mount) -> None:
    """Wait until a daemon, which nobody asks meanwhile, is at rest."""
    assert mount.daemon is not None
    pid = mount.daemon.pid
    until = time.monotonic() + COMMAND_SECONDS
    while time.monotonic() < until:
        before = processor_seconds(pid)
        time.sleep(REST_SECONDS)
        if processor_seconds(pid) - before < RESTING_SHARE * REST_SECONDS:
            return
    raise RuntimeError(f"the daemon {pid} has not come to rest in {COMMAND_SECONDS} s")


def _answered(command: list[str | Path], least: int) -> None:
    answers = run(command, timeout=COMMAND_SECONDS).count("\n")
    if answers < least:
        raise RuntimeError(f"{' '.join(map(str, command))}: {answers} answers, at least {least} expected")


def _middle(samples: list[Sample]) -> Sample:
    return Sample(
        median(one.took for one in samples),
        median(one.processor for one in samples),
        int(median(one.memory for one in samples)),
        max(one.slowest for one in samples),
    )


def imported(directory: Path, work: Path, sessions: int) -> tuple[Path, int]:
    """Return a store with a corpus of so many sessions, imported once a run, and the bytes of the corpus."""
    source = directory / f"corpus-{sessions}x{EVENTS}"
    size = corpus.write_corpus(source, sessions=sessions, events=EVENTS, projects=PROJECTS)
    store = work / f"store-{sessions}"
    note(f"memory: importing {sessions} conversations, {megabytes(size)}")
    run([*mounts.convfs_command(store), "import", source / "projects"])
    return store, size


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import both corpora, mount them in turns, print the tables; the work lies under ``directory``."""
    work = fresh(directory / "memory")
    rounds = rounds or (1 if quick else 3)
    sizes: dict[str, int] = {}
    contestants = {}
    for sessions in QUICK_SIZES if quick else SIZES:
        store, size = imported(directory, work, sessions)
        name = f"{sessions} conversations, {megabytes(size)}"
        sizes[name] = size
        contestants[name] = partial(measure, store, work / f"mnt-{sessions}", sessions * EVENTS)
    note(f"memory: {rounds} rounds")
    for name, found in interleaved(rounds, contestants).items():
        middle = {step: _middle([one[step] for one in found]) for step in found[0]}
        print_table(
            f"Memory and waiting, {name}",
            ("", "took", "processor", "memory", "slowest answer to others"),
            [
                (step, seconds(one.took), seconds(one.processor), megabytes(one.memory), seconds(one.slowest))
                for step, one in middle.items()
            ],
            f"Medians of {rounds} rounds, but the slowest answer of all; two daemons a round, asked in this order."
            " Memory: resident, of the daemon, after; while it seals, the most. Its helpers are left out.",
        )
        for step, one in middle.items():
            if step in LARGEST:
                compared(f"memory, {step}, {megabytes(sizes[name])}", one.memory, LARGEST[step], megabytes)
            compared(f"slowest stat of others, {step}, {megabytes(sizes[name])}", one.slowest, SLOWEST, seconds)
            scaled(f"memory, {step}", sizes[name], one.memory, megabytes)
            if step in commands(work):
                scaled(f"{step}: time", sizes[name], one.took, seconds)
                scaled(f"{step}: processor", sizes[name], one.processor, seconds)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Memory of the daemon, and waiting."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()


if __name__ == "__main__":
    main()
