"""Files beside a session's main file: sidecars, a configuration, the blobs of a JP workspace."""

import gzip
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from fusefs.text.render import render_event
from store.events.event import Event, Kind
from store.formats.core.look import Look
from store.importing.importer import Importer
from store.store import Store
from tests.store.importing.sessions import by_source, event, exported, imported, jp, lines, session


def reference(content: bytes) -> dict[str, object]:
    """Return what stands in an event for content that is kept beside the conversation."""
    return {"$blob": hashlib.sha256(content).hexdigest(), "size": len(content)}


def attached(content: bytes, uri: str = "file:///a.txt") -> dict[str, object]:
    resource = {"uri": uri, "mimeType": "text/plain", "content": reference(content)}
    return event() | {"resources": [resource]}


def put(storage: Path, content: bytes, layout: str = "nested", stored: bytes | None = None) -> Path:
    """Write a blob into a JP workspace and return its path."""
    name = hashlib.sha256(content).hexdigest()
    path = storage / "blobs" / name[:2] / name[2:4] / f"{name[4:]}.blob.gz"
    if layout == "flat":
        path = storage / "blobs" / f"{name}.blob.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if stored is None else stored)
    return path


def shown(store: Store, folder: Path) -> str:
    """Return what the last event of a conversation shows."""
    row = store.records.rows(by_source(store, folder).head)[-1]
    found = store.records.event(row)
    assert isinstance(found, Event)
    return "\n".join(block.text or "" for block in found.blocks)


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_a_blob_of_the_workspace_comes_along(store: Store, tmp_path: Path, layout: str) -> None:
    content = "Ünicode, and long\n".encode() * 500
    put(tmp_path / ".jp", content, layout)
    folder = jp(tmp_path, [attached(content)])
    imported(store, tmp_path)
    assert content.decode() in shown(store, folder)
    shutil.rmtree(tmp_path / ".jp" / "blobs")
    assert content.decode() in shown(store, folder)
    (resource,) = store.records.resources(by_source(store, folder).head)
    assert store.records.resource(resource) == content


def test_nothing_is_looked_for_in_a_folder_of_blobs_beside_one_of_conversations(store: Store, tmp_path: Path) -> None:
    put(tmp_path / ".jp", b"content")
    inside = session(tmp_path / ".jp/blobs", lines("In there"))
    alone = session(tmp_path / "elsewhere/blobs", lines("Not of JP"))
    folder = jp(tmp_path, [attached(b"content")])
    report = imported(store, tmp_path)
    assert (report.imported, report.skipped, report.warnings) == (2, 0, [])
    assert {entry.source for entry in store.catalogue.page()} == {str(alone), str(folder)}
    # what is named itself is looked at
    assert imported(store, inside.parent).imported == 1


def test_one_blob_for_many_conversations(store: Store, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    put(tmp_path / ".jp", content)
    for number in range(5):
        jp(tmp_path, [attached(content), attached(content)], name=f"1772752354{number}-x")
    imported(store, tmp_path / ".jp" / "conversations")
    assert store.files.packs.end[1] < 400_000


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"no gzip", "cannot be read"),
        (gzip.compress(b"other content"), "not what its name says"),
        (gzip.compress(b"x" * 5000)[:-20], "cannot be read"),
        (b"", "not what its name says"),
    ],
    ids=["not gzip", "other content", "cut off", "empty"],
)
def test_a_damaged_blob_is_told_and_stops_nothing(store: Store, tmp_path: Path, stored: bytes, reason: str) -> None:
    content = b"x" * 5000
    path = put(tmp_path / ".jp", content, stored=stored)
    folder = jp(tmp_path, [attached(content), attached(content), event(text="more")])
    report = Importer(store).run([folder])
    assert report.imported == 1
    (error,) = report.errors
    assert reason in error
    assert str(path) in error
    with exported(store, by_source(store, folder)) as files:
        assert files[f"{folder.name}/events.json"] == (folder / "events.json").read_bytes()


def test_a_blob_that_is_not_there_leaves_its_reference(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, [attached(b"gone")])
    imported(store, folder)
    assert "not in the store" in shown(store, folder)


def test_a_blob_that_is_a_fifo_never_blocks(store: Store, tmp_path: Path) -> None:
    path = put(tmp_path / ".jp", b"content")
    path.unlink()
    os.mkfifo(path)
    folder = jp(tmp_path, [attached(b"content")])
    report = Importer(store).run([folder])
    assert report.imported == 1
    assert "no regular file" in report.errors[0]


def test_the_private_conversations_of_a_user(store: Store, tmp_path: Path) -> None:
    storage = tmp_path / ".local/share/jp/workspace/shop-ab1cd"
    folder = storage / "conversations" / "17727523543-private"
    folder.mkdir(parents=True)
    content = b"kept beside" * 10
    put(storage, content)
    (folder / "events.json").write_text(json.dumps([event(text="Why?"), attached(content)]))
    imported(store, storage)
    conversation = by_source(store, folder)
    assert (conversation.project, conversation.title) == ("shop", "Why?")
    assert content.decode() in shown(store, folder)


# --- sidecars ---------------------------------------------------------------------------------------------


def with_outputs(folder: Path, **outputs: bytes) -> Path:
    path = session(folder, lines("One"))
    for name, content in outputs.items():
        output = path.with_suffix("") / "tool-results" / f"{name}.txt"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(content)
    return path


