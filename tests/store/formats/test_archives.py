import zipfile
from pathlib import Path

import pytest

from store.errors import DamageError, NotFound, UsageError
from store.formats.core import budget
from store.formats.core.archives import (
    SEPARATOR,
    Archive,
    archive_at,
    is_archive,
    join_members,
    replace_members,
)
from tests.store.formats.exports import archive

MEMBERS = {"b.json": b"[2]", "a.json": b"[1]" * 50_000, "deep/photo.png": bytes(range(256)) * 40, "empty": b""}


def test_members_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.zip", MEMBERS)
    with zipfile.ZipFile(path, "a") as more:
        more.writestr("stored", b"as it is", zipfile.ZIP_STORED)
        more.mkdir("folder")
    assert is_archive(path.read_bytes()[:100])
    read = Archive(path)
    assert {name: read.read(name) for name in read.members} == MEMBERS | {"stored": b"as it is"}
    assert read.read("a.json", 5) == b"[1][1"
    assert len(archive_at(path).read("a.json", 64 << 10)) == 64 << 10
    assert archive_at(path) is archive_at(path)
    with pytest.raises(NotFound, match="nowhere"):
        read.read("nowhere")


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.zip", MEMBERS)
    whole = path.read_bytes()
    at = whole.index(b"deep/photo.png") + 60
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    with pytest.raises(DamageError):
        Archive(path).read("deep/photo.png")
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamageError, match="unpack"):
        Archive(path)
    for nothing in (tmp_path / "gone.zip", tmp_path):
        with pytest.raises(DamageError):
            archive_at(nothing)


def test_members_that_claim_too_much_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "x.zip", MEMBERS)
    monkeypatch.setattr(budget, "LEAST_BYTES", 1000)
    monkeypatch.setattr(budget, "RATIO", 1)
    with pytest.raises(DamageError, match="unpacks to more"):
        join_members(path, ["a.json"], tmp_path / "joined")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as written:
        written.writestr("a", b"x" * 1000)
    with pytest.raises(DamageError, match="compressed in a way"):
        Archive(path).read("a")


def test_edited_members_are_put_back_and_all_else_stays(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.zip", MEMBERS)
    with zipfile.ZipFile(path, "a") as more:
        more.comment = b"exported"
    names = ["a.json", "b.json"]
    joined, target = tmp_path / "joined", tmp_path / "new.zip"
    join_members(path, names, joined)
    assert joined.read_bytes() == MEMBERS["a.json"] + SEPARATOR + MEMBERS["b.json"]
    joined.write_bytes(joined.read_bytes().replace(b"[2]", b"[two]"))
    replace_members(path, names, joined, target)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target) as new:
        assert {info.filename: new.read(info) for info in new.infolist()} == MEMBERS | {"b.json": b"[two]"}
        assert new.comment == b"exported"
        for one, other in zip(old.infolist(), new.infolist(), strict=True):
            assert (one.filename, one.date_time, one.compress_type, one.external_attr) == (
                other.filename,
                other.date_time,
                other.compress_type,
                other.external_attr,
            )
    joined.write_bytes(b"[]" + SEPARATOR + b"[]" + SEPARATOR)
    with pytest.raises(UsageError, match="control character"):
        replace_members(path, names, joined, target)
    joined.write_bytes(b"alone" + SEPARATOR)
    replace_members(path, ["b.json"], joined, target)
    assert Archive(target).read("b.json") == b"alone" + SEPARATOR
