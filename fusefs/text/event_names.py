"""Names of the files of events: ``00007-result-fs_read_file.md``."""

import re
from functools import lru_cache

from store.events.conversation import EventRow
from store.events.event import Kind
from store.filenames import safe_name

NUMBER_WIDTH = 5
"""Digits of an event's number in names, unless the conversation has more than 99,999 records."""

_TOOL_MAX = 120

_EVENT_NAME = re.compile(r"([0-9]{5,18})-.+\.md", re.DOTALL)

def number_width(records: int) -> int:
    """Return the number of digits that event numbers have in names in a conversation of that many records."""
    return max(NUMBER_WIDTH, len(str(records)))


def shown_tool(tool: str) -> str:
    """Return the name of a tool as the names of its calls and results have it."""
    return safe_name("_".join(tool.split()), limit=_TOOL_MAX)


@lru_cache(maxsize=4096)
def event_words(kind: Kind, tool: str) -> str:
    """Return what stands behind the number in the name of an event's file."""
    if tool and kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
        return f"{kind.word}-{shown_tool(tool)}.md"
    return f"{kind.word}.md"


def event_name(row: EventRow, records: int = 0) -> str:
    """Return the name of an event's file, ``00007-result-fs_read_file.md``, in a conversation of ``records``."""
    return name_format(records) % (row.number, event_words(row.kind, row.tool))


def name_format(records: int) -> str:
    """Return what names are made with, of a number and its words, in a conversation of ``records``."""
    return f"%0{number_width(records)}d-%s"


def parse_event_name(name: str) -> int | None:
    """Return the number in ``NNNNN-anything.md`` (five digits or more), None for any other name."""
    found = _EVENT_NAME.fullmatch(name)
    return (int(found[1]) or None) if found else None
