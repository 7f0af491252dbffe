"""Frames of the head log: changes to contexts, and new types, aliases and dictionaries.

A frame, little-endian: ``len u32 (of the whole frame) | kind u16 | seq u64 | context u64 (0: of no context) | body |
crc32 u32`` of all before it. A body has the fields of its class in their order: first those of a fixed size, then what
fills the rest of the frame. One table, at the end, has the number and the layout of each.
"""

import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from struct import Struct as Layout
from typing import Any, NamedTuple, get_args

from isal.isal_zlib import crc32
from msgspec import Struct
from msgspec.structs import astuple

from store.errors import DamageError, UsageError
from store.ids import Hash

MAX_FRAME = 64 << 20
_HEAD = Layout("<IHQQ")
_CRC = Layout("<I")
_START, _CRC_SIZE = _HEAD.size, _CRC.size
_pack_crc = _CRC.pack
MIN_FRAME = _START + _CRC_SIZE
SOUND = 0x2144DF1C
"""The CRC-32 of anything that ends in its own CRC-32."""

AMENDS = "amend "
"""The beginning of an action whose version takes the place of the one before: a deletion, or an empty beginning."""
AGAIN = "again "
"""The beginning of an action whose version takes in the one before, if that was a save: both are one, from its time."""
SAVES = ("edit", "add ", "rewrite")
"""The beginnings of the actions that are saves."""


class ContextCreated(Struct, frozen=True, gc=False):
    """A context came to be, its head at ``base_turn`` or 0."""

    base_turn: int
    created_ms: int
    flags: int


class HeadMoved(Struct, frozen=True, gc=False):
    """The state of a context is now ``tip``, whose turn (``store.ids``) is the head, ``depth`` deep."""

    tip: int
    depth: int
    time_ms: int
    action: str


class Metadata(Struct, frozen=True, gc=False):
    """``changes`` of a context: a JSON object whose values replace those of their keys; null removes a key."""

    time_ms: int
    changes: bytes


class TypeRegistered(Struct, frozen=True, gc=False):
    """Turns with this ``tag`` are of the type ``name``."""

    tag: int
    version: int
    name: str


class Alias(Struct, frozen=True, gc=False):
    """Another algorithm's digest of the blob ``hash``; ``algorithm`` is an ASCII name (``sha256``)."""

    hash: Hash
    algorithm: str
    digest: bytes


class Dictionary(Struct, frozen=True, gc=False):
    """The blob ``hash`` is the zstd dictionary for payloads of type ``tag`` (0: all)."""

    tag: int
    hash: Hash


class Commit(Struct, frozen=True, gc=False):
    """The end of a group.

    ``turn_count`` is how many turns the log then held, ``heads_length`` how long the head log was before the group's
    first frame; packs up to ``pack_number``, ``pack_length`` were on disk.
    """

    turn_count: int
    pack_number: int
    pack_length: int
    heads_length: int


class Superseded(Struct, frozen=True, gc=False):
    """Turns took the place of others in a context: (old, new, count) each.

    The turns ``old``, ``old + 1`` … are no longer in the branch; ``new``, ``new + 1`` … are what became of them, each
    of its own. Where ``new`` is 0, nothing did: they were taken out.
    """

    turns: tuple[tuple[int, int, int], ...]


class Patched(Struct, frozen=True, gc=False):
    """Turns of a context are now seen with another (payload hash, flags, created_ms) in their records.

    ``number`` is the patch's own, in the whole store; ``previous`` is the one before it that holds for the context, 0
    if there is none. Each of ``turns`` begins with the turn's id.
    """

    number: int
    previous: int
    time_ms: int
    turns: tuple[tuple[int, Hash, int, int], ...]
    action: str


class AppendNoted(Struct, frozen=True, gc=False):
    """A client appended ``turn`` to a context under a key of its own."""

    turn: int
    time_ms: int
    key: bytes


class FsRoot(Struct, frozen=True, gc=False):
    """The files that a turn was made with are those of the tree ``root``."""

    turn: int
    root: Hash


