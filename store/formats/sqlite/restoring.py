"""Edited lines written back into a copy of the database that they were made from: no other cell changes."""

import sqlite3
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from blake3 import blake3

from store.errors import UsageError
from store.formats.sqlite.copying import merged, writing
from store.formats.sqlite.rows import Cell, Row, columns_of, decode_row, encode_row, plain

Delete = Callable[[sqlite3.Connection, Row], None]
"""Takes what a line says out of a database."""


def restore(original: Path, before: Iterable[bytes], rendition: Path, target: Path, delete: Delete) -> None:
    """Write to ``target`` the database ``original``, which said ``before``, so that it says ``rendition``.

    Raises UsageError for lines that the database cannot hold.
    """
    try:
        merged(original, target)
        with closing(writing(target)) as database:
            database.execute("BEGIN IMMEDIATE")
            _Restoration(database, delete).run(before, rendition)
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise UsageError(f"the database cannot be given what was edited: {error}") from error


def remove_row(database: sqlite3.Connection, row: Row) -> None:
    """Delete the row that a line is made from."""
    where, parameters = _where(row)
    database.execute(f"DELETE FROM {_name(row.table)} WHERE {where}", parameters)


def clear_cells(database: sqlite3.Connection, row: Row) -> None:
    """Empty the cells that a line has."""
    where, parameters = _where(row)
    changes = ", ".join(f"{_name(column)} = NULL" for column in row.columns)
    database.execute(f"UPDATE {_name(row.table)} SET {changes} WHERE {where}", parameters)


class _Restoration:
    def __init__(self, database: sqlite3.Connection, delete: Delete) -> None:
        self._database = database
        self._delete = delete
        self._columns: dict[str, set[str]] = {}

    def run(self, before: Iterable[bytes], rendition: Path) -> None:
        """Make of the database what the rendition says."""
        said = {blake3(line).digest(): _identity(decode_row(line)) for line in before}
        kept: dict[bytes, set[str]] = {}
        changed: list[Row] = []
        for line in _lines(rendition):
            identity = said.get(blake3(line).digest())
            if identity is None:
                try:
                    changed.append(decode_row(line))
                except (msgspec.DecodeError, msgspec.ValidationError) as error:
                    raise UsageError(f"an edited record is no row of the database any more: {error}") from None
                identity = _identity(changed[-1])
            kept.setdefault(identity[0], set()).update(identity[1])
        for row in changed:
            # a row is to be there before another refers to it
            for one in reversed(list(row.everything())):
                self._put(one)
        for encoded, columns in said.values():
            row = decode_row(encoded)
            if row.table and (encoded not in kept or (columns and kept[encoded].isdisjoint(columns))):
                self._delete(self._database, Row(None, row.table, row.key, dict.fromkeys(columns)))

    def _put(self, row: Row) -> None:
        if not row.table:
            return
        values = _values(row)
        if row.table not in self._columns:
            self._columns[row.table] = columns_of(self._database, row.table)
        if unknown := sorted((row.key.keys() | values.keys()) - self._columns[row.table]):
            raise UsageError(f"the database has no place for {unknown[0]!r} of an edited record")
        table, (where, parameters) = _name(row.table), _where(row)
        names = ", ".join(map(_name, values)) or "1"
        held = self._database.execute(f"SELECT {names} FROM {table} WHERE {where}", parameters).fetchone()
        if held is None:
            whole = {**row.key, **values}
            places = ", ".join("?" * len(whole))
            names = ", ".join(map(_name, whole))
            self._database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(whole.values()))
            return
        for (column, value), present in zip(values.items(), held, strict=False):
            if value != (present if isinstance(present, bytes) else plain(present)):
                change = f"UPDATE {table} SET {_name(column)} = ? WHERE {where}"
                self._database.execute(change, [value, *parameters])


def _values(row: Row) -> dict[str, Cell | bytes]:
    values: dict[str, Cell | bytes] = {**row.cells}
    values |= {column: bytes(raw).decode() for column, raw in row.json.items()}
    return values | {column: a2b_base64(text) for column, text in row.blobs.items()}


def _where(row: Row) -> tuple[str, list[Cell]]:
    if not row.key:
        raise UsageError("an edited record does not say any more which row of the database it is")
    return " AND ".join(f"{_name(column)} IS ?" for column in row.key), list(row.key.values())


def _identity(row: Row) -> tuple[bytes, tuple[str, ...]]:
    """Return which row a line is made from, as a line itself, and which of its cells."""
    return encode_row(Row(None, row.table, row.key)), tuple(row.columns)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from (line for line in (line.rstrip(b"\n") for line in file) if line)


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
