"""The payloads of the messages of CXDB's wire protocol, as values and bytes; no I/O.

Layouts are those that CXDB's own clients send and expect (https://github.com/strongdm/cxdb); ``store/PROTOCOL.md``
shows each with an example. Everything is little-endian, a hash is the BLAKE3-256 of the raw bytes.

A payload's fields, in their order, are its layout: each has its spelling as an annotation. Fields with a flag come
last. A payload that does not fit raises UsageError; no length is trusted before the bytes are there.
"""

import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from store import typed
from store.disk import turn_format
from store.disk.turn_format import Turn
from store.errors import UsageError
from store.ids import HASH_SIZE, Hash

T = TypeVar("T")
Buffer = bytes | memoryview
"""Bytes that a payload is read from."""

VERSION = 1
"""The version of the protocol."""

NONE, ZSTD = 0, 1

FS_ROOT = 1
"""Flag of an APPEND_TURN: the hash of a file tree follows the key."""
EXPECTED_HEAD = 2
"""Flag of an APPEND_TURN: ``parent`` is the turn that the context must end in."""
LATEST = 4
"""Flag of a request: turns as they now are, with edits and patches applied, not as they were appended."""
WHOLE = 8
"""Flag of a request for a head or for turns: ours. Turns are answered as records of the turn log
(``store.disk.turn_format``), without payloads; a turn that is seen through a patch has its number in its id."""
SAME_STORE = 16
"""Flag of the answer to a HELLO that names a directory: ours. It is the directory of the store that is held."""

_COPIED_BYTES = 2048


# -- layouts -----------------------------------------------------------------------------------------------------------


class Sized(Struct, frozen=True):
    """The spelling of a field with its length before it: bytes, or the result of ``made`` on them, or many pieces.

    ``cut`` takes a payload, an offset in it and the length, and returns the value and where it ends; it raises
    struct.error where that is beyond the payload. ``written`` returns the pieces. Without them it is bytes.
    """

    prefix: str
    made: Callable[[Buffer], Any] | None = None
    spelled: Callable[[Any], bytes] | None = None
    cut: Callable[[Buffer, int, int], tuple[Any, int]] | None = None
    written: Callable[[Any], list[Buffer]] | None = None


class Flag(Struct, frozen=True):
    """The spelling of a field that is a flag of the frame; if it is a hash, that comes last where the flag is set."""

    bit: int


_text = partial(str, encoding="utf-8")

U16: TypeAlias = Annotated[int, "H"]
U32: TypeAlias = Annotated[int, "I"]
U64: TypeAlias = Annotated[int, "Q"]
Digest: TypeAlias = Annotated[Hash, "32s"]
Text: TypeAlias = Annotated[str, Sized("I", _text, str.encode)]
ShortText: TypeAlias = Annotated[str, Sized("H", _text, str.encode)]
Bytes: TypeAlias = Annotated[bytes, Sized("I", bytes)]
View: TypeAlias = Annotated[Buffer, Sized("I")]
"""Bytes that are not copied when they come in."""


