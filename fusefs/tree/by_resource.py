"""``by-resource/``: who holds a file of a tool, an attachment, a web page, at a path made from its URI.

The tree is made of all URIs in the store, by a thread, when somebody first enters it. It is not listed in the root:
every resource is a directory here, and what walks through all of them would ask about each. Where there are so many
URIs that not all of them are in the tree, those that are not can be named all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from fusefs import inodes
from fusefs.text.names import safe_name, unique
from fusefs.text.resource_names import resource_path
from fusefs.tree.links import link_names
from fusefs.tree.node import DIRECTORY, SHORT, UNCOUNTED, Attributes, Directory, Entry, Link, Node
from fusefs.tree.paths import Paths, event_path
from fusefs.tree.view import FIRST_POSITION
from fusefs.tree.waiting import Asked, Lately
from store.backlinks.backlinks import Backlinks
from store.events.event import Kind
from store.ids import Hash
from store.search.search import Search

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

BY_RESOURCE = "by-resource"

_MOST_URIS = 100_000
"""URIs that are in the tree."""
_MOST_EVENTS = 5_000
"""Events that are linked to, of one resource."""
_KEPT = 64
_MOST_TOLD = 200
"""Paths in an extended attribute, which has room for 64 KB."""
_STEM_MAX = 110
"""Bytes that the name of a conversation has in that of a link to one of its events."""

Found = tuple[str, int]
"""Where a link leads, and when that happened or changed last, in Unix milliseconds."""

Parts = tuple[str, ...]
"""The path of a directory within ``by-resource/``."""


class Uris(Asked):
    """The paths of the URIs in the store."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.folders: dict[Parts, dict[str, tuple[str, ...]]] = {(): {}}
        """The names in each directory, and the URIs whose path each of these is."""
        self.is_whole = True
        super().__init__(tree.workers.begin(self._collect), tree.changes)

    def _collect(self) -> None:
        """Collect them; done by a thread."""
        uris = Search.of(self._tree.store).holders.uris(limit=_MOST_URIS + 1)
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


class Holders(Asked):
    """Links to the conversations and the events that hold what has a path: by name, with where they lead."""

    def __init__(self, tree: Tree, parts: Parts, uris: Sequence[str], taken: Collection[str]) -> None:
        self._tree = tree
        self._above = "../" * (len(parts) + 1)
        self._uris = uris
        self._taken = taken
        self.links: dict[str, Found] = {}
        super().__init__(tree.workers.begin(self._look), tree.changes)

    def _look(self) -> None:
        """Look who holds them; done by a thread."""
        store = self._tree.store
        holdings = [
            (holding.conversation, holding.row)
            for holding in islice(Backlinks(store).of_uris(self._uris, earlier=False), _MOST_EVENTS)
            if holding.row is not None and holding.row.kind is not Kind.RECORD and holding.conversation.name
        ]
        held = {conversation.id: conversation for conversation, _row in holdings}
        names = {conversation.id: name for name, conversation in link_names(held.values()).items()}
        paths = Paths(store)
        taken = set(self._taken)
        links: dict[str, Found] = {}

        def put(name: str, path: str, time_ms: int) -> None:
            name = unique(safe_name(name), taken)
            taken.add(name)
            links[name] = (self._above + path, time_ms)

        for conversation in held.values():
            put(names[conversation.id], paths.conversation(conversation), conversation.updated_ms)
        for conversation, row in holdings:
            path = event_path(paths.conversation(conversation), row, conversation.records)
            stem = safe_name(names[conversation.id], limit=_STEM_MAX)
            put(f"{stem}@{path.rpartition('/')[2]}", path, row.time_ms or conversation.updated_ms)
        self.links = links


class HeldBy(Asked):
    """The paths of what holds a content, a line each."""

    def __init__(self, tree: Tree, digest: Hash) -> None:
        self._store = tree.store
        self._digest = digest
        self.text = ""
        super().__init__(tree.workers.begin(self._look), tree.changes)

    def _look(self) -> None:
        """Look who holds it; done by a thread."""
        found = Backlinks(self._store).of_content(self._digest, earlier=False)
        paths = Paths(self._store)
        told = (path for holding in found if (path := paths.holding(holding)))
        lines = list(islice(dict.fromkeys(islice(told, _MOST_EVENTS)), _MOST_TOLD + 1))
        if len(lines) > _MOST_TOLD:
            lines[-1] = f"… and more: convfs where {self._digest.hex()}"
        self.text = "".join(f"{line}\n" for line in lines)


