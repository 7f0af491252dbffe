"""llm, the command-line tool: all conversations in one database, ``logs.db``, or as ``llm logs --json`` prints them.

The database has two generations of tables, and often both. In the older ones a row of ``responses`` is a prompt and its
answer, and others hang off it. It makes several lines, in the order in which things were said: the system prompt
(unless the one before was the same), the prompt with what was attached to it, results of tools, reasoning, the answer,
calls of tools.

The newer ones have messages in chains, each named by a hash of itself and all before it, so that chains share rows. A
thread is a conversation: it points at the last message of its chain. A turn is one call of a model; turns of no thread
are conversations too, where nothing follows them. A line is a row of ``parts``, the content of a message.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct, structs

from store.errors import UsageError
from store.events.event import Block, BlockType, Kind, ValuePath
from store.formats.core import sqlite
from store.formats.core.composing import Particulars
from store.formats.core.format import About, Mark, Part, Resuming, Source, Span, Titled, first_line
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in, scalar, value_at
from store.formats.core.lens import Before, Places, Shown
from store.formats.core.media import from_base64, mime_of, suffix_of
from store.formats.core.sqlite import Begins, DatabaseFormat, Row, cells_of, columns_of, dictionaries
from store.formats.core.times import in_iso, milliseconds
from store.formats.declared.description import read_views
from store.formats.declared.format import DeclaredFormat
from store.formats.declared.lens import DeclaredLens, with_files
from store.ids import hash_bytes

_encode = msgspec.json.Encoder().encode
_FAILED = "Error"
_About = dict[str, str | bool]
_MODEL = "assistant"
_PARTS = {
    Kind.SYSTEM: ("system", "text", "system"),
    Kind.USER: ("user", "text", "prompt"),
    Kind.TOOL_RESULT: ("tool", "tool_result", "tool_results"),
    Kind.REASONING: (_MODEL, "reasoning", "reasoning"),
    Kind.ASSISTANT: (_MODEL, "text", "response"),
    Kind.TOOL_CALL: (_MODEL, "tool_call", "tool_calls"),
}
"""The role and type of a part that says something, and where a response says it, in the order in which those are read.

