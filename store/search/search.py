"""Search: the hits of queries, and the holders of content. Candidates come from an index that follows the store,
and each is checked before it is called a hit.

**What is searched** is the content of every event's file (``Renderer.content``), of every conversation as it now is,
and the titles and labels of conversations, as ``metadata.json`` shows them. Where a title is the beginning of the first
request, that tells of it; such a title comes last, and only where nothing else of its conversation was found.

**Exact.** The index says which documents can be hits; their texts say which ones are. Documents that are not in the
index yet are looked at without it. What cannot be read, as while the space of a replica is away, is counted, for who
asked to be told.

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
from itertools import chain, islice
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from store.conversations.branch import joined
from store.conversations.library import Library
from store.errors import ConvfsError, NotFound, UsageError
from store.events.conversation import NAMING, EventRow
from store.events.event import Event, Kind
from store.ids import now_ms, turn_of
from store.index.catalogue import ContextEntry
from store.index.database import Database, Renewed
from store.search import words
from store.search.documents import HIGHEST_RANK, block_of, documents_of, first_of, key_of, rank_of
from store.search.folding import fold
from store.search.follower import Follower, batched
from store.search.holders import Holders, TurnPlace
from store.search.line import Line
from store.search.needs import lines_with
from store.search.query import Query, parse
from store.search.reader import ShownTurn
from store.search.terms import Term, Text
from store.search.unread import Unread
from store.texts import Texts
from store.upkeep.recovery import Files

_REMEMBERED = 4096
_FEW = 100_000
_FIRST = 24
_MOST = 512
_LATE = 512
"""The most turns outside the index that are looked at before those in it; more of them come after it."""

_Placed = tuple[TurnPlace, ContextEntry]


class Hit(Struct, frozen=True):
    """An event of a conversation that meets a query; or its ``metadata.json``, if ``row`` is None.

    ``time_ms`` is when it happened or, if it does not say so, when it came into the store. ``lines`` are those that
    meet the whole query, or else some of it, in order, at most as many as were wanted; none if only filters were given.
    """

    conversation: ContextEntry
    row: EventRow | None
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
        return bool(self._query.conversation)

    def _meant(self, context: int) -> ContextEntry | None:
        try:
            entry = self._library.catalogue.entry(context)
        except NotFound:
            return None
        return entry if entry.name and self._query.means(entry) else None

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
        if asked := query.of("project"):
            projects = [name for name in catalogue.projects() if all(one.fits(name) for one in asked)]
            return [(tip, records) for project in projects for _id, tip, records in catalogue.heads_in(project) if tip]
        if asked := query.of("label"):
            # of several, one will do
            labels = [label for label in catalogue.labels() if asked[0].fits(label)]
            heads = [catalogue.head(called.id) for label in labels for called in catalogue.labelled(label)]
            return [head for head in heads if head and head[0]]
        if any(not one.negated for one in query.conversation):
            return [(entry.head, entry.records) for entry in catalogue.page() if entry.head and query.means(entry)]
        return None


class _Seen:
    """Something that may meet a query: an event, or a conversation's title and labels (``kind`` None)."""

    def __init__(self, text: str, row: EventRow | None = None, event: Event | None = None) -> None:
        self.text = Text(text)
        self._kind = row and row.kind
        self._values: dict[str, list[str]] = {"tool": [row.tool] if row else [], "uri": [], "model": []}
        if event is not None:
            model = event.header.get("model")
            self._values["uri"] = [resource.uri for resource in event.resources]
            self._values["model"] = [model] if isinstance(model, str) else []

    def meets(self, query: Query) -> bool:
        """Return whether it meets the filters that look at an event."""
        if self._kind is None:
            return not query.of_events
        if query.kinds is not None and self._kind not in query.kinds:
            return False
        return all(one.fits(*self._values[one.key]) for one in query.event)

    def lines(self, query: Query) -> "_Found | None":
        """Return where it meets a query, as far as can be told without its conversation and time; None if nowhere."""
        if not self.meets(query) or any(True for term in query.without for _line in term.lines(self.text)):
            return None
        lines: list[set[int]] = []
        for term in query.terms:
            lines.append(set(term.lines(self.text)))
            if not lines[-1]:
                return None
        choices: list[list[Query]] = []
        for choice in query.either:
            met = [(each, found) for each in choice if (found := self.lines(each)) is not None]
            if not met:
                return None
            choices.append([each for each, _found in met])
            if told := set[int]().union(*(one for _each, found in met for one in found.lines)):
                lines.append(told)
        return _Found(lines, choices)


