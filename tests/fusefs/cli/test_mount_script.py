"""``./mount.sh`` as a user runs it, where everything that it needs is installed already, and where something is not."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.mount_table import mount_at
from store.service import address
from tests.fusefs.cli.user import ROOT, User
from tests.fusefs.tree.mounting import until

SCRIPT = ROOT / "mount.sh"
# What a system has without FUSE, apt and sudo.
BASICS = ("bash", "cat", "dirname", "env", "id", "mkdir", "mktemp", "python3", "readlink", "rm")

ready = pytest.mark.skipif(
    not (ROOT / ".venv/.convfs-dev").exists() or not os.access("/dev/fuse", os.W_OK),
    reason="needs FUSE, and what ./tests/run.sh installs",
)


class Shell:
    """Somebody at a shell whose PATH holds stand-ins for what installs things: these only note that they ran."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.stand_ins = user.home / "stand-ins"
        self.stand_ins.mkdir()
        self.notes = user.home / "notes"
        for name in ("apt-get", "sudo"):
            self.stand_in(name, f'echo "{name} $*" >>{self.notes}; exit 1')
        self.path = f"{self.stand_ins}:{os.environ['PATH']}"

    def stand_in(self, name: str, script: str) -> None:
        path = self.stand_ins / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments],
            env=self.user.environment | {"PATH": self.path, "PYTHONPATH": ""} | environment,
            cwd=self.user.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def fails(self, *arguments: str, code: int = 1, **environment: str) -> str:
        done = self.run(*arguments, **environment)
        assert done.returncode == code, done
        assert done.stderr.count("\n") == 1, done
        return done.stderr


@pytest.fixture
def shell(user: User) -> Iterator[Shell]:
    yield Shell(user)
    mnt = user.home / "mnt"
    if mount_at(mnt):
        subprocess.run(["fusermount3", "-uz", mnt], check=True)


@ready
def test_one_command_imports_and_mounts_and_installs_nothing_twice(shell: Shell) -> None:
    shell.user.session("shop", "a", "Fix the login bug", "Done.")
    done = shell.run("mnt")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 imported" in done.stdout
    assert "Mounted at" in done.stdout
    (transcript,) = (shell.user.home / "mnt/transcripts").rglob("*.md")
    assert "Fix the login bug" in transcript.read_text()

    shell.user.session("shop", "b", "Another one")
    done = shell.run("mnt")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 imported" in done.stdout
    assert "already" in done.stdout
    assert len(list((shell.user.home / "mnt/transcripts").rglob("*.md"))) == 2

    done = shell.run("--umount", "mnt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not shell.notes.exists()


@ready
def test_the_first_run_always_shows_something(shell: Shell) -> None:
    done = shell.run("--store", "elsewhere", "mnt")
    assert "demo" in done.stdout
    assert "Demo: fix the login bug" in "".join(
        path.read_text() for path in (shell.user.home / "mnt/transcripts").rglob("*.md")
    )
    assert (shell.user.home / "elsewhere/lock").exists()
    assert shell.run("--store", "elsewhere", "--umount", "mnt").returncode == 0


@ready
def test_setup_alone_says_where_the_venv_is(shell: Shell) -> None:
    done = shell.run("--setup")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()) == ROOT / ".venv"
    assert not shell.notes.exists()


@ready
def test_what_is_missing_is_installed_with_apt(shell: Shell) -> None:
    """Without fusermount3 it asks apt for it; the stand-in installs none, so that is where it ends."""
    limited = shell.user.home / "limited"
    limited.mkdir()
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None
        (limited / name).symlink_to(found)
    shell.path = f"{shell.stand_ins}:{limited}"
    done = shell.run("mnt")
    assert done.returncode == 1
    assert "Installing fuse3 " in done.stderr
    assert done.stderr.splitlines()[-1].startswith("mount.sh: apt-get could not install fuse3: see ")
    assert "install -y --no-install-recommends fuse3" in shell.notes.read_text()

    (shell.stand_ins / "apt-get").unlink()
    assert "apt-get" in shell.fails("mnt")


def test_help_and_wrong_usage(shell: Shell) -> None:
    assert shell.run("--help").stdout.startswith("Usage: ./mount.sh")
    for arguments in ([], ["--nosuch"], ["a", "b"], ["--store"], ["--umount"]):
        assert "./mount.sh" in shell.fails(*arguments, code=2)
    assert not shell.notes.exists()


def test_a_python_that_is_too_old_is_told(shell: Shell) -> None:
    shell.stand_in("old-python", "exit 1")
    said = shell.fails("mnt", PYTHON="old-python", CONVFS_VENV=str(shell.user.home / "venv"))
    assert "Python 3.11 or newer" in said
    assert not shell.notes.exists()


@ready
def test_through_a_link_it_is_the_same(shell: Shell) -> None:
    link = shell.user.home / "bin/convfs-mount"
    link.parent.mkdir()
    link.symlink_to(SCRIPT)
    environment = shell.user.environment | {"PATH": shell.path, "PYTHONPATH": ""}
    done = subprocess.run([link, "--setup"], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(ROOT / ".venv"), "")


@ready
def test_to_unmount_nothing_is_installed(shell: Shell) -> None:
    shell.user.session("shop", "a", "Fix the login bug", "Done.")
    assert shell.run("mnt").returncode == 0
    daemon = Path(f"/proc/{address.noted_process(shell.user.store)}")
    assert daemon.exists()
    done = shell.run("--umount", "mnt", CONVFS_VENV=str(shell.user.home / "venv"))
    assert (done.returncode, done.stderr) == (0, "")
    assert mount_at(shell.user.home / "mnt") is None
    assert not (shell.user.home / "venv").exists()
    assert not shell.notes.exists()
    # it writes what is left, and ends
    until(lambda: not daemon.exists())
