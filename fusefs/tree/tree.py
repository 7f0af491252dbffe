"""The state that the nodes of one mount share: numbers and views, unfinished writes, errors."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from fusefs import inodes
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, ROOT, Handed, Place, Space
from fusefs.opens import AllAsked, Opens
from fusefs.text import event_names, transcript
from fusefs.text.grammar import is_plain
from fusefs.text.render import render_event
from fusefs.tree.changes import ShownConversation, Stale
from fusefs.tree.native.paths import Native
from fusefs.tree.node import Node, Served
from fusefs.tree.paths import (
    BLOBS,
    BY_RESOURCE,
    CONTROL,
    CONVERSATIONS,
    IN_CHANGES,
    IN_SNAPSHOTS,
    SEARCH,
    TRANSCRIPTS,
    Paths,
    shown_distinct,
)
from fusefs.tree.view import ResourceTree, View
from fusefs.tree.waiting import Asked, Fetches, Lately, Work, Workers
from store import visible
from store.commit.open_texts import OpenText
from store.conversations.chain import Chain
from store.conversations.places import ASIDE
from store.conversations.records import ROW_BYTES, Block, Rows
from store.errors import ConvfsError, NotFound
from store.events.conversation import Conversation, EventRow, Outputs, Version
from store.events.event import Event, Kind
from store.filenames import Named, safe_name
from store.ids import Hash, now_ms
from store.index.catalogue import ContextEntry
from store.index.views import Run
from store.paths import SCRATCH
from store.results import with_documents
from store.store import Store
from store.worktree.known_files import FileRow

FixedPath = tuple[str, ...]
"""The path of a directory or file that belongs to no conversation."""

_OF_RECORDS = (Place.EVENTS, Place.TRANSCRIPT, Place.EVENTS_JSON)

_UNCOUNTED: tuple[FixedPath, ...] = ((BY_RESOURCE,), (CONTROL, BLOBS), (SEARCH,), (IN_CHANGES,), (IN_SNAPSHOTS,))
"""Paths with very many others below, which get another number when they are looked up again."""
_VIEWS_KEPT = 64
_ANONYMOUS = "/"
"""Leads the keys of numbers that belong to no path."""
_ERRORS_KEPT = 200
_ROOTS_KEPT = 16
_CONTENTS_KEPT = 64
_SPACE_SECONDS = 5.0
_MEASURED_AT_ONCE = 256
"""The most records that are measured while other requests wait."""
_MEASURED_BY_THREAD = 4096
"""The most records that a thread measures before it looks whether all is to end."""
_READ_AT_ONCE = 4096
"""The most turns that are gone through while other requests wait, to learn which a conversation has."""
_MOST_SHOWN = 64
"""Open turns of a conversation that are shown at once: all but those of a program that never ends any."""
_LOOKED_BACK = 64
"""The number of earlier records searched for the one an open turn refers to, whose name may not be whole yet."""


class Errors(OrderedDict[str, tuple[int, bytes]]):
    """The latest errors: times in Unix milliseconds and texts, by the names of the files that tell them, oldest first.

    The oldest are forgotten.
    """

    def add(self, subject: str, reason: str) -> str:
        """Note that something about ``subject`` failed; a later note of the same subject replaces it.

        Returns the name of the file that tells it.
        """
        name = safe_name(subject.replace("/", "--") + ".txt")
        told = f"{visible.line(subject)}: {visible.lines(reason)}\n"
        self[name] = (now_ms(), told.encode(errors="replace"))
        self.move_to_end(name)
        if len(self) > _ERRORS_KEPT:
            self.popitem(last=False)
        return name


class DiskSpace(NamedTuple):
    """Numbers for ``df``: the bytes that the store takes; the free blocks of its disk, and those left to this user."""

    block: int
    used: int
    free: int
    available: int


class SpaceTaken:
    """Measures the store at ``root``, not more often than every few seconds.

    Scratch files are not counted: there may be any number of them, and the caller waits.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._space: DiskSpace | None = None
        self._until = 0.0

    def now(self) -> DiskSpace:
        """Return the space taken and left, as of some seconds ago."""
        now = time.monotonic()
        if self._space is None or now > self._until:
            disk = os.statvfs(self._root)
            with os.scandir(self._root) as entries:
                used = sum(_size_of(entry) for entry in entries if entry.name != SCRATCH)
            self._space = DiskSpace(disk.f_frsize, used, disk.f_bfree, disk.f_bavail)
            self._until = now + _SPACE_SECONDS
        return self._space


