"""The state machine of a connection: every transition, its bounds, and bytes of all kinds."""

import os
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json

from store.service import frames
from store.service.frames import Decoder, Frame
from store.service.protocol import (
    MESSAGES,
    MOST_IN_FLIGHT,
    MOST_WAITING_BYTES,
    TRANSITIONS,
    Connection,
    Event,
    Request,
    State,
)
from store.service.wire import SAME_STORE, AppendTurn, GetHead, GetLast, Hello, HelloAnswer

OURS = range(256, 270)
TOKEN = "secret"
ROUNDS = 20_000 if os.environ.get("CONVFS_LARGE_TESTS") else 300


def opened(token: str = "") -> Connection:
    return Connection(7, OURS, token)


def feed(connection: Connection, *sent: Frame) -> list[Request]:
    connection.receive(b"".join(map(frames.encode, sent)))
    return connection.requests()


def taken(connection: Connection) -> list[Frame]:
    """Take everything that is to be sent, and read it as a client would."""
    data = b"".join(connection.to_send())
    connection.sent(len(data))
    decoder = Decoder()
    found = list(decoder.feed(data))
    assert decoder.idle
    return found


def code(frame: Frame) -> int:
    assert frame.msg_type == frames.ERROR
    return int.from_bytes(frame.payload[:4], "little")


def hello(req_id: int = 1, meta: bytes = b"") -> Frame:
    return Frame(1, req_id, Hello(1, "test", meta).encode())


def with_token(token: str = TOKEN) -> Frame:
    return hello(1, json.encode({"token": token}))


HEAD = Frame(4, 2, GetHead(1).encode())


@pytest.mark.parametrize("token", ["", TOKEN])
def test_nothing_is_done_for_who_means_another_store(token: str) -> None:
    connection = Connection(7, OURS, token, "fe01-1a2b3c")
    meta = {"token": token, "directory": "fe01-1a2b3d"}
    assert feed(connection, hello(1, json.encode(meta)), HEAD, HEAD) == []
    [refused] = taken(connection)
    assert code(refused) == frames.CONFLICT
    assert connection.state is State.CLOSED


@pytest.mark.parametrize(
    ("meta", "flags"),
    [({"directory": "fe01-1a2b3c"}, SAME_STORE), ({"directory": ""}, 0), ({}, 0), ({"directory": 5}, 0), ({"x": 1}, 0)],
)
def test_who_names_a_store_is_told_that_it_is_that(meta: dict[str, object], flags: int) -> None:
    connection = Connection(7, OURS, "", "fe01-1a2b3c")
    assert len(feed(connection, hello(1, json.encode(meta)), HEAD)) == 1
    [answer] = taken(connection)
    assert (answer.msg_type, answer.flags) == (Hello.number, flags)
    # as the clients of CXDB read it
    assert len(answer.payload) == 10


def test_a_token_is_wanted_also_of_who_names_the_store() -> None:
    connection = Connection(7, OURS, TOKEN, "fe01-1a2b3c")
    assert feed(connection, hello(1, json.encode({"directory": "fe01-1a2b3c"})), HEAD) == []
    assert code(taken(connection)[0]) == frames.INVALID


def test_every_state_says_what_follows_from_every_event_that_can_come() -> None:
    for state in State:
        for event, follows in TRANSITIONS[state].items():
            connection = reach(state)
            happen(connection, event, state)
            assert connection.state is follows, (state, event)


def reach(state: State) -> Connection:
    connection = opened(TOKEN)
    if state is State.GREETING:
        return connection
    feed(connection, with_token())
    taken(connection)
    assert connection.state is State.OPEN
    if state is State.DRAINING:
        feed(connection, HEAD)
        connection.receive(b"")
        connection.requests()
    if state is State.CLOSED:
        connection.lost()
    assert connection.state is state
    return connection


def happen(connection: Connection, event: Event, state: State) -> None:
    match event:
        case Event.HELLO:
            feed(connection, with_token())
        case Event.REFUSED:
            feed(connection, with_token("wrong"))
        case Event.REQUEST:
            feed(connection, HEAD)
        case Event.BROKEN:
            feed(connection, HEAD) if state is State.OPEN else None
            connection.receive(b"\xff" * 16)
            connection.requests()
        case Event.END:
            # something is still to be sent, or it would close at once
            feed(connection, HEAD if state is State.OPEN else Frame(1, 9, b"\0"))
            connection.receive(b"")
            connection.requests()
        case Event.DONE:
            connection.answer(2, 4, bytes(20))
            taken(connection)
        case Event.LOST:
            connection.lost()


