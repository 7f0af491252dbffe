"""A file of many conversations as it is now: what was edited in any of them, and all else as it was imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from store.errors import UsageError
from store.formats.registry import format_named
from store.formats.splices import new_key
from store.importing.layout import Gaps, Layout, Place
from store.importing.leaves import Leaves
from store.importing.standing import Standing, as_imported, as_it_is
from store.importing.stored import stored_records
from store.index.catalogue import Entry
from store.store import Store


class _Record(Struct):
    """A record that is written: the payload of a turn, or ``payload`` where that is given.

    It stands at ``position`` of the file, or behind it, if it ``follows``.
    """

    position: int
    follows: bool
    turn: int
    payload: bytes | None = None


class Assembly:
    """The bytes of the file that the context ``file`` stands for.

    Each record is as one conversation has it: the first of ``chosen`` that has it, else the one whose own it is.
    A conversation that came in another file since is as it was in this one; one in the trash, or one that was deleted,
    is left out. A fork of a conversation among ``chosen`` takes that one's place.
    """

    def __init__(self, store: Store, file: Entry, layout: Layout, chosen: Sequence[Entry]) -> None:
        self._store = store
        self._file = file
        self._format = format_named(file.format)
        self._layout = layout
        self._chosen = chosen
        self._ranks = {entry.metadata.get("part"): rank for rank, entry in reversed(list(enumerate(chosen)))}
        self._ids = {entry.id for entry in chosen}
        self._keyed = self._format.keyed
        self._gaps = Gaps(layout.envelope, self._format.joints[1], keyed=bool(self._keyed))
        self._records: list[_Record | None] = [None] * layout.count
        self._leaves = Leaves(store, self._format)
        self._added: dict[int, list[_Record]] = {}
        """What is put in behind the record at a position; before all others of a conversation, at its negative."""
        self.edited = False
        """Whether anything of the file is not as it was imported."""
        for family in _families(layout.places):
            self._resolve([layout.places[at] for at in family])

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file. Raises what is wrong with a record."""
        gaps = self._gaps
        stored = stored_records(self._store, (record.turn for record in self._ordered() if record.payload is None))
        for position, record in enumerate(self._records):
            is_empty = record is None and not self._added.get(position) and not self._added.get(~position)
            yield self._leaves.mended(position, (gaps.instead if is_empty else gaps.opening)(position))
            for added in self._added.get(~position, ()):
                yield gaps.between()
                yield from self._with_key(added, stored)
            if record is not None:
                yield gaps.before(position)
                yield from self._with_key(record, stored)
            for added in self._added.get(position, ()):
                yield gaps.between()
                yield from self._with_key(added, stored)
        yield self._leaves.mended(len(self._records), gaps.suffix)

    def _with_key(self, record: _Record, stored: Iterator[Iterable[bytes]]) -> Iterator[bytes]:
        """Yield the bytes of a record, after its key if it has one."""
        content = next(stored) if record.payload is None else (record.payload,)
        if self._keyed and (record.payload is not None or record.follows or record.position < 0):
            # what is written here need not be what stood here
            payload = b"".join(content)
            try:
                yield new_key(payload, self._keyed)
            except UsageError:
                # damaged as it may be, it has the key that it had
                if record.follows or record.position < 0:
                    raise
                yield self._gaps.key(record.position)
            yield payload
            return
        if self._keyed:
            yield self._gaps.key(record.position)
        yield from content

    def _ordered(self) -> Iterator[_Record]:
        """Yield the records that are written, in the order of the file."""
        for position, record in enumerate(self._records):
            yield from self._added.get(~position, ())
            if record is not None:
                yield record
            yield from self._added.get(position, ())

    # -- what each conversation says -------------------------------------------------------------------------------

    def _resolve(self, places: Sequence[Place]) -> None:
        """Find out what conversations that branch off each other make of the records that are theirs."""
        store, layout = self._store, self._layout
        there = [store.has_context(place.context) for place in places]
        entries = [self._entry(place) for place in places]
        if all(there) and all(entry is None for entry in entries):
            for place in places:
                standing = as_imported(store, layout, place)
                for position in place.positions():
                    self._records[position] = _Record(position, False, standing.claims[position].turn)
            return
        self.edited = True
        imported = [
            as_imported(store, layout, place) if is_there else Standing({})
            for place, is_there in zip(places, there, strict=True)
        ]
        standings = [
            was if entry is None else Standing({}) if self._is_gone(entry) else as_it_is(store, layout, place, entry)
            for place, entry, was in zip(places, entries, imported, strict=True)
        ]
        ranked = sorted(range(len(places)), key=lambda at: self._rank(places[at]))
        chosen = [at for at in ranked if self._rank(places[at]) < len(self._chosen)]
        sequence: list[_Record] = []
        deleted: set[int] = set()
        added = self._put_in(places, standings)
        for owner, place in enumerate(places):
            for position in place.positions():
                sequence += added.get(~position, ())
                said = (standings[at].claims.get(position) for at in (*chosen, owner, *ranked))
                claim = next((claim for claim in said if claim is not None), None)
                was = claim or imported[owner].claims.get(position)
                # of what was in a conversation that was deleted, and is in no other, nothing is known
                if was is not None and (there[owner] or not was.deleted):
                    if claim is None or claim.deleted:
                        deleted.add(len(sequence))
                    sequence.append(_Record(position, False, was.turn))
                sequence += added.get(position, ())
        if deleted or added:
            sequence = list(self._left(sequence, deleted))
            self._follow(places, entries[0], sequence)
        for record in sequence:
            if record.follows or record.position < 0:
                self._added.setdefault(record.position, []).append(record)
            else:
                self._records[record.position] = record

    def _follow(self, places: Sequence[Place], main: Entry | None, left: Sequence[_Record]) -> None:
        """Have the conversation that others branch off name its last record as it is now."""
        stood = [position for place in places for position in place.positions()]
        if main is not None and not self._is_gone(main) and stood:
            payloads = (record.payload for record in left if record.payload is not None)
            self._leaves.follow(places[0], main, payloads, (min(stood), max(stood) + 1))

    def _put_in(self, places: Sequence[Place], standings: Sequence[Standing]) -> dict[int, list[_Record]]:
        """Return the records that did not come in the file, by where they are to stand."""
        found: dict[int, list[_Record]] = {}
        for place, standing in zip(places, standings, strict=True):
            stood = list(standing.claims)
            own = list(place.positions())
            for after, turn in standing.added:
                if not stood:
                    raise UsageError(f"{place.key} has no records in the file that others could follow")
                at = ~min(own, default=stood[0]) if after is None else self._listed(own, after)
                found.setdefault(at, []).append(_Record(at, at >= 0, turn))
        return found

    def _listed(self, own: list[int], after: int) -> int:
        """Return the last of a conversation's own records up to ``after`` that is one of a list, else ``after``."""
        if not self._gaps.in_lists or after not in own:
            return after
        for position in reversed(own[: own.index(after) + 1]):
            if self._gaps.separates(position) or (
                position + 1 < len(self._records) and self._gaps.separates(position + 1)
            ):
                return position
        return after

    def _left(self, sequence: Sequence[_Record], deleted: set[int]) -> Iterator[_Record]:
        """Yield what is left of records when some are deleted, or were added, so that the tool goes on."""
        kept = [at for at in range(len(sequence)) if at not in deleted]
        if not kept:
            return
        turns = [record.turn for record in sequence]
        payloads = [b"".join(pieces) for pieces in stored_records(self._store, turns)]
        left = self._format.without(payloads, deleted)
        at = 0
        for number, payload in enumerate(left):
            if len(left) < len(kept):
                # more went than was deleted: what is there as it was can be told
                room = len(kept) - (len(left) - number)
                at = next((there for there in range(at, room + 1) if payloads[kept[there]] == payload), at)
            record = sequence[kept[min(at, len(kept) - 1)]]
            yield _Record(record.position, record.follows, record.turn, payload)
            at += 1

    # -- whose records count ---------------------------------------------------------------------------------------

    def _entry(self, place: Place) -> Entry | None:
        """Return what a conversation is now, None if that is what it was in the file, it is in another one, or gone."""
        rank = self._rank(place)
        if rank < len(self._chosen):
            entry = self._chosen[rank]
        elif self._store.has_context(place.context):
            entry = self._store.entry(place.context)
        else:
            return None
        if entry.metadata.get("file") != self._file.id:
            return None
        return None if entry.head == place.tip and not self._is_gone(entry) else entry

    def _is_gone(self, entry: Entry) -> bool:
        return "trashed_ms" in entry.metadata and entry.id not in self._ids

    def _rank(self, place: Place) -> int:
        """Say how early a conversation counts: those that were chosen first, all others alike."""
        return self._ranks.get(place.key, len(self._chosen))


def _families(places: Sequence[Place]) -> list[list[int]]:
    """Return the positions of places, those together that branch off each other."""
    roots: list[int] = []
    found: dict[int, list[int]] = {}
    for at, place in enumerate(places):
        roots.append(roots[place.base] if place.base >= 0 else at)
        found.setdefault(roots[at], []).append(at)
    return list(found.values())
