"""Session files of many tools with the same content, to compare how fast each kind is imported.

The corpus is one of Claude Code; the kinds that convfs can write are exports of it, those of web services and the
databases are made of its texts.
"""

import contextlib
import json
import random
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.content import zstd
from store.exporting.export import export
from store.importing.importer import Importer
from store.store import Store
from tests.bench import corpus, words

Exchanges = list[tuple[str, str]]
Talk = tuple[str, Exchanges]
"""A conversation: its id, and what is asked and answered in turns."""

MEASURE = "claude-code: the same talks"
KEPT_WHOLE = frozenset(
    (
        "chatgpt: archive",
        "llm: rows",
        "vscode-chat: described deltas",
        "goose: described rows",
        "zed: described documents in rows",
        "open-webui: described trees in rows",
    )
)
"""The kinds whose files are kept whole beside their conversations."""
_TIME, _MS = "2026-01-01T00:00:00.000Z", 1_767_225_600_000
_WRITTEN = ("codex", "pi", "gemini-cli", "jp", "openai", "anthropic")


def write_kinds(directory: Path, *, sessions: int) -> dict[str, Path]:
    """Write the sessions in every kind under ``directory``; return where each kind lies."""
    source = directory / "claude-code"
    corpus.write_corpus(source, sessions=sessions, events=400)
    found = {"claude-code": source / "projects"}
    with Store.open(directory / "store", renderer=FileRenderer()) as store:
        Importer(store).run([source])
        talks = store.library.conversations()
        for kind in _WRITTEN:
            found[kind] = directory / kind
            for talk in talks:
                export(store, talk, directory / kind, kind)
    for kind, write in _MADE.items():
        found[kind] = directory / kind.replace(" ", "-").replace(":", "")
        found[kind].mkdir()
        write(found[kind], list(_exchanges(sessions)))
    return found


def kinds_by_measure(kinds: Iterable[str]) -> dict[str, list[str]]:
    """Return the kinds that have the same content as Claude Code's lines of it, by that kind."""
    return {
        "claude-code": [kind for kind in kinds if kind not in _MADE],
        MEASURE: [kind for kind in kinds if kind in _MADE],
    }


def _exchanges(sessions: int) -> Iterator[Talk]:
    """Yield conversations of the length of real ones."""
    vocabulary = words.Vocabulary()
    for number in range(sessions):
        session = corpus.Session(number, corpus.Project(number % 10, vocabulary), vocabulary)
        made = session.random
        yield (
            session.id,
            [
                (
                    words.prose(made, vocabulary, words.lognormal_size(made, 220, 40, 4000)),
                    words.prose(made, vocabulary, words.lognormal_size(made, 1200, 100, 12_000)),
                )
                for _ in range(120)
            ],
        )


def _chatgpt(folder: Path, talks: list[Talk]) -> None:
    document = []
    for key, exchanges in talks:
        mapping: dict[str, object] = {f"{key}-0": {"id": f"{key}-0", "message": None, "parent": None, "children": []}}
        parent = f"{key}-0"
        texts = [(role, text) for pair in exchanges for role, text in zip(("user", "assistant"), pair, strict=True)]
        for number, (role, text) in enumerate(texts, 1):
            node = f"{key}-{number}"
            message = {
                "id": node,
                "author": {"role": role, "name": None, "metadata": {}},
                "create_time": 1_767_225_600.5 + number,
                "content": {"content_type": "text", "parts": [text]},
                "status": "finished_successfully",
                "weight": 1.0,
                "metadata": {"timestamp_": "absolute", "request_id": words.token(random.Random(node), 22)},
                "recipient": "all",
            }
            children = [f"{key}-{number + 1}"] if number < len(texts) else []
            mapping[node] = {"id": node, "message": message, "parent": parent, "children": children}
            parent = node
        mapping[f"{key}-0"] = {"id": f"{key}-0", "message": None, "parent": None, "children": [f"{key}-1"]}
        times = {"create_time": 1_767_225_600.5, "update_time": 1_767_229_200.5}
        about = {"title": exchanges[0][0][:40], **times, "conversation_id": key, "id": key}
        document.append({**about, "mapping": mapping, "current_node": parent})
    (folder / "conversations.json").write_text(json.dumps(document))


