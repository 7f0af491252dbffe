"""Conversations that programs append in MessagePack, read and edited as files."""

import json
from base64 import b64encode
from collections.abc import Sequence

import pytest
from msgpack import packb

from fusefs.editing.bursts import Bursts
from fusefs.editing.programs import Programs
from fusefs.editing.records import Base, EventCommits
from fusefs.editing.targets import JsonTarget
from fusefs.text.parse import ParseError
from fusefs.tree.tree import Tree
from store.conversations.contexts import Append
from store.disk.turn_format import Encoding
from store.events.event import Kind
from store.store import Store
from tests.store.editing.records import history, shown
from tests.store.formats.conversation_items import TALK, TYPE, in_integers, in_texts, user

OTHER = packb({1: "x", "a": [b"\0\1", 1.5, {"deep": "text"}]})
DAMAGED = in_integers(TALK[0])[:-1]
PAYLOADS = [*map(in_texts, TALK[:4]), *map(in_integers, TALK[4:])]


class Conversation:
    def __init__(self, store: Store, items: Sequence[Append]) -> None:
        self.store = store
        metadata: dict[str, object] = {"project": "p", "name": "talk", "title": "A talk"}
        self.context = store.contexts.create(metadata=metadata).context
        store.contexts.append_many(self.context, items)
        self.tree = Tree(store)
        self.records = EventCommits(self.tree, Bursts(Programs(), 0))
        self.view = self.tree.view_id(self.context)

    def file(self, number: int) -> bytes:
        return self.records.drawn(self.view, number).data

    def save(self, number: int, data: bytes) -> int:
        """Save an event's file and return how many versions that makes."""
        before = len(history(self.store, self.context))
        base = self.records.base(self.view, number)
        edited = self.records.edited(Base(self.view, number, base.payload_hash), data)
        if edited is not None:
            self.records.edit(base, edited)
        return len(history(self.store, self.context)) - before

    @property
    def whole(self) -> JsonTarget:
        return JsonTarget(self.records, self.view)

    def save_whole(self, data: bytes) -> int:
        before = len(history(self.store, self.context))
        prepared = self.whole.prepare(self.whole.state(), data)
        if prepared is not None:
            prepared.commit(0)
        return len(history(self.store, self.context)) - before

    @property
    def payloads(self) -> list[bytes | None]:
        return shown(self.store, self.context)


def item(payload: bytes, type_name: str = TYPE) -> Append:
    return Append(payload, type_name, Encoding.MSGPACK, 3)


@pytest.fixture(params=["branch", "overlay"])
def edits(request: pytest.FixtureRequest) -> str:
    """Return how edits are kept."""
    return str(request.param)


@pytest.fixture
def talk(store: Store) -> Conversation:
    others = [item(OTHER, "somebody.else.v7"), item(DAMAGED), Append(b"\0\xff", "raw", Encoding.RAW_BYTES)]
    return Conversation(store, [*map(item, PAYLOADS), *others])


def test_every_file_is_as_long_as_it_says_and_written_back_is_no_version(talk: Conversation) -> None:
    rows = talk.store.records.rows(talk.store.writer.head(talk.context).tip)
    assert [row.kind for row in rows] == [
        *(Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.NOTE, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.ASSISTANT),
        *(Kind.NOTE, Kind.NOTE, Kind.NOTE),
    ]
    assert rows[5].tool == "grep"
    for row in rows:
        data = talk.file(row.number)
        assert len(data) == row.file_size
        assert talk.save(row.number, data) == 0
    whole = talk.whole.drawn()
    assert talk.save_whole(whole) == 0
    assert talk.save_whole(json.dumps(json.loads(whole)).encode()) == 0


def test_an_edit_changes_its_text_and_keeps_type_and_encoding(talk: Conversation) -> None:
    assert talk.save(1, talk.file(1).replace(b"Hello there", "Grüße".encode())) == 1
    assert talk.payloads == [in_texts({**TALK[0], "user_input": {"text": "Grüße"}}), *talk.payloads[1:]]
    assert talk.save(8, talk.file(8).replace(b'"deep": "text"', b'"deep": "other"')) == 1
    assert talk.payloads[7] == OTHER.replace(b"\xa4text", b"\xa5other")
    for number in (1, 8):
        turn = talk.store.turns.get(talk.store.records.rows(talk.store.writer.head(talk.context).tip)[number - 1].turn)
        assert (turn.encoding, turn.type_version) == (Encoding.MSGPACK, 3)
    for number in (9, 10):
        with pytest.raises(ParseError, match="read-only"):
            talk.save(number, talk.file(number) + b"more\n")


def test_the_whole_conversation_is_edited(talk: Conversation) -> None:
    elements = json.loads(talk.whole.drawn())
    assert [element["$event"] for element in elements] == list(range(1, 11))
    assert elements[1]["turn"]["text"].keys() == {"$blob", "size"}
    assert elements[8].keys() == elements[9].keys() == {"$event", "$raw"}
    elements[0]["user_input"]["text"] = {"text": "Changed"}
    elements[5]["tool_result"]["is_error"] = True
    # content of another record, by its hash
    elements[6]["assistant"]["text"] = elements[1]["turn"]["text"]
    assert talk.save_whole(json.dumps(elements).encode()) == 1
    assert talk.payloads == [
        in_texts({**TALK[0], "user_input": {"text": "Changed"}}),
        *PAYLOADS[1:5],
        in_integers({**TALK[5], "tool_result": {**TALK[5]["tool_result"], "is_error": True}}),
        in_integers({**TALK[6], "assistant": {**TALK[6]["assistant"], "text": "I look.\nNow."}}),
        *(OTHER, DAMAGED, b"\0\xff"),
    ]


def test_what_the_whole_conversation_cannot_become(talk: Conversation) -> None:
    elements = json.loads(talk.whole.drawn())
    for changed, told in (
        ([{**elements[0], "more": 1}], "only values can be changed"),
    ):
        before = talk.payloads
        with pytest.raises(ParseError, match=told) as raised:
            talk.save_whole(json.dumps(changed).encode())
        assert str(raised.value).isprintable()
        assert talk.payloads == before


def test_records_change_places(talk: Conversation) -> None:
    elements = json.loads(talk.whole.drawn())
    assert talk.save_whole(json.dumps([*elements[1:7], elements[0], *elements[7:]]).encode()) == 1
    assert talk.payloads == [*PAYLOADS[1:7], PAYLOADS[0], OTHER, DAMAGED, b"\0\xff"]


def test_a_record_that_is_new_keeps_the_encoding_of_its_neighbours(talk: Conversation) -> None:
    elements = json.loads(talk.whole.drawn())[:7]
    new = in_integers(user("More"))
    raw = {"$raw": {"blob": b64encode(new).decode()}}
    assert talk.save_whole(json.dumps([*elements, raw]).encode()) == 1
    row = talk.store.records.rows(talk.store.writer.head(talk.context).tip)[-1]
    turn = talk.store.turns.get(row.turn)
    assert (row.kind, turn.encoding, turn.type_version) == (Kind.USER, Encoding.MSGPACK, 3)
    assert talk.store.contents.payload(row.turn) == new
