"""Payloads of the wire protocol: bytes written out, both ways, for every message; and that they come back."""

import struct

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.ids import Hash
from store.service import wire

H = bytes(range(32))
HEX = H.hex()
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
HASH = st.binary(min_size=32, max_size=32).map(Hash)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BYTES = st.binary(max_size=60)

APPEND = wire.AppendTurn(1, 7, "t.v1", 3, 1, 0, 2, Hash(H), b"\x91\x02", b"idem-1")
APPEND_HEX = (
    "0100000000000000 0700000000000000 04000000 742e7631 03000000 01000000 00000000 02000000"
    f"{HEX} 02000000 9102 06000000 6964656d2d31"
)
ITEM = wire.TurnItem(9, 8, 5, "t.v1", 3, 1, wire.NONE, 2, Hash(H), b"\x91\x02")
ITEM_HEX = (
    f"0900000000000000 0800000000000000 05000000 04000000 742e7631 03000000 01000000 00000000 02000000 {HEX}"
    "02000000 9102"
)
BARE = wire.TurnItem(9, 0, 0, "", 0, 8, wire.NONE, 2, Hash(H))
BARE_HEX = f"0900000000000000 {'00' * 8} 00000000 00000000 00000000 08000000 00000000 02000000 {HEX} 00000000"

REQUESTS = [
    (wire.Hello(1, "test-client"), 0, "0100 0b00 746573742d636c69656e74 00000000"),
    (wire.Hello(1, "", b"{}"), 0, "0100 0000 02000000 7b7d"),
    (wire.CreateContext(0), 0, "0000000000000000"),
    (wire.ForkContext(0x0102), 0, "0201000000000000"),
    (wire.GetHead(3), 0, "0300000000000000"),
    (APPEND, 0, APPEND_HEX),
    (wire.AppendTurn(1, 7, "t.v1", 3, 1, 0, 2, Hash(H), b"\x91\x02", b"idem-1", Hash(H)), 1, APPEND_HEX + HEX),
    (wire.AppendTurn(1, 7, "t.v1", 3, 1, 0, 2, Hash(H), b"\x91\x02", b"idem-1", None, True), 2, APPEND_HEX),
    (wire.GetLast(1, 10, False), 0, "0100000000000000 0a000000 00000000"),
    (wire.GetLast(1, 5, True, True), 4, "0100000000000000 05000000 01000000"),
    (wire.GetBefore(1, 9, 5, True), 0, "0100000000000000 0900000000000000 05000000 01000000"),
    (wire.GetRange(1, 2, 5, True), 0, "0100000000000000 02000000 05000000 01000000"),
    (wire.GetBlob(Hash(H)), 0, HEX),
    (wire.AttachFs(99, Hash(b"\xaa" * 32)), 0, "6300000000000000" + "aa" * 32),
    (wire.PutBlob(Hash(H), b"hello blob"), 0, f"{HEX} 0a000000 68656c6c6f20626c6f62"),
]
ANSWERS = [
    (wire.HelloAnswer(5), "0500000000000000 0100"),
    (wire.HeadAnswer(1, 9, 5), "0100000000000000 0900000000000000 05000000"),
    (wire.Appended(1, 9, 5, Hash(H)), f"0100000000000000 0900000000000000 05000000 {HEX}"),
    (wire.TurnsAnswer([]), "00000000"),
    (wire.TurnsAnswer([BARE, ITEM]), f"02000000 {BARE_HEX} {ITEM_HEX}"),
    (wire.BeforeAnswer([ITEM], 9), f"01000000 {ITEM_HEX} 0900000000000000"),
    (wire.RangeAnswer(6, [ITEM]), f"06000000 01000000 {ITEM_HEX}"),
    (wire.BlobAnswer(b"hello blob"), "0a000000 68656c6c6f20626c6f62"),
    (wire.AttachFs(99, Hash(H)), f"6300000000000000 {HEX}"),
    (wire.PutAnswer(Hash(H), True), f"{HEX} 01"),
    (wire.PutAnswer(Hash(H), False), f"{HEX} 00"),
]


@pytest.mark.parametrize(("request_", "flags", "written"), REQUESTS)
def test_a_request_is_laid_out_as_documented(request_: wire.Hello, flags: int, written: str) -> None:
    assert request_.encode() == bytes.fromhex(written)
    assert request_.flags == flags
    assert type(request_).decode(bytes.fromhex(written), flags) == request_


@pytest.mark.parametrize(("answer", "written"), ANSWERS)
def test_an_answer_is_laid_out_as_documented(answer: wire.HelloAnswer, written: str) -> None:
    assert answer.encode() == bytes.fromhex(written)
    assert type(answer).decode(bytes.fromhex(written)) == answer


def test_the_numbers_of_the_messages() -> None:
    numbers = {type(request).__name__: request.number for request, _, _ in REQUESTS}
    assert numbers == {
        "Hello": 1,
        "CreateContext": 2,
        "ForkContext": 3,
        "GetHead": 4,
        "AppendTurn": 5,
        "GetLast": 6,
        "GetBefore": 7,
        "GetRange": 8,
        "GetBlob": 9,
        "AttachFs": 10,
        "PutBlob": 11,
    }


