"""A disk that is really full: a small one in memory, which only root can make."""

import errno
import os
from pathlib import Path

from tests.crash_mount.harness import NAME, PROJECT, Bench, look
from tests.editing_mount.talk import FIRST, SECOND


def fill(path: Path, left: int) -> None:
    """Leave so many bytes of a disk."""
    with path.open("ab", buffering=0) as file:
        while os.statvfs(path).f_bavail:
            file.write(bytes(4096))
    os.truncate(path, path.stat().st_size - left)


def test_whoever_needs_room_is_told_and_with_room_it_goes_on(here: Bench, template: Path, small_disk: Path) -> None:
    usual, here.store = here.store, small_disk / "store"
    try:
        here.begin(template)
        assert here.mount() is None, here.said()
        old = look(here.root).state
        for left in (256 << 10, 0):
            fill(small_disk / "full", left)
            told = [
                here.run(program, name, b"x" * size)
                for program in ("nano", "renamed onto", "vim")
                for name, size in ((FIRST, 10), (SECOND, 500_000))
            ]
            told += [here.run(program, FIRST, b"More") for program in ("new event", "forked", "new event renamed")]
            assert {one.errno for one in told} <= {errno.ENOSPC, errno.EEXIST}
            assert {one.errno for one in told[:3]} == {errno.ENOSPC}
            assert not any(one.saved for one in told)
            assert look(here.root, old).state == old
        (small_disk / "full").unlink()
        assert here.run("nano", FIRST, b"There is room again.\n").saved == 1
        assert here.unmount()["status"] == 0, here.said()
        talk = here.check_after(old).state.talks[f"{PROJECT}/{NAME}"]
        assert talk.events[FIRST].endswith(b"---\nThere is room again.\n")
        assert talk.versions == ("append", "edit-00001")
    finally:
        here.clean()
        here.store = usual
