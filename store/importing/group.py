"""Sessions whose last commits are made together: many small ones cost one sync, and are compressed with each other."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest

import msgspec
from msgspec import Struct

from store.commit.intake import Load
from store.commit.request import NewTurn, Request
from store.content.cuts import MAX_CUT_BYTES
from store.conversations import branch
from store.conversations.chain import Chain
from store.conversations.viewer import Measured
from store.disk.turn_format import EDITED, Encoding, Turn
from store.editing.merge import bring
from store.errors import Conflict, ConvfsError, DamageError, Gone, NotFound, StoreFailed
from store.events.conversation import EventRow, ResourceRow
from store.events.event import Event, Kind
from store.formats.core.format import ExternalBlob
from store.ids import HASH_SIZE, Hash, patch_of
from store.importing.crew import Records
from store.importing.prepared import Alias, Chunk, Prepared
from store.importing.projects import Repositories
from store.importing.snapshot import Passed, nowhere
from store.importing.unclaimed import Overtaken, Unclaimed
from store.importing.unseen import Unseen
from store.index.views import Measure, Run
from store.store import Store

_BATCH_RECORDS = 2048
_BATCH_BYTES = 8 << 20
_NO_HASH = Hash(bytes(HASH_SIZE))


class _Record(Struct, frozen=True, gc=False):
    """A record to append; of one too large to be held, only the blob's ``digest`` is here."""

    type_name: str
    payload: bytes | None
    size: int
    digest: Hash | None


def stored(load: Load, data: memoryview, passed: Passed = nowhere) -> Hash:
    """Store content of any size, and return its hash."""
    return load.huge(data, passed) if len(data) > MAX_CUT_BYTES else load.blob(bytes(data))


def events_of(store: Store, head: int, after: int = 0) -> Iterator[Event]:
    """Yield the readable events of a branch, of the records behind the first ``after``."""
    with suppress(ConvfsError):
        for _row, event in store.viewer.events(store.records.rows(head)[after:]):
            if isinstance(event, Event):
                yield event


def _are_measured(store: Store, runs: tuple[Run, ...], count: int) -> bool:
    """Return whether the first records of a branch are measured."""
    return store.views.sums(branch.part(runs, 0, count))[0] == count


