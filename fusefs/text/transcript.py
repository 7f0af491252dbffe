"""A whole conversation as one Markdown file: a head, then a section for each event.

::

    ---
    title: Fix the login bug
    project: webshop
    …

    ---

    # Fix the login bug

    *1 · system · events/00001-system.md*

    ## 7 · result fs_read_file · 2026-03-05 19:31

    ```
    Found one file.
    ```

What people and models say is prose (``fusefs.text.prose``). All else is fenced: the texts of tools, and what a call
asks for, drawn as the diff of an edit, the command of a shell, or a list of tasks to check. What a model is told by its
tool is a line that says where it is. So whoever reads the file, every heading of level 2 is that of an event. (Without
the empty line at its end, Markdown would take the head for one.)

Links lead into ``.convfs/blobs/``: a section does not know the name of the conversation that it is read in. The file is
the head and every section in order, so its size is the sum of their sizes. Bookkeeping records have no section. The
head says nothing that an append changes: while a conversation goes on the file grows at its end and nowhere else, so
that it can be followed.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from blake3 import blake3
from msgspec import Struct, structs

from fusefs.text import prose
from fusefs.text.event_names import NUMBER_WIDTH
from fusefs.text.grammar import encoded_size, fence, in_calendar, link, minute, quote, scalar, timestamp
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow, Link
from store.events.event import Block, Event, Kind, utf8
from store.exporting.steps import Step, steps_of
from store.formats.core.json_view import pretty
from store.index.catalogue import ContextEntry
from store.results import may_be_document, with_documents
from store.visible import UNSEEN
from store.worktree.actions import Asked, Command, Delete, Edit, Lines, Move, Task, Tasks, Write
from store.worktree.calls import asked_of
from store.worktree.changes import diff_of
from store.worktree.worktree import Changed

_CONTROLS = re.compile(rf"[{UNSEEN}\ud800-\udfff]+")

_HEADS_KEPT = 2048

TITLE = "# "
"""Leads the title."""

HEADING = "## "
"""Leads the heading of a section, and no other line."""

_BLOBS = "../../.convfs/blobs/"
_NO_HASH = "0" * 64

_FOLDED = frozenset((Kind.SYSTEM, Kind.CONFIG))
_AT_START = "SessionStart"
"""The hook of notes that tell a model something when a session begins."""
_OF_TOOLS = frozenset((Kind.TOOL_RESULT, Kind.NOTE))
_SAID = frozenset(("", "reasoning", "refusal", "subject", "thinking"))
"""The names of texts that are said."""
_DONE = frozenset(("completed", "done"))
_TO_DO = frozenset(("", "pending", "todo"))
_LONGEST_FIELD = 200
_of_arguments = re.compile(r"(?:call\d+\.)?arguments\.?")
_ending = re.compile(r"\.([A-Za-z0-9]{1,10})$").search


class Part(Struct, frozen=True, gc=False):
    """A part of a section: ``text`` between what frames it.

    It shows the text of ``block``, or an ``argument`` of a call but for the newline at its end: as prose
    (``fusefs.text.prose``) where nothing fences it, as code else. What is only drawn has neither.
    """

    text: str
    block: Block | None = None
    before: str = ""
    after: str = "\n"
    is_prose: bool = False
    argument: str | None = None


def head(conversation: Conversation | ContextEntry) -> bytes:
    """Return the beginning of a transcript, up to the blank line before its first section."""
    told = conversation
    return _head(told.title, told.project, told.name, told.format, told.source, told.created_ms)


# a listing asks for the sizes of all
@lru_cache(maxsize=_HEADS_KEPT)
def _head(title: str, project: str, name: str, format: str, source: str, created_ms: int) -> bytes:
    fields: list[tuple[str, str | int]] = [
        ("title", title),
        ("project", project),
        ("name", name),
        ("format", format),
        ("source", source),
        ("created", timestamp(created_ms) if created_ms else ""),
    ]
    lines = "".join(head_field(key, value) for key, value in fields if value != "")
    shown = " ".join(_one_line(title or name).split())
    return utf8(f"---\n{lines}\n---\n\n{TITLE}{prose.in_line(shown)}\n")


def head_field(key: str, value: str | int) -> str:
    """Return the line of a head that says something."""
    return f"{key}: {_field(value)}\n"


def _field(value: str | int) -> str:
    """Return a value as a head has it, without anything that a reader of Markdown alone would take for HTML."""
    if isinstance(value, str) and prose.in_line(value) != value:
        return quote(value).replace("<", "\\u003c")
    return scalar(value)


def section(number: int, event: Event, link: Link | None = None) -> bytes:
    """Return the section of event ``number``, led by a blank line; b"" for a bookkeeping record.

    ``link`` says where blocks that are not text are found (None: where a mount has them).
    """
    if event.kind is Kind.RECORD:
        return b""
    drawn = [heading(number, event)]
    for part in parts(number, event, link or blob_target):
        drawn += ("\n", part.before, part.text, part.after)
    return utf8("".join(drawn))


def growing(number: int, event: Event) -> bytes:
    """Return the part of the section of an event whose only text still grows, up to where it may be drawn otherwise."""
    shown = list(parts(number, event, unhashed_target))
    if is_folded(event):
        return section(number, event)[:-1]
    if len(shown) != 1 or (block := shown[0].block) is None or not block.text:
        return b""
    if event.kind is Kind.TOOL_RESULT and may_be_document(block.text):
        return b""
    text = prose.settled(block.text)
    drawn = prose.draw(text, ends=False) if shown[0].is_prose else prose.code(text)
    return utf8(f"{heading(number, event)}\n{shown[0].before}{drawn}")


def unreadable(row: EventRow, error: ConvfsError) -> bytes:
    """Return the section of an event that is damaged."""
    reason = prose.in_line(_one_line(str(error)))
    return utf8(f"\n## {row.number} · {row.kind.word}\n\n[cannot be read: {reason}]\n")


def section_size(number: int, event: Event) -> int:
    """Return ``len(section(number, event))``."""
    if event.kind is Kind.RECORD:
        return 0
    if is_folded(event):
        return encoded_size(heading(number, event))
    size = _HEADING_SIZES[event.kind] + len(str(number))
    if event.tool:
        size += 1 + _tool_size(event.tool)
    if event.time_ms and in_calendar(event.time_ms):
        size += _TIME_SIZE
    for part in parts(number, event, unhashed_target):
        size += 1 + encoded_size(part.before) + encoded_size(part.text) + encoded_size(part.after)
    return size


def heading(number: int, event: Event) -> str:
    """Return the heading of a section with the blank line before it: ``## 7 · result bash · 2026-03-05 19:31``."""
    if is_folded(event):
        word = event.kind.word
        return f"\n*{number} · {word} · events/{number:0{NUMBER_WIDTH}}-{word}.md*\n"
    return "\n{}{}{}\n".format(*heading_parts(number, event))


