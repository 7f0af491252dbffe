"""Sealed groups, opened: their blobs by number, and what the blobs' names are.

The group does not say the names: the index does, and who asks for a blob compares what it gets with the hash that it
asked for. :meth:`SealedGroup.names` works them out, by hashing everything.

What was cut out of a record and lies in the same group has an *inner name*: 20 bytes, so never a hash, that hold in
this one group. Whoever puts payloads together takes such contents from the group itself, and looks nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from store.content import zstd
from store.content.compression import MAX_BODY_BYTES, Member
from store.content.cutting import join
from store.content.veil import veil_much
from store.disk import skeleton_format
from store.disk.blob_format import Form, Record
from store.disk.sealed_format import decode_head, decode_table
from store.disk.skeleton_format import Skeleton
from store.errors import DamageError
from store.ids import HASH_SIZE, Hash, hash_bytes

_KEY_SIZE = 16
_NUMBER_SIZE = 4


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
            _Frame(record, start, stop, veiled=bool(head.veiled >> number & 1))
            for number, (start, stop) in enumerate(
                ((head.size, records_at), (records_at, contents_at), (contents_at, len(record.stored)))
            )
        ]
        self._table = table = decode_table(zstd.decompress(frames[0].bytes(), head.table_size), head)
        self._outside, self._named = head.outside, head.named
        self._key = bytes(record.hash[:_KEY_SIZE])
        self.records = head.records
        """How many of its blobs are records: those of the lowest numbers."""
        self._count = head.records + head.contents
        self._first_cuts = [0, *accumulate(table.counts)]
        self._records = _Bodies(frames[1], table.bodies)
        self._contents = _Bodies(frames[2], table.contents)
        self.size = self._records.size + self._contents.size
        """How many bytes it takes when it is decompressed."""
        if self.size != record.raw_len:
            raise DamageError(f"a sealed group has {self.size} bytes where its record says {record.raw_len}")

    def __len__(self) -> int:
        """How many blobs it holds."""
        return self._count

    def form(self, member: int) -> Form:
        """Return how a blob is spelt: as itself, or as a skeleton."""
        return Form.SKELETON if self._cuts(member) else Form.PLAIN

    def length(self, member: int) -> int:
        """Return how long a blob is."""
        cut_out = sum(self._table.lengths[cut] for cut in self._cuts(member))
        records = self.records
        return cut_out + (self._table.bodies[member] if member < records else self._table.contents[member - records])

    def expect(self, members: Iterable[int]) -> None:
        """Decompress at once what some blobs need, which are asked for one by one next."""
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
        """Return a blob with cuts, taken apart; what was cut out and lies in this group has inner names."""
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

    def inner(self, name: bytes) -> bytes:
        """Return the blob that an inner name of this group stands for."""
        return self.plain(_number(name))

    def is_called(self, member: int, name: Hash) -> bool:
        """Say whether a blob has this name; of one whose names the group says, whether any of those is it."""
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
        for number, name in enumerate(names):
            if not self._cuts(number):
                body = self._body(number)
                yield Member(name, Form.PLAIN, len(body), body)
                continue
            length, cuts, rest = self.skeleton(number)
            spelt = [(*cut[:3], names[_number(cut[3])] if is_inner(cut[3]) else cut[3]) for cut in cuts]
            yield Member(name, Form.SKELETON, length, skeleton_format.encode(length, spelt, [bytes(rest)]))

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
        """Return which cuts of the table are those of a blob."""
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
    """Say whether a name holds in one sealed group alone."""
    return len(name) != HASH_SIZE


def _number(name: bytes) -> int:
    return int.from_bytes(name[_KEY_SIZE:], "little")


class _Frame:
    """One frame of a record, which may be veiled."""

    __slots__ = ("_digest", "_stored", "_veiled")

    def __init__(self, record: Record, start: int, stop: int, *, veiled: bool) -> None:
        self._stored = record.stored[start:stop]
        self._digest = record.hash
        self._veiled = veiled

    def bytes(self) -> memoryview | bytes:
        return veil_much(self._stored, self._digest) if self._veiled else self._stored


class _Bodies:
    """Bodies one after another in one frame, of the lengths that are given."""

    __slots__ = ("_data", "_ends", "_frame", "size")

    def __init__(self, frame: _Frame, lengths: Iterable[int]) -> None:
        self._frame: _Frame | None = frame
        self._ends = [0, *accumulate(lengths)]
        self._data = b""
        self.size = self._ends[-1]

    def at(self, number: int) -> bytes:
        """Return one of them."""
        return self.reach(number)[self._ends[number] : self._ends[number + 1]]

    def reach(self, number: int) -> bytes:
        """Return what is there up to the end of one of them, or more.

        The frame is decompressed no farther than must be, until it must be a second time.
        """
        stop = self._ends[number + 1]
        frame = self._frame  # before _data: another thread sets that first, then drops the frame
        data = self._data
        if len(data) < stop and frame is not None:
            if data or 2 * stop > self.size:
                try:
                    data = zstd.decompress(frame.bytes(), self.size)
                except DamageError:
                    # what stands before the damage can be had all the same
                    return zstd.beginning(frame.bytes(), self.size, stop)
                if len(data) != self.size:
                    raise DamageError(f"a sealed group has {len(data)} bytes where its table says {self.size}")
                self._data = data
                self._frame = None
            else:
                self._data = data = zstd.beginning(frame.bytes(), self.size, stop)
        return data
