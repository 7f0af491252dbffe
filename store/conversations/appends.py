"""What comes into a store: contexts, turns, blobs and metadata."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import msgspec
from msgspec import Struct, structs

from store.commit.request import ContextHead, NewTurn, Request
from store.content.canonical import Canonical
from store.conversations.submitting import Submitting, fs_root_of
from store.conversations.viewer import LARGEST_VIEWED
from store.disk.blob_format import Form
from store.disk.journal_format import JournalBlob
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, TooLarge, UsageError
from store.events.outputs import outputs_of
from store.ids import Hash, hash_bytes, now_ms, tip_of, turn_of

_LONGEST_KEY = 1024


class Append(Struct, frozen=True):
    """One turn to append: the producer's bytes, the name of their type, and how they are encoded."""

    payload: bytes
    type_name: str
    encoding: int = Encoding.JSON
    type_version: int = 0
    created_ms: int = 0


class Appends(Submitting):
    """Writes to one store; what it writes with is set by who makes it."""

    canonical: dict[int, Canonical]
    """The form in which payloads of an encoding are stored when they are appended, where there is one."""
    labelling: threading.Lock
    """Held while labels are changed: often that is to read them first."""

    def create_context(self, base_turn: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context whose branch is empty, or ends in ``base_turn`` (or tip); durable when it returns."""
        changes = _json(metadata) if metadata else None
        return self.submit(Request(None, parent=base_turn, changes=changes, action="create")).head

    def fork(self, context_id: int, at: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context that branches off another at turn ``at`` (0: its head). Copies nothing, shares its outputs.

        NotFound if there is no such context, or ``at`` is not in it.
        """
        head = self._writer.head(context_id)
        if at:
            self._position(context_id, at)
        base = turn_of(at) or head.turn
        forked: dict[str, object] = outputs_of(self.entry(context_id).metadata)
        forked |= {"forked_from": {"context": context_id, "turn": base}, **(metadata or {})}
        parent = tip_of(base, head.patch)
        return self.submit(Request(None, parent=parent, changes=_json(forked), action="fork")).head

    def append(
        self,
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
        created_ms: int = 0,
    ) -> Turn:
        """Append one turn to a context and return it once it is durable.

        It follows ``parent`` (0: the head), or what an edit has put in its place, and the context's head moves to it.
        ``expected_head`` is the turn (0: none), or the tip, that the head must be at, else Conflict. With an
        ``idempotency_key``, the same turn appended once more within a day is returned as it was, and another is a
        Conflict. ``fs_root`` as of :meth:`attach_fs`.
        """
        request = None
        if not parent:
            request = self.appending(
                context_id,
                payload,
                type_name,
                encoding=encoding,
                type_version=type_version,
                expected_head=expected_head,
                idempotency_key=idempotency_key,
                fs_root=fs_root,
                created_ms=created_ms,
            )
        if request is None:
            item = Append(payload, type_name, encoding, type_version, created_ms)
            return self._append_many(context_id, [item], parent, expected_head, idempotency_key, fs_root)[0]
        return self.submit(request).written[0]

    def appending(
        self,
        context_id: int,
        payload: bytes,
        type_name: str,
        *,
        encoding: int = Encoding.JSON,
        type_version: int = 0,
        expected_head: int | None = None,
        idempotency_key: bytes = b"",
        fs_root: bytes | None = None,
        created_ms: int = 0,
        digest: Hash | None = None,
    ) -> Request | None:
        """Return the request that :meth:`append` submits, for whoever submits many at once (:meth:`submit_all`).

        The new turn follows the head. None where the payload is so large that it does not go through the journal.
        ``digest`` is the hash of the payload, where the caller has taken it.
        """
        # what append_many does, for the one that is waited for most
        if self.canonical:
            payload, digest = self.in_form(payload, encoding), None
        if len(payload) > self._writer.journalled_bytes:
            return None
        digest = digest or hash_bytes(payload)
        turn = self.new_turn(digest, type_name, encoding, type_version, created_ms)
        self._known(context_id)
        request = Request(context_id, turns=[turn], blobs=[JournalBlob(digest, Form.PLAIN, len(payload), payload)])
        if turn.type_tag not in self._writer.types:
            request.types = self.types_for((type_name,))
        if expected_head is not None:
            request.expect(expected_head)
        if idempotency_key:
            request.key = _key(idempotency_key)
        if fs_root is not None:
            request.fs_root = fs_root_of(fs_root)
        return request

    def append_many(self, context_id: int, items: Sequence[Append], *, parent: int = 0) -> list[Turn]:
        """Append turns that follow each other; all of them become durable, or none."""
        return self._append_many(context_id, items, parent) if items else []

    def _append_many(
        self,
        context_id: int,
        items: Sequence[Append],
        parent: int,
        expected: int | None = None,
        key: bytes = b"",
        fs_root: bytes | None = None,
    ) -> list[Turn]:
        self._known(context_id)
        root = None if fs_root is None else fs_root_of(fs_root)
        if self.canonical:
            items = [structs.replace(item, payload=self.in_form(item.payload, item.encoding)) for item in items]
        with self.relying():
            return self._append_items(context_id, items, parent, expected, key, root)

    def _append_items(
        self,
        context_id: int,
        items: Sequence[Append],
        parent: int,
        expected: int | None,
        key: bytes,
        root: Hash | None,
    ) -> list[Turn]:
        turns = [self.described(item) for item in items]
        fresh = self.journalled([item.payload for item in items])
        types = self.types_for([item.type_name for item in items])
        while True:
            request = Request(
                context_id, parent=parent, turns=turns, blobs=fresh, types=types, key=_key(key), fs_root=root
            )
            if expected is not None:
                request.expect(expected)
            if not parent:
                return self.submit(request).written
            now = self.head(context_id)
            request.parent = self._goes_on_at(now, self.turn(turn_of(parent)))
            if request.expected_head is None:
                request.expected_head = now.tip
            try:
                return self.submit(request).written
            except Conflict:
                # an edit may have superseded the parent meanwhile
                if expected is not None or self.head(context_id).tip == now.tip:
                    raise

    def journalled(self, payloads: Iterable[bytes], earlier: Mapping[Hash, Hash] | None = None) -> list[JournalBlob]:
        """Return what a request must bring for turns with these payloads: nothing where it is better packed at once.

        The request is made in the same :meth:`relying`. ``earlier`` says of payloads, by their hashes, which one each
        takes the place of: so an edit of a large one takes little. TooLarge if one is.
        """
        earlier = earlier or {}
        blobs: dict[Hash, JournalBlob] = {}
        for payload in payloads:
            if len(payload) > LARGEST_VIEWED:
                raise TooLarge(f"a payload of {len(payload)} bytes is too large: {LARGEST_VIEWED} at most")
            digest = hash_bytes(payload)
            blobs[digest] = JournalBlob(digest, Form.PLAIN, len(payload), payload)
        if sum(blob.raw_len for blob in blobs.values()) <= self._writer.journalled_bytes:
            self._intake.note_earlier(earlier)
            return list(blobs.values())
        if any(digest in self._writer.pending for digest in earlier.values()):
            # what is to be built upon must lie in the packs
            self.flush()
        load = self.load()
        load.payloads([blob.body for blob in blobs.values()], earlier)
        load.sync()
        return []

    def put_blob(self, data: bytes) -> Hash:
        """Store ``data`` and return its name once it is durable. For a day at least nothing need name it."""
        load = self.load()
        digest = load.blob(data)
        load.sync()
        self._intake.touch(digest)
        return digest

    def set_metadata(self, context_id: int, changes: dict[str, object]) -> None:
        """Change metadata of a context: keys replace, None removes."""
        self._known(context_id)
        with self.labelling if "labels" in changes else nullcontext():
            self.submit(Request(context_id, changes=_json(changes)))

    def in_form(self, payload: bytes, encoding: int) -> bytes:
        """Return a payload as it is stored."""
        form = self.canonical.get(encoding)
        return form(payload) if form else payload

    def coded_turn(self, payload: bytes, tag: int, codec: int) -> NewTurn:
        """Describe a turn of a type that is known by its tag."""
        return NewTurn(hash_bytes(payload), tag, codec, 0, now_ms())

    def described(self, item: Append) -> NewTurn:
        """Describe the turn that an append makes."""
        digest = hash_bytes(item.payload)
        return self.new_turn(digest, item.type_name, item.encoding, item.type_version, item.created_ms)


def _key(key: bytes) -> bytes:
    if len(key) > _LONGEST_KEY:
        raise UsageError(f"an idempotency key of {len(key)} bytes is too long: {_LONGEST_KEY} at most")
    return key


def _json(metadata: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(metadata)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"metadata must be what JSON can hold: {error}") from None
