"""Editing: one save in a long conversation, a fork of it, and what a small change of a large text takes on disk.

Every contestant keeps the same files, one an event, and must have the old state as well as the new one after each
save, on disk: convfs does by itself, git commits, and a plain directory copies the file before it is replaced. A fork
is another conversation with the same events: in a plain directory a copy, in git a branch in a worktree of its own.
Afterwards it is checked that what was saved last is there, and what was saved before it.

By itself: ``python -m tests.bench.editing [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from store.paths import SETTINGS
from tests.bench import mounts
from tests.bench.harness import (
    disk_usage,
    fresh,
    interleaved,
    median,
    needs,
    note,
    options,
    parse,
    print_table,
    ratio,
    run,
    seconds,
)

SAVES = 20
FORKS = 5
LARGE_LINES = 16_000
_PROJECT = "-home-dev-code-editing"


class Contestant(Protocol):
    """One way to keep a conversation. Files of events are in ``events``."""

    events: Path

    def save(self, name: str, text: bytes) -> None:
        """Save an event; return once it and the state before are on disk."""

    def fork(self, name: str) -> None:
        """Make a conversation with the same events."""

    def earlier(self, name: str) -> bytes:
        """Return an event as it was before the last save."""


class Convfs:
    """A conversation in the mount."""

    def __init__(self, root: Path) -> None:
        self._conversation = next((root / "conversations").glob("*/*"))
        self.events = self._conversation / "events"

    def save(self, name: str, text: bytes) -> None:
        """Write the file as a shell does: opened anew, written, closed."""
        (self.events / name).write_bytes(text)
        os.stat(self.events / name)

    def fork(self, name: str) -> None:
        """Make a directory below ``forks/``."""
        os.mkdir(self._conversation / "forks" / name)

    def earlier(self, name: str) -> bytes:
        """Read it below ``.versions/``."""
        versions = self._conversation / ".versions"
        return (versions / sorted(os.listdir(versions))[-2] / "events" / name).read_bytes()


class Plain:
    """A plain directory; the old state is a copy of the file."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.events = root / "conversation" / "events"

    def save(self, name: str, text: bytes) -> None:
        """Copy the file, write a new one and rename it, all of it synced."""
        _write_synced(self.events.parent / f"{name}.old", (self.events / name).read_bytes())
        _write_synced(self.events.parent / f"{name}.new", text)
        os.rename(self.events.parent / f"{name}.new", self.events / name)
        _sync_directory(self.events)

    def fork(self, name: str) -> None:
        """Copy everything."""
        shutil.copytree(self.events.parent, self._root / name)

    def earlier(self, name: str) -> bytes:
        """Return the copy."""
        return (self.events.parent / f"{name}.old").read_bytes()


