"""Spaces at size: reading what others imported for the first time, and joining a space of very many conversations.

By itself: ``python -m tests.bench.joining [--quick] [--rounds N] [--dir DIR]``.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.bench import corpus, mounts, scale
from tests.bench.harness import (
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
    seconds,
    timed,
)
from tests.spaces import let_in

_NAME = "bench"
_COLD = 1.5
_JOINED = {100_000: 60.0}
_MOUNTED = {1_000_000: 1.0}


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Print both tables; the work lies under ``directory``."""
    work = fresh(directory / "joining")
    _cold(work, 20 if quick else 400, rounds or (3 if quick else 7))
    for count in (1000,) if quick else (100_000, 1_000_000):
        _join(work / str(count), count)
        shutil.rmtree(work / str(count))


def _space(work: Path) -> Path:
    """Make a space, and its first replica."""
    (work / "server").mkdir(parents=True)
    place = Place(str(work / "server"))
    remote.init(place, _NAME)
    remote.join(place, _NAME, work / "a", "a")
    return work / "a"


# -- what others imported ----------------------------------------------------------------------------------------------


def _cold(work: Path, sessions: int, rounds: int) -> None:
    note(f"joining: {rounds} rounds of reading {sessions} sessions for the first time")
    root = _space(work)
    corpus.write_corpus(work / "corpus", sessions=sessions, events=50, projects=10)
    with Store.open(root, renderer=FileRenderer()) as store:
        Importer(store).run([work / "corpus" / "projects"])
    let_in(root, work / "b", "b")
    with Store.open(root, renderer=FileRenderer()) as here, Store.open(work / "b", renderer=FileRenderer()) as there:
        there.writer.catch_up()
        assert there.replica is not None
        read, size = _read(here), megabytes(sum(note.length for note in there.replica.holdings.filed().values()))
        contestants: dict[str, Callable[[int], tuple[float, float]]] = {
            "download": lambda _: _took(lambda: _download(there)),
            "grep on the machine that imported": lambda _: _took(lambda: _read(here), here),
            "grep with an empty cache": lambda _: _took(lambda: _read(there, read), there, empty=True),
            "grep once more": lambda _: _took(lambda: _read(there, read), there),
        }
        found = interleaved(rounds, contestants)
    clock = {name: median(one[0] for one in took) for name, took in found.items()}
    spent = {name: median(one[1] for one in took) for name, took in found.items()}
    base = [sum(list(some.values())[:2]) for some in (clock, spent)]
    print_table(
        f"Reading {size} of packs that another machine brought",
        ("", "time", "to both", "processor time", "to both"),
        [
            (name, seconds(clock[name]), ratio(clock[name], base[0]), seconds(spent[name]), ratio(spent[name], base[1]))
            for name in found
        ],
        f"Medians of {rounds} rounds in turns, in an encrypted space in a directory. A grep draws every event.",
    )
    row = "grep with an empty cache, to download and local grep"
    compared(f"{row}, time", clock["grep with an empty cache"] / base[0], _COLD, "{:.2f}".format)
    compared(f"{row}, processor time", spent["grep with an empty cache"] / base[1], _COLD, "{:.2f}".format)


def _took(work: Callable[[], object], store: Store | None = None, *, empty: bool = False) -> tuple[float, float]:
    """Return the time and the processor time that work takes, with nothing in memory."""
    if store is not None:
        store.blobs.forget()
        store.records.forget_rows()
        if empty and store.replica is not None:
            store.replica.holdings.cache.forget()
    if can_drop_caches():
        drop_caches()
    clock, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - spent


def _read(store: Store, expected: int = 0) -> int:
    """Draw all events; return how many bytes they are."""
    renderer, total = store.viewer.renderer, 0
    assert renderer is not None
    for entry in store.catalogue.every():
        for row, event in store.viewer.events(store.records.rows(entry.head)):
            total += len(renderer.drawn(row.number, event).section)  # type: ignore[arg-type]  # all can be read
    assert not expected or total == expected
    return total


def _download(store: Store) -> None:
    assert store.replica is not None
    _space_of_it, packs = store.replica.connected()
    for number, said in packs.notes():
        packs.data(number, said)


# -- joining -----------------------------------------------------------------------------------------------------------

_OPEN = (
    "import sys; from pathlib import Path; from store.store import Store\n"
    "with Store.open(Path(sys.argv[1])) as store: store.writer.catch_up(); print(store.stats().conversations)"
)


def _join(work: Path, count: int) -> None:
    note(f"joining: making {count} conversations")
    root = _space(work)
    made = timed(partial(scale.make, root, count))
    convfs = [sys.executable, "-m", "fusefs.cli", "--store", str(root)]
    shown = timed(lambda: subprocess.run([*convfs, "remote", "snapshot"], check=True, stdout=subprocess.DEVNULL))
    note("joining: joining, and mounting")
    taken = [_cost(lambda: let_in(root, work / "b", "b"))]
    snapshot = disk_usage(work / "b")[0]

    def opened() -> None:
        done = subprocess.run([sys.executable, "-c", _OPEN, work / "b"], check=True, capture_output=True, text=True)
        assert int(done.stdout) >= count

    taken.append(_cost(opened))
    if can_drop_caches():
        drop_caches()
    with mounts.mounted(mounts.convfs(work / "b"), work / "mnt", work / "mnt.log") as mount:
        assert mount.daemon is not None
        listed = timed(lambda: os.listdir(work / "mnt" / "conversations"))
        memory = resident(mount.daemon.pid)[0]
    print_table(
        f"Joining a space of {count} conversations",
        ("", "time", "processor time"),
        [
            ("made, in a replica", seconds(made), "-"),
            ("convfs remote snapshot", seconds(shown), "-"),
            (f"join: download of {megabytes(snapshot)}", seconds(taken[0][0]), seconds(taken[0][1])),
            ("opened for the first time, up to date", seconds(taken[1][0]), seconds(taken[1][1])),
            (f"mount, {megabytes(memory)} of memory", seconds(mount.mount_seconds), "-"),
            ("ls of the projects", seconds(listed), "-"),
        ],
        "An encrypted space in a directory. Mount: from the start of the process to the first answer.",
    )
    if count in _JOINED:
        compared(f"join {count} conversations", taken[0][0] + taken[1][0], _JOINED[count], seconds)
    if count in _MOUNTED:
        compared(f"mount of {count} after the download", mount.mount_seconds, _MOUNTED[count], seconds)


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time and the processor time that work takes, that of its children among it."""
    clock, spent = time.perf_counter(), sum(os.times()[:4])
    work()
    return time.perf_counter() - clock, sum(os.times()[:4]) - spent


if __name__ == "__main__":
    arguments = parse(options(__doc__ or ""))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
    print_summary()
