"""Conversations with the sums of what they are drawn as, as the index alone tells of them."""

import os
from collections.abc import Iterator, Sequence

from msgspec import structs

from store.conversations.lines import ConversationLine, NestedLine
from store.conversations.places import Places
from store.errors import ConvfsError, NotFound
from store.events.conversation import Conversation
from store.formats.core.times import iso
from store.index.catalogue import Among, Catalogue, ContextEntry
from store.index.views import Measure, Views

_PAGE = 200


class NotMeasured(ConvfsError):
    """The index does not know the sums of a conversation."""


class Listing:
    """The conversations of one store that the index knows the sums of. NotMeasured is raised for others."""

    def __init__(self, catalogue: Catalogue, views: Views) -> None:
        self.catalogue = catalogue
        self.views = views

    def conversations(
        self, project: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[Conversation]:
        """Return the conversations of a project, or of all, by name; within a project from beyond name ``after``."""
        return self.with_sums(self.catalogue.page(project, after=after, limit=limit))

    def some(
        self, among: Among, project: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[Conversation]:
        """Return some conversations, as :meth:`conversations` does."""
        return self.with_sums(self.catalogue.page(project, after=after, limit=limit, among=among))

    def nested(self, conversation: Conversation, *, every: bool) -> Iterator[Conversation]:
        """Yield a conversation, and those of its subagents, each followed by those that it started itself.

        Unless ``every``, without what listings leave out.
        """
        yield conversation
        for subagent in self.with_sums(self.catalogue.subagents(conversation.id)):
            if every or not self.catalogue.place(subagent.id)[1]:
                yield from self.nested(subagent, every=every)

    def conversation(self, context_id: int) -> Conversation:
        """Return a conversation by id; NotFound if there is none."""
        return self.with_sums([self.catalogue.entry(context_id)])[0]

    def with_sums(self, entries: Sequence[ContextEntry]) -> list[Conversation]:
        """Return conversations with their sums."""
        known = self.views.measures([entry.id for entry in entries])
        return [self._conversation(entry, known.get(entry.id)) for entry in entries]

    def _conversation(self, entry: ContextEntry, measure: Measure | None) -> Conversation:
        unsure = False
        if measure is None or measure.head != entry.head:
            measure, unsure = self._measure_now(entry, measure)
        named = (entry.id, entry.project, entry.name, entry.title, entry.format, entry.source)
        counts = (entry.head, entry.records, measure.events)
        sums = (entry.created_ms, entry.updated_ms, measure.transcript_size, measure.json_size)
        return Conversation(*named, *counts, *sums, entry.metadata, entry.described_ms, unsure)

    def _measure_now(self, entry: ContextEntry, known: Measure | None) -> tuple[Measure, bool]:
        """Return the sums of a conversation of which the index has none, or older ones; and whether they are unsure."""
        raise NotMeasured(f"conversation {entry.id} has not been measured")


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