class TurnOpened(Struct, frozen=True, gc=False):
    """A turn of a context is being written; its number is the frame's seq."""

    tag: int
    codec: int
    time_ms: int


class TextAdded(Struct, frozen=True, gc=False):
    """The open turn ``number`` goes on with a text at ``offset``, veiled."""

    number: int
    offset: int
    time_ms: int
    text: bytes


class Closed(Struct, frozen=True, gc=False):
    """The open turn ``number`` was sealed as ``turn``, or dropped (0)."""

    number: int
    turn: int


class Deleted(Struct, frozen=True, gc=False):
    """A context is gone for good, and all that was said of it; its id is not used again."""

    time_ms: int


class VersionsPruned(Struct, frozen=True, gc=False):
    """The versions of a context that began up to seq ``last`` are gone for good, but for the one that it is in."""

    last: int
    time_ms: int


class Reclaimed(Struct, frozen=True, gc=False):
    """Nothing leads to the turns of ``runs`` any more, (first, count) each.

    Their records are blanked (``turn_format.blank``) once this is on disk. No turn ever follows one of them.
    """

    runs: tuple[tuple[int, int], ...]


class Dropped(Struct, frozen=True, gc=False):
    """A space holds blobs no longer, but for what was brought into packs of it behind ``packs``.

    ``keys`` are the first eight bytes of their hashes. Who names one of them later stores it again.
    """

    packs: int
    keys: bytes


class Held(Struct, frozen=True, gc=False):
    """The replica ``number`` of a space is about to redact: others wait with their commits for as long as it lives."""

    number: int
    time_ms: int


class Redacted(Struct, frozen=True, gc=False):
    """All before this frame was rewritten without secrets, for the ``generation``-th time in its space.

    ``key`` is the object of the space that says how.
    """

    generation: int
    time_ms: int
    key: str


Note = AppendNoted | FsRoot | TurnOpened | TextAdded | Closed
"""Notes on single turns, and on turns that are still being written."""
NOTES = get_args(Note)
TEXT_NOTES = (TurnOpened, TextAdded, Closed)
Gone = Deleted | VersionsPruned | Reclaimed
"""Notes on things that are gone for good."""
GONE = get_args(Gone)
Shared = Dropped | Held | Redacted
SHARED = get_args(Shared)
"""Notes for the other machines of a space: whoever commits behind one has applied it."""
Body = (
    ContextCreated
    | HeadMoved
    | Metadata
    | TypeRegistered
    | Alias
    | Dictionary
    | Commit
    | Superseded
    | Patched
    | Note
    | Gone
    | Shared
)


class HeadFrame(Struct, frozen=True, gc=False):
    """One frame: ``offset`` in the log's file (0 where it is not in one), ``seq``, ``context`` and its body."""

    offset: int
    seq: int
    context: int
    body: Body


def encode(seq: int, context: int, body: Body) -> bytes:
    """Return the bytes of one frame. UsageError if a part of ``body`` is too long for its place."""
    number, fixed, size, pack, last, encode_last = _WRITERS[type(body)]
    fields = astuple(body)
    if encode_last is None:
        frame = pack(size, number, seq, context, *fields)
    else:
        rest = encode_last(last(fields))
        size += len(rest)
        if size > MAX_FRAME:
            raise UsageError(f"a record of {size} bytes is too large for the head log; at most {MAX_FRAME} fit")
        frame = pack(size, number, seq, context, *fields[:fixed]) + rest
    return frame + _pack_crc(crc32(frame))


def encode_append(seq: int, context: int, body: HeadMoved) -> bytes:
    """Return what :func:`encode` does for a move by an append, the most common frame."""
    frame = _pack_append(_APPEND_SIZE, _MOVED, seq, context, body.tip, body.depth, body.time_ms) + _APPEND
    return frame + _pack_crc(crc32(frame))


