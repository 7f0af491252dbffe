"""What comes into a store: contexts, turns, blobs and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from store.commit.checkpointer import Checkpointer
from store.commit.intake import Intake, Load
from store.commit.request import ContextHead, NewTurn, Request
from store.conversations.contents import Contents
from store.conversations.viewer import LARGEST_VIEWED
from store.disk import turn_format
from store.disk.blob_format import Form
from store.disk.journal_format import JournalBlob
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, NotFound, TooLarge, UsageError
from store.ids import Hash, hash_bytes, now_ms, tip_of, turn_of, type_tag


class Append(Struct, frozen=True):
    """One turn to append: the producer's bytes, the name of their type, and how they are encoded."""

    payload: bytes
    type_name: str
    encoding: Encoding = Encoding.JSON
    type_version: int = 0
    created_ms: int = 0


class Appends(Contents):
    """Writes to one store; what it writes with is set by who makes it."""

    _intake: Intake
    _checkpointer: Checkpointer

    def create_context(self, base_turn: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context whose branch is empty, or ends in ``base_turn`` (or tip); durable when it returns."""
        changes = _json(metadata) if metadata else None
        return self.submit(Request(None, parent=base_turn, changes=changes, action="create")).head

    def fork(self, context_id: int, at: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context that branches off another at turn ``at`` (0: its head). Copies nothing.

        NotFound if there is no such context, or ``at`` is not in it.
        """
        head = self._writer.head(context_id)
        if at:
            self._position(context_id, at)
        base = turn_of(at) or head.turn
        forked: dict[str, object] = {"forked_from": {"context": context_id, "turn": base}, **(metadata or {})}
        parent = tip_of(base, head.patch)
        return self.submit(Request(None, parent=parent, changes=_json(forked), action="fork")).head

    def append(
        self,
        context_id: int,
        payload: bytes,
        type_name: str,
        *,
        encoding: Encoding = Encoding.JSON,
        parent: int = 0,
        created_ms: int = 0,
    ) -> Turn:
        """Append one turn to a context and return it once it is durable.

        It follows ``parent`` (0: the head), or what an edit has put in its place, and the context's head moves to it.
        """
        request = None
        if not parent:
            request = self.appending(context_id, payload, type_name, encoding=encoding, created_ms=created_ms)
        if request is None:
            return self.append_many(context_id, [Append(payload, type_name, encoding, 0, created_ms)], parent=parent)[0]
        return self.submit(request).written[0]

    def appending(
        self,
        context_id: int,
        payload: bytes,
        type_name: str,
        *,
        encoding: Encoding = Encoding.JSON,
        type_version: int = 0,
        created_ms: int = 0,
    ) -> Request | None:
        """Return the request that :meth:`append` submits, for whoever submits many at once (:meth:`submit_all`).

        The new turn follows the head. None where the payload is so large that it does not go through the journal.
        """
        # what append_many does, for the one that is waited for most
        blob, turn = self._item(payload, type_name, encoding, type_version, created_ms)
        if blob.raw_len > self._writer.journalled_bytes:
            return None
        self._known(context_id)
        types = () if turn.type_tag in self._writer.types else self.types_for((type_name,))
        return Request(context_id, turns=[turn], blobs=[blob], types=types)

    def append_many(self, context_id: int, items: Sequence[Append], *, parent: int = 0) -> list[Turn]:
        """Append turns that follow each other; all of them become durable, or none."""
        if not items:
            return []
        self._known(context_id)
        fresh = self.journalled([item.payload for item in items])
        turns = [self.described(item) for item in items]
        types = self.types_for([item.type_name for item in items])
        while True:
            after, head = parent, None
            if parent:
                turn, now = self.turn(turn_of(parent)), self.head(context_id)
                head = now.tip
                after = self.lineage.successor(context_id, self.runs(now.turn), turn.turn_id, turn.depth)
            try:
                return self.submit(
                    Request(context_id, parent=after, turns=turns, blobs=fresh, types=types, expected_head=head)
                ).written
            except Conflict:
                # an edit may have superseded the parent meanwhile
                continue

    def journalled(self, payloads: Iterable[bytes], earlier: Mapping[Hash, Hash] | None = None) -> list[JournalBlob]:
        """Return what a request must bring for turns with these payloads: nothing where it is better packed at once.

        ``earlier`` says of payloads, by their hashes, which one each takes the place of: so an edit of a large one
        takes little. TooLarge if one is.
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
        if any(self._writer.pending.get(digest) for digest in earlier.values()):
            # what is to be built upon must lie in the packs
            self.flush()
        load = self.load()
        load.payloads([blob.body for blob in blobs.values()], earlier)
        load.sync()
        return []

    def _item(
        self, payload: bytes, type_name: str, encoding: Encoding, type_version: int, created_ms: int
    ) -> tuple[JournalBlob, NewTurn]:
        size = len(payload)
        if size > LARGEST_VIEWED:
            raise TooLarge(f"a payload of {size} bytes is too large: {LARGEST_VIEWED} at most")
        digest = hash_bytes(payload)
        turn = self.new_turn(digest, type_name, encoding, type_version, created_ms)
        return JournalBlob(digest, Form.PLAIN, size, payload), turn

    def put_blob(self, data: bytes) -> Hash:
        """Store ``data`` and return its name once it is durable."""
        load = self.load()
        digest = load.blob(data)
        load.sync()
        return digest

    def set_metadata(self, context_id: int, changes: dict[str, object]) -> None:
        """Change metadata of a context: keys replace, None removes."""
        self._known(context_id)
        self.submit(Request(context_id, changes=_json(changes)))

    def _known(self, context_id: int) -> None:
        # a request for context 0 is one for none, which is not for callers to make
        if context_id <= 0:
            raise NotFound(f"there is no context {context_id}")

    # What importers use: blobs in bulk, then turns and head in one request.

    def load(self) -> Load:
        """Begin to write many blobs straight into the packs."""
        return self._intake.load()

    def described(self, item: Append) -> NewTurn:
        """Describe the turn that an append makes."""
        digest = hash_bytes(item.payload)
        return self.new_turn(digest, item.type_name, item.encoding, item.type_version, item.created_ms)

    @property
    def turns_at_once(self) -> int:
        """How many turns one request should bring at most."""
        return self._writer.turns_at_once

    def new_turn(
        self, digest: Hash, type_name: str, encoding: Encoding, type_version: int = 0, created_ms: int = 0
    ) -> NewTurn:
        """Describe a turn whose payload is the blob ``digest``. UsageError where a number is out of range."""
        if not 0 <= created_ms < 1 << 63:
            raise UsageError(f"{created_ms} is no time in milliseconds since 1970")
        try:
            codec, tag = turn_format.codec(encoding, type_version), type_tag(type_name)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return NewTurn(digest, tag, codec, 0, created_ms or now_ms())

    def check(self) -> None:
        """Raise StoreFailed if the store takes no more writes, StoreFull while there is no room for any."""
        self._writer.check()
        self._writer.check_room()

    def submit(self, request: Request) -> Request:
        """Make a request durable; types that it is the first to use must be in it (:meth:`types_for`)."""
        return self._writer.submit(request)

    def submit_all(self, requests: Sequence[Request]) -> None:
        """As :meth:`submit`, of many at once, each by itself: what is wrong with one is its ``error``."""
        self._writer.submit_all(requests)

    def types_for(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Return (name, tag) of those types that the store does not know yet."""
        known = self._writer.types
        return tuple((name, tag) for name in sorted(set(names)) if (tag := type_tag(name)) not in known)

    def quiesce(self) -> None:
        """As :meth:`flush`, and wait until nothing is going on in the background that would change the files."""
        self._checkpointer.quiesce()

    def flush(self) -> None:
        """Bring everything that was committed from the journal into packs and logs."""
        self._checkpointer.flush()


def _json(metadata: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(metadata)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"metadata must be what JSON can hold: {error}") from None
