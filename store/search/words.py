"""Words: the parts of texts that the index knows, and how those of a query are looked for among them.

A word is a run of letters, digits and underscores, with case folded (``store.search.needs``). Runs that are long, as
those of encoded data, and those of scripts without spaces between words are kept in parts: so there are few different
words however much is said, and any piece of a run is within one of its parts, or can be made of such pieces:

- A run of more than :data:`LONGEST` characters has parts of that size, which overlap by one less than
  :data:`_PIECE` characters or more: a piece of that size is whole in one of them.
- A run of a script without spaces has its pairs of characters as parts.

Where a plain word follows another, of ASCII alone and no longer than that, the index knows a little of it, too: the one
that comes first has the *mark* of the other (:func:`mark_of`) where it stands. So of the texts that have the words of a
phrase, most of those that have not got the phrase need not be read.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import zip_longest
from typing import NamedTuple

LONGEST = 64
"""The most characters of a word."""
_PIECE = 17
_STEP = LONGEST - _PIECE + 1
_REMEMBERED = 1 << 14
"""Runs of letters beyond ASCII, of which texts have the same ones again and again."""

# South East Asian scripts, all of China, Japan and Korea; a script too many or too few only makes the index larger
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u1aaf\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef"
    "\U00016f00-\U0001b2ff\U00020000-\U0003ffff"
)
_SPACED = (
    "\x00-\u0dff\u10a0-\u177f\u1800-\u194f\u1ab0-\u2e7f\ud800-\uf8ff\ufb00-\ufeff\ufff0-\U00016eff"
    "\U0001b300-\U0001ffff\U00040000-\U0010ffff"
)
WORD_BYTES = bytes(
    ord(chr(byte).lower()) if chr(byte).isalnum() or byte == ord("_") else ord(" ") for byte in range(128)
) + bytes(range(128, 256))
"""Of each byte, what stands for it where words are apart: a space between them."""
_ascii_runs = re.compile(r"(\w+)", re.ASCII).finditer


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return an expression with the scripts in it, which takes a millisecond to compile, and which few texts need."""
    return re.compile(pattern)


def _spaced_words(text: str) -> Iterable[str]:
    return _compiled(f"[^\\W{_UNSPACED}]+").findall(text)


def _unspaced_words(text: str) -> Iterable[str]:
    return _compiled(f"[^\\W{_SPACED}]+").findall(text)


def _runs(text: str) -> Iterable[re.Match[str]]:
    """Return the runs in a text; the first group of a match is there if its script has spaces."""
    if text.isascii():
        return _ascii_runs(text)
    return _compiled(f"([^\\W{_UNSPACED}]+)|[^\\W{_SPACED}]+").finditer(text)


END = b"\n"
"""The byte between words where they stand one after the other."""


ALL_MARKS = 0xFFFF_FFFF
"""The marks that stand for those of any words."""
_WHOLE = (1 << 64) - 1
_FACTOR = 0x9E37_79B9_7F4A_7C15


@lru_cache(maxsize=_REMEMBERED)
def mark_of(word: bytes) -> int:
    """Return the mark of a plain word: one bit of 32, the same as in ``store.search._words``."""
    found = 0xCBF2_9CE4_8422_2325
    for at in range(0, len(word) - 7, 8):
        found = (found ^ int.from_bytes(word[at : at + 8], "little")) * _FACTOR & _WHOLE
        found ^= found >> 29
    rest = word[len(word) & ~7 :]
    # as the extension begins with their number
    found = (found ^ int.from_bytes(bytes((len(rest),)) + rest, "big")) * _FACTOR & _WHOLE
    return 1 << (found >> 59)


def is_plain(run: bytes) -> bool:
    """Return whether a run in UTF-8 is one word, of ASCII alone."""
    return len(run) <= LONGEST and run.isascii()


def words_of_run(run: bytes) -> Iterable[bytes]:
    """Return the words of a run, in UTF-8 with case folded, that need not be one itself."""
    return _words_of_short(run) if len(run) <= LONGEST else _words_of(run)


@lru_cache(maxsize=_REMEMBERED)
def _words_of_short(run: bytes) -> tuple[bytes, ...]:
    return tuple(_words_of(run))


def forget() -> None:
    """Give back the memory of what is remembered of words."""
    mark_of.cache_clear()
    _words_of_short.cache_clear()


def _words_of(run: bytes) -> Iterator[bytes]:
    text = run.decode()
    for word in (text,) if run.isascii() else _spaced_words(text):
        # by characters, not bytes
        yield from (part.encode() for part in (_parts(word) if len(word) > LONGEST else (word,)))
    if not run.isascii():
        yield from (pair.encode() for unspaced in _unspaced_words(text) for pair in _pairs(unspaced))


def _parts(word: str) -> Iterator[str]:
    return (word[at : at + LONGEST] for at in range(0, max(len(word) - _PIECE, 0) + 1, _STEP))


def _pairs(run: str) -> Iterator[str]:
    return (run[at : at + 2] for at in range(max(len(run) - 1, 1)))


class Piece(NamedTuple):
    """A piece of a word, in UTF-8, with :data:`END` before or after it where the word ends there.

    ``mark`` is that of the word which follows, 0 if that is not known.
    """

    text: bytes
    mark: int = 0


def pieces_of(folded: str) -> list[Piece]:
    """Return what stands among the words of every text that has a folded literal; nothing if that can be anything."""
    found: dict[Piece, None] = {}
    runs = [*_runs(folded)]
    for run, following in zip_longest(runs, runs[1:]):
        before = END if run.start() else b""
        after = END if run.end() < len(folded) else b""
        text = run[0]
        if run[1] is None:
            found.update(dict.fromkeys(Piece(pair.encode()) for pair in _pairs(text)))
        elif before and after and len(text) <= LONGEST:
            found[Piece(before + text.encode() + after, _mark_after(folded, run, following))] = None
        elif before or after or len(text) > 1:
            parts = [text[at : at + _PIECE].encode() for at in range(0, len(text) - _PIECE, _PIECE)]
            parts.append(text[-_PIECE:].encode())
            parts[0] = before + parts[0]
            parts[-1] += after
            mark = _mark_after(folded, run, following)
            found.update(dict.fromkeys(Piece(part, mark * (part is parts[-1])) for part in parts))
    return list(found)


def _mark_after(folded: str, run: re.Match[str], following: re.Match[str] | None) -> int:
    """Return the mark of the run that follows another in a literal; 0 if it may be more than that, or no plain word."""
    # beyond ASCII, signs between words make one run of them, which is no plain word
    if following is None or not folded[run.end() : following.start()].isascii():
        return 0
    word, beyond = following[0].encode(), folded[following.end() : following.end() + 1]
    return mark_of(word) if beyond and beyond.isascii() and is_plain(word) else 0
