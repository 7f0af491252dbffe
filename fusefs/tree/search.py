"""``search/QUERY/``: links to the events that match a query, best first, and ``hits.txt``, which says where.

A query's directory is made by looking it up, and nothing is searched for that: only when it is listed, or something in
it is looked for. Programs that look into every directory for names of their own find none here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fusefs.text.names import cut, safe_name
from fusefs.tree.node import (
    DERIVED_FILE,
    DIRECTORY,
    SHORT,
    Attributes,
    Content,
    Directory,
    Entry,
    File,
    Lazy,
    Link,
    Node,
)
from fusefs.tree.paths import Paths, event_path
from fusefs.tree.shown_names import shown_name
from fusefs.tree.top_directory import TopDirectory
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.waiting import Asked, Lately
from store.errors import NotFound
from store.ids import now_ms
from store.search.hits import Hit
from store.search.search import Search

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

SEARCH = "search"
HITS = "hits.txt"

_MOST = 1000
"""Hits of a query that are shown."""
_LINES = 10
"""Lines of each hit that are shown."""
_LINE = 1000
"""Characters of a line that are shown."""
_CONVERSATION_MAX = 110
"""Bytes that the name of a hit's conversation has in that of its link."""
_KEPT = 8
"""Of how many queries it is remembered what was found."""

Found = tuple[str, int]
"""Where a link leads, from the root of the mount, and when that happened, in Unix milliseconds."""

_HEAD = "HEAD"
_ESCAPED = re.compile("%(2F|25)", re.IGNORECASE)
_ESCAPES = {"2F": "/", "25": "%"}


def query_of(name: str) -> str | None:
    """Return the query that a directory is called after, None where it is no query's name.

    ``%2F`` stands for a slash and ``%25`` for a percent sign. No query begins with a dot or is ``HEAD``: git and others
    look for such names everywhere.
    """
    if name.startswith(".") or name == _HEAD:
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1].upper()], name)


class Hits(Asked):
    """What a query finds, as far as it has come: links by their names, and the lines of ``hits.txt``."""

    def __init__(self, tree: Tree, query: str) -> None:
        self._tree = tree
        self._query = query
        self.links: dict[str, Found] = {}
        self._lines: list[str] = []
        self._has_more = False
        super().__init__(tree.workers.begin(self._search), tree.changes)

    def _search(self) -> None:
        """Search; done by a thread, while others look at what has been found."""
        store = self._tree.store
        paths = Paths(store)
        for page in Search.of(store).pages(self._query, _MOST + 1, lines=_LINES):
            # pages without a hit come, too
            if self._tree.workers.is_ended:
                return
            for hit in page:
                self._add(hit, paths)

    def _add(self, hit: Hit, paths: Paths) -> None:
        rank = len(self.links) + 1
        if rank > _MOST:
            self._has_more = True
            return
        path = event_path(paths.conversation(hit.conversation), hit.row, hit.conversation.records)
        name = f"{rank:04}-{cut(shown_name(hit.conversation), _CONVERSATION_MAX)}-{path.rpartition('/')[2]}"
        self._lines += _told(path, hit)
        self.links[safe_name(name)] = (path, hit.time_ms)

    @property
    def text(self) -> bytes:
        """``hits.txt``."""
        lines = [*self._lines]
        if not self.work.is_done:
            lines.append("… still searching: look again")
        elif self._has_more:
            lines.append(f"… and more: these are the {_MOST} best")
        return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _told(path: str, hit: Hit) -> Iterator[str]:
    if not hit.lines:
        yield path
    for line in hit.lines:
        text = line.text if len(line.text) <= _LINE else line.text[:_LINE] + "…"
        yield f"{path}:{line.number}:{text}"


