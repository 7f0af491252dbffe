"""Finding what a query asks for: candidates from the index, each looked at before it is called a hit.

**What is searched** is the content of every event's file (``Renderer.content``), of every conversation as it now is.

**Exact.** The index says which documents can be hits; whether they are, their text says. What is not in the index yet
is looked at without it.

**Best first.** Documents come in the order of their numbers, the highest first: what people and models said to each
other, then what models thought and asked of tools, then what tools returned; the latest that came in first within
each. Some dozens of blocks of them are looked at at once, then more, and of what is found among these

1. what people and models said comes first, as above;
2. within that, what has the words of the query one after the other;
3. then what has them as whole words, not as parts of others;
4. then what has all that was asked for on one line;
5. then what happened last.

Of an event, the lines that have all that was asked for are told; if there are none, those that have some of it.

An event that is in several conversations, in a fork or a copy, comes with the one that changed last, and with the
others after everything that was looked at together with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from store.errors import ConvfsError
from store.events.event import Event, Kind
from store.ids import turn_of
from store.index.catalogue import Entry
from store.search.documents import HIGHEST_RANK, block_of, documents_of, first_of, key_of, rank_of
from store.search.following import Following, batched
from store.search.hits import Hit, Line
from store.search.holders import Holders, Place
from store.search.needs import expression
from store.search.query import Query
from store.search.reading import Shown
from store.search.scope import Scope
from store.search.terms import Text

_FIRST = 24
_MOST = 512
_LATE = 512
"""So many turns that are not in the index are looked at before what is; if there are more, after it."""


_Placed = tuple[Place, Entry]


class _Found(Struct):
    """A document that is what was asked for: how good it is, the best first, and where it is."""

    order: tuple[int, ...]
    hits: list[Hit]


class Finding:
    """One query. ``lines`` is how many lines of a hit are told at most."""

    def __init__(self, following: Following, holders: Holders, query: Query, lines: int) -> None:
        self._following = following
        self._holders = holders
        self._query = query
        self._lines = lines
        self._scope = Scope(following.store, query)

    def pages(self) -> Iterator[list[Hit]]:
        """Yield what is found, best first, a page at a time, which may be empty.

        Nothing is held while it waits to be asked for more.
        """
        following = self._following
        following.follow()
        last, unfiled = following.placed, following.unfiled()
        late = set(unfiled)
        if len(unfiled) <= _LATE:
            yield from self._late(unfiled)
        for page in self._pages():
            # what has come since was not asked for
            yield self._best([[t for t in turns if t not in late and turn_of(t) <= last] for turns in page])
        if len(unfiled) > _LATE:
            yield from self._late(unfiled)

    def _late(self, unfiled: Sequence[int]) -> Iterator[list[Hit]]:
        for ids in batched(unfiled[::-1], _LATE):
            shown = [pair for pair in self._following.reading.rows(ids) if not isinstance(pair, ConvfsError)]
            alike: dict[object, list[int]] = {}
            for turn, row in shown:
                alike.setdefault(key_of(turn, row), []).append(turn.turn_id)
            yield self._best(list(alike.values()))

    def _pages(self) -> Iterator[list[list[int]]]:
        """Yield what may be hits, the documents with the highest numbers first: the turns of each."""
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
                for document, turns in self._following.turns_between(*documents_of(block)).items()
                if meant is None or document in meant
            ]

    def _indexed(self, asked: str, first: int, below: int) -> Iterator[Sequence[int]]:
        """Yield the blocks that the index has for what is asked of it."""
        size = _FIRST
        query = "SELECT rowid FROM texts WHERE texts MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
        while True:
            page = [block for (block,) in self._following.db.query(query, (asked, first, below, size))]
            yield page
            if len(page) < size:
                return
            below, size = page[-1], min(2 * size, _MOST)

    def _all(self, first: int, below: int) -> Iterator[Sequence[int]]:
        """Yield all blocks between two documents, a few at a time."""
        query = "SELECT document FROM turns WHERE document >= ? AND document < ? ORDER BY document DESC LIMIT 1"
        page: list[int] = []
        while row := self._following.db.one(query, (first, below)):
            block = block_of(row[0])
            below, _beyond = documents_of(block)
            page.append(block)
            if len(page) == _FIRST:
                yield page
                page = []
        yield page

    def _meant(self) -> set[int] | None:
        """Return all documents that conditions leave over, and perhaps some more; None: too many to say."""
        meant = self._scope.documents(self._following.db)
        uris = [one for one in self._query.uris if not one.negated]
        if not uris:
            return meant
        held = self._following.documents_with(lambda uri: all(one.fits(uri) for one in uris[:1]))
        return held if meant is None else meant & held

    # -- looking at candidates -----------------------------------------------------------------------------------------

    def _best(self, candidates: Iterable[Sequence[int]]) -> list[Hit]:
        """Return the hits among some candidates, each of which is turns that all show the same."""
        asked = [turns for turns in candidates if turns and (not self._scope.some or any(self._placed(turns)))]
        shown: list[Shown] = []
        others: list[Sequence[int]] = []
        for turns, one in zip(asked, self._following.reading.rows([turns[0] for turns in asked]), strict=True):
            # a damaged record is not that of the others
            readable = one if isinstance(one, tuple) else next(self._readable(turns[1:]), None)
            if readable is not None and self._fits(readable, alone=len(turns) == 1):
                shown.append(readable)
                others.append(turns)
        found: list[_Found] = []
        read = self._following.reading.events(shown)
        for turns, (pair, event) in zip(others, read, strict=True):
            if not isinstance(event, ConvfsError):
                found += self._look(event, pair, turns)
        found.sort(key=lambda one: one.order)
        return [one.hits[0] for one in found] + [hit for one in found for hit in one.hits[1:]]

    def _readable(self, turns: Sequence[int]) -> Iterator[Shown]:
        return (one for one in self._following.reading.rows(turns) if isinstance(one, tuple))

    def _placed(self, turns: Sequence[int]) -> Iterator[_Placed]:
        """Yield where turns are in conversations that are meant."""
        for place in self._holders.places(turns):
            entry = self._scope.entry(place.context)
            if entry is not None:
                yield place, entry

    def _fits(self, shown: Shown, *, alone: bool) -> bool:
        """Say whether a turn is what is asked for, as far as can be told without reading it.

        All of that but the time holds for those that show the same as well: ``alone`` says that there are none.
        """
        query, (_turn, row) = self._query, shown
        if row.kind is Kind.RECORD or (query.kinds is not None and row.kind not in query.kinds):
            return False
        return all(one.fits(row.tool) for one in query.tools) and (not alone or query.in_time(_time_of(shown)))

    def _look(self, event: Event, shown: Shown, turns: Sequence[int]) -> Iterator[_Found]:
        """Yield what was found of an event that ``turns`` show, if it is what was asked for."""
        query = self._query
        uris = [resource.uri for resource in event.resources]
        if not all(one.fits(*uris) for one in query.uris):
            return
        text = Text(self._following.text(shown[1], event))
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
            yield _Found((-rank_of(shown[1].kind), not phrase, not whole, not together, -hits[0].time_ms), hits)

    def _hits(self, event: Event, text: Text, told: Sequence[int], shown: Shown, turns: Sequence[int]) -> list[Hit]:
        """Return where an event that is what was asked for is, in what changed last first."""
        placed = sorted(self._placed(turns), key=lambda place: (place[1].updated_ms, place[1].id), reverse=True)
        rows = {shown[0].turn_id: shown}
        rows |= {one[0].turn_id: one for one in self._readable([turn for turn in turns if turn not in rows])}
        hits: list[Hit] = []
        for place, entry in placed:
            row = rows.get(place.turn)
            if row is not None and self._query.in_time(time_ms := _time_of(row)):
                first = self._following.renderer.first_line(place.number, event)
                lines = tuple(Line(first + line, text.lines[line]) for line in told)
                hits.append(Hit(entry, row[1], time_ms, lines))
        return hits


def _time_of(shown: Shown) -> int:
    turn, row = shown
    return row.time_ms or turn.created_ms
