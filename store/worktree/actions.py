"""Actions on files, in one vocabulary for the file tools of every agent.

A call says which file and which change, its result what was read and whether it succeeded. Agents differ in the names
of tools and arguments, and in the frame around the text that they return: line numbers, a code fence, a note about what
was left out. :func:`actions_of` takes a call with its result and removes all of that. A tool that is not known, a call
that failed and a text that was cut in its middle give no action: better none than a wrong one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from msgspec import Struct, structs

from store.events.event import Block, Resource
from store.exporting.steps import Step
from store.formats.core.json_view import as_object, as_text, is_object, object_in
from store.worktree.patches import Change, parse_patch


class Read(Struct, frozen=True):
    """Lines of a file as they were seen, from line ``first`` on; ``total`` is how many the file has, 0 if unknown.

    Lines are what newlines separate: a text that ends in a newline has an empty last one.
    """

    path: str
    text: str
    first: int = 1
    total: int = 0

    @property
    def lines(self) -> str:
        """The lines as the fragment of a URI, ``#L10-20``; "" if they are all."""
        last = self.first + self.text.count("\n")
        return "" if self.first == 1 and last == self.total else lines_of(self.text, self.first)


class Write(Struct, frozen=True):
    """The whole content that a file was given."""

    path: str
    text: str


class Edit(Struct, frozen=True):
    """Changes of a file, one after the other."""

    path: str
    changes: tuple[Change, ...]


class Move(Struct, frozen=True):
    """Another path for a file."""

    path: str
    to: str


class Delete(Struct, frozen=True):
    """The end of a file."""

    path: str


Action = Read | Write | Edit | Move | Delete


class Lines(Struct, frozen=True):
    """Lines of a file to be read, from ``first`` to ``last`` (0: the end)."""

    path: str
    first: int = 1
    last: int = 0


class Command(Struct, frozen=True):
    """A command for a shell."""

    text: str


class Task(Struct, frozen=True):
    """A task of an agent's list, and its status as the agent calls it: ``completed``."""

    text: str
    status: str


class Tasks(Struct, frozen=True):
    """The list of an agent's tasks, as it is from now on."""

    tasks: tuple[Task, ...]


Asked = Write | Edit | Move | Delete | Lines | Command | Tasks

_PATH = (
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "notebook_path",
    "filename",
    "target_file",
    "filepath",
    "AbsolutePath",
    "absolutePath",
    "TargetFile",
    "targetFile",
)
_TEXT = ("content", "file_text", "fileText", "contents", "text", "CodeContent")
_OLD = (
    "old_string",
    "oldString",
    "oldText",
    "old_str",
    "oldStr",
    "old_text",
    "old",
    "search",
    "before",
    "TargetContent",
)
_FIRST = ("offset", "start_line", "startLine", "line_offset", "StartLine")
_LAST = ("end_line", "endLine", "EndLine")
_COUNT = ("limit", "n_lines")
_COMMAND = ("command", "cmd", "input", "CommandLine")
_LISTS = ("todos", "plan")
_TASK = ("content", "step", "description", "title", "text")
_NEW = (
    "new_string",
    "newString",
    "newText",
    "new_str",
    "newStr",
    "new_text",
    "new",
    "replace",
    "after",
    "ReplacementContent",
)
_EDITS = ("edits", "edit", "patterns", "replacements", "changes", "strReplace", "ReplacementChunks", "operations")
_LISTED = ("commands", "files", "operations")
_INEXACT = ("replace_using_regex", "use_regex", "ignore_case")
_FLAGGED = (True, "true")
_PATCH = ("input", "patch", "patchText", "diff")
_FOLDER = ("workdir", "cwd", "Cwd", "working_dir", "working_directory", "cd")

