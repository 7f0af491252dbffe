"""Some programs do to conversations at random what people do, all at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import add, assistant, can_mount, mounted, new_store, user

TALKSTRESS = Path(__file__).with_name("talkstress.py")
COUNT = int(os.environ.get("CONVFS_TEST_TALKSTRESS", "100"))
SEED = os.environ.get("CONVFS_TEST_TALKSTRESS_SEED", "1")


@pytest.mark.skipif(not can_mount(), reason="/dev/fuse or fusermount3 is not there")
@pytest.mark.timeout(60 + COUNT)
def test_whatever_many_people_do_at_once(tmp_path: Path) -> None:
    with new_store(tmp_path / "store") as store:
        for number in range(4):
            lines = [(assistant if event % 2 else user)(f"Event {event} of {number}", event) for event in range(20)]
            add(store, lines, name=f"talk-{number}")
    with mounted(tmp_path / "store") as mount:
        command = [sys.executable, str(TALKSTRESS), str(COUNT), SEED]
        done = subprocess.run(command, cwd=mount.root, capture_output=True, text=True, timeout=50 + COUNT, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        time.sleep(1.2)  # longer than a removed event is waited for
        shown = contents(mount.root)
        assert "Traceback" not in mount.messages.read_text()
    with mounted(tmp_path / "store") as mount:
        again = contents(mount.root)
        assert again.keys() == shown.keys()
        assert "Traceback" not in mount.messages.read_text()
    with new_store(tmp_path / "store") as store:
        assert fsck(store) == []


def contents(root: Path) -> dict[str, bytes]:
    """Return what every event and transcript holds, each as long as it says."""
    found: dict[str, bytes] = {}
    for pattern in ("conversations/*/*/events/*", "transcripts/*/*"):
        for path in root.glob(pattern):
            if path.is_file():
                found[str(path.relative_to(root))] = data = path.read_bytes()
                assert path.stat().st_size == len(data), path
    return found
