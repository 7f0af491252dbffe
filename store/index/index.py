"""The index: what the logs and packs say, filed for look-up.

:meth:`Index.apply` takes the frames of the head log in order, live and when rebuilding alike, so that an index made
anew equals one that grew.
"""

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import store.disk.head_format as heads
from store.disk import durable
from store.errors import DamageError
from store.ids import Hash, hash_key, type_tag
from store.index.database import Database
from store.index.filing import file_frames
from store.index.places import Place as Place
from store.index.places import Places
from store.index.schema import DERIVED_FROM_LOGS
from store.index.sums import sum_of

_LOOKUPS_AT_ONCE = 500
_ROWS_AT_ONCE = 20_000
_LEAST_KEY, _GREATEST_KEY = -(1 << 63), (1 << 63) - 1
_NONE: Mapping[int, int] = {}


class Index:
    """``index.db`` of one store; ``boot`` as of :class:`Database`."""

    def __init__(self, path: Path, boot: str = "") -> None:
        """Open the index. Raises DamageError if the file is no database."""
        # for its owner alone, as every file of a store
        os.close(durable.open_file(path, create=True))
        self.db = Database(path, boot)

    @property
    def usable(self) -> bool:
        """Whether the tables are of this version and nothing can be missing (else the index must be rebuilt)."""
        return self.db.trusted and self.db.current

    def close(self, *, sync: bool = False) -> None:
        """Close the database, see there."""
        self.db.close(sync=sync)

    # -- blobs ---------------------------------------------------------------------------------------------------

    def add_blobs(self, places: Iterable[tuple[Hash, Place]], packs: Mapping[int, int] = _NONE) -> None:
        """File where blobs lie. Of ``packs``, by number, all blobs up to this length are filed then."""
        rows = [(hash_key(digest), *place) for digest, place in places]
        if rows or packs:
            with self.db.writing() as sql:
                _add(sql, rows, packs)

    def packs(self) -> dict[int, int]:
        """Return up to where each pack is filed."""
        rows = self.db.query("SELECT * FROM packs")
        return {number: length for number, length in (self.db.checked("packs", row) for row in rows)}

    def replace_packs(self, places: Places, packs: Mapping[int, int], replaced: Sequence[int]) -> None:
        """File what lies in ``packs``, as :meth:`add_blobs`; then count these as filed and ``replaced`` as not.

        The latter is all or nothing. The former is done a part at a time, so that others may write in between. The rows
        of the packs that were replaced stay until :meth:`forget_packs`, and they are filed again if their files should
        still be there when the store is opened.
        """
        rows = places.rows()
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            with self.db.writing() as sql:
                _add(sql, some, {})
        with self.db.writing() as sql:
            _add(sql, [], packs)
            sql.executemany("DELETE FROM packs WHERE number = ?", [(number,) for number in replaced])

    def forget_packs(self, numbers: Sequence[int]) -> None:
        """Drop all rows of packs, a part at a time: others may write in between."""
        marks = ",".join("?" * len(numbers))
        after = _LEAST_KEY
        while True:
            # on a connection of its own, so that nobody waits meanwhile
            row = self.db.one("SELECT key FROM blobs WHERE key >= ? LIMIT 1 OFFSET ?", (after, _ROWS_AT_ONCE))
            up_to = row[0] if row else _GREATEST_KEY
            with self.db.writing() as sql:
                sql.execute(
                    f"DELETE FROM blobs WHERE key BETWEEN ? AND ? AND pack IN ({marks})", (after, up_to, *numbers)
                )
            if row is None:
                break
            # also where very many rows have the same key
            after = max(up_to, after + 1)
        with self.db.writing() as sql:
            sql.executemany("DELETE FROM packs WHERE number = ?", [(number,) for number in numbers])

    def locate(self, digests: Sequence[Hash]) -> dict[Hash, list[Place]]:
        """Return, for each hash, the places that may hold it (usually one; hashes not filed are left out)."""
        if len(digests) == 1:
            places: list[Place] = self.db.query(
                "SELECT pack, offset, member FROM blobs WHERE key = ?", (hash_key(digests[0]),)
            )
            return {digests[0]: places} if places else {}
        keys = {digest: hash_key(digest) for digest in digests}
        wanted = list(set(keys.values()))
        by_key: dict[int, list[Place]] = {}
        for start in range(0, len(wanted), _LOOKUPS_AT_ONCE):
            some = wanted[start : start + _LOOKUPS_AT_ONCE]
            rows = self.db.query(
                f"SELECT key, pack, offset, member FROM blobs WHERE key IN ({','.join('?' * len(some))})", some
            )
            for key, pack, offset, member in rows:
                by_key.setdefault(key, []).append((pack, offset, member))
        return {digest: by_key[key] for digest, key in keys.items() if key in by_key}

    def alias(self, algorithm: str, digest: bytes) -> Hash | None:
        """Return the blob that is also known as ``digest`` in another hash algorithm, None if none is."""
        row = self.db.one("SELECT * FROM aliases WHERE algorithm = ? AND digest = ?", (algorithm, digest))
        return Hash(self.db.checked("aliases", row)[2]) if row else None

    def type_names(self) -> dict[int, str]:
        """Return the names of all registered payload types by tag."""
        return {tag: name for tag, _version, name in self.types()}

    def types(self) -> list[tuple[int, int, str]]:
        """Return (tag, version, name) of all registered payload types, by name and version."""
        rows = self.db.query("SELECT tag, version, name FROM types ORDER BY name, version")
        found = [(tag & 0xFFFF_FFFF_FFFF_FFFF, version, name) for tag, version, name in rows]
        if any(type_tag(name) != tag for tag, _version, name in found):
            raise self.db.damage("a row of types is damaged")
        return found

    def dictionaries(self) -> list[tuple[int, Hash]]:
        """Return (type tag, hash) of the registered compression dictionaries."""
        rows = self.db.query("SELECT tag, hash FROM dictionaries")
        return [(tag & 0xFFFF_FFFF_FFFF_FFFF, Hash(digest)) for tag, digest in rows]

    # -- frames of the head log ----------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The sequence number up to which frames have been applied."""
        value = self.db.state("seq")
        return value if isinstance(value, int) else 0

    def apply(self, frames: Iterable[heads.Frame]) -> None:
        """File what ``frames`` say, all or nothing; they come in the order of the log.

        DamageError where a row that they change is damaged: it stays as it is.
        """
        with self.db.writing() as sql:
            self._file(sql, frames)

    def renew(self, frames: Iterable[heads.Frame]) -> None:
        """File what ``frames``, those of the whole log, say, in the place of all that was filed of it before."""
        with self.db.writing() as sql:
            for table in DERIVED_FROM_LOGS:
                sql.execute(f"DELETE FROM {table}")
            self._file(sql, frames)

    def _file(self, sql: sqlite3.Connection, frames: Iterable[heads.Frame]) -> None:
        try:
            file_frames(sql, frames)
        except DamageError as error:
            raise self.db.damage(str(error)) from None


def _add(sql: sqlite3.Connection, rows: list[tuple[int, int, int, int]], packs: Mapping[int, int]) -> None:
    # in the order in which they lie, so that each page is gone to once
    rows.sort()
    sql.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)", rows)
    sql.executemany(
        "INSERT OR REPLACE INTO packs VALUES (?, ?, ?)", [(*filed, sum_of(filed)) for filed in packs.items()]
    )
