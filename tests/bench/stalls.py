"""Stalls: the slowest ``stat`` of others while something large is done to a store that is mounted.

One process asks every five milliseconds for a file that the kernel does not know, so that the daemon must answer, and
for one of an event, by turns. Its slowest answer is told for each of the things done meanwhile: every conversation is
given a label, and the label another name, a text is redacted, what was removed is collected, all is sealed, sessions
are imported and indexed; and then all of that at once. Beside it stands what the machine itself holds up: another
process asks another daemon just so at the same time, one that does nothing else (``tests.bench.passthrough``, of an
empty directory). And so do the longest step of the daemon's loop, and the longest time for which another thread kept
Python from it, both in processor time (``tests.bench.steps``).

And the same in a space behind a line with a delay, and one that stops, while a conversation is changed.

By itself: ``python -m tests.bench.stalls [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from fusefs.daemon.operations import file_turns
from store.service.caller import Caller
from store.shared import remote
from store.shared.space import Place
from tests.bench import corpus, mounts, steps
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
from tests.proxy import Proxy
from tests.servers import postgres_below

EVENTS = 20
PROJECTS = 20
LABEL = "user.convfs.label.all"
QUIET_SECONDS = 5
SLOWEST = 0.05
"""Seconds that the slowest answer to others may take,"""
LONGEST = 0.02
"""… and seconds of processor time that the daemon may go without answering."""
ANOTHER = "quixotic-marigold"
"""Stands in the sessions that are imported meanwhile, in the place of what stands in the others."""
_NOTED_SECONDS = 0.015
_DELAY = 0.04
"""Of a round trip, in seconds."""
_STALL_SECONDS = 3.0
_SAVES = 20

PROBE = r"""
import json, os, sys, time
root, files = sys.argv[1], json.loads(sys.stdin.readline())
print("ready", flush=True)
taken, number, ended = [], 0, []
import threading
threading.Thread(target=lambda: ended.append(sys.stdin.read()), daemon=True).start()
while not ended:
    number += 1
    path = f"{root}/nothing-{number}" if number % 2 or not files else files[number // 2 % len(files)]
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
    """Seconds of the slowest answer, of the slowest but one in a hundred, and the same of the bare daemon; that all of
    it took; then of processor time, of the longest step of the daemon's loop, and the longest time for which it was
    kept from going on.
    """

    slowest: float
    nearly: float
    bare: float
    bare_nearly: float
    took: float
    step: float = 0.0
    held: float = 0.0


class _Probe:
    """A process that asks below a directory, for what is not there and for ``files``; it asks once this is there."""

    def __init__(self, directory: Path, files: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROBE, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([*files]) + "\n")
        self._process.stdin.flush()
        self._process.stdout.readline()

    def end(self) -> tuple[float, float]:
        """End it; return the seconds of its slowest answer, and of the slowest but one in a hundred."""
        answer, _error = self._process.communicate(timeout=120)
        slowest, nearly, _count = json.loads(answer)
        return slowest, nearly


def meanwhile(
    root: Path, files: Sequence[str], bare: Path, do: Callable[[], object], told: Path | None = None
) -> Slowest:
    """Return how slow answers are while something is done, of a mount of convfs and of a ``bare`` daemon.

    ``told`` is the file of the daemon's steps.
    """
    probes = (_Probe(root / "conversations", files), _Probe(bare))
    began = time.perf_counter()
    from_then_on = time.monotonic()
    try:
        do()
        took = time.perf_counter() - began
    finally:
        own, other = [probe.end() for probe in probes]
    longest = {"loop": 0.0, "held": 0.0}
    for step in reversed(steps.read(told, from_then_on, time.monotonic()) if told is not None else []):
        longest[step.what] = step.seconds
        if step.seconds >= _NOTED_SECONDS:
            note(f"  {step.what} {seconds(step.seconds)}: {step.where}")
    return Slowest(*own, *other, took, longest["loop"], longest["held"])


def measure(store: Path, mountpoint: Path, more: Path, bare: Path) -> dict[str, Slowest]:
    """Do everything once to a mounted store, and import the sessions ``more``; return what others waited meanwhile."""
    convfs = mounts.convfs_command(store)
    told = mountpoint.with_suffix(".steps")
    told.unlink(missing_ok=True)
    command = (sys.executable, "-m", "tests.bench.steps", told, "--store", store, "mount", mountpoint, "--foreground")
    with mounts.mounted(lambda _mountpoint: command, mountpoint, mountpoint.with_suffix(".log")) as mount:
        listed = mountpoint / "conversations"
        conversations: list[Path] = []
        halves = sorted(more.iterdir())

        def list_all() -> None:
            conversations.extend(path for project in sorted(listed.iterdir()) for path in sorted(project.iterdir()))

        note("stalls: all listed")
        found = {"all listed, right after mounting": meanwhile(mountpoint, [str(listed)], bare, list_all, told)}
        files = [str(min((path / "events").iterdir())) for path in conversations[:50]]

        def label(name: str = LABEL) -> None:
            for path in conversations[: len(conversations) * 9 // 10]:
                os.setxattr(path, name, b"")

        def remove() -> None:
            for path in conversations[-len(conversations) // 10 :]:
                shutil.rmtree(path)
            run([*convfs, "prune", "--trash", "--yes"])

        def redact(text: str = corpus.NEEDLE) -> None:
            subprocess.run(
                [*map(str, convfs), "redact", "--stdin", "--yes"],
                input=text,
                check=True,
                capture_output=True,
                text=True,
            )

        def index() -> None:
            run([*convfs, "import", halves[0]])
            with Caller.of(store) as daemon:
                while daemon.call(file_turns(0.0)).turns:
                    time.sleep(0.1)

        def all_at_once() -> None:
            together: Sequence[Callable[[], object]] = [
                lambda: run([*convfs, "import", halves[1]]),
                lambda: run([*convfs, "gc"]),
                lambda: run([*convfs, "seal"]),
                lambda: redact(ANOTHER),
                lambda: label(f"{LABEL}-2"),
            ]
            threads = [threading.Thread(target=one) for one in together]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        by_label = mountpoint / "by-label"
        done: dict[str, Callable[[], object]] = {
            "nothing else": lambda: subprocess.run(["sleep", str(QUIET_SECONDS)], check=True),
            "each conversation given a label": label,
            "the label given another name": lambda: os.rename(by_label / "all", by_label / "every"),
            "a tenth removed, the trash emptied": remove,
            "gc": lambda: run([*convfs, "gc"]),
            "seal": lambda: run([*convfs, "seal"]),
            "redact": redact,
            "import, and indexing": index,
            "all of these at once": all_at_once,
        }
        for name, do in done.items():
            note(f"stalls: {name}")
            found[name] = meanwhile(mountpoint, files, bare, do, told)
            mount.check_alive()
        return found


class _Placed(NamedTuple):
    """Sessions: those that a store begins with, and two folders of more."""

    first: Path
    more: Path
    conversations: int
    size: int


def _sessions(directory: Path, work: Path, count: int) -> _Placed:
    """Write sessions; a tenth of them, with another text to be redacted, is imported later, in two halves."""
    size = corpus.write_corpus(directory / f"corpus-{count}x{EVENTS}", sessions=count, events=EVENTS, projects=PROJECTS)
    placed = _Placed(work / "sessions", work / "more", count, size)
    for number, path in enumerate(sorted((directory / f"corpus-{count}x{EVENTS}" / "projects").glob("*/*.jsonl"))):
        late = number % 10 == 0
        folder = placed.more / str(number % 20 // 10) if late else placed.first
        to = folder / path.parent.name / path.name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes().replace(corpus.NEEDLE.encode(), (ANOTHER if late else corpus.NEEDLE).encode()))
    return placed


def far(work: Path, sessions: Path, bare: Path) -> dict[str, Slowest]:
    """Change a conversation in a mount of a space far away; return what others waited meanwhile, at most."""
    with ExitStack() as held:
        server = held.enter_context(postgres_below(work))
        line = held.enter_context(Proxy(server.port))
        url = server.url().replace(f":{server.port}/", f":{line.port}/")
        place = Place(postgres=url, objects=f"file://{work}/objects")
        remote.init(place, "far")
        remote.join(place, "far", work / "far", "far")
        run([*mounts.convfs_command(work / "far"), "import", sessions])
        root = held.enter_context(mounts.mounted(mounts.convfs(work / "far"), work / "mount", work / "far.log")).root
        conversations = sorted((root / "conversations").glob("*/*/events"))
        files = [str(min(path.iterdir())) for path in conversations[1:50]]
        event = next(path for path in sorted(conversations[0].iterdir()) if path.name.endswith("-user.md"))

        def save(count: int) -> None:
            for number in range(count):
                event.write_text(f"{event.read_text()}{number}\n")

        def stalled() -> None:
            saving = threading.Thread(target=save, args=(1,))
            line.stall()
            saving.start()
            time.sleep(_STALL_SECONDS)
            line.heal()
            saving.join()

        found = {"nothing else": meanwhile(root, files, bare, lambda: time.sleep(QUIET_SECONDS))}
        line.delay = _DELAY / 2
        name = f"{_SAVES} saves behind {1000 * _DELAY:.0f} ms"
        found[name] = meanwhile(root, files, bare, lambda: save(_SAVES))
        line.delay = 0.0
        found["a save, and the line stops"] = meanwhile(root, files, bare, stalled)
        return found


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import the conversations, mount the store, print the tables; the work lies under ``directory``."""
    work = fresh(directory / "stalls")
    count = 300 if quick else 3000
    placed = _sessions(directory, work, count)
    note(f"stalls: importing {count} conversations, {megabytes(placed.size)}")
    run([*mounts.convfs_command(work / "store"), "import", placed.first])
    bare = mounts.passthrough(fresh(work / "nothing"))
    with mounts.mounted(bare, work / "bare", work / "bare.log") as daemon:
        _here(work, placed, rounds or 1, daemon.root)
        _away(work, min(placed.more.iterdir()), daemon.root)
        daemon.check_alive()


_COLUMNS = ("meanwhile", "slowest", "99 of 100", "of a bare daemon", "99 of 100", "it took")


def _here(work: Path, placed: _Placed, rounds: int, bare: Path) -> None:
    samples: list[dict[str, Slowest]] = []
    for number in range(rounds):
        copy = work / f"store-{number}"
        shutil.copytree(work / "store", copy)
        samples.append(measure(copy, work / "mount", placed.more, bare))
        shutil.rmtree(copy)
    middle = {
        name: Slowest(*map(median, zip(*(sample[name] for sample in samples), strict=True))) for name in samples[0]
    }
    print_table(
        f"The slowest stat of others, {placed.conversations} conversations of {megabytes(placed.size)}",
        (*_COLUMNS, "longest step", "longest hold"),
        [(name, *map(seconds, one)) for name, one in middle.items()],
        "The last two are processor time: of a step of the daemon's loop, and of what kept it from going on."
        " Commands that need the store to themselves (fsck, reindex) are refused while it is mounted.",
    )
    for name, one in middle.items():
        compared(f"slowest stat of others, {name}", one.slowest, SLOWEST, seconds)
        compared(f"longest step or hold, {name}", max(one.step, one.held), LONGEST, seconds)


def _away(work: Path, sessions: Path, bare: Path) -> None:
    note("stalls: in a space")
    away = far(work, sessions, bare)
    print_table(
        "The slowest stat of others while one conversation is saved to in a space",
        _COLUMNS,
        [(name, *map(seconds, one[:5])) for name, one in away.items()],
        f"The server is PostgreSQL on this machine; the line to it stops for {_STALL_SECONDS:.0f} s.",
    )
    for name, one in away.items():
        compared(f"slowest stat of others, in a space, {name}", one.slowest, SLOWEST, seconds)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("The slowest stat while something large is done."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()


if __name__ == "__main__":
    main()
