"""``.convfs/stats.json`` and ``stats.svg``: what the store holds, saves and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from fusefs.text.stats_svg import stats_svg
from fusefs.tree.drawings import DrawnFile
from fusefs.tree.node import DERIVED_FILE, Attributes, Content, File, Lazy
from fusefs.tree.waiting import Work
from store.ids import now_ms
from store.insight.insight import Insight

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree
    from store.store import Store

STATS, STATS_SVG = "stats.json", "stats.svg"

_COUNT_SECONDS = 3.0
"""So long is counted what was not yet; whoever asks later finds more."""


class StatsFile(File):
    """``stats.json``: made anew whenever it is opened, so its size is known only when read."""

    __slots__ = ("tree",)

    direct = True

    def __init__(self, tree: Tree, ino: int) -> None:
        super().__init__(ino)
        self.tree = tree

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, 0, now_ms(), timeout=0.0)

    def open(self) -> Content:
        told: list[Work[bytes]] = []

        def load() -> bytes:
            if not told:
                told.append(self.tree.workers.begin(lambda: _numbers(self.tree.store)))
            return told[0].result()

        return Lazy(load)


def stats_drawing(tree: Tree, ino: int) -> DrawnFile:
    """Return the node of ``stats.svg``."""
    return DrawnFile(tree, ino, lambda: _drawing(tree.store))


def _numbers(store: Store) -> bytes:
    insight = Insight.of(store)
    insight.count(seconds=_COUNT_SECONDS)
    numbers = structs.asdict(store.stats()) | structs.asdict(insight.report())
    return msgspec.json.format(msgspec.json.encode(numbers), indent=2) + b"\n"


def _drawing(store: Store) -> bytes:
    insight = Insight.of(store)
    insight.count(seconds=_COUNT_SECONDS)
    return stats_svg(store.stats(), insight.report())