def frame_length(buf: bytes | memoryview, start: int = 0) -> int:
    """Return how long the frame that begins at ``start`` says it is; 0 if that cannot be true."""
    size = int.from_bytes(buf[start : start + 4], "little")
    return size if MIN_FRAME <= size <= MAX_FRAME else 0


def decode(buf: bytes | memoryview, offset: int = 0) -> HeadFrame:
    """Read a frame from exactly its own bytes; ``offset`` is recorded as its place. DamageError tells the fault."""
    if len(buf) < MIN_FRAME:
        raise DamageError(f"a frame is cut off after {len(buf)} bytes")
    size, number, seq, context = _HEAD.unpack_from(buf)
    if size != len(buf):
        raise DamageError(f"a frame of {size} bytes is cut off after {len(buf)}")
    end = size - _CRC_SIZE
    if _CRC.unpack_from(buf, end)[0] != crc32(buf[:end]):
        raise DamageError("the checksum of a frame does not hold")
    kind = KINDS.get(number)
    if kind is None:
        raise DamageError(f"a frame is of the unknown kind {number}")
    of, layout, tail = kind
    rest = _START + layout.size
    try:
        if rest > end or (rest < end and tail is None):
            raise ValueError(f"its body ends after {end - _START} bytes, {layout.size} belong there")
        fields = layout.unpack_from(buf, _START)
        body = of(*fields) if tail is None else of(*(fields + tail.decode(buf[rest:end])))
    except (ValueError, TypeError, IndexError) as error:
        raise DamageError(f"a frame of kind {number} makes no sense: {error}") from None
    return HeadFrame(offset, seq, context, body)


def decode_all(buf: bytes, offset: int) -> list[HeadFrame]:
    """Return frames that lie one after another, the first at ``offset`` of the log. DamageError."""
    frames, at = [], 0
    while at < len(buf):
        size = frame_length(buf, at)
        if not size:
            raise DamageError("the length of a frame cannot be true")
        frames.append(decode(buf[at : at + size], offset + at))
        at += size
    return frames


def reclaimed_in(buf: bytes) -> Iterator[Reclaimed]:
    """Yield what frames that lie one after another reclaim; the others are not decoded. DamageError."""
    number, at = _WRITERS[Reclaimed][0], 0
    while at < len(buf):
        size = frame_length(buf, at)
        if not size:
            raise DamageError("the length of a frame cannot be true")
        if int.from_bytes(buf[at + 4 : at + 6], "little") == number:
            body = decode(buf[at : at + size]).body
            assert isinstance(body, Reclaimed)
            yield body
        at += size


def possible_frames(data: bytes | memoryview) -> Iterator[int]:
    """Yield where in ``data`` a frame may begin, judged by its length, kind and seq (below 2 ** 48); few are wrong."""
    return (match.start() for match in _POSSIBLE.finditer(data))


# -- the rest of a body ------------------------------------------------------------------------------------------------


