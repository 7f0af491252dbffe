"""One session on its way in: what of it the store has already, and the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from store.errors import ConvfsError
from store.formats.format import Format, Source, Span
from store.importing.copied import Spelling
from store.importing.cursor import Cursor, Stamp, stamp, stamps_beside
from store.importing.describing import forked_from, introduction, news
from store.importing.envelope import Envelope, EnvelopeBuilder
from store.importing.group import Group
from store.importing.imported import Imported, read_imported
from store.importing.paths import path_text
from store.importing.records import Diverged, Records
from store.importing.samples import recalled
from store.importing.sidecars import bring_sidecars
from store.importing.snapshot import Known, Prefix, Snapshot
from store.index.catalogue import Entry
from store.store import Store

_LARGEST_ENVELOPE = 16 << 10
_TOUCHED = frozenset(("cursor", "beside", "updated_ms"))
"""What changes in the metadata of a conversation whose files were written to and say the same."""
_LONGEST_GAP = 64 << 10
"""What stands between records and is longer than this is a record itself."""


class Done(Struct, frozen=True):
    """What came of one session: its conversation, and how many records and bytes were new.

    ``changed`` says that there is a conversation that is not as it was, or was not there at all (``new``). ``opaque``
    counts records too large to be looked into, ``problems`` says what was left out, ``missing`` what records refer to
    that was not to be found, a line each.
    """

    project: str
    name: str
    changed: bool
    records: int
    opaque: int
    bytes_read: int
    problems: list[str]
    new: bool = False
    missing: list[str] = []


class SessionImport:
    """Imports one session into ``store``; ``known`` is the conversation that it was imported as before. Used once.

    What is left of it when it has been gone through waits in ``group`` to be committed.
    """

    _alone = False
    """Whether a new session shares nothing with others."""

    def __init__(self, store: Store, group: Group, format_: Format, source: Source, known: Entry | None) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._source = source
        self._scratch = store.root / "scratch"
        self._known = known
        self._records = Records(store, group, format_, source, known)
        # where it cannot be told what the conversation has, all of the session is brought in anew
        self._imported = read_imported(known.metadata) if known and not self._records.lost else None
        self._envelope = EnvelopeBuilder()
        self._titled: tuple[int, ...] = ()
        """Numbers of records before those that are gone through, see :class:`Imported`."""
        self._problems: list[str] = []

    @property
    def waits(self) -> bool:
        """Whether anything waits to be committed."""
        return self._records.ended

    def run(self, progress: Callable[[int, str], None] | None) -> Done:
        """Bring in what is new, and return what that was."""
        known, records = self._known, self._records
        # before anything is read: what changes after this is looked at again next time
        modified, main, beside = self._stamps()
        try:
            goes_on, size, cursor, rest = self._take(main, beside, progress)
        except Diverged:
            records.replace(records.head, ())
            self._imported, self._titled, self._envelope = None, (), EnvelopeBuilder()
            goes_on, size, cursor, rest = self._take(main, beside, progress)
        records.look_again()
        changes = self._files(cursor, beside, rest).changes(known.metadata if known else {})
        if not goes_on or records.samples.tell or "sidecars" in changes or not (known and known.title):
            changes |= self._describe(modified)
        moved = records.moved
        records.end(changes)
        # also of what is in the trash
        described = known.metadata if known else changes
        appender = records.appender
        return Done(
            str(described.get("project", "")),
            str(described.get("name", "")),
            moved or not changes.keys() <= _TOUCHED,
            records.added,
            appender.opaque if appender else 0,
            size,
            self._problems + (appender.problems if appender else []),
            known is None,
            appender.missing if appender else [],
        )

    def _take(
        self, main: Stamp, beside: dict[str, Stamp], progress: Callable[[int, str], None] | None
    ) -> tuple[bool, int, Cursor, bytes]:
        """Take what is new; say whether that goes on from the last import, and how many bytes it is, as in _read."""
        with self._open(beside) as snapshot:
            goes_on = snapshot.start > 0
            if not (goes_on or self._source.first):
                self._records.look_for_likes(alone=self._alone)
            cursor, rest = self._read(snapshot, main, progress)
            self._records.finish()
            return goes_on, len(snapshot.data) - snapshot.start, cursor, rest

    def _stamps(self) -> tuple[int, Stamp, dict[str, Stamp]]:
        """Return when the main file changed, in Unix milliseconds, its stamp, and those of what lies beside it."""
        main = self._source.main
        return os.stat(main).st_mtime_ns // 1_000_000, stamp(main), stamps_beside(self._source)

    def _read(
        self, snapshot: Snapshot, main: Stamp, progress: Callable[[int, str], None] | None
    ) -> tuple[Cursor, bytes]:
        """Go through what is new; return where to go on next time, and what follows the last record."""
        data, label = snapshot.data, path_text(self._source.path.name)
        type_name, records = self._format.main_type, self._records
        prefix = Prefix(snapshot)
        start = end = finished = snapshot.start
        for path, kind in self._first_files() if start == 0 else ():
            with Snapshot(path, self._scratch) as file:
                records.take(kind, file.data[:], file.passed)
        for span in self._spans(data, start):
            self._envelope.gap(bytes(data[end : span.start]))
            records.take(type_name, data[span.start : span.end], _shifted(snapshot.passed, span.start))
            if records.redacted == records.count:
                prefix.leave_out(span.end)
            prefix.follow(end)
            if progress:
                progress(span.end - end, label)
            finished, end = end, span.end
        rest = bytes(data[end:])
        # a last record that nothing follows may still be being written: it is looked at again next time
        unfinished = end > start and not rest
        finished = finished if unfinished else end
        offset = snapshot.base + finished
        since = min(prefix.since, offset)
        return Cursor(offset, prefix.at(finished), records.count - unfinished, main, since), rest

    # -- what is known already -------------------------------------------------------------------------------------

    def _open(self, beside: dict[str, Stamp]) -> Snapshot:
        """Open the main file: where the last import ended, if all before that is as it was, else at its beginning."""
        main, imported = self._source.main, self._imported
        if imported is None or not self._records.has(imported.cursor.records) or not self._has_first(imported, beside):
            return Snapshot(main, self._scratch)
        cursor = imported.cursor
        snapshot = Snapshot(main, self._scratch, Known(cursor.offset, cursor.prefix, cursor.since))
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
        count = imported.cursor.records
        self._records.begin(count)
        self._titled = tuple(number for number in imported.titled if number <= count)
        self._envelope = EnvelopeBuilder(envelope, count - len(imported.first))

    def _has_first(self, imported: Imported, beside: dict[str, Stamp]) -> bool:
        """Whether the files before the main one are those that were imported."""
        if imported.first != _names_of_first(self._source):
            return False
        return all(beside.get(path_text(path)) == imported.beside.get(path_text(path)) for path in self._source.first)

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

    def _first_files(self) -> Iterator[tuple[Path, str]]:
        """Yield the files that are a record each, with the types of these."""
        files, types = self._source.first, self._source.first_types
        yield from zip(files, types or (self._format.first_type,) * len(files), strict=True)

    # -- the conversation ------------------------------------------------------------------------------------------

    def _files(self, cursor: Cursor, beside: dict[str, Stamp], rest: bytes) -> Imported:
        """Return what the conversation is to remember of its files."""
        envelope = self._envelope.close(rest)
        encoded = msgspec.json.encode(envelope)
        large = len(encoded) > _LARGEST_ENVELOPE
        imported = self._imported
        sidecars, problems = bring_sidecars(
            self._source,
            beside,
            imported.sidecars if imported else {},
            imported.beside if imported else {},
            self._records.blob,
            self._scratch,
        )
        self._problems += problems
        return Imported(
            cursor=cursor,
            main="" if self._source.main == self._source.path else path_text(self._source.main.name),
            envelope=None if large else envelope,
            envelope_blob=self._records.blob(memoryview(encoded), _nowhere).hex() if large else "",
            first=_names_of_first(self._source),
            sidecars=sidecars,
            beside=beside,
            titled=self._records.samples.titled(self._titled),
            missing=self._records.missing,
            copied=self._records.copied,
        )

    def _describe(self, modified_ms: int) -> dict[str, object]:
        """Return what the session says of itself, as far as the conversation does not say it yet."""
        source, known, records = self._source, self._known, self._records
        earlier: Iterable[bytes] = ()
        if records.begun:
            spelling = Spelling(self._store, records.copied)
            earlier = recalled(self._store, records.runs, spelling, records.begun, self._titled)
        about = self._format.about(source, [*earlier, *records.samples.records])
        if known is not None:
            return news(about, known)
        told = introduction(self._store, self._group.names, about, source, about.session_id, modified_ms)
        told["begins"] = records.begins
        if about.forked_from:
            told |= forked_from(self._store, source.format, about.forked_from, records)
        return told


def _names_of_first(source: Source) -> tuple[str, ...]:
    """Return the names of the files before the main one, relative to the session's directory."""
    folder = source.path.parent if source.main == source.path else source.path
    return tuple(path_text(os.path.relpath(path, folder)) for path in source.first)


def _nowhere(_offset: int) -> None:
    """Take no notice of how far reading has come."""


def _shifted(passed: Callable[[int], None], start: int) -> Callable[[int], None]:
    """Return ``passed`` for offsets that count from ``start``."""
    return lambda offset: passed(start + offset)
