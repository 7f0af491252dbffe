"""The passages of aider's history, by how their lines begin: what it printed, what was asked, what the model answered.

``> `` begins a line that aider printed, ``#### `` a line of a request; both end in two spaces, Markdown's line break. A
line ``# aider chat started at …`` begins each run. All else is the model's.
"""

import re
from collections.abc import Iterator

from store.formats.format import Span

STARTED = "# aider chat started at "
PRINTED, ASKED = "> ", "#### "
LINE_BREAK = "  "
_MARKED = rb"#### |>(?: |\r?$)|# aider chat started at "
_blank_lines = re.compile(rb"(?:[ \t\r]*+\n)*+").match
_passage = re.compile(
    rb"(?m:"
    rb"(?P<asked>(?:#### [^\n]*+\n?)++)|(?P<printed>(?:>(?: [^\n]*+|\r?$)\n?)++)"
    rb"|(?P<started># aider chat started at [^\n]*+)"
    rb"|(?P<answered>(?:(?!" + _MARKED + rb")[^\n]*+(?:\n|\Z(?<!\n)))++))"
).match
_mark = re.compile(rb"(?m:" + _MARKED + rb")").match
_ANSWERED = "answered"


def passage_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield the passages from offset ``start`` on: 0, or the end of an earlier one.

    Where that one goes on (a line was added to it), one span begins there.
    """
    position = start
    if start and _goes_on(data, start):
        yield Span(start, len(data))
        return
    while (position := _end(_blank_lines(data, position))) < len(data):
        found = _passage(data, position)
        if found is None or found.end() == position:
            yield Span(position, len(data))
            return
        end = _without_ending(data, position, found.end(), b" \t\r\n" if found.lastgroup == _ANSWERED else b"\r\n")
        if end > position:
            yield Span(position, end)
        position = found.end()


def _goes_on(data: memoryview, start: int) -> bool:
    """Say whether what follows the passage that ends at ``start`` belongs to it."""
    earlier = bytes(data[:start])
    line = earlier[earlier.rfind(b"\n") + 1 :]
    following = _end(_blank_lines(data, start))
    if following >= len(data):
        return False
    blank = bytes(data[start:following]).count(b"\n") > 1
    before, after = _mark(line), _mark(data, following)
    if before is None or after is None:
        return before is after
    return before[0][:2] == after[0][:2] and not blank and not before[0].startswith(b"# ")


def _without_ending(data: memoryview, start: int, end: int, endings: bytes) -> int:
    while end > start and data[end - 1] in endings:
        end -= 1
    return end


def _end(match: re.Match[bytes] | None) -> int:
    """Return the end of a match that cannot fail."""
    assert match is not None
    return match.end()
