"""The wire protocol on a real service with a real store: every message as a client of CXDB sends it."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from blake3 import blake3

from store.commit.request import ContextHead
from store.events.event import DELETED
from store.ids import Hash, hash_bytes
from store.service import frames, wire
from store.service.frames import Decoder, Frame
from store.service.operations import OPERATIONS
from store.service.plane import Plane
from store.service.server import Service, serving
from store.service.wire import (
    AttachFs,
    BeforeAnswer,
    BlobAnswer,
    GetBefore,
    GetBlob,
    GetLast,
    GetRange,
    PutAnswer,
    PutBlob,
    RangeAnswer,
    TurnsAnswer,
)
from store.store import Store

TREE = b"a tree"
ROOT = hash_bytes(TREE)


class Peer:
    """A client that knows frames, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(os.fspath(path))
        self.decoder = Decoder()
        self.next = 0

    def send(self, number: int, payload: bytes = b"", flags: int = 0) -> int:
        self.next += 1
        self.socket.sendall(frames.encode(Frame(number, self.next, payload, flags)))
        return self.next

    def receive(self) -> Frame:
        while (frame := self.decoder.next()) is None:
            data = self.socket.recv(65536)
            assert data, "closed"
            self.decoder.add(data)
        return frame

    def ask(self, message: object, number: int | None = None) -> bytes:
        req_id = self.send(message.number, message.encode(), message.flags)
        answer = self.receive()
        assert answer.req_id == req_id
        assert answer.msg_type == message.number, answer.payload
        assert answer.flags == 0
        return answer.payload

    def refused(self, message: object) -> tuple[int, str]:
        req_id = self.send(message.number, message.encode(), message.flags)
        answer = self.receive()
        assert (answer.req_id, answer.msg_type) == (req_id, frames.ERROR)
        code, size = struct.unpack_from("<II", answer.payload)
        assert len(answer.payload) == 8 + size
        return code, answer.payload[8:].decode()


