"""Finding the JSON string literals of a payload that are long enough to cut out, without parsing it.

A parser would cost more than everything else that an import does to a line. Instead quotes are looked for backwards
from the end of a window as long as the shortest string wanted: no string of that length fits before the last quote
of the window, so the search goes on from there, and most of the payload is never looked at. Damaged JSON may yield
ranges that are no strings; whoever cuts there must be lossless for any range.
"""

import re

_ANY = re.compile(rb'"([^"]*)"')
_AFTER = re.compile(rb"[ \t\r\n]*(.?)")
_SCAN_BELOW = 48
_NOT_INSIDE = b",:]}"


def find_literals(payload: bytes, at_least: int) -> list[tuple[int, int]] | None:
    """Return the ranges between the quotes of all string values of ``at_least`` bytes (1 or more).

    Keys are left out. Ranges rise and do not overlap. Strings that end in an escaped backslash are so rare that they
    are taken for strings which go on; None says that this has led astray and :func:`find_literals_carefully` must be
    asked. It may also show in that a range is no JSON string.
    """
    if at_least < _SCAN_BELOW:
        return find_literals_carefully(payload, at_least)
    masked = payload.replace(b'\\"', b"__") if b"\\" in payload else payload
    return _long_ranges(masked, at_least, careful=False)


def find_literals_carefully(payload: bytes, at_least: int) -> list[tuple[int, int]]:
    """As :func:`find_literals`, at half the speed; right for every valid document."""
    masked = payload
    if b"\\" in payload:
        masked = payload.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    if at_least < _SCAN_BELOW:
        spans = (match.span(1) for match in _ANY.finditer(masked))
        return [(start, stop) for start, stop in spans if stop - start >= at_least and not _is_key(masked, stop)]
    return _long_ranges(masked, at_least, careful=True) or []


def _long_ranges(masked: bytes, at_least: int, *, careful: bool) -> list[tuple[int, int]] | None:
    """Find ranges of ``at_least`` bytes without a quote that begin inside a string, in text without escaped quotes."""
    ranges = []
    find, rfind = masked.find, masked.rfind
    quotes = counted = 0
    quote = find(b'"')
    last = len(masked) - at_least - 1
    while 0 <= quote < last:
        window = quote + 1 + at_least
        nearer = rfind(b'"', quote + 1, window)
        if nearer >= 0:
            quote = nearer
            continue
        end = find(b'"', window)
        quotes += masked.count(b'"', counted, quote)
        counted = quote
        opens = not quotes & 1
        if end < 0:
            if not careful:
                return None  # a string that nothing ends, or one that was taken for what stands between two
            break
        if not careful and (not opens or masked[quote + 1] in _NOT_INSIDE):
            return None
        if opens and not _is_key(masked, end):
            ranges.append((quote + 1, end))
        quote = end
    return ranges


def _is_key(masked: bytes, closing: int) -> bool:
    after = _AFTER.match(masked, closing + 1)
    return after is not None and after[1] == b":"