def test_a_hello_is_answered_with_the_session_and_the_version() -> None:
    connection = opened()
    assert feed(connection, hello(5)) == []
    assert taken(connection) == [Frame(1, 5, HelloAnswer(7, 1).encode())]
    assert connection.tag == "test"
    assert feed(connection, Frame(1, 6)) == []
    assert taken(connection) == [Frame(1, 6, HelloAnswer(7, 1).encode())]


@pytest.mark.parametrize("version", [0, 1, 2, 0xFFFF])
def test_whatever_version_a_client_speaks_it_is_told_ours(version: int) -> None:
    connection = opened()
    feed(connection, Frame(1, 5, Hello(version).encode()))
    assert HelloAnswer.decode(taken(connection)[0].payload).version == 1


def test_no_hello_is_needed_where_no_token_is() -> None:
    assert feed(opened(), HEAD) == [Request(2, 4, GetHead(1))]


@pytest.mark.parametrize(
    "first",
    [
        HEAD,
        hello(),
        with_token("Secret"),
        hello(1, b"{"),
        hello(1, b"[" * 10_000),
        hello(1, b'{"token": 5}'),
        hello(1, b"\xff"),
        hello(1, b'{"token": "\xff"}'),
        Frame(256, 1, b"{}"),
        Frame(1, 1),
    ],
)
def test_without_the_token_nothing_is_done(first: Frame) -> None:
    connection = opened(TOKEN)
    assert feed(connection, first, HEAD) == []
    (answer,) = taken(connection)
    assert code(answer) == 422
    assert TOKEN not in answer.payload.decode("utf-8", "replace")
    assert connection.state is State.CLOSED


def test_with_the_token_everything_is() -> None:
    connection = opened(TOKEN)
    assert feed(connection, with_token(), HEAD) == [Request(2, 4, GetHead(1))]
    assert [frame.msg_type for frame in taken(connection)] == [1]


def test_requests_are_answered_in_any_order() -> None:
    connection = opened()
    requests = feed(connection, *(Frame(4, number, GetHead(number).encode()) for number in range(5)))
    assert [request.req_id for request in requests] == [0, 1, 2, 3, 4]
    for number in (3, 0, 4, 1, 2):
        connection.answer(number, 4, bytes([number]))
    assert taken(connection) == [Frame(4, number, bytes([number])) for number in (3, 0, 4, 1, 2)]
    assert connection.in_flight == 0


def test_our_own_messages_are_handed_on_as_they_are() -> None:
    assert feed(opened(), Frame(256, 3, b'{"a":1}')) == [Request(3, 256, None, b'{"a":1}')]


@pytest.mark.parametrize("msg_type", [0, 12, 200, 255, 300, 0xFFFF])
def test_a_message_that_nobody_knows_is_answered_and_the_next_is_done(msg_type: int) -> None:
    connection = opened()
    assert feed(connection, Frame(msg_type, 1, b"x"), HEAD) == [Request(2, 4, GetHead(1))]
    assert [code(frame) for frame in taken(connection)] == [422]


def test_a_message_that_does_not_fit_is_answered_and_the_next_is_done() -> None:
    connection = opened()
    newer = Frame(4, 3, GetHead(1).encode() + b"more", 16)
    assert feed(connection, Frame(5, 1, b"x"), newer, HEAD) == [Request(3, 4, GetHead(1)), Request(2, 4, GetHead(1))]
    assert [(code(frame), frame.req_id) for frame in taken(connection)] == [(422, 1)]


def test_a_length_of_four_gigabytes_ends_the_connection_once_what_is_in_flight_is_answered() -> None:
    connection = opened()
    feed(connection, HEAD)
    connection.receive(struct.pack("<IHHQ", 0xFFFFFFFF, 5, 0, 9) + b"x" * 100)
    assert connection.requests() == []
    (error,) = taken(connection)
    assert (code(error), error.req_id) == (413, 9)
    assert connection.state is State.DRAINING
    assert not connection.reads
    connection.answer(2, 4, bytes(20))
    assert [frame.req_id for frame in taken(connection)] == [2]
    assert connection.state is State.CLOSED


def test_what_came_before_the_peers_end_is_answered() -> None:
    connection = opened()
    connection.receive(frames.encode(HEAD))
    connection.receive(b"")
    assert len(connection.requests()) == 1
    assert connection.state is State.DRAINING
    connection.answer(2, 4, bytes(20))
    assert connection.state is State.DRAINING
    taken(connection)
    assert connection.state is State.CLOSED


def test_an_end_within_a_frame_closes() -> None:
    connection = opened()
    connection.receive(frames.encode(HEAD)[:-1])
    connection.receive(b"")
    assert connection.requests() == []
    assert connection.state is State.CLOSED