def _size_of(entry: os.DirEntry[str]) -> int:
    """Return the size of a file, or of the files below a directory. Follows no link: one could lead into this mount."""
    with suppress(FileNotFoundError):  # it may be gone
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry) as entries:
                return sum(map(_size_of, entries))
        if entry.is_file(follow_symlinks=False):
            return entry.stat(follow_symlinks=False).st_size
    return 0


class EventOverlay(Struct):
    """Differences between ``events/`` of one conversation and the store.

    ``hidden`` are the events that are being removed, ``aliases`` the names under which events were created.
    """

    hidden: set[int] = set()
    aliases: dict[str, int] = {}


class Key(NamedTuple):
    """The identity of an output: its conversation's view, its sort, its name."""

    view_id: int
    outputs: Outputs
    name: str


class OutputNames:
    """Names of outputs that only the mount knows: inode numbers, other names, removals that are not committed yet."""

    def __init__(self, store: Store) -> None:
        self.artifacts = store.artifacts
        self.numbers: Handed[Key] = Handed(1)
        """Their inode numbers, handed out until the kernel forgets them."""
        self.aliases: dict[Key, str] = {}
        """The names that they were made with, and the names that they have."""
        self.hidden: set[Key] = set()
        """Those that are being removed."""

    def ino(self, key: Key) -> int:
        return inodes.base(Space.OUTPUT, key.view_id) + self.numbers.number(key)

    def leaving(self, beside: Key) -> set[str]:
        """Return the names of outputs that are being removed, among those that one belongs to."""
        return {key.name for key in self.hidden if key[:2] == beside[:2]}

    def forget(self, ino: int) -> None:
        """Drop the number of an output that the kernel no longer knows, or knows as something else."""
        if inodes.split(ino)[0] == Space.OUTPUT:
            self.numbers.drop(ino & inodes.MAX_NUMBER)


