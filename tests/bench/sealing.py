"""Sealing: a store that grew bit by bit, as it is and sealed: its size, grep over it, and reading single events.

Sessions of the synthetic corpus are appended side by side, a few records at a time, and packed in between, as they are
when people work with several agents for days. A copy of that store is sealed. Each round mounts either with a fresh
daemon and the kernel's caches dropped.

By itself: ``python -m tests.bench.sealing [--quick] [--rounds N] [--dir DIR]``.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from store.conversations.contexts import Append
from store.store import Store
from tests.bench import corpus, mounts, words
from tests.bench.harness import (
    can_drop_caches,
    drop_caches,
    fresh,
    interleaved,
    median,
    megabytes,
    note,
    options,
    parse,
    print_table,
    processor_seconds,
    ratio,
    run,
    seconds,
)

TYPE = "claude-code.line.v1"
SIDE_BY_SIDE = 8
AT_ONCE = 4
SINGLE_EVENTS = 20


class Sample(NamedTuple):
    """Seconds that a command took, and seconds of processor time that the daemon used for it."""

    took: float
    processor: float


def grow(root: Path, sessions: int, events: int) -> None:
    """Make a store that grew: some sessions at a time, a few records of each by turns, then packed."""
    vocabulary = words.Vocabulary()
    projects = [corpus.Project(number, vocabulary) for number in range(4)]
    waiting = iter(range(sessions))
    running: list[tuple[int, Iterator[bytes]]] = []
    with Store.open(root) as store:
        while True:
            for number in islice(waiting, SIDE_BY_SIDE - len(running)):
                session = corpus.Session(number, projects[number % len(projects)], vocabulary)
                name = {"project": f"p{number % len(projects)}", "name": f"s{number:04}"}
                running.append((store.contexts.create(metadata=name).context, session.records(events)))
            if not running:
                return
            for each in list(running):
                context, records = each
                some = [Append(record.rstrip(b"\n"), TYPE) for record in islice(records, AT_ONCE)]
                if some:
                    store.contexts.append_many(context, some)
                else:
                    running.remove(each)
                # as it comes to pass a second after each step of an agent
                store.checkpointer.flush()


def measure(store: Path, mountpoint: Path, command: list[str], round_number: int) -> Sample:
    """Run a command on a fresh mount of a store."""
    with mounts.mounted(mounts.convfs(store), mountpoint, mountpoint.with_suffix(".log")) as mount:
        if can_drop_caches():
            drop_caches()
        assert mount.daemon
        used = processor_seconds(mount.daemon.pid)
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=mount.root, env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, check=True
        )
        took = time.perf_counter() - start
        mount.check_alive()
        assert done.stdout
        return Sample(took, processor_seconds(mount.daemon.pid) - used)


def commands(root: Path) -> dict[str, list[str]]:
    """Return the commands by name; they run in the root of a mount like that at ``root``."""
    conversations = sorted(path.relative_to(root) for path in root.glob("conversations/*/*"))
    one = conversations[len(conversations) // 2]
    events = sorted(str(path.relative_to(root)) for path in (root / one / "events").iterdir())
    single = [events[at * len(events) // SINGLE_EVENTS] for at in range(min(SINGLE_EVENTS, len(events)))]
    return {
        "grep -r, events of one conversation": ["grep", "-rc", "a", f"{one}/events"],
        "grep, transcript of one conversation": ["grep", "-c", "a", f"transcripts/{one.parent.name}/{one.name}.md"],
        "grep -r, all transcripts": ["grep", "-rc", "a", "transcripts"],
        "cat, one event": ["cat", single[len(single) // 2]],
    }


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Make both stores, compare them and print tables; the work lies under ``directory``."""
    work = fresh(directory / "sealing")
    sessions, events = (16, 60) if quick else (96, 200)
    stores = {"as it grew": work / "grown", "sealed": work / "sealed"}
    note(f"sealing: a store of {sessions} sessions of {events} events grows")
    grow(stores["as it grew"], sessions, events)
    shutil.copytree(stores["as it grew"], stores["sealed"])
    run([*mounts.convfs_command(stores["sealed"]), "seal"])
    sizes = {name: sum(path.stat().st_size for path in (root / "blobs").iterdir()) for name, root in stores.items()}
    mountpoint = work / "mnt"
    for root in stores.values():
        # every event is measured once, which is not what is compared here
        with mounts.mounted(mounts.convfs(root), mountpoint, work / "mnt.log") as mount:
            run(["find", "conversations", "-name", "*.md", "-size", "+1k"], cwd=mount.root)
            asked = commands(mount.root)
    rows = [("packs", *(megabytes(sizes[name]) for name in stores), ratio(sizes["as it grew"], sizes["sealed"]), "")]
    for name, command in asked.items():
        samples = interleaved(
            rounds or (1 if quick else 7),
            {each: partial(measure, root, mountpoint, command) for each, root in stores.items()},
        )
        took = {each: median(sample.took for sample in found) for each, found in samples.items()}
        used = {each: median(sample.processor for sample in found) for each, found in samples.items()}
        rows.append(
            (
                name,
                *(seconds(took[each]) for each in stores),
                ratio(took["as it grew"], took["sealed"]),
                ratio(used["as it grew"], used["sealed"]),
            )
        )
    temperature = "caches dropped" if can_drop_caches() else "CACHES NOT DROPPED, which takes root"
    print_table(
        f"Sealing: {sessions} sessions of {events} events",
        ("", *stores, "times less", "times less of the daemon's processor"),
        rows,
        f"Medians; a fresh daemon each time, {temperature}.",
    )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Sealing: size, grep, single events."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
