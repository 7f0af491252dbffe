"""The changes that a conversation made to files, as one unified diff."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from store.compare import NOTHING, unified
from store.conversations.library import Library
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Event
from store.worktree.worktree import Changed, Seen, Worktree


class FileChange(Struct, frozen=True):
    """The diff of one file, and how many lines it adds and removes."""

    path: str
    text: str
    added: int
    removed: int


def file_changes(library: Library, conversation: Conversation) -> Iterator[FileChange]:
    """Yield what a conversation did to each file, in the order in which they were first changed.

    Changes that follow each other are one, as if made at once. A file that something else changed in between comes
    again. Of an edit in a file that is not known as a whole, there are the lines that it names; where they stand is
    told if that is known, and line 0 if not.
    """
    made: dict[str, list[Changed]] = {}
    for change in (one for _row, _event, told in replayed(library, conversation) for one in told):
        if isinstance(change, Changed):
            runs = made.setdefault(change.path, [])
            if runs and (joined := _joined(runs[-1], change)):
                runs[-1] = joined
            else:
                runs.append(change)
    for path, runs in made.items():
        diffs = [diff_of(run) for run in runs]
        if text := "".join(diff.text for diff in diffs):
            yield FileChange(path, text, sum(diff.added for diff in diffs), sum(diff.removed for diff in diffs))


def replayed(library: Library, conversation: Conversation) -> Iterator[tuple[EventRow, Event, list[Seen | Changed]]]:
    """Yield the events of a conversation, each with what it read and changed; not those that cannot be read."""
    tree = Worktree(conversation.metadata)
    rows = library.records.rows(conversation.head) if conversation.head else ()
    for row, event in library.viewer.events(rows):
        if not isinstance(event, ConvfsError):
            yield row, event, list(tree.take(row.number, event))


def _joined(one: Changed, other: Changed) -> Changed | None:
    """Return two changes of a file as one, None if the second does not begin where the first ends."""
    if one.ends:
        again = other.begins and one.before is not None
        return structs.replace(other, before=one.before, begins=False) if again else None
    if one.after is None or one.after != other.before:
        return None
    return structs.replace(other, before=one.before, begins=one.begins, changes=())


def diff_of(change: Changed) -> FileChange:
    """Return the diff of one change; its text is "" where nothing is known to differ."""
    old_name, new_name = f"a/{change.path.lstrip('/')}", f"b/{change.path.lstrip('/')}"
    old_name, new_name = NOTHING if change.begins else old_name, NOTHING if change.ends else new_name
    old = "" if change.begins else change.before
    new = "" if change.ends else change.after
    if old is not None and new is not None:
        found = unified(old, new, old_name, new_name)
        return FileChange(change.path, found.text, found.added, found.removed)
    text = f"--- {old_name}\n+++ {new_name}\n"
    added = removed = 0
    for line, one in change.changes:
        found = unified(f"{one.old}\n", f"{one.new}\n", old_name, new_name)
        text += _moved(found.text.partition(f"+++ {new_name}\n")[2], line)
        added, removed = added + found.added, removed + found.removed
    return FileChange(change.path, text, added, removed)


def _moved(hunks: str, line: int) -> str:
    """Return the hunks of a part of a file, which begins on ``line`` (0: nobody knows), as those of the file."""

    def head(found: re.Match[str]) -> str:
        old, new = (int(found[at]) + line - 1 if line else 0 for at in (1, 3))
        return f"@@ -{old}{found[2] or ''} +{new}{found[4] or ''} @@"

    return re.sub(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@$", head, hunks, flags=re.MULTILINE)
