"""Reachability of the blobs in the packs: the *mark* phase of a collection.

Blobs are identified by the first eight bytes of their hashes, as in the index. Their keys, in order, their places and
which of the blobs there they are make three arrays, a fourth lists them pack by pack: 24 bytes a blob, and one more for
how far it is reached. (A place is one number here: the position of the pack among all packs, and the offset.)

A reached blob is *expanded*: its record is read, and reaches the blobs that it is made of (dictionary, base, chunks)
and, if it is a skeleton, the contents that were cut out of it. This goes in rounds. Each round reads every record that
is needed once, in the order in which the records lie. Of a sealed group no more than its table is decompressed: the
index has the names, where it has one for each of the blobs; else these are hashed.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from struct import unpack_from

from store.content.resolver import Resolver
from store.content.sealed import SealedGroup
from store.content.shelf import Shelf
from store.disk import skeleton_format
from store.disk.blob_format import Form, Record
from store.disk.pack import PackSet, RecordPlace
from store.errors import ConvfsError, DamageError
from store.ids import HASH_SIZE, Hash, hash_key
from store.index.database import Database
from store.paths import REMOTE

_ROWS_AT_ONCE = 20_000
_RECORDS_AT_ONCE = 64
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_MEMBER_BITS = 32
_UNREACHED, _REACHED, _EXPANDED = range(3)
_KEY_SIZE = 8

_ROWS = "SELECT key, pack, offset, member FROM blobs"


class Reachable:
    """All blobs that the index knows of in some packs, with marks for those that are reached. For one thread.

    It reads through ``shelf`` and ``resolver``. It counts as a container of the keys that are *not*
    reached: the garbage.
    """

    def __init__(
        self,
        packs: PackSet,
        shelf: Shelf,
        resolver: Resolver,
        remote: Iterable[int] = (),
        needs: Callable[[int], Mapping[int, bytes]] | None = None,
    ) -> None:
        """``remote`` are the packs that only the space of a replica has.

        With ``needs``, their records are not read: it returns the keys of what each is made from, by its offset in one
        of them. What was cut out of them must be reached otherwise then.
        """
        self._packs = packs
        self._shelf = shelf
        self._resolver = resolver
        self._needs = needs
        self._numbers = [*packs.numbers(), *sorted(remote)]
        self._remote = bisect_left(self._numbers, REMOTE) << _OFFSET_BITS
        """The places from this one on are in packs that only the space has."""
        self._at = {number: position << _OFFSET_BITS for position, number in enumerate(self._numbers)}
        self._keys = array("q")
        self._places = array("Q")
        self._members = array("I")
        self._held = [array("I") for _ in self._numbers]
        """Where the blobs of each pack stand in these; once a record of it was looked at, in the order they lie."""
        self._ordered: set[int] = set()
        self._named: dict[int, Mapping[int, bytes]] = {}
        """The needs of the records of the remote pack that was looked at last, by their offsets."""
        self._marks = bytearray()
        self._from = 0
        """No blob before this one is reached and not expanded."""

    def take_stock(self, db: Database) -> Iterator[None]:
        """Find out which blobs there are; pauses now and then, and so do all that follow."""
        at, held = self._at, self._held
        last: tuple[int, ...] = (-(1 << 63), 0, 0, 0)
        while True:
            rows = db.query(
                f"{_ROWS} WHERE (key, pack, offset, member) > (?, ?, ?, ?) ORDER BY 1, 2, 3, 4 LIMIT ?",
                (*last, _ROWS_AT_ONCE),
            )
            for key, pack, offset, member in rows:
                if (beginning := at.get(pack)) is not None:
                    held[beginning >> _OFFSET_BITS].append(len(self._keys))
                    self._keys.append(key)
                    self._places.append(beginning | offset)
                    self._members.append(member)
            if len(rows) < _ROWS_AT_ONCE:
                break
            last = rows[-1]
            yield
        self._marks = bytearray(len(self._keys))

    def reach(self, digest: Hash) -> bool:
        """Reach a blob; return whether it is there.

        One that still waits in the journal, as in a store that may only be read, reaches what was cut out of it.
        """
        if self.reach_key(hash_key(digest)):
            return True
        waiting = self._shelf.source.pending(digest)
        if waiting is None:
            return False
        form, body = waiting
        if form == Form.SKELETON:
            for content in skeleton_format.references(body):
                self.reach(content)
        return True

    def reach_key(self, key: int) -> bool:
        at = self._first(key)
        if at >= 0 and not self._marks[at]:
            self._marks[at] = _REACHED
            self._from = min(self._from, at)
        return at >= 0

    def reach_packs(self, numbers: Collection[int]) -> None:
        chosen = {position for position, number in enumerate(self._numbers) if number in numbers}
        for at, place in enumerate(self._places):
            if place >> _OFFSET_BITS in chosen:
                self.reach_key(self._keys[at])

    def expand(self) -> Iterator[None]:
        """Reach all that the blobs need which are reached. DamageError where that cannot be known."""
        while todo := self._to_expand():
            places = iter(sorted({self._nearest(at) for at in todo}))
            while some := [self.place(place) for place in islice(places, _RECORDS_AT_ONCE)]:
                yield
                here = [place for place in some if self._needs is None or place[0] < REMOTE]
                for (pack, offset), record in self._packs.read_many(here):
                    # where a record is damaged, another copy will do
                    with suppress(ConvfsError):
                        self._expand(record, self._at[pack] | offset)
                for place in some[len(here) :]:
                    self._expand_named(*place)
            for at in todo:
                if self._marks[at] == _REACHED:
                    self._expand_carefully(at)

    def expand_copies(self, numbers: Collection[int]) -> Iterator[None]:
        """Reach all that further copies of reached blobs need in some packs, which may be spelt otherwise there."""
        chosen = {position for position, number in enumerate(self._numbers) if number in numbers}
        done: set[tuple[int, int]] = set()
        while True:
            wanted: dict[int, list[int]] = {}
            for key, copies in self.repeated():
                for place in copies:
                    if place >> _OFFSET_BITS in chosen and (place, key) not in done:
                        wanted.setdefault(place, []).append(self._first(key))
                        done.add((place, key))
            if not wanted:
                return
            places = iter(sorted(wanted))
            while some := [self.place(place) for place in islice(places, _RECORDS_AT_ONCE)]:
                yield
                for (pack, offset), record in self._packs.read_many(some):
                    place = self._at[pack] | offset
                    for at in wanted[place]:
                        self._marks[at] = _REACHED
                    with suppress(ConvfsError):
                        self._expand(record, place)
                    for at in wanted[place]:
                        # it was expanded before; a copy that is damaged needs nothing
                        self._marks[at] = _EXPANDED
            yield from self.expand()

    def expand_trees(self, roots: Iterable[Hash]) -> Iterator[None]:
        """Reach trees of files, and all blobs that are named in them, 32 bytes each."""
        known = frozenset(self._keys)
        seen: set[Hash] = set()
        todo = list(roots)
        while todo:
            digest = todo.pop()
            if digest in seen or hash_key(digest) not in known:
                continue
            seen.add(digest)
            self.reach(digest)
            tail = b""
            for piece in self._resolver.pieces(digest):
                yield
                data = tail + piece
                todo += _named(data, known)
                tail = data[-HASH_SIZE + 1 :]
        yield from self.expand()

    def _to_expand(self) -> Sequence[int]:
        found = array("Q")
        at = self._from - 1
        while (at := self._marks.find(_REACHED, at + 1)) >= 0:
            found.append(at)
        self._from = len(self._marks)
        return found

    def _expand_carefully(self, at: int) -> None:
        """Expand a blob that could not be read where it was written last."""
        for place in sorted(self._copies(at), reverse=True):
            with suppress(ConvfsError):
                self._expand(self._packs.read(*self.place(place)), place)
            if self._marks[at] == _EXPANDED:
                return
        raise DamageError(f"what {self._name(at)} is made of cannot be read")

    def _expand_named(self, pack: int, offset: int) -> None:
        """Expand the blobs of a record by what is said of it."""
        assert self._needs is not None
        if pack not in self._named:
            self._named = {pack: self._needs(pack)}
        needs = array("q", self._named[pack].get(offset, b""))
        for at in self._rows_at(self._at[pack] | offset):
            first = self._copies_from(at)
            if self._marks[first] == _REACHED:
                self._marks[first] = _EXPANDED
        for need in needs:
            self.reach_key(need)

    def _expand(self, record: Record | ConvfsError, place: int) -> None:
        if isinstance(record, ConvfsError):
            raise record
        opened = self._shelf.open(record)
        rows = self._rows_at(place)
        if opened.sealed is not None:
            self._expand_sealed(opened.sealed, rows)
            return
        marks, common = self._marks, opened.needs
        known = {self._members[at]: at for at in rows}
        for member, (digest, entry) in enumerate(opened.members.items()):
            at, key = known.get(member, -1), hash_key(digest)
            first = self._copies_from(at) if at >= 0 and self._keys[at] == key else self._first(key)
            if first < 0 or marks[first] != _REACHED:
                continue
            needs: Sequence[Hash] = ()
            if entry[0] == Form.SKELETON:
                if (base := opened.lacks) is not None:
                    opened.patch(self._resolver.blob(base))
                needs = skeleton_format.references(opened.body(entry))
            marks[first] = _EXPANDED
            for need in (*common, *needs):
                self.reach(need)

    def _expand_sealed(self, group: SealedGroup, rows: Sequence[int]) -> None:
        marks, firsts = self._marks, [self._copies_from(at) for at in rows]
        if [self._members[at] for at in rows] != list(range(len(group))):
            # the index has lost some
            firsts = [self._first(hash_key(name)) for name in group.names()]
        for member, first in enumerate(firsts):
            if first >= 0 and marks[first] == _REACHED:
                inside, outside = group.needs(member)
                marks[first] = _EXPANDED
                for number in inside:
                    if firsts[number] >= 0 and not marks[firsts[number]]:
                        # it has no cuts, so it needs nothing
                        marks[firsts[number]] = _EXPANDED
                for need in outside:
                    self.reach(need)

    def _rows_at(self, place: int) -> Sequence[int]:
        """Return where the blobs of a record stand, by their numbers in it."""
        pack = place >> _OFFSET_BITS
        places, members = self._places, self._members
        if pack not in self._ordered:
            self._ordered.add(pack)
            lying = sorted(self._held[pack], key=lambda at: places[at] << _MEMBER_BITS | members[at])
            self._held[pack] = array("I", lying)
        held = self._held[pack]
        start = bisect_left(held, place, key=places.__getitem__)
        return held[start : bisect_right(held, place, start, key=places.__getitem__)]

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, int):
            return False
        at = self._first(key)
        return at >= 0 and not self._marks[at]

    @property
    def reached(self) -> int:
        """The number of blobs that are reached, each counted once."""
        return len(self._marks) - self._marks.count(_UNREACHED)

    def unreached(self) -> Iterator[int]:
        """Yield the keys of the blobs that are not reached, in order."""
        last: int | None = None
        for at, key in enumerate(self._keys):
            if key != last and not self._marks[at]:
                yield key
            last = key

    def reach_others(self, keys: Container[int]) -> None:
        """Reach all blobs but those with some keys."""
        last: int | None = None
        for at, key in enumerate(self._keys):
            if key != last and not self._marks[at] and key not in keys:
                self._marks[at] = _REACHED
                self._from = min(self._from, at)
            last = key

    def left(self) -> tuple[int, Sequence[int]]:
        """Return how many blobs are not reached, and the places where they lie, in order; each as often as they do."""
        blobs, first = 0, 0
        places = array("Q")
        for at, key in enumerate(self._keys):
            if key != self._keys[first]:
                first = at
            if not self._marks[first] and self._places[at] < self._remote:
                blobs += at == first
                places.append(self._places[at])
        return blobs, array("Q", sorted(places))

    def repeated(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the keys of the blobs that are reached and lie in several records, and where each lies, last first."""
        at = 0
        while at < len(self._keys) - 1:
            if self._keys[at] != self._keys[at + 1]:
                at += 1
                continue
            # what others have is theirs
            copies = sorted({place for place in self._copies(at) if place < self._remote}, reverse=True)
            if self._marks[at] and len(copies) > 1:
                yield self._keys[at], copies
            at = self._beyond(at)

    def rows(self, elsewhere: Container[int]) -> tuple[Counter[int], Counter[int]]:
        """Return how many blobs lie in each pack, and how many of these are reached, but for some, by their keys."""
        every, kept = Counter[int](), Counter[int]()
        first = 0
        for at, key in enumerate(self._keys):
            if key != self._keys[first]:
                first = at
            pack = self._places[at] >> _OFFSET_BITS
            every[pack] += 1
            if self._marks[first] and key not in elsewhere:
                kept[pack] += 1
        numbers = self._numbers
        return (
            Counter({numbers[pack]: count for pack, count in every.items()}),
            Counter({numbers[pack]: count for pack, count in kept.items()}),
        )

    def place(self, place: int) -> RecordPlace:
        """Return what a place stands for."""
        return self._numbers[place >> _OFFSET_BITS], place & _OFFSET_MASK

    def _first(self, key: int) -> int:
        """Return where a key stands first, -1 if it is not there."""
        at = bisect_left(self._keys, key)
        return at if at < len(self._keys) and self._keys[at] == key else -1

    def _copies_from(self, at: int) -> int:
        """Return where the first copy of a blob stands: there it has its mark."""
        while at and self._keys[at - 1] == self._keys[at]:
            at -= 1
        return at

    def _beyond(self, at: int) -> int:
        key, end = self._keys[at], len(self._keys)
        while at < end and self._keys[at] == key:
            at += 1
        return at

    def _copies(self, at: int) -> Sequence[int]:
        return self._places[at : self._beyond(at)]

    def _nearest(self, at: int) -> int:
        """Return where a blob is read: on this machine if it lies there, where it was written last."""
        copies = self._copies(at)
        return max((place for place in copies if place < self._remote), default=max(copies))

    def _name(self, at: int) -> str:
        pack, offset = self.place(max(self._copies(at)))
        name = self._keys[at].to_bytes(_KEY_SIZE, "little", signed=True).hex()
        return f"blob {name}…, in {self._packs.path(pack).name} at offset {offset},"


def _named(data: bytes, known: frozenset[int]) -> Iterator[Hash]:
    """Yield what in some bytes begins like the hash of a blob, at any place."""
    for shift in range(_KEY_SIZE):
        count = max(len(data) - shift, 0) // _KEY_SIZE
        for key in known.intersection(unpack_from(f"<{count}q", data, min(shift, len(data)))):
            name = key.to_bytes(_KEY_SIZE, "little", signed=True)
            at = data.find(name)
            while at >= 0:
                if at + HASH_SIZE <= len(data):
                    yield Hash(data[at : at + HASH_SIZE])
                at = data.find(name, at + 1)
