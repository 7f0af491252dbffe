"""The turn log: ``turns.log``, one 80-byte record a turn. Turn N lies at (N - 1) * 80 past the file header."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from store.disk import durable, file_header, replacing, turn_format
from store.disk.file_header import HEADER_SIZE, TURN_LOG
from store.disk.reading import pread, pread_around
from store.disk.turn_format import RECORD_SIZE, Turn
from store.errors import DamageError, NotFound, UsageError

_SCAN = 4096


class TurnLog:
    """The turns of one store. One thread appends; any number read meanwhile, without locks.

    ``damage`` says what is wrong with the file header, if anything; the turns are readable in spite of it.
    """

    def __init__(self, path: Path, store_id: bytes) -> None:
        """Open the log, or make an empty one. Raises FormatTooNew, and DamageError for another store's file."""
        self._path = path
        if not path.exists():
            file_header.create(path, TURN_LOG, store_id)
        self._fd = durable.open_file(path)
        try:
            self.damage = file_header.check(self._fd, TURN_LOG, store_id, path)
        except BaseException:
            os.close(self._fd)
            raise
        # what is left of a record whose writing was cut short does not count, and is written over
        self._count = max(os.fstat(self._fd).st_size - HEADER_SIZE, 0) // RECORD_SIZE

    @property
    def count(self) -> int:
        """How many turns the log holds, which is also the id of the last."""
        return self._count

    def append(self, records: bytes) -> None:
        """Write the records of the turns ``count + 1`` and following, without syncing them."""
        if not records:
            return
        added, rest = divmod(len(records), RECORD_SIZE)
        if rest:
            raise UsageError(f"{len(records)} bytes are no whole number of turn records")
        first = int.from_bytes(records[:8], "little")
        if first != self._count + 1:
            raise UsageError(f"turn {first} cannot follow turn {self._count}")
        durable.pwrite_all(self._fd, records, HEADER_SIZE + self._count * RECORD_SIZE)
        self._count += added

    def get(self, turn_id: int) -> Turn:
        """Return one turn. NotFound if there is none of that id, DamageError if its record is damaged."""
        if not 0 < turn_id <= self._count:
            raise NotFound(f"there is no turn {turn_id}; the last is {self._count}")
        try:
            turn = turn_format.decode(pread(self._fd, RECORD_SIZE, HEADER_SIZE + (turn_id - 1) * RECORD_SIZE))
        except DamageError as error:
            raise DamageError(f"{self._path}: turn {turn_id}: {error}") from None
        if turn.turn_id != turn_id:
            raise DamageError(f"{self._path}: the record of turn {turn.turn_id} stands in the place of turn {turn_id}")
        return turn

    def range(self, first: int, n: int) -> list[Turn]:
        """Return the turns ``first`` to ``first + n - 1``, or to the last if there are fewer.

        NotFound if ``first`` is no turn; DamageError, naming it, if one of them is damaged (then see :meth:`scan`).
        """
        if not 0 < first <= self._count:
            raise NotFound(f"there is no turn {first}; the last is {self._count}")
        data = self._records(first, n)
        try:
            return turn_format.decode_run(data, first)
        except DamageError:
            for _, turn in turn_format.decode_each(data, first):
                if isinstance(turn, DamageError):
                    raise DamageError(f"{self._path}: {turn}") from None
            raise

    def links(self, first: int, n: int) -> list[tuple[int, int] | None]:
        """Return (parent, depth) of turns as :meth:`range` does, None for those whose records are damaged."""
        try:
            return turn_format.links_of(self._records(first, n), first)
        except DamageError:
            if n == 1:
                return [None]
            # a block of the disk that cannot be read
            return self.links(first, n // 2) + self.links(first + n // 2, n - n // 2)

    def scan(self, first: int = 1, last: int | None = None) -> Iterator[tuple[int, Turn | DamageError]]:
        """Yield turns from ``first`` to ``last`` (None: the end as it now is), by id, damaged ones as their error."""
        end = self._count if last is None else min(last, self._count)
        while first <= end:
            n = min(end - first + 1, _SCAN)
            try:
                data = self._records(first, n)
            except DamageError as error:
                # a block of the disk that cannot be read: ask for the turns one by one
                if n == 1:
                    yield first, error
                    first += 1
                    continue
                for turn_id in range(first, first + n):
                    try:
                        yield turn_id, self.get(turn_id)
                    except DamageError as damage:
                        yield turn_id, damage
                first += n
                continue
            try:
                yield from ((turn.turn_id, turn) for turn in turn_format.decode_run(data, first))
            except DamageError:
                yield from turn_format.decode_each(data, first)
            first += n

    def blank(self, first: int, count: int) -> None:
        """Leave nothing of the turns ``first``, ``first + 1`` …, ``count`` of them, but their places; unsynced.

        Of a turn whose record is damaged, not even that is known: it stands at no other turn.
        """
        if not (first > 0 and count > 0 and first + count - 1 <= self._count):
            raise NotFound(f"there are no {count} turns from turn {first} on; the last is {self._count}")
        for start in range(first, first + count, _SCAN):
            links = enumerate(self.links(start, min(first + count - start, _SCAN)), start)
            records = b"".join(turn_format.blank(turn_id, *(link or (0, 0))) for turn_id, link in links)
            durable.pwrite_all(self._fd, records, HEADER_SIZE + (start - 1) * RECORD_SIZE)

    def sync(self) -> None:
        """Return when everything appended, or blanked, before is on disk."""
        durable.fdatasync(self._fd)

    def cut(self, count: int) -> int:
        """Make the log end after turn ``count``; return how many bytes went (negative: how many were missing).

        Ids are places, so where turns are missing their places stay, and read as damaged.
        """
        length = HEADER_SIZE + count * RECORD_SIZE
        went = os.fstat(self._fd).st_size - length
        if went:
            durable.truncate(self._fd, length)
        self._count = count
        return went

    def rewrite(self, change: Callable[[int, bytes], bytes]) -> None:
        """Put other records, as many, in the place of all; durable when it returns. Nothing may be appended meanwhile.

        ``change`` is given the records from some turn on, damaged or not, and returns as many bytes. The old ones stay
        on the disk until :meth:`erase_old`.
        """
        replacing.replace(self._path, self._fd, self._rewritten(change))

    def _rewritten(self, change: Callable[[int, bytes], bytes]) -> Iterator[bytes]:
        yield pread_around(self._fd, HEADER_SIZE, 0)
        for first in range(1, self._count + 1, _SCAN):
            count = min(_SCAN, self._count - first + 1)
            place = HEADER_SIZE + (first - 1) * RECORD_SIZE
            yield change(first, pread_around(self._fd, count * RECORD_SIZE, place))

    def erase_old(self) -> None:
        """Leave nothing on the disk of what :meth:`rewrite` has put other records in the place of."""
        replacing.erase_replaced(self._path)

    def close(self) -> None:
        """Close the file; nothing may read afterwards."""
        os.close(self._fd)

    def _records(self, first: int, n: int) -> bytes:
        n = min(n, self._count - first + 1)
        data = pread(self._fd, n * RECORD_SIZE, HEADER_SIZE + (first - 1) * RECORD_SIZE)
        if len(data) != n * RECORD_SIZE:
            raise DamageError(f"{self._path}: the file ends before turn {first + n - 1}: something else cut it")
        return data
