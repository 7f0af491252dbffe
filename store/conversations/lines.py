"""Conversations as listings show them, a line each."""

import os
from collections.abc import Iterator

from msgspec import Struct, structs

from store.conversations.listing import Listing
from store.conversations.places import Places
from store.errors import NotFound
from store.events.conversation import Conversation
from store.formats.core.times import iso
from store.index.catalogue import Among, Catalogue

_PAGE = 200


class ConversationLine(Struct, frozen=True):
    """A conversation as ``ls`` shows it. Times are ISO 8601 in UTC, "" if unknown."""

    id: int
    name: str
    project: str
    title: str
    format: str
    source: str
    events: int
    created: str
    updated: str
    path: str
    labels: list[str]
    pinned: bool
    archived: bool


class NestedLine(ConversationLine, frozen=True):
    """A conversation, and the one that it is in if it is a subagent's (0: none)."""

    parent: int


def line_of(places: Places, conversation: Conversation, mountpoint: str = "") -> ConversationLine:
    """Return a conversation as ``ls`` shows it; its path is absolute if it is mounted."""
    inside = "/".join(("conversations", *places.of(conversation)))
    return ConversationLine(
        id=conversation.id,
        name=conversation.name,
        project=conversation.project,
        title=conversation.title,
        format=conversation.format,
        source=conversation.source,
        events=conversation.events,
        created=iso(conversation.created_ms),
        updated=iso(conversation.updated_ms),
        path=os.path.join(mountpoint, inside),
        labels=conversation.labels,
        pinned=conversation.metadata.get("pinned") is True,
        archived=conversation.metadata.get("archived") is True,
    )


def nested_lines(listing: Listing, project: str, *, every: bool, mountpoint: str = "") -> Iterator[list[NestedLine]]:
    """Yield the conversations of a project, or of all (""), in pages, each followed by those of its subagents.

    ``every``: also what listings leave out. NotFound if there is no such project.
    """
    catalogue = listing.catalogue
    among = Among.ALL if every else Among.LISTED
    for context in catalogue.unmeasured():
        # that tells whether it is listed
        listing.conversation(context)
    for one in some_projects(catalogue, project):
        after = ""
        while page := listing.some(among, one, after=after, limit=_PAGE):
            inside = catalogue.with_subagents([one.id for one in page])
            nested = [
                each
                for one in page
                for each in (listing.nested(one, every=every) if one.id in inside else (one,))
            ]
            places = Places(catalogue)
            places.look_up([each.id for each in nested])
            yield [
                NestedLine(
                    **structs.asdict(line_of(places, each, mountpoint)), parent=places.parent(each.id)
                )
                for each in nested
            ]
            after = page[-1].name


def some_projects(catalogue: Catalogue, project: str) -> list[str]:
    """Return a project, or all (""); NotFound if there is none of that name."""
    projects = catalogue.projects()
    if project and project not in projects:
        raise NotFound(f"no project is called {project}: `convfs ls` lists all conversations")
    return [project] if project else projects
