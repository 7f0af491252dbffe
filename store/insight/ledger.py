"""What was counted of turns: answers of models, uses of tools, bytes. Each turn is counted once.

An answer may be told of again and again: on several lines of one message, in copies of its session. What it took is the
most that anything says, under the conversation and the day that told of it first. So sums are kept of answers, not of
records: :meth:`Ledger.add` takes what was counted of some turns, and the number of the last of them, in one change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from store.events.usage import Running, Tokens
from store.index.database import Database, Row
from store.index.sums import sum_of
from store.insight.schema import OF_TURNS

_AT_ONCE = 500
_ACCOUNT = "context = ? AND day = ? AND model = ? AND length = ? AND told = ?"


class AccountName(NamedTuple):
    """What answers are summed up by.

    ``day`` is one in UTC, as ``2026-03-05``; ``length`` says how long the prompts were
    (:attr:`store.events.usage.Tokens.length`); ``told`` whether the session says what each answer cost.
    """

    context: int
    day: str
    model: str
    length: int
    told: bool


class Account(Struct, frozen=True):
    """Sums over ``answers`` answers. ``nanodollars`` is what sessions say that they cost."""

    name: AccountName
    answers: int
    tokens: Tokens
    nanodollars: int


class Answer(NamedTuple):
    """One answer as a record tells of it: its key, where it belongs, and what it took."""

    key: int
    name: AccountName
    tokens: Tokens
    nanodollars: int | None


class Uses(Struct, frozen=True):
    """How often a tool was called, and how often it returned; the bytes of the records that say so."""

    calls: int = 0
    call_bytes: int = 0
    results: int = 0
    result_bytes: int = 0

    def and_(self, other: Uses) -> Uses:
        """Return the sum of both."""
        return Uses(
            self.calls + other.calls,
            self.call_bytes + other.call_bytes,
            self.results + other.results,
            self.result_bytes + other.result_bytes,
        )


ToolDay = tuple[int, str, str]
"""A context, a day, a tool."""


class Holding(Struct, frozen=True):
    """The records of a conversation at its tip ``head``: their bytes, and those of the ones that are ``shared``.

    ``own`` is the first turn that no older conversation has, 0 while it has none. ``beside`` are the bytes of what is
    kept beside the records: outputs of tools, files of a session as they were.
    """

    context: int
    head: int
    own: int
    bytes: int
    shared: int
    beside: int


class Followed(NamedTuple):
    """The head log was followed up to ``heads``, and to ``turn``; it was ``anew`` long when counting was begun."""

    heads: int
    turn: int
    anew: int


class Counted(Struct):
    """What was counted of some turns.

    ``running`` is what goes on to hold behind turns, ``forgotten`` are turns of which that need not be known any more;
    ``bytes`` the payloads of the turns.
    """

    answers: list[Answer] = []
    uses: dict[ToolDay, Uses] = {}
    running: dict[int, Running] = {}
    forgotten: list[int] = []
    bytes: int = 0


class Ledger:
    """Reads and writes the tables that follow from payloads. Raises DamageError where these are damaged."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # -- what was counted ------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The last turn that was counted, 0 if none was."""
        return self._db.number("turn")

    @property
    def followed(self) -> Followed:
        """Up to where the head log was followed."""
        return Followed(*(self._db.number(key) for key in ("heads", "heads_turn", "anew")))

    @property
    def bytes(self) -> int:
        """The bytes of the payloads of all turns that were counted."""
        return self._db.number("bytes")

    def accounts(self) -> list[Account]:
        """Return all sums of answers."""
        return [self._account(row)[1] for row in self._db.query("SELECT * FROM accounts ORDER BY id")]

    def uses(self) -> list[tuple[ToolDay, Uses]]:
        """Return what was used of tools."""
        found = []
        for row in self._db.query("SELECT * FROM tool_uses"):
            context, day, tool, *counts = self._db.checked("tool_uses", row)
            found.append(((context, day, tool), Uses(*counts)))
        return found

    def running(self, first: int, last: int) -> dict[int, Running]:
        """Return what goes on to hold behind turns from ``first`` to ``last``, as far as that was kept."""
        rows = self._db.query("SELECT * FROM running WHERE turn BETWEEN ? AND ?", (first, last))
        checked = (self._db.checked("running", row) for row in rows)
        return {turn: msgspec.json.decode(said, type=Running) for turn, said in checked}

    def holdings(self) -> dict[int, Holding]:
        """Return what all conversations hold, by their ids."""
        rows = (self._db.checked("holdings", row) for row in self._db.query("SELECT * FROM holdings"))
        return {row[0]: Holding(*row) for row in rows}

    def holding(self, context: int) -> Holding:
        """Return what a conversation held when it was last looked at."""
        row = self._db.one("SELECT * FROM holdings WHERE context = ?", (context,))
        return Holding(*self._db.checked("holdings", row)) if row else Holding(context, 0, 0, 0, 0, 0)

    # -- counting --------------------------------------------------------------------------------------------------

    def reset(self, heads: int) -> None:
        """Forget everything that was counted; ``heads`` is how long the head log is."""
        with self._db.writing() as sql:
            for table in OF_TURNS:
                sql.execute(f"DELETE FROM {table}")
            for key in ("turn", "heads", "heads_turn", "bytes"):
                self._db.set_state(key, 0)
            self._db.set_state("anew", heads)

    def add(self, counted: Counted, last: int) -> None:
        """File what was counted of the turns up to ``last`` that had not been."""
        with self._db.writing() as sql:
            if counted.answers:
                _Accounting(self, sql).add(counted.answers)
            self._add_uses(sql, counted.uses)
            said = [(turn, msgspec.json.encode(running).decode()) for turn, running in counted.running.items()]
            sql.executemany("DELETE FROM running WHERE turn = ?", [(turn,) for turn in counted.forgotten])
            sql.executemany("INSERT OR REPLACE INTO running VALUES (?, ?, ?)", [(*row, sum_of(row)) for row in said])
            self._db.set_state("bytes", self.bytes + counted.bytes)
            self._db.set_state("turn", last)

    def follow(self, heads: int, turn: int) -> None:
        """File that everything was counted of what the head log says up to ``heads``, the last of it turn ``turn``."""
        with self._db.writing():
            self._db.set_state("heads", heads)
            self._db.set_state("heads_turn", turn)

    def hold(self, holdings: Iterable[Holding]) -> None:
        """File what conversations hold."""
        rows = [structs.astuple(holding) for holding in holdings]
        with self._db.writing() as sql:
            sql.executemany(
                "INSERT OR REPLACE INTO holdings VALUES (?, ?, ?, ?, ?, ?, ?)", [(*row, sum_of(row)) for row in rows]
            )

    def _add_uses(self, sql: sqlite3.Connection, uses: Mapping[ToolDay, Uses]) -> None:
        for name, use in uses.items():
            row = sql.execute("SELECT * FROM tool_uses WHERE context = ? AND day = ? AND tool = ?", name).fetchone()
            total = use.and_(Uses(*self._db.checked("tool_uses", row)[3:])) if row else use
            values = (*name, *structs.astuple(total))
            sql.execute("INSERT OR REPLACE INTO tool_uses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, sum_of(values)))

    def _account(self, row: Row) -> tuple[int, Account]:
        number, context, day, model, length, told, answers, *tokens, cost = self._db.checked("accounts", row)
        name = AccountName(context, day, model, length, told != 0)
        return number, Account(name, answers, Tokens(*tokens), cost)


class _Accounting:
    """One change of the tables of answers: rows are read when they are first needed, and written once."""

    def __init__(self, ledger: Ledger, sql: sqlite3.Connection) -> None:
        self._ledger = ledger
        self._db = ledger._db
        self._sql = sql
        self._answers: dict[int, tuple[int, Tokens, int | None]] = {}
        self._accounts: dict[int, Account] = {}
        self._numbers: dict[AccountName, int] = {}
        self._next = sql.execute("SELECT coalesce(max(id), 0) + 1 FROM accounts").fetchone()[0]

    def add(self, answers: Sequence[Answer]) -> None:
        """Take in answers that may be known already."""
        self._read({answer.key for answer in answers})
        for answer in answers:
            name, tokens, cost = answer.name, answer.tokens, answer.nanodollars
            if (known := self._answers.get(answer.key)) is not None:
                number, before, paid = known
                account = self._numbered(number)
                if most(before, tokens) == before and (cost is None or (paid is not None and cost <= paid)):
                    continue
                self._change(number, before, paid, -1)
                tokens = most(before, tokens)
                cost = paid if cost is None else max(cost, paid or 0)
                model = account.name.model or name.model
                name = account.name._replace(model=model)
            name = name._replace(length=tokens.length, told=cost is not None)
            number = self._number(name)
            self._change(number, tokens, cost, 1)
            self._answers[answer.key] = (number, tokens, cost)
        self._write({answer.key for answer in answers})

    def _read(self, keys: Iterable[int]) -> None:
        wanted = list(keys)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            for row in self._sql.execute(f"SELECT * FROM answers WHERE key IN ({','.join('?' * len(some))})", some):
                key, number, *tokens, cost = self._db.checked("answers", row)
                self._answers[key] = (number, Tokens(*tokens), cost)

    def _numbered(self, number: int) -> Account:
        """Return the account ``number``, which is there."""
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
            Tokens(
                *(a + sign * b for a, b in zip(structs.astuple(account.tokens), structs.astuple(tokens), strict=True))
            ),
            account.nanodollars + sign * (cost or 0),
        )

    def _write(self, keys: Iterable[int]) -> None:
        answers = []
        for key in keys:
            number, tokens, cost = self._answers[key]
            answers.append((key, number, *structs.astuple(tokens), cost))
        self._sql.executemany(
            f"INSERT OR REPLACE INTO answers VALUES ({','.join('?' * 10)})", [(*row, sum_of(row)) for row in answers]
        )
        accounts = [
            (number, *name[:4], int(name.told), account.answers, *structs.astuple(account.tokens), account.nanodollars)
            for number, account in self._accounts.items()
            for name in (account.name,)
        ]
        self._sql.executemany(
            f"INSERT OR REPLACE INTO accounts VALUES ({','.join('?' * 15)})", [(*row, sum_of(row)) for row in accounts]
        )
        self._sql.execute("DELETE FROM accounts WHERE answers = 0")


def most(one: Tokens, other: Tokens) -> Tokens:
    """Return the most that two tellings of the same answer say of each kind of tokens."""
    return Tokens(*map(max, structs.astuple(one), structs.astuple(other)))
