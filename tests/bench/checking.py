"""Checking: ``convfs fsck`` of a store as it is, and with one byte flipped in each of its files.

What it finds where is told beside the time: damage must cost no more than a look at all that is sound. The byte is
flipped in the store itself, which is checked by itself and mended by flipping it back.

By itself: ``python -m tests.bench.checking [--quick] [--rounds N] [--dir DIR]``.
"""

import resource
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from store import paths
from tests.bench import corpus, mounts
from tests.bench.harness import fresh, interleaved, median, megabytes, note, options, parse, print_table, run, seconds

EVENTS = 1000
SECONDS = 600
SOUND = "nothing"
FILES = (paths.TURN_LOG, paths.HEAD_LOG, paths.JUMPS)


class Sample(NamedTuple):
    """Seconds that a check took, seconds of processor time, and how many lines it said."""

    took: float
    processor: float
    lines: int


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    with path.open("r+b") as file:
        at = path.stat().st_size // 2
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ 0x10,)))


def check(store: Path, damaged: Path | None) -> Sample:
    """Check a store, with a bit of one of its files flipped meanwhile."""
    if damaged is not None:
        flip(damaged)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        command = [*mounts.convfs_command(store), "fsck"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    finally:
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if damaged is not None:
            flip(damaged)
    if done.returncode != (damaged is not None):
        raise RuntimeError(f"fsck with damage in {damaged} says {done.stdout[-500:]}{done.stderr[-500:]}")
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Sample(took, processor, len(done.stdout.splitlines()) - 1)


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Check a store, and the same store sealed; print the tables; the work lies under ``directory``."""
    work = fresh(directory / "checking")
    sessions = 3 if quick else 30
    source = directory / f"corpus-{sessions}x{EVENTS}"
    size = corpus.write_corpus(source, sessions=sessions, events=EVENTS)
    store = work / "store"
    run([*mounts.convfs_command(store), "import", source / "projects"])
    for kind in ("as imported", "sealed"):
        if kind == "sealed":
            note("checking: sealing")
            run([*mounts.convfs_command(store), "seal"])
        largest = max(store.glob(paths.PACKS), key=lambda path: path.stat().st_size)
        damaged = {SOUND: None, **{path.name: path for path in (*(store / name for name in FILES), largest)}}
        contestants = {name: partial(lambda path, _round: check(store, path), path) for name, path in damaged.items()}
        note(f"checking: {kind}")
        taken = interleaved(rounds or (1 if quick else 3), contestants)
        print_table(
            f"fsck of {megabytes(size)} of sessions, {kind}, with a flipped byte",
            ("in", "it takes", "processor", "finds"),
            [
                (
                    name,
                    seconds(median(sample.took for sample in found)),
                    seconds(median(sample.processor for sample in found)),
                    str(found[0].lines),
                )
                for name, found in taken.items()
            ],
        )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("fsck of damaged stores."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