def expected(path: Path) -> dict[str, bytes]:
    folder = path.parent
    outputs = path.with_suffix("").rglob("*.txt")
    return {str(file.relative_to(folder)): file.read_bytes() for file in (path, *outputs)}


def test_sidecars_come_along(store: Store, tmp_path: Path) -> None:
    path = with_outputs(tmp_path, a=b"output a", b=os.urandom(70_000), empty=b"")
    imported(store, tmp_path)
    with exported(store, by_source(store, path)) as files:
        assert files == expected(path)
        assert len(files) == 4


def test_a_sidecar_changes_or_comes_later(store: Store, tmp_path: Path) -> None:
    path = with_outputs(tmp_path, a=b"output a")
    time.sleep(0.03)
    imported(store, tmp_path)
    for outputs in ({"b": b"output b"}, {"a": b"changed"}, {"b": b"longer than before"}):
        with_outputs(tmp_path, **outputs)
        time.sleep(0.03)
        turns = store.files.turns.count
        imported(store, tmp_path)
        assert store.files.turns.count == turns
        with exported(store, by_source(store, path)) as files:
            assert files == expected(path)
    assert imported(store, tmp_path).unchanged == 1
    assert len(store.catalogue.page()) == 1


def test_a_sidecar_that_was_deleted_is_kept(store: Store, tmp_path: Path) -> None:
    path = with_outputs(tmp_path, a=b"output a")
    imported(store, tmp_path)
    whole = expected(path)
    shutil.rmtree(path.with_suffix(""))
    path.write_bytes(lines("One", "Two"))
    imported(store, tmp_path)
    with exported(store, by_source(store, path)) as files:
        assert files == whole | {path.name: path.read_bytes()}


def test_unchanged_sidecars_are_not_read_again(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from store.importing import session as module

    path = with_outputs(tmp_path, a=b"output a", b=b"output b")
    time.sleep(0.03)
    imported(store, tmp_path)
    read: list[Path] = []
    real = module.Snapshot

    def noting(path: Path, *arguments: object) -> object:
        read.append(path)
        return real(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "Snapshot", noting)
    for content in (lines("One", "Two"), lines("Other")):
        path.write_bytes(content)
        imported(store, tmp_path)
    assert read == [path, path]


def test_a_sidecar_that_cannot_be_read_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from store.formats.claude_code.session import ClaudeCode

    path = with_outputs(tmp_path, a=b"output a", b=b"output b")
    real = ClaudeCode.claim

    def claim(self: ClaudeCode, look: Look) -> object:
        source = real(self, look)
        if source:
            (path.with_suffix("") / "tool-results" / "a.txt").unlink(missing_ok=True)
        return source

    monkeypatch.setattr(ClaudeCode, "claim", claim)
    report = Importer(store).run([tmp_path])
    assert report.imported == 1
    assert len(report.errors) == 1
    assert "a.txt" in report.errors[0]
    with exported(store, by_source(store, path)) as files:
        assert files == expected(path)


# --- content that comes later ---------------------------------------------------------------------------------


def exact(store: Store, folder: Path) -> bool:
    """Say whether each event of a conversation is drawn with the size that its row says."""
    rows = store.records.rows(by_source(store, folder).head)
    drawn = [(row, event) for row, event in store.viewer.events(rows) if isinstance(event, Event)]
    assert len(drawn) == len(rows)
    return all(row.kind is Kind.RECORD or row.file_size == len(render_event(row.number, event)) for row, event in drawn)


def test_content_that_was_missing_is_found_the_next_time(store: Store, tmp_path: Path) -> None:
    content, other = b"found at last\n" * 50, b"never found"
    folder = jp(tmp_path, [attached(content), attached(other), attached(content)])
    imported(store, folder)
    assert "not in the store" in shown(store, folder)
    assert imported(store, folder).unchanged == 1
    put(tmp_path / ".jp", content)
    versions = store.catalogue.versions(by_source(store, folder).id)
    imported(store, folder)
    assert content.decode() in shown(store, folder)
    assert exact(store, folder)
    conversation = by_source(store, folder)
    assert list(conversation.metadata["missing"]) == [hashlib.sha256(other).hexdigest()]
    assert store.catalogue.versions(conversation.id) == versions
    assert conversation.transcript_size == sum(row.section_size for row in store.records.rows(conversation.head))
    put(tmp_path / ".jp", other)
    imported(store, folder)
    assert "missing" not in by_source(store, folder).metadata
    time.sleep(0.03)
    imported(store, folder)
    assert store.catalogue.by_source(str(folder))


def test_content_that_another_workspace_brings(store: Store, tmp_path: Path) -> None:
    content = b"found elsewhere\n" * 50
    first = jp(tmp_path / "a", [attached(content)])
    imported(store, first)
    assert store.records.rows(by_source(store, first).head)
    changes: list[int] = []
    store.observers.add(lambda change: changes.append(change.context_id))
    put(tmp_path / "b" / ".jp", content)
    imported(store, jp(tmp_path / "b", [attached(content)]))
    assert content.decode() in shown(store, first)
    assert exact(store, first)
    assert by_source(store, first).id in changes


def test_missing_content_of_a_conversation_that_was_rewritten(store: Store, tmp_path: Path) -> None:
    content = b"found at last\n" * 50
    folder = jp(tmp_path, [event(text="a"), attached(content)])
    imported(store, folder)
    jp(tmp_path, [attached(content)])
    imported(store, folder)
    put(tmp_path / ".jp", content)
    imported(store, folder)
    assert content.decode() in shown(store, folder)
    assert exact(store, folder)
