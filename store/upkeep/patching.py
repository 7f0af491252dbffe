"""Patches: what a redaction changes in a store, said without the secrets.

A patch has the new names of blobs, by the old ones, the new frames by their numbers, and the names of the blobs that
are gone. Who has it, and the blobs that it names, can do what the redaction did: rewrite both logs, each record and
frame at its old length, so that nothing moves; rewrite the packs without what is gone; and empty what was derived from
that. In a space all machines do, and their logs stay the same, byte by byte. To do it twice changes nothing.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from store.commit.checkpointer import Checkpointer
from store.commit.intake import Intake
from store.commit.writer import Writer
from store.content.compression import pack_records
from store.content.resolver import Resolver, members
from store.content.sealed import SealedGroup, leans_on, names_of
from store.disk import durable, turn_format
from store.disk import head_format as heads
from store.disk.blob_format import Record, encode_record
from store.disk.file_header import HEADER_SIZE
from store.disk.head_format import HeadFrame
from store.disk.pack import PackSet, PackWriter
from store.disk.turn_format import RECORD_SIZE, REDACTED
from store.errors import ConvfsError, DamageError
from store.ids import HASH_SIZE, Hash, hash_key
from store.index.index import Places
from store.index.views import Views
from store.upkeep.recovery import Files
from store.upkeep.remembered import Remembered
from store.upkeep.rewrite import Rewriting

_HASH_AT = 32


class Patch(Struct, frozen=True):
    """The changes of a redaction, in all that was committed up to ``seq``.

    ``made`` are the names of new blobs by the old ones, ``frames`` the bytes of new frames by their seqs. ``gone`` are
    the names of the blobs that are gone, ``dictionaries`` those of them that small groups were compressed with.
    ``texts`` are the places in turns that are being written, as (number, start, what stands there now); ``tips`` are
    the turns that are seen otherwise, and ``contexts`` those that have them. In a space, ``packs`` is the last pack
    from before, and ``chain`` that of the commit ``seq`` from now on.
    """

    seq: int = 0
    made: dict[bytes, bytes] = {}
    frames: dict[int, bytes] = {}
    gone: list[bytes] = []
    dictionaries: list[bytes] = []
    texts: list[tuple[int, int, bytes]] = []
    tips: list[int] = []
    contexts: list[int] = []
    packs: int = 0
    chain: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.made or self.frames or self.gone)

    def encoded(self) -> bytes:
        """Return its bytes, MessagePack."""
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decoded(data: bytes) -> "Patch":
        """Read a patch. DamageError if it is none."""
        try:
            return _decode(data)
        except msgspec.DecodeError as error:
            raise DamageError(f"a patch makes no sense: {error}") from None

    def body(self, frame: HeadFrame) -> heads.Body:
        """Return the body that a frame is to have."""
        new = self.frames.get(frame.seq)
        return frame.body if new is None else heads.decode(new).body

    @property
    def new(self) -> Mapping[Hash, Hash]:
        """The names of new blobs, by the old ones."""
        return {Hash(old): Hash(new) for old, new in self.made.items()}


_decode = msgspec.msgpack.Decoder(Patch).decode


class TurnRewriter:
    """The new records of turns; ``changed`` are the ids of those with new payloads."""

    def __init__(self, new: Mapping[Hash, Hash]) -> None:
        self._new = new
        self.changed: list[int] = []

    def records(self, first: int, records: bytes) -> bytes:
        new, changed = self._new, bytearray()
        done = 0
        for start in range(0, len(records), RECORD_SIZE):
            digest = records[start + _HASH_AT : start + _HASH_AT + HASH_SIZE]
            if digest in new:
                changed += records[done:start] + self._record(records[start : start + RECORD_SIZE], Hash(digest))
                done = start + RECORD_SIZE
                self.changed.append(first + start // RECORD_SIZE)
        return bytes(changed) + records[done:] if done else records

    def _record(self, record: bytes, digest: Hash) -> bytes:
        try:
            turn = turn_format.decode(record)
        except DamageError:
            # it stays damaged, and no longer says what it was
            return record[:_HASH_AT] + bytes(HASH_SIZE) + record[_HASH_AT + HASH_SIZE :]
        turn = structs.replace(turn, payload_hash=self._new[digest], flags=turn.flags | REDACTED)
        return turn_format.encode(turn)


class Patched(Protocol):
    """The parts of a store that a patch changes."""

    files: Files
    writer: Writer
    intake: Intake
    blobs: Resolver
    views: Views
    checkpointer: Checkpointer
    forgetting: list[Callable[[], None]]

    @property
    def rewriting(self) -> Rewriting: ...

    def renew_derived(self) -> None: ...


class Patching:
    """Applies a patch to a store. The caller holds ``rewriting.alone``."""

    def __init__(self, store: Patched) -> None:
        self._store = store
        self._logs_changed = False

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Block commits while the block runs, and erase the old contents of the journals before it.

        Nothing waits in the journal. Readers go on: they see the old state, or the new one. The index is marked as not
        trusted meanwhile: if the process is killed within, it is rebuilt. If the block fails after logs were rewritten,
        the store refuses all writes until it is opened again. Raises StoreFailed.
        """
        store = self._store
        with store.checkpointer.still():
            store.files.check_place()
            try:
                store.files.journal.erase()
                with store.files.index.db.distrusted():
                    yield
            except Exception as error:
                if self._logs_changed:
                    raise store.writer.fail(error) from error
                if isinstance(error, OSError):
                    raise store.writer.failure(error) from error
                raise

    def rewrite(self, patch: Patch, blank: Callable[[bytes], bytes] = lambda damaged: damaged) -> int:
        """Rewrite logs and packs, in the standstill; return how many packs were. The new blobs are there.

        ``blank`` returns as many bytes for those of the head log that are no frame.
        """
        store, made = self._store, patch.new
        if patch.dictionaries:
            store.intake.use_no_dictionary()
        # what takes the place of content resembles it, and must not be made from it
        store.files.index.forget_sketches()
        Remembered(store.files.root).add(made)
        try:
            store.files.heads.rewrite(patch.body, blank)
        except OSError as error:
            # where there was no room for the new one, the old one is there
            self._logs_changed = error.errno not in durable.FULL
            raise
        self._logs_changed = True
        store.files.turns.rewrite(TurnRewriter(made).records)
        for number, start, filling in patch.texts:
            store.writer.texts.blank(number, start, filling)
        store.files.index.renew(frame for frame in store.files.heads.frames() if isinstance(frame, HeadFrame))
        store.views.drop(patch.tips, patch.contexts)
        store.intake.forget_packed()
        for clear in store.forgetting:
            clear()
        store.writer.replaced.add({old: new for old, new in made.items() if old != new})
        return self._rewrite_packs(set(map(Hash, patch.gone)), set(map(Hash, patch.dictionaries)))

    def finish(self) -> None:
        """Erase what was rewritten from the disk, and all that was derived from it."""
        store = self._store
        store.files.turns.erase_old()
        store.files.heads.erase_old()
        store.files.index.db.purge()
        store.renew_derived()

    def _rewrite_packs(self, dropped: set[Hash], dictionaries: set[Hash]) -> int:
        store = self._store
        numbers = store.intake.cold(roll=True)
        rewriting = PackRewriter(store.blobs, store.files.packs.rewrite, dropped, dictionaries)
        located = store.files.index.locate(sorted(dropped))
        holding = {pack for places in located.values() for pack, _offset, _member in places}
        rewriting.rewrite(store.files.packs, numbers, holding)
        store.rewriting.switch(rewriting.places, rewriting.packs, rewriting.replaced, dropped=dropped, overwrite=True)
        # what only a space has of it goes from there
        store.files.index.forget_remote(map(hash_key, dropped))
        return len(rewriting.replaced)


