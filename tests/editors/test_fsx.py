"""Thousands of operations at random on one file, compared with a model after each."""

import os
import sys
from pathlib import Path

import pytest

from tests.editors.place import MountedPlace, Place
from tests.editors.sessions import ANSWER, EVENTS

FSX = Path(__file__).with_name("fsx.py")
DOUBTFUL = Path(__file__).with_name("doubtful.py")
SEED = int(os.environ.get("CONVFS_TEST_FSX_SEED", "1"))
LARGE = "CONVFS_LARGE_TESTS" in os.environ
COUNT = int(os.environ.get("CONVFS_TEST_FSX", "100000" if LARGE else "20000"))
SECONDS = 60 + COUNT / 100

pytestmark = pytest.mark.timeout(SECONDS + 300)


def exercise(here: Place, name: str, count: int, *more: str) -> None:
    here.run(sys.executable, str(FSX), name, str(count), str(SEED), *more, seconds=SECONDS)


def test_a_scratch_file_is_a_file(here: Place) -> None:
    versions = here.versions()
    # a plain disk only shows that the exercise is right
    exercise(here, "anything.tmp", COUNT if isinstance(here, MountedPlace) else COUNT // 10)
    data = (here.directory / "anything.tmp").read_bytes()
    if isinstance(here, MountedPlace):
        here.remount()
        assert here.files() == here.drawn | {"anything.tmp": data}
        assert here.versions() == versions


def test_an_event_is_a_file_while_it_is_open(here: Place) -> None:
    """However it is written in between, what it holds when it is closed is what counts; here, what it held before."""
    versions = here.versions()
    exercise(here, ANSWER, COUNT if LARGE else COUNT // 5, "keep")
    assert here.files() == here.drawn
    if isinstance(here, MountedPlace):
        assert here.versions() == versions
        here.remount()
        assert here.files() == here.drawn
        assert here.versions() == versions


def test_what_is_no_event_is_refused_every_time(mount: MountedPlace) -> None:
    """Each text that is refused is kept, and each that is not is one version."""
    versions = mount.versions()
    said = mount.run(sys.executable, str(DOUBTFUL), ANSWER, str(COUNT // 200), str(SEED), seconds=SECONDS)
    saved, *refused = said.stdout.split()
    assert 0 < int(saved) == mount.versions() - versions
    assert refused
    files = mount.files()
    drafts = [ANSWER + ending for ending in (".draft", *(f".draft-{number}" for number in range(2, len(refused) + 1)))]
    kept = [(mount.directory / name).read_bytes() for name in drafts]
    assert sorted(kept) == sorted(bytes.fromhex(text.decode()) for text in refused)
    expected = {name: files[name] for name in EVENTS}
    mount.remount()
    assert {name: data for name, data in mount.files().items() if name in EVENTS} == expected
    assert mount.versions() == versions + int(saved)
