"""The ledger of counts: answers of models, uses of tools, bytes. Each turn is counted once.

An answer may be told of again and again: on several lines of one message, in copies of its session. Its usage is the
most that any of them says, under the conversation and the day that told of it first. So sums are kept of answers, not
of records: :meth:`Ledger.add` takes the counts of some turns, and the number of the last of them, in one change.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from operator import add, sub
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from store import typed
from store.events.usage import Running, Tokens, combined
from store.index.database import Database, Row, Schema, among, sum_of

_TOKENS = """
    input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
    cache_write_hour INTEGER NOT NULL, reasoning INTEGER NOT NULL"""

TABLES = f"""
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- What answers of models took, each once by the key of its name, and the account that it is part of.
CREATE TABLE answers (
    key INTEGER PRIMARY KEY, account INTEGER NOT NULL, {_TOKENS}, nanodollars INTEGER, sum INTEGER NOT NULL
);
-- Sums of answers; length: of their prompts, told: whether their sessions say what each cost.
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY, context INTEGER NOT NULL, day TEXT NOT NULL, model TEXT NOT NULL, length INTEGER NOT NULL,
    told INTEGER NOT NULL, answers INTEGER NOT NULL, {_TOKENS}, nanodollars INTEGER NOT NULL, sum INTEGER NOT NULL
);
CREATE UNIQUE INDEX accounts_by_name ON accounts (context, day, model, length, told);

CREATE TABLE tool_uses (
    context INTEGER NOT NULL, day TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT NULL,
    call_bytes INTEGER NOT NULL, results INTEGER NOT NULL, result_bytes INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (context, day, tool)
) WITHOUT ROWID;

-- What goes on to hold behind a turn, for some turns, as JSON.
CREATE TABLE running (turn INTEGER PRIMARY KEY, said TEXT NOT NULL, sum INTEGER NOT NULL);

-- The bytes of a conversation's records, of those that another one had before, and of what its metadata names beside
-- them; own: the first turn that none had.
CREATE TABLE holdings (
    context INTEGER PRIMARY KEY, head INTEGER NOT NULL, own INTEGER NOT NULL, bytes INTEGER NOT NULL,
    shared INTEGER NOT NULL, beside INTEGER NOT NULL, sum INTEGER NOT NULL
);

-- Turns that could not be read when they were counted (context 0), and conversations of which not all could (turn 0).
CREATE TABLE unread (turn INTEGER NOT NULL, context INTEGER NOT NULL, PRIMARY KEY (turn, context)) WITHOUT ROWID;

