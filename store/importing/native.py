"""A session's file as its tool has it, read from the store by offset; its size is known without reading content.

Also the way back: what a tool writes into the mount is brought into the conversation as by an import of the file.

The file itself lies nowhere: its old content is in the store, and the new content is given here. So a session that has
grown costs only its growth, however long it is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

import msgspec
from blake3 import blake3

from store.conversations import branch
from store.errors import Conflict, ConvfsError, DamageError, StoreBusy
from store.events.conversation import EventRow
from store.formats.core.format import Format, Source
from store.importing.provenance import Imported, read_as
from store.importing.snapshot import Snapshot, path_text, text_path
from store.index.catalogue import ContextEntry
from store.store import Store

_LARGE = 4 << 20
"""Of a record larger than this, only the requested part is read."""
_AT_ONCE = 4 << 20
_made_of = attrgetter(
    "entry.head", "entry.imported_head", "imported.cursor.offset", "imported.envelope", "imported.envelope_blob"
)


def is_one_file(entry: ContextEntry) -> bool:
    """Return whether a conversation was imported from one file that is its whole session."""
    imported = read_as(entry.metadata, Imported)
    whole = imported is not None and not imported.main and not imported.first
    return bool(entry.source) and whole and "file" not in entry.metadata


def as_imported(entry: ContextEntry) -> bool:
    """Return whether a conversation is exactly what the last import made of it."""
    return entry.head == entry.imported and not entry.merged


def as_it_came(store: Store, entry: ContextEntry) -> NativeFile:
    """Return the file of a conversation as the last import found it, without later edits."""
    head = entry.imported_head
    metadata = {key: value for key, value in entry.metadata.items() if key != "imported_head"}
    records = branch.length(store.records.runs(head))
    then = msgspec.structs.replace(entry, head=head, imported=head, records=records, metadata=metadata)
    return NativeFile(store, then)


class NativeFile:
    """The main file of a conversation as of ``entry``: the bytes that a native export would write.

    Only for a conversation that :func:`is_one_file`. Its rows are looked up on the first read or, for one that was
    edited, when its size is asked for. One with deleted records is put together as a whole, in memory, since its tool's
    links between records go past the missing ones. Raises ConvfsError if the store's data of it is damaged.
    """

    def __init__(self, store: Store, entry: ContextEntry) -> None:
        imported = read_as(entry.metadata, Imported)
        assert imported is not None
        self.entry = entry
        self.imported: Imported = imported
        self._store = store
        self._rows: Sequence[EventRow] = ()
        self._gaps: list[bytes] = []
        self._ends = array("Q")
        self._count = 0
        """The number of gaps and ends that belong to this file: one that goes on from it may have added to them."""
        self._suffix = b""
        self._whole: bytes | None = None
        self._laid_out = False
        self._size = -1

    @property
    def name(self) -> Path:
        return text_path(self.entry.source)

    @property
    def size(self) -> int:
        if self._size < 0:
            self._size = self._measured()
        return self._size

    @property
    def time_ns(self) -> int:
        """The time of its last change in Unix nanoseconds: when its tool wrote it, if nobody else has since."""
        written, updated = self.imported.written_ns, self.entry.updated_ms * 1_000_000
        if written is None:
            return updated
        return written if as_imported(self.entry) else max(written, updated)

    def is_same(self, other: NativeFile) -> bool:
        """Return whether nothing has changed that the file is made of."""
        return bool(_made_of(self) == _made_of(other))

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on, fewer if the file ends before."""
        self._lay_out()
        if self._whole is not None:
            return self._whole[offset : offset + size]
        drawn = self._drawn
        end = min(offset + size, drawn + len(self._suffix))
        pieces: list[bytes] = []
        at = offset
        if at < min(end, drawn):
            first = bisect_right(self._ends, at, hi=self._count)
            start = self._ends[first - 1] if first else 0
            pieces += self._records(first, start, at, min(end, drawn))
            at = min(end, drawn)
        if at < end:
            pieces.append(self._suffix[at - drawn : end - drawn])
        return b"".join(pieces)

    def pieces(self, start: int = 0) -> Iterator[bytes]:
        for offset in range(start, self.size, _AT_ONCE):
            yield self.read(offset, _AT_ONCE)

    def _measured(self) -> int:
        entry, cursor = self.entry, self.imported.cursor
        if not as_imported(entry):
            self._lay_out()
            return self._length
        envelope = self.imported.read_envelope(self._store)
        suffix = len(envelope.suffix)
        copied = self.imported.copied
        if entry.records == cursor.records + (copied.left_out if copied else 0):
            return cursor.offset + suffix
        if copied or entry.records != cursor.records + 1:
            self._lay_out()
            return self._length
        # a last record that nothing follows is not in the cursor
        last = self._store.blobs.size(self._store.turns.get(entry.head).payload_hash)
        return cursor.offset + len(envelope.gap_before(cursor.records)) + last + suffix

    @property
    def _length(self) -> int:
        return len(self._whole) if self._whole is not None else self._drawn + len(self._suffix)

    @property
    def _drawn(self) -> int:
        return self._ends[self._count - 1] if self._count else 0

    def _lay_out(self) -> None:
        if self._laid_out:
            return
        # imported here, as is all that puts sessions together or imports them: to list them takes none of it
        from store.importing.assembly import Edited, main_as_imported

        store, entry, imported = self._store, self.entry, self.imported
        edited = None if as_imported(entry) else Edited(store, entry, entry.imported_head, imported, outside=False)
        if imported.copied is not None or (edited and edited.deleted):
            self._whole = b"".join(edited.pieces() if edited else main_as_imported(store, imported, entry.head))
        else:
            rows = store.records.rows(entry.head) if entry.head else ()
            gaps = edited.gaps() if edited else imported.read_envelope(store).join(() for _row in rows)
            self._lay_rows(rows, gaps)
        self._laid_out = True

    def _lay_rows(self, rows: Sequence[EventRow], between: Iterable[bytes]) -> None:
        *gaps, suffix = between
        _check_sizes(rows)
        end = 0
        ends = array("Q")
        for row, gap in zip(rows, gaps, strict=True):
            end += len(gap) + row.payload_size
            ends.append(end)
        self._rows, self._gaps, self._ends, self._count, self._suffix = rows, gaps, ends, len(ends), suffix

    def go_on(self, entry: ContextEntry) -> NativeFile:
        """Return the file of the same conversation at a later ``entry``; it reuses the known layout."""
        later = NativeFile(self._store, entry)
        count = self._count
        is_last = count and len(self._ends) == count and not self.imported.copied
        if not (is_last and as_imported(self.entry) and as_imported(entry)):
            return later
        if not self._store.turns.goes_on(self.entry.head, entry.head):
            return later
        rows = self._store.records.rows(entry.head)
        before, envelope = (file.imported.read_envelope(self._store) for file in (self, later))
        if before.gaps != tuple(gap for gap in envelope.gaps if gap[0] < count):
            return later
        _check_sizes(rows)
        end = self._drawn
        for position in range(count, len(rows)):
            gap = envelope.gap_before(position)
            end += len(gap) + rows[position].payload_size
            self._gaps.append(gap)
            self._ends.append(end)
        later._gaps, later._ends, later._rows, later._count = self._gaps, self._ends, rows, len(rows)
        later._suffix = envelope.suffix.encode("latin-1")
        later._laid_out = True
        return later

    def _records(self, first: int, start: int, offset: int, end: int) -> Iterator[bytes]:
        """Yield the bytes ``[offset, end)``; record ``first``, with the gap before it, begins at ``start``."""
        batch: list[int] = []
        size = 0
        at = first
        while start < end:
            beyond = self._ends[at]
            length = beyond - start
            if length > _LARGE or size > _AT_ONCE:
                yield from self._small(batch, offset, end)
                batch, size = [], 0
            if length > _LARGE:
                yield self._part(at, start, max(offset, start), min(end, beyond))
            else:
                batch.append(at)
                size += length
            start, at = beyond, at + 1
        yield from self._small(batch, offset, end)

    def _small(self, batch: list[int], offset: int, end: int) -> Iterator[bytes]:
        turns = [self._rows[at].turn for at in batch]
        for at, (_turn, payload) in zip(batch, self._store.contents.payloads(turns), strict=True):
            if isinstance(payload, ConvfsError):
                raise payload
            piece = self._gaps[at] + payload
            beyond = self._ends[at]
            start = self._ends[at - 1] if at else 0
            if len(piece) != beyond - start:
                raise DamageError(f"record {at + 1} has {len(piece)} bytes and not {beyond - start}: reindex")
            yield piece[max(offset - start, 0) : end - start]

    def _part(self, at: int, start: int, offset: int, end: int) -> bytes:
        gap = self._gaps[at]
        before = gap[offset - start : end - start]
        skipped = max(offset - start - len(gap), 0)
        wanted = end - offset - len(before)
        digest = self._store.turns.get(self._rows[at].turn).payload_hash
        return before + self._store.blobs.part(digest, skipped, wanted)


