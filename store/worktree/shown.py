"""Files as results show them, without the frame that a tool puts around: numbers of lines, a fence, a remark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from store.events.event import Block, Resource
from store.worktree.actions import Action, Read, Write
from store.worktree.arguments import COUNT, FIRST, LAST, absolute, number_in, path_in

_fragment = re.compile(r"L(\d+)-(\d+)").fullmatch
_numbered = re.compile(r"(?P<pad> +)?(\d+)(?:→|\t|:| \| ?|\|(?(pad)| ?))(.*)")
"""Crush fills numbers up with blanks, opencode with zeros, and only that has a blank behind the bar."""
_listed = re.compile(r"(\d+)\. ?(.*)")
_more = re.compile(
    r"\n\n\[(?:Showing lines \d+-\d+ of (?P<total>\d+)[^\]\n]*|(?P<more>\d+) more lines in file[^\]\n]*)\]\s*\Z"
)
is_cut = re.compile(
    r"\.\.\. ?\d+ (?:tokens|characters|lines) truncated|…\d+ (?:tokens|chars) truncated…|\[truncated\]"
    r"|<response clipped>"
).search
"""The mark of a text that was cut in its middle."""
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

_RANGE = (*FIRST, *LAST, *COUNT, "line_end", "view_range")
_CUT_IN_SILENCE = 1000
"""The fewest lines at which a tool ends without a word that there are more."""
_in_window = re.compile(r"\[File: ([^\n]+?) \(\d+ lines total\)\]\r?\n").match
_file_in = re.compile(
    r"^--- (/[^\n]+) ---\n\n(.*?)\n\n(?=--- (?:/[^\n]+|End of content) ---$)", re.DOTALL | re.MULTILINE
)
_no_file = re.compile(r"<(?:content|entries|error|files?|file_content|path|system-reminder|tool_use_error)\b").match
_final = re.compile(r'<final_file_content path="[^"\n]*">\n').search
_FINAL_ENDS = "\n</final_file_content>"


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


def window_in(text: str, cwd: str) -> Read | None:
    """Return the part of a file in the window that SWE-agent's tools show, whichever it was."""
    found = _in_window(text)
    shown = unnumbered(text) if found else None
    return Read(absolute(found[1], cwd), *shown) if found and shown else None


def files_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and the texts of several files in one result."""
    if not is_cut(text):
        yield from ((found[1], found[2]) for found in _file_in.finditer(text))


def shown_by_read(
    given: Mapping[str, object], text: str, cwd: str, *, numbered: bool = False, framed: bool = False
) -> Iterator[Read]:
    """Yield the lines that a tool's result shows, without the frame that the tool puts around them.

    ``numbered``: what has neither line numbers nor a fence is a directory, or a remark of the tool. ``framed``: a blank
    behind a line's number is not part of it.
    """
    path = path_in(given, cwd)
    if not path or is_cut(text):
        return
    first = max(number_in(given, *FIRST), 1)
    if number_in(given, "start") > 0 or number_in(given, "end") > 0:
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
        first = max(number_in(given, "offset"), 0) + 1
        is_rest = found[2] == "False" and not number_in(given, *COUNT)
        yield Read(path, found[1], first, first + found[1].count("\n") if is_rest else 0)
    elif shown := unnumbered(text, framed=framed):
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
    elif not number_in(given, *COUNT, *LAST):
        yield Read(path, text, first, first + text.count("\n"))
    else:
        yield Read(path, text, first)


def _fenced(path: str, text: str) -> Read:
    """Return the lines in a fence, with notes where others come before or after them."""
    first = 1
    if start := _starting(text):
        first, text = int(start[1]), text[start.end() :]
    if cut := _ending(text):
        return Read(path, text[: cut.start()], first)
    return Read(path, text, first, first + text.count("\n"))


def relisted(text: str) -> str:
    """Return a text whose lines are all numbered as those of a list, as Copilot's are, with numbers like others."""
    found = [_listed.fullmatch(line) for line in text.split("\n")]
    numbers = [int(line[1]) if line else 0 for line in found]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or not numbers[0]:
        return text
    return "\n".join(f"{line[1]}\t{line[2]}" for line in found if line)


def unnumbered(text: str, *, framed: bool = False) -> tuple[str, int, int] | None:
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


def with_shown(changes: Sequence[Action], path: str, text: str) -> list[Action]:
    """Return changes, with the file as Cline shows it after them: an editor, or its user, may have changed more."""
    begins = _final(text) if path and changes else None
    if begins is None or (end := text.rfind(_FINAL_ENDS)) < begins.end():
        return [*changes]
    shown = text[begins.end() : end]
    if isinstance(changes[-1], Write):
        return [Write(path, shown)]
    return [*changes, Read(path, shown, 1, shown.count("\n") + 1)]


def whole_of(path: str, blocks: Sequence[Block]) -> list[Action]:
    """Return what the result of an edit shows of a file, before it and after, as Zed's do; nothing if it does not."""
    told = {block.name.rpartition(".")[2]: block.text for block in blocks if "." in block.name}
    old, new = told.get("old_text"), told.get("new_text")
    if new is None:
        return []
    return [*([Read(path, old, 1, old.count("\n") + 1)] if old else []), Write(path, new)]
