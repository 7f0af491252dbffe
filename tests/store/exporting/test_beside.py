"""Files beside a session come along in an export, or are said to be left out."""

import base64
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.events.event import DELETED
from store.exporting.export import export, forms, names
from store.importing.exporter import NOT_THERE
from store.importing.importer import Importer
from store.store import Store
from tests.store.exporting.talks import PNG, lost, said, shop
from tests.store.importing.sessions import by_source, imported, jp

IMAGE = bytes(range(256)) * 8
DIGEST = hashlib.sha256(IMAGE).hexdigest()
LONG = b"A long text\n" * 200
TEXT = hashlib.sha256(LONG).hexdigest()
UUID = "0b9f6a3c-52a4-4a1c-8d2a-6f5d0f6f1e55"


def json_lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def oh_my_pi(folder: Path, *, there: bool = True) -> Path:
    """Write a session of oh-my-pi with an image in ``blobs/`` and an output beside it."""
    path = folder / "agent" / "sessions" / "--home-ada-shop--" / "2026-03-05T19-00-00-000Z_5c0375b4.jsonl"
    path.parent.mkdir(parents=True)
    image = {"type": "image", "data": f"blob:sha256:{DIGEST}", "mimeType": "image/png"}
    about = {"timestamp": "2026-03-05T19:00:00.000Z"}
    content = [{"type": "text", "text": "Look"}, image]
    path.write_text(
        json_lines(
            {"type": "session", "version": 3, "id": "5c0375b4", "cwd": "/home/ada/shop"} | about,
            {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": content}} | about,
        )
    )
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "0.bash.log").write_text("output")
    if there:
        (folder / "agent" / "blobs").mkdir()
        (folder / "agent" / "blobs" / DIGEST).write_bytes(IMAGE)
    return path


def jp_with_blobs(folder: Path) -> Path:
    """Write a conversation of JP with a result and an attachment in ``blobs/``."""
    stamp = {"timestamp": "2026-03-05 23:12:00.3"}
    result = {"type": "text", "content": {"$blob": TEXT, "size": len(LONG)}}
    image = {"uri": "file:///a.png", "mimeType": "image/png", "content": {"$blob": DIGEST, "size": len(IMAGE)}}
    path = jp(
        folder,
        [
            stamp | {"type": "chat_request", "content": "Look", "resources": [image]},
            stamp | {"type": "tool_call_request", "id": "c", "name": "read", "arguments": {}},
            stamp | {"type": "tool_call_response", "id": "c", "content": [result], "is_error": False},
        ],
    )
    for content in (LONG, IMAGE):
        name = hashlib.sha256(content).hexdigest()
        blob = folder / ".jp" / "blobs" / name[:2] / name[2:4] / f"{name[4:]}.blob.gz"
        blob.parent.mkdir(parents=True)
        blob.write_bytes(gzip.compress(content))
    return path


def messages(folder: Path) -> Path:
    """Write a conversation as ``messages.jsonl``, with contents by id beside it."""
    path = folder / "conversations" / "c-1" / "messages.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(
        json_lines(
            {"role": "supervisor", "content": {"type": "text", "text": "Be brief."}},
            {"role": "user", "content": [{"type": "text", "content_id": f"sha256:{TEXT}"}]},
            {"role": "user", "content": [{"type": "image", "content_id": UUID}]},
            {"role": "assistant", "content": "I see."},
        )
    )
    for name, content in ((TEXT, LONG), (UUID, IMAGE)):
        (folder / "content" / name).mkdir(parents=True)
        (folder / "content" / name / "data").write_bytes(content)
    return path


WRITERS = {"pi": oh_my_pi, "jp": jp_with_blobs, "messages-jsonl": messages}


def taken_in(folder: Path, out: Path, where: str) -> tuple[list[str], list[Any]]:
    """Import all of an export into a store of its own; return what was missing, and what is said."""
    with Store.open(folder / f"other-{where}", renderer=FileRenderer()) as store:
        report = Importer(store).run([out])
        assert report.errors == []
        (conversation,) = store.library.conversations()
        return [*report.warnings], said(store, conversation)