def _check_sizes(rows: Sequence[EventRow]) -> None:
    """Raise DamageError where a size is unknown: a file laid out by a wrong size would show what nobody wrote."""
    for row in rows:
        if row.unsure and not row.payload_size:
            raise DamageError(f"record {row.number} cannot be read, so it is not known where those after it stand")


_LOOK_BACK = 4096


class _Given(Snapshot):
    """Given bytes: ``data`` of a file, from ``base`` on; the new part begins at ``start``."""

    def __init__(self, data: bytes, base: int = 0, start: int = 0) -> None:
        self.data = memoryview(data)
        self.base = base
        self.start = start
        # of what is not looked at: so the hash of a beginning is none of a file, and all of a file is looked at
        self.before = blake3()
        self._map = None
        self._released = 0


def begin(store: Store, format_: Format, path: Path, name: Path, data: bytes | Path, time_ns: int) -> ContextEntry:
    """Make the conversation of a new session; ``data`` is its content, or the file that holds it.

    It is as if it had been imported from ``path``. ``name`` is a path that ends as ``path`` does and may be looked at,
    ``time_ns`` the time when the file was written, in Unix nanoseconds.
    Raises StoreBusy while something else is being imported, and what an import raises.
    """
    if not store.importing.acquire(blocking=False):
        raise StoreBusy("other sessions are being imported")
    try:
        _run(store, format_, name, None, path, time_ns, partial(_snapshot, store, data))
    finally:
        store.importing.release()
    found = store.catalogue.by_source(path_text(path))
    assert found is not None
    return found


