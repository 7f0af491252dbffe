"""Cells of databases that are too large to be held in several copies: read, and written into lines, in pieces.

A line of such a row is made with marks in their place, and :func:`pieces_of` gives what they stand for.
"""

import os
import re
import sqlite3
from binascii import b2a_base64
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator

import msgspec

from store.formats.core.json_view import is_json_line, is_strict_json

LARGE_BYTES = 4 << 20
"""A cell of more bytes is a large one."""
LARGEST_HELD = 96 << 20
"""A cell of more bytes is not held as a whole: a document is a text then."""
LARGEST_WORKED_OUT = 10 << 20
"""A document of more bytes is not worked out by a query with all that is in it."""
_PIECE = 3 << 20
"""The bytes that are read at once: base64 of a multiple of three has no padding."""
_AS_THEY_ARE = ("", "UTF-8")
_CELL = "\0cell:"
_MARK = b'"\\u0000cell:'
_marks = re.compile(rb'"\\u0000cell:([0-9a-f]{32})"')
_quoted = msgspec.json.Encoder().encode

_marked: dict[bytes, tuple[int, Callable[[], Iterator[bytes]]]] = {}
"""The marks that stand in no written line yet, the sizes of what they stand for, and what writes that."""


class LargeCell:
    """A text, in an encoding, or bytes ("") in the row of a table that has a number."""

    def __init__(self, database: sqlite3.Connection, table: str, column: str, number: int, encoding: str) -> None:
        self._database, self._place = database, (table, column, number)
        self._encoding = encoding
        with self._open() as blob:
            self.size = len(blob)
            """In bytes."""

    def _open(self) -> sqlite3.Blob:
        return self._database.blobopen(*self._place, readonly=True)

    def __str__(self) -> str:
        return f"{'text' if self._encoding else 'blob'} of {self.size} bytes"

    def whole(self) -> bytes:
        """Return its bytes, of a text in UTF-8, with which nothing else need be held; b"" of a text that is damaged."""
        if self._encoding in _AS_THEY_ARE:
            with self._open() as blob:
                return blob.read()
        try:
            return b"".join(self._pieces())
        except UnicodeDecodeError:
            return b""

    def in_cells(self) -> str | None:
        """Return a mark for it as a text; None where it is none."""
        if not self._encoding:
            return None
        try:
            for _characters in self._characters():
                pass
        except UnicodeDecodeError:
            return None
        return self._mark(self._text)

    def in_document(self) -> str | None:
        """Return a mark, a text, that stands in a document for the JSON that it holds, or the text; None: for none."""
        if self._encoding and self.size <= LARGEST_HELD and is_strict_json(self.whole()):
            return self._mark(lambda: iter((msgspec.json.format(self.whole(), indent=-1),)))
        return self.in_cells()

    def in_json(self) -> bytes | None:
        """Return a mark for it as an object or a list on one line; None where it is none, or is too large to tell."""
        with self._open() as blob:
            if not self._encoding or self.size > LARGEST_HELD or not blob.read(2).strip(b"\0").startswith((b"{", b"[")):
                return None
        return _quoted(self._mark(self._pieces)) if is_json_line(self.whole()) else None

    def in_blobs(self) -> str:
        """Return a mark for it as base64."""
        return self._mark(self._base64)

    def _mark(self, write: Callable[[], Iterator[bytes]]) -> str:
        return _mark(self.size, write)

    def _pieces(self) -> Iterator[bytes]:
        """Yield its bytes, of a text in UTF-8."""
        if self._encoding in _AS_THEY_ARE:
            yield from self._read()
        else:
            yield from (characters.encode() for characters in self._characters())

    def _read(self) -> Iterator[bytes]:
        with self._open() as blob:
            while piece := blob.read(_PIECE):
                yield piece

    def _characters(self) -> Iterator[str]:
        """Yield the characters of a text. Raises UnicodeDecodeError."""
        decoder = getincrementaldecoder(self._encoding)()
        for piece in self._read():
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)

    def _text(self) -> Iterator[bytes]:
        yield b'"'
        for characters in self._characters():
            yield _quoted(characters)[1:-1]
        yield b'"'

    def _base64(self) -> Iterator[bytes]:
        yield b'"'
        for piece in self._pieces():
            yield b2a_base64(piece, newline=False)
        yield b'"'


def _mark(size: int, write: Callable[[], Iterator[bytes]]) -> str:
    # nobody can know it, and write it into another cell
    name = os.urandom(16).hex()
    _marked[name.encode()] = size, write
    return _CELL + name


def forget(cells: Iterable[object]) -> None:
    """Forget what the marks among some cells stand for: they are in no line that is yet to be written."""
    for cell in cells:
        if isinstance(cell, str) and cell.startswith(_CELL):
            _marked.pop(cell.removeprefix(_CELL).encode("utf-8", "replace"), None)


def in_its_place(document: bytes) -> bytes:
    """Return JSON for a row that becomes a line, which takes no copy of a large document then: a mark for that."""
    return document if len(document) <= LARGE_BYTES else _quoted(_mark(len(document), lambda: iter((document,))))


def with_small_cells(document: bytes) -> bytes:
    """Return a document in which marks stand for large cells only."""
    names = _marks.findall(document) if _MARK in document else []
    for name in (name for name in names if name in _marked and _marked[name][0] <= LARGE_BYTES):
        document = document.replace(_MARK + name + b'"', b"".join(_marked.pop(name)[1]()))
    return document


def pieces_of(line: bytes) -> Iterator[bytes]:
    """Yield a line in pieces, with the cells that marks in it stand for. A mark is good for once."""
    if _MARK not in line:
        yield line
        return
    end = 0
    for found in _marks.finditer(line):
        if (held := _marked.pop(found[1], None)) is not None:
            yield line[end : found.start()]
            yield from held[1]()
            end = found.end()
    yield line[end:]