class Payload(Struct, frozen=True):
    """A payload. :func:`laid_out` gives each class all but its fields."""

    name: ClassVar[str]
    number: ClassVar[int]
    """The message, of a request."""
    size: ClassVar[int]
    """The least number of bytes that it has."""
    known: ClassVar[int]
    """All flags that there are."""
    read: ClassVar[Callable[[Buffer, int, int], tuple[Any, int]]]
    """Returns the value at an offset of a payload, with some flags, and where it ends; raises struct.error."""
    flagged: ClassVar[Callable[[Any], int]]
    """Returns the flags of a value."""
    written: ClassVar[Callable[[Any], tuple[Buffer, ...]]]
    """Returns the bytes of a value in pieces."""

    @property
    def flags(self) -> int:
        """The flags that its frame must have."""
        return self.flagged()

    def encode(self) -> bytes:
        """Return the bytes."""
        return b"".join(self.written())

    def pieces(self) -> list[Buffer]:
        """Return the bytes in pieces: large parts are not copied."""
        pieces: list[Buffer] = []
        small: list[Buffer] = []
        for piece in self.written():
            if len(piece) < _COPIED_BYTES:
                small.append(piece)
            else:
                pieces += (b"".join(small), piece)
                small = []
        return [*pieces, b"".join(small)]

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read the payload of a frame, and its flags. Further bytes and flags, of newer clients, are ignored."""
        value: Self
        try:
            value, _end = cls.read(payload, 0, flags)
        except struct.error:
            raise UsageError(f"{cls.name} is cut off after {len(payload)} bytes") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{cls.name} has a text that is not UTF-8") from error
        return value


P = TypeVar("P", bound=Payload)


def laid_out(name: str, number: int = 0) -> Callable[[type[P]], type[P]]:
    """Lay out a payload by the annotations of its fields; ``number`` is that of the message that it is a request of."""

    def lay_out(kind: type[P]) -> type[P]:
        kind.name, kind.number = name, number
        spelled = [hint.__metadata__[0] for hint in kind.__annotations__.values()]
        fixed = [getattr(one, "prefix", one) for one in spelled if not isinstance(one, Flag)]
        kind.size = struct.calcsize("<" + "".join(fixed))
        kind.known = sum(one.bit for one in spelled if isinstance(one, Flag))
        kind.read, kind.written, kind.flagged = (_later(kind, of) for of in ("read", "written", "flagged"))
        return kind

    return lay_out


def _later(kind: type[Payload], name: str) -> Callable[..., Any]:
    """Return a method that compiles its payload at the first call: most commands need only a few payloads."""

    def first(*given: object) -> object:
        _compile(kind)
        return getattr(kind, name)(*given)

    return first


def _compile(kind: type[Payload]) -> None:
    """Give a payload its reader and writer: code for just its fields, since all appends go through it."""
    hints = kind.__annotations__
    known: dict[str, Any] = {"error": struct.error, "kind": kind}
    reading, writing, pieces, flagged = ["def read(_data, _at, _flags):"], ["def written(self):"], [], ["0"]
    made, set_flags, run, layout = dict[str, str](), list[str](), list[str](), "<"
    for at, field in enumerate((*kind.__struct_fields__, "")):
        one = hints[field].__metadata__[0] if field else None
        if isinstance(one, str):
            run.append(field)
            layout += one
            continue
        sized = one if isinstance(one, Sized) else None
        if run or sized:
            # fields of fixed sizes, and the length of the one behind them
            fixed = struct.Struct(layout + (sized.prefix if sized else ""))
            known |= {f"pack{at}": fixed.pack, f"unpack{at}": fixed.unpack_from}
            reading += [
                f" {', '.join([*run, '_n'] if sized else run)}, = unpack{at}(_data, _at)",
                f" _at += {fixed.size}",
            ]
            given = [f"self.{one}" for one in run] + ([f"len({field})"] if sized else [])
            pieces.append(f"pack{at}({', '.join(given)})")
            run, layout = [], "<"
        if sized:
            known |= {f"made{at}": sized.made, f"cut{at}": sized.cut}
            known |= {f"spelled{at}": sized.spelled, f"written{at}": sized.written}
            if sized.cut:
                reading.append(f" {field}, _at = cut{at}(_data, _at, _n)")
            else:
                reading += [" _end = _at + _n", f" {field} = _data[_at:_end]", " _at = _end"]
            if sized.made:
                made[field] = f"made{at}({field})"
            writing.append(f" {field} = spelled{at}(self.{field})" if sized.spelled else f" {field} = self.{field}")
            pieces.append(f"*written{at}({field})" if sized.written else field)
        elif isinstance(one, Flag):
            flagged.append(f"({one.bit} if self.{field} else 0)")
            if hints[field].__origin__ is bool:
                reading.append(f" {field} = False")
                set_flags.append(f"  {field} = _flags & {one.bit} != 0")
                continue
            reading.append(f" {field} = None")
            set_flags += [f"  if _flags & {one.bit}:", f"   {field} = bytes(_data[_at : _at + {HASH_SIZE}])"]
            set_flags.append(f"   _at += {HASH_SIZE}")
            pieces.append(f"self.{field} or b''")
    if set_flags:
        reading += [" if _flags:", *set_flags]
    # a slice ends where the payload does
    reading.append(" if _at > len(_data): raise error")
    reading.append(f" return kind({', '.join(made.get(field, field) for field in kind.__struct_fields__)}), _at")
    writing.append(f" return ({', '.join(pieces)},)")
    exec("\n".join([*reading, *writing, f"def flagged(self): return {'|'.join(flagged)}"]), known)  # noqa: S102  (made of the names of fields)
    kind.read, kind.written, kind.flagged = known["read"], known["written"], known["flagged"]
    if len(pieces) == 1:
        # nothing is to be joined
        exec(f"def encode(self): return {pieces[0]}", known)  # noqa: S102  (as above)
        kind.encode = known["encode"]  # type: ignore[method-assign]  # as those above


# -- messages ----------------------------------------------------------------------------------------------------------


@laid_out("HELLO", 1)
class Hello(Payload, frozen=True):
    """The client's name and its wishes; or nothing, from older clients.

    ``tag`` names the client, ``meta`` is a JSON object or empty; a token and the key of a directory travel in it.
    """

    version: U16 = VERSION
    tag: ShortText = ""
    meta: Bytes = b""

    @classmethod
    def decode(cls, payload: Buffer, flags: int = 0) -> Self:
        """Read the payload of a frame, and its flags."""
        return super().decode(payload, flags) if payload or flags else cls()


@laid_out("the answer to HELLO")
class HelloAnswer(Payload, frozen=True):
    """The answer to HELLO."""

    session: U64
    version: U16 = VERSION


@laid_out("CTX_CREATE", 2)
class CreateContext(Payload, frozen=True):
    """Makes a context that ends in a turn, 0 for one that begins empty."""

    base_turn: U64


@laid_out("CTX_FORK", 3)
class ForkContext(Payload, frozen=True):
    """Makes a context that ends in a turn."""

    base_turn: U64


@laid_out("GET_HEAD", 4)
class GetHead(Payload, frozen=True):
    """Asks for the head of a context."""

    context: U64
    whole: Annotated[bool, Flag(WHOLE)] = False


@laid_out("a head")
class HeadAnswer(Payload, frozen=True):
    """The answer to CTX_CREATE, CTX_FORK and GET_HEAD."""

    context: U64
    turn: U64
    depth: U32


@laid_out("APPEND_TURN", 5)
class AppendTurn(Payload, frozen=True, gc=False):
    """Appends one turn, behind ``parent``, or behind the context's head where that is 0.

    Hash and raw size are those of the payload before it was compressed. With ``expects_head`` the parent is the head
    that is expected.
    """

    context: U64
    parent: U64
    type_name: Text
    type_version: U32
    encoding: U32
    compression: U32
    raw_size: U32
    hash: Digest
    payload: Bytes
    key: Bytes = b""
    fs_root: Annotated[Hash | None, Flag(FS_ROOT)] = None
    expects_head: Annotated[bool, Flag(EXPECTED_HEAD)] = False
    whole: Annotated[bool, Flag(WHOLE)] = False


@laid_out("the answer to APPEND_TURN")
class Appended(Payload, frozen=True):
    """The answer to APPEND_TURN."""

    context: U64
    turn: U64
    depth: U32
    hash: Digest


@laid_out("GET_LAST", 6)
class GetLast(Payload, frozen=True):
    """Asks for the last turns of a context."""

    context: U64
    limit: U32
    include: Annotated[bool, "I"]
    latest: Annotated[bool, Flag(LATEST)] = False
    whole: Annotated[bool, Flag(WHOLE)] = False


@laid_out("GET_BEFORE", 7)
class GetBefore(Payload, frozen=True):
    """Asks for the turns before one, without it."""

    context: U64
    before: U64
    limit: U32
    include: Annotated[bool, "I"]
    latest: Annotated[bool, Flag(LATEST)] = False
    whole: Annotated[bool, Flag(WHOLE)] = False


@laid_out("GET_RANGE_BY_DEPTH", 8)
class GetRange(Payload, frozen=True):
    """Asks for the turns from a depth on; the root's is 0."""

    context: U64
    start: U32
    limit: U32
    include: Annotated[bool, "I"]
    latest: Annotated[bool, Flag(LATEST)] = False
    whole: Annotated[bool, Flag(WHOLE)] = False


