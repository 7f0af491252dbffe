"""Sealed groups, opened: their blobs by number, and the names of these blobs.

The group does not hold the names: the index does, and a reader compares the blob that it gets with the hash that it
asked for. :meth:`SealedGroup.names` computes them by hashing everything.

Content that was cut out of a record and lies in the same group has an *inner name*: 20 bytes, so never a hash, valid in
this group only. Joining a payload takes such contents from the group itself, without a lookup.

A group is made with all the time that it takes (:class:`GroupSealer`). Records and contents stand apart in it, stretch
by stretch: either resembles its own kind more than the other. Yet all is one frame, as they repeat each other, too, and
a stretch is short, so that one record is read without most of what comes after it. A megabyte is decompressed in half a
millisecond.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, islice, pairwise

from store.content import zstd
from store.content.compression import MAX_BODY_BYTES, Member
from store.content.cuts import is_text, join
from store.content.zstd import shows, veil_much, veil_quickly
from store.disk import sealed_format, skeleton_format
from store.disk.blob_format import (
    Compression,
    Form,
    Record,
    codec,
    decode_chunks,
    decode_group_table,
    decode_record,
    encode_record,
)
from store.disk.sealed_format import Head, Table, decode_head, decode_table
from store.disk.skeleton_format import Skeleton
from store.errors import DamageError
from store.ids import HASH_SIZE, Hash, hash_bytes

_KEY_SIZE = 16
_NUMBER_SIZE = 4


_ENTRY_BYTES = 200
"""The memory that the table takes for a blob, or a cut."""


class SealedGroup:
    """One sealed group; a frame is decompressed when something of it is first asked for. Safe to share between threads.

    Every method raises DamageError where the group is not what its record says.
    """

    def __init__(self, record: Record) -> None:
        """Read head and table."""
        apart = record.compression == Compression.SEALED_APART
        head = decode_head(record.stored, apart=apart)
        if max(head.table_size, record.raw_len) > MAX_BODY_BYTES:
            raise DamageError("a sealed group claims more than any holds")
        records_at = head.size + head.table_length
        veil = veil_much if apart else veil_quickly
        ends = [records_at, *([records_at + head.records_length] if apart else []), len(record.stored)]
        frames = [
            partial(_frame, record.stored[start:stop], record.hash, veil if head.veiled >> number & 1 else None)
            for number, (start, stop) in enumerate(pairwise((head.size, *ends)))
        ]
        self._table = table = decode_table(zstd.decompress(frames[0](), head.table_size), head)
        self._outside, self._named = head.outside, head.named
        self._key = bytes(record.hash[:_KEY_SIZE])
        self.records = head.records
        """The number of its blobs that are records: those of the lowest numbers."""
        self._count = head.records + head.contents
        self._first_cuts = [0, *accumulate(table.counts)]
        if apart:
            self._order: Sequence[int] = range(self._count)
            self._places = [*range(head.records), *range(head.contents)]
            self._records, self._contents = _Bodies(frames[1], table.bodies), _Bodies(frames[2], table.contents)
        else:
            self._order, self._places, lengths = _in_stretches(table)
            self._records = self._contents = _Bodies(frames[1], lengths)
        self.size = sum(table.bodies) + sum(table.contents)
        """Its size when it is decompressed."""
        if self.size != record.raw_len:
            raise DamageError(f"a sealed group has {self.size} bytes where its record says {record.raw_len}")

    def __len__(self) -> int:
        """The number of blobs in it."""
        return self._count

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes when it is decompressed, with its table."""
        return self.size + _ENTRY_BYTES * (self._count + len(self._table.members))

    def form(self, member: int) -> Form:
        """Return how a blob is spelt: as itself, or as a skeleton."""
        return Form.SKELETON if self._cuts(member) else Form.PLAIN

    def length(self, member: int) -> int:
        """Return how long a blob is."""
        cut_out = sum(self._table.lengths[cut] for cut in self._cuts(member))
        records = self.records
        return cut_out + (self._table.bodies[member] if member < records else self._table.contents[member - records])

    def expect(self, members: Iterable[int]) -> None:
        """Decompress at once the data of blobs that will be asked for one by one next."""
        records = self.records
        needed = set(members)
        needed.update(self._table.members[cut] for member in tuple(needed) for cut in self._cuts(member))
        farthest: dict[_Bodies, int] = {}
        for member in needed:
            if member < self._count:
                bodies = self._records if member < records else self._contents
                farthest[bodies] = max(farthest.get(bodies, 0), self._places[member])
        for bodies, place in farthest.items():
            bodies.reach(place)

    def plain(self, member: int) -> bytes:
        """Return a blob without cuts."""
        if self._cuts(member):
            raise DamageError("a blob with cuts stands where none may")
        return self._body(member)

    def skeleton(self, member: int) -> Skeleton:
        """Return a blob with cuts, decoded; cut contents that lie in this group have inner names."""
        table = self._table
        cuts: list[tuple[int, int, int, Hash]] = []
        at = kept = 0
        for cut in self._cuts(member):
            at += table.gaps[cut]
            kept += table.gaps[cut]
            cuts.append((at, table.lengths[cut], table.spellings[cut], self._name(table.members[cut])))
            at += table.lengths[cut]
        rest = self._body(member)
        if kept > len(rest):
            raise DamageError("the cuts of a blob in a sealed group do not fit it")
        return Skeleton(at + len(rest) - kept, cuts, memoryview(rest))

    def needs(self, member: int) -> tuple[list[int], list[Hash]]:
        """Return what was cut out of a blob: the numbers of blobs in this group, and the names of others."""
        cut_out = dict.fromkeys(self._table.members[cut] for cut in self._cuts(member))
        inside = [number for number in cut_out if number < self._count]
        return inside, [self._name(number) for number in cut_out if number >= self._count]

    def inner(self, name: bytes) -> bytes:
        """Return the blob that an inner name of this group stands for."""
        return self.plain(_number(name))

    def is_called(self, member: int, name: Hash) -> bool:
        """Return whether a blob has this name. If the group holds the blob's names, any of them counts."""
        worked_out = self._worked_out(member)
        return name in self._named if worked_out is None else worked_out == name

    def names(self) -> list[Hash]:
        """Return the names of all blobs, by number; decompresses and hashes everything."""
        said = iter(self._named)
        names: list[Hash] = []
        for number in range(self._count):
            name = self._worked_out(number) or next(said, None)
            if name is None:
                raise DamageError("a sealed group does not name what it should")
            names.append(name)
        return names

    def members(self) -> Iterator[Member]:
        """Yield all blobs as other records keep them, by number; decompresses and hashes everything."""
        names = self.names()
        for number in range(self._count):
            yield self._member(number, names)

    def without(self, is_out: Callable[[Hash], bool]) -> "GroupSealer":
        """Return such a group in the making, with the blobs of this one, in its order, but for those that are out."""
        made = GroupSealer(_AGAIN_LEVEL)
        names = self.names()
        for number in self._order:
            if not is_out(names[number]):
                (made.add_record if number < self.records else made.add_content)(self._member(number, names))
        return made

    def readable(self) -> Iterator[tuple[int, Member]]:
        """Yield the blobs that can be read of a group that may be damaged, with their numbers, as :meth:`members` does.

        A blob with a name of its own has it by its bytes. Whether the others have theirs is known when they are read.
        """
        said = iter(self._named)
        names: list[Hash | None] = []
        for number in range(self._count):
            if any(self._table.members[cut] >= self._count for cut in self._cuts(number)):
                names.append(next(said, None))
                continue
            try:
                names.append(self._worked_out(number))
            except DamageError:
                names.append(None)
        for number in range(self._count):
            with suppress(DamageError):
                yield number, self._member(number, names)

    def _member(self, number: int, names: Sequence[Hash | None]) -> Member:
        if (name := names[number]) is None:
            raise DamageError("a blob of a sealed group cannot be read")
        if not self._cuts(number):
            body = self._body(number)
            return Member(name, Form.PLAIN, len(body), body)
        length, cuts, rest = self.skeleton(number)
        spelt = []
        for cut in cuts:
            content = names[_number(cut[3])] if is_inner(cut[3]) else cut[3]
            if content is None:
                raise DamageError("a content of a blob in a sealed group cannot be read")
            spelt.append((*cut[:3], content))
        return Member(name, Form.SKELETON, length, skeleton_format.encode(length, spelt, [bytes(rest)]))

    def _worked_out(self, number: int) -> Hash | None:
        """Return the name of a blob, None if the group says it: where something that was cut out lies elsewhere."""
        if not self._cuts(number):
            return hash_bytes(self._body(number))
        skeleton = self.skeleton(number)
        names = [cut[3] for cut in skeleton.cuts]
        if not all(map(is_inner, names)):
            return None
        return hash_bytes(join(skeleton, {name: self.inner(name) for name in names}))

    def _cuts(self, member: int) -> range:
        if not 0 <= member < self._count:
            raise DamageError(f"a sealed group of {self._count} blobs has none of number {member}")
        if member >= self.records:
            return range(0)
        return range(self._first_cuts[member], self._first_cuts[member + 1])

    def _name(self, member: int) -> Hash:
        if member < self._count:
            return Hash(self._key + member.to_bytes(_NUMBER_SIZE, "little"))
        if member - self._count >= len(self._outside):
            raise DamageError("a cut in a sealed group names nothing")
        return self._outside[member - self._count]

    def _body(self, member: int) -> bytes:
        return (self._records if member < self.records else self._contents).at(self._places[member])