-- What lies in a pack, by how it is compressed, and up to where that was looked at; body: the bytes when decompressed.
CREATE TABLE pack_sums (
    pack INTEGER NOT NULL, compression INTEGER NOT NULL, records INTEGER NOT NULL, body_bytes INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (pack, compression)
) WITHOUT ROWID;
CREATE TABLE packs (number INTEGER PRIMARY KEY, summed INTEGER NOT NULL, sum INTEGER NOT NULL);
-- Packs of which not all could be read.
CREATE TABLE unread_packs (number INTEGER PRIMARY KEY);
"""

INSIGHT = Schema(3, TABLES)

OF_TURNS = ("answers", "accounts", "tool_uses", "running", "holdings", "unread")
"""The tables of counts of turns."""

_AT_ONCE = 500
_ACCOUNT = "context = ? AND day = ? AND model = ? AND length = ? AND told = ?"


def put(sql: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    """File rows in a table, each with its checksum."""
    summed = [(*row, sum_of(row)) for row in rows]
    if summed:
        sql.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(summed[0]))})", summed)


class AccountName(NamedTuple):
    """The name of an account: the features by which answers are summed up.

    ``day`` is one in UTC, as ``2026-03-05``; ``length`` says how long the prompts were
    (:attr:`store.events.usage.Tokens.length`); ``told`` whether the session says what each answer cost.
    """

    context: int
    day: str
    model: str
    length: int
    told: bool


class Account(Struct, frozen=True):
    """Sums over ``answers`` answers. ``nanodollars`` is the cost that sessions state."""

    name: AccountName
    answers: int
    tokens: Tokens
    nanodollars: int


class Answer(NamedTuple):
    """One answer as a record tells of it: its key, its account, and its usage."""

    key: int
    name: AccountName
    tokens: Tokens
    nanodollars: int | None


class Uses(Struct, frozen=True):
    """The uses of a tool: numbers of calls and of returns, and the bytes of the records that tell of them."""

    calls: int = 0
    call_bytes: int = 0
    results: int = 0
    result_bytes: int = 0


ToolDay = tuple[int, str, str]
"""A context, a day, a tool."""


class Holding(Struct, frozen=True):
    """The records of a conversation at its tip ``head``: their bytes, and those of the ones that are ``shared``.

    ``own`` is the first turn that no older conversation has, 0 while it has none. ``beside`` are the bytes of contents
    beside the records: outputs of tools, files of a session as they were.
    """

    context: int
    head: int
    own: int
    bytes: int
    shared: int
    beside: int


class Followed(NamedTuple):
    """The head log was followed up to ``heads``, and to ``turn``; its length was ``anew`` when counting began."""

    heads: int
    turn: int
    anew: int


class Counted(Struct):
    """The counts of some turns.

    ``running`` is the running state behind turns, ``forgotten`` are turns whose state is no longer needed;
    ``bytes`` the payloads of the turns; ``unread`` are turns that could not be read just now, or not everything
    that they follow from.
    """

    answers: list[Answer] = []
    uses: dict[ToolDay, Uses] = {}
    running: dict[int, Running] = {}
    forgotten: list[int] = []
    bytes: int = 0
    unread: list[int] = []


class Tally:
    """Reads and writes the tables that follow from payloads. Raises DamageError where these are damaged."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @property
    def last(self) -> int:
        """The last counted turn, 0 if there is none."""
        return self._db.number("turn")

    @property
    def followed(self) -> Followed:
        """The place up to which the head log was followed."""
        return Followed(*(self._db.number(key) for key in ("heads", "heads_turn", "anew")))

    @property
    def bytes(self) -> int:
        """The bytes of the payloads of all counted turns."""
        return self._db.number("bytes")

    def accounts(self) -> list[Account]:
        return [self._account(row)[1] for row in self._db.query("SELECT * FROM accounts ORDER BY id")]

    def uses(self) -> list[tuple[ToolDay, Uses]]:
        return [((context, day, tool), Uses(*counts)) for context, day, tool, *counts in self._rows("tool_uses")]

    def running(self, first: int, last: int) -> dict[int, Running]:
        """Return the running states behind turns from ``first`` to ``last``, as far as they were kept."""
        rows = self._rows("running", "WHERE turn BETWEEN ? AND ?", (first, last))
        return {turn: typed.decode(said, Running) for turn, said in rows}

    def holdings(self) -> dict[int, Holding]:
        return {row[0]: Holding(*row) for row in self._rows("holdings")}

    def holding(self, context: int) -> Holding:
        """Return the holding of a conversation when it was last looked at."""
        row = next(self._rows("holdings", "WHERE context = ?", (context,)), (context, 0, 0, 0, 0, 0))
        return Holding(*row)

    def unread(self) -> list[Row]:
        """Return (turn, context) of what could not be read, or not in full, when it was counted; one of them is 0."""
        return self._db.query("SELECT turn, context FROM unread ORDER BY 1, 2")

    def _rows(self, table: str, where: str = "", values: Sequence[object] = ()) -> Iterator[Row]:
        rows = self._db.query(f"SELECT * FROM {table} {where}", values)
        return (self._db.checked(table, row) for row in rows)

    def reset(self, heads: int) -> None:
        """Forget all counts; ``heads`` is the length of the head log."""
        with self._db.writing() as sql:
            for table in OF_TURNS:
                sql.execute(f"DELETE FROM {table}")
            for key in ("turn", "heads", "heads_turn", "bytes"):
                self._db.set_state(key, 0)
            self._db.set_state("anew", heads)

    def add(self, counted: Counted, last: int) -> None:
        """File the counts of the turns up to ``last`` that had not been counted."""
        with self._db.writing() as sql:
            if counted.answers:
                _Accounting(self, sql).add(counted.answers)
            for tool, use in counted.uses.items():
                row = sql.execute("SELECT * FROM tool_uses WHERE context = ? AND day = ? AND tool = ?", tool).fetchone()
                total = combined(use, Uses(*self._db.checked("tool_uses", row)[3:])) if row else use
                put(sql, "tool_uses", [(*tool, *structs.astuple(total))])
            said = ((turn, msgspec.json.encode(running).decode()) for turn, running in counted.running.items())
            sql.executemany("DELETE FROM running WHERE turn = ?", [(turn,) for turn in counted.forgotten])
            put(sql, "running", said)
            sql.executemany("INSERT OR IGNORE INTO unread VALUES (?, 0)", [(turn,) for turn in counted.unread])
            self._db.set_state("bytes", self.bytes + counted.bytes)
            self._db.set_state("turn", last)

    def follow(self, heads: int, turn: int) -> None:
        """File that everything was counted that the head log says up to ``heads``, the last of it turn ``turn``."""
        with self._db.writing():
            self._db.set_state("heads", heads)
            self._db.set_state("heads_turn", turn)

    def hold(self, holdings: Iterable[Holding], unread: Iterable[int], sums: Iterable[Answer] = ()) -> None:
        """File the holdings of conversations; those that are ``unread`` could not be read in full.

        ``sums`` are of all answers of a conversation: what no record of it tells of counts as one more.
        """
        with self._db.writing() as sql:
            accounting = _Accounting(self, sql)
            for one in sums:
                accounting.complete(one)
            put(sql, "holdings", map(structs.astuple, holdings))
            sql.executemany("INSERT OR IGNORE INTO unread VALUES (0, ?)", [(context,) for context in unread])

    def _account(self, row: Row) -> tuple[int, Account]:
        number, context, day, model, length, told, answers, *tokens, cost = self._db.checked("accounts", row)
        name = AccountName(context, day, model, length, told != 0)
        return number, Account(name, answers, Tokens(*tokens), cost)


