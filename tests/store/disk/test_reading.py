"""Reading with pread, and through a window."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk.files import Window, pread, pread_around
from store.errors import DamageError

CONTENT = bytes(number * 7 % 251 for number in range(1000))


@pytest.fixture(scope="module")
def fd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("reading") / "file"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_pread_ends_where_the_file_does(fd: int) -> None:
    assert pread(fd, 10, 5) == CONTENT[5:15]
    assert pread(fd, 10, 995) == CONTENT[995:]
    assert pread(fd, 10, 1000) == b""


def test_short_reads_are_completed(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: real(fd, min(length, 7), offset))
    assert pread(fd, 100, 3) == CONTENT[3:103]
    assert pread(fd, 100, 950) == CONTENT[950:]


def test_what_the_disk_cannot_read_is_damage(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(DamageError, match="cannot read 4 bytes at offset 0: Is a directory"):
            pread(fd, 4, 0)
    finally:
        os.close(fd)


def test_what_cannot_be_read_comes_as_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(number % 255 + 1 for number in range(20_000))
    (tmp_path / "file").write_bytes(content)
    real = os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset < 8192 and offset + length > 4096:
            raise OSError(5, "Input/output error")
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", failing)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        assert pread_around(fd, 30_000, 100) == content[100:4096] + bytes(4096) + content[8192:]
        assert pread_around(fd, 100, 9000) == content[9000:9100]
        assert pread_around(fd, 10, 4090) == content[4090:4096] + bytes(4)
    finally:
        os.close(fd)


@given(
    size=st.integers(0, 300),
    reads=st.lists(
        st.tuples(st.integers(0, 1100), st.integers(0, 400), st.none() | st.integers(0, 500)), min_size=1, max_size=20
    ),
)
def test_a_window_gives_what_the_file_has(fd: int, size: int, reads: list[tuple[int, int, int | None]]) -> None:
    window = Window(fd, size)
    for offset, length, ahead in reads:
        covered = window.covers(offset, length)
        assert window.view(offset, length, ahead) == CONTENT[offset : offset + length]
        assert not covered or not length or offset + length <= len(CONTENT)


def test_a_window_reads_once_for_what_lies_near(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pread
    reads = []

    def counted(fd: int, length: int, offset: int) -> bytes:
        reads.append((offset, length))
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    window = Window(fd, 200)
    for offset in range(0, 400, 20):
        window.view(offset, 20)
    assert reads == [(0, 200), (200, 200)]
    assert window.covers(380, 20)
    assert not window.covers(381, 20)
    window.view(500, 48, 0)
    assert reads[2:] == [(500, 48)]
