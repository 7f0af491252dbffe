"""Links to what a thread finds: the events that match a query, and the holders of a resource.

``search/QUERY/`` has those of a query (and ``metadata.json`` where a title or a label has what is looked for), best
first, and ``hits.txt``, which says where.

A query's directory is made by looking it up, and nothing is searched for that: only when it is listed, or something in
it is looked for. Programs that look into every directory for names of their own find none here.

``by-resource/`` has the holders of a tool's file, an attachment or a web page, at a path made from its URI. The tree is
made of all URIs in the store, by a thread, when somebody first enters it. It is not listed in the root: every resource
is a directory here, and a walk through all of them would ask about each. If there are too many URIs for the tree, the
others can still be reached by name.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from fusefs.text.resource_names import resource_path
from fusefs.tree.node import DIRECTORY, UNCOUNTED, Attributes, Bytes, DerivedFile, Directory, Lazy, Link, OpenListing
from fusefs.tree.paths import Paths, event_path
from fusefs.tree.tree import FixedPath, Tree
from fusefs.tree.view_node import FixedDirectory, NamesDirectory
from fusefs.tree.waiting import Asked, Lately
from store.conversations.places import distinct
from store.events.event import Kind
from store.filenames import cut, safe_name, shown_name, unique
from store.ids import Hash, now_ms
from store.index.database import asked_again
from store.store import Store

if TYPE_CHECKING:
    from store.backlinks import Backlinks
    from store.search.search import Hit

HITS = "hits.txt"

_MOST = 1000
"""Hits of a query that are shown."""
_LINES = 10
"""Lines of each hit that are shown."""
_LINE = 1000
"""Characters of a line that are shown."""
_CONVERSATION_MAX = 110
"""Bytes that the name of a conversation has in that of a link to one of its events."""
_KEPT = 8
"""Of how many queries it is remembered what was found."""
_MOST_URIS = 100_000
"""URIs that are in the tree of ``by-resource/``."""
_MOST_EVENTS = 5_000
"""Events that are linked to, of one resource."""
_HOLDERS_KEPT = 64
_MOST_TOLD = 200
"""Paths in an extended attribute, which has room for 64 KB."""

_HEAD = "HEAD"
_ESCAPED = re.compile("%(2F|25)", re.IGNORECASE)
_ESCAPES = {"2F": "/", "25": "%"}

Found = tuple[str, int]
"""The target of a link, and when that happened or changed last, in Unix milliseconds."""


class FoundDirectory(FixedDirectory):
    """A directory of links to what a thread finds. All calls raise Later while it looks."""

    @abstractmethod
    def names(self, *, anew: bool) -> Collection[str]:
        """Return the names in it that are no links; as they were before, unless ``anew``."""

    @abstractmethod
    def found(self, *, anew: bool) -> Mapping[str, Found]:
        """Return the links in it, which may become more; as they were before, unless ``anew``."""

    def lookup(self, name: str) -> int | None:
        # as it was listed, whatever has changed since
        for anew in (False, True):
            if name in self.names(anew=anew):
                return self.below(name)
            found = self.found(anew=anew).get(name)
            if found is not None:
                return self._link(name, found)
        return None

    def _link(self, name: str, found: Found) -> int:
        path, time_ms = found
        return self.tree.made((*self.path, name), lambda ino: Link(ino, path, time_ms, self.timeout))

    def opened(self) -> Directory:
        numbers = {name: self.below(name) for name in self.names(anew=True)}
        links = self.found(anew=True)
        return OpenListing(self, numbers | {name: self._link(name, links[name]) for name in [*links]})


def query_of(name: str) -> str | None:
    """Return the query that a directory is called after, None where it is no query's name.

    ``%2F`` stands for a slash and ``%25`` for a percent sign. No query begins with a dot or is ``HEAD``: git and others
    look for such names everywhere.
    """
    if name.startswith(".") or name == _HEAD:
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1].upper()], name)


class Hits(Asked):
    """The hits of a query, as far as it has come: links by their names, and the lines of ``hits.txt``."""

    def __init__(self, tree: Tree, query: str) -> None:
        # imported here, as is all that searches: most of what is asked of a mount is not a search
        from store.search.unread import Unread

        self._tree = tree
        self._query = query
        self.links: dict[str, Found] = {}
        self._lines: list[str] = []
        self._has_more = False
        self._unread = Unread()
        super().__init__(tree.workers.begin(self._search), tree.changes)

    @asked_again
    def _search(self) -> None:
        """Search; done by a thread, while others look at what has been found."""
        self.links, self._lines, self._has_more = {}, [], False
        store = self._tree.store
        paths = Paths(store)
        for page in store.search.pages(self._query, _MOST + 1, lines=_LINES, unread=self._unread):
            # pages without a hit come, too
            if self._tree.workers.is_ended:
                return
            for hit in page:
                self._add(hit, paths)
        self.is_whole = not self._unread.turns

    def _add(self, hit: Hit, paths: Paths) -> None:
        rank = len(self.links) + 1
        if rank > _MOST:
            self._has_more = True
            return
        path = paths.hit(hit)
        name = f"{rank:04}-{cut(shown_name(hit.conversation), _CONVERSATION_MAX)}-{path.rpartition('/')[2]}"
        self._lines += _told(path, hit)
        self.links[safe_name(name)] = (f"../../{path}", hit.time_ms)

    @property
    def text(self) -> bytes:
        """``hits.txt``."""
        lines = [*self._lines]
        if not self.work.is_done:
            lines.append("… still searching: look again")
        elif self._has_more:
            lines.append(f"… and more: these are the {_MOST} best")
        if self._unread.turns:
            lines.append(f"… {self._unread}")
        return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _told(path: str, hit: Hit) -> Iterator[str]:
    if not hit.lines:
        yield path
    for line in hit.lines:
        text = line.text if len(line.text) <= _LINE else line.text[:_LINE] + "…"
        yield f"{path}:{line.number}:{text}"


class Searches:
    """The hits of the latest queries of one mount."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._hits: Lately[Hits] = Lately(_KEPT)

    def of(self, query: str, *, anew: bool) -> Hits:
        """Return the hits of a query, or those of an earlier search: unless ``anew``, and that was some time ago.

        Raises Later while it is being searched for, for some seconds, and UsageError where it cannot be understood.
        """
        changes = self._tree.changes if anew else None
        hits = self._hits.of(query, lambda: Hits(self._tree, query), changes=changes)
        if hits.work.await_done():
            hits.work.result()
        return hits

    def file(self, ino: int, query: str) -> DerivedFile:
        """Return the node of ``hits.txt``: the lines that match, as grep would say them."""
        return DerivedFile(ino, lambda: (0, now_ms()), lambda: Lazy(lambda: Bytes(self.of(query, anew=True).text)))

    def forget(self) -> None:
        self._hits.forget()


