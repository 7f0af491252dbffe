"""Collecting: finding and removing what nothing leads to, after half of the conversations were deleted for good.

Beside it stands git, with a commit for each turn, a branch for each conversation, and half of the branches deleted.

By itself: ``python -m tests.bench.collecting [--quick] [--rounds N] [--dir DIR]``.
"""

import random
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

from store.conversations.contexts import Append
from store.retention.pruner import delete
from store.store import Store
from tests.bench.harness import fresh, interleaved, median, note, options, parse, print_table, ratio, run, seconds

TURNS = 10


def payload(number: int) -> bytes:
    """Return the payload of a turn, like no other."""
    source = random.Random(number)
    words = " ".join(f"word{source.getrandbits(12)}" for _ in range(60))
    return f'{{"number": {number}, "text": "{words}"}}'.encode()


def grow(root: Path, conversations: int) -> None:
    """Make a store, half of whose conversations were deleted for good."""
    with Store.open(root) as store:
        for number in range(conversations):
            context = store.contexts.create(metadata={"project": "p", "name": f"c{number}"}).context
            store.contexts.append_many(context, [Append(payload(number * TURNS + at), "x.v1") for at in range(TURNS)])
            if number % 2:
                delete(store, context, store.writer.head(context).tip)


def grow_git(root: Path, conversations: int) -> None:
    """Make a repository of the same."""
    run(["git", "init", "-q", "--bare", root])
    commands: list[bytes] = []
    for number in range(conversations):
        for at in range(TURNS):
            data = payload(number * TURNS + at)
            commands.append(
                b"commit refs/heads/c%d\ncommitter a <a@example.com> %d +0000\ndata 0\n"
                b"M 100644 inline turn\ndata %d\n%s\n" % (number, at, len(data), data)
            )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=b"".join(commands), check=True)
    gone = [f"delete refs/heads/c{number}\n" for number in range(1, conversations, 2)]
    subprocess.run(["git", "update-ref", "--stdin"], cwd=root, input="".join(gone), text=True, check=True)


def collect(root: Path, *, dry_run: bool) -> float:
    """Return how many seconds of processor time a collection takes in an open store."""
    with Store.open(root) as store:
        before = resource.getrusage(resource.RUSAGE_SELF)
        steps = store.collector.steps(grace_seconds=0, least_part=0, dry_run=dry_run)
        for _pause in steps:
            pass
        after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def collect_git(root: Path) -> float:
    """Return how many seconds of processor time ``git gc`` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(["git", "gc", "--quiet", "--prune=now"], cwd=root)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run it and print the tables; the work lies under ``directory``."""
    work = fresh(directory / "collecting")
    for conversations in (100,) if quick else (100, 2000):
        note(f"collecting: {conversations} conversations")

        def made(name: str, make: Callable[[Path, int], None], count: int = conversations) -> Path:
            root = work / name
            fresh(root).rmdir()
            make(root, count)
            return root

        contestants: dict[str, Callable[[int], float]] = {
            "what would go": lambda _round: collect(made("store", grow), dry_run=True),
            "taking it out": lambda _round: collect(made("store", grow), dry_run=False),
            "git gc --prune=now": lambda _round: collect_git(made("git", grow_git)),
        }
        taken = interleaved(rounds or (1 if quick else 5), contestants)
        medians = {name: median(found) for name, found in taken.items()}
        print_table(
            f"Collecting half of {conversations} conversations of {TURNS} records each, processor time",
            ("", "", "of git"),
            [(name, seconds(value), ratio(value, medians["git gc --prune=now"])) for name, value in medians.items()],
        )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Collecting what nothing leads to."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
