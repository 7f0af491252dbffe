"""Sealed groups, opened: their blobs by number, and the names of these blobs.

The group does not hold the names: the index does, and a reader compares the blob that it gets with the hash that it
asked for. :meth:`SealedGroup.names` computes them by hashing everything.

Content that was cut out of a record and lies in the same group has an *inner name*: 20 bytes, so never a hash, valid in
this group only. Joining a payload takes such contents from the group itself, without a lookup.

A group is made with all the time that it takes (:class:`GroupSealer`). Records and contents are compressed apart:
either resembles its own kind more than the other, so a frame of one kind says more about what comes next in it. A
frame of a megabyte is decompressed in half a millisecond.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate

from store.content import zstd
from store.content.compression import MAX_BODY_BYTES, Member
from store.content.cuts import join
from store.content.zstd import shows, veil_much
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
        head = decode_head(record.stored)
        if max(head.table_size, record.raw_len) > MAX_BODY_BYTES:
            raise DamageError("a sealed group claims more than any holds")
        records_at = head.size + head.table_length
        contents_at = records_at + head.records_length
        frames = [
            partial(_frame, record.stored[start:stop], record.hash, veiled=bool(head.veiled >> number & 1))
            for number, (start, stop) in enumerate(
                ((head.size, records_at), (records_at, contents_at), (contents_at, len(record.stored)))
            )
        ]
        self._table = table = decode_table(zstd.decompress(frames[0](), head.table_size), head)
        self._outside, self._named = head.outside, head.named
        self._key = bytes(record.hash[:_KEY_SIZE])
        self.records = head.records
        """The number of its blobs that are records: those of the lowest numbers."""
        self._count = head.records + head.contents
        self._first_cuts = [0, *accumulate(table.counts)]
        self._records = _Bodies(frames[1], table.bodies)
        self._contents = _Bodies(frames[2], table.contents)
        self.size = self._records.size + self._contents.size
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
        inside = sorted(member for member in needed if member < self._count)
        if inside and inside[0] < records:
            self._records.reach(max(member for member in inside if member < records))
        if inside and inside[-1] >= records:
            self._contents.reach(inside[-1] - records)

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
        """Yield all blobs as other records keep them; decompresses and hashes everything."""
        names = self.names()
        for number in range(self._count):
            yield self._member(number, names)

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
        records = self.records
        return self._records.at(member) if member < records else self._contents.at(member - records)


def is_inner(name: bytes) -> bool:
    """Return whether a name holds within one sealed group only."""
    return len(name) != HASH_SIZE


def _number(name: bytes) -> int:
    return int.from_bytes(name[_KEY_SIZE:], "little")


def _frame(stored: memoryview, digest: Hash, *, veiled: bool) -> memoryview | bytes:
    return veil_much(stored, digest) if veiled else stored


_keeping = threading.Lock()


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
                if data or 2 * stop > self.size:
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
    if record.compression == Compression.SEALED:
        head = decode_head(record.stored)
        return head.records + head.contents
    if record.compression in _GROUPS:
        return len(decode_group_table(record.compression, record.stored).members)
    return 1


def names_of(record: Record) -> list[Hash]:
    """Return the names of a record's blobs, by their member numbers. DamageError.

    Of a sealed group, everything is decompressed and hashed for it; of others, nothing.
    """
    if record.compression == Compression.SEALED:
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


SEALED_BYTES = 2 << 20
"""The size of a sealed group, roughly: nothing is added to one that has reached this."""

LEVEL = 19

_MOST_MEMBERS = 16_384
"""The most blobs in a group: very small blobs take more room in memory than their length."""


class GroupSealer:
    """One sealed group in the making. No blob may be added twice."""

    def __init__(self, level: int = LEVEL) -> None:
        """``level`` is how hard zstd tries."""
        self._level = level
        self.size = 0
        """The bytes that have been added."""
        self._records: list[Member] = []
        self._contents: list[Member] = []

    @property
    def full(self) -> bool:
        """True if nothing more should be added."""
        return self.size >= SEALED_BYTES or len(self._records) + len(self._contents) >= _MOST_MEMBERS

    def add_record(self, member: Member) -> None:
        """Add the payload of a turn, or any skeleton; best after the contents that were cut out of it."""
        self._records.append(member)
        self.size += len(member.body)

    def add_content(self, member: Member) -> None:
        """Add a blob of another kind."""
        self._contents.append(member)
        self.size += len(member.body)

    def finish(self) -> Generator[int, None, tuple[bytes, list[Hash]]]:
        """Return the record, and the names of its blobs by their numbers; pauses now and then.

        Yields as :func:`store.content.zstd.compress_in_steps`.

        It is read back: DamageError if that does not give every blob with its name.
        """
        members = [*self._records, *self._contents]
        rows = _Rows(members)
        bodies = [rows.add(member) for member in self._records]
        records, contents = b"".join(bodies), b"".join([member.body for member in self._contents])
        table = sealed_format.encode_table(rows.table(bodies, self._contents))
        frames = [zstd.compress(table, self._level)]
        for data in (records, contents):
            frames.append((yield from zstd.compress_in_steps(data, self._level)))  # noqa: PERF401  (it yields)
        digest = hash_bytes(records + contents)
        veiled = 0
        stored = []
        for number, frame in enumerate(frames):
            veiled |= shows(frame) << number
            stored.append(veil_much(frame, digest) if shows(frame) else frame)
        head = rows.head(len(bodies), len(self._contents), veiled, [len(frame) for frame in frames])
        record = encode_record(
            codec(Compression.SEALED, Form.PLAIN), len(records) + len(contents), digest, b"".join((head, *stored))
        )
        names = [member.hash for member in members]
        if SealedGroup(decode_record(memoryview(record))).names() != names:
            raise DamageError("a blob that was to be sealed is damaged: its bytes do not have its hash")
        return record, names


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

    def table(self, bodies: Iterable[bytes | memoryview], contents: Iterable[Member]) -> Table:
        columns = zip(*self._cuts, strict=True) if self._cuts else ((), (), (), ())
        return Table([len(body) for body in bodies], self._counts, [len(member.body) for member in contents], *columns)

    def head(self, records: int, contents: int, veiled: int, frames: list[int]) -> bytes:
        return sealed_format.encode_head(
            Head(records, contents, len(self._cuts), list(self._outside), self._named, veiled, frames[0], frames[1])
        )
