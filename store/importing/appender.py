"""Records on their way into the turn log: content to the packs, turns to the journal, measures to the index."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from store.commit.request import NewTurn, Request
from store.content.cutting import MAX_CUT_BYTES
from store.conversations.chain import Chain
from store.conversations.viewer import Measured
from store.disk.turn_format import Encoding
from store.editing.merge import bring
from store.errors import Conflict, DamageError, NotFound
from store.events.event import Event, Kind
from store.formats.format import ExternalBlob
from store.ids import Hash
from store.index.views import Measure, Run
from store.store import Store

_BATCH_RECORDS = 2048
_BATCH_BYTES = 8 << 20


class _Record(Struct, frozen=True):
    """A record to be appended; of one too large to be held only the blob's ``digest`` is here."""

    type_name: str
    payload: bytes | None
    size: int
    digest: Hash | None


class Appender:
    """Appends records to a branch: after record ``number`` of the branch ``runs``, which is turn ``parent``.

    Both are 0 and None where nothing precedes. ``sums`` are the measures of the branch up to there (None: not known).
    Full batches become turns that no branch shows yet; :meth:`finish` commits the rest together with the head.
    """

    def __init__(
        self, store: Store, runs: tuple[Run, ...], number: int, parent: int | None, sums: Measure | None
    ) -> None:
        self.appended = 0
        self.opaque = 0
        """How many of the records were too large to be looked into."""
        self.last_ms = 0
        """The latest time that a record told, in Unix milliseconds, 0 if none did."""
        self.problems: list[str] = []
        """What was left out, a line each."""
        self._store = store
        self._number = number
        self._parent = parent
        self._sums = sums
        self._load = store.load()
        self._viewer = store.viewer if store.viewer.renderer is not None else None
        self._chain: Chain | None = store.viewer.chain(runs, number + 1, self._blob) if self._viewer else None
        self._batch: list[_Record] = []
        self._bytes = 0
        self._aliases: dict[bytes, tuple[str, bytes, Hash]] = {}
        self._asked: set[bytes] = set()

    def add(self, type_name: str, payload: bytes) -> None:
        """Append a record."""
        self._take(_Record(type_name, payload, len(payload), None))

    def add_huge(self, type_name: str, data: memoryview, passed: Callable[[int], None]) -> None:
        """Append a record that is too large to be held; ``passed`` is told how far reading it has come."""
        self.opaque += 1
        self._take(_Record(type_name, None, len(data), self._load.huge(data, passed)))

    def blob(self, data: memoryview, passed: Callable[[int], None]) -> Hash:
        """Store content that is no record, of any size."""
        return self._load.huge(data, passed) if len(data) > MAX_CUT_BYTES else self._load.blob(bytes(data))

    def external(self, blob: ExternalBlob) -> None:
        """Bring in content that a record names by a foreign digest, if it is there."""
        if blob.digest in self._asked:
            return
        self._asked.add(blob.digest)
        if self._store.aliased(blob.algorithm, blob.digest) is not None:
            return
        try:
            data = memoryview(blob.read())
        except NotFound:
            # a reference that leads nowhere stays one: the record says so when it is read
            return
        except DamageError as error:
            self.problems.append(str(error))
            return
        self._aliases[blob.digest] = (blob.algorithm, blob.digest, self.blob(data, lambda _offset: None))

    def finish(self, context: int | None, changes: dict[str, object], imported: int) -> None:
        """Commit what is left with metadata, and move the head of ``context`` (None: a new one) to the last record.

        ``imported`` is the head that the import before made: if it is the context's no more, people have edited it,
        and what is new is brought into that. A record that told its time is the conversation's last update.
        """
        turns, events = self._prepare()
        if self.last_ms:
            changes["updated_ms"] = self.last_ms
        encoded = msgspec.json.encode(changes)
        expected = None if context is None else imported
        request = Request(
            context, parent=self._parent, turns=turns, changes=encoded, action="import", expected_head=expected
        )
        try:
            self._commit(request, events)
        except Conflict:
            self._commit(Request(0, parent=self._parent, turns=turns, move_head=False), events)
            if context is not None:
                bring(self._store, context, imported, self._parent or 0, changes)
            return
        if self._sums is not None:
            sums = msgspec.structs.replace(self._sums, head=request.head.turn)
            self._store.views.set_measure(request.head.context, sums)

    def _take(self, record: _Record) -> None:
        self._batch.append(record)
        self._bytes += len(record.payload or b"")
        if len(self._batch) >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES:
            turns, events = self._prepare()
            self._commit(Request(0, parent=self._parent, turns=turns, move_head=False), events)

    def _prepare(self) -> tuple[list[NewTurn], list[Event]]:
        """Bring the batch's content into the packs; return its turns, and its events if they are to be measured."""
        batch = self._batch
        hashes = iter(self._load.payloads([record.payload for record in batch if record.payload is not None]))
        turns = [
            self._store.new_turn(record.digest or next(hashes), record.type_name, Encoding.JSON) for record in batch
        ]
        self._load.sync()
        events: list[Event] = []
        if self._viewer is not None and self._chain is not None:
            for record in batch:
                if record.payload is None:
                    event = self._viewer.see_huge(record.size)
                else:
                    event = self._viewer.see(record.type_name, record.payload, self._chain)
                self._chain.advance(event)
                self.last_ms = max(self.last_ms, event.time_ms)
                events.append(event)
        return turns, events

    def _commit(self, request: Request, events: list[Event]) -> Request:
        """Commit the batch, and file what is measured of its events."""
        store, batch = self._store, self._batch
        request.types = store.types_for({record.type_name for record in batch})
        request.aliases = tuple(self._aliases.values())
        store.submit(request)
        self._batch, self._bytes, self._aliases = [], 0, {}
        if self._viewer is not None:
            measured = Measured()
            for number, (turn, record, event) in enumerate(
                zip(request.written, batch, events, strict=True), self._number + 1
            ):
                self._viewer.measure(measured, turn, number, event, record.size)
            store.views.add(measured.rows, measured.resources)
            self._sum(measured)
        self._number += len(batch)
        self.appended += len(batch)
        if request.written:
            self._parent = request.written[-1].turn_id
        return request

    def _sum(self, measured: Measured) -> None:
        if self._sums is not None:
            rows, sums = measured.rows, self._sums
            self._sums = Measure(
                0,
                sums.events + sum(1 for row in rows if row.kind is not Kind.RECORD),
                sums.transcript_size + sum(row.section_size for row in rows),
                sums.json_size + sum(row.json_size for row in rows),
            )

    def _blob(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content by a foreign digest, also while its alias is not committed."""
        alias = self._aliases.get(digest)
        return self._store.blob(alias[2]) if alias else self._store.aliased(algorithm, digest)
