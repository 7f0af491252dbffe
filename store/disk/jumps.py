"""The jumps of a store's turns: ``turns.jump``, derived from the turn log, so it is written without syncs.

It is brought up to the log when it is asked for more than it has, and now and then in between. Whatever is wrong with
it, what it leads to is right: an entry whose checksum does not hold is not used, and there is always the parent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.disk import durable, file_header, jump_format
from store.disk.file_header import HEADER_SIZE, JUMPS
from store.disk.jump_format import ENTRY_SIZE, jump_depth
from store.disk.reading import pread
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError, NotFound

_AT_ONCE = 4096
_REMEMBERED = 1 << 16

_Jump = tuple[int, int]
"""Where a jump leads: the turn, 0 for nowhere, and its depth."""


class Jumps:
    """Finds ancestors of turns. Safe to call from any thread."""

    def __init__(self, path: Path, store_id: bytes, log: TurnLog, *, trusted: bool) -> None:
        """Open the file, or make one. Unless it is ``trusted``, it is made anew, as it is where it is no such file."""
        self._log = log
        self._lock = threading.Lock()
        self._failed = False
        self._unsynced = True
        self._recent: dict[int, _Jump] = {}
        self.damage = _damage(path, store_id)
        """What was wrong with the file, "" for nothing: then it was made anew."""
        if not trusted or self.damage or not path.exists():
            path.unlink(missing_ok=True)
            file_header.create(path, JUMPS, store_id)
        self._fd = durable.open_file(path)
        try:
            # what is left of an entry whose writing was cut short does not count
            self._count = max(os.fstat(self._fd).st_size - HEADER_SIZE, 0) // ENTRY_SIZE
            if self._count > log.count:
                durable.truncate(self._fd, HEADER_SIZE + log.count * ENTRY_SIZE)
                self._count = log.count
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def count(self) -> int:
        """For how many turns, from the first, there are jumps."""
        return self._count

    def extend(self) -> None:
        """Bring the file up to the turn log. A disk that does not take it is no error: what is missing is slower."""
        while self._count < self._log.count and not self._failed:
            with self._lock:
                count = min(_AT_ONCE, self._log.count - self._count)
                if count <= 0:
                    return
                try:
                    self._add(count)
                except OSError:
                    self._failed = True

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
        if not 0 < turn_id <= self._count:
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
        return jump_format.decode(pread(self._fd, ENTRY_SIZE, _place(turn_id)), turn_id)

    def _cover(self, turn_id: int) -> None:
        if turn_id > self._count:
            self.extend()

    def _add(self, count: int) -> None:
        first = self._count + 1
        jumps = self._jumps(first, self._log.links(first, count), self._recent)
        entries = b"".join(jump_format.encode(turn_id, jump) for turn_id, jump in enumerate(jumps, first))
        durable.pwrite_all(self._fd, entries, _place(first))
        self._unsynced = True
        self._count += count

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
        same = file_header.read(path, JUMPS).store_id == store_id
    except FileNotFoundError:
        return ""
    except ConvfsError as error:
        return str(error)
    return "" if same else f"{path}: the file belongs to another store"
