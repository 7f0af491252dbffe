"""JP's storage: every content of a tool or an attachment in a file of its own, and the same events when it is read."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.errors import Conflict
from store.events.conversation import Conversation
from store.events.event import DELETED, Kind
from store.exporting.export import Exported, export, names
from store.store import Store
from tests.store.exporting.talks import PNG, Talk, brought_back, lost, said, shop, shown
from tests.store.importing.sessions import SAMPLES, by_source, event, imported, jp

SECRET = "only in a blob"
TALK: list[dict[str, Any]] = [
    {"type": "turn_start", "timestamp": "2026-03-05 23:12:34.3"},
    event(text="Fix it")
    | {
        "resources": [
            {
                "uri": "file:///a.rs",
                "mimeType": "text/x-rust",
                "text": f"// {SECRET}\n",
                "annotations": {"priority": 0.5},
            },
            {"uri": "file:///a.png", "mimeType": "image/png", "content": {"blob": PNG}},
            {"uri": "file:///e", "mimeType": "text/plain", "content": {"text": ""}},
        ]
    },
    {"type": "tool_call_request", "timestamp": "2026-03-05 23:12:35.3", "id": "c1", "name": "read"}
    | {"arguments": {"path": "YS5ycw=="}, "weight": 1.50},
    {"type": "tool_call_response", "timestamp": "2026-03-05 23:12:36.3", "id": "c1", "is_error": False}
    | {"content": "b25seSBpbiBhIGJsb2I="},
    {"type": "tool_call_request", "timestamp": "2026-03-05 23:12:37.3", "id": "c2", "name": "read", "arguments": {}},
    {"type": "tool_call_response", "timestamp": "2026-03-05 23:12:38.3", "id": "c2", "is_error": True}
    | {
        "content": [
            {"type": "text", "text": f"{SECRET}, too"},
            {"type": "text", "content": {"text": "\0 and nothing"}},
            {"type": "resource", "resource": {"uri": "file:///b", "text": SECRET}, "formatted": "shown"},
        ]
    },
    {"type": "chat_response", "timestamp": "2026-03-05 23:12:39.3", "message": "Done."},
    {"type": "newer", "timestamp": "2026-03-05 23:12:40.3", "what": ["is", "it"]},
]


def own(store: Store, folder: Path, talk: list[dict[str, Any]] = TALK) -> Conversation:
    path = jp(folder, talk)
    (path / "notes.txt").write_text("beside")
    imported(store, path)
    return by_source(store, path)


def contents(value: object) -> list[dict[str, Any]]:
    """Return every reference in an event."""
    if isinstance(value, dict):
        return [value] if "$blob" in value else [found for item in value.values() for found in contents(item)]
    return [found for item in value for found in contents(item)] if isinstance(value, list) else []


def check_blobs(storage: Path, events: object) -> None:
    """Check that what events refer to is there, and nothing else."""
    found = contents(events)
    for reference in found:
        digest = reference["$blob"]
        path = storage / "blobs" / digest[:2] / digest[2:4] / f"{digest[4:]}.blob.gz"
        data = gzip.decompress(path.read_bytes())
        assert hashlib.sha256(data).hexdigest() == digest
        assert len(data) == reference["size"]
        # no name and no time: the same bytes whoever writes it
        assert path.read_bytes()[3:8] == bytes(5)
    assert len(list(storage.rglob("*.gz"))) == len({reference["$blob"] for reference in found})


def events_of(done: Exported) -> list[dict[str, Any]]:
    (path,) = [path for path in done.files if path.name == "events.json"]
    return json.loads(path.read_bytes())


def test_contents_are_moved_out_and_the_events_are_the_same(store: Store, tmp_path: Path) -> None:
    conversation = own(store, tmp_path)
    done = export(store, conversation, tmp_path / "out", "jp")
    assert done.lost == ()
    folder = tmp_path / "out/.jp/conversations" / Path(conversation.source).name
    assert {path.name for path in folder.iterdir()} == {"events.json", "metadata.json", "base_config.json", "notes.txt"}
    text = (folder / "events.json").read_text()
    assert SECRET not in text
    assert "b25seSBpbi" not in text
    assert "nothing" not in text
    # what is no content is as it was, to the byte
    assert '"weight": 1.5' in text
    assert '"formatted": "shown"' in text
    events = events_of(done)
    assert [entry["type"] for entry in events] == [entry["type"] for entry in TALK]
    check_blobs(tmp_path / "out/.jp", events)
    assert len(contents(events)) == 7
    with brought_back(tmp_path, folder) as (other, again):
        assert shown(other, again) == shown(store, conversation)


def test_samples_come_back_the_same(store: Store, tmp_path: Path) -> None:
    if not (SAMPLES / "jp").is_dir():
        pytest.skip(f"no sample sessions at {SAMPLES} (CONVFS_SAMPLES)")
    imported(store, SAMPLES / "jp")
    for conversation in store.library.conversations():
        done = export(store, conversation, tmp_path / "out", "jp")
        assert done.lost == ()
    with Store.open(tmp_path / "other", renderer=store.viewer.renderer) as other:
        imported(other, tmp_path / "out")
        for conversation in store.library.conversations():
            again = other.library.find(conversation.project, conversation.name)
            found = again or by_source(other, tmp_path / "out/.jp/conversations" / Path(conversation.source).name)
            assert shown(other, found) == shown(store, conversation)


def test_it_is_deterministic_and_its_files_are_named_beforehand(store: Store, tmp_path: Path) -> None:
    for conversation in (own(store, tmp_path), shop(tmp_path).bring(store)):
        done = [export(store, conversation, tmp_path / f"{at}{conversation.id}", "jp") for at in range(2)]
        first, second = ({path.relative_to(one.files[0].parents[3]): path for path in one.files} for one in done)
        told = names(store, conversation, "jp")
        assert list(first) == list(second) == told
        assert all(first[name].read_bytes() == second[name].read_bytes() for name in first)
        out = tmp_path / f"0{conversation.id}"
        on_disk = {path.relative_to(out) for path in out.rglob("*") if path.is_file()}
        assert on_disk == set(told)


def test_conversations_share_their_blobs(store: Store, tmp_path: Path) -> None:
    one = own(store, tmp_path / "one")
    talk = [entry | {"timestamp": entry["timestamp"].replace("23:12", "23:13")} for entry in TALK]
    path = jp(tmp_path / "two", talk, "17727523999-another")
    imported(store, path)
    two = by_source(store, path)
    out = tmp_path / "out"
    first, second = export(store, one, out, "jp"), export(store, two, out, "jp")
    assert first.files[0].parent.parent == second.files[0].parent.parent
    blobs = {path for path in first.files if path.suffix == ".gz"}
    assert blobs == {path for path in second.files if path.suffix == ".gz"}
    check_blobs(out / ".jp", [*events_of(first), *events_of(second)])
    # where its events are of somebody else, it goes elsewhere, whole, and then nowhere
    first.files[-1].write_text("[]")
    third = export(store, one, out, "jp")
    assert third.files[0].relative_to(out).parts[:2] == (one.project, one.name)
    check_blobs(third.files[0].parents[2], events_of(third))
    third.files[-1].write_text("[]")
    with pytest.raises(Conflict, match="exists already"):
        export(store, one, out, "jp")


def test_a_workspace_and_its_storage_are_the_same_place(store: Store, tmp_path: Path) -> None:
    conversation = own(store, tmp_path)
    first = export(store, conversation, tmp_path / "a", "jp")
    second = export(store, conversation, tmp_path / "b" / ".jp", "jp")
    assert [path.relative_to(tmp_path / "a") for path in first.files] == [
        path.relative_to(tmp_path / "b") for path in second.files
    ]


def test_what_was_deleted_goes_with_what_belongs_to_it(store: Store, tmp_path: Path) -> None:
    conversation = own(store, tmp_path)
    call = next(row for row in store.records.rows(conversation.head) if row.tool == "read")
    Editor(store).edit(conversation.id, {call.number: DELETED})
    done = export(store, store.library.conversation(conversation.id), tmp_path / "out", "jp")
    assert [entry.get("id") for entry in events_of(done)] == [None, None, "c2", "c2", None, None]


@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_an_edit_is_exported_however_it_is_kept(tmp_path: Path, edits: str) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (root / "convfs.toml").write_text(f'edits = "{edits}"\n')
    with Store.open(root, renderer=FileRenderer()) as store:
        conversation = own(store, tmp_path)
        rows = store.records.rows(conversation.head)
        result = next(row for row in rows if row.kind is Kind.TOOL_RESULT)
        changed = store.contents.payload(result.turn).replace(b"b25seSBpbiBhIGJsb2I=", b"Y2hhbmdlZCBieSBoYW5k")
        Editor(store).edit(conversation.id, {result.number: changed, rows[-1].number: DELETED})
        now = store.library.conversation(conversation.id)
        done = export(store, now, tmp_path / "out", "jp")
        check_blobs(tmp_path / "out/.jp", events_of(done))
        with brought_back(tmp_path, done.files[-1].parent) as (other, again):
            assert shown(other, again) == shown(store, now)
            assert ("tool_result", "read", ["changed by hand"]) in said(other, again)


def test_a_title_that_was_changed(store: Store, tmp_path: Path) -> None:
    conversation = own(store, tmp_path)
    Editor(store).describe(conversation.id, {"title": 'Another "one"'})
    done = export(store, store.library.conversation(conversation.id), tmp_path / "out", "jp")
    (path,) = [path for path in done.files if path.name == "metadata.json"]
    assert json.loads(path.read_bytes()) == {"title": 'Another "one"'}


def test_a_content_that_is_nowhere(store: Store, tmp_path: Path) -> None:
    reference = {"$blob": "ab" * 32, "size": 3}
    response = {"type": "tool_call_response", "timestamp": "2026-03-05 23:12:36.3", "id": "c"}
    conversation = own(store, tmp_path, [event(), response | {"content": [{"type": "text", "content": reference}]}])
    done = export(store, conversation, tmp_path / "out", "jp")
    assert contents(events_of(done)) == [reference]
    assert set(lost(done)) == {"a content that the store does not have: its reference leads nowhere"}


def test_other_tools_conversations(store: Store, tmp_path: Path) -> None:
    talk = shop(tmp_path)
    talk.lines[0]["isMeta"] = True
    talk.user("Do it again", timestamp="2026-03-05T19:32:00.250Z")
    conversation = talk.bring(store)
    done = export(store, conversation, tmp_path / "out", "jp")
    assert done.lost == ()
    events = events_of(done)
    check_blobs(tmp_path / "out/.jp", events)
    folder = done.files[-1].parent
    assert folder.name.startswith("17727372002-")
    assert json.loads((folder / "base_config.json").read_bytes()) == {
        "assistant": {"system_prompt": "Fix the **login** bug"}
    }
    assert events[-1] == {"timestamp": "2026-03-05 19:32:00.25", "type": "chat_request", "content": "Do it again"}
    signed = next(entry for entry in events if "reasoning" in entry)
    assert signed["metadata"] == {"anthropic_thinking_signature": "YzJsbmJtVms="}
    with brought_back(tmp_path, folder) as (other, again):
        was = said(store, conversation)
        now = said(other, again)
        assert now[0][0] == "config"
        assert [(kind, tool) for kind, tool, _content in now[1:]] == [(kind, tool) for kind, tool, _content in was[1:]]
        assert now[1:] == was[1:]


def test_an_empty_conversation(store: Store, tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.line("system", "", type="file-history-snapshot", messageId="m", sessionId="s")
    done = export(store, talk.bring(store), tmp_path / "out", "jp")
    assert events_of(done) == []
