"""Power failures under a whole store: what the disk may hold, at many moments, while several threads use it."""

import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from store.disk import durable
from tests.store.disk.lossy import DROPPED, KEPT, MIXED, TORN, LossyDisk, mixture

HOW = (KEPT, DROPPED, MIXED, TORN)

_WATCHED = ("open_file", "pwrite_all", "fdatasync", "sync_directory", "make_directory", "replace", "remove", "truncate")
_INDEX = ("index.db", "index.db-wal")
_FOLDED_AFTER_PAGES = 12
"""So that SQLite folds its write-ahead log into the file again and again, as it does in a large store."""


class Outages(LossyDisk):
    """At every operation, writes images of what the disk may hold before it, and then goes on.

    ``chosen`` says which images of operation N there are to be: KEPT, DROPPED, MIXED, TORN. ``noted`` is called at
    each of these moments and returns what had been acknowledged by then. Syncs of files whose path ends in ``deaf`` do
    nothing: a build that forgot them. Those of ``late`` only come about after the next write to one of these: a
    build that has acknowledged by then.
    """

    def __init__(
        self,
        root: Path,
        images: Path,
        chosen: Callable[[int], Iterable[str]],
        noted: Callable[[], object],
        deaf: tuple[str, ...] = (),
        late: tuple[str, ...] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(root)
        self._seed = seed
        self.taken: dict[str, object] = {}
        """Acknowledged states, by the name of each image."""
        self._images = images
        self._chosen = chosen
        self._noted = noted
        self._deaf = deaf or ("\0",)
        self._late = late or ("\0",)
        self._put_off: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._index: dict[str, tuple[int, bytes]] = {}
        """The certain part of the index, inodes and bytes: of that, SQLite itself sees to the syncs."""
        self.index_synced(*_INDEX)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        super().install(patch)
        for name in _WATCHED:
            patch.setattr(durable, name, self._one_at_a_time(getattr(durable, name)))
        watch = self

        class Watched(_Connection):
            outages = watch

        real = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda *place, **options: real(*place, factory=Watched, **options))

    def _one_at_a_time(self, call: Callable[..., object]) -> Callable[..., object]:
        def locked(*arguments: object, **named: object) -> object:
            with self._lock:
                return call(*arguments, **named)

        return locked

    def _step(self) -> None:
        number = self.operations
        self.operations += 1
        for how in self._chosen(number):
            name = f"{number}-{how}"
            image = self._images / name
            image.mkdir()
            # first: what is acknowledged while the image is written need not be in it
            self.taken[name] = self._noted()
            self.after_power_loss(image, self._seed + number, how)
            self._write_index(image, random.Random(self._seed + number), how)

    def _write_index(self, image: Path, source: random.Random, how: str) -> None:
        for name in _INDEX:
            (image / name).unlink(missing_ok=True)
            certain, now = self._index.get(name), self._now(name)
            if how == DROPPED:
                now = certain
            elif how == MIXED and now != certain:
                if certain and now and certain[0] == now[0]:
                    now = (now[0], mixture(certain[1], now[1], source))
                elif source.random() < 0.5:
                    now = certain
                elif now:
                    now = (now[0], mixture(b"", now[1], source))
            if now is not None:
                (image / name).write_bytes(now[1])

    def _now(self, name: str) -> tuple[int, bytes] | None:
        try:
            with open(self.root / name, "rb") as file:
                return os.fstat(file.fileno()).st_ino, file.read()
        except FileNotFoundError:
            return None

    def index_synced(self, *names: str) -> None:
        """Note that SQLite has brought files to disk, and their names."""
        with self._lock:
            for name in names:
                self._index.pop(name, None)
                if (now := self._now(name)) is not None:
                    self._index[name] = now

    def _fdatasync(self, real: Callable[..., None]) -> Callable[..., None]:
        heard = super()._fdatasync(real)

        def fdatasync(fd: int) -> None:
            path = os.readlink(f"/proc/self/fd/{fd}")
            if path.endswith(self._deaf):
                self._step()
            elif path.endswith(self._late):
                self._step()
                self._put_off.append(partial(heard, fd))
            else:
                heard(fd)

        return fdatasync

    def _pwrite_all(self, real: Callable[..., None]) -> Callable[..., None]:
        write = super()._pwrite_all(real)

        def pwrite_all(fd: int, data: bytes, offset: int) -> None:
            write(fd, data, offset)
            if os.readlink(f"/proc/self/fd/{fd}").endswith(self._late):
                while self._put_off:
                    self._put_off.pop()()

        return pwrite_all

    def _sync_directory(self, real: Callable[..., None]) -> Callable[..., None]:
        heard = super()._sync_directory(real)

        def sync_directory(path: Path) -> None:
            if str(path).endswith(self._deaf):
                self._step()
            else:
                heard(path)

        return sync_directory


class _Connection(sqlite3.Connection):
    """Tells what SQLite syncs, as it promises to: nothing but while ``synchronous`` is FULL.

    Then whoever commits syncs the write-ahead log, and whoever folds that into the file syncs both.
    """

    outages: Outages

    def __init__(self, path: Path, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - sqlite3's own
        super().__init__(path, *arguments, **options)
        self._full = True
        self._ours = Path(path).name == "index.db" and Path(path).parent == self.outages.root
        super().execute(f"PRAGMA wal_autocheckpoint = {_FOLDED_AFTER_PAGES}")

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:  # noqa: ANN401 - sqlite3's own
        cursor = super().execute(sql, *parameters)
        if sql.startswith("PRAGMA synchronous"):
            self._full = sql.endswith("FULL")
        elif self._full and self._ours and not self.in_transaction:
            if "wal_checkpoint" in sql:
                self.outages.index_synced(*_INDEX)
            elif sql.startswith("INSERT"):
                self.outages.index_synced("index.db-wal")
        return cursor

    def close(self) -> None:
        super().close()
        # the last one to go folds the log in
        if self._full and self._ours and not self.outages.root.joinpath("index.db-wal").exists():
            self.outages.index_synced(*_INDEX)


def watched(disk: Outages, run: Callable[[], object]) -> None:
    """Run something on a disk of which images are taken."""
    with pytest.MonkeyPatch.context() as patch:
        disk.install(patch)
        try:
            run()
        finally:
            disk.close()


def in_turns(seed: int) -> Callable[[int], tuple[str, ...]]:
    """Choose an image of each operation, in one way after the other."""
    return lambda number: (HOW[(number + seed) % len(HOW)],)


def rarely(every: int, *hows: str) -> Callable[[int], tuple[str, ...]]:
    """Choose images of one in so many operations."""
    return lambda number: hows if number % every == 0 else ()
