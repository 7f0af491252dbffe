"""Records seen as events, and measured for the index.

Missing rows (of turns that were appended, or came with a large import; after a rebuilt index; of another renderer
version) are measured when a conversation is next listed, from the first missing one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from store.conversations.chain import Blobs, Chain, Recorded
from store.conversations.turns import Contents, Turns
from store.disk.turn_format import Encoding, Turn
from store.errors import ConvfsError
from store.events.conversation import EventRow, Renderer, ResourceRow, Sizes
from store.events.event import Event, Kind, too_large
from store.ids import Hash, hash_bytes
from store.index.views import Run, Views
from store.locks import Locks

if TYPE_CHECKING:
    from store.formats.core.editing import Lens

_Place = tuple[int, int]
"""A record's number, and the turn that it is seen as."""

LARGEST_VIEWED = 64 << 20
"""Payloads beyond this many bytes are not parsed: they are shown as a note that says how to get at them."""

_BATCH = 512
_BATCH_BYTES = 16 << 20
_MEASURED_AT_ONCE = 128

_number = attrgetter("number")

_KINDS = tuple(Kind)

Position = Callable[[int], int]
"""Returns the turn that record ``number`` (from 1) of a branch is seen as."""


class Measurement(Struct, frozen=True, array_like=True, gc=False):
    """The measures of a record whose content nobody has changed, as in :class:`EventRow`, and its resources.

    Of each resource: URI, MIME type, size in bytes, hash.
    """

    kind: int
    tool: str
    parent: int
    time_ms: int
    file_size: int
    section_size: int
    json_size: int
    payload_size: int
    resources: tuple[tuple[str, str, int, Hash], ...]


class Measured:
    """Records that follow each other as they are measured, until it is known which turns they are."""

    def __init__(self) -> None:
        self._records: list[tuple[int, Kind, str, int, int, int, int, int, int, bool, bool]] = []
        self._resources: list[tuple[int, int, int, str, str, int, int, Hash]] = []
        self.last_ms = 0
        """The latest time that a record told, in Unix milliseconds, 0 if none did."""

    def add(
        self, number: int, event: Event, sizes: Sizes | None, payload_size: int, edited_ms: int, *, unsure: bool = False
    ) -> None:
        """Add the next record; ``edited_ms`` is the time at which its content was changed, 0 if it never was.

        A deleted one has no ``sizes``, and is not shown: only the parts that later records may refer to count.
        """
        time_ms = edited_ms or event.time_ms
        kind, file, section, json = Kind.RECORD, 0, 0, 0
        if sizes is not None:
            kind, file, section, json = event.kind, sizes.file, sizes.section, sizes.json
            place = len(self._records)
            for seq, resource in enumerate(event.resources):
                data = resource.data
                row = (place, number, seq, resource.uri, resource.mime, len(data), time_ms, hash_bytes(data))
                self._resources.append(row)
            self.last_ms = max(self.last_ms, event.time_ms)
        told = (event.tool, event.parent, time_ms, file, section, json, payload_size)
        self._records.append((number, kind, *told, sizes is None, unsure))

    @staticmethod
    def of(event: Event, sizes: Sizes, payload_size: int) -> Measurement:
        """Measure a record by itself, for :meth:`put`."""
        resources = [(one.uri, one.mime, one.data) for one in event.resources]
        return Measurement(
            event.kind,
            event.tool,
            event.parent,
            event.time_ms,
            sizes.file,
            sizes.section,
            sizes.json,
            payload_size,
            tuple((uri, mime, len(data), hash_bytes(data)) for uri, mime, data in resources),
        )

    def put(self, number: int, one: Measurement) -> None:
        """Add the next record, which was measured by itself."""
        place = len(self._records)
        for seq, resource in enumerate(one.resources):
            uri, mime, size, digest = resource
            self._resources.append((place, number, seq, uri, mime, size, one.time_ms, digest))
        self.last_ms = max(self.last_ms, one.time_ms)
        sizes = (one.file_size, one.section_size, one.json_size, one.payload_size)
        self._records.append((number, _KINDS[one.kind], one.tool, one.parent, one.time_ms, *sizes, False, False))

    def rows(self, first: int) -> list[EventRow]:
        """Return the rows of the records, the first of which is turn ``first``."""
        return [EventRow(turn, *row) for turn, row in enumerate(self._records, first)]

    def resources(self, first: int) -> list[ResourceRow]:
        """Return the resources of the records, the first of which is turn ``first``."""
        return [ResourceRow(first + resource[0], *resource[1:]) for resource in self._resources]


