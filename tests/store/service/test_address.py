import os
import shutil
from pathlib import Path

import pytest

from store import paths
from store.disk.identity import directory_key
from store.errors import ConvfsError
from store.service import address

KEY = "fe00-1f3a"
NAME = "fe00-1f3a.sock"


def test_the_socket_lies_in_the_runtime_directory(runtime_path: Path) -> None:
    path = address.new_socket_path(KEY)
    assert path == runtime_path / "convfs" / NAME
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def second(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place that is taken where the first, ``memory_path / "first"``, is not safe."""
    second = memory_path / "second"
    monkeypatch.setattr(address, "runtime_directories", lambda: iter([memory_path / "first", second]))
    return second


def test_a_directory_that_others_may_enter_is_not_used(memory_path: Path, second: Path) -> None:
    (memory_path / "first").mkdir(mode=0o755)
    assert address.new_socket_path(KEY) == second / NAME


def test_a_link_is_not_followed(memory_path: Path, second: Path) -> None:
    (memory_path / "elsewhere").mkdir(mode=0o700)
    (memory_path / "first").symlink_to(memory_path / "elsewhere")
    assert address.new_socket_path(KEY) == second / NAME


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used(memory_path: Path, second: Path) -> None:
    (memory_path / "first").mkdir(mode=0o700)
    os.chown(memory_path / "first", 12345, 12345)
    assert address.new_socket_path(KEY) == second / NAME


def test_a_path_too_long_for_a_socket_is_not_used(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = memory_path / "short"
    monkeypatch.setattr(address, "runtime_directories", lambda: iter([memory_path / ("d" * 100), short]))
    assert address.new_socket_path(KEY) == short / NAME


def test_with_no_safe_place_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(address, "runtime_directories", lambda: iter([tmp_path / "file"]))
    with pytest.raises(ConvfsError, match="XDG_RUNTIME_DIR") as caught:
        address.new_socket_path(KEY)
    assert "\n" not in str(caught.value)


def test_what_is_noted_is_found(tmp_path: Path) -> None:
    assert address.noted_socket(tmp_path) is None
    assert address.noted_process(tmp_path) == 0
    odd = Path(os.fsdecode(b"/run/odd \xff name.sock"))
    key = directory_key(tmp_path)
    address.note(tmp_path, key, odd)
    assert address.noted_socket(tmp_path) == odd
    assert address.noted_process(tmp_path) == os.getpid()
    address.note(tmp_path, key)
    assert address.noted_socket(tmp_path) is None
    assert address.noted_process(tmp_path) == os.getpid()


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"socket", b"pid x\nsock x\n", b"x" * 100_000])
def test_any_lock_file_is_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / paths.LOCK).write_bytes(content)
    assert address.noted_socket(tmp_path) is None
    assert address.noted_process(tmp_path) == 0


def test_a_note_that_was_copied_says_nothing(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    store.mkdir()
    address.note(store, directory_key(store), Path("/run/socket"), "127.0.0.1:9")
    shutil.copytree(store, copy)
    assert (address.noted_socket(copy), address.noted(copy, "tcp"), address.noted_process(copy)) == (None, "", 0)
    assert address.noted_socket(store) == Path("/run/socket")
    before = (copy / paths.LOCK).read_bytes()
    # a store that has another's place by now is not noted in that
    address.note(copy, directory_key(store))
    assert (copy / paths.LOCK).read_bytes() == before
