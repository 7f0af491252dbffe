"""Texts that stand in a record twice, once as the tool said them and once as the model was told.

A change of one is carried over to the other where it is plain how: where they are the same, but for an error's
wrapping or blanks around them; where one is a run of whole lines of the other; where one has its lines numbered.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from operator import eq

from store.events.event import ValuePath
from store.formats.core.json_view import texts_in

_WRAPPING = "<tool_use_error>", "</tool_use_error>"
_ERROR = "Error: "
_numbered = re.compile(r"( *)(\d+)([→\t])(.*)", re.DOTALL).fullmatch

_MOST_COMPARED = 2000
"""The most changed lines compared with each other; longer texts count as replaced line by line, or whole."""

_Code = tuple[str, int, int, int, int]


def carried(twin: str, old: str, new: str) -> str | None:
    """Return the new text of ``twin`` where ``old`` became ``new``; None where it is no twin or stays as it is."""
    opening, closing = _WRAPPING
    if old.startswith(opening) and old.endswith(closing) and twin != old:
        if not (new.startswith(opening) and new.endswith(closing)):
            return None
        old, new = (text.removeprefix(opening).removesuffix(closing) for text in (old, new))
    if twin == old:
        return new
    if twin == _ERROR + old:
        return _ERROR + new
    if not old.strip() or not twin.strip():
        return None
    if twin.strip() == old.strip():
        before, after = twin.split(twin.strip(), maxsplit=1)[0], twin.rpartition(twin.strip())[2]
        return before + _without_blanks_of(old, new) + after
    now = _carried_in_lines(twin, old, new)
    if now is None and twin.endswith("\n"):
        # the line that a last newline begins has no number
        now = _carried_in_lines(twin[:-1], old, new)
        return None if now is None else now + "\n"
    return now


def standing_in(text: str, said: str) -> tuple[str, str] | None:
    """Return the lines before and after ``said`` in ``text``, which has its lines numbered, or is the same.

    None where it is neither. Blanks around them do not count.
    """
    if not said.strip():
        return None
    if text.strip() == said.strip():
        return "", ""
    lines, plain = text.split("\n"), said.split("\n")
    run = _numbered_run(lines, plain)
    if run is None and not plain[-1]:
        # the line that a last newline begins has no number
        run = _numbered_run(lines, plain[:-1])
    return None if run is None else ("\n".join(lines[: run[0]]), "\n".join(lines[run[1] :]))


LONG = 20
"""Shorter texts than this say the same by chance."""


def copies(value: object, path: ValuePath, old: str, new: str, least: int = LONG) -> Iterator[tuple[ValuePath, str]]:
    """Yield the texts of ``least`` characters in a value at ``path`` that change with one, each with its new form."""
    for place, text in texts_in(value, path) if len(old) >= least else ():
        if len(text) >= least and (now := carried(text, old, new)) is not None and now != text:
            yield place, now


def unnumbered(lines: Sequence[str]) -> list[str] | None:
    """Return lines without the numbers before them (``     1→text``); None where one has none."""
    found = [_numbered(line) for line in lines]
    return [match[4] for match in found if match] if all(found) else None


def carried_to_numbered(twin: str, old: str, new: str) -> str | None:
    """Return the new text of ``twin``, which holds the numbered lines of ``old``; None where it does not."""
    lines = twin.split("\n")
    run = _numbered_run(lines, old.split("\n"))
    if run is None and old.endswith("\n"):
        # the line that a last newline begins has no number
        return carried_to_numbered(twin, old[:-1], new.removesuffix("\n"))
    if run is None or (first := _numbered(lines[run[0]])) is None:
        return None
    width = len(first[1] + first[2]) if first[1] else 0
    counted = enumerate(new.split("\n"), int(first[2]))
    return "\n".join((*lines[: run[0]], *(f"{at:>{width}}{first[3]}{line}" for at, line in counted), *lines[run[1] :]))


def _without_blanks_of(old: str, new: str) -> str:
    """Return ``new`` without the blanks that ``old`` has around it, as far as ``new`` has them."""
    said = old.strip()
    before, after = old.split(said, maxsplit=1)[0], old.rpartition(said)[2]
    return new.removeprefix(before).removesuffix(after)


def _carried_in_lines(twin: str, old: str, new: str) -> str | None:
    lines, said, changed = old.split("\n"), twin.split("\n"), new.split("\n")
    starts = (at for at in range(len(lines) - len(said) + 1) if lines[at] == said[0])
    plain = list(islice((at for at in starts if lines[at : at + len(said)] == said), 2))
    if len(plain) > 1:
        return None
    if plain:
        start, end = plain[0], plain[0] + len(said)
    else:
        run = _numbered_run(lines, said)
        if run is None:
            return None
        start, end = run
    first, after = _boundaries(lines, changed, start, end)
    if first is None or after is None:
        return None
    middle = changed[first:after]
    if plain:
        return "\n".join(middle)
    without = unnumbered(middle)
    return None if without is None else "\n".join(without)


def _numbered_run(lines: Sequence[str], plain: Sequence[str]) -> tuple[int, int] | None:
    """Return the range of ``lines`` that are ``plain`` with rising numbers before them."""
    for start in range(len(lines) - len(plain) + 1):
        first = _numbered(lines[start])
        if first is None or first[4] != plain[0]:
            continue
        found = [_numbered(line) for line in lines[start : start + len(plain)]]
        if all(
            match and match[4] == line and int(match[2]) == int(first[2]) + at
            for at, (match, line) in enumerate(zip(found, plain, strict=True))
        ):
            return start, start + len(plain)
    return None


def _boundaries(old: list[str], new: list[str], start: int, end: int) -> tuple[int | None, int | None]:
    """Return the new beginning and end, in ``new``, of the run of lines ``[start, end)`` of ``old``."""
    head = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    head = min(len(old), len(new)) if head is None else head
    most = min(len(old), len(new)) - head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    was, now = old[head : len(old) - tail], new[head : len(new) - tail]
    codes: list[_Code] = [("replace", head, head + len(was), head, head + len(now))]
    if max(len(was), len(now)) <= _MOST_COMPARED:
        matcher = SequenceMatcher(None, was, now)
        if len(was) == len(now) and sum(map(eq, was, now)) >= sum(
            match.size for match in matcher.get_matching_blocks()
        ):
            # as a search and replace leaves it: one line for one
            return start, end
        codes = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    codes = [("equal", 0, head, 0, head), *codes]
    codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return (0 if start == 0 else _boundary(codes, start), len(new) if end == len(old) else _boundary(codes, end))


def _boundary(codes: Sequence[_Code], at: int) -> int | None:
    """Return the new place of the boundary before line ``at``, after lines added there; None: it is not plain."""
    for tag, old_start, old_end, new_start, new_end in reversed(codes):
        if old_start < at <= old_end:
            if at == old_end:
                inserted = [code[4] for code in codes if code[0] == "insert" and code[1] == at]
                return inserted[0] if inserted else new_end
            if tag == "delete":
                return new_end
            return new_start + at - old_start if old_end - old_start == new_end - new_start else None
    return None
