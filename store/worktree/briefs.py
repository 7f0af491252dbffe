"""Briefs: a call in a few words, the same for every agent: ``Read login.py``, ``Bash pytest -x``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct, structs

from store import visible
from store.compare import unified
from store.events.event import Kind
from store.exporting.steps import Step
from store.formats.core.json_view import as_object
from store.worktree.actions import Action, Edit, Lines, Move, Read, Write
from store.worktree.calls import actions_of, asked_of
from store.worktree.shell import command_of, script_of
from store.worktree.tools import is_shell, own_name

_LONGEST = 120
_NAMED = 3
_END = "\n"
_NOTHING = Step(0, 0, Kind.TOOL_RESULT)
_cd = re.compile(r"cd\s+\S+\s*(?:&&|;)\s*").match

_QUOTED = ("pattern", "query", "search_query", "regex", "q")
_PLAIN = ("url", "uri", "description", "title", "question", "prompt", "skill", "name")
_PATHS = ("file_path", "filePath", "path", "absolute_path", "dir_path", "directory")
_LISTS = ("todos", "plan")


class Brief(Struct, frozen=True):
    """A call in a few words, fit for one line; ``added`` and ``removed`` are lines of the files that it changes."""

    verb: str
    subject: str = ""
    added: int = 0
    removed: int = 0

    @property
    def line(self) -> str:
        """All of it, on one line."""
        counts = (f"+{self.added}" if self.added else "", f"−{self.removed}" if self.removed else "")
        return " ".join(filter(None, (self.verb, self.subject, *counts)))


def brief_of(call: Step, result: Step | None = None, cwd: str = "") -> Brief:
    """Return the brief of a call: by what it asks for, and for a reading by the lines that its result shows.

    What failed has changed no lines.
    """
    given, tool = as_object(call.arguments), own_name(call.tool)
    shown = result if result is not None and not result.failed else _NOTHING
    runs = is_shell(call.tool)
    actions = [action for action in actions_of(call, shown, cwd) if not (runs and isinstance(action, Read))]
    if actions:
        brief = _of_actions(actions)
        failed = result is not None and result.failed
        return structs.replace(brief, added=0, removed=0) if failed else brief
    for asked in asked_of(call)[0]:
        if isinstance(asked, Lines):
            return Brief("Read", _short(PurePosixPath(asked.path).name or asked.path))
    if runs:
        return Brief("Bash" if "bash" in tool.lower() else "Shell", _short(_command(given)))
    return Brief(_short(tool), _short(_telling(given)))


def _of_actions(actions: list[Action]) -> Brief:
    verbs = {type(action).__name__ for action in actions}
    names = list(dict.fromkeys(map(_subject, actions)))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    counts = [count for action in actions for count in _counts(action)]
    added, removed = sum(added for added, _ in counts), sum(removed for _, removed in counts)
    return Brief(verbs.pop() if len(verbs) == 1 else "Edit", _short(", ".join(names[:_NAMED]) + more), added, removed)


def _subject(action: Action) -> str:
    name = PurePosixPath(action.path).name or action.path
    match action:
        case Move(to=to):
            return f"{name} → {PurePosixPath(to).name}"
        case Read(text=text, first=first, total=total) if text and (first > 1 or total > text.count("\n") + 1):
            return f"{name}:{first}-{first + text.removesuffix(_END).count(_END)}"
        case _:
            return name


def _counts(action: Action) -> Iterator[tuple[int, int]]:
    if isinstance(action, Write):
        yield len(action.text.splitlines()), 0
    elif isinstance(action, Edit):
        for change in action.changes:
            found = unified(f"{change.old}\n" if change.old else "", f"{change.new}\n" if change.new else "", "", "")
            yield found.added, found.removed


def _command(given: Mapping[str, object]) -> str:
    """Return the command that a shell is given, without the directory that it goes to first."""
    command = command_of(given)
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        command = script_of(words) or shlex.join(words)
    if not isinstance(command, str):
        return ""
    command = command.strip()
    return command[found.end() :] if (found := _cd(command)) else command


def _telling(given: Mapping[str, object]) -> str:
    """Return the argument that says most."""
    for keys, form in ((_QUOTED, "'{}'"), (_PLAIN, "{}")):
        for key in keys:
            if isinstance(value := given.get(key), str) and value:
                return form.format(value)
    for key in _PATHS:
        if isinstance(value := given.get(key), str) and value:
            return PurePosixPath(value).name or value
    for key in _LISTS:
        if isinstance(steps := given.get(key), list):
            done = sum(as_object(step).get("status") == "completed" for step in steps)
            return f"{done} of {len(steps)} done"
    return next((value for value in given.values() if isinstance(value, str)), "")


def _short(text: str) -> str:
    """Return the beginning of a text, on one line."""
    text, _, more = text.strip().partition("\n")
    text = " ".join(text[: _LONGEST + 1].split())
    return visible.line(f"{text[:_LONGEST].rstrip()} …" if more or len(text) > _LONGEST else text)
