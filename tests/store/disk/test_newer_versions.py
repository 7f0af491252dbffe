"""Every file that a newer convfs wrote is refused: whole, untouched, and with nothing left open."""

import gc
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from store.disk.head_log import HeadLog
from store.disk.journal import Journal
from store.disk.pack import PackSet
from store.disk.turn_log import TurnLog
from store.errors import DamageError, FormatTooNew

Opener = Callable[[Path, bytes], TurnLog | HeadLog | PackSet | Journal]
FILES: dict[str, Opener] = {
    "turns.log": lambda root, store_id: TurnLog(root / "turns.log", store_id),
    "heads.log": lambda root, store_id: HeadLog(root / "heads.log", store_id),
    "blobs/00000001.pack": lambda root, store_id: PackSet(root / "blobs", store_id),
    "journal/1": lambda root, store_id: Journal(root / "journal", store_id, 16384),
    "journal/2": lambda root, store_id: Journal(root / "journal", store_id, 16384),
    "journal/checkpoint": lambda root, store_id: Journal(root / "journal", store_id, 16384),
}


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("newer", [True, False])
def test_a_file_of_another_version_or_store(tmp_path: Path, store_id: bytes, name: str, newer: bool) -> None:
    FILES[name](tmp_path, store_id).close()
    path = tmp_path / name
    data = bytearray(path.read_bytes())
    data[8 if newer else 12] += 1
    data[28:32] = zlib.crc32(data[:28]).to_bytes(4, "little")
    path.write_bytes(data)
    gc.collect()
    before, open_files = contents(tmp_path), len(os.listdir("/proc/self/fd"))
    with pytest.raises(FormatTooNew if newer else DamageError) as raised:
        FILES[name](tmp_path, store_id)
    assert str(path) in str(raised.value)
    del raised
    gc.collect()
    assert contents(tmp_path) == before
    assert len(os.listdir("/proc/self/fd")) == open_files
