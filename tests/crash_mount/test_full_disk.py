"""A disk that is really full: a small one in memory, which only root can make."""

import errno
import os
import time
from pathlib import Path

from store.paths import DRAFTS, SCRATCH
from tests.crash_mount.harness import NAME, PROJECT, Bench, Fault, look
from tests.fusefs.editing.talk import FIRST, SECOND
from tests.fusefs.tree.mounting import until


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


def test_everything_is_read_on_a_full_disk_whatever_the_background_was_about_to_do(
    here: Bench, template: Path, small_disk: Path
) -> None:
    """The disk fills while commits wait to be packed and filed: that once ended the daemon, or all writing."""
    usual, here.store = here.store, small_disk / "store"
    full = small_disk / "full"
    try:
        here.begin(template)
        assert here.mount() is None, here.said()
        old = look(here.root).state
        for number in range(4):
            text = b"Save %d: %s\n" % (number, b"giraffe " * 3000)
            assert here.run("nano", FIRST, text).saved == 1
            expected = text
            fill(full, (0, 4096, 200_000, 0)[number])
            for _ in range(3):
                # the background packs after a second, and the searches ask for all that is new
                seen = look(here.root, old).state.talks[f"{PROJECT}/{NAME}"]
                assert seen.events[FIRST].endswith(expected)
                assert (here.root / "search" / "giraffe" / "hits.txt").read_bytes().count(FIRST.encode()) >= 1
                assert b"giraffe" in (here.root / "transcripts" / PROJECT / f"{NAME}.md").read_bytes()
                assert not here.died, here.said()
                time.sleep(0.6)
            assert here.run("nano", SECOND, b"x" * 5000).errno == errno.ENOSPC
            full.unlink()
        assert here.run("nano", SECOND, b"There is room again.\n").saved == 1
        assert here.unmount()["status"] == 0, here.said()
        talk = here.check_after(old).state.talks[f"{PROJECT}/{NAME}"]
        assert talk.events[FIRST].endswith(expected)
        assert talk.events[SECOND].endswith(b"---\nThere is room again.\n")
    finally:
        here.clean()
        here.store = usual


def test_a_store_that_was_killed_is_mounted_on_a_full_disk(here: Bench, template: Path, small_disk: Path) -> None:
    usual, here.store = here.store, small_disk / "store"
    full = small_disk / "full"
    try:
        here.begin(template)
        assert here.mount() is None, here.said()
        old = look(here.root).state
        text = b"zebra " * 20_000 + b"\n"
        assert here.run("nano", FIRST, text).saved == 1
        # what only is a draft by then is committed once there is room
        drafts = here.store / SCRATCH / DRAFTS
        until(lambda: not any(path.is_file() for path in drafts.rglob("*")))
        here.kill()
        here.wait()
        fill(full, 0)
        here.clean()
        assert here.mount() is None, here.said()
        seen = look(here.root, old).state.talks[f"{PROJECT}/{NAME}"]
        assert seen.events[FIRST].endswith(text)
        assert (here.root / "search" / "zebra" / "hits.txt").read_bytes().count(FIRST.encode()) >= 1
        assert here.run("nano", SECOND, b"x" * 5000).errno == errno.ENOSPC
        full.unlink()
        assert here.run("nano", SECOND, b"There is room again.\n").saved == 1
        assert here.unmount()["status"] == 0, here.said()
        assert here.check_after(old).state.talks[f"{PROJECT}/{NAME}"].events[FIRST].endswith(text)
    finally:
        here.clean()
        here.store = usual


def test_a_store_that_was_mounted_before_is_mounted_without_a_free_byte(
    here: Bench, template: Path, small_disk: Path
) -> None:
    usual, here.store = here.store, small_disk / "store"
    full = small_disk / "full"
    try:
        here.begin(template)
        assert here.mount() is None, here.said()
        old = look(here.root).state
        assert here.unmount()["status"] == 0, here.said()
        fill(full, 0)
        assert here.mount() is None, here.said()
        assert look(here.root, old).state == old
        assert here.run("nano", SECOND, b"x" * 5000).errno == errno.ENOSPC
        assert here.unmount()["status"] == 0, here.said()
        full.unlink()
        here.check_after(old)
    finally:
        here.clean()
        here.store = usual


def test_a_new_event_that_waits_for_room_is_appended_when_there_is(here: Bench, template: Path) -> None:
    """The disk is full between the close, which said that it is saved, and the commit."""
    here.begin(template)
    assert here.mount(Fault(1, "ENOSPC", only="pwrite journal/")) is None, here.said()
    old = look(here.root).state
    key, text = f"{PROJECT}/{NAME}", b"Said on a full disk.\n"
    (here.events / "user.md").write_bytes(text)
    here.settle()
    assert here.fired
    until(lambda: len(look(here.root, old).state.talks[key].events) == len(old.talks[key].events) + 1)
    assert (here.events / "user.md").read_bytes().endswith(text)
    [own] = look(here.root, old).state.talks[key].events.keys() - old.talks[key].events.keys()
    (here.events / own).write_bytes(b"Edited.\n")
    assert here.unmount()["status"] == 0, here.said()
    after = here.check_after(old)
    assert after.scratch == {}
    (name,) = after.state.talks[key].events.keys() - old.talks[key].events.keys()
    assert after.state.talks[key].events[name].endswith(b"Edited.\n")
    assert len(after.state.talks[key].versions) == len(old.talks[key].versions) + 2


def test_a_new_event_that_waits_for_room_is_no_event_once_its_file_was_removed(here: Bench, template: Path) -> None:
    here.begin(template)
    assert here.mount(Fault(1, "ENOSPC", lasting=True, only="pwrite journal/")) is None, here.said()
    old = look(here.root).state
    (here.events / "user.md").write_bytes(b"Said on a full disk.\n")
    (here.events / "assistant.md").write_bytes(b"Kept.\n")
    assert here.fired
    assert any("there is room" in path.read_text() for path in (here.root / ".convfs" / "errors").iterdir())
    (here.events / "user.md").unlink()
    here.settle()
    key = f"{PROJECT}/{NAME}"
    until(lambda: len(look(here.root, old).state.talks[key].events) > len(old.talks[key].events))
    assert here.unmount()["status"] == 0, here.said()
    after = here.check_after(old)
    (name,) = after.state.talks[key].events.keys() - old.talks[key].events.keys()
    assert after.state.talks[key].events[name].endswith(b"Kept.\n")
    assert after.scratch == {}
