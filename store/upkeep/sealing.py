"""Sealing: cold packs are written anew, so that what is read together lies together, in sealed groups.

Of packs that are sealed together, the payloads come first, in the order in which conversations are read, each behind
what was cut out of it, then all the rest as it lay. What a group would not make smaller has a record of its own: large
blobs, what does not compress, dictionaries, lists of chunks, and deltas, which stay what they are against their bases.

Nothing is sealed that cannot be read back with its name; what is damaged stays where it is, and its whole pack with it.

A run is a generator that pauses every few hundredths of a second, so that the background can do it in slices. Before
its last step, which is the switch (``store.upkeep.rewriting``), nothing has changed; who gives up a run closes it. It
yields how many bytes of blobs each step has compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from itertools import islice

from msgspec import Struct

from store.commit.blob_source import StoredBlobs
from store.commit.writer import Writer
from store.content.compression import Member, is_dictionary, pack_single
from store.content.opened import Opened
from store.content.resolver import Resolver
from store.content.sealing import LEVEL, SEALED_BYTES, Sealing
from store.content.shelf import Shelf
from store.content.text import is_text
from store.content.zstd import compress, compress_in_steps
from store.disk import skeleton_format
from store.disk.blob_format import Form, Record, encode_record
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.pack_files import REWRITTEN, PackWriter, Place
from store.errors import DamageError
from store.ids import Hash, hash_bytes
from store.index.places import Places
from store.upkeep.reading_order import reading_order
from store.upkeep.rewriting import Rewriting, told

_AT_ONCE = 256
_SHELF_BYTES = 12 << 20
_BASES_BYTES = 8 << 20
_LARGE = 2 << 20
_BINARY = 8 << 10
_SHRINKS = 0.9
_PACK_BYTES = 64 << 20
_RUN_BYTES = 256 << 20
_UNSEALED = 4
_COMPACTED_BYTES = 8 << 20
_SMALL_PACK = 16 << 20
_QUICK_LEVEL = 12
_NOTHING: frozenset[Hash] = frozenset()
_FIRST_TURN = "sealed_turns"

Located = tuple[int, int, int]

Steps = Generator[int, None, "Sealed"]


class Sealed(Struct, frozen=True):
    """What a run has sealed: how many packs and blobs, and how many bytes they took before and take now."""

    packs: int = 0
    blobs: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class Moment(Struct, frozen=True):
    """What there was: so many turns, and appended packs up to a number."""

    turns: int
    pack: int


class Sealer:
    """Seals packs of one store, one run at a time."""

    def __init__(self, writer: Writer, rewriting: Rewriting, flush: Callable[[], None]) -> None:
        """``flush`` brings everything that was committed into the packs."""
        self._writer = writer
        self._rewriting = rewriting
        self._flush = flush
        self.damaged: dict[int, str] = {}
        """Packs that turned out to be damaged, and what is wrong with each: they are left alone."""

    def unsealed_bytes(self) -> int:
        """Return how much there is in packs that were appended to, and are not known to be damaged."""
        packs = self._writer.packs
        return sum(packs.length(number) - HEADER_SIZE for number in packs.appended() if number not in self.damaged)

    def planned(self) -> list[int]:
        """Return which packs would be sealed now, the one that is appended to among them."""
        packs = self._writer.packs
        return self.chosen(number for number in packs.numbers() if packs.length(number) > HEADER_SIZE)

    def chosen(self, cold: Iterable[int]) -> list[int]:
        """Return which of the packs ``cold`` to seal in one run: none where all are sealed.

        Along go sealed ones that are no larger than the others together: so many small ones never pile up, and no
        blob is written more often than a logarithm of how many there are.
        """
        packs = self._writer.packs
        sizes = {number: packs.length(number) for number in cold if number not in self.damaged}
        chosen: list[int] = []
        total = 0
        for number in sorted(number for number in sizes if number < REWRITTEN):
            if chosen and total + sizes[number] > _RUN_BYTES:
                return chosen
            chosen.append(number)
            total += sizes[number]
        for number in sorted((number for number in sizes if number > REWRITTEN), key=sizes.__getitem__):
            if sizes[number] > min(total, _SMALL_PACK):
                break
            chosen.append(number)
            total += sizes[number]
        return chosen if any(number < REWRITTEN for number in chosen) else []

    def now(self) -> Moment:
        """Have all that has been committed lie in packs that nothing is appended to; return this moment."""
        turns = self._writer.turns.count
        self._flush()
        cold = self._rewriting.cold(roll=True)
        return Moment(turns, max((number for number in cold if number < REWRITTEN), default=0))

    def steps(self, *, upto: Moment | None = None, wait: bool = True) -> Steps:
        """Seal what had been appended at the moment ``upto`` (None: now), and small sealed packs along with it.

        If it is very much, some of it. If packs are being rewritten already, ``wait`` for that, or do nothing. Raises
        DamageError where something is damaged, and remembers where: without that, there may be more to seal. Raises
        StoreFull, StoreFailed.
        """
        rewriting = self._rewriting
        if not rewriting.alone.acquire(blocking=wait):
            return Sealed()
        try:
            upto = upto or self.now()
            last = upto.pack
            chosen = self.chosen(number for number in rewriting.cold() if number <= last or number > REWRITTEN)
            if not chosen:
                return Sealed()
            sealed = yield from self._rewritten(chosen)
            self._writer.index.db.set_state(_FIRST_TURN, upto.turns + 1)
            return sealed
        finally:
            rewriting.alone.release()

    def reseal(
        self, numbers: Sequence[int], without: Collection[Hash], *, overwrite: bool, quick: bool = False
    ) -> Steps:
        """Write cold packs anew without some of their blobs; what was a delta against one of these is none then.

        The caller holds ``rewriting.alone``; ``overwrite`` as of :meth:`Rewriting.switch`. Sealed groups that hold none
        of these blobs are copied. ``quick``, for whom somebody waits, takes a tenth of the time, and some more room.
        """
        return self._rewritten(numbers, without, overwrite=overwrite, level=_QUICK_LEVEL if quick else LEVEL)

    def _rewritten(
        self,
        numbers: Sequence[int],
        without: Collection[Hash] = _NOTHING,
        *,
        overwrite: bool = False,
        level: int = LEVEL,
    ) -> Steps:
        packs = self._writer.packs
        before = sum(map(packs.length, numbers))
        self._writer.check_room(before)
        run = _Run(self._writer, self._rewriting, numbers, without, level)
        try:
            with told():
                noted = self._writer.index.db.state(_FIRST_TURN)
                yield from run.write(noted if isinstance(noted, int) else 1)
                yield 0
                new = run.finish()
                run.at = 0
                self._rewriting.switch(run.places, new, numbers, dropped=without, overwrite=overwrite)
        except DamageError as error:
            # whoever tries again must come farther, or find less to do
            self.damaged.update(dict.fromkeys([run.at] if run.at else numbers, str(error)))
            raise
        finally:
            run.abandon()
        index = self._writer.index
        if index.db.path.stat().st_size <= _COMPACTED_BYTES:
            # rows of as many blobs have come and gone; in a larger index, what comes next takes their places
            index.db.compact()
        return Sealed(len(numbers), len(run.places), before, sum(new.values()))


class _Run:
    """One rewriting of some packs. ``places`` are those of all blobs written, ``at`` the pack that is being read."""

    def __init__(
        self,
        writer: Writer,
        rewriting: Rewriting,
        numbers: Sequence[int],
        without: Collection[Hash],
        level: int,
    ) -> None:
        self.places = Places()
        self.at = 0
        self._packs = writer.packs
        self._index = writer.index
        self._turns = writer.turns
        self._rewriting = rewriting
        self._numbers = frozenset(numbers)
        self._without = without
        source = StoredBlobs(writer.pending, writer.index, writer.packs)
        self._shelf = Shelf(source, _SHELF_BYTES)
        self._unsealed: dict[Place, tuple[Opened, list[Member]]] = {}
        self._done: set[Hash] = set()
        self._resolver = Resolver(source, _BASES_BYTES)
        self._level = level
        self._group = Sealing(level)
        self._writers: list[PackWriter] = []

    def write(self, first_turn: int) -> Generator[int, None, None]:
        """Write everything. Of no turn before ``first_turn`` the payload is in a pack that was not sealed."""
        yield from self._copy_sealed()
        unsealed = any(number < REWRITTEN for number in self._numbers)
        turns = reading_order(self._turns, first_turn) if unsealed else iter(())
        while some := list(islice(turns, _AT_ONCE)):
            yield 0
            digests = self._payloads(some)
            found = self._index.locate(digests)
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

    def finish(self) -> dict[int, int]:
        """Bring the new packs to disk; return their numbers and lengths."""
        done = {}
        while self._writers:
            writer = self._writers[0]
            writer.finish()
            del self._writers[0]
            done[writer.number] = writer.length
        return done

    def abandon(self) -> None:
        """Remove what was written and not finished."""
        for writer in self._writers:
            writer.abandon()
        self._writers.clear()

    def _payloads(self, turns: Sequence[int]) -> list[Hash]:
        """Return what the turns' payloads are called, but for turns that are damaged and payloads that are done."""
        found: dict[Hash, None] = {}
        for turn in turns:
            try:
                found[self._turns.get(turn).payload_hash] = None
            except DamageError:
                continue
        return [digest for digest in found if digest not in self._done]

    # -- reading ---------------------------------------------------------------------------------------------------

    def _open(self, place: Place) -> Opened:
        self.at = place[0]
        opened = self._shelf.kept(place)
        if opened is None and (unsealed := self._unsealed.get(place)) is not None:
            opened = unsealed[0]
        if opened is None:
            opened = self._shelf.open(self._packs.read(*place))
            self._shelf.keep(place, opened)
        return opened

    def _members(self, place: Place, opened: Opened) -> list[Member]:
        """Return the blobs of a sealed group; a few groups, too large for the shelf, are remembered."""
        known = self._unsealed.get(place)
        if known is None:
            known = opened, list(opened.sealed.members()) if opened.sealed is not None else []
            while len(self._unsealed) >= _UNSEALED:
                del self._unsealed[next(iter(self._unsealed))]
            self._unsealed[place] = known
        return known[1]

    def _names(self, place: Place, opened: Opened) -> list[Hash]:
        if opened.sealed is None:
            return list(opened.members)
        return [member.hash for member in self._members(place, opened)]

    def _find(self, digest: Hash, places: Iterable[Located]) -> tuple[Place, Opened, int] | None:
        """Return the record of these packs that holds a blob, and which of its members it is."""
        for pack, offset, number in places:
            if pack in self._numbers:
                opened = self._open((pack, offset))
                names = self._names((pack, offset), opened)
                if digest in opened.members or (number < len(names) and names[number] == digest):
                    return (pack, offset), opened, number
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def _copy_sealed(self) -> Generator[int, None, None]:
        """Copy sealed groups that are large enough, if nothing of them is to go."""
        for pack, offset, record in self._packs.scan(numbers=sorted(n for n in self._numbers if n > REWRITTEN)):
            if not isinstance(record, Record) or 2 * record.raw_len < SEALED_BYTES:
                continue
            opened = self._open((pack, offset))
            if opened.sealed is None:
                continue
            yield 0
            names = opened.sealed.names()
            if not any(name in self._done or name in self._without for name in names):
                self._write(_again(record), names)
                self._done.update(names)

    def _take(self, digest: Hash, places: Iterable[Located], *, record: bool) -> Generator[int, None, None]:
        """Write a blob of these packs once, behind what was cut out of it; ``record``: it is the payload of a turn."""
        member = self._member(digest, places)
        if member is None:
            return
        if member.form == Form.SKELETON:
            contents = skeleton_format.references(member.body)
            found = self._index.locate([name for name in contents if name not in self._done])
            for name in contents:
                content = self._member(name, found.get(name, ()))
                if content is not None:
                    yield from self._add(content, record=content.form == Form.SKELETON)
        yield from self._add(member, record=record or member.form == Form.SKELETON)
        if self._group.full:
            yield from self._flush()

    def _member(self, digest: Hash, places: Iterable[Located]) -> Member | None:
        """Return a blob of these packs that is to be written; None if it was, or its record was copied as it is."""
        if digest in self._done or digest in self._without:
            return None
        found = self._find(digest, places)
        if found is None:
            return None
        place, opened, number = found
        self._done.add(digest)
        if opened.sealed is not None:
            return self._members(place, opened)[number]
        if opened.chunks is not None or (opened.base is not None and opened.base not in self._without):
            self._write(_again(self._packs.read(*place)), [digest])
            return None
        if (base := opened.lacks) is not None:
            opened.patch(self._resolver.blob(base))
        form, length, *_place = entry = opened.members[digest]
        return Member(digest, Form(form), length, opened.body(entry))

    def _add(self, member: Member, *, record: bool) -> Generator[int, None, None]:
        """Have a blob written: in the group, or in a record of its own."""
        body = member.body
        if _stands_alone(body):
            if member.form == Form.PLAIN and hash_bytes(body) != member.hash:
                raise DamageError(f"blob {member.hash.hex()} is damaged: its bytes do not have its hash")
            alone = pack_single(member, frame=(yield from compress_in_steps(body, self._level)))
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
            record, names = yield from self._group.finish()
            self._write(record, names)
        self._group = Sealing(self._level)

    def _write(self, record: bytes, names: Sequence[Hash]) -> None:
        if not self._writers or self._writers[-1].length + len(record) > _PACK_BYTES:
            self._writers.append(self._rewriting.pack())
        pack, offset = self._writers[-1].append(record)
        for member, digest in enumerate(names):
            self.places.add(digest, (pack, offset, member))


def _stands_alone(body: bytes) -> bool:
    if len(body) >= _LARGE or is_dictionary(body):
        return True
    # an image among texts would be decompressed for nothing
    return len(body) >= _BINARY and not is_text(body) and len(compress(body)) > _SHRINKS * len(body)


def _again(record: Record) -> bytes:
    return encode_record(record.codec, record.raw_len, record.hash, record.stored)
