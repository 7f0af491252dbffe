"""The tools' own files below ``.convfs/native/TOOL/``: sessions, files beside them, and folders."""

import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import trio
from msgspec.json import encode
from pyfuse3 import FUSEError

from fusefs.editing.delays import Clock
from fusefs.editing.drafts import remove_quietly
from fusefs.editing.inode import LARGEST_SCRATCH, Inodes, ScratchRole
from fusefs.editing.native.beside import Companions, SharedFiles
from fusefs.editing.native.jobs import Worker
from fusefs.editing.native.new_sessions import NewSessions
from fusefs.editing.native.spool import Spool, pieces
from fusefs.editing.native.writer import QUIET_SECONDS, NativeWriter, SessionRole
from fusefs.editing.scratch import ScratchFile, ScratchNode
from fusefs.editing.stand_in import StandIn
from fusefs.tree.native.files import NativeDirectory, SessionFile, SidecarFile
from fusefs.tree.native.paths import GONE, KEY, SIDECARS, Parts
from fusefs.tree.node import Node
from fusefs.tree.paths import NATIVE
from fusefs.tree.router import Router
from store.commit.request import Request
from store.disk import durable
from store.editing.keeper import Keeper
from store.importing.snapshot import path_text
from store.paths import HIDDEN_COPY


