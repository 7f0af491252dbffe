import os
from pathlib import Path

import pytest

from store.errors import ConvfsError
from store.service import address

STORE_ID = bytes(range(16))
NAME = "000102030405060708090a0b0c0d0e0f.sock"


def test_the_socket_lies_in_the_runtime_directory(runtime_path: Path) -> None:
    path = address.new_socket_path(STORE_ID)
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
    assert address.new_socket_path(STORE_ID) == second / NAME


def test_a_link_is_not_followed(memory_path: Path, second: Path) -> None:
    (memory_path / "elsewhere").mkdir(mode=0o700)
    (memory_path / "first").symlink_to(memory_path / "elsewhere")
    assert address.new_socket_path(STORE_ID) == second / NAME


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used(memory_path: Path, second: Path) -> None:
    (memory_path / "first").mkdir(mode=0o700)
    os.chown(memory_path / "first", 12345, 12345)
    assert address.new_socket_path(STORE_ID) == second / NAME


def test_a_path_too_long_for_a_socket_is_not_used(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = memory_path / "short"
    monkeypatch.setattr(address, "runtime_directories", lambda: iter([memory_path / ("d" * 100), short]))
    assert address.new_socket_path(STORE_ID) == short / NAME


def test_with_no_safe_place_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(address, "runtime_directories", lambda: iter([tmp_path / "file"]))
    with pytest.raises(ConvfsError, match="XDG_RUNTIME_DIR") as caught:
        address.new_socket_path(STORE_ID)
    assert "\n" not in str(caught.value)


def test_what_is_noted_is_found(tmp_path: Path) -> None:
    assert address.noted_socket(tmp_path) is None
    assert address.noted_process(tmp_path) == 0
    odd = Path(os.fsdecode(b"/run/odd \xff name.sock"))
    address.note(tmp_path, odd)
    assert address.noted_socket(tmp_path) == odd
    assert address.noted_process(tmp_path) == os.getpid()
    address.note(tmp_path)
    assert address.noted_socket(tmp_path) is None
    assert address.noted_process(tmp_path) == os.getpid()


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"socket", b"pid x\nsock x\n", b"x" * 100_000])
def test_any_lock_file_is_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / address.LOCK_NAME).write_bytes(content)
    assert address.noted_socket(tmp_path) is None
    assert address.noted_process(tmp_path) == 0
