"""One session on its way in: what of it the store has already, and the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.content.cutting import MAX_CUT_BYTES
from store.conversations import branch
from store.errors import ConvfsError, DamageError, UsageError
from store.formats.format import Format, Source, Span
from store.ids import Hash, hash_bytes
from store.importing.appender import Appender
from store.importing.cursor import Cursor, Stamp, stamp, stamps_beside
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.group import Group
from store.importing.imported import Imported, read_imported
from store.importing.naming import name_conversation
from store.importing.paths import path_text
from store.importing.samples import Samples, recalled
from store.importing.snapshot import Known, Prefix, Snapshot
from store.index.catalogue import Entry
from store.index.views import Measure, Run
from store.store import Store

_HASHED_AT_ONCE = 4 << 20
_LARGEST_ENVELOPE = 16 << 10
_TOUCHED = frozenset(("cursor", "beside", "updated_ms"))
"""What changes in the metadata of a conversation whose files were written to and say the same."""
_LONGEST_GAP = 64 << 10
"""What stands between records and is longer than this is a record itself."""


class Done(Struct, frozen=True):
    """What came of one session: its conversation, and how many records and bytes were new.

    ``changed`` says that there is a conversation that was not, or is not as it was. ``opaque`` counts records too large
    to be looked into, ``problems`` says what was left out, a line each.
    """

    project: str
    name: str
    changed: bool
    records: int
    opaque: int
    bytes_read: int
    problems: list[str]


class SessionImport:
    """Imports one session into ``store``; ``known`` is the conversation that it was imported as before. Used once.

    What is left of it when it has been gone through waits in ``group`` to be committed.
    """

    def __init__(self, store: Store, group: Group, format_: Format, source: Source, known: Entry | None) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._source = source
        self._scratch = store.root / "scratch"
        self._known = known
        self._imported = read_imported(known.metadata) if known else None
        self._head = known.imported_head if known else 0
        # those that imports made, not those of the conversation as it may have been edited
        self._runs: tuple[Run, ...] = ()
        try:
            self._runs = store.runs(self._head)
        except DamageError:
            # what the conversation has cannot be told: all of the session is brought in anew
            self._imported = None
        self._kept = branch.length(self._runs)
        self._envelope = EnvelopeBuilder()
        self._samples = Samples(format_)
        self._titled: tuple[int, ...] = ()
        """Numbers of records before those that are gone through, see :class:`Imported`."""
        self._begun = 0
        """How many records there are before those that are gone through."""
        self._number = 0
        """The record at hand."""
        self._missing: dict[str, int] = dict(self._imported.missing) if self._imported else {}
        """See :class:`Imported`."""
        self._appender: Appender | None = None
        self._problems: list[str] = []

    def run(self, progress: Callable[[int, str], None] | None) -> Done:
        """Bring in what is new, and return what that was."""
        known = self._known
        # before anything is read: what changes after this is looked at again next time
        modified, main, beside = self._stamps()
        with self._open(beside) as snapshot:
            goes_on = snapshot.start > 0
            size = len(snapshot.data) - snapshot.start
            cursor, rest = self._read(snapshot, main, progress)
        self._look_again()
        changes = self._files(cursor, beside, rest).changes(known.metadata if known else {})
        if not goes_on or self._samples.tell or "sidecars" in changes or not (known and known.title):
            changes |= self._describe(modified)
        appender = self._appender
        moved = self._moves()
        if moved or changes or (appender and appender.aliases):
            if known:
                changes["updated_ms"] = known.updated_ms
            if moved and known and "imported_head" in known.metadata:
                # where the head moves to is where imports are, unless people have edited what they move
                changes["imported_head"] = None
            self._group.end(self._appending(), known.id if known else None, changes, self._head)
        # also of what is in the trash
        described = known.metadata if known else changes
        return Done(
            str(described.get("project", "")),
            str(described.get("name", "")),
            moved or not changes.keys() <= _TOUCHED,
            appender.appended if appender else 0,
            appender.opaque if appender else 0,
            size,
            self._problems + (appender.problems if appender else []),
        )

    def _stamps(self) -> tuple[int, Stamp, dict[str, Stamp]]:
        """Return when the main file changed, in Unix milliseconds, its stamp, and those of what lies beside it."""
        main = self._source.main
        return os.stat(main).st_mtime_ns // 1_000_000, stamp(main), stamps_beside(self._source)

    def _moves(self) -> bool:
        """Say whether the head moves; where there are fewer records than there were, it moves back."""
        appended = self._appender is not None and self._appender.appended > 0
        return self._known is None or self._number < self._kept or appended

    def _read(
        self, snapshot: Snapshot, main: Stamp, progress: Callable[[int, str], None] | None
    ) -> tuple[Cursor, bytes]:
        """Go through what is new; return where to go on next time, and what follows the last record."""
        data, label = snapshot.data, path_text(self._source.path.name)
        prefix = Prefix(snapshot)
        start = end = finished = snapshot.start
        for path in self._source.first if start == 0 else ():
            self._file(path)
        for span in self._spans(data, start):
            self._envelope.gap(bytes(data[end : span.start]))
            self._record(self._format.main_type, data[span.start : span.end], snapshot, span.start)
            prefix.follow(end)
            if progress:
                progress(span.end - end, label)
            finished, end = end, span.end
        rest = bytes(data[end:])
        # a last record that nothing follows may still be being written: it is looked at again next time
        unfinished = end > start and not rest
        finished = finished if unfinished else end
        return Cursor(snapshot.base + finished, prefix.at(finished), self._number - unfinished, main), rest

    # -- what is known already -------------------------------------------------------------------------------------

    def _open(self, beside: dict[str, Stamp]) -> Snapshot:
        """Open the main file: where the last import ended, if all before that is as it was, else at its beginning."""
        main, imported = self._source.main, self._imported
        if imported is None or imported.cursor.records > self._kept or not self._has_first(imported, beside):
            return Snapshot(main, self._scratch)
        cursor = imported.cursor
        snapshot = Snapshot(main, self._scratch, Known(cursor.offset, cursor.prefix))
        if not snapshot.start:
            return snapshot
        following = next(iter(self._format.spans(snapshot.data, snapshot.start)), None)
        try:
            envelope = imported.read_envelope(self._store)
        except ConvfsError:
            envelope = None
        if envelope is None or (following is not None and following.start == snapshot.start):
            # the last record itself went on, or how records are parted is lost
            snapshot.close()
            return Snapshot(main, self._scratch)
        self._go_on(imported, envelope)
        return snapshot

    def _go_on(self, imported: Imported, envelope: Envelope) -> None:
        """Begin behind the records that the last import finished."""
        records = imported.cursor.records
        self._number = self._begun = records
        self._titled = tuple(number for number in imported.titled if number <= records)
        self._envelope = EnvelopeBuilder(envelope, records - len(imported.first))

    def _has_first(self, imported: Imported, beside: dict[str, Stamp]) -> bool:
        """Whether the files before the main one are those that were imported."""
        if imported.first != tuple(path_text(path.name) for path in self._source.first):
            return False
        return all(beside.get(path_text(path)) == imported.beside.get(path_text(path)) for path in self._source.first)

    def _has(self, digest: Hash) -> bool:
        """Whether the record at hand is the one that the conversation has in its place."""
        turn = branch.position(self._runs, self._number)
        return self._store.turn(turn).payload_hash == digest

    # -- records ---------------------------------------------------------------------------------------------------

    def _spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the records from ``start`` on, and what is long between them."""
        end = start
        for span in self._format.spans(data, start):
            if span.start - end > _LONGEST_GAP:
                yield Span(end, span.start)
            yield span
            end = span.end
        if len(data) - end > _LONGEST_GAP:
            yield Span(end, len(data))

    def _file(self, path: Path) -> None:
        """Take a whole file as a record."""
        with Snapshot(path, self._scratch) as snapshot:
            self._record(self._format.first_type, snapshot.data[:], snapshot, 0)

    def _record(self, type_name: str, data: memoryview, snapshot: Snapshot, offset: int) -> None:
        """Go past the next record if the conversation has it; from the first that it has not on, append."""
        self._number += 1
        comparing = self._appender is None and self._number <= self._kept
        with data:
            if len(data) > MAX_CUT_BYTES:
                passed = _shifted(snapshot.passed, offset)
                if not comparing or not self._has(_hash_of(data, passed)):
                    self._appending(self._number - 1).add_huge(type_name, data, passed)
                return
            payload = bytes(data)
        self._samples.see(self._number, payload)
        if not comparing or not self._has(hash_bytes(payload)):
            appender = self._appending(self._number - 1)
            for blob in self._format.blobs(self._source, payload):
                if not appender.external(blob):
                    self._missing.setdefault(blob.digest.hex(), self._number)
            appender.add(type_name, payload)

    def _look_again(self) -> None:
        """Look once more for content that records of the last import refer to, and that was missing then."""
        known = self._imported.missing.items() if self._imported else ()
        for number in sorted({number for digest, number in known if self._missing.get(digest) == number}):
            try:
                payload = self._store.payload(branch.position(self._runs, number))
            except ConvfsError:
                # a damaged record, which the store's own check tells of
                continue
            for blob in self._format.blobs(self._source, payload):
                if blob.digest.hex() in self._missing:
                    self._appending().external(blob)

    def _appending(self, after: int = -1) -> Appender:
        """Append, from here on if not already: after record ``after`` (-1: the one at hand)."""
        if self._appender is None:
            after = self._number if after < 0 else after
            self._missing = {digest: number for digest, number in self._missing.items() if number <= after}
            parent = branch.position(self._runs, after) if after else None
            sums = self._sums(after)
            self._appender = Appender(self._store, self._group.load, self._runs, after, parent, sums)
        return self._appender

    def _sums(self, after: int) -> Measure | None:
        """Return the measures of the records up to ``after``, if they are at hand."""
        if after == 0:
            return Measure(0, 0, 0, 0)
        if self._known is None or after != self._kept:
            return None
        sums = self._store.views.measures([self._known.id]).get(self._known.id)
        return sums if sums and sums.head == self._head else None

    # -- the conversation ------------------------------------------------------------------------------------------

    def _files(self, cursor: Cursor, beside: dict[str, Stamp], rest: bytes) -> Imported:
        """Return what the conversation is to remember of its files."""
        envelope = self._envelope.close(rest)
        encoded = msgspec.json.encode(envelope)
        large = len(encoded) > _LARGEST_ENVELOPE
        return Imported(
            cursor=cursor,
            main="" if self._source.main == self._source.path else path_text(self._source.main.name),
            envelope=None if large else envelope,
            envelope_blob=self._appending().blob(memoryview(encoded), _nowhere).hex() if large else "",
            first=tuple(path_text(path.name) for path in self._source.first),
            sidecars=self._sidecars(beside),
            beside=beside,
            titled=self._samples.titled(self._titled),
            missing={digest: number for digest, number in self._missing.items() if number <= self._number},
        )

    def _sidecars(self, beside: dict[str, Stamp]) -> dict[str, str]:
        """Bring in the files beside the session that are new or changed; return the blobs of all that ever were."""
        imported = self._imported
        known = imported.beside if imported else {}
        found = dict(imported.sidecars) if imported else {}
        for name, path in self._source.sidecars:
            key, where = path_text(name), path_text(path)
            if key in found and where in beside and known.get(where) == beside[where]:
                continue
            try:
                with Snapshot(path, self._scratch) as snapshot:
                    found[key] = self._appending().blob(snapshot.data, snapshot.passed).hex()
            except UsageError as error:
                self._problems.append(str(error))
        return found

    def _describe(self, modified_ms: int) -> dict[str, object]:
        """Return what the session says of itself, as far as the conversation does not say it yet."""
        source, known = self._source, self._known
        earlier = recalled(self._store, self._runs, self._begun, self._titled)
        about = self._format.about(source, [*earlier, *self._samples.records])
        told: dict[str, object] = {key: _clean(value) for key, value in about.extra.items()}
        if about.title:
            told["title"] = _clean(about.title)
        if about.started_ms:
            told["started_ms"] = about.started_ms
        if known is not None:
            if known.metadata.get("own_title"):
                told.pop("title", None)
            return {key: value for key, value in told.items() if known.metadata.get(key) != value}
        started = about.started_ms or modified_ms
        project, name = name_conversation(self._store, about, source, started, self._group.names)
        self._group.names.add((project, name))
        return told | {
            "project": project,
            "name": name,
            "format": source.format,
            "source": path_text(source.path),
            "session": _clean(about.session_id),
            "started_ms": started,
            "updated_ms": modified_ms,
        }


def _clean(text: str) -> str:
    """Return text without halves of surrogate pairs, as names of files may hold."""
    return text.encode("utf-8", "replace").decode()


def _nowhere(_offset: int) -> None:
    """Take no notice of how far reading has come."""


def _shifted(passed: Callable[[int], None], start: int) -> Callable[[int], None]:
    """Return ``passed`` for offsets that count from ``start``."""
    return lambda offset: passed(start + offset)


def _hash_of(data: memoryview, passed: Callable[[int], None]) -> Hash:
    """Return the hash of what may be larger than memory."""
    whole = blake3()
    for start in range(0, len(data), _HASHED_AT_ONCE):
        whole.update(data[start : start + _HASHED_AT_ONCE])
        passed(start)
    return Hash(whole.digest())
