"""A part of a JSON document, by a path into it: ``findings[0].title``, or ``findings/0/title``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from store.errors import NotFound, UsageError

Step: TypeAlias = str | int

_STEP = re.compile(r'\.?([^.\[\]"]+)|\[([0-9]+)\]|\.?\["((?:[^"\\]|\\.)*)"\]')
_MOST_NAMED = 20


def parse_query(query: str) -> list[Step]:
    """Return the steps of a dotted path with ``[n]``, such as ``.findings[0].title``; ``["a.b"]`` is a key, too.

    Raises UsageError, saying where it stops making sense.
    """
    steps: list[Step] = []
    at = 0
    while at < len(query):
        found = _STEP.match(query, at)
        if found is None:
            raise UsageError(
                f"?q={query} makes no sense at {query[at:]!r}: write a dotted path with [n], as in findings[0].title"
            )
        key, index, quoted = found.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(key if key is not None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    return steps


def extract(document: bytes, steps: Sequence[Step], what: str) -> bytes:
    """Return the value at the end of a path, as pretty JSON with a newline.

    A step that is a number, or looks like one, is a place in an array. Raises UsageError for a body that is no JSON and
    NotFound where the path leads nowhere, saying how far it does and what is there; ``what`` is whose body it is.
    """
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON ({error}), so nothing can be extracted from it: read it whole") from None
    come = ""
    for step in steps:
        match value:
            case dict() if str(step) in value:
                value = value[str(step)]
            case list() if str(step).isdecimal() and int(step) < len(value):
                value = value[int(step)]
            case _:
                raise NotFound(f"{what} has no {_spelled(come, step)}: {_there(come, value)}")
        come = _spelled(come, step)
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _spelled(come: str, step: Step) -> str:
    if isinstance(step, int):
        return f"{come}[{step}]"
    return f"{come}.{step}" if come else step


def _there(come: str, value: object) -> str:
    where = come or "it"
    match value:
        case dict():
            keys = list(value)
            more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
            return f"{where} has {', '.join(map(str, keys[:_MOST_NAMED])) or 'nothing'}{more}"
        case list():
            return f"{where} is an array of {len(value)}"
    return f"{where} is {'null' if value is None else 'no object and no array'}"
