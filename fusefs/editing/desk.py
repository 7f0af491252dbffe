"""The desk: everything that is being written in one mount, and what was saved lately."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from fusefs import inodes
from fusefs.editing.appending import Appending
from fusefs.editing.drafts import Drafts
from fusefs.editing.handle import Handle, ScratchHandle
from fusefs.editing.orphan import OrphanFile
from fusefs.editing.records import Records
from fusefs.editing.saving import EventHandle, Saved, Written
from fusefs.editing.scratch import Scratch, ScratchNode
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, Lookups, Space
from fusefs.text.names import NAME_MAX, cut, event_name
from fusefs.tree.changes import Stale, stale_places
from fusefs.tree.events import EventFile
from fusefs.tree.tree import Tree
from store.errors import ConvfsError, NotFound

log = logging.getLogger(__name__)


class Desk:
    """What is open for writing, by file handle and by inode; and how that is shown."""

    def __init__(self, tree: Tree, lookups: Lookups) -> None:
        self.tree = tree
        self.lookups = lookups
        self.scratch = Scratch(tree)
        self.drafts = Drafts(self.scratch.root)
        self.records = Records(tree)
        self.appending = Appending(self)
        self.handles: dict[int, Handle] = {}
        """The files that are open for writing, by file handle."""
        self.invalidate: Callable[[Stale], None] = lambda stale: None
        """Has the kernel forget something, once no handler is at work."""
        self._held: dict[int, ScratchNode] = {}
        """The scratch files that have become events, by the number that they share."""
        self._detached: dict[int, EventHandle] = {}
        """Events that were truncated by name, with no handle; the next one to be opened goes on with it."""

    # -- opening ---------------------------------------------------------------------------------------------------

    def open_event(self, file: EventFile) -> EventHandle:
        """Open an event for writing."""
        handle = self._detached.pop(file.ino, None)
        if handle is None:
            handle = EventHandle(self, file.ino, file.view_id, file.number)
        return handle

    def truncate_event(self, file: EventFile, size: int) -> None:
        """Make an event ``size`` bytes long that is open nowhere, or wherever it is open."""
        open_here = [one for one in self.handles.values() if isinstance(one, EventHandle) and one.ino == file.ino]
        if open_here:
            handle = next((one for one in reversed(open_here) if one.time_ms), open_here[-1])
        elif size == file.attributes().size:
            return
        else:
            handle = self._detached.get(file.ino) or EventHandle(self, file.ino, file.view_id, file.number)
            self._detached[file.ino] = handle
            handle.quiet_since = time.monotonic()
        handle.truncate(size)
        if file.ino in self._detached:
            handle.quiet_since = time.monotonic()

    # -- what is shown ---------------------------------------------------------------------------------------------

    def shown(self, ino: int, view_id: int, number: int, offset: int, size: int) -> bytes:
        """Return a part of what is shown of an event, under the inode that it is known by."""
        node = self.tree.bound(ino)
        if isinstance(node, OrphanFile):
            return node.data[offset : offset + size]
        served = self.tree.served.get(ino)
        if served is not None:
            return served.read(offset, size)
        return self.records.drawn(view_id, number)[offset : offset + size]

    def all_shown(self, file: EventFile) -> bytes:
        """Return all that is shown of an event."""
        return self.shown(file.ino, file.view_id, file.number, 0, 1 << 62)

    def writing(self, handle: EventHandle) -> None:
        """Show what a handle has written."""
        written = self._written(handle.ino, handle.view_id, handle.number)
        if not written.handles or written.handles[-1] is not handle:
            if handle in written.handles:
                written.handles.remove(handle)
            written.handles.append(handle)

    def saved(self, handle: EventHandle, saved: Saved | None) -> None:
        """Show what a handle has saved, or what was there before."""
        written = self.tree.served.get(handle.ino)
        if not isinstance(written, Written):
            return
        if handle in written.handles:
            written.handles.remove(handle)
        if saved is not None:
            written.saved = saved
        if not written.is_current():
            del self.tree.served[handle.ino]
        if saved is None:
            self.invalidate(Stale(handle.ino, content=True))
        else:
            self.unsettle(handle.view_id)

    def show_saved(self, ino: int, view_id: int, number: int, saved: Saved) -> None:
        """Show an event as it was saved, under inode number ``ino``."""
        self._written(ino, view_id, number).saved = saved

    def _written(self, ino: int, view_id: int, number: int) -> Written:
        written = self.tree.served.get(ino)
        if not isinstance(written, Written):
            written = self.tree.served[ino] = Written(self, view_id, number)
        return written

    def unsettle(self, view_id: int) -> None:
        """Take note that the files which show all of a conversation have changed, before the kernel is told."""
        self.tree.unsettled.update(stale.ino for stale in stale_places(view_id) if stale.content)

    def check(self, view_id: int) -> None:
        """Drop what was saved in a conversation and is no longer so, because somebody else has changed it."""
        for ino, served in list(self.tree.served.items()):
            if isinstance(served, Written) and served.view == view_id and not served.is_current():
                del self.tree.served[ino]

    # -- what could not be saved -----------------------------------------------------------------------------------

    def event_name(self, view_id: int, number: int) -> str:
        """Return the name of an event's file."""
        try:
            view = self.tree.view(view_id)
            return event_name(view.row(number), view.records)
        except NotFound:
            return f"{number:05}-event.md"

    def note(self, view_id: int, number: int, reason: str) -> None:
        """Note in ``.convfs/errors/`` why an event could not be saved."""
        self.note_name(view_id, self.event_name(view_id, number), reason)

    def note_name(self, view_id: int, name: str, reason: str) -> None:
        """Note in ``.convfs/errors/`` why a file in ``events/`` could not be saved."""
        conversation = self.tree.view(view_id).conversation
        path = f"{conversation.project}/{conversation.name}/events/{name}"
        self.tree.errors.add(path, reason)
        log.warning("%s: %s", path, reason)

    def reject(self, view_id: int, number: int, data: bytes, reason: str, path: Path | None) -> Path:
        """Keep ``data`` beside the event that it cannot become, at ``path`` if it is kept there already."""
        name = self.event_name(view_id, number)
        if path is None or not path.exists():
            path = self.keep_beside(self.records.context(view_id), name, data)
        else:
            path.write_bytes(data)
        self.note(view_id, number, f"{reason}; the text is kept as {path.name}")
        return path

    def keep_beside(self, context: int, name: str, data: bytes) -> Path:
        """Keep a text in ``events/`` as ``NAME.draft``, or ``.draft-2`` and so on."""
        directory = self.scratch.events_of(context)
        number = 1
        while True:
            ending = ".draft" if number == 1 else f".draft-{number}"
            path = directory / (cut(name, NAME_MAX - len(ending)) + ending)
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                number += 1
                continue
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            return path

    def drop_rejected(self, path: Path | None) -> None:
        """Remove a text that was kept beside its event, and has been saved after all."""
        if path is not None:
            path.unlink(missing_ok=True)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def orphan(self, file: EventFile, data: bytes) -> None:
        """Let an event be known under another number from now on; whoever has it open keeps ``data``."""
        for handle in self.handles.values():
            if isinstance(handle, EventHandle) and handle.ino == file.ino:
                handle.gone = True
        self._detached.pop(file.ino, None)
        self.tree.served.pop(file.ino, None)
        overlay = self.tree.overlay(file.view_id)
        if file.ino in self.lookups:
            self.tree.bind(file.ino, OrphanFile(file.ino, data))
            overlay.inos[file.number] = self.tree.new_number()
            self._bind_event(overlay.inos[file.number], file.view_id, file.number)
        else:
            overlay.inos.pop(file.number, None)

    def become(self, ino: int, view_id: int, number: int) -> None:
        """Make ``ino``, a scratch file's, the number by which the kernel knows an event."""
        node = self.tree.bound(ino)
        overlay = self.tree.overlay(view_id)
        if ino == self.tree.own_number(view_id, number):
            overlay.inos.pop(number, None)
            if isinstance(node, ScratchNode):
                self.scratch.drop(node)
            return
        earlier = overlay.inos.get(number)
        if earlier is not None and earlier not in self.lookups:
            self._unbind_event(earlier, view_id, number)
        overlay.inos[number] = ino
        if isinstance(node, ScratchNode):
            # its number on the disk must not come back as another file's
            self._held[ino] = node
        self._bind_event(ino, view_id, number)

    def make_scratch(self, file: EventFile, path: bytes, above: int) -> None:
        """Make the number by which the kernel knows an event that of a scratch file with the same content."""
        for fh, handle in self.handles.items():
            if isinstance(handle, EventHandle) and handle.ino == file.ino:
                handle.gone = True
                self.handles[fh] = ScratchHandle(file.ino, os.open(path, os.O_RDWR | os.O_CLOEXEC))
        self._detached.pop(file.ino, None)
        self.tree.served.pop(file.ino, None)
        held = self._held.pop(file.ino, None)
        if held is not None:
            self.scratch.drop(held)
        number = self.tree.new_number()
        self.scratch.give(file.ino, path, above)
        self.tree.overlay(file.view_id).inos[file.number] = number
        self._bind_event(number, file.view_id, file.number)

    def _bind_event(self, ino: int, view_id: int, number: int) -> None:
        self.tree.bind(ino, EventFile(self.tree, ino, view_id, number))

    def forget(self, ino: int) -> None:
        """Take note that the kernel no longer knows ``ino``: let go of what was kept for it."""
        self._forget_served(ino)
        node = self.tree.bound(ino)
        if isinstance(node, ScratchNode):
            self.appending.forget(ino)
            self.scratch.drop(node)
        elif isinstance(node, OrphanFile):
            self.tree.unbind(ino)
        elif isinstance(node, EventFile):
            self._forget_bound(node)
        space, view_id, number = inodes.split(ino)
        overlay = self.tree.overlays.get(view_id) if space == Space.EVENT else None
        if overlay is not None and (other := overlay.inos.get(number)) is not None and other not in self.lookups:
            self._unbind_event(other, view_id, number)

    def _forget_served(self, ino: int) -> None:
        written = self.tree.served.get(ino)
        if isinstance(written, Written) and not written.handles:
            del self.tree.served[ino]

    def _forget_bound(self, node: EventFile) -> None:
        """Give an event its own number back, unless somebody still holds what that was."""
        overlay = self.tree.overlay(node.view_id)
        if overlay.inos.get(node.number) != node.ino:
            self.tree.unbind(node.ino)
            held = self._held.pop(node.ino, None)
            if held is not None:
                self.scratch.drop(held)
        elif self.tree.own_number(node.view_id, node.number) not in self.lookups:
            self._unbind_event(node.ino, node.view_id, node.number)

    def _unbind_event(self, ino: int, view_id: int, number: int) -> None:
        del self.tree.overlay(view_id).inos[number]
        self.tree.unbind(ino)
        held = self._held.pop(ino, None)
        if held is not None:
            self.scratch.drop(held)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Commit what has been quiet for a while; called every now and then."""
        now = time.monotonic()
        for handle in list(self.handles.values()):
            if isinstance(handle, EventHandle) and handle.is_quiet(now):
                handle.settle()
        for ino, handle in list(self._detached.items()):
            if handle.quiet_since < now - 3:
                del self._detached[ino]
                handle.settle()

    def close(self) -> None:
        """Commit what can be, when the mount ends; keep the rest."""
        for handle in [*self.handles.values(), *self._detached.values()]:
            if isinstance(handle, EventHandle):
                try:
                    handle.settle()
                except ConvfsError:
                    log.exception("event %d was not saved", handle.number)

    def is_head(self, view_id: int) -> bool:
        """Say whether a view is a conversation as it is now, which can be changed, and no earlier version."""
        return view_id < FIRST_HANDED_OUT_VIEW or self.tree.view(view_id).version is None
