"""Scratch files behave as files do, call by call; and what is refused is refused on purpose."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.calls import CALLS, REFUSED, Call, fails
from tests.editors.errnos import NAMES, OF_NAMES, OTHERS, Compared, outcome, prepare
from tests.editors.place import MountedPlace, Place, PlainPlace, place
from tests.fusefs.tree.mounting import PATIENCE, can_mount


@pytest.fixture(scope="module", params=[PlainPlace, MountedPlace], ids=["plain", "mount"])
def shared(request: pytest.FixtureRequest) -> Iterator[Place]:
    """One place for all calls: none of them may change an event, or the conversation."""
    if request.param is MountedPlace and not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with place(request.param) as made:
        versions = made.versions()
        yield made
        assert made.files() == made.drawn
        assert made.versions() == versions


@pytest.fixture
def at(request: pytest.FixtureRequest, shared: Place) -> Iterator[Path]:
    """A directory for one call; what it leaves is removed."""
    if isinstance(shared, MountedPlace):
        shared.mount.check_alive()
    directory = shared.directory
    if getattr(request, "param", "") == "below":
        directory = directory / "below"
        directory.mkdir()
    yield directory
    if isinstance(shared, MountedPlace):
        shared.mount.check_alive()
    left = set(os.listdir(os.fsencode(shared.directory))) - {os.fsencode(name) for name in shared.drawn}
    subprocess.run([b"rm", b"-rf", b"--", *left], cwd=shared.directory, check=True, timeout=PATIENCE)
    assert sorted(path.name for path in shared.directory.iterdir()) == sorted(shared.drawn)


BOTH = pytest.mark.parametrize("at", ["beside events", "below"], indirect=True)


@BOTH
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_does_what_it_does_anywhere(at: Path, call: Call) -> None:
    call(at)


@BOTH
@pytest.mark.parametrize(("call", "code"), [row[:2] for row in REFUSED], ids=[row[0].__name__ for row in REFUSED])
def test_what_is_refused(shared: Place, at: Path, call: Call, code: int) -> None:
    if isinstance(shared, MountedPlace):
        with fails(code):
            call(at)
    else:
        try:
            call(at)
        except OSError as error:
            pytest.skip(f"this disk does not do it either: {error}")


@pytest.mark.parametrize("name", OF_NAMES)
def test_a_call_fails_as_it_does_on_a_disk(shared: Place, at: Path, name: str) -> None:
    """Of every sort of name: what comes of it, and what is there then."""
    found: list[dict[str, object]] = []
    for directory in (at, shared.outside):
        come: dict[str, object] = {}
        for on in NAMES:
            made = prepare(directory / "made", chained=on.startswith("chain"))
            come[on[:40]] = outcome(lambda made, on=on: OF_NAMES[name](made, on), made), sorted(os.listdir(made))
            shutil.rmtree(made)
        found.append(come)
    assert found[0] == found[1]


@pytest.mark.parametrize("compared", OTHERS, ids=lambda compared: compared.__name__)
def test_what_a_call_changes_is_what_it_changes_on_a_disk(shared: Place, at: Path, compared: Compared) -> None:
    found = [outcome(compared, prepare(directory / "made")) for directory in (at, shared.outside)]
    shutil.rmtree(shared.outside / "made")
    assert found[0] == found[1]
