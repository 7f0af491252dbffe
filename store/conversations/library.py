"""Conversations as people know them: found by project, name or day, with the sums of what they are drawn as."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from store.conversations.lineage import Lineage
from store.conversations.records import Records
from store.conversations.turns import Turns
from store.conversations.viewer import Viewer
from store.errors import DamageError, NotFound
from store.events.conversation import Conversation, EventRow, Version
from store.events.event import Kind
from store.ids import patch_of, tip_of, turn_of
from store.index.catalogue import Called, Catalogue, Entry, Sourced
from store.index.origins import origin
from store.index.views import Measure, Views


class Library(Records):
    """Answers from the index alone, once everything in a conversation has been measured."""

    def __init__(
        self,
        catalogue: Catalogue,
        views: Views,
        viewer: Viewer,
        turns: Turns,
        settle: Callable[[], None],
        cached_branches: int,
    ) -> None:
        super().__init__(views, viewer, turns, cached_branches)
        self._catalogue = catalogue
        self._settle = settle
        self.lineage = Lineage(catalogue, settle)
        """What became of turns that edits have superseded."""

    # -- conversations ---------------------------------------------------------------------------------------------

    def projects(self) -> list[str]:
        """Return the names of all projects, sorted."""
        self._settle()
        return self._catalogue.projects()

    def conversations(
        self, project: str | None = None, *, after: str = "", limit: int | None = None
    ) -> list[Conversation]:
        """Return the conversations of a project, or of all, by name; within a project from beyond name ``after``."""
        self._settle()
        return self._complete(self._catalogue.page(project, after, limit))

    def listed(self, project: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        """As :meth:`conversations` of one project, without their sums: nothing is measured for it."""
        self._settle()
        return self._catalogue.page(project, after, limit)

    def find(self, project: str, name: str) -> Conversation | None:
        """Return the conversation ``project/name``."""
        entry = self.named(project, name)
        return self._complete([entry])[0] if entry else None

    def named(self, project: str, name: str) -> Entry | None:
        """Return the conversation ``project/name`` without its sums."""
        self._settle()
        return self._catalogue.by_name(project, name)

    def conversation(self, context_id: int) -> Conversation:
        """Return a conversation by id; NotFound if there is none."""
        return self._complete([self.entry(context_id)])[0]

    def entry(self, context_id: int) -> Entry:
        """Return a context as the logs describe it, without its sums; NotFound if there is none."""
        self._settle()
        entry = self._catalogue.by_id(context_id)
        if entry is None:
            raise NotFound(f"there is no conversation with id {context_id}: see convfs ls")
        return entry

    def entries(self) -> list[Entry]:
        """Return every conversation as the logs describe it, without its sums; what is in the trash too."""
        self._settle()
        return self._catalogue.every()

    def heads_in(self, project: str) -> list[tuple[int, int, int]]:
        """Return (id, tip, records) of the conversations of a project: there may be very many."""
        self._settle()
        return self._catalogue.heads_in(project)

    def forks(self, context_id: int) -> list[Entry]:
        """Return the conversations that branched off another, oldest first, without their sums."""
        self._settle()
        return self._catalogue.forks(context_id)

    def trash(self) -> list[Conversation]:
        """Return what is in the trash, what came last first; with the project and name that each had."""
        self._settle()
        return [
            msgspec.structs.replace(
                trashed,
                project=str(trashed.metadata.get("project", "")),
                name=str(trashed.metadata.get("name", "")),
            )
            for trashed in self._complete(self._catalogue.trash())
        ]

    def by_source(self, source: str) -> Entry | None:
        """Return the context that was imported from the path ``source``."""
        self._settle()
        return self._catalogue.by_source(source)

    def of_one_file(self, *, trashed: bool = False) -> list[Sourced]:
        """Return the conversations whose session is one file, by where that lay, oldest first; or those of the trash.

        Nothing is measured for it.
        """
        self._settle()
        return self._catalogue.of_one_file(trashed=trashed)

    def by_origin(self, kind: str, *names: str, most: int = 1) -> list[Entry]:
        """Return up to ``most`` contexts that an import finds by these names, the newest first.

        What kinds there are, and of what, says :func:`store.index.origins.origin`.
        """
        self._settle()
        return self._catalogue.by_origin(origin(kind, *names), most)

    def pruned(self, kind: str, *names: str) -> int:
        """Return the id that the newest context found by these names had which was deleted for good, 0 if none was.

        What kinds there are, and of what, says :func:`store.index.origins.origin`.
        """
        self._settle()
        return self._catalogue.pruned(kind, *names)

    def layouts(self) -> list[Entry]:
        """Return the contexts that stand for files of many conversations."""
        self._settle()
        return self._catalogue.layouts()

    def having(self, key: str) -> list[Entry]:
        """Return the contexts whose metadata has ``key``."""
        self._settle()
        return [entry for entry in self._catalogue.having(key) if key in entry.metadata]

    def mentioning(self, text: str) -> list[Entry]:
        """Return the contexts in whose metadata, as it is written in JSON, a text stands."""
        self._settle()
        return self._catalogue.mentioning(text)

    def nameless(self) -> list[int]:
        """Return the contexts that have turns and are no conversations, since nobody gave them a name."""
        self._settle()
        return self._catalogue.nameless()

    def context_ids(self) -> set[int]:
        """Return the ids of all contexts that there are, conversations and others."""
        self._settle()
        return self._catalogue.ids()

    def projects_by_id(self) -> dict[int, str]:
        """Return which project each context is of, "" for what is in the trash and what has no name."""
        self._settle()
        return self._catalogue.projects_by_id()

    def names_like(self, project: str, stem: str) -> set[str]:
        """Return the names within ``project`` that begin with ``stem``."""
        self._settle()
        return self._catalogue.names_like(project, stem)

    def conversation_count(self) -> int:
        """Return how many conversations there are."""
        self._settle()
        return self._catalogue.count()

    def days(self, prefix: str = "") -> list[str]:
        """Return the years (``""``), months (``"2026"``) or days (``"2026-03"``) on which conversations began."""
        self._settle()
        return self._catalogue.days(prefix, {0: 4, 4: 7, 7: 10}.get(len(prefix), 10))

    def by_day(self, day: str) -> list[Entry]:
        """Return the conversations that began on a UTC day (``2026-03-05``), without their sums."""
        self._settle()
        return self._catalogue.by_day(day)

    def recent(self, count: int) -> list[Entry]:
        """Return the conversations that are pinned, then those that changed last, newest first; none of the archive.

        Without their sums.
        """
        self._settle()
        return self._catalogue.recent(count)

    def changed_ms(self) -> int:
        """Return when a conversation last changed, in Unix milliseconds; 0 if there is none."""
        self._settle()
        return self._catalogue.changed_ms()

    def labels(self) -> list[str]:
        """Return the labels that conversations have, sorted."""
        self._settle()
        return self._catalogue.labels()

    def labelled(self, label: str) -> list[Called]:
        """Return how the conversations are called that have a label, oldest first: there may be very many."""
        self._settle()
        return self._catalogue.labelled(label)

    def states(self) -> list[tuple[int, int]]:
        """Return (context, tip) of every state that a context is in or has been in."""
        self._settle()
        return self._catalogue.states()

    def versions(self, context_id: int) -> list[Version]:
        """Return the states that a conversation has been in, oldest first, but for those that were pruned."""
        self._settle()
        return self._catalogue.versions(context_id)

    def version(self, context_id: int, number: int) -> Version:
        """Return a version of a conversation by its number; NotFound if there is none, or it was pruned."""
        versions = self.versions(context_id)
        at = number - versions[0].number if versions else 0
        if 0 <= at < len(versions):
            return versions[at]
        entry = self.entry(context_id)
        name = f"{entry.project}/{entry.name}"
        if at < 0 < number:
            raise NotFound(f"version {number} of {name} was pruned: `convfs log {name}` lists those that are left")
        raise NotFound(f"{name} has no version {number}: `convfs log {name}` lists them")

    def with_versions(self) -> list[int]:
        """Return the contexts that have been in more than one state, by id."""
        self._settle()
        return self._catalogue.with_versions()

    # -- sums ------------------------------------------------------------------------------------------------------

    def _complete(self, entries: Sequence[Entry]) -> list[Conversation]:
        known = self._views.measures([entry.id for entry in entries])
        return [self._conversation(entry, known.get(entry.id)) for entry in entries]

    def _conversation(self, entry: Entry, measure: Measure | None) -> Conversation:
        if measure is None or measure.head != entry.head:
            try:
                measure = self._measured(entry, measure)
            except DamageError:
                # a damaged turn is the trouble of those who look into this conversation, not of those who list it
                measure = Measure(entry.head, 0, 0, 0)
        return Conversation(
            entry.id,
            entry.project,
            entry.name,
            entry.title,
            entry.format,
            entry.source,
            entry.head,
            entry.records,
            measure.events,
            entry.created_ms,
            entry.updated_ms,
            measure.transcript_size,
            measure.json_size,
            entry.metadata,
            entry.described_ms,
        )

    def measure(self, entry: Entry) -> Measure:
        """Sum up a conversation's rows and file the sums."""
        return self._measured(entry, self._views.measures([entry.id]).get(entry.id))

    def measure_some(self, context_id: int, most: int) -> bool:
        """Measure at most so many records of a conversation that are not yet; return whether all are by now."""
        entry = self.entry(context_id)
        known = self._views.measures([context_id]).get(context_id)
        if self._viewer.renderer is None or not entry.head or (known is not None and known.head == entry.head):
            return True
        end = self._length_before(known, entry.head) + most
        if end >= self._records(entry.head):
            self._measured(entry, known)
            return True
        tip = tip_of(self._turns.ancestor(entry.head, end - 1), patch_of(entry.head))
        self._measured(msgspec.structs.replace(entry, head=tip), known)
        return False

    def _measured(self, entry: Entry, known: Measure | None) -> Measure:
        """Sum up what is not in the sums that are ``known``, where these are of a beginning of the branch."""
        if self._viewer.renderer is None:
            return Measure(entry.head, 0, 0, 0)
        events = transcript = json = 0
        before = self._length_before(known, entry.head)
        if known is not None and before:
            events, transcript, json = known.events, known.transcript_size, known.json_size
        rows = self._rows_after(entry.head, before)
        events += sum(1 for row in rows if row.kind is not Kind.RECORD)
        transcript += sum(row.section_size for row in rows)
        json += sum(row.json_size for row in rows)
        measure = Measure(entry.head, events, transcript, json)
        self._views.set_measure(entry.id, measure)
        return measure

    def _length_before(self, known: Measure | None, head: int) -> int:
        """Return the length of the branch that sums are of, if the one of ``head`` goes on from it; else 0."""
        if known is None or not head or not known.head or patch_of(known.head) != patch_of(head):
            return 0
        length = self._records(known.head)
        return length if self._turns.ancestor(head, length - 1) == turn_of(known.head) else 0

    def _rows_after(self, head: int, number: int) -> Sequence[EventRow]:
        """Return the rows of a branch after record ``number``; ``head`` may be 0."""
        if head and number and self._rows.get(head) is None:
            return self._last_rows(head, self._records(head) - number)
        return self.rows(head)[number:] if head else ()
