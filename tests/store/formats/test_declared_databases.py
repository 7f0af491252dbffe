"""Databases that a page describes: sessions as rows, as documents in a row, and as trees in these."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from store.content import zstd
from store.events.event import BlockEdit, EventEdit, FieldEdit, Kind
from store.events.usage import NOTHING_RUNNING
from store.formats.core import large_cells
from store.formats.core import sqlite as sqlite_module
from store.formats.core.lens import Nothing
from store.formats.core.look import Look
from store.formats.declared import database as declared_database
from store.formats.registry import format_named, lens_for
from store.importing.importer import Importer
from store.store import Store
from tests.store.formats.databases import Rendered, dump, dumped, opencode_database
from tests.store.importing.sessions import native

T = 1_772_739_114_000
PNG = "data:image/png;base64,iVBORw0KGgo="


def filled(path: Path, schema: str, rows: Sequence[tuple[str, Sequence[object]]]) -> Path:
    """Write a database with rows of its tables."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(schema)
        for table, row in rows:
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        database.commit()
    return path


ZED = """CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT NOT NULL, updated_at TEXT NOT NULL,
    data_type TEXT NOT NULL, data BLOB NOT NULL, parent_id TEXT, folder_paths TEXT, created_at TEXT)"""
AGENT = {
    "content": [
        {"Thinking": {"text": "Which file?", "signature": "s"}},
        {"Text": "I will read it."},
        {"ToolUse": {"id": "t1", "name": "read", "raw_input": "{}", "input": {"path": "login.py"}}},
    ],
    "tool_results": {"t1": {"tool_use_id": "t1", "is_error": False, "content": {"Text": "def login():"}}},
}


def zed(folder: Path) -> Path:
    thread = {"title": "Login", "messages": [{"User": {"id": "u1", "content": [{"Text": "Why?"}]}}, {"Agent": AGENT}]}
    thread |= {"cumulative_token_usage": {"input_tokens": 9, "output_tokens": 3}, "model": {"model": "m"}}
    old = {"summary": "Old", "messages": [{"id": 1, "role": "user", "segments": [{"type": "text", "text": "Hi é"}]}]}
    at = "2026-03-05T19:31:54Z"
    rows = [
        ("a", "Login", at, "zstd", zstd.compress(dump(thread).encode()), None, "/home/ada/shop\n/home/ada", at),
        ("b", "Old", at, "json", dump(old).encode(), "a", None, at),
    ]
    return filled(folder / "threads.db", ZED, [("threads", row) for row in rows])


CURSOR = """CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"""


def cursor(folder: Path) -> Path:
    bubbles: list[dict[str, object]] = [
        {"bubbleId": "b1", "type": 1, "text": "Why does it fail?", "createdAt": "2026-03-05T19:31:54Z"},
        {"bubbleId": "b2", "type": 2, "thinking": {"text": "Hm."}, "createdAt": T},
        {
            "bubbleId": "b3",
            "type": 2,
            "toolFormerData": {"name": "read", "toolCallId": "c\n1", "params": '{"path":"a"}', "result": '{"x":"y"}'},
        },
        {
            "bubbleId": "b4",
            "type": 2,
            "text": "Because.",
            "modelInfo": {"modelName": "m"},
            "tokenCount": {"inputTokens": 7},
        },
        {"bubbleId": "stray", "type": 2, "text": "Nothing names this."},
    ]
    chat = {
        "name": "Login",
        "createdAt": T,
        "workspaceIdentifier": {"uri": {"fsPath": "/home/ada/shop"}},
        "fullConversationHeadersOnly": [{"bubbleId": f"b{number}", "type": 2} for number in range(1, 5)],
    }
    older = {"name": "Older", "conversation": [{"bubbleId": "o1", "type": 1, "text": "Inline", "rawText": "Inline"}]}
    mapped = {
        "name": "Mapped",
        "conversationMap": {"m1": {"bubbleId": "m1", "type": 1, "text": "In a map"}},
        "latestConversationSummary": {"summary": {"summary": "It failed."}},
    }
    tabs = {"tabs": [{"tabId": f"t{at}", "chatTitle": f"Tab {at}", "bubbles": tab(at)} for at in range(2)], "more": [1]}
    rows: list[tuple[str, Sequence[object]]] = [
        ("cursorDiskKV", ("composerData:new", dump(chat).encode())),
        ("cursorDiskKV", ("composerData:old", dump(older))),
        ("cursorDiskKV", ("composerData:map", dump(mapped))),
        ("cursorDiskKV", ("composerData:none", None)),
        ("cursorDiskKV", ("composerData:broken", "\0{")),
        ("cursorDiskKV", ("agentKv:blob:x", '{"role":"user","content":"a copy"}')),
        ("ItemTable", ("workbench.panel.aichat.view.aichat.chatdata", dump(tabs))),
    ]
    rows += [("cursorDiskKV", (f"bubbleId:new:{one['bubbleId']}", dump(one))) for one in reversed(bubbles)]
    return filled(folder / "state.vscdb", CURSOR, rows)


def tab(number: int) -> list[dict[str, str]]:
    return [
        {"type": "user", "id": f"u{number}", "text": f"Question {number}"},
        {"type": "ai", "id": f"a{number}", "text": f"Answer {number}", "rawText": f"Answer {number}"},
    ]


