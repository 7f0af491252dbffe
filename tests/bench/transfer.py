"""Push and pull between two stores, beside importing the same, and beside git and rsync with the same as files.

One of the stores may be a replica of a space on PostgreSQL and S3, which run on this machine, in memory.

By itself: ``python -m tests.bench.transfer [--quick] [--rounds N] [--dir DIR]``.
"""

import resource
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.commit.request import NewTurn, Request
from store.disk.blob_format import Form
from store.disk.journal_format import JournalBlob
from store.ids import hash_bytes, type_tag
from store.service.call import Holder
from store.service.exchange import Chosen, Transfer, reached_by, since
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from store.transfer.progress import Reached
from tests.bench import corpus, mounts
from tests.bench.harness import (
    Skipped,
    fresh,
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
)
from tests.conftest import scratch_directory
from tests.servers import S3, Postgres
from tests.spaces import let_in

_TYPE = "bench"
_AT_ONCE = 1000
_PULLS = 7
_IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0")


def spent(work: Callable[[], object]) -> float:
    """Return the processor time of what ``work`` runs, in seconds."""
    before = _used()
    work()
    return _used() - before


def _used() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def bench(directory: Path, *, quick: bool = False, rounds: int | None = None) -> None:
    """Run, and print both tables; the work lies under ``directory``."""
    _sessions(directory / "transfer", quick=quick, rounds=rounds or (1 if quick else 3))
    _one_of_many(fresh(directory / "transfer"), 2_000 if quick else 100_000)


def _sessions(directory: Path, *, quick: bool, rounds: int) -> None:
    sessions = 50 if quick else 1000
    source = directory / "corpus"
    fresh(directory)
    size = corpus.write_corpus(source, sessions=sessions, events=20)
    note(f"transfer: {rounds} rounds of {megabytes(size)} in {sessions} sessions")
    took: dict[str, list[float]] = {}
    with _servers() as place:
        for _ in range(rounds):
            for name, time_ in _round(source, fresh(directory / "round"), place).items():
                took.setdefault(name, []).append(time_)
    medians = {name: median(found) for name, found in took.items()}
    imported = medians["convfs import"]
    print_table(
        f"Sending {megabytes(size)} in {sessions} sessions to an empty place",
        ("", "processor time", "to import"),
        [(name, seconds(time_), ratio(time_, imported)) for name, time_ in medians.items()],
        "Whole commands, start to end, both sides on this machine. Without the time of PostgreSQL and SeaweedFS.",
    )


@contextmanager
def _servers() -> Iterator[Place]:
    with scratch_directory() as directory:
        postgres, s3 = Postgres(directory / "postgres"), S3(directory / "s3")
        try:
            postgres.make()
            postgres.start()
            s3.start()
            yield Place(postgres=postgres.url(), objects=s3.url)
        finally:
            postgres.stop()
            # in order it takes half a minute
            s3.stop(kill=True)


def _through_a_space(
    here: Path, push: Callable[[Path], list[str | Path]], work: Path, place: Place
) -> dict[str, float]:
    """Push to one replica, and pull from another."""
    name, ours, theirs = f"bench-{uuid.uuid4().hex[:12]}", work / "ours", work / "theirs"
    remote.init(place, name)
    remote.join(place, name, ours, "ours")
    took = {"convfs push, to a space": spent(lambda: run(push(ours)))}
    took["convfs push, to a space, once more"] = spent(lambda: run(push(ours)))
    let_in(ours, theirs, "theirs")
    took["another replica joins"] = spent(lambda: Store.open(theirs).close())
    Store.open(work / "elsewhere").close()
    pull = [*mounts.convfs_command(work / "elsewhere"), "pull", theirs]
    took["convfs pull, from another replica"] = spent(lambda: run(pull))
    with Store.open(here, renderer=FileRenderer()) as opened:
        opened.contexts.append(next(entry.id for entry in opened.catalogue.page() if entry.name), b"one more", _TYPE)
    took["convfs push, of one turn, to a space"] = spent(lambda: run(push(ours)))
    took["convfs pull, of one turn, from a space"] = spent(lambda: run(pull))
    return took


def _round(source: Path, work: Path, place: Place) -> dict[str, float]:
    here, there = work / "here", work / "there"
    projects = [word for path in _projects(source, here) for word in ("--project", path)]

    def push(other: Path) -> list[str | Path]:
        return [*mounts.convfs_command(here), "push", *projects, other, "--yes"]

    bring = [*mounts.convfs_command(work / "import"), "import", source / "projects"]
    took = {"convfs import": spent(lambda: run(bring))}
    took["convfs push"] = spent(lambda: run(push(there)))
    took["convfs push, once more"] = spent(lambda: run(push(there)))
    took |= _through_a_space(here, push, work, place)
    took["convfs --version"] = spent(lambda: run([*mounts.convfs_command(here), "--version"]))
    try:
        git = needs("git")
        own, bare = work / "git", work / "bare.git"
        shutil.copytree(source / "projects", own)
        run([git, "init", "-q", "--bare", bare])
        run([git, "init", "-q"], cwd=own)
        took["git add, commit"] = spent(
            lambda: (run([git, "add", "."], cwd=own), run([git, *_IDENTITY, "commit", "-qm", "all"], cwd=own))
        )
        took["git push"] = spent(lambda: run([git, "push", "-q", bare, "HEAD:refs/heads/main"], cwd=own))
        took["git push, once more"] = spent(lambda: run([git, "push", "-q", bare, "HEAD:refs/heads/main"], cwd=own))
    except Skipped as error:
        note(f"git: skipped: {error}")
    try:
        rsync = [needs("rsync"), "-a", f"{source}/projects/", f"{work}/rsync/"]
        took["rsync"] = spent(lambda: run(rsync))
        took["rsync, once more"] = spent(lambda: run(rsync))
    except Skipped as error:
        note(f"rsync: skipped: {error}")
    return took


