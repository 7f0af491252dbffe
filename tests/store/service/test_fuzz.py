"""Generated frames, at the state machine and at a real daemon: they are answered, by ERROR frames or not, or the
connection is closed; and everybody else goes on being served."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fusefs.daemon.calls import ALL_OPERATIONS
from store.errors import TooLarge, UsageError
from store.ids import hash_bytes
from store.service import frames
from store.service.calls import CALLS, watch
from store.service.frames import Decoder, Frame
from store.service.plane import payload_of
from store.service.protocol import (
    MESSAGES,
    MOST_IN_FLIGHT,
    MOST_WAITING_BYTES,
    Connection,
    State,
)
from store.service.protocol import (
    Request as Asked,
)
from store.service.wire import AppendTurn
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.service.daemon import daemon
from tests.store.service.generated import Source, ending, frame, pieces, request

TIMES = 50 if os.environ.get("CONVFS_LARGE_TESTS") else 1
FRAMES = 20_000 * TIMES
EACH = 125
EXAMPLES = FRAMES * 11 // 10 // EACH
SENT_FRAMES = 2_000 * TIMES
SENT_EACH = 40
BYTES_OF_CHOICES = 32
"""So many for each frame: most need fewer."""
MOST_MEMORY = 256 << 20
"""The memory that the daemon may take beside what it begins with; a frame has 64 MiB at most."""

OURS = [
    (call.number, call.params.__struct_encode_fields__)
    # importing and exporting are of files, which are not what is tried here; nor are outputs and what is delivered
    for call in (*(one.loaded() for one in ALL_OPERATIONS), *CALLS)
    if call.number not in (260, 261) and not 300 <= call.number < 400 and not 440 <= call.number < 450
]
WATCH = watch.number
NUMBERS = frozenset(number for number, _ in OURS)
CODES = (frames.NOT_FOUND, frames.CONFLICT, frames.TOO_LARGE, frames.INVALID)

# what is chosen is one lump of bytes: to explain a failure by its parts would take long, and shrinking is enough
FUZZ = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
}

# a daemon has changed with each try: what failed once need not fail again, and shrinking finds no end
FUZZ_DAEMON = FUZZ | {"phases": [Phase.explicit, Phase.reuse, Phase.generate]}


def error_code(answer: Frame) -> int:
    """Return the code of an ERROR frame, which is whole."""
    code, size = struct.unpack_from("<II", answer.payload)
    assert len(answer.payload) == 8 + size
    bytes(answer.payload[8:]).decode()
    return int(code)


# -- the state machine -------------------------------------------------------------------------------------------------


class Peer:
    """The two sides of a connection without any between them: what one sends, and how the other answers it."""

    def __init__(self, source: Source, token: str) -> None:
        self.source = source
        self.connection = Connection(7, NUMBERS, token)
        self.owed: list[Asked] = []
        self.answers = Counter[int]()
        self.failed = Counter[int]()
        self._decoder = Decoder()

    def send(self, data: bytes) -> None:
        """Send some bytes, once they are taken; what is sent to one that is closed is lost."""
        while not self.connection.reads:
            if not self._listens:
                return
            self.work()
        self.connection.receive(data)
        self.work()

    def end(self) -> None:
        if self._listens:
            self.connection.receive(b"")
        while self.owed or self.connection.waiting or self._listens:
            self.work()
        assert self._decoder.idle

    @property
    def _listens(self) -> bool:
        return self.connection.state in (State.GREETING, State.OPEN)

    def work(self) -> None:
        """Have the requests that are there answered, but for some of them, and take some of the answers."""
        connection, source = self.connection, self.source
        for asked in connection.requests():
            self.owed.append(asked)
            if isinstance(asked.message, AppendTurn):
                with contextlib.suppress(UsageError, TooLarge):
                    assert hash_bytes(payload_of(asked.message)) == asked.message.hash
            elif asked.message is None:
                assert asked.number in NUMBERS
        assert connection.in_flight == len(self.owed) <= MOST_IN_FLIGHT
        for _ in range(min(len(self.owed), 1 + source.below(4))):
            asked = self.owed.pop(source.below(len(self.owed)))
            match source.below(4):
                case 0:
                    connection.fail(asked.req_id, frames.NOT_FOUND, "none")
                case 1:
                    connection.item(asked.req_id, asked.number, b"an item")
                    size = source.pick((0, 0, 0, 3000, 3000, 3000, 100_000))
                    connection.answer(asked.req_id, asked.number, [b"whole", memoryview(bytes(size))])
                case _:
                    connection.answer(asked.req_id, asked.number, b"whole")
        assert connection.waiting < MOST_WAITING_BYTES + (1 << 20)
        waiting = b"".join(connection.to_send())
        taken = waiting[: source.below(len(waiting) + 1) if source.below(2) else len(waiting)]
        connection.sent(len(taken))
        for answer in self._decoder.feed(taken):
            self._take(answer)

    def _take(self, answer: Frame) -> None:
        if answer.flags == frames.MORE:
            return
        assert answer.flags == 0
        if answer.msg_type == frames.ERROR:
            assert error_code(answer) in CODES
            self.failed[answer.req_id] += 1
        elif answer.msg_type == 1:
            assert answer.payload == struct.pack("<QH", 7, 1)
        else:
            assert answer.msg_type in MESSAGES or answer.msg_type in NUMBERS
            assert answer.payload[:5] == b"whole"
        self.answers[answer.req_id] += 1


def whole(stream: bytes) -> list[int]:
    """Return the req_ids of the frames of a stream up to one that says that it is too large, that one's the last."""
    found, at = [], 0
    while at + 16 <= len(stream):
        size, _number, _flags, req_id = struct.unpack_from("<IHHQ", stream, at)
        at += 16 + size
        if size > frames.MAX_PAYLOAD or at <= len(stream):
            found.append(req_id)
        if size > frames.MAX_PAYLOAD:
            break
    return found