def said(key: str, parent: str | None, *below: str) -> dict[str, object]:
    role = "assistant" if key.startswith("a") else "user"
    links = {"id": key, "parentId": parent, "childrenIds": list(below)}
    return links | {"role": role, "content": f"Says {key}", "timestamp": T // 1000 + int(key[1:])}


def chat(current: str = "a4") -> dict[str, object]:
    """Return a chat whose first answer was asked for twice."""
    tree = [
        said("u1", None, "a2", "a9"),
        said("a2", "u1", "u3"),
        said("a9", "u1"),
        said("u3", "a2", "a4"),
        said("a4", "u3"),
    ]
    held = {str(one["id"]): one for one in tree}
    way = [held[key] for key in ("u1", "a2", "u3", "a4")]
    return {"title": "Login", "history": {"messages": held, "currentId": current}, "messages": way, "tags": []}


WEBUI = """CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, title TEXT, chat TEXT, created_at INTEGER);
CREATE TABLE auth (id TEXT PRIMARY KEY, password TEXT)"""


def webui(folder: Path) -> Path:
    flat = {
        "messages": [{"id": "m1", "role": "user", "content": "Hi"}, {"id": "m2", "role": "assistant", "content": "Yes"}]
    }
    rows = [
        ("chat", ("c1", "ada", "Login", dump(chat()), T // 1000)),
        ("chat", ("c2", "bob", "Old", dump(flat), T // 1000)),
    ]
    return filled(folder / "webui.db", WEBUI, rows)


STORE = "CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB); CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)"


def cursor_store(folder: Path) -> Path:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Hm."},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "Read", "args": {"path": "a"}},
            ],
        },
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "result": "def login"}]},
        {"role": "assistant", "content": "Because."},
    ]
    blobs = [dump(one).encode() for one in messages]
    digests = [sha256(one).digest() for one in blobs]
    # a turn names messages, the root names these and the turn
    turn = b"\x12\x20" + digests[0] + b"\x1a\x20" + digests[3]
    root = b"".join(b"\x0a\x20" + one for one in digests) + b"\x42\x20" + sha256(turn).digest() + b"\x18\x07"
    meta = {"agentId": "s1", "name": "Login", "createdAt": T, "latestRootBlobId": sha256(root).hexdigest()}
    rows: list[tuple[str, Sequence[object]]] = [("meta", ("0", dump(meta).encode().hex()))]
    rows += [("blobs", (sha256(one).hexdigest(), one)) for one in (*blobs, turn, root)]
    path = filled(folder / "store.db", STORE, rows)
    path.with_name("meta.json").write_text('{"cwd": "/home/ada/shop"}')
    return path


KIRO = """CREATE TABLE conversations_v2 (key TEXT NOT NULL, conversation_id TEXT NOT NULL, value TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (key, conversation_id));
    CREATE TABLE conversations (key TEXT PRIMARY KEY, value TEXT)"""


def asked(**content: object) -> dict[str, object]:
    env = {"env_state": {"current_working_directory": "/home/ada/shop"}}
    return {"additional_context": "", "env_context": env, "content": content, "timestamp": "2026-03-05T19:31:54Z"}


def kiro(folder: Path) -> Path:
    use = {"message_id": "m1", "content": "Looking é.", "tool_uses": [{"id": "t1", "name": "fs_read", "args": {}}]}
    result = {"tool_use_id": "t1", "content": [{"Text": "def login"}], "status": "Error"}
    told = {"model_id": "m"}
    history = [
        {"user": asked(Prompt={"prompt": "Why?"}), "assistant": {"ToolUse": use}, "request_metadata": told},
        {"user": asked(ToolUseResults={"tool_use_results": [result]}), "assistant": {"Response": {"content": "So."}}},
        {"user": asked(Prompt={"prompt": "And now?"})},
    ]
    chat = {"conversation_id": "k1", "next_message": None, "history": history, "transcript": ["> Why?"]}
    pair = [asked(Prompt={"prompt": "Old?"}), {"Response": {"content": "Yes."}}]
    older = {"conversation_id": "q1", "history": [pair]}
    rows: list[tuple[str, Sequence[object]]] = [
        ("conversations_v2", ("/home/ada/shop", "k1", json.dumps(chat), T, T)),
        ("conversations", ("/home/ada/old", dump(older))),
    ]
    return filled(folder / "data.sqlite3", KIRO, rows)


MADE = {"kiro-db": kiro, "zed": zed, "cursor-ide": cursor, "open-webui": webui}


@pytest.mark.parametrize("name", MADE)
def test_databases_come_out_as_they_went_in(tmp_path: Path, name: str) -> None:
    path = MADE[name](tmp_path / "data")
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        assert report.errors == []
        assert report.tools[name].imported
        assert native(store, path) == path.read_bytes()


@pytest.mark.parametrize("name", MADE)
def test_every_text_is_edited_in_its_place(tmp_path: Path, name: str) -> None:
    """And the database differs in its row alone."""
    path = MADE[name](tmp_path)
    (tmp_path / "scratch").mkdir()
    rendered = Rendered(format_named(name), path, tmp_path / "scratch")
    lens = rendered.format.lenses[0]
    edits = 0
    for at, record in enumerate(rendered.records):
        for block in lens.view(record, Nothing()).blocks:
            if block.type != "text" or not block.path:
                continue
            edited = lens.edit(record, EventEdit((BlockEdit(block.path, "Other words é."),)), Nothing())
            records = [*rendered.records[:at], edited, *rendered.records[at + 1 :]]
            out = restored(rendered, records, tmp_path / f"out{edits}.db")
            assert Rendered(rendered.format, out, _folder(tmp_path, edits)).records == records
            changed = set(dumped(out)) ^ set(dumped(path))
            assert len(changed) == 2
            edits += 1
    assert edits > 3


def _folder(parent: Path, number: int) -> Path:
    folder = parent / f"scratch{number}"
    folder.mkdir()
    return folder


def restored(rendered: Rendered, records: Sequence[bytes], target: Path) -> Path:
    lines = target.with_suffix(".jsonl")
    lines.write_bytes(b"".join(record + b"\n" for record in records))
    rendered.format.restore(rendered.source.main, lines, target)
    return target


def of(rendered: Rendered, key: str) -> list[tuple[Kind, list[str]]]:
    found = rendered.events(key)
    return [
        (event.kind, [block.text or "" for block in event.blocks]) for event in found if event.kind is not Kind.RECORD
    ]


