"""Reading: find, ls and grep over a mount, beside the very same files on the disk and on other FUSE daemons.

The synthetic corpus is imported and mounted; what the mount shows as ``events/`` and ``transcripts/`` is copied to a
plain directory, from which the peers serve: bindfs and a Python passthrough the directory itself, squashfuse an image
of it, ratarmount a tar. Each command runs cold (a fresh daemon, come to rest, then the kernel's caches dropped) and
then warm. Every contestant's output is compared with that of the plain directory. convfs itself runs twice: with the
extension that answers opens of what the kernel has in its page cache, where it was built, and without.

By itself: ``python -m tests.bench.reading [--quick] [--rounds N] [--dir DIR]``.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fusefs import opens
from fusefs.text.render import FileRenderer
from store.paths import SETTINGS
from store.store import Store
from tests.bench import corpus, mounts
from tests.bench.harness import (
    Skipped,
    can_drop_caches,
    compared,
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
    remove,
    resident,
    run,
    seconds,
)

PLAIN = "files on the disk"
CONVFS = "convfs"
ASKED = {
    "grep -r, transcripts": {PLAIN: (2.0, 2.0)},
    "grep -r, events": {PLAIN: (1.0, 3.0), "bindfs": (1 / 3, 1 / 4), "squashfuse": (1 / 3, 1 / 4)},
}
"""The most that convfs may take, cold and warm, as a share of what another takes."""
WARM_RUNS = 2
COMMAND_SECONDS = 600


class Sample(NamedTuple):
    """One command on one contestant in one round: seconds cold, seconds warm, resident bytes of the daemon after."""

    cold: float
    warm: float
    memory: int


class Contestant:
    """A tree to read: a plain directory, or what a command mounts."""

    def __init__(self, name: str, directory: Path, command: mounts.Command | None = None) -> None:
        self.name = name
        self.directory = directory
        self.command = command
        self.log = directory.parent / f"{directory.name}.log"

    @contextlib.contextmanager
    def ready(self) -> Iterator[mounts.Mount]:
        """Give the tree, freshly mounted where there is something to mount."""
        if self.command is None:
            yield mounts.Mount(self.directory)
        else:
            with mounts.mounted(self.command, self.directory, self.log) as mount:
                yield mount


def commands(root: Path) -> dict[str, list[str]]:
    """Return the commands by name; they run in the root of a tree, and name its directories of events."""
    events = sorted(str(path.relative_to(root)) for path in root.glob("conversations/*/*/events"))
    return {
        "find -size": ["find", *events, "-type", "f", "-size", "+1k"],
        "ls -lR": ["ls", "-lR", *events],
        "grep -r, events": ["grep", "-rl", corpus.NEEDLE, *events],
        "grep -r, transcripts": ["grep", "-rl", corpus.NEEDLE, "transcripts"],
    }


def answer(output: str) -> list[str]:
    """Reduce a command's output to what must be equal everywhere: names, and for ``ls -l`` sizes too."""
    names = [line for line in output.splitlines() if line.endswith(".md")]
    return sorted(" ".join(line.split()[4::4]) if line.startswith("-") else line for line in names)


def measure(contestant: Contestant, command: list[str], expected: list[str], round_number: int) -> Sample:
    """Run a command cold and warm on a fresh mount; raise if it answers anything else than expected."""

    def once() -> float:
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=mount.root,
            env=os.environ | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        took = time.perf_counter() - start
        mount.check_alive()
        if done.stderr or answer(done.stdout) != expected:
            what = done.stderr[:500] or f"{len(answer(done.stdout))} lines for {len(expected)}"
            raise RuntimeError(f"{contestant.name}: {command[:2]} answers something else: {what}")
        return took

    with contestant.ready() as mount:
        mount.settle()
        if can_drop_caches():
            drop_caches()
        cold = once()
        warm = median(once() for _ in range(WARM_RUNS))
        memory = resident(mount.daemon.pid)[0] if mount.daemon else 0
    return Sample(cold, warm, memory)


def import_corpus(directory: Path, sessions: int, events: int) -> Path:
    """Write the synthetic corpus, import it, and return the store; a store made earlier by the same is not reused."""
    source = directory / f"corpus-{sessions}x{events}"
    corpus.write_corpus(source, sessions=sessions, events=events)
    store = directory / "reading" / "store"
    remove(store)
    run([*mounts.convfs_command(store), "import", source / "projects"])
    bring_to_rest(store)
    return store


def bring_to_rest(store: Path) -> None:
    """Do what a daemon does of the contents in its first idle minute, so that none does it while it is measured."""
    with Store.open(store, renderer=FileRenderer()) as opened:
        for job in (opened.search, opened.known_files, opened.texts, opened.insight):
            while job.step():
                pass


def without_extension(store: Path) -> Path:
    """Return a copy of a store whose mount asks Python about every open."""
    copied = store.with_name("store-in-python")
    remove(copied)
    shutil.copytree(store, copied)
    (copied / SETTINGS).write_text("opens_in_c = false\n")
    (copied / SETTINGS).chmod(0o600)
    # a copy is another store, which has none yet
    bring_to_rest(copied)
    return copied


