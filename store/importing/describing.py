"""What the metadata of a conversation says of the session that it came from."""

from __future__ import annotations

from store.conversations import branch
from store.formats.format import About, Source
from store.importing.naming import name_conversation
from store.importing.paths import path_text
from store.importing.records import Records
from store.index.catalogue import Entry
from store.store import Store


def told_by(about: About) -> dict[str, object]:
    """Return what a session says of itself that may change while it goes on."""
    told: dict[str, object] = {key: clean(value) for key, value in about.extra.items()}
    if about.title:
        told["title"] = clean(about.title)
    if about.started_ms:
        told["started_ms"] = about.started_ms
    return told


def news(about: About, known: Entry) -> dict[str, object]:
    """Return what a session says of itself and the conversation ``known`` does not say yet."""
    told = told_by(about)
    if known.metadata.get("own_title"):
        told.pop("title", None)
    return {key: value for key, value in told.items() if known.metadata.get(key) != value}


def introduction(
    store: Store, names: set[tuple[str, str]], about: About, source: Source, session: str, modified_ms: int
) -> dict[str, object]:
    """Return the metadata of a new conversation; ``names`` are those of others that wait, and get its own.

    ``session`` is the tool's id of it.
    """
    started = about.started_ms or modified_ms
    project, name = name_conversation(store, about, source, started, names)
    names.add((project, name))
    return told_by(about) | {
        "project": project,
        "name": name,
        "format": source.format,
        "source": path_text(source.path),
        "session": clean(session),
        "started_ms": started,
        "updated_ms": modified_ms,
    }


def forked_from(store: Store, format_name: str, session: str, records: Records) -> dict[str, object]:
    """Return what the metadata of a fork says of the session that it was forked from, nothing if that is not here."""
    for entry in store.by_origin("session", format_name, clean(session)):
        shared = records.shared
        return {"forked_from": {"context": entry.id, "turn": branch.position(records.runs, shared) if shared else 0}}
    return {}


def clean(text: str) -> str:
    """Return text without halves of surrogate pairs, as names of files may hold."""
    return text.encode("utf-8", "replace").decode()
