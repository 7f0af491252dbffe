"""The desk: everything that is being written in one mount, and what was saved lately."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fusefs.editing.appending import Appending
from fusefs.editing.drafts import Drafts, remove_quietly
from fusefs.editing.handle import Handle
from fusefs.editing.identities import Identities
from fusefs.editing.imports import Imports
from fusefs.editing.native.companions import Companions
from fusefs.editing.native.new_sessions import NewSessions
from fusefs.editing.native.writing import NativeWriting
from fusefs.editing.orphan import OrphanFile
from fusefs.editing.outputs.files import OutputFiles
from fusefs.editing.records import Records
from fusefs.editing.saving import FileHandle, Session
from fusefs.editing.scratch import Scratch
from fusefs.editing.target import Target
from fusefs.editing.targets import Targets
from fusefs.editing.written import Saved, Written
from fusefs.inodes import Lookups
from fusefs.text.names import NAME_MAX, cut
from fusefs.tree.changes import Stale
from fusefs.tree.node import Bytes, Directory, Node
from fusefs.tree.tree import Tree

log = logging.getLogger(__name__)


class Desk:
    """What is open for writing, by file handle and by inode; and how that is shown."""

    def __init__(self, tree: Tree, lookups: Lookups) -> None:
        self.tree = tree
        self.lookups = lookups
        self.scratch = Scratch(tree)
        self.drafts = Drafts(self.scratch.root)
        self.records = Records(tree)
        self.targets = Targets(tree, self.records)
        self.identities = Identities(self)
        self.appending = Appending(self)
        self.outputs = OutputFiles(self)
        self.imports = Imports(self)
        self.native = NativeWriting(self)
        self.new_sessions = NewSessions(self)
        self.companions = Companions(self)
        self.handles: dict[int, Handle] = {}
        """The files that are open for writing, by file handle."""
        self.invalidate: Callable[[Stale], None] = lambda stale: None
        """Has the kernel forget something, once no handler is at work."""
        self.refresh: Callable[[int], None] = lambda ino: None
        """Has the kernel ask for the attributes of a file anew."""

    # -- opening ---------------------------------------------------------------------------------------------------

    def open(self, ino: int, target: Target, *, anew: bool = False) -> FileHandle:
        """Open a file for writing; ``anew``: all of it."""
        handle = FileHandle(self, ino, target, anew=anew)
        if anew:
            handle.truncate(0)
        return handle

    def truncate(self, node: Node, target: Target, size: int) -> None:
        """Make a file ``size`` bytes long by its name, wherever it is open."""
        session = self.session(node.ino)
        if session is None and size == node.attributes().size:
            return
        if session is None:
            session = Session(self, node.ino, target)
            for handle in self.handles.values():
                if isinstance(handle, FileHandle) and handle.ino == node.ino and handle.session is None:
                    handle.session = session
                    session.handles.add(handle)
        session.truncate(size)

    def session(self, ino: int) -> Session | None:
        """Return what is being written to a file."""
        written = self.tree.served.get(ino)
        return written.sessions[-1] if isinstance(written, Written) and written.sessions else None

    # -- what is shown ---------------------------------------------------------------------------------------------

    def shown(self, ino: int, target: Target, offset: int, size: int) -> bytes:
        """Return a part of what is shown of a file, under the inode that it is known by."""
        node = self.tree.bound(ino)
        if isinstance(node, OrphanFile):
            return node.content.read(offset, size)
        served = self.tree.served.get(ino)
        return (served or target).read(offset, size)

    def all_shown(self, ino: int, target: Target) -> bytes:
        """Return all that is shown of a file."""
        return self.shown(ino, target, 0, 1 << 62)

    def saved_text(self, ino: int) -> bytes | None:
        """Return what is shown under an inode because it was written; None where it is as it is drawn."""
        served = self.tree.served.get(ino)
        return served.text if isinstance(served, Written) else None

    def orphan(self, ino: int, target: Target) -> None:
        """Let the file that is known as ``ino`` have no name; whoever has it open keeps what it holds."""
        text = self.saved_text(ino)
        if text is not None:
            self.identities.orphan(ino, target, Bytes(text), len(text))
        elif ino in self.lookups:
            self.identities.orphan(ino, target, target.snapshot(), target.size())
        else:
            self.identities.orphan(ino, target, Bytes(b""), 0)

    def writing(self, session: Session) -> None:
        """Show what is being written in a session."""
        sessions = self._written(session.ino, session.target).sessions
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
        if not written.is_current() or not session.target.keeps_text:
            self._drawn_again(session.ino)
        if saved is not None:
            self.unsettle(session.target.view_id, session.touched)

    def show_saved(self, ino: int, target: Target, saved: Saved) -> None:
        """Show a file as it was saved, under inode number ``ino``."""
        self._written(ino, target).saved = saved
        if not target.keeps_text:
            self._drawn_again(ino)

    def _drawn_again(self, ino: int) -> None:
        """Take note that a file is no longer shown as it was written, which the kernel may believe."""
        self.tree.unsettled.add(ino)
        self.refresh(ino)
        self.invalidate(Stale(ino, content=True))

    def _written(self, ino: int, target: Target) -> Written:
        written = self.tree.served.get(ino)
        if not isinstance(written, Written):
            written = self.tree.served[ino] = Written(target)
        return written

    def unsettle(self, view_id: int, touched: Iterable[int] = ()) -> None:
        """Take note that the files which show all of a conversation have changed, before the kernel is told.

        ``touched`` are the computed inode numbers of others that have. What is still as it was saved stays shown so.
        """
        known, served = self.tree.known, self.tree.served
        places = (stale.ino for stale in self.tree.places_known(view_id) if stale.content)
        for ino in (*places, *(known.get(own, own) for own in touched)):
            written = served.get(ino)
            if isinstance(written, Written):
                if written.is_current():
                    continue
                del served[ino]
            if ino in self.lookups:
                self.tree.unsettled.add(ino)
                self.refresh(ino)

    def check(self, view_id: int) -> None:
        """Drop what was saved in a conversation and is no longer so, because somebody else has changed it."""
        if context := self.tree.context_at_head(view_id):
            self.native.changed(context)
        self._drop_saved(lambda written: written.target.view_id == view_id)

    def forget_all(self) -> None:
        """Forget what was drawn, and saved but is no longer so: contents are others now."""
        self.tree.forget_all()
        self._drop_saved(lambda _written: True)

    def _drop_saved(self, asked: Callable[[Written], bool]) -> None:
        for ino, served in list(self.tree.served.items()):
            if isinstance(served, Written) and asked(served) and not served.is_current():
                del self.tree.served[ino]

    def forget(self, ino: int) -> None:
        """Take note that the kernel no longer knows ``ino``: let go of what was kept for it."""
        written = self.tree.served.get(ino)
        if isinstance(written, Written) and not written.sessions:
            del self.tree.served[ino]
        self.identities.forget(ino)

    # -- what could not be saved -----------------------------------------------------------------------------------

    def note(self, target: Target, reason: str) -> None:
        """Note in ``.convfs/errors/`` why a file could not be saved."""
        self.note_path(target.view_id, target.path, reason)

    def note_path(self, view_id: int, path: str, reason: str) -> None:
        """Note in ``.convfs/errors/`` why what was written to a path in a conversation could not be saved."""
        conversation = self.tree.view(view_id).conversation
        path = f"{conversation.project}/{conversation.name}/{path}"
        self.tree.errors.add(path, reason)
        log.warning("%s: %s", path, reason)

    def reject(self, target: Target, data: bytes, reason: str, path: Path | None) -> Path:
        """Keep ``data`` beside the file that it cannot become, at ``path`` if it is kept there already."""
        if path is None or not path.exists():
            path = self.keep_beside(target.directory(), target.name, data)
        else:
            self.drafts.put_again(path, data)
        self.note(target, f"{reason}; the text is kept as {path.name}")
        return path

    def keep_beside(self, directory: Directory, name: str, data: bytes) -> Path:
        """Keep a text in a directory as ``NAME.draft``, or ``.draft-2`` and so on, unless one of these holds it."""
        number = 1
        while True:
            ending = ".draft" if number == 1 else f".draft-{number}"
            kept = self.scratch.make_place(directory, os.fsencode(cut(name, NAME_MAX - len(ending)) + ending))
            assert kept is not None
            path = Path(os.fsdecode(kept))
            if os.path.lexists(path):
                if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                    return path
                number += 1
                continue
            # nothing comes in between: whatever makes scratch files waits for this
            self.drafts.put_new(path, data)
            return path

    def drop_rejected(self, path: Path | None) -> None:
        """Remove a text that was kept beside its file, and has been saved after all."""
        if path is not None:
            remove_quietly(path)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Commit what has been quiet for a while; called every now and then."""
        now = time.monotonic()
        for session in self._sessions():
            if session.is_quiet(now):
                session.settle()
        self.native.tick()
        self.companions.tick()

    def settle_waiting(self, view_id: int) -> None:
        """Commit what was saved in a conversation before, and waits for room: what is saved now comes after it."""
        for session in self._sessions():
            if session.waits_for_room and session.target.view_id == view_id:
                session.settle()

    def close(self) -> None:
        """Commit what was closed, when the mount ends; keep the rest for the next start."""
        for session in self._sessions():
            try:
                session.end()
            except Exception:
                log.exception("what was written to %s may be lost", session.target.path)
        self.native.close()

    def _sessions(self) -> list[Session]:
        written = [served for served in self.tree.served.values() if isinstance(served, Written)]
        return [session for one in written for session in one.sessions]

    def is_head(self, view_id: int) -> bool:
        """Say whether a view is a conversation as it is now, which can be changed, and no earlier version."""
        return self.targets.is_head(view_id)