class SearchDirectory(NamesDirectory):
    """``search/``. It lists nothing: any query is there."""

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.mounted_ms, 2)

    def lookup(self, name: str) -> int | None:
        return None if query_of(name) is None else self.below(name)


class QueryDirectory(FoundDirectory):
    """``search/QUERY/``."""

    def __init__(self, tree: Tree, ino: int, path: FixedPath, searches: Searches) -> None:
        super().__init__(tree, ino, path)
        self.query = query_of(path[1]) or ""
        self._searches = searches

    def names(self, *, anew: bool) -> Collection[str]:
        return (HITS,)

    def found(self, *, anew: bool) -> Mapping[str, Found]:
        return self._searches.of(self.query, anew=anew).links


# -- by-resource/ ------------------------------------------------------------------------------------------------------

T = TypeVar("T")

Parts = tuple[str, ...]
"""The path of a directory within ``by-resource/``."""


class Uris:
    """The paths of the URIs in a store: all of them, or the first. Made by a thread."""

    def __init__(self, store: Store) -> None:
        self.folders: dict[Parts, dict[str, tuple[str, ...]]] = {(): {}}
        """The names in each directory, and the URIs whose path each of these is."""
        uris = _backlinks(store).uris(limit=_MOST_URIS + 1)
        self.is_whole = len(uris) <= _MOST_URIS
        for uri in uris[:_MOST_URIS]:
            *above, name = resource_path(uri).split("/")
            folder = self._folder(tuple(above))
            folder[name] = (*folder.get(name, ()), uri)

    def _folder(self, parts: Parts) -> dict[str, tuple[str, ...]]:
        folder = self.folders.get(parts)
        if folder is None:
            folder = self.folders[parts] = {}
            self._folder(parts[:-1]).setdefault(parts[-1], ())
        return folder

    def of(self, parts: Parts) -> list[str]:
        """Return the URIs whose path this is."""
        known = self.folders.get(parts[:-1], {}).get(parts[-1], ()) if parts else ()
        return [*known] if self.is_whole or not parts else list(dict.fromkeys([*known, *_guessed(parts)]))


def _guessed(parts: Parts) -> Iterator[str]:
    """Yield the URIs that most likely have a path."""
    path = "/".join(parts)
    yield from (path, f"/{path}", f"file:///{path}", f"file:///{quote(path)}")
    if len(parts) > 1:
        rest = "/".join(parts[1:])
        yield from (f"{parts[0]}://{rest}", f"{parts[0]}://{quote(rest)}", f"{parts[0]}:{rest}")


