"""Secrets: texts to be found in any bytes, in all their spellings, and removed.

A spelling is something to look for, and a way to write something else in its place.

A text is itself in UTF-8; in JSON, some of its characters as escapes, or all of them as ``\u0041``, and where
JSON is a string of JSON, with more backslashes; percent-encoded in a URL; in UTF-16; and in base64, where what precedes
it decides on one of three spellings. Unicode has several ways to compose some characters: each is looked for.
"""

import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from store.content.cuts import JSON_SPELLINGS, write
from store.errors import UsageError
from store.importing.likeness import MARK as MARK

_FILLING = b"*"
_ESCAPED = {0x08: b"b", 0x09: b"t", 0x0A: b"n", 0x0C: b"f", 0x0D: b"r"}
_DEEPEST = 2
_FEWEST_BASE64 = 6
"""The number of characters of base64 that are not equal by chance."""
_ALPHABET = re.compile(rb"[A-Za-z0-9+/_-]*={0,2}")
_CUT_ESCAPE = re.compile(rb"(\\+)(u[0-9a-fA-F]{0,3})?\Z")
_LONGEST_CUT_ESCAPE = 64
_BREAK = rb"(?:(?:\\+r)?\\+n|\r?\n)?"
LEAST_BYTES = 4
"""The shortest text: a shorter one occurs in too many unrelated places."""

_OF_A_LONG_ONE = 1 << 10
_LONGEST_SPELLING = 16
"""The longest spelling of a byte: four backslashes, a u and four digits."""

_FRAGMENT = 8
_LONG = 512
"""The length above which a text is looked for only in the spellings that programs write."""
_TOGETHER = 24
"""The number of needles that are looked for one after the other; more of them, all at once."""
_BROKEN = re.compile(
    rb"[\\\r\n](?<=[A-Za-z0-9+/_-]{32}.)(?:(?<=\n)|(?<=\r)\n|(?<=\\)\\*(?:r\\+)?n)[A-Za-z0-9+/_-]{4}", re.DOTALL
)
"""The end of a line within base64. It begins with what is rare: all else is passed over at once."""
_AT_ONCE = 1 << 15
"""The bytes that are searched at a time: every other thread is held up meanwhile."""
_DEEP = b"\\" * 11
"""Backslashes in which a spelling may be longer than ``_LONGEST_SPELLING``."""

_IN_LINE = re.compile(rb"((?:\\+r)?\\+n|\r?\n)|.")


def _text_of(literal: bytes) -> str | None:
    try:
        return literal.decode()
    except UnicodeDecodeError:
        return None


