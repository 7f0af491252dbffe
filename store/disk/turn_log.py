"""The turn log: ``turns.log``, one 80-byte record a turn. Turn N lies at (N - 1) * 80 past the file header."""

from collections.abc import Callable, Iterator
from pathlib import Path

from store.disk import turn_format
from store.disk.file_header import HEADER_SIZE, TURN_LOG
from store.disk.log_file import LogFile
from store.disk.turn_format import RECORD_SIZE, Turn
from store.errors import DamageError, NotFound, UsageError

_SCAN = 4096


class TurnLog(LogFile):
    """The turns of one store."""

    def __init__(self, path: Path, store_id: bytes, *, read_only: bool = False) -> None:
        """As of :class:`LogFile`."""
        super().__init__(path, TURN_LOG, store_id, read_only=read_only)
        # what is left of a record whose writing was cut short does not count, and is written over
        self.count = max(self._size - HEADER_SIZE, 0) // RECORD_SIZE
        """The number of turns in the log, which is also the id of the last."""

    def append(self, records: bytes) -> None:
        """Append the records of turns ``count + 1`` and following, unsynced; see :class:`LogFile`."""
        if not records:
            return
        added, rest = divmod(len(records), RECORD_SIZE)
        if rest:
            raise UsageError(f"{len(records)} bytes are no whole number of turn records")
        first = int.from_bytes(records[:8], "little")
        if first != self.count + 1:
            raise UsageError(f"turn {first} cannot follow turn {self.count}")
        self._write(records, HEADER_SIZE + self.count * RECORD_SIZE)
        self.count += added

    def get(self, turn_id: int) -> Turn:
        """Return one turn. NotFound if there is none of that id, DamageError if its record is damaged."""
        if not 0 < turn_id <= self.count:
            raise NotFound(f"there is no turn {turn_id}; the last is {self.count}")
        try:
            turn = turn_format.decode(self._read(RECORD_SIZE, HEADER_SIZE + (turn_id - 1) * RECORD_SIZE))
        except DamageError as error:
            raise DamageError(f"{self._path}: turn {turn_id}: {error}") from None
        if turn.turn_id != turn_id:
            raise DamageError(f"{self._path}: the record of turn {turn.turn_id} stands in the place of turn {turn_id}")
        return turn

    def range(self, first: int, n: int) -> list[Turn]:
        """Return the turns ``first`` to ``first + n - 1``, or to the last if there are fewer.

        NotFound if ``first`` is no turn; DamageError, naming it, if one of them is damaged (then see :meth:`scan`).
        """
        if not 0 < first <= self.count:
            raise NotFound(f"there is no turn {first}; the last is {self.count}")
        data = self.records(first, n)
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
            return turn_format.links_of(self.records(first, n), first)
        except DamageError:
            if n == 1:
                return [None]
            # a block of the disk that cannot be read
            return self.links(first, n // 2) + self.links(first + n // 2, n - n // 2)

    def scan(self, first: int = 1, last: int | None = None) -> Iterator[tuple[int, Turn | DamageError]]:
        """Yield turns from ``first`` to ``last`` (None: the end as it now is), by id, damaged ones as their error."""
        end = self.count if last is None else min(last, self.count)
        while first <= end:
            n = min(end - first + 1, _SCAN)
            try:
                data = self.records(first, n)
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

    def is_sound(self, first: int, last: int) -> bool:
        """Return whether the records of the turns from ``first`` to ``last`` are all sound."""
        if last < first:
            return True
        try:
            return turn_format.are_sound(self.records(first, last - first + 1))
        except DamageError:
            return False

    def blank(self, first: int, count: int) -> None:
        """Leave nothing of the turns ``first``, ``first + 1`` …, ``count`` of them, but their places; unsynced.

        Of a turn whose record is damaged, not even that is known: it stands at no other turn.
        """
        if not (first > 0 and count > 0 and first + count - 1 <= self.count):
            raise NotFound(f"there are no {count} turns from turn {first} on; the last is {self.count}")
        for start in range(first, first + count, _SCAN):
            links = enumerate(self.links(start, min(first + count - start, _SCAN)), start)
            records = b"".join(turn_format.blank(turn_id, *(link or (0, 0))) for turn_id, link in links)
            self._overwrite(records, HEADER_SIZE + (start - 1) * RECORD_SIZE)

    def damaged_bytes(self, turn_id: int) -> bytes:
        """Return the bytes at the place of a turn, whatever they are."""
        return self._read_around(RECORD_SIZE, HEADER_SIZE + (turn_id - 1) * RECORD_SIZE)

    def put_back(self, turn: Turn) -> None:
        """Write the record of a turn, durably, at the place where it is damaged."""
        place = HEADER_SIZE + (turn.turn_id - 1) * RECORD_SIZE
        self._overwrite(turn_format.encode(turn), place)
        self.sync()

    def cut(self, count: int) -> int:
        """Make the log end after turn ``count``; return how many bytes went (negative: how many were missing).

        Ids are places, so where turns are missing their places stay, and read as damaged.
        """
        went = self._cut(HEADER_SIZE + count * RECORD_SIZE)
        self.count = count
        return went

    def rewrite(self, change: Callable[[int, bytes], bytes]) -> None:
        """Replace all records by as many others; durable when it returns. Nothing may be appended meanwhile.

        ``change`` is given the records from some turn on, damaged or not, and returns as many bytes. The old ones stay
        on the disk until :meth:`erase_old`.
        """
        self._replace(self._rewritten(change))

    def _rewritten(self, change: Callable[[int, bytes], bytes]) -> Iterator[bytes]:
        yield self._read_around(HEADER_SIZE, 0)
        for first in range(1, self.count + 1, _SCAN):
            count = min(_SCAN, self.count - first + 1)
            place = HEADER_SIZE + (first - 1) * RECORD_SIZE
            yield change(first, self._read_around(count * RECORD_SIZE, place))

    def records(self, first: int, n: int) -> bytes:
        """Return the encoded records of the turns ``first`` to ``first + n - 1``, or to the last. DamageError."""
        n = min(n, self.count - first + 1)
        data = self._read(n * RECORD_SIZE, HEADER_SIZE + (first - 1) * RECORD_SIZE)
        if len(data) != n * RECORD_SIZE:
            raise DamageError(f"{self._path}: the file ends before turn {first + n - 1}: something else cut it")
        return data
