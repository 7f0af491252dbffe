"""Scale: time to mount and memory of the daemon, with few conversations and with very many.

The many are small; what may grow with their number is the work at mount, the first listings, and memory. Beside them
stands the passthrough: what any daemon of pyfuse3 costs.

By itself: ``python -m tests.bench.scale [--quick] [--rounds N] [--dir DIR]``.
"""

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench import corpus, mounts
from tests.bench.harness import (
    Skipped,
    can_drop_caches,
    disk_usage,
    drop_caches,
    fresh,
    interleaved,
    median,
    megabytes,
    note,
    options,
    parse,
    print_table,
    ratio,
    resident,
    run,
    seconds,
    timed,
)

EVENTS = 4
PROJECTS = 100
BASE = "pyfuse3 passthrough"


class Sample(NamedTuple):
    """One mount: seconds until it answers, resident bytes then; seconds of two listings, resident bytes after them."""

    mount: float
    memory_at_mount: int
    list_projects: float
    list_project: float
    memory_after: int


def measure(command: mounts.Command, mountpoint: Path, number: int) -> Sample:
    """Mount cold, list the projects and then one project, unmount."""
    if can_drop_caches():
        drop_caches()
    with mounts.mounted(command, mountpoint, mountpoint.with_suffix(".log")) as mount:
        if mount.daemon is None:
            raise Skipped("nothing to measure without a daemon")
        at_mount = resident(mount.daemon.pid)[0]
        top = mountpoint / "conversations"
        projects = timed(partial(_list, top))
        project = timed(partial(_list, top / min(os.listdir(top))))
        mount.check_alive()
        return Sample(mount.mount_seconds, at_mount, projects, project, resident(mount.daemon.pid)[0])


def _list(directory: Path) -> None:
    subprocess.run(["ls", "-l", str(directory)], check=True, stdout=subprocess.DEVNULL, timeout=600)


def _middle(samples: list[Sample]) -> Sample:
    return Sample(
        median(sample.mount for sample in samples),
        int(median(sample.memory_at_mount for sample in samples)),
        median(sample.list_projects for sample in samples),
        median(sample.list_project for sample in samples),
        int(median(sample.memory_after for sample in samples)),
    )


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import both corpora, mount them in turns, print the table; the work lies under ``directory``."""
    work = fresh(directory / "scale")
    rounds = rounds or (1 if quick else 5)
    sizes: dict[str, str] = {}
    contestants = {}
    for count in (100, 1000) if quick else (1000, 100_000):
        source = directory / f"corpus-small-{count}"
        size = corpus.write_corpus(source, sessions=count, events=EVENTS, projects=PROJECTS, scale=0.05)
        store = work / f"store-{count}"
        note(f"scale: importing {count} conversations, {megabytes(size)}")
        took = timed(partial(run, [*mounts.convfs_command(store), "import", source / "projects"]))
        name = f"convfs, {count} conversations"
        sizes[name] = f"{seconds(took)}, {megabytes(disk_usage(store)[0])}"
        contestants[name] = partial(measure, mounts.convfs(store), work / f"mnt-{count}")
    few = work / "few"
    for project in range(PROJECTS):
        for conversation in range(10):
            (few / "conversations" / str(project) / str(conversation)).mkdir(parents=True)
    contestants[BASE] = partial(measure, mounts.passthrough(few), work / "mnt-base")
    note(f"scale: {rounds} rounds of mounting")
    middle = {name: _middle(samples) for name, samples in interleaved(rounds, contestants).items()}
    base = middle[BASE]
    print_table(
        "Mounting",
        ("", "mount", "to bare", "memory", "to bare", "ls projects", "ls a project", "memory then", "import, store"),
        [
            (
                name,
                seconds(sample.mount),
                ratio(sample.mount, base.mount),
                megabytes(sample.memory_at_mount),
                ratio(sample.memory_at_mount, base.memory_at_mount),
                seconds(sample.list_projects),
                seconds(sample.list_project),
                megabytes(sample.memory_after),
                sizes.get(name, "-"),
            )
            for name, sample in middle.items()
        ],
        f"Medians of {rounds} rounds, caches dropped before each. Mount: from the start of the process to the first"
        f" answer. Conversations have {EVENTS} events and lie in {PROJECTS} projects.",
    )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Mount time and memory."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
