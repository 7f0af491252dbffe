"""A fault of a format in a mount: the write or the file waits, and says why; the mount and all others go on."""

import errno
import os
from pathlib import Path

import pytest

from tests.fusefs.native.test_import import report
from tests.fusefs.native.test_native import OTHER, native_session, text
from tests.fusefs.tree.mounting import Mounted, assistant, errno_of, until, user

LINES = [user("Buy milk."), assistant("Done.", 1)]


@pytest.mark.logs("KeyError", sometimes=True)
def test_what_is_dropped_stays_and_is_reported(mount: Mounted) -> None:
    there = mount.root / "import/session.jsonl"
    mount.tell(faulty="spans")
    there.write_bytes(text(LINES))
    [_none, line] = report(mount, "session.jsonl").splitlines()
    assert line.startswith("session.jsonl: a fault of convfs: KeyError 'spans' in ")
    assert there.read_bytes() == text(LINES)
    mount.check_alive()
    # others are not kept out, of any tool
    other = mount.root / "import/talk.md"
    other.write_text("# aider chat started at 2026-03-05 12:00:00\n\n#### Why?\n\nBecause.\n")
    assert report(mount, "talk.md")
    mount.tell(faulty="")
    there.write_bytes(text([*LINES, user("More.", 2)]))
    until(lambda: "1 imported" in report(mount, "session.jsonl"))
    assert not there.exists()


@pytest.mark.logs("KeyError", "not committed|failed", sometimes=True)
@pytest.mark.parametrize("name", ["claim", "spans", "type_of", "about", "in_lines", "parts"])
def test_a_session_that_is_written_becomes_one_later(store_path: Path, tmp_path: Path, name: str) -> None:
    with native_session(store_path, tmp_path, LINES) as native:
        mount, other, events = native.mount, native.folder / OTHER, native.talk / "events"
        mount.tell(faulty=name)
        # who writes it may be told
        assert errno_of(lambda: other.write_bytes(text(LINES))) in (0, errno.EIO)
        assert errno_of(lambda: append(native.file, user("And bread.", 2))) in (0, errno.EIO)
        mount.shell("sleep 1.5")
        mount.check_alive()
        assert other.read_bytes() == text(LINES)
        assert native.file.read_bytes() == text([*LINES, user("And bread.", 2)])
        mount.tell(faulty="")
        until(lambda: len(list((mount.root / "conversations/project").iterdir())) == 2)
        until(lambda: len(os.listdir(events)) == 3)
        assert other.read_bytes() == text(LINES)
        assert native.file.read_bytes() == text([*LINES, user("And bread.", 2)])


def append(file: Path, line: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text([line]))
        os.fsync(fd)
    finally:
        os.close(fd)
