"""Marks that contexts are found by, whatever they are called: paths, sessions, beginnings, former names."""

from collections.abc import Mapping

from store.events.conversation import CALLED, MOVED_FROM, called_before


def origin(kind: str, *names: str) -> str:
    """Return what is filed for a context: ``kind`` says what the names are.

    ``layout``: the path of a file of many conversations. ``part``: a format, and the id of a conversation in such a
    file. ``session``: a format, and the tool's id of a session. ``begins``: a format, and a digest of a record at a
    conversation's beginning. ``agent``: a format, and the tool's id of the session that started this one. ``source``:
    the path of a session. ``called``: a project and a name that it had. ``project``: one that was moved.
    ``born``: where a conversation was born that came from another store.
    """
    return "\0".join((kind, *names))


def origins_of(metadata: Mapping[str, object]) -> list[str]:
    """Return the marks that a context is found by; a fork is not found by those of its parent."""
    born = [origin("born", came)] if isinstance(came := metadata.get("born"), str) and came else []
    if isinstance(path := metadata.get("layout_of"), str):
        return [*born, origin("layout", path)]
    if "source" not in metadata or not isinstance(tool := metadata.get("format"), str):
        return born
    ids = [("agent", metadata.get("parent_session")), *((kind, metadata.get(kind)) for kind in ("part", "session"))]
    begins = metadata.get("begins")
    moved = metadata.get(MOVED_FROM)
    from_projects = [one for one in moved if isinstance(one, str)] if isinstance(moved, list) else []
    ids += [("begins", key) for key in (dict.fromkeys(begins) if isinstance(begins, list) else ())]
    found = [*born, *(origin(kind, tool, own) for kind, own in ids if isinstance(own, str) and own)]
    found += [origin("project", one) for one in dict.fromkeys(from_projects)]
    return found + [origin("called", *names) for names in called_before(metadata)]


def pruned_origins(metadata: Mapping[str, object]) -> list[str]:
    """Return the marks to remember of a deleted context, so that no import takes it for a new one."""
    left_out = ("begins", "parent_session", CALLED, MOVED_FROM)
    found = origins_of({key: value for key, value in metadata.items() if key not in left_out})
    source = metadata.get("source")
    if isinstance(source, str) and "part" not in metadata:
        found.append(origin("source", source))
    machine = metadata.get("machine")
    # paths and tools' ids of one machine of a space say nothing on another
    return [f"{mark}\0{machine}" for mark in found] if isinstance(machine, str) else found


def mark_of(kind: str, metadata: Mapping[str, object], key: str) -> str:
    """Return the origin with the tool's id of a session that metadata has under ``key``; "" if it has none."""
    tool, session = metadata.get("format"), metadata.get(key)
    return origin(kind, tool, session) if isinstance(tool, str) and isinstance(session, str) and session else ""