def _in_stretches(table: Table) -> tuple[list[int], list[int], list[int]]:
    """Return the members in the order of their bodies, the place that each has in it, and the lengths of the bodies."""
    order: list[int] = []
    records_at: list[int] = []
    contents_at: list[int] = []
    lengths: list[int] = []
    record = content = 0
    for contents, records in zip(table.stretch_contents, table.stretch_records, strict=True):
        at = len(lengths)
        contents_at += range(at, at + contents)
        records_at += range(at + contents, at + contents + records)
        order += range(len(table.bodies) + content, len(table.bodies) + content + contents)
        order += range(record, record + records)
        lengths += table.contents[content : content + contents]
        lengths += table.bodies[record : record + records]
        content += contents
        record += records
    return order, records_at + contents_at, lengths


def is_inner(name: bytes) -> bool:
    """Return whether a name holds within one sealed group only."""
    return len(name) != HASH_SIZE


def _number(name: bytes) -> int:
    return int.from_bytes(name[_KEY_SIZE:], "little")


_Veil = Callable[[memoryview, Hash], bytes]


def _frame(stored: memoryview, digest: Hash, veil: _Veil | None) -> memoryview | bytes:
    return veil(stored, digest) if veil is not None else stored


_keeping = threading.Lock()
_MUCH = 0.75
"""The part of a frame behind which reading ends late: who then reads on would have saved nothing."""


