"""Frames made of bytes that hypothesis chooses: requests of every kind, and what looks like them."""

import struct
from collections.abc import Sequence
from typing import TypeVar

import zstandard
from blake3 import blake3

T = TypeVar("T")

Request = tuple[int, int, bytes]
"""Number, flags, payload."""

TYPES = (b"t.v1", b"cxdb.ConversationItem", b"jp.event.v1", b"claude-code.line.v1", b"", b"\xff\xfe", b"x" * 300)
PAYLOADS = (b"{}", b'{"type":"user"}', b"\x81\x01\x02", b"", b"\0", b"text " * 40, b'{"a":"' + b"b" * 2000 + b'"}')
VALUES = (
    b"null",
    b"true",
    b"0",
    b"1",
    b"2",
    b"-1",
    b"1.5",
    b"1e999",
    b"18446744073709551615",
    b"18446744073709551616",
    b'""',
    b'"t"',
    b'"p"',
    b'"e30="',
    b'"=\\u0000"',
    b'"\\ud800"',
    b"[]",
    b"[1]",
    b"[[1,null]]",
    b'[[1,"e30="],[2,null]]',
    b"{}",
    b'{"title":"x","labels":7,"name":null}',
    b'{"project":"p","name":"n"}',
    b"[" * 2000,
    b"\xff",
)
_COMPRESS = zstandard.ZstdCompressor().compress
_SIZELESS = zstandard.ZstdCompressor(write_content_size=False).compress
ZSTD = [shape(payload) for payload in PAYLOADS for shape in (_COMPRESS, _SIZELESS)] + [b"\x28\xb5\x2f\xfd", b"none"]
# one that says that it holds four gigabytes, and one that really holds many of the same byte
ZSTD += [b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff\x01\x00\x00", _COMPRESS(bytes(30 << 20))]


class Source:
    """Choices, each made by the next bytes; where there are none left, by what follows from all of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def raw(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        self._at += size
        while len(found) < size:
            self._data, self._at = blake3(self._data).digest(length=4096), size - len(found)
            found += self._data[: self._at]
        return found

    def below(self, limit: int) -> int:
        return int.from_bytes(self.raw(1 if limit <= 256 else 3), "little") % limit

    def pick(self, some: Sequence[T]) -> T:
        return some[self.below(len(some))]

    def number(self, bits: int) -> int:
        """Return a number, mostly a small one: of a context or a turn that there may be."""
        kind = self.below(16)
        if kind < 11:
            return self.below(8)
        if kind < 13:
            return (1 << bits) - 1 - self.below(3)
        if kind < 15:
            return (1 << self.below(bits)) - self.below(2)
        return int.from_bytes(self.raw(bits // 8), "little")


def _hash(source: Source, payload: bytes) -> bytes:
    kind = source.below(12)
    return blake3(payload).digest() if kind < 9 else bytes(32) if kind == 9 else source.raw(32)


def _hello(source: Source) -> Request:
    tag, meta = source.raw(source.below(6)), source.pick((b"", b"{}", b'{"token":"secret"}', b'{"token":5}', b"\xff"))
    return 1, 0, struct.pack("<HH", source.number(16), len(tag)) + tag + struct.pack("<I", len(meta)) + meta


def _append(source: Source) -> Request:
    payload, kind, flags = source.pick(PAYLOADS), source.pick(TYPES), source.pick((0, 0, 0, 1, 2, 8, 11))
    compression = source.pick((0, 0, 0, 1, 1, 2, 1 << 31))
    body = payload if compression != 1 else _COMPRESS(payload) if source.below(2) else source.pick(ZSTD)
    key = source.raw(source.pick((0, 0, 1, 1, 8, 255)))
    size = source.number(32) if not source.below(8) else len(payload)
    return (
        5,
        flags,
        b"".join(
            (
                struct.pack("<QQI", source.number(64), source.pick((0, 0, source.number(64))), len(kind)),
                kind,
                struct.pack("<IIII", source.pick((0, 3, source.number(32))), source.number(32), compression, size),
                _hash(source, payload),
                struct.pack("<I", len(body)),
                body,
                struct.pack("<I", len(key)),
                key,
                source.raw(32) if flags & 1 else b"",
            )
        ),
    )


def _put(source: Source) -> Request:
    data = source.pick(PAYLOADS)
    return 11, 0, _hash(source, data) + struct.pack("<I", len(data)) + data


def _one(number: int, flags: tuple[int, ...], bits: tuple[int, ...]) -> object:
    def make(source: Source) -> Request:
        fields = b"".join(source.number(size).to_bytes(size // 8, "little") for size in bits)
        return number, source.pick(flags), fields

    return make


MAKERS = (
    _hello,
    _one(2, (0,), (64,)),
    _one(3, (0,), (64,)),
    _one(4, (0, 8), (64,)),
    _append,
    _append,
    _append,
    _one(6, (0, 4, 8, 12), (64, 32, 32)),
    _one(7, (0, 4, 8, 12), (64, 64, 32, 32)),
    _one(8, (0, 4, 8, 12), (64, 32, 32, 32)),
    lambda source: (9, 0, _hash(source, source.pick(PAYLOADS))),
    lambda source: (10, 0, struct.pack("<Q", source.number(64)) + source.raw(32)),
    _put,
)


def _ours(source: Source, ours: Sequence[tuple[int, tuple[str, ...]]]) -> Request:
    number, names = source.pick(ours)
    fields = [b'"%s":%s' % (name.encode(), source.pick(VALUES)) for name in names if source.below(4)]
    if not source.below(16):
        fields.append(b'"nobody":1')
    return number, 0, source.pick((b"{%s}" % b",".join(fields),) * 12 + (b"", b"[]", b"{", b"\0"))


def request(source: Source, ours: Sequence[tuple[int, tuple[str, ...]]]) -> Request:
    """Return a request, or what looks like one. ``ours`` are our own messages, with the names of their parameters."""
    number, flags, payload = _ours(source, ours) if not source.below(5) else source.pick(MAKERS)(source)
    match source.below(20):
        case 0:
            payload = payload[: source.below(len(payload) + 1)]
        case 1:
            payload += source.raw(source.below(40))
        case 2:
            at = source.below(len(payload) + 1)
            payload = payload[:at] + source.raw(1 + source.below(4)) + payload[at + 1 :]
        case 3:
            # any length or count within is as large as can be
            at = source.below(len(payload) + 1)
            payload = payload[:at] + struct.pack("<I", 0xFFFFFFFF - source.below(2)) + payload[at + 4 :]
        case 4:
            number = source.pick((0, 12, 200, 255, 300, 0xFFFF, source.number(16)))
        case 5:
            flags = source.number(16)
        case 6:
            payload += source.pick(MAKERS)(source)[2]
        case 7:
            number = 1 + source.below(11)
    return number, flags, payload


def frame(number: int, flags: int, req_id: int, payload: bytes) -> bytes:
    return struct.pack("<IHHQ", len(payload), number, flags, req_id) + payload


def ending(source: Source) -> bytes:
    """Return what a stream may end in: nothing, mostly, or what is no whole frame."""
    match source.below(8):
        case 0:
            return struct.pack("<IHHQ", 0xFFFFFFFF, 5, 0, 1) + source.raw(40)
        case 1:
            return struct.pack("<IHHQ", (64 << 20) + 1, 5, 0, 1)
        case 2:
            return struct.pack("<IHHQ", 64 << 20, 5, 0, 1) + source.raw(200)
        case 3:
            return source.raw(1 + source.below(60))
        case _:
            return b""


def pieces(source: Source, stream: bytes) -> list[bytes]:
    """Cut a stream anywhere."""
    found, at = [], 0
    while at < len(stream):
        size = source.pick((500, 1, 3, 15, 16, 17, 400, 4000, 1 + source.below(1000)))
        found.append(stream[at : at + size])
        at += size
    return found
