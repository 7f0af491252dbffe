"""Names and metadata of new conversations, as their sessions describe them: ``2026-03-05-fix-the-login-bug``."""

import re
from collections.abc import Mapping, Set

from msgspec import structs

from store.conversations.names import MOST_NAMES, free_name, project_name, slug, stem
from store.events.conversation import CALLED, CAME_FROM, NAMING, called_before
from store.events.usage import USAGE, as_metadata
from store.formats.core.format import About, Source, Titled
from store.importing.projects import Repositories, project_for
from store.importing.snapshot import path_text
from store.index.catalogue import ContextEntry
from store.store import Store


def name_conversation(
    store: Store,
    repositories: Repositories,
    about: About,
    source: Source,
    started_ms: int,
    waiting: Set[tuple[str, str]],
    keep: tuple[str, str] = ("", ""),
) -> tuple[str, str]:
    """Return a project and a name that none has, nor any ``waiting``; ``keep``, if it differs by a number only."""
    project = project_for(store.catalogue, store.settings.projects, repositories, about)
    project = project_name(project or source.path.parent.name)
    words = slug(about.title) or slug(about.session_id) or slug(source.path.stem) or "conversation"
    if project == keep[0] and re.fullmatch(rf"{re.escape(stem(started_ms, words))}(-\d+)?", keep[1]):
        return keep
    return project, free_name(store.catalogue, project, started_ms, words, waiting)


_ENOUGH: dict[str, int] = {"day": 1, "project": 2, "title": Titled.BY_REQUEST}


def told_by(about: About) -> dict[str, object]:
    """Return a session's description of itself, as far as it may change while the session goes on."""
    told: dict[str, object] = {key: clean(value) for key, value in about.extra.items()}
    if about.usage is not None:
        told[USAGE] = as_metadata(about.usage)
    if about.title:
        told["title"] = clean(about.title)
    if about.started_ms:
        told["started_ms"] = about.started_ms
    return told


def news(
    store: Store,
    repositories: Repositories,
    names: set[tuple[str, str]],
    about: About,
    source: Source,
    known: ContextEntry,
) -> dict[str, object]:
    """Return a session's description of itself, as far as the conversation ``known`` lacks it.

    Includes another name, if the session now tells its name or its project better and nobody has named the
    conversation; ``names`` are those of others that wait, and get it.
    """
    told = told_by(about)
    if known.metadata.get("own_title"):
        told.pop("title", None)
    told = {key: value for key, value in told.items() if known.metadata.get(key) != value}
    naming, now = _naming_of(known.metadata), _naming(about)
    if naming is None or not known.name or all(now[key] <= naming.get(key, 0) for key in now):
        return told
    told[NAMING] = {key: max(now[key], naming.get(key, 0)) for key in now}
    # better values from before stay
    if now["title"] < naming.get("title", 0):
        about = structs.replace(about, title=known.title)
    if now["project"] <= naming.get("project", 0):
        about = structs.replace(about, project=known.project, extra={})
    started = about.started_ms or known.created_ms
    keep = known.project, known.name
    project, name = name_conversation(store, repositories, about, source, started, names, keep=keep)
    if (project, name) != keep:
        names.add((project, name))
        called = [*called_before(known.metadata), (known.project, known.name)][-MOST_NAMES:]
        told |= {"project": project, "name": name, CALLED: [one for one in called if one != (project, name)]}
    return told


def may_be_renamed(known: ContextEntry) -> bool:
    """Return whether a conversation still waits for its session's first records to tell its subject."""
    naming = _naming_of(known.metadata)
    return naming is not None and any(naming.get(key, 0) < enough for key, enough in _ENOUGH.items())


def _naming(about: About) -> dict[str, int]:
    """Return how well a session tells the parts of its name; more is better."""
    return {
        "day": int(bool(about.started_ms)),
        "project": int(bool(about.project)) + int(bool(about.project) and about.placed),
        "title": int(about.titled) if about.title else 0,
    }


def _naming_of(metadata: Mapping[str, object]) -> dict[str, int] | None:
    naming = metadata.get(NAMING)
    if not isinstance(naming, dict):
        return None
    return {key: value for key, value in naming.items() if isinstance(key, str) and isinstance(value, int)}


def introduction(
    store: Store,
    repositories: Repositories,
    names: set[tuple[str, str]],
    about: About,
    source: Source,
    session: str,
    modified_ms: int,
) -> dict[str, object]:
    """Return the metadata of a new conversation; ``names`` are those of others that wait, and get its own.

    ``session`` is the tool's id of it.
    """
    started = about.started_ms or modified_ms
    project, name = name_conversation(store, repositories, about, source, started, names)
    names.add((project, name))
    return told_by(about) | on_machine(store) | {
        "project": project,
        "name": name,
        NAMING: _naming(about),
        "format": source.format,
        "source": path_text(source.path),
        "session": clean(session),
        "started_ms": started,
        "updated_ms": modified_ms,
    }


def on_machine(store: Store) -> dict[str, object]:
    """Return the metadata that says which machine of a space imports, nothing for a store that is in none."""
    machine = store.catalogue.machine
    return {"machine": machine} if machine else {}


def claimed(store: Store, known: ContextEntry) -> dict[str, object]:
    """Return the change that makes a conversation which another machine or store has brought that of this machine."""
    changes = {key: value for key, value in on_machine(store).items() if known.metadata.get(key) != value}
    return changes | ({CAME_FROM: None} if CAME_FROM in known.metadata else {})


def clean(text: str) -> str:
    """Return text without halves of surrogate pairs, as names of files may hold."""
    return text.encode("utf-8", "replace").decode()
