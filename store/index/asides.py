"""Conversations that do not stand among the others: runs of subagents, warm-ups, and sessions in which nobody speaks.

A subagent's is in the conversation that started it, if that is there: then it has a ``parent``. Otherwise it is a
conversation like others. In the trash, it is in that if both are there. A person may put it elsewhere.

What a row says follows from metadata alone; whether somebody speaks in a session is known once it is measured.
"""

import sqlite3
from collections.abc import Mapping
from itertools import takewhile

from store.events.conversation import NAMING, OWN_PLACE
from store.index.database import put
from store.index.origins import mark_of

USUAL, WARM_UP, UNTITLED = 0, 1, 2
"""The kinds: a program ran it to be ready, and nobody asked for anything; it has no title, and may have no content."""

_WARM_UP = "warmup"
_TOLD_BY_PROGRAM = (0, 1)
"""The quality of a title that no request of a person tells."""


def kind_of(metadata: Mapping[str, object]) -> int:
    """Return what kind of conversation metadata tells of; one that a person has named or pinned is a usual one."""
    naming, title = metadata.get(NAMING), str(metadata.get("title") or "")
    if "source" not in metadata or not isinstance(naming, dict) or metadata.get("pinned") is True:
        return USUAL
    is_agent = "agent" in metadata
    if title.strip().lower() == _WARM_UP and (is_agent or naming.get("title") in _TOLD_BY_PROGRAM):
        return WARM_UP
    return USUAL if title else WARM_UP if is_agent else UNTITLED


def file_aside(sql: sqlite3.Connection, context: int, metadata: Mapping[str, object]) -> None:
    """File where a conversation stands, in place of what was filed of it; one without a name stands nowhere."""
    sql.execute("DELETE FROM asides WHERE context = ?", (context,))
    if metadata.get("project") and metadata.get("name"):
        parent, kind = _parent_of(sql, context, metadata), kind_of(metadata)
        if parent or kind:
            put(sql, "asides", [(context, parent, kind)])


def _parent_of(sql: sqlite3.Connection, context: int, metadata: Mapping[str, object]) -> int:
    mark = mark_of("session", metadata, "parent_session")
    if not mark or "source" not in metadata or metadata.get(OWN_PLACE) is True:
        return 0
    found = sql.execute(
        "SELECT id, source FROM origins JOIN contexts ON id = context WHERE origin = ? AND id != ?"
        " AND (name IS NOT NULL OR trashed_ms != 0) AND (trashed_ms != 0) = ?",
        (mark, context, bool(metadata.get("trashed_ms"))),
    ).fetchall()
    own = str(metadata["source"]).split("/")
    # of copies of a session, the one that lies nearest
    nearest = sorted(found, key=lambda one: (-_shared(one[1].split("/"), own), one[0]))
    return next((parent for parent, _source in nearest if not _is_within(sql, parent, context)), 0)


def _shared(path: list[str], other: list[str]) -> int:
    return sum(1 for _same in takewhile(lambda parts: parts[0] == parts[1], zip(path, other, strict=False)))


def _is_within(sql: sqlite3.Connection, context: int, other: int) -> bool:
    """Return whether a conversation is in another one: no chain of parents may be a circle."""
    while context and context != other:
        row = sql.execute("SELECT parent FROM asides WHERE context = ?", (context,)).fetchone()
        context = row[0] if row else 0
    return context == other
