"""The names that events were made with, which lead to these, and who writes to them again.

``echo > user.md`` makes an event, and done again another one. An editor goes on with the one that it made. Which of the
two writes is told by what it does: an editor looks at its file before it saves that again.

The kernel opens a file by its inode, and an event made as ``user.md`` has the same one as under its own name. So a
program that opens one to write all of it anew is told to look again (ESTALE), and the name that it then asks for tells.
"""

import errno
import os

from msgspec import Struct
from pyfuse3 import FUSEError

from fusefs.editing.programs import Program, Programs
from fusefs.text.event_names import parse_event_name
from fusefs.tree.events import EventFile
from fusefs.tree.tree import Tree

_LOOKED = 2
"""Lookups that an editor makes: one more than the one before each opening and each renaming."""


class _Maker(Struct):
    program: Program | None
    looked: int = 0
    remover: Program | None = None


class TypedNames:
    """Knows who has made and looked at the names, by the view of their conversation."""

    def __init__(self, tree: Tree, programs: Programs) -> None:
        self._tree = tree
        self._programs = programs
        self._makers: dict[tuple[int, str], _Maker] = {}
        self._told: dict[int, int] = {}
        """Inodes by the threads that were told to look again."""

    def made(self, view_id: int, name: str, program: Program | None, number: int) -> None:
        """Record that a program has made event ``number`` under a name, which need not be its own."""
        self._tree.overlay(view_id).aliases[name] = number
        if parse_event_name(name) != number:
            self._makers[view_id, name] = _Maker(program)

    def drop(self, view_id: int, name: str) -> None:
        """Make a name free for another event."""
        self._makers.pop((view_id, name), None)
        self._tree.overlay(view_id).aliases.pop(name, None)

    def looked(self, view_id: int, name: str) -> None:
        """Record that a name is looked up."""
        maker = self._makers.get((view_id, name))
        if maker is not None and maker.program is not None and maker.program == self._programs.asking():
            maker.looked += 1

    def removed(self, view_id: int, name: str) -> None:
        """Record that a name is being removed."""
        if (maker := self._makers.get((view_id, name))) is not None:
            maker.remover = self._programs.asking()

    def is_replaced(self, view_id: int, name: str) -> bool:
        """Return whether a removed name is made again by who removed it and did not make it, as mv does."""
        maker = self._makers.get((view_id, name))
        if maker is None or maker.remover in (None, maker.program):
            return False
        return maker.remover == self._programs.asking()

    def writes_another(self, view_id: int, name: str) -> bool:
        """Return whether who is about to write to a name means another event, and no editor saves its own."""
        maker = self._makers.get((view_id, name))
        if maker is None:
            return False
        if maker.program is None or maker.program != self._programs.asking():
            return True
        looked, maker.looked = maker.looked, 0
        return looked < _LOOKED

    def opening(self, node: EventFile, flags: int) -> None:
        """Check the opening of an event to be written. Raises ESTALE where its name must be known first."""
        told = self._told.pop(self._programs.thread, 0) == node.ino
        if told or not flags & os.O_TRUNC:
            return
        aliases = self._tree.overlay(node.view_id).aliases
        if any(number == node.number and (node.view_id, name) in self._makers for name, number in aliases.items()):
            self._told[self._programs.thread] = node.ino
            raise FUSEError(errno.ESTALE)

    def asks_for(self, node: EventFile, name: str) -> bool:
        """Return whether who was told to look again means another event by a name; that is then free for it."""
        if self._told.get(self._programs.thread) != node.ino or not self.writes_another(node.view_id, name):
            return False
        del self._told[self._programs.thread]
        self.drop(node.view_id, name)
        return True
