"""Where a query looks: which conversations it means, and what documents these have where they are few."""

from __future__ import annotations

from collections import OrderedDict

from store.errors import NotFound
from store.index.catalogue import Entry
from store.index.database import Database
from store.search.query import Query
from store.store import Store

_REMEMBERED = 4096
_FEW = 100_000


class Scope:
    """The conversations that one query means; those in the trash are never meant."""

    def __init__(self, store: Store, query: Query) -> None:
        self._store = store
        self._query = query
        self._entries: OrderedDict[int, Entry | None] = OrderedDict()

    @property
    def some(self) -> bool:
        """Whether only some conversations are meant."""
        return bool(self._query.projects or self._query.labels)

    def entry(self, context: int) -> Entry | None:
        """Return a conversation, None if it is not meant."""
        if context in self._entries:
            self._entries.move_to_end(context)
            return self._entries[context]
        found = self._meant(context)
        self._entries[context] = found
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
        return found

    def _meant(self, context: int) -> Entry | None:
        try:
            entry = self._store.entry(context)
        except NotFound:
            return None
        if not entry.name:
            return None
        query = self._query
        if not all(one.fits(entry.project) for one in query.projects):
            return None
        return entry if all(one.fits(*entry.labels) for one in query.labels) else None

    def documents(self, db: Database) -> set[int] | None:
        """Return the documents that are to be looked at, and some that need not be; None: too many to say."""
        tips = self._tips()
        if tips is None or sum(records for _tip, records in tips) > _FEW:
            return None
        found: set[int] = set()
        seen: set[tuple[int, int]] = set()
        for tip, _records in tips:
            for first, count in self._store.runs(tip):
                if (first, count) not in seen:
                    seen.add((first, count))
                    rows = db.query("SELECT document FROM turns WHERE turn BETWEEN ? AND ?", (first, first + count - 1))
                    found.update(document for (document,) in rows)
        return found

    def _tips(self) -> list[tuple[int, int]] | None:
        """Return (tip, records) of the conversations that are asked for by name, None if none are."""
        store, query = self._store, self._query
        if any(not one.negated for one in query.projects):
            projects = [name for name in store.projects() if all(one.fits(name) for one in query.projects)]
            return [(tip, records) for project in projects for _id, tip, records in store.heads_in(project) if tip]
        if any(not one.negated for one in query.labels):
            # of several, one will do
            asked = next(one for one in query.labels if not one.negated)
            labels = [label for label in store.labels() if asked.fits(label)]
            heads = [store.head(called.id) for label in labels for called in store.labelled(label)]
            return [(head.tip, head.depth + 1) for head in heads if head.tip]
        return None