def _projects(source: Path, store: Path) -> list[str]:
    run([*mounts.convfs_command(store), "import", source / "projects"])
    with Store.open(store, renderer=FileRenderer()) as opened:
        return opened.catalogue.projects()


def _one_of_many(work: Path, count: int) -> None:
    note(f"transfer: one turn among {count} conversations")
    with Store.open(work / "here", renderer=FileRenderer()) as here:
        _fill(here, count)
    began = time.process_time()
    with (
        Store.open(work / "here", renderer=FileRenderer()) as here,
        Store.open(work / "there", renderer=FileRenderer()) as there,
    ):
        giving, taking = Holder(here), Holder(there)
        own, _other = reached_by(giving, taking)
        transfer = Transfer(giving, taking)
        done = transfer.run(transfer.offers(Chosen()))
        assert len(done) == count
        assert {one.what for one in done} == {"new"}
        all_of_them = time.process_time() - began
        reached = Reached(own.position, reached_by(giving, taking)[1].position)
        found = []
        for number in range(_PULLS):
            here.contexts.append(1 + number * count // 7, b"one more turn", _TYPE)
            began = time.process_time()
            own, other = reached_by(giving, taking)
            transfer = Transfer(giving, taking)
            [outcome] = transfer.run(transfer.offers(Chosen(), since(reached, own, other)))
            assert outcome.what == "grown"
            reached = Reached(own.position, reached_by(giving, taking)[1].position)
            found.append(time.process_time() - began)
    with Store.open(work / "here", renderer=FileRenderer()) as here:
        here.contexts.append(2, b"and another", _TYPE)
    pull = [*mounts.convfs_command(work / "there"), "pull", work / "here"]
    first = spent(lambda: run(pull))
    with Store.open(work / "here", renderer=FileRenderer()) as here:
        here.contexts.append(3, b"the last one", _TYPE)
    command = spent(lambda: run(pull))
    with _servers() as place:
        from_a_space = _out_of_a_space(fresh(work / "space"), count, place)
    over_a_directory = _out_of_a_space(fresh(work / "shared"), count, Place(str(fresh(work / "server"))))
    print_table(
        f"One new turn among {count} conversations",
        ("", "processor time"),
        [
            ("all of them, at first", seconds(all_of_them)),
            ("one new turn", seconds(median(found))),
            ("the command, where nothing is known of the other store", seconds(first)),
            ("the command, with one new turn", seconds(command)),
            ("the command, with one new turn of another replica, over servers", seconds(from_a_space)),
            ("the same, over a directory", seconds(over_a_directory)),
            ("the command's start", seconds(spent(lambda: run([sys.executable, "-m", "fusefs.cli", "--version"])))),
        ],
        "Conversations of one turn each. The command opens both stores, and closes them. One may be a replica of an"
        " encrypted space, on PostgreSQL and S3 or in a directory, to which the turn came from another one.",
    )


def _out_of_a_space(work: Path, count: int, place: Place) -> float:
    """Return what a pull of one turn takes from a replica that has to fetch it first."""
    name, ours, theirs = f"bench-{uuid.uuid4().hex[:12]}", work / "ours", work / "theirs"
    remote.init(place, name)
    remote.join(place, name, ours, "ours")
    with Store.open(ours, renderer=FileRenderer()) as store:
        _fill(store, count)
    let_in(ours, theirs, "theirs")
    for root in (theirs, work / "elsewhere"):
        Store.open(root).close()
    pull = [*mounts.convfs_command(work / "elsewhere"), "pull", theirs]
    run(pull)
    found = []
    for number in range(_PULLS):
        with Store.open(ours, renderer=FileRenderer()) as store:
            store.contexts.append(1 + number * count // 7, b"one more turn", _TYPE)
        found.append(spent(lambda: run(pull)))
    return median(found)


def _fill(store: Store, count: int) -> None:
    types = store.writer.types_for((_TYPE,))
    for start in range(0, count, _AT_ONCE):
        requests = []
        for number in range(start, min(start + _AT_ONCE, count)):
            payload = f"conversation {number}".encode()
            digest = hash_bytes(payload)
            changes = f'{{"project":"p{number % 50}","name":"talk-{number}","title":"Talk {number}"}}'.encode()
            requests.append(
                Request(
                    None,
                    turns=[NewTurn(digest, type_tag(_TYPE), 0, 0, 1_772_000_000_000 + number)],
                    blobs=[JournalBlob(digest, Form.PLAIN, len(payload), payload)],
                    changes=changes,
                    types=types,
                    action="create",
                )
            )
            types = ()
        store.writer.submit_all(requests)
        assert all(request.error is None for request in requests)


def main() -> None:
    """Run by itself."""
    arguments = parse(options("Transfer: conversations from one store to another."))
    bench(arguments.dir, quick=arguments.quick, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
