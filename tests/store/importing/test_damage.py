"""A store that was damaged after an import: what the session's file still has comes back."""

from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.errors import DamageError
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.sessions import by_source, imported, lines, native, session


def open_store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", renderer=FileRenderer())


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.of_one_machine("it changes the log")
def test_a_damaged_turn_of_a_session_that_grows(tmp_path: Path) -> None:
    path = session(tmp_path, lines("One", "Two", "Three"))
    with open_store(tmp_path) as store:
        imported(store, path)
    flip(tmp_path / "store/turns/turns.log", 32 + 80 + 40)
    with open_store(tmp_path) as store:
        entry = store.catalogue.by_source(str(path))
        assert entry
        with pytest.raises(DamageError):
            store.records.runs(entry.head)
        path.write_bytes(lines("One", "Two", "Three", "Four"))
        imported(store, path)
        assert native(store, path) == path.read_bytes()
        assert by_source(store, path).events == 4
        assert {finding.check for finding in fsck(store)} <= {"turns", "payloads", "heads"}


def test_a_damaged_blob_of_an_envelope(tmp_path: Path) -> None:
    content = (lines("One") + b"\n" + lines("Two")) * 3000
    path = session(tmp_path, content)
    with open_store(tmp_path) as store:
        imported(store, path)
        digest = bytes.fromhex(str(by_source(store, path).metadata["envelope_blob"]))
        ((pack, offset, _member),) = store.files.index.locate([digest])[digest]  # type: ignore[index, list-item]
        packed = store.files.packs.path(pack)
    flip(packed, offset + 200)
    with open_store(tmp_path) as store:
        path.write_bytes(content + lines("Three"))
        report = Importer(store).run([path])
        assert report.errors == []
        assert native(store, path) == path.read_bytes()
