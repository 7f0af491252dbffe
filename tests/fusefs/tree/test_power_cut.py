"""Files that were being written when the power failed: their lengths are on the disk, and not all of their bytes."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from store.importing.importer import Importer
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import PATIENCE, Mounted, add, assistant, errno_of, mounted, new_store, until, user

NAME = "0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl"
OTHER = "1b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c91.jsonl"
FOLDER = ".convfs/native/claude-code/-home-dev-project"
CONTENT = "".join(f"{(user if at % 2 else assistant)(f'{at} said', at)}\n" for at in range(6)).encode()
LINE = user("Appended.", 40).encode() + b"\n"
ARTIFACTS = "conversations/project/2026-03-05-talk/artifacts"


def end(mount: Mounted) -> None:
    mount.daemon.kill()
    mount.daemon.wait(PATIENCE)
    mount.destroy()


def cut(store: Path, work: Callable[[Mounted], object]) -> None:
    """Mount, work, and end as when the power fails."""
    try:
        with mounted(store) as mount:
            work(mount)
            end(mount)
    except AssertionError:
        assert mount.daemon.returncode == -9


@pytest.fixture
def session(store_path: Path, tmp_path: Path) -> Path:
    path = tmp_path / "-home-dev-project" / NAME
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    with new_store(store_path) as store:
        Importer(store).run([path])
    return store_path


@pytest.mark.parametrize("tail", ["zeros", "garbage", "whole"])
@pytest.mark.parametrize("part", [b'{"type":"user"', b""])
def test_a_native_file_ends_in_what_was_written(session: Path, tail: str, part: bytes) -> None:
    held: list[int] = []

    def work(mount: Mounted) -> None:
        fd = os.open(mount.root / FOLDER / NAME, os.O_WRONLY | os.O_APPEND)
        held.append(fd)
        # the line is committed, what follows it waits
        os.write(fd, LINE + part + b"x" * 5000)

    cut(session, work)
    for fd in held:
        errno_of(lambda fd=fd: os.close(fd))
    spools = list((session / "scratch/.native").iterdir())
    for spool in spools:
        data = spool.read_bytes()
        kept = len(data.rstrip(b"x"))
        lost = {"zeros": bytes(5000), "garbage": random.Random(3).randbytes(5000), "whole": b"x" * 5000}[tail]
        with spool.open("r+b") as file:
            file.seek(kept)
            file.write(lost)
    with mounted(session, "rebooted") as mount:
        shown = (mount.root / FOLDER / NAME).read_bytes()
    written = CONTENT + LINE + part + b"x" * 5000
    assert spools
    if tail == "garbage":
        # what cannot be told from text is text
        assert shown.startswith(CONTENT + LINE + part)
        assert len(shown) < len(written) - 4900
    else:
        assert shown == (written if tail == "whole" else CONTENT + LINE + part)


def test_a_new_session_ends_in_what_was_written(session: Path) -> None:
    cut(session, lambda mount: (mount.root / FOLDER / "notes.txt").write_bytes(b"x"))
    folder = session / "scratch/native/claude-code/-home-dev-project"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / OTHER).write_bytes(CONTENT + bytes(7000))
    with mounted(session, "rebooted") as mount:
        until(lambda: (mount.root / FOLDER / OTHER).read_bytes() == CONTENT)
    with new_store(session) as store:
        assert fsck(store) == []


def test_a_file_that_was_to_be_written_anew_is_what_it_was(session: Path) -> None:
    with new_store(session) as store:
        [entry] = store.catalogue.every()
    folder = session / "scratch/.native"
    folder.mkdir(parents=True, exist_ok=True)
    for written in (b"", CONTENT[:300] + bytes(3000)):
        (folder / f"{entry.id}-0-{entry.head}-r").write_bytes(written)
        with mounted(session, "rebooted") as mount:
            assert (mount.root / FOLDER / NAME).read_bytes() == CONTENT
    [kept] = folder.iterdir()
    assert kept.read_bytes() == CONTENT[:300]


@pytest.fixture
def talk(store_path: Path) -> Path:
    with new_store(store_path) as store:
        add(store, [user("first", 1)])
    return store_path


@pytest.mark.parametrize("left", [b"", bytes(4000), b"whole out", b"whole output\n", b"whole o" + bytes(900)])
def test_an_artifact_that_was_closed_is_there(talk: Path, left: bytes) -> None:
    """The store has it, but that its file was removed is not on the disk."""
    with mounted(talk) as mount:
        (mount.root / ARTIFACTS / "bash.log").write_bytes(b"whole output\n")
        [name] = os.listdir(mount.root / ARTIFACTS)
    folder = talk / "scratch/.growing/1-artifacts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(left)
    with mounted(talk, "rebooted") as mount:
        until(lambda: not os.listdir(folder))
        assert (mount.root / ARTIFACTS / name).read_bytes() == b"whole output\n"


def test_an_artifact_that_was_being_written_has_what_was_written(talk: Path) -> None:
    folder = talk / "scratch/.growing/1-artifacts"
    folder.mkdir(parents=True)
    (folder / "0.bash.log").write_bytes(b"a part" + bytes(9000))
    (folder / "1.bash.log").write_bytes(bytes(9000))
    with mounted(talk, "rebooted") as mount:
        until(lambda: os.listdir(mount.root / ARTIFACTS) == ["0.bash.log"])
        assert (mount.root / ARTIFACTS / "0.bash.log").read_bytes() == b"a part"


def test_zeros_that_a_program_has_synced_are_its_own(talk: Path) -> None:
    def work(mount: Mounted) -> None:
        fd = os.open(mount.root / ARTIFACTS / "image.bin", os.O_WRONLY | os.O_CREAT)
        held.append(fd)
        os.write(fd, b"image" + bytes(3000))
        os.fsync(fd)

    held: list[int] = []
    cut(talk, work)
    for fd in held:
        errno_of(lambda fd=fd: os.close(fd))
    with mounted(talk, "rebooted") as mount:
        [name] = os.listdir(mount.root / ARTIFACTS)
        until(lambda: (mount.root / ARTIFACTS / name).read_bytes() == b"image" + bytes(3000))
