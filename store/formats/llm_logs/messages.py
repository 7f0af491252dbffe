"""The newer tables: messages in chains, each named by a hash of itself and all before it, so that chains share rows.

A thread is a conversation: it points at the last message of its chain. A turn is one call of a model; turns of no
thread are conversations too, where nothing follows them. A line is a row of ``parts``, the content of a message.
"""

import sqlite3
from collections.abc import Iterator

from msgspec import Struct

from store.formats.json_view import as_list, as_object, decode
from store.formats.llm_logs.responses import PROJECT, attachment_rows
from store.formats.sqlite.rows import Begins, Row, cells_of, columns_of, dictionaries
from store.formats.times import milliseconds
from store.formats.titles import first_line

_FRAGMENT = ("content", "source")
_PAYLOAD = frozenset(("payload", "provider_metadata"))
_NEEDED = {"hash", "parent_hash", "role"}
_LONGEST_CHAIN = 1 << 20


class _Message(Struct):
    parent: str
    role: str
    model: str = ""
    time: str = ""


class _Chain(Struct):
    """A conversation: its key, its row among the threads if it is one, and the last of its messages."""

    key: str
    tip: str
    thread: dict[str, object] | None = None
    started: str = ""


class Messages:
    """Reads the conversations of these tables."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._messages: dict[str, _Message] = {}
        self._chains: list[_Chain] = []
        columns = columns_of(database, "messages")
        if not columns >= _NEEDED or not columns_of(database, "parts") >= {"message_hash", "position"}:
            return
        for found in dictionaries(database, "SELECT * FROM messages"):
            parent = str(found["parent_hash"] or "")
            self._messages[str(found["hash"])] = _Message(parent, str(found["role"] or ""))
        self._read_chains()

    @property
    def keys(self) -> set[str]:
        """The keys of all conversations."""
        return {chain.key for chain in self._chains}

    def lines(self) -> Iterator[Row]:
        """Yield the lines of all conversations; what one shares with an earlier one stands there only."""
        owners: dict[str, tuple[int, int]] = {}
        for position, chain in enumerate(self._chains):
            hashes = self._back(chain.tip)
            hashes.reverse()
            shared = next((at for at, name in enumerate(hashes) if name not in owners), len(hashes))
            base, before = owners[hashes[shared - 1]] if shared else (-1, 0)
            own = hashes[shared:]
            yield self._header(chain, base, before, hashes)
            count = before + 1
            for name in own:
                for row in self._message(name):
                    yield row
                    count += 1
                owners[name] = position, count

    # -- chains ----------------------------------------------------------------------------------------------------

    def _read_chains(self) -> None:
        started: dict[str, str] = {}
        loose: list[_Chain] = []
        turns = dictionaries(self._database, "SELECT * FROM turns ORDER BY id") if self._has("turns") else iter(())
        for turn in turns:
            time, tip = str(turn.get("datetime_utc") or ""), str(turn.get("tip_message_hash") or "")
            model = str(turn.get("model") or "")
            self._date(tip, model, time)
            thread = turn.get("thread_id")
            if thread is None:
                loose.append(_Chain(str(turn["id"]), tip, started=time))
            else:
                started.setdefault(str(thread), time)
        threads = dictionaries(self._database, "SELECT * FROM threads ORDER BY rowid") if self._has("threads") else ()
        for thread in threads:
            key = str(thread["id"])
            when = started.get(key) or str(thread.get("datetime_utc") or "")
            self._chains.append(_Chain(key, str(thread.get("tip_message_hash") or ""), thread, when))
        reached = {name for chain in self._chains for name in self._back(chain.tip)}
        for chain in reversed(loose):
            # a later turn of the same exchange has all of this one
            if chain.tip and chain.tip not in reached:
                reached.update(self._back(chain.tip))
                self._chains.append(chain)

    def _has(self, table: str) -> bool:
        return {"id", "tip_message_hash"} <= columns_of(self._database, table)

    def _back(self, tip: str) -> list[str]:
        """Return a chain from its last message to its first."""
        chain: list[str] = []
        seen: set[str] = set()
        while tip in self._messages and tip not in seen and len(chain) < _LONGEST_CHAIN:
            seen.add(tip)
            chain.append(tip)
            tip = self._messages[tip].parent
        return chain

    def _date(self, tip: str, model: str, time: str) -> None:
        """Note which call of a model messages are from; earlier ones have been noted."""
        while (message := self._messages.get(tip)) is not None and not message.time:
            message.model, message.time = model, time or "-"
            tip = message.parent

    # -- lines -----------------------------------------------------------------------------------------------------

    def _header(self, chain: _Chain, base: int, shared: int, hashes: list[str]) -> Row:
        named = str((chain.thread or {}).get("name") or "")
        models = [message.model for name in reversed(hashes) if (message := self._messages[name]).model]
        begins = Begins(
            chain.key,
            title=first_line(named or self._first_text(hashes)),
            project=PROJECT,
            started_ms=milliseconds(chain.started),
            extra={"model": models[0]} if models else {},
            forked_from=str((chain.thread or {}).get("forked_from") or ""),
            base=base,
            shared=shared,
        )
        if chain.thread is None:
            return Row(begins)
        row = cells_of("threads", chain.thread, ("id",), ("name",))
        return Row(begins, row.table, row.key, row.cells)

    def _first_text(self, hashes: list[str]) -> str:
        for name in hashes:
            if self._messages[name].role == "user":
                query = "SELECT text FROM parts WHERE message_hash = ? AND text IS NOT NULL ORDER BY position"
                found = self._database.execute(query, (name,)).fetchone()
                return str(found[0]) if found else ""
        return ""

    def _message(self, name: str) -> Iterator[Row]:
        message = self._messages[name]
        about: dict[str, str | bool] = {"role": message.role, "model": message.model, "time": message.time}
        query = "SELECT * FROM parts WHERE message_hash = ? ORDER BY position"
        for found in dictionaries(self._database, query, name):
            columns = [column for column in found if column not in ("message_hash", "position")]
            rows = (*self._fragments(found.get("payload")), *self._attachments(found["id"]))
            yield cells_of("parts", found, ("id",), columns, documents=_PAYLOAD, about=about, rows=rows)

    def _fragments(self, payload: object) -> Iterator[Row]:
        """Yield the fragments that a text is put together from."""
        decoded = decode(payload.encode()) if isinstance(payload, str) else None
        for piece in as_list(as_object(decoded.value).get("text_ref")) if decoded else ():
            if isinstance(number := as_object(piece).get("fragment"), int):
                for found in dictionaries(self._database, "SELECT * FROM fragments WHERE id = ?", number):
                    yield cells_of("fragments", found, ("id",), _FRAGMENT)

    def _attachments(self, part: object) -> Iterator[Row]:
        query = 'SELECT attachment_id FROM part_attachments WHERE part_id = ? ORDER BY "order"'
        if columns_of(self._database, "part_attachments"):
            identifiers = [identifier for (identifier,) in self._database.execute(query, (part,))]
            yield from attachment_rows(self._database, identifiers)
