"""Files that others take the places of, and what is left of them."""

import os
from pathlib import Path

import pytest

from store.disk import durable
from store.disk.durable import ERASED, NEW


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"as it was")
    return path


def test_whoever_has_it_open_has_the_new_one(path: Path) -> None:
    fd = durable.open_file(path)
    other = durable.open_file(path)
    try:
        durable.swap_contents(path, fd, [b"as it ", b"is"])
        assert os.pread(fd, 99, 0) == path.read_bytes() == b"as it is"
        durable.pwrite_all(fd, b" now", 8)
        assert path.read_bytes() == b"as it is now"
        # until it is erased, it is there for whoever was reading it
        assert os.pread(other, 99, 0) == b"as it was"
        durable.erase_replaced(path)
        assert os.pread(other, 99, 0) == bytes(9)
        assert os.listdir(path.parent) == [path.name]
    finally:
        os.close(fd)
        os.close(other)


@pytest.mark.parametrize("failing", ["pwrite_all", "fdatasync", "link", "replace"])
def test_where_it_fails_all_is_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(5, "the disk fails, for a test")

    fd = durable.open_file(path)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(durable, failing, fail)
            with pytest.raises(OSError, match="for a test"):
                durable.swap_contents(path, fd, [b"as it is"])
        assert os.pread(fd, 99, 0) == b"as it was"
        # what is cleaned up may be the file itself under a second name
        durable.clean(path.parent)
        assert path.read_bytes() == b"as it was"
        assert os.listdir(path.parent) == [path.name]
        durable.swap_contents(path, fd, [b"as it is"])
        assert path.read_bytes() == b"as it is"
    finally:
        os.close(fd)


def test_what_was_left_is_cleaned_up(path: Path) -> None:
    path.with_name(path.name + NEW).write_bytes(b"unfinished")
    erased = path.with_name(path.name + ERASED)
    erased.write_bytes(b"a secret")
    with erased.open("rb") as file:
        durable.clean(path.parent)
        assert file.read() == bytes(8)
    assert os.listdir(path.parent) == [path.name]


def test_a_copy_that_shares_the_file_stays(path: Path) -> None:
    copy = path.with_name("copy")
    copy.hardlink_to(path)
    durable.erase(path)
    assert copy.read_bytes() == b"as it was"
    assert not path.exists()
