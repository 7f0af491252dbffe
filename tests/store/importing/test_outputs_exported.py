"""Outputs beside sessions, as they are exported: as they came, as they were written anew, and new ones."""

import json
import os
from pathlib import Path

import pytest

from store.editing.editor import Editor
from store.events.conversation import AGENTS, ARTIFACTS, Outputs
from store.importing.exporter import export_native
from store.importing.importer import Importer
from store.store import Store
from tests.fusefs.tree.mounting import user

NAME = "2026-03-05T12-00-00-000Z_0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90"
LINES = [
    {"type": "session", "version": 3, "id": NAME[25:], "timestamp": "2026-03-05T12:00:00.000Z", "cwd": "/home/ada"},
    {
        "type": "message",
        "id": "a1",
        "parentId": None,
        "timestamp": "2026-03-05T12:00:01.000Z",
        "message": {"role": "user", "content": "Build it"},
    },
]  # fmt: skip


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions"
    (folder / NAME).mkdir(parents=True)
    (folder / f"{NAME}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (folder / NAME / "0.bash.log").write_text("as it came")
    (folder / NAME / "0-Explore.md").write_text("# Found")
    return folder


def write(store: Store, context: int, outputs: Outputs, name: str, data: bytes) -> None:
    artifacts = store.artifacts
    fd = artifacts.open(context, outputs, name)
    os.pwrite(fd, data, 0)
    os.close(fd)
    artifacts.end(context, outputs, name)


def exported(store: Store, context: int, directory: Path) -> dict[str, bytes]:
    paths = export_native(store, store.library.conversation(context), directory)
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_session_goes_out_with_its_outputs_as_they_are(tmp_path: Path, sessions: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([sessions])
        assert (report.imported, report.errors) == (1, [])
        assert exported(store, 1, tmp_path / "same") == files(sessions)
        write(store, 1, ARTIFACTS, "0.bash.log", b"written anew")
        write(store, 1, ARTIFACTS, "1.make.log", b"new")
        write(store, 1, AGENTS, "0-Explore.0-Deeper.md", b"# Deeper")
        expected = files(sessions) | {
            f"{NAME}/0.bash.log": b"written anew",
            f"{NAME}/1.make.log": b"new",
            f"{NAME}/0-Explore.0-Deeper.md": b"# Deeper",
        }
        assert exported(store, 1, tmp_path / "changed") == expected
        fork = Editor(store).fork(1, "branch").context
        forked = exported(store, fork, tmp_path / "fork")
        [own] = {name.split("/")[0].removesuffix(".jsonl") for name in forked}
        assert own != NAME
        assert set(forked) == {name.replace(NAME, own) for name in expected}
    with Store.open(tmp_path / "again") as store:
        assert Importer(store).run([tmp_path / "changed"]).imported == 1
        assert set(store.artifacts.listed(1, ARTIFACTS)) == {"0.bash.log", "1.make.log"}


def test_a_tool_that_keeps_them_elsewhere_gets_back_what_was_its_own(tmp_path: Path) -> None:
    session = tmp_path / "-home-ada-shop" / "0c7ab1de-0000-4000-8000-000000000001.jsonl"
    results = session.with_suffix("") / "tool-results"
    results.mkdir(parents=True)
    session.write_text(user("Build it") + "\n")
    (results / "toolu_01.txt").write_text("as it came")
    with Store.open(tmp_path / "store") as store:
        Importer(store).run([session])
        write(store, 1, ARTIFACTS, "0.make.log", b"made here")
        assert exported(store, 1, tmp_path / "out") == files(session.parent)
