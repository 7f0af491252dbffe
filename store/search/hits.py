"""What is found: events in conversations, with the lines that say what was searched for."""

from __future__ import annotations

from msgspec import Struct


class Line(Struct, frozen=True):
    """A line of an event's file; ``number`` counts from 1, from the first of the file's head on."""

    number: int
    text: str


class Hit(Struct, frozen=True):
    """An event in a conversation that is what was asked for.

    ``path`` is that of its file in a mount, from there. ``event`` is its number, ``turn`` its id (``store.ids``),
    ``type`` its kind as the file's head says it (``tool_result``). ``time_ms`` is when it happened or, if it does not
    say so, when it came into the store. ``lines`` are those on which something was found, at most as many as were
    asked for: none where only filters were given.
    """

    path: str
    conversation: int
    project: str
    name: str
    title: str
    event: int
    turn: int
    type: str
    tool: str
    time_ms: int
    lines: tuple[Line, ...]
