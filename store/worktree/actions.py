"""Actions on files, in one vocabulary for the file tools of every agent.

A call says which file and which change, its result what was read and whether it succeeded.
:mod:`store.worktree.calls` tells which actions a call has.
"""

from __future__ import annotations

from msgspec import Struct

from store.worktree.patches import Change


class Read(Struct, frozen=True):
    """Lines of a file as they were seen, from line ``first`` on; ``total`` is how many the file has, 0 if unknown.

    Lines are what newlines separate: a text that ends in a newline has an empty last one.
    """

    path: str
    text: str
    first: int = 1
    total: int = 0

    @property
    def lines(self) -> str:
        """The lines as the fragment of a URI, ``#L10-20``; "" if they are all."""
        last = self.first + self.text.count("\n")
        return "" if self.first == 1 and last == self.total else lines_of(self.text, self.first)


class Write(Struct, frozen=True):
    """The whole content that a file was given."""

    path: str
    text: str


class Edit(Struct, frozen=True):
    """Changes of a file, one after the other."""

    path: str
    changes: tuple[Change, ...]


class Move(Struct, frozen=True):
    """Another path for a file."""

    path: str
    to: str


class Delete(Struct, frozen=True):
    """The end of a file."""

    path: str


Action = Read | Write | Edit | Move | Delete


class Lines(Struct, frozen=True):
    """Lines of a file to be read, from ``first`` to ``last`` (0: the end)."""

    path: str
    first: int = 1
    last: int = 0


class Command(Struct, frozen=True):
    """A command for a shell."""

    text: str


class Task(Struct, frozen=True):
    """A task of an agent's list, and its status as the agent calls it: ``completed``."""

    text: str
    status: str


class Tasks(Struct, frozen=True):
    """The list of an agent's tasks, as it is from now on."""

    tasks: tuple[Task, ...]


Asked = Write | Edit | Move | Delete | Lines | Command | Tasks


def lines_of(text: str, first: int) -> str:
    """Return the lines of a file, from ``first`` on, as the fragment of a URI; an empty last one does not count."""
    last = first + text.removesuffix("\n").count("\n")
    return f"#L{first}-{last}"
