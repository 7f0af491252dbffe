"""A disk that fails once: the n-th write or sync from when it is installed raises, after doing some or none of it."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from store.disk import durable


class FailingDisk:
    """``at`` is the number of the call that fails (from 0; None: none); ``torn`` the share of a write that still
    happens."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int | None, code: int, torn: float = 0.0) -> None:
        self.calls = 0
        self.at = at
        self.code = code
        self.torn = torn
        self.failed = ""
        self.path = Path()
        """The file of the call that failed."""
        self._lock = threading.Lock()
        self._pwrite_all: Callable[..., None] = durable.pwrite_all
        patch.setattr(durable, "pwrite_all", self.pwrite_all)
        patch.setattr(durable, "fdatasync", self.fdatasync)
        patch.setattr(durable, "sync_directory", lambda _path: None)

    def _fails(self, call: str, fd: int) -> bool:
        with self._lock:
            number, self.calls = self.calls, self.calls + 1
            if number == self.at:
                self.failed = call
                self.path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            return number == self.at

    def pwrite_all(self, fd: int, data: bytes, offset: int) -> None:
        if self._fails("write", fd):
            self._pwrite_all(fd, bytes(data[: int(len(data) * self.torn)]), offset)
            raise OSError(self.code, "the disk fails, for a test")
        self._pwrite_all(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        # no power fails here, so that nothing needs to reach the disk
        if self._fails("sync", fd):
            # whatever the reason of the system is
            raise OSError(errno.EIO, "the disk fails, for a test")
