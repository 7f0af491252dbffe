"""Where in a mount things are: paths relative to its root, as listings would lead to them."""

from __future__ import annotations

from fusefs.text.names import event_name, safe_name
from fusefs.tree.projects import CONVERSATIONS
from fusefs.tree.shown_names import Named, shown_distinct, shown_name
from fusefs.tree.versions import version_name
from store.events.conversation import EventRow, Version
from store.store import Store


def conversation_path(store: Store, conversation: Named, version: Version | None = None) -> str:
    """Return the path of a conversation's directory, or of that of an earlier version."""
    project = conversation.project
    if safe_name(project) != project:
        project = next(shown for shown, named in shown_distinct(store.projects()).items() if named == project)
    path = f"{CONVERSATIONS}/{project}/{shown_name(conversation)}"
    return path if version is None else f"{path}/.versions/{version_name(version)}"


def event_path(conversation: str, row: EventRow, records: int) -> str:
    """Return the path of an event's file in a conversation of so many records whose path is known."""
    return f"{conversation}/events/{event_name(row, records)}"
