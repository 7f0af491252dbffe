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
from fusefs.editing.saving import EventHandle, Saved, Session, Written
from fusefs.editing.scratch import Scratch, ScratchNode
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, Lookups, Space
from fusefs.text.names import NAME_MAX, cut, event_name
from fusefs.tree.changes import Stale, stale_places
from fusefs.tree.events import EventFile
from fusefs.tree.tree import Tree
from store.errors import NotFound

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

    # -- opening ---------------------------------------------------------------------------------------------------

    def open_event(self, file: EventFile, *, anew: bool = False) -> EventHandle:
        """Open an event for writing; ``anew``: all of it."""
        handle = EventHandle(self, file.ino, file.view_id, file.number, anew=anew)
        if anew:
            handle.truncate(0)
        return handle

    def truncate_event(self, file: EventFile, size: int) -> None:
        """Make an event ``size`` bytes long by its name, wherever it is open."""
        session = self.session(file.ino)
        if session is None and size == file.attributes().size:
            return
        if session is None:
            session = Session(self, file.ino, file.view_id, file.number)
            for handle in self.handles.values():
                if isinstance(handle, EventHandle) and handle.ino == file.ino and handle.session is None:
                    handle.session = session
                    session.handles.add(handle)
        session.truncate(size)

    def session(self, ino: int) -> Session | None:
        """Return what is being written to an event."""
        written = self.tree.served.get(ino)
        return written.sessions[-1] if isinstance(written, Written) and written.sessions else None

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

    def writing(self, session: Session) -> None:
        """Show what is being written in a session."""
        sessions = self._written(session.ino, session.view_id, session.number).sessions
        if not sessions or sessions[-1] is not session:
            if session in sessions:
                sessions.remove(session)
            sessions.append(session)

    def saved(self, session: Session, saved: Saved | None) -> None:
        """Show what was saved in a session, or what was there before."""
        written = self.tree.served.get(session.ino)
        if not isinstance(written, Written) or session.gone:
            return
        if session in written.sessions:
            written.sessions.remove(session)
        if saved is not None:
            written.saved = saved
        if not written.is_current():
            del self.tree.served[session.ino]
        if saved is None:
            self.invalidate(Stale(session.ino, content=True))
        else:
            self.unsettle(session.view_id)

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
        self._abandon(file.ino)
        overlay = self.tree.overlay(file.view_id)
        if file.ino in self.lookups:
            self.tree.bind(file.ino, OrphanFile(file.ino, data))
            overlay.inos[file.number] = self.tree.new_number()
            self._bind_event(overlay.inos[file.number], file.view_id, file.number)
        else:
            overlay.inos.pop(file.number, None)

    def _abandon(self, ino: int) -> None:
        """Let what is written through handles of an inode go nowhere."""
        written = self.tree.served.pop(ino, None)
        if isinstance(written, Written):
            for session in written.sessions:
                session.gone = True
        for handle in self.handles.values():
            if isinstance(handle, EventHandle) and handle.ino == ino:
                handle.gone = True

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
        self._abandon(file.ino)
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
        if isinstance(written, Written) and not written.sessions:
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
        for session in self._sessions():
            if session.is_quiet(now):
                session.settle()

    def close(self) -> None:
        """Commit what can be, when the mount ends; keep the rest."""
        for session in self._sessions():
            session.settle()

    def _sessions(self) -> list[Session]:
        written = [served for served in self.tree.served.values() if isinstance(served, Written)]
        return [session for one in written for session in one.sessions]

    def is_head(self, view_id: int) -> bool:
        """Say whether a view is a conversation as it is now, which can be changed, and no earlier version."""
        return view_id < FIRST_HANDED_OUT_VIEW or self.tree.view(view_id).version is None