# Tools are called so in any of these programs; those that spell a name with capitals, with a prefix of their own or
# with other joints are found by the same words.
_READERS = frozenset((
    "copilotreadfile", "fsread", "fsreadfile", "open", "read", "readfile", "readfiles", "readfilev2", "view",
    "viewfile",
))
_WRITERS = frozenset((
    "copilotcreatefile", "create", "createfile", "createnewfile", "fscreatefile", "fswrite", "write", "writefile",
    "writetofile",
))
_EDITORS = frozenset((
    "applydiff", "copilotmultireplacestring", "copilotreplacestring", "edit", "editfile", "editor", "fsmodifyfile",
    "multiedit", "multireplacefilecontent", "multireplacestringinfile", "patch", "replace", "replacefilecontent",
    "replaceinfile", "replacestringinfile", "searchandreplace", "searchreplace", "singlefindandreplace", "strreplace",
    "strreplacefile",
))
_INSERTERS = frozenset(("fsappend", "insertcontent", "insertedittext"))
_PLANNERS = frozenset(("settodolist", "todolist", "todowrite", "updateplan", "updatetodos", "writetodos"))
_PATCHERS = frozenset(("applypatch", "copilotapplypatch", "patch"))
_DELETERS = frozenset(("delete", "deletefile", "removefile"))
_SHELLS = frozenset((
    "bash", "commandexecution", "execcommand", "execute", "executebash", "executecommand", "executepwsh",
    "localshell", "powershell", "runcommand", "runcommands", "runinterminal", "runshellcommand", "runterminalcmd",
    "runterminalcommand", "runterminalcommandv2", "shell", "terminal",
))
_MANY = frozenset((
    "editor", "fileeditor", "fswrite", "strreplacebasededittool", "strreplaceeditor", "texteditor", "write",
))
"""Tools with a command of their own: view, create, str_replace, and others that say too little."""
_OF_MANY = {
    "view": "view",
    "read": "view",
    "create": "create",
    "write": "create",
    "str_replace": "edit",
    "strreplace": "edit",
    "strReplace": "edit",
    "append": "fsappend",
    "insert": "fsappend",
}
_ADDED = ("append", True)
_WHOLE = ("write", "create", "overwrite")
_DOCUMENTS = frozenset(("total_lines", "absolutePath"))


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
    folder = absolute(_first(given, _FOLDER) or "", cwd) or cwd
    if shown := _window(result.text, folder):
        return [shown]
    if named in _READERS:
        numbered = _known_as(call.tool) in _MANY or call.tool == "Read"
        text = result.text
        told = object_in(text.encode("utf-8", "replace")) if text.startswith("{") else {}
        if named == "readfilev2" or told.keys() & _DOCUMENTS:
            # those of Cursor's editor, Hermes and Amp are documents
            text = _first(told, ("contents", "content")) or ""
        elif named == "view":
            text = _relisted(text)
        framed = "absolutePath" in told
        return reads_of(result.resources) or list(_read(given, text, folder, numbered=numbered, framed=framed))
    if named == "readmanyfiles":
        return [Read(absolute(path, folder), text, 1, text.count("\n") + 1) for path, text in _several(result.text)]
    if named in _SHELLS or (named == "exec" and "command" in given):
        return list(_shell(command_of(given), result.text, folder))
    if named == "exec":
        return list(_script(as_text(given.get("input")), result.blocks, folder))
    if named in _EDITORS and (path := _path(given, folder)) and (made := _whole_of(path, result.blocks)):
        return made
    if _undone(result.text):
        return []
    return _with_shown(_changes(given, named, folder), _path(given, folder), result.text)


def _with_shown(changes: Sequence[Action], path: str, text: str) -> list[Action]:
    """Return changes, with the file as Cline shows it after them: an editor, or its user, may have changed more."""
    begins = _final(text) if path and changes else None
    if begins is None or (end := text.rfind(_FINAL_ENDS)) < begins.end():
        return [*changes]
    shown = text[begins.end() : end]
    if isinstance(changes[-1], Write):
        return [Write(path, shown)]
    return [*changes, Read(path, shown, 1, shown.count("\n") + 1)]


