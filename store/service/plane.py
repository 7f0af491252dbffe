"""The messages of the wire protocol, done on a store: a request in, the payload of the answer out. Blocking."""

import threading
from collections.abc import Sequence
from functools import singledispatchmethod

from store.commit.request import ContextHead
from store.commit.request import Request as Commit
from store.content import zstd
from store.conversations.contexts import Append
from store.disk.turn_format import Turn
from store.errors import ConvfsError, DamageError, NotFound, TooLarge, UsageError
from store.ids import hash_bytes, turn_of
from store.service.frames import MAX_PAYLOAD
from store.service.protocol import Message, Payload
from store.service.wire import (
    NONE,
    ZSTD,
    Appended,
    AppendTurn,
    AttachFs,
    BeforeAnswer,
    BlobAnswer,
    CreateContext,
    ForkContext,
    GetBefore,
    GetBlob,
    GetHead,
    GetLast,
    GetRange,
    HeadAnswer,
    PutAnswer,
    PutBlob,
    RangeAnswer,
    TurnItem,
    TurnsAnswer,
    encode_records,
)
from store.store import Store

_QUICK_BYTES = 256 << 10
_FIRST_SLICE = 8
_PUTS_AT_ONCE = 16
_SPREAD = 8


class Plane:
    """Does messages on one store. Safe to call from any thread. Errors are those of ``store.errors``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._putting = [threading.Lock() for _ in range(_PUTS_AT_ONCE)]

    def appending(self, message: AppendTurn) -> Commit | None:
        """Return the request to submit for an append; None where that takes more, and :meth:`perform` does it."""
        if (message.parent and not message.expects_head) or message.raw_size > _QUICK_BYTES:
            return None
        return self._store.contexts.appending(
            message.context,
            Append(payload_of(message), message.type_name, message.encoding, message.type_version),
            expected_head=message.parent if message.expects_head else None,
            idempotency_key=message.key,
            fs_root=message.fs_root,
            digest=message.hash,
        )

    def appended(self, message: AppendTurn, turn: Turn) -> bytes:
        """Return the answer to an append that made ``turn``."""
        if message.whole:
            return encode_records([turn])
        return Appended(message.context, turn.turn_id, turn.depth, turn.payload_hash).encode()

    @singledispatchmethod
    def perform(self, message: Message) -> Payload:
        """Carry out a message; return the payload of the answer."""
        raise TypeError(f"{type(message).__name__} is no message")

    @perform.register
    def _create(self, message: CreateContext) -> bytes:
        return _head(self._store.contexts.create(message.base_turn))

    @perform.register
    def _fork(self, message: ForkContext) -> bytes:
        if not message.base_turn:
            return _head(self._store.contexts.create())
        return _head(self._store.contexts.fork_at(message.base_turn))

    @perform.register
    def _get_head(self, message: GetHead) -> bytes:
        head = self._store.writer.head(message.context)
        if message.whole:
            return HeadAnswer(head.context, head.tip, head.depth).encode()
        return _head(head)

    @perform.register
    def _append(self, message: AppendTurn) -> bytes:
        turn = self._store.contexts.append(
            message.context,
            payload_of(message),
            message.type_name,
            encoding=message.encoding,
            type_version=message.type_version,
            parent=0 if message.expects_head else message.parent,
            expected_head=message.parent if message.expects_head else None,
            idempotency_key=message.key,
            fs_root=message.fs_root,
        )
        return self.appended(message, turn)

    @perform.register
    def _get_last(self, message: GetLast) -> Payload:
        head = self._store.writer.head(message.context)
        count = _bounded(message.limit, head.depth + 1 if head.turn else 0)
        # of that head: there may be a new one since
        turns = self._store.turns.back(head.tip if message.latest else head.turn, count)
        if message.whole:
            return encode_records(turns)
        return TurnsAnswer(self._items(turns, include=message.include)).pieces()

    @perform.register
    def _get_before(self, message: GetBefore) -> Payload:
        count = _bounded(message.limit, self._store.turns.get(message.before).depth)
        turns = self._store.contexts.before(message.context, message.before, count, latest=message.latest)
        if message.whole:
            return encode_records(turns)
        cursor = turn_of(turns[0].turn_id) if turns and turns[0].parent else 0
        return BeforeAnswer(self._items(turns, include=message.include), cursor).pieces()

    @perform.register
    def _get_range(self, message: GetRange) -> Payload:
        head = self._store.writer.head(message.context)
        count = _bounded(message.limit, head.depth + 1 - message.start if head.turn else 0)
        turns = self._store.turns.range_to(head.tip if message.latest else head.turn, message.start, count)
        if message.whole:
            return encode_records(turns)
        return RangeAnswer(head.depth, self._items(turns, include=message.include)).pieces()

    @perform.register
    def _get_blob(self, message: GetBlob) -> Payload:
        size = self._store.blobs.size(message.hash)
        if size > MAX_PAYLOAD - 4:
            raise TooLarge(f"a blob of {size} bytes fits no frame")
        return BlobAnswer(self._store.blobs.blob(message.hash)).pieces()

    @perform.register
    def _put_blob(self, message: PutBlob) -> bytes:
        if hash_bytes(message.data) != message.hash:
            raise UsageError(f"the bytes are not those of the blob {message.hash.hex()}")
        # of several clients that bring the same at once, one is told that it is new
        with self._putting[message.hash[0] % len(self._putting)]:
            there = True
            try:
                self._store.blobs.size(message.hash)
            except NotFound:
                there = False
            self._store.intake.put(message.data)
        return PutAnswer(message.hash, not there).encode()

    @perform.register
    def _attach_fs(self, message: AttachFs) -> bytes:
        self._store.contexts.attach_fs(message.turn, message.root)
        return message.encode()

    def _items(self, turns: Sequence[Turn], *, include: bool) -> list[TurnItem]:
        store = self._store
        # a message has no place to say of a turn that it was deleted
        turns = [turn for turn in turns if not turn.deleted]
        payloads = self._payloads(turns) if include else None
        return [
            TurnItem(
                turn_of(turn.turn_id),
                turn_of(turn.parent),
                turn.depth,
                store.contents.type_name(turn.type_tag),
                turn.type_version,
                turn.encoding,
                NONE,
                store.blobs.size(turn.payload_hash) if payloads is None else len(payloads[at]),
                turn.payload_hash,
                payloads[at] if payloads is not None else b"",
            )
            for at, turn in enumerate(turns)
        ]

    def _payloads(self, turns: Sequence[Turn]) -> list[bytes]:
        """Return the payloads of turns, read a slice at a time: a set too large for an answer is never held whole."""
        payloads: list[bytes] = []
        room = MAX_PAYLOAD - TurnItem.size * len(turns)
        count = _FIRST_SLICE
        while len(payloads) < len(turns):
            some = [turn.payload_hash for turn in turns[len(payloads) : len(payloads) + count]]
            found = self._store.blobs.blobs(some)
            for digest in some:
                payload = found[digest]
                if isinstance(payload, ConvfsError):
                    raise payload
                payloads.append(payload)
                room -= len(payload)
            if room < 0:
                raise TooLarge(f"{len(turns)} turns with their payloads fit no frame: ask for fewer")
            mean = (MAX_PAYLOAD - room) // len(payloads) + 1
            count = max(room // (mean * _SPREAD), 1)
        return payloads


def payload_of(message: AppendTurn) -> bytes:
    """Return the uncompressed payload of an append; UsageError where it does not match its description."""
    if message.raw_size > MAX_PAYLOAD:
        raise TooLarge(f"a payload of {message.raw_size} bytes is too large: {MAX_PAYLOAD} at most")
    if message.compression == NONE:
        payload = message.payload
        if len(payload) != message.raw_size:
            raise UsageError(f"the payload has {len(payload)} bytes, not {message.raw_size}")
    elif message.compression == ZSTD:
        try:
            payload = zstd.expand(message.payload, message.raw_size)
        except DamageError as error:
            raise UsageError(f"the payload cannot be decompressed: {error}") from error
    else:
        raise UsageError(f"there is no compression {message.compression}: 0 is none, 1 is zstd")
    if hash_bytes(payload) != message.hash:
        raise UsageError("the payload is not what its hash says")
    return payload


def _head(head: ContextHead) -> bytes:
    return HeadAnswer(head.context, head.turn, head.depth).encode()


def _bounded(limit: int, available: int) -> int:
    """Return how many turns to read; TooLarge where they could not fit a frame, however small they are."""
    count = max(min(limit, available), 0)
    if count * TurnItem.size > MAX_PAYLOAD:
        raise TooLarge(f"{count} turns fit no frame: ask for {MAX_PAYLOAD // TurnItem.size} at most, or for a range")
    return count
