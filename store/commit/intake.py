"""Blobs on their way into the packs: cut, deduplicated, grouped.

An append takes its payload along in its journal entry, whole: cutting and looking for twins can wait for the
checkpoint. An import would push every byte through the journal for nothing, so it writes to the packs at once, and
only its turns are journalled, after the packs are synced. Both do it by a :class:`Load`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from store.commit.blob_source import StoredBlobs
from store.commit.load import Load
from store.commit.pending import Pending
from store.commit.reliance import Region, Reliance
from store.commit.versions import Versions
from store.commit.writer import Writer
from store.content.resolver import Resolver
from store.errors import ConvfsError
from store.ids import Hash
from store.index.index import Place

_REMEMBERED = 100_000
_CACHE_BYTES = 8 << 20


class Intake:
    """Knows for one store which blobs it holds, and begins loads. Safe to share between threads."""

    def __init__(self, writer: Writer, resolver: Resolver, inline_limit: int) -> None:
        self.writer = writer
        self.resolver = resolver
        self.inline_limit = inline_limit
        names = writer.index.dictionaries()
        self._dictionary_name = names[-1][1] if names else None
        self._dictionary: tuple[Hash, bytes] | None = None
        # what waits in the journal must not vouch for what lies in the packs
        self._packed = Resolver(StoredBlobs(Pending(writer.journal), writer.index, writer.packs), _CACHE_BYTES)
        self._sound: dict[Hash, None] = {}
        self._earlier: dict[Hash, Hash] = {}
        self._packer = ThreadPoolExecutor(1, "convfs-packing")
        self._append_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self.reliance = Reliance()
        """Who relies on which blobs."""
        self._unfiled: list[tuple[Hash, Place]] = []
        self._written: set[Hash] = set()
        """Those of ``_unfiled``."""

    def held(self, digests: Sequence[Hash], region: Region) -> set[Hash]:
        """Return those blobs that the store has, intact, in a pack or in the journal, or will have after a sync."""
        pending, written = self.writer.pending, self._written
        # these are on their way into the last pack: no sweep touches that
        waiting = {digest for digest in digests if digest in written or digest in pending}
        self.reliance.note(region, waiting)
        return waiting | self.packed([digest for digest in digests if digest not in waiting], region)

    def packed(self, digests: Sequence[Hash], region: Region) -> set[Hash]:
        """Return those blobs that a pack has, intact: a damaged one is not deduplicated onto, it is written anew.

        They stay as long as ``region`` is held.
        """
        while True:
            epoch = self.reliance.epoch
            sound = {digest for digest in digests if digest in self._sound}
            for digest in self.writer.index.locate([digest for digest in digests if digest not in sound]):
                try:
                    self._packed.check(digest)
                except ConvfsError:
                    continue
                sound.add(digest)
            noted = self.reliance.note(region, sound, epoch)
            if noted is not None:
                for digest in noted:
                    self.remember(digest)
                return noted

    def remember(self, digest: Hash) -> None:
        """Note that the blob was seen intact in a pack (for a while: the memory is bounded)."""
        if len(self._sound) >= _REMEMBERED:
            self._sound = {}
        self._sound[digest] = None

    def load(self) -> Load:
        """Begin to write blobs straight into the packs. They are compressed beside whoever brings them.

        Until the load is let go of, nothing is dropped that it has written, or found to be there. Whoever lets go of it
        before the commit that names its blobs does both within ``reliance.relying()``.
        """
        return Load(self, self.held, self._packer)

    def repack(self) -> Load:
        """Begin to move blobs from the journal into the packs."""
        return Load(self, self.packed)

    def close(self) -> None:
        """End what compresses."""
        self._packer.shutdown()

    # -- versions --------------------------------------------------------------------------------------------------

    @property
    def earlier(self) -> Mapping[Hash, Hash]:
        """Which payload each of those that wait in the journal takes the place of, where that was said."""
        return self._earlier

    def note_earlier(self, earlier: Mapping[Hash, Hash]) -> None:
        """Note of payloads that are about to be journalled what they take the place of."""
        if len(self._earlier) >= _REMEMBERED:
            self._earlier = {}
        self._earlier.update(earlier)

    def forget_earlier(self, digests: Iterable[Hash]) -> None:
        """Forget about payloads that were packed."""
        for digest in digests:
            self._earlier.pop(digest, None)

    def versions(self, there: Callable[[Hash], bool]) -> Versions:
        """Begin to store deltas."""
        return Versions(self.resolver, self._packed, self.inline_limit, there)

    # -- the dictionary --------------------------------------------------------------------------------------------

    @property
    def has_dictionary(self) -> bool:
        """Whether the store has a dictionary, readable or not."""
        return self._dictionary_name is not None

    def dictionary(self) -> tuple[Hash, bytes] | None:
        """Return what small groups are compressed with, hash and bytes; None if there is none, or it is damaged."""
        if self._dictionary is None and self._dictionary_name is not None:
            try:
                self.use_dictionary(self._dictionary_name, self.resolver.blob(self._dictionary_name))
            except ConvfsError:
                return None
        return self._dictionary

    def use_dictionary(self, digest: Hash, data: bytes) -> None:
        """Compress small groups with a dictionary from now on; it is in the packs and registered."""
        self._dictionary_name = digest
        self._dictionary = (digest, data)

    def use_no_dictionary(self) -> None:
        """Compress small groups without a dictionary from now on, until there is a new one."""
        self._dictionary_name = self._dictionary = None

    # -- packs -----------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[tuple[bytes, list[Hash]]], region: Region) -> None:
        """Append records, each with the hashes of its blobs, to the packs. Raises StoreFailed.

        But for those that somebody else has written since they were looked for: what many bring at once is there once.
        """
        writer = self.writer
        writer.check()
        try:
            with self._append_lock:
                new = [one for one in records if not self._are_there(one[1], region)]
                at = writer.packs.append([record for record, _hashes in new])
                for _record, hashes in new if writer.replaced else ():
                    writer.replaced.written(hashes)
                for (pack, offset), (_record, hashes) in zip(at, new, strict=True):
                    self._unfiled += [(digest, (pack, offset, member)) for member, digest in enumerate(hashes)]
                    self._written.update(hashes)
                    self.reliance.note(region, hashes)
        except Exception as error:
            raise writer.fail(error) from error
        except BaseException:
            # interrupted (Ctrl-C): what lies in the packs may never be filed
            writer.index.db.damaged = True
            raise

    def sync(self) -> None:
        """Bring everything that was written to disk, and file it. Raises StoreFailed."""
        writer = self.writer
        if not self._unfiled:
            return
        writer.check()
        try:
            # whoever comes first does it for all
            with self._sync_lock:
                with self._append_lock:
                    places = self._unfiled[:]
                    end = writer.packs.end
                if places:
                    writer.packs.sync()
                    packs = {number: writer.packs.length(number) for number in {place[0] for _digest, place in places}}
                    # there may be more in the last by now
                    writer.index.add_blobs(places, packs | dict((end,)))
                    with self._append_lock:
                        del self._unfiled[: len(places)]
                        for digest, _place in places:
                            self.remember(digest)
                        self._written = {digest for digest, _place in self._unfiled}
        except Exception as error:
            raise writer.fail(error) from error

    def cold(self, *, roll: bool) -> list[int]:
        """Return the packs that nothing is written to any more and all of whose blobs are filed.

        With ``roll``, these are all that there are now.
        """
        packs = self.writer.packs
        self.writer.check()
        try:
            with self._append_lock:
                if roll:
                    packs.roll()
                found = packs.cold()
        except Exception as error:
            raise self.writer.fail(error) from error
        self.sync()
        return found

    def touch(self, digest: Hash) -> None:
        """Have a blob that nothing names yet count as written just now."""
        self.reliance.last(digest)
        for pack, _offset, _member in self.writer.index.locate([digest]).get(digest, ()):
            self.writer.packs.touch(pack)

    def forget_packed(self) -> None:
        """Forget which blobs were seen intact in packs."""
        self._sound = {}

    def _are_there(self, digests: Sequence[Hash], region: Region) -> bool:
        epoch = self.reliance.epoch
        if not all(digest in self._written or digest in self._sound for digest in digests):
            return False
        noted = self.reliance.note(region, digests, epoch)
        return noted is not None and len(noted) == len(set(digests))
