"""Conversations and their versions as listings show them, a line each."""

from msgspec import Struct


class ConversationLine(Struct, frozen=True):
    """A conversation as ``ls`` shows it. Times are ISO 8601 in UTC, "" if unknown."""

    id: int
    name: str
    project: str
    title: str
    format: str
    source: str
    events: int
    created: str
    updated: str
    path: str
    labels: list[str]
    pinned: bool
    archived: bool


class NestedLine(ConversationLine, frozen=True):
    """A conversation, and the one that it is in if it is a subagent's (0: none)."""

    parent: int


class LogLine(Struct, frozen=True):
    """One version: its number, when it began (ISO 8601, UTC), what was done, and to which event (None: to no one)."""

    version: int
    time: str
    action: str
    event: int | None