That is a column of its row, or a table whose rows hang off it.
"""
_PLACES = [place for _role, _type, place in _PARTS.values()]
_SEVERAL = ("tool_results", "tool_calls")


def _number(now_ms: int) -> int:
    """Return an id for a row of a table that counts them: greater than any that llm gave, and the same nowhere."""
    return now_ms * 1000 + int.from_bytes(os.urandom(4)) % 1000


def _attached(record: JsonObject, block: Block, number: int) -> Block | None:
    """Return the fragment or the attachment, the ``number``-th of a line, that a text in it is; None: it is a text."""
    row = as_object(value_at(record, block.path[:-2]))
    cells, identifier = as_object(row.get("cells")), scalar(as_object(row.get("key")).get("id"))
    if block.name == "fragment":
        source = str(scalar(cells.get("source")) or f"fragment:{identifier}")
        return Block("resource", block.text, uri=source, mime=mime_of(source), path=block.path)
    is_held = block.name == "attachment" and block.path[-2:-1] == ("blobs",)
    data = from_base64(block.text or "") if is_held else None
    if data is None:
        return None
    mime = as_text(cells.get("type")) or "application/octet-stream"
    name = as_text(cells.get("path")).rpartition("/")[2] or f"{number}.{suffix_of(mime)}"
    shape: BlockType = "image" if mime.startswith("image/") else "resource"
    return Block(shape, None, data, "", f"attachment:{identifier or 'file'}/{name}", mime, block.path, "base64")


class LlmLogsLens(DeclaredLens):
    """Sees the lines that rows are made into."""

    writes = tuple(_PARTS)
    lacks: ClassVar[Mapping[Kind, str]] = {Kind.SUMMARY: "llm sends all that was said"}
    places: ClassVar[Places] = {
        "is_error": "is whether there is an exception: change that",
        "timestamp": "is that of the whole response: it is a part of several records",
    }

    def __init__(self) -> None:
        super().__init__(read_views("llm-logs"), "llm-logs.row.v1")

    def shown(self, record: JsonObject, before: Before) -> Shown:
        shown = with_files(super().shown(record, before), partial(_attached, record))
        if shown.kind is Kind.TOOL_RESULT:
            shown.header["is_error"] = any(block.name == "exception" for block in shown.blocks)
        if record.get("table") == "parts":
            # that of a message is told by its turn
            shown.places.pop("model", None)
        return shown

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        header, last = sqlite.row_of(more.first), sqlite.row_of(more.last or previous)
        if header.begins is None:
            raise UsageError("the first record, which describes the conversation, is gone: restore it, then write")
        compose = _new_part if header.table == "threads" or last.table == "parts" else _new_response
        return sqlite.encode_row(compose(kind, text, now_ms, more, (header, header.begins, last)))

    def room(self, record: JsonObject) -> ValuePath | None:
        places: tuple[ValuePath, ...] = (("json", "arguments"), ("json", "payload", "arguments"))
        return next((path for path in places if "arguments" in as_object(value_at(record, path[:-1]))), None)

    def goes_along(self, record: JsonObject, path: ValuePath, at: int) -> Sequence[tuple[ValuePath, int]]:
        if path[:1] == ("rows",):
            raise UsageError("attachments and fragments are rows of their own tables: they stay with their prompt")
        return ()


_Around = tuple[Row, Begins, Row]
"""The first line of a conversation, what it says of that, and the last line."""


def _new_part(kind: Kind, text: str, now_ms: int, more: Particulars, around: _Around) -> Row:
    """Return a message of one part; :meth:`LlmLogs.link` makes it the last of its thread."""
    _header, begins, last = around
    role, what, _place = _PARTS[kind]
    name = os.urandom(32).hex()
    cells: dict[str, sqlite.Cell] = {"message_hash": name, "position": 0, "type": what, "tool_name": more.tool or None}
    payload: JsonObject = {}
    if kind is Kind.TOOL_CALL:
        payload = {"arguments": more.arguments(text), "tool_call_id": more.new_id("call_")}
    elif kind is Kind.TOOL_RESULT:
        payload = {"output": text, "tool_call_id": more.id, **({"exception": _FAILED} if more.failed else {})}
    else:
        cells["text"] = text
    about: _About = {"role": role, "model": begins.extra.get("model", ""), "time": in_iso(now_ms)}
    # a fork begins with what the thread before it says of itself
    about["thread"] = more.session or begins.key
    if last.table == "parts":
        about["after"] = str(last.key.get("id"))
    documents = {"payload": msgspec.Raw(_encode(payload))} if payload else {}
    message = Row(None, "messages", {"hash": name}, {"role": role})
    return Row(None, "parts", {"id": _number(now_ms)}, cells, documents, {}, about, (message,))


def _new_response(kind: Kind, text: str, now_ms: int, more: Particulars, around: _Around) -> Row:
    """Return what a response says further, or what a new one does where that would be read before the last line."""
    header, begins, last = around
    _role, _type, place = _PARTS[kind]
    model, time = begins.extra.get("model", ""), in_iso(now_ms)
    responses = (row.key.get("id") for row in last.everything() if row.table == "responses")
    response = next(responses, None)
    before = next((one for one in _PLACES if one in last.cells or one == last.table), "")
    follows = before in _PLACES and _PLACES.index(before) < _PLACES.index(place)
    more_of_it = before == place and place in _SEVERAL
    about: _About = {"time": time}
    owner = Row(None, "responses", {"id": response})
    if response is None or not (follows or more_of_it):
        key = header.key.get("id") if header.table == "conversations" else begins.key
        cells: dict[str, sqlite.Cell] = {"model": model, "conversation_id": key, "datetime_utc": time}
        owner = Row(None, "responses", {"id": os.urandom(13).hex()}, {**cells, "prompt": "", "response": ""})
    if place not in _SEVERAL:
        said: dict[str, sqlite.Cell] = {place: text, **({"model": model} if place == "response" else {})}
        return Row(None, "responses", owner.key, said, {}, {}, about, (owner,) if owner.cells else ())
    beside: dict[str, sqlite.Cell] = {"response_id": owner.key["id"], "name": more.tool}
    documents: dict[str, msgspec.Raw] = {}
    if kind is Kind.TOOL_CALL:
        beside["tool_call_id"] = more.new_id("call_")
        documents = {"arguments": msgspec.Raw(_encode(more.arguments(text)))}
    else:
        beside |= {"output": text, "tool_call_id": more.id, "exception": _FAILED if more.failed else None}
    return Row(None, place, {"id": _number(now_ms)}, beside, documents, {}, about, (owner,))


_COLUMNS = {
    "attachments": ("type", "path", "url", "content"),
    "fragments": ("content", "source"),
    "tool_calls": ("name", "arguments", "tool_call_id"),
    "tool_results": ("name", "output", "tool_call_id", "exception"),
}
_ARGUMENTS = frozenset(("arguments",))
_ID = ("id",)


def _rows(
    database: sqlite3.Connection, table: str, identifier: object, about: _About | None = None, rows: Sequence[Row] = ()
) -> Iterator[Row]:
    """Yield the row of ``table`` that has this id."""
    for found in dictionaries(database, f"SELECT * FROM {table} WHERE id = ?", identifier):
        yield cells_of(table, found, _ID, _COLUMNS[table], documents=_ARGUMENTS, about=about, rows=rows)


def _attachments(database: sqlite3.Connection, identifiers: Sequence[object]) -> Iterator[Row]:
    for identifier in identifiers:
        yield from _rows(database, "attachments", identifier)


def _header(begins: Begins, model: str, table: str, named: dict[str, object] | None) -> Row:
    """Return the first line of a conversation, which may have a row of ``table``; that has its name."""
    extra = {"model": model} if model else {}
    begins = structs.replace(begins, title=first_line(begins.title), project="llm", extra=extra)
    if named is None:
        return Row(begins)
    row = cells_of(table, named, _ID, ("name",))
    return Row(begins, row.table, row.key, row.cells)


class _Numbers(Struct):
    """The numbers of the responses of each conversation, in order, up to the response ``last``, whose id is ``id``.

    No index leads to them: SQLite reads a table with all its texts.
    """

    last: int = -1
    id: object = None
    found: dict[str, list[int]] = {}

    def follow(self, database: sqlite3.Connection) -> None:
        """Add those of the responses since then; all anew where the last one is another one now."""
        ids = database.execute("SELECT id FROM responses WHERE rowid = ?", (self.last,)).fetchall()
        if ids != [(self.id,)]:
            self.last, self.found = -1, {}
        query = f"SELECT rowid, id, {_OWNER} FROM responses WHERE rowid > ? ORDER BY rowid"
        for number, identifier, key in database.execute(query, (self.last,)):
            self.found.setdefault(str(key), []).append(number)
            self.last, self.id = number, identifier


_OWNER = "coalesce(nullif(conversation_id, ''), id)"
"""The key of a response's conversation."""


