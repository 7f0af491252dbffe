"""A described format whose sessions are rows of a database, or stand in a file of JSON that is exported from one."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from store.errors import DamageError, UsageError
from store.events.event import ValuePath
from store.formats.core import documents, sqlite
from store.formats.core.editing import Lens
from store.formats.core.export_format import Node, ways
from store.formats.core.format import About, Mark, Part, Source, Span, Titled, first_line, last_part
from store.formats.core.json_spans import locate
from store.formats.core.json_view import (
    MOST_OF_ALL,
    as_list,
    as_object,
    as_text,
    decode,
    is_object,
    object_in,
    place,
    value_at,
    value_in,
)
from store.formats.core.large_cells import (
    LARGE_BYTES,
    LARGEST_HELD,
    LARGEST_WORKED_OUT,
    LargeCell,
    in_its_place,
    with_small_cells,
)
from store.formats.core.look import Look, open_regular, read_document
from store.formats.core.removal import Tree
from store.formats.core.splices import put, without_elements
from store.formats.core.sqlite import Begins, DatabaseFormat, Found, News, Row, cells_of, columns_of, encode_row, quoted
from store.formats.core.times import time_of
from store.formats.declared.description import Database, Description, Fits, listed
from store.formats.declared.details import parted, whole
from store.formats.declared.format import resuming_of
from store.formats.declared.inside import Item, cut, filled, on_one_line, units, whole_on_one_line
from store.formats.declared.lens import DeclaredLens
from store.ids import hash_bytes

_SHARE, _LONG_S = 400, 0.002
"""A walk through tables for what has changed that takes long is not repeated for so many times its processor time."""
_LARGEST_LIST = 16 << 20
_FRAME, _AT, _NAME = "frame", "item", "name"
"""The parts of ``about`` that lines of a document and of its messages have: places, positions and keys."""


class DeclaredDatabase(DatabaseFormat):
    """The tool that a description describes, which keeps its sessions in a database; a ``lens`` may see more."""

    def __init__(self, said: Description, lens: DeclaredLens | None = None) -> None:
        assert said.database is not None
        self.kept = said.homes
        self.kinds = [
            Sessions(one) for one in ([said.database] if isinstance(said.database, Database) else said.database)
        ]
        self._lens = lens or DeclaredLens(said)
        self.name = said.name
        self.lenses: Sequence[Lens] = (self._lens,)
        self.main_type = self._lens.type_name
        self.resuming = resuming_of(said)
        self._may_walk_from: dict[Path, float] = {}
        self._put_off: set[Path] = set()
        """The databases in which a walk was due before that."""
        self.schemas: Sequence[Mapping[str, Set[str]]] = [schema for kind in self.kinds for schema in kind.schemas()]

    def lines(self, database: sqlite3.Connection) -> Iterator[Row]:
        return self._lines(database, [(kind, None) for kind in self._present(database)])

    def _lines(
        self, database: sqlite3.Connection, kinds: Sequence[tuple["Sessions", Sequence[object] | None]]
    ) -> Iterator[Row]:
        begun = 0
        for kind, names in kinds:
            # longer rows are read cell by cell; to work one out takes some twenty times its size
            most = LARGEST_WORKED_OUT if kind.works_out else LARGE_BYTES
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
            for line in kind.lines(database, begun, names):
                begun += line.begins is not None
                yield line

    def _present(self, database: sqlite3.Connection) -> list["Sessions"]:
        return [kind for kind in self.kinds if kind.stands_in(database)]

    def marks(self, database: sqlite3.Connection) -> dict[str, Mark]:
        present = self._present(database)
        try:
            found = [kind.marks(database) for kind in present]
        except sqlite3.OperationalError:
            # rows without numbers
            return {}
        return {name: value for marks in found for name, value in marks.items()} if all(found) else {}

    def news(self, path: Path, database: sqlite3.Connection, since: Mapping[str, Mark]) -> News | None:
        present = self._present(database)
        if {name for kind in present for name in kind.marked(database)} != since.keys():
            return None
        may_walk, began = time.monotonic() >= self._may_walk_from.get(path, 0.0), time.thread_time()
        found = [kind.written(database, since, touched=may_walk) for kind in present]
        if may_walk and (took := time.thread_time() - began) >= _LONG_S:
            self._may_walk_from[path] = time.monotonic() + took * _SHARE
        (self._put_off.discard if may_walk else self._put_off.add)(path)
        marks = {name: value for _names, reached in found for name, value in reached.items()}
        chosen = [(kind, names) for kind, (names, _reached) in zip(present, found, strict=True)]
        return self._lines(database, chosen), {**since, **marks}

    def rests(self, path: Path, since: Mapping[str, Mark]) -> bool:
        # a walk that is due and takes long is made once, by what reads what it finds
        walks_from = self._may_walk_from.get(path)
        return (walks_from is None or time.monotonic() < walks_from) and super().rests(path, since)

    def newest(self, database: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
        for kind in self._present(database):
            marked = list(kind.marked(database).values())
            for table in (table for table, column in marked if column == "rowid"):
                # what rises with every change tells of a document without reading it
                rising = [column for of, column in marked if of == table and column != "rowid"]
                yield sqlite.last_row(database, table, rising or ["*"])

    def put_off(self, path: Path) -> float:
        walk = max(self._may_walk_from[path] - time.monotonic(), 0.1) if path in self._put_off else 0.0
        return min(filter(None, (walk, super().put_off(path))), default=0.0)

    def delete(self, database: sqlite3.Connection, row: Row) -> None:
        """Delete a message; sessions stay."""
        if any(row.table == kind.said.messages for kind in self.kinds):
            sqlite.remove_row(database, row)

    def claim(self, look: Look) -> Source | None:
        """Claim a database with the tables of the description, and rows that its query for sessions finds."""
        source = super().claim(look)
        if source is None or not all(kind.said.select for kind in self.kinds):
            return source
        return source if sqlite.may_find(look.path, [kind.said.select for kind in self.kinds]) else None

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the conversations; where it is said, they were held where the database lies."""
        parts = super().parts(source, data, spans)
        above = next((kind.said.directory for kind in self.kinds if kind.said.directory.startswith("..")), "")
        if not above or parts is None:
            return parts
        directory = os.path.normpath(source.path / above)

        def held_there(about: About) -> About:
            extra = {**about.extra, "cwd": directory}
            return replace(about, project=last_part(directory), placed=True, extra=extra)

        return [replace(one, about=held_there(one.about)) for one in parts]

    def written(self, database: sqlite3.Connection, row: Row) -> None:
        """Delete what repeats a session that was changed, where its tool looks for it first."""
        for kind in self.kinds:
            said = kind.said
            if said.stale and row.table == said.sessions and kind.stands_in(database):
                database.execute(said.stale, [row.key[said.id]])

    def titled(self, conversation: Row) -> Titled:
        return Titled.BY_TOOL if conversation.begins and conversation.begins.title else Titled.PROVISIONALLY

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other rows; a call and its result go together."""
        kept = self._lens.without(records, deleted)
        for kind in self.kinds:
            kept = kind.relinked(kept, records)
            kept = dict(zip(kept, kind.relisted(list(kept.values())), strict=True))
        return list(kept.values())

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        if not any(kind.said.document for kind in self.kinds):
            super().restore(original, rendition, target)
            return
        with (
            sqlite.opened(original, target.parent) as database,
            rendition.open("rb") as file,
            NamedTemporaryFile(dir=target.parent, suffix=".jsonl") as whole,
        ):
            held = partial(_held, database)
            whole.writelines(line + b"\n" for line in self.folded(file, held))
            whole.flush()
            before = self.folded(map(encode_row, self.lines(database)), held)
            sqlite.restore(original, before, Path(whole.name), target, self.delete, self.link, self.written)

    def folded(self, lines: Iterable[bytes], held: Callable[[Row, str], bytes]) -> Iterator[bytes]:
        """Yield lines with the documents of sessions whole again; ``held`` returns those that hold several."""
        folding: _Folding | None = None
        for line in lines:
            try:
                row = sqlite.decode_row(line)
            except (msgspec.DecodeError, msgspec.ValidationError):
                # restoring says so
                yield line.rstrip(b"\n")
                continue
            kind = next((one for one in self.kinds if one.is_inside(row)), None)
            if kind is None:
                yield line.rstrip(b"\n")
                continue
            if folding is None or (row.key and (row.table, row.key) != (folding.table, folding.key)):
                if folding is not None:
                    yield folding.whole(held)
                folding = _Folding(kind.said, row.table, row.key)
            folding.add(row)
        if folding is not None:
            yield folding.whole(held)


class _Folding:
    """The lines of a row whose document was cut."""

    def __init__(self, said: Database, table: str, key: dict[str, sqlite.Cell]) -> None:
        self._said, self.table, self.key = said, table, key
        self._frame: Row | None = None
        self._found: list[tuple[str, bytes, list[Item]]] = []

    def add(self, row: Row) -> None:
        held = bytes(row.json[self._said.document])
        if _FRAME in row.about:
            self._frame = self._frame or row
            self._found.append((str(row.about[_FRAME]), held, []))
        elif self._found:
            at = str(row.about.get(_AT, "-1"))
            held = whole(held, self._said.details) if self._said.details else held
            self._found[-1][2].append(Item(held, int(at), str(row.about.get(_NAME, ""))))

    def whole(self, held: Callable[[Row, str], bytes]) -> bytes:
        """Return the line of the row with all of its document."""
        said = self._said
        if self._frame is None:
            return encode_row(Row())
        made = [(where, filled(frame, items, said)) for where, frame, items in self._found]
        document = made[0][1]
        if made[0][0]:
            document = _merged(held(self._frame, said.document), made)
        json = {**self._frame.json, said.document: Raw(document)}
        return encode_row(Row(None, self.table, self.key, self._frame.cells, json, self._frame.blobs))


def _held(database: sqlite3.Connection, row: Row, column: str) -> bytes:
    where = " AND ".join(f"{quoted(name)} IS ?" for name in row.key)
    [found] = sqlite.rows_of(database, row.table, f"WHERE {where}", *row.key.values())
    return _document_in(found[column]) or b""


def _merged(document: bytes, made: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a document with other sessions in it, given with their places, and without all that are not given."""
    present = {place(where): unit for where, unit in made}
    for path, unit in present.items():
        document = put(document, path, unit)
    # a session is an element of a list, or a member of one
    in_list = {path: next(at for at in range(len(path) - 1, -1, -1) if isinstance(path[at], int)) for path in present}
    lists = {path[:at]: {path[at] for path, at in in_list.items()} for path, at in in_list.items()}
    for path, kept in lists.items():
        gone = {at for at in range(len(as_list(value_in(document, path)))) if at not in kept}
        document = without_elements(document, path, gone) if gone else document
    return document


