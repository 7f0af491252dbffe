"""Backlinks: the conversations and events that hold a content or a resource.

Holders are events of conversations, events of earlier versions, and outputs beside conversations. The tables of the
search have the turns that hold a content, and the conversations with these turns at their heads
(``store.search.holders``). Files that a conversation knew though no record holds them are found in conversations as
they are now (``store.worktree.known_files``). For conversations that no longer have any of them, the last version that
had one is looked up: that takes longer the more conversations were ever edited.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from store.artifacts.names import kept_outputs
from store.errors import ConvfsError
from store.events.conversation import SORTS, EventRow, Version
from store.ids import Hash
from store.index.catalogue import ContextEntry
from store.relation import Relation
from store.search.holders import TurnPlace
from store.search.reader import TurnReader
from store.store import Store
from store.worktree.known_files import FileRow

_AT_ONCE = 256
_MOST_PARTS = 10_000


class Holding(Struct, frozen=True):
    """One place that holds the content: an event, ``row``, of a conversation or of its earlier ``version``.

    For outputs and metadata of a conversation ``row`` is None, and ``name`` is the path of an output in the
    conversation's directory, or the key of its metadata. ``uris`` are those of the event's matching resources.
    """

    conversation: ContextEntry
    relation: Relation
    row: EventRow | None = None
    version: Version | None = None
    name: str = ""
    uris: tuple[str, ...] = ()


class Backlinks:
    """The backlinks of one store, as of its last commit. Safe to call from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = TurnReader(store.library)
        self._holders = store.search.holders
        self._known = store.known_files

    @property
    def are_whole(self) -> bool:
        """Whether the tables have all events: none is damaged, yet to be filed, or in a space that is away."""
        return self._holders.is_whole and self._known.is_whole

    def uris(self, limit: int, prefix: str = "") -> list[str]:
        """Return the first ``limit`` URIs of resources and files that begin with ``prefix``, in order."""
        return sorted({*self._holders.uris(limit, prefix), *self._known.uris(limit, prefix)})[:limit]

    def of_content(self, digest: Hash, *, earlier: bool = True) -> Iterator[Holding]:
        """Yield the holders of a content; without ``earlier``, only conversations as they are now."""
        payloads = self._holders.turns_of(digest)
        contents = sorted(set(self._holders.turns_with(digest)).difference(payloads))
        known = self._known.with_content(digest)
        yield from self._held([("payload", payloads), ("content", contents)], known, earlier, digest=digest)
        yield from self._beside(digest)

    def of_uris(self, uris: Iterable[str], *, earlier: bool = True) -> Iterator[Holding]:
        """Yield the holders of resources with any of these URIs, spelled exactly so, with any contents.

        Those of some lines of a file (``#L10-20``) are found by the file's URI.
        """
        wanted = frozenset(found for uri in uris for found in (uri, *self.uris(_MOST_PARTS, f"{uri}#L")))
        turns = {turn for uri in wanted for turn in self._holders.turns_with_uri(uri)}
        known = [found for uri in wanted for found in self._known.with_uri(uri)]
        yield from self._held([("content", sorted(turns))], known, earlier, uris=wanted)

    def _held(
        self,
        turns: Sequence[tuple[Relation, Sequence[int]]],
        known: Iterable[tuple[int, FileRow]],
        earlier: bool,
        *,
        digest: Hash | None = None,
        uris: frozenset[str] = frozenset(),
    ) -> Iterator[Holding]:
        there: set[int] = set()
        files: dict[TurnPlace, list[str]] = {}
        for context, file in known:
            files.setdefault(TurnPlace(context, file.number, file.turn), []).append(file.uri)
        for relation, some in turns:
            places = {*self._holders.places(some), *(files if relation == "content" else ())}
            for place, row in self._rows(sorted(places, key=attrgetter("context", "number"))):
                there.add(place.context)
                entry = self._store.catalogue.entry(place.context)
                yield Holding(entry, relation, row, uris=self._uris(row, digest, uris, files.get(place, ())))
        for relation, some in turns if earlier else ():
            yield from (
                Holding(entry, relation, row, version, uris=self._uris(row, digest, uris))
                for entry, version, row in self._earlier(some, there)
            )

    def _rows(self, places: Sequence[TurnPlace]) -> Iterator[tuple[TurnPlace, EventRow]]:
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            turns = list(dict.fromkeys(place.turn for place in some))
            rows = dict(zip(turns, self._reading.rows(turns), strict=True))
            for place in some:
                shown = rows[place.turn]
                if not isinstance(shown, ConvfsError) and not shown[1].deleted:
                    yield place, shown[1]

    def _uris(
        self, row: EventRow, digest: Hash | None, wanted: frozenset[str], known: Collection[str] = ()
    ) -> tuple[str, ...]:
        held = self._store.views.resources([(row.turn, 1)], row.number)
        uris = (one.uri for one in held if one.uri in wanted or one.hash == digest)
        return tuple(dict.fromkeys([*uris, *known]))

    def _earlier(self, turns: Sequence[int], there: set[int]) -> Iterator[tuple[ContextEntry, Version, EventRow]]:
        """Yield earlier places of turns: the last version with any, of each conversation that is not ``there``."""
        by_number: dict[int, dict[int, EventRow]] = {}
        for shown in self._reading.rows(turns) if turns else ():
            if not isinstance(shown, ConvfsError) and not (row := shown[1]).deleted:
                by_number.setdefault(row.number, {})[row.turn] = row
        for context in self._store.catalogue.with_versions() if by_number else ():
            if context in there:
                continue
            for version in reversed(self._store.catalogue.versions(context)):
                found = self._among(version, by_number)
                if found:
                    entry = self._store.catalogue.entry(context)
                    yield from ((entry, version, row) for row in found)
                    break

    def _among(self, version: Version, by_number: Mapping[int, Mapping[int, EventRow]]) -> list[EventRow]:
        """Return the given rows, by number and turn, that a version has."""
        found = (
            rows.get(self._store.turns.seen(version.head, number - 1))
            for number, rows in by_number.items()
            if number <= version.records
        )
        return [row for row in found if row is not None]

    def _beside(self, digest: Hash) -> Iterator[Holding]:
        for entry in self._store.catalogue.mentioning(digest.hex()):
            outputs = [
                f"{outputs.directory}/{output.name}"
                for outputs in SORTS
                for output in kept_outputs(self._store.blobs, entry, outputs).values()
                if output.blob == digest
            ]
            yield from (Holding(entry, "output", name=name) for name in outputs)
            if not outputs:
                keys = [key for key, value in entry.metadata.items() if digest.hex() in repr(value)]
                yield Holding(entry, "metadata", name=", ".join(keys))