class Searches:
    """What the queries of one mount have found lately."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._hits: Lately[Hits] = Lately(_KEPT)

    def of(self, query: str, *, anew: bool) -> Hits:
        """Return what a query finds, or what it found before: unless ``anew``, and that was some time ago.

        Raises Later while it is being searched for, for some seconds, and UsageError where it cannot be understood.
        """
        changes = self._tree.changes if anew else None
        hits = self._hits.of(query, lambda: Hits(self._tree, query), changes=changes)
        if hits.work.await_done():
            hits.work.result()
        return hits

    def forget(self) -> None:
        """Forget what was found."""
        self._hits.forget()


class SearchDirectory(TopDirectory):
    """``search/``. It lists nothing: any query is there."""

    __slots__ = ()

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.mounted_ms, 2)

    def lookup(self, name: str) -> Node | None:
        return None if query_of(name) is None else self.tree.fixed((SEARCH, name))

    def entries(self, after: int) -> Iterator[Entry]:
        return iter(())


class QueryDirectory(Directory):
    """``search/QUERY/``."""

    __slots__ = ("name", "query", "tree")

    def __init__(self, tree: Tree, ino: int, name: str) -> None:
        super().__init__(ino)
        self.tree = tree
        self.name = name
        self.query = query_of(name) or ""

    @property
    def parent(self) -> int:
        """The inode number of ``search/``."""
        return self.tree.fixed((SEARCH,)).ino

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), 2, SHORT)

    def lookup(self, name: str) -> Node | None:
        if name == HITS:
            return self.tree.fixed((SEARCH, self.name, HITS))
        # as it was listed, whatever has changed since
        found = self.tree.searches.of(self.query, anew=False).links.get(name)
        if found is None:
            found = self.tree.searches.of(self.query, anew=True).links.get(name)
        return None if found is None else self._link(name, found)

    def _link(self, name: str, found: Found) -> Node:
        path, time_ms = found
        return self.tree.made((SEARCH, self.name, name), lambda ino: Link(ino, f"../../{path}", time_ms, SHORT))

    def opened(self) -> Directory:
        hits = self.tree.searches.of(self.query, anew=True)
        return FoundDirectory(self, dict(hits.links))

    def entries(self, after: int) -> Iterator[Entry]:
        return self.opened().entries(after)


class FoundDirectory(QueryDirectory):
    """The same while it is listed: what was found then."""

    __slots__ = ("_links",)

    def __init__(self, of: QueryDirectory, links: Mapping[str, Found]) -> None:
        super().__init__(of.tree, of.ino, of.name)
        self._links = links

    def opened(self) -> Directory:
        return self

    def entries(self, after: int) -> Iterator[Entry]:
        if after < FIRST_POSITION:
            yield Entry(FIRST_POSITION, HITS.encode(), self.tree.fixed((SEARCH, self.name, HITS)).attributes())
        for position, (name, found) in enumerate(self._links.items(), FIRST_POSITION + 1):
            if position > after:
                yield Entry(position, name.encode(), self._link(name, found).attributes())


class HitsFile(File):
    """``hits.txt``: the lines that match, as grep would say them, by paths from the root of the mount."""

    __slots__ = ("query", "tree")

    direct = True

    def __init__(self, tree: Tree, ino: int, query: str) -> None:
        super().__init__(ino)
        self.tree = tree
        self.query = query

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DERIVED_FILE, 0, now_ms(), timeout=0.0)

    def open(self) -> Content:
        return Lazy(lambda: self.tree.searches.of(self.query, anew=True).text)


def search_node(tree: Tree, ino: int, path: tuple[str, ...]) -> Node:
    """Return the node at ``path`` within ``search/``. Raises NotFound."""
    match path:
        case ():
            return SearchDirectory(tree, ino)
        case (name,) if query_of(name) is not None:
            return QueryDirectory(tree, ino, name)
        case (name, file) if file == HITS and (query := query_of(name)) is not None:
            return HitsFile(tree, ino, query)
    raise NotFound(f"there is no {'/'.join(path)} in {SEARCH}")
