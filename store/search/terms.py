"""What texts are searched for: literals and regular expressions, each line by line as ``grep`` does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from store.errors import UsageError
from store.search.apart import Apart
from store.search.folding import fold
from store.search.needs import Every, literal, needs_of
from store.search.patterns import Pattern

_ESCAPED = re.compile(r"\\.", re.DOTALL)


MOST_CHARACTERS = 10_000
"""So long may a pattern be, or a query."""


class Text:
    """A text that is searched: as it is, and folded once that is asked for."""

    __slots__ = ("_folded", "_lines", "plain")

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self._folded: str | None = None
        self._lines: list[str] | None = None

    @property
    def folded(self) -> str:
        """The text without regard to case; it has the same lines."""
        if self._folded is None:
            self._folded = fold(self.plain)
        return self._folded

    @property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        if self._lines is None:
            self._lines = self.plain.split("\n")
            if not self._lines[-1]:
                self._lines.pop()
        return self._lines


class Term(Protocol):
    """Something to search for."""

    need: Every
    """What a text must hold to have it."""

    def lines(self, text: Text) -> Iterator[int]:
        """Yield the lines that have it, the first of all is 0, each once, in order."""

    def whole(self, text: Text) -> bool:
        """Say whether it is there without being part of a longer word."""


class Literal:
    """A text as it stands. One that goes over several lines is found on the first of them."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        self.need = literal(text)
        self._text = fold(text) if ignore_case else text
        self._word = re.compile(rf"(?<!\w){re.escape(self._text)}(?!\w)")
        self._ignore_case = ignore_case

    def lines(self, text: Text) -> Iterator[int]:
        """See :class:`Term`."""
        searched = text.folded if self._ignore_case else text.plain
        line = start = 0
        while (found := searched.find(self._text, start)) >= 0:
            line += searched.count("\n", start, found)
            yield line
            start = searched.find("\n", found) + 1
            if not start:
                return
            line += 1

    def whole(self, text: Text) -> bool:
        """See :class:`Term`."""
        return self._word.search(text.folded if self._ignore_case else text.plain) is not None


class Regex:
    """A regular expression of Python's, found within lines. Raises UsageError if it is none."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        try:
            found = Pattern(pattern, ignore_case=ignore_case)
            self.need = needs_of(found.parsed)
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            raise UsageError(f"/{pattern}/ is no regular expression: {error}") from error
        self._lines = found.lines if found.quick else Apart(pattern, ignore_case=ignore_case).lines

    def lines(self, text: Text) -> Iterator[int]:
        """See :class:`Term`. UsageError where it takes too long."""
        return iter(self._lines(text.plain))

    def whole(self, text: Text) -> bool:
        """See :class:`Term`: who writes an expression says where words end."""
        return True


def term_of(pattern: str, *, fixed: bool, ignore_case: bool, words: bool) -> Term:
    """Return a term as ``grep`` takes it: a text if it is ``fixed``, in whole words if asked for. Raises UsageError."""
    if not pattern:
        raise UsageError("nothing to search for: every line has the empty pattern")
    if len(pattern) > MOST_CHARACTERS:
        raise UsageError(f"a pattern of {len(pattern)} characters is too long: {MOST_CHARACTERS} are the most")
    if fixed and not words:
        return Literal(pattern, ignore_case=ignore_case)
    pattern = re.escape(pattern) if fixed else pattern
    return Regex(rf"(?<!\w)(?:{pattern})(?!\w)" if words else pattern, ignore_case=ignore_case)


def has_capitals(pattern: str) -> bool:
    """Say whether a pattern has capital letters, but for those that a backslash gives a meaning of their own."""
    text = _ESCAPED.sub("", pattern)
    return text != text.lower()
