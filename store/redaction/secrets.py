"""Secrets: texts that are to be found in whatever bytes, in all their spellings, and taken out of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from store.errors import UsageError
from store.redaction import spellings
from store.redaction.spellings import MARK

LEAST_BYTES = 4
"""A text shorter than this stands in too many places that have nothing to do with it."""

_OF_A_LONG_ONE = 1 << 10
_LONGEST_SPELLING = 16
"""A byte may be four backslashes, a u and four digits."""

_FRAGMENT = 8
_LONG = 512
"""What is longer is looked for as programs write it, and not in whatever spelling there may be."""
_TOGETHER = 24
"""So many things to look for are looked for one after the other; more of them, all at once."""
_BROKEN = re.compile(rb"[A-Za-z0-9+/_-]{32}(?:(?:\\+r)?\\+n|\r?\n)[A-Za-z0-9+/_-]{4}")

_IN_LINE = re.compile(rb"((?:\\+r)?\\+n|\r?\n)|.")


class Place(NamedTuple):
    """Where a secret stands, and what is to stand there: ``mark``, or where that must be as long, ``filling``."""

    start: int
    end: int
    mark: bytes
    filling: bytes


class Secrets:
    """A set of texts. Pure; safe to share between threads."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        """Prepare to look for ``literals``. UsageError for one of fewer than four bytes."""
        # the longer first: of two that begin alike, all of the longer one goes
        self.literals = sorted(set(literals), key=lambda literal: (-len(literal), literal))
        if short := [literal for literal in self.literals if len(literal) < LEAST_BYTES]:
            raise UsageError(
                f"{len(short[-1])} bytes are too few to redact: they stand in places that have nothing to do with it;"
                f" name {LEAST_BYTES} or more"
            )
        self._long = [
            written for literal in self.literals if len(literal) > _LONG for written in spellings.as_written(literal)
        ]
        short = [literal for literal in self.literals if len(literal) <= _LONG]
        self._texts = [_Text(form) for literal in short for form in spellings.composed(literal)]
        self._plain = _Needles(text.literal for text in self._texts)
        self._encoded = _Needles(needle for text in self._texts for needle in text.needles)
        self._escapes = any(spellings.needs_escapes(text.literal) for text in self._texts)
        self._escaped = re.compile(b"|".join(spellings.escaped(text.literal) for text in self._texts) or rb"(?!)")

    def __bool__(self) -> bool:
        return bool(self.literals)

    @property
    def reach(self) -> int:
        """No spelling of them is longer than this, but for those that nobody writes."""
        short = (len(text.literal) * _LONGEST_SPELLING for text in self._texts)
        return max((*short, *(len(written) for written, _mark in self._long)), default=0)

    def hold(self, data: bytes) -> bool:
        """Say whether ``data`` has any of them."""
        return next(self._found(data), None) is not None

    def places(self, data: bytes) -> list[Place]:
        """Return where ``data`` has any of them, in order; they do not overlap."""
        found = sorted(self._found(data), key=lambda place: (place.start, -place.end))
        merged: list[Place] = []
        for place in found:
            if merged and place.start < merged[-1].end:
                before = merged[-1]
                if place.end > before.end:
                    merged[-1] = _joined(data, before, place)
                continue
            merged.append(place)
        return merged

    def removed(self, data: bytes) -> bytes:
        """Return ``data`` without them: a mark stands in their places, and what is around it is as it was."""
        return _replaced(data, ((place.start, place.end, place.mark) for place in self.places(data)))

    def blanked(self, data: bytes) -> bytes:
        """As :meth:`removed`, and as long as before."""
        return _replaced(data, ((place.start, place.end, place.filling) for place in self.places(data)))

    def fragments(self) -> Callable[[bytes], bool]:
        """Return what says whether bytes have any part of them: where a compressor has kept a piece of one."""
        parts = {
            literal[start : start + _FRAGMENT]
            for literal in (
                *(literal for text in self._texts for literal in (text.literal, *text.needles)),
                *(written[:_OF_A_LONG_ONE] for written, _mark in self._long),
            )
            for start in range(max(len(literal) - _FRAGMENT, 0) + 1)
        }
        return _Needles(parts).any_in

    @cached_property
    def _in_lines(self) -> re.Pattern[bytes]:
        """Return what finds base64 that is broken into lines: seldom asked for."""
        return re.compile(
            b"|".join(spellings.broken(needle) for text in self._texts for _phase, needle in text.base64) or rb"(?!)"
        )

    def _found(self, data: bytes) -> Iterator[Place]:
        escapes = b"\\" in data and (self._escapes or b"\\u" in data)
        if (escapes or self._plain.any_in(data)) and self._escaped.search(data):
            for text in self._texts:
                yield from text.as_text(data)
        for written, mark in self._long:
            for start in _occurrences(data, written):
                end = start + len(written)
                yield Place(start, end, mark, spellings.filling_as(mark, len(written)))
        if self._encoded.any_in(data):
            for text in self._texts:
                yield from text.encoded(data)
        if _BROKEN.search(data):
            for match in self._in_lines.finditer(data):
                filling = _IN_LINE.sub(lambda part: part[1] or b"K", match[0])
                yield Place(*match.span(), filling, filling)


class _Text:
    """One literal, and what it is spelt as where it does not stand for itself or in escapes."""

    def __init__(self, literal: bytes) -> None:
        self.literal = literal
        self._escaped = re.compile(spellings.escaped(literal))
        self.percent = spellings.percent_encoded(literal)
        self.wide = spellings.wide(literal)
        self.base64 = spellings.base64(literal)
        self.needles = [*self.percent, *self.wide, *(needle for _phase, needle in self.base64)]

    def as_text(self, data: bytes) -> Iterator[Place]:
        """Yield where it stands for itself, or in escapes."""
        match = self._escaped.search(data)
        while match is not None:
            start = spellings.whole_escapes(data, match.start())
            yield Place(start, match.end(), MARK, spellings.filling(match.end() - start))
            # it may begin again within itself
            match = self._escaped.search(data, match.start() + 1)

    def encoded(self, data: bytes) -> Iterator[Place]:
        """Yield where it stands in another encoding."""
        for needle in self.percent:
            for start in _occurrences(data, needle):
                yield Place(start, start + len(needle), MARK, spellings.filling(len(needle)))
        for needle in self.wide:
            for start in _occurrences(data, needle):
                filling = spellings.filling_wide(len(needle), needle)
                yield Place(start, start + len(needle), filling, filling)
        for phase, needle in self.base64:
            for at in _occurrences(data, needle):
                end = at + len(needle)
                start, filling = spellings.filling_base64(data, at, end, phase, len(self.literal))
                yield Place(start, start + len(filling), filling, filling)


class _Needles:
    """Looks for many byte strings at once."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        self._needles = [*dict.fromkeys(needles)]
        self._pattern = re.compile(_trie(sorted(self._needles))) if len(self._needles) > _TOGETHER else None

    def any_in(self, data: bytes) -> bool:
        if self._pattern is not None:
            return self._pattern.search(data) is not None
        return any(needle in data for needle in self._needles)


