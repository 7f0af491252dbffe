"""The files that a command loads, asked of a cold disk at once: Python waits for each before it asks for the next.

A start that had to wait for the disk notes what it has loaded, and a process beside the next such start reads that
ahead. The list is kept where Python keeps compiled modules, and may be lost like these.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from resource import RUSAGE_SELF, getrusage

_PROGRAM = "convfs"
_COMMANDS = ("grep", "mount")
"""Those that load much, and that people wait for."""
_COLD_BLOCKS = 2048
"""The blocks of 512 bytes from which on the disk is taken for cold: Python alone reads ten times as many then."""


class _Ahead:
    """The reading ahead for the command of this process."""

    def __init__(self) -> None:
        self._list = ""
        """The path of the list; "" where there is nothing to note."""
        self._reader = 0
        """The process that reads, if there is one."""
        self._process = os.getpid()
        """Its parent: a daemon that this process begins is not."""

    def read(self) -> None:
        """Have the files read, if the disk is cold. Called before anything large is imported."""
        command = next((word for word in sys.argv[1:] if word in _COMMANDS), None)
        folder = os.path.dirname(__spec__.cached or "")
        if os.path.basename(sys.argv[0]) != _PROGRAM or not command or not folder:
            return
        if getrusage(RUSAGE_SELF).ru_inblock < _COLD_BLOCKS:
            return
        self._list = os.path.join(folder, f"{command}.files")
        with suppress(OSError):
            with open(self._list, encoding="utf-8", errors="surrogateescape") as file:
                names = file.read().splitlines()
            self._reader = os.fork()
            if self._reader == 0:
                try:
                    # whoever reads what the command says waits until nobody holds that open
                    os.closerange(0, 3)
                    _ask(names)
                finally:
                    os._exit(0)

    def note(self) -> None:
        """Note what is loaded now, if the disk was cold. Called once the command has loaded what it needs."""
        if self._reader and os.getpid() == self._process:
            os.waitpid(self._reader, 0)
        if not self._list or sys.dont_write_bytecode:
            return
        new = f"{self._list}.{os.getpid()}"
        with suppress(OSError):
            with open(new, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write("\n".join(dict.fromkeys(_loaded())))
            os.replace(new, self._list)


AHEAD = _Ahead()


def _ask(names: list[str]) -> None:
    for name in names:
        with suppress(OSError, ValueError):
            if name.endswith(".py"):
                # Python only looks whether it has changed
                os.stat(name)
                continue
            file = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
            os.close(file)


def _loaded() -> Iterator[str]:
    """Yield the paths of modules, in the order of their loading, and of libraries; some twice."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        for path in (getattr(spec, "origin", None), getattr(spec, "cached", None)):
            if path and os.path.isabs(path):
                yield path
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            # address, permissions, offset, device, inode, path
            *_, path = line.rstrip("\n").split(maxsplit=5)
            if ".so" in path and os.path.isabs(path):
                yield path
