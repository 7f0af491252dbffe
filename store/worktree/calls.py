"""Calls of tools: the actions on files that one with its result tells of, and what one asks for.

Agents differ in the names of tools and arguments, and in the frame around the text that they return: line numbers, a
code fence, a note about what was left out. :func:`actions_of` removes all of that. A tool that is not known, a call
that failed and a text that was cut in its middle give no action: better none than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import structs

from store.exporting.steps import Step
from store.formats.core.json_view import as_object, as_text, is_object, object_in
from store.worktree import tools
from store.worktree.actions import Action, Asked, Delete, Edit, Lines, Move, Read, Task, Tasks, Write
from store.worktree.arguments import (
    COMMAND,
    COUNT,
    EDITS,
    FIRST,
    FOLDER,
    LAST,
    LISTED,
    NEW,
    OLD,
    PATCH,
    PATH,
    TEXT,
    absolute,
    number_in,
    path_in,
    text_in,
    unwrapped,
)
from store.worktree.edits import edits_of, patched
from store.worktree.patches import Change
from store.worktree.shell import command_of, commanded, script_actions, shell_actions
from store.worktree.shown import files_in, reads_of, relisted, shown_by_read, whole_of, window_in, with_shown

_LISTS = ("todos", "plan")
_TASK = ("content", "step", "description", "title", "text")
_ADDED = ("append", True)
_WHOLE = ("write", "create", "overwrite")
_DOCUMENTS = frozenset(("total_lines", "absolutePath"))
_FILE_TAG = "<file>"
_span = re.compile(r"\s*(\d{1,9})-(\d{1,9})\s*").fullmatch
_DENIED = "The user denied this operation"
_undone = re.compile(r"No changes needed|Changes were rejected|Changes to [^\n]+ were not approved").match
"""The beginnings of what Roo says of edits that are not made."""


def actions_of(call: Step, result: Step, cwd: str = "", roots: Sequence[str] = ()) -> list[Action]:
    """Return the actions of a call on files, none if it failed; relative paths are taken from ``cwd``.

    Where there are ``roots``, they begin with the name of one of these folders.
    """
    if not roots:
        return _actions(call, result, cwd)
    return [_rooted(action, roots) for action in _actions(call, result, "")]


def _rooted(action: Action, roots: Sequence[str]) -> Action:
    if isinstance(action, Move):
        return Move(_below_root(action.path, roots), _below_root(action.to, roots))
    return structs.replace(action, path=_below_root(action.path, roots))


def _below_root(path: str, roots: Sequence[str]) -> str:
    name, _slash, rest = path.partition("/")
    root = next((root for root in roots if PurePosixPath(root).name == name), "")
    # tools also take paths from the only folder
    return absolute(rest, root) or root if root else absolute(path, roots[0] if len(roots) == 1 else "")


def _actions(call: Step, result: Step, cwd: str) -> list[Action]:
    if result.failed or result.text.startswith(_DENIED):
        return []
    given, named = _call(call)
    folder = absolute(text_in(given, FOLDER) or "", cwd) or cwd
    if shown := window_in(result.text, folder):
        return [shown]
    if named in tools.READERS:
        numbered = tools.known_as(call.tool) in tools.MANY or call.tool == "Read"
        text = result.text
        told = object_in(text.encode("utf-8", "replace")) if text.startswith("{") else {}
        if named == "readfilev2" or told.keys() & _DOCUMENTS:
            # those of Cursor's editor, Hermes and Amp are documents
            text = text_in(told, ("contents", "content")) or ""
        elif named == "view":
            text = relisted(text)
        framed = "absolutePath" in told
        return reads_of(result.resources) or list(shown_by_read(given, text, folder, numbered=numbered, framed=framed))
    if named == "readmanyfiles":
        return [Read(absolute(path, folder), text, 1, text.count("\n") + 1) for path, text in files_in(result.text)]
    if named in tools.SHELLS or (named == "exec" and "command" in given):
        return list(shell_actions(command_of(given), result.text, folder))
    if named == "exec":
        return list(script_actions(as_text(given.get("input")), result.blocks, folder))
    if named in tools.EDITORS and (path := path_in(given, folder)) and (made := whole_of(path, result.blocks)):
        return made
    if _undone(result.text):
        return []
    return with_shown(_changes(given, named, folder), path_in(given, folder), result.text)


def asked_of(call: Step) -> tuple[Sequence[Asked], Mapping[str, object]]:
    """Return what a call asks for, and those of its arguments that do not say it; nothing and all if it is not known.

    Paths are as the call has them.
    """
    given, named = _call(call)
    path = tuple(name for name in PATH if isinstance(given.get(name), str))[:1]
    asked: Sequence[Asked]
    if named in tools.READERS and path:
        asked, used = [_lines(given, path_in(given, ""))], (*path, *FIRST, *LAST, *COUNT, "view_range")
    elif named in tools.SHELLS:
        asked, used = list(commanded(command_of(given))), COMMAND
    elif named in tools.PLANNERS:
        asked, used = list(_tasks(given)), _LISTS
    else:
        asked = _changes(given, named, "")
        used = (*path, *TEXT, *OLD, *NEW, *PATCH, *EDITS)
    if not asked:
        return (), given
    if tools.known_as(call.tool) in tools.MANY:
        used = (*used, "command")
    return asked, {name: value for name, value in given.items() if name not in used}


def _call(call: Step) -> tuple[Mapping[str, object], str]:
    """Return the arguments of a call, and the name of its tool, or of the tool's command where it has several."""
    given, named = as_object(call.arguments), tools.known_as(call.tool)
    if isinstance(call.arguments, str):
        given = {"input": call.arguments}
    elif any(isinstance(value, str) and value[:1] == value[-1:] == '"' for value in given.values()):
        # Antigravity's are JSON in a text each
        given = {name: unwrapped(value) for name, value in given.items()}
    if isinstance(tagged := given.get("args"), str) and _FILE_TAG in tagged:
        given = {**given, "files": list(_tagged(tagged))}
    for name in LISTED:
        # of several, it is not known what the result says of each
        if isinstance(listed := given.get(name), list) and len(listed) == 1:
            given = {**given, **(listed[0] if is_object(listed[0]) else {COMMAND[0]: listed[0]})}
    if named in tools.MANY:
        # OpenHands' records of a view leave out what it was
        asked = as_text(given.get("command")) or ("view" if "start" in given else "")
        if asked or named not in tools.WRITERS | tools.EDITORS:
            named = tools.OF_MANY.get(asked, "")
    return given, named


