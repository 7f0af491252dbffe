"""Scale: time to mount and memory of the daemon, with few conversations and with very many; and to start a command.

The many are of one small event each, made by the store's own calls, many at once. What may grow with their number is
the work at mount, the first listings, and memory. Beside them stands the passthrough: what any daemon of pyfuse3 costs.
Commands stand beside Python itself.

By itself: ``python -m tests.bench.scale [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fusefs.text.render import FileRenderer
from store.commit.request import NewTurn, Request
from store.store import Store
from tests.bench import corpus, mounts
from tests.bench.harness import (
    Skipped,
    can_drop_caches,
    compared,
    disk_usage,
    drop_caches,
    fresh,
    interleaved,
    median,
    megabytes,
    note,
    options,
    parse,
    print_summary,
    print_table,
    ratio,
    resident,
    run,
    scaled,
    seconds,
    timed,
)

PROJECTS = 100
AT_ONCE = 1000
"""The conversations that are committed together."""
BASE = "pyfuse3 passthrough"
BARE = "python -c pass"
FIRST_LISTING = {100_000: 0.3, 1_000_000: 1.0}
"""The seconds that a mount of so many conversations may take, and the first listing with it."""
LISTED = 0.05
"""The seconds that `convfs ls` may take beyond Python's own."""


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
    made: dict[str, str] = {}
    sizes: dict[str, int] = {}
    contestants = {}
    counts: dict[str, int] = {}
    for count in (100, 1000) if quick else (1000, 100_000, 1_000_000):
        store = work / f"store-{count}"
        note(f"scale: making {count} conversations")
        took = timed(partial(make, store, count))
        name = f"convfs, {count} conversations"
        counts[name], sizes[name] = count, disk_usage(store)[0]
        made[name] = f"{seconds(took)}, {megabytes(sizes[name])}"
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
        ("", "mount", "to bare", "memory", "to bare", "ls projects", "ls a project", "memory then", "made, store"),
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
                made.get(name, "-"),
            )
            for name, sample in middle.items()
        ],
        f"Medians of {rounds} rounds, caches dropped before each. Mount: from the start of the process to the first"
        f" answer. Conversations lie in {PROJECTS} projects.",
    )
    for name, count in counts.items():
        first = middle[name].mount + middle[name].list_projects
        scaled("mount to first ls", sizes[name], first, seconds)
        scaled("memory after two listings", sizes[name], middle[name].memory_after, megabytes)
        if count in FIRST_LISTING:
            compared(f"mount to first ls, {count} conversations", first, FIRST_LISTING[count], seconds)
    _commands(work, quick=quick, rounds=rounds)


def make(root: Path, count: int) -> None:
    """Make a store of so many conversations, and have them measured."""
    line = {"type": "user", "message": {"role": "user", "content": "Have a look at this."}}
    with Store.open(root, renderer=FileRenderer()) as store:
        first = store.contexts.create().context
        turn = store.contexts.append(first, json.dumps(line).encode(), "claude-code.line.v1")
        new = NewTurn(turn.payload_hash, turn.type_tag, turn.encoding, turn.flags, turn.created_ms)
        for start in range(0, count, AT_ONCE):
            asked = [_said(number) for number in range(start, min(start + AT_ONCE, count))]
            store.writer.submit_all([Request(None, turns=[new], changes=one, action="create") for one in asked])
        for project in store.catalogue.projects():
            store.library.conversations(project)


def _said(number: int) -> bytes:
    name = f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}-conversation-{number}"
    said = {"project": f"project-{number % PROJECTS:03}", "name": name, "title": f"Conversation {number}: what to do"}
    return json.dumps(said | {"format": "claude-code"}, separators=(",", ":")).encode()


def _commands(work: Path, *, quick: bool, rounds: int) -> None:
    """Print how long whole commands take, on a store of a corpus that was imported."""
    store = fresh(work / "store-commands")
    source = work / "corpus-commands"
    corpus.write_corpus(source, sessions=20 if quick else 440, events=50, projects=20)
    run([*mounts.convfs_command(store), "import", source / "projects"])
    convfs = mounts.convfs_command(store)
    needed = {"--help": [], "ls": [], "stats": [], "where": ["file:///none"], "search": [corpus.NEEDLE], "show": ["1"]}
    asked = {f"convfs {name}": [*convfs, name, *words] for name, words in needed.items()}
    middle = _taken(asked, rounds)
    with mounts.mounted(mounts.convfs(store), work / "mnt-commands", work / "commands.log"):
        answered = _taken(asked, rounds)
    base, mounted_base = middle[BARE], answered[BARE]
    rows = [
        (name, seconds(time), seconds(max(time - base, 0.0)), seconds(max(answered[name] - mounted_base, 0.0)))
        for name, time in middle.items()
    ]
    print_table(
        "Commands",
        ("", "whole", "beyond Python", "beyond Python, mounted"),
        rows,
        "Mounted: the same command while a daemon mounts the store, and answers it.",
    )
    compared("convfs ls, beyond Python", middle["convfs ls"] - base, LISTED, seconds)
    compared("convfs ls, mounted, beyond Python", answered["convfs ls"] - mounted_base, LISTED, seconds)


def _taken(asked: Mapping[str, Sequence[str | Path]], rounds: int) -> dict[str, float]:
    """Return how long commands take, and Python by itself, run in turns."""

    def whole(command: Sequence[str | Path], _number: int) -> float:
        # without this, Python compiles everything each time
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return timed(lambda: subprocess.run(command, env=kept, capture_output=True, check=False))

    commands = {BARE: [sys.executable, "-c", "pass"], **asked}
    taken = interleaved(3 * rounds, {name: partial(whole, command) for name, command in commands.items()})
    return {name: median(times) for name, times in taken.items()}


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Mount time and memory."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()


if __name__ == "__main__":
    main()