class _Found(Struct, frozen=True):
    """The lines that meet each part of a query that is text; of each row of ``either``, what may be met."""

    lines: list[set[int]]
    choices: list[list[Query]]

    @property
    def together(self) -> set[int]:
        """The lines that have all that was asked for."""
        return set.intersection(*self.lines) if self.lines else set()

    def told(self, most: int) -> list[int]:
        """Return the lines to tell of."""
        return sorted(self.together or set[int]().union(*self.lines))[:most]

class _Told(Struct, frozen=True):
    """An event that may be a hit: how good it is, lower is better, its lines, and what may be met."""

    order: tuple[bool, ...]
    lines: tuple[Line, ...]
    choices: list[list[Query]]


def _holds(query: Query, choices: list[list[Query]], entry: ContextEntry, time_ms: int) -> bool:
    """Return whether a conversation and a time fit, too, where these choices are met but for that."""
    return query.in_time(time_ms) and all(
        any(each.means(entry) and each.in_time(time_ms) for each in choice) for choice in choices
    )


class Finder:
    """One query. ``lines`` is the most lines that are told of a hit, ``around`` how many before and after each, too.

    ``unread`` counts what cannot be read.
    """

    def __init__(
        self,
        follower: Follower,
        holders: Holders,
        texts: Texts,
        query: Query,
        lines: int,
        around: tuple[int, int] = (0, 0),
        unread: Unread | None = None,
    ) -> None:
        self._unread = Unread() if unread is None else unread
        self._follower = follower
        self._holders = holders
        self._texts = texts
        self._query = query
        self._lines = lines
        self._before, self._after = around
        self._scope = Scope(follower.library, query)

    def pages(self) -> Iterator[list[Hit]]:
        """Yield the hits in events, best first, a page at a time, which may be empty.

        Nothing is held between two pages. Raises Renewed where the index is begun anew after the first hit.
        """
        any_hit = False
        while True:
            try:
                for page in self._in_events():
                    any_hit = any_hit or bool(page)
                    yield page
                return
            except Renewed:
                if any_hit:
                    raise

    def _in_events(self) -> Iterator[list[Hit]]:
        follower = self._follower
        db = follower.follow()
        last, unfiled = db.number("placed"), follower.unfiled_turns()
        late = set(unfiled)
        if len(unfiled) <= _LATE:
            yield from self._late(unfiled)
        for page in self._pages():
            # later records were not asked for
            best = self._best([[t for t in turns if t not in late and turn_of(t) <= last] for turns in page])
            # of another one, nobody knows what it lacks
            db.check()
            yield best
        db.check()
        if len(unfiled) > _LATE:
            yield from self._late(unfiled)

    def named(self, *, by_request: bool) -> list[Hit]:
        """Return the conversations whose title or labels meet the query, the last changed first.

        ``by_request``: those whose title is the beginning of the first request, and no label meets it; else the others.
        """
        query, catalogue = self._query, self._follower.library.catalogue
        if query.of_events or not (query.terms or query.either):
            return []
        labels: dict[int, list[str]] = {}
        for label in catalogue.labels():
            for called in catalogue.labelled(label):
                labels.setdefault(called.id, []).append(label)
        titles = catalogue.titles()
        # one look at all of them tells nearly always that none can meet it
        joined = (" ".join(" ".join((title, *labels.get(context, ()))).splitlines()) for context, title in titles)
        possible = lines_with(query.need, fold("\n".join(joined)))
        hits: list[Hit] = []
        for context, title in titles if possible is None else [titles[line] for line in sorted(possible)]:
            values = [title, *labels.get(context, ())]
            if _Seen(_one_each(values)).lines(query) is None or (entry := self._scope.entry(context)) is None:
                continue
            values = [entry.title, *entry.labels]
            found = _Seen(_one_each(values)).lines(query)
            if found is None or not found.lines or not _holds(query, found.choices, entry, entry.updated_ms):
                continue
            told = found.told(self._lines)
            if (told == [0] and _is_request(entry)) == by_request:
                shown = self._follower.renderer.described(*values)
                hits.append(Hit(entry, None, entry.updated_ms, tuple(Line(*shown[at]) for at in told)))
        hits.sort(key=lambda hit: (hit.time_ms, hit.conversation.id), reverse=True)
        return hits

    def _late(self, unfiled: Sequence[int]) -> Iterator[list[Hit]]:
        for ids in batched(unfiled[::-1], _LATE):
            shown: list[ShownTurn] = []
            for pair in self._follower.reading.rows(ids):
                if isinstance(pair, ConvfsError):
                    self._unread.note(pair)
                else:
                    shown.append(pair)
            # those that could not be measured, of which it is not known what they show
            unsure = [row for _turn, row in shown if row.unsure]
            unread: set[int] = set()
            for row, event in self._follower.library.viewer.events(unsure) if unsure else ():
                if isinstance(event, ConvfsError):
                    self._unread.note(event)
                    unread.add(row.turn)
            alike: dict[object, list[int]] = {}
            for turn, row in shown:
                if row.turn not in unread:
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
        blocks: Iterable[int]
        if not query.need.vacuous:
            blocks = self._follower.segments.blocks(query.need, block_of(first), block_of(below))
        elif meant is not None:
            blocks = sorted({block_of(one) for one in meant if first <= one < below}, reverse=True)
        else:
            blocks = self._all(first, below)
        for page in _growing(blocks):
            yield [turns for document, turns in self._documents(page) if meant is None or document in meant]

    def _documents(self, blocks: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Yield the documents of some blocks, in the order of these, which fall, with the turns of each."""
        for first, count in reversed([*joined((block, 1) for block in reversed(blocks))]):
            start, beyond = documents_of(first)[0], documents_of(first + count - 1)[1]
            found = self._follower.turns_between(start, beyond)
            yield from sorted(found.items(), key=lambda one: block_of(one[0]), reverse=True)

    def _all(self, first: int, below: int) -> Iterator[int]:
        query = "SELECT document FROM turns WHERE document >= ? AND document < ? ORDER BY document DESC LIMIT ?"
        while rows := self._follower.db.query(query, (first, below, _MOST)):
            blocks = list(dict.fromkeys(block_of(document) for (document,) in rows))
            yield from blocks
            below, _beyond = documents_of(blocks[-1])

    def _meant(self) -> set[int] | None:
        """Return all documents that meet the conditions, and perhaps some more; None: too many to say."""
        meant = self._scope.documents(self._follower.db)
        uris = self._query.of("uri")
        if not uris:
            return meant
        held = self._follower.documents_with(uris[0].fits)
        return held if meant is None else meant & held

    def _best(self, candidates: Iterable[Sequence[int]]) -> list[Hit]:
        """Return the hits among some candidates; each candidate is turns that all show the same."""
        asked = [turns for turns in candidates if turns and (not self._scope.some or any(self._placed(turns)))]
        possible = self._possible(asked)
        asked = [turns for turns in asked if turns[0] in possible]
        shown: list[tuple[Sequence[int], ShownTurn]] = []
        for turns, one in zip(asked, self._follower.reading.rows([turns[0] for turns in asked]), strict=True):
            # a damaged record is not that of the others
            readable = one if isinstance(one, tuple) else next(self._readable(turns[1:]), None)
            if readable is None:
                self._unread.note(one, len(turns))
            elif self._fits(readable[1], _time_of(readable), alone=len(turns) == 1):
                shown.append((turns, readable))
        found: list[tuple[tuple[int, ...], list[Hit]]] = []
        read = self._follower.library.viewer.events([pair[1] for turns, pair in shown if possible[turns[0]] is None])
        for turns, pair in shown:
            told = possible[turns[0]] or self._read(*next(read), len(turns))
            if told is not None and (hits := self._hits(told, pair, turns)):
                found.append(((-rank_of(pair[1].kind), *told.order, -hits[0].time_ms), hits))
        found.sort(key=itemgetter(0))
        return [hits[0] for _order, hits in found] + [hit for _order, hits in found for hit in hits[1:]]

    def _readable(self, turns: Sequence[int]) -> Iterator[ShownTurn]:
        return (one for one in self._follower.reading.rows(turns) if isinstance(one, tuple))

    def _placed(self, turns: Sequence[int]) -> Iterator[_Placed]:
        for place in self._holders.places(turns):
            entry = self._scope.entry(place.context)
            if entry is not None:
                yield place, entry

    def _possible(self, asked: Sequence[Sequence[int]]) -> dict[int, _Told | None]:
        """Return the first turns of those candidates that may be hits, and what is told of each; None: it is unread.

        What was measured and drawn of them tells, without a look at the records.
        """
        query = self._query
        possible: dict[int, _Told | None] = {turns[0]: None for turns in asked}
        alone = {turns[0] for turns in asked if len(turns) == 1}
        fitting: list[EventRow] = []
        for row in self._follower.library.views.rows([(turn, 1) for turn in possible], 1):
            if self._fits(row, row.time_ms, alone=row.turn in alone):
                fitting.append(row)
            else:
                del possible[row.turn]
        for row, content in self._texts.contents_of(fitting) if query.spoken or query.without else ():
            if content is None:
                continue
            if query.of_records:
                if not self._says(Text(content.text)):
                    del possible[row.turn]
            elif (told := self._look(_Seen(content.text, row), content.first)) is not None:
                possible[row.turn] = told
            else:
                del possible[row.turn]
        return possible

    def _fits(self, row: EventRow, time_ms: int, *, alone: bool) -> bool:
        """Return whether a turn meets the query, as far as can be told without reading it; ``time_ms`` 0: unknown.

        Except for the time, this also holds for turns that show the same: ``alone`` says that there are none.
        """
        if row.kind is Kind.RECORD or (self._query.kinds is not None and row.kind not in self._query.kinds):
            return False
        tools = (one for one in self._query.event if one.key == "tool")
        return all(one.fits(row.tool) for one in tools) and (
            not alone or not time_ms or self._query.in_time(time_ms)
        )

    def _says(self, text: Text) -> bool:
        return all(any(True for _line in term.lines(text)) for term in self._query.terms)

    def _read(self, row: EventRow, event: Event | ConvfsError, turns: int) -> _Told | None:
        """Return what is told of an event that was read, None if it does not meet the query, or cannot be read.

        So many ``turns`` show it.
        """
        if isinstance(event, ConvfsError):
            self._unread.note(event, turns)
            return None
        renderer = self._follower.renderer
        return self._look(_Seen(self._follower.text(row, event), row, event), renderer.first_line(row.number, event))

    def _look(self, seen: _Seen, first: int) -> _Told | None:
        """Return what is told of an event whose content begins at line ``first`` of its file."""
        query, text = self._query, seen.text
        found = seen.lines(query)
        if found is None:
            return None
        phrase = query.phrase is not None and query.phrase.whole(text)
        whole = all(term.whole(text) for term in query.terms)
        shown = dict.fromkeys(found.told(self._lines), False)
        if self._before or self._after:
            last = len(text.lines)
            for line in list(shown):
                for near in range(max(line - self._before, 0), min(line + self._after + 1, last)):
                    shown.setdefault(near, True)
        lines = tuple(Line(first + line, text.lines[line], context) for line, context in sorted(shown.items()))
        return _Told((not phrase, not whole, not found.together), lines, found.choices)

    def _hits(self, told: _Told, shown: ShownTurn, turns: Sequence[int]) -> list[Hit]:
        """Return the places of an event that meets the query, the last changed conversation first."""
        placed = sorted(self._placed(turns), key=lambda place: (place[1].updated_ms, place[1].id), reverse=True)
        rows = {shown[0].turn_id: shown}
        rows |= {one[0].turn_id: one for one in self._readable([turn for turn in turns if turn not in rows])}
        return [
            Hit(entry, row[1], time_ms, told.lines)
            for place, entry in placed
            if (row := rows.get(place.turn)) is not None
            and _holds(self._query, told.choices, entry, time_ms := _time_of(row))
        ]


def _growing(blocks: Iterable[int]) -> Iterator[list[int]]:
    """Yield a few of some blocks at a time, and then more."""
    each, size = iter(blocks), _FIRST
    while page := list(islice(each, size)):
        yield page
        size = min(2 * size, _MOST)


def _one_each(values: Iterable[str]) -> str:
    """Return values as text that has a line of each."""
    return "".join(f"{' '.join(value.splitlines())}\n" for value in values)


def _is_request(entry: ContextEntry) -> bool:
    # imported here, with much of the formats, as only titles that match are asked about
    from store.formats.core.format import Titled

    naming = entry.metadata.get(NAMING)
    return isinstance(naming, dict) and naming.get("title") in (Titled.PROVISIONALLY, Titled.BY_REQUEST)


def _time_of(shown: ShownTurn) -> int:
    turn, row = shown
    return row.time_ms or turn.created_ms


class Search(Follower):
    """Searches one store. Safe to call from any thread. UsageError where the store was opened without a renderer."""

    def __init__(self, files: Files, library: Library, texts: Texts) -> None:
        super().__init__(files, library)
        self._texts = texts
        self.holders = Holders(self)
        """The holders of content."""

    def shrink(self) -> None:
        super().shrink()
        words.forget()

    def run(self, query: str, limit: int | None = None, *, lines: int = 100) -> Iterator[Hit]:
        """Yield up to ``limit`` hits of a query (``store.search.query``), best first, each with up to ``lines`` lines.

        Nothing is held while no hit is asked for. Raises UsageError, at once, if the query cannot be understood.
        """
        return chain.from_iterable(self.pages(query, limit, lines=lines))

    def pages(
        self, query: str, limit: int | None = None, *, lines: int = 100, unread: Unread | None = None
    ) -> Iterator[list[Hit]]:
        """As :meth:`run`, as many at a time as are looked at at once; some pages may be empty.

        ``unread`` counts what could not be looked at.
        """
        asked = parse(query, now_ms())
        return _first(self._pages(Finder(self, self.holders, self._texts, asked, lines, unread=unread)), limit)

    def grep(
        self,
        term: Term,
        where: str = "",
        *,
        lines: int = 100,
        around: tuple[int, int] = (0, 0),
        unread: Unread | None = None,
    ) -> Iterator[list[Hit]]:
        """As :meth:`pages`, for one term and the filters of a query, in events alone; see :class:`Finder`."""
        filters = parse(where, now_ms()) if where.strip() else Query()
        if filters.terms or filters.without or any(each.terms for choice in filters.either for each in choice):
            raise UsageError(f"{where}: a pattern is followed by filters alone (project:, role:, after:)")
        return Finder(self, self.holders, self._texts, replace(filters, terms=(term,)), lines, around, unread).pages()

    def _pages(self, finder: Finder) -> Iterator[list[Hit]]:
        found: set[int] = set()
        for page in chain([finder.named(by_request=False)], finder.pages()):
            found.update(hit.conversation.id for hit in page)
            yield page
        yield [hit for hit in finder.named(by_request=True) if hit.conversation.id not in found]

    @property
    def unfiled(self) -> int:
        """The number of turns that the index does not have."""
        return len(self.unfiled_turns())


def _first(pages: Iterator[list[Hit]], limit: int | None) -> Iterator[list[Hit]]:
    left = limit
    for page in pages:
        yield page[:left]
        if left is not None and (left := left - len(page)) <= 0:
            return