class Appender:
    """Appends records to a branch: after record ``number`` of the branch ``runs``, 0 where nothing precedes.

    ``sums`` are the measures of the branch up to there (None: unknown). ``unseen`` gets the events of the records.
    ``prepared`` are the records, if they are those of a new session that another process has prepared. Without
    ``measures``, a new branch is seen only.
    Full batches become turns that no branch shows yet; the caller commits the rest, together with the head:
    :meth:`turns`, a sync of ``load``, :meth:`measure`, the commit, :meth:`file`.
    """

    def __init__(
        self,
        store: Store,
        load: Load,
        runs: tuple[Run, ...],
        number: int,
        sums: Measure | None,
        unseen: Unseen,
        prepared: Records | None = None,
        *,
        measures: bool = True,
    ) -> None:
        self.base = branch.position(runs, number) if number else None
        """The turn before the appended ones, None if there is none."""
        self.parent = self.base
        """The last committed turn, None if there is none."""
        self.context = 0
        """The context of the records, once all is committed."""
        self.appended = 0
        """The number of records that were appended, or will be."""
        self.opaque = 0
        """The number of them that were too large to be looked into."""
        self.size = 0
        """The number of bytes that wait for a commit."""
        self.types: set[str] = set()
        """The names of the types of the records that wait."""
        self.aliases: dict[bytes, tuple[str, bytes, Hash]] = {}
        """Other names of content, to be committed."""
        self.arrived: set[bytes] = set()
        """The foreign digests in records of content that the store has, or will have."""
        self.sums = sums
        """The measures of the branch, without its head; None if they are unknown."""
        self.last_ms = 0
        """The latest time in the measured records, in Unix milliseconds, 0 if none has one."""
        self.problems: list[str] = []
        """Content that was left out, a line each."""
        self.missing: list[str] = []
        """Missing content that records refer to, a line each."""
        self._store = store
        self._load = load
        self._number = number
        self._runs = runs
        self._measures = measures if number == 0 else sums is not None or _are_measured(store, runs, number)
        """False where it is put off, or records before are not measured yet: these follow from them."""
        self._chain: Chain | None = None
        if store.viewer.renderer is not None:
            self._chain = store.viewer.chain(partial(branch.position, runs), number + 1, self._blob)
        self._batch: list[_Record | Prepared] = []
        self._missing: set[bytes] = set()
        self._prepared = prepared
        self._seen = number
        """The last record of the branch that was seen elsewhere: those after it that are prepared are seen here."""
        self._defined: tuple[tuple[tuple[str, str], ...], ...] = ()
        """The definitions of each record that was, once some are seen here."""
        self._unseen = unseen
        self._unseen.read_by(lambda: events_of(store, self.parent or 0, number))

    def add(self, type_name: str, payload: bytes) -> None:
        self._take(_Record(type_name, payload, len(payload), None))

    def add_prepared(self, chunk: Chunk) -> None:
        """Append the next records of those that are prepared."""
        # where nothing is drawn, nothing is seen of records that are not prepared, either
        if self._chain is not None:
            seen = chunk.seen
            self.sums = None
            self._seen += seen.count
            self.last_ms = max(self.last_ms, seen.time_ms)
            self._defined = self._defined or seen.defines
            self._unseen.note(seen.glimpse, seen.count, seen.fault)
        self._load.prepared(chunk.packed, chunk.rest)
        self.appended += len(chunk.records)
        if len(self._batch) + len(chunk.records) < _BATCH_RECORDS and self.size + chunk.size < _BATCH_BYTES:
            self._batch += chunk.records
            self.types.update({record.type_name for record in chunk.records})
            self.size += chunk.size
        else:
            for record in chunk.records:
                self._put(record, record.size)

    def prepared_outside(self, aliases: Iterable[Alias]) -> None:
        """Take the names of content beside the session that comes with the next records that are prepared."""
        for algorithm, digest, name in aliases:
            if digest not in self.arrived:
                self.arrived.add(digest)
                if self._store.contents.aliased(algorithm, digest) is None:
                    self.aliases[digest] = (algorithm, digest, name)

    def add_huge(self, type_name: str, data: memoryview, passed: Passed) -> None:
        """Append a record that is too large to be held; ``passed`` gets the progress of reading it."""
        self.opaque += 1
        self._take(_Record(type_name, None, len(data), self._load.huge(data, passed)))

    def external(self, blob: ExternalBlob) -> bool:
        """Store content that a record names by a foreign digest; return whether the store has it then."""
        if blob.digest in self.arrived or blob.digest in self._missing:
            return blob.digest in self.arrived
        if self._store.contents.aliased(blob.algorithm, blob.digest) is not None:
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
        self.aliases[blob.digest] = (blob.algorithm, blob.digest, stored(self._load, data))
        return True

    def turns(self) -> list[NewTurn]:
        """Write the content of the waiting records into the packs; return their turns, to be committed."""
        batch = self._batch
        missing = [one.payload for one in batch if one.digest is None and one.payload is not None]
        hashes = iter(self._load.payloads(missing) if missing else ())
        like = {name: self._store.contexts.new_turn(_NO_HASH, name, Encoding.JSON) for name in self.types}
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
        """Return the turns of the branch that the waiting records replace, none if they are damaged."""
        runs = branch.part(self._runs, self._number, len(self._batch))
        try:
            return [turn for run in runs for turn in self._store.turns.range(*run)]
        except DamageError:
            return []

    def measure(self, turns: Sequence[NewTurn]) -> Measured:
        """See and measure the waiting records, as these turns, once their content can be read.

        Those that are prepared, very many, or follow others that are not measured, are seen only: the rest is done when
        they are filed, or asked for.
        """
        measured, chain = Measured(), self._chain
        if chain is not None and self._number + len(self._batch) > self._seen:
            for number, (record, turn) in enumerate(zip(self._batch, turns, strict=True), self._number + 1):
                if number <= self._seen:
                    continue
                if isinstance(record, Prepared) or not self._measures:
                    event = self._see(record, chain)
                else:
                    edited_ms = turn.created_ms if turn.flags & EDITED else 0
                    event = self._store.viewer.measure(
                        measured, number, record.type_name, record.payload, record.size, chain, edited_ms=edited_ms
                    )
                self.last_ms = max(self.last_ms, event.time_ms)
                self._unseen.add(event)
        if not self._measures:
            self.sums = None
        return measured

    def _see(self, record: _Record | Prepared, chain: Chain) -> Event:
        for defines in self._defined:
            chain.advance(Event(Kind.RECORD, defines=defines))
        self._defined = ()
        return self._store.viewer.see(record.type_name, record.payload, record.size, chain)

    def file(self, request: Request, measured: Measured) -> tuple[list[EventRow], list[ResourceRow]]:
        """Count the records that waited as committed; return their rows to be filed."""
        self._number += len(self._batch)
        self._batch, self.size, self.types, self.aliases = [], 0, set(), {}
        if request.written:
            self.parent = request.written[-1].turn_id
        first = request.written[0].turn_id if request.written else 0
        rows = measured.rows(first)
        if self.sums is not None:
            # behind a patch, what was summed up may be otherwise
            known = self.sums.head == 0 or patch_of(self.sums.head) == patch_of(request.head.tip)
            is_sure = known and not any(row.unsure for row in rows)
            self.sums = self.sums.at(request.head.tip, rows) if is_sure else None
        return rows, measured.resources(first)

    def let_go(self) -> None:
        """Let go of what was needed for its records: nothing is appended any more."""
        self._chain = self._prepared = None

    def _take(self, record: _Record) -> None:
        self.appended += 1
        self._put(record, len(record.payload or b""))

    def _put(self, record: _Record | Prepared, size: int) -> None:
        self._batch.append(record)
        self.types.add(record.type_name)
        self.size += size
        if len(self._batch) >= _BATCH_RECORDS or self.size >= _BATCH_BYTES:
            self._commit_batch()

    def _commit_batch(self) -> None:
        turns = self.turns()
        self._load.sync()
        measured = self.measure(turns)
        request = Request(
            0,
            parent=self.parent,
            turns=turns,
            move_head=False,
            types=self._store.writer.types_for(self.types),
            aliases=tuple(self.aliases.values()),
        )
        self._store.writer.submit(request)
        self._store.views.add(*self.file(request, measured))

    def _blob(self, algorithm: str, digest: bytes) -> bytes | None:
        alias = self.aliases.get(digest)
        return self._store.blobs.blob(alias[2]) if alias else self._store.contents.aliased(algorithm, digest)


