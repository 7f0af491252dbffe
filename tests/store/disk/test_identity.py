"""The identity of a store, whatever happens to its directory, and to whoever writes that down."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store import paths
from store.disk import durable, file_header, identity
from store.disk.identity import Identity
from store.errors import DamageError, FormatTooNew

FILES_ID = bytes(range(16))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A directory with as much of a store in it as has an id."""
    root = tmp_path / "store"
    (root / "turns").mkdir(parents=True)
    file_header.create(root / "turns" / "turns.log", file_header.TURN_LOG, FILES_ID)
    return root


def settled(root: Path) -> bytes:
    """Return the id of a store that is no copy, or known to be one."""
    own, said = identity.settle(root, FILES_ID)
    assert said == []
    return own


def test_a_store_goes_by_the_id_of_its_files(store: Path) -> None:
    assert identity.files_id(store) == FILES_ID
    assert settled(store) == FILES_ID
    status = store.stat()
    assert identity.read(store) == Identity(FILES_ID, status.st_dev, status.st_ino, os.fsencode(store))
    assert (store / paths.IDENTITY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("noted", [True, False])
def test_a_copy_gets_another_beside_what_it_was_copied_from(store: Path, tmp_path: Path, noted: bool) -> None:
    settled(store)
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    if not noted:
        # the files say it, too
        (store / paths.IDENTITY).unlink()
    own, [said] = identity.settle(copy, FILES_ID)
    assert own != FILES_ID
    assert str(store) in said
    assert settled(copy) == own
    assert settled(store) == FILES_ID
    again = Path(shutil.copytree(copy, tmp_path / "again"))
    assert identity.settle(again, FILES_ID)[0] not in (own, FILES_ID)


def test_what_was_moved_or_brought_back_stays_the_same(store: Path, tmp_path: Path) -> None:
    settled(store)
    backup = Path(shutil.copytree(store, tmp_path / "backup"))
    shutil.rmtree(store)
    shutil.copytree(backup, store)
    assert settled(store) == FILES_ID
    moved = store.rename(tmp_path / "moved")
    assert settled(moved) == FILES_ID
    # what it was copied from is not there any more, but may be elsewhere
    own, [said] = identity.settle(backup, FILES_ID)
    assert own != FILES_ID
    assert "not there any more" in said
    moved.rename(store)
    assert settled(store) == FILES_ID
    store.rename(moved)
    shutil.copytree(moved, store)
    assert settled(store) == FILES_ID
    assert identity.settle(moved, FILES_ID)[0] != FILES_ID


def test_whoever_is_killed_while_a_copy_is_named_begins_again(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(store)
    (store / "token").write_text("secret")
    for step in range(40):
        copy = Path(shutil.copytree(store, tmp_path / f"copy-{step}"))
        done = 0

        def counted(call: Callable[..., object], most: int) -> Callable[..., object]:
            def one(*arguments: object, **named: object) -> object:
                nonlocal done
                done += 1
                if done > most:
                    raise KeyboardInterrupt
                return call(*arguments, **named)

            return one

        with monkeypatch.context() as patch:
            for name in ("open_file", "truncate", "pwrite_all", "fdatasync", "replace", "remove", "sync_directory"):
                patch.setattr(durable, name, counted(getattr(durable, name), step))
            try:
                identity.settle(copy, FILES_ID)
            except KeyboardInterrupt:
                pass
            else:
                break
        own, _said = identity.settle(copy, FILES_ID)
        assert own != FILES_ID
        assert settled(copy) == own
        assert not (copy / "token").exists()
        assert settled(store) == FILES_ID
    else:
        pytest.fail("it is never done")
    assert step > 5


def test_a_full_disk_keeps_no_store_from_being_opened(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _data: bytes, _offset: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "pwrite_all", full)
        assert settled(store) == FILES_ID
    assert identity.read(store) is None
    assert settled(store) == FILES_ID


def test_every_flipped_bit_shows(store: Path) -> None:
    settled(store)
    path = store / paths.IDENTITY
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((DamageError, FormatTooNew)):
            identity.decode(bytes(changed), path)
    for size in range(len(data)):
        with pytest.raises(DamageError):
            identity.decode(data[:size], path)
    path.write_bytes(data[:-1])
    own, [said] = identity.settle(store, FILES_ID)
    assert own == FILES_ID
    assert "checksum" in said
    assert settled(store) == FILES_ID


def test_keys_are_of_directories_and_not_of_paths(store: Path, tmp_path: Path) -> None:
    key = identity.directory_key(store)
    (tmp_path / "link").symlink_to(store)
    assert identity.directory_key(tmp_path / "link") == key
    status = store.stat()
    assert key == f"{status.st_dev:x}-{status.st_ino:x}"
    assert identity.directory_key(Path(shutil.copytree(store, tmp_path / "copy"))) != key
