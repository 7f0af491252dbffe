import mmap
import os
import socket
from pathlib import Path

import pytest
from blake3 import blake3

from store.errors import UsageError
from store.importing import snapshot as module
from store.importing.snapshot import Cursor, Prefix, Snapshot

MIB = 1 << 20


@pytest.fixture(params=[0, 1 << 40], ids=["mapped", "read"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every file mapped, or none."""
    monkeypatch.setattr(module, "_MAPPED_FROM", request.param)


@pytest.mark.parametrize("size", [0, 1, mmap.PAGESIZE, 3 * MIB + 5])
@pytest.mark.usefixtures("small")
def test_the_bytes_of_a_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    with Snapshot(path, tmp_path / "scratch") as snapshot:
        assert snapshot.data == path.read_bytes()
    assert list(tmp_path.rglob("scratch/*")) == []


@pytest.mark.usefixtures("small")
def test_what_happens_to_the_file_afterwards_does_not_show(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MIB)
    with Snapshot(path, tmp_path / "scratch") as snapshot:
        with path.open("r+b") as file:
            file.write(b"yyy")
            file.truncate(10)
        assert snapshot.data == b"x" * MIB
        path.unlink()
        assert snapshot.data == b"x" * MIB


@pytest.mark.usefixtures("small")
def test_reading_any_number_of_times(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = os.urandom(40 * MIB)
    path.write_bytes(content)
    with Snapshot(path, tmp_path / "scratch") as snapshot:
        for _ in range(3):
            for end in range(0, len(content) + 1, MIB + 7):
                assert snapshot.data[max(end - MIB, 0) : end] == content[max(end - MIB, 0) : end]
                snapshot.passed(end)
        prefix = Prefix(snapshot)
        for offset in (0, 5, 5, 9 * MIB, len(content)):
            prefix.follow(offset)
            assert prefix.at(offset) == blake3(content[:offset]).hexdigest()


@pytest.mark.parametrize("offset", [1, 4095, 4097, 2 * MIB, 3 * MIB - 1])
@pytest.mark.usefixtures("small")
def test_a_beginning_that_is_known_is_left_out(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "file"
    content = os.urandom(3 * MIB)
    path.write_bytes(content)
    known = Cursor(offset, blake3(content[:offset]).hexdigest(), 0, (0, 0))
    with Snapshot(path, tmp_path / "scratch", known) as snapshot:
        assert snapshot.base + snapshot.start == offset
        assert snapshot.start <= 4096
        assert snapshot.data == content[snapshot.base :]
        prefix = Prefix(snapshot)
        for position in (snapshot.start, len(snapshot.data)):
            assert prefix.at(position) == blake3(content[: snapshot.base + position]).hexdigest()
    for changed in (bytes([content[0] ^ 1]) + content[1:], content[:offset], content[: offset - 1]):
        path.write_bytes(changed)
        with Snapshot(path, tmp_path / "scratch", known) as snapshot:
            assert (snapshot.base, snapshot.start) == (0, 0)
            assert snapshot.data == changed
            assert Prefix(snapshot).at(len(changed)) == blake3(changed).hexdigest()


def test_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    for name in ("fifo", "socket", "", "missing", "/dev/zero"):
        with pytest.raises(UsageError, match="cannot read"):
            Snapshot(tmp_path / name, tmp_path / "scratch")


def test_an_error_inside_is_not_hidden_by_what_still_looks_at_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAPPED_FROM", 0)
    path = tmp_path / "file"
    path.write_bytes(b"some bytes")

    def fail() -> None:
        with Snapshot(path, tmp_path / "scratch") as snapshot:
            part = snapshot.data[2:]
            raise ZeroDivisionError(part)

    with pytest.raises(ZeroDivisionError):
        fail()
