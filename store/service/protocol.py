"""The server's side of one connection as a state machine: bytes in, requests out; answers in, bytes out. No I/O.

The table :data:`TRANSITIONS` alone moves a connection from one state to another. Requests may be answered in any order;
those that make no sense are answered here. The requests in flight and the answers not yet taken are bounded: beyond
either, nothing more is read (:attr:`Connection.reads`) nor handed out.
"""

import struct
from collections import deque
from collections.abc import Container, Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from typing import get_args

from msgspec import Struct

from store.errors import UsageError
from store.service import frames
from store.service.frames import HEADER, MAX_PAYLOAD, BadFrame, Decoder, Frame
from store.service.wire import (
    SAME_STORE,
    VERSION,
    AppendTurn,
    AttachFs,
    Buffer,
    CreateContext,
    ForkContext,
    GetBefore,
    GetBlob,
    GetHead,
    GetLast,
    GetRange,
    Hello,
    HelloAnswer,
    PutBlob,
    parameters,
)

Message = (
    CreateContext | ForkContext | GetHead | AppendTurn | GetLast | GetBefore | GetRange | GetBlob | AttachFs | PutBlob
)
"""The requests of the wire protocol, but for HELLO, which the connection answers itself."""

Payload = bytes | list[Buffer]
"""The payload of an answer, whole or in pieces that need not be copied together."""

MESSAGES: Mapping[int, type[Message]] = {kind.number: kind for kind in get_args(Message)}

MOST_IN_FLIGHT = 64
"""So many requests of one connection are worked on at a time."""
MOST_WAITING_BYTES = 1 << 20
"""While more bytes than this wait to be taken by the peer, none of its requests are begun."""

_BUFFERS_AT_ONCE = 256
_HEADER_SIZE, _pack_header = HEADER.size, HEADER.pack
_APPEND = AppendTurn.number


class State(Enum):
    """GREETING: only a HELLO with the token is accepted. OPEN: requests are. DRAINING: nothing more is read; requests
    in flight are answered and sent. CLOSED: the connection is to be closed.
    """

    GREETING = auto()
    OPEN = auto()
    DRAINING = auto()
    CLOSED = auto()


class Event(Enum):
    """An event of a connection: a HELLO, one without the token or for another store; another request; bytes that
    are no frame; the peer's end; all is answered and sent; the connection is gone.
    """

    HELLO = auto()
    REFUSED = auto()
    REQUEST = auto()
    BROKEN = auto()
    END = auto()
    DONE = auto()
    LOST = auto()


# a member is looked up in its enum for longer than a method is called
_GREETING, _OPEN, _DRAINING, _CLOSED = State.GREETING, State.OPEN, State.DRAINING, State.CLOSED
_ACCEPTING = (_OPEN, _GREETING)

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.GREETING: {
        Event.HELLO: State.OPEN,
        Event.REFUSED: State.DRAINING,
        Event.BROKEN: State.DRAINING,
        Event.END: State.DRAINING,
        Event.LOST: State.CLOSED,
    },
    State.OPEN: {
        Event.HELLO: State.OPEN,
        Event.REFUSED: State.DRAINING,
        Event.REQUEST: State.OPEN,
        Event.BROKEN: State.DRAINING,
        Event.END: State.DRAINING,
        Event.LOST: State.CLOSED,
    },
    State.DRAINING: {Event.DONE: State.CLOSED, Event.LOST: State.CLOSED},
    State.CLOSED: {Event.LOST: State.CLOSED},
}


class Request(Struct, frozen=True, gc=False):
    """One request: a message of the wire protocol, or the payload of one of ours (``body``)."""

    req_id: int
    number: int
    message: Message | None
    body: Buffer = b""


