"""Calls that events refuse, and calls that they take though nothing changes."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.editors.calls import fails
from tests.editors.event_calls import REFUSED_OF_EVENTS, Refused
from tests.editors.place import MountedPlace
from tests.editors.sessions import ANSWER
from tests.fusefs.tree.mounting import PATIENCE


@pytest.fixture
def swept(still: MountedPlace) -> Iterator[MountedPlace]:
    """The mount, from which all is removed afterwards that is no event."""
    versions = still.versions()
    yield still
    still.mount.check_alive()
    left = sorted(set(os.listdir(still.directory)) - set(still.drawn))
    subprocess.run(["rm", "-rf", "--", *left], cwd=still.directory, check=True, timeout=PATIENCE)
    assert still.files() == still.drawn
    assert still.versions() == versions


@pytest.mark.parametrize("refused", REFUSED_OF_EVENTS, ids=lambda refused: refused.name)
def test_what_is_refused(swept: MountedPlace, refused: Refused) -> None:
    with fails(refused.code):
        refused.call(swept)
    files = swept.files()
    assert {name: files[name] for name in swept.drawn} == swept.drawn


@pytest.mark.parametrize(
    "take",
    [
        lambda path: path.chmod(0o640),
        lambda path: os.chown(path, os.getuid(), os.getgid()),
        lambda path: os.chown(path, -1, -1),
        lambda path: os.utime(path),
        lambda path: os.utime(path, (1, 2)),
    ],
    ids=["chmod", "chown", "chown nobody", "touch", "utime"],
)
def test_what_every_program_does_after_saving_is_taken(swept: MountedPlace, take: Callable[[Path], None]) -> None:
    """An event's owner and mode stay as they are; nothing is gained by an error for it."""
    take(swept.directory / ANSWER)
    assert swept.mode(ANSWER) == 0o600