@pytest.fixture
def store(tmp_path: Path, runtime_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def path(store: Store) -> Iterator[Path]:
    with serving(Service(store, OPERATIONS)) as place:
        yield place.socket


@pytest.fixture
def peer(path: Path) -> Iterator[Peer]:
    peer = Peer(path)
    with peer.socket:
        yield peer


def append(payload: bytes, context: int = 1, /, **changes: object) -> wire.AppendTurn:
    fields: dict[str, object] = {
        "context": context,
        "parent": 0,
        "type_name": "test.v1",
        "type_version": 3,
        "encoding": 1,
        "compression": 0,
        "raw_size": len(payload),
        "hash": blake3(payload).digest(),
        "payload": payload,
    }
    return wire.AppendTurn(**(fields | changes))


def appended(peer: Peer, message: wire.AppendTurn) -> wire.Appended:
    return wire.Appended.decode(peer.ask(message))


def head(peer: Peer, context: int = 1) -> wire.HeadAnswer:
    return wire.HeadAnswer.decode(peer.ask(wire.GetHead(context)))


def last(peer: Peer, limit: int = 10, *, include: bool = True, context: int = 1) -> list[bytes]:
    answer = TurnsAnswer.decode(peer.ask(GetLast(context, limit, include)))
    return [item.payload for item in answer.items]


@pytest.fixture
def context(peer: Peer) -> int:
    answer = wire.HeadAnswer.decode(peer.ask(wire.CreateContext(0)))
    assert (answer.turn, answer.depth) == (0, 0)
    return answer.context


def test_hello(peer: Peer) -> None:
    answer = wire.HelloAnswer.decode(peer.ask(wire.Hello(1, "client")))
    assert answer.version == 1
    assert answer.session > 0


def test_what_is_appended_is_read_again_as_it_was_sent(peer: Peer, context: int) -> None:
    peer.ask(PutBlob(ROOT, TREE))
    first = appended(peer, append(b"\x91\x01", context))
    second = appended(peer, append(b"\x91\x02", context, fs_root=ROOT))
    assert (first.depth, second.depth) == (0, 1)
    assert first == wire.Appended(context, first.turn, 0, Hash(blake3(b"\x91\x01").digest()))
    assert head(peer, context) == wire.HeadAnswer(context, second.turn, 1)
    items = TurnsAnswer.decode(peer.ask(GetLast(context, 10, True))).items
    assert [(item.turn, item.parent, item.depth) for item in items] == [
        (first.turn, 0, 0),
        (second.turn, first.turn, 1),
    ]
    for item, payload in zip(items, (b"\x91\x01", b"\x91\x02"), strict=True):
        assert (item.type_name, item.type_version, item.encoding, item.compression) == ("test.v1", 3, 1, 0)
        assert (item.raw_size, item.hash, item.payload) == (2, blake3(payload).digest(), payload)


def test_without_payloads_only_these_are_missing(peer: Peer, context: int) -> None:
    appended(peer, append(b"\x91\x01", context))
    with_payload = TurnsAnswer.decode(peer.ask(GetLast(context, 10, True))).items[0]
    without = TurnsAnswer.decode(peer.ask(GetLast(context, 10, False))).items[0]
    assert without.payload == b""
    assert without.raw_size == 2
    assert with_payload.payload == b"\x91\x01"


def test_any_type_and_encoding_is_taken_and_any_bytes(peer: Peer, context: int) -> None:
    appended(peer, append(b"", context, type_name="", type_version=0, encoding=0))
    appended(peer, append(b"\xff\x00", context, type_name="ä/b c", type_version=65535, encoding=65535))
    items = TurnsAnswer.decode(peer.ask(GetLast(context, 10, True))).items
    assert [(item.type_name, item.type_version, item.encoding, item.payload) for item in items] == [
        ("", 0, 0, b""),
        ("ä/b c", 65535, 65535, b"\xff\x00"),
    ]


def test_a_compressed_payload_is_stored_as_what_it_was(peer: Peer, context: int) -> None:
    payload = b"again and again " * 100
    for number, frame in enumerate(
        (
            zstandard.ZstdCompressor().compress(payload),
            zstandard.ZstdCompressor(write_content_size=False).compress(payload),
        )
    ):
        body = append(payload, context, compression=1, payload=frame, key=bytes([number]))
        assert appended(peer, body).hash == blake3(payload).digest()
    assert last(peer, context=context) == [payload, payload]


@pytest.mark.parametrize(
    "changes",
    [
        {"hash": Hash(bytes(32))},
        {"raw_size": 6},
        {"compression": 2},
        {"compression": 1},
        {"compression": 1, "payload": zstandard.ZstdCompressor().compress(b"other"), "raw_size": 5},
        {"compression": 1, "payload": zstandard.ZstdCompressor().compress(b"payload" * 1000), "raw_size": 7},
        {"type_version": 65536},
        {"fs_root": ROOT},
        {"type_name": "x" * 5000},
    ],
)
def test_what_is_not_what_it_says_is_refused_and_nothing_is_stored(
    peer: Peer, context: int, changes: dict[str, object]
) -> None:
    assert peer.refused(append(b"payload", context, **changes))[0] == (404 if "fs_root" in changes else 422)
    assert head(peer, context).turn == 0
    assert peer.refused(GetBlob(Hash(blake3(b"payload").digest())))[0] == 404


def test_a_payload_that_claims_to_be_huge_is_too_large(peer: Peer, context: int) -> None:
    message = append(b"x", context, compression=1, raw_size=0xFFFFFFFF)
    assert peer.refused(message)[0] == 413


def test_what_is_not_there_is_not_found(peer: Peer, context: int) -> None:
    for message in (
        wire.GetHead(99),
        wire.CreateContext(99),
        wire.ForkContext(99),
        append(b"x", 99),
        append(b"x", 0),
        append(b"x", 2**63),
        append(b"x", context, parent=99),
        append(b"x", context, parent=2**64 - 1),
        GetLast(99, 1, False),
        GetBefore(context, 99, 1, False),
        GetRange(99, 0, 1, False),
        GetBlob(Hash(bytes(32))),
        AttachFs(99, ROOT),
        wire.GetHead(2**64 - 1),
        wire.ForkContext(2**64 - 1),
        GetLast(2**64 - 1, 1, True),
    ):
        assert peer.refused(message)[0] == 404, message
    assert head(peer, context).turn == 0


def test_a_fork_begins_at_any_turn(peer: Peer, context: int, store: Store) -> None:
    turns = [appended(peer, append(bytes([number]), context)).turn for number in range(4)]
    fork = wire.HeadAnswer.decode(peer.ask(wire.ForkContext(turns[1])))
    assert (fork.turn, fork.depth) == (turns[1], 1)
    appended(peer, append(b"other", fork.context))
    assert last(peer, context=fork.context) == [b"\0", b"\1", b"other"]
    assert last(peer, context=context) == [b"\0", b"\1", b"\2", b"\3"]
    again = wire.HeadAnswer.decode(peer.ask(wire.ForkContext(fork.turn)))
    of_fork = wire.HeadAnswer.decode(peer.ask(wire.ForkContext(head(peer, fork.context).turn)))
    based = wire.HeadAnswer.decode(peer.ask(wire.CreateContext(turns[0])))
    assert last(peer, context=based.context) == [b"\0"]
    known = {one.id: one.metadata.get("forked_from") for one in map(store.catalogue.entry, range(1, based.context + 1))}
    assert known == {
        context: None,
        fork.context: {"context": context, "turn": turns[1]},
        again.context: {"context": context, "turn": turns[1]},
        of_fork.context: {"context": fork.context, "turn": turns[-1] + 1},
        based.context: None,
    }
    empty = wire.HeadAnswer.decode(peer.ask(wire.ForkContext(0)))
    assert empty == wire.HeadAnswer(based.context + 1, 0, 0)


def test_an_explicit_parent_branches(peer: Peer, context: int) -> None:
    turns = [appended(peer, append(bytes([number]), context)).turn for number in range(3)]
    branched = appended(peer, append(b"other", context, parent=turns[0]))
    assert branched.depth == 1
    assert head(peer, context) == wire.HeadAnswer(context, branched.turn, 1)
    assert last(peer, context=context) == [b"\0", b"other"]


def test_an_expected_head_that_is_another_is_a_conflict(peer: Peer, context: int) -> None:
    first = appended(peer, append(b"1", context, parent=0, expects_head=True)).turn
    second = appended(peer, append(b"2", context, parent=first, expects_head=True)).turn
    assert peer.refused(append(b"3", context, parent=first, expects_head=True))[0] == 409
    assert peer.refused(append(b"3", context, parent=0, expects_head=True))[0] == 409
    assert head(peer, context).turn == second


def test_the_same_key_gives_the_same_turn(peer: Peer, context: int) -> None:
    first = appended(peer, append(b"1", context, key=b"k"))
    assert appended(peer, append(b"1", context, key=b"k")) == first
    assert peer.refused(append(b"2", context, key=b"k"))[0] == 409
    other = wire.HeadAnswer.decode(peer.ask(wire.CreateContext(0))).context
    assert appended(peer, append(b"2", other, key=b"k")).turn != first.turn
    # a fork goes on from the same turns, and has keys of its own
    fork = wire.HeadAnswer.decode(peer.ask(wire.ForkContext(first.turn))).context
    in_fork = appended(peer, append(b"1", fork, key=b"k"))
    assert (in_fork.turn != first.turn, in_fork.depth) == (True, 1)
    assert appended(peer, append(b"1", fork, key=b"k")) == in_fork
    assert last(peer, context=context) == [b"1"]


def test_pages_backwards_from_the_head_to_the_root(peer: Peer, context: int) -> None:
    for number in range(10):
        appended(peer, append(bytes([number]), context))
    newest = TurnsAnswer.decode(peer.ask(GetLast(context, 3, True))).items
    pages = [[item.payload[0] for item in newest]]
    cursor = newest[0].turn
    while cursor:
        answer = BeforeAnswer.decode(peer.ask(GetBefore(context, cursor, 3, True)))
        pages.append([item.payload[0] for item in answer.items])
        assert answer.cursor in (0, answer.items[0].turn)
        cursor = answer.cursor
    assert pages == [[7, 8, 9], [4, 5, 6], [1, 2, 3], [0]]
    empty = BeforeAnswer.decode(peer.ask(GetBefore(context, newest[0].turn, 0, True)))
    assert empty.items == []


def test_ranges_by_depth(peer: Peer, context: int) -> None:
    assert RangeAnswer.decode(peer.ask(GetRange(context, 0, 5, True))) == RangeAnswer(0, [])
    for number in range(6):
        appended(peer, append(bytes([number]), context))
    for start, limit, expected in ((0, 2, [0, 1]), (2, 3, [2, 3, 4]), (4, 9, [4, 5]), (6, 1, []), (2**32 - 1, 9, [])):
        answer = RangeAnswer.decode(peer.ask(GetRange(context, start, limit, True)))
        assert answer.head_depth == 5
        assert [item.payload[0] for item in answer.items] == expected
    assert len(RangeAnswer.decode(peer.ask(GetRange(context, 0, 2**32 - 1, False))).items) == 6


def test_the_latest_has_edits_and_lacks_what_was_deleted(peer: Peer, context: int, store: Store) -> None:
    turns = [appended(peer, append(bytes([number]), context)).turn for number in range(4)]
    store.contexts.patch(context, {turns[1]: b"one", turns[2]: DELETED})
    as_appended = TurnsAnswer.decode(peer.ask(GetLast(context, 9, True))).items
    assert [(item.turn, item.payload) for item in as_appended] == [(turns[at], bytes([at])) for at in range(4)]
    latest = TurnsAnswer.decode(peer.ask(GetLast(context, 9, True, True))).items
    assert [(item.turn, item.payload) for item in latest] == [(turns[0], b"\0"), (turns[1], b"one"), (turns[3], b"\3")]
    assert latest[1].hash == blake3(b"one").digest()
    assert head(peer, context).turn == turns[3]
    answer = BeforeAnswer.decode(peer.ask(GetBefore(context, turns[3], 1, True, True)))
    assert (answer.items, answer.cursor) == ([], turns[2])
    assert [item.payload for item in RangeAnswer.decode(peer.ask(GetRange(context, 1, 2, True, True))).items] == [
        b"one"
    ]


@pytest.mark.of_one_machine  # a replica's follower holds that lock, too
def test_what_is_read_is_of_one_head_though_turns_are_appended_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = store.contexts.create().context
    head = store.writer.head

    def then_append(context_id: int) -> ContextHead:
        found = head(context_id)
        # to append takes the head, too
        if len(appended) < 20 and not store.writer.commit_lock.locked():
            appended.append(store.contexts.append(context_id, b"%d" % len(appended), "t").turn_id)
        return found

    appended: list[int] = []
    monkeypatch.setattr(store.writer, "head", then_append)
    plane = Plane(store)
    for there in range(0, 10, 2):
        last = TurnsAnswer.decode(b"".join(plane.perform(GetLast(context, 1000, False))))
        assert [item.turn for item in last.items] == appended[:there]
        ranged = RangeAnswer.decode(b"".join(plane.perform(GetRange(context, 0, 1000, False))))
        assert [item.turn for item in ranged.items] == appended[: there + 1]
        assert ranged.head_depth == there


def test_blobs(peer: Peer, context: int) -> None:
    data = os.urandom(300_000)
    digest = Hash(blake3(data).digest())
    assert PutAnswer.decode(peer.ask(PutBlob(digest, data))) == PutAnswer(digest, True)
    assert PutAnswer.decode(peer.ask(PutBlob(digest, data))) == PutAnswer(digest, False)
    assert BlobAnswer.decode(peer.ask(GetBlob(digest))).data == data
    wrong = Hash(bytes(32))
    assert peer.refused(PutBlob(wrong, data))[0] == 422
    assert peer.refused(GetBlob(wrong))[0] == 404


def test_a_frame_may_be_as_large_as_it_may_be(peer: Peer, context: int) -> None:
    data = bytes(frames.MAX_PAYLOAD - 36)
    put = PutBlob(Hash(blake3(data).digest()), data)
    assert len(put.encode()) == frames.MAX_PAYLOAD
    assert PutAnswer.decode(peer.ask(put)) == PutAnswer(put.hash, True)
    assert BlobAnswer.decode(peer.ask(GetBlob(put.hash))).data == data


def test_a_payload_is_a_blob(peer: Peer, context: int) -> None:
    assert BlobAnswer.decode(peer.ask(GetBlob(appended(peer, append(b"text", context)).hash))).data == b"text"


def test_a_tree_of_files_is_attached(peer: Peer, context: int, store: Store) -> None:
    turn = appended(peer, append(b"1", context)).turn
    peer.ask(PutBlob(ROOT, TREE))
    assert AttachFs.decode(peer.ask(AttachFs(turn, ROOT))) == AttachFs(turn, ROOT)
    assert store.contexts.fs_root(turn) == ROOT
    also = appended(peer, append(b"2", context, fs_root=ROOT)).turn
    assert store.contexts.fs_root(also) == ROOT


@pytest.mark.parametrize("encoding", [65535, 65536, 70_000, (1 << 32) - 1])
def test_encodings_of_32_bits_pass_through(peer: Peer, context: int, store: Store, encoding: int) -> None:
    made = appended(peer, append(b"one", context, encoding=encoding))
    store.contexts.patch(context, {made.turn: b"other"})
    for flag in (False, True):
        [item] = TurnsAnswer.decode(peer.ask(GetLast(context, 1, True, latest=flag))).items
        assert (item.encoding, item.type_version, item.payload) == (encoding, 3, b"other" if flag else b"one")
    assert store.turns.get(made.turn).edited_ms == 0


def test_a_connection_sees_what_it_has_written(peer: Peer, context: int, store: Store) -> None:
    """None of the requests waits for the answer to the one before it, and a large append takes a while."""
    sizes = [10, store.writer.journalled_bytes + 1, 20, 5 << 20, 30]
    for number, size in enumerate(sizes):
        tree = b"tree %d" % number
        put = PutBlob(hash_bytes(tree), tree)
        peer.send(put.number, put.encode())
        message = append(bytes([number]) * size, context, fs_root=hash_bytes(tree) if number % 2 else None)
        peer.send(message.number, message.encode(), message.flags)
        for asked in (wire.GetHead(context), GetLast(context, 1, False)):
            peer.send(asked.number, asked.encode())
    answers = sorted((peer.receive() for _ in range(4 * len(sizes))), key=lambda frame: frame.req_id)
    assert all(frame.msg_type != frames.ERROR for frame in answers), answers
    for number in range(len(sizes)):
        _put, made, seen, shown = answers[4 * number : 4 * number + 4]
        turn = wire.Appended.decode(made.payload).turn
        # perhaps what was sent after it, too
        assert wire.HeadAnswer.decode(seen.payload).turn >= turn
        assert [item.turn >= turn for item in TurnsAnswer.decode(shown.payload).items] == [True]


def test_appends_of_one_connection_are_done_in_order_however_large_they_are(peer: Peer, context: int) -> None:
    payloads = [bytes([number]) * (2_000_000 if number % 3 == 0 else 100) for number in range(9)]
    for payload in payloads:
        peer.send(5, append(payload, context).encode())
    answers = [peer.receive() for _ in payloads]
    assert [frame.msg_type for frame in answers] == [5] * 9
    assert sorted(frame.req_id for frame in answers) == list(range(2, 11))
    assert last(peer, context=context) == payloads


def test_many_requests_in_flight_are_all_answered(peer: Peer, context: int) -> None:
    expected = {peer.send(5, append(b"%d" % number, context).encode()): number for number in range(1000)}
    turns = {}
    for _ in range(1000):
        frame = peer.receive()
        turns[expected.pop(frame.req_id)] = wire.Appended.decode(frame.payload).turn
    assert not expected
    assert [turns[number] for number in range(1000)] == sorted(turns.values())
    assert last(peer, 1000, context=context) == [b"%d" % number for number in range(1000)]


def test_an_answer_that_fits_no_frame_is_too_large(peer: Peer, context: int) -> None:
    for number in range(5):
        appended(peer, append(bytes([number]) * (15 << 20), context))
    assert peer.refused(GetLast(context, 5, True))[0] == 413
    assert len(TurnsAnswer.decode(peer.ask(GetLast(context, 5, False))).items) == 5
    assert len(last(peer, 2, context=context)) == 2


def test_clients_that_read_nothing_hold_up_no_others(path: Path, peer: Peer, context: int) -> None:
    appended(peer, append(bytes(30 << 20), context))
    silent = [Peer(path) for _ in range(6)]
    for one in silent:
        for _ in range(20):
            one.send(6, GetLast(context, 1, True).encode())
    assert head(peer, context).depth == 0
    appended(peer, append(b"x", context))
    assert last(peer, 1, context=context) == [b"x"]
    # a large answer waits for its turn, and comes when one of those has gone
    peer.send(6, GetLast(context, 2, True).encode())
    for one in silent:
        one.socket.close()
    assert len(TurnsAnswer.decode(peer.receive().payload).items) == 2


def test_one_connection_speaks_both_protocols(peer: Peer, context: int) -> None:
    peer.send(256, b"{}")
    assert b'"pid"' in peer.receive().payload
    assert head(peer, context).turn == 0


def test_appends_of_a_client_that_leaves_are_made_all_the_same(path: Path, peer: Peer, context: int) -> None:
    sent = [Frame(5, number, append(bytes([number]), context).encode()) for number in range(20)]
    leaving = Peer(path)
    # in one piece: what a client says is not read when it cannot be answered any more
    leaving.socket.sendall(b"".join(map(frames.encode, sent)))
    leaving.socket.close()
    end = time.monotonic() + 20
    while head(peer, context).depth < 19:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert last(peer, 20, context=context) == [bytes([number]) for number in range(20)]


def test_frames_that_never_end_hold_up_no_others(path: Path, peer: Peer, context: int) -> None:
    started = [Peer(path) for _ in range(6)]
    for one in started:
        # two megabytes of a frame that says it has sixty, or as many of them as are taken
        one.socket.setblocking(False)
        one.socket.send(struct.pack("<IHHQ", 60 << 20, 11, 0, 1) + bytes(2 << 20))
    appended(peer, append(b"small", context))
    assert last(peer, context=context) == [b"small"]
    for one in started:
        one.socket.close()
    assert appended(peer, append(bytes(5 << 20), context)).depth == 1
