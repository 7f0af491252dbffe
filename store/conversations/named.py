"""Conversations as people refer to them: by id, name, session, beginning of a name, words of a title, ``@latest``."""

from __future__ import annotations

import re

from store.conversations.library import Library
from store.errors import NotFound, UsageError
from store.events.conversation import Conversation

LATEST = "@latest"
_from_latest = re.compile(r"@-([1-9][0-9]{0,8})").fullmatch
_dated = re.compile(r"(?:\d{4}-\d\d-\d\d|undated)-").match
_SHOWN = 5
_MOST = 200


def find_named(library: Library, text: str) -> Conversation:
    """Return the conversation that ``text`` stands for.

    That is an id; ``PROJECT/NAME``; a NAME; the id of its session in its tool; the beginning of a name, with or without
    its date; words of the title; ``@latest``, the one that changed last; or ``@-2``, the last but one. Raises NotFound
    where there is none, and UsageError where there are several.
    """
    if text.isdecimal() and text.isascii():
        return library.conversation(library.catalogue.conversation(int(text)).id)
    if found := _from_latest(text.replace(LATEST, "@-1")):
        place = int(found[1])
        entries = library.catalogue.matching((), 1, place - 1)
        if not entries:
            raise NotFound(f"there are fewer than {place} conversations: `convfs ls` lists them all")
        return library.conversation(entries[0].id)
    return _exact(library, text) or _of_session(library, text) or _alike(library, text)


def _exact(library: Library, text: str) -> Conversation | None:
    project, slash, name = text.rpartition("/")
    if slash:
        return library.find(project, name)
    matches = [found for project in library.catalogue.projects() if (found := library.find(project, text))]
    matches = [found for found in matches if found.name == text] or matches
    if len(matches) > 1:
        names = ", ".join(f"{found.project}/{found.name}" for found in matches)
        raise UsageError(f"{text} stands in several projects: say which ({names})")
    return matches[0] if matches else None


def _of_session(library: Library, text: str) -> Conversation | None:
    catalogue = library.catalogue
    for tool in catalogue.tools():
        # this machine's first
        for find in (catalogue.by_origin, catalogue.elsewhere):
            found = find("session", tool, text, most=-1)
            if here := [entry for entry in found if entry.name and not entry.is_file]:
                return library.conversation(here[0].id)
    return None


def _alike(library: Library, text: str) -> Conversation:
    folder, slash, rest = text.rpartition("/")
    inside = bool(slash) and folder in library.catalogue.projects()
    words = (rest if inside else text).lower().split()
    if not words:
        raise NotFound("a conversation's name cannot be empty: `convfs ls` lists them all")
    matches = [entry for entry in library.catalogue.matching(words, _MOST) if not inside or entry.project == folder]
    beginning = [entry for entry in matches if _begins(entry.project, entry.name, text)]
    matches = beginning or matches
    if not matches:
        raise NotFound(f"no conversation is called {text}: `convfs ls` lists them all")
    if len(matches) > 1:
        names = ", ".join(f"{entry.project}/{entry.name}" for entry in matches[:_SHOWN])
        more = ", …" if len(matches) > _SHOWN else ""
        raise UsageError(f"{text} may be any of several conversations: say which ({names}{more})")
    return library.conversation(matches[0].id)


def _begins(project: str, name: str, text: str) -> bool:
    """Return whether a conversation's name begins with ``text``, with or without project and date."""
    folder, slash, beginning = text.rpartition("/")
    if slash and folder != project:
        return False
    date = _dated(name)
    return name.startswith(beginning) or (date is not None and name[date.end() :].startswith(beginning))