def test_an_answer_larger_than_a_frame_is_an_error() -> None:
    connection = opened()
    feed(connection, HEAD)
    connection.answer(2, 4, bytes(frames.MAX_PAYLOAD + 1))
    assert [code(frame) for frame in taken(connection)] == [413]
    assert connection.in_flight == 0


def test_so_many_requests_are_in_flight_and_no_more() -> None:
    connection = opened()
    sent = [Frame(4, number, GetHead(1).encode()) for number in range(3 * MOST_IN_FLIGHT)]
    first = feed(connection, *sent)
    assert len(first) == MOST_IN_FLIGHT
    assert not connection.reads
    assert connection.requests() == []
    connection.answer(0, 4, bytes(20))
    assert [request.req_id for request in connection.requests()] == [MOST_IN_FLIGHT]
    connection.receive(b"")
    for number in range(1, 3 * MOST_IN_FLIGHT):
        connection.answer(number, 4, bytes(20))
        connection.requests()
    assert connection.in_flight == 0
    assert len(taken(connection)) <= 3 * MOST_IN_FLIGHT


def test_a_peer_that_takes_nothing_is_not_listened_to() -> None:
    connection = opened()
    feed(connection, HEAD)
    connection.answer(2, 4, bytes(MOST_WAITING_BYTES))
    assert not connection.reads
    assert feed(connection, HEAD) == []
    connection.sent(100)
    assert connection.reads
    assert len(connection.requests()) == 1


@given(st.lists(st.binary(max_size=50), max_size=30), st.lists(st.integers(1, 200)))
def test_what_is_sent_in_parts_arrives_whole(payloads: list[bytes], sizes: list[int]) -> None:
    connection = opened()
    feed(connection, *(Frame(4, number, GetHead(1).encode()) for number in range(len(payloads))))
    for number, payload in enumerate(payloads):
        connection.answer(number, 4, payload)
    expected = b"".join(frames.encode(Frame(4, number, payload)) for number, payload in enumerate(payloads))
    arrived = b""
    for size in (*sizes, *[1000] * 30):
        part = b"".join(connection.to_send())[:size]
        connection.sent(len(part))
        arrived += part
    assert arrived == expected
    assert connection.waiting == 0


def test_answers_to_a_peer_that_is_gone_go_nowhere() -> None:
    connection = opened()
    feed(connection, HEAD, Frame(4, 3, GetHead(1).encode()))
    connection.lost()
    connection.answer(2, 4, bytes(20))
    connection.fail(3, 500, "x")
    connection.item(3, 256, b"x")
    assert list(connection.to_send()) == []
    assert connection.state is State.CLOSED


FRAME = st.builds(
    Frame,
    msg_type=st.sampled_from([*MESSAGES, 1, 255, 256, 300, 0xFFFF]),
    req_id=st.integers(0, 2**64 - 1),
    payload=st.binary(max_size=100)
    | st.just(GetHead(1).encode())
    | st.just(GetLast(1, 2, True).encode())
    | st.just(AppendTurn(1, 0, "t", 0, 1, 0, 1, bytes(32), b"x").encode()),
    flags=st.sampled_from([0, 0, 0, 1, 2, 4, 0x8000]),
)
STREAM = st.lists(FRAME.map(frames.encode) | st.binary(max_size=40), max_size=20)


@settings(max_examples=ROUNDS // 4, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(STREAM, st.integers(1, 400), st.booleans(), st.randoms())
def test_whatever_comes_only_answers_and_errors_go_out_or_the_connection_closes(
    stream: list[bytes], step: int, wants_token: bool, order: object
) -> None:
    connection = opened(TOKEN if wants_token else "")
    sent = b"".join(stream)
    owed: list[Request] = []
    answered = 0
    out: list[Frame] = []
    for at in range(0, len(sent) + step, step):
        if not connection.reads:
            break
        connection.receive(sent[at : at + step])
        owed += connection.requests()
        order.shuffle(owed)  # type: ignore[attr-defined]
        for request in owed[: len(owed) // 2 + 1]:
            connection.answer(request.req_id, request.number, b"done")
            answered += 1
        del owed[: len(owed) // 2 + 1]
        out += taken(connection)
    for request in owed:
        connection.fail(request.req_id, 500, "no")
        answered += 1
    out += taken(connection)
    assert connection.in_flight == 0
    assert all(frame.msg_type in (frames.ERROR, 1) or frame.payload == b"done" for frame in out)
    assert connection.state is not State.DRAINING
    if not connection.reads:
        assert connection.state is State.CLOSED
