"""Who holds a content or a resource: events of conversations, of earlier versions, and what is kept beside them.

The tables of the search say which turns hold what and which conversations have these turns at their heads
(``store.search.holders``). Turns that no head has any more are looked for in earlier versions, of those conversations
that have some: that takes longer, and is done only where nothing is there at present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from store.artifacts.kept import kept_outputs
from store.errors import ConvfsError
from store.events.conversation import EventRow, Version
from store.events.outputs import SORTS
from store.ids import Hash
from store.index.catalogue import Entry
from store.search.holders import Place
from store.search.reading import Reading
from store.search.search import Search
from store.store import Store

_AT_ONCE = 256

Relation = Literal["payload", "content", "output", "metadata"]
"""How something is held: as the whole record, as a content or resource of it, as an output of a tool or an agent, or by
what is noted of the conversation, such as the file that it was imported from."""


class Holding(Struct, frozen=True):
    """One place that holds what was asked for: an event, ``row``, of a conversation or of its earlier ``version``.

    For what is kept beside a conversation ``row`` is None, and ``name`` is the path of an output in the conversation's
    directory, or the key of its metadata. ``uris`` are those under which the event has a resource that was asked for.
    """

    conversation: Entry
    relation: Relation
    row: EventRow | None = None
    version: Version | None = None
    name: str = ""
    uris: tuple[str, ...] = ()


class Backlinks:
    """Answers for one store, as of its last commit. Safe to call from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = Reading(store)
        self._holders = Search.of(store).holders

    def of_content(self, digest: Hash, *, earlier: bool = True) -> Iterator[Holding]:
        """Yield who holds a content, by conversation and event: as a payload, a part of one, a resource, an output.

        Without ``earlier`` versions, conversations as they are alone.
        """
        payloads = self._holders.turns_of(digest)
        contents = [turn for turn in self._holders.turns_with(digest) if turn not in payloads]
        yield from self._held([("payload", payloads), ("content", contents)], earlier, digest=digest)
        yield from self._beside(digest)

    def of_uris(self, uris: Iterable[str], *, earlier: bool = True) -> Iterator[Holding]:
        """Yield who holds resources with any of these URIs, each spelled as there, whatever their contents are."""
        wanted = frozenset(uris)
        turns = {turn for uri in wanted for turn in self._holders.turns_with_uri(uri)}
        yield from self._held([("content", sorted(turns))], earlier, uris=wanted)

    # -- events ----------------------------------------------------------------------------------------------------

    def _held(
        self,
        turns: Sequence[tuple[Relation, Sequence[int]]],
        earlier: bool,
        *,
        digest: Hash | None = None,
        uris: frozenset[str] = frozenset(),
    ) -> Iterator[Holding]:
        placed: set[int] = set()
        there: set[int] = set()
        for relation, some in turns:
            places = sorted(self._holders.places(some), key=attrgetter("context", "number"))
            for place, row in self._rows(places):
                placed.add(place.turn)
                there.add(place.context)
                entry = self._store.entry(place.context)
                yield Holding(entry, relation, row, uris=self._uris(row, digest, uris))
        for relation, some in turns if earlier else ():
            yield from (
                Holding(entry, relation, row, version, uris=self._uris(row, digest, uris))
                for entry, version, row in self._earlier([turn for turn in some if turn not in placed], there)
            )

    def _rows(self, places: Sequence[Place]) -> Iterator[tuple[Place, EventRow]]:
        """Yield the rows of places; what was deleted there, or cannot be read, is left out."""
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            turns = list(dict.fromkeys(place.turn for place in some))
            rows = dict(zip(turns, self._reading.rows(turns), strict=True))
            for place in some:
                shown = rows[place.turn]
                if not isinstance(shown, ConvfsError) and not shown[1].deleted:
                    yield place, shown[1]

    def _uris(self, row: EventRow, digest: Hash | None, wanted: frozenset[str]) -> tuple[str, ...]:
        held = self._store.views.resources([(row.turn, 1)], row.number)
        uris = (one.uri for one in held if one.uri in wanted or one.hash == digest)
        return tuple(dict.fromkeys(uris))

    def _earlier(self, turns: Sequence[int], there: set[int]) -> Iterator[tuple[Entry, Version, EventRow]]:
        """Yield where turns are that no head has: in the last version that has them of each other conversation."""
        if not turns:
            return
        shown = [pair for pair in self._reading.rows(turns) if not isinstance(pair, ConvfsError)]
        rows = [row for _turn, row in shown if not row.deleted]
        for context in self._store.with_versions() if rows else ():
            if context in there:
                continue
            for version in reversed(self._store.versions(context)):
                found = [row for row in rows if self._has(version, row)]
                if found:
                    entry = self._store.entry(context)
                    yield from ((entry, version, row) for row in found)
                    break

    def _has(self, version: Version, row: EventRow) -> bool:
        return row.number <= version.records and self._store.turns.seen(version.head, row.number - 1) == row.turn

    # -- what is kept beside conversations ---------------------------------------------------------------------------

    def _beside(self, digest: Hash) -> Iterator[Holding]:
        """Yield what metadata refers to by this hash."""
        for entry in self._store.mentioning(digest.hex()):
            outputs = [
                f"{outputs.directory}/{output.name}"
                for outputs in SORTS
                for output in kept_outputs(self._store, entry, outputs).values()
                if output.blob == digest
            ]
            yield from (Holding(entry, "output", name=name) for name in outputs)
            if not outputs:
                keys = [key for key, value in entry.metadata.items() if digest.hex() in repr(value)]
                yield Holding(entry, "metadata", name=", ".join(keys))
