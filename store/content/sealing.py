"""Making sealed groups: what is read together, compressed together, with all the time that it takes.

Records and contents are compressed apart: either resembles its own kind more than the other, so a frame of one kind
says more about what comes next in it. A frame of a megabyte is decompressed in half a millisecond.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from store.content import zstd
from store.content.compression import Member
from store.content.sealed import SealedGroup
from store.content.veil import shows, veil_much
from store.disk import sealed_format, skeleton_format
from store.disk.blob_format import Compression, Form, codec, decode_record, encode_record
from store.disk.sealed_format import Head, Table
from store.errors import DamageError
from store.ids import Hash, hash_bytes

SEALED_BYTES = 2 << 20
"""How much a sealed group holds, roughly: nothing is added to one that has reached this."""

LEVEL = 19

_MOST_MEMBERS = 16_384
"""Of very small blobs, a group takes more room in memory than they are long."""


class Sealing:
    """One sealed group in the making. No blob may be added twice."""

    def __init__(self, level: int = LEVEL) -> None:
        """``level`` is how hard zstd tries."""
        self._level = level
        self.size = 0
        """How many bytes have been added."""
        self._records: list[Member] = []
        self._contents: list[Member] = []

    @property
    def full(self) -> bool:
        """Whether nothing more should be added."""
        return self.size >= SEALED_BYTES or len(self._records) + len(self._contents) >= _MOST_MEMBERS

    def add_record(self, member: Member) -> None:
        """Add the payload of a turn, or any skeleton; best behind what was cut out of it."""
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
            frames.append((yield from zstd.compress_in_steps(data, self._level)))
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
    """The rows of the table: what of each record is in its frame, and what its cuts are."""

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
