"""Sealing: rewrites cold packs so that blobs that are read together lie together, in sealed groups.

Of packs that are sealed together, the payloads come first, in the order in which conversations are read, each after the
contents that were cut out of it; then the rest in its old order. Blobs that a group would not make smaller get records
of their own: large or incompressible blobs, dictionaries, lists of chunks, and deltas, which keep their bases.

Only blobs that can be read back with their names are sealed. A damaged blob stays where it is, and so does its pack.

A run is a generator that pauses every few hundredths of a second, so that the background can do it in slices. Before
its last step, which is the switch (``store.upkeep.rewrite``), nothing has changed; to give up a run, close it. It
yields the number of bytes of blobs that each step has compressed.
"""

from array import array
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice
from typing import Protocol

from msgspec import Struct

from store.commit.intake import Intake
from store.commit.writer import Writer
from store.content.compression import Member, is_dictionary, pack_single
from store.content.cuts import is_text
from store.content.sealed import LEVEL, SEALED_BYTES, GroupSealer
from store.content.shelf import OpenRecord, Shelf, StoredBlobs
from store.content.zstd import compress
from store.disk import skeleton_format
from store.disk.blob_format import Form, Record, encode_record
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.pack import RecordPlace
from store.disk.turn_log import TurnLog
from store.errors import DamageError
from store.hashes import Hashes
from store.ids import Hash, hash_bytes
from store.index.fresh import BlobPlace
from store.index.index import Places
from store.paths import REWRITTEN
from store.upkeep.press import Press
from store.upkeep.rewrite import NewPacks, Rewriting, told

_READ_AT_ONCE = 4096
_AT_ONCE = 256
_SHELF_BYTES = 12 << 20
_LARGE = 2 << 20
_BINARY = 8 << 10
_SHRINKS = 0.9
_RUN_BYTES = 256 << 20
_UNSEALED = 4
_COMPACTED_BYTES = 8 << 20
_SMALL_PACK = 16 << 20
_FIRST_TURN = "sealed_turns"
_LOOSE = "loose_packs"
"""The index's key for the numbers of rewritten packs that are not sealed."""

SealingSteps = Generator[int, None, "Sealed"]


def reading_order(log: TurnLog, first: int) -> Iterator[int]:
    """Yield the ids of the turns from ``first`` on: each behind its parent, if nothing else followed that before.

    So interleaved turns of many conversations are sorted by conversation, and turns that fork from a branch, or replace
    its end, come after all of it. Takes 8 bytes of memory a turn; leaves out those whose records are damaged.
    """
    runs: list[array[int]] = []
    ends: dict[int, int] = {}
    for start in range(first, log.count + 1, _READ_AT_ONCE):
        for turn, link in enumerate(log.links(start, _READ_AT_ONCE), start):
            if link is None:
                continue
            run = ends.pop(link[0], -1)
            if run < 0:
                run = len(runs)
                runs.append(array("Q"))
            runs[run].append(turn)
            ends[turn] = run
    for turns in runs:
        yield from turns


class Sealed(Struct, frozen=True):
    """The outcome of a run: packs and blobs that were sealed, and the bytes that they took before and take now."""

    packs: int = 0
    blobs: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def chosen(sizes: Mapping[int, int], unsealed: Set[int], run_bytes: int) -> list[int]:
    """Return which of some packs, by their numbers and lengths, to seal in one run; see :meth:`Sealer.chosen`."""
    some: list[int] = []
    total = 0
    for number in sorted(unsealed):
        if some and total + sizes[number] > run_bytes:
            return some
        some.append(number)
        total += sizes[number]
    for number in sorted(sizes.keys() - unsealed, key=sizes.__getitem__):
        if sizes[number] > min(total, _SMALL_PACK):
            break
        some.append(number)
        total += sizes[number]
    return some if not unsealed.isdisjoint(some) else []


