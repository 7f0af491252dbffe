"""Records on their way into the turn log: content to the packs, turns to the journal, measures to the index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest

from msgspec import Struct

from store.commit.load import Load
from store.commit.request import NewTurn, Request
from store.content.cutting import MAX_CUT_BYTES
from store.conversations import branch
from store.conversations.chain import Chain
from store.conversations.viewer import Measured
from store.disk.turn_format import EDITED, Encoding, Turn
from store.errors import DamageError, NotFound
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Kind
from store.formats.format import ExternalBlob
from store.ids import HASH_SIZE, Hash
from store.index.views import Measure, Run
from store.store import Store

_BATCH_RECORDS = 2048
_BATCH_BYTES = 8 << 20
_NO_HASH = Hash(bytes(HASH_SIZE))


class _Record(Struct, frozen=True, gc=False):
    """A record to be appended; of one too large to be held only the blob's ``digest`` is here."""

    type_name: str
    payload: bytes | None
    size: int
    digest: Hash | None


class Appender:
    """Appends records to a branch: after record ``number`` of the branch ``runs``, which is turn ``parent``.

    Both are 0 and None where nothing precedes. ``sums`` are the measures of the branch up to there (None: not known).
    Full batches become turns that no branch shows yet; what is left is for the caller to commit, together with the
    head: :meth:`turns`, a sync of ``load``, :meth:`measure`, the commit, :meth:`file`.
    """

    def __init__(
        self,
        store: Store,
        load: Load,
        runs: tuple[Run, ...],
        number: int,
        parent: int | None,
        sums: Measure | None,
    ) -> None:
        self.base = parent
        """The turn that what is appended follows, None if there is none."""
        self.parent = parent
        """The last turn that has been committed, None if there is none."""
        self.context = 0
        """The context that the records are of, once all is committed."""
        self.appended = 0
        """How many records were appended, or will be."""
        self.opaque = 0
        """How many of them were too large to be looked into."""
        self.size = 0
        """How many bytes wait to be committed."""
        self.aliases: dict[bytes, tuple[str, bytes, Hash]] = {}
        """Other names of content, to be committed."""
        self.arrived: set[bytes] = set()
        """The foreign digests that records name and whose content the store has, or will have."""
        self.sums = sums
        """The measures of the branch, without its head; None if they are not known."""
        self.last_ms = 0
        """The latest time that a record told of those that were measured, in Unix milliseconds, 0 if none did."""
        self.problems: list[str] = []
        """What was left out, a line each."""
        self.missing: list[str] = []
        """What records refer to and was not to be found, a line each."""
        self._store = store
        self._load = load
        self._number = number
        self._runs = runs
        self._viewer = store.viewer if store.viewer.renderer is not None else None
        self._chain: Chain | None = None
        if self._viewer is not None:
            self._chain = self._viewer.chain(partial(branch.position, runs), number + 1, self._blob)
        self._batch: list[_Record] = []
        self._missing: set[bytes] = set()

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

    def external(self, blob: ExternalBlob) -> bool:
        """Bring in content that a record names by a foreign digest; say whether the store has it then."""
        if blob.digest in self.arrived or blob.digest in self._missing:
            return blob.digest in self.arrived
        if self._store.aliased(blob.algorithm, blob.digest) is not None:
            self.arrived.add(blob.digest)
            return True
        try:
            data = memoryview(blob.read())
        except (NotFound, DamageError) as error:
            # the reference stays one: the record says so when it is read
            self._missing.add(blob.digest)
            (self.problems if isinstance(error, DamageError) else self.missing).append(str(error))
            return False
        self.arrived.add(blob.digest)
        self.aliases[blob.digest] = (blob.algorithm, blob.digest, self.blob(data, lambda _offset: None))
        return True

    # -- committing ------------------------------------------------------------------------------------------------

    @property
    def types(self) -> set[str]:
        """The payload types of the records that wait."""
        return {record.type_name for record in self._batch}

    def turns(self) -> list[NewTurn]:
        """Bring the content of the records that wait into the packs; return their turns, to be committed."""
        batch = self._batch
        hashes = iter(self._load.payloads([record.payload for record in batch if record.payload is not None]))
        like = {name: self._store.new_turn(_NO_HASH, name, Encoding.JSON) for name in self.types}
        turns: list[NewTurn] = []
        for record, old in zip_longest(batch, self._replaced()):
            turn = like[record.type_name]
            digest = record.digest or next(hashes)
            flags, created_ms = turn.flags, turn.created_ms
            if old is not None:
                same = old.payload_hash == digest
                flags, created_ms = (old.flags & EDITED, old.created_ms) if same else (EDITED, created_ms)
            turns.append(NewTurn(digest, turn.type_tag, turn.codec, flags, created_ms))
        return turns

    def _replaced(self) -> list[Turn]:
        """Return the turns of the branch whose places the records take that wait, none where they are damaged."""
        runs = branch.part(self._runs, self._number, len(self._batch))
        try:
            return [turn for run in runs for turn in self._store.turns.range(*run)]
        except DamageError:
            return []

    def measure(self, turns: Sequence[NewTurn]) -> Measured:
        """See and measure the records that wait, as these turns, once their content can be read."""
        measured = Measured()
        if self._viewer is not None and self._chain is not None:
            for number, (record, turn) in enumerate(zip(self._batch, turns, strict=True), self._number + 1):
                edited_ms = turn.created_ms if turn.flags & EDITED else 0
                payload, size = record.payload, record.size
                self._viewer.measure(
                    measured, number, record.type_name, payload, size, self._chain, edited_ms=edited_ms
                )
            self.last_ms = max(self.last_ms, measured.last_ms)
        return measured

    def file(self, request: Request, measured: Measured) -> tuple[list[EventRow], list[ResourceRow]]:
        """Take note that the records that waited are committed; return what is to be filed of them."""
        self._number += len(self._batch)
        self._batch, self.size, self.aliases = [], 0, {}
        if request.written:
            self.parent = request.written[-1].turn_id
        first = request.written[0].turn_id if request.written else 0
        rows = measured.rows(first)
        if self.sums is not None:
            sums = self.sums
            self.sums = Measure(
                request.head.tip,
                sums.events + sum(1 for row in rows if row.kind is not Kind.RECORD),
                sums.transcript_size + sum(row.section_size for row in rows),
                sums.json_size + sum(row.json_size for row in rows),
            )
        return rows, measured.resources(first)

    def _take(self, record: _Record) -> None:
        self.appended += 1
        self._batch.append(record)
        self.size += len(record.payload or b"")
        if len(self._batch) >= _BATCH_RECORDS or self.size >= _BATCH_BYTES:
            self._commit_batch()

    def _commit_batch(self) -> None:
        """Commit what waits as turns that no branch shows yet."""
        turns = self.turns()
        self._load.sync()
        measured = self.measure(turns)
        request = Request(
            0,
            parent=self.parent,
            turns=turns,
            move_head=False,
            types=self._store.types_for(self.types),
            aliases=tuple(self.aliases.values()),
        )
        self._store.submit(request)
        self._store.views.add(*self.file(request, measured))

    def _blob(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content by a foreign digest, also while its alias is not committed."""
        alias = self.aliases.get(digest)
        return self._store.blob(alias[2]) if alias else self._store.aliased(algorithm, digest)
