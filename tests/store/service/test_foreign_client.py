"""A client that knows the protocol from its table alone: what it appends is read in the mount, whatever it is.

Nothing of the service's own code is used to talk to it: a socket and ``struct`` are enough.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
import zstandard
from blake3 import blake3

from fusefs.operations import Operations
from fusefs.text.render import FileRenderer
from fusefs.tree.tree import Tree
from store.service.server import Service, serving
from store.store import Store
from tests.fusefs.tree.test_appended_by_others import content

ITEM = "cxdb.ConversationItem"
USER, ANSWER = (
    {
        "1": "user_input",
        "2": "complete",
        "3": 1_772_712_000_000,
        "10": {"1": "Is it raining?"},
        "30": {"1": "some-client", "2": "The weather"},
    },
    {
        1: "assistant_turn",
        2: "complete",
        3: 1_772_712_001_000,
        11: {1: "I look.", 2: [{1: "call_1", 2: "look", 3: '{"where":"outside"}', 8: {1: "Rain.", 3: True}}]},
    },
)


class Foreign:
    """APPEND_TURN and GET_LAST, as their rows in the table say."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(os.fspath(path))
        self.requests = 0

    def ask(self, message: int, payload: bytes) -> bytes:
        self.requests += 1
        self.socket.sendall(struct.pack("<IHHQ", len(payload), message, 0, self.requests) + payload)
        size, answered, flags, req_id = struct.unpack("<IHHQ", self.take(16))
        body = self.take(size)
        assert (answered, flags, req_id) == (message, 0, self.requests), body
        return body

    def take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            some = self.socket.recv(size - len(data))
            assert some
            data += some
        return data

    def append(self, context: int, name: str, payload: bytes, *, encoding: int, compressed: bool = False) -> int:
        sent = zstandard.ZstdCompressor().compress(payload) if compressed else payload
        kind = name.encode()
        fields = struct.pack("<QQI", context, 0, len(kind)) + kind
        fields += struct.pack("<IIII", 3, encoding, compressed, len(payload)) + blake3(payload).digest()
        fields += struct.pack("<I", len(sent)) + sent + struct.pack("<I", 0)
        told, turn, _depth = struct.unpack_from("<QQI", answer := self.ask(5, fields))
        assert told == context
        assert answer[20:] == blake3(payload).digest()
        return turn

    def last(self, context: int) -> list[tuple[int, str, int, int, bytes]]:
        data = self.ask(6, struct.pack("<QII", context, 64, 1))
        (count,), at, found = struct.unpack_from("<I", data), 4, []
        for _ in range(count):
            turn, _parent, _depth, size = struct.unpack_from("<QQII", data, at)
            name = data[at + 24 : at + 24 + size].decode()
            at += 24 + size
            version, encoding, compression, raw, digest, size = struct.unpack_from("<IIII32sI", data, at)
            payload = data[at + 52 : at + 52 + size]
            assert (compression, raw, digest) == (0, len(payload), blake3(payload).digest())
            at += 52 + size
            found.append((turn, name, version, encoding, payload))
        assert at == len(data)
        return found


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as opened:
        yield opened


@pytest.fixture
def client(store: Store) -> Iterator[Foreign]:
    with serving(Service(store, ())) as place:
        client = Foreign(place.socket)
        with client.socket:
            yield client


def place_of(store: Store, context: int) -> str:
    """Return where a context is, once it has been given a name."""
    end = time.monotonic() + 20
    while not (entry := store.catalogue.entry(context)).name:
        assert time.monotonic() < end
        time.sleep(0.005)
    return f"{entry.project}/{entry.name}"


def test_items_of_conversations_are_read_as_events(store: Store, client: Foreign) -> None:
    (context,) = struct.unpack_from("<Q", client.ask(2, bytes(8)))
    sent = [msgpack.packb(USER), msgpack.packb(ANSWER)]
    turns = [client.append(context, ITEM, one, encoding=1, compressed=at == 1) for at, one in enumerate(sent)]
    assert client.last(context) == [(turn, ITEM, 3, 1, one) for turn, one in zip(turns, sent, strict=True)]
    place = place_of(store, context)
    assert place.startswith("some-client/")
    assert place.endswith("-the-weather")
    operations = Operations(Tree(store))
    asked = content(operations, f"conversations/{place}/events/00001-user.md").decode()
    assert asked.endswith("---\nIs it raining?\n")
    transcript = content(operations, f"transcripts/{place}.md").decode()
    for words in ("Is it raining?", "I look.", "outside", "Rain."):
        assert words in transcript


@pytest.mark.parametrize(
    ("encoding", "payload", "shown"),
    [
        (7, b'{"any":["thing",1.50]}', '"any": ['),
        (1, msgpack.packb({"any": ["thing", 1]}), '"any": ['),
        (8, b"\x00\x01\xfe\xff", "00 01 fe ff"),
        (0, b"\x08\x96\x01", "08 96 01"),
        (4711, b"\xf5\x00", "f5 00"),
        (7, b"{not json", "{not json"),
    ],
)
def test_any_other_type_is_shown_as_what_it_is(
    store: Store, client: Foreign, encoding: int, payload: bytes, shown: str
) -> None:
    (context,) = struct.unpack_from("<Q", client.ask(2, bytes(8)))
    turn = client.append(context, "com.example.Thing", payload, encoding=encoding)
    assert client.last(context) == [(turn, "com.example.Thing", 3, encoding, payload)]
    place = place_of(store, context)
    operations = Operations(Tree(store))
    assert shown in content(operations, f"transcripts/{place}.md").decode()
    assert shown in content(operations, f"conversations/{place}/events/00001-note.md").decode()