def heading_parts(number: int, event: Event) -> tuple[str, str, str]:
    """Return what a heading begins with, and its tool and its time, each led by its separator; "" for none."""
    tool = f" {_tool(event.tool)}" if event.tool else ""
    time = ""
    if event.time_ms and in_calendar(event.time_ms):
        time = f" · {minute(event.time_ms)}"
    return f"{HEADING}{number} · {event.kind.word}", tool, time


def is_said(kind: Kind) -> bool:
    """Return whether the texts of a kind of events are prose."""
    return kind not in _OF_TOOLS


def is_folded(event: Event) -> bool:
    """Return whether all that a transcript has of an event is a line that says where it is."""
    return event.kind in _FOLDED or (event.kind is Kind.NOTE and str(event.header.get("hook")).startswith(_AT_START))


_HEADING_SIZES = {kind: len(f"\n## · {kind.word}\n".encode()) + 1 for kind in Kind}
_TIME_SIZE = len(" · 2026-03-05 19:31".encode())


def _one_line(text: str) -> str:
    return text if text.isprintable() and text.isascii() else _CONTROLS.sub(" ", text)


@lru_cache(maxsize=1024)
def _tool(tool: str) -> str:
    return prose.in_line(_one_line(tool))


@lru_cache(maxsize=1024)
def _tool_size(tool: str) -> int:
    return len(_tool(tool).encode())


def blob_target(block: Block) -> str:
    """Return a link from a transcript to a block that is not text."""
    return f"{_BLOBS}{blake3(block.data or b'').hexdigest()}"


def unhashed_target(block: Block) -> str:
    """Return a placeholder as long as :func:`blob_target`."""
    return _BLOBS + _NO_HASH


# -- parts -------------------------------------------------------------------------------------------------------------