GROUP_BYTES = 16 << 20
"""The bytes of sessions that are committed together: each commit touches most pages of a large index."""
GROUP_FILES = 256
MUCH_BYTES = 16 << 20
"""New sessions of so many bytes together are worth other processes: these take a moment to start."""


class Ending(Struct, eq=False):
    """The last commit of one session, which waits until it is done, or has failed with an ``error``."""

    appender: Appender
    context: int | None
    changes: dict[str, object]
    imported: int
    turns: list[NewTurn]
    unclaimed: Unclaimed | None
    error: Exception | None = None


class Group:
    """Collects the rest of sessions until it is worth a commit. Their appenders write to ``load``."""

    def __init__(self, store: Store, *, measures: bool = True) -> None:
        self.load = store.intake.load()
        self.measures = measures
        """False if there is much to import: what is new is measured when it is filed, which draws it anyway."""
        self.names: set[tuple[str, str]] = set()
        """The projects and names of new conversations that wait."""
        self.repositories = Repositories()
        """Those that sessions ran in."""
        self.arrived: set[bytes] = set()
        """The foreign digests in records of content that the store has."""
        self.begins: set[str] = set()
        """The beginnings that identify new conversations that wait."""
        self._store = store
        self._endings: list[Ending] = []
        self._size = 0

    @property
    def full(self) -> bool:
        return self._size >= GROUP_BYTES or len(self._endings) >= GROUP_FILES

    def end(
        self,
        appender: Appender,
        context: int | None,
        changes: dict[str, object],
        imported: int,
        unclaimed: Unclaimed | None = None,
    ) -> Ending:
        """Queue what waits in ``appender`` for a commit that moves the head of ``context`` (None: a new one) to it.

        ``changes`` is metadata; the time of a record becomes its ``updated_ms``. ``imported`` is the turn that the
        previous import moved the head to: if the context is no longer there, people have edited it, and what is new
        is brought into that. Fails with Overtaken where another machine of a space has imported the same session
        since ``unclaimed``, or has deleted what was found of it.
        """
        self._size += appender.size
        self.arrived |= appender.arrived
        begins = changes.get("begins")
        self.begins.update(begins if isinstance(begins, list) else ())
        ending = Ending(appender, context, changes, imported, appender.turns(), unclaimed)
        self._endings.append(ending)
        return ending

    def drop(self, endings: Collection[Ending]) -> None:
        """Commit nothing of these, as far as they wait."""
        self._endings = [ending for ending in self._endings if ending not in endings]

    def commit(self) -> None:
        """Commit everything that waits, each session by itself, and note what failed of it. Raises StoreFailed."""
        endings, self._endings, self._size = self._endings, [], 0
        self.names, self.begins = set(), set()
        try:
            self._commit(endings)
        except Exception as error:
            # none of them is left untold
            for ending in endings:
                ending.error = error
            raise

    def _commit(self, endings: Sequence[Ending]) -> None:
        self.load.sync()
        types = {name for ending in endings for name in ending.appender.types}
        if unknown := self._store.writer.types_for(types):
            # before all that use them, and not one of them, which may be refused
            self._store.writer.submit(Request(0, types=unknown, move_head=False))
        waiting: list[tuple[Ending, Measured, Request]] = []
        for ending in endings:
            appender = ending.appender
            try:
                measured = appender.measure(ending.turns)
            except StoreFailed:
                raise
            except Exception as failure:
                # the others go on without it
                ending.error = failure
                continue
            if appender.last_ms:
                ending.changes["updated_ms"] = appender.last_ms
            request = Request(
                ending.context,
                parent=appender.parent,
                turns=ending.turns,
                changes=msgspec.json.encode(ending.changes),
                action="import",
                aliases=tuple(appender.aliases.values()),
                expected_head=self._expected(ending),
                still=ending.unclaimed.still(ending.changes) if ending.unclaimed and not ending.context else None,
                name=self._name(ending),
            )
            waiting.append((ending, measured, request))
        self._store.writer.submit_all([request for *_ending, request in waiting])
        rows: list[EventRow] = []
        resources: list[ResourceRow] = []
        sums: list[tuple[int, Measure]] = []
        edited: list[Ending] = []
        for ending, measured, request in waiting:
            appender, error, brought = ending.appender, request.error, False
            if isinstance(error, Gone) or (isinstance(error, Conflict) and self._is_overtaken(ending)):
                error = Overtaken(str(error))
            elif isinstance(error, Conflict) and ending.context is not None:
                # its turns, without anything that shows them
                aliases = tuple(appender.aliases.values())
                request = Request(0, parent=appender.parent, turns=ending.turns, move_head=False, aliases=aliases)
                brought = True
                self._store.writer.submit_all([request])
                error = request.error
            ending.error = error
            if error is not None:
                continue
            appender.context = ending.context or request.head.context
            more_rows, more_resources = appender.file(request, measured)
            rows += more_rows
            resources += more_resources
            # it is in a circle with that, which would stay until Python looks for one
            appender.let_go()
            if brought:
                edited.append(ending)
            elif appender.sums is not None:
                sums.append((request.head.context, appender.sums))
        # a commit stands even if the index fails
        with suppress(DamageError):
            self._store.views.add(rows, resources, sums)
        for ending in edited:
            try:
                bring(self._store, ending.context or 0, ending.imported, ending.appender.parent or 0, ending.changes)
            except (ConvfsError, OSError) as failure:
                ending.error = failure

    def _is_overtaken(self, ending: Ending) -> bool:
        """Return whether another machine has brought in the session, or taken the name of a conversation."""
        catalogue = self._store.catalogue
        if ending.context is None:
            return True
        with suppress(NotFound):
            if catalogue.entry(ending.context).imported_head != ending.imported:
                return True
        name = self._name(ending)
        named = catalogue.by_name(*name) if name is not None else None
        # else people have edited it
        return named is not None and named.id != ending.context

    def _name(self, ending: Ending) -> tuple[str, str] | None:
        """Return the name that nobody else may have at the commit: in a space, others give names meanwhile."""
        project, name = ending.changes.get("project"), ending.changes.get("name")
        is_given = isinstance(project, str) and isinstance(name, str) and self._store.catalogue.machine
        return (str(project), str(name)) if is_given else None

    def _expected(self, ending: Ending) -> int | None:
        """Return the tip that the context of a session must have so that its head can be moved."""
        if ending.context is None:
            return None
        head = self._store.writer.head(ending.context)
        # a plain continuation of the last import leaves the patches of what was there as they are
        goes_on = head.turn == ending.imported == (ending.appender.base or 0)
        return head.tip if goes_on else ending.imported
