"""Log check: reads the logs, a part at a time, to report damage before a rebuild needs them.

Opening a store checks some hundred kilobytes, in some milliseconds: all of small logs. A daemon continues in the
background. The file ``checked`` holds the progress and the findings, so that the next process continues from there, and
starts over at the end.
"""

import os
import time
from contextlib import suppress
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct

from store import typed
from store.disk import durable
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_log import HeadLog
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.paths import CHECKED, HEAD_LOG, NEW

_HEADS_AT_ONCE = 1 << 18
_TURNS_AT_ONCE = 1 << 12
_TOLD = 3


class Damaged(Struct, frozen=True):
    """Something that is damaged in the log called ``log``. ``place``: its offset in heads.log, or the turn."""

    log: str
    place: int
    reason: str


class _Noted(Struct):
    """The file ``checked``: the place to continue at in each log, the findings, and those no longer reported."""

    heads: int = HEADER_SIZE
    turns: int = 1
    damaged: list[Damaged] = []
    accepted: list[Damaged] = []


class LogCheck:
    """Looks through the logs of one store; a job for :class:`store.upkeep.idle.Idle`. One thread at a time."""

    def __init__(self, root: Path, heads: HeadLog, turns: TurnLog) -> None:
        self._path = root / CHECKED
        self._heads = heads
        self._turns = turns
        self._noted = _read(self._path)
        self._written = msgspec.json.encode(self._noted)
        """The contents of the file, or what they would be if it were there."""

    @property
    def lines(self) -> list[str]:
        """Damage that is known, a line for each log, as commands say it."""
        return _told(self._noted)

    def begin(self) -> None:
        """Check the next part; small logs are checked whole."""
        for log, header in ((self._heads, self._heads.damage), (self._turns, self._turns.damage)):
            self._found(log.name, 0, 1, [Damaged(log.name, 0, str(header))] if header else [])
        self._slice()
        self._write()

    def is_sound(self) -> bool:
        """Return whether nothing is wrong with the part that :meth:`begin` would check; nothing is noted."""
        heads, turns = self._heads, self._turns
        if heads.damage or turns.damage:
            return False
        start = min(max(self._noted.heads, HEADER_SIZE), heads.length)
        beyond = heads.sound_until(start, start + _HEADS_AT_ONCE)
        # the last frame may end after the part
        if beyond < heads.length and isinstance(next(heads.frames(beyond), None), Damage):
            return False
        first = min(max(self._noted.turns, 1), turns.count + 1)
        return turns.is_sound(first, min(first + _TURNS_AT_ONCE - 1, turns.count))

    def step(self) -> bool:
        """Check a part, and return whether there is more."""
        # imported here, as a command that only looks has no jobs
        from store.upkeep.idle import SLICE_SECONDS

        until = time.monotonic() + SLICE_SECONDS
        while more := not self._slice():
            if time.monotonic() > until:
                break
        self._write()
        return more

    def accept(self) -> None:
        """Check everything, and stop reporting the damage found: all that could be mended has been."""
        self._noted.heads, self._noted.turns = HEADER_SIZE, 1
        while not self._slice():
            pass
        self._noted.accepted = self._noted.damaged
        self._write()

    def _slice(self) -> bool:
        """Check a part of each log; return whether both have reached their ends, and then start over."""
        heads, turns = self._look_at_heads(), self._look_at_turns()
        if heads and turns:
            self._noted.heads, self._noted.turns = HEADER_SIZE, 1
        return heads and turns

    def _look_at_heads(self) -> bool:
        noted, end = self._noted, self._heads.length
        start = min(max(noted.heads, HEADER_SIZE), end)
        beyond = self._heads.sound_until(start, start + _HEADS_AT_ONCE)
        found = []
        if beyond < min(start + _HEADS_AT_ONCE, end):
            for frame in self._heads.frames(beyond):
                beyond = frame.offset
                if beyond >= start + _HEADS_AT_ONCE:
                    break
                if isinstance(frame, Damage):
                    found.append(Damaged(self._heads.name, frame.offset, frame.reason))
            else:
                beyond = end
        self._found(self._heads.name, start, beyond if beyond < end else 1 << 62, found)
        noted.heads = beyond
        return beyond >= end

    def _look_at_turns(self) -> bool:
        noted, count = self._noted, self._turns.count
        first = min(max(noted.turns, 1), count + 1)
        last = min(first + _TURNS_AT_ONCE - 1, count)
        found = []
        if not self._turns.is_sound(first, last):
            some = self._turns.scan(first, last)
            found = [Damaged(self._turns.name, at, str(turn)) for at, turn in some if not isinstance(turn, Turn)]
        self._found(self._turns.name, first, last + 1 if last < count else 1 << 62, found)
        noted.turns = last + 1
        return last >= count

    def _found(self, log: str, start: int, beyond: int, found: list[Damaged]) -> None:
        """Record the damage between two places of a log, in place of what was noted of them."""
        others = [one for one in self._noted.damaged if one.log != log or not start <= one.place < beyond]
        self._noted.damaged = [*others, *found]

    def _write(self) -> None:
        # derived: where it cannot be written, it is found once more
        encoded = msgspec.json.encode(self._noted)
        if encoded == self._written:
            return
        with suppress(OSError):
            new = self._path.with_name(self._path.name + NEW)
            fd = durable.open_file(new, create=True)
            try:
                durable.truncate(fd, 0)
                durable.pwrite_all(fd, encoded, 0)
            finally:
                os.close(fd)
            durable.replace(new, self._path)
            self._written = encoded


def _told(noted: _Noted) -> list[str]:
    lines = []
    damaged = [one for one in noted.damaged if one not in noted.accepted]
    for log in dict.fromkeys(one.log for one in damaged):
        places = [one for one in damaged if one.log == log]
        is_offset = log == PurePath(HEAD_LOG).name
        where = "; ".join(
            f"offset {one.place}: {one.reason}" if is_offset and one.place else one.reason for one in places[:_TOLD]
        )
        more = f" and {len(places) - _TOLD} more" if len(places) > _TOLD else ""
        lines.append(f"{log} is damaged ({where}{more}): see convfs fsck, and what it can --repair")
    return lines


def noted_damage(root: Path) -> list[str]:
    """Return what is known to be damaged in the logs of a store that another process may have open."""
    return _told(_read(root / CHECKED))


def _read(path: Path) -> _Noted:
    try:
        return typed.decode(path.read_bytes(), _Noted)
    except (OSError, msgspec.DecodeError):
        return _Noted()
