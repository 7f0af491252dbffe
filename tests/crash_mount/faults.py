"""Counts everything that a process changes below a directory, and lets it die or fail at one of these steps.

A step is one system call that writes, syncs, makes, moves, removes or changes a file there. They are counted where
Python makes them, in the module ``os``: so everything is, whoever asks for it. (SQLite's own calls are not. What it
writes is derived, and not believed when it was not closed. Writes of the jumps are counted where they are named: they
are derived, too, and made by whichever thread asks first, so that steps would have other numbers from run to run.)
"""

import errno
import mmap
import os
import re
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash_mount.certain import Certain

_CREATES = os.O_CREAT | os.O_TRUNC
_WRITES = os.O_WRONLY | os.O_RDWR
_STATE = struct.Struct("<III100s")

KILL, TORN, POWER, DROP = "kill", "torn", "power", "drop"
"""Faults of a step, beside an errno: the process dies before it, or half-way; the power fails before it; or
nothing is done."""

_BY_FD = ("pwrite", "write", "fsync", "fdatasync", "ftruncate", "fchmod")
_BY_PATH = ("unlink", "mkdir", "rmdir", "mknod", "truncate", "chmod", "utime", "setxattr", "removexattr", "chown")
_BY_TWO = ("rename", "replace", "link", "symlink")
SYNCS = frozenset({"fsync", "fdatasync"})
JUMPS = "pwrite turns/turns.jump"
"""The step that is counted only where it is named."""


def is_write(step: str) -> bool:
    """Say whether a step is a write, of which a part may be done."""
    return step.startswith(("pwrite ", "write "))


class Watch:
    """Memory that a process and the test share, in a file: whether steps are counted, how many, where it failed.

    It outlives the process however that dies.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_STATE.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STATE.size)

    def _get(self) -> tuple[int, int, int, bytes]:
        armed, steps, fired, name = _STATE.unpack(self._memory[:])
        return armed, steps, fired, name

    def _set(self, armed: int, steps: int, fired: int, name: bytes) -> None:
        self._memory[:] = _STATE.pack(armed, steps, fired, name)

    def arm(self, on: bool = True) -> None:
        """Begin to count, or stop."""
        _armed, steps, fired, name = self._get()
        self._set(on, steps, fired, name)

    def step(self) -> int:
        """Count a step; return its number, from 1, or 0 while none are counted."""
        armed, steps, fired, name = self._get()
        if armed:
            self._set(armed, steps + 1, fired, name)
        return steps + 1 if armed else 0

    def fire(self, name: str) -> None:
        """Note that a fault has come about, and where."""
        armed, steps, fired, _name = self._get()
        self._set(armed, steps, fired + 1, name.encode()[-100:])

    @property
    def steps(self) -> int:
        """How many steps there were."""
        return self._get()[1]

    @property
    def fired(self) -> str:
        """At which step a fault came about first, "" if at none."""
        return self._get()[3].rstrip(b"\0").decode(errors="replace")


class Faults:
    """Takes the place of the functions of ``os`` that change files below ``root``.

    At step ``at`` comes ``kind``: KILL, TORN, POWER (what is then on the disk is written to ``image``), DROP, or the
    name of an errno; with ``lasting`` also at every later one.
    ``only``, a pattern, limits the steps that are counted to those whose ``CALL PATH`` begins so. Where the power
    fails, syncs of paths that begin as ``deaf`` says had no effect.
    """

    def __init__(
        self,
        root: Path,
        watch: Watch,
        at: int,
        kind: str,
        *,
        lasting: bool = False,
        only: str = "",
        deaf: str = "",
        image: Path | None = None,
    ) -> None:
        self.root = os.path.realpath(root) + "/"
        self.watch = watch
        self.at = at
        self.kind = kind
        self.lasting = lasting
        self._only = re.compile(only)
        self._deaf = re.compile(deaf or "$.")
        self._image = image
        self._certain = Certain(Path(os.path.realpath(root))) if kind == POWER else None
        self._lock = threading.RLock()

    def install(self) -> None:
        """Begin to watch. Files that are opened to be written in another way end the process: they are not counted."""
        for name in _BY_FD:
            setattr(os, name, self._wrapped(name, getattr(os, name), self._of_fd))
        for name in (*_BY_PATH, "open"):
            setattr(os, name, self._wrapped(name, getattr(os, name), self._of_path))
        for name in _BY_TWO:
            setattr(os, name, self._wrapped(name, getattr(os, name), self._of_second))
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, _flags = arguments
            if isinstance(path, (str, bytes)) and mode is not None and set(mode) & set("wax+"):
                where = os.path.realpath(os.fsdecode(path))
                if where.startswith(self.root):
                    print(f"{where} is written where nobody counts", file=sys.stderr, flush=True)
                    os._exit(99)

    # -- where ---------------------------------------------------------------------------------------------------------

    def _of_fd(self, arguments: tuple[Any, ...], _named: dict[str, Any]) -> str:
        return os.readlink(f"/proc/self/fd/{arguments[0]}")

    def _of_path(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
        return self._path(arguments[0], named.get("dir_fd"))

    def _of_second(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
        return self._path(arguments[1], named.get("dst_dir_fd"))

    def _path(self, path: str | bytes | int | os.PathLike[str], directory: int | None) -> str:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}")
        text = os.fsdecode(path)
        if directory is not None and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), text)
        if text.startswith("/proc/self/fd/"):
            # the file itself, or what is in it where it is a directory
            number, _, rest = text.removeprefix("/proc/self/fd/").partition("/")
            text = os.path.join(os.readlink(f"/proc/self/fd/{number}"), rest)
        return os.path.join(os.path.realpath(os.path.dirname(text)), os.path.basename(text))

    # -- what ----------------------------------------------------------------------------------------------------------

    def _wrapped(self, name: str, real: Callable[..., Any], where: Callable[..., str]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> object:  # noqa: ANN401 - it stands for many
            if name == "open" and not arguments[1] & _CREATES:
                return real(*arguments, **named)
            try:
                path = where(arguments, named)
            except OSError:
                return real(*arguments, **named)
            step = f"{name} {path.removeprefix(self.root)}"
            if not f"{path}/".startswith(self.root) or not self._only.match(step):
                return real(*arguments, **named)
            if step == JUMPS and not self._only.pattern:
                return real(*arguments, **named)
            if name == "open" and not arguments[1] & os.O_TRUNC and os.path.lexists(path):
                return real(*arguments, **named)
            with self._lock:
                return self._step(name, path, real, arguments, named)

        return call

    def _step(
        self, name: str, path: str, real: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> object:
        number = self.watch.step()
        if not number or number < self.at or (number > self.at and not self.lasting):
            done = real(*arguments, **named)
            deaf = self._deaf.match(path.removeprefix(self.root))
            if self._certain is not None and name in SYNCS and not deaf:
                self._certain.synced(arguments[0])
            return done
        if not self.watch.fired:
            self.watch.fire(f"{name} {path.removeprefix(self.root)}")
        half = arguments[1][: len(arguments[1]) // 2] if name in ("pwrite", "write") else None
        if self.kind == DROP:
            return len(arguments[1]) if half is not None else None
        if self._certain is not None and self._image is not None:
            self._certain.write(self._image)
        if self.kind in (KILL, POWER):
            os.kill(os.getpid(), signal.SIGKILL)
        if half is not None:
            # where a disk is full or a process dies, a part may have been written
            real(arguments[0], half, *arguments[2:])
        if self.kind == TORN:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(getattr(errno, self.kind), "the disk fails, for a test", path)