def test_generated_frames_are_each_answered_once() -> None:
    count = Counter[str]()
    size = EACH * BYTES_OF_CHOICES

    @settings(max_examples=EXAMPLES, **FUZZ)
    @given(st.binary(min_size=size, max_size=size))
    def answered(choices: bytes) -> None:
        source = Source(choices)
        token = source.pick(("secret", *[""] * 9))
        sent = [(1, 0, b"\1\0\0\0\x12\0\0\0" + b'{"token":"secret"}')] * bool(token)
        sent += [request(source, OURS) for _ in range(EACH)]
        stream = b"".join(frame(number, flags, at, payload) for at, (number, flags, payload) in enumerate(sent))
        stream += ending(source)
        peer = Peer(source, token)
        for piece in pieces(source, stream):
            peer.send(piece)
        peer.end()
        assert peer.connection.state is State.CLOSED
        total = peer.answers.total()
        expected = whole(stream)
        if token and total < len(expected):
            # a later HELLO was without the token: that ends it
            expected = expected[:total]
            assert peer.failed[expected[-1]]
        assert peer.answers == Counter(expected)
        count["frames"] += total
        count["errors"] += peer.failed.total()

    answered()
    assert count["frames"] >= FRAMES
    # neither all is refused nor nothing
    assert count["frames"] // 4 < count["errors"] < count["frames"] * 3 // 4


# -- a daemon ----------------------------------------------------------------------------------------------------------


