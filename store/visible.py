r"""Visible forms of untrusted text: for terminals, logs, reports and lists, and for commands to be pasted.

Titles, names, paths, types and messages of other programs may hold terminal control sequences, marks that change the
direction of text so that it reads as something else, and line ends that fake a next line. All of these are spelled
out: ``\x1b``, ``\u202e``, ``\n``.
"""

import re
from functools import cache

UNSEEN = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
"""C0 and C1 controls, ends of lines and paragraphs, marks of direction and of byte order: a part of a class of
characters, in the language of regular expressions."""

_HALVES = r"\ud800-\udfff"
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def line(text: str) -> str:
    """Return ``text`` fit for a part of one line."""
    return text if text.isascii() and text.isprintable() else _in_line().sub(_spelled, text)


def lines(text: str) -> str:
    """Return ``text`` of many lines fit for a terminal: as :func:`line`, but newlines and tabs stay."""
    return _in_text().sub(_spelled, text)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return ``value`` as JSON that reads back the same and is fit for a terminal."""
    import json

    return in_json(json.dumps(value, ensure_ascii=False, indent=indent))


def in_json(text: str) -> str:
    """Return ``text``, which is JSON or a part of it, so that it says the same and is fit for a terminal."""
    return _in_text().sub(_escaped, text)


def command(*words: object) -> str:
    """Return a command as it is typed into a shell: pasted, it is these words and nothing else."""
    return " ".join(map(_word, map(str, words)))


# These are made when they are first needed: most of what is shown is printable ASCII.


@cache
def _in_line() -> re.Pattern[str]:
    return re.compile(f"[{UNSEEN}{_HALVES}]")


@cache
def _in_text() -> re.Pattern[str]:
    return re.compile(f"(?![\n\t])[{UNSEEN}{_HALVES}]")


def _spelled(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or found[0].encode("unicode_escape").decode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _word(word: str) -> str:
    if _in_line().search(word) is None:
        import shlex

        return shlex.quote(word)
    # as bash, zsh and others read it: the bytes of what cannot be seen
    spelled = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _in_line().sub(_in_bytes, spelled) + "'"


def _in_bytes(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))