class Roots:
    """The trees of files that were attached to turns, by the numbers of events in a view; rising."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: OrderedDict[int, tuple[int, int, dict[int, Hash]]] = OrderedDict()

    def of(self, view: View) -> Mapping[int, Hash]:
        contexts, seq = self._store.contexts, self._store.writer.seq
        if not contexts.has_fs_roots:
            return {}
        head, at, found = self._found.pop(view.id, (0, 0, {}))
        if (head, at) != (view.head, seq):
            found = contexts.fs_roots(view.entry.id, view.head)
        self._found[view.id] = (view.head, seq, found)
        while len(self._found) > _ROOTS_KEPT:
            self._found.popitem(last=False)
        return found


class Growing(Struct, frozen=True):
    """An open turn as it is shown as event ``number``: its file and its part of the transcript, b"" if it has none.

    ``leads``: the conversation goes on with it. ``name`` is that of the file, "" while there is none.
    """

    number: int
    leads: bool
    text: OpenText
    chain: Chain
    event: Event
    name: str
    file: bytes
    section: bytes


class Streams:
    """The open turns of a mount, shown as the last events of their conversations. Used by one thread.

    Each has a file in ``events/`` with the next number; the one that the conversation goes on with is the end of the
    transcript, too. What is shown of it there only grows, and goes on as it is when it is sealed, wherever that can be:
    so it has no newline at its end yet, and is not there while its content is not a single text.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._shown: dict[int, list[Growing]] = {}
        """By view: the last drawing; also when there is none left, until the kernel has been told."""

    def of(self, view_id: int) -> list[Growing]:
        """Return the open turns of a conversation: the one that it goes on with first, if there is one."""
        context = self._tree.context_at_head(view_id)
        shown = self._shown.get(view_id)
        if not context or (shown is None and not self._tree.store.writer.texts.has(context)):
            return []
        try:
            head, texts, leading = self._tree.store.writer.live(context, _MOST_SHOWN)
        except NotFound:
            return []
        view = self._tree.view(view_id)
        if view.head != head.tip:
            # an open turn may have become a record
            self._tree.renew(view_id)
            view = self._tree.view(view_id)
        if leading is not None:
            texts = [leading, *(text for text in texts if text is not leading)]
        before = {growing.text.number: growing for growing in shown or ()}
        drawn = [
            self._draw(view, number, text, before.get(text.number), leads=text is leading)
            for number, text in enumerate(texts, view.records + 1)
        ]
        self._shown[view_id] = drawn
        return drawn

    def _draw(self, view: View, number: int, text: OpenText, before: Growing | None, *, leads: bool) -> Growing:
        store = self._tree.store
        same = before is not None and (before.number, before.leads) == (number, leads)
        if before is not None and same:
            if before.text is text:
                return before
            chain, section = before.chain, before.section
        else:
            chain = store.records.chain(view.head, number, reach=_LOOKED_BACK)
            section = b""
        event = store.open_turns.beginning(text, chain)
        if event.kind is Kind.RECORD:
            return Growing(number, leads, text, chain, event, "", b"", section)
        file = render_event(number, event)
        if is_plain(with_documents(event).blocks):
            file = file[:-1]
            longer = transcript.growing(number, event) if leads else b""
            section = longer if longer.startswith(section) else section
        return Growing(number, leads, text, chain, event, _growing_name(number, event), file, section)

    def any_of(self, view_id: int) -> bool:
        """Return whether a conversation has open turns, or had some of which the kernel has not been told yet."""
        return view_id in self._shown or self._tree.store.writer.texts.has(self._tree.context_at_head(view_id))

    def event(self, view_id: int, number: int) -> Growing | None:
        """Return the open turn that is shown as an event of a conversation, None if none is."""
        view = self._tree.view_at_hand(view_id)
        if view is not None and number <= view.records:
            # open turns come after all records
            return None
        for growing in self.of(view_id):
            if growing.number == number and growing.name:
                return growing
        return None

    def section(self, view_id: int) -> bytes:
        """Return the end of a transcript: the open turn that the conversation goes on with."""
        drawn = self.of(view_id)
        return drawn[0].section if drawn else b""

    def touched_ms(self, view_id: int) -> int:
        """Return when an open turn of a conversation was last added to, in Unix milliseconds, 0 if there is none."""
        return max((growing.text.touched_ms for growing in self.of(view_id)), default=0)

    def stale(self, view_id: int) -> list[Stale]:
        """Return the stale names, attributes and pages of the open turns of a conversation."""
        before = self._shown.get(view_id)
        if before is None and not self._tree.store.writer.texts.has(self._tree.context_at_head(view_id)):
            return []
        events = inodes.base(Space.PLACE, view_id) + Place.EVENTS
        found = [Stale(self._tree.place(view_id, Place.TRANSCRIPT), content=True), Stale(events)]
        if before is None:
            # nobody has looked at them
            return found
        now = self.of(view_id)
        if not now:
            del self._shown[view_id]
        names_now = {growing.name for growing in now}
        first = inodes.base(Space.EVENT, view_id)
        for growing in before:
            if growing.name:
                found.append(Stale(first + growing.number, content=True))
                if growing.name not in names_now:
                    found.append(Stale(events, growing.name.encode()))
        return found


def _growing_name(number: int, event: Event) -> str:
    return event_names.event_name(EventRow(0, number, event.kind, event.tool, 0, 0, 0, 0, 0, 0), number)