class Connection:
    """One connection, seen by the server. ``session`` is the number that it is known under.

    With a ``token`` nothing is done for a peer that does not give it in HELLO's meta, as the key "token" of a JSON
    object. Nor is it for one that names, as "directory", another than ``directory``, the key of the store's
    (``store.disk.identity``). ``ours`` has the numbers of our own messages.
    """

    def __init__(self, session: int, ours: Container[int], token: str = "", directory: str = "") -> None:
        self.session = session
        self.state = _GREETING if token else _OPEN
        self.in_flight = 0
        """The number of requests handed out and not answered."""
        self.waiting = 0
        """The number of bytes that wait to be sent."""
        self.tag = ""
        """The name that the peer gave itself."""
        self._ours = ours
        self._token = token
        self._directory = directory
        self.unread = False
        """True if input is left that :meth:`requests` has not returned: bytes, or the peer's end."""
        self._decoder = Decoder()
        self._ended = False
        self._out: deque[bytes | memoryview] = deque()

    # -- from the peer ---------------------------------------------------------------------------------------------

    @property
    def reads(self) -> bool:
        """Return whether bytes from the peer should be read now."""
        return not self._ended and self._takes

    @property
    def wanted(self) -> int:
        """The size of the request that is coming in, 0 while that is not known."""
        return self._decoder.wanted

    def receive(self, data: bytes) -> None:
        """Add bytes that the peer sent; none: it will send no more."""
        self.unread = True
        if data:
            self._decoder.add(data)
        else:
            self._ended = True

    def requests(self) -> list[Request]:
        """Return the complete requests, as many as may be in flight; the caller answers or fails each."""
        found: list[Request] = []
        decoder = self._decoder
        try:
            while self._takes:
                cut = decoder.cut()
                if cut is None:
                    if self._ended:
                        self._move(Event.END)
                    break
                request = (cut[0] == _APPEND and self._appending(*cut)) or self._request(frames.frame_in(*cut))
                if request is not None:
                    self.in_flight += 1
                    found.append(request)
                if not self._ended and decoder.idle:
                    self.unread = False
                    break
        except BadFrame as error:
            self._put(frames.error_frame(error.req_id, frames.TOO_LARGE, str(error)))
            self._move(Event.BROKEN)
        if self.state is _DRAINING:
            self._settle()
        return found

    def lost(self) -> None:
        """End: nothing can be read or sent any more."""
        self._out.clear()
        self.waiting = 0
        self._move(Event.LOST)

    # -- to the peer -----------------------------------------------------------------------------------------------

    def answer(self, req_id: int, number: int, payload: Payload) -> None:
        """Answer a request; by an ERROR frame where the payload is larger than a frame may be."""
        size = len(payload) if isinstance(payload, bytes) else size_of(payload)
        if size > MAX_PAYLOAD:
            self.fail(req_id, frames.TOO_LARGE, f"an answer of {size} bytes fits no frame: ask for less")
            return
        self.in_flight -= 1
        if self.state is _CLOSED:
            return
        head = _pack_header(size, number, 0, req_id)
        if isinstance(payload, bytes):
            self._out.append(head + payload)
        else:
            self._out.append(head)
            self._out += [piece for piece in payload if piece]
        self.waiting += _HEADER_SIZE + size

    def item(self, req_id: int, number: int, payload: bytes) -> None:
        """Send an item of an answer that goes on."""
        if self.state is not _CLOSED:
            self._put(Frame(number, req_id, payload, frames.MORE))

    def fail(self, req_id: int, code: int, text: str) -> None:
        """Answer a request by an ERROR frame."""
        self.in_flight -= 1
        if self.state is not _CLOSED:
            self._put(frames.error_frame(req_id, code, text))
            self._settle()

    def to_send(self) -> Sequence[bytes | memoryview]:
        """Return the next bytes to send, in order."""
        return list(islice(self._out, _BUFFERS_AT_ONCE))

    def sent(self, size: int) -> None:
        """Drop the first ``size`` bytes of the output: they are on their way."""
        self.waiting -= size
        if not self.waiting:
            self._out.clear()
            if self.state is _DRAINING:
                self._settle()
            return
        while size:
            first = self._out.popleft()
            if len(first) > size:
                self._out.appendleft(memoryview(first)[size:])
                break
            size -= len(first)
        self._settle()

    # -- states ----------------------------------------------------------------------------------------------------

    @property
    def _takes(self) -> bool:
        """Return whether requests are accepted, and there is room for one more."""
        return self.in_flight < MOST_IN_FLIGHT and self.waiting < MOST_WAITING_BYTES and self.state in _ACCEPTING

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state][event]

    def _settle(self) -> None:
        if self.state is _DRAINING and not self.in_flight and not self.waiting:
            self._move(Event.DONE)

    def _put(self, frame: Frame) -> None:
        encoded = frames.encode(frame)
        self._out.append(encoded)
        self.waiting += len(encoded)

    def _appending(
        self, msg_type: int, flags: int, req_id: int, data: bytes | bytearray, start: int, end: int
    ) -> Request | None:
        """Return an append as :meth:`_request` does, without a frame in between; None where it must do it."""
        if self.state is not _OPEN or type(data) is not bytes:
            return None
        try:
            message, stop = AppendTurn.read(data, start, flags)
        except (struct.error, UnicodeDecodeError):
            return None
        return Request(req_id, msg_type, message) if stop <= end else None

    def _request(self, frame: Frame) -> Request | None:
        """Return the request in a frame; None where it was answered here."""
        if frame.msg_type == Hello.number:
            self._hello(frame)
            return None
        if self.state is _GREETING:
            self._refuse(frame)
            return None
        # Event.REQUEST, which leaves it as it is, need not be looked up for each
        kind = MESSAGES.get(frame.msg_type)
        if kind is None:
            if frame.msg_type in self._ours:
                return Request(frame.req_id, frame.msg_type, None, frame.payload)
            text = f"this convfs knows no message {frame.msg_type}"
            self._put(frames.error_frame(frame.req_id, frames.INVALID, text))
            return None
        try:
            return Request(frame.req_id, frame.msg_type, kind.decode(frame.payload, frame.flags))
        except UsageError as error:
            self._put(frames.error_frame(frame.req_id, frames.INVALID, str(error)))
            return None

    def _hello(self, frame: Frame) -> None:
        try:
            hello = Hello.decode(frame.payload, frame.flags)
        except UsageError as error:
            self._put(frames.error_frame(frame.req_id, frames.INVALID, str(error)))
            return
        meta = _meta_of(hello)
        if self._token and not _are_equal(meta.token, self._token):
            self._refuse(frame)
            return
        if meta.directory and meta.directory != self._directory:
            text = "this service holds another store than the one that was named, perhaps one that this is a copy of"
            self._put(frames.error_frame(frame.req_id, frames.CONFLICT, text))
            self._move(Event.REFUSED)
            return
        self.tag = hello.tag
        flags = SAME_STORE if meta.directory else 0
        self._put(Frame(Hello.number, frame.req_id, HelloAnswer(self.session, VERSION).encode(), flags))
        self._move(Event.HELLO)

    def _refuse(self, frame: Frame) -> None:
        text = (
            'this service wants a token first: HELLO with {"token": "…"} as its meta; it is in the store\'s directory'
        )
        self._put(frames.error_frame(frame.req_id, frames.INVALID, text))
        self._move(Event.REFUSED)


def size_of(payload: Payload) -> int:
    """Return how many bytes a payload has."""
    return len(payload) if isinstance(payload, bytes) else sum(map(len, payload))


class _Meta(Struct):
    token: str = ""
    directory: str = ""


def _are_equal(token: str, expected: str) -> bool:
    # imported here, as few processes ask for one, and OpenSSL takes milliseconds to load
    from hmac import compare_digest

    return compare_digest(token.encode(), expected.encode())


def _meta_of(hello: Hello) -> _Meta:
    try:
        return parameters(hello.meta, _Meta)
    except UsageError:
        return _Meta()
