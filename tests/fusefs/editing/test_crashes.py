"""Saves that are left when the daemon is killed."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.editing.talk import FIRST, LAST, LINES, NAME, SECOND, Talk, changed
from tests.fusefs.tree.mounting import PATIENCE, Mounted, add, errno_of, mounted, new_store


def killed(store_path: Path, work: Callable[[Talk], object]) -> None:
    """Mount, work, and kill the daemon at the end."""
    try:
        with mounted(store_path) as mount:
            work(Talk(mount))
            kill(mount)
    except AssertionError:
        assert mount.daemon.returncode == -signal.SIGKILL


def check(store_path: Path) -> None:
    with new_store(store_path) as store:
        assert fsck(store) == []


def kill(mount: Mounted) -> None:
    mount.daemon.kill()
    mount.daemon.wait(PATIENCE)


@pytest.fixture
def filled(store_path: Path) -> Path:
    with new_store(store_path) as store:
        add(store, LINES)
    return store_path


def test_what_was_closed_is_committed_at_the_next_start(filled: Path) -> None:
    text = b""

    def work(talk: Talk) -> None:
        nonlocal text
        text = changed(talk.first)
        file = os.open(talk.first, os.O_WRONLY | os.O_TRUNC)
        os.write(file, text)
        # another descriptor stays, so it is closed but not committed
        held.append(os.dup(file))
        os.close(file)
        assert talk.new_versions == 0

    held: list[int] = []
    killed(filled, work)
    for fd in held:
        errno_of(lambda fd=fd: os.close(fd))
    with mounted(filled) as mount:
        talk = Talk(mount)
        assert talk.first.read_bytes() == text
        assert talk.versions == 2
        assert talk.listed == [FIRST, SECOND, LAST]
    with mounted(filled) as mount:
        assert Talk(mount).versions == 2
    check(filled)


def test_what_was_synced_and_not_closed_is_kept_beside(filled: Path) -> None:
    held: list[int] = []

    def work(talk: Talk) -> None:
        held.append(os.open(talk.first, os.O_WRONLY | os.O_TRUNC))
        os.write(held[0], b"half of")
        os.fsync(held[0])

    killed(filled, work)
    with mounted(filled) as mount:
        talk = Talk(mount)
        assert b"Hello" in talk.first.read_bytes()
        assert (talk.events / f"{FIRST}.draft").read_bytes() == b"half of"
        assert talk.versions == 1
        assert "half" not in talk.errors
        assert f"{FIRST}.draft" in talk.errors


def test_a_new_event_that_was_closed_is_appended(filled: Path) -> None:
    held: list[int] = []

    def work(talk: Talk) -> None:
        file = os.open(talk.events / "user.md", os.O_WRONLY | os.O_CREAT)
        os.write(file, b"One thing more\n")
        held.append(os.dup(file))
        os.close(file)

    killed(filled, work)
    for _ in range(2):
        with mounted(filled) as mount:
            talk = Talk(mount)
            assert talk.listed == [FIRST, SECOND, LAST, "00005-user.md"]
            assert talk.versions == 2


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2, 0.35])
@pytest.mark.parametrize("way", ["in place", "by renaming"])
def test_killed_at_any_moment_it_is_the_old_or_the_new_one(filled: Path, delay: float, way: str) -> None:
    texts: list[bytes] = []
    told: list[bytes] = []

    def save(talk: Talk, before: bytes) -> None:
        for number in range(10_000):
            text = before.replace(b"Hello", b"Hello %d" % number)
            texts.append(text)
            try:
                if way == "in place":
                    talk.first.write_bytes(text)
                else:
                    (talk.events / "tmp").write_bytes(text)
                    os.rename(talk.events / "tmp", talk.first)
            except OSError:
                return
            told.append(text)

    def work(talk: Talk) -> None:
        texts.append(before := talk.first.read_bytes())
        saving = threading.Thread(target=save, args=(talk, before))
        saving.start()
        time.sleep(delay)
        kill(talk.mount)
        saving.join(PATIENCE)

    killed(filled, work)
    with mounted(filled) as mount:
        talk = Talk(mount)
        now = talk.first.read_bytes()
        assert now in texts
        if told:
            assert texts.index(now) >= texts.index(told[-1])
        assert [name for name in talk.listed if name.endswith(".md")] == [FIRST, SECOND, LAST]
        assert not [name for name in talk.listed if "draft" in name]
    check(filled)


def test_a_save_that_is_cut_in_its_middle_can_be_gone_on_with(filled: Path) -> None:
    text = before = b""

    def work(talk: Talk) -> None:
        nonlocal text, before
        text, before = changed(talk.first), talk.first.read_bytes()
        os.rename(talk.first, talk.events / f"{FIRST}~")
        talk.becomes(1)

    killed(filled, work)
    with mounted(filled) as mount:
        talk = Talk(mount)
        assert (talk.events / f"{FIRST}~").read_bytes() == before
        [begun, _deleted] = sorted((talk.root / ".versions").iterdir())
        assert (begun / "events" / FIRST).read_bytes() == before
        with open(talk.first, "xb") as file:
            file.write(text)
        talk.sync()
        assert talk.first.read_bytes() == text
        assert talk.new_versions == 0
    check(filled)


def test_a_transcript_that_was_closed_is_committed_at_the_next_start(filled: Path) -> None:
    """Once, though what was appended is not yet known to be that."""

    def work(talk: Talk) -> None:
        path = talk.mount.root / "transcripts" / "project" / f"{NAME}.md"
        text = path.read_text().replace("Hello", "Goodbye") + "\n## user\n\nOne more\n"
        file = os.open(path, os.O_WRONLY | os.O_TRUNC)
        os.write(file, text.encode())
        held.append(os.dup(file))
        os.close(file)
        assert talk.new_versions == 0

    held: list[int] = []
    killed(filled, work)
    for fd in held:
        errno_of(lambda fd=fd: os.close(fd))
    for _start in range(2):
        with mounted(filled) as mount:
            talk = Talk(mount)
            assert "Goodbye" in talk.transcript
            assert talk.listed == [FIRST, SECOND, LAST, "00005-user.md"]
            assert talk.versions == 2
    check(filled)


def test_a_new_event_that_was_being_written_is_a_file_that_becomes_one(filled: Path) -> None:
    """Whoever has seen it in a listing makes an event of it, too, and then another one."""

    def work(talk: Talk) -> None:
        held.append(os.open(talk.events / "user.md", os.O_WRONLY | os.O_CREAT))
        os.write(held[0], b"half of")

    held: list[int] = []
    killed(filled, work)
    errno_of(lambda: os.close(held[0]))
    with mounted(filled) as mount:
        talk = Talk(mount)
        assert "user.md" in talk.listed
        assert (talk.events / "user.md").read_text() == "half of"
        for number, text in enumerate(("one\n", "another\n"), 5):
            (talk.events / "user.md").write_text(text)
            assert (talk.events / f"{number:05}-user.md").read_text() == text