def _whole_of(path: str, blocks: Sequence[Block]) -> list[Action]:
    """Return what the result of an edit shows of a file, before it and after, as Zed's do; nothing if it does not."""
    told = {block.name.rpartition(".")[2]: block.text for block in blocks if "." in block.name}
    old, new = told.get("old_text"), told.get("new_text")
    if new is None:
        return []
    return [*([Read(path, old, 1, old.count("\n") + 1)] if old else []), Write(path, new)]


def asked_of(call: Step) -> tuple[Sequence[Asked], Mapping[str, object]]:
    """Return what a call asks for, and those of its arguments that do not say it; nothing and all if it is not known.

    Paths are as the call has them.
    """
    given, named = _call(call)
    path = tuple(name for name in _PATH if isinstance(given.get(name), str))[:1]
    asked: Sequence[Asked]
    if named in _READERS and path:
        asked, used = [_lines(given, _path(given, ""))], (*path, *_FIRST, *_LAST, *_COUNT, "view_range")
    elif named in _SHELLS:
        asked, used = list(_commanded(command_of(given))), _COMMAND
    elif named in _PLANNERS:
        asked, used = list(_tasks(given)), _LISTS
    else:
        asked = _changes(given, named, "")
        used = (*path, *_TEXT, *_OLD, *_NEW, *_PATCH, *_EDITS)
    if not asked:
        return (), given
    if _known_as(call.tool) in _MANY:
        used = (*used, "command")
    return asked, {name: value for name, value in given.items() if name not in used}


def _call(call: Step) -> tuple[Mapping[str, object], str]:
    """Return the arguments of a call, and the name of its tool, or of the tool's command where it has several."""
    given, named = as_object(call.arguments), _known_as(call.tool)
    if isinstance(call.arguments, str):
        given = {"input": call.arguments}
    elif any(isinstance(value, str) and value[:1] == value[-1:] == '"' for value in given.values()):
        # Antigravity's are JSON in a text each
        given = {name: _unwrapped(value) for name, value in given.items()}
    if isinstance(tagged := given.get("args"), str) and _FILE_TAG in tagged:
        given = {**given, "files": list(_tagged(tagged))}
    for name in _LISTED:
        # of several, it is not known what the result says of each
        if isinstance(listed := given.get(name), list) and len(listed) == 1:
            given = {**given, **(listed[0] if is_object(listed[0]) else {_COMMAND[0]: listed[0]})}
    if named in _MANY:
        # OpenHands' records of a view leave out what it was
        asked = as_text(given.get("command")) or ("view" if "start" in given else "")
        if asked or named not in _WRITERS | _EDITORS:
            named = _OF_MANY.get(asked, "")
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


def _known_as(tool: str) -> str:
    """Return the name of a tool in the spelling of the sets above: without its server, its program and joints."""
    named = own_name(tool).lower().removeprefix("builtin_").replace("_", "").replace("-", "")
    return named.removesuffix("toolcall")


def is_shell(tool: str) -> bool:
    """Return whether a tool runs commands."""
    return _known_as(tool) in _SHELLS


def _unwrapped(value: object) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _changes(given: Mapping[str, object], named: str, folder: str) -> list[Write | Edit | Move | Delete]:
    path = _path(given, folder)
    text = _first(given, _TEXT)
    if named == "editor" and _EDITS[0] not in given and _first(given, _OLD) is None:
        # that of Cline makes files and inserts lines by its name alone
        named, text = "write" if given.get("insert_line") is None else "fsappend", _first(given, _NEW)
    if named in _INSERTERS or (named in _WRITERS and given.get("mode", given.get("append")) in _ADDED):
        # where it comes, and whether a newline is put before it, is not known, but for an empty file
        text = _first(given, (*_NEW, *_TEXT, "insert_text"))
        return [Edit(path, (Change("", text),))] if path and text is not None else []
    if named in _WRITERS or (named in _EDITORS and given.get("mode") in _WHOLE):
        return [Write(path, text)] if path and text is not None else []
    if named in _DELETERS and path:
        return [Delete(path)]
    if named == "searchandreplace" and not given.keys() & {"operations", *_FIRST, *_LAST}:
        given = {**given, "replace_all": True}
    found: list[Write | Edit | Move | Delete] = list(_edits(given, folder)) if named in _EDITORS else []
    if not found and named in _PATCHERS:
        found = list(_patched(_first(given, _PATCH) or "", folder))
    return found


