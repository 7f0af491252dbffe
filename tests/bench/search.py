"""Search: what the index takes, how soon things are found, and what it costs those who append meanwhile.

Beside a search stand ``rg`` and ``grep -r`` over the same text as plain files: the transcripts, a file a conversation.
What is searched for: something that stands in one event, in a few per cent of all, in none, a common word, and an
expression. The first hit and all of them; warm, and with the kernel's caches dropped and the store opened anew. The
answers are compared.

The last table has the same store at two sizes: the whole command ``convfs grep`` of a rare expression beside ``rg`` on
the raw session files, both with nothing cached; the first hit; the first query after opening; and a word that stands in
one event, while its syllables stand in many.

By itself: ``python -m tests.bench.search [--quick] [--rounds N] [--dir DIR]``.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fusefs.text.render import FileRenderer
from store.exporting.event_json import shown_events
from store.importing.importer import Importer
from store.paths import SEARCH
from store.store import Store
from store.upkeep.idle import Idle
from tests.bench import corpus
from tests.bench.harness import (
    can_drop_caches,
    disk_usage,
    drop_caches,
    fresh,
    interleaved,
    median,
    megabytes,
    needs,
    note,
    options,
    parse,
    percentile,
    print_table,
    ratio,
    seconds,
    timed,
)
from tests.bench.mounts import convfs_command

RARE = "heliotrope-in-one-place"
PIECES = "zebraclegupla"
"""Made of syllables that words of the corpus are made of."""
WORDS = 100_000
APPENDS = 1500
PAUSE = 0.002
"""Seconds between two appends: as programs do, and so that there is something to give way to."""


class Sample(NamedTuple):
    """One search: seconds until the first hit, seconds in all, and the files or events that were found."""

    first: float
    all: float
    found: int


class Made(NamedTuple):
    """A store and its plain files: bytes of text, records that the import has not indexed, and a search right after."""

    text: int
    unfiled: int
    after: Sample


def prepare(directory: Path, *, sessions: int, events: int) -> Made:
    """Make a store and the plain files."""
    corpus.write_corpus(directory / "corpus", sessions=sessions, events=events, projects=100, different_words=WORDS)
    plain = fresh(directory / "plain")
    with Store.open(fresh(directory / "store"), renderer=FileRenderer()) as store:
        Importer(store).run([directory / "corpus"])
        began = time.perf_counter()
        unfiled = store.search.unfiled
        counting = time.perf_counter() - began
        after = searching(store, f'"{corpus.NEEDLE}"')
        after = after._replace(first=after.first + counting, all=after.all + counting)
        context = store.contexts.create(metadata={"project": "one", "name": "place"}).context
        line = {"type": "user", "message": {"role": "user", "content": f"What is {RARE}, or {PIECES}?"}}
        store.contexts.append(context, json.dumps(line).encode(), "claude-code.line.v1")
        for conversation in store.library.conversations():
            with open(plain / f"{conversation.id}.md", "wb") as file:
                file.writelines(FileRenderer().transcript(conversation, shown_events(store, conversation)))
    return Made(sum(path.stat().st_size for path in plain.iterdir()), unfiled, after)


def index(directory: Path, *, anew: bool = False) -> float:
    """File what is left, or everything; return the seconds of processor that it took."""
    with Store.open(directory / "store", renderer=FileRenderer()) as store:
        if anew:
            store.search.renew()
        began = time.process_time()
        while store.search.step():
            pass
        spent = time.process_time() - began
        while store.texts.step():
            pass
        return spent


def searching(store: Store, query: str) -> Sample:
    """Search by the store's own."""
    began = time.perf_counter()
    first = 0.0
    found = 0
    for _hit in store.search.run(query, lines=1):
        first = first or time.perf_counter() - began
        found += 1
    return Sample(first, time.perf_counter() - began, found)


