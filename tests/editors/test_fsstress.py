"""Many processes at work on scratch files at once, some of which are killed."""

import os
import sys
from pathlib import Path

from tests.editors.place import MountedPlace, Place

FSSTRESS = Path(__file__).with_name("fsstress.py")
COUNT = int(os.environ.get("CONVFS_TEST_FSSTRESS") or ("2000" if "CONVFS_LARGE_TESTS" in os.environ else "1000"))
SEED = os.environ.get("CONVFS_TEST_FSSTRESS_SEED", "1")


def test_whatever_many_programs_do_at_once(here: Place) -> None:
    versions = here.versions()
    (here.directory / "work").mkdir()
    here.run("env", "-C", "work", sys.executable, str(FSSTRESS), str(COUNT), SEED, seconds=60 + COUNT / 10)
    assert here.files() == here.drawn
    if isinstance(here, MountedPlace):
        before = here.shell("find work -printf '%P %y %m %s %n %T@ %l\\n' | sort")
        here.remount()
        assert here.shell("find work -printf '%P %y %m %s %n %T@ %l\\n' | sort") == before
        assert here.versions() == versions
        assert here.mount.messages.read_text() == ""
    here.shell("rm -r work")
    assert here.files() == here.drawn
