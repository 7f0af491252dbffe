"""A described format whose sessions are rows of a database."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from store.formats.core import sqlite
from store.formats.core.format import Titled, first_line, last_part
from store.formats.core.json_view import as_text
from store.formats.core.removal import without_calls
from store.formats.core.sqlite import Begins, DatabaseFormat, Row, cells_of, columns_of, dictionaries, quoted
from store.formats.declared.description import Database, Description
from store.formats.declared.format import homes_of, resuming_of
from store.formats.declared.lens import DeclaredLens, time_of


class DeclaredDatabase(DatabaseFormat):
    """The tool that a description describes, which keeps its sessions in a database."""

    def __init__(self, said: Description) -> None:
        assert said.database is not None
        self._said = said
        self._database: Database = said.database
        self._lens = DeclaredLens(said)
        self.name = said.name
        self.lenses = (self._lens,)
        self.main_type = self._lens.type_name
        self.resuming = resuming_of(said)
        key = self._database.key
        self._key = (key,) if isinstance(key, str) else tuple(key)
        own = {*self._key, self._database.of, *self._database.has}
        self.schemas: Sequence[Mapping[str, Set[str]]] = (
            {self._database.messages: own, self._database.sessions: {self._database.id}},
        )

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the databases that the description names, and those of the directory that is worked in."""
        return homes_of(self._said, home, cwd)

    def lines(self, database: sqlite3.Connection) -> Iterator[Row]:
        said = self._database
        messages, sessions = quoted(said.messages), quoted(said.sessions)
        shown = f" AND ({said.shown})" if said.shown and _columns_in(said.shown, database, said.messages) else ""
        for session in dictionaries(database, f"SELECT * FROM {sessions} ORDER BY rowid"):
            query = f"SELECT * FROM {messages} WHERE {quoted(said.of)} IS ?{shown} ORDER BY {said.order}"
            rows = dictionaries(database, query, session[said.id])
            first = next(rows, None)
            if first is None:
                # one that nobody has said anything in yet is no conversation
                continue
            yield self._session(session)
            yield self._message(first)
            for row in rows:
                yield self._message(row)

    def _session(self, row: Mapping[str, object]) -> Row:
        said = self._database
        directory = as_text(row.get(said.directory))
        extra = {"cwd": directory} if directory else {}
        if parent := as_text(row.get(said.parent)):
            extra |= {"agent": str(row[said.id]), "parent_session": parent}
        begins = Begins(
            key=str(row[said.id]),
            title=first_line(as_text(row.get(said.title))),
            project=last_part(directory),
            started_ms=time_of(row.get(said.started)),
            extra=extra,
        )
        line = cells_of(said.sessions, row, (said.id,))
        return Row(begins, line.table, line.key, line.cells, line.json, line.blobs)

    def _message(self, row: Mapping[str, object]) -> Row:
        said = self._database
        return cells_of(said.messages, row, self._key, documents=frozenset(said.documents))

    def delete(self, database: sqlite3.Connection, row: Row) -> None:
        """Delete a message; sessions stay."""
        if row.table == self._database.messages:
            sqlite.remove_row(database, row)

    def titled(self, conversation: Row) -> Titled:
        return Titled.BY_TOOL if conversation.begins and conversation.begins.title else Titled.PROVISIONALLY

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other rows; a call and its result go together."""
        return list(without_calls(records, deleted, self._lens.calls).values())


def _columns_in(condition: str, database: sqlite3.Connection, table: str) -> bool:
    """Return whether a table has the columns that a condition names first: older databases may not."""
    return condition.split(maxsplit=1)[0] in columns_of(database, table)