class Sessions:
    """The files of sessions of one mount, and the folders that they are in."""

    def __init__(self, router: Router, inodes: Inodes, stand_in: StandIn, clock: Clock) -> None:
        self._router = router
        self._tree = tree = router.tree
        self._inodes = inodes
        self._scratch = inodes.scratch
        self._keeper = Keeper(tree.store)
        self._stand_in = stand_in
        self._worker = Worker(tree, stand_in, clock)
        self.writing = NativeWriter(router, inodes, self._worker)
        self.companions = Companions(inodes, self._worker)
        self.shared = SharedFiles(router, inodes, self._worker)
        self.new = NewSessions(inodes, self.writing, self.companions, self.shared, self._worker)

    async def run(self) -> None:
        """Commit writes as long as the mount lasts."""
        worker = self._worker
        await self.new.take_up()
        while True:
            while worker.jobs or self.writing.waits or self.new.waits:
                await worker.work()
                if worker.clock() >= worker.again_at:
                    await self._stand_in.make(self._commit_waiting)
                await trio.sleep(QUIET_SECONDS)
            await worker.wait()

    def _commit_waiting(self) -> None:
        self.writing.commit_waiting()
        self.new.settle_waiting()

    def tick(self) -> None:
        """Commit all writes that have been quiet for a while, and those that could not be committed before."""
        if self._worker.clock() >= self._worker.again_at:
            self.writing.tick()
            self.new.tick()
            self.shared.tick()
        self.companions.tick()

    def changed(self, context: int) -> None:
        """Follow a conversation that has changed; called in the loop."""
        self.shared.changed(context)
        self.writing.changed(context)

    def open(self, node: SessionFile, flags: int) -> SessionRole:
        """Open the file of a session for writing."""
        handle = SessionRole(self.writing, node.ino, node.context, appends=bool(flags & os.O_APPEND))
        if flags & os.O_TRUNC:
            handle.truncate(0)
        return handle

    def truncate(self, node: SessionFile, size: int) -> None:
        """Make the file of a session ``size`` bytes long."""
        if size > LARGEST_SCRATCH:
            raise FUSEError(errno.EFBIG)
        self.writing.truncate(node.context, size)

    def replace(self, source: ScratchFile, path: Path, node: SessionFile) -> None:
        """Make a scratch file that of a session, which the kernel then knows under the scratch file's inode."""
        context = node.context
        target = self.writing.place(context)
        if source.status().st_nlink > 1:
            # imported here, as few files have a second name
            from shutil import copyfile

            copy = self._temporary()
            copyfile(path, copy)
            durable.remove(path)
            self._scratch.renumber(source)
            path = copy
        spool, held, size = self.writing.replaced(context, path)
        self._inodes.orphan(node.ino, target, held, size)
        self._inodes.be_candidate(source.ino, None)
        self._inodes.change(source.ino, ScratchRole, partial(self.writing.go_on_as, source.ino, context))
        self._inodes.become(source.ino, target)
        self.writing.hold(spool)
        self.writing.commit_quietly(context)

    def remove(self, node: SessionFile) -> None:
        """Put the conversation of a session's file into the trash."""
        context = node.context
        self.writing.commit_quietly(context, everything=True)
        target, size = self.writing.place(context), self.writing.size(context)
        file = self._tree.native.file(context)
        held = self._trash(context) or file
        self._inodes.orphan(node.ino, target, held, size)
        self._tree.renew(self._tree.view_id(context))

    def _trash(self, context: int) -> Spool | None:
        """Put a conversation into the trash; return the spool of its file, if it had one."""
        tool, parts = self._place(context)
        # the folder stays until it is removed
        self._scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
        self._keeper.remove(context)
        self._tree.native.paths.removed[tool, parts] = context
        return self.writing.drop(context)

    def move(self, node: SessionFile, directory: NativeDirectory, name: bytes, path: Path) -> None:
        """Give the file of a session another name, ``path`` on the disk.

        One that is called as a session of the tool is, is still the conversation's. Any other is a copy, and the
        conversation is in the trash until there is a session again where it was: programs that save may do that.
        """
        context = node.context
        tool, parts = self._place(context)
        to = (*directory.parts, os.fsdecode(name))
        if directory.tool == tool and Path(to[-1]).suffix == Path(parts[-1]).suffix:
            self._scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
            self._stand_at({context: path_text(self._tree.native.paths.path(tool, to))})
            remove_quietly(path)
            self._tree.native.paths.move(tool, context, to)
            self._tree.renew(self._tree.view_id(context))
            return
        self._make_scratch(node, directory, path)

    def move_onto(self, node: SessionFile, directory: NativeDirectory, path: Path, target: SessionFile) -> None:
        """Make the content of one session's file that of another, whose name is ``path`` on the disk."""
        self._make_scratch(node, directory, path)
        source = self._tree.bound(node.ino)
        assert isinstance(source, ScratchFile)
        self.replace(source, path, target)

    def _make_scratch(self, node: SessionFile, directory: NativeDirectory, path: Path) -> None:
        """Make a file of the disk of a session's, whose conversation goes into the trash."""
        context = node.context
        copy = self._temporary()
        shown = node.attributes()
        time_ns = shown.time_ns or shown.time_ms * 1_000_000
        with copy.open("wb") as file:
            file.writelines(pieces(partial(self.writing.read, context), 0, self.writing.size(context)))
        os.utime(copy, ns=(time_ns, time_ns))
        target = self.writing.place(context)
        self.writing.commit_quietly(context, everything=True)
        self._trash(context)
        durable.replace(copy, path)

        def opened(earlier: SessionRole) -> ScratchRole:
            role = ScratchRole(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            earlier.release()
            return role

        self._inodes.change(node.ino, SessionRole, opened)
        self._inodes.make_scratch(node.ino, target, os.fsencode(path), directory.ino)
        self._tree.renew(self._tree.view_id(context))

    def _place(self, context: int) -> tuple[str, tuple[str, ...]]:
        tool = self._tree.native.file(context).entry.format
        parts = self._tree.native.paths.place(tool, context)
        if parts is None:
            raise FUSEError(errno.ENOENT)
        return tool, parts

    def _temporary(self) -> Path:
        # imported here, as most files of tools are sessions
        from tempfile import mkstemp

        number, name = mkstemp(dir=self._scratch.root, prefix=HIDDEN_COPY)
        os.close(number)
        return Path(name)

    def copy_up(self, node: SidecarFile, *, empty: bool = False) -> ScratchNode:
        """Make a file of the disk of one that the store keeps beside a session, so that it can be written to."""
        path = self._tree.native.on_disk(node.tool, node.parts)
        above = self._tree.ino((*KEY, node.tool, *node.parts[:-1]))
        self._scratch.make_folder(path.parent)
        copy = self._temporary()
        with copy.open("wb") as file:
            file.writelines(() if empty else self._tree.store.blobs.pieces(node.digest))
        durable.replace(copy, path)
        self.companions.note(node.tool, node.parts)
        return self._scratch.give(node.ino, os.fsencode(path), above)

    def remove_sidecar(self, tool: str, parts: Parts) -> None:
        """Show a file no more that the store keeps beside a session."""
        context, below = self._tree.native.sidecars.owner(tool, parts)
        name, _digest = self._tree.native.sidecars.of(context)[below]
        gone = self._tree.native.file(context).entry.metadata.get(GONE)
        self._tree.store.contexts.set_metadata(context, {GONE: [*(gone if isinstance(gone, list) else ()), name]})
        self._scratch.make_folder(self._tree.native.on_disk(tool, parts[:-1]))
        self._tree.renew(self._tree.view_id(context))

    def uncover(self, directory: Node, name: bytes) -> None:
        """Record that a file on the disk is gone: the stored file of that name does not come back."""
        if isinstance(directory, NativeDirectory) and directory.tool:
            parts = (*directory.parts, os.fsdecode(name))
            if self._tree.native.sidecars.digest(directory.tool, parts) is not None:
                self.remove_sidecar(directory.tool, parts)

    def make_folder(self, directory: NativeDirectory, name: bytes) -> Node:
        """Make a folder."""
        if not directory.tool:
            raise FUSEError(errno.EPERM)
        self._scratch.make_folder(directory.on_disk() / os.fsdecode(name))
        made = self._router.find(directory, os.fsdecode(name))
        assert made is not None
        return made

    def remove_folder(self, node: NativeDirectory) -> None:
        """Remove an empty folder."""
        if not node.parts:
            raise FUSEError(errno.EPERM)
        if next(self._router.entries(node, 0), None) is not None:
            raise FUSEError(errno.ENOTEMPTY)
        try:
            os.rmdir(node.on_disk())
        except FileNotFoundError:
            # it was there for the sake of sessions
            return

    def move_folder(self, node: NativeDirectory, directory: NativeDirectory, name: str) -> None:
        """Give a folder, with all that is in it, another name; the sessions are then where that is."""
        tree, tool = self._tree, node.tool
        paths = tree.native.paths
        if not tool or paths.is_kept(tool, node.parts):
            raise FUSEError(errno.EPERM)
        if tool != directory.tool:
            # programs that can then copy it and remove it
            raise FUSEError(errno.EXDEV)
        old, new = node.parts, (*directory.parts, name)
        old_disk, new_disk = node.on_disk(), tree.native.on_disk(tool, new)
        moved = {context: (*new, *parts[len(old) :]) for context, parts in paths.below(tool, old).items()}
        self._scratch.make_folder(new_disk.parent)
        self._scratch.make_folder(old_disk.parent)
        self._stand_at({context: path_text(paths.path(tool, parts)) for context, parts in moved.items()})
        for context, parts in moved.items():
            paths.move(tool, context, parts)
        if old_disk.exists():
            durable.replace(old_disk, new_disk)
        self.new.moved(tool, old, new)
        self.companions.moved(tool, old, new)
        for top in (NATIVE, SIDECARS):
            for one in tree.move((KEY[0], top, tool, *old), (KEY[0], top, tool, *new)):
                if isinstance(one, NativeDirectory | SidecarFile):
                    one.parts = (*new, *one.parts[len(old) :])
        for context in moved:
            tree.renew(tree.view_id(context))

    def _stand_at(self, sources: Mapping[int, str]) -> None:
        """Set new paths for the sessions of conversations: for all of them, or none."""
        store = self._tree.store
        requests = [Request(context, changes=encode({"source": source})) for context, source in sources.items()]
        store.writer.submit_all(requests)
        for request in requests:
            if request.error is not None:
                raise request.error
