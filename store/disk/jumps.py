"""The jumps of a store's turns: ``turns.jump``, derived from the turn log, so it is written without syncs.

It is brought up to the log when it is asked for more than it has, and now and then in between. Whatever is wrong with
it, what it leads to is right: an entry whose checksum does not hold is not used, and there is always the parent.

Jumps: for each turn one ancestor farther away, so that steps as few as a logarithm lead to any ancestor.

The jump of a turn at depth d leads to depth d - w, where w is the least term of d written as a sum of numbers
2 ** k - 1, greedily (skew binary): so it follows from the depth alone how far a jump goes. (Myers, An applicative
random-access stack, 1983.)

An entry, little-endian: ``jump u64 | crc32 u32`` of the turn's id and the jump, u64 both. ``jump`` is 0 at a root, and
where the record of a turn that it depends on could not be read: then there is only the parent to go on with.
"""

import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct as Layout

from store.disk import durable, file_header
from store.disk.file_header import HEADER_SIZE, JUMPS
from store.disk.files import pread
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError, NotFound

ENTRY_SIZE = 12
_ENTRY = Layout("<QI")
_SUMMED = Layout("<QQ")


def jump_depth(depth: int) -> int:
    """Return the depth that the jump of a turn at ``depth`` leads to; of a root, its own."""
    rest = depth
    while rest:
        term = (1 << (rest + 1).bit_length() - 1) - 1
        if term == rest:
            return depth - term
        rest -= term
    return 0


def encode(turn_id: int, jump: int) -> bytes:
    """Return the entry of a turn."""
    return _ENTRY.pack(jump, zlib.crc32(_SUMMED.pack(turn_id, jump)))


def decode(entry: bytes, turn_id: int) -> int:
    """Return the jump of a turn; DamageError if its checksum does not hold."""
    if len(entry) != ENTRY_SIZE:
        raise DamageError(f"the jump of turn {turn_id} is cut off after {len(entry)} bytes")
    jump: int
    jump, crc = _ENTRY.unpack(entry)
    if zlib.crc32(_SUMMED.pack(turn_id, jump)) != crc:
        raise DamageError(f"the checksum of the jump of turn {turn_id} does not hold")
    return jump


def first_damaged(entries: bytes, first: int) -> int:
    """Return the first turn whose entry is damaged, 0 if none is; ``entries`` are those from turn ``first`` on."""
    for turn_id, (jump, crc) in enumerate(_ENTRY.iter_unpack(entries), first):
        if zlib.crc32(_SUMMED.pack(turn_id, jump)) != crc:
            return turn_id
    return 0


_AT_ONCE = 4096
_REMEMBERED = 1 << 12
_LOOKED_BACK = 1024
"""The least number of entries at the end that are checked when the file is opened."""

_Jump = tuple[int, int]
"""The target of a jump: the turn, 0 for none, and its depth."""


