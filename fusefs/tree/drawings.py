"""``stats.json``, ``stats.svg`` and ``family.svg``: drawings of many conversations, made by a thread."""

from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from fusefs.text.charts import family_svg, stats_svg
from fusefs.tree.node import DERIVED_FILE, Attributes, Bytes, DerivedFile, File, Lazy, OpenContent
from fusefs.tree.paths import Paths
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Work
from store.errors import NotFound
from store.ids import now_ms
from store.insight.family import family
from store.insight.report import StatsReport
from store.store import Store
from store.upkeep.stats import Stats

_KEPT = 32
_COUNT_SECONDS = 3.0
"""The time spent on counting the rest; later requests find more."""


class Drawing(Struct):
    """A drawing, begun after ``changes`` changes; ``given`` says whether somebody has had it."""

    work: Work[bytes]
    changes: int
    time_ms: int
    given: bool = False


class Drawings:
    """The drawings of one mount, by the files that they are in. Each is made again only after a change."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._drawn: OrderedDict[int, Drawing] = OrderedDict()

    def of(self, ino: int, draw: Callable[[], bytes]) -> Drawing:
        """Return the drawing in a file, drawn by a thread. Raises Later while it is; StoreBusy if that takes long."""
        drawn = self._drawn.get(ino)
        # a program that waited for one gets that, however much has changed meanwhile
        if drawn is None or (drawn.given and drawn.changes != self.tree.changes):
            drawn = self._drawn[ino] = Drawing(self.tree.workers.begin(draw), self.tree.changes, now_ms())
        self._drawn.move_to_end(ino)
        if len(self._drawn) > _KEPT:
            self._drawn.popitem(last=False)
        drawn.work.result()
        drawn.given = True
        return drawn


class DrawnFile(File):
    """A file with a drawing."""

    # the drawing may change from one read to the next, and its size too
    direct = True

    def __init__(self, drawings: Drawings, ino: int, draw: Callable[[], bytes]) -> None:
        super().__init__(ino)
        self._drawings = drawings
        self._draw = draw

    def attributes(self) -> Attributes:
        drawn = self._drawings.of(self.ino, self._draw)
        return Attributes(self.ino, DERIVED_FILE, len(drawn.work.result()), drawn.time_ms, timeout=0.0)

    def listed(self) -> Attributes:
        # the kernel asks for the size when somebody wants it
        return Attributes(self.ino, DERIVED_FILE, 0, self._drawings.tree.mounted_ms, timeout=0.0)

    def open(self) -> OpenContent:
        return Bytes(self._drawings.of(self.ino, self._draw).work.result())


# -- stats.json, stats.svg ---------------------------------------------------------------------------------------------


def stats_file(tree: Tree, ino: int) -> DerivedFile:
    """Return the node of ``stats.json``: made anew whenever it is opened, so its size is known only when read."""

    def begin() -> OpenContent:
        told: list[Work[bytes]] = []

        def load() -> OpenContent:
            if not told:
                told.append(tree.workers.begin(lambda: _stats(tree.store)))
            return Bytes(told[0].result())

        return Lazy(load)

    return DerivedFile(ino, lambda: (0, now_ms()), begin)


def stats_drawing(drawings: Drawings, ino: int) -> DrawnFile:
    """Return the node of ``stats.svg``."""
    return DrawnFile(drawings, ino, lambda: stats_svg(*_counted(drawings.tree.store)))


def _counted(store: Store) -> tuple[Stats, StatsReport]:
    store.insight.count(seconds=_COUNT_SECONDS)
    return store.stats(), store.insight.report()


def _stats(store: Store) -> bytes:
    stats, report = _counted(store)
    return msgspec.json.format(msgspec.json.encode(structs.asdict(stats) | structs.asdict(report)), indent=2) + b"\n"


# -- family.svg --------------------------------------------------------------------------------------------------------


def family_drawing(drawings: Drawings, ino: int, view_id: int) -> DrawnFile:
    """Return the node of ``family.svg``, the forks and versions of a conversation as a graph.

    It is not listed: it costs looking at all of them.
    """
    tree = drawings.tree
    context = tree.view(view_id).conversation.id
    return DrawnFile(drawings, ino, lambda: _family_drawn(tree.store, context))


def _family_drawn(store: Store, context: int) -> bytes:
    found = family(store.library, context)
    versions = {version.number: version for version in store.catalogue.versions(context)}
    places = Paths(store)
    paths: dict[tuple[int, int], str] = {}
    # the way from the drawing to the root
    root = "../" * (places.conversation(store.catalogue.entry(context)).count("/") + 1)
    for line in found.lines:
        version = versions.get(line.version)
        try:
            path = places.conversation(store.catalogue.entry(line.context), version)
        except NotFound:
            # it was removed just now
            continue
        if path and (version is not None or not line.version):
            paths[line.context, line.version] = f"{root}{path}/"
    return family_svg(found, paths)
