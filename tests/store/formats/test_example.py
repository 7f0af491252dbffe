import json
from pathlib import Path

import pytest

from store.errors import UsageError
from store.events.event import EventEdit, FieldEdit, Kind
from store.events.usage import NOTHING_RUNNING, Tokens, Usage
from store.formats.core.format import Source
from store.formats.core.look import Look
from tests.store.formats.chat_lines import ChatLines
from tests.store.formats.earlier import Earlier
from tests.store.formats.edited import edit_of
from tests.store.formats.places import check

LINES = [
    {"chatlines": 1, "title": "Fix the login", "project": "shop", "at": "2026-03-05T19:31:54Z"},
    {"at": "2026-03-05T19:31:55Z", "from": "user", "text": "Why does the login fail?"},
    {"at": "2026-03-05T19:31:58Z", "from": "model", "calls": "read", "id": "c1", "with": {"path": "login.py"}},
    {"at": "2026-03-05T19:31:59Z", "from": "tool", "id": "c1", "text": "def login(): ...", "path": "/shop/login.py"},
    {"at": "2026-03-05T19:32:07Z", "from": "model", "text": "It returns nothing.", "took": {"in": 210, "out": 6}},
    {"from": "somebody", "text": "?"},
]
FILE = b"\n".join(json.dumps(line).encode() for line in LINES) + b"\ncut o"


def test_a_session_from_file_to_events(tmp_path: Path) -> None:
    path = tmp_path / "login.chatlines"
    path.write_bytes(FILE)
    chat_lines = ChatLines()
    source = chat_lines.claim(Look(path))
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
    claimed = [path.name for path in sorted(tmp_path.iterdir()) if ChatLines().claim(Look(path))]
    assert claimed == ["a.chatlines"]


def test_homes(tmp_path: Path) -> None:
    assert list(ChatLines().homes(tmp_path, tmp_path)) == []
    (tmp_path / ".chatlines").mkdir()
    assert list(ChatLines().homes(tmp_path, tmp_path)) == [tmp_path / ".chatlines"]


def test_a_line_is_edited_composed_and_taken_out() -> None:
    records = [json.dumps(line).encode() for line in LINES]
    lens, earlier = ChatLines().lenses[0], Earlier()
    events = [earlier.add(lens.view(record, earlier)) for record in records]
    edited = lens.edit(records[1], edit_of(events[1].blocks[0], 'So "é"'), earlier)
    assert edited == records[1].replace(b"Why does the login fail?", 'So \\"é\\"'.encode())
    call = EventEdit(fields=(FieldEdit("tool", "open"), FieldEdit("id", "c2")))
    assert lens.edit(records[2], call, earlier) == records[2].replace(b'"read"', b'"open"').replace(b"c1", b"c2")
    assert lens.edit_resource(records[3], 0, b"pass", earlier) == records[3].replace(b"def login(): ...", b"pass")
    with pytest.raises(UsageError):
        lens.edit(records[3], EventEdit(fields=(FieldEdit("tool", "open"),)), earlier)
    said = lens.view(lens.compose(Kind.ASSISTANT, "Done.", records[-1], events[4].time_ms), earlier)
    assert (said.kind, said.time_ms, said.blocks[0].text) == (Kind.ASSISTANT, events[4].time_ms, "Done.")
    with pytest.raises(UsageError, match="write user, assistant, call or result"):
        lens.compose(Kind.CONFIG, "x", None, 0)
    assert ChatLines().without(records, {3}) == [records[at] for at in (0, 1, 4, 5)]
    assert ChatLines().without(records, {1}) == [records[at] for at in (0, 2, 3, 4, 5)]


def test_what_an_answer_took() -> None:
    [lens] = ChatLines().lenses
    records = [json.dumps(line).encode() for line in LINES]
    told = [usage for usage, _ in (lens.usage(record, NOTHING_RUNNING) for record in records) if usage]
    assert told == [Usage("2026-03-05T19:32:07Z", "", Tokens(210, 6))]
