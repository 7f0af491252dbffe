"""One session on its way in: what of it the store has already, and the rest."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.commit.request import NewTurn, Request
from store.content.cutting import MAX_CUT_BYTES
from store.conversations import branch
from store.conversations.chain import Chain
from store.conversations.viewer import Measured
from store.disk.turn_format import Encoding
from store.errors import ConvfsError
from store.events.event import Event
from store.formats.format import About, Format, Source, Span
from store.ids import Hash, hash_bytes
from store.importing.cursor import Cursor, stamps
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.naming import name_conversation
from store.importing.snapshot import Snapshot
from store.index.catalogue import Entry
from store.index.views import Run
from store.store import Store

_BATCH_RECORDS = 2048
_BATCH_BYTES = 8 << 20
_ABOUT_RECORDS = 200
_ABOUT_BYTES = 256 << 10


class Done(Struct):
    """What came of one session. ``opaque`` counts records too large to be looked into."""

    conversation: str
    records: int = 0
    opaque: int = 0
    bytes_read: int = 0


class SessionImport:
    """Imports one session into ``store``; ``known`` is the conversation that it was imported as before."""

    def __init__(self, store: Store, format_: Format, source: Source, known: Entry | None) -> None:
        self._store = store
        self._format = format_
        self._source = source
        self._known = known
        self._load = store.load()
        self._runs: tuple[Run, ...] = store.runs(known.head) if known else ()
        self._kept = branch.length(self._runs)
        self._parent = 0
        self._number = 0
        self._chain: Chain | None = None
        self._last_ms = 0
        self._sampled: list[bytes] = []
        self._aliases: dict[bytes, tuple[str, bytes, Hash]] = {}
        self._batch: list[tuple[NewTurn, bytes | None, int]] = []
        self._batch_bytes = 0
        self._diverged = False
        self._done = Done("")

    def run(self, progress: Callable[[int, str], None] | None) -> Done:
        """Bring in what is new, and return what that was."""
        source, store = self._source, self._store
        files = stamps(source)
        label = source.path.name
        with Snapshot(source.main, store.root / "scratch") as snapshot:
            data = snapshot.data
            start, builder = self._begin(data)
            for path in source.first if start == 0 else ():
                self._record(path.read_bytes(), self._format.first_type)
            end = finished = start
            for span in self._format.spans(data, start):
                builder.gap(bytes(data[end : span.start]))
                self._span(data, span, snapshot.passed)
                finished, end = end, span.end
                if progress:
                    progress(span.end - finished, label)
                snapshot.passed(end)
            rest = bytes(data[end:])
            # a last record that nothing follows may still be being written: it is looked at again next time
            unfinished = not rest and end > start
            if unfinished:
                end = finished
            prefix = blake3(data[:end]).hexdigest()
            self._done.bytes_read = len(data) - start
        sidecars = {name: self._load.blob(path.read_bytes()).hex() for name, path in source.sidecars}
        self._flush()
        cursor = Cursor(end, prefix, self._number - unfinished, files)
        self._finish(cursor, builder.close(rest), sidecars, whole=start == 0)
        return self._done

    # -- what is known already -------------------------------------------------------------------------------------

    def _begin(self, data: memoryview) -> tuple[int, EnvelopeBuilder]:
        """Return the offset to go on from, with the chain positioned there."""
        known = self._known
        cursor = msgspec.convert(known.metadata["cursor"], Cursor) if known and "cursor" in known.metadata else None
        if (
            known is None
            or cursor is None
            or cursor.offset == 0
            or cursor.offset > len(data)
            or cursor.records > self._kept
            or blake3(data[: cursor.offset]).hexdigest() != cursor.prefix
        ):
            return 0, EnvelopeBuilder()
        envelope = msgspec.convert(known.metadata["envelope"], Envelope)
        self._number = cursor.records
        self._parent = branch.position(self._runs, cursor.records)
        return cursor.offset, EnvelopeBuilder(envelope, cursor.records - len(self._source.first))

    def _same_as_known(self, digest: Hash) -> bool:
        """Whether the record after the current one is in the store, as the conversation has it."""
        if self._diverged or self._number >= self._kept:
            return False
        turn = self._store.turn(branch.position(self._runs, self._number + 1))
        if turn.payload_hash != digest:
            return False
        self._number += 1
        self._parent = turn.turn_id
        return True

    # -- records ---------------------------------------------------------------------------------------------------

    def _span(self, data: memoryview, span: Span, passed: Callable[[int], None]) -> None:
        if span.end - span.start > MAX_CUT_BYTES:
            digest = self._load.huge(data[span.start : span.end], lambda at: passed(span.start + at))
            self._done.opaque += 1
            self._take(digest, self._format.main_type, None, span.end - span.start)
        else:
            self._record(bytes(data[span.start : span.end]), self._format.main_type)

    def _record(self, payload: bytes, type_name: str) -> None:
        if len(self._sampled) < _ABOUT_RECORDS and len(payload) < _ABOUT_BYTES:
            self._sampled.append(payload)
        for blob in self._format.blobs(self._source, payload):
            if blob.digest not in self._aliases:
                try:
                    self._aliases[blob.digest] = (blob.algorithm, blob.digest, self._load.blob(blob.read()))
                except ConvfsError:
                    # a reference that leads nowhere stays one: the record says so when it is read
                    continue
        if self._number < self._kept and not self._diverged and self._same_as_known(hash_bytes(payload)):
            return
        self._take(self._load.payload(payload), type_name, payload, len(payload))

    def _take(self, digest: Hash, type_name: str, payload: bytes | None, size: int) -> None:
        if payload is None and self._same_as_known(digest):
            return
        self._diverged = True
        turn = self._store.new_turn(digest, type_name, Encoding.JSON)
        self._batch.append((turn, payload, size))
        self._batch_bytes += len(payload) if payload else 0
        if len(self._batch) >= _BATCH_RECORDS or self._batch_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Append the batch as turns that follow the last, and measure them."""
        self._load.sync()
        if not self._batch:
            return
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        store = self._store
        types = store.types_for({self._format.main_type, self._format.first_type} - {""})
        aliases = tuple(self._aliases.values())
        request = store.submit(
            Request(
                0,
                parent=self._parent,
                turns=[turn for turn, _payload, _size in batch],
                move_head=False,
                types=types,
                aliases=aliases,
            )
        )
        if store.viewer.renderer is not None:
            self._measure(batch, request)
        self._number += len(batch)
        self._parent = request.written[-1].turn_id
        self._done.records += len(batch)

    def _measure(self, batch: list[tuple[NewTurn, bytes | None, int]], request: Request) -> None:
        viewer = self._store.viewer
        chain = self._chain = self._chain or viewer.chain(self._runs, self._number + 1)
        measured = Measured()
        for number, (turn, (_new, payload, size)) in enumerate(
            zip(request.written, batch, strict=True), self._number + 1
        ):
            event: Event = (
                viewer.see_huge(size)
                if payload is None
                else viewer.see(self._store.type_name(turn.type_tag), payload, chain)
            )
            chain.advance(event)
            self._last_ms = max(self._last_ms, event.time_ms)
            viewer.measure(measured, turn, number, event, size)
        self._store.views.add(measured.rows, measured.resources)

    # -- the last commit -------------------------------------------------------------------------------------------

    def _finish(self, cursor: Cursor, envelope: Envelope, sidecars: dict[str, str], *, whole: bool) -> None:
        known, source = self._known, self._source
        changes: dict[str, object] = {
            "cursor": cursor,
            "envelope": envelope,
            "sidecars": sidecars,
            "updated_ms": self._last_ms or source.main.stat().st_mtime_ns // 1_000_000,
        }
        about = self._format.about(source, self._sampled) if whole else About()
        if known is None:
            started = about.started_ms or source.main.stat().st_mtime_ns // 1_000_000
            project, name = name_conversation(self._store, about, source, started)
            changes |= {
                "project": project,
                "name": name,
                "format": source.format,
                "source": str(source.path),
                "first": [path.name for path in source.first],
                "main": source.main.name,
                "started_ms": started,
                "session": about.session_id,
                **about.extra,
            }
        elif not self._last_ms:
            changes["updated_ms"] = known.updated_ms
        if about.title:
            changes["title"] = about.title
        context = known.id if known else None
        done = self._store.submit(
            Request(context, parent=self._parent, changes=msgspec.json.encode(changes), action="import")
        )
        entry = self._store.conversation(done.head.context)
        self._done.conversation = f"{entry.project}/{entry.name}"
