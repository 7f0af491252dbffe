"""Sizes of real sessions, sealed; and that all of them comes back."""

from pathlib import Path

from fusefs.text.render import FileRenderer
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.content import samples
from tests.store.upkeep.test_sealing import seal

PACKS_AND_LOGS, WHOLE_STORE = 0.16, 0.22
"""Of the bytes of the sessions."""


def test_real_sessions_take_a_sixth(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sources = [samples.directory() / name for name in ("claude-code", "codex")]
    raw = sum(path.stat().st_size for source in sources for path in source.rglob("*.jsonl"))
    with Store.open(root, renderer=FileRenderer()) as store:
        Importer(store).run(sources)
        hashes = [store.turns.get(turn).payload_hash for turn in range(1, store.files.turns.count + 1)]
        before = store.blobs.blobs(hashes)
        seal(store)
        assert store.blobs.blobs(hashes) == before
        assert not [finding for finding in fsck(store) if finding.severity == "error"]
    sizes = {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}
    packs = sum(size for path, size in sizes.items() if path.suffix == ".pack")
    logs = sum(size for path, size in sizes.items() if path.suffix == ".log")
    assert packs + logs <= PACKS_AND_LOGS * raw
    assert sum(sizes.values()) <= WHOLE_STORE * raw
