"""A session's file as its tool has it, read from the store by offset; how large it is takes no content to be read."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from store.errors import ConvfsError, DamageError
from store.events.conversation import EventRow
from store.ids import Hash
from store.importing.copied import Spelling
from store.importing.edited import Edited
from store.importing.imported import Imported, read_imported
from store.importing.paths import text_path
from store.importing.stored import stored_records
from store.index.catalogue import Entry
from store.store import Store

_LARGE = 4 << 20
"""Of a record larger than this, only what is asked for is read."""
_AT_ONCE = 4 << 20


def is_one_file(entry: Entry) -> bool:
    """Say whether a conversation was imported from one file that is all there is of its session."""
    imported = read_imported(entry.metadata)
    whole = imported is not None and not imported.main and not imported.first
    return bool(entry.source) and whole and "file" not in entry.metadata


def as_imported(entry: Entry) -> bool:
    """Say whether a conversation is what the last import made of it."""
    return entry.head == entry.imported and not entry.merged


class NativeFile:
    """The main file of a conversation as it was at ``entry``: the bytes that a native export would write.

    Only of a conversation that :func:`is_one_file`. Its rows are looked for when it is first read, or, of one that
    was edited, when its size is asked for. One from which records were deleted is put together as a whole, in
    memory, since its tool's links between records go past what is missing. Raises ConvfsError where what the store
    has of it is damaged.
    """

    def __init__(self, store: Store, entry: Entry) -> None:
        imported = read_imported(entry.metadata)
        assert imported is not None
        self.entry = entry
        self.imported: Imported = imported
        self._store = store
        self._rows: Sequence[EventRow] = ()
        self._gaps: list[bytes] = []
        self._ends = array("Q")
        self._count = 0
        """How many of the gaps and ends are this file's: one that goes on from it may have added to them."""
        self._suffix = b""
        self._whole: bytes | None = None
        self._laid_out = False
        self._size = -1

    @property
    def name(self) -> Path:
        """Where the file lay when it was imported."""
        return text_path(self.entry.source)

    @property
    def size(self) -> int:
        """Its size in bytes."""
        if self._size < 0:
            self._size = self._measured()
        return self._size

    def is_same(self, other: NativeFile) -> bool:
        """Say whether nothing has changed that the file is made of."""
        mine, others = self.imported, other.imported
        return (self.entry.head, self.entry.imported_head, mine.cursor.offset, mine.envelope, mine.envelope_blob) == (
            other.entry.head,
            other.entry.imported_head,
            others.cursor.offset,
            others.envelope,
            others.envelope_blob,
        )

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset`` on, ``size`` of them unless the file ends before."""
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
            for piece in self._records(first, start, at, min(end, drawn)):
                pieces.append(piece)
            at = min(end, drawn)
        if at < end:
            pieces.append(self._suffix[at - drawn : end - drawn])
        return b"".join(pieces)

    def pieces(self, start: int = 0) -> Iterator[bytes]:
        """Yield the file from ``start`` on."""
        for offset in range(start, self.size, _AT_ONCE):
            yield self.read(offset, _AT_ONCE)

    # -- laying it out ---------------------------------------------------------------------------------------------

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
        if copied:
            self._lay_out()
            return self._length
        if entry.records != cursor.records + 1:
            self._lay_out()
            return self._length
        # a last record that nothing follows is not in the cursor
        gap = envelope.gap_before(cursor.records)
        return cursor.offset + len(gap) + self._store.blob_size(self._store.turn(entry.head).payload_hash) + suffix

    @property
    def _length(self) -> int:
        return len(self._whole) if self._whole is not None else self._drawn + len(self._suffix)

    @property
    def _drawn(self) -> int:
        """Where the last record ends."""
        return self._ends[self._count - 1] if self._count else 0

    def _lay_out(self) -> None:
        if self._laid_out:
            return
        entry, store = self.entry, self._store
        envelope = self.imported.read_envelope(store)
        if (copied := self.imported.copied) is not None and as_imported(entry):
            spelling = Spelling(store, copied)
            turns = [turn for first, count in store.runs(entry.head) for turn in range(first, first + count)]
            numbers, turns = spelling.in_file(turns)
            self._whole = b"".join(envelope.join(spelling.spell(numbers, stored_records(store, turns))))
            self._laid_out = True
            return
        rows: Sequence[EventRow] = store.rows(entry.head) if entry.head else ()
        if as_imported(entry):
            *gaps, suffix = envelope.join(() for _row in rows)
        else:
            edited = Edited(store, entry, entry.imported_head, 0, copied)
            joints = edited.format.joints
            if copied is not None and not edited.deleted:
                records = zip(edited.positions, edited.records(store), strict=True)
                self._whole = b"".join(envelope.rejoin(records, joints))
                self._laid_out = True
                return
            if edited.deleted:
                payloads: Iterable[tuple[bytes, ...]] = ((self._payload(turn),) for turn in edited.turns)
                self._whole = b"".join(envelope.rejoin(edited.without(payloads), joints, edited.count))
                self._laid_out = True
                return
            *gaps, suffix = envelope.rejoin(((position, ()) for position in edited.positions), joints, edited.count)
        end = 0
        ends = array("Q")
        for row, gap in zip(rows, gaps, strict=True):
            end += len(gap) + row.payload_size
            ends.append(end)
        self._rows, self._gaps, self._ends, self._count, self._suffix = rows, gaps, ends, len(ends), suffix
        self._laid_out = True

    def go_on(self, entry: Entry) -> NativeFile:
        """Return the file of the same conversation at a later ``entry``; what is laid out already need not be again."""
        later = NativeFile(self._store, entry)
        count = self._count
        if (
            self.imported.copied
            or not count
            or len(self._ends) > count
            or not (as_imported(self.entry) and as_imported(entry))
        ):
            return later
        if not self._store.goes_on(self.entry.head, entry.head):
            return later
        rows = self._store.rows(entry.head)
        before, envelope = (file.imported.read_envelope(self._store) for file in (self, later))
        if before.gaps != tuple(gap for gap in envelope.gaps if gap[0] < count):
            return later
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

    # -- reading ---------------------------------------------------------------------------------------------------

    def _records(self, first: int, start: int, offset: int, end: int) -> Iterator[bytes]:
        """Yield the bytes ``[offset, end)``; record ``first``, with what stands before it, begins at ``start``."""
        batch: list[int] = []
        size = 0
        at = first
        while start < end:
            beyond = self._ends[at]
            length = beyond - start
            if length > _LARGE:
                yield from self._small(batch, offset, end)
                batch, size = [], 0
                yield self._part(at, start, max(offset, start), min(end, beyond))
            else:
                batch.append(at)
                size += length
                if size > _AT_ONCE:
                    yield from self._small(batch, offset, end)
                    batch, size = [], 0
            start, at = beyond, at + 1
        yield from self._small(batch, offset, end)

    def _small(self, batch: list[int], offset: int, end: int) -> Iterator[bytes]:
        turns = [self._rows[at].turn for at in batch]
        for at, (_turn, payload) in zip(batch, self._store.payloads(turns), strict=True):
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
        return before + self._store.resolver.part(self._hash(at), skipped, wanted)

    def _hash(self, at: int) -> Hash:
        return self._store.turn(self._rows[at].turn).payload_hash

    def _payload(self, turn: int) -> bytes:
        return self._store.payload(turn)
