"""``texts.db``: what was drawn of events, kept so that it need not be drawn again.

An event's file and its section of the transcript follow from its turn, so they never change. They are kept in blocks:
the texts of some :data:`BLOCK_BYTES` of records that follow each other, compressed as one, the files before the
sections, which repeat most of them. Reading a block takes a tenth of the time that drawing its events does.

While the store is idle, small blocks that follow each other are made one, compressed harder: most of what a text says
has been said by those before it. They are as large as can be read without being felt.

The database may be deleted at any time, and knows no text that cannot be drawn. It is filled after imports, and for all
else while the store is idle, and is bounded: the oldest blocks go first. A text that is not there is drawn, and so is
one whose size is not what the index says. A checksum covers each block.

A block is a number of records (32 bits, little-endian like all else), for each of them where in its file the content
begins, and the sizes of its file and its section in bytes (32 bits each), then the files, and then the sections: those
of records that follow each other are one piece. That place is 0 where the content that is searched is not the rest of
the file: links lead elsewhere in it. Which turns these are is beside it.
"""

import logging
import os
import sqlite3
import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from time import monotonic
from typing import ParamSpec, TypeVar

from msgspec import Struct

from store import paths
from store.content import zstd
from store.content.sparing import is_sparing
from store.conversations.branch import differences, joined
from store.conversations.library import Library
from store.disk.head_format import HeadFrame, Reclaimed
from store.errors import ConvfsError, UsageError
from store.events.conversation import Drawn, EventRow, Renderer
from store.events.event import Kind
from store.index.database import Database, Row, Schema, among, held_if_full, put
from store.index.views import Run
from store.settings import Settings
from store.upkeep.derived import PROGRESS, PerConversation
from store.upkeep.recovery import Files

_LOG = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE blocks (id INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);

-- Where the texts of turns that follow each other are: in which block, and the place in it of the first, from 0.
CREATE TABLE spans (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, block INTEGER NOT NULL, place INTEGER NOT NULL,
    sum INTEGER NOT NULL
);
CREATE INDEX spans_by_block ON spans (block);
"""
_SCHEMA = Schema(3, PROGRESS + _TABLES, ("auto_vacuum = INCREMENTAL",))

BLOCK_BYTES = 256 << 10
_MERGED_BYTES = 1 << 20
"""The least size of blocks that were merged: reading one takes a millisecond."""
_LARGEST_TEXT = 4 << 20
_LARGEST_BLOCK = 2 * _LARGEST_TEXT + BLOCK_BYTES
_MERGED_LEVEL = 9
_LEVEL = 1
"""Most blocks are soon merged. Level 3 takes half as much time again, and a fourteenth less room."""
_PAGES_FREED = 1000
_RECENT_BYTES = 4 << 20
_RECORDS_AT_ONCE = 64
_LEAST_BYTES = 64 << 20
_OVERLAPPING = "first BETWEEN (SELECT coalesce(max(first), 0) FROM spans WHERE first <= ?) AND ? AND first + count > ?"
_count = struct.Struct("<I")
_place = struct.Struct("<III")

P = ParamSpec("P")
T = TypeVar("T")

_Drawn = Iterator[tuple[EventRow, bytes | ConvfsError]]


class Block(Struct, frozen=True, array_like=True, gc=False):
    """The texts of some records, compressed, and which turns these are, rising."""

    of: list[int]
    data: bytes


class Content(Struct, frozen=True, gc=False):
    """The content of an event's file, which searches cover, and the line of the file in which it begins, from 1."""

    text: str
    first: int


class _Block(Struct, frozen=True):
    """A block as it is read: where the file and the section of each record begin, and of the last one end.

    ``contents`` has where in its file the content of each begins, 0 where it is not there.
    """

    data: bytes
    contents: tuple[int, ...]
    files: list[int]
    sections: list[int]

    @property
    def count(self) -> int:
        return len(self.contents)


