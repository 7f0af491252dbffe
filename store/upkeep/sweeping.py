"""The *sweep* of a collection: which packs it pays to rewrite, and rewriting them without what is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter

from store.content.names import members_of, names_of
from store.disk.blob_format import OVERHEAD
from store.disk.file_header import HEADER_SIZE
from store.disk.pack import PackSet
from store.disk.pack_files import Place
from store.errors import ConvfsError, DamageError
from store.ids import Hash, hash_key
from store.upkeep.reachable import Reachable
from store.upkeep.rewriting import Rewriting
from store.upkeep.sealing import Sealed, Sealer

_RUN_BYTES = 128 << 20
_RECORDS_AT_ONCE = 64


class _Doomed(Collection[Hash]):
    """What is not to be written anew: garbage, and blobs of which there is a copy elsewhere."""

    def __init__(self, found: Reachable, elsewhere: Collection[int]) -> None:
        self._found = found
        self._elsewhere = elsewhere

    def __contains__(self, digest: object) -> bool:
        if not isinstance(digest, bytes):
            return False
        key = hash_key(digest)
        return key in self._found or key in self._elsewhere

    def __iter__(self) -> Iterator[Hash]:
        raise TypeError("these blobs are known by parts of their names")

    def __len__(self) -> int:
        raise TypeError("nobody has counted these blobs")


class Sweep:
    """One sweep of the packs ``cold``, of what is not ``found`` to be reached.

    ``garbage`` and ``repeated`` are bytes by pack: of blobs that are not reached, and of further copies of others.
    ``blobs`` says how many of the former there are, ``damaged`` which packs could not be rewritten.
    """

    def __init__(
        self,
        packs: PackSet,
        rewriting: Rewriting,
        sealer: Sealer,
        found: Reachable,
        cold: Collection[int],
        dictionaries: Collection[Hash],
    ) -> None:
        self.garbage: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        self.blobs = 0
        self.chosen: list[int] = []
        self.damaged: list[str] = []
        self._packs = packs
        self._rewriting = rewriting
        self._sealer = sealer
        self._found = found
        self._cold = frozenset(cold)
        # these lie in the packs twice, so that one damaged block does not take very much with it
        self._twice = frozenset(map(hash_key, dictionaries))
        self._elsewhere: set[int] = set()
        self._doomed = _Doomed(found, self._elsewhere)

    def measure(self) -> Generator[None, None, None]:
        """Find out how much of which packs is left over."""
        self.blobs, left = self._found.left()
        _every, kept = self._found.rows(())
        yield
        for pack, places in groupby(map(self._found.place, left), key=itemgetter(0)):
            if kept[pack]:
                yield from self._measure(places, self.garbage)
            else:
                self.garbage[pack] = self._packs.length(pack) - HEADER_SIZE
        again = [place for key, places in self._found.repeated() if key not in self._twice for place in places[1:]]
        yield from self._measure(map(self._found.place, sorted(again)), self.repeated)

    def _measure(self, places: Iterable[Place], sizes: Counter[int]) -> Generator[None, None, None]:
        """Add up what the blobs at some places take, each a part of its record as large as any other."""
        counted = ((place, sum(1 for _ in same)) for place, same in groupby(places))
        while some := dict(islice(counted, _RECORDS_AT_ONCE)):
            yield
            for (pack, offset), record in self._packs.read_many(list(some)):
                if isinstance(record, ConvfsError):
                    continue
                size = OVERHEAD + len(record.stored)
                sizes[pack] += size * min(some[pack, offset], members_of(record)) // members_of(record)

    def choose(self, least_part: float) -> Generator[None, None, None]:
        """Choose packs of which ``least_part`` or more is left over. What the others hold stays, with all it needs."""
        packs, found = self._packs, self._found
        for pack in sorted(self._cold):
            left = self.garbage[pack] + self.repeated[pack]
            if left and left >= least_part * packs.length(pack) and pack not in self._sealer.damaged:
                self.chosen.append(pack)
        if not self.chosen:
            return
        rest = frozenset(packs.numbers()).difference(self.chosen)
        found.reach_packs(rest)
        yield from found.expand()
        yield from self._look_elsewhere(rest)
        every, kept = found.rows(self._elsewhere)
        self.chosen = [pack for pack in self.chosen if kept[pack] < every[pack] or not every[pack]]

    def _look_elsewhere(self, rest: Collection[int]) -> Generator[None, None, None]:
        """Find out which blobs can be read in the packs that stay, and need not be kept in the chosen ones."""
        copies: dict[Place, set[int]] = {}
        for key, places in self._found.repeated():
            for place in map(self._found.place, places):
                if place[0] in rest and key not in self._twice:
                    copies.setdefault(place, set()).add(key)
        ordered = iter(sorted(copies))
        while some := list(islice(ordered, _RECORDS_AT_ONCE)):
            yield
            for place, record in self._packs.read_many(some):
                with suppress(ConvfsError):
                    if not isinstance(record, ConvfsError):
                        self._elsewhere |= copies[place].intersection(map(hash_key, names_of(record)))

    def spare(self, keys: Collection[int]) -> None:
        """Keep some blobs, by their keys, and what they need."""
        for key in keys:
            self._found.reach_key(key)
        for _pause in self._found.expand():
            pass

    def removed(self) -> list[int]:
        """Return those of the chosen packs in which nothing is to be kept."""
        _every, kept = self._found.rows(self._elsewhere)
        return [pack for pack in self.chosen if not kept[pack]]

    def run(self, *, quick: bool) -> Generator[None, None, tuple[int, int, int]]:
        """Sweep the chosen packs; return how many were removed and rewritten, and how many bytes that has freed.

        ``quick``: as of :meth:`Sealer.reseal`.
        """
        packs = self._packs
        whole = self.removed()
        removed = rewritten = freed = 0
        for pack in whole:
            yield
            size = packs.length(pack)
            try:
                self._rewriting.switch([], {}, [pack], dropped=self._doomed)
            except DamageError as error:
                self.damaged.append(str(error))
                continue
            removed += 1
            freed += size
        for some in self._batches([pack for pack in self.chosen if pack not in whole]):
            numbers = some
            while numbers:
                try:
                    sealed = yield from _paused(
                        self._sealer.reseal(numbers, self._doomed, overwrite=False, quick=quick)
                    )
                except DamageError as error:
                    self.damaged.append(str(error))
                    numbers = [pack for pack in numbers if pack not in self._sealer.damaged]
                    if len(numbers) == len(some):
                        raise
                    continue
                rewritten += len(numbers)
                freed += sealed.bytes_before - sealed.bytes_after
                break
        return removed, rewritten, freed

    def _batches(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Yield packs to be rewritten together."""
        some: list[int] = []
        size = 0
        for pack in numbers:
            some.append(pack)
            size += self._packs.length(pack)
            if size >= _RUN_BYTES:
                yield some
                some, size = [], 0
        if some:
            yield some


def _paused(steps: Generator[int, None, Sealed]) -> Generator[None, None, Sealed]:
    """Go through ``steps``, wherever they have come."""
    try:
        while True:
            next(steps)
            yield
    except StopIteration as end:
        sealed: Sealed = end.value
        return sealed
    finally:
        steps.close()
