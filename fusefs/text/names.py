"""Names of files and directories, made from what conversations hold.

Every name made here is valid on Linux (no ``/``, no NUL, not ``.`` or ``..``, at most 255 bytes of UTF-8), holds no
control character, and is never empty. The same input always gives the same name.
"""

import re
from collections.abc import Container
from functools import lru_cache

from store.events.conversation import EventRow
from store.events.event import Kind

NAME_MAX = 255
"""Bytes of UTF-8 that one name may have."""

NUMBER_WIDTH = 5
"""Digits of an event's number in names, unless the conversation has more than 99,999 records."""

_TOOL_MAX = 120

# Controls, line and paragraph separators, marks that turn the direction of text, and halves of surrogate pairs:
# none of them can be seen in a listing, and some of them make it lie.
_UNSAFE = re.compile(r"[/\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_EVENT_NAME = re.compile(r"([0-9]{5,18})-.+\.md", re.DOTALL)

_WORDS = {
    Kind.RECORD: "record",
    Kind.SYSTEM: "system",
    Kind.USER: "user",
    Kind.ASSISTANT: "assistant",
    Kind.REASONING: "reasoning",
    Kind.TOOL_CALL: "call",
    Kind.TOOL_RESULT: "result",
    Kind.QUESTION: "question",
    Kind.ANSWER: "answer",
    Kind.CONFIG: "config",
    Kind.SUMMARY: "summary",
    Kind.NOTE: "note",
}


def kind_word(kind: Kind) -> str:
    """Return the word for ``kind`` in names and headings (``call`` for a tool call)."""
    return _WORDS[kind]


def cut(text: str, limit: int) -> str:
    """Return ``text``, cut at a character so that it has at most ``limit`` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def safe_name(text: str, *, fallback: str = "unnamed", limit: int = NAME_MAX) -> str:
    """Return ``text`` as a name of at most ``limit`` bytes; ``fallback`` where nothing of it is left.

    What no name may hold becomes ``_``; space around the name goes. A long name keeps its extension.
    """
    name = _UNSAFE.sub("_", text.strip())
    if name in {".", ".."}:
        return "_" * len(name)
    if len(name) * 4 > limit and len(name.encode()) > limit:
        stem, dot, extension = name.rpartition(".")
        if stem and len(extension.encode()) <= 16:
            name = cut(stem, limit - len((dot + extension).encode())) + dot + extension
        else:
            name = cut(name, limit)
    return name or fallback


def unique(name: str, taken: Container[str], *, limit: int = NAME_MAX) -> str:
    """Return ``name`` if it is not in ``taken``, else the first of ``name-2``, ``name-3`` … that is not."""
    if name not in taken:
        return name
    number = 2
    while True:
        ending = f"-{number}"
        candidate = cut(name, limit - len(ending)) + ending
        if candidate not in taken:
            return candidate
        number += 1


def number_width(records: int) -> int:
    """Return how many digits the event numbers of a conversation with that many records have in names."""
    return max(NUMBER_WIDTH, len(str(records)))


@lru_cache(maxsize=4096)
def _event_words(kind: Kind, tool: str) -> str:
    if tool and kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
        return f"{_WORDS[kind]}-{safe_name('_'.join(tool.split()), limit=_TOOL_MAX)}.md"
    return f"{_WORDS[kind]}.md"


def event_name(row: EventRow, records: int = 0) -> str:
    """Return the name of an event's file, ``00007-result-fs_read_file.md``, in a conversation of ``records``."""
    return f"{row.number:0{number_width(records)}}-{_event_words(row.kind, row.tool)}"


def parse_event_name(name: str) -> int | None:
    """Return the number in ``NNNNN-anything.md`` (five digits or more), None for any other name."""
    found = _EVENT_NAME.fullmatch(name)
    return (int(found[1]) or None) if found else None