@laid_out("a turn")
class TurnItem(Payload, frozen=True, gc=False):
    """A turn in an answer.

    The payload is never compressed, and empty where none was asked for; ``raw_size`` is its size either way. In a
    large answer that came in it is a view of that.
    """

    turn: U64
    parent: U64
    depth: U32
    type_name: Text
    type_version: U32
    encoding: U32
    compression: U32
    raw_size: U32
    hash: Digest
    payload: View = b""


def _cut_items(payload: Buffer, at: int, count: int) -> tuple[list[TurnItem], int]:
    # not more than there can be is believed of the count
    if count * TurnItem.size > len(payload) - at:
        raise struct.error
    items: list[TurnItem] = []
    for _ in range(count):
        item, at = TurnItem.read(payload, at, 0)
        items.append(item)
    return items, at


def _written_items(items: list[TurnItem]) -> list[Buffer]:
    return [piece for item in items for piece in item.written()]


Items: TypeAlias = Annotated[list[TurnItem], Sized("I", cut=_cut_items, written=_written_items)]


@laid_out("the answer to GET_LAST")
class TurnsAnswer(Payload, frozen=True):
    """The answer to GET_LAST: turns, oldest first."""

    items: Items


@laid_out("the answer to GET_BEFORE")
class BeforeAnswer(Payload, frozen=True):
    """The answer to GET_BEFORE; ``cursor`` is the oldest turn of these, 0 where it is the root."""

    items: Items
    cursor: U64


