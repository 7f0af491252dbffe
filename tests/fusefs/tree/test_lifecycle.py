"""Mounts: how they begin and end, and what is left of them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fusefs import mount
from fusefs.mount_table import mount_at
from store.errors import UsageError
from store.paths import MOUNTS
from tests.fusefs.tree.mounting import PATIENCE, Mounted, add, mounted, new_store, user


@pytest.fixture
def filled(store_path: Path) -> Path:
    with new_store(store_path) as store:
        add(store, [user("hello")])
    return store_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_unmounts(filled: Path, mountpoint: Path, number: signal.Signals) -> None:
    daemon = Mounted(filled, mountpoint)
    daemon.check_alive()
    daemon.daemon.send_signal(number)
    assert daemon.daemon.wait(PATIENCE) == 0
    assert mount_at(mountpoint) is None
    assert [path.name for path in (filled / MOUNTS).iterdir()] == ["spare"]
    daemon.destroy()


def test_a_signal_unmounts_a_busy_mount(filled: Path, mountpoint: Path) -> None:
    daemon = Mounted(filled, mountpoint)
    held = os.open(mountpoint / "README.md", os.O_RDONLY)
    with subprocess.Popen(
        ["bash", "-c", "while cat */*/*/events/*; do :; done"],
        cwd=mountpoint,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as reader:
        time.sleep(0.2)
        daemon.daemon.terminate()
        assert daemon.daemon.wait(PATIENCE) == 0
        reader.wait(PATIENCE)
    assert mount_at(mountpoint) is None
    with contextlib.suppress(OSError):  # there is nobody left to close it at
        os.close(held)
    daemon.destroy()


def test_unmounting_ends_the_daemon(filled: Path, mountpoint: Path) -> None:
    daemon = Mounted(filled, mountpoint)
    subprocess.run(["fusermount3", "-u", str(mountpoint)], check=True, timeout=PATIENCE)
    assert daemon.daemon.wait(PATIENCE) == 0
    daemon.destroy()


def test_options_are_those_of_a_private_mount(filled: Path) -> None:
    with mounted(filled) as here:
        line = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(here.root) in line)
        own, _, filesystem = line.partition(" - ")
        assert {"rw", "nosuid", "nodev"} <= set(own.split()[5].split(","))
        kind, source, options = filesystem.split()
        assert (kind, source) == ("fuse.convfs", str(filled))
        assert "allow_other" not in options


def test_what_a_killed_daemon_left_is_cleaned_at_the_next_start(filled: Path, mountpoint: Path) -> None:
    first = Mounted(filled, mountpoint)
    first.daemon.kill()
    first.daemon.wait(PATIENCE)
    assert mount_at(mountpoint) is not None
    second = Mounted(filled, mountpoint)
    try:
        second.check_alive()
        assert len(list((filled / MOUNTS).iterdir())) == 1
    finally:
        second.unmount()
    first.destroy()


def test_a_stale_mount_elsewhere_is_cleaned_too(filled: Path, mountpoint: Path) -> None:
    first = Mounted(filled, mountpoint)
    first.daemon.kill()
    first.daemon.wait(PATIENCE)
    with mounted(filled):
        assert mount_at(mountpoint) is None
    first.destroy()


def test_a_note_of_a_living_daemon_is_left_alone(filled: Path, mountpoint: Path) -> None:
    daemon = Mounted(filled, mountpoint)
    mount.clean(filled)
    daemon.check_alive()
    daemon.unmount()


def test_a_damaged_note_is_ignored(filled: Path) -> None:
    (filled / MOUNTS).mkdir()
    (filled / MOUNTS / "1.json").write_text("{")
    mount.clean(filled)
    assert [path.name for path in (filled / MOUNTS).iterdir()] == ["spare"]


def refusal(store: Path, mountpoint: Path) -> str:
    script = """
import sys
from pathlib import Path
from fusefs import mount
from store.errors import UsageError
from store.store import Store
with Store.open(Path(sys.argv[1])) as store:
    try:
        mount.run(store, Path(sys.argv[2]))
    except UsageError as error:
        print(error)
"""
    return subprocess.run(
        [sys.executable, "-c", script, str(store), str(mountpoint)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
        cwd=Path(mount.__file__).parents[1],
    ).stdout


def test_mounts_that_would_lock_themselves_in_are_refused(filled: Path, mountpoint: Path) -> None:
    inside = filled / "below"
    inside.mkdir()
    assert "inside" in refusal(filled, filled.parent)
    assert "inside" in refusal(filled, filled)
    assert "inside" in refusal(filled, inside)
    (filled.parent / "link").symlink_to(filled.parent)
    assert "inside" in refusal(filled, filled.parent / "link")
    assert "not a directory" in refusal(filled, mountpoint / "missing")
    assert "not a directory" in refusal(filled, Path(__file__))


def test_a_mounted_directory_is_refused(filled: Path, mountpoint: Path, store_path: Path) -> None:
    daemon = Mounted(filled, mountpoint)
    other = store_path.with_name("other")
    with new_store(other):
        pass
    assert "mounted already" in refusal(other, mountpoint)
    daemon.check_alive()
    daemon.unmount()


def test_a_store_is_refused_that_the_mountpoint_would_hide(filled: Path) -> None:
    with new_store(filled) as store, pytest.raises(UsageError, match="inside"):
        mount.run(store, filled.parent)


def test_without_polling_it_works_too(filled: Path) -> None:
    (filled / "convfs.toml").write_text("poll_microseconds = 0\n")
    with mounted(filled) as here:
        assert "hello" in here.shell("cat conversations/*/*/events/*")
    assert not os.path.exists(here.root)
