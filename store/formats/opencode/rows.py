"""The sessions of opencode's database as lines: a session, its messages, each followed by its parts."""

import sqlite3
from collections.abc import Iterator

from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.opencode.views import speaker_of
from store.formats.sqlite.restoring import remove_row
from store.formats.sqlite.rows import Begins, Row, cells_of, dictionaries
from store.formats.titles import first_line

_DOCUMENTS = frozenset(("data", "metadata", "model", "permission", "revert", "summary_diffs"))


def lines(database: sqlite3.Connection) -> Iterator[Row]:
    """Yield the lines of all sessions."""
    for session in dictionaries(database, "SELECT * FROM session ORDER BY time_created, id"):
        yield _session(session)
        query = "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id"
        for message in dictionaries(database, query, session["id"]):
            yield cells_of("message", message, ("id",), documents=_DOCUMENTS)
            about = _about(message)
            for part in dictionaries(database, "SELECT * FROM part WHERE message_id = ? ORDER BY id", message["id"]):
                yield cells_of("part", part, ("id",), documents=_DOCUMENTS, about=about)


def delete(database: sqlite3.Connection, row: Row) -> None:
    """Take out a part, or a message with its parts; sessions stay."""
    if row.table == "message":
        database.execute("DELETE FROM part WHERE message_id IS ?", (row.key.get("id"),))
    if row.table in ("message", "part"):
        remove_row(database, row)


def model_of(message: JsonObject) -> str:
    """Return the model that a message is from or for, as ``provider/model``."""
    chosen = as_object(message.get("model")) or message
    named = as_text(chosen.get("providerID")), as_text(chosen.get("modelID"))
    return "/".join(filter(None, named))


def _session(session: dict[str, object]) -> Row:
    directory, started = _text(session, "directory"), session.get("time_created")
    extra = {"cwd": directory, "tool_version": _text(session, "version"), "parent_session": _text(session, "parent_id")}
    begins = Begins(
        str(session["id"]),
        title=first_line(_text(session, "title")),
        project=directory.replace("\\", "/").rstrip("/").rpartition("/")[2],
        started_ms=started if isinstance(started, int) else 0,
        extra={key: value for key, value in extra.items() if value},
    )
    row = cells_of("session", session, ("id",), documents=_DOCUMENTS)
    return Row(begins, row.table, row.key, row.cells, row.json, row.blobs)


def _about(message: dict[str, object]) -> dict[str, str | bool]:
    text = message.get("data")
    decoded = decode(text.encode()) if isinstance(text, str) else None
    data = as_object(decoded.value) if decoded else {}
    about: dict[str, str | bool] = {"role": speaker_of(data).value}
    if model := model_of(data):
        about["model"] = model
    return about


def _text(row: dict[str, object], column: str) -> str:
    return as_text(row.get(column))