class _Bodies:
    """Bodies one after another in one frame, of the lengths that are given."""

    __slots__ = ("_data", "_ends", "_frame", "size")

    def __init__(self, frame: Callable[[], memoryview | bytes], lengths: Iterable[int]) -> None:
        self._frame: Callable[[], memoryview | bytes] | None = frame
        self._ends = [0, *accumulate(lengths)]
        self._data = b""
        self.size = self._ends[-1]

    def at(self, number: int) -> bytes:
        return self.reach(number)[self._ends[number] : self._ends[number + 1]]

    def reach(self, number: int) -> bytes:
        """Return the data up to the end of one of them, or more.

        The frame is decompressed no farther than must be, until it must be a second time. Of one that is damaged, what
        stands before the damage can be had; DamageError for the rest.
        """
        stop = self._ends[number + 1]
        frame = self._frame  # before _data: another thread sets that first, then drops the frame
        data = self._data
        if len(data) < stop and frame is not None:
            try:
                if data or stop > _MUCH * self.size:
                    data = zstd.decompress(frame(), self.size)
                else:
                    data = zstd.beginning(frame(), self.size, stop)
                    self._keep(data)
                    return data
            except DamageError:
                # remembered: each of very many bodies may be asked for
                data = zstd.undamaged(frame(), self.size)
            else:
                if len(data) != self.size:
                    raise DamageError(f"a sealed group has {len(data)} bytes where its table says {self.size}")
            self._keep(data, last=True)
        if len(data) < stop:
            raise DamageError("a sealed group is damaged before this blob")
        return data

    def _keep(self, data: bytes, *, last: bool = False) -> None:
        """Remember data, unless another thread has more of it by now; ``last``: there is no more to be had."""
        with _keeping:
            if len(data) > len(self._data):
                self._data = data
            if last:
                self._frame = None


