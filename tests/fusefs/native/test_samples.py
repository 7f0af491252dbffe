"""Sessions of every tool that keeps one a file: as they lie on disk, and whatever is written to them."""

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from store.importing.importer import Importer
from store.importing.snapshot import text_path
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import mounted, new_store
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)

MOST = 1000 if os.environ.get("CONVFS_LARGE_TESTS") else 2
"""So many of each folder of samples."""
LARGEST = 300 << 10


def chosen() -> list[Path]:
    """Return some files of each folder, the smallest ones."""
    found: list[Path] = []
    for folder in sorted(SAMPLES.iterdir()):
        files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size <= LARGEST]
        found += sorted(files, key=lambda path: path.stat().st_size)[:MOST]
    return found


def sessions(root: Path) -> dict[int, Path]:
    """Return the files of sessions by their conversations."""
    found = {}
    for path in (root / ".convfs/native").rglob("*"):
        with suppress(OSError):
            found[int(os.getxattr(path, "user.convfs.context"))] = path
    return found


def test_every_tool(store_path: Path) -> None:
    with new_store(store_path) as store:
        Importer(store).run(chosen())
        sources = {one.id: (one.format, text_path(one.source)) for one in store.library.conversations()}
    by_tool: dict[str, list[Path]] = defaultdict(list)
    with mounted(store_path) as mount:
        files = sessions(mount.root)
        for context, path in files.items():
            tool, source = sources[context]
            by_tool[tool].append(path)
            data = source.read_bytes()
            assert path.stat().st_size == len(data), source
            assert path.read_bytes() == data, source
        assert len(by_tool) >= 3
        for path in (path for paths in by_tool.values() for path in paths[:2]):
            data = path.read_bytes()
            lines = data.splitlines(keepends=True)
            added = b"" if data.endswith(b"\n") else b"\n"
            added += lines[-1] if lines else b""
            with path.open("ab") as file:
                file.write(added)
            assert path.read_bytes() == data + added, path
            path.write_bytes(data[: len(data) // 2])
            assert path.read_bytes() == data[: len(data) // 2], path
            beside = path.with_name("temporary")
            beside.write_bytes(data)
            beside.rename(path)
            assert path.read_bytes() == data, path
    with mounted(store_path) as mount:
        for context, path in sessions(mount.root).items():
            assert path.read_bytes() == sources[context][1].read_bytes(), path
    with new_store(store_path) as store:
        assert fsck(store) == []
