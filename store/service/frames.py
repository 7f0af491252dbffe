"""Frames on the service's socket, as values and bytes; no I/O.

A frame is ``len u32 | msg_type u16 | flags u16 | req_id u64 | payload``, little-endian; ``len`` counts the payload
alone and is at most 64 MiB. Message numbers up to 255 and the payloads of these are those of CXDB's wire protocol
(https://github.com/strongdm/cxdb); numbers above 255 are this project's own, with JSON as payload.

An answer carries the ``msg_type`` and ``req_id`` of its request, or msg_type ERROR. A request of ours is answered by
any number of frames with the flag MORE set, one item each, and one without it, the result.
"""

import struct
from collections.abc import Iterator

from msgspec import Struct

from store.errors import Conflict, ConvfsError, NotFound, TooLarge, UsageError

HEADER = struct.Struct("<IHHQ")
MAX_PAYLOAD = 64 << 20
ERROR = 255
OURS = 256
"""The first message number that is ours."""

MORE = 1
"""Flag of an answer: an item; further frames with the same req_id follow."""

_ERROR_HEAD = struct.Struct("<II")
_MAX_ERROR_TEXT = 8192
_COPIED_BYTES = 2048
_HEADER_SIZE, _unpack_header = HEADER.size, HEADER.unpack_from

NOT_FOUND, CONFLICT, TOO_LARGE, INVALID, FAILED = 404, 409, 413, 422, 500
_KINDS = {NOT_FOUND: NotFound, CONFLICT: Conflict, TOO_LARGE: TooLarge, INVALID: UsageError}
"""The errors that have a code of their own; what is of two kinds travels as the first."""


class Frame(Struct, frozen=True):
    """One message. The payload of a large one that came in is a view of what was received with it."""

    msg_type: int
    req_id: int
    payload: bytes | memoryview = b""
    flags: int = 0


class BadFrame(ConvfsError):
    """The peer sent bytes that no frame begins with; nothing after them on this connection can be understood."""

    def __init__(self, message: str, req_id: int) -> None:
        super().__init__(message)
        self.req_id = req_id


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame. Raises UsageError where its payload is larger than a frame may be."""
    size = len(frame.payload)
    if size > MAX_PAYLOAD:
        raise UsageError(f"a message of {size} bytes is larger than the {MAX_PAYLOAD} that a frame holds")
    return b"".join((HEADER.pack(size, frame.msg_type, frame.flags, frame.req_id), frame.payload))


class Decoder:
    """Cuts a stream of bytes into frames. It holds one frame's bytes at most, beside those fed last.

    Large payloads are not copied, unless more of the stream comes before they are complete.
    """

    def __init__(self) -> None:
        self._data: bytes | bytearray = b""
        self._at = 0
        """The offset in it of the next frame."""

    def add(self, data: bytes | memoryview) -> None:
        """Add the next bytes of the stream. What a view shows may be others afterwards."""
        if self._at == len(self._data):
            self._data, self._at = bytes(data), 0
            return
        if self._at or not isinstance(self._data, bytearray):
            # frames that were cut from it may still be in use
            self._data, self._at = bytearray(memoryview(self._data)[self._at :]), 0
        self._data += data

    def cut(self) -> tuple[int, int, int, bytes | bytearray, int, int] | None:
        """Cut off the next frame if it is complete: (msg_type, flags, req_id, data, start, end).

        Its payload is what lies in ``data`` from ``start`` to ``end``. Raises BadFrame, as soon as the header is there
        and before any memory is taken for it, where a frame says that it is larger than one may be.
        """
        data, start = self._data, self._at + _HEADER_SIZE
        there = len(data)
        if there < start:
            return None
        size, msg_type, flags, req_id = _unpack_header(data, self._at)
        if size > MAX_PAYLOAD:
            raise BadFrame(f"a frame of {size} bytes is larger than the {MAX_PAYLOAD} allowed", req_id)
        end = start + size
        if there < end:
            return None
        if end == there:
            # nothing of it is needed here
            self._data, self._at = b"", 0
        else:
            self._at = end
        return msg_type, flags, req_id, data, start, end

    def next(self) -> Frame | None:
        """Return the next frame if it is complete; raises as :meth:`cut`."""
        found = self.cut()
        return found and frame_in(*found)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add the next bytes of the stream and yield the frames that are complete now; raises as :meth:`cut`."""
        self.add(data)
        while (frame := self.next()) is not None:
            yield frame

    @property
    def wanted(self) -> int:
        """The size of the frame that is coming in, 0 while its header is not there."""
        there = len(self._data) - self._at >= HEADER.size
        return int(HEADER.unpack_from(self._data, self._at)[0]) if there else 0

    @property
    def idle(self) -> bool:
        """Return whether the stream is between two frames (an end here cuts nothing off)."""
        return self._at == len(self._data)


def frame_in(msg_type: int, flags: int, req_id: int, data: bytes | bytearray, start: int, end: int) -> Frame:
    """Return a frame as :meth:`Decoder.cut` gives it."""
    payload = memoryview(data)[start:end]
    return Frame(msg_type, req_id, bytes(payload) if end - start < _COPIED_BYTES else payload, flags)


def error_frame(req_id: int, code: int, message: str) -> Frame:
    """Return the ERROR frame that answers ``req_id``: ``code u32 | len u32 | text``."""
    text = message.encode("utf-8", "replace")[:_MAX_ERROR_TEXT]
    return Frame(ERROR, req_id, _ERROR_HEAD.pack(code, len(text)) + text)


def error_code(error: BaseException) -> int:
    """Return the code under which an error travels: by whose fault it is."""
    return next((code for code, kind in _KINDS.items() if isinstance(error, kind)), FAILED)


def error_of(frame: Frame) -> ConvfsError:
    """Return the error that an ERROR frame tells of, as the class that its code stands for."""
    if len(frame.payload) < _ERROR_HEAD.size:
        return ConvfsError("the service answered with an error that it did not explain")
    code, size = _ERROR_HEAD.unpack_from(frame.payload)
    text = bytes(frame.payload[_ERROR_HEAD.size :][:size]).decode("utf-8", "replace")
    return _KINDS.get(code, ConvfsError)(text)
