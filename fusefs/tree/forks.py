"""``forks/``: links to the conversations that branched off this one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.node import DIRECTORY, SHORT, Attributes, Entry, Link, Node
from fusefs.tree.shown_names import shown_name
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.view_node import ViewDirectory
from store.events.conversation import Conversation
from store.index.catalogue import Entry as Described

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

_NAME = re.compile(r"(.+?)(?:@([0-9]{1,18}))?", re.DOTALL)


def fork_name(name: str) -> tuple[str, int]:
    """Return what ``NAME@00007`` asks for: the name of the fork, and the record to fork behind (0: the last)."""
    found = _NAME.fullmatch(name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)


def fork_link(tree: Tree, fork: Conversation | Described) -> Link:
    """Return the link to a fork in the ``forks/`` of the conversation that it branched off."""
    ino = inodes.base(Space.PLACE, tree.view_id(fork.id)) + Place.FORK_LINK
    return Link(ino, f"../../../{tree.project_name(fork.project)}/{shown_name(fork)}", fork.created_ms, SHORT)


class ForksDirectory(ViewDirectory):
    """``forks/``. A directory that is made here becomes a fork, beside this conversation."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, 2, SHORT)

    def _forks(self) -> Mapping[str, Described]:
        if self.view.version is not None:
            return {}
        own = self.view.conversation
        forks: dict[str, Described] = {}
        for fork in self.tree.store.forks(own.id):
            name = shown_name(fork)
            forks[name if name not in forks else f"{name}@{fork.project}"] = fork
        return forks

    def lookup(self, name: str) -> Node | None:
        fork = self._forks().get(name)
        return fork_link(self.tree, fork) if fork else None

    def entries(self, after: int) -> Iterator[Entry]:
        for name, fork in self._forks().items():
            position = fork.id + FIRST_POSITION - 1
            if position > after:
                yield Entry(position, name.encode(), fork_link(self.tree, fork).attributes())
