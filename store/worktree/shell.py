"""Commands of shells: the file that one prints, writes or patches."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from store.events.event import Block
from store.formats.core.json_view import as_text, is_object
from store.worktree.actions import Action, Command, Delete, Edit, Move, Read, Write
from store.worktree.arguments import COMMAND, absolute
from store.worktree.edits import patched
from store.worktree.shown import is_cut, unnumbered

_OUTPUT = re.compile(r"(?:Command|Chunk ID|Exit code|Wall time|Script completed).*?\nOutput:\n", re.DOTALL).match
_range = re.compile(r"(\d+)(?:,(\d+|\$))?p").fullmatch
_LONGEST_COMMAND = 4096
_JOINTS = frozenset((";", "&&", "||", "|", "&", ">", ">>", "<", "<<"))
_here_document = re.compile(
    r"\s*(?:cd (?P<cd>[\w./~-]+) && )?(?:apply_patch|cat >\s*(?P<file>[\w./~-]+))"
    r"\s*<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n(?P<text>(?:.*\n)*?)(?P=end)\s*"
).fullmatch
_expanded = re.compile(r"[$`\\]").search
_tool_call = re.compile(r"tools\.(\w+)\(").finditer
_assigned = re.compile(r'const patch = (?=")').search


def shell_actions(command: object, output: str, cwd: str) -> Iterator[Action]:
    """Yield the file that a command printed: ``cat``, ``nl -ba``, ``head``, ``sed -n 'A,Bp'``; or that it patched.

    Only of a command that does nothing else, since of several it is not known where the output of one ends.
    """
    if here := _here(command):
        cwd = absolute(here["cd"], cwd) if here["cd"] else cwd
        if here["file"]:
            yield Write(absolute(here["file"], cwd), here["text"])
        else:
            yield from patched(here["text"], cwd)
        return
    words = _words(command)
    if words[:1] == ["apply_patch"] and len(words) == 2:
        yield from patched(words[1], cwd)
        return
    if len(words) > 3 and words[0] == "cd" and words[2] == "&&":
        cwd, words = absolute(words[1], cwd), words[3:]
    if (asked := _printed(words)) is None or is_cut(output):
        return
    name, first, last = asked
    text = output[found.end() :] if (found := _OUTPUT(output)) else output
    if words[0] == "nl":
        if (numbered := unnumbered(text)) is None:
            return
        text = numbered[0] + "\n"
    count = text.count("\n")
    if last and count >= last - first + 1:
        yield Read(absolute(name, cwd), text.removesuffix("\n"), first)
    elif text:
        # there were no more lines
        yield Read(absolute(name, cwd), text, first, first + count)


def script_actions(script: str, blocks: Sequence[Block], cwd: str) -> Iterator[Action]:
    """Yield what the only call of a tool in one of Codex's scripts did; its output is a block of its own."""
    calls = list(_tool_call(script))
    if len(calls) != 1:
        return
    if calls[0][1] == "apply_patch":
        found = _assigned(script)
        patch = _value(script, found.end() if found else calls[0].end())
        yield from patched(as_text(patch), cwd)
    elif calls[0][1] == "exec_command" and is_object(given := _value(script, calls[0].end())) and len(blocks) == 2:
        yield from shell_actions(given.get("cmd"), blocks[1].text or "", as_text(given.get("workdir")) or cwd)


def commanded(command: object) -> Iterator[Command | Write | Edit | Move | Delete]:
    """Yield what a command asks for: the files that it writes or patches with a text of its own, else itself."""
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if here := _here(command):
        made = [Write(here["file"], here["text"])] if here["file"] else list(patched(here["text"], ""))
    else:
        made = list(patched(words[1], "")) if words[:1] == ["apply_patch"] and len(words) == 2 else []
    if made and not (here and here["cd"]):
        yield from made
    elif text := command if isinstance(command, str) else script_of(words) or shlex.join(words):
        yield Command(text)


def command_of(given: Mapping[str, object]) -> object:
    """Return the command among the arguments of a shell: a text, or a list of words."""
    return next((given[name] for name in COMMAND if name in given), None)


def script_of(words: Sequence[str]) -> str | None:
    """Return the script in the words of a command that begins with a shell, None if it does not."""
    is_script = len(words) == 3 and PurePosixPath(words[0]).name in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc")
    return words[2] if is_script else None


def _here(command: object) -> re.Match[str] | None:
    """Return a command that writes or patches a file with a text that stands behind it."""
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    script = command if isinstance(command, str) else script_of(words) or ""
    found = _here_document(script)
    # unquoted, the shell may make something else of it
    return None if found and not found["quote"] and _expanded(found["text"]) else found


def _value(script: str, at: int) -> object:
    """Return the JSON value that begins somewhere in a script, None if there is none."""
    try:
        return json.JSONDecoder().raw_decode(script, at)[0]
    except (ValueError, RecursionError):
        return None


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
