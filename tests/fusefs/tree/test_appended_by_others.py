"""Records that clients append in MessagePack, read through the handlers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.inodes import ROOT
from fusefs.operations import Operations
from fusefs.tree.tree import Tree
from store.disk.turn_format import Encoding
from store.store import Store
from tests.fusefs.tree.mounting import new_store, run
from tests.store.formats.conversation_items import TALK, TYPE, in_texts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path / "store") as store:
        context = store.contexts.create(metadata={"project": "p", "name": "talk", "title": "A talk"}).context
        for said in TALK:
            store.contexts.append(context, in_texts(said), TYPE, encoding=Encoding.MSGPACK)
        yield store


@pytest.fixture
def operations(store: Store) -> Operations:
    return Operations(Tree(store))


def content(operations: Operations, path: str) -> bytes:
    ino = ROOT
    for name in path.split("/"):
        entry = run(operations.lookup(ino, name.encode(), None))
        ino = entry.st_ino
    handle = run(operations.open(ino, os.O_RDONLY, None)).fh
    data = run(operations.read(handle, 0, 1 << 20))
    run(operations.release(handle))
    assert len(data) == entry.st_size or path.startswith(".convfs")
    return bytes(data)


def test_every_event_has_its_file(operations: Operations) -> None:
    names = ("00001-user", "00002-assistant", "00003-system", "00004-note", "00005-call-grep", "00006-result-grep")
    for name in (*names, "00007-assistant"):
        assert content(operations, f"conversations/p/talk/events/{name}.md").startswith(b"---\nevent: ")
    assert content(operations, "conversations/p/talk/events/00006-result-grep.md") == (
        b"---\nevent: 6\ntype: tool_result\ntool: grep\nid: call_3\nis_error: false\nexit_code: 1\n"
        b"timestamp: 2026-03-05T12:00:06.000Z\n---\nfound\n"
    )


def test_the_transcript_and_the_records(operations: Operations) -> None:
    transcript = content(operations, "transcripts/p/talk.md").decode()
    for text in ("Hello there", "I look.\nNow.", "a.txt\nb.txt", "no such file", "events/00003-system.md", "do it"):
        assert text in transcript
    for number, said in enumerate(TALK, 1):
        assert content(operations, f"conversations/p/talk/.records/{number:05}.json") == in_texts(said)
    assert b'"item_type": "handoff"' in content(operations, "conversations/p/talk/events.json")
