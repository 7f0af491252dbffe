"""What a client asks a service, and how it reads the answer: one for each call of the store's facade; no I/O."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, json

from store.commit.open_texts import OpenText
from store.commit.request import ContextHead
from store.disk.turn_format import Encoding, Turn
from store.errors import UsageError
from store.events.conversation import Conversation, Version
from store.events.deletion import DELETED, Content
from store.ids import HASH_SIZE, Hash, hash_bytes, patch_of, turn_of
from store.service import streaming_operations as streaming
from store.service import turn_operations as ops
from store.service.operation import Item, Nothing, Operation, Params, Result
from store.service.wire import NONE, AppendTurn, GetHead, HeadAnswer
from store.service.wire_blobs import AttachFs, BlobAnswer, GetBlob, PutAnswer, PutBlob
from store.service.wire_fields import Buffer
from store.service.wire_turns import GetBefore, GetLast, GetRange, decode_records
from store.upkeep.stats import Stats

T = TypeVar("T")
_KEY_BYTES = 16
_MOST = (1 << 32) - 1


class Ask(Struct, Generic[T], frozen=True):
    """One request: a frame's number, flags and payload, and ``read``, which takes the payloads that answer it.

    One that ``repeats`` may be sent again where nobody knows whether it was done.
    """

    number: int
    flags: int
    payload: bytes
    read: Callable[[Sequence[Buffer]], T]
    repeats: bool = True


class _Message(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def flags(self) -> int: ...
    def encode(self) -> bytes: ...


def _message(message: _Message, read: Callable[[Buffer], T]) -> Ask[T]:
    return Ask(message.number, message.flags, message.encode(), lambda answers: read(answers[-1]))


def operation(
    what: Operation[Params, Item, Result], params: Params, read: Callable[[Result], T], *, repeats: bool = True
) -> Ask[T]:
    """Ask for an operation that hands out no items."""
    result: Any = what.result
    return Ask(
        what.number,
        0,
        json.encode(params),
        lambda answers: read(json.decode(answers[-1], type=result)),
        repeats,
    )


def _items(what: Operation[Params, Item, Result], params: Params, read: Callable[[list[Item]], T]) -> Ask[T]:
    decode = json.Decoder(what.item).decode
    return Ask(what.number, 0, json.encode(params), lambda answers: read([decode(item) for item in answers[:-1]]))


def _same(value: T) -> T:
    return value


def _done(_answer: object) -> None:
    return None


def _head(payload: Buffer) -> ContextHead:
    head = HeadAnswer.decode(payload)
    return ContextHead(head.context, turn_of(head.turn), head.depth, patch_of(head.turn))


def _hash(data: bytes | None) -> Hash | None:
    return None if data is None else Hash(data)


def _count(count: int) -> int:
    return min(max(count, 0), _MOST)


def create_context(base_turn: int = 0, *, metadata: dict[str, object] | None = None) -> Ask[ContextHead]:
    """Ask for a new context."""
    params = ops.CreateParams(base_turn, metadata)
    return operation(ops.CREATE_CONTEXT, params, ops.Head.opened, repeats=False)


def fork(context_id: int, at: int = 0, *, metadata: dict[str, object] | None = None) -> Ask[ContextHead]:
    """Ask for a context that branches off another."""
    return operation(ops.FORK_CONTEXT, ops.ForkParams(context_id, at, metadata), ops.Head.opened, repeats=False)


def head(context_id: int) -> Ask[ContextHead]:
    """Ask for the head of a context."""
    return _message(GetHead(_id(context_id), whole=True), _head)


def append(
    context_id: int,
    payload: bytes,
    type_name: str,
    *,
    encoding: int = Encoding.JSON,
    type_version: int = 0,
    parent: int = 0,
    expected_head: int | None = None,
    idempotency_key: bytes = b"",
    fs_root: bytes | None = None,
) -> Ask[Turn]:
    """Ask for a turn to be appended. It has a key, one of its own if none is given, so that it may be repeated."""
    message = AppendTurn(
        _id(context_id),
        _id(parent if expected_head is None else expected_head),
        type_name,
        _id(type_version, 32),
        _id(encoding, 32),
        NONE,
        len(payload),
        hash_bytes(payload),
        payload,
        idempotency_key or os.urandom(_KEY_BYTES),
        _root(fs_root),
        expected_head is not None,
        True,
    )
    return _message(message, lambda answer: decode_records(answer)[0])


def last(context_id: int, count: int, *, latest: bool = False, as_of: int | None = None) -> Ask[list[Turn]]:
    """Ask for the last turns of a context."""
    if as_of is not None:
        return _as_of(ops.ReadParams(context_id, count, as_of))
    return _message(GetLast(_id(context_id), _count(count), False, latest, True), decode_records)


def before(
    context_id: int, turn_id: int, count: int, *, latest: bool = False, as_of: int | None = None
) -> Ask[list[Turn]]:
    """Ask for the turns before one."""
    if as_of is not None:
        return _as_of(ops.ReadParams(context_id, count, as_of, before=turn_id))
    return _message(GetBefore(_id(context_id), _id(turn_id), _count(count), False, latest, True), decode_records)


def range_by_depth(
    context_id: int, start: int, count: int, *, latest: bool = False, as_of: int | None = None
) -> Ask[list[Turn]]:
    """Ask for the turns from a depth on."""
    if start < 0 or count < 0:
        raise UsageError("a range starts at depth 0 or later and has no negative length")
    if as_of is not None:
        return _as_of(ops.ReadParams(context_id, count, as_of, start=start))
    message = GetRange(_id(context_id), _count(start), _count(count), False, latest, True)
    return _message(message, decode_records)


def _as_of(params: ops.ReadParams) -> Ask[list[Turn]]:
    return _items(ops.READ_AS_OF, params, lambda pages: decode_records(b"".join(pages)))


def patch(context_id: int, changes: Mapping[int, Content], *, expected_head: int | None = None) -> Ask[ContextHead]:
    """Ask for turns to be given other payloads, or to be deleted."""
    turns = [(turn_id, None if content is DELETED else content) for turn_id, content in changes.items()]
    return operation(ops.PATCH, ops.PatchParams(context_id, turns, expected_head), ops.Head.opened, repeats=False)


def versions(context_id: int) -> Ask[list[Version]]:
    """Ask for what a context has been."""
    return operation(ops.VERSIONS, ops.ContextParams(context_id), _same)


def turn(turn_id: int) -> Ask[Turn]:
    """Ask for a turn."""
    return operation(ops.GET_TURN, ops.TurnParams(turn_id), lambda record: decode_records(record)[0])


def path_to_root(turn_id: int) -> Ask[list[Turn]]:
    """Ask for the turns from the root to one."""
    return _items(ops.PATH_TO_ROOT, ops.TurnParams(turn_id), lambda pages: decode_records(b"".join(pages)))


def blob(digest: Hash) -> Ask[bytes]:
    """Ask for a blob."""
    return _message(GetBlob(digest), lambda answer: BlobAnswer.decode(answer).data)


def blob_size(digest: Hash) -> Ask[int]:
    """Ask for the size of a blob."""
    return operation(ops.BLOB_SIZE, ops.HashParams(digest), _same)


def put_blob(data: bytes) -> Ask[Hash]:
    """Ask for a blob to be stored."""
    return _message(PutBlob(hash_bytes(data), data), lambda answer: PutAnswer.decode(answer).hash)


def attach_fs(turn_id: int, root: bytes) -> Ask[None]:
    """Ask for a tree of files to be noted of a turn."""
    digest = _root(root)
    assert digest is not None
    return _message(AttachFs(_id(turn_id), digest), _done)


def fs_root(turn_id: int) -> Ask[Hash | None]:
    """Ask for the tree of files of a turn."""
    return operation(ops.FS_ROOT, ops.TurnParams(turn_id), _hash)


def register_type(name: str, version: int = 0) -> Ask[int]:
    """Ask for a type to be registered."""
    return operation(ops.REGISTER_TYPE, ops.TypeParams(name, version), _same)


def types() -> Ask[list[tuple[int, int, str]]]:
    """Ask for all types."""
    return operation(ops.TYPES, Nothing(), _same)


def tip(context_id: int, seq: int | None = None) -> Ask[int]:
    """Ask for the tip of a context, now or earlier."""
    return operation(ops.TIP, ops.TipParams(context_id, seq), _same)


def set_metadata(context_id: int, changes: dict[str, object]) -> Ask[None]:
    """Ask for metadata to be changed."""
    return operation(ops.SET_METADATA, ops.MetadataParams(context_id, changes), _done)


def open_turn(
    context_id: int, type_name: str, *, encoding: int = Encoding.RAW_BYTES, type_version: int = 0
) -> Ask[int]:
    """Ask for a turn to be opened; the answer is its number."""
    params = streaming.OpenParams(context_id, type_name, encoding, type_version)
    return operation(streaming.OPEN_TURN, params, _same, repeats=False)


def resume_turn(context_id: int, number: int) -> Ask[int]:
    """Ask how many bytes there are of an open turn."""
    return operation(streaming.RESUME_TURN, streaming.NumberParams(context_id, number), _same)


def add_text(number: int, text: bytes, at: int) -> Ask[int]:
    """Ask for an open turn to go on with some text; the answer is how many bytes there are."""
    return operation(streaming.ADD_TEXT, streaming.AddParams(number, text, at), _same)


def seal_turn(
    context_id: int, number: int, *, expected_head: int | None = None, fs_root: bytes | None = None
) -> Ask[Turn]:
    """Ask for an open turn to be appended."""
    params = streaming.SealParams(context_id, number, expected_head, _root(fs_root))
    return operation(streaming.SEAL_TURN, params, lambda record: decode_records(record)[0])


def drop_turn(context_id: int, number: int) -> Ask[None]:
    """Ask for an open turn to be dropped."""
    return operation(streaming.DROP_TURN, streaming.NumberParams(context_id, number), _done, repeats=False)


def open_turns(context_id: int = 0) -> Ask[list[OpenText]]:
    """Ask for all open turns."""
    params = streaming.OpenTurnsParams(context_id)
    return _items(streaming.OPEN_TURNS, params, lambda pages: [one for page in pages for one in page])


def projects() -> Ask[list[str]]:
    """Ask for all projects."""
    return operation(ops.PROJECTS, Nothing(), _same)


def conversations(project: str | None = None, *, after: str = "", limit: int | None = None) -> Ask[list[Conversation]]:
    """Ask for conversations."""
    params = ops.PageParams(project, after, limit)
    return _items(ops.CONVERSATIONS, params, lambda pages: [one for page in pages for one in page])


def conversation(context_id: int) -> Ask[Conversation]:
    """Ask for a conversation."""
    return operation(ops.CONVERSATION, ops.ContextParams(context_id), _same)


def find(project: str, name: str) -> Ask[Conversation | None]:
    """Ask for a conversation by its name."""
    return operation(ops.FIND_CONVERSATION, ops.NameParams(project, name), _same)


def stats() -> Ask[Stats]:
    """Ask for what the store holds."""
    return operation(ops.STORE_STATS, Nothing(), _same)


def _id(number: int, bits: int = 64) -> int:
    """Return a number that a field holds; UsageError if it is out of range."""
    if not 0 <= number < 1 << bits:
        raise UsageError(f"{number} is no number that can be asked for")
    return number


def _root(root: bytes | None) -> Hash | None:
    if root is not None and len(root) != HASH_SIZE:
        raise UsageError(f"the root of a file system has {HASH_SIZE} bytes, not {len(root)}")
    return None if root is None else Hash(root)
