"""Calls and results of which one changes: the other one changes with it, in the same version."""

import json
from pathlib import Path

import pytest

from fusefs.editing.bursts import Bursts
from fusefs.editing.programs import Programs
from fusefs.editing.records import EventCommits
from fusefs.editing.targets import EventTarget, JsonTarget
from fusefs.tree.tree import Tree
from store.errors import UsageError
from store.importing.exporter import export_native
from store.store import Store
from tests.fusefs.editing.sessions import session
from tests.store.importing.sessions import by_source, exported, imported
from tests.store.importing.sessions import session as written

__all__ = ["Path"]


class Talk:
    """A short session of a format, and the files of its events."""

    def __init__(self, store: Store, context: int) -> None:
        self.store = store
        self.context = context
        self.records = EventCommits(Tree(store), Bursts(Programs(), 0))
        self.view = self.records.tree.view_id(context)

    def drawn(self, number: int) -> str:
        return EventTarget(self.records, self.view, number).drawn().decode()

    def save(self, number: int, old: str, new: str) -> None:
        target = EventTarget(self.records, self.view, number)
        text = target.begin().decode()
        assert old in text, text
        prepared = target.prepare(target.state(), text.replace(old, new, 1).encode())
        assert prepared is not None
        prepared.commit(0)

    def refused(self, number: int, old: str, new: str) -> str:
        versions = len(self.store.catalogue.versions(self.context))
        with pytest.raises(UsageError) as raised:
            self.save(number, old, new)
        assert len(self.store.catalogue.versions(self.context)) == versions
        return str(raised.value)

    def payload(self, number: int) -> bytes:
        return self.store.contents.payload(self.records.tree.view(self.view).row(number).turn)

    @property
    def versions(self) -> int:
        return len(self.store.catalogue.versions(self.context))

    def deleted(self, number: int) -> bool:
        return self.records.tree.view(self.view).row(number).deleted


IDS = [
    ("claude-code", 5, 6, "toolu_1"),
    ("codex", 4, 5, "call_1"),
    ("pi", 2, 3, "c1"),
    ("jp", 3, 4, "t1"),
    ("api-messages", 3, 4, "c1"),
]


@pytest.mark.parametrize(("format_", "call", "result", "identifier"), IDS)
def test_a_new_id_of_a_call_is_that_of_its_result_and_the_other_way_round(
    store: Store, format_: str, call: int, result: int, identifier: str
) -> None:
    talk = Talk(store, session(store, format_))
    before = talk.payload(call), talk.payload(result)
    talk.save(call, f"id: {identifier}\n", "id: other\n")
    assert talk.versions == 2
    assert "id: other\n" in talk.drawn(call)
    assert "id: other\n" in talk.drawn(result)
    assert "tool: " in talk.drawn(result)
    for number, was in zip((call, result), before, strict=True):
        assert talk.payload(number) == was.replace(f'"{identifier}"'.encode(), b'"other"')
    talk.save(result, "id: other\n", f"id: {identifier}\n")
    assert (talk.payload(call), talk.payload(result)) == before


def test_an_id_that_another_call_has_is_refused(store: Store) -> None:
    talk = Talk(store, session(store, "claude-code"))
    told = talk.refused(5, "id: toolu_1\n", "id: toolu_2\n")
    assert told == "the id 'toolu_2' is that of event 7 already: every call has its own"


def test_the_time_of_an_event_stays_between_those_around_it(store: Store) -> None:
    talk = Talk(store, session(store, "claude-code"))
    talk.save(4, "timestamp: 2026-03-05T12:00:03.000Z", "timestamp: 2026-03-05T12:00:03.500Z")
    assert b'"timestamp":"2026-03-05T12:00:03.500Z"' in talk.payload(4)
    told = talk.refused(4, "12:00:03.500Z", "12:00:04.001Z")
    assert "between 2026-03-05T12:00:02.000Z and 2026-03-05T12:00:04.000Z" in told
    assert "between" in talk.refused(4, "12:00:03.500Z", "11:00:00.000Z")
    assert "is a time as" in talk.refused(4, "2026-03-05T12:00:03.500Z", "soon")
    assert "up to 2026-03-05T12:00:02.000Z" in talk.refused(2, "2026-03-05T12:00:01.000Z", "2027-03-05T12:00:01.000Z")


ARGUMENTS = '\n````block json arguments\n{\n  "command": "cat file",\n  "timeout": 5\n}\n````\n'


def test_a_call_that_is_taken_out_takes_its_result_with_it(store: Store) -> None:
    talk = Talk(store, session(store, "claude-code"))
    talk.save(5, ARGUMENTS, "")
    assert talk.versions == 2
    assert talk.deleted(6)
    assert talk.drawn(5).startswith("---\nevent: 5\ntype: assistant\n")
    assert b"toolu_1" not in talk.payload(5)


def test_of_a_result_with_others_only_the_one_goes(store: Store) -> None:
    """A line with two results, of which the call of one is taken out."""
    talk = Talk(store, session(store, "pi"))
    talk.save(4, '\n````block json call2.arguments\n{\n  "n": 2\n}\n````\n', "")
    assert not talk.deleted(5)
    assert talk.deleted(6)
    assert json.loads(talk.payload(4))["message"]["content"] == [
        {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"n": 1}}
    ]


def test_a_call_taken_out_in_events_json_takes_its_result_with_it(store: Store) -> None:
    talk = Talk(store, session(store, "claude-code"))
    target = JsonTarget(talk.records, talk.view)
    elements = json.loads(target.drawn())
    del elements[4]["message"]["content"][1]
    prepared = target.prepare(target.state(), json.dumps(elements).encode())
    assert prepared is not None
    prepared.commit(0)
    assert talk.deleted(6)


def test_two_calls_that_change_places_keep_their_ids_and_results(store: Store) -> None:
    talk = Talk(store, session(store, "pi"))
    first = '````block json arguments\n{\n  "n": 1\n}\n````\n'
    second = '````block json call2.arguments\n{\n  "n": 2\n}\n````\n'
    talk.save(4, f"{first}\n{second}", f"{second}\n{first}")
    assert [part["id"] for part in json.loads(talk.payload(4))["message"]["content"]] == ["c3", "c2"]
    assert not talk.deleted(5)
    assert not talk.deleted(6)
    assert "id: c2\n" in talk.drawn(5)


def test_what_is_exported_has_a_result_for_every_call(store: Store, tmp_path: Path) -> None:
    from tests.fusefs.editing.sessions import CLAUDE_CODE

    path = written(tmp_path, b"\n".join(CLAUDE_CODE) + b"\n")
    imported(store, path)
    conversation = by_source(store, path)
    with exported(store, conversation) as files:
        assert list(files.values()) == [path.read_bytes()]
    talk = Talk(store, conversation.id)
    talk.save(5, ARGUMENTS, "")
    (file,) = export_native(store, store.library.conversation(conversation.id), tmp_path / "out")
    parts = [
        part
        for line in file.read_bytes().splitlines()
        for part in json.loads(line).get("message", {}).get("content", ())
        if isinstance(part, dict)
    ]
    calls = [part["id"] for part in parts if part["type"] == "tool_use"]
    assert calls == [part["tool_use_id"] for part in parts if part["type"] == "tool_result"] == ["toolu_2", "toolu_3"]
    uuids = [json.loads(line).get("uuid") for line in file.read_bytes().splitlines()]
    parents = [json.loads(line).get("parentUuid") for line in file.read_bytes().splitlines()]
    assert set(parents) <= {*uuids, None}