def copy_tree(source: Path, target: Path) -> int:
    """Copy what is measured (events and transcripts) out of a mount; return the number of files."""
    count = 0
    for found in [*source.glob("conversations/*/*/events"), *source.glob("transcripts/*")]:
        copied = shutil.copytree(found, target / found.relative_to(source), copy_function=shutil.copyfile)
        count += sum(1 for _ in Path(copied).iterdir())
    return count


def peers(plain: Path, directory: Path) -> Iterator[Callable[[], Contestant]]:
    """Yield what makes each contestant that serves the plain tree; making one may raise :class:`Skipped`."""

    def squashfuse() -> Contestant:
        image = directory / "tree.squashfs"
        image.unlink(missing_ok=True)
        command = mounts.squashfuse(image)
        run(["mksquashfs", plain, image, "-comp", "zstd", "-quiet", "-no-progress"])
        return Contestant("squashfuse", directory / "mnt-squashfuse", command)

    def ratarmount() -> Contestant:
        archive = directory / "tree.tar"
        index = directory / "tree.index.sqlite"
        index.unlink(missing_ok=True)
        command = mounts.ratarmount(archive, index)
        run(["tar", "-C", plain, "-cf", archive, "."])
        return Contestant("ratarmount", directory / "mnt-ratarmount", command)

    yield lambda: Contestant(PLAIN, plain)
    yield lambda: Contestant("bindfs", directory / "mnt-bindfs", mounts.bindfs(plain))
    yield squashfuse
    yield ratarmount
    yield lambda: Contestant("pyfuse3 passthrough", directory / "mnt-passthrough", mounts.passthrough(plain))


def bench_tree(plain: Path, directory: Path, *, rounds: int, more: tuple[Contestant, ...] = ()) -> None:
    """Measure all contestants on one plain tree (and ``more``, which show the same files); print a table a command."""
    contestants = list(more)
    for make in peers(plain, directory):
        try:
            contestants.append(make())
        except Skipped as error:
            note(f"skipped: {error}")
    temperature = "caches dropped" if can_drop_caches() else "CACHES NOT DROPPED, which takes root"
    for name, command in commands(plain).items():
        expected = answer(run(command, cwd=plain, check=False))
        if not expected:
            raise RuntimeError(f"{name} finds nothing in {plain}: nothing to measure")
        note(f"reading: {name}: {rounds} rounds of {len(contestants)} contestants")
        samples = interleaved(rounds, {each.name: partial(measure, each, command, expected) for each in contestants})
        cold = {each: median(sample.cold for sample in found) for each, found in samples.items()}
        warm = {each: median(sample.warm for sample in found) for each, found in samples.items()}
        memory = {each: median(sample.memory for sample in found) for each, found in samples.items()}
        beside = ("to convfs",) if CONVFS in samples else ()
        for other, (at_most_cold, at_most_warm) in ASKED.get(name, {}).items():
            if CONVFS in samples and other in samples:
                for how, taken, at_most in (("cold", cold, at_most_cold), ("warm", warm, at_most_warm)):
                    row = f"{name}, {how}, {len(expected)} answers, against {other}"
                    compared(row, taken[CONVFS] / taken[other], at_most, "{:.2f}x".format)
        print_table(
            f"{name} ({len(expected)} answers)",
            ("", "cold", "to files", *beside, "warm", "to files", *beside, "memory"),
            [
                (
                    each,
                    seconds(cold[each]),
                    ratio(cold[each], cold[PLAIN]),
                    *(ratio(cold[each], cold[CONVFS]) for _ in beside),
                    seconds(warm[each]),
                    ratio(warm[each], warm[PLAIN]),
                    *(ratio(warm[each], warm[CONVFS]) for _ in beside),
                    megabytes(memory[each]) if memory[each] else "-",
                )
                for each in samples
            ],
            f"Medians of {rounds} rounds; cold: a fresh daemon, {temperature}. Memory: resident, of the daemon, after.",
        )


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import, mount, copy, measure and print; the work lies under ``directory``."""
    sessions = 20 if quick else 200
    work = fresh(directory / "reading")
    store = import_corpus(directory, sessions, 100)
    convfs = Contestant(CONVFS, work / "mnt-convfs", mounts.convfs(store))
    in_python = Contestant("… opens in Python", work / "mnt-python", mounts.convfs(without_extension(store)))
    if not opens.is_built:
        note("skipped: convfs with opens in C: fusefs._opens was not built")
    plain = work / "plain"
    with convfs.ready() as mount:
        files = copy_tree(mount.root, plain)
        mount.check_alive()
    size = sum(path.stat().st_size for path in plain.glob("conversations/*/*/events/*"))
    note(f"reading: {files} files, events of {size / sessions / 100:.0f} bytes on average")
    more = (convfs, in_python) if opens.is_built else (convfs,)
    bench_tree(plain, work, rounds=rounds or (1 if quick else 5), more=more)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Reading: find, ls, grep."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()


if __name__ == "__main__":
    main()
