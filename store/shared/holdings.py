"""Holdings: what a replica has of the packs of its space.

What other machines bring is *filed* by its names, in packs with numbers from REMOTE on, and fetched when it is read
(``store.shared.cache``). Small packs, and those of earlier versions, are taken whole, into the packs of this machine;
what it has brought itself lies there anyway.

Packs go, too. What is left of a doomed one has been published again before: it is filed there, unless all of it lies
here, and the doomed one is forgotten, when this machine collects, or when somebody reads from one whose object is gone
already.

What is known of a filed pack is kept in the index, with its names. An index that was made anew has neither, and all is
filed once more.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence

import msgspec

from store import typed
from store.commit.intake import Intake
from store.disk.head_format import Dropped
from store.disk.pack import PackRemoved
from store.errors import Away, DamageError, Missing, StoreFailed
from store.ids import hash_key
from store.paths import REMOTE, pack_name
from store.shared.cache import Cache
from store.shared.packs import PackNote, Packs, decode_note, records_of
from store.shared.published import PublishedFile

_KNOWN_PACKS = 64
_TAKEN = "taken"
"""In the index, the last pack of the space that is filed there."""


class Holdings:
    """The packs of a space as one replica has them. ``connected`` returns those that the space has now."""

    def __init__(
        self, intake: Intake, published: PublishedFile, cache: Cache, connected: Callable[[], Packs]
    ) -> None:
        self.cache = cache
        """Parts of the packs that only the space has."""
        self._intake = intake
        self._index = intake.writer.index
        self._published = published
        self._connected = connected
        self._replacing = threading.Lock()
        self._own: set[int] = set()
        """The packs that were published by this process."""
        self._keys: dict[int, array[int]] = {}
        """The keys of the blobs in packs that were taken last, by the packs' numbers."""
        taken = max(published.now.whole, min(published.now.taken, self._index.db.number(_TAKEN)))
        self.incomplete = taken != published.now.taken
        """True as long as what was filed once is to be filed again."""
        if self.incomplete:
            published.note(taken=taken)
        cache.fetch = self._fetch
        cache.made_ns = self._made_ns

    def own(self, number: int) -> None:
        """Note that all that is in a pack lies in the packs of this machine, too."""
        self._own.add(number)

    def check(self, packs: Packs) -> None:
        """See that packs have the numbers by which they are filed: once a space was repaired, others may have them."""
        filed = self._index.remote()
        if not filed:
            return
        last = max(filed)
        now = packs.record(last - REMOTE)
        if now.value and decode_note(now).key in ("", _read(filed[last]).key):
            return
        self._forget(list(filed))
        self._published.note(taken=0, whole=0)
        self.incomplete = True

    def take(self, packs: Packs) -> None:
        """Take the packs that others have published. Raises DamageError, StoreFailed."""
        taken = self._published.now.taken
        try:
            while noted := packs.notes(taken):
                for number, note in noted:
                    if number in self._own:
                        self._own.discard(number)
                        if note.again and self._intake.doomed:
                            self._keep(number, packs.keys(number))
                    elif not note.doomed_ms and not (note.again and self._is_here(packs, number)):
                        self._take(packs, number, note)
                    taken = number
            self.incomplete = False
        finally:
            # also those before one that cannot be taken: they are filed by now
            if taken > self._published.now.taken:
                self._intake.sync()
                self._index.db.set_state(_TAKEN, taken)
                self._published.note(taken=taken)

    def _is_here(self, packs: Packs, number: int) -> bool:
        """Return whether all that is in a pack lies in the packs of this machine, and stays there."""
        keys, doomed = packs.keys(number), self._intake.doomed
        here = not any(key in doomed for key in keys) and self._index.has_here(keys)
        if here:
            self._keys[number] = keys
        return here

    def _keep(self, number: int, keys: array[int]) -> None:
        """Note what the space holds, dropped before or not."""
        self._keys[number] = keys
        self._intake.doomed.restore(keys)

    def _take(self, packs: Packs, number: int, note: PackNote) -> None:
        if note.names:
            self._file(packs, number, note)
            return
        data = packs.data(number, note)
        if data is None:
            return
        records = records_of(data, number)
        self._intake.adopt(records)
        self._keep(number, array("q", [hash_key(name) for _record, names in records for name in names]))

    def _file(self, packs: Packs, number: int, note: PackNote) -> None:
        """File what is in a pack by its names, unless it is doomed."""
        named = packs.named(number, note)
        if named is None:
            return
        places = [place for one in named for place in one.places()]
        self._index.add_remote(REMOTE + number, places, note.length, msgspec.json.encode(note).decode())
        self._keep(number, array("q", [key for key, _offset, _member in places]))

    def drop(self, one: Dropped, packs: Packs) -> None:
        """Have what the space drops count as missing, but for what is in packs that have come since."""
        keys = set(array("q", one.keys))
        for number in [number for number in self._keys if number <= one.packs]:
            # the packs that count are later ones each time
            del self._keys[number]
        for number in range(one.packs + 1, packs.known(packs.reached) + 1):
            if number not in self._keys:
                # one of this machine, or of before it was started
                self._keys[number] = packs.keys(number)
            keys.difference_update(self._keys[number])
        self._intake.drop(keys)

    def register(self, packs: Packs) -> None:
        """Give packs that are filed here, and of which a space has lost the records, new ones, if they are there."""
        known = {note.key for _number, note in packs.notes()}
        for _pack, note in sorted(self.filed().items()):
            if note.key not in known and packs.is_there(note):
                packs.register(note)

    def tidy(self) -> None:
        """Keep little in memory of what was taken."""
        for number in sorted(self._keys)[:-_KNOWN_PACKS]:
            del self._keys[number]

    # -- those that only the space has -----------------------------------------------------------------------------

    def filed(self) -> dict[int, PackNote]:
        """Return the packs that only the space has, by the numbers that they have in the index."""
        return {pack: _read(note) for pack, note in self._index.remote().items()}

    def needs(self, pack: int) -> dict[int, bytes]:
        """Return the keys of what the records of a pack are made from, by their offsets. Raises DamageError.

        Unreachable if the space cannot be asked.
        """
        packs = self._connected()
        noted = self._index.remote_note(pack)
        named = packs.named(pack - REMOTE, _read(noted)) if noted is not None else None
        if named is None:
            raise DamageError(f"{pack_name(pack)} went meanwhile: try again")
        return {one.offset: one.needs for one in named}

    def _fetch(self, pack: int, offset: int, length: int) -> bytes:
        """Return a part of a pack; see :class:`Cache`."""
        try:
            packs = self._connected()
            noted = self._index.remote_note(pack)
            if noted is not None:
                try:
                    return packs.part(_read(noted), offset, length)
                except Missing:
                    self._replace(packs, pack)
        except StoreFailed as error:
            raise Away(f"{pack_name(pack)} is not here: {error}") from error
        raise PackRemoved(f"{pack_name(pack)} is gone")

    def _made_ns(self, pack: int) -> int:
        noted = self._index.remote_note(pack)
        return _read(noted).made_ms * 1_000_000 if noted is not None else 0

    def _replace(self, packs: Packs, pack: int) -> None:
        """File what is left of a pack whose object is gone where it lies now. Raises DamageError if it is lost."""
        number = pack - REMOTE
        with self._replacing:
            filed = self._index.remote()
            if pack not in filed:
                return
            if not packs.note(number).doomed_ms:
                raise DamageError(f"pack {number} of the space is gone: put it back from a backup of it")
            for other, note in packs.notes(number):
                if note.again and REMOTE + other not in filed:
                    self._file(packs, other, note)
            self._forget([pack])

    def forget_doomed(self) -> None:
        """Forget the packs that are doomed, once all were taken: others have what is left of them."""
        filed = self._index.remote()
        if filed:
            notes = self._connected().notes()
            self._forget([REMOTE + number for number, note in notes if note.doomed_ms and REMOTE + number in filed])

    def bring_all(self) -> None:
        """Write all that only the space has to the packs of this machine. Raises StoreFailed, DamageError."""
        while filed := self._index.remote():
            packs = self._connected()
            for pack in filed:
                number = pack - REMOTE
                note = packs.note(number)
                data = packs.data(number, note) if note.key else None
                if data is None:
                    self._replace(packs, pack)
                    continue
                self._intake.adopt(records_of(data, number), again=True)
                self._intake.sync()
                self._forget([pack], overwrite=True)

    def _forget(self, numbers: Sequence[int], *, overwrite: bool = False) -> None:
        if numbers:
            self._index.forget_packs(numbers)
            self.cache.forget(frozenset(numbers).__contains__, overwrite=overwrite)


def _read(note: str) -> PackNote:
    try:
        return typed.decode(note.encode(), PackNote)
    except msgspec.DecodeError as error:
        raise DamageError(f"what the index says of a pack of the space makes no sense: {error}") from None
