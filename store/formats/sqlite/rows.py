"""Rows of a database as lines of JSON, which is how its conversations are imported.

A line has the cells of a row, or some of them, that make up one event, and rows that it refers to::

    {"table":"parts","key":{"id":7},"cells":{"type":"text","text":"Hi"},"about":{"role":"user"}}

``begins`` stands in the first line of each conversation. Cells that hold a JSON document stand as they are under
``json``, those that hold bytes in base64 under ``blobs``. ``about`` tells what stands in other rows, for showing it.
"""

import math
import sqlite3
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec
from msgspec import Raw, Struct

from store.formats.format import About, Part, Span

Cell = str | int | float | None
Found = Mapping[str, object]
"""A row as SQLite gives it: cells by column."""

_decode_json = msgspec.json.Decoder().decode
HEADER = b'{"begins":'
"""How the first line of a conversation begins."""


class Begins(Struct, frozen=True, omit_defaults=True):
    """What a conversation is: fields as in :class:`store.formats.format.Part` and :class:`About`."""

    key: str
    title: str = ""
    project: str = ""
    started_ms: int = 0
    extra: dict[str, str] = {}
    forked_from: str = ""
    base: int = -1
    shared: int = 0


class Row(Struct, frozen=True, omit_defaults=True):
    """One line, see above."""

    begins: Begins | None = None
    table: str = ""
    key: dict[str, Cell] = {}
    cells: dict[str, Cell] = {}
    json: dict[str, Raw] = {}
    blobs: dict[str, str] = {}
    about: dict[str, str | bool] = {}
    rows: tuple["Row", ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns whose cells it has."""
        return [*self.cells, *self.json, *self.blobs]

    def everything(self) -> Iterator["Row"]:
        """Yield it and the rows in it that are said to be of a table."""
        yield self
        for row in self.rows:
            yield from row.everything()


encode_row = msgspec.json.Encoder().encode
decode_row = msgspec.json.Decoder(Row).decode


def cells_of(
    table: str,
    found: Found,
    keys: Sequence[str],
    columns: Iterable[str] | None = None,
    *,
    documents: AbstractSet[str] = frozenset(),
    about: Mapping[str, str | bool] | None = None,
    rows: Iterable[Row] = (),
) -> Row:
    """Return a row of ``table`` as a line: its key, and of its other cells those in ``columns`` (None: all).

    Cells of the columns in ``documents`` are JSON where they hold an object or a list on one line.
    """
    cells: dict[str, Cell] = {}
    json: dict[str, Raw] = {}
    blobs: dict[str, str] = {}
    for column in found if columns is None else columns:
        value = found.get(column)
        if column in keys or column not in found:
            continue
        if isinstance(value, bytes):
            blobs[column] = b2a_base64(value, newline=False).decode()
        elif isinstance(value, str) and column in documents and _is_document(value):
            json[column] = Raw(value.encode())
        else:
            cells[column] = plain(value)
    key = {name: plain(found[name]) for name in keys}
    return Row(None, table, key, cells, json, blobs, dict(about or {}), tuple(rows))


def dictionaries(database: sqlite3.Connection, query: str, *parameters: object) -> Iterator[dict[str, object]]:
    """Yield the rows that a query finds, as far as the database can be read."""
    try:
        cursor = database.execute(query, parameters)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        # to sort them, all of them would have to be read
        cursor = database.execute(query.partition(" ORDER BY ")[0], parameters)
    names = [description[0] for description in cursor.description]
    try:
        for found in cursor:
            yield dict(zip(names, found, strict=True))
    except (sqlite3.DatabaseError, UnicodeError):
        # a damaged page ends its table: what stands before it is kept
        return


def columns_of(database: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; none where there is no such table."""
    quoted = table.replace('"', '""')
    return {str(row[1]) for row in database.execute(f'PRAGMA table_info("{quoted}")')}


def write_lines(rows: Iterable[Row], scratch: Path) -> Path:
    """Write lines to a new file in ``scratch`` and return its path."""
    with NamedTemporaryFile(prefix="rendition-", suffix=".jsonl", dir=scratch, delete=False) as file:
        for row in rows:
            file.write(encode_row(row) + b"\n")
    return Path(file.name)


def parts_of(data: memoryview, spans: Sequence[Span]) -> list[Part]:
    """Return the conversations that lines make up, as their first lines say."""
    starts = [at for at, span in enumerate(spans) if bytes(data[span.start : span.start + len(HEADER)]) == HEADER]
    parts: list[Part] = []
    for start, end in pairwise((*starts, len(spans))):
        begins = decode_row(bytes(data[spans[start].start : spans[start].end])).begins
        assert begins is not None
        about = About(
            begins.title, begins.project, begins.started_ms, begins.key, begins.extra, forked_from=begins.forked_from
        )
        parts.append(Part(begins.key, range(start, end), about, begins.base, begins.shared))
    return parts


def _is_document(text: str) -> bool:
    if text[:1] not in ("{", "[") or "\n" in text or "\r" in text:
        return False
    try:
        _decode_json(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def plain(value: object) -> Cell:
    """Return a cell's value as JSON can say it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float)) or value is None else str(value)