class Responses:
    """Reads the conversations of these tables."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        tables = ("prompt_fragments", "system_fragments")
        self._fragments = {table: self._linked(table, "fragment_id") for table in tables}
        self._attached = self._linked("prompt_attachments", "attachment_id")
        self._of_results = self._linked("tool_results_attachments", "attachment_id", "tool_result_id")
        self._calls = self._linked("tool_calls", "id", order="id")
        self._results = self._linked("tool_results", "id", order="id")

    def lines(self, taken: set[str], numbers: _Numbers, after: Mark = None) -> Iterator[Row]:
        """Yield the lines of all conversations, or of those with responses after number ``after``.

        Keys in ``taken`` are of others already. ``numbers`` are brought up to now.
        """
        tables = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if ("responses",) not in tables:
            return
        named = dictionaries(self._database, "SELECT * FROM conversations") if ("conversations",) in tables else ()
        names = {str(row["id"]): row for row in named}
        numbers.follow(self._database)
        keys = list(numbers.found)
        if after is not None:
            query = f"SELECT DISTINCT {_OWNER} FROM responses WHERE rowid > ?"
            keys = [str(key) for (key,) in self._database.execute(query, (after,))]
        for key in keys:
            own = f"{key}-responses" if key in taken else key
            yield from self._conversation(own, names.get(key), numbers.found.get(key, []))

    def _conversation(self, key: str, named: dict[str, object] | None, numbers: list[int]) -> Iterator[Row]:
        system: object = None
        begun = False
        for number in numbers:
            for found in dictionaries(self._database, "SELECT * FROM responses WHERE rowid = ?", number):
                if not begun:
                    begun = True
                    title = str((named or {}).get("name") or found.get("prompt") or "")
                    begins = Begins(key, title, started_ms=milliseconds(found.get("datetime_utc")))
                    yield _header(begins, str(found.get("model") or ""), "conversations", named)
                yield from self._response(found, again=found.get("system") == system)
                system = found.get("system") or system

    def _response(self, found: dict[str, object], *, again: bool) -> Iterator[Row]:
        key = str(found["id"])
        about: _About = {"time": str(found.get("datetime_utc") or "")}
        said = partial(cells_of, "responses", found, _ID)
        system = tuple(self._fragment_rows("system_fragments", key))
        if found.get("system") or system:
            hidden: _About = {"again": True} if again and not system else {}
            yield said(("system",), about={**about, **hidden}, rows=system)
        attached = _attachments(self._database, self._attached.get(key, ()))
        beside = (*self._fragment_rows("prompt_fragments", key), *attached)
        if found.get("prompt") or beside:
            yield said(("prompt",), about=about, rows=beside)
        for number in self._results.get(key, ()):
            of_result = tuple(_attachments(self._database, self._of_results.get(str(number), ())))
            yield from _rows(self._database, "tool_results", number, about, of_result)
        for columns in (("reasoning",), ("response", "model", "resolved_model")):
            if found.get(columns[0]):
                yield said(columns, about=about)
        for number in self._calls.get(key, ()):
            yield from _rows(self._database, "tool_calls", number, about)

    def _linked(
        self, table: str, column: str, owner: str = "response_id", order: str = "order"
    ) -> dict[str, list[object]]:
        """Return the rows of ``table`` that link to each response, in order."""
        found: dict[str, list[object]] = {}
        if {column, owner, order} <= columns_of(self._database, table):
            query = f'SELECT "{owner}", "{column}" FROM "{table}" ORDER BY "{owner}", "{order}"'
            for key, linked in self._database.execute(query):
                found.setdefault(str(key), []).append(linked)
        return found

    def _fragment_rows(self, table: str, key: str) -> Iterator[Row]:
        for number in self._fragments[table].get(key, ()):
            for found in dictionaries(self._database, "SELECT * FROM fragments WHERE id = ?", number):
                about: _About = {"hash": str(found.get("hash") or "")}
                yield cells_of("fragments", found, _ID, _COLUMNS["fragments"], about=about)


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
        return {chain.key for chain in self._chains}

    def lines(self) -> Iterator[Row]:
        """Yield the lines of all conversations; lines shared with an earlier one stand there only."""
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

    def _header(self, chain: _Chain, base: int, shared: int, hashes: list[str]) -> Row:
        named = str((chain.thread or {}).get("name") or "")
        models = [message.model for name in reversed(hashes) if (message := self._messages[name]).model]
        started = milliseconds(chain.started)
        forked_from = str((chain.thread or {}).get("forked_from") or "")
        title = named or self._first_text(hashes)
        begins = Begins(chain.key, title, started_ms=started, forked_from=forked_from, base=base, shared=shared)
        return _header(begins, next(iter(models), ""), "threads", chain.thread)

    def _first_text(self, hashes: list[str]) -> str:
        asked = next((name for name in hashes if self._messages[name].role == "user"), None)
        query = "SELECT text FROM parts WHERE message_hash = ? AND text IS NOT NULL ORDER BY position"
        found = self._database.execute(query, (asked,)).fetchone()
        return str(found[0]) if found else ""

    def _message(self, name: str) -> Iterator[Row]:
        message = self._messages[name]
        about: _About = {"role": message.role, "model": message.model, "time": message.time}
        query = "SELECT * FROM parts WHERE message_hash = ? ORDER BY position"
        for found in dictionaries(self._database, query, name):
            columns = [column for column in found if column not in ("message_hash", "position")]
            rows = (*self._fragments(found.get("payload")), *self._attachments(found["id"]))
            yield cells_of("parts", found, _ID, columns, documents=_PAYLOAD, about=about, rows=rows)

    def _fragments(self, payload: object) -> Iterator[Row]:
        for piece in as_list(object_in(as_text(payload).encode()).get("text_ref")):
            if isinstance(number := as_object(piece).get("fragment"), int):
                yield from _rows(self._database, "fragments", number)

    def _attachments(self, part: object) -> Iterator[Row]:
        query = 'SELECT attachment_id FROM part_attachments WHERE part_id = ? ORDER BY "order"'
        if columns_of(self._database, "part_attachments"):
            identifiers = [identifier for (identifier,) in self._database.execute(query, (part,))]
            yield from _attachments(self._database, identifiers)


_NONE: Set[str] = frozenset()
_LENS = LlmLogsLens()


class LlmLogs(DatabaseFormat):
    """Simon Willison's llm."""

    name = "llm-logs"
    lenses = (_LENS,)
    main_type = _LENS.type_name
    resuming = (Resuming("llm", ("llm", "chat", "--conversation", "{session}")),)
    kept = (
        "$LLM_USER_PATH",
        *(f"{folder}/io.datasette.llm" for folder in ("$XDG_CONFIG_HOME", "~/Library/Application Support")),
    )
    schemas = (
        {"conversations": _NONE, "responses": {"conversation_id", "prompt_json", "response"}},
        {"messages": {"hash", "parent_hash"}, "parts": {"message_hash"}, "threads": _NONE, "turns": _NONE},
    )

    def __init__(self) -> None:
        self._numbers: dict[Path, _Numbers] = {}
        """The responses of databases in which something new has come."""

    def lines(self, database: sqlite3.Connection) -> Iterator[Row]:
        messages = Messages(database)
        yield from messages.lines()
        yield from Responses(database).lines(messages.keys, _Numbers())

    def marks(self, database: sqlite3.Connection) -> dict[str, Mark]:
        """Return the number and the id of the last response, and of chains the last rows, and what threads say."""
        try:
            found = database.execute("SELECT rowid, id FROM responses ORDER BY rowid DESC LIMIT 1").fetchone()
            marks = dict(zip(("number", "id"), found or (0, ""), strict=True))
            if columns_of(database, "messages") >= _NEEDED:
                for table in ("messages", "parts", "turns"):
                    [marks[table]] = database.execute(f"SELECT max(rowid) FROM {table}").fetchone()
                threads = database.execute("SELECT id, name, tip_message_hash FROM threads ORDER BY rowid")
                marks["threads"] = hash_bytes(_encode(list(threads))).hex()
        except sqlite3.OperationalError:
            # some tables are not there
            return {}
        return marks

    def news(self, path: Path, database: sqlite3.Connection, since: Mapping[str, Mark]) -> sqlite.News | None:
        """Return the conversations with new responses: all of one is written at once, and stays.

        Where there are chains, which conversations share, all is read once there is anything new.
        """
        now, last = self.marks(database), since.get("number")
        if now == since:
            return iter(()), now
        if now.keys() != since.keys() or not isinstance(last, int) or now.get("messages") is not None:
            return None
        # the last one may have been deleted, and another have its number
        return Responses(database).lines(set(), self._numbers.setdefault(path, _Numbers()), last - 1), now

    def delete(self, database: sqlite3.Connection, row: Row) -> None:
        """Delete the contents of a line: of a response its cell, of a conversation nothing."""
        if row.table == "responses":
            sqlite.clear_cells(database, row)
        elif row.table in ("parts", "tool_calls", "tool_results"):
            sqlite.remove_row(database, row)

    def link(self, database: sqlite3.Connection, row: Row) -> None:
        """Put a new message behind the one before it, as the last of its thread, or of the turn that is in none."""
        if row.table != "parts" or "thread" not in row.about:
            return
        name, after = row.cells.get("message_hash"), str(row.about.get("after", ""))
        if after.isdecimal():
            before = "SELECT message_hash FROM parts WHERE id = ?"
            database.execute(f"UPDATE messages SET parent_hash = ({before}) WHERE hash = ?", (int(after), name))
        for table in ("threads", "turns"):
            alone = " AND thread_id IS NULL" if table == "turns" else ""
            change = f"UPDATE {table} SET tip_message_hash = ? WHERE id = ?{alone}"
            database.execute(change, (name, row.about["thread"]))

    def titled(self, conversation: Row) -> Titled:
        return Titled.BY_TOOL if conversation.cells.get("name") else Titled.BY_REQUEST


