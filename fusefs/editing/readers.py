"""Readers: how many records of a conversation a program knows of, from the files that show all of them.

An editor that is closed saves what it has read, perhaps long ago. What was appended meanwhile is not in its text, and
was not deleted by anybody.
"""

from collections import OrderedDict

from fusefs.editing.programs import Program

_REMEMBERED = 256


class Readers:
    """The records that programs have been shown."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[int, Program], int] = OrderedDict()

    def show(self, ino: int, program: Program | None, records: int) -> None:
        """Record that a program has been shown so many records in the file with an own number."""
        if program is not None:
            self._seen[ino, program] = records
            self._seen.move_to_end((ino, program))
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)

    def seen(self, ino: int, program: Program | None) -> int | None:
        """Return how many records a program was shown last in a file; None if it was never shown any."""
        return None if program is None else self._seen.get((ino, program))
