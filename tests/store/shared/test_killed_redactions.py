"""A machine that is killed at any step of a redaction in a space: it is finished, or undone, and nothing is lost."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec import Struct

from fusefs.text.render import FileRenderer
from store.ids import Hash
from store.redaction.redaction import Redaction
from store.shared import archive, leases, remote
from store.shared.archive import Archive
from store.shared.space import Place
from store.store import Store
from store.upkeep.archiving import Archiving
from tests import forked
from tests.conftest import scratch
from tests.model import instead
from tests.store.shared.archiving import ALL, SEGMENT_BYTES
from tests.store.shared.redacting import SECRETS
from tests.store.shared.test_shared_redaction import filled, left, nothing_in_files, nothing_in_space, proved, redact
from tests.store.shared.test_spaces import NAME, Team, said, until

LARGE = os.environ.get("CONVFS_LARGE_TESTS") == "1"
MOMENTS = 3
PARTS = 8 if LARGE else 1
TIMEOUT = 120.0


class Prepared(Struct):
    """A space before a machine redacts, and after that, while the other was away: copies of it, and what it holds."""

    folder: Path
    before: dict[int, list[bytes]]
    kept: dict[int, list[bytes]]
    gone: frozenset[Hash]
    steps: dict[str, int]

    def again(self, what: str) -> Path:
        """Put a copy in the place where the space was made; return that."""
        place = self.folder / "here"
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run(["cp", "-a", self.folder / what, place], check=True, timeout=60)
        for machine in "ab":
            instead(place / machine)
        return place


@pytest.fixture(scope="module", params=["collected", "whole", "archived"])
def prepared(request: pytest.FixtureRequest) -> Iterator[Prepared]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "SEGMENT_BYTES", SEGMENT_BYTES)
        yield from prepare(collecting=request.param != "whole", archiving=request.param == "archived")


def prepare(*, collecting: bool, archiving: bool) -> Iterator[Prepared]:
    """Make such a space; with turns that were reclaimed, the logs do not say the chain any more."""
    folder = scratch()
    here = folder / "here"
    place = Place(str(here / "server"))
    remote.init(place, NAME)
    with ExitStack() as held:
        team = Team(here, place, NAME, held)
        a, b = team.open("a"), team.open("b")
        kept = filled(a, b, collecting=collecting)
        before = {context: said(a, context) for context in kept}
        if archiving:
            assert a.replica is not None
            for _pause in Archiving(a.replica, ALL).steps(least=1):
                pass
            assert len(Archive(a.replica.connected()[0]).now().segments) > 1
        for store in (a, b):
            while store.search.step():
                pass
            store.close()
    shutil.copytree(here, folder / "redact", symlinks=True)
    made = Prepared(folder, before, kept, frozenset(), {})
    here = made.again("redact")
    made.steps["redact"] = int(run("redact", here / "a").stdout)
    shutil.copytree(here, folder / "follow", symlinks=True)
    made.steps["follow"] = int(run("follow", here / "b").stdout)
    with Store.open(made.again("redact") / "a", renderer=FileRenderer()) as store:
        made.gone = Redaction(store, SECRETS).run().gone
    yield made
    shutil.rmtree(folder)


def run(what: str, root: Path, last: int = 0) -> "subprocess.CompletedProcess[str]":
    done = forked.run(
        "tests.store.shared.redacting", what, root, last, directory=forked.ROOT, environment=os.environ, timeout=TIMEOUT
    )
    assert done.returncode in (0, -9), done.stderr
    return done


def settled(store: Store) -> bool:
    """Return whether a replica owes nothing after a redaction."""
    return store.replica is not None and not store.replica.redactions.owes


def generation(store: Store) -> int:
    assert store.replica is not None
    return store.replica.generation


def finished_or_undone(prepared: Prepared, here: Path, number: int) -> bool:
    """See how a space is after a machine was killed, and that it can be redacted; return whether it has been."""
    with ExitStack() as held:
        team = Team(here, Place(str(here / "server")), NAME, held)
        # whichever machine comes back first, and the other perhaps only later
        names = "ab" if number % 3 else "ba"
        one = team.open(names[0])
        other = team.open(names[1]) if number % 2 else None
        until(lambda: settled(one))
        finished = generation(one) > 0
        if finished:
            left(one, prepared.kept)
            nothing_in_space(one, prepared.gone)
        else:
            assert {context: said(one, context) for context in prepared.before} == prepared.before
        done = redact(one)
        gone = done.gone | prepared.gone
        other = other or team.open(names[1])
        assert one.replica is not None
        until(lambda: one.replica is not None and one.replica.behind() == [])
        assert generation(one) == generation(other) >= 1
        for store in (one, other):
            left(store, prepared.kept)
            proved(store, gone)
            nothing_in_space(store, gone)
        for store in (one, other):
            store.close()
            nothing_in_files(store.root, gone)
        nothing_in_files(team.space, gone)
        team.agree("a", "b")
        return finished


def spread(count: int, part: int) -> list[int]:
    if LARGE:
        return list(range(1 + part, count, PARTS))
    return sorted({1 + number * (count - 1) // MOMENTS for number in range(MOMENTS)})


@pytest.mark.logs("is being redacted", "was redacted", "the last redaction are still there", sometimes=True)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("what", "machine"), [("redact", "a"), ("follow", "b")])
def test_killed(prepared: Prepared, what: str, machine: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_SECONDS", 1.0)
    finished = set()
    for number in spread(prepared.steps[what], part):
        here = prepared.again(what)
        killed = run(what, here / machine, number).returncode != 0
        done = finished_or_undone(prepared, here, number)
        assert done or what == "redact"
        finished.add(done)
        assert killed or done
    # at the first step nothing has happened yet
    assert finished == ({True, False} if what == "redact" else {True})
