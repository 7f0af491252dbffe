"""Thousands of operations at random on one file, compared with a model after each."""

import os
import sys
from pathlib import Path

from tests.editors.place import MountedPlace, Place
from tests.editors.sessions import ANSWER

FSX = Path(__file__).with_name("fsx.py")
COUNT = int(os.environ.get("CONVFS_TEST_FSX", "5000"))
SEED = int(os.environ.get("CONVFS_TEST_FSX_SEED", "1"))


def test_a_scratch_file_is_a_file(here: Place) -> None:
    versions = here.versions()
    here.run(sys.executable, str(FSX), "anything.tmp", str(COUNT), str(SEED), seconds=COUNT / 10)
    data = (here.directory / "anything.tmp").read_bytes()
    if isinstance(here, MountedPlace):
        here.remount()
        assert here.files() == here.drawn | {"anything.tmp": data}
        assert here.versions() == versions


def test_an_event_is_a_file_while_it_is_open(here: Place) -> None:
    """However it is written in between, what it holds when it is closed is what counts; here, what it held before."""
    versions = here.versions()
    here.run(sys.executable, str(FSX), ANSWER, str(COUNT), str(SEED), "keep", seconds=COUNT / 10)
    assert here.files() == here.drawn
    if isinstance(here, MountedPlace):
        assert here.versions() == versions
        here.remount()
        assert here.files() == here.drawn
        assert here.versions() == versions