class _Span(Struct, frozen=True):
    """The texts of turns from ``first`` to before ``end`` are in a block from ``place`` on."""

    first: int
    end: int
    block: _Block
    place: int


_NOTHING = _Span(0, 0, _Block(b"", (), [0], [0]), 0)
_UNKNOWN = -1
_DRAWN = "texts are drawn, as they cannot be looked up: %s"
_NOWHERE: tuple[int, int, list[tuple[int, int]]] = (0, 0, [])


def _some(rows: Sequence[EventRow], start: int, beyond: int, most: int) -> Sequence[EventRow]:
    """Return a few rows from ``start`` on, whose texts have ``most`` bytes, but for the last."""
    size, end = 0, start
    while end < min(beyond, start + _RECORDS_AT_ONCE) and size < most:
        size += rows[end].file_size + rows[end].section_size
        end += 1
    return rows[start:end]


def _between(first: int, count: int) -> tuple[int, int, int]:
    """Return the parameters of :data:`_OVERLAPPING` for some turns that follow each other."""
    return first, first + count - 1, first


def is_kept(kind: Kind, file: int) -> bool:
    """Return whether the texts of such an event are kept, whose file has so many bytes."""
    return kind is not Kind.RECORD and 0 < file <= _LARGEST_TEXT


class Blocks:
    """Makes blocks of what is drawn of records, one after the other."""

    def __init__(self) -> None:
        self.size = 0
        """The bytes of the texts that are in no block yet."""
        self._of: list[int] = []
        self._drawn: list[Drawn] = []

    def add(self, of: int, drawn: Drawn) -> None:
        """Add the texts of a record, of which :func:`is_kept` holds."""
        self._of.append(of)
        self._drawn.append(drawn)
        self.size += len(drawn.file) + len(drawn.section)

    def end(self) -> list[Block]:
        """Return a block of what was added; none if that is nothing."""
        if not self._of:
            return []
        heads = (_place.pack(one.content, len(one.file), len(one.section)) for one in self._drawn)
        files, sections = (one.file for one in self._drawn), (one.section for one in self._drawn)
        data = b"".join((_count.pack(len(self._of)), *heads, *files, *sections))
        block = Block(self._of, zstd.compress(data, _LEVEL))
        self.size, self._of, self._drawn = 0, [], []
        return [block]


def _read(data: bytes) -> _Block:
    [count] = _count.unpack_from(data)
    sizes = struct.unpack_from(f"<{3 * count}I", data, _count.size)
    files = [*accumulate(sizes[1::3], initial=_count.size + _place.size * count)]
    return _Block(data, sizes[::3], files, [*accumulate(sizes[2::3], initial=files[-1])])


def _joined(blocks: Sequence[_Block]) -> bytes:
    """Return the bytes of a block with the texts of several, in a row."""
    views = [memoryview(block.data) for block in blocks]
    heads = [view[_count.size : block.files[0]] for view, block in zip(views, blocks, strict=True)]
    files = [view[block.files[0] : block.files[-1]] for view, block in zip(views, blocks, strict=True)]
    sections = [view[block.sections[0] : block.sections[-1]] for view, block in zip(views, blocks, strict=True)]
    return b"".join((_count.pack(sum(block.count for block in blocks)), *heads, *files, *sections))


