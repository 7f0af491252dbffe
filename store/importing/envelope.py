"""The envelope: everything of a session's main file that is not a record.

A file is prefix, record, separator, record, …, suffix. Nearly always every separator is the same, so the envelope
is a few bytes of the conversation's metadata and serves any number of records.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

import msgspec
from msgspec import Struct

from store import typed
from store.formats.core.format import Part


class Envelope(Struct, frozen=True, omit_defaults=True):
    """Bytes as latin-1 text, so that any byte survives JSON.

    ``gaps`` are the bytes before each record of the main file: (position, text) pairs, rising, each for the records
    from that position (0 is the first record) up to the next pair's. ``suffix`` follows the last record.
    """

    gaps: tuple[tuple[int, str], ...] = ()
    suffix: str = ""

    def join(self, records: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
        """Yield the bytes of the file that holds ``records``, each given in pieces."""
        changes = iter(self.gaps)
        change = next(changes, None)
        gap = b""
        for position, pieces in enumerate(records):
            if change is not None and change[0] == position:
                gap = change[1].encode("latin-1")
                change = next(changes, None)
            yield gap
            yield from pieces
        yield self.suffix.encode("latin-1")

    def rejoin(
        self, records: Iterable[tuple[int | None, Iterable[bytes]]], joints: tuple[bytes, bytes, bytes], count: int
    ) -> Iterator[bytes]:
        """Yield the bytes of a file with other records, each with the position that it had, None if it had none.

        ``joints`` are the bytes before the first, between two and after the last where this envelope has none.
        ``count`` is the number of records that the file had. :class:`Gaps` tells what becomes of the bytes between
        them.
        """
        opening, separator, ending = joints
        if not self.gaps:
            written = False
            for _position, pieces in records:
                yield separator if written else opening
                yield from pieces
                written = True
            yield ending if written else self.suffix.encode("latin-1")
            return
        gaps = Gaps(self, separator, count)
        # before this many records of the file, everything has been written
        done = 0
        for position, pieces in records:
            if position is not None and position >= done:
                skipped = b"".join(map(gaps.instead, range(done, position)))
                yield skipped + gaps.opening(position) + gaps.before(position)
                done = position + 1
            else:
                around = b"" if done else gaps.opening(0)
                yield around + gaps.before(max(done - 1, 0) if position is None else position)
                done = max(done, 1)
            yield from pieces
        yield b"".join(map(gaps.instead, range(done, max(count, 1)))) + gaps.suffix

    def gap_before(self, position: int) -> bytes:
        return self.gaps[bisect_right(self.gaps, position, key=itemgetter(0)) - 1][1].encode("latin-1")


class EnvelopeBuilder:
    """Collects an envelope as records are read; to go on at ``position``, it needs what is ``known`` up to there."""

    def __init__(self, known: Envelope | None = None, position: int = 0) -> None:
        self._gaps = [gap for gap in known.gaps if gap[0] < position] if known else []
        self._position = position
        self._last = self._gaps[-1][1].encode("latin-1") if self._gaps else None

    def gap(self, between: bytes) -> None:
        if between != self._last:
            self._gaps.append((self._position, between.decode("latin-1")))
            self._last = between
        self._position += 1

    def close(self, rest: bytes) -> Envelope:
        """Return the envelope of a file that ends in ``rest`` after its last record."""
        return Envelope(tuple(self._gaps), rest.decode("latin-1"))


_ending_key = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:\s*+\Z', re.DOTALL).search


class Share(Struct, frozen=True, omit_defaults=True):
    """The share of a file that belongs to one conversation.

    ``context`` is its id, ``tip`` the turn that its branch ended in as it was imported from the file. ``records`` are
    its own records, in the order of the conversation, as runs of positions in the file: (first, count). Before them
    come the first ``shared`` records of the conversation at ``base`` among the places, if that is not -1.
    """

    key: str
    context: int
    tip: int
    records: tuple[tuple[int, int], ...] = ()
    base: int = -1
    shared: int = 0

    @property
    def own(self) -> int:
        return sum(count for _first, count in self.records)

    def positions(self) -> Iterator[int]:
        for first, count in self.records:
            yield from range(first, first + count)


class Layout(Struct, frozen=True):
    """The layout of a file: ``envelope`` has the bytes between the records of conversations, ``places`` their owners.

    A record's position counts these records alone, from 0.
    """

    envelope: Envelope
    places: tuple[Share, ...]

    @property
    def count(self) -> int:
        return sum(place.own for place in self.places)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def renewed(self, places: Sequence[Share]) -> "Layout":
        """Return the layout of lines in which some conversations have other shares, with those that branch off them.

        New conversations come last.
        """
        owners = {family[0].key: family for family in (*_owners(self.places), *_owners(places))}
        found: list[Share] = []
        position = 0
        for family in owners.values():
            base = len(found)
            for place in family:
                records = ((position, place.own),) if place.own else ()
                position += place.own
                there = place.base + base if place.base >= 0 else -1
                found.append(msgspec.structs.replace(place, records=records, base=there))
        return Layout(Envelope(((0, ""), (1, "\n")) if position > 1 else ((0, ""),), "\n"), tuple(found))


def _owners(places: Sequence[Share]) -> Iterator[list[Share]]:
    """Yield conversations with all that branch off them, whose bases count from the first."""
    for family in families(place.base for place in places):
        at = {number: position for position, number in enumerate(family)}
        yield [
            msgspec.structs.replace(places[number], base=at.get(places[number].base, -1)) for number in family
        ]


def read_layout(data: bytes) -> Layout:
    """Return the layout that :meth:`Layout.encode` has written. Raises msgspec.ValidationError for anything else."""
    return typed.decode(data, Layout)


class Gaps:
    """The bytes between records, for a file with some records left out and others put in.

    A gap that separates two records, of a list or lines, goes with one of them; any other (the first of all, what
    closes one conversation and opens the next, or a list within a line) stays whatever becomes of the records around
    it. ``separator`` is used between two records where the file itself does not show one. ``count`` is the number of
    records that the file had.

    Where records are members of objects (``keyed``), their keys are in the gaps, and go with the records.

    The results must be written in the order of the file.
    """

    def __init__(self, envelope: Envelope, separator: bytes, count: int, *, keyed: bool = False) -> None:
        self._starts = [position for position, _text in envelope.gaps]
        texts = [text.encode("latin-1") for _position, text in envelope.gaps]
        found = [_ending_key(text) if keyed else None for text in texts]
        ends = [key.start() if key else len(text) for key, text in zip(found, texts, strict=True)]
        self._texts = [text[:end] for text, end in zip(texts, ends, strict=True)]
        self._keys = [text[end:] for text, end in zip(texts, ends, strict=True)]
        self._keyed = keyed
        self._count = count
        self._mark = separator.strip()
        self.in_lists = bool(self._mark)
        """True if records are elements of lists: a list can have one more, a record by itself has no neighbours."""
        self._usual = next((text for text in reversed(self._texts[1:]) if text.strip() == self._mark), separator)
        self._begun = False
        """True if a record has been written since the last gap that does not separate."""
        self.suffix = envelope.suffix.encode("latin-1")

    def separates(self, position: int) -> bool:
        """Return whether the gap before a record only separates it from the one before."""
        return position > 0 and self._text(position).strip() in (b"", b",")

    def listed(self, position: int) -> bool:
        """Return whether a record of the file is an element of a list."""
        return self.separates(position) or self._text(position).rstrip().endswith(b"[")

    def opening(self, position: int) -> bytes:
        """Return the bytes to write where a record stands or stood, before everything else there."""
        if self.separates(position):
            return b""
        self._begun = False
        return self._text(position)

    def instead(self, position: int) -> bytes:
        """Return the bytes to write, instead of those of :meth:`opening`, where a record is left out and none put in.

        The value of a member is null then; what nobody's record is parted from the one left out is not parted.
        """
        text = self.opening(position)
        said = text.rstrip()
        if said.endswith(b":"):
            return text + b"null"
        if self._mark and said.endswith(self._mark) and not self._keyed:
            self._begun = True
            return said.removesuffix(self._mark)
        return text

    def before(self, position: int) -> bytes:
        """Return the bytes to write before a record of the file, or before one that is put in beside it."""
        begun, self._begun = self._begun, True
        return self._beside(position) if begun else b""

    def key(self, position: int) -> bytes:
        """Return the key of a record of the file, and the bytes from there to the record."""
        return self._keys[bisect_right(self._starts, position) - 1]

    def _beside(self, position: int) -> bytes:
        """Return the separator of a record from others of the same list, or from other lines."""
        if self.separates(position):
            return self._text(position)
        is_last = position + 1 >= self._count
        following = self.suffix if is_last else self._text(position + 1)
        if not is_last and self.separates(position + 1):
            return following
        before = self._text(position)
        opening = before.rstrip()
        if opening.endswith(b"[") and following.lstrip().startswith(b"]"):
            # the only record of a list shows how to place the next one
            return b"," + before[len(opening) :]
        return self._usual

    def _text(self, position: int) -> bytes:
        return self._texts[bisect_right(self._starts, position) - 1]


def settled(parts: Sequence[Part], count: int) -> list[Part]:
    """Return a format's parts of a file of ``count`` records, made consistent.

    A record that is named twice belongs to the first part that names it, one that does not exist to nobody. A repeated
    key gets a number, and a base that did not come before is dropped.
    """
    taken: set[int] = set()
    keys: set[str] = set()
    lengths: list[int] = []
    found: list[Part] = []
    for at, part in enumerate(parts):
        records: list[int] = []
        for record in part.records:
            if 0 <= record < count and record not in taken:
                taken.add(record)
                records.append(record)
        base = part.base if 0 <= part.base < at else -1
        shared = max(0, min(part.shared, lengths[base])) if base >= 0 else 0
        key, again = part.key, 1
        while key in keys:
            again += 1
            key = f"{part.key}~{again}"
        keys.add(key)
        lengths.append(shared + len(records))
        found.append(Part(key, records, part.about, base, shared))
    return found


def levels(parts: Sequence[Part]) -> list[list[int]]:
    """Return the positions of parts such that each level's bases are in the levels before it."""
    depths: list[int] = []
    found: list[list[int]] = []
    for at, part in enumerate(parts):
        depth = depths[part.base] + 1 if part.base >= 0 else 0
        depths.append(depth)
        while len(found) <= depth:
            found.append([])
        found[depth].append(at)
    return found


def families(bases: Iterable[int]) -> list[list[int]]:
    """Return the positions of parts, given by their bases, in groups that branch off each other."""
    roots: list[int] = []
    found: dict[int, list[int]] = {}
    for at, base in enumerate(bases):
        roots.append(roots[base] if base >= 0 else at)
        found.setdefault(roots[at], []).append(at)
    return list(found.values())


def positions(parts: Sequence[Part]) -> dict[int, int]:
    """Return the position of each span that belongs to a part, counting only such spans."""
    owned = sorted(record for part in parts for record in part.records)
    return dict(zip(owned, range(len(owned)), strict=True))


def runs_of(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as runs of consecutive ones: (first, count)."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][0] + found[-1][1]:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return tuple(found)
