"""Who holds a content or a resource: events of conversations, of earlier versions, and what is kept beside them.

The tables of the search say which turns hold what and which conversations have these turns at their heads
(``store.search.holders``). Conversations that have none of them any more are asked for the last version that had one:
that takes longer the more conversations there are that were ever edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        contents = sorted(set(self._holders.turns_with(digest)).difference(payloads))
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
        there: set[int] = set()
        for relation, some in turns:
            places = sorted(self._holders.places(some), key=attrgetter("context", "number"))
            for place, row in self._rows(places):
                there.add(place.context)
                entry = self._store.entry(place.context)
                yield Holding(entry, relation, row, uris=self._uris(row, digest, uris))
        for relation, some in turns if earlier else ():
            yield from (
                Holding(entry, relation, row, version, uris=self._uris(row, digest, uris))
                for entry, version, row in self._earlier(some, there)
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
        """Yield where turns were: in the last version that has any, of each conversation that is not ``there``."""
        by_number: dict[int, dict[int, EventRow]] = {}
        for shown in self._reading.rows(turns) if turns else ():
            if not isinstance(shown, ConvfsError) and not (row := shown[1]).deleted:
                by_number.setdefault(row.number, {})[row.turn] = row
        for context in self._store.with_versions() if by_number else ():
            if context in there:
                continue
            for version in reversed(self._store.versions(context)):
                found = self._among(version, by_number)
                if found:
                    entry = self._store.entry(context)
                    yield from ((entry, version, row) for row in found)
                    break

    def _among(self, version: Version, by_number: Mapping[int, Mapping[int, EventRow]]) -> list[EventRow]:
        """Return which of some rows, by their numbers and turns, a version has."""
        found = (
            rows.get(self._store.turns.seen(version.head, number - 1))
            for number, rows in by_number.items()
            if number <= version.records
        )
        return [row for row in found if row is not None]

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
