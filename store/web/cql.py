"""CQL, the language of queries in which CXDB's clients search contexts: ``tag = "a" AND NOT depth > 3``.

OR binds less than AND, AND less than NOT, and NOT takes one comparison or parentheses. A comparison is a field, an
operator and a value: a text in ``'`` or ``"`` with backslashes, a number, ``true`` or ``false``, or after IN some of
them in parentheses. Words are those of the server in any case; ``~`` compares without regard to case.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from operator import eq, ge, gt, le, lt
from typing import Any, NoReturn, Protocol

from store.errors import UsageError
from store.formats.core.times import milliseconds

_EQUAL, _LIST = frozenset(("=", "!=")), frozenset(("=", "!=", "IN"))
_TEXT, _ORDER = _LIST | {"^=", "~=", "^~="}, _EQUAL | {">", ">=", "<", "<="}
OPERATORS: Mapping[str, frozenset[str]] = (
    dict.fromkeys(("tag", "title", "user", "service", "host"), _TEXT)
    | dict.fromkeys(("label", "id", "parent", "root"), _LIST)
    | {"trace_id": _EQUAL, "created": _ORDER, "depth": _ORDER, "is_live": frozenset("=")}
)
"""The fields, and the operators that each has."""
_WORDS = frozenset(("AND", "OR", "NOT", "IN"))
_NUMBERED = frozenset(("id", "parent", "root"))
_MOST_NESTED = 100

_token = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+(?:\.\d+)?(?![\w.]))|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign>\^~=|\^=|~=|!=|>=|<=|[=<>(),])|(?P<end>\Z))",
    re.DOTALL,
).match
_escaped = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_ago = re.compile(r"-(\d{1,6})([hdm])").fullmatch
_AGO_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BY_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {"=": eq, ">": gt, ">=": ge, "<": lt, "<=": le}


class Kind(StrEnum):
    """The kinds of mistakes in a query, as the server calls them."""

    SYNTAX = "SyntaxError"
    FIELD = "UnknownField"
    OPERATOR = "InvalidOperator"
    VALUE = "InvalidValue"


class QueryError(UsageError):
    """A query that is none; ``offset`` is where in its text, None for the whole."""

    def __init__(self, kind: Kind, message: str, text: str, offset: int, field: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.field = field
        before = text[:offset]
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        self.offset = offset


class Facts(Protocol):
    """One context, as a query asks about it."""

    def values(self, field: str) -> Sequence[object]:
        """Return the values that it has for a field: texts, numbers for ``created`` and ``depth``, or truth values."""


Condition = Callable[[Facts], bool]
_Value = str | float | bool


def parse(text: str, now_ms: int | None = None) -> Condition:
    """Return the condition that a query states. QueryError if it is none."""
    return _Parser(text, time.time_ns() // 1_000_000 if now_ms is None else now_ms).whole()


class _Parser:
    def __init__(self, text: str, now_ms: int) -> None:
        self._text = text
        self._now_ms = now_ms
        self._nested = 0
        self._at = self._end = 0
        self._kind = self._said = ""
        self._next()

    def whole(self) -> Condition:
        found = self._any()
        if self._kind != "end":
            self._fail(f"{self._said} stands where AND, OR or the end should")
        return found

    def _next(self) -> None:
        found = _token(self._text, self._end)
        if found is None:
            self._at = len(self._text) - len(self._text[self._end :].lstrip())
            self._fail(f"nothing begins so: {self._text[self._at : self._at + 20]}")
        assert found.lastgroup is not None
        self._kind, self._said = found.lastgroup, found[found.lastgroup]
        self._at, self._end = found.start(found.lastgroup), found.end()

    def _fail(self, message: str, kind: Kind = Kind.SYNTAX, field: str | None = None) -> NoReturn:
        raise QueryError(kind, message, self._text, self._at, field)

    def _is(self, word: str) -> bool:
        """Return whether a word or a sign comes next, and pass over it."""
        found = self._kind in ("word", "sign") and self._said.upper() == word
        if found:
            self._next()
        return found

    def _any(self) -> Condition:
        found = [self._all()]
        while self._is("OR"):
            found.append(self._all())
        return found[0] if len(found) == 1 else lambda facts: any(one(facts) for one in found)

    def _all(self) -> Condition:
        found = [self._not()]
        while self._is("AND"):
            found.append(self._not())
        return found[0] if len(found) == 1 else lambda facts: all(one(facts) for one in found)

    def _not(self) -> Condition:
        if not self._is("NOT"):
            return self._one()
        found = self._one()
        return lambda facts: not found(facts)

    def _one(self) -> Condition:
        if not self._is("("):
            return self._comparison()
        self._nested += 1
        if self._nested > _MOST_NESTED:
            self._fail(f"more than {_MOST_NESTED} parentheses within one another")
        found = self._any()
        self._nested -= 1
        if not self._is(")"):
            self._fail("a parenthesis is not closed")
        return found

    def _comparison(self) -> Condition:
        if self._kind != "word" or self._said.upper() in _WORDS:
            self._fail(f"a field should stand here, not {self._said or 'the end'}")
        field = self._said.lower()
        if field not in OPERATORS:
            self._fail(f"there is no field {self._said}: there are {', '.join(OPERATORS)}", Kind.FIELD, self._said)
        self._next()
        sign = self._said.upper()
        if (self._kind != "sign" and sign != "IN") or sign in ("(", ")", ","):
            self._fail(f"an operator should stand after {field}, not {self._said or 'the end'}")
        if sign not in OPERATORS[field]:
            takes = " ".join(sorted(OPERATORS[field]))
            self._fail(f"{field} is not compared by {sign}, but by {takes}", Kind.OPERATOR, field)
        self._next()
        if sign == "IN":
            wanted = self._list(field)
            return lambda facts: any(value in wanted for value in facts.values(field))
        return _compared(field, sign, self._value(field))

    def _list(self, field: str) -> Sequence[_Value]:
        if not self._is("("):
            self._fail("IN takes values in parentheses")
        found = [self._value(field)]
        while self._is(","):
            found.append(self._value(field))
        if not self._is(")"):
            self._fail("a parenthesis is not closed")
        return found

    def _value(self, field: str) -> _Value:
        """Read a value, and return what the field's values are compared with."""
        kind, said = self._kind, self._said
        if (kind == "word" and said.lower() not in ("true", "false")) or kind in ("sign", "end"):
            self._fail(f"a value should stand here, not {said or 'the end'}")
        if kind == "text":
            said = _escaped.sub(lambda found: _ESCAPES.get(found[1], found[1]), said[1:-1])
        found = self._meant(field, kind, said)
        if found is None:
            self._fail(f"{field} is not compared with {self._said}", Kind.VALUE, field)
        self._next()
        return found

    def _meant(self, field: str, kind: str, said: str) -> _Value | None:
        if field == "is_live":
            return said.lower() == "true" if kind == "word" else None
        if field == "depth":
            return float(said) if kind == "number" else None
        if field == "created":
            return self._time(said) if kind == "text" else float(said) if kind == "number" else None
        if field in _NUMBERED:
            return said if said.isascii() and said.isdigit() else None
        return said if kind == "text" else None

    def _time(self, said: str) -> float | None:
        if ago := _ago(said):
            return self._now_ms - int(ago[1]) * _AGO_MS[ago[2]]
        return milliseconds(said) or None


def _compared(field: str, sign: str, wanted: _Value) -> Condition:
    if sign == "!=":
        return lambda facts: wanted not in facts.values(field)
    if sign in _BY_ORDER:
        ordered = _BY_ORDER[sign]
        return lambda facts: any(ordered(value, wanted) for value in facts.values(field))
    # the server looks at hosts as they are written
    fold = str.casefold if "~" in sign and field != "host" else str
    text = fold(str(wanted))
    if sign.startswith("^"):
        return lambda facts: any(fold(str(value)).startswith(text) for value in facts.values(field))
    return lambda facts: any(fold(str(value)) == text for value in facts.values(field))