class Sealer:
    """Seals packs of one store, one run at a time."""

    def __init__(self, intake: Intake, rewriting: Rewriting, flush: Callable[[], None]) -> None:
        """``flush`` brings everything that was committed into the packs."""
        self._writer = intake.writer
        self._cold = intake.cold
        self._rewriting = rewriting
        self._flush = flush
        self.damaged: dict[int, str] = {}
        """Packs that turned out to be damaged, and what is wrong with each: they are left alone."""

    @property
    def _loose(self) -> set[int]:
        """The packs that were rewritten and are not sealed."""
        noted = self._writer.index.db.state(_LOOSE)
        return set(map(int, noted.split())) if isinstance(noted, str) else set()

    def note_copied(self, numbers: Collection[int], copies: Collection[int]) -> None:
        """Note that packs were copied as they are: what was not sealed is to be."""
        loose = self._loose
        if any(number < REWRITTEN or number in loose for number in numbers):
            loose = (loose | set(copies)).intersection(self._writer.packs.numbers())
            self._writer.index.db.set_state(_LOOSE, " ".join(map(str, sorted(loose))))

    def unsealed_bytes(self) -> int:
        """Return how much there is in packs that are not sealed, and are not known to be damaged."""
        packs, loose = self._writer.packs, self._loose
        numbers = (number for number in packs.numbers() if number < REWRITTEN or number in loose)
        return sum(packs.length(number) - HEADER_SIZE for number in numbers if number not in self.damaged)

    def planned(self) -> list[int]:
        """Return which packs would be sealed now, the one that is appended to among them."""
        packs = self._writer.packs
        return self.chosen(number for number in packs.numbers() if packs.length(number) > HEADER_SIZE)

    def chosen(self, cold: Iterable[int]) -> list[int]:
        """Return which of the packs ``cold`` to seal in one run: none where all are sealed.

        Sealed ones that are no larger than the others together are included: so small ones never pile up, and no
        blob is written more often than a logarithm of how many there are.
        """
        packs = self._writer.packs
        sizes = {number: packs.length(number) for number in cold if number not in self.damaged}
        loose = self._loose
        return chosen(sizes, {number for number in sizes if number < REWRITTEN or number in loose}, _RUN_BYTES)

    def now(self) -> tuple[int, int]:
        """Move everything committed into cold packs; return the moment: how many turns there are, and the last pack."""
        turns = self._writer.turns.count
        self._flush()
        cold = self._cold(roll=True)
        return turns, max((number for number in cold if number < REWRITTEN), default=0)

    def steps(self, *, upto: tuple[int, int] | None = None, wait: bool = True) -> SealingSteps:
        """Seal what had been appended at the moment ``upto`` (None: now), and small sealed packs along with it.

        If it is very much, some of it. If packs are being rewritten already, ``wait`` for that, or do nothing. Raises
        DamageError where something is damaged, and remembers where: without that, there may be more to seal. Raises
        StoreFull, StoreFailed.
        """
        rewriting = self._rewriting
        if not rewriting.alone.acquire(blocking=wait):
            return Sealed()
        try:
            turns, last = upto or self.now()
            some = self.chosen(number for number in self._cold(roll=False) if number <= last or number > REWRITTEN)
            if not some:
                return Sealed()
            sealed = yield from self._seal(some)
            self._writer.index.db.set_state(_FIRST_TURN, turns + 1)
            return sealed
        finally:
            rewriting.alone.release()

    def _seal(self, numbers: Sequence[int]) -> SealingSteps:
        """Rewrite cold packs. The caller holds ``rewriting.alone``. Sealed groups are copied."""
        packs = self._writer.packs
        before = sum(map(packs.length, numbers))
        self._writer.check_room(before)
        written = NewPacks(packs)
        run = SealingRun(self._writer, packs, self._writer.index.locate, written, numbers)
        try:
            with told(packs.directory):
                noted = self._writer.index.db.number(_FIRST_TURN)
                yield from run.write(max(noted, 1) if self._loose.isdisjoint(numbers) else 1)
                yield 0
                new = written.finish()
                run.at = 0
                self._rewriting.switch(run.places, new, numbers)
        except DamageError as error:
            # another attempt must get farther, or find less to do
            self.damaged.update(dict.fromkeys([run.at] if run.at else numbers, str(error)))
            raise
        finally:
            written.abandon()
        index = self._writer.index
        if index.db.path.stat().st_size <= _COMPACTED_BYTES:
            # rows of as many blobs have come and gone; in a larger index, what comes next takes their places
            index.db.compact()
        return Sealed(len(numbers), len(run.places), before, sum(new.values()))


