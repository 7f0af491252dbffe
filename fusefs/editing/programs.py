"""The programs that make the kernel's requests."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from pyfuse3 import RequestContext

_REMEMBERED_SECONDS = 0.1
"""The time that a thread is taken for one of the same program: its number is given to another only much later."""

REMEMBERED_MICROSECONDS = 100_000
"""The time that it may go on to open files without being asked for."""

_START = 19
"""The position of a process's start among the fields of ``/proc/PID/stat`` after its name."""
_READ_BYTES = 4096


def _told(path: str) -> bytes:
    """Return the beginning of what the kernel says in a file, in one read: a program that comes is waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _READ_BYTES)
    finally:
        os.close(fd)


class Program(Struct, frozen=True):
    """A running program: its process, and when that began, in ticks since the machine's start."""

    process: int
    begun: int

    @property
    def is_running(self) -> bool:
        """Return whether its process is there."""
        return os.path.exists(f"/proc/{self.process}")


class Programs:
    """Knows who makes the request that is being answered."""

    def __init__(self) -> None:
        self.thread = 0
        """The thread that makes it; 0 if that cannot be told."""
        self.acting: Program | None = None
        """The program in whose name something is done that it has asked for before."""
        self._last: tuple[int, Program] | None = None
        self._until = 0.0

    @contextmanager
    def others(self) -> Iterator[None]:
        """Have requests of others answered in the block, before this one goes on."""
        before, self.acting = (self.thread, self.acting), None
        try:
            yield
        finally:
            self.thread, self.acting = before

    def asks(self, context: RequestContext | None) -> None:
        """Record the request that is about to be answered, None if it is nobody's."""
        self.thread = context.pid if context else 0

    def asking(self) -> Program | None:
        """Return the program that makes the request, None if that cannot be told."""
        if not self.thread:
            return None
        now = time.monotonic()
        if self._last is None or self._last[0] != self.thread or now > self._until:
            found = self._read()
            self._last, self._until = (self.thread, found) if found else None, now + _REMEMBERED_SECONDS
        return self._last[1] if self._last else None

    def _read(self) -> Program | None:
        try:
            _name, _is_there, ids = _told(f"/proc/{self.thread}/status").partition(b"\nTgid:")
            process = int(ids.partition(b"\n")[0])
            return Program(process, int(_told(f"/proc/{process}/stat").rpartition(b")")[2].split()[_START]))
        except (OSError, ValueError, IndexError):
            # it has ended
            return None
