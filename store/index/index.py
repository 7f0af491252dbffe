"""The index: what the logs and packs say, filed for look-up.

:meth:`Index.apply` takes the frames of the head log in order, live and when rebuilding alike, so that an index made
anew equals one that grew.
"""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import store.disk.head_format as heads
from store.disk import durable
from store.errors import DamageError
from store.ids import Hash, hash_key, type_tag
from store.index.database import Database
from store.index.filing import file_frames
from store.index.schema import DERIVED_FROM_LOGS

Place = tuple[int, int, int]
"""Where a blob lies: pack number, offset of the record in it, member of the group (0 if it is none)."""

_LOOKUPS_AT_ONCE = 500


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

    def add_blobs(self, places: Iterable[tuple[Hash, Place]]) -> None:
        """File where blobs lie."""
        rows = [(hash_key(digest), *place) for digest, place in places]
        if rows:
            # in the order in which they lie, so that each page is gone to once
            rows.sort()
            with self.db.writing() as sql:
                sql.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)", rows)

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