def test_rows_have_their_columns_in_the_order_of_their_table(tmp_path: Path) -> None:
    columns = ["session_id", "role", "zeta", "alpha", "created_timestamp", "mid", "beta", "tokens", "name"]
    schema = f"""CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, content_json TEXT, {", ".join(columns)})"""
    message = (1, dump([{"type": "text", "text": "Hi"}]), "s", "user", *range(7))
    rows = [("sessions", ("s", "A talk", "/shop", "2026-03-05")), ("messages", message)]
    rendered = Rendered(format_named("goose"), filled(tmp_path / "sessions.db", schema, rows), _folder(tmp_path, 0))
    # else another process would see another record
    assert list(json.loads(rendered.records[1])["cells"]) == columns


def test_a_thread_of_zed(tmp_path: Path) -> None:
    rendered = Rendered(format_named("zed"), zed(tmp_path), _folder(tmp_path, 0))
    assert of(rendered, "a") == [
        (Kind.USER, ["Why?"]),
        (Kind.TOOL_CALL, ["Which file?", "I will read it.", '{\n  "path": "login.py"\n}', "def login():"]),
    ]
    assert of(rendered, "b") == [(Kind.USER, ["Hi é"])]
    about = rendered.parts["a"].about
    assert (about.title, about.project, about.extra["cwd"]) == ("Login", "shop", "/home/ada/shop")
    assert about.started_ms == T
    assert rendered.parts["b"].about.extra["parent_session"] == "a"
    counted = [rendered.format.lenses[0].usage(record, NOTHING_RUNNING)[0] for record in rendered.records]
    [usage] = [one for one in counted if one is not None]
    assert (usage.model, usage.tokens.input, usage.tokens.output) == ("m", 9, 3)


def test_conversations_of_kiro_and_amazon_q(tmp_path: Path) -> None:
    rendered = Rendered(format_named("kiro-db"), kiro(tmp_path), _folder(tmp_path, 0))
    assert of(rendered, "k1") == [
        (Kind.USER, ["Why?"]),
        (Kind.TOOL_CALL, ["Looking é."]),
        (Kind.TOOL_RESULT, ["def login"]),
        (Kind.ASSISTANT, ["So."]),
        (Kind.USER, ["And now?"]),
    ]
    assert of(rendered, "q1") == [(Kind.ASSISTANT, ["Yes.", "Old?"])]
    lens = lens_for("kiro-db.record.v1")
    records = rendered.records[1:]
    assert lens.view(records[2], Nothing()).header == {"id": "t1", "is_error": True}
    assert lens.view(records[0], Nothing()).time_ms == T


def test_sides_of_a_message_come_and_go(tmp_path: Path) -> None:
    rendered = Rendered(format_named("kiro-db"), kiro(tmp_path), _folder(tmp_path, 0))
    records = list(rendered.records)
    at = next(at for at, record in enumerate(records) if b"And now?" in record) + 1
    last = records[at - 1]
    lens = lens_for("kiro-db.record.v1")
    answer = lens.compose(Kind.ASSISTANT, "Now.", last, T)
    more = lens.compose(Kind.USER, "Thanks.", answer, T)
    # the first question goes, and an answer and another question come
    kept = [*records[:1], *records[2:at], answer, more, *records[at:]]
    (tmp_path / "out").mkdir()
    with closing(sqlite3.connect(restored(rendered, kept, tmp_path / "out" / "data.sqlite3"))) as database:
        [(value,)] = database.execute("SELECT value FROM conversations_v2").fetchall()
    history = json.loads(value)["history"]
    assert [list(one) for one in history] == [
        ["assistant", "request_metadata"],
        ["user", "assistant"],
        ["user", "assistant"],
        ["user"],
    ]
    assert history[2]["assistant"]["Response"]["content"] == "Now."
    assert history[3]["user"]["content"] == {"Prompt": {"prompt": "Thanks."}}


def test_chats_of_cursor(tmp_path: Path) -> None:
    rendered = Rendered(format_named("cursor-ide"), cursor(tmp_path), _folder(tmp_path, 0))
    assert list(rendered.parts) == ["new", "old", "map", "t0", "t1"]
    assert of(rendered, "map") == [(Kind.NOTE, ["It failed."]), (Kind.USER, ["In a map"])]
    assert of(rendered, "new") == [
        (Kind.USER, ["Why does it fail?"]),
        (Kind.REASONING, ["Hm."]),
        (Kind.TOOL_CALL, ['{"x":"y"}', '{\n  "path": "a"\n}']),
        (Kind.ASSISTANT, ["Because."]),
    ]
    assert [told for _kind, told in of(rendered, "t1")] == [["Question 1"], ["Answer 1"]]
    assert rendered.parts["new"].about.project == "shop"


def test_what_is_deleted_goes_from_documents_and_lists(tmp_path: Path) -> None:
    rendered = Rendered(format_named("cursor-ide"), cursor(tmp_path), _folder(tmp_path, 0))
    kept: list[bytes] = []
    for key, part in rendered.parts.items():
        own = [rendered.records[at] for at in part.records]
        # all of a tab, the last message of the others
        kept += [] if key == "t0" else rendered.format.without(own, {len(own) - 1})
    out = restored(rendered, kept, tmp_path / "out.db")
    with closing(sqlite3.connect(out)) as database:
        found = dict(database.execute("SELECT key, value FROM ItemTable UNION ALL SELECT key, value FROM cursorDiskKV"))
    tabs = json.loads(found["workbench.panel.aichat.view.aichat.chatdata"])
    assert [(one["tabId"], len(one["bubbles"])) for one in tabs["tabs"]] == [("t1", 1)]
    assert tabs["more"] == [1]
    assert json.loads(found["composerData:old"])["conversation"] == []
    assert [one["bubbleId"] for one in json.loads(found["composerData:new"])["fullConversationHeadersOnly"]] == [
        "b1",
        "b2",
        "b3",
    ]
    assert "bubbleId:new:b4" not in found
    assert "bubbleId:new:stray" in found