class Texts(PerConversation):
    """The drawn texts of all conversations. Safe to call from any thread."""

    def __init__(self, files: Files, library: Library, settings: Settings) -> None:
        super().__init__(files, library, paths.TEXTS, _SCHEMA)
        self._share = settings.text_cache_share
        self._lock = threading.Lock()
        self._recent: OrderedDict[int, _Block] = OrderedDict()
        self._held = 0
        """The bytes of these blocks."""
        self.asked = 0
        """How often a block was asked for."""
        self._cores = len(os.sched_getaffinity(0))
        self._threads: ThreadPoolExecutor | None = None
        """They read blocks, and end when memory is given back: each has a connection of its own."""
        self._threads_lock = threading.Lock()
        self._last = _NOTHING
        self._bytes = _UNKNOWN
        """The size of all blocks."""
        self._merged = _UNKNOWN
        """The last block when there were too few small ones to be merged."""
        self._drops = 0
        """How often turns were dropped, or the database was opened anew."""
        self._reached: tuple[int, int, list[tuple[int, int]]] = _NOWHERE
        """The conversation that is being filled, its head, and how many of its records are done."""

    @property
    def _renderer(self) -> Renderer:
        renderer = self.library.viewer.renderer
        if renderer is None:
            raise UsageError("this store was opened without a renderer: nothing in it can be drawn")
        return renderer

    def _own(self) -> dict[str, str | int]:
        return {"renderer": self._renderer.version}

    # -- reading ---------------------------------------------------------------------------------------------------

    def files_of(self, rows: Sequence[EventRow]) -> _Drawn:
        """Yield the files of events; an error stands for one that cannot be read."""
        return self._texts(rows, section=False)

    def sections_of(self, rows: Sequence[EventRow]) -> _Drawn:
        """Yield the sections of events in the transcript, as :meth:`files_of`; links lead where a mount has them."""
        return self._texts(rows, section=True)

    def sections(self, branches: Sequence[Iterable[Run]]) -> Iterator[list[memoryview]]:
        """Yield the sections of each branch, in pieces, as far as they are kept: their size tells if some are not.

        The sizes of single ones are not compared. A block is read once, whatever is wanted of it, and those of later
        branches meanwhile, on all cores.
        """
        places = [self._places(runs) for runs in branches]
        blocks = self._asked(number for of in places for number, _begin, _end in of)
        for of in places:
            pieces: list[memoryview] = []
            for number, begin, end in of:
                block = blocks(number)
                if block is not None and end <= block.count:
                    pieces.append(memoryview(block.data)[block.sections[begin] : block.sections[end]])
            yield pieces

    def _places(self, runs: Iterable[Run]) -> list[tuple[int, int, int]]:
        """Return (block, place in it, place where they end) of the texts of a branch; nothing if that is not known."""
        if self._db is None and not self._is_there():
            return []
        try:
            return [
                (number, place + max(first - start, 0), place + min(first + count - start, length))
                for first, count in runs
                for start, length, number, place in self._rows_of_spans(first, count)
            ]
        except ConvfsError as error:
            _LOG.info(_DRAWN, error)
            return []

    def _texts(self, rows: Sequence[EventRow], *, section: bool) -> _Drawn:
        missing: list[EventRow] = []
        for row in rows:
            text = self._kept(row, section=section)
            if text is None:
                missing.append(row)
                continue
            if missing:
                yield from self._draw(missing, section=section)
                missing = []
            yield row, text
        if missing:
            yield from self._draw(missing, section=section)

    def _draw(self, rows: Sequence[EventRow], *, section: bool) -> _Drawn:
        draw = self._renderer.section if section else self._renderer.file
        for row, event in self.library.viewer.events(rows):
            yield row, event if isinstance(event, ConvfsError) else draw(row.number, event)

    def contents_of(self, rows: Iterable[EventRow]) -> Iterator[tuple[EventRow, Content | None]]:
        """Yield events with the contents of their files, in any order; None: it must be drawn.

        Blocks are read only as far as that goes. While one is looked up, others are decompressed, on all cores.
        """
        left = {row.turn: row for row in rows}
        try:
            for turn, content in self._contents(left):
                yield left.pop(turn), content
        except ConvfsError as error:
            _LOG.info(_DRAWN, error)
        yield from ((row, None) for row in left.values())

    def _contents(self, rows: Mapping[int, EventRow]) -> Iterator[tuple[int, Content]]:
        """Yield the contents that are kept, by turns, as ``rows`` are."""
        if self._db is None and not self._is_there():
            return
        wanted: dict[int, list[tuple[int, EventRow]]] = {}
        first = beyond = number = place = 0
        for turn in sorted(turn for turn, row in rows.items() if not row.unsure):
            if not first <= turn < beyond:
                first, count, number, place = next(self._rows_of_spans(turn, 1), (0, 0, 0, 0))
                beyond = first + count
            if turn < beyond:
                wanted.setdefault(number, []).append((place + turn - first, rows[turn]))
        for _number, found in self._abreast(sorted(wanted), lambda row: self._contents_in(row, wanted[row[0]])):
            yield from found

    def _abreast(self, numbers: Sequence[int], read: Callable[[Row], T]) -> Iterator[tuple[int, T]]:
        """Yield what is read of some blocks, in this order: while one is looked up, others are read, on all cores."""
        if len(numbers) < 2:
            # not worth a thread
            yield from ((number, read(row)) for number in numbers for row in self._rows(number))
            return
        waiting: deque[tuple[int, Future[T]]] = deque()
        for number in numbers:
            waiting.extend((number, self._by_thread(read, row)) for row in self._rows(number))
            if len(waiting) > 2 * self._cores:
                number, reading = waiting.popleft()
                yield number, reading.result()
        for number, reading in waiting:
            yield number, reading.result()

    def _by_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        with self._threads_lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._cores, "convfs-reading")
            return self._threads.submit(work, *args, **kwargs)

    def _end_threads(self) -> None:
        with self._threads_lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _asked(self, numbers: Iterable[int]) -> Callable[[int], _Block | None]:
        """Have blocks read, on all cores; return what waits for one, and returns None if it cannot be had."""
        asked = set(numbers)
        if len(asked) < 2:
            # not worth a thread
            there = {number: self._had(number) for number in asked}
            return there.__getitem__
        reading = {number: self._by_thread(self._had, number) for number in sorted(asked)}
        return lambda number: reading[number].result()

    def _had(self, number: int) -> _Block | None:
        try:
            return self._block(number)
        except ConvfsError as error:
            _LOG.info(_DRAWN, error)
            return None

    def _contents_in(self, row: Row, asked: Sequence[tuple[int, EventRow]]) -> list[tuple[int, Content]]:
        """Return the contents at some places of a block, by turns, but for those that are not the rest of a file."""
        found: list[tuple[int, Content]] = []
        with zstd.reading(self.db.checked("blocks", row)[1], _LARGEST_BLOCK) as read:
            [count] = _count.unpack(read(_count.size))
            sizes = struct.unpack(f"<{3 * count}I", read(_place.size * count))
            ends = [*accumulate(sizes[1::3])]
            there = [(place, event) for place, event in asked if place < count]
            files = read(max((ends[place] for place, _event in there), default=0))
        for place, event in there:
            content, size = sizes[3 * place : 3 * place + 2]
            if content and size == event.file_size:
                start, end = ends[place] - size, ends[place]
                text = files[start + content : end].decode()
                found.append((event.turn, Content(text, files.count(b"\n", start, start + content) + 1)))
        return found

    def _kept(self, row: EventRow, *, section: bool) -> bytes | None:
        if (found := self._of(row)) is None:
            return None
        block, at = found
        begins, size = (block.sections, row.section_size) if section else (block.files, row.file_size)
        start, end = begins[at], begins[at + 1]
        return block.data[start:end] if end - start == size else None

    def _of(self, row: EventRow) -> tuple[_Block, int] | None:
        """Return the block with the texts of an event, and its place there, None if there is none."""
        span, turn = self._last, row.turn
        if not span.first <= turn < span.end:
            if row.unsure or (found := self._span(turn)) is None:
                return None
            self._last = span = found
        return span.block, span.place + turn - span.first

    def _is_there(self) -> bool:
        """Return whether there is a database to be read; of a store that takes no writes it would be copied first."""
        return not self.files.read_only and self.files.aside.path(paths.TEXTS).exists()

    def _span(self, turn: int) -> _Span | None:
        """Return where the texts of a turn are, None if they are nowhere."""
        if self._db is None and not self._is_there():
            return None
        try:
            for start, length, number, place in self._rows_of_spans(turn, 1):
                block = self._block(number)
                if block is not None and place + length <= block.count:
                    return _Span(start, start + length, block, place)
        except ConvfsError as error:
            # damaged, on a full disk, or closed: it can be drawn all the same
            _LOG.info(_DRAWN, error)
        return None

    def warm(self) -> None:
        """Have the database opened for this thread: the first one who reads need not wait for that."""
        self._span(1)

    def _rows_of_spans(self, first: int, count: int) -> Iterator[Row]:
        """Yield (first, count, block, place) of where the texts of turns that follow each other are, rising."""
        which = f"SELECT * FROM spans WHERE {_OVERLAPPING} ORDER BY first"
        return (self.db.checked("spans", row) for row in self.db.query(which, _between(first, count)))

    def _block(self, number: int) -> _Block | None:
        """Return a block, None if it was dropped just now."""
        if (block := self._remembered(number)) is not None:
            return block
        for row in self._rows(number):
            block = self._decompressed(row)
            self._remember(number, block)
        return block

    def _rows(self, number: int) -> Sequence[Row]:
        """Return the row of a block; none if it was dropped just now."""
        return self.db.query("SELECT * FROM blocks WHERE id = ?", (number,))

    def _decompressed(self, row: Row) -> _Block:
        return _read(zstd.decompress(self.db.checked("blocks", row)[1], _LARGEST_BLOCK))

    def _remembered(self, number: int) -> _Block | None:
        with self._lock:
            self.asked += 1
            if (block := self._recent.get(number)) is not None:
                self._recent.move_to_end(number)
            return block

    def _remember(self, number: int, block: _Block) -> None:
        if is_sparing():
            return
        with self._lock:
            if number not in self._recent:
                self._held += len(block.data)
            self._recent[number] = block
            while self._held > _RECENT_BYTES and len(self._recent) > 1:
                self._held -= len(self._recent.popitem(last=False)[1].data)

    @held_if_full
    def drop(self, runs: Iterable[Run]) -> None:
        """Drop the texts of turns that are drawn otherwise from now on."""
        if self._db is None and not self._is_there():
            return
        with self.db.writing() as sql:
            self._drops += 1
            for first, count in runs:
                self._drop_blocks(sql, first, count)
        self.forget()

    def forget(self) -> None:
        """Forget what is remembered: contents have changed."""
        with self._lock:
            self._recent.clear()
            self._held = 0
            self._last = _NOTHING

    def shrink(self) -> None:
        self._end_threads()
        super().shrink()
        self.forget()

    def close(self) -> None:
        self._end_threads()
        super().close()

    def _open(self, *, anew: bool) -> Database:
        self.forget()
        self._bytes = self._merged = _UNKNOWN
        self._drops += 1
        return super()._open(anew=anew)

    # -- filling ---------------------------------------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """True if texts are kept at all."""
        return bool(self._share) and not self.files.read_only

    def step(self) -> bool:
        return self.fill() or (self.is_kept and self._merge())

    def fill(self) -> bool:
        """Draw a few events of conversations that have changed; return whether there are more."""
        return self.is_kept and super().step()

    def _look_at(self, context: int, head: int, until: float) -> int:
        rows = self.library.records.rows(head)
        if self._reached[:2] != (context, head):
            self._reached = context, head, self._new(context, head, rows)
        left = self._reached[2]
        while left:
            if monotonic() >= until:
                return sum(end - start for start, end in left)
            start, end = left.pop()
            if (done := self._fill(rows, start, end)) < end:
                left.append((done, end))
        self._reached = _NOWHERE
        self._put_heads([(context, head)])
        return 0

    def _new(self, context: int, head: int, rows: Sequence[EventRow]) -> list[tuple[int, int]]:
        """Return which records of a branch need a look, from where to where, the first ones at the end of the list.

        They are those that it did not have before, and those of a last small block.
        """
        records, known = self.library.records, self._known_head(context)
        if not known:
            return [(0, len(rows))]
        found = [(start, start + count) for start, count in differences(records.runs(head), records.runs(known))]
        if not self.library.turns.goes_on(known, head):
            return found[::-1]
        done = records.length(known)
        span = self._span(rows[done - 1].turn) if done else None
        if span is not None and len(span.block.data) < BLOCK_BYTES // 2:
            with self.db.writing() as sql:
                self._drop_blocks(sql, rows[done - 1].turn, 1)
            # each of them once at most: those between them have no texts
            done -= min(span.block.count, done)
        return [(done, len(rows))]

    def _fill(self, rows: Sequence[EventRow], start: int, end: int) -> int:
        """Draw records from ``start`` on, up to a block full of those that are not there; return where it ended."""
        blocks, done = Blocks(), start
        while done < end and blocks.size < BLOCK_BYTES:
            some = _some(rows, done, end, BLOCK_BYTES - blocks.size)
            for row, event in self.library.viewer.events(self._missing(some)):
                if isinstance(event, ConvfsError):
                    continue
                drawn = self._renderer.drawn(row.number, event)
                if len(drawn.file) == row.file_size and len(drawn.section) == row.section_size:
                    blocks.add(row.turn, drawn)
            done += len(some)
        self._put(blocks.end())
        return done

    def _merge(self) -> bool:
        """Make the next small blocks that follow each other one; return whether there may be more to do."""
        try:
            with self._filing:
                return self._merge_some()
        except ConvfsError as error:
            _LOG.info("the blocks of %s stay as they are: %s", paths.TEXTS, error)
            return False

    @held_if_full
    def _merge_some(self) -> bool:
        last = self.db.number("blocks")
        if last == self._merged:
            return False
        numbers: list[int] = []
        blocks: list[_Block] = []
        size = 0
        # nothing of this may be dropped meanwhile, or it would come back
        with self.db.writing() as sql:
            for row in sql.execute("SELECT * FROM blocks WHERE id > ? ORDER BY id", (self.db.number("merged"),)):
                if size >= _MERGED_BYTES:
                    break
                block = self._decompressed(row)
                numbers.append(row[0])
                blocks.append(block)
                size += len(block.data)
            if size < _MERGED_BYTES:
                # there will be more
                self._merged = last
                return False
            self._put_together(sql, numbers, blocks)
            self.db.set_state("merged", numbers[-1])
        self.db.give_back(_PAGES_FREED)
        self.forget()
        return True

    def _put_together(self, sql: sqlite3.Connection, numbers: list[int], blocks: list[_Block]) -> None:
        """Put what is joined in the place of the first: who remembers that finds in it what it had, at its place."""
        data = zstd.compress(_joined(blocks), _MERGED_LEVEL)
        first, place = numbers[0], 0
        for number, block in zip(numbers, blocks, strict=True):
            spans = sql.execute("SELECT first, count, place FROM spans WHERE block = ?", (number,)).fetchall()
            put(sql, "spans", [(start, count, first, place + at) for start, count, at in spans])
            place += block.count
        marks, merged = among(numbers)
        gone = sql.execute(f"DELETE FROM blocks WHERE id IN ({marks}) RETURNING length(data)", merged).fetchall()
        put(sql, "blocks", [(first, data)])
        if self._bytes != _UNKNOWN:
            self._bytes += len(data) - sum(length for (length,) in gone)

    def behind(self) -> list[tuple[int, int]]:
        """Return (context, head) of the conversations that nobody has looked at yet, by context."""
        if not self.is_kept:
            return []
        with self._filing:
            self._follow()
            waiting = [context for (context,) in self.db.query("SELECT context FROM waiting ORDER BY context")]
            known = {context for (context,) in self.db.query("SELECT context FROM conversations")}
        heads = ((context, self.library.catalogue.head(context)) for context in waiting if context not in known)
        return [(context, head[0]) for context, head in heads if head is not None and head[0]]

    def has(self, turn: int) -> bool:
        """Return whether there are texts of a turn."""
        return next(self._rows_of_spans(turn, 1), None) is not None

    @property
    def opening(self) -> int:
        """A number that is another one once turns are dropped, or the database is opened anew."""
        if self.is_kept:
            with self._filing:
                self._follow()
        return self._drops

    def add(self, blocks: Sequence[Block], heads: Sequence[tuple[int, int]], opening: int) -> None:
        """File texts that were drawn of turns; of the conversations ``heads``, these are all.

        ``opening`` is what :attr:`opening` was before they were read; if that is over, they are drawn once more.
        """
        if not self.is_kept:
            return
        try:
            with self._filing:
                self._follow()
                if opening == self._drops:
                    # others may have drawn them meanwhile
                    self._put([block for block in blocks if not any(map(self.has, (block.of[0], block.of[-1])))])
                    self._put_heads(heads)
        except ConvfsError as error:
            # they can be drawn all the same
            _LOG.warning("texts are drawn again: %s", error)

    def _missing(self, rows: Sequence[EventRow]) -> list[EventRow]:
        """Return the rows of those events that are to be kept, and are not."""
        there: set[int] = set()
        for first, count in joined((row.turn, 1) for row in rows):
            for span in self.db.query(f"SELECT first, count FROM spans WHERE {_OVERLAPPING}", _between(first, count)):
                there.update(range(span[0], sum(span)))
        return [
            row
            for row in rows
            if is_kept(row.kind, row.file_size) and not row.unsure and row.turn not in there
        ]

    @held_if_full
    def _put(self, blocks: Sequence[Block]) -> None:
        if not blocks:
            return
        # never again that of a block that was dropped: a reader may remember it
        number = self.db.number("blocks")
        with self.db.writing() as sql:
            for block in blocks:
                number, place = number + 1, 0
                put(sql, "blocks", [(number, block.data)])
                for first, count in joined((turn, 1) for turn in block.of):
                    put(sql, "spans", [(first, count, number, place)])
                    place += count
            self.db.set_state("blocks", number)
        self._make_room(sum(len(block.data) for block in blocks))

    def _make_room(self, more: int) -> None:
        """Drop the oldest blocks while they are too large; ``more`` bytes have just been added."""
        if self._bytes == _UNKNOWN:
            [[self._bytes]] = self.db.query("SELECT coalesce(sum(length(data)), 0) FROM blocks")
        else:
            self._bytes += more
        packs = self.files.packs
        most = max(_LEAST_BYTES, self._share * sum(map(packs.length, packs.numbers())))
        while self._bytes > most and (oldest := self.db.one("SELECT id FROM blocks ORDER BY id LIMIT 1")):
            with self.db.writing() as sql:
                self._drop_block(sql, oldest[0])

    @held_if_full
    def _put_heads(self, heads: Sequence[tuple[int, int]]) -> None:
        with self.db.writing() as sql:
            put(sql, "conversations", heads)

    def _drop(self, sql: sqlite3.Connection, context: int) -> None:
        # turns that are reclaimed are told of
        pass

    def _note(self, sql: sqlite3.Connection, frame: HeadFrame) -> None:
        if isinstance(frame.body, Reclaimed):
            self._drops += 1
            for first, count in frame.body.runs:
                self._drop_blocks(sql, first, count)

    def _drop_blocks(self, sql: sqlite3.Connection, first: int, count: int) -> None:
        """Drop the blocks with texts of some turns that follow each other."""
        found = sql.execute(f"SELECT DISTINCT block FROM spans WHERE {_OVERLAPPING}", _between(first, count)).fetchall()
        for (number,) in found:
            self._drop_block(sql, number)

    def _drop_block(self, sql: sqlite3.Connection, number: int) -> None:
        sql.execute("DELETE FROM spans WHERE block = ?", (number,))
        [size] = sql.execute("DELETE FROM blocks WHERE id = ? RETURNING length(data)", (number,)).fetchone() or (0,)
        if self._bytes != _UNKNOWN:
            self._bytes -= size
