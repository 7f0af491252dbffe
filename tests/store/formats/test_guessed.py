"""Files of tools that nobody knows, and plain text."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.events.event import BlockEdit, EventEdit, Kind
from store.formats.core.format import Source
from store.formats.core.lens import Nothing
from store.formats.text_log import TextLog
from store.importing.importer import Importer
from store.importing.trial import tried
from store.store import Store
from tests.store.formats.test_recognition import LINES
from tests.store.importing.sessions import native

FORMAT = TextLog()
LENS = FORMAT.lenses[0]

LOG = b"""We began on Monday.

User: Why does the login fail?
It worked last week.

**Assistant:**
It returns nothing.

- add `return`

You said:
Do that.
"""


def passages(data: bytes) -> list[bytes]:
    return [data[span.start : span.end] for span in FORMAT.spans(memoryview(data), 0)]


def test_passages_of_a_log_begin_with_who_speaks() -> None:
    seen = [LENS.view(record, Nothing()) for record in passages(LOG)]
    assert [(event.kind, event.blocks[0].text) for event in seen] == [
        (Kind.NOTE, "We began on Monday."),
        (Kind.USER, "Why does the login fail?\nIt worked last week."),
        (Kind.ASSISTANT, "It returns nothing.\n\n- add `return`"),
        (Kind.USER, "Do that."),
    ]
    about = FORMAT.about(Source(FORMAT.name, Path("/a/monday.txt"), Path("/a/monday.txt")), passages(LOG))
    assert (about.title, about.session_id) == ("Why does the login fail?", "monday")


@given(st.text(max_size=300))
def test_any_text_is_cut_without_a_loss(text: str) -> None:
    data = text.encode()
    position = 0
    for span in FORMAT.spans(memoryview(data), 0):
        assert not data[position : span.start].strip(b"\r\n")
        assert span.end > span.start
        position = span.end
    assert not data[position:].strip(b"\r\n")


def test_a_passage_is_edited_and_others_are_added() -> None:
    record = passages(LOG)[2]
    edited = LENS.edit(record, EventEdit((BlockEdit((), "It returns None."),)), Nothing())
    assert edited == b"**Assistant:**\nIt returns None."
    with pytest.raises(UsageError, match="an empty text"):
        LENS.edit(record, EventEdit((BlockEdit((), ""),)), Nothing())
    assert LENS.compose(Kind.USER, "Thank you.", record, 0) == b"User: Thank you."


def test_plain_text_is_imported_when_it_is_said_to_be_a_log(tmp_path: Path) -> None:
    path = tmp_path / "monday.txt"
    path.write_bytes(LOG)
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([path]).imported == 0
        report = Importer(store).run([path], format_name="text-log")
        assert (report.imported, report.records, report.errors) == (1, 4, [])
        assert native(store, path) == LOG


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "document",
    [
        {"id": "1", "conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]},
        {"name": "Login", "turns": [{"speaker": "user", "text": "Why?"}, {"speaker": "ai", "text": "So."}]},
        [{"author": "user", "body": "Why?", "room": 3}, {"author": "bot", "body": "So.", "room": 3}],
        {"x": 1, "messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}], "y": [1]},
    ],
)
def test_documents_that_look_like_messages(tmp_path: Path, document: object, indent: int | None) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(document, indent=indent))
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([tmp_path]).imported == 0
        report = Importer(store).run([path])
        assert (report.imported, report.errors) == (1, [])
        assert any("read as a guess" in line for line in report.warnings)
        assert native(store, path) == path.read_bytes()
    assert tried(path, "guess-document").kinds == Counter(user=1, assistant=1)


@pytest.mark.parametrize("tool", ["messages with a time", "messages with an id and a time"])
def test_lines_that_look_like_messages(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES[tool][1]))
    with Store.open(tmp_path / "store") as store:
        assert Importer(store).run([tmp_path]).imported == 0
        report = Importer(store).run([path])
        assert (report.imported, report.records) == (1, 2)
        assert native(store, path) == path.read_bytes()


@pytest.mark.parametrize("text", ['{"a": 1}\n{"b": 2}\n', "a,b\n1,2\n", "[1, 2, 3]", "", '{"messages": "none"}'])
def test_what_does_not_look_like_messages_is_nobodys(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with Store.open(tmp_path / "store") as store:
        report = Importer(store).run([path])
        assert (report.imported, report.skipped) == (0, 1)
