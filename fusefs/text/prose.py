r"""Prose in a transcript: what people and models write stays Markdown, and stays within its section.

A text is drawn almost as it was written. Outside of its code:

- A heading is two levels deeper: ``## Plan`` becomes ``#### Plan``. So levels 1 and 2 are the transcript's own.
- A line that underlines a heading begins with a backslash, ``\---``, and so does HTML: ``\<details>``.
- A fence that is open at the end is closed, with one backtick (or tilde) more than it has.

In code, a line that begins with ``## `` gets a space before it: no program takes that for a heading then.

:func:`read` takes all of that back. For that, a line or a tag that has backslashes already gets more of them, and a
last line that closes its fence with too many backticks gets one more. A text for which this cannot be done (a few that
mix lists, fences and headings in odd ways, and those with a bare carriage return) stands in a fence as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from fusefs.text.grammar import fence

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BEFORE = r"[ \t]*(?:>[ \t]*|(?:[-+*]|[0-9]{1,9}[.)])[ \t]+)*"
"""The marks that may stand before a block in its line: space, and the marks of quotes and lists."""
_TAG = r"<(?=[A-Za-z/!?])(?![A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|[^\s<>@/]+@[^\s<>]+>)"
"""Where HTML begins, but for addresses: ``<https://example.com>``."""

_heading = re.compile(rf"^({_BEFORE})(#+)(?=[ \t\r]|$)", re.MULTILINE)
_drawn_heading = re.compile(rf"^({_BEFORE})##(#+)(?=[ \t\r]|$)", re.MULTILINE)
_underline = re.compile(r"^(?=[ \t>]*\\|(?<=[^\n\r]\n)|(?<=[^\n]\r\n))([ \t>]*)(\\*(?:-+|=+)[ \t]*\r?)$", re.MULTILINE)
_drawn_underline = re.compile(r"^([ \t>]*)\\(\\*(?:-+|=+)[ \t]*\r?)$", re.MULTILINE)
_tag = re.compile(rf"(?<!\\)(\\*){_TAG}")
_unsettled = re.compile(rf"{_BEFORE}[#=\\`~-]*[ \t\r]*\Z|.*<").match
_begins = re.compile(_BEFORE).fullmatch
# Elements that hold what comes after them, or are headings, and what is hidden up to its end. Others that begin within
# a line change nothing else.
_holder = re.compile(
    r"<[!?]|</?(?:h[1-6]|details|summary|script|style|pre|textarea|title|xmp|plaintext|template|select|option|button|svg|math"
    r"|iframe|frameset|no(?:frames|embed|script)|object|video|audio|canvas|dialog|form|fieldset|table|t(?:head|body|foot)"
    r"|t[rdh]|caption|col(?:group)?|[ou]l|li|d[ltd]|div|p|center|blockquote|body|head|html|main|nav|section|article"
    r"|aside|header|footer|figure|figcaption|menu|address)(?![A-Za-z0-9-])",
    re.IGNORECASE,
).match

_fenced = re.compile(
    r"^(?P<run>(?P<tick>[`~])(?P=tick){2,})(?!(?<=`).*`).*(?:\n(?! {0,3}(?P=run)(?P=tick)*[ \t]*\r?$).*)*"
    r"(?:\n {0,3}(?P<close>(?P=run)(?P=tick)*)[ \t]*\r?$)?"
    r"|^(?P<in> {1,3})(?P<inner>(?P<mark>[`~])(?P=mark){2,})(?!(?<=`).*`).*\n"
    r"(?:(?! *(?P=inner)(?P=mark)*[ \t]*\r?$)(?:(?P=in).*|[ \t]*\r?)\n)*(?P=in)(?P=inner)(?P=mark)*[ \t]*\r?$",
    re.MULTILINE,
)
_nested = re.compile(
    rf"^(?=[ \t>]|[-+*][ \t]|[0-9]){_BEFORE}(?:#+[ \t\r\n]|#+$|`{{3}}|~{{3}}|\\*(?:-+|=+)[ \t]*\r?$)",
    re.MULTILINE,
)
"""Lines that are one thing or another, depending on the lists and quotes that they stand in."""