_GROUPS = (Compression.GROUP, Compression.GROUP_DICT)


def members_of(record: Record) -> int:
    """Return how many blobs a record holds. DamageError."""
    if record.sealed:
        head = decode_head(record.stored, apart=record.compression == Compression.SEALED_APART)
        return head.records + head.contents
    if record.compression in _GROUPS:
        return len(decode_group_table(record.compression, record.stored).members)
    return 1


def names_of(record: Record) -> list[Hash]:
    """Return the names of a record's blobs, by their member numbers. DamageError.

    Of a sealed group, everything is decompressed and hashed for it; of others, nothing.
    """
    if record.sealed:
        return SealedGroup(record).names()
    if record.compression in _GROUPS:
        return [member.hash for member in decode_group_table(record.compression, record.stored).members]
    return [record.hash]


_LEANING = (Compression.GROUP_DICT, Compression.ZSTD_DICT, Compression.DELTA)
"""Compressions whose records begin with the hash of the blob that they need."""


def leans_on(record: Record) -> Hash | None:
    """Return the blob without which a record cannot be opened: a dictionary, or the base of a delta. None for none."""
    return Hash(bytes(record.stored[:HASH_SIZE])) if record.compression in _LEANING else None


def needs_of(record: Record) -> list[Hash]:
    """Return the blobs that a record is made from: what it leans on, chunks. DamageError."""
    if (needed := leans_on(record)) is not None:
        return [needed]
    if record.compression == Compression.CHUNKS:
        return [chunk.hash for chunk in decode_chunks(record.stored)]
    return []


SEALED_BYTES = 4 << 20
"""The size of a sealed group, roughly: nothing is added to one that has reached this."""
FETCHED_BYTES = 2 << 20
"""The same of a group of a space, which is fetched whole where one blob of it is read."""
_STRETCH_BYTES = 512 << 10
"""The size of a stretch, roughly."""

LEVEL = 19
_AGAIN_LEVEL = 12
"""For groups that lose a blob, while somebody waits: it takes a tenth of the time."""

_MOST_MEMBERS = 16_384
"""The most blobs in a group: very small blobs take more room in memory than their length."""


