"""Power failures under a whole store: what the disk may hold, at many moments, while several threads use it."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from store.disk import durable
from tests.disk.lossy import LossyDisk

_WATCHED = ("open_file", "pwrite_all", "fdatasync", "sync_directory", "make_directory", "replace", "remove", "truncate")


class Outages(LossyDisk):
    """Writes ``images/N`` before every operation N that ``chosen`` picks, and then goes on.

    ``noted`` is called at each of these moments and returns what had been acknowledged by then. Syncs of files whose
    path ends in ``deaf`` do nothing: a build that forgot them.
    """

    def __init__(
        self,
        root: Path,
        images: Path,
        chosen: Callable[[int], bool],
        noted: Callable[[], object],
        deaf: tuple[str, ...] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(root)
        self._seed = seed
        self.taken: dict[int, object] = {}
        self._images = images
        self._chosen = chosen
        self._noted = noted
        self._deaf = deaf
        self._lock = threading.RLock()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        super().install(patch)
        for name in _WATCHED:
            patch.setattr(durable, name, self._one_at_a_time(getattr(durable, name)))

    def _one_at_a_time(self, call: Callable[..., object]) -> Callable[..., object]:
        def locked(*arguments: object, **named: object) -> object:
            with self._lock:
                return call(*arguments, **named)

        return locked

    def _step(self) -> None:
        number = self.operations
        self.operations += 1
        if self._chosen(number):
            image = self._images / str(number)
            image.mkdir()
            # first: what is acknowledged while the image is written need not be in it
            self.taken[number] = self._noted()
            self.after_power_loss(image, self._seed + number)
            # SQLite syncs by itself where it must; an index that was not closed is not trusted after another boot
            for name in ("index.db", "index.db-wal"):
                if (self.root / name).exists():
                    shutil.copyfile(self.root / name, image / name)

    def _fdatasync(self, real: Callable[..., None]) -> Callable[..., None]:
        heard = super()._fdatasync(real)

        def fdatasync(fd: int) -> None:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(self._deaf or ("\0",)):
                self._step()
            else:
                heard(fd)

        return fdatasync

    def _sync_directory(self, real: Callable[..., None]) -> Callable[..., None]:
        heard = super()._sync_directory(real)

        def sync_directory(path: Path) -> None:
            if str(path).endswith(self._deaf or ("\0",)):
                self._step()
            else:
                heard(path)

        return sync_directory
