"""The index: the contents of logs and packs, filed for look-up.

:meth:`Index.apply` takes the frames of the head log in order, both live and in a rebuild, so a rebuilt index equals one
that grew.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice, repeat
from pathlib import Path
from threading import RLock, get_ident

import store.disk.head_format as heads
from store.errors import ConvfsError, DamageError, StoreFull
from store.ids import Hash, hash_key, hash_keys, type_tag
from store.index.database import DERIVED_FROM_LOGS, Database, among, put
from store.index.frames import file_frames
from store.index.fresh import KEY_BITS, BlobPlace, Fresh, KeyPlace, Sieve
from store.paths import REMOTE


def places_in(pack: int, offset: int, digests: Sequence[Hash]) -> Iterator[KeyPlace]:
    """Return where the blobs of a record lie, by their position in it."""
    return zip(hash_keys(digests), repeat(pack), repeat(offset), count())


BlobKeyPlace = tuple[int, int, int]
"""Where a blob lies within one pack: the key of its hash, offset of the record, member of the group."""


_PARTS, _PART_BITS = 256, 8


class Places:
    """Blobs, by the first eight bytes of their hashes, and their places.

    They are sorted a part of the keys at a time: to sort very many at once would hold up every other thread.
    """

    def __init__(self, places: Iterable[tuple[Hash, BlobPlace]] = ()) -> None:
        self._keys = array("q")
        self._packs = array("Q")
        self._offsets = array("Q")
        self._members = array("I")
        self._parts = [array("Q") for _ in range(_PARTS)]
        """The positions of the keys that begin alike, in the order of these beginnings."""
        self._sorted = [array("q") for _ in range(_PARTS)]
        for digest, place in places:
            self.add(digest, place)

    def add(self, digest: Hash, place: BlobPlace) -> None:
        """Add the place of a blob."""
        self.file(hash_key(digest), place)

    def file(self, key: int, place: BlobPlace) -> None:
        """Add the place of a blob by its key."""
        pack, offset, member = place
        self._parts[_part(key)].append(len(self._keys))
        self._keys.append(key)
        self._packs.append(pack)
        self._offsets.append(offset)
        self._members.append(member)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, digest: Hash) -> bool:
        """Return whether a blob is one of them, going by the first eight bytes of its hash."""
        key = hash_key(digest)
        part = _part(key)
        found = self._sorted[part]
        if len(found) != len(self._parts[part]):
            found = self._sorted[part] = array("q", sorted(map(self._keys.__getitem__, self._parts[part])))
        at = bisect_left(found, key)
        return at < len(found) and found[at] == key

    def rows(self) -> Iterator[KeyPlace]:
        """Yield all of them, in the order of the keys."""
        for part in self._parts:
            for at in sorted(part, key=self._keys.__getitem__):
                yield self._keys[at], self._packs[at], self._offsets[at], self._members[at]


def _part(key: int) -> int:
    return (key >> KEY_BITS - _PART_BITS) + _PARTS // 2


_LOOKUPS_AT_ONCE = 500
_ROWS_AT_ONCE = 2000
"""Others that file something wait for so many rows at most."""
_LEAST_KEY, _GREATEST_KEY = -(1 << 63), (1 << 63) - 1
_NONE: Mapping[int, int] = {}
_NO_SKETCHES: Mapping[int, Hash] = {}
_MOST_FRESH = 1 << 16
"""So many rows wait in memory at most: some 3 MB."""
_ROWS_A_PAGE = 100
"""The most rows of blobs in a page of the index."""
_WORTH, _GROWTH = 8, 4
"""A sieve is made once one in so many rows was looked for in vain, for a table that is so many times as large."""
_NOTED, _NOTED_BEYOND = "pack/", "pack0"
"""The beginning of the keys in ``state`` under which it stands what is said of packs, and what is behind them all."""


class Index:
    """``index.db`` of one store; ``boot`` as of :class:`Database`."""

    def __init__(self, path: Path, boot: str = "") -> None:
        """Open the index. Raises DamageError if the file is no database."""
        self.db = Database(path, boot)
        self._gatherers: list[int] = []
        """The threads of those who have rows wait."""
        self._filing = RLock()
        """Held by who files places of blobs."""
        self._fresh = Fresh()
        self._missed = 0
        """How many blobs were looked for in vain since rows wait."""
        self._sieve: Sieve | None = None

    @property
    def usable(self) -> bool:
        """True if the tables are of this version and nothing can be missing; otherwise the index must be rebuilt."""
        return self.db.trusted and self.db.current

    def close(self, *, sync: bool = False) -> None:
        """Close the database, see there."""
        # without room for them, they are filed at the next opening
        with suppress(ConvfsError):
            self.settle()
        self.db.close(sync=sync)

    # -- blobs ---------------------------------------------------------------------------------------------------

    def add_blobs(
        self,
        places: Iterable[KeyPlace],
        packs: Mapping[int, int] = _NONE,
        sketches: Mapping[int, Hash] = _NO_SKETCHES,
        *,
        hold: bool = False,
    ) -> None:
        """File where blobs lie. Of ``packs``, by number, all blobs up to this length are filed then.

        ``sketches`` has the last blob with each feature. ``hold`` as of :meth:`Database.writing`: without, StoreFull
        where that has no room. Within :meth:`gathering` it may be done later.
        """
        rows = list(places)
        with self._filing:
            if not self._gatherers or len(self._fresh) + len(rows) > _MOST_FRESH:
                self.settle()
            if self._gatherers and len(rows) <= _MOST_FRESH:
                self._fresh.add(rows, packs, sketches)
            elif rows or packs or sketches:
                with self.db.writing(hold=hold) as sql:
                    self._add(sql, rows, packs, sketches)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Have the places of blobs that come meanwhile wait in memory, to be filed many at a time.

        Who looks for them finds them, at once and afterwards: where there is no room in the end, they go on waiting.
        """
        with self._filing:
            self._gatherers.append(get_ident())
        try:
            yield
        finally:
            with self._filing:
                self._gatherers.remove(get_ident())
                if not self._gatherers:
                    self._sieve, self._missed = None, 0
                    with suppress(StoreFull):
                        self.settle()

    def settle(self) -> None:
        """File all that waits. Raises StoreFull."""
        with self._filing:
            fresh = self._fresh
            if not fresh:
                return
            # others write in between: a pack counts as filed once all of its rows are
            for rows in fresh.parts():
                with self.db.writing(hold=False) as sql:
                    self._add(sql, rows, {})
                self.db.give_way()
            with self.db.writing(hold=False) as sql:
                self._add(sql, [], fresh.packs, fresh.sketches)
            # now that all can see them in the table
            self._fresh = Fresh()

    def add_remote(self, pack: int, places: Iterable[BlobKeyPlace], length: int, note: str) -> None:
        """File the blobs of a pack of ``length`` bytes that only the space of a replica has, and what is said of it."""
        rows = [(key, pack, offset, member) for key, offset, member in places]
        with self._filing, self.db.writing(hold=False) as sql:
            self._add(sql, rows, {pack: length})
            sql.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (_noted(pack), note))

    def remote(self) -> dict[int, str]:
        """Return the packs that are filed and that only the space has, and what is said of each."""
        rows = self.db.query("SELECT key, value FROM state WHERE key > ? AND key < ?", (_NOTED, _NOTED_BEYOND))
        return {int(key.removeprefix(_NOTED)): note for key, note in rows}

    def remote_note(self, pack: int) -> str | None:
        """Return what is said of a pack that only the space has, None if it is not filed."""
        note = self.db.state(_noted(pack))
        return note if isinstance(note, str) else None

    def remote_places(self) -> list[tuple[int, int]]:
        """Return the packs and offsets of all records that are filed in packs that only the space has."""
        return self.db.query("SELECT DISTINCT pack, offset FROM blobs WHERE pack >= ?", (REMOTE,))

    def forget_remote(self, keys: Iterable[int]) -> None:
        """Drop the rows of blobs that say where they lie in packs that only the space has."""
        with self.db.writing(hold=False) as sql:
            sql.executemany("DELETE FROM blobs WHERE key = ? AND pack >= ?", [(key, REMOTE) for key in keys])

    def sketched(self, features: Sequence[int]) -> dict[int, Hash]:
        """Return the last blob with each feature of a sketch; features that none has are left out."""
        fresh = self._fresh.sketches
        marks, wanted = among(features)
        rows = self.db.query(f"SELECT feature, hash FROM sketches WHERE feature IN ({marks})", wanted)
        found = {feature: Hash(digest) for feature, digest in rows}
        return found | {feature: fresh[feature] for feature in features if feature in fresh}

    def forget_sketches(self) -> None:
        """Drop all sketches: no blob that comes is stored against one that resembles it and came before."""
        self.settle()
        with self.db.writing() as sql:
            sql.execute("DELETE FROM sketches")

    def _add(
        self,
        sql: sqlite3.Connection,
        rows: list[KeyPlace],
        packs: Mapping[int, int],
        sketches: Mapping[int, Hash] = _NO_SKETCHES,
    ) -> None:
        if self._sieve is not None:
            # before anybody can see them
            self._sieve.add([row[0] for row in rows])
            if self._sieve.is_full:
                self._sieve, self._missed = None, 0
        # in the order in which they lie, so that each page is gone to once
        rows.sort()
        sql.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?)", rows)
        put(sql, "packs", packs.items())
        sql.executemany("INSERT OR REPLACE INTO sketches VALUES (?, ?)", sorted(sketches.items()))

    def packs(self) -> dict[int, int]:
        """Return up to where each pack is filed."""
        self.settle()
        rows = self.db.query("SELECT * FROM packs")
        return dict(self.db.checked("packs", row) for row in rows)

    def replace_packs(self, places: Places, packs: Mapping[int, int], replaced: Sequence[int]) -> None:
        """File the blobs in ``packs``, as :meth:`add_blobs` does; then count these as filed and ``replaced`` as not.

        The latter is all or nothing. The former is done a part at a time, so that others may write in between. The rows
        of the packs that were replaced stay until :meth:`forget_packs`, and they are filed again if their files should
        still be there when the store is opened.
        """
        self.settle()
        rows = places.rows()
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            with self._filing, self.db.writing(hold=False) as sql:
                self._add(sql, some, {})
            self.db.give_way()
        with self._filing, self.db.writing(hold=False) as sql:
            self._add(sql, [], packs)
            sql.executemany("DELETE FROM packs WHERE number = ?", [(number,) for number in replaced])

    def forget_packs(self, numbers: Sequence[int]) -> None:
        """Drop all rows of packs, a part at a time: others may write in between."""
        self.settle()
        marks, packs = among(numbers)
        after = _LEAST_KEY
        while True:
            # on a connection of its own, so that nobody waits meanwhile
            row = self.db.one("SELECT key FROM blobs WHERE key >= ? LIMIT 1 OFFSET ?", (after, _ROWS_AT_ONCE))
            up_to = row[0] if row else _GREATEST_KEY
            with self.db.writing(hold=False) as sql:
                sql.execute(
                    f"DELETE FROM blobs WHERE key BETWEEN ? AND ? AND pack IN ({marks})", (after, up_to, *packs)
                )
            if row is None:
                break
            self.db.give_way()
            # also where very many rows have the same key
            after = max(up_to, after + 1)
        with self.db.writing(hold=False) as sql:
            sql.executemany("DELETE FROM packs WHERE number = ?", [(number,) for number in numbers])
            sql.executemany("DELETE FROM state WHERE key = ?", [(_noted(number),) for number in numbers])

    def locate(self, digests: Sequence[Hash]) -> dict[Hash, list[BlobPlace]]:
        """Return, for each hash, the places that may hold it (usually one; hashes not filed are left out)."""
        if len(digests) == 1:
            places = self.places_of(hash_key(digests[0]))
            return {digests[0]: places} if places else {}
        keys = hash_keys(digests)
        by_key: dict[int, list[BlobPlace]] = {}
        # in this order: what waits no more is in the table
        fresh, asked = self._fresh, set(keys)
        for key in asked if fresh else ():
            if waiting := fresh.of(key):
                by_key[key] = waiting
        sieve, before = self._sieve, len(by_key)
        wanted = list(asked) if sieve is None else sieve.passing(asked)
        for start in range(0, len(wanted), _LOOKUPS_AT_ONCE):
            marks, some = among(wanted[start : start + _LOOKUPS_AT_ONCE])
            rows = self.db.query(f"SELECT key, pack, offset, member FROM blobs WHERE key IN ({marks})", some)
            for key, pack, offset, member in rows:
                places = by_key.setdefault(key, [])
                # what is being filed is in both
                if not places or (pack, offset, member) not in places:
                    places.append((pack, offset, member))
        # nobody else waits for it
        if sieve is None and get_ident() in self._gatherers:
            self._missed += len(wanted) - len(by_key) + before
            self._begin_sieve()
        if not by_key:
            return {}
        return {digest: by_key[key] for digest, key in zip(digests, keys, strict=True) if key in by_key}

    def _begin_sieve(self) -> None:
        """Begin to sieve once that costs less than what is looked for in vain."""
        pages = self.db.query("PRAGMA page_count")[0][0]
        if self._missed * _WORTH < pages * _ROWS_A_PAGE:
            return
        with self._filing:
            sieve = Sieve(_GROWTH * pages * _ROWS_A_PAGE)
            rows = self.db.rows("SELECT key FROM blobs")
            while some := [key for (key,) in islice(rows, _ROWS_AT_ONCE)]:
                sieve.add(some)
            self._sieve = sieve

    def places_of(self, key: int) -> list[BlobPlace]:
        """Return the places that may hold a blob, by the key of its hash."""
        places = self._fresh.of(key)
        for place in self.db.query("SELECT pack, offset, member FROM blobs WHERE key = ?", (key,)):
            # what is being filed is in both
            if place not in places:
                places.append(place)
        return places

    def has_here(self, keys: Sequence[int]) -> bool:
        """Return whether all of some blobs, by the keys of their hashes, have places in packs of this machine."""
        fresh = self._fresh
        keys = [key for key in keys if not any(place[0] < REMOTE for place in fresh.of(key))] if fresh else keys
        for start in range(0, len(keys), _LOOKUPS_AT_ONCE):
            some = set(keys[start : start + _LOOKUPS_AT_ONCE])
            marks, wanted = among(some)
            rows = self.db.query(
                f"SELECT DISTINCT key FROM blobs WHERE pack < ? AND key IN ({marks})", (REMOTE, *wanted)
            )
            if len(rows) < len(some):
                return False
        return True

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
        return self.db.number("seq")

    def apply(self, frames: Iterable[heads.HeadFrame]) -> None:
        """File ``frames``, all or nothing; they come in the order of the log.

        DamageError where a row that they change is damaged: it stays as it is.
        """
        with self.db.writing() as sql:
            self._file(sql, frames)

    def renew(self, frames: Iterable[heads.HeadFrame]) -> None:
        """File ``frames``, those of the whole log, in place of all its earlier rows."""
        with self.db.writing() as sql:
            for table in DERIVED_FROM_LOGS:
                sql.execute(f"DELETE FROM {table}")
            self._file(sql, frames)

    def _file(self, sql: sqlite3.Connection, frames: Iterable[heads.HeadFrame]) -> None:
        try:
            file_frames(sql, frames)
        except DamageError as error:
            raise self.db.damage(str(error)) from None


def _noted(pack: int) -> str:
    return f"{_NOTED}{pack}"
