"""Search: the hits of queries, and the holders of content. Candidates come from an index that follows the store,
and each is checked before it is called a hit.

**What is searched** is the content of every event's file (``Renderer.content``), of every conversation as it now is.

**Exact.** The index says which documents can be hits; their texts say which ones are. Documents that are not in the
index yet are looked at without it.

**Best first.** Documents come in the order of their numbers, the highest first: what people and models said to each
other, then what models thought and asked of tools, then what tools returned; the latest that came in first within
each. Some dozens of blocks of them are looked at at once, then more, and of what is found among these

1. what people and models said comes first, as above;
2. within that, what has the words of the query one after the other;
3. then what has them as whole words, not as parts of others;
4. then what has all that was asked for on one line;
5. then what happened last.

Of an event, the lines that meet the whole query are told; if there are none, those that meet some of it.

An event in several conversations, as in a fork or a copy, comes with the one that changed last, and with the others
after everything that was looked at together with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from store.conversations.library import Library
from store.errors import ConvfsError, NotFound, UsageError
from store.events.conversation import EventRow
from store.events.event import Event, Kind
from store.ids import now_ms, turn_of
from store.index.catalogue import ContextEntry
from store.index.database import Database
from store.search.documents import HIGHEST_RANK, block_of, documents_of, first_of, key_of, rank_of
from store.search.follower import Follower, batched
from store.search.holders import Holders, TurnPlace
from store.search.needs import expression
from store.search.query import Query, parse
from store.search.reader import ShownTurn
from store.search.terms import Term, Text
from store.upkeep.recovery import Files

_REMEMBERED = 4096
_FEW = 100_000
_FIRST = 24
_MOST = 512
_LATE = 512
"""The most turns outside the index that are looked at before those in it; more of them come after it."""

_Placed = tuple[TurnPlace, ContextEntry]


class Line(Struct, frozen=True):
    """A line of an event's file; ``number`` counts from 1, from the first of the file's head on."""

    number: int
    text: str


class Hit(Struct, frozen=True):
    """An event of a conversation that meets a query.

    ``time_ms`` is when it happened or, if it does not say so, when it came into the store. ``lines`` are those that
    meet the whole query, or else some of it, in order, at most as many as were wanted; none if only filters were given.
    """

    conversation: ContextEntry
    row: EventRow
    time_ms: int
    lines: tuple[Line, ...]


class Scope:
    """The conversations that one query means; those in the trash are never meant."""

    def __init__(self, library: Library, query: Query) -> None:
        self._library = library
        self._query = query
        self.entry = lru_cache(_REMEMBERED)(self._meant)
        """Returns a conversation, None if it is not meant."""

    @property
    def some(self) -> bool:
        return bool(self._query.projects or self._query.labels)

    def _meant(self, context: int) -> ContextEntry | None:
        try:
            entry = self._library.catalogue.entry(context)
        except NotFound:
            return None
        fits = all(one.fits(entry.project) for one in self._query.projects)
        return entry if entry.name and fits and all(one.fits(*entry.labels) for one in self._query.labels) else None

    def documents(self, db: Database) -> set[int] | None:
        """Return the documents to look at, and perhaps some more; None: too many to say."""
        tips = self._tips()
        if tips is None or sum(records for _tip, records in tips) > _FEW:
            return None
        found: set[int] = set()
        seen: set[tuple[int, int]] = set()
        for tip, _records in tips:
            for first, count in self._library.records.runs(tip):
                if (first, count) not in seen:
                    seen.add((first, count))
                    rows = db.query("SELECT document FROM turns WHERE turn BETWEEN ? AND ?", (first, first + count - 1))
                    found.update(document for (document,) in rows)
        return found

    def _tips(self) -> list[tuple[int, int]] | None:
        catalogue, query = self._library.catalogue, self._query
        if any(not one.negated for one in query.projects):
            projects = [name for name in catalogue.projects() if all(one.fits(name) for one in query.projects)]
            return [(tip, records) for project in projects for _id, tip, records in catalogue.heads_in(project) if tip]
        if any(not one.negated for one in query.labels):
            # of several, one will do
            asked = next(one for one in query.labels if not one.negated)
            labels = [label for label in catalogue.labels() if asked.fits(label)]
            heads = [catalogue.head(called.id) for label in labels for called in catalogue.labelled(label)]
            return [head for head in heads if head and head[0]]
        return None


class Finder:
    """One query. ``lines`` is the most lines that are told of a hit."""

    def __init__(self, follower: Follower, holders: Holders, query: Query, lines: int) -> None:
        self._follower = follower
        self._holders = holders
        self._query = query
        self._lines = lines
        self._scope = Scope(follower.library, query)

    def pages(self) -> Iterator[list[Hit]]:
        """Yield the hits, best first, a page at a time, which may be empty; nothing is held between two pages."""
        follower = self._follower
        follower.follow()
        last, unfiled = follower.db.number("placed"), follower.unfiled_turns()
        late = set(unfiled)
        if len(unfiled) <= _LATE:
            yield from self._late(unfiled)
        for page in self._pages():
            # later records were not asked for
            yield self._best([[t for t in turns if t not in late and turn_of(t) <= last] for turns in page])
        if len(unfiled) > _LATE:
            yield from self._late(unfiled)

    def _late(self, unfiled: Sequence[int]) -> Iterator[list[Hit]]:
        for ids in batched(unfiled[::-1], _LATE):
            shown = [pair for pair in self._follower.reading.rows(ids) if not isinstance(pair, ConvfsError)]
            alike: dict[object, list[int]] = {}
            for turn, row in shown:
                alike.setdefault(key_of(turn, row), []).append(turn.turn_id)
            yield self._best(list(alike.values()))

    def _pages(self) -> Iterator[list[list[int]]]:
        """Yield possible hits, the documents with the highest numbers first: the turns of each."""
        query = self._query
        ranks = [rank_of(kind) for kind in query.kinds] if query.kinds is not None else [HIGHEST_RANK, 1]
        if not ranks:
            return
        first, below = first_of(max(min(ranks), 1)), first_of(max(ranks) + 1)
        meant = self._meant()
        if not query.need.vacuous:
            pages = self._indexed(expression(query.need), block_of(first), block_of(below))
        elif meant is not None:
            pages = batched(sorted({block_of(one) for one in meant if first <= one < below}, reverse=True), _FIRST)
        else:
            pages = self._all(first, below)
        for blocks in pages:
            yield [
                turns
                for block in blocks
                for document, turns in self._follower.turns_between(*documents_of(block)).items()
                if meant is None or document in meant
            ]

    def _indexed(self, asked: str, first: int, below: int) -> Iterator[Sequence[int]]:
        size = _FIRST
        query = "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
        while True:
            page = [block for (block,) in self._follower.db.query(query, (asked, first, below, size))]
            yield page
            if len(page) < size:
                return
            below, size = page[-1], min(2 * size, _MOST)

    def _all(self, first: int, below: int) -> Iterator[Sequence[int]]:
        query = "SELECT document FROM turns WHERE document >= ? AND document < ? ORDER BY document DESC LIMIT 1"
        page: list[int] = []
        while row := self._follower.db.one(query, (first, below)):
            block = block_of(row[0])
            below, _beyond = documents_of(block)
            page.append(block)
            if len(page) == _FIRST:
                yield page
                page = []
        yield page

    def _meant(self) -> set[int] | None:
        """Return all documents that meet the conditions, and perhaps some more; None: too many to say."""
        meant = self._scope.documents(self._follower.db)
        uris = [one for one in self._query.uris if not one.negated]
        if not uris:
            return meant
        held = self._follower.documents_with(uris[0].fits)
        return held if meant is None else meant & held

    def _best(self, candidates: Iterable[Sequence[int]]) -> list[Hit]:
        """Return the hits among some candidates; each candidate is turns that all show the same."""
        asked = [turns for turns in candidates if turns and (not self._scope.some or any(self._placed(turns)))]
        shown: list[ShownTurn] = []
        others: list[Sequence[int]] = []
        for turns, one in zip(asked, self._follower.reading.rows([turns[0] for turns in asked]), strict=True):
            # a damaged record is not that of the others
            readable = one if isinstance(one, tuple) else next(self._readable(turns[1:]), None)
            if readable is not None and self._fits(readable, alone=len(turns) == 1):
                shown.append(readable)
                others.append(turns)
        found: list[tuple[tuple[int, ...], list[Hit]]] = []
        read = self._follower.library.viewer.events([row for _turn, row in shown])
        for turns, pair, (_row, event) in zip(others, shown, read, strict=True):
            if not isinstance(event, ConvfsError):
                found += self._look(event, pair, turns)
        found.sort(key=itemgetter(0))
        return [hits[0] for _order, hits in found] + [hit for _order, hits in found for hit in hits[1:]]

    def _readable(self, turns: Sequence[int]) -> Iterator[ShownTurn]:
        return (one for one in self._follower.reading.rows(turns) if isinstance(one, tuple))

    def _placed(self, turns: Sequence[int]) -> Iterator[_Placed]:
        for place in self._holders.places(turns):
            entry = self._scope.entry(place.context)
            if entry is not None:
                yield place, entry

    def _fits(self, shown: ShownTurn, *, alone: bool) -> bool:
        """Return whether a turn meets the query, as far as can be told without reading it.

        Except for the time, this also holds for turns that show the same: ``alone`` says that there are none.
        """
        query, (_turn, row) = self._query, shown
        if row.kind is Kind.RECORD or (query.kinds is not None and row.kind not in query.kinds):
            return False
        return all(one.fits(row.tool) for one in query.tools) and (not alone or query.in_time(_time_of(shown)))

    def _look(
        self, event: Event, shown: ShownTurn, turns: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], list[Hit]]]:
        """Yield the places of an event that meets the query, and how good it is, the best first."""
        query = self._query
        uris = [resource.uri for resource in event.resources]
        if not all(one.fits(*uris) for one in query.uris):
            return
        text = Text(self._follower.text(shown[1], event))
        if any(True for term in query.without for _line in term.lines(text)):
            return
        lines: list[list[int]] = []
        for term in query.terms:
            lines.append(list(term.lines(text)))
            if not lines[-1]:
                return
        together = set(lines[0]).intersection(*lines[1:]) if lines else set()
        told = sorted(together or set().union(*lines))[: self._lines]
        hits = self._hits(event, text, told, shown, turns)
        if hits:
            phrase = query.phrase is not None and query.phrase.whole(text)
            whole = all(term.whole(text) for term in query.terms)
            yield (-rank_of(shown[1].kind), not phrase, not whole, not together, -hits[0].time_ms), hits

    def _hits(self, event: Event, text: Text, told: Sequence[int], shown: ShownTurn, turns: Sequence[int]) -> list[Hit]:
        """Return the places of an event that meets the query, the last changed conversation first."""
        placed = sorted(self._placed(turns), key=lambda place: (place[1].updated_ms, place[1].id), reverse=True)
        rows = {shown[0].turn_id: shown}
        rows |= {one[0].turn_id: one for one in self._readable([turn for turn in turns if turn not in rows])}
        hits: list[Hit] = []
        for place, entry in placed:
            row = rows.get(place.turn)
            if row is not None and self._query.in_time(time_ms := _time_of(row)):
                first = self._follower.renderer.first_line(place.number, event)
                lines = tuple(Line(first + line, text.lines[line]) for line in told)
                hits.append(Hit(entry, row[1], time_ms, lines))
        return hits


def _time_of(shown: ShownTurn) -> int:
    turn, row = shown
    return row.time_ms or turn.created_ms


class Search(Follower):
    """Searches one store. Safe to call from any thread. UsageError where the store was opened without a renderer."""

    def __init__(self, files: Files, library: Library) -> None:
        super().__init__(files, library)
        self.holders = Holders(self)
        """The holders of content."""

    def run(self, query: str, limit: int | None = None, *, lines: int = 100) -> Iterator[Hit]:
        """Yield up to ``limit`` hits of a query (``store.search.query``), best first, each with up to ``lines`` lines.

        Nothing is held while no hit is asked for. Raises UsageError, at once, if the query cannot be understood.
        """
        return chain.from_iterable(self.pages(query, limit, lines=lines))

    def pages(self, query: str, limit: int | None = None, *, lines: int = 100) -> Iterator[list[Hit]]:
        """As :meth:`run`, as many at a time as are looked at at once; some pages may be empty."""
        return self._pages(parse(query, now_ms()), limit, lines)

    def grep(self, term: Term, where: str = "", *, lines: int = 100) -> Iterator[list[Hit]]:
        """As :meth:`pages`, for one term and the filters of a query."""
        filters = parse(where, now_ms()) if where.strip() else Query()
        if filters.terms or filters.without:
            raise UsageError(f"{where}: a pattern is followed by filters alone (project:, role:, after:)")
        return self._pages(replace(filters, terms=(term,)), None, lines)

    def _pages(self, query: Query, limit: int | None, lines: int) -> Iterator[list[Hit]]:
        left = limit
        for page in Finder(self, self.holders, query, lines).pages():
            yield page[:left]
            if left is not None and (left := left - len(page)) <= 0:
                return

    @property
    def unfiled(self) -> int:
        """The number of turns that the index does not have."""
        self.follow()
        return len(self.unfiled_turns())
