"""The layout of a file of many conversations: which records of which stand where in it, and what stands between."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from store.formats.format import Part
from store.importing.envelope import Envelope

_ending_key = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:\s*+\Z', re.DOTALL).search


class Place(Struct, frozen=True, omit_defaults=True):
    """What a file holds of one conversation.

    ``context`` is its id, ``tip`` the turn that its branch ended in as it was imported from the file. ``records`` are
    its own records, in the order of the conversation, as runs of positions in the file: (first, how many). What comes
    before them are the first ``shared`` records of the conversation at ``base`` among the places, if that is not -1.
    """

    key: str
    context: int
    tip: int
    records: tuple[tuple[int, int], ...] = ()
    base: int = -1
    shared: int = 0

    @property
    def own(self) -> int:
        """How many records are its own."""
        return sum(count for _first, count in self.records)

    def positions(self) -> Iterator[int]:
        """Yield where in the file its own records stand."""
        for first, count in self.records:
            yield from range(first, first + count)


class Layout(Struct, frozen=True):
    """``envelope`` is what stands between the records that belong to conversations, ``places`` whose they are.

    A record's position counts these records alone, from 0.
    """

    envelope: Envelope
    places: tuple[Place, ...]

    @property
    def count(self) -> int:
        """How many records the file holds."""
        return sum(place.own for place in self.places)

    def encode(self) -> bytes:
        """Return the layout as JSON."""
        return msgspec.json.encode(self)


def read_layout(data: bytes) -> Layout:
    """Return the layout that :meth:`Layout.encode` has written. Raises msgspec.ValidationError for anything else."""
    return msgspec.json.decode(data, type=Layout)


class Gaps:
    """The bytes between records, for a file of which some records are left out and others put in.

    A gap that separates two records of a list goes with one of them; any other (the first of all, what closes one
    conversation and opens the next) stays whatever becomes of the records around it. ``separator`` is what stands
    between two records where the file itself does not show it: gaps that differ from it in white space only separate.

    Where records are members of objects (``keyed``), their keys are in the gaps, and go with the records.

    What it returns is to be written in the order of the file.
    """

    def __init__(self, envelope: Envelope, separator: bytes, *, keyed: bool = False) -> None:
        self._starts = [position for position, _text in envelope.gaps]
        texts = [text.encode("latin-1") for _position, text in envelope.gaps]
        ends = [_key_at(text) if keyed else len(text) for text in texts]
        self._texts = [text[:end] for text, end in zip(texts, ends, strict=True)]
        self._keys = [text[end:] for text, end in zip(texts, ends, strict=True)]
        self._keyed = keyed
        self._mark = separator.strip()
        self._usual = next((text for text in reversed(self._texts[1:]) if text.strip() == self._mark), separator)
        self._begun = False
        """Whether a record has been written since the last gap that does not separate."""
        self.suffix = envelope.suffix.encode("latin-1")

    @property
    def in_lists(self) -> bool:
        """Whether records are elements of lists: a list can have one more, what stands by itself has no neighbours."""
        return bool(self._mark)

    def separates(self, position: int) -> bool:
        """Say whether what stands before a record only separates it from the one before."""
        return position > 0 and self._text(position).strip() == self._mark

    def opening(self, position: int) -> bytes:
        """Return what to write where a record stands or stood, before all that is written there."""
        if self.separates(position):
            return b""
        self._begun = False
        return self._text(position)

    def instead(self, position: int) -> bytes:
        """Return what to write, instead of what :meth:`opening` gives, where a record is left out and none put in.

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
        """Return what to write before a record of the file."""
        return self._joint(self._text(position) if self.separates(position) else self._usual)

    def between(self) -> bytes:
        """Return what to write before a record that is put in."""
        return self._joint(self._usual)

    def key(self, position: int) -> bytes:
        """Return the key of a record of the file, and what follows it up to the record."""
        return self._keys[bisect_right(self._starts, position) - 1]

    def _joint(self, text: bytes) -> bytes:
        begun, self._begun = self._begun, True
        return text if begun else b""

    def _text(self, position: int) -> bytes:
        return self._texts[bisect_right(self._starts, position) - 1]


def _key_at(gap: bytes) -> int:
    """Return where the key begins that a gap ends in."""
    found = _ending_key(gap)
    return found.start() if found else len(gap)


def settled(parts: Sequence[Part], count: int) -> list[Part]:
    """Return what a format says of a file of ``count`` records, so that it holds together.

    A record that is named twice belongs to who named it first, one that is not there to nobody. A key that comes again
    gets a number, and a base that did not come before is none.
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


def positions(parts: Sequence[Part]) -> dict[int, int]:
    """Return where each span that belongs to a part stands among those that do."""
    owned = sorted(record for part in parts for record in part.records)
    return dict(zip(owned, range(len(owned)), strict=True))


def runs_of(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as runs of consecutive ones: (first, how many)."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][0] + found[-1][1]:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return tuple(found)
