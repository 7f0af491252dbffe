"""A machine that is killed at any step of archiving: nothing is lost, nothing is there twice, and another goes on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from store.retention.pruner import delete
from store.shared import archive, leases, remote
from store.shared.archive import Archive
from store.shared.space import Place
from store.store import Store
from tests import forked
from tests.conftest import scratch
from tests.model import instead
from tests.store.shared import test_archive as archives
from tests.store.shared.archiving import SEGMENT_BYTES
from tests.store.shared.test_collecting import collect
from tests.store.shared.test_spaces import NAME, Team, said, until

TIMEOUT = 120.0
MOMENTS = 400 if os.environ.get("CONVFS_LARGE_TESTS") == "1" else 12


def run(root: Path, last: int = 0) -> "subprocess.CompletedProcess[str]":
    done = forked.run(
        "tests.store.shared.archiving", root, last, directory=forked.ROOT, environment=os.environ, timeout=TIMEOUT
    )
    assert done.returncode in (0, -9), done.stderr
    return done


def again(folder: Path) -> Path:
    place = folder / "here"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run(["cp", "-a", folder / "before", place], check=True, timeout=60)
    for machine in "abc":
        instead(place / machine)
    return place


@pytest.fixture(scope="module")
def prepared() -> Iterator[tuple[Path, dict[int, list[bytes]]]]:
    """A space with some in its archive, some of that dropped, and more to be archived; one machine was away."""
    folder = scratch()
    place = Place(str(folder / "here" / "server"))
    remote.init(place, NAME)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as held:
        patch.setattr(archive, "SEGMENT_BYTES", SEGMENT_BYTES)
        team = Team(folder / "here", place, NAME, held)
        a, b, c = (team.open(name) for name in "abc")
        keep, gone = (a.contexts.create().context for _ in range(2))
        until(lambda: c.writer.seq == a.writer.seq)
        c.close()
        for _ in range(4):
            archives.appended(a, keep, 2)
            a.contexts.append(gone, os.urandom(400).hex().encode(), "line")
        archives.archive(a)
        delete(a, gone, a.writer.head(gone).tip)
        a.close()
        a = team.open("a")
        patch.setattr(archive.Archive, "thin", lambda *_arguments: ())
        collect(a)
        archives.appended(a, keep, 20)
        until(lambda: b.writer.seq == a.writer.seq)
        kept = {keep: said(a, keep)}
        a.close()
        b.close()
    (folder / "here").rename(folder / "before")
    yield folder, kept
    shutil.rmtree(folder)


@pytest.mark.parametrize("part", range(3))
def test_killed(
    prepared: tuple[Path, dict[int, list[bytes]]], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_SECONDS", 1.0)
    monkeypatch.setattr(archive, "SEGMENT_BYTES", SEGMENT_BYTES)
    folder, kept = prepared
    steps = int(run(again(folder) / "a").stdout)
    assert steps > 40
    moments = sorted({1 + number * (steps - 1) // MOMENTS for number in range(MOMENTS)})[part::3]
    ends = set()
    for number in moments:
        here = again(folder)
        assert run(here / "a", number).returncode == -9
        with ExitStack() as held:
            team = Team(here, Place(str(here / "server")), NAME, held)
            # another goes on
            one = team.open("ab"[number % 2])
            ends.add(Archive(archives.space_of(one)).now().seq)
            archives.sound(one)
            # once the lease of the other is over
            until(lambda one=one, team=team: archives.archive(one) or len(os.listdir(team.space / "log")) == 1)
            archives.archive(one)
            archives.sound(one)
            own = Archive(archives.space_of(one))
            assert len(os.listdir(team.space / "log")) == 1
            own.remove(own.orphans())
            assert sorted(own.objects()) == sorted(segment.key for segment in own.now().segments)
            other, away = team.open("ba"[number % 2]), team.open("c")
            new = Team(here, team.place, NAME, held)
            new._first = here / "a"
            joined = new.open("d")
            for store in (one, other, away, joined):
                store.writer.catch_up()
                archives.sound(store)
                for context, payloads in kept.items():
                    assert said(store, context) == payloads
            for store in (one, other, away, joined):
                store.close()
            team.agree("a", "b", "c", "d")
    assert len(ends) > 1


def test_who_is_not_killed_archives_and_thins_all(
    prepared: tuple[Path, dict[int, list[bytes]]],
) -> None:
    folder, _kept = prepared
    here = again(folder)
    with Store.open(here / "a") as store:
        known = Archive(archives.space_of(store)).now()
    run(here / "a")
    with Store.open(here / "a") as store:
        now = Archive(archives.space_of(store)).now()
    assert now.seq > known.seq
    assert all(one.thinned for one in now.segments)
    old = [one for one in now.segments if one.last <= known.seq]
    assert sum(one.size for one in old) < sum(one.size for one in known.segments) - 4 * 800
