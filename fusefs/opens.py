"""Opens of what the kernel has in its page cache: what Python need not be asked about.

The extension ``fusefs._opens``, which is built where there is a compiler, answers such opens and their releases in
C, in the thread that answers all others; nothing but speed depends on it. To get at the requests before pyfuse3 does
it stands in for a function of libfuse, so it is loaded before pyfuse3: this package imports this module first.
"""

import os
import sys
from typing import Protocol

_INTERFACE = 6
REQUEST = 1
"""The result of :meth:`Answered.turn` if a request waits to be received,"""
BUSY = 2
"""… or if it has answered so long without a pause that others should have their turn; else it returns 0."""


class Opens(Protocol):
    """The files and directories of a mount that may be opened to be read without asking Python."""

    def note(self, ino: int) -> None:
        """Let a file be opened: that changes nothing, and the page cache is as good as what would be read."""

    def note_directory(self, ino: int, microseconds: int) -> None:
        """Let a directory be opened for so long: that changes nothing, and the kernel may keep its entries."""

    def watch(self, ino: int, noted: int) -> None:
        """Let a file be opened by the thread that is :meth:`reading`; its opens are told with what is noted here."""

    def reading(self, thread: int, microseconds: int) -> list[tuple[int, int]]:
        """Let a thread open watched files for so long; 0: none.

        Returns the watched files that the one before has opened, and what was noted of each.
        """

    def hold(self, changes: int) -> None:
        """Count changes that are made; Python is asked about directories until as many were taken back.

        Any thread may call this.
        """

    def pause(self, changes: int) -> None:
        """Count changes that are being made; Python is asked about everything until as many were taken back.

        No directory is noted meanwhile.
        """

    def drop(self, ino: int) -> None:
        """Have Python asked about the opens of a file or directory again."""

    def clear(self) -> None:
        """Have Python asked about all opens again."""

    def is_open(self, ino: int) -> bool:
        """Return whether a file is open that Python was not asked about."""

    def adopt(self, handle: int) -> int:
        """Return the inode of an open file that Python was not asked about, and be asked about its release.

        Raises KeyError if there is no such open file.
        """

    def keep_listing(self, handle: int) -> None:
        """Let the kernel keep what it lists of a directory, when Python answers next that it is open as ``handle``."""

    def ended(self, handle: int, position: int) -> None:
        """Have an open directory of Python read from ``position`` on, where nothing is left, and released."""

    def released(self) -> list[int]:
        """Return the handles of such directories that were released since this was last asked."""

    def names_only(self, wanted: bool) -> bool:
        """Say whether entries put into a listing from now on name a file and tell no more; return whether they do.

        The kernel counts no lookup for such an entry.
        """


class Answered(Opens, Protocol):
    """Opens that are answered in the place of Python."""

    @property
    def answered(self) -> int:
        """The number of opens of files that it has answered."""

    @property
    def answered_directories(self) -> int:
        """The number of those of directories."""

    @property
    def is_between(self) -> bool:
        """Whether pyfuse3 receives its requests from here. Until it has received one, nobody knows."""

    def turn(self, fd: int, microseconds: int) -> int:
        """Answer what can be answered, until something else comes or nothing has for so long; see REQUEST and BUSY."""


class AllAsked:
    """Opens of a mount that asks Python about each."""

    def note(self, ino: int) -> None:
        pass

    def note_directory(self, ino: int, microseconds: int) -> None:
        pass

    def watch(self, ino: int, noted: int) -> None:
        pass

    def reading(self, thread: int, microseconds: int) -> list[tuple[int, int]]:
        return []

    def hold(self, changes: int) -> None:
        pass

    def pause(self, changes: int) -> None:
        pass

    def drop(self, ino: int) -> None:
        pass

    def clear(self) -> None:
        pass

    def is_open(self, ino: int) -> bool:
        return False

    def adopt(self, handle: int) -> int:
        raise KeyError(handle)

    def keep_listing(self, handle: int) -> None:
        pass

    def ended(self, handle: int, position: int) -> None:
        pass

    def released(self) -> list[int]:
        return []

    def names_only(self, wanted: bool) -> bool:
        return False


_flags = sys.getdlopenflags()
try:
    # pyfuse3 looks for libfuse's functions among what is there for all before it looks in libfuse
    sys.setdlopenflags(_flags | os.RTLD_GLOBAL)
    from fusefs import _opens
except ImportError:
    is_built = False
else:
    # one that was built from another version's source is left alone
    is_built = getattr(_opens, "INTERFACE", 0) == _INTERFACE
finally:
    sys.setdlopenflags(_flags)


def answered() -> Answered | None:
    """Return what answers in the place of Python, for the one mount of a process; None if it was not built."""
    return _opens.Opens() if is_built else None