_NEAR = 4096
"""How far to look around a tag, which may be one of very many."""
_LONGEST = 1 << 18
"""The longest text that is parsed."""
_HEADING = [("heading_open", 0), ("heading_close", 0)]
_WHOLE = "text as written"
_whole = re.compile(rf"(`{{3,}}){_WHOLE}\n(.*)\n\1", re.DOTALL).fullmatch
_marks = re.compile(r"\n(?= *## )")
_spaced_marks = re.compile(r"^ (?= *## )", re.MULTILINE)
_bare_return = re.compile(r"\r(?!\n)").search
_runs = re.compile(r"\\.|(`+)").finditer

_Change = Callable[[str], str]


class _Code(Struct, frozen=True, gc=False):
    """Code from ``start`` to ``end``: a fence that begins with ``run`` and ends with ``close`` ("": at the end of all).

    What is part of a list or a quote, or is code because it is indented, has no ``run``.
    """

    start: int
    end: int
    run: str = ""
    close: str = ""


def draw(text: str, *, ends: bool = True) -> str:
    """Return a text as it stands in a transcript, but for the newline at its end; one that goes on has no end yet."""
    if not ("#" in text or "<" in text or "```" in text or "~~~" in text or "\r" in text or _underline.search(text)):
        return text
    if not (_bare_return(text) or _whole(text)):
        if (spans := _fences(text)) is not None:
            return _drawn(text, spans, ends=ends)
        if len(text) <= _LONGEST:
            drawn = _drawn(text, _parsed(text), ends=ends)
            if not ends or _is_true(drawn, text):
                return drawn
    ticks = fence(text, least=3)
    return f"{ticks}{_WHOLE}\n{code(text)}\n{ticks}"


def code(text: str) -> str:
    """Return a text as it stands in a fence."""
    if "## " not in text:
        return text
    # not by the beginnings of lines, which takes ten times as long
    first = " " if text.lstrip(" ").startswith("## ") else ""
    return first + _marks.sub("\n ", text)


def read_code(drawn: str) -> str:
    """Return the text that :func:`code` draws as ``drawn``."""
    return _spaced_marks.sub("", drawn) if " ## " in drawn else drawn


def read(drawn: str) -> str:
    """Return the text that :func:`draw` draws as ``drawn``."""
    if found := _whole(drawn):
        return read_code(found[2])
    spans = _fences(drawn)
    return _undrawn(drawn, _parsed(drawn) if spans is None else spans)


def in_line(text: str) -> str:
    """Return a part of one line, such as a title, without HTML that goes on behind it."""
    return _tag.sub(lambda found: f"{found[1] * 2}\\<" if found[1] or _holder(text, found.start()) else found[0], text)


