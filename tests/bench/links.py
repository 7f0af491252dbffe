"""Who holds a file's content, and what differs between two versions: beside ``grep`` and ``diff`` on plain files.

The plain files are copies of the events' files as the mount shows them, in the kernel's memory; the store's index of
contents is up to date, as it is some seconds after an import. That every contestant names the same events, and the same
lines, is checked.

By itself: ``python -m tests.bench.links [--quick] [--rounds N] [--dir DIR]``.
"""

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.bench import mounts
from tests.bench.harness import (
    fresh,
    interleaved,
    median,
    note,
    options,
    parse,
    print_table,
    ratio,
    run,
    seconds,
    timed,
)

READS = 50
FILES = 400
SAVES = 5
_LEGEND = "Commands take as long as Python takes to start, at least."
HELD_BY = "user.convfs.held_by"


def write_sessions(directory: Path, conversations: int) -> None:
    """Write sessions of Claude Code, each of which reads some of the same files."""
    made = random.Random("links")
    contents = [
        "".join(f"{made.getrandbits(96):024x} line {line} of file {file}\n" for line in range(40))
        for file in range(FILES)
    ]
    for number in range(conversations):
        target = directory / f"-home-dev-code-project{number % 10}"
        target.mkdir(parents=True, exist_ok=True)
        session = f"0b5e7f5e-0000-4000-8000-{number:012}"
        with open(target / f"{session}.jsonl", "w") as stream:
            for turn in range(READS):
                file = made.randrange(FILES)
                path = f"/home/dev/code/file{file}.py"
                use = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"file_path": path}}
                result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": contents[file]}
                record = {"sessionId": session, "cwd": "/home/dev/code", "timestamp": "2026-03-05T19:31:54.356Z"}
                read = {"type": "text", "file": {"filePath": path, "content": contents[file]}}
                stream.writelines(
                    json.dumps({**record, **line}) + "\n"
                    for line in (
                        {"type": "assistant", "uuid": f"a{turn}", "message": {"role": "assistant", "content": [use]}},
                        {
                            "type": "user",
                            "uuid": f"u{turn}",
                            "message": {"role": "user", "content": [result]},
                            "toolUseResult": read,
                        },
                    )
                )


# -- who holds a content -----------------------------------------------------------------------------------------------


class Holding:
    """The ways to find the events that hold what a resource holds: one resource a round, in a mount at ``root``."""

    def __init__(self, root: Path, store: Path, plain: Path) -> None:
        self._root = root
        self._store = store
        self._plain = plain
        self._resources = sorted((root / "conversations").glob("*/*/resources/home/dev/code/*.py"))
        random.Random("holding").shuffle(self._resources)

    def _timed(self, number: int, ask: Callable[[Path], str]) -> float:
        resource = self._resources[number]
        text = resource.read_text()
        told: list[str] = []
        took = timed(lambda: told.append(ask(resource)))
        line = text.splitlines()[3]
        expected = run(["grep", "-rlF", line, "."], cwd=self._plain)
        if sorted(told[0].splitlines()) != sorted(path.removeprefix("./") for path in expected.splitlines()):
            raise RuntimeError(f"{resource}: not all of {expected}: {told[0]}")
        return took

    def attribute(self, number: int) -> float:
        """Ask for the extended attribute."""
        return self._timed(number, lambda resource: os.getxattr(resource, HELD_BY).decode())

    def where(self, number: int) -> float:
        """Run ``convfs where``."""
        return self._timed(number, lambda resource: run([*mounts.convfs_command(self._store), "where", resource]))

    def grep(self, number: int) -> float:
        """Have ``grep`` look for a line of it through plain files."""

        def look(resource: Path) -> str:
            found = run(["grep", "-rlF", resource.read_text().splitlines()[3], "."], cwd=self._plain)
            return found.replace("./", "")

        return self._timed(number, look)


# -- what differs ------------------------------------------------------------------------------------------------------


def _changed_lines(diff: str) -> list[str]:
    """Return the lines that a unified diff adds and takes out, whatever it calls the files."""
    return re.findall(r"^[+-](?!--|\+\+).*", diff, re.MULTILINE)


def _long_conversation(root: Path) -> tuple[Path, Path]:
    """Edit the longest conversation; return the directories of its first version and of what it is now."""
    [conversation, *_] = sorted(
        (root / "conversations").glob("*/*"), key=lambda path: -len(os.listdir(path / "events"))
    )
    events = sorted((conversation / "events").iterdir())
    for event in events[:: max(1, len(events) // SAVES)][:SAVES]:
        event.write_bytes(event.read_bytes().replace(b"line 3", b"LINE 3").replace(b"file_path", b"path"))
    return min((conversation / ".versions").iterdir()), conversation


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import the sessions, ask and compare in turns, print the tables; the work lies under ``directory``."""
    work = fresh(directory / "links")
    conversations = 40 if quick else 400
    rounds = rounds or (3 if quick else 15)
    note(f"links: {conversations} conversations of {2 * READS} events")
    store, plain = work / "store", work / "plain"
    write_sessions(work / "source", conversations)
    run([*mounts.convfs_command(store), "import", work / "source"])
    # a command that looks goes on indexing for some seconds: until there is nothing left
    for _ in range(1 if quick else 10):
        run([*mounts.convfs_command(store), "search", "--limit", "1", "nothing has this"], check=False)
    with mounts.mounted(mounts.convfs(store), work / "mnt", work / "log") as mount:
        for conversation in (mount.root / "conversations").glob("*/*"):
            target = plain / conversation.relative_to(mount.root) / "events"
            target.parent.mkdir(parents=True)
            shutil.copytree(conversation / "events", target, copy_function=shutil.copyfile)
        holding = Holding(mount.root, store, plain)
        found = interleaved(
            rounds, {"held_by": holding.attribute, "convfs where": holding.where, "grep -r, plain files": holding.grep}
        )
        _print(f"Which of {conversations * 2 * READS} events hold a content", found, rounds)
        before, now = _long_conversation(mount.root)
        old, new = work / "before", work / "now"
        for source, target in ((before, old), (now, new)):
            shutil.copytree(source / "events", target / "events", copy_function=shutil.copyfile)
        commands: dict[str, list[str | Path]] = {
            "convfs diff": [*mounts.convfs_command(store), "diff", before, now],
            "diff -ruN, in the mount": ["diff", "-ruN", before / "events", now / "events"],
            "diff -ruN, plain files": ["diff", "-ruN", old / "events", new / "events"],
        }
        told = {name: _changed_lines(run(command, check=False)) for name, command in commands.items()}
        if len({tuple(lines) for lines in told.values()}) != 1 or not told["convfs diff"]:
            raise RuntimeError(f"these are not the same differences: {told}")

        def compare(command: list[str | Path]) -> Callable[[int], float]:
            return lambda _number: timed(lambda: subprocess.run(command, capture_output=True, check=False))

        compared = interleaved(rounds, {name: compare(command) for name, command in commands.items()})
        _print(f"What {SAVES} saves have changed of {2 * READS} events", compared, rounds)


def _print(title: str, found: dict[str, list[float]], rounds: int) -> None:
    middle = {name: median(times) for name, times in found.items()}
    base = next(iter(middle.values()))
    rows = [(name, seconds(time), ratio(time, base)) for name, time in middle.items()]
    print_table(title, ("", "seconds", "to the first"), rows, f"Medians of {rounds} rounds. {_LEGEND}")


def main() -> None:
    """Run by itself."""
    arguments = parse(options(__doc__ or ""))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
