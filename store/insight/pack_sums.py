"""The content of the packs by compression; each record is looked at once."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from store.content.resolver import Resolver
from store.disk.blob_format import Compression, Record, record_size
from store.disk.file_header import HEADER_SIZE
from store.disk.pack import PackSet
from store.errors import ConvfsError
from store.events.usage import combined
from store.index.database import Database, Row
from store.insight.ledger import put

_BYTES_AT_ONCE = 4 << 20
_AGAIN_SECONDS = 3600.0
"""The interval after which unreadable packs are tried again: the disk may have failed for a moment."""


class PackSum(Struct, frozen=True):
    """Records of one compression: their number, their decompressed size, and their stored size."""

    records: int = 0
    body_bytes: int = 0
    stored_bytes: int = 0


class PackSums:
    """Sums up the packs of one store. Safe to call from any thread; one sums up, the others wait."""

    def __init__(self, packs: PackSet, blobs: Resolver, db: Database) -> None:
        self._packs = packs
        self._blobs = blobs
        self._db = db
        self._lock = threading.Lock()
        self._again = 0.0
        """The next time to try unreadable packs, by the monotonic clock."""

    def by_compression(self) -> dict[Compression, PackSum]:
        """Return the sums over all packs, as far as they were looked at."""
        found: dict[Compression, PackSum] = defaultdict(PackSum)
        for _pack, kind, *sums in self._rows("SELECT * FROM pack_sums"):
            found[Compression(kind)] = combined(found[Compression(kind)], PackSum(*sums))
        return found

    def sum_some(self) -> bool:
        """Look at some records; return whether there is more to look at."""
        with self._lock:
            if time.monotonic() >= self._again:
                self._again = time.monotonic() + _AGAIN_SECONDS
                for (pack,) in self._db.query("SELECT number FROM unread_packs"):
                    self._file(pack, 0, {})
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
        """True if there are records that were not looked at."""
        return self._ends() != self._summed()

    def _ends(self) -> dict[int, int]:
        ends: dict[int, int] = {}
        for pack in self._packs.numbers():
            with suppress(FileNotFoundError):
                # others may have just removed it
                ends[pack] = self._packs.length(pack)
        return {pack: end for pack, end in ends.items() if end > HEADER_SIZE}

    def _summed(self) -> dict[int, int]:
        rows = self._db.query("SELECT * FROM packs")
        return dict(self._db.checked("packs", row) for row in rows)

    def _sum(self, pack: int, start: int, stop: int) -> None:
        known = self._rows("SELECT * FROM pack_sums WHERE pack = ?", (pack,)) if start > HEADER_SIZE else ()
        sums = {Compression(kind): PackSum(*of_kind) for _pack, kind, *of_kind in known}
        end, unread = start, False
        for _pack, offset, found in self._packs.scan((pack, start), (pack,)):
            if offset - start >= _BYTES_AT_ONCE:
                break
            if not isinstance(found, Record):
                unread = True
                end = offset + found.length
                continue
            end = offset + record_size(len(found.stored))
            kind = found.compression
            try:
                size = self._blobs.open(found).size
            except ConvfsError:
                unread = True
                continue
            sums[kind] = combined(sums.get(kind, PackSum()), PackSum(1, size, len(found.stored)))
        # a pack that cannot be read at all is not tried again and again
        self._file(pack, end if end > start else stop, sums, unread=unread)

    def _rows(self, query: str, values: Sequence[object] = ()) -> Iterator[Row]:
        return (self._db.checked("pack_sums", row) for row in self._db.query(query, values))

    def _file(self, pack: int, end: int, sums: Mapping[Compression, PackSum], *, unread: bool = False) -> None:
        with self._db.writing() as sql:
            sql.execute("DELETE FROM pack_sums WHERE pack = ?", (pack,))
            sql.execute("DELETE FROM packs WHERE number = ?", (pack,))
            if unread:
                sql.execute("INSERT OR IGNORE INTO unread_packs VALUES (?)", (pack,))
            elif not end:
                sql.execute("DELETE FROM unread_packs WHERE number = ?", (pack,))
            if end:
                put(sql, "pack_sums", ((pack, int(kind), *structs.astuple(one)) for kind, one in sums.items()))
                put(sql, "packs", [(pack, end)])
