"""Packs that only the space has, read by range, and the parts of them that are kept here.

What other machines bring is filed by its names (``store.shared.packs``). Where it is read, *frames* of 1 MiB are
fetched, each once, and kept as files of their own, ``cache/PACK-FRAME``: so what was read before asks nobody. Who reads
on gets more and more of the frames that follow with one request. Where there are too many, those go that were used
longest ago.

Nothing is synced, and nothing is lost: a frame that does not hold what a record needs is fetched once more. All that is
read is compared with its hash, as any blob is.
"""

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from store import paths
from store.disk import blob_format, durable
from store.disk.blob_format import HEAD_SIZE, OVERHEAD, Record
from store.disk.pack import PackRemoved
from store.errors import Away, ConvfsError, FormatTooNew
from store.paths import REMOTE, pack_name

FRAME = 1 << 20
_MOST_AHEAD = 8
_SHARES = 4
"""The least number of fetches that what is kept has room for."""
_AT_ONCE = 64 << 10
"""How much is read for a record whose length is not known."""
_PATIENCE_SECONDS = 1.0
_NAME = re.compile(r"([0-9]+)-([0-9]+)")

_Frame = tuple[int, int]
"""A pack, counted from REMOTE, and the number of a frame of it."""


class Cache:
    """The packs that only the space of a replica has. Safe to share between threads."""

    def __init__(self, root: Path, capacity: int) -> None:
        """Keep up to ``capacity`` bytes of frames beneath the replica at ``root``."""
        self._directory = root / paths.CACHE
        self._capacity = capacity
        self._most_ahead = max(min(_MOST_AHEAD, capacity // (_SHARES * FRAME)), 1)
        self.fetch: Callable[[int, int, int], bytes] = _nowhere
        """Returns bytes of a pack from an offset on, fewer at its end, given how many. Raises ConvfsError."""
        self.made_ns: Callable[[int], int] = lambda _pack: 0
        """Returns when a pack was made, 0 if that is not known."""
        self.through: Callable[[Hashable, Callable[[], bytes]], bytes] = lambda _frame, fetch: fetch()
        self.keeps = True
        """False while what is fetched may have to go again."""
        self._lock = threading.Lock()
        self._sizes: OrderedDict[_Frame, int] | None = None
        """The frames that there are, the one last that was used last; None before the directory was read."""
        self._size = 0
        self._flights: set[int] = set()
        self._landed = threading.Condition()
        self._next: dict[int, _Frame] = {}
        """By pack, the frame that would be the next in order, and how many were fetched at a time."""
        self._away: tuple[float, str] = (0.0, "")
        """Until when nothing is fetched, and why."""

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        with self._lock:
            self._known()
            return self._size

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        """Read a record, see :meth:`store.disk.pack.PackSet.read`. Away where it cannot be fetched."""
        try:
            return self._record(pack, offset, damaged=damaged)
        except (Away, FormatTooNew, PackRemoved):
            raise
        except ConvfsError:
            # perhaps it is the frame that is damaged
            self._drop([frame for frame in self._frames() if frame[0] == pack - REMOTE])
        try:
            return self._record(pack, offset, damaged=damaged)
        except ConvfsError as error:
            raise type(error)(f"{pack_name(pack)}, offset {offset}: {error}") from None

    @contextmanager
    def only_kept(self) -> Iterator[None]:
        """Fetch nothing while the block runs."""
        before, self.fetch = self.fetch, _nowhere
        try:
            yield
        finally:
            self.fetch = before

    def forget(self, packs: Callable[[int], bool] = lambda _pack: True, *, overwrite: bool = False) -> None:
        """Remove all that is kept of those ``packs``, from the disk if they are to be overwritten."""
        self._drop([frame for frame in self._frames() if packs(frame[0] + REMOTE)], overwrite=overwrite)

    def _record(self, pack: int, offset: int, *, damaged: bool) -> Record:
        data = self._part((pack - REMOTE, offset // FRAME), offset % FRAME, _AT_ONCE)
        data = self._longer(pack, offset, data, HEAD_SIZE)
        size = OVERHEAD + blob_format.stored_length(memoryview(data)[:HEAD_SIZE])
        data = self._longer(pack, offset, data, size)
        return blob_format.decode_record(memoryview(data)[:size], damaged=damaged)

    def _longer(self, pack: int, offset: int, data: bytes, length: int) -> bytes:
        """Return ``data``, which lies at a place, with what is behind it: ``length`` bytes or more, if there are."""
        parts, have = [data], len(data)
        while have < length:
            at = offset + have
            part = self._part((pack - REMOTE, at // FRAME), at % FRAME, length - have)
            if not part:
                break
            parts.append(part)
            have += len(part)
        return b"".join(parts) if len(parts) > 1 else data

    def _part(self, frame: _Frame, start: int, length: int) -> bytes:
        """Return bytes of a frame from ``start`` on, up to its end."""
        if not self._is_there(frame) and (fetched := self.through(frame, partial(self._flown, frame))):
            return fetched[start : start + length]
        try:
            fd = os.open(self._path(frame), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # there were too many, or it is beyond the end
            if not self._drop([frame]):
                return b""
            return self._part(frame, start, length)
        try:
            return os.pread(fd, min(length, FRAME - start), start)
        finally:
            os.close(fd)

    def _flown(self, frame: _Frame) -> bytes:
        """Return a frame that was not there, b"" if another thread has fetched it."""
        while not self._is_there(frame):
            with self._flight(frame[0]) as first:
                if first and not self._is_there(frame):
                    return self._fetched(frame)
        return b""

    def _is_there(self, frame: _Frame) -> bool:
        with self._lock:
            known = self._known()
            if frame not in known:
                return False
            known.move_to_end(frame)
            return True

    @contextmanager
    def _flight(self, pack: int) -> Iterator[bool]:
        """Fetch some of a pack for all who want it in the block; if somebody else does, wait, and yield False."""
        with self._landed:
            first = pack not in self._flights
            if first:
                self._flights.add(pack)
            else:
                self._landed.wait_for(lambda: pack not in self._flights)
        try:
            yield first
        finally:
            if first:
                with self._landed:
                    self._flights.remove(pack)
                    self._landed.notify_all()

    def _fetched(self, frame: _Frame) -> bytes:
        """Fetch a frame, and perhaps some that follow; return it."""
        now = time.monotonic()
        if now < self._away[0]:
            raise Away(self._away[1])
        pack, number = frame
        expected, before = self._next.get(pack, (-1, 0))
        count = min(2 * before, self._most_ahead) if number == expected else 1
        with self._lock:
            there = self._known()
            count = next((ahead for ahead in range(1, count) if (pack, number + ahead) in there), count)
        try:
            data = self.fetch(pack + REMOTE, number * FRAME, count * FRAME)
        except Away as error:
            # those that wait for each other do not wait one by one
            took = time.monotonic() - now
            self._away = (time.monotonic() + min(took, _PATIENCE_SECONDS), str(error))
            raise
        self._next[pack] = (number + count, count)
        if self.keeps:
            for at in range(0, len(data), FRAME):
                self._keep((pack, number + at // FRAME), data[at : at + FRAME])
        return data[:FRAME]

    def _keep(self, frame: _Frame, data: bytes) -> None:
        path = self._path(frame)
        new = path.with_name(f"{path.name}{paths.NEW}")
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                durable.pwrite_all(fd, data, 0)
            finally:
                os.close(fd)
            os.replace(new, path)
        except OSError:
            # there is no room: it is read all the same
            with suppress(OSError):
                new.unlink()
            return
        dropped: list[_Frame] = []
        with self._lock:
            known = self._known()
            self._size += len(data) - known.pop(frame, 0)
            known[frame] = len(data)
            size = self._size
            for other, length in known.items():
                if size <= self._capacity or other == frame:
                    break
                dropped.append(other)
                size -= length
        self._drop(dropped)

    def _drop(self, frames: list[_Frame], *, overwrite: bool = False) -> bool:
        """Remove frames; return whether any of them was there."""
        found = False
        for frame in frames:
            with self._lock:
                size = self._known().pop(frame, 0)
                self._size -= size
                found |= size > 0
            with suppress(FileNotFoundError):
                if overwrite:
                    durable.erase(self._path(frame))
                else:
                    self._path(frame).unlink()
        return found

    def _frames(self) -> list[_Frame]:
        with self._lock:
            return list(self._known())

    def _known(self) -> OrderedDict[_Frame, int]:
        """Return the frames that there are. The caller holds the lock."""
        if self._sizes is None:
            found = []
            with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
                for entry in entries:
                    if (name := _NAME.fullmatch(entry.name)) is not None:
                        about = entry.stat()
                        found.append((about.st_mtime_ns, (int(name[1]), int(name[2])), about.st_size))
                    else:
                        # of a process that was killed
                        os.unlink(entry.path)
            self._sizes = OrderedDict((frame, size) for _modified, frame, size in sorted(found))
            self._size = sum(self._sizes.values())
        return self._sizes

    def _path(self, frame: _Frame) -> Path:
        return self._directory / f"{frame[0]:012}-{frame[1]:04}"


def _nowhere(pack: int, _offset: int, _length: int) -> bytes:
    raise Away(f"{pack_name(pack)} is not here, and the space cannot be asked")