def _claude_ai(folder: Path, talks: list[Talk]) -> None:
    time = "2026-01-01T00:00:00.000000Z"
    document = [
        {
            "uuid": key,
            "name": exchanges[0][0][:40],
            "created_at": time,
            "updated_at": time,
            "account": {"uuid": "a"},
            "chat_messages": [
                {
                    "uuid": f"{key[:-4]}{2 * number + at:04}",
                    "text": text,
                    "content": [{"type": "text", "text": text, "citations": []}],
                    "sender": sender,
                    "created_at": time,
                    "updated_at": time,
                    "attachments": [],
                    "files": [],
                }
                for number, pair in enumerate(exchanges)
                for at, (sender, text) in enumerate(zip(("human", "assistant"), pair, strict=True))
            ],
        }
        for key, exchanges in talks
    ]
    (folder / "conversations.json").write_text(json.dumps(document, ensure_ascii=False))


def _llm(folder: Path, talks: list[Talk]) -> None:
    with contextlib.closing(sqlite3.connect(folder / "logs.db")) as db, db:
        db.execute("CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT)")
        db.execute(
            "CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, prompt_json TEXT,"
            " options_json TEXT, response TEXT, response_json TEXT,"
            " conversation_id TEXT REFERENCES conversations(id), duration_ms INTEGER, datetime_utc TEXT)"
        )
        for key, exchanges in talks:
            db.execute("INSERT INTO conversations VALUES (?, ?, 'model')", (key, exchanges[0][0][:40]))
            db.executemany(
                "INSERT INTO responses VALUES (?, 'model', ?, NULL, NULL, '{}', ?, NULL, ?, 900, ?)",
                [
                    (f"{key}-{number:05}", asked, answer, key, f"2026-01-01T00:{number // 60:02}:{number % 60:02}")
                    for number, (asked, answer) in enumerate(exchanges)
                ],
            )


def _lines(folder: Path, talks: list[Talk]) -> None:
    """Write what Claude Code has of the same talks: the measure for all others that are made of them."""
    for key, exchanges in talks:
        lines, parent = [], None
        for number, (role, text) in enumerate(_turns(exchanges)):
            told: object = text if role == "user" else [{"type": "text", "text": text}]
            own = {"uuid": f"{key}-{number}", "parentUuid": parent, "sessionId": key, "isSidechain": False}
            about = {"cwd": "/shop", "version": "2.1.0", "type": role, "timestamp": _TIME}
            lines.append({**own, **about, "message": {"role": role, "content": told}})
            parent = f"{key}-{number}"
        _write_lines(folder / "-shop" / f"{key}.jsonl", lines)


def _droid(folder: Path, talks: list[Talk]) -> None:
    for key, exchanges in talks:
        lines: list[object] = [{"type": "session_start", "id": key, "title": "A talk", "cwd": "/shop"}]
        for number, (role, text) in enumerate(_turns(exchanges)):
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            lines.append({"type": "message", "id": f"{key}-{number}", "timestamp": _TIME, "message": message})
        _write_lines(folder / ".factory/sessions/-shop" / f"{key}.jsonl", lines)


def _cline(folder: Path, talks: list[Talk]) -> None:
    for key, exchanges in talks:
        messages = [
            {"id": f"{key}-{number}", "role": role, "content": [{"type": "text", "text": text}], "ts": _MS}
            for number, (role, text) in enumerate(_turns(exchanges))
        ]
        document = {"version": 1, "agent": "cline", "sessionId": key, "messages": messages}
        (folder / key).mkdir()
        (folder / key / f"{key}.messages.json").write_text(json.dumps(document, indent=2, ensure_ascii=False))


def _vscode(folder: Path, talks: list[Talk]) -> None:
    (folder / "chatSessions").mkdir()
    for key, exchanges in talks:
        lines: list[object] = [{"kind": 0, "v": {"version": 3, "sessionId": key, "requests": []}}]
        for number, (asked, answer) in enumerate(exchanges):
            request = {"requestId": f"{key}-{number}", "message": {"text": asked, "parts": []}, "response": []}
            lines.append({"kind": 2, "k": ["requests"], "v": [request]})
            lines.append({"kind": 2, "k": ["requests", number, "response"], "v": [{"value": answer}]})
        _write_lines(folder / "chatSessions" / f"{key}.jsonl", lines)


def _openhands(folder: Path, talks: list[Talk]) -> None:
    for key, exchanges in talks:
        events = folder / "sessions" / key / "events"
        events.mkdir(parents=True)
        for number, (role, text) in enumerate(_turns(exchanges)):
            event = {"id": number, "timestamp": _TIME[:-1], "source": "user" if role == "user" else "agent"}
            args = {"content": text, "image_urls": None}
            (events / f"{number}.json").write_text(json.dumps({**event, "action": "message", "args": args}))