def _tagged(text: str) -> Iterator[dict[str, object]]:
    """Yield the files of arguments that are XML, as Roo's are: with paths, lines and differences, as they stand."""
    for held in text.split(_FILE_TAG)[1:]:
        path, lines, diff = ("\n".join(_elements(held, name)) for name in ("path", "line_range", "diff"))
        found = _span(lines)
        span = {"start_line": int(found[1]), "end_line": int(found[2])} if found else {}
        yield {"path": path.strip(), "diff": "\n".join(_elements(diff, "content")) or diff, **span}


def _elements(text: str, name: str) -> Iterator[str]:
    """Yield what stands in the elements of a name, as it is spelled."""
    opening, closing, at = f"<{name}>", f"</{name}>", 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        yield text[start + len(opening) : end]
        at = end


def _changes(given: Mapping[str, object], named: str, folder: str) -> list[Write | Edit | Move | Delete]:
    path = path_in(given, folder)
    text = text_in(given, TEXT)
    if named == "editor" and EDITS[0] not in given and text_in(given, OLD) is None:
        # that of Cline makes files and inserts lines by its name alone
        named, text = "write" if given.get("insert_line") is None else "fsappend", text_in(given, NEW)
    if named in tools.INSERTERS or (named in tools.WRITERS and given.get("mode", given.get("append")) in _ADDED):
        # where it comes, and whether a newline is put before it, is not known, but for an empty file
        text = text_in(given, (*NEW, *TEXT, "insert_text"))
        return [Edit(path, (Change("", text),))] if path and text is not None else []
    if named in tools.WRITERS or (named in tools.EDITORS and given.get("mode") in _WHOLE):
        return [Write(path, text)] if path and text is not None else []
    if named in tools.DELETERS and path:
        return [Delete(path)]
    if named == "searchandreplace" and not given.keys() & {"operations", *FIRST, *LAST}:
        given = {**given, "replace_all": True}
    found: list[Write | Edit | Move | Delete] = list(edits_of(given, folder)) if named in tools.EDITORS else []
    if not found and named in tools.PATCHERS:
        found = list(patched(text_in(given, PATCH) or "", folder))
    return found


def _lines(given: Mapping[str, object], path: str) -> Lines:
    span = given.get("view_range")
    if isinstance(span, list) and len(span) == 2 and all(isinstance(line, int) for line in span):
        return Lines(path, max(span[0], 1), max(span[1], 0))
    first, limit = max(number_in(given, *FIRST), 1), number_in(given, *COUNT)
    return Lines(path, first, number_in(given, *LAST) or (first + limit - 1 if limit > 0 else 0))


def _tasks(given: Mapping[str, object]) -> Iterator[Tasks]:
    """Yield the list of tasks, if every one in it has a text."""
    listed = next((given[name] for name in _LISTS if name in given), None)
    tasks = [one for one in listed if is_object(one)] if isinstance(listed, list) else []
    texts = [text_in(one, _TASK) for one in tasks]
    if texts and isinstance(listed, list) and len(tasks) == len(listed) and None not in texts:
        yield Tasks(tuple(Task(text or "", as_text(one.get("status"))) for text, one in zip(texts, tasks, strict=True)))
