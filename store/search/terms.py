"""Terms of a search: literals and regular expressions, each line by line as ``grep`` does."""

import os
import re
import select
import sys
import time
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from store.errors import UsageError
from store.search import patterns
from store.search.folding import fold
from store.search.needs import ANYTHING, Every, beginning_of, lines_with, literal, needs_of, one_of
from store.search.patterns import BEGINNING, LENGTH, Pattern, lines_of, spans_of

if TYPE_CHECKING:
    import subprocess

_SECONDS = 5.0
"""The most time for one text; a hundred times what the largest shown text takes if nothing is wrong."""
_ESCAPED = re.compile(r"\\.", re.DOTALL)

MOST_CHARACTERS = 10_000
"""The most characters of a pattern, or of a query."""


class Apart:
    """Finds the lines of texts that match a pattern, or the ``spans`` of matches in a line.

    For one thread at a time; the process ends with this object.
    """

    def __init__(self, *patterns: str, ignore_case: bool, spans: bool = False, seconds: float = _SECONDS) -> None:
        self._patterns = patterns
        self._ignore_case = ignore_case
        self._spans = spans
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def find(self, text: str) -> "array[int]":
        """Return the lines, counted from 0, in order, or where matches begin and end; UsageError if it takes long."""
        process = self._process or self._start()
        data = text.encode()
        assert process.stdin is not None
        try:
            process.stdin.write(LENGTH.pack(len(data)) + data)
            process.stdin.flush()
            until = time.monotonic() + self._seconds
            (count,) = LENGTH.unpack(self._read(process, LENGTH.size, until))
            return array("Q", self._read(process, 8 * count, until))
        except (TimeoutError, OSError) as error:
            self._process = None
            _end(process)
            raise UsageError(
                f"/{'/ or /'.join(self._patterns)}/ takes too long on some line: have it repeat less, or search for "
                "words"
            ) from error

    def _start(self) -> "subprocess.Popen[bytes]":
        # here, as few patterns need a process
        import subprocess

        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", patterns.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        weakref.finalize(self, _end, process)
        encoded = [pattern.encode() for pattern in self._patterns]
        assert process.stdin is not None
        process.stdin.write(BEGINNING.pack(self._ignore_case, self._spans, len(encoded)))
        process.stdin.write(b"".join(LENGTH.pack(len(pattern)) + pattern for pattern in encoded))
        return process

    def _read(self, process: "subprocess.Popen[bytes]", size: int, until: float) -> bytes:
        assert process.stdout is not None
        handle = process.stdout.fileno()
        pieces: list[bytes] = []
        while size:
            if not select.select([handle], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError
            piece = os.read(handle, min(size, 1 << 20))
            if not piece:
                raise BrokenPipeError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


class Text:
    """A text to search: as it is, and folded on first use."""

    __slots__ = ("_folded", "_lines", "plain")

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self._folded: str | None = None
        self._lines: list[str] | None = None

    @property
    def folded(self) -> str:
        """The text with case folded; it has the same lines."""
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


class Literal:
    """A text as it stands. One that goes over several lines is found on the first of them."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        self.need = literal(text)
        """The need of a text that can have it."""
        self._text = fold(text) if ignore_case else text
        self._word = re.compile(rf"(?<!\w){re.escape(self._text)}(?!\w)")
        self._plain = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)
        self._ignore_case = ignore_case

    def lines(self, text: Text) -> Iterator[int]:
        """Yield the lines that have it, counted from 0, each once, in order."""
        searched = text.folded if self._ignore_case else text.plain
        line = start = 0
        while (found := searched.find(self._text, start)) >= 0:
            line += searched.count("\n", start, found)
            yield line
            start = searched.find("\n", found) + 1
            if not start:
                return
            line += 1

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return where it begins and ends in a line; nothing where only case folding makes a longer text equal."""
        return _pairs(spans_of([self._plain], line))

    def whole(self, text: Text) -> bool:
        """Return whether it is there without being part of a longer word."""
        return self._word.search(text.folded if self._ignore_case else text.plain) is not None


class Regex:
    """A regular expression of Python's, or one of several, found within lines. Raises UsageError if it is invalid.

    Only lines with the literals that a match needs are looked at, and in this process where few steps can be taken.
    """

    def __init__(self, *patterns: str, ignore_case: bool) -> None:
        self._patterns: list[Pattern] = []
        needs: list[Every] = []
        for pattern in patterns:
            try:
                self._patterns.append(Pattern(pattern, ignore_case=ignore_case))
                needs.append(needs_of(self._patterns[-1].parsed))
            except (re.error, ValueError, OverflowError, RecursionError) as error:
                raise UsageError(f"/{pattern}/ is no regular expression: {error}") from error
        self.need = one_of(needs)
        self._beginnings = [beginning_of(one.parsed) for one in self._patterns]
        self._quick = all(one.quick for one in self._patterns)
        self._lines: Callable[[str], Iterable[int]] = Apart(*patterns, ignore_case=ignore_case).find
        self._spans: Callable[[str], Iterable[int]] = Apart(*patterns, ignore_case=ignore_case, spans=True).find

    def lines(self, text: Text) -> Iterator[int]:
        """As of a :class:`Literal`. UsageError where it takes too long."""
        # folding takes longer than looking for many an expression
        possible = None if self.need == ANYTHING else lines_with(self.need, text.folded)
        if possible is None:
            return iter(self._found(text))
        if not possible:
            return iter(())
        chosen = sorted(possible)
        found = self._found(Text("".join(f"{text.lines[line]}\n" for line in chosen)))
        return (chosen[at] for at in found)

    def _found(self, text: Text) -> Iterable[int]:
        return lines_of(self._patterns, text.plain) if self._is_quick(text) else self._lines(text.plain)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return where matches begin and end in a line. UsageError where it takes too long."""
        if self._is_quick(Text(line)):
            return _pairs(spans_of([one.compiled for one in self._patterns], line))
        return _pairs(self._spans(line))

    def _is_quick(self, text: Text) -> bool:
        """Return whether few steps can be taken in a text, whatever it says."""
        if self._quick:
            return True
        longest = max(map(len, text.lines), default=0)
        return all(
            pattern.quick_at(text.folded.count(begins) if begins else len(text.plain), longest)
            for pattern, begins in zip(self._patterns, self._beginnings, strict=True)
        )

    def whole(self, text: Text) -> bool:
        """Return true: the author of an expression says where words end."""
        return True


class Inverse:
    """The lines that a term does not match."""

    def __init__(self, term: Literal | Regex) -> None:
        self.need = ANYTHING
        self._term = term

    def lines(self, text: Text) -> Iterator[int]:
        """As of a :class:`Literal`."""
        matched = set(self._term.lines(text))
        return (line for line in range(len(text.lines)) if line not in matched)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return where the term itself is, as ``grep -vo`` does of the lines around."""
        return self._term.spans(line)

    def whole(self, text: Text) -> bool:
        """Return true: no word is looked for."""
        return True


Term = Literal | Regex | Inverse


def term_of(patterns: Sequence[str], *, fixed: bool, ignore_case: bool, words: bool, invert: bool = False) -> Term:
    """Return a term as ``grep`` takes it: any of some patterns. Raises UsageError.

    They are texts if they are ``fixed``, in whole words if asked for; ``invert``: the lines without them.
    """
    if not all(patterns):
        raise UsageError("nothing to search for: every line has the empty pattern")
    if (size := sum(map(len, patterns))) > MOST_CHARACTERS:
        raise UsageError(f"a pattern of {size} characters is too long: {MOST_CHARACTERS} are the most")
    if fixed and not words and len(patterns) == 1:
        term: Literal | Regex = Literal(patterns[0], ignore_case=ignore_case)
    else:
        said = [re.escape(pattern) if fixed else pattern for pattern in patterns]
        term = Regex(*(rf"(?<!\w)(?:{one})(?!\w)" if words else one for one in said), ignore_case=ignore_case)
    return Inverse(term) if invert else term


def _pairs(ends: Iterable[int]) -> list[tuple[int, int]]:
    each = iter(ends)
    return [*zip(each, each, strict=True)]


def has_capitals(pattern: str) -> bool:
    """Return whether a pattern has capital letters, except those to which a backslash gives a meaning of their own."""
    text = _ESCAPED.sub("", pattern)
    return text != text.lower()
