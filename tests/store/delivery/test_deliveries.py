"""Answers to an agent before it delivers the result of a tool."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from store.delivery import deliveries
from store.delivery.answers import Answer, Offered
from store.delivery.deliveries import Deliveries
from store.editing.editor import Editor
from store.errors import NotFound, UsageError
from store.events.event import DELETED
from store.service.async_client import AsyncRemoteDeliveries, open_client
from store.service.client import Client, RemoteDeliveries
from store.service.server import Service, serving
from store.store import Store
from tests.store.delivery.talk import LIBRARY, LONG, OTHER, Reference, Talk, read, resource

FILE = Offered(LIBRARY, "text/x-python", LONG)


def answers(talk: Talk, *blocks: Offered, tool: str = "", call: str = "") -> list[object]:
    """Return for each block what is delivered instead, None for itself."""
    found = talk.store.deliveries.check(talk.context, blocks, tool=tool, call=call)
    return [read(answer.message) if answer.message else None for answer in found]


def test_a_new_resource_is_delivered_and_one_that_was_attached_is_not(talk: Talk) -> None:
    talk.asks("Look", resource())
    assert answers(talk, FILE, Offered(LIBRARY, text=OTHER), Offered("file:///other", text=LONG)) == [
        Reference(1, 1),
        None,
        None,
    ]


def test_what_is_no_resource_is_delivered(talk: Talk) -> None:
    talk.asks("Look", resource())
    assert answers(talk, Offered(text=LONG), Offered()) == [None, None]
    assert answers(talk) == []


def test_what_is_appended_counts_and_what_is_asked_does_not(talk: Talk) -> None:
    talk.asks()
    call = talk.calls()
    assert answers(talk, FILE, FILE, call=call) == [None, None]
    assert answers(talk, FILE, call=call) == [None]
    talk.returns(call, resource())
    again = talk.calls()
    first = Reference(3, 1)
    assert answers(talk, FILE, call=again) == [first]
    # and what the agent appends then is a text
    [answer] = talk.store.deliveries.check(talk.context, [FILE], call=again)
    talk.returns(again, answer.message)
    talk.asks()
    assert answers(talk, FILE) == [first]
    assert talk.results() == [[LONG], [first]]


def test_the_answer_says_where_and_what_it_saves(talk: Talk) -> None:
    talk.asks()
    talk.reads(resource())
    [answer] = talk.store.deliveries.check(talk.context, [FILE])
    saved = len(LONG) - len(answer.message)
    assert (answer.turn, answer.call, answer.bytes) == (1, "call_1", saved)
    assert abs(answer.tokens - saved / 4) <= 1
    assert talk.store.deliveries.check(talk.context, [Offered("file:///new", text=LONG)]) == [Answer()]


def test_content_may_be_known_by_its_checksum(talk: Talk) -> None:
    digest = blake3(LONG.encode()).hexdigest()
    talk.asks("Look", resource())
    attached = Reference(1, 1)
    size = len(LONG)
    assert answers(talk, Offered(LIBRARY, checksum=f"blake3:{digest}", size=size)) == [attached]
    assert answers(talk, Offered(LIBRARY, checksum=digest.upper(), size=size)) == [attached]
    assert answers(talk, Offered(LIBRARY, data=LONG.encode())) == [attached]
    with pytest.raises(NotFound):
        answers(talk, Offered(LIBRARY, checksum=blake3(b"nowhere").hexdigest()))
    talk.store.intake.put(LONG.encode())
    assert answers(talk, Offered(LIBRARY, checksum=digest)) == [attached]
    for checksum in ("", "md5:abc", "blake3:abc", digest + "00", "blake3:" + "g" * 64):
        with pytest.raises(UsageError, match="a resource has a text, data or a checksum, blake3: and 64 digits"):
            answers(talk, Offered(LIBRARY, checksum=checksum))


def test_the_rules_hold_here_too(talk: Talk) -> None:
    talk.asks("Look", resource(), resource(content="short"))
    assert answers(talk, Offered(LIBRARY, text="short")) == [None]
    assert answers(talk, FILE, tool="Read") != [None]
    talk.sets(tools={"Read": {"deduplicate": False}})
    assert answers(talk, FILE, tool="Read") == [None]
    assert answers(talk, FILE, tool="cat") != [None]
    talk.sets(conversation={"deduplication": {"enabled": False}})
    assert answers(talk, FILE, tool="cat") == [None]
    talk.sets(conversation={"deduplication": {"lookback_turns": 2}})
    assert answers(talk, FILE) != [None]
    for _ in range(2):
        talk.says()
        talk.asks()
    assert answers(talk, FILE) != [None]
    talk.says()
    talk.asks()
    assert answers(talk, FILE) == [None]


def test_conversations_know_nothing_of_each_other(talk: Talk) -> None:
    talk.asks("Look", resource())
    other = talk.store.contexts.create(metadata={"project": "shop", "name": "other"}).context
    assert talk.store.deliveries.check(other, [FILE]) == [Answer()]
    with pytest.raises(NotFound):
        talk.store.deliveries.check(99, [FILE])


def test_a_context_needs_no_name(store: Store) -> None:
    context = store.contexts.create().context
    assert store.deliveries.check(context, [FILE]) == [Answer()]
    stored = {"type": "chat_request", "content": "Look", "resources": [resource()]}
    store.contexts.append(context, json.dumps(stored).encode(), "jp.event.v1")
    [answer] = store.deliveries.check(context, [FILE])
    assert read(answer.message) == Reference(1, 1)


def test_a_fork_knows_what_it_took_over_and_what_holds_for_it(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.says()
    talk.sets(tools={"Read": {"deduplicate": False}})
    fork = Editor(talk.store).fork(talk.context, "fork").context
    [answer] = talk.store.deliveries.check(fork, [FILE])
    assert answer.turn == 1
    assert talk.store.deliveries.check(fork, [FILE], tool="Read") == [Answer()]


def test_what_is_remembered_can_be_forgotten(talk: Talk) -> None:
    talk.asks("Look", resource())
    here = talk.store.deliveries
    assert here is talk.store.deliveries
    before = here.check(talk.context, [FILE])
    here.forget()
    assert here._known == {}
    assert here.check(talk.context, [FILE]) == before


def test_what_was_compacted_away_is_delivered_again(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.says()
    assert answers(talk, FILE) != [None]
    talk.asks()
    talk.compacts(0, 0, summary="It looked.")
    assert answers(talk, FILE) == [None]


def test_what_was_edited_away_is_delivered_again(talk: Talk) -> None:
    talk.asks("Look", resource())
    talk.says()
    assert answers(talk, FILE) != [None]
    talk.store.contexts.patch(talk.context, {talk.store.contexts.last(talk.context, 2)[0].turn_id: DELETED})
    assert answers(talk, FILE) == [None]


def test_a_conversation_is_followed_and_not_read_again(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    read_whole: list[int] = []
    known = deliveries._Known

    class Counted(known):  # type: ignore[valid-type, misc]  # a class, as mypy would have to follow
        def __init__(self, *arguments: object) -> None:
            read_whole.append(1)
            super().__init__(*arguments)

    monkeypatch.setattr(deliveries, "_Known", Counted)
    talk.asks("Look", resource())
    for number in range(5):
        talk.reads(resource(f"file:///{number}"))
        talk.says()
        talk.asks()
        call = talk.calls()
        assert answers(talk, Offered(f"file:///{number}", text=LONG), FILE, call=call)[0] is not None
        talk.returns(call, "…")
    assert len(read_whole) == 1


def test_only_so_many_conversations_are_remembered(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_REMEMBERED", 2)
    here = Deliveries(talk.store.library, talk.store.settings)
    talk.asks("Look", resource())
    for number in range(4):
        other = talk.store.contexts.create(metadata={"project": "shop", "name": f"other-{number}"}).context
        assert here.check(other, [FILE]) == [Answer()]
        assert here.check(talk.context, [FILE])[0].message
        assert len(here._known) <= 2


def test_many_may_ask_at_once(talk: Talk) -> None:
    talk.asks("Look", resource())
    found: list[list[object]] = []
    threads = [threading.Thread(target=lambda: found.append(answers(talk, FILE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(10):
        talk.says(str(number))
    for thread in threads:
        thread.join()
    assert found == [[Reference(1, 1)]] * 8


# -- over the socket -----------------------------------------------------------------------------------------------


@pytest.fixture
def socket(store: Store, runtime_path: Path) -> Iterator[Path]:
    with serving(Service(store, ())) as place:
        assert place.socket is not None
        yield place.socket


def test_agents_ask_over_the_socket(talk: Talk, socket: Path) -> None:
    talk.asks("Look", resource())
    blocks = [FILE, Offered(text="text"), Offered(LIBRARY, data=b"\xff" * 400)]
    with Client(socket) as client:
        remote = RemoteDeliveries(client)
        found = remote.check(talk.context, blocks, tool="Read", call="call_9")
        assert found == Deliveries(talk.store.library, talk.store.settings).check(
            talk.context, blocks, tool="Read", call="call_9"
        )
        assert [bool(answer.message) for answer in found] == [True, False, False]
        with pytest.raises(NotFound):
            remote.check(99, blocks)
        with pytest.raises(UsageError, match="64 digits"):
            remote.check(talk.context, [Offered(LIBRARY)])


async def test_agents_of_trio_ask_too(talk: Talk, socket: Path) -> None:
    talk.asks("Look", resource())
    async with open_client(socket) as client:
        found = await AsyncRemoteDeliveries(client).check(talk.context, [FILE], tool="Read")
    assert found == Deliveries(talk.store.library, talk.store.settings).check(talk.context, [FILE], tool="Read")
    assert found[0].message


@pytest.mark.parametrize("followed", [False, True])
def test_a_file_that_a_shell_printed_was_delivered(talk: Talk, followed: bool) -> None:
    talk.asks()
    if followed:
        assert answers(talk, FILE) == [None]
    talk.event("tool_call_request", id="call_1", name="shell", arguments={"command": "cat /shop/library.py"})
    talk.returns("call_1", LONG)
    assert answers(talk, FILE) == [Reference(3, 1)]