def go_on(store: Store, format_: Format, file: NativeFile, name: Path, added: bytes, time_ns: int) -> ContextEntry:
    """Append what was written behind the end of ``file`` to its conversation; return the new state of that.

    Its other records, and people's changes to them, stay as they are. If it raises, it has committed nothing;
    :func:`agree` decides whether the file is what was written.
    """
    entry, cursor = file.entry, file.imported.cursor
    before, rest = _last(store, file)
    given = partial(_Given, before + rest + added, cursor.offset - len(before), len(before))
    following = next(iter(format_.spans(given().data, len(before))), None)
    copied = file.imported.copied
    if (cursor.offset and following is not None and following.start == len(before)) or (
        copied is not None and cursor.records <= copied.reach
    ):
        # the last record itself goes on, or is not the last one in the file
        return write_anew(store, format_, file, name, b"".join((*file.pieces(), added)), time_ns)
    _run(store, format_, name, entry, file.name, time_ns, given, goes_on=cursor.offset > 0)
    return store.catalogue.entry(entry.id)


def agree(
    store: Store, format_: Format, file: NativeFile, entry: ContextEntry, name: Path, added: bytes, time_ns: int
) -> ContextEntry:
    """Make what :func:`go_on` left as ``entry`` agree with ``file`` and ``added``, if nobody changed it; return it."""
    now = NativeFile(store, entry)
    if as_imported(file.entry) or (now.size == file.size + len(added) and now.read(file.size, len(added)) == added):
        return entry
    try:
        # what was deleted, or stands behind the last record, makes another file of it
        return write_anew(store, format_, now, name, b"".join((*file.pieces(), added)), time_ns)
    except Conflict:
        return store.catalogue.entry(entry.id)


def write_anew(
    store: Store, format_: Format, file: NativeFile, name: Path, data: bytes | Path, time_ns: int
) -> ContextEntry:
    """Replace the conversation of ``file`` by what its tool has written in its place; return the new state.

    The records before the first that differs keep their turns. People's changes were in the file that the tool rewrote,
    so the tool's version of them holds. Raises Conflict if the conversation has changed since.
    """
    entry = file.entry
    anew = not as_imported(entry)
    _run(store, format_, name, entry, file.name, time_ns, partial(_snapshot, store, data), anew=anew)
    return store.catalogue.entry(entry.id)


def _last(store: Store, file: NativeFile) -> tuple[bytes, bytes]:
    """Return the end of the last finished record as imported, and all after it: an edited file may end differently."""
    envelope, records = file.imported.read_envelope(store), file.imported.cursor.records
    suffix = envelope.suffix.encode("latin-1")
    turn = store.turns.get(file.entry.imported_head) if file.entry.imported_head else None
    copied = file.imported.copied
    if turn is not None and turn.depth == records + (copied.left_out if copied else 0):
        suffix = envelope.gap_before(records) + store.blobs.blob(turn.payload_hash) + suffix
        turn = store.turns.get(turn.parent) if turn.parent else None
    if turn is None:
        return b"", suffix
    size = store.blobs.size(turn.payload_hash)
    taken = min(size, _LOOK_BACK)
    return store.blobs.part(turn.payload_hash, size - taken, taken), suffix


def _run(
    store: Store,
    format_: Format,
    name: Path,
    known: ContextEntry | None,
    path: Path,
    time_ns: int,
    given: Callable[[], Snapshot],
    *,
    goes_on: bool = False,
    anew: bool = False,
) -> None:
    from store.importing.group import Group
    from store.importing.session import SessionImport, Written

    group = Group(store)
    written = Written(path, time_ns, given, goes_on=goes_on, anew=anew)
    session = SessionImport(store, group, format_, Source(format_.name, name, name), known, written)
    session.run(None)
    group.commit()
    if (ending := session.records.ending) is not None and ending.error is not None:
        raise ending.error


def _snapshot(store: Store, data: bytes | Path) -> Snapshot:
    return _Given(data) if isinstance(data, bytes) else Snapshot(data, store.files.aside.scratch)