class PackRewriter:
    """The rewriting of packs without ``dropped`` blobs and without the use of ``dictionaries``.

    ``begin`` begins a pack. When it is done, ``places`` has the blobs of the new packs, ``packs`` their lengths by
    number, and ``replaced`` the packs that they were made from.
    """

    def __init__(
        self,
        resolver: Resolver,
        begin: Callable[[], PackWriter],
        dropped: Collection[Hash],
        dictionaries: Collection[Hash],
    ) -> None:
        self._resolver = resolver
        self._begin = begin
        self._dropped = dropped
        self._dictionaries = dictionaries
        self.places = Places()
        self.packs: dict[int, int] = {}
        self.replaced: list[int] = []

    def rewrite(self, packs: PackSet, numbers: Sequence[int], holding: Collection[int]) -> None:
        """Rewrite the cold packs with anything to remove; according to the index, ``holding`` have."""
        for number in numbers:
            records = (found for _, _, found in packs.scan(numbers=(number,)) if isinstance(found, Record))
            if number in holding or any(map(self._leans, records)):
                self._rewrite(packs, number)

    def _rewrite(self, packs: PackSet, number: int) -> None:
        writer = self._begin()
        try:
            for _pack, _offset, found in packs.scan(numbers=(number,)):
                # an unreadable record may hold anything, and nobody can read it
                if isinstance(found, Record):
                    for record, blobs in self._anew(found):
                        pack, offset = writer.append(record)
                        for member, blob in enumerate(blobs):
                            self.places.add(blob, (pack, offset, member))
        except BaseException:
            writer.abandon()
            raise
        self.replaced.append(number)
        if writer.length == HEADER_SIZE:
            writer.abandon()
            return
        writer.finish()
        self.packs[writer.number] = writer.length

    def _leans(self, record: Record) -> bool:
        needed = leans_on(record)
        return needed is not None and (needed in self._dropped or needed in self._dictionaries)

    def _anew(self, record: Record) -> list[tuple[bytes, list[Hash]]]:
        """Return the rest of a record: itself, or records of the blobs that stay."""
        try:
            names = names_of(record)
            if not (self._leans(record) or any(name in self._dropped for name in names)):
                return [(encode_record(record.codec, record.raw_len, record.hash, record.stored), names)]
            opened = self._resolver.open(record)
            if opened.sealed is not None:
                return self._sealed_anew(opened.sealed)
            return pack_records(one for one in members(self._resolver, opened) if one.hash not in self._dropped)
        except ConvfsError:
            # as damaged as what a scan calls so
            return []

    def _sealed_anew(self, group: SealedGroup) -> list[tuple[bytes, list[Hash]]]:
        sealing = group.without(self._dropped.__contains__)
        return [_done(sealing.finish())] if sealing.size else []


def _done(steps: Generator[object, None, tuple[bytes, list[Hash]]]) -> tuple[bytes, list[Hash]]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            record: tuple[bytes, list[Hash]] = end.value
            return record
