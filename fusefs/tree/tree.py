"""The tree: from inode numbers to nodes, and what is remembered between requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from fusefs import inodes
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, ROOT, Handed, Place, Space
from fusefs.text.names import parse_event_name
from fusefs.tree.by_resource import BY_RESOURCE, Resources
from fusefs.tree.changes import Shown, Stale, stale_places
from fusefs.tree.control import BLOBS, Errors
from fusefs.tree.disk_space import DiskSpace, SpaceTaken
from fusefs.tree.drawings import Drawings
from fusefs.tree.events import EventFile
from fusefs.tree.native.files import Native
from fusefs.tree.node import Node
from fusefs.tree.outputs import OutputFile, OutputNames, output_node
from fusefs.tree.overlay import EventOverlay, Served
from fusefs.tree.paths import CONTROL, CONVERSATIONS, TRANSCRIPTS
from fusefs.tree.places import placed
from fusefs.tree.projects import MARKDOWN
from fusefs.tree.records import RecordFile
from fusefs.tree.resources import resource_node
from fusefs.tree.search import SEARCH, Searches
from fusefs.tree.shown_names import shown_distinct, shown_name
from fusefs.tree.streams import GrowingFile, Streams
from fusefs.tree.top import Key, top_node
from fusefs.tree.view import View
from fusefs.tree.view_node import ViewNode
from fusefs.tree.waiting import Workers
from store.errors import NotFound
from store.ids import now_ms
from store.store import Store

_UNCOUNTED: tuple[Key, ...] = ((BY_RESOURCE,), (CONTROL, BLOBS), (SEARCH,))
"""What is below these may be very many, and gets another number when it is looked up again."""
_VIEWS_KEPT = 256
_VIEWED_RECORDS_KEPT = 1 << 18
_ANONYMOUS = "/"
"""Leads the keys of numbers that belong to no path."""


class Tree:
    """All nodes of one mount. Used by one thread."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.errors = Errors()
        self.mounted_ms = now_ms()
        self.changes = 0
        """Counts the changes that were told of: what was made before another number is out of date."""
        self._keys: Handed[Key] = Handed(ROOT)
        self._fixed: dict[int, Node] = {}
        self._view_keys: Handed[tuple[int, int]] = Handed(FIRST_HANDED_OUT_VIEW)
        self._views: OrderedDict[int, View] = OrderedDict()
        self._viewed_records = 0
        self.called: dict[int, tuple[str, str]] = {}
        """By inode of a conversation's directory or transcript: the project and the name that the kernel was told."""
        self._shown: dict[int, list[Shown]] = {}
        self.served: dict[int, Served] = {}
        """What is shown in place of what would be drawn, by inode: what is being written, and what was saved."""
        self.known: dict[int, int] = {}
        """The numbers by which the kernel knows files that can be saved, where they are others than their own."""
        self.own: dict[int, int] = {}
        """Their own numbers, by those."""
        self.overlays: dict[int, EventOverlay] = {}
        """By view: what is otherwise in ``events/`` than the store says."""
        self.streams = Streams(self)
        """The turns that are being written."""
        self.outputs = OutputNames(self)
        """What tools and agents have put out."""
        self.native = Native(self, Path.home())
        """The tools' own files."""
        self.workers = Workers()
        """Threads for what takes long."""
        self.searches = Searches(self)
        """What was searched for lately."""
        self.drawings = Drawings(self)
        """What was drawn lately."""
        self.resources = Resources(self)
        """Who holds which URIs."""
        self.unsettled: set[int] = set()
        """Inodes of files that have changed, of which the kernel has not been told yet."""
        self._space = SpaceTaken(store.root)
        self._changed_ms: int | None = None
        self._projects: dict[str, str] | None = None
        self._anonymous = 0
        self.new_projects: set[str] = set()
        """Projects that were made, and have no conversations yet."""
        self.vanished: set[int] = set()
        """The own numbers of what is being removed as a whole, and is not shown meanwhile."""
        self.fixed(())

    # -- nodes -----------------------------------------------------------------------------------------------------

    def node(self, ino: int) -> Node:
        """Return the node with an inode number. Raises NotFound if what it was is gone."""
        node = self._fixed.get(ino)
        if node is not None:
            return node
        space, view_id, number = inodes.split(ino)
        if space == Space.EVENT:
            growing = self.streams.event(view_id, number)
            return GrowingFile(self, ino, view_id, number) if growing else EventFile(self, ino, view_id, number)
        if space == Space.PLACE:
            return placed(self, ino, view_id, Place(number))
        if space == Space.RECORD:
            return RecordFile(self, ino, view_id)
        if space == Space.RESOURCE:
            return resource_node(self, view_id, ino)
        if space == Space.OUTPUT:
            return output_node(self, view_id, ino)
        raise NotFound(f"there is no inode {ino}")

    def place(self, view_id: int, place: Place) -> Node:
        """Return a node that there is once in every view, under the number that it is known by."""
        own = inodes.base(Space.PLACE, view_id) + place
        return placed(self, self.known.get(own, own), view_id, place)

    def fixed(self, key: Key) -> Node:
        """Return a node that belongs to no conversation, by its path."""
        ino = self._keys.number(key)
        node = self._fixed.get(ino)
        if node is None:
            node = self._fixed[ino] = top_node(self, ino, key)
        return node

    def made(self, key: Key, make: Callable[[int], Node]) -> Node:
        """Return a node that belongs to no conversation, made anew with the number that its path has."""
        ino = self._keys.number(key)
        node = self._fixed[ino] = make(ino)
        return node

    def event(self, view_id: int, number: int) -> EventFile:
        """Return the file of an event under the number that it is known by."""
        own = inodes.base(Space.EVENT, view_id) + number
        return EventFile(self, self.known.get(own, own), view_id, number)

    def own_number(self, view_id: int, number: int) -> int:
        """Return the inode number that is computed for an event."""
        return inodes.base(Space.EVENT, view_id) + number

    def overlay(self, view_id: int) -> EventOverlay:
        """Return what is otherwise in ``events/`` of a view, to be changed."""
        return self.overlays.setdefault(view_id, EventOverlay())

    def as_known(self, stale: Stale) -> Stale | None:
        """Return what is stale of an event by the number that it is known by; None if it is shown as it was saved."""
        if stale.name is not None:
            # the name of an event that was removed, and is there again by now, leads to the right file
            number = parse_event_name(stale.name.decode(errors="replace"))
            _space, view_id, place = inodes.split(stale.ino)
            again = place == Place.EVENTS and number and self.event(view_id, number).ino in self.served
            return None if again else stale
        stale = stale._replace(ino=self.known.get(stale.ino, stale.ino))
        return None if stale.ino in self.served else stale

    def places_known(self, view_id: int) -> list[Stale]:
        """Return what every change of a conversation makes stale, by the numbers that it is known by."""
        return [stale._replace(ino=self.known.get(stale.ino, stale.ino)) for stale in stale_places(view_id)]

    def entries_of(self, view_id: int) -> list[tuple[Stale, str, str]]:
        """Return the entries by which the kernel knows a conversation, with the project and the name they were of."""
        found = []
        for place, top, ending in ((Place.CONVERSATION, CONVERSATIONS, ""), (Place.TRANSCRIPT, TRANSCRIPTS, MARKDOWN)):
            called = self.called.get(inodes.base(Space.PLACE, view_id) + place)
            if called is not None:
                project, name = called
                found.append((Stale(self.fixed((top, project)).ino, (name + ending).encode()), project, name))
        return found

    def has_vanished(self, ino: int) -> bool:
        """Say whether a file or directory is not shown, because it is being removed."""
        return self.own.get(ino, ino) in self.vanished

    def bound(self, ino: int) -> Node | None:
        """Return the node that an inode number was given to, None if it is what its number says."""
        return self._fixed.get(ino)

    def bind(self, ino: int, node: Node) -> None:
        """Make an inode number another node's than its own."""
        self._fixed[ino] = node

    def unbind(self, ino: int) -> None:
        """Give an inode number back to what it says."""
        self._fixed.pop(ino, None)
        key = self._keys.key(ino)
        if key is not None and key[0] == _ANONYMOUS:
            self._keys.drop(ino)

    def new_number(self) -> int:
        """Return an inode number that nothing has had."""
        self._anonymous += 1
        return self._keys.number((_ANONYMOUS, str(self._anonymous)))

    def forget(self, ino: int) -> None:
        """Drop what is remembered of a node that the kernel no longer knows, where there may be many of its kind."""
        self.called.pop(ino, None)
        self.outputs.forget(ino)
        if isinstance(self.bound(ino), OutputFile):
            # it was moved while the kernel knew it
            self.unbind(ino)
        key = self._keys.key(ino)
        if key is not None and any(key[: len(above)] == above and len(key) > len(above) for above in _UNCOUNTED):
            self._keys.drop(ino)
            self._fixed.pop(ino, None)

    # -- views -----------------------------------------------------------------------------------------------------

    def view_id(self, context_id: int) -> int:
        """Return the number of a conversation at its head in inodes."""
        return context_id if context_id < FIRST_HANDED_OUT_VIEW else self._view_keys.number((context_id, 0))

    def context_at_head(self, view_id: int) -> int:
        """Return the context that a view shows at its head, 0 for an earlier version."""
        if view_id < FIRST_HANDED_OUT_VIEW:
            return view_id
        context, version = self._view_keys.key(view_id) or (0, 0)
        return 0 if version else context

    def version_view(self, context_id: int, version: int) -> int:
        """Return the number of an earlier version of a conversation in inodes."""
        return self._view_keys.number((context_id, version))

    def view(self, view_id: int) -> View:
        """Return a view. Raises NotFound if there is none of that number."""
        view = self._views.get(view_id)
        if view is None or view.outdated:
            before = view
            view = self._views[view_id] = self._load(view_id, before)
            self._viewed_records += view.records - (before.records if before else 0)
            self._views.move_to_end(view_id)
            while len(self._views) > 1 and (
                len(self._views) > _VIEWS_KEPT or self._viewed_records > _VIEWED_RECORDS_KEPT
            ):
                _id, dropped = self._views.popitem(last=False)
                self._viewed_records -= dropped.records
        return view

    def view_at_hand(self, view_id: int) -> View | None:
        """Return what :meth:`view` does, if nothing must be made for it."""
        view = self._views.get(view_id)
        return None if view is None or view.outdated else view

    def has_shown(self, view_id: int) -> bool:
        """Say whether more was shown of a conversation than its name."""
        return view_id in self._shown

    def renew(self, view_id: int) -> None:
        """Show a conversation as it is by now. What the kernel knows of it is taken back later."""
        self.changes += 1
        self._changed_ms = None
        self._projects = None
        if context := self.context_at_head(view_id):
            self.native.changed(context)
        view = self._views.get(view_id)
        if view is not None:
            view.outdated = True

    def forget_all(self) -> None:
        """Forget what was drawn of every conversation, and what went wrong: contents are others now."""
        self.changes += 1
        self._changed_ms = None
        self._projects = None
        self._views.clear()
        self._viewed_records = 0
        self.searches.forget()
        self.resources.forget()
        self.errors.clear()

    def changed(self, view_id: int) -> list[Shown]:
        """Take note that a conversation has changed; return what was shown of it before."""
        self.renew(view_id)
        return self._shown.pop(view_id, [])

    def _load(self, view_id: int, before: View | None) -> View:
        context_id, version = view_id, 0
        if view_id >= FIRST_HANDED_OUT_VIEW:
            key = self._view_keys.key(view_id)
            if key is None:
                raise NotFound(f"there is no view {view_id}")
            context_id, version = key
        conversation = self.store.conversation(context_id)
        if version:
            return View(self.store, view_id, conversation, self.store.version(context_id, version))
        shown = Shown(
            context_id,
            view_id,
            conversation.head,
            conversation.records,
            conversation.project,
            shown_name(conversation),
            self.fixed((CONVERSATIONS, conversation.project)).ino,
            self.fixed((TRANSCRIPTS, conversation.project)).ino,
        )
        self._shown.setdefault(view_id, []).append(shown)
        return View(self.store, view_id, conversation, before=before)

    def parent_of(self, view: View) -> int:
        """Return the inode number of the directory that a view's own directory is in."""
        conversation = view.conversation
        if view.version is None:
            return self.fixed((CONVERSATIONS, conversation.project)).ino
        return inodes.base(Space.PLACE, self.view_id(conversation.id)) + Place.VERSIONS

    # -- what all conversations have in common ---------------------------------------------------------------------

    def changed_ms(self) -> int:
        """Return when any conversation last changed, in Unix milliseconds."""
        if self._changed_ms is None:
            self._changed_ms = self.store.changed_ms() or self.mounted_ms
        return self._changed_ms

    def projects(self) -> Mapping[str, str]:
        """Return all projects by the names of their directories."""
        if self._projects is None:
            self._projects = shown_distinct([*dict.fromkeys([*self.store.projects(), *self.new_projects])])
        return self._projects

    def forget_projects(self) -> None:
        """Take note that there are other projects than before."""
        self._projects = None

    def project_name(self, project: str) -> str:
        """Return the name of a project's directory."""
        if self.projects().get(project) == project:
            return project
        return next((name for name, named in self.projects().items() if named == project), project)

    def space(self) -> DiskSpace:
        """Return how much the store takes and how much room there is beside it, as of some seconds ago."""
        return self._space.now()

    def describe(self, ino: int) -> str:
        """Return the path of a file, as people would name it, for messages."""
        node = self.node(ino)
        if not isinstance(node, ViewNode):
            return "/".join(self._keys.key(ino) or (str(ino),))
        conversation = node.view.conversation
        return f"{conversation.project}/{shown_name(conversation)}/{node.label()}"
