"""Stalls: the slowest ``stat`` of others while something large is done to a store that is mounted.

One process asks every five milliseconds for a file that the kernel does not know, so that the daemon must answer, and
for one of an event, by turns. Its slowest answer is told for each of the things done meanwhile: every conversation is
given a label, and the label another name, a text is redacted, what was removed is collected, and all is sealed. What
it takes while nothing else is done says what the machine itself holds up.

By itself: ``python -m tests.bench.stalls [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.bench import corpus, mounts
from tests.bench.harness import (
    compared,
    fresh,
    median,
    megabytes,
    note,
    options,
    parse,
    print_summary,
    print_table,
    run,
    seconds,
)

EVENTS = 20
PROJECTS = 20
LABEL = "user.convfs.label.all"
QUIET_SECONDS = 5
SLOWEST = 0.05
"""Seconds that the slowest answer to others may take."""

PROBE = r"""
import json, os, sys, time
root, files = sys.argv[1], json.loads(sys.stdin.readline())
print("ready", flush=True)
taken, number, ended = [], 0, []
import threading
threading.Thread(target=lambda: ended.append(sys.stdin.read()), daemon=True).start()
while not ended:
    number += 1
    path = f"{root}/conversations/nothing-{number}" if number % 2 else files[number // 2 % len(files)]
    began = time.perf_counter()
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    taken.append(time.perf_counter() - began)
    time.sleep(0.005)
taken.sort()
print(json.dumps([taken[-1], taken[len(taken) * 99 // 100], len(taken)]))
"""


class Slowest(NamedTuple):
    """Seconds of the slowest answer, of the slowest but one in a hundred, and that all of it took."""

    slowest: float
    nearly: float
    took: float


def meanwhile(root: Path, files: list[str], do: Callable[[], object]) -> Slowest:
    """Return how slow answers are while something is done."""

    probe = subprocess.Popen(
        [sys.executable, "-c", PROBE, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert probe.stdin is not None
    assert probe.stdout is not None
    probe.stdin.write(json.dumps(files) + "\n")
    probe.stdin.flush()
    probe.stdout.readline()
    began = time.perf_counter()
    try:
        do()
        took = time.perf_counter() - began
    finally:
        told, _error = probe.communicate(timeout=120)
    slowest, nearly, _count = json.loads(told)
    return Slowest(slowest, nearly, took)


def measure(store: Path, mountpoint: Path) -> dict[str, Slowest]:
    """Do everything once to a mounted store; return what others waited meanwhile, at most."""
    convfs = mounts.convfs_command(store)
    with mounts.mounted(mounts.convfs(store), mountpoint, mountpoint.with_suffix(".log")) as mount:
        listed = mountpoint / "conversations"
        conversations = [path for project in sorted(listed.iterdir()) for path in sorted(project.iterdir())]
        files = [str(next(iter(sorted((path / "events").iterdir())))) for path in conversations[:50]]

        def label() -> None:
            for path in conversations:
                os.setxattr(path, LABEL, b"")

        def remove() -> None:
            for path in conversations[-len(conversations) // 10 :]:
                shutil.rmtree(path)
            run([*convfs, "prune", "--trash", "--yes"])

        def redact() -> None:
            subprocess.run(
                [*map(str, convfs), "redact", "--stdin", "--yes"],
                input=corpus.NEEDLE,
                check=True,
                capture_output=True,
                text=True,
            )

        by_label = mountpoint / "by-label"
        done = {
            "nothing else": lambda: subprocess.run(["sleep", str(QUIET_SECONDS)], check=True),
            "each conversation given a label": label,
            "the label given another name": lambda: os.rename(by_label / "all", by_label / "every"),
            "a tenth removed, the trash emptied": remove,
            "gc": lambda: run([*convfs, "gc"]),
            "seal": lambda: run([*convfs, "seal"]),
            "redact": redact,
        }
        found = {}
        for name, do in done.items():
            note(f"stalls: {name}")
            found[name] = meanwhile(mountpoint, files, do)
            mount.check_alive()
        return found


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import the conversations, mount the store, print the table; the work lies under ``directory``."""
    work = fresh(directory / "stalls")
    count = 300 if quick else 3000
    source = directory / f"corpus-{count}x{EVENTS}"
    size = corpus.write_corpus(source, sessions=count, events=EVENTS, projects=PROJECTS)
    note(f"stalls: importing {count} conversations, {megabytes(size)}")
    run([*mounts.convfs_command(work / "store"), "import", source / "projects"])
    samples: list[dict[str, Slowest]] = []
    for number in range(rounds or 1):
        copy = work / f"store-{number}"
        shutil.copytree(work / "store", copy)
        samples.append(measure(copy, work / "mount"))
        shutil.rmtree(copy)
    print_table(
        f"The slowest stat of others, {count} conversations of {megabytes(size)}",
        ("meanwhile", "slowest", "99 of 100", "it took"),
        [
            (
                name,
                seconds(median(sample[name].slowest for sample in samples)),
                seconds(median(sample[name].nearly for sample in samples)),
                seconds(median(sample[name].took for sample in samples)),
            )
            for name in samples[0]
        ],
        "Commands that need the store to themselves (fsck, reindex) are refused while it is mounted.",
    )
    for name in samples[0]:
        slowest = median(sample[name].slowest for sample in samples)
        compared(f"slowest stat of others, {name}", slowest, SLOWEST, seconds)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("The slowest stat while something large is done."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()


if __name__ == "__main__":
    main()