class Tree:
    """The state that nodes share. It makes none, and keeps those that others make. Used by one thread."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.errors = Errors()
        self.mounted_ms = now_ms()
        self.changes = 0
        """The number of changes announced: anything made at a lower number is out of date."""
        self._keys: Handed[FixedPath] = Handed(ROOT)
        self._fixed: dict[int, Node] = {}
        self._view_keys: Handed[tuple[int, Version | None]] = Handed(FIRST_HANDED_OUT_VIEW)
        self._views: OrderedDict[int, View] = OrderedDict()
        self._viewed_records = 0
        self._most_viewed = store.settings.row_cache_bytes // ROW_BYTES
        self.called: dict[int, tuple[int, str, str]] = {}
        """By inode of a conversation's directory or transcript, as the kernel was told: the directory and the name that
        it has there, and the path of the conversation."""
        self.emptied: set[int] = set()
        """The views of conversations whose last subagent was removed, and whose directory for these was not yet."""
        self._shown: dict[int, list[ShownConversation]] = {}
        self.served: Mapping[int, Served] = {}
        """Files shown as they were written, not as drawn, by inode: those being written, and those just saved."""
        self.known: dict[int, int] = {}
        """The numbers by which the kernel knows files that can be saved, if these differ from their own."""
        self.own: dict[int, int] = {}
        """Their own numbers, by those."""
        self.overlays: dict[int, EventOverlay] = {}
        """By view: differences between ``events/`` and the store."""
        self.streams = Streams(self)
        """The turns that are being written."""
        self.outputs = OutputNames(store)
        """The outputs of tools and agents."""
        self.roots = Roots(store)
        self.workers = Workers()
        """Threads for what takes long."""
        if (remote := store.files.packs.remote) is not None:
            remote.through = Fetches(self.workers).through
        self.native = Native(store, Path.home(), self.workers)
        """The tools' own files."""
        self.shown_contents: Lately[Asked] = Lately(_CONTENTS_KEPT)
        """The contents of records that were asked for by their hashes."""
        self._looking: dict[tuple[int, int], Work[list[FileRow]]] = {}
        self._measuring: dict[tuple[int, ...], Work[list[Conversation]]] = {}
        self._reading: dict[int, Work[Rows]] = {}
        self._blocks: dict[tuple[Run, ...], Work[Block]] = {}
        self.opens: Opens = AllAsked()
        """The files and directories that may be opened to be read without asking Python."""
        self._opening: dict[int, tuple[int, float]] = {}
        """Directories that are being opened, and how: the kernel is about to forget what it has kept of these."""
        self._shared: set[int] = set()
        """Directories of many conversations that may be opened without asking Python."""
        self.unsettled: set[int] = set()
        """Inodes of files that have changed, of which the kernel has not been told yet."""
        self.space = SpaceTaken(store.root)
        self._changed_ms: int | None = None
        self._projects: dict[str, str] | None = None
        self._anonymous = count(1)
        self.new_projects: set[str] = set()
        """Projects that were made, and have no conversations yet."""
        self.vanished: set[int] = set()
        """The own numbers of what is being removed as a whole, and is not shown meanwhile."""
        self.ino(())

    # -- numbers ---------------------------------------------------------------------------------------------------

    def ino(self, path: FixedPath) -> int:
        """Return the inode number of what belongs to no conversation, by its path."""
        return self._keys.number(path)

    def path(self, ino: int) -> FixedPath | None:
        """Return the path that has an inode number; None where it is a conversation's, or nobody's."""
        return self._keys.key(ino)

    def place(self, view_id: int, place: Place) -> int:
        """Return the inode number by which a place of a view is known."""
        own = inodes.base(Space.PLACE, view_id) + place
        return self.known.get(own, own)

    def own_number(self, view_id: int, number: int) -> int:
        """Return the inode number that is computed for an event."""
        return inodes.base(Space.EVENT, view_id) + number

    def event(self, view_id: int, number: int) -> int:
        """Return the inode number by which an event is known."""
        own = inodes.base(Space.EVENT, view_id) + number
        return self.known.get(own, own)

    def bound(self, ino: int) -> Node | None:
        """Return the node that an inode number was given to, None if it is what its number says."""
        return self._fixed.get(ino)

    def bind(self, ino: int, node: Node) -> None:
        """Make an inode number another node's than its own."""
        self.opens.drop(ino)
        self._fixed[ino] = node

    def unsettle(self, ino: int) -> None:
        """Record that a file has changed, of which the kernel has not been told yet."""
        self.opens.drop(ino)
        self.unsettled.add(ino)

    def opening(self, ino: int, handle: int, kept_seconds: float) -> None:
        """Record that a directory is being opened, in which there is only what the store has.

        The kernel keeps for ``kept_seconds`` what it is told of that.
        """
        self._opening[ino] = handle, kept_seconds
        self.opens.keep_listing(handle)

    def listed(self, ino: int, handle: int) -> None:
        """Record that an open directory was listed: the kernel may keep what is in it, until that changes."""
        opened, kept_seconds = self._opening.get(ino, (0, 0.0))
        if opened == handle:
            del self._opening[ino]
            self.opens.note_directory(ino, round(kept_seconds * 1e6))
            if inodes.split(ino)[0] == Space.FIXED:
                self._shared.add(ino)

    def changing(self, changes: int) -> None:
        """Count changes that are being made while others are answered: what is listed by then is not kept."""
        self.opens.pause(changes)
        self._opening.clear()

    def ask_again(self, view_id: int) -> None:
        """Have Python asked about all that shows records of a conversation: they are about to change, or have."""
        own = inodes.base(Space.PLACE, view_id)
        for ino in (*(own + place for place in _OF_RECORDS), *self._shared):
            self.opens.drop(ino)
        self._shared.clear()
        self._opening.clear()

    def unbind(self, ino: int) -> None:
        """Give an inode number back to what it says."""
        self._fixed.pop(ino, None)
        key = self._keys.key(ino)
        if key is not None and key[0] == _ANONYMOUS:
            self._keys.drop(ino)

    def made(self, path: FixedPath, make: Callable[[int], Node]) -> int:
        """Put a node at a path that belongs to no conversation, made anew; return its inode number."""
        ino = self._keys.number(path)
        self._fixed[ino] = make(ino)
        return ino

    def move(self, old: FixedPath, new: FixedPath) -> list[Node]:
        """Move the numbers of a path and everything below it to another path; return their nodes."""
        moved = []
        for key in self._keys.having(lambda key: key[: len(old)] == old):
            number = self._keys.number(key)
            self._keys.move(key, (*new, *key[len(old) :]))
            if (node := self._fixed.get(number)) is not None:
                moved.append(node)
        return moved

    def new_number(self) -> int:
        """Return an inode number that nothing has had."""
        return self._keys.number((_ANONYMOUS, str(next(self._anonymous))))

    def forget(self, ino: int) -> None:
        """Drop the record of a node that the kernel no longer knows, if there may be many of its kind."""
        if ino not in self.known:
            self.called.pop(ino, None)
        self.outputs.forget(ino)
        if inodes.split(ino)[0] == Space.OUTPUT:
            # it was moved while the kernel knew it
            self.unbind(ino)
        key = self._keys.key(ino)
        if key is not None and any(key[: len(above)] == above and len(key) > len(above) for above in _UNCOUNTED):
            self._keys.drop(ino)
            self._fixed.pop(ino, None)

    # -- what the kernel knows -------------------------------------------------------------------------------------

    def overlay(self, view_id: int) -> EventOverlay:
        """Return the differences between ``events/`` of a view and the store, to be changed."""
        self.ask_again(view_id)
        return self.overlays.setdefault(view_id, EventOverlay())

    def as_known(self, stale: Stale) -> Stale | None:
        """Return a stale event by the number that it is known by; None if it is shown as it was saved."""
        if stale.name is not None:
            # the name of an event that was removed, and is there again, leads to the right file
            number = event_names.parse_event_name(stale.name.decode(errors="replace"))
            _space, view_id, place = inodes.split(stale.ino)
            again = place == Place.EVENTS and number and self.event(view_id, number) in self.served
            return None if again else stale
        stale = stale._replace(ino=self.known.get(stale.ino, stale.ino))
        return None if stale.ino in self.served else stale

    def entries_of(self, view_id: int) -> list[tuple[Stale, str]]:
        """Return the entries by which the kernel knows a conversation, with the path that it had then."""
        own = inodes.base(Space.PLACE, view_id)
        known = (self.called.get(own + place) for place in (Place.CONVERSATION, Place.TRANSCRIPT))
        return [(Stale(folder, name.encode()), path) for folder, name, path in filter(None, known)]

    def folders(self, conversation: Named) -> tuple[int, int]:
        """Return the inode numbers of the directories that a conversation's own and its transcript are in."""
        parent, beside = self.store.catalogue.place(conversation.id)
        if parent:
            own = inodes.base(Space.PLACE, self.view_id(parent))
            return own + Place.SUBAGENTS, own + Place.TRANSCRIPTS
        within = (conversation.project, ASIDE) if beside else (conversation.project,)
        return self.ino((CONVERSATIONS, *within)), self.ino((TRANSCRIPTS, *within))

    def has_vanished(self, ino: int) -> bool:
        """Return whether a file or directory is hidden because it is being removed."""
        return self.own.get(ino, ino) in self.vanished

    # -- views -----------------------------------------------------------------------------------------------------

    def view_id(self, context_id: int) -> int:
        """Return the number of a conversation at its head in inodes."""
        return context_id if context_id < FIRST_HANDED_OUT_VIEW else self._view_keys.number((context_id, None))

    def context_at_head(self, view_id: int) -> int:
        """Return the context that a view shows at its head, 0 for an earlier version."""
        if view_id < FIRST_HANDED_OUT_VIEW:
            return view_id
        context, version = self._view_keys.key(view_id) or (0, None)
        return 0 if version else context

    def version_view(self, context_id: int, version: Version) -> int:
        """Return the number of a version in inodes: another one when it has grown, as what it shows stays."""
        return self._view_keys.number((context_id, version))

    def view(self, view_id: int) -> View:
        """Return a view. Raises NotFound if there is none of that number."""
        view = self._views.get(view_id)
        if view is None or not view.holds:
            before = view
            view = self._views[view_id] = self._load(view_id)
            self._viewed_records += view.records - (before.records if before else 0)
            self._views.move_to_end(view_id)
            while len(self._views) > 1 and (len(self._views) > _VIEWS_KEPT or self._viewed_records > self._most_viewed):
                _id, dropped = self._views.popitem(last=False)
                self._viewed_records -= dropped.records
        return view

    def resources(self, view_id: int) -> ResourceTree:
        """Return the files in ``resources/`` of a view. Raises Later while a thread looks for them."""
        view = self.view(view_id)
        context, head = key = view.entry.id, view.head
        if not view.is_known or key in self._looking:
            if key not in self._looking:
                look = partial(self.store.known_files.rows, context, head)
                self._looking[key] = self.workers.begin(look)
            work = self._looking[key]
            if work.await_done():
                del self._looking[key]
            work.result()
        return view.resources

    def with_sums(self, entries: Sequence[ContextEntry]) -> list[Conversation]:
        """Return conversations with their sums. Raises Later while a thread measures what is missing, if it is much."""
        library = self.store.library
        key = tuple(entry.head for entry in entries)
        work = self._measuring.get(key)
        if work is None:
            if not self.workers.can_wait or self._is_soon_measured(library.unmeasured(entries)):
                return library.with_sums(entries)
            work = self._measuring[key] = self.workers.begin(partial(self._measured, entries))
        if work.await_done():
            del self._measuring[key]
        return work.result()

    def _is_soon_measured(self, missing: int) -> bool:
        """Return whether so many records may be measured while other requests wait."""
        # a redaction fills the index anew, and for that long nothing that was measured can be filed
        return not missing or (missing <= _MEASURED_AT_ONCE and not self.store.files.index.db.is_busy)

    def _with_its_sums(self, entry: ContextEntry) -> Conversation:
        return self.with_sums([entry])[0]

    def _measured(self, entries: Sequence[ContextEntry]) -> list[Conversation]:
        library = self.store.library
        for entry in entries:
            with suppress(ConvfsError):
                while not self.workers.is_ended and not library.measure_some(entry.id, _MEASURED_BY_THREAD):
                    pass
        return library.with_sums(entries)

    def _rows(self, head: int) -> Rows:
        """Return the rows of a branch. Raises Later while a thread looks which these are, if they may be very many."""
        records = self.store.records
        work = self._reading.get(head)
        if work is None and (not self.workers.can_wait or records.are_near(head, _READ_AT_ONCE)):
            rows = records.rows(head)
        else:
            work = work or self._reading.setdefault(head, self.workers.begin(partial(records.rows, head)))
            if work.await_done():
                del self._reading[head]
            rows = work.result()
        rows.before_block = self._await_measured
        return rows

    def _await_measured(self, rows: Rows, at: int) -> None:
        """Raise Later while a thread measures some records of a branch, if they were not yet."""
        runs = rows.runs_of(at)
        work = self._blocks.get(runs)
        if work is None:
            if not self.workers.can_wait or self._is_soon_measured(rows.unmeasured(at)):
                return
            work = self._blocks[runs] = self.workers.begin(partial(rows.read, at))
        if work.await_done():
            del self._blocks[runs]
        work.result()

    def view_at_hand(self, view_id: int) -> View | None:
        """Return a view if it is there already and current."""
        view = self._views.get(view_id)
        return view if view is not None and view.holds else None

    def has_shown(self, view_id: int) -> bool:
        """Return whether more was shown of a conversation than its name."""
        return view_id in self._shown

    def renew(self, view_id: int) -> None:
        """Show a conversation as it is now. The kernel's knowledge of it is invalidated later."""
        self.ask_again(view_id)
        self.changes += 1
        self._changed_ms = None
        self._projects = None
        if context := self.context_at_head(view_id):
            self.native.changed(context)
        view = self._views.get(view_id)
        if view is not None:
            view.outdated = True

    def forget_all(self) -> None:
        """Forget all drawings of conversations, and all errors: stored contents have changed."""
        self.changes += 1
        self._changed_ms = None
        self._projects = None
        self._views.clear()
        self._viewed_records = 0
        self.errors.clear()

    def changed(self, view_id: int) -> list[ShownConversation]:
        """Show a conversation as it is now; return what was shown of it before."""
        self.renew(view_id)
        return self._shown.pop(view_id, [])

    def _load(self, view_id: int) -> View:
        context_id: int = view_id
        version: Version | None = None
        if view_id >= FIRST_HANDED_OUT_VIEW:
            key = self._view_keys.key(view_id)
            if key is None:
                raise NotFound(f"there is no view {view_id}")
            context_id, version = key
        entry = self.store.catalogue.entry(context_id)
        if version is not None:
            self.store.catalogue.version(context_id, version.number)
            return View(self.store, view_id, entry, version, read=self._rows, sums=self._with_its_sums)
        shown = ShownConversation(
            context_id,
            view_id,
            entry.head,
            Paths(self.store).conversation(entry),
            *self.folders(entry),
        )
        before_it = self._shown.setdefault(view_id, [])
        if shown not in before_it:
            before_it.append(shown)
        return View(self.store, view_id, entry, read=self._rows, sums=self._with_its_sums)

    # -- what all conversations have in common ---------------------------------------------------------------------

    def changed_ms(self) -> int:
        """Return when any conversation last changed, in Unix milliseconds."""
        if self._changed_ms is None:
            self._changed_ms = self.store.catalogue.changed_ms() or self.mounted_ms
        return self._changed_ms

    def projects(self) -> Mapping[str, str]:
        if self._projects is None:
            self._projects = shown_distinct([*dict.fromkeys([*self.store.catalogue.projects(), *self.new_projects])])
        return self._projects

    def forget_projects(self) -> None:
        """Look for the projects anew when they are asked for next."""
        self._projects = None

    def project_name(self, project: str) -> str:
        """Return the name of a project's directory."""
        if self.projects().get(project) == project:
            return project
        return next((name for name, named in self.projects().items() if named == project), project)