@laid_out("the answer to GET_RANGE_BY_DEPTH")
class RangeAnswer(Payload, frozen=True):
    """The answer to GET_RANGE_BY_DEPTH."""

    head_depth: U32
    items: Items


@laid_out("GET_BLOB", 9)
class GetBlob(Payload, frozen=True):
    """Asks for a blob."""

    hash: Digest


@laid_out("the answer to GET_BLOB")
class BlobAnswer(Payload, frozen=True):
    """The answer to GET_BLOB."""

    data: Bytes


@laid_out("ATTACH_FS", 10)
class AttachFs(Payload, frozen=True):
    """Attaches a tree of files to a turn; it is answered with the same."""

    turn: U64
    root: Digest


@laid_out("PUT_BLOB", 11)
class PutBlob(Payload, frozen=True):
    """Brings a blob."""

    hash: Digest
    data: Bytes


@laid_out("the answer to PUT_BLOB")
class PutAnswer(Payload, frozen=True):
    """The answer to PUT_BLOB; ``new`` is False where the store had the blob already."""

    hash: Digest
    new: Annotated[bool, "?"]


# -- other payloads ----------------------------------------------------------------------------------------------------


def encode_records(turns: Iterable[Turn]) -> bytes:
    """Return turns as they are answered to a request that is WHOLE: ``record[80]`` each."""
    return b"".join(map(turn_format.encode, turns))


def decode_records(payload: Buffer) -> list[Turn]:
    """Read turns as :func:`encode_records` spells them. DamageError if a checksum does not hold."""
    if len(payload) % turn_format.RECORD_SIZE:
        raise UsageError(f"{len(payload)} bytes are no whole number of turns")
    return [turn_format.decode(payload, at) for at in range(0, len(payload), turn_format.RECORD_SIZE)]


def digest_of(data: Buffer) -> Hash:
    """Return a hash that was given by a caller. UsageError if its size is another."""
    if len(data) != HASH_SIZE:
        raise UsageError(f"a hash has {HASH_SIZE} bytes, not {len(data)}")
    return Hash(bytes(data))


def parameters(payload: Buffer, kind: type[T]) -> T:
    """Return the parsed JSON, an empty object where there is none. UsageError if it is no ``kind``."""
    try:
        return typed.decode(payload or b"{}", kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the parameters do not fit: {error}") from error
