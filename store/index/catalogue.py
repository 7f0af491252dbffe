"""Look-ups of conversations in the index: by project and name, by day, by last change, by source."""

from typing import Any

import msgspec
from msgspec import Struct

from store.events.conversation import Version
from store.index.database import Database

_COLUMNS = "id, project, name, title, format, source, head, records, created_ms, updated_ms, metadata"


class Entry(Struct, frozen=True):
    """One context as the head log describes it; ``project`` and ``name`` are "" while it has none."""

    id: int
    project: str
    name: str
    title: str
    format: str
    source: str
    head: int
    records: int
    created_ms: int
    updated_ms: int
    metadata: dict[str, object]


def _entry(row: tuple[Any, ...]) -> Entry:
    # Any: what a column holds is the schema's to say
    context, project, name, title, format_, source, head, records, created, updated, metadata = row
    return Entry(
        context,
        project or "",
        name or "",
        title,
        format_,
        source,
        head,
        records,
        created,
        updated,
        msgspec.json.decode(metadata),
    )


class Catalogue:
    """Reads the ``contexts`` and ``versions`` tables."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def _entries(self, where: str, *parameters: object) -> list[Entry]:
        rows = self._db.reader.execute(f"SELECT {_COLUMNS} FROM contexts WHERE {where}", parameters)
        return [_entry(row) for row in rows]

    def _first(self, where: str, *parameters: object) -> Entry | None:
        row = self._db.reader.execute(f"SELECT {_COLUMNS} FROM contexts WHERE {where} LIMIT 1", parameters).fetchone()
        return _entry(row) if row else None

    def by_id(self, context_id: int) -> Entry | None:
        """Return the context with that id."""
        return self._first("id = ?", context_id)

    def by_name(self, project: str, name: str) -> Entry | None:
        """Return the conversation ``project/name``."""
        return self._first("project = ? AND name = ?", project, name)

    def by_source(self, source: str) -> Entry | None:
        """Return the newest conversation that was imported from ``source``."""
        return self._first("source = ? AND source != '' ORDER BY id DESC", source)

    def page(self, project: str | None, after: str, limit: int | None) -> list[Entry]:
        """Return conversations with names beyond ``after``, by project and name; of all projects if it is None."""
        count = -1 if limit is None else limit
        if project is None:
            return self._entries("name IS NOT NULL ORDER BY project, name LIMIT ?", count)
        return self._entries("project = ? AND name > ? ORDER BY name LIMIT ?", project, after, count)

    def by_day(self, day: str) -> list[Entry]:
        """Return the conversations that began on ``day`` (``2026-03-05``)."""
        return self._entries("day = ? AND name IS NOT NULL ORDER BY project, name", day)

    def recent(self, count: int) -> list[Entry]:
        """Return the conversations that changed last, newest first."""
        return self._entries("name IS NOT NULL ORDER BY updated_ms DESC, id DESC LIMIT ?", count)

    def projects(self) -> list[str]:
        """Return the projects that have conversations, by name."""
        # a skip scan: one look-up a project, however many conversations it has
        found: list[str] = []
        step = "SELECT min(project) FROM contexts WHERE name IS NOT NULL AND project > ?"
        while (row := self._db.reader.execute(step, (found[-1] if found else "",)).fetchone())[0] is not None:
            found.append(row[0])
        return found

    def days(self, prefix: str, length: int) -> list[str]:
        """Return the distinct first ``length`` characters of the days that begin with ``prefix``."""
        rows = self._db.reader.execute(
            "SELECT DISTINCT substr(day, 1, ?) FROM contexts"
            " WHERE day >= ? AND day < ? AND day != '' AND name IS NOT NULL ORDER BY 1",
            (length, prefix, prefix + "\x7f"),
        )
        return [row[0] for row in rows]

    def count(self) -> int:
        """Return the number of conversations."""
        row = self._db.reader.execute("SELECT count(*) FROM contexts WHERE name IS NOT NULL").fetchone()
        return int(row[0])

    def names_like(self, project: str, stem: str) -> set[str]:
        """Return the names within ``project`` that begin with ``stem``."""
        rows = self._db.reader.execute(
            "SELECT name FROM contexts WHERE project = ? AND name >= ? AND name < ?", (project, stem, stem + "\U0010ffff")
        )
        return {row[0] for row in rows}

    def versions(self, context_id: int) -> list[Version]:
        """Return the states that a context has been in, oldest first."""
        rows = self._db.reader.execute(
            "SELECT seq, time_ms, head, records, action FROM versions WHERE context = ? ORDER BY seq", (context_id,)
        )
        return [Version(number, *row) for number, row in enumerate(rows, 1)]

    def last_id(self) -> int:
        """Return the highest context id, 0 if there is none."""
        return int(self._db.reader.execute("SELECT coalesce(max(id), 0) FROM contexts").fetchone()[0])
