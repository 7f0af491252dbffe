"""Importing: megabytes of session files a second, beside other ways to put the same files away durably.

By itself: ``python -m tests.bench.importing [--quick] [--rounds N] [--dir DIR]``. With ``OLD=DIR`` in the environment,
another version stands beside this one: a checkout with a ``.venv``.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from store.content import zstd
from store.content.compression import GROUP_BYTES
from store.ids import hash_bytes
from tests.bench import corpus, mounts
from tests.bench.harness import (
    fresh,
    interleaved,
    median,
    megabytes,
    needs,
    note,
    options,
    parse,
    print_table,
    ratio,
    run,
    seconds,
    timed,
)
from tests.bench.kinds import KEPT_WHOLE, kinds_by_measure, write_kinds

COPY = "cp -r, then sync"


def convfs(source: Path, target: Path) -> None:
    """Import with the command, from its start to its end: all is durable, and the store is closed then."""
    run([*mounts.convfs_command(target / "store"), "import", "--no-wait", source])


def indexed(source: Path, target: Path) -> None:
    """Import with the command, until all that it has brought is indexed as well."""
    run([*mounts.convfs_command(target / "store"), "import", source])


def convfs_again(source: Path, target: Path) -> None:
    """Import the same once more: every file is looked at and found unchanged."""
    run([*mounts.convfs_command(target / "store"), "import", "--no-wait", source])


def copy(source: Path, target: Path) -> None:
    """Copy the files."""
    shutil.copytree(source, target / "copy")
    os.sync()


def sqlite(source: Path, target: Path) -> None:
    """Insert a row a line, a transaction a file."""
    with contextlib.closing(sqlite3.connect(target / "lines.db", isolation_level=None)) as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        connection.execute("create table lines (file text, number integer, line blob)")
        for path in sorted(source.rglob("*.jsonl")):
            with path.open("rb") as file:
                connection.execute("begin")
                rows = ((path.name, number, line) for number, line in enumerate(file))
                connection.executemany("insert into lines values (?, ?, ?)", rows)
                connection.execute("commit")


def git(source: Path, target: Path) -> None:
    """Commit the files to a new repository."""
    program = needs("git")
    where = (program, f"--git-dir={target / 'git'}", f"--work-tree={source}")
    run([*where, "init", "-q", "--template="])
    run([*where, "add", "."], cwd=source)
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")
    run([*where, *identity, "commit", "-q", "-m", "sessions"], cwd=source)


WAYS = {
    "convfs import": convfs,
    "convfs import, until indexed": indexed,
    COPY: copy,
    "sqlite, a row a line": sqlite,
    "git add, commit": git,
}


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run and print the table; the work lies under ``directory``."""
    sessions = 20 if quick else 200
    source = directory / f"corpus-{sessions}x100"
    size = corpus.write_corpus(source, sessions=sessions, events=100)
    rounds = rounds or (1 if quick else 5)
    note(f"importing: {rounds} rounds of {megabytes(size)}")
    work = directory / "importing"
    again: list[float] = []

    def once(name: str, number: int) -> float:
        target = fresh(work / name.replace(", ", "-").replace(" ", "_"))
        os.sync()
        took = timed(partial(WAYS[name], source / "projects", target))
        if name == "convfs import":
            again.append(timed(partial(convfs_again, source / "projects", target)))
        return took

    took = {name: median(found) for name, found in interleaved(rounds, {n: partial(once, n) for n in WAYS}).items()}
    rows = [(name, seconds(time), f"{size / 1e6 / time:.1f}", ratio(time, took[COPY])) for name, time in took.items()]
    if again:
        rows.append(("convfs import, all known", seconds(median(again)), "-", ratio(median(again), took[COPY])))
    print_table(
        f"Importing {megabytes(size)} in {sessions} sessions",
        ("", "time", "MB/s", "to cp"),
        rows,
        f"Medians of {rounds} rounds, each into nothing; sources in the page cache. Whole commands, start to end.",
    )