def composed(literal: bytes) -> list[bytes]:
    """Return the compositions of a literal in UTF-8, itself first; only itself if it is not text."""
    if (text := _text_of(literal)) is None:
        return [literal]
    forms = [text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    return [form.encode() for form in dict.fromkeys(forms)]


def escaped(literal: bytes) -> bytes:
    """Return a pattern for a literal, with any of its characters as escapes of JSON, however deep."""
    text = _text_of(literal)
    return re.escape(literal) if text is None else b"".join(map(_character, text))


def _character(character: str) -> bytes:
    code = ord(character)
    units = character.encode("utf-16-be")
    spelt = b"".join(rb"\\\\*u" + _either_case(units[at : at + 2].hex().encode()) for at in range(0, len(units), 2))
    if character == "\\":
        # two for one, where that comes out even: what follows may be an escape of its own
        return rb"(?:(?:\\\\)+|\\|" + spelt + rb")"
    if character in '"/':
        return rb"(?:\\*" + character.encode() + rb"|" + spelt + rb")"
    forms = [re.escape(character.encode()), spelt]
    if code in _ESCAPED:
        forms.append(rb"\\\\*" + _ESCAPED[code])
    return b"(?:" + b"|".join(forms) + b")"


def _either_case(digits: bytes) -> bytes:
    return b"".join(b"[%b%b]" % (d, d.upper()) if d.isalpha() else d for d in (bytes([b]) for b in digits))


def needs_escapes(literal: bytes) -> bool:
    r"""Return whether JSON has other spellings of a literal, apart from ``\u0041`` for letters."""
    return any(byte < 0x20 or byte in b'"\\/' or byte >= 0x7F for byte in literal)


def percent_encoded(literal: bytes) -> list[bytes]:
    """Return the spellings of a literal in a URL, apart from the literal itself."""
    forms = [quote_from_bytes(literal, safe=safe).encode() for safe in ("/", "", "/:@!$&'()*+,;=~")]
    forms += [form.lower() for form in forms if literal.lower() == literal]
    return [form for form in dict.fromkeys(forms) if form != literal]


def wide(literal: bytes) -> list[bytes]:
    """Return a literal in UTF-16, in both byte orders; nothing if it is not text."""
    text = _text_of(literal)
    return [] if text is None else [text.encode("utf-16-le"), text.encode("utf-16-be")]


def base64(literal: bytes) -> list[tuple[int, bytes]]:
    """Return (phase, characters): the base64 of a literal, by the number of bytes before it in a group of three.

    Only characters that depend on the literal alone, in both alphabets. None if they are few.
    """
    found: dict[tuple[int, bytes], None] = {}
    for phase in range(3):
        first, end = _first(phase), (phase + len(literal)) * 8 // 6
        if end - first < _FEWEST_BASE64:
            continue
        for encode in (b64encode, urlsafe_b64encode):
            found[phase, encode(bytes(phase) + literal)[first:end]] = None
    return [*found]


def broken(characters: bytes) -> bytes:
    """Return a pattern for characters of base64 that may be broken into lines anywhere."""
    return _BREAK.join(re.escape(bytes([character])) for character in characters)


def _first(phase: int) -> int:
    return -(-phase * 8 // 6)


def as_written(literal: bytes) -> list[tuple[bytes, bytes]]:
    """Return the spellings of a long literal by programs, each with its replacement."""
    found = {literal: MARK, b64encode(literal): b64encode(MARK)}
    if (text := _text_of(literal)) is None:
        return [*found.items()]
    todo = [literal]
    for _ in range(_DEEPEST):
        todo = [bytes(write(spelling, inner))[1:-1] for inner in todo for spelling in JSON_SPELLINGS]
        found |= dict.fromkeys(todo, MARK)
    found |= {text.encode("utf-16-le"): MARK.decode().encode("utf-16-le")}
    return [*found.items()]


# -- writing something else --------------------------------------------------------------------------------------------


def whole_escapes(data: bytes, start: int) -> int:
    """Return the place to begin instead of ``start``, so that no escape of JSON is cut in two."""
    cut = _CUT_ESCAPE.search(data[max(start - _LONGEST_CUT_ESCAPE, 0) : start])
    if cut is None:
        return start
    backslashes, rest = len(cut[1]), cut[2] or b""
    if backslashes % 2 == 0 and backslashes < _LONGEST_CUT_ESCAPE:
        # all of them are escaped themselves
        return start
    return start - len(rest) - 1


def filling_of(size: int) -> bytes:
    """Return a filling of exactly ``size`` bytes."""
    return (MARK if size >= len(MARK) else b"").ljust(size, _FILLING)


def filling_as(mark: bytes, size: int) -> bytes:
    """Return a filling of ``size`` bytes, spelled like ``mark``."""
    if mark == MARK or len(mark) > size:
        return filling_of(size)
    return mark[:-1].replace(b"=", b"A").ljust(size, b"A") if b"\0" not in mark else filling_wide(size, mark)


def filling_wide(size: int, first: bytes) -> bytes:
    """Return a filling of ``size`` bytes of UTF-16; ``first`` is their beginning."""
    pair = _FILLING.decode().encode("utf-16-be" if first[:1] == b"\0" else "utf-16-le")
    return pair * (size // 2)


def filling_base64(data: bytes, start: int, end: int, phase: int, size: int) -> tuple[int, bytes]:
    """Return where to write, and what: base64 that has ``size`` bytes other than those that ``start`` to ``end`` tell.

    ``phase`` is as of :func:`base64`. As many characters; those around it go on to say what they said.
    """
    begin = start - _first(phase)
    stop = begin + -(-(phase + size) // 3) * 4
    around = data[begin:stop] if begin >= 0 else b""
    group = around.replace(b"-", b"+").replace(b"_", b"/")
    if around and len(around) == stop - begin and _ALPHABET.fullmatch(around):
        decoded = a2b_base64(group)
        if len(decoded) >= phase + size:
            kept = decoded[:phase] + filling_of(size) + decoded[phase + size :]
            encoded = b2a_base64(kept, newline=False)
            return begin, encoded.replace(b"+", b"-").replace(b"/", b"_") if group != around else encoded
    # it ends in the middle of a group, or is no base64 by itself
    return start, b2a_base64(_FILLING * (end - start), newline=False)[: end - start]


class Occurrence(NamedTuple):
    """The place of a secret and its replacement: ``mark``, or ``filling`` if the length must stay."""

    start: int
    end: int
    mark: bytes
    filling: bytes


class Secrets:
    """A set of texts. Pure; safe to share between threads."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        """Prepare the search for ``literals``. Raises UsageError for one of fewer than four bytes."""
        # the longer first: of two that begin alike, all of the longer one goes
        self.literals = sorted(set(literals), key=lambda literal: (-len(literal), literal))
        if short := [literal for literal in self.literals if len(literal) < LEAST_BYTES]:
            raise UsageError(
                f"{len(short[-1])} bytes are too few to redact: they stand in places that have nothing to do with it;"
                f" name {LEAST_BYTES} or more"
            )
        self._long = [written for literal in self.literals if len(literal) > _LONG for written in as_written(literal)]
        short = [literal for literal in self.literals if len(literal) <= _LONG]
        self._texts = [_Text(form) for literal in short for form in composed(literal)]
        self._plain = _Needles(text.literal for text in self._texts)
        self._encoded = _Needles(needle for text in self._texts for needle in text.needles)
        self._escapes = any(needs_escapes(text.literal) for text in self._texts)
        self._escaped = re.compile(b"|".join(escaped(text.literal) for text in self._texts) or rb"(?!)")

    def __bool__(self) -> bool:
        return bool(self.literals)

    @cached_property
    def reach(self) -> int:
        """The length of the longest spelling that programs write."""
        short = (len(text.literal) * _LONGEST_SPELLING for text in self._texts)
        return max((*short, *(len(written) for written, _mark in self._long)), default=0)

    def hold(self, data: bytes) -> bool:
        """Return whether ``data`` has any of them."""
        if len(data) <= 2 * _AT_ONCE or _DEEP in data:
            return next(self._found(data), None) is not None
        # each piece with the end of the one before it
        step = max(_AT_ONCE, self.reach)
        starts = range(0, len(data), step)
        pieces = (data[max(start - self.reach, 0) : start + step] for start in starts)
        return any(next(self._found(piece), None) is not None for piece in pieces)

    def places(self, data: bytes) -> list[Occurrence]:
        """Return their places in ``data``, in order; they do not overlap."""
        found = sorted(self._found(data), key=lambda place: (place.start, -place.end))
        merged: list[Occurrence] = []
        for place in found:
            if not merged or place.start >= merged[-1].end:
                merged.append(place)
            elif place.end > merged[-1].end:
                merged[-1] = _joined(merged[-1], place)
        return merged

    def removed(self, data: bytes) -> bytes:
        """Return ``data`` with a mark in place of each, otherwise unchanged."""
        return _replaced(data, ((place.start, place.end, place.mark) for place in self.places(data)))

    def blanked(self, data: bytes) -> bytes:
        """Return ``data`` like :meth:`removed`, at the same length."""
        return _replaced(data, ((place.start, place.end, place.filling) for place in self.places(data)))

    def fragments(self) -> Callable[[bytes], bool]:
        """Return a test for any part of them, as compressors keep pieces."""
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
        return re.compile(
            b"|".join(broken(needle) for text in self._texts for _phase, needle in text.base64) or rb"(?!)"
        )

    def _found(self, data: bytes) -> Iterator[Occurrence]:
        escapes = b"\\" in data and (self._escapes or b"\\u" in data)
        if (escapes or self._plain.any_in(data)) and self._escaped.search(data):
            for text in self._texts:
                yield from text.as_text(data)
        for written, mark in self._long:
            for start in _occurrences(data, written):
                end = start + len(written)
                yield Occurrence(start, end, mark, filling_as(mark, len(written)))
        if self._encoded.any_in(data):
            for text in self._texts:
                yield from text.encoded(data)
        if _BROKEN.search(data):
            for match in self._in_lines.finditer(data):
                filling = _IN_LINE.sub(lambda part: part[1] or b"K", match[0])
                yield Occurrence(*match.span(), filling, filling)


class _Text:
    def __init__(self, literal: bytes) -> None:
        self.literal = literal
        self._escaped = re.compile(escaped(literal))
        self.percent = percent_encoded(literal)
        self.wide = wide(literal)
        self.base64 = base64(literal)
        self.needles = [*self.percent, *self.wide, *(needle for _phase, needle in self.base64)]

    def as_text(self, data: bytes) -> Iterator[Occurrence]:
        match = self._escaped.search(data)
        while match is not None:
            start = whole_escapes(data, match.start())
            yield Occurrence(start, match.end(), MARK, filling_of(match.end() - start))
            # it may begin again within itself
            match = self._escaped.search(data, match.start() + 1)

    def encoded(self, data: bytes) -> Iterator[Occurrence]:
        for needle in self.percent:
            for start in _occurrences(data, needle):
                yield Occurrence(start, start + len(needle), MARK, filling_of(len(needle)))
        for needle in self.wide:
            for start in _occurrences(data, needle):
                filling = filling_wide(len(needle), needle)
                yield Occurrence(start, start + len(needle), filling, filling)
        for phase, needle in self.base64:
            for at in _occurrences(data, needle):
                end = at + len(needle)
                start, filling = filling_base64(data, at, end, phase, len(self.literal))
                yield Occurrence(start, start + len(filling), filling, filling)


class _Needles:
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


def _joined(one: Occurrence, other: Occurrence) -> Occurrence:
    """Return one place for two, of which the other reaches farther, so that nothing of either is left."""
    filling = one.filling + other.filling[one.end - other.start :]
    mark = MARK if one.mark == other.mark == MARK else filling
    size = other.end - one.start
    return Occurrence(one.start, other.end, mark, filling if len(filling) == size else filling_of(size))


def _replaced(data: bytes, places: Iterable[tuple[int, int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for start, end, instead in places:
        pieces += (data[done:start], instead)
        done = end
    return b"".join((*pieces, data[done:])) if pieces else data