def own_name(tool: str) -> str:
    """Return the name of a tool without that of the server that has it (``mcp__SERVER__TOOL``)."""
    return tool.rpartition("__")[2] or tool


def command_of(given: Mapping[str, object]) -> object:
    """Return the command among the arguments of a shell: a text, or a list of words."""
    return next((given[name] for name in _COMMAND if name in given), None)


def lines_of(text: str, first: int) -> str:
    """Return the lines of a file, from ``first`` on, as the fragment of a URI; an empty last one does not count."""
    last = first + text.removesuffix("\n").count("\n")
    return f"#L{first}-{last}"


def absolute(path: str, cwd: str) -> str:
    """Return a path as it is from the root, if that can be said; Windows' separators become slashes."""
    path = path.replace("\\", "/") if re.match(r"[A-Za-z]:[\\/]", path) else path
    if not path or path.startswith(("/", "~")) or re.match(r"[A-Za-z]:/", path):
        return path
    return str(PurePosixPath(cwd, path)) if cwd else path.removeprefix("./")


def _path(given: Mapping[str, object], cwd: str) -> str:
    return absolute(_first(given, _PATH) or "", cwd)


def _first(given: Mapping[str, object], names: Sequence[str]) -> str | None:
    return next((value for name in names if isinstance(value := given.get(name), str)), None)


def _number(given: Mapping[str, object], *names: str) -> int:
    return next((value for name in names if isinstance(value := given.get(name), int)), 0)


# -- reading -----------------------------------------------------------------------------------------------------------

_fragment = re.compile(r"L(\d+)-(\d+)").fullmatch


def reads_of(resources: Sequence[Resource]) -> list[Action]:
    """Return the files that an event holds as resources; a fragment of the URI says which lines of it."""
    found: list[Action] = []
    for resource in resources:
        parts = urlsplit(resource.uri)
        if parts.scheme != "file" or not isinstance(resource.content, str):
            continue
        path = unquote(parts.path)
        if lines := _fragment(parts.fragment):
            found.append(Read(path, resource.content, int(lines[1]), resource.lines))
        else:
            found.append(Read(path, resource.content, 1, resource.content.count("\n") + 1))
    return found


_numbered = re.compile(r"(?P<pad> +)?(\d+)(?:→|\t|:| \| ?|\|(?(pad)| ?))(.*)")
"""Crush fills numbers up with blanks, opencode with zeros, and only that has a blank behind the bar."""
_listed = re.compile(r"(\d+)\. ?(.*)")
_more = re.compile(
    r"\n\n\[(?:Showing lines \d+-\d+ of (?P<total>\d+)[^\]\n]*|(?P<more>\d+) more lines in file[^\]\n]*)\]\s*\Z"
)
_cut = re.compile(
    r"\.\.\. ?\d+ (?:tokens|characters|lines) truncated|…\d+ (?:tokens|chars) truncated…|\[truncated\]"
    r"|<response clipped>"
)
_lines_in_all = re.compile(r"\((\d+) lines total\)|End of file - total (\d+) lines|^Total Lines: (\d+)$", re.MULTILINE)
_gemini = re.compile(
    r"IMPORTANT: The file content has been truncated\.\nStatus: Showing lines (\d+)-\d+ of (\d+) total lines\.\n.*?\n"
    r"--- FILE CONTENT \(truncated\) ---\n",
    re.DOTALL,
).match
_vscode = re.compile(r"File: `[^`\n]+`\. Lines (\d+) to \d+ \((\d+) lines total\): ?\n").match
_vibe = re.compile(r"path: [^\n]*\ncontent: (.*)\nlines_read: \d+\nwas_truncated: (True|False)\s*", re.DOTALL).fullmatch
_content_of = re.compile(r"Content of [^\n]+:\n").match
_fence = re.compile(r"(`{3,})[^\n`]*\n(.*)\n\1\n?", re.DOTALL).fullmatch
_starting = re.compile(r"\.\.\. \(starting from line #(\d+)\) \.\.\.\n").match
_ending = re.compile(r"\n?\.\.\. \(truncated after line #\d+\) \.\.\.$").search