def bench_kinds(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import the same content as files of every kind, and print the table, of processor time."""
    note("importing: every kind of file")
    work = fresh(directory / "kinds")
    kinds = write_kinds(work, sessions=10 if quick else 60)
    sizes = {kind: sum(path.stat().st_size for path in kinds[kind].rglob("*") if path.is_file()) for kind in kinds}

    def once(kind: str, _number: int) -> float:
        target = fresh(work / "target")
        before = os.times()
        convfs(kinds[kind], target)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    rounds = rounds or (1 if quick else 3)
    found = interleaved(rounds, {kind: partial(once, kind) for kind in kinds})
    took = {kind: median(times) for kind, times in found.items()}
    floors = interleaved(rounds, {kind: partial(_files_alone, kind, kinds[kind]) for kind in kinds})
    files = {kind: median(times) for kind, times in floors.items()}
    rows = [
        (
            kind,
            megabytes(sizes[kind]),
            seconds(took[kind]),
            f"{sizes[kind] / 1e6 / took[kind]:.1f}",
            ratio(took[kind], took[measure]),
            seconds(files[kind]),
            ratio(took[kind] - files[kind], took[measure] - files[measure]),
        )
        for measure, some in kinds_by_measure(kinds).items()
        for kind in some
    ]
    print_table(
        "Importing every kind of file",
        ("", "size", "processor time", "MB/s", "to Claude Code's", "its files", "without these"),
        rows,
        "Whole commands, start to end. Of small inputs, much of it is the start. The ratios compare the times for the"
        " same content. A database, an archive or a file of deltas is kept whole beside its conversations, for an"
        " export that gives back the very same one: its bytes are compressed twice. A watch does not keep databases."
        " Rows and deltas are written as lines first, a folder of events is a file to open for each line, and JP has"
        " one for each result. A file that most formats were offered first has these loaded: a tenth of a second. Its"
        " files: what no import goes below, each opened, read and hashed, and compressed if it is kept whole, with"
        " nothing else done. The last column compares what is left.",
    )


def _files_alone(kind: str, folder: Path, _number: int) -> float:
    """Return the processor time of reading and hashing the files of a kind, and compressing those kept whole."""
    before = time.process_time()
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            hash_bytes(data)
            for start in range(0, len(data) if kind in KEPT_WHOLE else 0, GROUP_BYTES):
                zstd.compress(data[start : start + GROUP_BYTES])
    return time.process_time() - before


_IMPORT = """
import json, resource, sys, time
from pathlib import Path
import fusefs.cli  # a command looks for garbage less often
from fusefs.text.render import FileRenderer
from store.importing.importer import Importer
from store.store import Store

def spent(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime

with Store.open(Path(sys.argv[2]), renderer=FileRenderer()) as store:
    began, own, committing = time.monotonic(), spent(resource.RUSAGE_SELF), time.thread_time()
    Importer(store).run([Path(sys.argv[1])])
    if "indexed" in sys.argv:
        from store.filing import Filing
        Filing(store).run()
    took = time.monotonic() - began
    own, committing = spent(resource.RUSAGE_SELF) - own, time.thread_time() - committing
helpers, memory = spent(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([took, own, committing, helpers, memory * 1024, largest * 1024]))
"""
_INDEXED = "until indexed"
_CORES = (1, 2)
_MODELLED = 8


def bench_cores(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Import with one processor and with two, and print the table, with a model of more of them."""
    sessions = 60 if quick else 560
    source = directory / f"corpus-{sessions}x100"
    size = corpus.write_corpus(source, sessions=sessions, events=100) / 1e6
    rounds = rounds or (1 if quick else 3)
    note(f"importing with one processor and with two: {rounds} rounds of {size:.0f} MB")
    trees = {"this version": Path.cwd(), _INDEXED: Path.cwd()}
    trees |= {"the old one": Path(os.environ["OLD"])} if "OLD" in os.environ else {}
    processors = sorted(os.sched_getaffinity(0))

    def once(name: str, cores: int, _number: int) -> list[float]:
        tree, target = trees[name], fresh(directory / "cores")
        python = sys.executable if tree == Path.cwd() else str(tree / ".venv/bin/python")
        os.sync()
        words = [python, "-c", _IMPORT, source / "projects", target / "store", *(["indexed"] * (name == _INDEXED))]
        done = subprocess.run(
            words,
            cwd=tree,
            stdout=subprocess.PIPE,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, processors[:cores]),
        )
        measured: list[float] = json.loads(done.stdout)
        return measured

    chosen = {f"{name} {cores}": (name, cores) for name in trees for cores in _CORES[: len(processors)]}
    rows = []
    for key, measured in interleaved(rounds, {key: partial(once, *one) for key, one in chosen.items()}).items():
        name, cores = chosen[key]
        took, own, committing, helpers, memory, largest = map(median, zip(*measured, strict=True))
        # what one thread does is not divided; compressing and preparing are
        model = max(committing, (own + helpers) / cores)
        more = max(committing, (own + helpers) / _MODELLED)
        row = (name, str(cores), seconds(took), f"{size / took:.1f}", seconds(own + helpers), seconds(committing))
        rows.append((*row, f"{size / model:.1f}", f"{size / more:.1f}", megabytes(int(memory + 2 * largest))))
    print_table(
        f"Importing {size:.0f} MB, by processors",
        ("", "processors", "time", "MB/s", "processor time", "committing", "model", f"at {_MODELLED}", "memory"),
        rows,
        "The model: what commits is one thread, the rest is divided among all; on a busy machine it is the better"
        " measure. An import has ended when all is durable; what comes is indexed after that, and until then searches"
        " read it. Memory: the most of the importing process, and twice that of the largest of those that help.",
    )


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Importing: megabytes a second."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    bench_cores(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    bench_kinds(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
