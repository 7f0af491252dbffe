"""Patches in the form that ``apply_patch`` takes, parsed; and a change of a text, applied.

*** Begin Patch
*** Update File: src/app.py
*** Move to: src/main.py
@@ def run():
 context
-old
+new
*** Add File: notes.txt
+text
*** Delete File: old.txt
*** End Patch
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct


class Change(Struct, frozen=True):
    """The replacement of ``old`` by ``new``: of the only one, or of ``every`` one.

    A ``hunk`` replaces whole lines: the first such ones behind the hunk before it, and behind the line ``after``.
    """

    old: str
    new: str
    every: bool = False
    hunk: bool = False
    after: str = ""


class FilePatch(Struct, frozen=True):
    """The part of a patch about one file: its ``changes``, its whole ``text`` if it is new, where it moves ``to``."""

    path: str
    changes: tuple[Change, ...] = ()
    text: str | None = None
    deleted: bool = False
    to: str = ""


_ADD, _UPDATE, _DELETE, _MOVE = "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "
_END = ("*** End Patch", "*** End of File")


def parse_patch(patch: str) -> Iterator[FilePatch]:
    """Yield a patch's parts, in order; lines that make no sense are passed over."""
    lines = patch.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        at += 1
        body: list[str] = []
        if not line.startswith((_ADD, _UPDATE, _DELETE)):
            continue
        while at < len(lines) and not lines[at].startswith((_ADD, _UPDATE, _DELETE, _END[0])):
            body.append(lines[at])
            at += 1
        if line.startswith(_ADD):
            text = "".join(f"{one[1:]}\n" for one in body if one.startswith("+"))
            yield FilePatch(line.removeprefix(_ADD).strip(), text=text)
        elif line.startswith(_DELETE):
            yield FilePatch(line.removeprefix(_DELETE).strip(), deleted=True)
        else:
            to = next((one.removeprefix(_MOVE).strip() for one in body if one.startswith(_MOVE)), "")
            yield FilePatch(line.removeprefix(_UPDATE).strip(), tuple(_hunks(body)), to=to)


def _hunks(body: list[str]) -> Iterator[Change]:
    old: list[str] = []
    new: list[str] = []
    after = ""
    for line in [*body, "@@"]:
        if line.startswith("@@"):
            if old != new:
                yield Change("\n".join(old), "\n".join(new), hunk=True, after=after)
            old, new, after = [], [], line[2:].strip()
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith(" ") or not line:
            old.append(line[1:])
            new.append(line[1:])


def change_text(text: str, changes: Sequence[Change]) -> str | None:
    """Return a text after changes, one after the other; None if the place of one is not there, or is in doubt."""
    behind = 0
    for change in changes:
        if change.hunk:
            found = _hunk_place(text, change, behind)
            if found is None:
                return None
            start, end = found
            text = text[:start] + change.new + text[end:]
            behind = start + len(change.new)
        elif not change.old:
            if text:
                return None
            text = change.new
        else:
            count = text.count(change.old)
            if not count or (count > 1 and not change.every):
                return None
            text = text.replace(change.old, change.new)
    return text


def _hunk_place(text: str, change: Change, behind: int) -> tuple[int, int] | None:
    """Return where the lines of a hunk begin and end, at or after offset ``behind``."""
    if change.after:
        line = re.compile(rf"^[^\S\n]*{re.escape(change.after)}[^\S\n]*$", re.MULTILINE).search(text, behind)
        behind = line.end() if line else behind
    found = re.compile(rf"^{re.escape(change.old)}$", re.MULTILINE).search(text, behind) if change.old else None
    return found.span() if found else None
