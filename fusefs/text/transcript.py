"""A whole conversation as one Markdown file: a head, then a section for each event.

::

    ---
    title: Fix the login bug
    project: webshop
    …
    ---

    # Fix the login bug

    ## 7 · result fs_read_file · 2026-03-05 19:31

    Found one file.

A section's content is that of the event's file (``fusefs.text.grammar``), but links lead into ``.convfs/blobs/``:
a section does not know the name of the conversation that it is read in. The file is the head and every section in
order, so its size is the sum of their sizes. Bookkeeping records have no section. The head says nothing that an append
changes: while a conversation goes on the file grows at its end and nowhere else, so that it can be followed.
"""

import re
from datetime import datetime, timedelta
from functools import lru_cache

from blake3 import blake3

from fusefs.text.event_names import kind_word
from fusefs.text.grammar import body, body_size, in_calendar, scalar, timestamp
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow, Link
from store.events.event import Block, Event, Kind, utf8
from store.visible import UNSEEN

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (only differences are taken, faster)
_CONTROLS = re.compile(rf"[{UNSEEN}\ud800-\udfff]+")

_BLOBS = "../../.convfs/blobs/"
_NO_HASH = "0" * 64


def head(conversation: Conversation) -> bytes:
    """Return the beginning of a transcript, up to the blank line before its first section."""
    fields: list[tuple[str, str | int]] = [
        ("title", conversation.title),
        ("project", conversation.project),
        ("name", conversation.name),
        ("format", conversation.format),
        ("source", conversation.source),
        ("created", timestamp(conversation.created_ms) if conversation.created_ms else ""),
    ]
    lines = "".join(f"{key}: {scalar(value)}\n" for key, value in fields if value != "")
    title = " ".join(_one_line(conversation.title or conversation.name).split())
    return utf8(f"---\n{lines}---\n\n# {title}\n")


def section(number: int, event: Event, link: Link | None = None) -> bytes:
    """Return the section of event ``number``, led by a blank line; b"" for a bookkeeping record.

    ``link`` says where blocks that are not text are found (None: where a mount has them).
    """
    if event.kind is Kind.RECORD:
        return b""
    content = body(event.blocks, link or blob_target)
    return utf8(f"{_heading(number, event)}\n{content}" if content else _heading(number, event))


def unreadable(row: EventRow, error: ConvfsError) -> bytes:
    """Return the section of an event that is damaged."""
    return utf8(f"\n## {row.number} · {kind_word(row.kind)}\n\n[cannot be read: {_one_line(str(error))}]\n")


def section_size(number: int, event: Event, content_size: int | None = None) -> int:
    """Return ``len(section(number, event))``; ``content_size`` is its content's size, if it is known already."""
    if event.kind is Kind.RECORD:
        return 0
    size = _HEADING_SIZES[event.kind] + len(str(number))
    if event.tool:
        size += 1 + _tool_size(event.tool)
    if event.time_ms and in_calendar(event.time_ms):
        size += _TIME_SIZE
    if event.blocks:
        size += 1 + (body_size(event.blocks, unhashed_target) if content_size is None else content_size)
    return size


def _heading(number: int, event: Event) -> str:
    """Return the heading of a section with the blank line before it: ``## 7 · result bash · 2026-03-05 19:31``."""
    text = f"\n## {number} · {kind_word(event.kind)}"
    if event.tool:
        text += f" {_one_line(event.tool)}"
    if event.time_ms and in_calendar(event.time_ms):
        time = (_EPOCH + timedelta(milliseconds=event.time_ms)).isoformat(" ", "minutes")
        return f"{text} · {time}\n"
    return text + "\n"


_HEADING_SIZES = {kind: len(f"\n## · {kind_word(kind)}\n".encode()) + 1 for kind in Kind}
_TIME_SIZE = len(" · 2026-03-05 19:31".encode())


def _one_line(text: str) -> str:
    return _CONTROLS.sub(" ", text)


@lru_cache(maxsize=1024)
def _tool_size(tool: str) -> int:
    return len(_one_line(tool).encode())


def blob_target(block: Block) -> str:
    """Return a link from a transcript to a block that is not text."""
    return f"{_BLOBS}{blake3(block.data or b'').hexdigest()}"


def unhashed_target(block: Block) -> str:
    """Return a placeholder as long as :func:`blob_target`."""
    return _BLOBS + _NO_HASH
