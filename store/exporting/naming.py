"""What exported files are called, and ids for those who want some: the same each time that something is exported."""

from __future__ import annotations

from pathlib import PurePath
from uuid import UUID, uuid5

from store.events.conversation import Conversation
from store.store import Store

_LONGEST_STEM = 230
"""Bytes, so that a suffix fits behind it."""


def file_name(conversation: Conversation, suffix: str) -> PurePath:
    """Return the name of a file, or folder, that is called after a conversation."""
    stem = conversation.name.encode()[:_LONGEST_STEM].decode("utf-8", "ignore")
    return PurePath(stem + suffix)


def session_id(store: Store, conversation: Conversation, tool: str) -> UUID:
    """Return what a conversation is called where it becomes a session of ``tool``."""
    return uuid5(UUID(bytes=store.store_id[:16]), f"{tool} {conversation.id}")


def numbered_id(session: UUID, number: int, which: str) -> str:
    """Return what a record of a session is called: the one, ``which`` says, that is made of event ``number``."""
    return str(uuid5(session, f"{number}.{which}"))