def _document_in(held: object) -> bytes | None:
    if isinstance(held, LargeCell):
        return whole_on_one_line(held.whole()) if held.size <= LARGEST_HELD else None
    text = sqlite.unpacked(held) if isinstance(held, bytes) else held
    return on_one_line(text) if isinstance(text, str) else None


_finds_rows = re.compile(r"\s*SELECT\s+(?:\w+\.)?\*", re.IGNORECASE).match
"""Matches queries for whole rows of a table."""


class Sessions(Struct):
    """One way in which a database holds sessions."""

    said: Database

    @property
    def _own(self) -> list[str]:
        return listed(self.said.own or self.said.id)

    @property
    def _key(self) -> list[str]:
        return listed(self.said.key)

    def schemas(self) -> Iterator[Mapping[str, Set[str]]]:
        """Yield the tables that it needs, with columns."""
        said = self.said
        own = {*self._own, *([said.document] if said.document else [])}
        if not said.messages:
            yield {said.sessions: own | {*said.has}, **{table: {*columns} for table, columns in said.needs.items()}}
            return
        messages = {*self._key, *([said.of] if said.of else []), *said.has}
        if said.messages == said.sessions:
            yield {said.messages: messages | own}
            return
        yield {said.messages: messages, said.sessions: own}
        if said.unlisted:
            yield {said.messages: messages}

    def stands_in(self, database: sqlite3.Connection) -> bool:
        """Return whether a database has these tables."""
        return any(
            all(columns_of(database, table) >= wanted for table, wanted in tables.items()) for tables in self.schemas()
        )

    @property
    def works_out(self) -> bool:
        """Whether queries find what is in no cell."""
        return any(query and not _finds_rows(query) for query in (self.said.select, self.said.rows))

    @property
    def _named(self) -> str:
        """The column that tells sessions apart, one with an index: their ids, or the numbers of their documents."""
        said = self.said
        if not (said.messages or said.select or said.changed):
            return "rowid"
        return self._own[0] if "." in said.id else said.id

    def marked(self, database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
        """Return what marks are of, tables with columns: the numbers of rows, and what rises with changes."""
        said = self.said
        touched = columns_of(database, said.sessions).intersection(said.touched)
        table = said.messages or said.sessions
        numbers = {table: (table, "rowid")} if said.messages or said.changed or touched else {}
        return numbers | {f"{said.sessions}.{column}": (said.sessions, quoted(column)) for column in touched}

    def marks(self, database: sqlite3.Connection) -> dict[str, Mark]:
        """Return the number of the last row of messages, and the highest of the columns that rise with changes."""
        return {
            name: database.execute(f"SELECT max({column}) FROM {quoted(table)}").fetchone()[0]
            for name, (table, column) in self.marked(database).items()
        }

    def written(
        self, database: sqlite3.Connection, since: Mapping[str, Mark], *, touched: bool
    ) -> tuple[list[object], dict[str, Mark]]:
        """Return the names of the sessions that may have changed since marks, of equal ones too, and new marks.

        The last row may be written anew, and a clock may stand still. Without an index, SQLite walks through a table
        for the columns that rise: only if ``touched``.
        """
        named = quoted(self._named)
        names: dict[object, None] = {}
        marks: dict[str, Mark] = {}
        for mark, (table, column) in self.marked(database).items():
            # where there was nothing yet, everything is new
            lowest = since[mark] if since[mark] is not None else -1
            if column == "rowid":
                names |= dict.fromkeys(name for (name,) in database.execute(self.owners(table), [lowest]))
                marks[mark] = database.execute(f"SELECT max(rowid) FROM {quoted(table)}").fetchone()[0]
            elif touched:
                query = f"SELECT {named}, {column} FROM {quoted(table)} WHERE {column} >= ?1 ORDER BY {column}"
                marks[mark] = since[mark]
                for name, marks[mark] in database.execute(query, [lowest]):
                    names[name] = None
        return list(names), marks

    def owners(self, table: str) -> str:
        """Return the query for the names of the sessions that rows of a table, from number ``?1`` on, are of."""
        of = quoted(self.said.of if self.said.messages else self._named)
        # by their numbers: SQLite would rather walk through all of an index that has them in order
        return self.said.changed or f"SELECT DISTINCT {of} FROM {quoted(table)} NOT INDEXED WHERE rowid >= ?1"

    def lines(self, database: sqlite3.Connection, begun: int, only: Sequence[object] | None = None) -> Iterator[Row]:
        """Yield the lines of all sessions, or of those ``only``; ``begun`` conversations come before them."""
        said = self.said
        columns = columns_of(database, said.sessions)
        of_messages = columns_of(database, said.messages) if said.messages else frozenset[str]()
        condition = f"{quoted(self._named)} IS ?1"
        chosen = (row for name in only or () for row in self.session_rows(database, condition, name))
        for found in self.session_rows(database, self._are_said(database)) if only is None else chosen:
            held = found.get(said.document, "") if said.document else None
            document = _document_in(held)
            if said.listed:
                found[said.listed] = self._listed_in(document or b"")
            is_read = False
            with suppress(DamageError):
                for where, unit in units(document, said.each) if document is not None else ():
                    for line in self.inside(found, columns, where, unit, begun):
                        begun += line.begins is not None
                        yield line
                is_read = document is not None
            document = unit = b""
            if not is_read and held is not None and (not said.messages or isinstance(held, LargeCell)):
                # one that cannot be read, or is too large, is shown as it is
                begun += 1
                about = {} if said.document in found else {"left_out": "its messages, which are too many or too long"}
                yield self._session(found, columns, self.begins(found, {}), **about)
            if said.messages:
                rows = self.rows(database, found, of_messages)
                # one that nobody has said anything in yet is no conversation
                if (first := next(rows, None)) is not None:
                    begun += 1
                    yield self._session(found, columns, self.begins(found, {}))
                    yield first
                    yield from rows

    def session_rows(
        self, database: sqlite3.Connection, condition: str, *parameters: object
    ) -> Iterator[dict[str, object]]:
        """Yield the rows of all sessions, or of those that fulfil a condition."""
        said, where = self.said, f" WHERE {condition}" if condition else ""
        if not said.select and columns_of(database, said.sessions):
            return sqlite.rows_of(database, said.sessions, f"{where} ORDER BY rowid", *parameters)
        of = quoted(said.of)
        every = said.select or (
            f"SELECT {of} AS {quoted(said.id)} FROM {quoted(said.messages)} GROUP BY {of} ORDER BY min(rowid)"
        )
        query = f"SELECT * FROM ({every}){where}" if where else every
        if _finds_rows(said.select):
            return sqlite.rows_found(database, said.sessions, self._own, query, *parameters)
        beside = {table: (said.of, columns[0]) for table, columns in said.needs.items() if said.of}
        return sqlite.rows_worked_out(database, said.sessions, said.id, query, beside, *parameters)

    def _are_said(self, database: sqlite3.Connection) -> str:
        """Return the condition for sessions that have messages: of very many, most may be empty.

        "" where it cannot be told of all, as in a damaged database: then each is asked for its messages.
        """
        said = self.said
        if said.document or not said.of or not columns_of(database, said.sessions):
            return ""
        named = quoted(said.id)
        messages = f"SELECT {quoted(said.of)} FROM {quoted(said.messages)}"
        # as no index fits this, sessions stay in their order
        there = f"CASE WHEN {named} IS NULL THEN 1 ELSE {named} IN ({messages}) END"
        try:
            database.execute(f"SELECT count(*) FROM {quoted(said.sessions)} WHERE {there}").fetchone()
        except (sqlite3.DatabaseError, UnicodeError):
            return ""
        return there

    def _listed_in(self, document: bytes) -> str:
        """Return the list of messages in a session's document, as JSON."""
        _column, *path = place(self.said.listed.partition("[]")[0])
        try:
            start, end = locate(document, tuple(path))
        except UsageError:
            return "[]"
        return document[start:end].decode("utf-8", "replace") if end - start <= _LARGEST_LIST else "[]"

    def rows(self, database: sqlite3.Connection, session: Found, columns: Set[str]) -> Iterator[Row]:
        """Yield the lines of a session, but for its own; ``columns`` are those of its messages."""
        said = self.said
        conditions = (f" AND ({one})" for one in listed(said.shown) if one.split(maxsplit=1)[0] in columns)
        shown = next(conditions, "")
        asked = [session[said.id], session[said.listed]] if "?2" in said.rows else [session[said.id]]
        if _finds_rows(said.rows):
            rows = sqlite.rows_found(database, said.messages, self._key, said.rows, *asked)
        elif said.rows:
            rows = sqlite.dictionaries(database, said.rows, *asked)
        else:
            rest = f"WHERE {quoted(said.of)} IS ?{shown} ORDER BY {said.order}"
            rows = sqlite.rows_of(database, said.messages, rest, session[said.id])
        documents, wanted = frozenset(said.documents), list[str]()
        for row in rows:
            wanted = wanted or [column for column in row if column in columns]
            for column, (packed, *others) in said.packed.items():
                if row[column] is None and packed in row:
                    # one that is edited is kept as it is from then on
                    row |= {column: row[packed], **dict.fromkeys((packed, *others))}
            yield cells_of(said.messages, row, self._key, wanted, documents=documents)

    def begins(self, row: Found, documents: dict[str, object], otherwise: str = "") -> Begins:
        """Return what a session's row, with ``documents`` of it that are read, says; ``otherwise`` is its key."""
        said = self.said

        def told(spelled: str) -> object:
            path = place(spelled)
            if len(path) < 2:
                return row.get(spelled)
            column = str(path[0])
            if column not in documents:
                decoded = decode(_document_in(row.get(column)) or b"")
                documents[column] = decoded.value if decoded else None
            return value_at(documents[column], path[1:])

        directory = as_text(told(said.directory)).partition("\n")[0]
        extra = {"cwd": directory} if directory else {}
        extra |= {"roots": roots} if said.roots and (roots := as_text(told(said.roots))) else {}
        # an export may have no id of its session, or an empty one
        key = str(told(said.id) or otherwise)
        if parent := as_text(told(said.parent)):
            extra |= {"agent": key, "parent_session": parent}
        title = next(filter(None, (first_line(as_text(told(one))) for one in listed(said.title))), "")
        started = next(filter(None, (time_of(told(one)) for one in listed(said.started))), 0)
        return Begins(key, title=title, project=last_part(directory), started_ms=started, extra=extra)

    def _session(self, row: Found, columns: Set[str], begins: Begins, **about: str | bool) -> Row:
        if not columns:
            return Row(begins, about=about)
        said = self.said
        wanted = (column for column in row if column in columns and (_FRAME not in about or column != said.document))
        line = cells_of(said.sessions, row, self._own, wanted, documents=frozenset(said.documents))
        return Row(begins, line.table, line.key, line.cells, line.json, line.blobs, about)

    def inside(self, row: Found, columns: Set[str], where: str, unit: bytes, begun: int) -> Iterator[Row]:
        """Yield the lines of a session whose messages stand in its document, after ``begun`` conversations."""
        said = self.said
        frame, items = cut(unit, said)
        if not items:
            return
        decoded = decode(frame)
        asked = object_in(items[0].json)
        first = hash_bytes(msgspec.json.encode([asked.get(name) for name in ("id", "timestamp", "content")])).hex()
        begins = self.begins(row, {said.document: decoded.value if decoded else None}, first)
        line = self._session(row, columns, begins, frame=where)
        line.json[said.document] = Raw(frame)
        yield line

        def message(item: Item, begins: Begins | None = None) -> Row:
            about: dict[str, str | bool] = {_AT: str(item.at)}
            if item.key:
                about[_NAME] = item.key
            held = with_small_cells(item.json)
            held = parted(held, said.details) if said.details else held
            return Row(begins, line.table, line.key, {}, {said.document: Raw(in_its_place(held))}, {}, about)

        if not said.follows:
            yield from map(message, items)
            return
        nodes = [_node(item, said.follows) for item in items]
        current = as_text(value_in(frame, place(said.current))) if said.current else ""
        for number, way in enumerate(ways(nodes, current)):
            own = [items[at] for at in way.nodes]
            if number:
                key = f"{begins.key}/{nodes[way.nodes[0]].id}"
                base = begun + way.base if way.base >= 0 else -1
                # the session's own line comes before its messages
                fork = Begins(
                    key, begins.title, begins.project, begins.started_ms, begins.extra, "", base, way.shared + 1
                )
                yield message(own[0], fork)
                own = own[1:]
            yield from map(message, own)

    def is_inside(self, row: Row) -> bool:
        """Return whether a line is a document's frame, or a message in one."""
        said = self.said
        return (
            bool(said.document)
            and row.table in (said.sessions, "")
            and said.document in row.json
            and (bool(row.about.keys() & {_FRAME, _AT}) or not row.key)
        )

    def relinked(self, kept: dict[int, bytes], records: Sequence[bytes]) -> dict[int, bytes]:
        """Return what is kept of some lines, of which messages follow each other past those that are gone."""
        said = self.said
        if not said.follows or len(kept) == len(records):
            return kept
        where = ("json", said.document)
        inner = [_inner(kept.get(at, one), where) for at, one in enumerate(records)]
        tree = Tree("id", said.follows, (said.follows,))
        linked = tree.without(inner, set(range(len(records))) - kept.keys())
        return {at: line if linked[at] == inner[at] else put(line, where, linked[at]) for at, line in kept.items()}

    def relisted(self, records: Sequence[bytes]) -> list[bytes]:
        """Return the lines of a session whose own row lists its messages, without those that are gone."""
        said = self.said
        if not said.listed or not records:
            return list(records)
        first, *rest = records
        spelled, _mark, member = said.listed.partition("[].")
        column, *path = place(spelled)
        where = ("json", column, *path)
        present = {as_text(value_at(object_in(one), ("json", column, member))) for one in rest}
        listed = as_list(value_at(object_in(first), where))
        gone = {at for at, one in enumerate(listed) if as_text(as_object(one).get(member)) not in present}
        return [without_elements(first, where, gone) if gone else first, *rest]


def _inner(line: bytes, where: ValuePath) -> bytes:
    try:
        return line[slice(*locate(line, where))]
    except UsageError:
        return b"{}"


@cache
def _standing(follows: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of what tells where a message stands: without its text, which may be long."""
    members = [(name, object, None) for name in ("id", "above", "timestamp")]
    return msgspec.json.Decoder(msgspec.defstruct("Standing", members, rename={"above": follows}))


def _node(item: Item, follows: str) -> Node:
    try:
        said = _standing(follows).decode(item.json)
        own, above, time = said.id, said.above, said.timestamp
    except (msgspec.DecodeError, ValueError, RecursionError):
        own, above, time = map(object_in(item.json).get, ("id", follows, "timestamp"))
    return Node(item.key or as_text(own), as_text(above), time if isinstance(time, int) else 0)


class DeclaredExport(DeclaredDatabase):
    """The tool that a description describes; its exports are a list of sessions' rows, or one document alone."""

    def __init__(self, said: Description) -> None:
        super().__init__(said)
        self._fits = [Fits(one).holds for one in said.detect]

    def claim(self, look: Look) -> Source | None:
        if look.is_folder or not _begins_as_json(look.head):
            return super().claim(look)
        found = any(fits(look.document) for fits in self._fits)
        return Source(self.name, look.path, look.path) if found else None

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        if not _is_export(source.main):
            return super().rendition(source, scratch)
        return sqlite.write_lines(self._rows(_document_of(source.main)), scratch, source.main)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        if not _is_export(original):
            super().restore(original, rendition, target)
            return
        before = _document_of(original)
        with rendition.open("rb") as file:
            found = [sqlite.decode_row(line) for line in self.folded(file, lambda _row, _column: before)]
        [column] = {kind.said.document for kind in self.kinds}
        after = bytes(found[0].json[column]) if found else b"[]"
        text = original.read_bytes()
        was, now = documents.parse(before.decode()), documents.parse(after.decode())
        if was != now:
            pieces = _documents_in(text.decode("utf-8-sig", "surrogateescape"))
            text = _carried(pieces, was, now) if len(pieces) > 2 else documents.carried(text, (), was, now)
        target.write_bytes(text)

    def _rows(self, document: bytes) -> Iterator[Row]:
        """Yield the lines of an export: of rows with a document, or of a document alone."""
        kind = self.kinds[0]
        column = kind.said.document
        begun = 0
        whole = decode(document, MOST_OF_ALL)
        if whole is None:
            raise DamageError("it has too many values, or is nested too deeply, to be read: export fewer chats at once")
        # without the document, which may be large
        sessions = [(where, {**row, column: None}) for where, row in _sessions(whole.value, column)]
        del whole
        for where, row in sessions:
            unit = document[slice(*locate(document, where))]
            for line in kind.inside(row, frozenset(), ".".join(map(str, where)), unit, begun):
                begun += line.begins is not None
                yield line


def _is_export(path: Path) -> bool:
    with open_regular(path) as file:
        return _begins_as_json(file.read(64))


def _begins_as_json(data: bytes) -> bool:
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))


