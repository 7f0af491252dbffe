"""Writing, syncing, renaming and locking for real, in a temporary directory."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from store.disk import durable
from store.errors import StoreBusy


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    fd = durable.open_file(tmp_path / "new", create=True)
    try:
        assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o600
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_a_missing_file_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        durable.open_file(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_a_read_only_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    fd = durable.open_file(tmp_path / "file", read_only=True)
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            durable.pwrite_all(fd, b"x", 0)
    finally:
        os.close(fd)


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = os.pwrite
    calls = []

    def short(fd: int, data: bytes, offset: int) -> int:
        calls.append(offset)
        return written(fd, data[:7], offset)

    monkeypatch.setattr(os, "pwrite", short)
    fd = durable.open_file(tmp_path / "file", create=True)
    try:
        durable.pwrite_all(fd, b"0123456789abcdef", 4)
    finally:
        os.close(fd)
    assert (tmp_path / "file").read_bytes() == bytes(4) + b"0123456789abcdef"
    assert calls == [4, 11, 18]


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 20) + 17])
def test_zeros_are_written_up_to_a_size(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"head")
    fd = durable.open_file(tmp_path / "file")
    try:
        durable.fill_zeros(fd, size)
        durable.fdatasync(fd)
        blocks = os.fstat(fd).st_blocks * 512
    finally:
        os.close(fd)
    content = (tmp_path / "file").read_bytes()
    assert content == b"head".ljust(size, b"\0")
    # really written, not a hole
    assert blocks >= size


def test_replace_takes_the_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    durable.replace(tmp_path / "a", tmp_path / "b")
    durable.sync_directory(tmp_path)
    assert os.listdir(tmp_path) == ["b"]
    assert (tmp_path / "b").read_bytes() == b"new"


def test_make_directory(tmp_path: Path) -> None:
    durable.make_directory(tmp_path / "d")
    durable.make_directory(tmp_path / "d")
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700


def test_remove_and_truncate(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    fd = durable.open_file(path)
    try:
        durable.truncate(fd, 4)
        assert path.read_bytes() == b"0123"
        durable.truncate(fd, 6)
        assert path.read_bytes() == b"0123\0\0"
    finally:
        os.close(fd)
    durable.remove(path)
    assert not path.exists()


def test_a_lock_excludes_others_until_it_is_closed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    before = len(os.listdir("/proc/self/fd"))
    fd = durable.lock_exclusive(lock)
    with pytest.raises(StoreBusy, match="another convfs process"):
        durable.lock_exclusive(lock)
    os.close(fd)
    os.close(durable.lock_exclusive(lock))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_is_locked_whatever_its_path(tmp_path: Path) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    store.mkdir()
    other.symlink_to(store)
    fd = durable.lock_directory(store)
    with pytest.raises(StoreBusy, match="another convfs process"):
        durable.lock_directory(other)
    other.unlink()
    store.rename(other)
    store.mkdir()
    os.close(durable.lock_directory(store))
    with pytest.raises(StoreBusy):
        durable.lock_directory(other)
    os.close(fd)
    os.close(durable.lock_directory(other))


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        durable.make_directories(tmp_path / "a" / "b" / "c")
        durable.make_directories(tmp_path / "a" / "b" / "c")
        durable.make_file(tmp_path / "file")
        durable.write_whole(tmp_path / "whole", b"1")
    finally:
        os.umask(before)
    (tmp_path / "file").write_bytes(b"kept")
    durable.make_file(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"kept"
    durable.write_whole(tmp_path / "whole", b"2")
    assert (tmp_path / "whole").read_bytes() == b"2"
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "c": 0o700, "file": 0o600, "whole": 0o600}


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys, pathlib; from store.disk import durable;"
        "durable.lock_exclusive(pathlib.Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    root = Path(durable.__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StoreBusy):
            durable.lock_exclusive(lock)
        holder.kill()
        holder.wait()
        os.close(durable.lock_exclusive(lock))


def test_overwritten_and_discarded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    size = (2 << 20) + 5
    path.write_bytes(b"x" * size)
    fd = durable.open_file(path)
    try:
        durable.overwrite(fd)
        assert path.read_bytes() == bytes(size)
        durable.fdatasync(fd)
        durable.discard(fd)
        assert path.read_bytes() == bytes(size)
    finally:
        os.close(fd)
