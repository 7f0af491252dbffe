"""Packs without what held secrets: what was grouped with it is grouped anew, what was a delta against it lies whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence

from msgspec import Struct

from store.content.compression import Member, pack_records
from store.content.names import names_of
from store.content.resolver import Resolver
from store.content.sealed import SealedGroup
from store.content.sealing import Sealing
from store.disk.blob_format import Compression, Form, Record, encode_record
from store.disk.file_header import HEADER_SIZE
from store.disk.pack import PackSet
from store.disk.pack_files import PackWriter
from store.errors import ConvfsError
from store.ids import HASH_SIZE, Hash
from store.index.index import Place
from store.redaction.survey import Bodies

_LEANING = (Compression.GROUP_DICT, Compression.ZSTD_DICT, Compression.DELTA)
"""Records that begin with the name of the blob that they need."""


class Rewritten(Struct):
    """New packs, finished: where everything in them lies, how long they are, and which packs they were made from."""

    places: list[tuple[Hash, Place]] = []
    packs: dict[int, int] = {}
    replaced: list[int] = []


class PackRewriting:
    """Writes packs once more without blobs that are ``dropped``, and without ``dictionaries`` that are not to be used.

    ``begin`` begins a pack.
    """

    def __init__(
        self,
        resolver: Resolver,
        begin: Callable[[], PackWriter],
        dropped: Collection[Hash],
        dictionaries: Collection[Hash],
    ) -> None:
        self._resolver = resolver
        self._bodies = Bodies(resolver)
        self._begin = begin
        self._dropped = dropped
        self._dictionaries = dictionaries
        self.done = Rewritten()

    def rewrite(self, packs: PackSet, numbers: Sequence[int], holding: Collection[int]) -> None:
        """Rewrite those of some cold packs that have anything which must go; the index says that ``holding`` do."""
        for number in numbers:
            records = (found for _, _, found in packs.scan(numbers=(number,)) if isinstance(found, Record))
            if number in holding or any(map(self._leans, records)):
                self._rewrite(packs, number)

    def _rewrite(self, packs: PackSet, number: int) -> None:
        writer = self._begin()
        try:
            for _pack, _offset, found in packs.scan(numbers=(number,)):
                # what cannot be read may hold anything, and nobody can read it
                if isinstance(found, Record):
                    for record, blobs in self._anew(found):
                        pack, offset = writer.append(record)
                        self.done.places += [(blob, (pack, offset, member)) for member, blob in enumerate(blobs)]
        except BaseException:
            writer.abandon()
            raise
        self.done.replaced.append(number)
        if writer.length == HEADER_SIZE:
            writer.abandon()
            return
        writer.finish()
        self.done.packs[writer.number] = writer.length

    def _leans(self, record: Record) -> bool:
        """Say whether a record needs something that is to go in order to be read."""
        if record.compression in _LEANING:
            needed = Hash(bytes(record.stored[:HASH_SIZE]))
            return needed in self._dropped or needed in self._dictionaries
        return False

    def _anew(self, record: Record) -> list[tuple[bytes, list[Hash]]]:
        """Return what is left of a record: itself, or records of the blobs that stay."""
        try:
            names = names_of(record)
            if not (self._leans(record) or any(name in self._dropped for name in names)):
                return [(encode_record(record.codec, record.raw_len, record.hash, record.stored), names)]
            opened = self._resolver.open(record)
            if opened.sealed is not None:
                return self._sealed_anew(opened.sealed)
            return pack_records(
                Member(digest, form, opened.members[digest][1], body)
                for digest, form, body in self._bodies.of(opened)
                if digest not in self._dropped
            )
        except ConvfsError:
            # as damaged as what a scan calls so
            return []

    def _sealed_anew(self, group: SealedGroup) -> list[tuple[bytes, list[Hash]]]:
        sealing = Sealing()
        for member in group.members():
            if member.hash in self._dropped:
                continue
            if member.form == Form.SKELETON:
                sealing.add_record(member)
            else:
                sealing.add_content(member)
        return [_done(sealing.finish())] if sealing.size else []


def _done(steps: Generator[object, None, tuple[bytes, list[Hash]]]) -> tuple[bytes, list[Hash]]:
    """Return what comes of work that could be done in steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            record: tuple[bytes, list[Hash]] = end.value
            return record
