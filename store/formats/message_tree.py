"""Conversations that are trees: which messages are the conversation that was seen last, and which branch off from it.

A question that was edited and an answer that was asked for again leave two messages that follow the same one.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct


class Node(NamedTuple):
    """A message: its id, that of the one it follows ("" for none), its time in any unit (0 for none)."""

    id: str
    parent: str
    time: float = 0


class Branch(Struct):
    """One way through a tree: positions of its own nodes, in order, after ``shared`` nodes of branch ``base``.

    ``base`` is the position of an earlier branch, -1 where there is none. Nodes are counted in the whole way, those
    that ``base`` itself shares with another branch too.
    """

    nodes: list[int]
    base: int = -1
    shared: int = 0


def branches(nodes: Sequence[Node], current: str = "") -> list[Branch]:
    """Return the ways through a tree that together have every node once, that to the node ``current`` first.

    Without such a node it is the way to the latest leaf. Every other branch goes on to the latest of the nodes that
    follow, wherever several do. What is no part of the tree (a node without an id; of an id that stands twice, all but
    the last; circles) is in the first branch, after the node before it.
    """
    last = {node.id: at for at, node in enumerate(nodes) if node.id}
    if (way := _only_way(nodes, last, current)) is not None:
        return [Branch(way)]
    tree = _Tree(nodes, last)
    leaf = last.get(current, -1)
    if leaf not in tree.above:
        leaves = [at for at in tree.above if at not in tree.below]
        leaf = max(leaves, key=lambda at: (nodes[at].time, at), default=-1)
    found = [Branch(_with_others(tree.way(leaf), [at for at in range(len(nodes)) if at not in tree.above]))]
    place = {at: (0, depth) for depth, at in enumerate(found[0].nodes)}
    waiting = deque(found[0].nodes)
    roots = deque(at for at in tree.above if tree.above[at] < 0 and at not in place)
    while waiting or roots:
        if waiting:
            above = waiting.popleft()
            starts = [at for at in tree.below.get(above, ()) if at not in place]
            base, depth = place[above]
        else:
            starts, base, depth = [roots.popleft()], -1, -1
        for start in starts:
            own = tree.onward(start)
            place |= {at: (len(found), depth + 1 + step) for step, at in enumerate(own)}
            found.append(Branch(own, base, depth + 1))
            waiting += own
    return found


def _only_way(nodes: Sequence[Node], last: dict[str, int], current: str) -> list[int] | None:
    """Return the way to the node ``current`` if all nodes are on it, as they mostly are."""
    way: list[int] = []
    at = last.get(current, -1)
    while at >= 0 and len(way) < len(nodes):
        way.append(at)
        at = last.get(nodes[at].parent, -1)
    return way[::-1] if len(way) == len(nodes) > 0 and at < 0 else None


def _with_others(way: list[int], others: list[int]) -> list[int]:
    """Return a way with other nodes in it: each after the one before it, last where that is not there."""
    following: dict[int, list[int]] = {}
    places = dict.fromkeys(way)
    anchor, previous = -1, -2
    for at in others:
        if at != previous + 1:
            anchor = at - 1 if at == 0 or at - 1 in places else way[-1] if way else -1
        following.setdefault(anchor, []).append(at)
        previous = at
    found = following.get(-1, [])
    for at in way:
        found += (at, *following.get(at, ()))
    return found


class _Tree:
    """``above`` has the position of the node that each follows (-1: none), ``below`` those that follow each.

    Only nodes that a first one leads to are in them.
    """

    def __init__(self, nodes: Sequence[Node], last: dict[str, int]) -> None:
        self._nodes = nodes
        self.above: dict[int, int] = {}
        self.below: dict[int, list[int]] = {}
        following: dict[int, list[int]] = {}
        for at in last.values():
            following.setdefault(last.get(nodes[at].parent, -1), []).append(at)
        reached = [-1]
        while reached:
            above = reached.pop()
            for at in sorted(following.get(above, ())):
                self.above[at] = above
                if above >= 0:
                    self.below.setdefault(above, []).append(at)
                reached.append(at)

    def way(self, at: int) -> list[int]:
        """Return the nodes from a first one to ``at``."""
        found: list[int] = []
        while at >= 0:
            found.append(at)
            at = self.above[at]
        return found[::-1]

    def onward(self, at: int) -> list[int]:
        """Return ``at`` and what follows it, always the latest."""
        found = [at]
        while below := self.below.get(at):
            at = max(below, key=lambda node: (self._nodes[node].time, node))
            found.append(at)
        return found
