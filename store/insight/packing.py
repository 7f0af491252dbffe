"""What lies in the packs, by how it is compressed; each record is looked at once."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct, structs

from store.disk.blob_format import Compression, Record, record_size
from store.disk.file_header import HEADER_SIZE
from store.errors import ConvfsError
from store.index.database import Database
from store.index.sums import sum_of
from store.store import Store

_BYTES_AT_ONCE = 4 << 20


class PackSum(Struct, frozen=True):
    """Records of one compression: how many, what they hold when they are decompressed, and what they store."""

    records: int = 0
    body_bytes: int = 0
    stored_bytes: int = 0

    def and_(self, other: PackSum) -> PackSum:
        """Return the sum of both."""
        pairs = zip(structs.astuple(self), structs.astuple(other), strict=True)
        return PackSum(*(one + another for one, another in pairs))


class PackSums:
    """Sums up the packs of one store. Safe to call from any thread; one sums up, the others wait."""

    def __init__(self, store: Store, db: Database) -> None:
        self._store = store
        self._db = db
        self._lock = threading.Lock()

    def by_compression(self) -> dict[Compression, PackSum]:
        """Return the sums over all packs, as far as they have been looked at."""
        found: dict[Compression, PackSum] = defaultdict(PackSum)
        for row in self._db.query("SELECT * FROM pack_sums"):
            _pack, compression, *sums = self._db.checked("pack_sums", row)
            kind = Compression(compression)
            found[kind] = found[kind].and_(PackSum(*sums))
        return found

    def sum_some(self) -> bool:
        """Look at some records; return whether there is more to look at."""
        with self._lock:
            there = self._ends()
            summed = self._summed()
            for gone in summed.keys() - there.keys():
                self._file(gone, 0, {})
            for pack, end in there.items():
                start = summed.get(pack, HEADER_SIZE)
                if start < end:
                    self._sum(pack, start, end)
                    return True
            return False

    @property
    def behind(self) -> bool:
        """Whether there is something that was not looked at."""
        return self._ends() != self._summed()

    def _ends(self) -> dict[int, int]:
        """Return how long each pack is that holds anything."""
        ends: dict[int, int] = {}
        for pack in self._store.files.packs.numbers():
            with suppress(FileNotFoundError):
                # others may have just removed it
                ends[pack] = self._store.files.packs.length(pack)
        return {pack: end for pack, end in ends.items() if end > HEADER_SIZE}

    def _summed(self) -> dict[int, int]:
        """Return up to where packs were looked at."""
        rows = self._db.query("SELECT * FROM packs")
        return {pack: end for pack, end in (self._db.checked("packs", row) for row in rows)}

    def _sum(self, pack: int, start: int, stop: int) -> None:
        sums = {kind: one for kind, one in self._of_pack(pack).items() if start > HEADER_SIZE}
        end = start
        for _pack, offset, found in self._store.files.packs.scan((pack, start), (pack,)):
            if offset - start >= _BYTES_AT_ONCE:
                break
            if not isinstance(found, Record):
                end = offset + found.length
                continue
            end = offset + record_size(len(found.stored))
            kind = found.compression
            try:
                size = self._store.resolver.body_size(found)
            except ConvfsError:
                continue
            one = PackSum(1, size, len(found.stored))
            sums[kind] = sums.get(kind, PackSum()).and_(one)
        # what cannot be read at all is not looked at again and again
        self._file(pack, end if end > start else stop, sums)

    def _of_pack(self, pack: int) -> dict[Compression, PackSum]:
        rows = self._db.query("SELECT * FROM pack_sums WHERE pack = ?", (pack,))
        checked = (self._db.checked("pack_sums", row) for row in rows)
        return {Compression(kind): PackSum(*sums) for _pack, kind, *sums in checked}

    def _file(self, pack: int, end: int, sums: Mapping[Compression, PackSum]) -> None:
        rows = [(pack, int(kind), *structs.astuple(one)) for kind, one in sums.items()]
        with self._db.writing() as sql:
            sql.execute("DELETE FROM pack_sums WHERE pack = ?", (pack,))
            sql.execute("DELETE FROM packs WHERE number = ?", (pack,))
            if end:
                sql.executemany(
                    "INSERT INTO pack_sums VALUES (?, ?, ?, ?, ?, ?)", [(*row, sum_of(row)) for row in rows]
                )
                sql.execute("INSERT INTO packs VALUES (?, ?, ?)", (pack, end, sum_of((pack, end))))