class _Tail(NamedTuple):
    """The coding of the last field of a body, or of the last two as a tuple, which fill the frame."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes | memoryview], tuple[Any, ...]]


def _rows(layout: Layout, data: bytes | memoryview) -> tuple[tuple[Any, ...], ...]:
    if len(data) % layout.size:
        raise ValueError(f"its body ends in {len(data)} bytes, {layout.size} belong in each row")
    return tuple(layout.iter_unpack(data))


def _list_of(form: str) -> _Tail:
    row = Layout(form)
    return _Tail(lambda rows: b"".join(row.pack(*fields) for fields in rows), lambda data: (_rows(row, data),))


_BYTES = _Tail(bytes, lambda data: (bytes(data),))
_TEXT = _Tail(str.encode, lambda data: (str(data, "utf-8"),))

_COUNT = Layout("<I")
_TARGET = Layout("<Q32sIQ")


def _encode_patched(tail: tuple[tuple[tuple[int, Hash, int, int], ...], str]) -> bytes:
    turns, action = tail
    return b"".join((_COUNT.pack(len(turns)), *(_TARGET.pack(*target) for target in turns), action.encode()))


def _decode_patched(data: bytes | memoryview) -> tuple[Any, ...]:
    end = _COUNT.size + int.from_bytes(data[: _COUNT.size], "little") * _TARGET.size
    if len(data) < end:
        raise ValueError(f"its body ends after {len(data)} bytes")
    return _rows(_TARGET, data[_COUNT.size : end]), str(data[end:], "utf-8")


def _encode_alias(tail: tuple[str, bytes]) -> bytes:
    algorithm, digest = tail
    name = algorithm.encode("ascii")
    if len(name) > 0xFF:
        raise UsageError(f"the name of a hash algorithm has {len(name)} bytes; at most 255 fit")
    return bytes((len(name),)) + name + digest


def _decode_alias(data: bytes | memoryview) -> tuple[Any, ...]:
    end = 1 + data[0] if data else 1
    if len(data) < end:
        raise ValueError(f"its body ends after {len(data)} bytes")
    return str(data[1:end], "ascii"), bytes(data[end:])


# -- the table ---------------------------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """A kind of frame: the class of its body, the layout of the first fields, and of the rest."""

    of: type[Body]
    layout: Layout
    tail: _Tail | None = None


KINDS = {
    1: _Kind(ContextCreated, Layout("<QQI")),
    2: _Kind(HeadMoved, Layout("<QIQ"), _TEXT),
    3: _Kind(Metadata, Layout("<Q"), _BYTES),
    4: _Kind(TypeRegistered, Layout("<QI"), _TEXT),
    5: _Kind(Alias, Layout("<32s"), _Tail(_encode_alias, _decode_alias)),
    6: _Kind(Dictionary, Layout("<Q32s")),
    7: _Kind(Commit, Layout("<QIQQ")),
    8: _Kind(Superseded, Layout("<"), _list_of("<QQI")),
    9: _Kind(Patched, Layout("<QQQ"), _Tail(_encode_patched, _decode_patched)),
    10: _Kind(AppendNoted, Layout("<QQ"), _BYTES),
    11: _Kind(FsRoot, Layout("<Q32s")),
    12: _Kind(TurnOpened, Layout("<QIQ")),
    13: _Kind(TextAdded, Layout("<QQQ"), _BYTES),
    14: _Kind(Closed, Layout("<QQ")),
    15: _Kind(Deleted, Layout("<Q")),
    16: _Kind(VersionsPruned, Layout("<QQ")),
    17: _Kind(Reclaimed, Layout("<"), _list_of("<QQ")),
    18: _Kind(Dropped, Layout("<Q"), _BYTES),
    19: _Kind(Held, Layout("<IQ")),
    20: _Kind(Redacted, Layout("<IQ"), _TEXT),
}
"""Every kind of frame by its number in the file: new ones are added, none is ever another."""


def _writer(number: int, kind: _Kind) -> tuple[int, int, int, Callable[..., bytes], Callable[..., Any], Any]:
    """Return what :func:`encode` uses of a kind: worked out once, for it is in the way of every commit."""
    of, layout, tail = kind
    fixed, fields = len(layout.unpack(bytes(layout.size))), len(of.__struct_fields__)
    pack = Layout(_HEAD.format + layout.format[1:]).pack
    return number, fixed, MIN_FRAME + layout.size, pack, itemgetter(*range(fixed, fields) or (0,)), tail and tail.encode


_WRITERS = {kind.of: _writer(number, kind) for number, kind in KINDS.items()}
_APPEND = b"append"
_MOVED, _fixed, _size, _pack_append, _last, _encode_last = _WRITERS[HeadMoved]
_APPEND_SIZE = _size + len(_APPEND)
COMMIT_SIZE = MIN_FRAME + KINDS[7].layout.size

# len < 2 ** 27, one of the kinds, seq < 2 ** 48; within a lookahead, so that places may overlap
_POSSIBLE = re.compile(rb"(?s)(?=...[\x00-\x04][\x01-%c]\x00.{6}\x00\x00)" % max(KINDS))