class GroupSealer:
    """One sealed group in the making. No blob may be added twice."""

    def __init__(self, level: int = LEVEL, most: int = SEALED_BYTES) -> None:
        """``level`` is how hard zstd tries; ``most`` is the size of a group, roughly."""
        self._level = level
        self._most = most
        self.size = 0
        """The bytes that have been added."""
        self._count = 0
        self._stretches = [_Stretch()]

    @property
    def full(self) -> bool:
        """True if nothing more should be added."""
        return self.size >= self._most or self._count >= _MOST_MEMBERS

    def add_record(self, member: Member) -> None:
        """Add the payload of a turn, or any skeleton; best right after the contents that were cut out of it."""
        self._stretches[-1].records.append(member)
        self._added(member)
        if self._stretches[-1].size >= _STRETCH_BYTES:
            self._stretches.append(_Stretch())

    def add_content(self, member: Member) -> None:
        """Add a blob of another kind."""
        self._stretches[-1].contents.append(member)
        self._added(member)

    def _added(self, member: Member) -> None:
        self._stretches[-1].size += len(member.body)
        self.size += len(member.body)
        self._count += 1

    def finish(self) -> Generator[int, None, tuple[bytes, list[Hash]]]:
        """Return the record, and the names of its blobs by their numbers; pauses now and then.

        Yields as :func:`store.content.zstd.compress_in_steps`.

        It is read back: DamageError if that does not give every blob with its name.
        """
        stretches = [stretch for stretch in self._stretches if stretch.records or stretch.contents]
        for stretch in stretches:
            # what is not text says nothing about text
            stretch.contents.sort(key=lambda member: not is_text(member.body))
        records = [member for stretch in stretches for member in stretch.records]
        contents = [member for stretch in stretches for member in stretch.contents]
        rows = _Rows([*records, *contents])
        bodies = [rows.add(member) for member in records]
        table = zstd.compress(sealed_format.encode_table(rows.table(bodies, stretches)), self._level)
        left = iter(bodies)
        pieces = [
            b"".join(piece)
            for stretch in stretches
            for piece in ([member.body for member in stretch.contents], list(islice(left, len(stretch.records))))
        ]
        frame = yield from zstd.compress_in_steps(pieces, self._level)
        digest = hash_bytes(b"".join(pieces))
        veiled = 0
        stored = []
        for number, each in enumerate((table, frame)):
            veiled |= shows(each) << number
            stored.append(veil_quickly(each, digest) if shows(each) else each)
        head = rows.head(len(records), len(contents), veiled, len(table), len(stretches))
        size = sum(map(len, pieces))
        record = encode_record(codec(Compression.SEALED, Form.PLAIN), size, digest, b"".join((head, *stored)))
        names = [member.hash for member in (*records, *contents)]
        if SealedGroup(decode_record(memoryview(record))).names() != names:
            raise DamageError("a blob that was to be sealed is damaged: its bytes do not have its hash")
        return record, names


class _Stretch:
    """Contents, and the records after them."""

    def __init__(self) -> None:
        self.contents: list[Member] = []
        self.records: list[Member] = []
        self.size = 0


class _Rows:
    """The rows of the table: the part of each record that is in its frame, and its cuts."""

    def __init__(self, members: Iterable[Member]) -> None:
        listed = list(members)
        self._count = len(listed)
        self._numbers = {member.hash: number for number, member in enumerate(listed) if member.form == Form.PLAIN}
        self._outside: dict[Hash, int] = {}
        self._named: list[Hash] = []
        self._counts: list[int] = []
        self._cuts: list[tuple[int, int, int, int]] = []

    def add(self, member: Member) -> bytes | memoryview:
        """Add the next record; return the body that it has in the frame."""
        if member.form == Form.PLAIN:
            self._counts.append(0)
            return member.body
        skeleton = skeleton_format.decode(member.body)
        self._counts.append(len(skeleton.cuts))
        at = 0
        for offset, length, spelling, name in skeleton.cuts:
            number = self._numbers.get(name)
            if number is None:
                number = self._count + self._outside.setdefault(name, len(self._outside))
            self._cuts.append((offset - at, length, spelling, number))
            at = offset + length
        if any(name not in self._numbers for _offset, _length, _spelling, name in skeleton.cuts):
            self._named.append(member.hash)
        return skeleton.rest

    def table(self, bodies: Iterable[bytes | memoryview], stretches: Sequence[_Stretch]) -> Table:
        gaps, lengths, spellings, members = zip(*self._cuts, strict=True) if self._cuts else ((), (), (), ())
        return Table(
            [len(body) for body in bodies],
            self._counts,
            [len(member.body) for stretch in stretches for member in stretch.contents],
            gaps,
            lengths,
            spellings,
            members,
            [len(stretch.contents) for stretch in stretches],
            [len(stretch.records) for stretch in stretches],
        )

    def head(self, records: int, contents: int, veiled: int, table_length: int, stretches: int) -> bytes:
        return sealed_format.encode_head(
            Head(records, contents, len(self._cuts), list(self._outside), self._named, veiled, table_length, stretches)
        )
