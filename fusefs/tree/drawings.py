"""Files that a thread draws when they are asked for: ``html/``, ``stats.json``, ``stats.svg`` and ``family.svg``.

What draws them is imported when something is drawn, not when it is mounted: it takes a tenth of that time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from fusefs.inodes import Place
from fusefs.tree.node import (
    DERIVED_FILE,
    UNCOUNTED,
    Attributes,
    Bytes,
    DerivedFile,
    DirEntry,
    File,
    Lazy,
    OpenContent,
)
from fusefs.tree.paths import INDEX, PAGE, Paths, shown_distinct
from fusefs.tree.projects import ProjectDirectory, ProjectsDirectory
from fusefs.tree.tree import Tree
from fusefs.tree.waiting import Later, Work
from store.errors import NotFound
from store.filenames import shown_name
from store.ids import now_ms
from store.index.catalogue import Among, ContextEntry

if TYPE_CHECKING:
    from store.insight.report import StatsReport
    from store.store import Store
    from store.upkeep.stats import Stats

_KEPT = 32
_KEPT_BYTES = 16 << 20
_LARGEST_PAGE = 64 << 20
"""Conversations with more bytes than this are not drawn as a page: it is held in memory."""
_COUNT_SECONDS = 3.0
"""The time spent on counting the rest; later requests find more."""


class Drawing(Struct):
    """A drawing of something in a ``state``; ``given`` says whether somebody has had it."""

    work: Work[bytes]
    state: object
    time_ms: int
    given: bool = False


class Drawings:
    """The drawings of one mount, by the files that they are in. Each is made again only after a change.

    The latest are kept, a few megabytes of them and the last in any case.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._drawn: OrderedDict[int, Drawing] = OrderedDict()

    def of(self, ino: int, state: object, draw: Callable[[], bytes]) -> Drawing:
        """Return the drawing in a file, drawn by a thread. Raises Later while it is; StoreBusy if that takes long."""
        drawn = self._drawn.get(ino)
        # a program that waited for one gets that, however much has changed meanwhile
        if drawn is None or (drawn.given and drawn.state != state):
            drawn = self._drawn[ino] = Drawing(self.tree.workers.begin(draw), state, now_ms())
        self._drawn.move_to_end(ino)
        try:
            drawn.work.result()
        except Later:
            raise
        except Exception:
            # whoever asks again has it drawn again, unless that is still going on
            if drawn.work.is_done:
                del self._drawn[ino]
            raise
        drawn.given = True
        self._drop()
        return drawn

    def _drop(self) -> None:
        """Drop the oldest drawings that somebody has had, while there are too many or they are too large."""
        taken = sum(len(drawn.work.result()) for drawn in self._drawn.values() if drawn.given)
        for ino, drawn in list(self._drawn.items())[:-1]:
            if len(self._drawn) <= _KEPT and taken <= _KEPT_BYTES:
                return
            if drawn.given:
                taken -= len(drawn.work.result())
                del self._drawn[ino]


class DrawnFile(File):
    """A file with a drawing."""

    # the drawing may change from one read to the next, and its size too
    direct = True

    def __init__(self, drawings: Drawings, ino: int, draw: Callable[[], bytes], state: object = None) -> None:
        super().__init__(ino)
        self._drawings = drawings
        self._draw = draw
        self._state = state
        """Equal for as long as the drawing stays the same; None: until the store changes."""

    def _drawn(self) -> Drawing:
        state = self._drawings.tree.changes if self._state is None else self._state
        return self._drawings.of(self.ino, state, self._draw)

    def attributes(self) -> Attributes:
        drawn = self._drawn()
        return Attributes(self.ino, DERIVED_FILE, len(drawn.work.result()), drawn.time_ms, timeout=0.0)

    def listed(self) -> Attributes:
        # the kernel asks for the size when somebody wants it
        return Attributes(self.ino, DERIVED_FILE, 0, self._drawings.tree.mounted_ms, timeout=0.0)

    def open(self) -> OpenContent:
        return Bytes(self._drawn().work.result())


# -- html/ -------------------------------------------------------------------------------------------------------------


class HtmlDirectory(ProjectsDirectory):
    """``html/``: it lists ``index.html`` alone, and has a directory a project.

    To know the size of a page is to draw it, so listings have none: the links of the index lead to all.
    """

    links = UNCOUNTED

    def branches(self) -> Mapping[str, str]:
        return {INDEX: INDEX}

    def lookup(self, name: str) -> int | None:
        return self.below(name) if name == INDEX else super().lookup(name)


class PagesDirectory(ProjectDirectory):
    """``html/PROJECT/``: a page a conversation, none of them listed."""

    shown = Place.PAGE
    ending = PAGE

    def entries(self, after: int) -> Iterator[DirEntry]:
        return iter(())

    def _is_here(self, conversation: ContextEntry) -> bool:
        return True

    def _beside(self, name: str) -> int | None:
        return None

    def _target(self, conversation: ContextEntry) -> str:
        return f"../{self.tree.project_name(conversation.project)}/{shown_name(conversation)}{PAGE}"


def index_drawing(drawings: Drawings, ino: int) -> DrawnFile:
    """Return the node of ``html/index.html``."""
    store = drawings.tree.store

    def draw() -> bytes:
        # few mounts ever draw a page, and it takes modules of several megabytes
        from store.exporting.html.index import index

        shown = {project: name for name, project in shown_distinct(store.catalogue.projects()).items()}
        return index(
            store.library.some(Among.LISTED),
            lambda one: f"{quote(shown.get(one.project, one.project))}/{quote(shown_name(one))}{PAGE}",
        )

    return DrawnFile(drawings, ino, draw)


def page_drawing(drawings: Drawings, ino: int, view_id: int) -> DrawnFile:
    """Return the node of ``html/PROJECT/NAME.html``."""
    store, conversation = drawings.tree.store, drawings.tree.view(view_id).conversation

    def draw() -> bytes:
        from store.exporting.html.page import page, too_large

        rows = store.records.rows(conversation.head) if conversation.head else ()
        if sum(row.payload_size for row in rows) > _LARGEST_PAGE:
            return too_large(conversation, f"../{INDEX}")
        return b"".join(page(store, conversation, f"../{INDEX}"))

    return DrawnFile(drawings, ino, draw, conversation)


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

    def draw() -> bytes:
        from fusefs.text.charts import stats_svg

        return stats_svg(*_counted(drawings.tree.store))

    return DrawnFile(drawings, ino, draw)


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
    context = tree.view(view_id).entry.id
    return DrawnFile(drawings, ino, lambda: _family_drawn(tree.store, context))


def _family_drawn(store: Store, context: int) -> bytes:
    from fusefs.text.charts import family_svg
    from store.insight.family import family

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