def test_a_chat_of_open_webui_is_a_tree(tmp_path: Path) -> None:
    rendered = Rendered(format_named("open-webui"), webui(tmp_path), _folder(tmp_path, 0))
    assert list(rendered.parts) == ["c1", "c1/a9", "c2"]
    assert of(rendered, "c1") == [
        (Kind.USER, ["Says u1"]),
        (Kind.ASSISTANT, ["Says a2"]),
        (Kind.USER, ["Says u3"]),
        (Kind.ASSISTANT, ["Says a4"]),
    ]
    branch = rendered.parts["c1/a9"]
    # the chat itself and the question are shared
    assert (branch.base, branch.shared, len(branch.records)) == (0, 2, 1)
    assert [kind for kind, _texts in of(rendered, "c2")] == [Kind.USER, Kind.ASSISTANT]


def restored_chat(rendered: Rendered, records: Sequence[bytes], out: Path) -> dict[str, dict[str, dict[str, object]]]:
    with closing(sqlite3.connect(restored(rendered, records, out))) as database:
        [found] = database.execute("SELECT chat FROM chat WHERE id = 'c1'").fetchone()
    whole: dict[str, dict[str, dict[str, object]]] = json.loads(found)
    return whole


ROWS = """CREATE TABLE chat_message (id TEXT PRIMARY KEY, chat_id TEXT, user_id, role TEXT, parent_id TEXT, content,
    output, model_id TEXT, files, sources, embeds, done BOOLEAN, status_history, error, usage, created_at INTEGER%s)"""


