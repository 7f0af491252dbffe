import json
from pathlib import Path

from store.events.event import Kind
from store.formats.example import ChatLines
from store.formats.format import Source
from tests.formats.earlier import Earlier
from tests.formats.places import check

LINES = [
    {"chatlines": 1, "title": "Fix the login", "project": "shop", "at": "2026-03-05T19:31:54Z"},
    {"at": "2026-03-05T19:31:55Z", "from": "user", "text": "Why does the login fail?"},
    {"at": "2026-03-05T19:31:58Z", "from": "model", "calls": "read", "id": "c1", "with": {"path": "login.py"}},
    {"at": "2026-03-05T19:31:59Z", "from": "tool", "id": "c1", "text": "def login(): ...", "path": "/shop/login.py"},
    {"at": "2026-03-05T19:32:07Z", "from": "model", "text": "It returns nothing."},
    {"from": "somebody", "text": "?"},
]
FILE = b"\n".join(json.dumps(line).encode() for line in LINES) + b"\ncut o"


def test_a_session_from_file_to_events(tmp_path: Path) -> None:
    path = tmp_path / "login.chatlines"
    path.write_bytes(FILE)
    chat_lines = ChatLines()
    source = chat_lines.claim(path)
    assert source == Source("chat-lines", path, path)
    records = [FILE[span.start : span.end] for span in chat_lines.spans(memoryview(FILE), 0)]
    assert b"\n".join(records) == FILE
    earlier = Earlier()
    events = [earlier.add(chat_lines.lenses[0].view(record, earlier)) for record in records]
    for event in events:
        check(event)
    assert [event.kind for event in events] == [
        Kind.RECORD,
        Kind.USER,
        Kind.TOOL_CALL,
        Kind.TOOL_RESULT,
        Kind.ASSISTANT,
        Kind.NOTE,
        Kind.NOTE,
    ]
    assert events[3].tool == "read"
    assert events[3].resources[0].uri == "file:///shop/login.py"
    about = chat_lines.about(source, records)
    assert (about.title, about.project, about.session_id) == ("Fix the login", "shop", "login")
    assert about.started_ms == events[1].time_ms - 1000
    assert list(chat_lines.blobs(source, records[0])) == []


def test_only_its_own_files_are_claimed(tmp_path: Path) -> None:
    for name, content in (("a.chatlines", b""), ("b.chatlines", b"{}\n"), ("c.jsonl", FILE)):
        (tmp_path / name).write_bytes(content)
    claimed = [path.name for path in sorted(tmp_path.iterdir()) if ChatLines().claim(path)]
    assert claimed == ["a.chatlines"]


def test_homes(tmp_path: Path) -> None:
    assert list(ChatLines().homes(tmp_path, tmp_path)) == []
    (tmp_path / ".chatlines").mkdir()
    assert list(ChatLines().homes(tmp_path, tmp_path)) == [tmp_path / ".chatlines"]