@pytest.mark.parametrize(
    ("tool", "form"),
    [
        *(("pi", form) for form in ("native", "pi", "oh-my-pi")),
        *(("jp", form) for form in ("native", "jp")),
        *(("messages-jsonl", form) for form in ("native", "messages-jsonl")),
    ],
)
def test_contents_that_a_session_names_come_along(store: Store, tmp_path: Path, tool: str, form: str) -> None:
    path = WRITERS[tool](tmp_path / "in")
    imported(store, path)
    conversation = by_source(store, path)
    before = said(store, conversation)
    out = tmp_path / "out"
    done = export(store, conversation, out, form)
    assert done.lost == ()
    assert {path.relative_to(out) for path in done.files} == set(names(store, conversation, form))
    assert {path for path in out.rglob("*") if path.is_file()} == set(done.files)
    # what was imported is the same, byte for byte
    main = path if path.is_file() else path / "events.json"
    (again,) = [file for file in done.files if file.name == main.name]
    if form != "jp":
        assert again.read_bytes() == main.read_bytes()
    (tmp_path / "in").rename(tmp_path / "gone")
    warnings, told = taken_in(tmp_path, out, form)
    assert warnings == []
    assert told == before


@pytest.mark.parametrize("form", ["native", "pi", "oh-my-pi"])
def test_what_the_store_does_not_have_is_said(store: Store, tmp_path: Path, form: str) -> None:
    path = oh_my_pi(tmp_path / "in", there=False)
    Importer(store).run([path])
    assert lost(export(store, by_source(store, path), tmp_path / "out", form)) == {NOT_THERE: (2,)}


@pytest.mark.parametrize("form", [form for form in forms() if form not in ("native", "pi", "oh-my-pi")])
def test_outputs_that_a_form_has_no_place_for_are_said(store: Store, tmp_path: Path, form: str) -> None:
    path = oh_my_pi(tmp_path / "in")
    imported(store, path)
    told = lost(export(store, by_source(store, path), tmp_path / "out", form))
    assert "what lies beside the session: '0.bash.log'" in told
    folder = jp_with_blobs(tmp_path / "jp")
    imported(store, folder)
    told = lost(export(store, by_source(store, folder), tmp_path / "other", form))
    assert not any("beside the session" in what for what in told)


def test_sessions_share_their_contents(store: Store, tmp_path: Path) -> None:
    paths = [oh_my_pi(tmp_path / "one"), oh_my_pi(tmp_path / "two")]
    paths.append(paths[1].rename(paths[1].with_name("2026-03-06T19-00-00-000Z_other.jsonl")))
    paths[2].write_text(paths[2].read_text().replace("5c0375b4", "other").replace("Look", "Look again"))
    out = tmp_path / "out"
    for path in (paths[0], paths[2]):
        imported(store, path)
        for form in ("native", "oh-my-pi"):
            export(store, by_source(store, path), out / form, form)
    for form, place in (("native", ""), ("oh-my-pi", "sessions/--home-ada-shop--")):
        assert (out / form / "blobs" / DIGEST).read_bytes() == IMAGE
        assert len(list((out / form / place).glob("*.jsonl"))) == 2


def test_contents_of_deleted_records_stay_behind(store: Store, tmp_path: Path) -> None:
    path = messages(tmp_path / "in")
    imported(store, path)
    Editor(store).edit(by_source(store, path).id, {3: DELETED})
    files = export(store, by_source(store, path), tmp_path / "out", "native").files
    assert [str(file.relative_to(tmp_path / "out")) for file in files] == [
        "messages.jsonl",
        f"content/sha256:{TEXT}/data",
    ]


def contents(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in (out / "content").glob("*/data")}


def ids(path: Path) -> list[str]:
    parts = [part for line in path.read_text().splitlines() for part in json.loads(line)["content"]]
    return [part["content_id"] for part in parts if "content_id" in part]


