"""Generated frames at a real service: it answers with ERROR frames or closes, and goes on serving everybody else."""

import os
import shutil
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.ids import Hash
from store.service import frames, wire
from store.service.frames import Decoder, Frame
from store.service.operations import OPERATIONS, STOP
from store.service.protocol import MESSAGES
from store.service.server import Service, serving
from store.service.streaming_operations import STREAMING_OPERATIONS
from store.service.turn_operations import TURN_OPERATIONS
from store.service.watching import WATCH
from store.service.wire_blobs import AttachFs, GetBlob, PutBlob
from store.service.wire_turns import GetBefore, GetLast, GetRange
from store.store import Store
from store.upkeep.fsck import fsck
from tests.conftest import scratch

FRAMES_EACH = 25
EXAMPLES = 100_000 // FRAMES_EACH if os.environ.get("CONVFS_LARGE_TESTS") else 120
# importing and exporting are of files, which are not what is tried here
OURS = [
    operation.number
    for operation in (*OPERATIONS, *TURN_OPERATIONS, *STREAMING_OPERATIONS)
    if operation.number not in (260, 261)
]

SMALL = st.integers(0, 12)
NUMBER = SMALL | st.integers(0, 2**64 - 1)
COUNT = SMALL | st.integers(0, 2**32 - 1)
DATA = st.binary(max_size=40)
HASH = st.sampled_from([Hash(blake3(bytes([number])).digest()) for number in range(4)]) | st.just(Hash(bytes(32)))
TYPE = st.sampled_from(["t.v1", "cxdb.ConversationItem", "jp.event.v1", "claude-code.line.v1", ""])


@st.composite
def appends(draw: st.DrawFn) -> wire.AppendTurn:
    payload = draw(DATA | st.sampled_from([b"{}", b'{"type":"user"}', b"\x81\x01\x02"]))
    return wire.AppendTurn(
        draw(NUMBER),
        draw(NUMBER),
        draw(TYPE),
        draw(COUNT),
        draw(COUNT),
        draw(st.sampled_from([0, 0, 0, 1, 7])),
        draw(st.just(len(payload)) | COUNT),
        draw(st.just(Hash(blake3(payload).digest())) | HASH),
        payload,
        draw(DATA),
        draw(st.none() | HASH),
        draw(st.booleans()),
        draw(st.booleans()),
    )


MESSAGE = st.one_of(
    st.builds(wire.Hello, SMALL, st.just("fuzz"), DATA),
    st.builds(wire.CreateContext, NUMBER),
    st.builds(wire.ForkContext, NUMBER),
    st.builds(wire.GetHead, NUMBER, st.booleans()),
    appends(),
    st.builds(GetLast, NUMBER, COUNT, st.booleans(), st.booleans(), st.booleans()),
    st.builds(GetBefore, NUMBER, NUMBER, COUNT, st.booleans(), st.booleans(), st.booleans()),
    st.builds(GetRange, NUMBER, COUNT, COUNT, st.booleans(), st.booleans(), st.booleans()),
    st.builds(GetBlob, HASH),
    st.builds(AttachFs, NUMBER, HASH),
    st.builds(lambda data: PutBlob(Hash(blake3(data).digest()), data), DATA),
)
JSON = st.sampled_from(
    [
        b"",
        b"{}",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 2000,
        b'{"turn":1}',
        b'{"turn":-1}',
        b'{"turn":18446744073709551616}',
        b'{"context":1}',
        b'{"context":1,"count":5,"seq":9}',
        b'{"context":1,"count":-5,"seq":-9,"before":1}',
        b'{"context":1,"turns":[[1,"e30="],[2,null]]}',
        b'{"context":1,"changes":{"title":"x","labels":7,"name":null}}',
        b'{"base_turn":1,"metadata":{"project":"p","name":"n"}}',
        b'{"context":1,"at":1}',
        b'{"name":"t","version":3}',
        b'{"hash":"AAAA"}',
        b'{"id":1,"version":1}',
        b'{"contexts":[1]}',
        b'{"context":1,"type_name":"t"}',
        b'{"context":1,"number":9}',
        b'{"number":9,"text":"AAAA","at":0}',
    ]
)


@st.composite
def sent(draw: st.DrawFn) -> bytes:
    """Return bytes that are a frame, or look like one."""
    message = draw(MESSAGE)
    flags = draw(st.just(message.flags) | st.integers(0, 0xFFFF))
    payload = message.encode()
    number = message.number
    match draw(st.integers(0, 9)):
        case 0:
            payload = payload[: draw(st.integers(0, len(payload)))]
        case 1:
            payload += draw(DATA)
        case 2:
            at = draw(st.integers(0, max(len(payload) - 1, 0)))
            payload = payload[:at] + draw(st.binary(min_size=1, max_size=4)) + payload[at + 1 :]
        case 3:
            number = draw(st.sampled_from([*MESSAGES, 255, 0, 200, 0xFFFF]))
        case 4:
            number, payload = draw(st.sampled_from([*OURS, WATCH])), draw(JSON)
    return frames.encode(Frame(number, draw(NUMBER), payload, flags))


GARBAGE = st.binary(min_size=1, max_size=60) | st.just(struct.pack("<IHHQ", 0xFFFFFFFF, 5, 0, 1))
STREAM = st.tuples(st.lists(sent(), min_size=FRAMES_EACH, max_size=FRAMES_EACH), st.none() | GARBAGE)


@pytest.fixture(scope="module")
def service() -> Iterator[Path]:
    directory = scratch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(directory))
        with Store.open(directory / "store") as store, serving(Service(store, OPERATIONS)) as place:
            context = store.create_context(metadata={"project": "p", "name": "first"}).context
            for number in range(5):
                store.append(context, bytes([number]), "t.v1")
            yield place.socket
            assert fsck(store) == []
    shutil.rmtree(directory)


def answers(path: Path, stream: bytes, *, half: bool) -> list[Frame]:
    """Send bytes, end, and return all that comes until the service closes."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(os.fspath(path))
        decoder, found = Decoder(), []
        try:
            peer.sendall(stream[: len(stream) // 2] if half else stream)
            peer.shutdown(socket.SHUT_WR)
            while data := peer.recv(1 << 16):
                found += decoder.feed(data)
        except (BrokenPipeError, ConnectionResetError):
            # it closed before all was sent
            return found
        assert decoder.idle
        return found


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(STREAM, st.booleans())
def test_generated_frames_harm_nobody(service: Path, stream: tuple[list[bytes], bytes | None], half: bool) -> None:
    some, garbage = stream
    # whoever watches is answered for ever
    some = [frame for frame in some if int.from_bytes(frame[4:6], "little") not in (WATCH, STOP.number)]
    whole = b"".join(some) + (garbage or b"")
    for frame in answers(service, whole, half=half):
        assert frame.msg_type == frames.ERROR or frame.msg_type in MESSAGES or frame.msg_type in (1, *OURS)
        if frame.msg_type == frames.ERROR:
            code, size = struct.unpack_from("<II", frame.payload)
            assert code in (404, 409, 413, 422), frame.payload
            assert len(frame.payload) == 8 + size
    probe = answers(service, frames.encode(Frame(4, 77, wire.GetHead(1).encode())), half=False)
    assert [(frame.msg_type, frame.req_id) for frame in probe] == [(4, 77)]
