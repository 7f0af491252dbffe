"""What goes to the terminal: control characters escaped, tables, JSON."""

import json
import os
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

# C0 and C1 controls, and the characters that change the direction of text around them.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROLS_IN_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escape(text: str) -> str:
    """Return ``text`` fit for one line: control characters as ``\\x1b`` or ``\\u202e``."""
    return _CONTROLS.sub(_spelled, text)


def escape_text(text: str) -> str:
    """Return ``text`` of many lines fit for a terminal: as :func:`escape`, but newlines and tabs stay."""
    return _CONTROLS_IN_TEXT.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(match[0]) or match[0].encode("unicode_escape").decode()


def command_line(*arguments: object) -> str:
    """Return how the user would type a ``convfs`` command, to be shown: as a path where it is not on the PATH."""
    script = sys.argv[0]
    program = script if os.path.basename(script) == "convfs" and not shutil.which("convfs") else "convfs"
    return shlex.join([program, *map(str, arguments)])


def write_text(text: str) -> None:
    """Write a conversation's text to standard output: as it is into a pipe, escaped on a terminal."""
    sys.stdout.write(escape_text(text) if sys.stdout.isatty() else text)


def columns(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def write_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """Write one line of a table; the last cell is as long as it is."""
    padded = [cell + " " * (width - columns(cell)) for cell, width in zip(cells, widths, strict=False)]
    sys.stdout.write("  ".join([*padded, *cells[len(widths) :]]).rstrip() + "\n")


@contextmanager
def json_array() -> Iterator[Callable[[Iterable[object]], None]]:
    """Write a JSON array to standard output, an element a line, as its elements come."""
    separator = "[\n  "

    def write(elements: Iterable[object]) -> None:
        nonlocal separator
        for element in elements:
            sys.stdout.write(separator + json.dumps(element, ensure_ascii=False))
            separator = ",\n  "

    yield write
    sys.stdout.write("[]\n" if separator.startswith("[") else "\n]\n")