class _Accounting:
    """One change of the tables of answers: rows are read when they are first needed, and written once."""

    def __init__(self, ledger: Tally, sql: sqlite3.Connection) -> None:
        self._ledger = ledger
        self._db = ledger._db
        self._sql = sql
        self._answers: dict[int, tuple[int, Tokens, int | None]] = {}
        self._accounts: dict[int, Account] = {}
        self._numbers: dict[AccountName, int] = {}
        self._next = sql.execute("SELECT coalesce(max(id), 0) + 1 FROM accounts").fetchone()[0]

    def add(self, answers: Sequence[Answer]) -> None:
        self._read({answer.key for answer in answers})
        for answer in answers:
            name, tokens, cost = answer.name, answer.tokens, answer.nanodollars
            if (known := self._answers.get(answer.key)) is not None:
                number, before, paid = known
                account = self._numbered(number)
                if combined(before, tokens, max) == before and (cost is None or (paid is not None and cost <= paid)):
                    continue
                self._change(number, before, paid, -1)
                tokens = combined(before, tokens, max)
                cost = paid if cost is None else max(cost, paid or 0)
                model = account.name.model or name.model
                name = account.name._replace(model=model)
            name = name._replace(length=tokens.length, told=cost is not None)
            number = self._number(name)
            self._change(number, tokens, cost, 1)
            self._answers[answer.key] = (number, tokens, cost)
        self._write({answer.key for answer in answers})

    def complete(self, whole: Answer) -> None:
        """Make ``whole``, with the other answers of its conversation, the sum that it tells."""
        self._read([whole.key])
        if (known := self._answers.pop(whole.key, None)) is not None:
            number, tokens, paid = known
            self._numbered(number)
            self._change(number, tokens, paid, -1)
            self._sql.execute("DELETE FROM answers WHERE key = ?", (whole.key,))
            self._write(())
        rows = self._sql.execute("SELECT * FROM accounts WHERE context = ?", (whole.name.context,)).fetchall()
        others = [self._ledger._account(row)[1] for row in rows]
        tokens, cost = whole.tokens, whole.nanodollars
        for other in others:
            tokens = combined(tokens, other.tokens, lambda all_of, some: max(0, all_of - some))
            # what others may have cost is not known where they do not say it
            cost = max(0, cost - other.nanodollars) if cost is not None and other.name.told else None
        if sum(other.tokens.total for other in others) >= whole.tokens.total:
            # they may tell reading and writing of caches as one
            tokens = Tokens()
        if tokens.total or cost:
            self.add([whole._replace(tokens=tokens, nanodollars=cost)])

    def _read(self, keys: Iterable[int]) -> None:
        wanted = list(keys)
        for start in range(0, len(wanted), _AT_ONCE):
            marks, some = among(wanted[start : start + _AT_ONCE])
            for row in self._sql.execute(f"SELECT * FROM answers WHERE key IN ({marks})", some):
                key, number, *tokens, cost = self._db.checked("answers", row)
                self._answers[key] = (number, Tokens(*tokens), cost)

    def _numbered(self, number: int) -> Account:
        if number not in self._accounts:
            row = self._sql.execute("SELECT * FROM accounts WHERE id = ?", (number,)).fetchone()
            if row is None:
                raise self._db.damage("a row of accounts is missing")
            self._take(row)
        return self._accounts[number]

    def _number(self, name: AccountName) -> int:
        """Return the number of the account ``name``, which may be new."""
        if name not in self._numbers:
            row = self._sql.execute(f"SELECT * FROM accounts WHERE {_ACCOUNT}", name).fetchone()
            if row is not None:
                self._take(row)
            else:
                self._numbers[name] = self._next
                self._accounts[self._next] = Account(name, 0, Tokens(), 0)
                self._next += 1
        return self._numbers[name]

    def _take(self, row: Row) -> None:
        number, account = self._ledger._account(row)
        self._accounts[number] = account
        self._numbers[account.name] = number

    def _change(self, number: int, tokens: Tokens, cost: int | None, sign: int) -> None:
        account = self._numbered(number)
        self._accounts[number] = Account(
            account.name,
            account.answers + sign,
            combined(account.tokens, tokens, add if sign > 0 else sub),
            account.nanodollars + sign * (cost or 0),
        )

    def _write(self, keys: Iterable[int]) -> None:
        answers = ((key, self._answers[key]) for key in keys)
        rows = ((key, number, *structs.astuple(tokens), cost) for key, (number, tokens, cost) in answers)
        put(self._sql, "answers", rows)
        put(self._sql, "accounts", (_row(number, account) for number, account in self._accounts.items()))
        self._sql.execute("DELETE FROM accounts WHERE answers = 0")


def _row(number: int, account: Account) -> Row:
    name = (*account.name[:4], int(account.name.told))
    return (number, *name, account.answers, *structs.astuple(account.tokens), account.nanodollars)