def _trie(needles: Sequence[bytes], depth: int = 0) -> bytes:
    """Return a pattern for any of ``needles``, which are sorted, that looks at each byte once for all of them."""
    shared = depth
    first, last = needles[0], needles[-1]
    while shared < len(first) and shared < len(last) and first[shared] == last[shared]:
        shared += 1
    head = re.escape(first[depth:shared])
    if shared == len(first):
        # the others go on from it: it is found with them
        return head
    branches: dict[int, list[bytes]] = {}
    for needle in needles:
        branches.setdefault(needle[shared], []).append(needle)
    return head + b"(?:" + b"|".join(_trie(some, shared) for some in branches.values()) + b")"


def _occurrences(data: bytes, needle: bytes) -> Iterator[int]:
    start = data.find(needle)
    while start >= 0:
        yield start
        start = data.find(needle, start + 1)


def _joined(data: bytes, one: Place, other: Place) -> Place:
    """Return one place for two that overlap; of two spellings at once, nothing is left that tells anything."""
    end = max(one.end, other.end)
    size = end - one.start
    filling = one.filling + other.filling[one.end - other.start :]
    mark = MARK if one.mark == other.mark == MARK else filling
    return Place(one.start, end, mark, filling if len(filling) == size else spellings.filling(size))


def _replaced(data: bytes, places: Iterable[tuple[int, int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for start, end, instead in places:
        pieces += (data[done:start], instead)
        done = end
    return b"".join((*pieces, data[done:])) if pieces else data