def test_any_conversation_becomes_messages_and_comes_back(store: Store, tmp_path: Path) -> None:
    talk = shop(tmp_path)
    talk.user("long " * 400)
    talk.calls("toolu_3", "Read", {"file_path": "/home/ada/shop/long.py"})
    talk.returns("toolu_3", LONG.decode())
    talk.thinks("Hm.")
    conversation = talk.bring(store)
    out = tmp_path / "out"
    done = export(store, conversation, out, "messages-jsonl")
    (path,) = (out / "conversations").glob("*/messages.jsonl")
    assert set(done.files) == {path, *(out / "content").glob("*/data")}
    assert {file.relative_to(out) for file in done.files} == set(names(store, conversation, "messages-jsonl"))
    assert contents(out) == {
        hashlib.sha256(content).hexdigest(): content
        for content in (b"long " * 400, LONG, base64.b64decode(PNG))
    }
    # each id leads somewhere, and no content lies there for nothing
    assert set(ids(path)) == contents(out).keys()
    assert lost(done) == {
        "a thought": (2, 14),
        "a call of a tool, but as a text": (4, 6, 12),
        "the result of a call, but as a text": (5, 7, 13),
    }
    warnings, told = taken_in(tmp_path, path.parent, "messages")
    assert warnings == []
    assert [kind for kind, _tool, _content in told] == [
        *("user", "assistant", "assistant", "system", "assistant", "system", "assistant", "user", "assistant"),
        *("user", "assistant", "system"),
    ]
    assert told[0][2] == ["Fix the **login** bug"]
    assert told[-1][2] == ["[result of Read]", LONG.decode()]


def test_a_long_new_text_lies_beside_the_messages(store: Store, tmp_path: Path) -> None:
    path = messages(tmp_path / "in")
    imported(store, path)
    conversation = by_source(store, path)
    longer, short = "changed " * 200, "Short."
    editor = Editor(store)
    lines = path.read_bytes().splitlines()
    long_string = json.dumps({"role": "assistant", "content": longer}).encode()
    editor.edit(conversation.id, {1: lines[0].replace(b"Be brief.", longer.encode()), 4: long_string})
    now = store.library.conversation(conversation.id)
    for form in ("native", "messages-jsonl"):
        out = tmp_path / form
        done = export(store, now, out, form)
        (again,) = [file for file in done.files if file.name == "messages.jsonl"]
        written = [json.loads(line) for line in again.read_text().splitlines()]
        identifier = hashlib.sha256(longer.encode()).hexdigest()
        assert written[0]["content"] == written[3]["content"] == {"type": "text", "content_id": identifier}
        assert again.read_bytes().splitlines()[1:3] == lines[1:3]
        assert contents(out) == {f"sha256:{TEXT}": LONG, UUID: IMAGE, identifier: longer.encode()}
    editor.edit(conversation.id, {4: json.dumps({"role": "assistant", "content": short}).encode()})
    export(store, store.library.conversation(conversation.id), tmp_path / "messages-jsonl", "messages-jsonl")
    (again,) = (tmp_path / "messages-jsonl").glob("conversations/*/messages.jsonl")
    assert again == tmp_path / "messages-jsonl/conversations/c-1/messages.jsonl"
    assert json.loads(again.read_text().splitlines()[3])["content"] == short


def test_a_fork_of_messages_has_its_contents(store: Store, tmp_path: Path) -> None:
    path = messages(tmp_path / "in")
    imported(store, path)
    context = Keeper(store).fork(by_source(store, path).id, "fork", at=2).context
    out = tmp_path / "out"
    done = export(store, store.library.conversation(context), out, "messages-jsonl")
    assert done.lost == ()
    (again,) = out.glob("conversations/*/messages.jsonl")
    assert again.read_bytes() == b"".join(path.read_bytes().splitlines(keepends=True)[:2])
    assert contents(out) == {f"sha256:{TEXT}": LONG}
