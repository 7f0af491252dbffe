"""llm's ``logs.db``: where it lies, how it is told from other databases, how it is read and written.

It has two generations of tables, and often both; see :mod:`store.formats.llm_logs.responses` and
:mod:`store.formats.llm_logs.messages`.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.lines import line_spans
from store.formats.llm_logs.lens import LlmLogsLens
from store.formats.llm_logs.messages import Messages
from store.formats.llm_logs.responses import Responses
from store.formats.look import Look
from store.formats.sqlite.copying import MAGIC, files_beside, opened, reading, tables_of
from store.formats.sqlite.restoring import clear_cells, remove_row, restore
from store.formats.sqlite.rows import Row, encode_row, parts_of, write_lines

_OLDER, _NEWER = {"conversations", "responses"}, {"messages", "parts", "threads", "turns"}
_FOLDER = "io.datasette.llm"


class LlmLogs(Format):
    """Simon Willison's llm."""

    name = "llm-logs"
    lenses = (LlmLogsLens(),)
    main_type = LlmLogsLens.type_name

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the folder of llm's settings, ``$LLM_USER_PATH`` or the usual one of Linux or macOS."""
        moved = os.environ if home == Path.home() else {}
        config = Path(moved.get("XDG_CONFIG_HOME") or home / ".config")
        candidates = [config / _FOLDER, home / "Library" / "Application Support" / _FOLDER]
        if folder := moved.get("LLM_USER_PATH"):
            candidates.insert(0, Path(folder))
        yield from (folder for folder in dict.fromkeys(candidates) if folder.is_dir())

    def claim(self, look: Look) -> Source | None:
        """Claim a database that has the tables of either generation."""
        if look.is_folder or not look.head.startswith(MAGIC):
            return None
        tables = tables_of(look.path, look.head)
        if not (tables >= _OLDER or tables >= _NEWER):
            return None
        return Source(self.name, look.path, look.path, beside=files_beside(look.path))

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the lines."""
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Say nothing: each conversation says what it is."""
        return About(session_id=source.path.stem)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return the conversations."""
        return parts_of(data, spans)

    def rendition(self, source: Source, scratch: Path) -> Path:
        """Write the conversations of the database as lines."""
        with reading(source.main, scratch) as database:
            return write_lines(_lines(database), scratch)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write the database with the cells that were edited."""
        with opened(original, target.parent) as database:
            before = (encode_row(row) for row in _lines(database))
            restore(original, before, rendition, target, _delete)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other lines; a call and its result go together."""
        rows = [as_object(decoded.value) if (decoded := decode(record)) else {} for record in records]
        gone = {_called(rows[at]) for at in deleted} - {""}
        return [record for at, record in enumerate(records) if at not in deleted and _called(rows[at]) not in gone]


def _lines(database: sqlite3.Connection) -> Iterator[Row]:
    messages = Messages(database)
    yield from messages.lines()
    yield from Responses(database).lines(messages.keys)


def _delete(database: sqlite3.Connection, row: Row) -> None:
    """Take out what a line says: of a response its cell, of a conversation nothing."""
    if row.table == "responses":
        clear_cells(database, row)
    elif row.table in ("parts", "tool_calls", "tool_results"):
        remove_row(database, row)


def _called(row: JsonObject) -> str:
    """Return the id of the call that a line makes, or is the result of."""
    held = as_object(row.get("cells")), as_object(as_object(row.get("json")).get("payload"))
    return next((found for holder in held if (found := as_text(holder.get("tool_call_id")))), "")
