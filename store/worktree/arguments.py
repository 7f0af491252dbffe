"""Arguments of calls, by the names that the tools of all agents give them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

PATH = (
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
TEXT = ("content", "file_text", "fileText", "contents", "text", "CodeContent")
OLD = (
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
NEW = (
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
EDITS = ("edits", "edit", "patterns", "replacements", "changes", "strReplace", "ReplacementChunks", "operations")
LISTED = ("commands", "files", "operations")
PATCH = ("input", "patch", "patchText", "diff")
FIRST = ("offset", "start_line", "startLine", "line_offset", "StartLine")
LAST = ("end_line", "endLine", "EndLine")
COUNT = ("limit", "n_lines")
COMMAND = ("command", "cmd", "input", "CommandLine")
FOLDER = ("workdir", "cwd", "Cwd", "working_dir", "working_directory", "cd")


def path_in(given: Mapping[str, object], cwd: str) -> str:
    """Return the path of the file that a call is about, "" if it names none."""
    return absolute(text_in(given, PATH) or "", cwd)


def text_in(given: Mapping[str, object], names: Sequence[str]) -> str | None:
    """Return the first text under one of the names."""
    return next((value for name in names if isinstance(value := given.get(name), str)), None)


def number_in(given: Mapping[str, object], *names: str) -> int:
    """Return the first whole number under one of the names, 0 if there is none."""
    return next((value for name in names if isinstance(value := given.get(name), int)), 0)


def absolute(path: str, cwd: str) -> str:
    """Return a path as it is from the root, if that can be said; Windows' separators become slashes."""
    path = path.replace("\\", "/") if re.match(r"[A-Za-z]:[\\/]", path) else path
    if not path or path.startswith(("/", "~")) or re.match(r"[A-Za-z]:/", path):
        return path
    return str(PurePosixPath(cwd, path)) if cwd else path.removeprefix("./")


def unwrapped(value: object) -> object:
    """Return what a text is as JSON, where it is JSON; anything else as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value