# -- the output of ``llm logs --json`` ---------------------------------------------------------------------------------


class LlmJsonLens(DeclaredLens):
    """Sees responses; their prompts are blocks of their own."""

    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, "a record there is an answer with all that led to it")

    def __init__(self) -> None:
        super().__init__(read_views("llm-json"), "llm-json.response.v1")


class LlmJson(DeclaredFormat):
    """Logs of Simon Willison's llm, printed."""

    def __init__(self) -> None:
        super().__init__(read_views("llm-json"), LlmJsonLens())

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        found: dict[str, list[int]] = {}
        for at, span in enumerate(spans):
            record = object_in(bytes(data[span.start : span.end]))
            key = as_text(record.get("conversation_id")) or as_text(record.get("id")) or f"{source.path.name} {at}"
            found.setdefault(key, []).append(at)
        return [
            Part(key, positions, self.about(source, [bytes(data[spans[at].start : spans[at].end]) for at in positions]))
            for key, positions in found.items()
        ]

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        said = [object_in(record) for record in records]
        names = [as_text(record.get(key)) for key in ("conversation_name", "prompt") for record in said]
        return About(
            title=first_line(next(filter(None, names), "")),
            titled=Titled.BY_TOOL if any(names[: len(said)]) else Titled.BY_REQUEST,
            started_ms=next((time for record in said if (time := milliseconds(record.get("datetime_utc")))), 0),
            session_id=next((found for record in said if (found := as_text(record.get("conversation_id")))), ""),
        )