class Viewer:
    """Sees the records of one store. Safe to call from any thread."""

    def __init__(self, turns: Turns, views: Views, contents: Contents, renderer: Renderer | None) -> None:
        self._turns = turns
        self._views = views
        self._contents = contents
        self._blobs = contents.aliased
        self.renderer = renderer
        self._measuring = Locks[int]()
        """Held while records are measured, by the first turn that is missing: what they need may be far away."""

    @cached_property
    def _lens_for(self) -> "Callable[[str, int], Lens]":
        # imported here, as it is much, and where texts and measures are kept nothing is seen anew
        from store.formats.registry import lens_for

        return lens_for

    def lens(self, turn: Turn) -> "Lens":
        """Return the lens for the payload of a turn."""
        return self._lens_for(self._contents.type_name(turn.type_tag), turn.encoding)

    def event(self, row: EventRow, payload: bytes) -> Event:
        """Return the event of a measured record."""
        return self.lens(self._turns.get(row.turn)).view(payload, Recorded(row.tool, row.parent, self._blobs))

    def events(self, rows: Sequence[EventRow]) -> Iterator[tuple[EventRow, Event | ConvfsError]]:
        """Yield the events of measured records, their payloads read in one pass."""
        for some in _batches(rows):
            small = [row for row in some if row.payload_size <= LARGEST_VIEWED]
            turns = self._turns_of([row.turn for row in small])
            payloads = {turn.turn_id: (turn, payload) for turn, payload in self._contents.of_turns(turns)}
            for row in some:
                if row.payload_size > LARGEST_VIEWED:
                    yield row, too_large(row.payload_size)
                    continue
                turn, payload = payloads.pop(row.turn)
                if isinstance(payload, bytes):
                    yield row, self.lens(turn).view(payload, Recorded(row.tool, row.parent, self._blobs))
                else:
                    yield row, payload

    def _turns_of(self, turns: Sequence[int]) -> list[Turn]:
        found: list[Turn] = []
        start = 0
        while start < len(turns):
            end = start + 1
            while end < len(turns) and turns[end] == turns[end - 1] + 1:
                end += 1
            found += self._turns.range(turns[start], end - start)
            start = end
        return found

    def format_name(self, type_tag: int) -> str:
        """Return the name of the format that payloads of a type are in, which the type's name begins with."""
        return self._contents.type_name(type_tag).partition(".")[0]

    # -- measuring -------------------------------------------------------------------------------------------------

    def chain(self, position: Position, number: int, blobs: Blobs | None = None, *, reach: int | None = None) -> Chain:
        """Return the chain at record ``number`` of a branch; ``blobs`` finds content that the store may not have."""

        def backwards(earlier: int) -> Event | None:
            turn = self._turns.get(position(earlier))
            # what it was told itself may be what it tells
            known = next(iter(self._views.rows([(turn.turn_id, 1)], earlier)), None)
            recorded = Recorded(known.tool, known.parent, self._blobs) if known else Recorded("", 0, self._blobs)
            for _turn, payload in self._contents.of_turns([turn]):
                if isinstance(payload, bytes):
                    large = len(payload) > LARGEST_VIEWED
                    return too_large(len(payload)) if large else self.lens(turn).view(payload, recorded)
            return None

        return Chain(number, backwards, blobs or self._blobs, reach)

    def rows(self, runs: Sequence[Run], number: int, position: Position) -> list[EventRow]:
        """Return the row of every record of a part of a branch, measuring those that are missing.

        The first of them is record ``number``; ``position`` finds those before it. Needs a renderer.
        """
        found = self._views.rows(runs, number)
        turns = [turn for first, count in runs for turn in range(first, first + count)]
        if len(found) == len(turns):
            return found
        there = {row.number for row in found}
        missing = [place for place in enumerate(turns, number) if place[0] not in there]
        for stretch in _stretches(missing):
            found += self._measure(stretch, position)
        found.sort(key=_number)
        return found

    def _measure(self, stretch: Sequence[_Place], position: Position) -> list[EventRow]:
        """Measure records that follow each other, a few at a time: others have the same to measure, too."""
        rows: list[EventRow] = []
        chain: Chain | None = None
        for start in range(0, len(stretch), _MEASURED_AT_ONCE):
            some = stretch[start : start + _MEASURED_AT_ONCE]
            number, first = some[0]
            with self._measuring.of(first):
                # somebody else may have just done it
                known = self._views.rows([(turn, 1) for _number, turn in some], number)
                if len(known) == len(some):
                    rows += known
                    chain = None
                    continue
                chain = chain or self.chain(position, number)
                rows += self._measure_some(some, chain)
        return rows

    def _measure_some(self, some: Sequence[_Place], chain: Chain) -> list[EventRow]:
        turns = self._turns_of([turn for _number, turn in some])
        sizes = {turn.turn_id: self._size(turn.payload_hash) for turn in turns}
        payloads = self._seen(turns, sizes)
        rows: list[EventRow] = []
        resources: list[ResourceRow] = []
        for (number, turn_id), turn in zip(some, turns, strict=True):
            measured = Measured()
            size = sizes[turn_id]
            self.measure(
                measured,
                number,
                self._contents.type_name(turn.type_tag),
                payloads.get(turn_id),
                size or 0,
                chain,
                deleted=turn.deleted,
                edited_ms=turn.edited_ms,
                encoding=turn.encoding,
                unread=size is None or (size <= LARGEST_VIEWED and turn_id not in payloads),
            )
            rows += measured.rows(turn_id)
            resources += measured.resources(turn_id)
        self._views.add(rows, resources)
        return rows

    def _size(self, digest: Hash) -> int | None:
        try:
            return self._contents.blobs.size(digest)
        except ConvfsError:
            # it cannot be read; reading it reports the error
            return None

    def _seen(self, turns: Sequence[Turn], sizes: dict[int, int | None]) -> dict[int, bytes]:
        """Return the payloads of those turns that can be read, and are not too large for it."""
        small = [turn for turn in turns if (size := sizes[turn.turn_id]) is not None and size <= LARGEST_VIEWED]
        found = ((turn.turn_id, payload) for turn, payload in self._contents.of_turns(small))
        return {turn_id: payload for turn_id, payload in found if isinstance(payload, bytes)}

    def measure(
        self,
        into: Measured,
        number: int,
        type_name: str,
        payload: bytes | None,
        payload_size: int,
        chain: Chain,
        *,
        deleted: bool = False,
        edited_ms: int = 0,
        encoding: int = Encoding.JSON,
        unread: bool = False,
    ) -> Event:
        """View and measure one record of a branch, advance to the next, and return the view.

        ``payload`` is None if it is too large, or cannot be read just now (``unread``). Then its size is 0, as in the
        listing of its file: reading that file is an error.
        """
        if unread:
            payload = b""
        event = self._view(type_name, payload, payload_size, chain, encoding)
        unsure = unread or chain.doubtful
        chain.advance(None if unread else event)
        self.take(into, number, type_name, event, payload_size, deleted=deleted, edited_ms=edited_ms, unsure=unsure)
        return event

    def see(self, type_name: str, payload: bytes | None, payload_size: int, chain: Chain) -> Event:
        """View one record of a branch as :meth:`measure` does, advance to the next, and return the view."""
        event = self._view(type_name, payload, payload_size, chain)
        chain.advance(event)
        return event

    def _view(
        self, type_name: str, payload: bytes | None, payload_size: int, chain: Chain, encoding: int = Encoding.JSON
    ) -> Event:
        lens = self._lens_for(type_name, encoding)
        return too_large(payload_size) if payload is None else lens.view(payload, chain)

    def take(
        self,
        into: Measured,
        number: int,
        type_name: str,
        event: Event,
        payload_size: int,
        *,
        deleted: bool = False,
        edited_ms: int = 0,
        unsure: bool = False,
    ) -> None:
        """Measure one event of a branch; ``unsure`` as of :class:`EventRow`."""
        if self.renderer is None:
            raise ConvfsError("this store was opened without a renderer, so nothing can be measured")
        format_ = type_name.partition(".")[0]
        sizes = None if deleted else self.renderer.measure(number, event, format_, payload_size)
        into.add(number, event, sizes, payload_size, edited_ms, unsure=unsure)


def _stretches(places: Sequence[_Place]) -> Iterator[Sequence[_Place]]:
    start = 0
    for end in range(1, len(places) + 1):
        if end == len(places) or places[end][0] != places[end - 1][0] + 1:
            yield places[start:end]
            start = end


def _batches(rows: Sequence[EventRow]) -> Iterator[list[EventRow]]:
    batch: list[EventRow] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == _BATCH or size + row.payload_size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row.payload_size
    if batch:
        yield batch