def read_line(drawn: str) -> str:
    """Return the part of a line that :func:`in_line` draws as ``drawn``."""
    return _tag.sub(lambda found: "\\" * (len(found[1]) // 2) + "<", drawn)


def settled(text: str) -> str:
    """Return a text that goes on without the line at its end whose beginning may come to be drawn otherwise."""
    start = text.rfind("\n") + 1
    return text[:start] if _unsettled(text, start) else text


def _drawn(text: str, spans: Sequence[_Code], *, ends: bool) -> str:
    drawn = _changed(text, spans, _said, code)
    if not ends or not spans or spans[-1].end < len(text) or not spans[-1].run:
        return drawn
    run, close = spans[-1].run, spans[-1].close
    if not close:
        return f"{drawn}\n{run}{run[0]}"
    if len(close) == len(run):
        return drawn
    at = drawn.rindex(close)
    return f"{drawn[:at]}{run[0]}{drawn[at:]}"


def _changed(text: str, spans: Sequence[_Code], change: _Change, change_code: _Change) -> str:
    """Return a text in which its code and all else are changed."""
    parts: list[str] = []
    end = 0
    for one in spans:
        parts += (change(text[end : one.start]), change_code(text[one.start : one.end]))
        end = one.end
    return "".join(parts) + change(text[end:])


def _said(text: str) -> str:
    if "#" in text:
        text = _heading.sub(r"\1##\2", text)
    text = _underline.sub(r"\1\\\2", text)
    if "<" in text:
        text = _tag.sub(lambda found: f"{found[1] * 2}\\<" if _is_html(text, found) else found[0], text)
    return text


def _undrawn(drawn: str, spans: Sequence[_Code]) -> str:
    text = _changed(drawn, spans, _unsaid, read_code)
    if spans and spans[-1].end == len(drawn) and (over := len(spans[-1].close) - len(spans[-1].run)) > 0:
        head, close = text[: text.rindex("\n")], text[text.rindex("\n") :]
        return head if over == 1 else head + close.replace(spans[-1].run[0], "", 1)
    return text


def _unsaid(text: str) -> str:
    text = _drawn_heading.sub(r"\1\2", text)
    text = _drawn_underline.sub(r"\1\2", text)
    return read_line(text) if "<" in text else text


def _is_html(text: str, found: re.Match[str]) -> bool:
    """Return whether what looks like a tag may be one, and is of effect: at the beginning of a line all are."""
    at = found.start()
    if found[1]:
        return True
    start = text.rfind("\n", max(at - _NEAR, 0), at) + 1
    if (start or at <= _NEAR) and _begins(text, start, at):
        return True
    if not _holder(text, at):
        return False
    # it is code if it stands between backticks, and no line of the paragraph above leaves any open
    above = text.rfind("\n\n", max(start - _NEAR, 0), start) + 1
    if (not above and start > _NEAR) or at - start > _NEAR:
        return True
    if any(not _code_in(line)[1] for line in text[above:start].split("\n") if "`" in line):
        return True
    spans, _closed = _code_in(text[start : start + _NEAR].partition("\n")[0])
    return not any(first <= at - start < last for first, last in spans)


def _code_in(line: str) -> tuple[list[tuple[int, int]], bool]:
    """Return where code stands between backticks in a line, and whether all that begins there ends there."""
    spans: list[tuple[int, int]] = []
    closed, end = True, 0
    for found in _runs(line):
        if found[1] and found.start() >= end:
            if (last := re.compile(rf"(?<!`){found[1]}(?!`)").search(line, found.end())) is None:
                closed, end = False, found.end()
            else:
                end = last.end()
                spans.append((found.start(), end))
    return spans, closed


def _fences(text: str) -> list[_Code] | None:
    """Return the fences of a text, None if lists, quotes and indented code matter as well.

    A fence that begins its line ends all lists and quotes before it, so it needs no look at them. Nor does one that is
    indented a little, if all its lines are indented as far: whatever list it is in, they are in there, too.
    """
    spans: list[_Code] = []
    end = 0
    for found in _fenced.finditer(text) if "```" in text or "~~~" in text else ():
        if _nested.search(text, end, found.start()):
            return None
        end = found.end()
        spans.append(_Code(found.start(), end, found["run"] or "", found["close"] or ""))
    return None if _nested.search(text, end) else spans


def _parsed(text: str) -> list[_Code]:
    """Return the code in a text, as a parser of Markdown finds it in which no HTML is left."""
    return _spans(text, _parser("inline", "html_block").parse(text))


def _spans(text: str, tokens: Sequence[Token]) -> list[_Code]:
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    spans: list[_Code] = []
    for token in tokens:
        if token.type in ("fence", "code_block") and token.map:
            # one that is open goes on to the end of what was parsed
            first, last = token.map[0], min(token.map[1], len(lines))
            start, end = starts[first], min(starts[last] - 1, len(text))
            if token.level or token.type == "code_block":
                spans.append(_Code(start, end))
                continue
            closing = lines[last - 1].strip(" \t\r") if last - 1 > first else ""
            is_closed = closing.startswith(token.markup) and not closing.strip(token.markup[0])
            spans.append(_Code(start, end, token.markup, closing if is_closed else ""))
    return spans


def _is_true(drawn: str, text: str) -> bool:
    """Return whether ``drawn`` is read as ``text``, holds no heading of level 1 or 2, and leaves alone what follows."""
    tokens = _parser(*(() if "<" in drawn else ("inline",))).parse(f"{drawn}\n\n## end\n")
    high = [token for token in tokens if token.type == "html_block" or token.tag in ("h1", "h2")]
    if "\n## " in f"\n{drawn}" or [(token.type, token.level) for token in high] != _HEADING:
        return False
    inline = (part for token in tokens for part in token.children or () if part.type == "html_inline")
    if any(_holder(part.content) for part in inline):
        return False
    spans = _fences(drawn)
    return _undrawn(drawn, _spans(drawn, tokens) if spans is None else spans) == text


@cache
def _parser(*disabled: str) -> MarkdownIt:
    """Return a parser that knows the rules that matter here; links would take long where many begin and none ends."""
    from markdown_it import MarkdownIt  # few texts need it, and it takes long to import

    parser = MarkdownIt("commonmark").disable(list(disabled))
    parser.inline.ruler.enableOnly(["text", "newline", "escape", "backticks", "autolink", "html_inline"])
    return parser
