"""One session on its way in: what of it the store has already, and the rest."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.content.cutting import MAX_CUT_BYTES
from store.conversations import branch
from store.formats.format import About, Format, Source, Span
from store.ids import Hash, hash_bytes
from store.importing.appender import Appender
from store.importing.cursor import Cursor, stamps
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.naming import name_conversation
from store.importing.snapshot import Snapshot
from store.index.catalogue import Entry
from store.index.views import Run
from store.store import Store

_ABOUT_RECORDS = 200
_ABOUT_BYTES = 256 << 10
_HASHED_AT_ONCE = 4 << 20


class Done(Struct):
    """What came of one session: its conversation, and how many records and bytes were new.

    ``opaque`` counts records too large to be looked into.
    """

    project: str
    name: str
    records: int
    opaque: int
    bytes_read: int


class SessionImport:
    """Imports one session into ``store``; ``known`` is the conversation that it was imported as before."""

    def __init__(self, store: Store, format_: Format, source: Source, known: Entry | None) -> None:
        self._store = store
        self._format = format_
        self._source = source
        self._known = known
        self._runs: tuple[Run, ...] = store.runs(known.head) if known else ()
        self._kept = branch.length(self._runs)
        self._number = 0
        self._appender: Appender | None = None
        self._sampled: list[bytes] = []
        self._opaque = 0

    def run(self, progress: Callable[[int, str], None] | None) -> Done:
        """Bring in what is new, and return what that was."""
        source = self._source
        files = stamps(source)
        with Snapshot(source.main, self._store.root / "scratch") as snapshot:
            data = snapshot.data
            prefix = _Prefix(snapshot)
            start, builder = self._begin(data, prefix)
            for path in source.first if start == 0 else ():
                self._record(self._format.first_type, path.read_bytes())
            end = finished = start
            for span in self._format.spans(data, start):
                builder.gap(bytes(data[end : span.start]))
                self._span(data, span, snapshot.passed)
                finished, end = end, span.end
                prefix.extend(finished)
                if progress:
                    progress(end - finished, source.path.name)
            rest = bytes(data[end:])
            # a last record that nothing follows may still be being written: it is looked at again next time
            unfinished = not rest and end > start
            if not unfinished:
                finished = end
            prefix.extend(finished)
            size = len(data)
        appender = self._appender or self._append()
        sidecars = {name: appender.load.blob(path.read_bytes()).hex() for name, path in source.sidecars}
        envelope = builder.close(rest)
        described: dict[str, object] = {}

        def describe() -> dict[str, object]:
            cursor = Cursor(finished, prefix.hexdigest(), appender.number - unfinished, files)
            described.update(self._metadata(cursor, envelope, sidecars, appender.last_ms, whole=start == 0))
            return described

        appender.finish(self._known.id if self._known else None, describe)
        return Done(
            str(described.get("project") or (self._known.project if self._known else "")),
            str(described.get("name") or (self._known.name if self._known else "")),
            appender.appended,
            self._opaque,
            size - start,
        )

    # -- what is known already -------------------------------------------------------------------------------------

    def _begin(self, data: memoryview, prefix: _Prefix) -> tuple[int, EnvelopeBuilder]:
        """Return the offset to go on from: where the last import ended, if all before it is as it was."""
        known = self._known
        cursor = msgspec.convert(known.metadata["cursor"], Cursor) if known and "cursor" in known.metadata else None
        if known and cursor and 0 < cursor.offset <= len(data) and cursor.records <= self._kept:
            prefix.extend(cursor.offset)
            if prefix.hexdigest() == cursor.prefix:
                envelope = msgspec.convert(known.metadata["envelope"], Envelope)
                self._number = cursor.records
                return cursor.offset, EnvelopeBuilder(envelope, cursor.records - len(self._source.first))
            prefix.restart()
        return 0, EnvelopeBuilder()

    def _same_as_known(self, digest: Hash) -> bool:
        """Whether the next record is in the store already, as the conversation has it; if so, go past it."""
        if self._appender is not None or self._number >= self._kept:
            return False
        if self._store.turn(branch.position(self._runs, self._number + 1)).payload_hash != digest:
            return False
        self._number += 1
        return True

    def _append(self) -> Appender:
        """From here on records are new."""
        if self._appender is None:
            parent = branch.position(self._runs, self._number) if self._number else 0
            self._appender = Appender(self._store, self._runs, self._number, parent)
        return self._appender

    # -- records ---------------------------------------------------------------------------------------------------

    def _span(self, data: memoryview, span: Span, passed: Callable[[int], None]) -> None:
        if span.end - span.start <= MAX_CUT_BYTES:
            self._record(self._format.main_type, bytes(data[span.start : span.end]))
            return
        self._opaque += 1
        with data[span.start : span.end] as record:
            if self._number < self._kept and self._appender is None and self._same_as_known(_hash_of(record)):
                return
            self._append().add_huge(self._format.main_type, record, lambda at: passed(span.start + at))

    def _record(self, type_name: str, payload: bytes) -> None:
        if len(self._sampled) < _ABOUT_RECORDS and len(payload) < _ABOUT_BYTES:
            self._sampled.append(payload)
        if self._number < self._kept and self._appender is None and self._same_as_known(hash_bytes(payload)):
            return
        appender = self._append()
        for blob in self._format.blobs(self._source, payload):
            appender.external(blob)
        appender.add(type_name, payload)

    # -- the conversation ------------------------------------------------------------------------------------------

    def _metadata(
        self, cursor: Cursor, envelope: Envelope, sidecars: dict[str, str], last_ms: int, *, whole: bool
    ) -> dict[str, object]:
        """Return what is to change in the conversation's metadata."""
        source, known = self._source, self._known
        changes: dict[str, object] = {"cursor": cursor, "envelope": envelope, "sidecars": sidecars}
        modified = source.main.stat().st_mtime_ns // 1_000_000
        about = self._format.about(source, self._sampled) if whole else About()
        if about.title:
            changes["title"] = about.title
        if known is not None:
            changes["updated_ms"] = last_ms or known.updated_ms
            return changes
        started = about.started_ms or modified
        project, name = name_conversation(self._store, about, source, started)
        return changes | {
            "project": project,
            "name": name,
            "format": source.format,
            "source": str(source.path),
            "first": [path.name for path in source.first],
            "main": source.main.name,
            "started_ms": started,
            "updated_ms": last_ms or modified,
            "session": about.session_id,
            **about.extra,
        }


class _Prefix:
    """The hash of a file from its beginning to a point that moves on; what has been passed takes no memory."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.restart()

    def restart(self) -> None:
        """Go back to the beginning."""
        self._hash = blake3()
        self._offset = 0

    def extend(self, offset: int) -> None:
        """Move on to ``offset``."""
        while self._offset < offset:
            end = min(offset, self._offset + _HASHED_AT_ONCE)
            self._hash.update(self._snapshot.data[self._offset : end])
            self._snapshot.passed(end)
            self._offset = end

    def hexdigest(self) -> str:
        """Return the hash of what lies before the point."""
        return self._hash.hexdigest()


def _hash_of(data: memoryview) -> Hash:
    whole = blake3()
    for start in range(0, len(data), _HASHED_AT_ONCE):
        whole.update(data[start : start + _HASHED_AT_ONCE])
    return Hash(whole.digest())