def _goose(folder: Path, talks: list[Talk]) -> None:
    with contextlib.closing(sqlite3.connect(folder / "sessions.db")) as db, db:
        db.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TEXT)")
        db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,"
            " created_timestamp INTEGER)"
        )
        db.execute("CREATE INDEX idx_messages_session ON messages (session_id)")
        for key, exchanges in talks:
            db.execute("INSERT INTO sessions VALUES (?, 'A talk', '/shop', '2026-01-01 00:00:00')", (key,))
            rows = (
                (key, role, json.dumps([{"type": "text", "text": text}]), 1_767_225_600 + number)
                for number, (role, text) in enumerate(_turns(exchanges))
            )
            db.executemany("INSERT INTO messages VALUES (NULL, ?, ?, ?, ?)", rows)


def _zed(folder: Path, talks: list[Talk]) -> None:
    with contextlib.closing(sqlite3.connect(folder / "threads.db")) as db, db:
        db.execute(
            "CREATE TABLE threads (id TEXT PRIMARY KEY, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB,"
            " folder_paths TEXT, created_at TEXT, parent_id TEXT)"
        )
        for key, exchanges in talks:
            messages = [
                {"User" if role == "user" else "Agent": {"id": f"{key}-{number}", "content": [{"Text": text}]}}
                for number, (role, text) in enumerate(_turns(exchanges))
            ]
            data = zstd.compress(json.dumps({"title": "A talk", "messages": messages}).encode())
            row = (key, "A talk", _TIME, "zstd", data, "/shop", _TIME)
            db.execute("INSERT INTO threads VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", row)


def _open_webui(folder: Path, talks: list[Talk]) -> None:
    with contextlib.closing(sqlite3.connect(folder / "webui.db")) as db, db:
        db.execute("CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, title TEXT, chat TEXT, created_at INTEGER)")
        for key, exchanges in talks:
            turns = list(_turns(exchanges))
            messages = {
                f"{key}-{number}": {
                    "id": f"{key}-{number}",
                    "parentId": f"{key}-{number - 1}" if number else None,
                    "childrenIds": [f"{key}-{number + 1}"] if number + 1 < len(turns) else [],
                    "role": role,
                    "content": text,
                    "timestamp": 1_767_225_600 + number,
                }
                for number, (role, text) in enumerate(turns)
            }
            history = {"messages": messages, "currentId": f"{key}-{len(turns) - 1}"}
            chat = json.dumps({"title": "A talk", "history": history, "messages": list(messages.values())})
            db.execute("INSERT INTO chat VALUES (?, 'u', 'A talk', ?, 1767225600)", (key, chat))


def _archive(folder: Path, talks: list[Talk]) -> None:
    _chatgpt(folder, talks)
    with zipfile.ZipFile(folder / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "conversations.json", "conversations.json")
    (folder / "conversations.json").unlink()


def _specstory(folder: Path, talks: list[Talk]) -> None:
    for key, exchanges in talks:
        passages = (
            f"_**{'User' if role == 'user' else 'Agent'} (2026-01-01 00:00:00Z)**_\n\n{text}\n\n---\n"
            for role, text in _turns(exchanges)
        )
        head = f"<!-- Generated by SpecStory -->\n\n<!-- Claude Code Session {key} (2026-01-01) -->\n\n"
        (folder / f"{key}.md").write_text(head + "\n".join(passages))


def _turns(exchanges: Exchanges) -> Iterator[tuple[str, str]]:
    for pair in exchanges:
        yield from zip(("user", "assistant"), pair, strict=True)


def _write_lines(path: Path, lines: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


_MADE: dict[str, Callable[[Path, list[Talk]], None]] = {
    MEASURE: _lines,
    "chatgpt: trees in a document": _chatgpt,
    "chatgpt: archive": _archive,
    "claude-ai: lists in a document": _claude_ai,
    "llm: rows": _llm,
    "openhands: folder of events": _openhands,
    "specstory: markdown": _specstory,
    "droid: described lines": _droid,
    "cline: described document": _cline,
    "vscode-chat: described deltas": _vscode,
    "goose: described rows": _goose,
    "zed: described documents in rows": _zed,
    "open-webui: described trees in rows": _open_webui,
}
