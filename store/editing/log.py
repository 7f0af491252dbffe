"""The log of a conversation: its versions, as people and programs read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from store.events.conversation import Version

_EVENT = re.compile(r" (\d{5,})\b")


class LogLine(Struct, frozen=True):
    """One version: its number, when it began (ISO 8601, UTC), what was done, and to which event (None: to no one)."""

    version: int
    time: str
    action: str
    event: int | None


def version_log(versions: Iterable[Version]) -> list[LogLine]:
    """Return the log of a conversation, oldest version first."""
    return [
        LogLine(version.number, _iso(version.time_ms), version.action, _event(version.action)) for version in versions
    ]


def _event(action: str) -> int | None:
    found = _EVENT.search(action)
    return int(found[1]) if found else None


def _iso(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return ""
