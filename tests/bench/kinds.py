"""Session files of many tools with the same content, to compare how fast each kind is imported.

The corpus is one of Claude Code; the kinds that convfs can write are exports of it, those of web services and the
databases are made of its texts.
"""

import contextlib
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from fusefs.text.render import FileRenderer
from store.exporting.export import export
from store.importing.importer import Importer
from store.store import Store
from tests.bench import corpus, words

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
        found[kind] = directory / kind
        found[kind].mkdir()
        write(found[kind], list(_exchanges(sessions)))
    return found


def _exchanges(sessions: int) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield conversations: an id, and what is asked and answered in turns."""
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


def _chatgpt(folder: Path, talks: list[tuple[str, list[tuple[str, str]]]]) -> None:
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


def _claude_ai(folder: Path, talks: list[tuple[str, list[tuple[str, str]]]]) -> None:
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


def _llm(folder: Path, talks: list[tuple[str, list[tuple[str, str]]]]) -> None:
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


_MADE: dict[str, Callable[[Path, list[tuple[str, list[tuple[str, str]]]]], None]] = {
    "chatgpt": _chatgpt,
    "claude-ai": _claude_ai,
    "llm": _llm,
}