class Bystander(threading.Thread):
    """Somebody who appends and reads all the while, on a connection of their own."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__()
        self.rounds = 0
        self.slowest = 0.0
        self.error: Exception | None = None
        self._peer = peer
        self._over = False
        # its own has a number that hardly anybody else guesses; made before anybody else makes any
        while (context := self._ask(2, bytes(8))[:8]) != struct.pack("<Q", 23):
            pass
        self._context = context

    def run(self) -> None:
        try:
            with self._peer:
                while not self._over:
                    began = time.monotonic()
                    payload = b"%d" % self.rounds
                    fields = struct.pack("<QI", 0, 1) + b"t" + struct.pack("<IIII", 0, 8, 0, len(payload))
                    fields += hash_bytes(payload) + struct.pack("<I", len(payload)) + payload + bytes(4)
                    turn, depth = struct.unpack_from("<QI", self._ask(5, self._context + fields), 8)
                    assert depth == self.rounds
                    assert self._ask(4, self._context) == self._context + struct.pack("<QI", turn, depth)
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.rounds += 1
        except Exception as error:
            self.error = error

    def end(self) -> None:
        self._over = True
        self.join()
        if self.error:
            raise self.error

    def _ask(self, number: int, payload: bytes) -> bytes:
        self._peer.sendall(frame(number, 0, self.rounds, payload))
        decoder = Decoder()
        while (answer := decoder.next()) is None:
            data = self._peer.recv(1 << 16)
            assert data, "closed"
            decoder.add(data)
        assert (answer.msg_type, answer.req_id) == (number, self.rounds), bytes(answer.payload)
        return bytes(answer.payload)


def answers(peer: socket.socket, sent: list[bytes], endless: set[int]) -> list[Frame]:
    """Send bytes; return what answers the frames that they are.

    That is all until the connection is closed, unless some requests, by their req_ids, are answered without end.
    """
    left = set(whole(b"".join(sent))) - endless
    ends = not endless
    decoder, found = Decoder(), list[Frame]()
    try:
        for piece in sent:
            peer.sendall(piece)
        if ends:
            with contextlib.suppress(OSError):
                # unless it is closed by now
                peer.shutdown(socket.SHUT_WR)
        while ends or left:
            data = peer.recv(1 << 16)
            if not data:
                assert decoder.idle
                break
            for answer in decoder.feed(data):
                if answer.flags != frames.MORE:
                    found.append(answer)
                    left.discard(answer.req_id)
    except (BrokenPipeError, ConnectionResetError):
        # it was closed before all was sent
        pass
    return found


@pytest.mark.timeout(240)
def test_generated_frames_harm_nobody(memory_path: Path) -> None:
    count = Counter[str]()
    size = SENT_EACH * BYTES_OF_CHOICES

    with daemon(memory_path, "--tcp", "127.0.0.1:0") as held:
        meta = b'{"token": "%s"}' % held.token.encode()
        hello = struct.pack("<HHI", 1, 0, len(meta)) + meta
        bystander = Bystander(held.connect())
        bystander.start()

        @settings(max_examples=SENT_FRAMES * 11 // 10 // SENT_EACH, **FUZZ_DAEMON)
        @given(st.binary(min_size=size, max_size=size))
        def harmless(choices: bytes) -> None:
            source = Source(choices)
            tcp = source.below(2) == 0
            some = [request(source, OURS) for _ in range(SENT_EACH)]
            some = [(1, 0, hello)] * tcp + [one for one in some if not tcp or one[0] != 1]
            last = ending(source)
            watches = {at for at, (number, *_) in enumerate(some) if number == WATCH}
            stream = b"".join(frame(number, flags, at, payload) for at, (number, flags, payload) in enumerate(some))
            with held.connect(tcp=tcp) as peer:
                found = answers(peer, pieces(source, stream + last), watches)
            for answer in found:
                if answer.msg_type == frames.ERROR:
                    assert error_code(answer) in CODES, bytes(answer.payload)
                    count["errors"] += 1
                else:
                    assert answer.msg_type in (1, *MESSAGES, *NUMBERS)
            count["frames"] += len(found)
            assert bystander.is_alive(), bystander.error

        try:
            harmless()
        finally:
            bystander.end()
        assert held.memory("VmHWM") < MOST_MEMORY
    assert count["frames"] >= SENT_FRAMES
    assert count["frames"] // 5 < count["errors"] < count["frames"] * 4 // 5
    assert bystander.rounds > 100
    assert "Traceback" not in held.log.read_text()
    with Store.open(held.root, create=False) as store:
        assert store.recovered == []
        assert fsck(store) == []
