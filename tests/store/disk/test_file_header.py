"""The first 32 bytes of every file."""

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.disk import durable, file_header
from store.disk.file_header import CHECKPOINT, HEAD_LOG, HEADER_SIZE, JOURNAL, PACK, TURN_LOG, FileKind
from store.errors import DamageError, FormatTooNew

KINDS = (TURN_LOG, HEAD_LOG, PACK, JOURNAL, CHECKPOINT)
PATH = Path("some.file")


def test_no_two_kinds_look_alike() -> None:
    assert len({kind.magic for kind in KINDS}) == len(KINDS)


@given(kind=st.sampled_from(KINDS), store_id=st.binary(min_size=16, max_size=16))
def test_round_trip(kind: FileKind, store_id: bytes) -> None:
    data = file_header.encode(kind, store_id)
    assert len(data) == HEADER_SIZE
    assert file_header.decode(data, kind, PATH) == store_id


@pytest.mark.parametrize("length", [0, 15, 17])
def test_a_store_id_has_16_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        file_header.encode(PACK, bytes(length))


def test_every_flipped_bit_shows(store_id: bytes) -> None:
    data = file_header.encode(PACK, store_id)
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamageError):
            file_header.decode(bytes(damaged), PACK, PATH)


def test_another_kind_of_file_and_a_short_one_show(store_id: bytes) -> None:
    data = file_header.encode(PACK, store_id)
    with pytest.raises(DamageError, match=r"some\.file: the file begins with b'CVFSPACK' instead of b'CVFSTURN'"):
        file_header.decode(data, TURN_LOG, PATH)
    with pytest.raises(DamageError, match="cut off after 31 bytes"):
        file_header.decode(data[:31], PACK, PATH)


def changed(data: bytes, offset: int, value: int) -> bytes:
    body = data[:offset] + value.to_bytes(2, "little") + data[offset + 2 : 28]
    return body + zlib.crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize(("offset", "value"), [(8, 2), (8, 0xFFFF), (10, 1)])
def test_a_newer_version_or_unknown_flag_is_said_to_be_new(store_id: bytes, offset: int, value: int) -> None:
    data = changed(file_header.encode(PACK, store_id), offset, value)
    with pytest.raises(FormatTooNew, match="update it"):
        file_header.decode(data, PACK, PATH)


def test_a_file_is_made_whole(tmp_path: Path, store_id: bytes) -> None:
    path = tmp_path / "log"
    # what a crash left of an earlier attempt
    (tmp_path / "log.new").write_bytes(b"x" * 100)
    file_header.create(path, TURN_LOG, store_id)
    assert os.listdir(tmp_path) == ["log"]
    assert path.read_bytes() == file_header.encode(TURN_LOG, store_id)
    assert file_header.read(path, TURN_LOG) == store_id


def test_a_failed_sync_makes_no_file(tmp_path: Path, store_id: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "fdatasync", fail)
    with pytest.raises(OSError, match="No space left"):
        file_header.create(tmp_path / "log", TURN_LOG, store_id)
    assert not (tmp_path / "log").exists()


def test_check_tells_damage_from_a_stranger(tmp_path: Path, store_id: bytes) -> None:
    path = tmp_path / "log"
    file_header.create(path, TURN_LOG, store_id)
    fd = os.open(path, os.O_RDWR)
    try:
        assert file_header.check(fd, TURN_LOG, store_id, path) is None
        with pytest.raises(DamageError, match=f"belongs to the store {store_id.hex()}, not to {bytes(16).hex()}"):
            file_header.check(fd, TURN_LOG, bytes(16), path)
        os.pwrite(fd, b"?", 20)
        assert "checksum" in str(file_header.check(fd, TURN_LOG, store_id, path))
        os.pwrite(fd, changed(file_header.encode(TURN_LOG, store_id), 8, 2), 0)
        with pytest.raises(FormatTooNew):
            file_header.check(fd, TURN_LOG, store_id, path)
    finally:
        os.close(fd)