def reading(command: list[str], pattern: list[str], plain: Path) -> Sample:
    """Search by a program that reads all files, which prints the lines that it finds."""
    began = time.perf_counter()
    with subprocess.Popen([*command, *pattern, str(plain)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        first = time.perf_counter() - began
        found = bool(line) + process.stdout.read().count(b"\n")
    return Sample(first, time.perf_counter() - began, found)


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Print all tables."""
    directory = directory / "search"
    rounds = rounds or (2 if quick else 5)
    note("search: making text")
    made = prepare(directory, sessions=8 if quick else 200, events=300 if quick else 2500)
    note("search: filing it")
    spent = index(directory, anew=True)
    size = disk_usage(directory / "store" / SEARCH)[0]
    filed = f"{made.text / spent / 1e6:.0f} MB/s"
    after = (str(made.unfiled), seconds(made.after.first), seconds(made.after.all))
    rows = [(megabytes(made.text), megabytes(size), ratio(size, made.text), filed, *after)]
    columns = ("text", "index", "of the text", "filed, of one processor", "records not indexed", "first hit", "all")
    print_table("The index", columns, rows, "Filed anew; not indexed by the import, and the first search after that.")
    for title, query, pattern in (
        ("what stands in one place", RARE, ["-F", RARE]),
        ("what stands nowhere", "heliotrope-in-no-place", ["-F", "heliotrope-in-no-place"]),
        ("what stands in some places", f'"{corpus.NEEDLE}"', ["-F", corpus.NEEDLE]),
        ("an expression", "/heliotrope-in-[a-z]+-place/", ["-e", "heliotrope-in-[a-z]+-place"]),
    ):
        _compare(title, rounds, directory, query, pattern)
    _appending(fresh(directory / "appends"), directory / "corpus", 3 if quick else 7)
    sizes = ((8, 100), (8, 300)) if quick else ((28, 1000), (800, 1000))
    rows = [_at_size(directory / f"of-{number}", *size, min(rounds, 3)) for number, size in enumerate(sizes)]
    columns = ("raw", "after the import", "grep, cold", "rg, cold", "to grep", "warm", "after opening", "common pieces")
    print_table("By size", columns, rows, "Whole commands, and first hits of queries; caches dropped where cold.")


def _at_size(directory: Path, sessions: int, events: int, rounds: int) -> list[str]:
    note(f"search: {sessions} sessions of {events} events")
    made = prepare(fresh(directory), sessions=sessions, events=events)
    index(directory)
    raw = directory / "corpus" / "projects"
    size = sum(path.stat().st_size for path in raw.rglob("*.jsonl"))
    pattern = "heliotrope-in-[a-z]+-place"
    asked = [*convfs_command(directory / "store"), "grep", pattern]

    def whole(command: Sequence[str | Path], _number: int) -> float:
        if can_drop_caches():
            drop_caches()
        return timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=False))

    taken = interleaved(
        rounds, {"convfs": partial(whole, asked), "rg": partial(whole, [needs("rg"), "--no-ignore", pattern, raw])}
    )
    opened: list[float] = []
    for _round in range(rounds):
        with Store.open(directory / "store", renderer=FileRenderer()) as store:
            opened.append(searching(store, RARE).first)
    with Store.open(directory / "store", renderer=FileRenderer()) as store:
        warm = [searching(store, RARE) for _round in range(rounds + 1)][1:]
        pieces = [searching(store, PIECES) for _round in range(rounds)]
    assert [one.found for one in (*warm, *pieces)] == [1] * len([*warm, *pieces])
    grep, rg = median(taken["convfs"]), median(taken["rg"])
    times = (median(one.first for one in warm), median(opened), median(one.all for one in pieces))
    found = (seconds(made.after.first), seconds(grep), seconds(rg), ratio(rg, grep))
    return [megabytes(size), *found, *map(seconds, times)]


def _compare(title: str, rounds: int, directory: Path, query: str, pattern: list[str]) -> None:
    plain = directory / "plain"
    programs: dict[str, Callable[[int], Sample]] = {
        "rg": lambda _number: reading([needs("rg"), "--no-ignore"], pattern, plain),
        "grep -r": lambda _number: reading([needs("grep"), "-rE" if pattern[0] == "-e" else "-r"], pattern, plain),
    }
    with Store.open(directory / "store", renderer=FileRenderer()) as store:
        warm = interleaved(rounds, {"convfs": lambda _number: searching(store, query), **programs})
    assert len({bool(samples[0].found) for samples in warm.values()}) == 1, warm
    cold: dict[str, list[Sample]] = {}
    if can_drop_caches():
        cold = interleaved(
            min(rounds, 3), {"convfs": partial(_anew, directory, query)} | {"rg": partial(_dropped, programs["rg"])}
        )
    rows = []
    for name, samples in warm.items():
        row = [name]
        for measured in (samples, cold.get(name, [])):
            for part in ("first", "all"):
                values = [getattr(sample, part) for sample in measured]
                base = [sample.all for sample in (warm if measured is samples else cold).get("convfs", [])]
                row.append(f"{seconds(median(values))}" if values else "-")
                if part == "all":
                    row.append(ratio(median(values), median(base)) if values and base else "-")
        rows.append(row)
    print_table(
        f"Search for {title} ({warm['convfs'][0].found} events)",
        ("", "first hit, warm", "all, warm", "to convfs", "first hit, cold", "all, cold", "to convfs"),
        rows,
    )


def _anew(directory: Path, query: str, _number: int) -> Sample:
    with Store.open(directory / "store", renderer=FileRenderer()) as store:
        list(store.search.run(query, 1))
    with Store.open(directory / "store", renderer=FileRenderer()) as store:
        drop_caches()
        return searching(store, query)


def _dropped(work: Callable[[int], Sample], number: int) -> Sample:
    drop_caches()
    return work(number)


def _appending(directory: Path, source: Path, rounds: int) -> None:
    """Measure appends to a store at rest, and to one that files what was imported as a daemon's background does."""
    path = directory / "store"
    with Store.open(path, renderer=FileRenderer()) as store:
        Importer(store).run([source])
    contestants = {"at rest": partial(_appends, path, False), "filing": partial(_appends, path, True)}
    taken = interleaved(rounds, contestants)
    base = median(median(one) for one in taken["at rest"])
    rows = [
        (
            name,
            seconds(median(median(one) for one in values)),
            ratio(median(median(one) for one in values), base),
            seconds(median(percentile(one, 0.99) for one in values)),
        )
        for name, values in taken.items()
    ]
    print_table("Appends while the index is kept up", ("", "median", "to at rest", "99th of 100"), rows)


def _appends(path: Path, filing: bool, number: int) -> list[float]:
    """Return the seconds that each of many appends takes."""
    taken: list[float] = []
    with Store.open(path, renderer=FileRenderer()) as store:
        context = store.contexts.create().context
        if filing:
            store.search.renew()
        idle = Idle(lambda: store.activity)
        if filing:
            idle.add(store.search, 0.5, at_once=True)
        idle.start()
        for payload in corpus.payloads(APPENDS, 2000, seed=number):
            time.sleep(PAUSE)
            taken.append(timed(partial(store.contexts.append, context, payload, "claude-code.line.v1")))
        idle.close()
    return taken


if __name__ == "__main__":
    parser = options(__doc__ or "")
    arguments = parse(parser)
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)