@pytest.mark.parametrize(("request_", "flags", "written"), REQUESTS)
def test_a_request_that_is_cut_off_is_refused_and_what_newer_clients_add_is_not(
    request_: wire.Hello, flags: int, written: str
) -> None:
    payload = bytes.fromhex(written)
    for size in range(len(payload)):
        if size or request_.number != 1:
            with pytest.raises(UsageError):
                type(request_).decode(payload[:size], flags)
    assert type(request_).decode(payload + b"\0", flags | 0x8000) == request_


@pytest.mark.parametrize(("answer", "written"), ANSWERS)
def test_an_answer_that_is_cut_off_is_refused_and_what_newer_services_add_is_not(
    answer: wire.HelloAnswer, written: str
) -> None:
    payload = bytes.fromhex(written)
    for size in range(len(payload)):
        with pytest.raises(UsageError):
            type(answer).decode(payload[:size])
    assert type(answer).decode(payload + b"\0") == answer


def test_the_hello_of_an_older_client_is_empty() -> None:
    assert wire.Hello.decode(b"") == wire.Hello(1, "", b"")


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack("<HH", 1, 0xFFFF) + b"tag",
        struct.pack("<HHI", 1, 0, 0xFFFFFFFF) + b"{}",
        struct.pack("<HH", 1, 1) + b"\xff" + bytes(4),
    ],
)
def test_a_hello_that_lies_is_refused(payload: bytes) -> None:
    with pytest.raises(UsageError):
        wire.Hello.decode(payload)


def test_sizes_that_are_not_there_take_no_memory() -> None:
    with pytest.raises(UsageError):
        wire.AppendTurn.decode(struct.pack("<QQI", 1, 0, 0xFFFFFFFF) + bytes(100))
    with pytest.raises(UsageError):
        wire.TurnsAnswer.decode(struct.pack("<I", 0xFFFFFFFF) + bytes(1000))
    with pytest.raises(UsageError):
        wire.PutBlob.decode(H + struct.pack("<I", 0xFFFFFFFF) + bytes(1000))


def test_what_the_clients_of_cxdb_send() -> None:
    # composed field by field as their sources do
    payload, name = b"\x91\x04", b"cxdb.ConversationItem"
    hashed = blake3(payload).digest()
    sent = struct.pack("<QQ", 1, 0) + struct.pack("<I", len(name)) + name + struct.pack("<I", 3)
    sent += struct.pack("<III", 1, 0, len(payload)) + hashed + struct.pack("<I", len(payload)) + payload
    sent += struct.pack("<I", 0) + b"\xbb" * 32
    read = wire.AppendTurn.decode(sent, 1)
    assert read == wire.AppendTurn(1, 0, name.decode(), 3, 1, 0, 2, Hash(hashed), payload, b"", Hash(b"\xbb" * 32))


@given(
    st.builds(
        wire.AppendTurn,
        U64,
        U64,
        TEXT,
        U32,
        U32,
        U32,
        U32,
        HASH,
        BYTES,
        BYTES,
        st.none() | HASH,
        st.booleans(),
        st.booleans(),
    )
)
def test_appends_come_back(sent: wire.AppendTurn) -> None:
    assert wire.AppendTurn.decode(sent.encode(), sent.flags) == sent


@given(st.builds(wire.Hello, st.integers(0, 0xFFFF), TEXT, BYTES))
def test_hellos_come_back(sent: wire.Hello) -> None:
    assert wire.Hello.decode(sent.encode(), sent.flags) == sent


ITEMS = st.lists(
    st.builds(wire.TurnItem, U64, U64, U32, TEXT, U32, U32, st.just(wire.NONE), U32, HASH, BYTES), max_size=5
)


@given(ITEMS, U64, U32)
def test_turns_come_back(items: list[wire.TurnItem], cursor: int, depth: int) -> None:
    for answer in (
        wire.TurnsAnswer(items),
        wire.BeforeAnswer(items, cursor),
        wire.RangeAnswer(depth, items),
    ):
        assert type(answer).decode(answer.encode()) == answer


@given(st.sampled_from([type(request) for request, _, _ in REQUESTS]), st.binary(max_size=300), st.integers(0, 7))
def test_any_bytes_are_a_request_or_refused(kind: type[wire.Hello], payload: bytes, flags: int) -> None:
    try:
        read = kind.decode(payload, flags)
    except UsageError:
        return
    if payload:
        assert payload.startswith(read.encode()) or kind in (wire.GetLast, wire.GetBefore, wire.GetRange)


@given(st.sampled_from([type(answer) for answer, _ in ANSWERS]), st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_refused(kind: type[wire.HelloAnswer], payload: bytes) -> None:
    try:
        kind.decode(payload)
    except UsageError:
        return
