"""``convfs watch``, ``convfs mount --watch`` and ``convfs install-service``."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusefs.cli.install_service import unit
from tests.fusefs.cli.user import User, serving
from tests.fusefs.tree.mounting import can_mount, until, work_directory

NAME = "0c7ab1de-0000-4000-8000-000000000001"


@contextmanager
def watching(user: User) -> Iterator[subprocess.Popen[str]]:
    """Run ``convfs watch`` until the block ends, by SIGTERM."""
    with subprocess.Popen(
        [sys.executable, "-m", "fusefs.cli", "watch"],
        env=user.environment,
        cwd=user.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watcher:
        try:
            assert watcher.stderr is not None
            assert watcher.stderr.readline() == "Watching your sessions; Ctrl-C ends.\n"
            yield watcher
            assert watcher.poll() is None, watcher.stderr.read()
            watcher.send_signal(signal.SIGTERM)
            assert watcher.wait(20) == 0
        finally:
            if watcher.poll() is None:
                watcher.kill()


def events(user: User) -> int:
    return sum(line["events"] for line in user.list())


def test_folders_that_settings_name_are_watched_at_once(user: User) -> None:
    path = user.session("shop", NAME, "one")
    settings = user.store / "convfs.toml"
    with watching(user):
        until(lambda: user.store.exists() and events(user) == 1)
        (user.home / "more").mkdir()
        user.session("mill", NAME.replace("1", "2"), "two").rename(user.home / "more/a.jsonl")
        other = user.home / "more/b.jsonl"
        settings.write_text('[sessions]\nfolders = ["more"]\n')
        until(lambda: events(user) == 2)
        # a mistake in the settings ends nothing
        settings.write_text("[sessions\n")
        user.session("shop", NAME, "three")
        other.write_text(path.read_text().replace(NAME, NAME.replace("1", "3")))
        settings.write_text("")
        until(lambda: events(user) >= 4)


def test_sessions_come_in_while_they_are_watched(user: User) -> None:
    with watching(user) as watcher:
        user.session("shop", NAME, "one", "two")
        until(lambda: user.store.exists() and events(user) == 2)
        # others get at the store in between
        assert "shop/" in user.run("ls")
        user.session("shop", NAME, "three")
        until(lambda: events(user) == 3)
        assert watcher.stdout is not None
        told = [watcher.stdout.readline() for _ in range(2)]
    assert [line.partition("/")[0] for line in told] == ["shop", "shop"]
    assert user.run("fsck").endswith("\n")


def test_they_come_in_through_who_serves_the_store(user: User) -> None:
    with serving(user), watching(user):
        user.session("shop", NAME, "one")
        until(lambda: events(user) == 1)
    assert events(user) == 1


@pytest.fixture
def mountpoint() -> Iterator[Path]:
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    path = work_directory() / f"watched-{os.getpid()}"
    yield path
    if path.exists():
        subprocess.run(["fusermount3", "-uqz", path], check=False)
        path.rmdir()


def test_a_mount_that_watches_shows_what_is_written(user: User, mountpoint: Path) -> None:
    user.session("shop", NAME, "there before")
    user.run("mount", "--watch", mountpoint)
    try:
        conversations = mountpoint / "conversations" / "shop"
        until(lambda: conversations.exists() and list(conversations.iterdir()))
        [conversation] = conversations.iterdir()
        user.session("shop", NAME, "and more")
        until(lambda: len(list((conversation / "events").iterdir())) == 2)
        user.session("garden", "0c7ab1de-0000-4000-8000-000000000002", "new")
        until(lambda: (mountpoint / "conversations" / "garden").exists())
        # a home that leads into the mount is not looked into
        link = user.home / ".config/claude"
        link.mkdir(parents=True)
        (link / "projects").symlink_to(mountpoint)
        user.session("shop", NAME, "the last")
        until(lambda: len(list((conversation / "events").iterdir())) == 3)
    finally:
        user.run("umount", mountpoint)
    assert events(user) == 4


def units(user: User) -> Path:
    return user.home / ".config/systemd/user/convfs.service"


def test_a_unit_is_written_and_removed(user: User) -> None:
    said = user.run("install-service")
    path = units(user)
    assert said.startswith(f"Wrote {path}\nNo user systemd is running here.")
    text = path.read_text()
    assert f'"--store" "{user.store}" "mount" "--foreground" "--watch" "{user.home}/conversations"' in text
    assert user.run("install-service").startswith(f"Left as it was: {path}\n")
    assert user.run("install-service", "elsewhere").startswith(f"Wrote anew {path}\n")
    assert f'"{user.home}/elsewhere"' in path.read_text()
    assert user.run("install-service", "--remove") == f"Removed {path}\n"
    assert not path.exists()
    assert user.run("install-service", "--remove") == f"There is no {path}.\n"
    user.fails("install-service", "somewhere", "--remove", code=2)


def test_it_goes_where_the_environment_says_and_passes_on_what_tools_go_by(user: User) -> None:
    config = user.home / "settings"
    user.run("install-service", XDG_CONFIG_HOME=str(config), CODEX_HOME="/srv/100% codex", EDITOR="vi")
    text = (config / "systemd/user/convfs.service").read_text()
    assert 'Environment="CODEX_HOME=/srv/100%% codex"' in text
    assert f'Environment="XDG_CONFIG_HOME={config}"' in text
    assert "EDITOR" not in text
    assert not units(user).exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
@pytest.mark.parametrize("name", ["store", 'a "store" of 100%, $HOME\\'])
def test_systemd_understands_the_unit(tmp_path: Path, name: str) -> None:
    path = tmp_path / "convfs.service"
    path.write_text(unit([sys.executable, "-m", "fusefs.cli"], tmp_path / name, tmp_path / name))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", path], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    about_it = [line for line in (done.stdout + done.stderr).splitlines() if "convfs" in line]
    assert about_it == []


def test_what_systemd_is_told(user: User, tmp_path: Path) -> None:
    manager = user.runtime / "systemd"
    manager.mkdir()
    calls = tmp_path / "calls"
    fake = tmp_path / "bin" / "systemctl"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nif [ -e {tmp_path}/broken ]; then echo No way >&2; exit 1; fi\n')
    fake.chmod(0o755)
    search = f"{fake.parent}:{os.environ['PATH']}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(manager / "private"))
        said = user.run("install-service", PATH=search)
        assert "Started convfs.service" in said
        assert calls.read_text().splitlines() == [
            "--user daemon-reload",
            "--user enable convfs.service",
            "--user restart convfs.service",
        ]
        calls.unlink()
        assert user.run("install-service", "--remove", PATH=search).startswith("Stopped convfs.service and removed ")
        assert calls.read_text().splitlines() == ["--user disable --now convfs.service", "--user daemon-reload"]
        (tmp_path / "broken").touch()
        assert "`systemctl --user daemon-reload` fails: No way" in user.fails("install-service", PATH=search)


def test_the_unit_runs_what_it_says(user: User, mountpoint: Path) -> None:
    """The command of the unit, run as systemd would: what it is quoted for is what the program gets."""
    user.session("shop", NAME, "one")
    user.run("install-service", mountpoint)
    [line] = [line for line in units(user).read_text().splitlines() if line.startswith("ExecStart=")]
    command = [json.loads(word) for word in line.removeprefix("ExecStart=").split(" ")]
    with subprocess.Popen(command, env=user.environment, cwd=user.home, stderr=subprocess.DEVNULL) as daemon:
        try:
            until(lambda: (mountpoint / "conversations/shop").exists())
        finally:
            daemon.terminate()
            assert daemon.wait(20) == 0