def _holders(store: Store, parts: Parts, uris: Sequence[str], names: Collection[str]) -> dict[str, Found]:
    """Return links to the conversations and the events that hold what has a path. Called by a thread."""
    holdings = [
        (holding.conversation, holding.row)
        for holding in islice(_backlinks(store).of_uris(uris, earlier=False), _MOST_EVENTS)
        if holding.row is not None and holding.row.kind is not Kind.RECORD and holding.conversation.name
    ]
    held = {conversation.id: conversation for conversation, _row in holdings}
    called = {conversation.id: name for name, conversation in distinct(held.values()).items()}
    paths = Paths(store)
    above = "../" * (len(parts) + 1)
    taken = set(names)
    links: dict[str, Found] = {}

    def put(name: str, path: str, time_ms: int) -> None:
        name = unique(safe_name(name), taken)
        taken.add(name)
        links[name] = (above + path, time_ms)

    for conversation in held.values():
        put(called[conversation.id], paths.conversation(conversation), conversation.updated_ms)
    for conversation, row in holdings:
        path = event_path(paths.conversation(conversation), row, conversation.records)
        stem = safe_name(called[conversation.id], limit=_CONVERSATION_MAX)
        put(f"{stem}@{path.rpartition('/')[2]}", path, row.time_ms or conversation.updated_ms)
    return links


def _backlinks(store: Store) -> Backlinks:
    # imported here, as what searches is
    from store.backlinks import Backlinks

    return Backlinks(store)


def _held_by(store: Store, digest: Hash) -> str:
    """Return the paths of what holds a content, a line each. Called by a thread."""
    paths = Paths(store)
    told = (path for holding in _backlinks(store).of_content(digest, earlier=False) if (path := paths.holding(holding)))
    lines = list(islice(dict.fromkeys(islice(told, _MOST_EVENTS)), _MOST_TOLD + 1))
    if len(lines) > _MOST_TOLD:
        lines[-1] = f"… and more: convfs where {digest.hex()}"
    return "".join(f"{line}\n" for line in lines)


class _Looked(Asked):
    """Backlinks that a thread looks for."""

    def __init__(self, tree: Tree, look: Callable[[], object]) -> None:
        self._store = tree.store
        self._look = look
        super().__init__(tree.workers.begin(self._looked), tree.changes)

    def _looked(self) -> object:
        found = self._look()
        self.is_whole = _backlinks(self._store).are_whole
        return found


class Resources:
    """The holders of URIs, as far as one mount has looked. All calls raise Later while a thread looks."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._uris: Lately[_Looked] = Lately(1)
        self._holders: Lately[_Looked] = Lately(_HOLDERS_KEPT)
        self._held_by: Lately[_Looked] = Lately(_HOLDERS_KEPT)

    def _ask(self, lately: Lately[_Looked], key: str, look: Callable[[], T], *, anew: bool = True) -> T:
        tree = self._tree
        changes = tree.changes if anew else None
        asked = lately.of(key, lambda: _Looked(tree, look), changes=changes)
        answer: T = asked.work.result()
        return answer

    def held_by(self, digest: Hash) -> str:
        """Return the paths of the events and outputs that hold a content, from the root of the mount, a line each."""
        return self._ask(self._held_by, digest.hex(), partial(_held_by, self._tree.store, digest))

    def uris(self, *, anew: bool) -> Uris:
        """Return all paths; as they were before, unless ``anew`` and that was some time ago."""
        return self._ask(self._uris, "", partial(Uris, self._tree.store), anew=anew)

    def links(self, parts: Parts, *, anew: bool) -> Mapping[str, Found]:
        """Return the links in a directory; as they were before, unless ``anew`` and that was some time ago."""
        uris = self.uris(anew=False)
        found = uris.of(parts)
        if not found:
            return {}
        look = partial(_holders, self._tree.store, parts, found, uris.folders.get(parts, {}))
        return self._ask(self._holders, "/".join(parts), look, anew=anew)

    def forget(self) -> None:
        for lately in (self._uris, self._holders, self._held_by):
            lately.forget()


class ResourcesDirectory(FoundDirectory):
    """A directory in ``by-resource/``, or that itself: with those below it, and links to the holders of its resource.

    Links are called as the conversation is, and as it, ``@``, and the event.
    """

    links = UNCOUNTED

    def __init__(self, tree: Tree, ino: int, path: FixedPath, resources: Resources) -> None:
        super().__init__(tree, ino, path)
        self._resources = resources

    def names(self, *, anew: bool) -> Collection[str]:
        return self._resources.uris(anew=anew).folders.get(self.path[1:], ())

    def found(self, *, anew: bool) -> Mapping[str, Found]:
        return self._resources.links(self.path[1:], anew=anew)

    def lookup(self, name: str) -> int | None:
        found = super().lookup(name)
        # whatever it is: to say what there is, all would have to be looked at
        return self.below(name) if found is None and not self._resources.uris(anew=False).is_whole else found