_space = re.compile(r"[\s\0]*").match


def _documents_in(text: str) -> list[tuple[str, str]]:
    """Return the documents of a text, each with the space before it, and at last the space behind them, alone.

    Nothing is returned where there is anything else.
    """
    found: list[tuple[str, str]] = []
    at = 0
    while between := _space(text, at):
        if between.end() == len(text):
            return [*found, (between[0], "")]
        try:
            _value, end = json.JSONDecoder().raw_decode(text, between.end())
        except (ValueError, RecursionError):
            return []
        found.append((between[0], text[between.end() : end]))
        at = end
    return []


def _joined(pieces: Sequence[tuple[str, str]]) -> str:
    """Return several documents as one list of them."""
    return f"[{','.join(document for _space, document in pieces[:-1])}]"


def _carried(pieces: Sequence[tuple[str, str]], was: object, now: object) -> bytes:
    """Return a file of several documents, with the difference between the lists of them made."""
    text = documents.carried(_joined(pieces).encode("utf-8", "surrogateescape"), (), was, now)
    found = [text[slice(*locate(text, (at,)))] for at in range(len(as_list(now)))]
    *spaces, last = (space.encode() for space, _document in pieces)
    # one that has gone takes the last space with it
    return b"".join(map(bytes.__add__, spaces, found)) + last


def _document_of(path: Path) -> bytes:
    """Return a file of JSON on one line, as a list where there are several documents.

    Raises UsageError for one that is none, or is too large.
    """
    held = read_document(path)
    if (found := whole_on_one_line(held)) is not None:
        return found
    text = held.decode("utf-8-sig", "replace")
    found = on_one_line(text)
    if found is None and (pieces := _documents_in(text)):
        found = on_one_line(_joined(pieces))
    if found is None:
        raise UsageError(f"{path.name} is no JSON that can be read: repair or export it again")
    return found


def _sessions(whole: object, column: str, at: ValuePath = ()) -> Iterator[tuple[ValuePath, dict[str, object]]]:
    if isinstance(whole, list):
        for number, one in enumerate(whole):
            yield from _sessions(one, column, (*at, number))
    elif is_object(whole) and is_object(whole.get(column)):
        yield (*at, column), dict(whole)
    elif whole and is_object(whole):
        yield at, {column: whole}
