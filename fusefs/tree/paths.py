"""Where in a mount things are: paths relative to its root, as listings would lead to them."""

from __future__ import annotations

from fusefs.text.names import event_name, safe_name
from fusefs.tree.control import CONTROL, TRASH, trash_names
from fusefs.tree.projects import CONVERSATIONS
from fusefs.tree.records import record_name
from fusefs.tree.shown_names import Named, shown_distinct, shown_name
from fusefs.tree.versions import version_name
from store.backlinks.backlinks import Holding
from store.events.conversation import EventRow, Version
from store.events.event import Kind
from store.store import Store


def conversation_path(store: Store, conversation: Named, version: Version | None = None) -> str:
    """Return the path of a conversation's directory, or of that of an earlier version.

    "" for a context that is shown nowhere, since it has no name.
    """
    path = _in_project(store, conversation) if conversation.name else _in_trash(store, conversation.id)
    return path if version is None or not path else f"{path}/.versions/{version_name(version)}"


def _in_project(store: Store, conversation: Named) -> str:
    project = conversation.project
    if safe_name(project) != project:
        project = next(shown for shown, named in shown_distinct(store.projects()).items() if named == project)
    return f"{CONVERSATIONS}/{project}/{shown_name(conversation)}"


def _in_trash(store: Store, context: int) -> str:
    names = (name for name, trashed in trash_names(store).items() if trashed.id == context)
    return next((f"{CONTROL}/{TRASH}/{name}" for name in names), "")


def event_path(conversation: str, row: EventRow, records: int) -> str:
    """Return the path of an event's file in a conversation of so many records whose path is known."""
    return f"{conversation}/events/{event_name(row, records)}"


def holding_path(store: Store, holding: Holding) -> str:
    """Return the path of the event or the output that holds something, or else of its conversation; "" if it has none.

    A record that has no file in ``events/`` is in ``.records/``.
    """
    found, row = holding.conversation, holding.row
    path = conversation_path(store, found, holding.version)
    if not path:
        return ""
    if row is None:
        return f"{path}/{holding.name}" if holding.relation == "output" else f"{path}/metadata.json"
    records = found.records if holding.version is None else holding.version.records
    if row.kind is Kind.RECORD:
        return f"{path}/.records/{record_name(row.number, records)}"
    return event_path(path, row, records)
