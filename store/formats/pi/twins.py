"""What a line says twice: a tool's result, in the message and in the program's own copy, ``details``."""

from collections.abc import Iterator

from store.events.event import Path
from store.formats.json_view import JsonObject, as_list, as_object
from store.formats.twins import carried, texts_in

_DETAILS: Path = ("message", "details")
_LONG = 20
"""Shorter texts than this say the same by chance."""


def twins(line: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
    """Yield the other texts of ``line`` to change, and to what, where that at ``path`` changes from old to new."""
    message = as_object(line.get("message"))
    if message.get("role") != "toolResult" or path[:2] != ("message", "content") or len(old) < _LONG:
        return
    said = [as_object(part).get("text") for part in as_list(message.get("content"))]
    if said.count(old) > 1:
        # which of them a copy belongs to cannot be told
        return
    for place, text in texts_in(message.get("details"), _DETAILS):
        if len(text) >= _LONG and (now := carried(text, old, new)) is not None and now != text:
            yield place, now
