"""What imports find a context by: the file of many conversations that it stands for, or the conversation's own ids."""

import sqlite3
from collections.abc import Mapping

from store.index.sums import sum_of


def origin(kind: str, *names: str) -> str:
    """Return what is filed for a context: ``kind`` says what the names are.

    ``layout``: the path of a file of many conversations. ``part``: a format, and the id of a conversation in such a
    file. ``session``: a format, and the tool's id of a session. ``begins``: a format, and a digest of a record at a
    conversation's beginning. ``source``: the path of a session.
    """
    return "\0".join((kind, *names))


def origins_of(metadata: Mapping[str, object]) -> list[str]:
    """Return what a context is found by; a fork is not what it was forked from."""
    if isinstance(path := metadata.get("layout_of"), str):
        return [origin("layout", path)]
    if "source" not in metadata or not isinstance(tool := metadata.get("format"), str):
        return []
    ids = [(kind, metadata.get(kind)) for kind in ("part", "session")]
    begins = metadata.get("begins")
    ids += [("begins", key) for key in (dict.fromkeys(begins) if isinstance(begins, list) else ())]
    return [origin(kind, tool, own) for kind, own in ids if isinstance(own, str) and own]


def pruned_origins(metadata: Mapping[str, object]) -> list[str]:
    """Return what is remembered of a context that is deleted, so that no import takes it for a new one."""
    found = origins_of({key: value for key, value in metadata.items() if key != "begins"})
    source = metadata.get("source")
    if isinstance(source, str) and "part" not in metadata:
        found.append(origin("source", source))
    return found


def file_origins(sql: sqlite3.Connection, context: int, before: list[str], now: list[str]) -> None:
    """File what a context is found by ``now``, in place of what it was found by ``before``."""
    gone = [(name, context) for name in before if name not in now]
    sql.executemany("DELETE FROM origins WHERE origin = ? AND context = ?", gone)
    rows = [(name, context) for name in now if name not in before]
    sql.executemany("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", [(*row, sum_of(row)) for row in rows])