class Resources:
    """What one mount knows of who holds which URIs. All raise Later while a thread looks."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._uris: Lately[Uris] = Lately(1)
        self._holders: Lately[Holders] = Lately(_KEPT)
        self._held_by: Lately[HeldBy] = Lately(_KEPT)

    def held_by(self, digest: Hash) -> str:
        """Return the paths of the events and outputs that hold a content, from the root of the mount, a line each."""
        changes = self._tree.changes
        held = self._held_by.of(digest.hex(), lambda: HeldBy(self._tree, digest), changes=changes)
        held.work.result()
        return held.text

    def uris(self, *, anew: bool) -> Uris:
        """Return all paths; as they were before, unless ``anew`` and that was some time ago."""
        uris = self._uris.of("", lambda: Uris(self._tree), changes=self._tree.changes if anew else None)
        uris.work.result()
        return uris

    def links(self, parts: Parts, *, anew: bool) -> Mapping[str, Found]:
        """Return the links in a directory; as they were before, unless ``anew`` and that was some time ago."""
        uris = self.uris(anew=False)
        found = uris.of(parts)
        if not found:
            return {}
        changes = self._tree.changes if anew else None
        taken = uris.folders.get(parts, {})
        holders = self._holders.of("/".join(parts), lambda: Holders(self._tree, parts, found, taken), changes=changes)
        holders.work.result()
        return holders.links

    def forget(self) -> None:
        """Forget what was found."""
        for lately in (self._uris, self._holders, self._held_by):
            lately.forget()


class ResourcesDirectory(Directory):
    """A directory in ``by-resource/``, or that itself: with those below it, and links to who holds what it stands for.

    Links are called as the conversation is, and as it, ``@``, and the event.
    """

    __slots__ = ("parts", "tree")

    def __init__(self, tree: Tree, ino: int, parts: Parts) -> None:
        super().__init__(ino)
        self.tree = tree
        self.parts = parts

    @property
    def parent(self) -> int:
        """The inode number of the directory above."""
        return self.tree.fixed((BY_RESOURCE, *self.parts[:-1])).ino if self.parts else inodes.ROOT

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.tree.changed_ms(), UNCOUNTED, SHORT)

    def lookup(self, name: str) -> Node | None:
        for anew in (False, True):
            uris = self.tree.resources.uris(anew=anew)
            if name in uris.folders.get(self.parts, ()):
                return self.tree.fixed((BY_RESOURCE, *self.parts, name))
            found = self.tree.resources.links(self.parts, anew=anew).get(name)
            if found is not None:
                return self._link(name, found)
        # whatever it is: to say what there is, all would have to be looked at
        return None if uris.is_whole else self.tree.fixed((BY_RESOURCE, *self.parts, name))

    def _link(self, name: str, found: Found) -> Node:
        path, time_ms = found
        return self.tree.made((BY_RESOURCE, *self.parts, name), lambda ino: Link(ino, path, time_ms, SHORT))

    def opened(self) -> Directory:
        folders = self.tree.resources.uris(anew=True).folders.get(self.parts, {})
        return ListedResources(self, list(folders), dict(self.tree.resources.links(self.parts, anew=True)))

    def entries(self, after: int) -> Iterator[Entry]:
        return self.opened().entries(after)


class ListedResources(ResourcesDirectory):
    """The same while it is listed: what there was then."""

    __slots__ = ("_folders", "_links")

    def __init__(self, of: ResourcesDirectory, folders: Sequence[str], links: Mapping[str, Found]) -> None:
        super().__init__(of.tree, of.ino, of.parts)
        self._folders = folders
        self._links = links

    def opened(self) -> Directory:
        return self

    def entries(self, after: int) -> Iterator[Entry]:
        for position, name in enumerate((*self._folders, *self._links), FIRST_POSITION):
            if position > after:
                found = self._links.get(name)
                node = self.tree.fixed((BY_RESOURCE, *self.parts, name)) if found is None else self._link(name, found)
                yield Entry(position, name.encode(), node.attributes())