class Cold(Protocol):
    """The packs that are sealed, by their numbers: those that were sealed before come behind REWRITTEN."""

    def scan(self, *, numbers: Sequence[int]) -> Iterator[tuple[int, int, Record | Damage]]:
        """Yield all records, each with its pack and offset."""

    def read(self, pack: int, offset: int) -> Record:
        """Return a record. Raises DamageError."""

    def path(self, pack: int) -> object:
        """Return what a pack is called in errors."""


class New(Protocol):
    """The packs that are written."""

    def append(self, record: bytes) -> RecordPlace:
        """Write a record, and return its place."""


class SealingRun:
    """One rewriting of some packs. ``places`` are those of all blobs written, ``at`` the pack that is being read.

    ``locate`` tells where blobs are, in these and other packs. What packs are made from is read from the store. A group
    has ``most`` bytes, roughly.
    """

    def __init__(
        self,
        writer: Writer,
        packs: Cold,
        locate: Callable[[Sequence[Hash]], Mapping[Hash, Sequence[BlobPlace]]],
        written: New,
        numbers: Sequence[int],
        most: int = SEALED_BYTES,
    ) -> None:
        self.places = Places()
        self.at = 0
        self._packs = packs
        self._locate = locate
        self._turns = writer.turns
        self._numbers = frozenset(numbers)
        source = StoredBlobs(writer.pending.get, writer.index, writer.packs)
        self._shelf = Shelf(source, _SHELF_BYTES)
        self._unsealed: dict[RecordPlace, tuple[OpenRecord, list[Member]]] = {}
        self._done = Hashes()
        self._press = Press()
        self._most = most
        self._group = GroupSealer(LEVEL, most)
        self._written = written

    def write(self, first_turn: int) -> Generator[int, None, None]:
        """Write everything. Of no turn before ``first_turn`` the payload is in a pack that was not sealed."""
        try:
            yield from self._write_all(first_turn)
        finally:
            self._press.close()

    def _write_all(self, first_turn: int) -> Generator[int, None, None]:
        yield from self._copy_sealed()
        unsealed = any(number < REWRITTEN for number in self._numbers)
        turns = reading_order(self._turns, first_turn) if unsealed else iter(())
        while some := list(islice(turns, _AT_ONCE)):
            yield 0
            digests = self._payloads(some)
            found = self._locate(digests)
            for digest in digests:
                yield from self._take(digest, found.get(digest, ()), record=True)
        for pack, offset, record in self._packs.scan(numbers=sorted(self._numbers)):
            self.at = pack
            if isinstance(record, Damage):
                raise DamageError(f"{self._packs.path(pack)}, offset {record.offset}: {record.reason}")
            opened = self._open((pack, offset))
            for member, digest in enumerate(self._names((pack, offset), opened)):
                known = opened.sealed is not None and member < opened.sealed.records
                yield from self._take(digest, [(pack, offset, member)], record=known)
        yield from self._flush()

    def _payloads(self, turns: Sequence[int]) -> list[Hash]:
        """Return what the turns' payloads are called, but for turns that are damaged and payloads that are done."""
        found: dict[Hash, None] = {}
        for turn in turns:
            with suppress(DamageError):
                found[self._turns.get(turn).payload_hash] = None
        return [digest for digest in found if digest not in self._done]

    def _open(self, place: RecordPlace) -> OpenRecord:
        self.at = place[0]
        opened = self._shelf.kept(place)
        if opened is None and (unsealed := self._unsealed.get(place)) is not None:
            opened = unsealed[0]
        if opened is None:
            opened = self._shelf.open(self._packs.read(*place))
            self._shelf.keep(place, opened)
        return opened

    def _members(self, place: RecordPlace, opened: OpenRecord) -> list[Member]:
        """Return the blobs of a sealed group; a few groups, too large for the shelf, are remembered."""
        known = self._unsealed.get(place)
        if known is None:
            known = opened, list(opened.sealed.members()) if opened.sealed is not None else []
            while len(self._unsealed) >= _UNSEALED:
                del self._unsealed[next(iter(self._unsealed))]
            self._unsealed[place] = known
        return known[1]

    def _names(self, place: RecordPlace, opened: OpenRecord) -> list[Hash]:
        if opened.sealed is None:
            return list(opened.members)
        return [member.hash for member in self._members(place, opened)]

    def _find(self, digest: Hash, places: Iterable[BlobPlace]) -> tuple[RecordPlace, OpenRecord, int] | None:
        for pack, offset, number in places:
            if pack in self._numbers:
                opened = self._open((pack, offset))
                names = self._names((pack, offset), opened)
                if digest in opened.members or (number < len(names) and names[number] == digest):
                    return (pack, offset), opened, number
        return None

    def _copy_sealed(self) -> Generator[int, None, None]:
        for pack, offset, record in self._packs.scan(numbers=sorted(n for n in self._numbers if n > REWRITTEN)):
            if not isinstance(record, Record) or 2 * record.raw_len < self._most:
                continue
            opened = self._open((pack, offset))
            if opened.sealed is None:
                continue
            yield 0
            names = opened.sealed.names()
            if not any(name in self._done for name in names):
                self._write(_again(record), names)
                self._done.update(names)

    def _take(self, digest: Hash, places: Iterable[BlobPlace], *, record: bool) -> Generator[int, None, None]:
        """Write a blob of these packs once, behind what was cut out of it; ``record``: it is the payload of a turn."""
        member = self._member(digest, places)
        if member is None:
            return
        if member.form == Form.SKELETON:
            contents = skeleton_format.references(member.body)
            found = self._locate([name for name in contents if name not in self._done])
            for name in contents:
                content = self._member(name, found.get(name, ()))
                if content is not None:
                    yield from self._add(content, record=content.form == Form.SKELETON)
        yield from self._add(member, record=record or member.form == Form.SKELETON)
        if self._group.full:
            yield from self._flush()

    def _member(self, digest: Hash, places: Iterable[BlobPlace]) -> Member | None:
        """Return a blob of these packs that is to be written; None if it was, or its record was copied as it is."""
        if digest in self._done:
            return None
        found = self._find(digest, places)
        if found is None:
            return None
        place, opened, number = found
        self._done.add(digest)
        if opened.sealed is not None:
            return self._members(place, opened)[number]
        if opened.chunks is not None or opened.base is not None:
            self._write(_again(self._packs.read(*place)), [digest])
            return None
        form, length, *_place = entry = opened.members[digest]
        return Member(digest, Form(form), length, opened.body(entry))

    def _add(self, member: Member, *, record: bool) -> Generator[int, None, None]:
        body = member.body
        if _stands_alone(body):
            if member.form == Form.PLAIN and hash_bytes(body) != member.hash:
                raise DamageError(f"blob {member.hash.hex()} is damaged: its bytes do not have its hash")
            alone = pack_single(member, frame=(yield from self._press.frame(body)))
            # a dictionary twice: one damaged block must not take every small group with it
            for _copy in range(2 if is_dictionary(body) else 1):
                self._write(alone, [member.hash])
            return
        if record:
            self._group.add_record(member)
        else:
            self._group.add_content(member)

    def _flush(self) -> Generator[int, None, None]:
        if self._group.size:
            record, names = yield from self._press.group(self._group)
            self._write(record, names)
        self._group = GroupSealer(LEVEL, self._most)

    def _write(self, record: bytes, names: Sequence[Hash]) -> None:
        pack, offset = self._written.append(record)
        for member, digest in enumerate(names):
            self.places.add(digest, (pack, offset, member))


def _stands_alone(body: bytes) -> bool:
    if len(body) >= _LARGE or is_dictionary(body):
        return True
    # an image among texts would be decompressed for nothing
    return len(body) >= _BINARY and not is_text(body) and len(compress(body)) > _SHRINKS * len(body)


def _again(record: Record) -> bytes:
    return encode_record(record.codec, record.raw_len, record.hash, record.stored)