class Jumps:
    """Finds ancestors of turns. Safe to call from any thread."""

    def __init__(self, path: Path, store_id: bytes, log: TurnLog, *, trusted: bool) -> None:
        """Open the file, or make one. It is rebuilt if it is not ``trusted``, or not such a file."""
        self._log = log
        self._lock = threading.Lock()
        self._failed = False
        self._recent: dict[int, _Jump] = {}
        self.damage = _damage(path, store_id)
        """The fault in the file, "" for none. The file was rebuilt, or will be from there on."""
        self._unsynced = not trusted or bool(self.damage) or not path.exists()
        # what another process left unsynced may be lost; that is found out when the file is opened
        if self._unsynced:
            path.unlink(missing_ok=True)
            file_header.create(path, JUMPS, store_id)
        self._fd = durable.open_file(path)
        try:
            # what is left of an entry whose writing was cut short does not count
            self.count = max(os.fstat(self._fd).st_size - HEADER_SIZE, 0) // ENTRY_SIZE
            """The number of turns, from the first, for which there are jumps."""
            if self.count > log.count:
                durable.truncate(self._fd, HEADER_SIZE + log.count * ENTRY_SIZE)
                self.count = log.count
            self._drop_unwritten()
        except BaseException:
            os.close(self._fd)
            raise

    def _drop_unwritten(self) -> None:
        """Cut off entries at the end that a power failure left unwritten: of full length, and all zeros."""
        count = self.count
        while count:
            first = max(count - _LOOKED_BACK, 0) + 1
            try:
                entries = pread(self._fd, (count - first + 1) * ENTRY_SIZE, _place(first))
            except DamageError:
                break
            bad = first_damaged(entries, first)
            if not bad:
                break
            count = bad - 1
        if count < self.count:
            self.damage = f"it ends in {self.count - count} entries that were not written"
            durable.truncate(self._fd, _place(count + 1))
            self.count = count

    def extend(self) -> None:
        """Bring the file up to the turn log. A full disk is no error: look-ups of missing jumps are only slower."""
        while self.count < self._log.count and not self._failed:
            with self._lock:
                count = min(_AT_ONCE, self._log.count - self.count)
                if count <= 0:
                    return
                try:
                    self._add(count)
                except OSError:
                    self._failed = True

    def shrink(self) -> None:
        """Forget the jumps that were made last: what is made of them is read again."""
        with self._lock:
            self._recent.clear()

    def ancestor(self, turn_id: int, depth: int) -> int:
        """Return the ancestor of a turn at ``depth``, which may be its own.

        NotFound if there is no such turn, or it is not as deep; DamageError where the record of a turn is damaged.
        """
        at = self._log.get(turn_id).depth
        if not 0 <= depth <= at:
            raise NotFound(f"turn {turn_id} has no ancestor at depth {depth}")
        self._cover(turn_id)
        while at > depth:
            to = jump_depth(at)
            jump = self.get(turn_id) if to >= depth else 0
            if jump:
                turn_id, at = jump, to
            else:
                turn_id, at = self._log.get(turn_id).parent, at - 1
        if self._log.get(turn_id).depth != depth:
            raise DamageError(f"turn {turn_id} is not where the turns of its branch lead to")
        return turn_id

    def not_after(self, turn_id: int, last: int) -> int:
        """Return a turn, or its nearest ancestor, whose id is at most ``last``; 0 if there is none."""
        self._cover(turn_id)
        while turn_id > last:
            jump = self.get(turn_id)
            turn_id = jump if jump > last else self._log.get(turn_id).parent
        return turn_id

    def get(self, turn_id: int) -> int:
        """Return the jump of a turn, 0 if there is none, or none that can be read."""
        if not 0 < turn_id <= self.count:
            return 0
        try:
            return self._read(turn_id)
        except DamageError:
            return 0

    def wrong(self, first: int, count: int) -> Iterator[int]:
        """Yield those of some turns, the first of them and how many, whose entries are not what their records say."""
        # what follows from a damaged record is missing now or was missing then
        for turn_id, jump in enumerate(self._jumps(first, self._log.links(first, count), {}), first):
            try:
                found = self._read(turn_id)
            except DamageError:
                yield turn_id
                continue
            if found and jump and found != jump:
                yield turn_id

    def sync(self) -> None:
        """Return when everything written before is on disk."""
        if self._unsynced:
            durable.fdatasync(self._fd)
            self._unsynced = False

    def close(self) -> None:
        """Close the file; nothing may read afterwards."""
        os.close(self._fd)

    def _read(self, turn_id: int) -> int:
        return decode(pread(self._fd, ENTRY_SIZE, _place(turn_id)), turn_id)

    def _cover(self, turn_id: int) -> None:
        if turn_id > self.count:
            self.extend()

    def _add(self, count: int) -> None:
        first = self.count + 1
        jumps = self._jumps(first, self._log.links(first, count), self._recent)
        entries = b"".join(encode(turn_id, jump) for turn_id, jump in enumerate(jumps, first))
        durable.pwrite_all(self._fd, entries, _place(first))
        self._unsynced = True
        self.count += count

    def _jumps(self, first: int, links: Sequence[tuple[int, int] | None], recent: dict[int, _Jump]) -> Iterator[int]:
        """Yield the jumps of turns, by the parents and depths of these; ``recent`` has those of others, for a while."""
        if len(recent) > _REMEMBERED:
            recent.clear()
        for turn_id, link in enumerate(links, first):
            if link is None:
                yield 0
                continue
            parent, depth = link
            jump, to = parent, max(depth - 1, 0)
            if to:
                one, one_depth = self._known(parent, to, recent)
                if not one:
                    jump, to = parent if jump_depth(depth) == to else 0, jump_depth(depth)
                elif one_depth:
                    two, two_depth = self._known(one, one_depth, recent)
                    if to - one_depth == one_depth - two_depth:
                        # two of equal length make one, with the step to the parent
                        jump, to = two, two_depth
            recent[turn_id] = (jump, to)
            yield jump

    def _known(self, turn_id: int, depth: int, recent: dict[int, _Jump]) -> _Jump:
        known = recent.get(turn_id)
        if known is None:
            known = recent[turn_id] = (self.get(turn_id), jump_depth(depth))
        return known


def _place(turn_id: int) -> int:
    return HEADER_SIZE + (turn_id - 1) * ENTRY_SIZE


def _damage(path: Path, store_id: bytes) -> str:
    try:
        same = file_header.read(path, JUMPS) == store_id
    except FileNotFoundError:
        return ""
    except ConvfsError as error:
        return str(error)
    return "" if same else f"{path}: the file belongs to another store"
