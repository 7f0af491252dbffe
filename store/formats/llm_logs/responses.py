"""The older tables: a row of ``responses`` is a prompt and its answer, and others hang off it.

A row makes several lines, in the order in which things were said: the system prompt (unless the one before was the
same), the prompt with what was attached to it, results of tools, reasoning, the answer, calls of tools.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator

from store.formats.sqlite.rows import Begins, Row, cells_of, columns_of, dictionaries
from store.formats.times import milliseconds
from store.formats.titles import first_line

_PROMPT_KEYS = ("id",)
_FRAGMENT = ("content", "source")
_ATTACHMENT = ("type", "path", "url", "content")
_CALL = ("name", "arguments", "tool_call_id")
_RESULT = ("name", "output", "tool_call_id", "exception")
_ARGUMENTS = frozenset(("arguments",))
PROJECT = "llm"
"""What conversations that know no directory belong to."""


class Responses:
    """Reads the conversations of these tables."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._tables = {
            str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        self._fragments = {
            table: self._linked(table, "fragment_id") for table in ("prompt_fragments", "system_fragments")
        }
        self._attached = self._linked("prompt_attachments", "attachment_id")
        self._of_results = self._linked("tool_results_attachments", "attachment_id", "tool_result_id")
        self._calls = self._linked("tool_calls", "id", order="id")
        self._results = self._linked("tool_results", "id", order="id")

    def lines(self, taken: set[str]) -> Iterator[Row]:
        """Yield the lines of all conversations; keys in ``taken`` are of others already."""
        if "responses" not in self._tables:
            return
        names = {}
        if "conversations" in self._tables:
            names = {str(row["id"]): row for row in dictionaries(self._database, "SELECT * FROM conversations")}
        conversations: dict[str, list[int]] = defaultdict(list)
        for number, identifier, conversation in self._database.execute(
            "SELECT rowid, id, conversation_id FROM responses ORDER BY rowid"
        ):
            conversations[str(conversation or identifier)].append(number)
        for key, numbers in conversations.items():
            yield from self._conversation(f"{key}-responses" if key in taken else key, names.get(key), numbers)

    def _conversation(self, key: str, named: dict[str, object] | None, numbers: list[int]) -> Iterator[Row]:
        system: object = None
        for at, number in enumerate(numbers):
            for found in dictionaries(self._database, "SELECT * FROM responses WHERE rowid = ?", number):
                if at == 0:
                    yield _header(key, named, found)
                yield from self._response(found, again=found.get("system") == system)
                system = found.get("system") or system

    def _response(self, found: dict[str, object], *, again: bool) -> Iterator[Row]:
        key = str(found["id"])
        about: dict[str, str | bool] = {"time": str(found.get("datetime_utc") or "")}
        system = tuple(self._fragment_rows("system_fragments", key))
        if found.get("system") or system:
            hidden: dict[str, str | bool] = {"again": True} if again and not system else {}
            yield cells_of("responses", found, _PROMPT_KEYS, ("system",), about={**about, **hidden}, rows=system)
        beside = (*self._fragment_rows("prompt_fragments", key), *self._attachment_rows(self._attached[key]))
        if found.get("prompt") or beside:
            yield cells_of("responses", found, _PROMPT_KEYS, ("prompt",), about=about, rows=beside)
        for number in self._results[key]:
            for result in dictionaries(self._database, "SELECT * FROM tool_results WHERE id = ?", number):
                attached = self._attachment_rows(self._of_results[str(number)])
                yield cells_of("tool_results", result, ("id",), _RESULT, about=about, rows=attached)
        if found.get("reasoning"):
            yield cells_of("responses", found, _PROMPT_KEYS, ("reasoning",), about=about)
        if found.get("response"):
            said = ("response", "model", "resolved_model")
            yield cells_of("responses", found, _PROMPT_KEYS, said, about=about)
        for number in self._calls[key]:
            for call in dictionaries(self._database, "SELECT * FROM tool_calls WHERE id = ?", number):
                yield cells_of("tool_calls", call, ("id",), _CALL, documents=_ARGUMENTS, about=about)

    # -- what hangs off a row --------------------------------------------------------------------------------------

    def _linked(
        self, table: str, column: str, owner: str = "response_id", order: str = "order"
    ) -> dict[str, list[object]]:
        """Return what rows of ``table`` link to each response, in order."""
        found: dict[str, list[object]] = defaultdict(list)
        if {column, owner, order} <= columns_of(self._database, table):
            query = f'SELECT "{owner}", "{column}" FROM "{table}" ORDER BY "{owner}", "{order}"'
            for key, linked in self._database.execute(query):
                found[str(key)].append(linked)
        return found

    def _fragment_rows(self, table: str, key: str) -> Iterator[Row]:
        for number in self._fragments[table][key]:
            for found in dictionaries(self._database, "SELECT * FROM fragments WHERE id = ?", number):
                yield cells_of("fragments", found, ("id",), _FRAGMENT, about={"hash": str(found.get("hash") or "")})

    def _attachment_rows(self, identifiers: list[object]) -> Iterator[Row]:
        yield from attachment_rows(self._database, identifiers)


def attachment_rows(database: sqlite3.Connection, identifiers: list[object]) -> Iterator[Row]:
    """Yield the attachments with these ids."""
    for identifier in identifiers:
        for found in dictionaries(database, "SELECT * FROM attachments WHERE id = ?", identifier):
            yield cells_of("attachments", found, ("id",), _ATTACHMENT)


def _header(key: str, named: dict[str, object] | None, first: dict[str, object]) -> Row:
    model = str(first.get("model") or "")
    begins = Begins(
        key,
        title=first_line(str((named or {}).get("name") or first.get("prompt") or "")),
        project=PROJECT,
        started_ms=milliseconds(first.get("datetime_utc")),
        extra={"model": model} if model else {},
    )
    if named is None:
        return Row(begins)
    row = cells_of("conversations", named, ("id",), ("name",))
    return Row(begins, row.table, row.key, row.cells)
