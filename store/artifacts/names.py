"""What outputs are called: ``<n>.<tool>.log`` and ``<index>-<name>.md``, nested ``0-Parent.1-Child.md``.

Numbers go on from the highest that there is, from 0 if there is none; those of tools and of agents are counted apart,
and those of each agent's own agents, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from store.errors import Conflict, UsageError
from store.events.outputs import AGENTS, ARTIFACTS, Outputs

_ARTIFACT = re.compile(r"([0-9]{1,9})\.(.+)", re.DOTALL)
_AGENT = re.compile(r"(?:(.+)\.)?([0-9]{1,9})-(.+)", re.DOTALL)
_ASKED = re.compile(r"\w.*(?<!~)", re.DOTALL)
_UNFIT = re.compile(r"[/\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST = 160


def is_name(outputs: Outputs, name: str) -> bool:
    """Say whether ``name`` is one that such an output can be listed under."""
    return _parsed(outputs, name) is not None


def may_name(name: str) -> bool:
    """Say whether a file of that name is meant to be an output: else it is some program's own (``.x.swp``, ``x~``)."""
    return _ASKED.fullmatch(name) is not None


def identity(outputs: Outputs, name: str) -> str:
    """Return the id that a URL names an output by: ``0`` of ``0.make.log``, ``0-Explore`` of ``0-Explore.md``."""
    if outputs is ARTIFACTS:
        found = _ARTIFACT.fullmatch(name)
        return found[1] if found and name.endswith(outputs.ending) else name
    return name.removesuffix(outputs.ending)


def listed_name(outputs: Outputs, asked: str, taken: Iterable[str], *, parent: str = "") -> str:
    """Return the name of a new output that somebody calls ``asked``: with its number, and an ending.

    A name that has a free number keeps it. ``parent`` is the id of the agent whose agent it is; ``0-Parent.Child`` says
    so, too, where there is such an agent. Raises Conflict for a number that is taken, UsageError for what is no name.
    """
    taken = set(taken)
    if is_name(outputs, asked) and not parent:
        if any(_number(outputs, other) == _number(outputs, asked) for other in taken):
            raise Conflict(f"{outputs.directory}/{asked}: the number is taken: leave it out to have the next")
        return asked
    word = asked.removesuffix(outputs.ending)
    if outputs is AGENTS and not parent:
        above, dot, below = word.rpartition(".")
        if dot and below and above + outputs.ending in taken:
            parent, word = above, below
    word = _UNFIT.sub("_", word.strip())
    if not may_name(word) or len(word.encode()) > _LONGEST:
        raise UsageError(f"{asked!r} is no name for an output: a word, of {_LONGEST} bytes at most")
    counted = [found[1] for name in taken if (found := _number(outputs, name)) and found[0] == parent]
    number = max(counted, default=-1) + 1
    if outputs is ARTIFACTS:
        return f"{number}.{word}{outputs.ending}"
    return f"{parent}{'.' if parent else ''}{number}-{word}{outputs.ending}"


def _number(outputs: Outputs, name: str) -> tuple[str, int] | None:
    """Return the number of an output, behind the id of the agent that it is counted under ("": of none)."""
    found = _parsed(outputs, name)
    if found is None:
        return None
    return ("", int(found[1])) if outputs is ARTIFACTS else (found[1] or "", int(found[2]))


def _parsed(outputs: Outputs, name: str) -> re.Match[str] | None:
    if not name.endswith(outputs.ending):
        return None
    return (_ARTIFACT if outputs is ARTIFACTS else _AGENT).fullmatch(name.removesuffix(outputs.ending))