def webui_with_rows(folder: Path, more: str) -> Path:
    """Write a database in which the messages of one chat are rows, and those of another are in rows, too."""
    compact = {"title": "Login", "history": {"currentId": "a4"}, "tags": []}
    documents = {"c1": compact, "c2": chat()}
    rows: list[tuple[str, Sequence[object]]] = [
        ("chat", (key, "ada", "Login", dump(one), T // 1000)) for key, one in documents.items()
    ]
    for key in documents:
        for one in reversed(list(chat()["history"]["messages"].values())):  # type: ignore[index]
            role, content, made = one["role"], json.dumps(one["content"]), one["timestamp"]
            usage = dump({"prompt_tokens": 5, "completion_tokens": 3}) if role == "assistant" else None
            cells = (f"{key}-{one['id']}", key, "ada", role, one["parentId"], content, None, "m", None, None, "[")
            data = (dump({"childrenIds": one["childrenIds"], "modelName": "M"}),) if more else ()
            rows.append(("chat_message", (*cells, 1, None, None, usage, made, *data)))
    odd = ("c9-u1", "c9", "ada", "user", None, "[", *[None] * 9, 1, *(("[",) if more else ()))
    rows.append(("chat_message", odd))
    rows.append(("chat", ("c9", "ada", "Odd", "{", 1)))
    return filled(folder / "webui.db", f"{WEBUI};{ROWS % more}", rows)


def test_a_chat_that_is_too_long_for_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its long messages come from their cells, and are the same; so are the chats after it."""
    path = webui_with_rows(tmp_path / "data", ", data")
    thought = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n&gt; So.\n</details>\nYes. '
    held = [json.dumps(thought + "\u00e4\n" * 1000), "no JSON \n" * 500, json.dumps([{"text": "list" * 999}], indent=2)]
    with closing(sqlite3.connect(path)) as database:
        for key, content in zip(("c1-a2", "c1-u3", "c1-a4"), held, strict=True):
            database.execute("UPDATE chat_message SET content = ? WHERE id = ?", [content, key])
        database.execute("UPDATE chat SET chat = (SELECT chat FROM chat WHERE id = 'c1') WHERE id = 'c2'")
        database.commit()
    usual = Rendered(format_named("open-webui"), path, _folder(tmp_path, 0))
    assert b'"as":"reasoning"' in b"".join(usual.records)
    assert {"c1", "c2"} <= usual.parts.keys()
    monkeypatch.setattr("store.formats.declared.database.LARGEST_WORKED_OUT", 8000)
    assert Rendered(format_named("open-webui"), path, _folder(tmp_path, 1)).records == usual.records
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE chat SET chat = json_object('history', '', 'more', ?) WHERE id = 'c1'", ["x" * 9000])
        database.commit()
    shown = Rendered(format_named("open-webui"), path, _folder(tmp_path, 2))
    assert b'"left_out":"its messages' in b"".join(shown.records[at] for at in shown.parts["c1"].records)
    assert of(shown, "c2") == of(usual, "c2")
    # nor are the cells kept that were to be in no line
    assert not large_cells._marked


@pytest.mark.parametrize("more", ["", ", data"])
def test_messages_of_open_webui_in_rows(tmp_path: Path, more: str) -> None:
    """They are those of a chat whose document has none; edited, it has all of them, and no row has the old words."""
    path = webui_with_rows(tmp_path / "data", more)
    rendered = Rendered(format_named("open-webui"), path, _folder(tmp_path, 0))
    in_rows, in_document = of(rendered, "c1"), of(rendered, "c2")
    assert in_rows == in_document
    assert {"c1", "c1/a9", "c2", "c2/a9"} <= rendered.parts.keys()
    lens = rendered.format.lenses[0]
    at = next(at for at in rendered.parts["c1"].records if b"Says a2" in rendered.records[at])
    usage = lens.usage(rendered.records[at], NOTHING_RUNNING)[0]
    assert usage is not None
    assert (usage.model, usage.tokens.input, usage.tokens.output) == ("m", 5, 3)
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([path]).errors == []
        assert native(store, path) == path.read_bytes()
    block = lens.view(rendered.records[at], Nothing()).blocks[0]
    changed = list(rendered.records)
    changed[at] = lens.edit(changed[at], EventEdit((BlockEdit(block.path, "Better."),)), Nothing())
    out = restored(rendered, changed, tmp_path / "out.db")
    with closing(sqlite3.connect(out)) as database:
        assert database.execute("SELECT count(*) FROM chat_message WHERE chat_id = 'c1'").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM chat_message WHERE chat_id = 'c2'").fetchone() == (5,)
        [document] = database.execute("SELECT chat FROM chat WHERE id = 'c1'").fetchone()
    held = json.loads(document)["history"]["messages"]
    assert {key: one["content"] for key, one in held.items()} == {
        key: "Better." if key == "a2" else f"Says {key}" for key in ("u1", "a2", "u3", "a4", "a9")
    }
    assert (held["a4"]["parentId"], held["a4"]["done"], held["a4"].get("modelName")) == (
        "u3",
        True,
        "M" if more else None,
    )
    again = Rendered(rendered.format, out, _folder(tmp_path, 1))
    assert of(again, "c1") == [(kind, ["Better."] if text == ["Says a2"] else text) for kind, text in in_rows]


def test_messages_of_a_tree_lead_past_what_is_deleted_and_to_what_is_new(tmp_path: Path) -> None:
    rendered = Rendered(format_named("open-webui"), webui(tmp_path), _folder(tmp_path, 0))
    own = [rendered.records[at] for key in ("c1", "c1/a9") for at in rendered.parts[key].records]
    rest = [rendered.records[at] for at in rendered.parts["c2"].records]
    found = restored_chat(rendered, [*rendered.format.without(own, {2}), *rest], tmp_path / "less.db")
    held = found["history"]["messages"]
    assert list(held) == ["u1", "a9", "u3", "a4"]
    assert (held["u3"]["parentId"], held["u1"]["childrenIds"]) == ("u1", ["a9", "u3"])
    assert [one["id"] for one in found["messages"]] == ["u1", "u3", "a4"]
    lens = rendered.format.lenses[0]
    new = lens.compose(Kind.USER, "And now?", own[4], T)
    more = restored_chat(rendered, [*own[:5], new, *own[5:], *rest], tmp_path / "more.db")
    [added] = [one for one in more["history"]["messages"].values() if one["content"] == "And now?"]
    assert (added["parentId"], more["history"]["currentId"]) == ("a4", added["id"])
    assert more["history"]["messages"]["a4"]["childrenIds"] == [added["id"]]
    assert more["messages"][-1] == added


def _better(path: Path, directory: Path) -> str:
    """Return an export of Open WebUI in which the second answer has become better."""
    rendered = Rendered(format_named("open-webui"), path, _folder(directory, 0))
    lens = rendered.format.lenses[0]
    at = next(at for at, record in enumerate(rendered.records) if b"Says a2" in record and b'"begins"' not in record)
    block = lens.view(rendered.records[at], Nothing()).blocks[0]
    changed = list(rendered.records)
    changed[at] = lens.edit(changed[at], EventEdit((BlockEdit(block.path, "Better."),)), Nothing())
    return restored(rendered, changed, directory / "out.json").read_text()


@pytest.mark.parametrize("exported", [chat(), [chat(), chat() | {"title": "Two"}], [{"id": "c1", "chat": chat()}]])
def test_exports_of_open_webui_keep_their_layout(tmp_path: Path, exported: object) -> None:
    path = tmp_path / "chat-export-1.json"
    path.write_text(json.dumps(exported, indent=2, ensure_ascii=False))
    # in the tree, and in the copy of it
    assert _better(path, tmp_path) == path.read_text().replace("Says a2", "Better.", 2)
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([path]).errors == []
        assert native(store, path) == path.read_bytes()


@pytest.mark.parametrize("indent", [None, 2])
def test_several_exports_in_one_file_are_read_and_edited(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "chat-export-1.json"
    said = ([{"id": "c1", "chat": chat()}], chat() | {"title": "Two"}, {"id": "c3", "chat": chat()})
    path.write_text("\n\n".join(json.dumps(one, indent=indent, ensure_ascii=False) for one in said) + "\n")
    assert _better(path, tmp_path) == path.read_text().replace("Says a2", "Better.", 2)
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        # each branches once
        assert (report.errors, len(list(store.library.conversations()))) == ([], 3 * 2)
        assert native(store, path) == path.read_bytes()


def test_an_export_with_half_a_character_is_read_and_edited(tmp_path: Path) -> None:
    path = tmp_path / "chat-export-1.json"
    path.write_text(json.dumps(chat(), indent=2).replace("Says u3", r"Half \ud83d of it, \ud83d\ude00 and C:\\ud83d"))
    assert _better(path, tmp_path) == path.read_text().replace("Says a2", "Better.", 2)


def test_a_document_with_half_a_character_stops_no_import(tmp_path: Path) -> None:
    path = webui(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(r"UPDATE chat SET chat = replace(chat, 'Says u3', 'Half \ud83d of it')")
        database.commit()
    rendered = Rendered(format_named("open-webui"), path, _folder(tmp_path, 0))
    assert of(rendered, "c1")[2] == (Kind.USER, ["Half \ufffd of it"])
    at = next(at for at, record in enumerate(rendered.records) if b"Says a2" in record and b'"begins"' not in record)
    changed = list(rendered.records)
    changed[at] = changed[at].replace(b"Says a2", b"Better.")
    out = restored(rendered, changed, tmp_path / "out.db")
    query = "SELECT chat FROM chat WHERE id = 'c1'"
    with closing(sqlite3.connect(path)) as before, closing(sqlite3.connect(out)) as after:
        [was], [now] = before.execute(query).fetchone(), after.execute(query).fetchone()
    assert json.loads(now) == json.loads(was.replace("Says a2", "Better."))


@pytest.mark.parametrize(("more", "is_read"), [("chat || char(0, 0)", True), ("replace(chat, '[]', 'NaN')", False)])
def test_a_document_that_strict_parsers_refuse_is_kept(tmp_path: Path, more: str, is_read: bool) -> None:
    """Padding stands around it; what is no value of JSON shows it as it is. The chats beside it come in."""
    path = webui(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE chat SET chat = {more} WHERE id = 'c1'")
        [held] = database.execute("SELECT chat FROM chat WHERE id = 'c1'").fetchone()
        database.commit()
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        assert (report.errors, report.imported) == ([], 3 if is_read else 2)
        assert native(store, path) == path.read_bytes()
    rendered = Rendered(format_named("open-webui"), path, _folder(tmp_path, 0))
    assert len(of(rendered, "c1")) == (4 if is_read else 1)
    assert is_read or any(json.dumps(held).encode() in record for record in rendered.records)


@pytest.mark.parametrize(
    ("name", "table", "column", "text"),
    [
        ("kiro-db", "conversations_v2", "value", "Looking"),
        ("cursor-ide", "cursorDiskKV", "value", "Why does it fail?"),
        ("open-webui", "chat", "chat", "Says u3"),
    ],
)
def test_large_cells_make_the_same_lines(
    name: str, table: str, column: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = MADE[name](tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE {table} SET {column} = replace({column}, '{text}', ?)", ["long " * 2000])
        database.commit()

    def lines(number: int) -> list[bytes]:
        return Rendered(format_named(name), path, _folder(tmp_path, number)).records

    whole = lines(0)
    for module in (declared_database, sqlite_module):
        monkeypatch.setattr(module, "LARGE_BYTES", 8000)
    assert lines(1) == whole
    assert max(map(len, whole)) > 8000


HERMES = """CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT,
    tool_calls TEXT, tool_name TEXT, timestamp REAL)"""


def test_messages_tell_of_sessions_where_no_table_does(tmp_path: Path) -> None:
    rows = [
        ("messages", (1, "s1", "user", "Why?", None, None, None, T / 1000)),
        ("messages", (2, "s2", "user", "And this?", None, None, None, T / 1000)),
        ("messages", (3, "s1", "assistant", "Because.", None, None, None, T / 1000)),
    ]
    path = filled(tmp_path / "state.db", HERMES, rows)
    rendered = Rendered(format_named("hermes-db"), path, _folder(tmp_path, 0))
    assert list(rendered.parts) == ["s1", "s2"]
    assert of(rendered, "s1") == [(Kind.USER, ["Why?"]), (Kind.ASSISTANT, ["Because."])]
    lens = rendered.format.lenses[0]
    changed = list(rendered.records)
    changed[1] = lens.edit(changed[1], EventEdit((BlockEdit(("cells", "content"), "Why not?"),)), Nothing())
    assert (
        Rendered(rendered.format, restored(rendered, changed, tmp_path / "o.db"), _folder(tmp_path, 1)).records
        == changed
    )


HERMES_LATER = """CREATE TABLE sessions (id TEXT PRIMARY KEY, started_at REAL); CREATE TABLE messages (id INTEGER
    PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_calls TEXT, timestamp REAL, active INTEGER,
    compacted INTEGER)"""


def test_messages_of_hermes_that_were_compacted_or_hold_pictures(tmp_path: Path) -> None:
    """Compacted ones are shown, those taken back are not; JSON in a column of texts has a mark before it."""
    picture = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PNG}}]
    rows = [
        ("sessions", ("s1", T / 1000)),
        ("messages", (1, "s1", "user", "Long ago", None, T / 1000, 0, 1)),
        ("messages", (2, "s1", "user", "Taken back", None, T / 1000, 0, 0)),
        ("messages", (3, "s1", "user", f"\0json:{dump(picture)}", None, T / 1000, 1, 0)),
        ("messages", (4, "s1", "assistant", "{no JSON}", None, T / 1000, 1, 0)),
    ]
    path = filled(tmp_path / "state.db", HERMES_LATER, rows)
    rendered = Rendered(format_named("hermes-db"), path, _folder(tmp_path, 0))
    seen = rendered.events("s1")
    assert [[block.type for block in event.blocks] for event in seen[1:]] == [["text"], ["text", "image"], ["text"]]
    assert [event.blocks[0].text for event in seen[1:]] == ["Long ago", "What is this?", "{no JSON}"]
    changed = list(rendered.records)
    changed[2] = changed[2].replace(b"What is this?", b"And this?")
    with closing(sqlite3.connect(restored(rendered, changed, tmp_path / "out.db"))) as database:
        held = dict(database.execute("SELECT id, content FROM messages"))
    assert held[3] == f"\0json:{dump(picture)}".replace("What is", "And")
    assert held[2] == "Taken back"


def test_an_export_of_hermes_has_a_session_a_line(tmp_path: Path) -> None:
    def exported(key: str, *messages: dict[str, object], **more: object) -> str:
        said = [{"id": at, "session_id": key, "active": 1, "compacted": 0} | one for at, one in enumerate(messages)]
        return dump({"id": key, "source": "cli", "model": "m", **more, "started_at": T / 1000, "messages": said})

    asked = {"role": "user", "content": "Why?", "timestamp": T / 1000 + 1}
    made = {"id": "c", "function": {"name": "read", "arguments": "{}"}}
    first = exported("a", asked, {"role": "assistant", "content": "", "tool_calls": [made]}, title="Login")
    taken_back = asked | {"content": "Never mind.", "active": 0}
    second = exported("b", taken_back, asked, system_prompt="Be brief. " * 9000, parent_session_id="a")
    path = tmp_path / "sessions.jsonl"
    path.write_text(f"{second}\n{first}\n")
    rendered = Rendered(format_named("hermes-export"), path, _folder(tmp_path, 0))
    assert of(rendered, "b") == [(Kind.SYSTEM, ["Be brief. " * 9000]), (Kind.USER, ["Why?"])]
    assert [kind for kind, _texts in of(rendered, "a")] == [Kind.USER, Kind.TOOL_CALL]
    about = rendered.parts["a"].about
    assert (about.title, about.started_ms) == ("Login", T)
    assert rendered.parts["b"].about.extra["parent_session"] == "a"
    changed = [one.replace(b"Why?", b"How?") for one in rendered.records]
    assert restored(rendered, changed, tmp_path / "out.jsonl").read_text() == path.read_text().replace("Why?", "How?")


OPENCLAW = """CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, display_name TEXT, started_at INTEGER);
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, event_zstd BLOB,
    event_utf8_bytes INTEGER, navigation_json TEXT, PRIMARY KEY (session_id, seq),
    CHECK ((event_json IS NOT NULL AND event_zstd IS NULL)
        OR (event_json IS NULL AND event_zstd IS NOT NULL AND event_utf8_bytes IS NOT NULL))) STRICT"""


def test_a_document_that_another_column_has_compressed(tmp_path: Path) -> None:
    """One that is edited stands in its own column again."""
    said = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Because. " * 200}], "errorMessage": "overloaded"},
        {"role": "bashExecution", "command": "git status", "output": "clean", "exitCode": 0},
        {"role": "compactionSummary", "summary": "It failed."},
    ]
    whole = [dump({"type": "message", "id": f"m{at}", "message": message}) for at, message in enumerate(said)]
    packed = (None, zstd.compress(whole[1].encode()), len(whole[1]), '{"id":"m1"}')
    rows: list[tuple[str, Sequence[object]]] = [("session_windows", ("s1", "Login", T))]
    rows += [
        ("transcript_events", ("s1", at, *(packed if at == 1 else (text, None, None, None))))
        for at, text in enumerate(whole)
    ]
    path = filled(tmp_path / "openclaw-agent.sqlite", OPENCLAW, rows)
    rendered = Rendered(format_named("openclaw"), path, _folder(tmp_path, 0))
    assert of(rendered, "s1") == [
        (Kind.USER, ["Why?"]),
        (Kind.ASSISTANT, ["overloaded", "Because. " * 200]),
        (Kind.NOTE, ["git status", "clean"]),
        (Kind.SUMMARY, ["It failed."]),
    ]
    assert dumped(restored(rendered, rendered.records, tmp_path / "same.db")) == dumped(path)
    changed = list(rendered.records)
    changed[2] = changed[2].replace(b"Because. ", b"Maybe. ")
    out = restored(rendered, changed, tmp_path / "out.db")
    with closing(sqlite3.connect(out)) as database:
        held = database.execute("SELECT * FROM transcript_events WHERE seq = 1").fetchone()
    assert held == ("s1", 1, whole[1].replace("Because. ", "Maybe. "), None, None, None)
    assert Rendered(rendered.format, out, _folder(tmp_path, 1)).records == changed


def test_what_refers_to_a_row_that_is_deleted_goes_with_it(tmp_path: Path) -> None:
    """As the foreign keys say: the program refuses a database in which one leads nowhere."""
    refers = "session_id TEXT, {0} INTEGER, FOREIGN KEY (session_id, {0}) REFERENCES transcript_events(session_id, seq)"
    schema = f"""{OPENCLAW};
        CREATE TABLE active_events ({refers.format("event_seq")} ON DELETE CASCADE);
        CREATE TABLE notes ({refers.format("noted")} ON DELETE SET NULL)"""
    rows: list[tuple[str, Sequence[object]]] = [("session_windows", ("s1", "Login", T))]
    for at, text in enumerate(("Why?", "How?")):
        said = dump({"type": "message", "id": f"m{at}", "message": {"role": "user", "content": text}})
        rows += [("transcript_events", ("s1", at, said, None, None, None))]
        rows += [(table, ("s1", at)) for table in ("active_events", "notes")]
    path = filled(tmp_path / "openclaw-agent.sqlite", schema, rows)
    rendered = Rendered(format_named("openclaw"), path, _folder(tmp_path, 0))
    left = [line for line in rendered.records if b"How?" not in line]
    with closing(sqlite3.connect(restored(rendered, left, tmp_path / "out.db"))) as database:
        assert database.execute("SELECT seq FROM transcript_events").fetchall() == [(0,)]
        assert database.execute("SELECT event_seq FROM active_events").fetchall() == [(0,)]
        assert database.execute("SELECT noted FROM notes").fetchall() == [(0,), (1,)]


def test_what_amazon_q_saves_in_a_file(tmp_path: Path) -> None:
    turns = [
        {
            "user": {"content": {"Prompt": {"prompt": "Why?"}}, "timestamp": "2026-03-05T19:31:54Z"},
            "assistant": {"Response": {"message_id": "m", "content": "Because."}},
        }
    ]
    held = {"conversation_id": "q1", "next_message": None, "history": turns, "valid_history_range": [0, 1]}
    held["latest_summary"] = ["It failed.", {"request_id": "r"}]
    path = tmp_path / "login.json"
    path.write_text(json.dumps(held, indent=2))
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        assert (report.errors, report.tools["kiro-db"].imported) == ([], 1)
        assert native(store, path) == path.read_bytes()
    rendered = Rendered(format_named("kiro-db"), path, _folder(tmp_path, 0))
    [key] = rendered.parts
    assert of(rendered, key) == [
        (Kind.SUMMARY, ["It failed."]),
        (Kind.USER, ["Why?"]),
        (Kind.ASSISTANT, ["Because."]),
    ]


KILO = """CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, time_created ANY, time_updated ANY);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created ANY, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, data TEXT)"""


def test_a_database_of_kilo_is_not_one_of_opencode(tmp_path: Path) -> None:
    at = "2026-03-05T19:31:54.000Z"
    text = {"type": "text", "text": "Why?", "time": {"start": at}}
    rows: list[tuple[str, Sequence[object]]] = [
        ("session", ("s1", "/home/ada/shop", at, at)),
        ("message", ("m1", "s1", T, dump({"role": "user", "time": {"created": at}}))),
        ("part", ("p1", "m1", dump(text))),
    ]
    path = filled(tmp_path / "data" / "kilo.db", KILO, rows)
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        assert (report.errors, report.tools["kilo"].imported) == ([], 1)
        assert native(store, path) == path.read_bytes()
    rendered = Rendered(format_named("kilo"), path, _folder(tmp_path, 0))
    [event] = [event for event in rendered.events("s1") if event.kind is Kind.USER]
    assert (event.time_ms, rendered.parts["s1"].about.started_ms) == (T, T)
    lens = rendered.format.lenses[0]
    later = lens.edit(
        rendered.records[2], EventEdit(fields=(FieldEdit("timestamp", "2026-03-05T20:00:00Z"),)), Nothing()
    )
    assert later == rendered.records[2].replace(at.encode(), b"2026-03-05T20:00:00Z")


def test_an_edited_message_of_cursors_command_line_is_another_blob(tmp_path: Path) -> None:
    """And whatever named the old one names it."""
    rendered = Rendered(format_named("cursor-store"), cursor_store(tmp_path), _folder(tmp_path, 0))
    about = rendered.parts["s1"].about
    assert (about.title, about.project, about.started_ms) == ("Login", "shop", T)
    kinds = [kind for kind, _texts in of(rendered, "s1")]
    assert kinds == [Kind.USER, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.ASSISTANT]
    lens = rendered.format.lenses[0]
    edits = 0
    for at, record in enumerate(rendered.records):
        for block in lens.view(record, Nothing()).blocks:
            if block.type != "text" or not block.path:
                continue
            edited = lens.edit(record, EventEdit((BlockEdit(block.path, "Other words."),)), Nothing())
            records = [*rendered.records[:at], edited, *rendered.records[at + 1 :]]
            out = restored(rendered, records, _folder(tmp_path, 100 + edits) / "store.db")
            again = Rendered(rendered.format, out, _folder(tmp_path, 1 + edits))
            wanted = of(rendered, "s1")
            wanted[at - 1] = (wanted[at - 1][0], [block.text or "" for block in lens.view(edited, Nothing()).blocks])
            assert of(again, "s1") == wanted
            with closing(sqlite3.connect(out)) as database:
                blobs = dict(database.execute("SELECT id, data FROM blobs"))
            assert len(blobs) == 6
            assert all(sha256(data).hexdigest() == name for name, data in blobs.items())
            turn = next(data for data in blobs.values() if data.startswith(b"\x12\x20"))
            assert {turn[2:34].hex(), turn[36:].hex()} <= blobs.keys()
            edits += 1
    assert edits == 4


def test_messages_of_cursors_command_line_come_and_go(tmp_path: Path) -> None:
    path = cursor_store(tmp_path)
    with Store.open(tmp_path / "kept") as store:
        report = Importer(store).run([path])
        assert (report.errors, report.tools["cursor-store"].imported) == ([], 1)
        assert native(store, path) == path.read_bytes()
    rendered = Rendered(format_named("cursor-store"), path, _folder(tmp_path, 0))
    # the call goes with its result
    kept = rendered.format.without(rendered.records, {3})
    new = rendered.format.lenses[0].compose(Kind.USER, "And now?", kept[-1], T)
    out = restored(rendered, [*kept, new], _folder(tmp_path, 1) / "store.db")
    found = [texts for _kind, texts in of(Rendered(rendered.format, out, _folder(tmp_path, 2)), "s1")]
    assert found == [["Why?"], ["Hm."], ["Because."], ["And now?"]]


def test_newer_tables_of_opencode_beside_the_older_ones(tmp_path: Path) -> None:
    path = opencode_database(tmp_path / "opencode.db")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE session_v2 (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT,"
            " time_created INTEGER, time_updated INTEGER);"
            "CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, data TEXT)"
        )
        for session in ("ses_2", "ses_3", "ses_empty"):
            row = (session, None, "/home/ada/shop", f"Now {session}", T, T)
            database.execute("INSERT INTO session_v2 VALUES (?, ?, ?, ?, ?, ?)", row)
        for number, session in enumerate(("ses_2", "ses_3")):
            row = (f"m{number}", session, "user", 1, dump({"text": f"Asked {session}"}))
            database.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", row)
        database.commit()
    rendered = Rendered(format_named("opencode"), path, _folder(tmp_path, 0))
    # the session that both have is told by the newer ones
    assert list(rendered.parts) == ["ses_1", "ses_2", "ses_3"]
    assert rendered.parts["ses_2"].about.title == "Now ses_2"
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        assert (report.errors, report.tools["opencode"].imported) == ([], 3)
        assert native(store, path) == path.read_bytes()
    for key in ("ses_2", "ses_3"):
        records = [rendered.records[at] for at in rendered.parts[key].records]
        lenses = [lens_for(rendered.format.type_of(rendered.source, record)) for record in records]
        seen = [lens.view(record, Nothing()) for lens, record in zip(lenses, records, strict=True)]
        assert [(event.kind, [block.text for block in event.blocks]) for event in seen] == [
            (Kind.RECORD, []),
            (Kind.USER, [f"Asked {key}"]),
        ]


def test_a_database_of_another_editor_is_not_cursors(tmp_path: Path) -> None:
    path = filled(tmp_path / "state.vscdb", CURSOR, [("ItemTable", ("chat.ChatSessionStore.index", "{}"))])
    assert format_named("cursor-ide").claim(Look(path)) is None


@pytest.mark.parametrize(
    "data", [b"{", b"\x28\xb5\x2f\xfdnonsense", zstd.compress(b"[" * 100_000), zstd.compress(bytes(80 << 20))]
)
def test_a_document_that_cannot_be_read_is_shown_as_it_is(tmp_path: Path, data: bytes) -> None:
    path = zed(tmp_path / "data")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE threads SET data = ? WHERE id = 'b'", (data,))
        database.commit()
    rendered = Rendered(format_named("zed"), path, _folder(tmp_path, 0))
    assert [kind for kind, _texts in of(rendered, "b")] == [Kind.NOTE]
    assert len(of(rendered, "a")) == 2
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([path]).errors == []
        assert native(store, path) == path.read_bytes()