def parts(number: int, event: Event, target: Link) -> list[Part]:
    """Return the parts of the section of event ``number``; ``target`` says where content that is not text is found."""
    if is_folded(event):
        return []
    event = with_documents(event)
    if event.kind is Kind.TOOL_CALL:
        found = list(_of_call(number, event, target))
    else:
        found = [part for block in event.blocks if (part := _block(block, event.kind, target)) is not None]
    for at in range(1, len(found)):
        last, part = found[at - 1], found[at]
        if part.is_prose and not part.before and (last.is_prose or last.text.startswith("- ")):
            # a list, and what belongs to it, ends here
            found[at] = structs.replace(part, before="***\n\n")
    return found


def _of_call(number: int, event: Event, target: Link) -> Iterator[Part]:
    steps = list(steps_of(number, event))
    calls = [step for step in steps if step.kind is Kind.TOOL_CALL]
    # some tools tell a call in words or code of their own, and nothing else
    is_told = not any(step.given for step in calls)
    for step in steps:
        if step.kind is Kind.TOOL_CALL:
            if len(calls) > 1 and step.tool:
                yield Part(_in_code(step.tool))
            yield from _call(step, target)
        else:
            kind = Kind.TOOL_RESULT if is_told or step.kind is Kind.TOOL_RESULT else event.kind
            yield from (part for block in step.blocks if (part := _block(block, kind, target)) is not None)


def _block(block: Block, kind: Kind, target: Link) -> Part | None:
    name, text = block.name, block.text
    if text is None:
        return Part(link(block, target(block)), after="")
    if not text:
        return None
    said = name.partition("[")[0] if name else ""
    if block.type == "text" and said in _SAID and is_said(kind) and not (block.uri or block.mime):
        label = f"*{said}*\n\n" if said and kind is not Kind.REASONING else ""
        return Part(prose.draw(text), block, before=label, is_prose=True)
    label = block.uri or (name and _of_arguments.sub("", name, count=1))
    return _fenced(text, "json" if block.type == "json" else _language(block.uri), label, block)


def _fenced(
    text: str, language: str, label: str = "", block: Block | None = None, argument: str | None = None
) -> Part:
    ticks = fence(text, least=3)
    before = f"{_in_code(label)}\n\n{ticks}{language}\n" if label else f"{ticks}{language}\n"
    return Part(prose.code(text), block, before=before, after=f"\n{ticks}\n", argument=argument)


def _call(step: Step, target: Link) -> Iterator[Part]:
    asked, rest = asked_of(step)
    if not asked:
        yield from (part for block in step.given if (part := _block(block, Kind.TOOL_RESULT, target)) is not None)
        return
    for one in asked:
        yield from _asked(one)
    if rest:
        told = ((name, value if isinstance(value, str) else pretty(value)) for name, value in rest.items())
        fields = [_in_code(f"{name}: {value}") for name, value in told]
        is_short = max(map(len, fields)) <= _LONGEST_FIELD
        yield Part(" · ".join(fields)) if is_short else _fenced(pretty(rest), "json")


def _asked(one: Asked) -> Iterator[Part]:
    match one:
        case Command(text=text):
            yield _fenced(text.removesuffix("\n"), "bash", argument=text)
        case Lines(path=path, first=first, last=last):
            span = f", lines {first}-{last}" if last else f", from line {first}" if first > 1 else ""
            yield Part(_in_code(path) + span)
        case Write(path=path, text=text):
            yield _fenced(text.removesuffix("\n"), _language(path), path, argument=text)
        case Edit(path=path, changes=changes):
            diff = diff_of(Changed(path, 0, None, None, tuple((0, change) for change in changes)))
            yield _fenced(diff.text.removesuffix("\n"), "diff")
        case Move(path=path, to=to):
            yield Part(f"{_in_code(path)} is moved to {_in_code(to)}")
        case Delete(path=path):
            yield Part(f"{_in_code(path)} is deleted")
        case Tasks(tasks=tasks):
            yield Part("\n".join(map(_task, tasks)))


def _task(task: Task) -> str:
    status = task.status.lower().replace("_", " ")
    box = "x" if status in _DONE else " "
    note = "" if status in _DONE or status in _TO_DO else f" ({status})"
    return f"- [{box}] {prose.in_line(' '.join(_one_line(task.text + note).split()))}"


def _in_code(text: str) -> str:
    """Return a text on one line, between backticks."""
    text = _one_line(text)
    if "`" not in text and text.strip() == text and text:
        return f"`{text}`"
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _language(path: str) -> str:
    return found[1].lower() if path and (found := _ending(path)) else ""