class Git:
    """A git repository that syncs its objects and references."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.events = root / "conversation" / "events"
        self._git("init", "-q")
        for key, value in (
            ("core.fsync", "all"),
            ("user.name", "b"),
            ("user.email", "b@example.org"),
            ("gc.auto", "0"),
        ):
            self._git("config", key, value)
        self._git("add", "-A")
        self._git("commit", "-qm", "begun")

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "-C", str(self.events.parent), *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=600).stdout

    def save(self, name: str, text: bytes) -> None:
        """Write the file and commit it."""
        (self.events / name).write_bytes(text)
        self._git("commit", "-qm", "edit", "--", f"events/{name}")

    def fork(self, name: str) -> None:
        """Make a branch in a worktree of its own."""
        self._git("worktree", "add", "-q", "-b", name, str(self._root / name))

    def earlier(self, name: str) -> bytes:
        """Ask for the commit before the last."""
        return self._git("show", f"HEAD~1:events/{name}")


def _write_synced(path: Path, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


class Sample(NamedTuple):
    """Seconds of one save of the first event, of one of the last, and of a fork."""

    first: float
    last: float
    fork: float


def measure(contestant: Contestant, number: int) -> Sample:
    """Save the first and the last event some times, and fork some times; medians."""
    names = sorted(os.listdir(contestant.events))
    first = [_save(contestant, names[0], number * SAVES + turn) for turn in range(SAVES)]
    last = [_save(contestant, names[-1], number * SAVES + turn) for turn in range(SAVES)]
    forks = []
    for fork in range(FORKS):
        start = time.perf_counter()
        contestant.fork(f"fork-{number}-{fork}")
        forks.append(time.perf_counter() - start)
    return Sample(median(first), median(last), median(forks))


def _save(contestant: Contestant, name: str, turn: int) -> float:
    before = (contestant.events / name).read_bytes()
    head, _, body = before.partition(b"\n---\n")
    text = head + b"\n---\n" + b"Saved %d. " % turn + body.rpartition(b"Saved")[0] + body[-200:]
    start = time.perf_counter()
    contestant.save(name, text)
    took = time.perf_counter() - start
    if (contestant.events / name).read_bytes() != text or contestant.earlier(name) != before:
        raise RuntimeError(f"{name} was not saved, or not kept as it was")
    return took


# -- the conversations -------------------------------------------------------------------------------------------------


def write_session(directory: Path, texts: list[str]) -> Path:
    """Write a session of Claude Code in which a tool returned each of ``texts``; return the directory to import."""
    target = directory / _PROJECT
    target.mkdir(parents=True)
    with open(target / "0b5e7f5e-0000-4000-8000-000000000001.jsonl", "w") as file:
        for number, text in enumerate(texts):
            record = {
                "type": "user",
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": "0b5e7f5e-0000-4000-8000-000000000001",
                "cwd": "/home/dev/code/editing",
                "timestamp": "2026-03-05T19:31:54.356Z",
                "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]},
                "toolUseResult": {"stdout": text, "stderr": ""},
            }
            file.write(json.dumps(record) + "\n")
    return directory


def _text(made: random.Random, lines: int) -> str:
    return "".join(f"{made.getrandbits(64):016x} line {line} of the output, ok\n" for line in range(lines))


@contextmanager
def _mounted(work: Path, texts: list[str], name: str) -> Iterator[tuple[Path, Path]]:
    """Import a session and mount it; yield the root of the mount and the store."""
    source, store = write_session(work / f"{name}-source", texts), work / f"{name}-store"
    run([*mounts.convfs_command(store), "import", source])
    # this program saves very often, and each save is to be a version
    (store / SETTINGS).write_text("version_seconds = 0\n")
    with mounts.mounted(mounts.convfs(store), work / f"{name}-mnt", work / f"{name}.log") as mount:
        yield mount.root, store


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Make the conversations, edit them in turns, print the tables; the work lies under ``directory``."""
    needs("git")
    work = fresh(directory / "editing")
    rounds = rounds or (1 if quick else 3)
    events = 1_000 if quick else 10_000
    made = random.Random("editing")
    texts = [_text(made, 12) for _ in range(events)]
    note(f"editing: a conversation of {events} events")
    with _mounted(work, texts, "long") as (root, _store):
        plain = work / "plain"
        convfs = Convfs(root)
        shutil.copytree(convfs.events, plain / "conversation" / "events")
        shutil.copytree(plain, work / "git")
        contestants: dict[str, Contestant] = {"convfs": convfs, "files": Plain(plain), "git": Git(work / "git")}
        runs: dict[str, Callable[[int], Sample]] = {
            name: (lambda number, one=one: measure(one, number)) for name, one in contestants.items()
        }
        samples = interleaved(rounds, runs)
    middle = {name: Sample(*(median(column) for column in zip(*found, strict=True))) for name, found in samples.items()}
    mine = middle["convfs"]
    print_table(
        f"Editing a conversation of {events} events",
        ("", "save the first", "to convfs", "save the last", "to convfs", "fork", "to convfs"),
        [
            (
                name,
                seconds(sample.first),
                ratio(sample.first, mine.first),
                seconds(sample.last),
                ratio(sample.last, mine.last),
                seconds(sample.fork),
                ratio(sample.fork, mine.fork),
            )
            for name, sample in middle.items()
        ],
        f"Medians of {rounds} rounds of {SAVES} saves and {FORKS} forks. A save is on disk, as is the state before.",
    )
    _bench_space(work, made)


def _bench_space(work: Path, made: random.Random) -> None:
    """Change one line of a large tool result, and see what that takes."""
    text = _text(made, LARGE_LINES)
    with _mounted(work, [text], "large") as (root, store):
        contestant = Convfs(root)
        name = os.listdir(contestant.events)[0]
        before = (contestant.events / name).read_bytes()
        changed = before.replace(b"line 8000 of", b"line 8000 out of")
    closed = disk_usage(store)[0]
    with mounts.mounted(mounts.convfs(store), work / "large-mnt", work / "large.log") as mount:
        contestant = Convfs(mount.root)
        contestant.save(name, changed)
        if contestant.earlier(name) != before or (contestant.events / name).read_bytes() != changed:
            raise RuntimeError("the large event was not saved")
    grown = {"convfs": disk_usage(store)[0] - closed}
    plain = work / "large-git" / "conversation" / "events"
    plain.mkdir(parents=True)
    (plain / name).write_bytes(before)
    git = Git(work / "large-git")
    repository = plain.parent / ".git"
    held = disk_usage(repository)[0]
    git.save(name, changed)
    grown["git"] = disk_usage(repository)[0] - held
    grown["files"] = len(changed)
    print_table(
        f"One line changed in a tool result of {len(before) / 1e6:.1f} MB",
        ("", "added to the disk", "to convfs"),
        [(name, f"{size / 1024:.0f} KB", ratio(size, max(grown["convfs"], 1))) for name, size in grown.items()],
    )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Saves, forks, and what a small change takes."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