_RANGE = (*_FIRST, *_LAST, *_COUNT, "line_end", "view_range")
_CUT_IN_SILENCE = 1000
"""The fewest lines at which a tool ends without a word that there are more."""
_in_window = re.compile(r"\[File: ([^\n]+?) \(\d+ lines total\)\]\r?\n").match
_file_in = re.compile(
    r"^--- (/[^\n]+) ---\n\n(.*?)\n\n(?=--- (?:/[^\n]+|End of content) ---$)", re.DOTALL | re.MULTILINE
)
_no_file = re.compile(r"<(?:content|entries|error|files?|file_content|path|system-reminder|tool_use_error)\b").match


def _window(text: str, cwd: str) -> Read | None:
    """Return the part of a file in the window that SWE-agent's tools show, whichever it was."""
    found = _in_window(text)
    shown = _unnumbered(text) if found else None
    return Read(absolute(found[1], cwd), *shown) if found and shown else None


def _several(text: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and the texts of several files in one result."""
    if not _cut.search(text):
        yield from ((found[1], found[2]) for found in _file_in.finditer(text))


def _read(
    given: Mapping[str, object], text: str, cwd: str, *, numbered: bool = False, framed: bool = False
) -> Iterator[Read]:
    """Yield the lines that a tool's result shows, without the frame that the tool puts around them.

    ``numbered``: what has neither line numbers nor a fence is a directory, or a remark of the tool. ``framed``: a blank
    behind a line's number is not part of it.
    """
    path = _path(given, cwd)
    if not path or _cut.search(text):
        return
    first = max(_number(given, *_FIRST), 1)
    if _number(given, "start") > 0 or _number(given, "end") > 0:
        # some tools count from 0, others from 1
        numbered = True
    if found := _content_of(text):
        text, numbered = text[found.end() :], False
    if found := _gemini(text):
        yield Read(path, text[found.end() :], int(found[1]), int(found[2]))
    elif (found := _vscode(text)) and (fenced := _fence(text[found.end() :])):
        yield Read(path, fenced[2], int(found[1]), int(found[2]))
    elif found := _vibe(text):
        # it counts from 0
        first = max(_number(given, "offset"), 0) + 1
        is_rest = found[2] == "False" and not _number(given, *_COUNT)
        yield Read(path, found[1], first, first + found[1].count("\n") if is_rest else 0)
    elif shown := _unnumbered(text, framed=framed):
        lines, first, total = shown
        count = lines.count("\n") + 1
        if first == 1 and count < _CUT_IN_SILENCE and not any(map(given.get, _RANGE)):
            total = total or count
        yield Read(path, lines, first, total)
    elif fenced := _fence(text):
        yield _fenced(path, fenced[2])
    elif numbered or _no_file(text):
        return
    elif found := _more.search(text):
        text = text[: found.start()]
        count = text.count("\n") + 1
        total = int(found["total"]) if found["total"] else first - 1 + count + int(found["more"])
        yield Read(path, text, first, total)
    elif not _number(given, *_COUNT, *_LAST):
        yield Read(path, text, first, first + text.count("\n"))
    else:
        yield Read(path, text, first)


def _lines(given: Mapping[str, object], path: str) -> Lines:
    span = given.get("view_range")
    if isinstance(span, list) and len(span) == 2 and all(isinstance(line, int) for line in span):
        return Lines(path, max(span[0], 1), max(span[1], 0))
    first, limit = max(_number(given, *_FIRST), 1), _number(given, *_COUNT)
    return Lines(path, first, _number(given, *_LAST) or (first + limit - 1 if limit > 0 else 0))


def _fenced(path: str, text: str) -> Read:
    """Return the lines in a fence, with notes where others come before or after them."""
    first = 1
    if start := _starting(text):
        first, text = int(start[1]), text[start.end() :]
    if cut := _ending(text):
        return Read(path, text[: cut.start()], first)
    return Read(path, text, first, first + text.count("\n"))


def _relisted(text: str) -> str:
    """Return a text whose lines are all numbered as those of a list, as Copilot's are, with numbers like others."""
    found = [_listed.fullmatch(line) for line in text.split("\n")]
    numbers = [int(line[1]) if line else 0 for line in found]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or not numbers[0]:
        return text
    return "\n".join(f"{line[1]}\t{line[2]}" for line in found if line)


def _unnumbered(text: str, *, framed: bool = False) -> tuple[str, int, int] | None:
    """Return text without its line numbers, the first of them, and the file's number of lines if it is told."""
    lines: list[str] = []
    first = expected = 0
    for line in text.split("\n"):
        found = _numbered.fullmatch(line.removesuffix("\r"))
        number = int(found[2]) if found else 0
        if found and (number == expected or not lines):
            first = first or number
            expected = number + 1
            lines.append(found[3])
        elif lines:
            break
    if not lines or not first:
        return None
    framed = framed or "<content>\n" in text or text.startswith(("File Path: `", "### "))
    if framed and all(line.startswith(" ") for line in lines if line):
        lines = [line[1:] for line in lines]
    told = _lines_in_all.search(text)
    return "\n".join(lines), first, int(next(filter(None, told.groups()))) if told else 0


# -- writing -----------------------------------------------------------------------------------------------------------


_FILE_TAG = "<file>"
_span = re.compile(r"\s*(\d{1,9})-(\d{1,9})\s*").fullmatch
_DENIED = "The user denied this operation"
_undone = re.compile(r"No changes needed|Changes were rejected|Changes to [^\n]+ were not approved").match
"""The beginnings of what Roo says of edits that are not made."""
_final = re.compile(r'<final_file_content path="[^"\n]*">\n').search
_FINAL_ENDS = "\n</final_file_content>"
_conflicts = re.compile(
    r"^(?:<{5,}|-{5,}) ?SEARCH>?[^\n]*\n(?::start_line:[^\n]*\n)?(?::end_line:[^\n]*\n)?(?:-{5,}\n)?(.*?)\n?"
    r"^={5,}\n(.*?)\n?^(?:>{5,}|\+{5,}) ?REPLACE",
    re.DOTALL | re.MULTILINE,
).finditer
"""Edits of Cline, Roo and Vibe: texts to look for, and those that take their place."""


def _edits(given: Mapping[str, object], cwd: str) -> Iterator[Write | Edit]:
    """Yield the replacements of texts by others: one, or a list of them that may name a file each."""
    files = given.get(_LISTED[1])
    if isinstance(files, list) and len(files) > 1:
        for file in files:
            yield from _edits({**as_object(file), _LISTED[1]: None}, cwd)
        return
    whole = _path(given, cwd)
    changes: dict[str, list[Change]] = {}
    listed = next((given[name] for name in _EDITS if name in given), None)
    if isinstance(listed, str):
        listed = _unwrapped(listed)
    if isinstance(given.get("diff"), list):
        listed = given["diff"]
    blocks = _first(given, ("diff", "content")) if listed is None and _first(given, _OLD) is None else None
    if blocks is not None:
        listed = [{"old": found[1], "new": found[2]} for found in _conflicts(blocks)]
    for one in listed if isinstance(listed, list) else [listed if is_object(listed) else given]:
        if not is_object(one) or any(held.get(name) in _FLAGGED for held in (given, one) for name in _INEXACT):
            return
        old, new = _first(one, _OLD), _first(one, _NEW)
        if old is None or new is None:
            return
        every = one.get("replace_all", one.get("replaceAll", one.get("allow_multiple"))) is True
        every = every or _number(one, "expected_replacements") > 1
        named = one.get("paths", [own] if (own := _first(one, _PATH)) else None)
        paths = [absolute(path, cwd) for path in named if isinstance(path, str)] if isinstance(named, list) else [whole]
        for path in filter(None, paths):
            changes.setdefault(path, []).append(Change(old, new, every))
    for path, made in changes.items():
        if not made[0].old and blocks is None:
            # in the place of nothing, it is a new file
            yield Write(path, made.pop(0).new)
        if made:
            yield Edit(path, tuple(made))


def _patched(patch: str, cwd: str) -> Iterator[Write | Edit | Move | Delete]:
    for one in parse_patch(patch):
        path = absolute(one.path, cwd)
        if one.text is not None:
            yield Write(path, one.text)
        elif one.deleted:
            yield Delete(path)
        else:
            if one.changes:
                yield Edit(path, one.changes)
            if one.to:
                yield Move(path, absolute(one.to, cwd))


# -- the shell ---------------------------------------------------------------------------------------------------------

_OUTPUT = re.compile(r"(?:Command|Chunk ID|Exit code|Wall time|Script completed).*?\nOutput:\n", re.DOTALL).match
_range = re.compile(r"(\d+)(?:,(\d+|\$))?p").fullmatch
_LONGEST_COMMAND = 4096
_JOINTS = frozenset((";", "&&", "||", "|", "&", ">", ">>", "<", "<<"))


def _shell(command: object, output: str, cwd: str) -> Iterator[Action]:
    """Yield the file that a command printed: ``cat``, ``nl -ba``, ``head``, ``sed -n 'A,Bp'``; or that it patched.

    Only of a command that does nothing else, since of several it is not known where the output of one ends.
    """
    if here := _here(command):
        cwd = absolute(here["cd"], cwd) if here["cd"] else cwd
        if here["file"]:
            yield Write(absolute(here["file"], cwd), here["text"])
        else:
            yield from _patched(here["text"], cwd)
        return
    words = _words(command)
    if words[:1] == ["apply_patch"] and len(words) == 2:
        yield from _patched(words[1], cwd)
        return
    if len(words) > 3 and words[0] == "cd" and words[2] == "&&":
        cwd, words = absolute(words[1], cwd), words[3:]
    if (asked := _printed(words)) is None or _cut.search(output):
        return
    name, first, last = asked
    text = output[found.end() :] if (found := _OUTPUT(output)) else output
    if words[0] == "nl":
        if (numbered := _unnumbered(text)) is None:
            return
        text = numbered[0] + "\n"
    count = text.count("\n")
    if last and count >= last - first + 1:
        yield Read(absolute(name, cwd), text.removesuffix("\n"), first)
    elif text:
        # there were no more lines
        yield Read(absolute(name, cwd), text, first, first + count)


_here_document = re.compile(
    r"\s*(?:cd (?P<cd>[\w./~-]+) && )?(?:apply_patch|cat >\s*(?P<file>[\w./~-]+))"
    r"\s*<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n(?P<text>(?:.*\n)*?)(?P=end)\s*"
).fullmatch
_expanded = re.compile(r"[$`\\]").search


def _here(command: object) -> re.Match[str] | None:
    """Return a command that writes or patches a file with a text that stands behind it."""
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    script = command if isinstance(command, str) else script_of(words) or ""
    found = _here_document(script)
    # unquoted, the shell may make something else of it
    return None if found and not found["quote"] and _expanded(found["text"]) else found


_tool_call = re.compile(r"tools\.(\w+)\(").finditer
_assigned = re.compile(r'const patch = (?=")').search


def _script(script: str, blocks: Sequence[Block], cwd: str) -> Iterator[Action]:
    """Yield what the only call of a tool in one of Codex's scripts did; its output is a block of its own."""
    calls = list(_tool_call(script))
    if len(calls) != 1:
        return
    if calls[0][1] == "apply_patch":
        found = _assigned(script)
        patch = _value(script, found.end() if found else calls[0].end())
        yield from _patched(as_text(patch), cwd)
    elif calls[0][1] == "exec_command" and is_object(given := _value(script, calls[0].end())) and len(blocks) == 2:
        yield from _shell(given.get("cmd"), blocks[1].text or "", as_text(given.get("workdir")) or cwd)


def _value(script: str, at: int) -> object:
    """Return the JSON value that begins somewhere in a script, None if there is none."""
    try:
        return json.JSONDecoder().raw_decode(script, at)[0]
    except (ValueError, RecursionError):
        return None


def _commanded(command: object) -> Iterator[Command | Write | Edit | Move | Delete]:
    """Yield what a command asks for: the files that it writes or patches with a text of its own, else itself."""
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if here := _here(command):
        made = [Write(here["file"], here["text"])] if here["file"] else list(_patched(here["text"], ""))
    else:
        made = list(_patched(words[1], "")) if words[:1] == ["apply_patch"] and len(words) == 2 else []
    if made and not (here and here["cd"]):
        yield from made
    elif text := command if isinstance(command, str) else script_of(words) or shlex.join(words):
        yield Command(text)


def _words(command: object) -> list[str]:
    """Return the words of a command, which may be a list that begins with a shell."""
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        if (script := script_of(words)) is None:
            return words
        command = script
    if not isinstance(command, str) or len(command) > _LONGEST_COMMAND:
        return []
    try:
        splitter = shlex.shlex(command, posix=True, punctuation_chars=True)
        splitter.whitespace_split = True
        return list(splitter)
    except ValueError:
        return []


def script_of(words: Sequence[str]) -> str | None:
    """Return the script in the words of a command that begins with a shell, None if it does not."""
    is_script = len(words) == 3 and PurePosixPath(words[0]).name in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc")
    return words[2] if is_script else None


def _printed(words: list[str]) -> tuple[str, int, int] | None:
    """Return the file that a command prints, and its first and last line (0: the end); None if it does other things."""
    pipe = words.index("|") if "|" in words else len(words)
    left, right = words[:pipe], words[pipe + 1 :]
    if _JOINTS.intersection(left) or _JOINTS.intersection(right):
        return None
    match left:
        case ["cat", name] | ["nl", "-ba", name]:
            first, last = 1, 0
        case ["sed", "-n", lines, name] if (found := _range(lines)) and not right:
            return name, int(found[1]), 0 if found[2] == "$" else int(found[2] or found[1])
        case ["head", "-n", count, name] if count.isdecimal() and not right:
            return name, 1, int(count)
        case ["head", count, name] if count[1:].isdecimal() and not right:
            return name, 1, int(count[1:])
        case ["tail", "-n", start, name] if start[:1] == "+" and start[1:].isdecimal() and not right:
            return name, int(start[1:]), 0
        case _:
            return None
    if name.startswith("-"):
        return None
    match right:
        case []:
            return name, first, last
        case ["sed", "-n", lines] if found := _range(lines):
            return name, int(found[1]), 0 if found[2] == "$" else int(found[2] or found[1])
        case ["head", "-n", count] if count.isdecimal():
            return name, 1, int(count)
        case _:
            return None


# -- plans -------------------------------------------------------------------------------------------------------------


def _tasks(given: Mapping[str, object]) -> Iterator[Tasks]:
    """Yield the list of tasks, if every one in it has a text."""
    listed = next((given[name] for name in _LISTS if name in given), None)
    tasks = [one for one in listed if is_object(one)] if isinstance(listed, list) else []
    texts = [_first(one, _TASK) for one in tasks]
    if texts and isinstance(listed, list) and len(tasks) == len(listed) and None not in texts:
        yield Tasks(tuple(Task(text or "", as_text(one.get("status"))) for text, one in zip(texts, tasks, strict=True)))
