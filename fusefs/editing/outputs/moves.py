"""Outputs that are moved and removed: within a conversation, to another one, and to where they are none."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs import inodes
from fusefs.editing.drafts import remove_quietly
from fusefs.editing.handle import ScratchHandle
from fusefs.editing.orphan import OrphanFile
from fusefs.editing.outputs.files import LARGEST_COPY, OutputFiles
from fusefs.editing.outputs.handle import OutputHandle
from fusefs.inodes import Space
from fusefs.tree.changes import Stale
from fusefs.tree.node import Bytes, Content
from fusefs.tree.outputs import PLACES, Key, OutputFile, OutputsDirectory
from store.artifacts.kept import kept_output, kept_outputs
from store.artifacts.names import listed_name
from store.disk import durable
from store.errors import ConvfsError

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk
    from fusefs.editing.scratch import ScratchFile
    from store.artifacts.kept import Output

log = logging.getLogger(__name__)

_DELAY_SECONDS = 1.0
"""Programs that save remove a file and make it again."""


class OutputMoves:
    """Moves and removes the outputs of one mount."""

    def __init__(self, desk: Desk, files: OutputFiles) -> None:
        self._desk = desk
        self._files = files
        self._tree = desk.tree
        self._known = desk.tree.outputs
        self._artifacts = desk.tree.outputs.artifacts
        self._due: dict[int, float] = {}
        """By view: when what is being removed of it is removed."""

    # -- removing --------------------------------------------------------------------------------------------------

    def remove(self, node: OutputFile) -> None:
        """Remove an output: at once if it was never kept, else a moment later. Who has it open keeps what it holds."""
        key = node.key
        self._orphan(node)
        if self._files.growing(key):
            durable.remove(self._files.path(key))
        if self._kept(key) is not None:
            self._hide(key)
        self._forget_names(key)

    def _hide(self, key: Key) -> None:
        self._known.hidden.add(key)
        self._due[key.view_id] = time.monotonic() + _DELAY_SECONDS

    def _kept(self, key: Key) -> Output | None:
        store = self._tree.store
        return kept_output(store, store.entry(self._files.context(key)), key.outputs, key.name)

    def _orphan(self, node: OutputFile) -> None:
        """Have the inode of an output that goes show what it held, for whoever has it open."""
        for handle in self._desk.handles.values():
            if isinstance(handle, OutputHandle) and handle.key == node.key:
                handle.key = node.key._replace(name="")
        if node.ino not in self._desk.lookups:
            self._known.forget(node.ino)
            return
        key = node.key
        if self._files.growing(key):
            self._desk.scratch.give(node.ino, os.fsencode(self._files.path(key)), self._place(key))
        else:
            content: Content = Bytes(b"")
            try:
                content = node.begin()
            except ConvfsError as error:
                log.warning("%s: %s", node.label(), error)
            self._tree.bind(node.ino, OrphanFile(node.ino, content, node.output.size))
        self._known.forget(node.ino)

    def _forget_names(self, key: Key) -> None:
        """Have no other name lead to an output any more."""
        for alias in [alias for alias, name in self._known.aliases.items() if alias._replace(name=name) == key]:
            del self._known.aliases[alias]
            self._desk.invalidate(Stale(self._place(key), alias.name.encode()))
        self._desk.invalidate(Stale(self._place(key), key.name.encode()))

    def _place(self, key: Key) -> int:
        place = next(place for place, outputs in PLACES.items() if outputs == key.outputs)
        return inodes.base(Space.PLACE, key.view_id) + place

    def commit(self, view_id: int) -> None:
        """Remove now what is being removed of one conversation. What came with an import is there again."""
        self._due.pop(view_id, None)
        hidden = [key for key in self._known.hidden if key.view_id == view_id]
        try:
            for outputs in PLACES.values():
                names = [key.name for key in hidden if key.outputs == outputs]
                if not names:
                    continue
                context = self._desk.records.context(view_id)
                kept = kept_outputs(self._tree.store, self._tree.store.entry(context), outputs)
                self._artifacts.remove(
                    context, outputs, *(name for name in names if name in kept and not kept[name].imported)
                )
            self._tree.renew(view_id)
        finally:
            self.drop(view_id)

    def drop(self, view_id: int) -> None:
        """Let nothing of a conversation be removed: all of it is, or nothing."""
        self._due.pop(view_id, None)
        self._known.hidden = {key for key in self._known.hidden if key.view_id != view_id}

    def tick(self, waits: Callable[[int], bool]) -> None:
        """Remove what has not come back, but of conversations that may be going as a whole."""
        now = time.monotonic()
        for view_id, due in list(self._due.items()):
            if due <= now and not waits(view_id):
                self._commit_quietly(view_id)

    def close(self) -> None:
        """Remove everything that is being removed."""
        for view_id in list(self._due):
            self._commit_quietly(view_id)

    def _commit_quietly(self, view_id: int) -> None:
        try:
            self.commit(view_id)
        except ConvfsError as error:
            log.error("outputs of view %d could not be removed, and are there again: %s", view_id, error)

    # -- moving ----------------------------------------------------------------------------------------------------

    def move(self, source: OutputFile, directory: OutputsDirectory, asked: Key) -> None:
        """Give an output another name, maybe in another conversation; what had that is replaced."""
        old, new = source.key, self._new_name(asked, source.key)
        if old == new:
            return
        growing, kept = self._files.growing(old), self._kept(old)
        replaced = self._files.shown(new)
        if replaced is not None:
            self._orphan(replaced)
        if kept is not None:
            # first: it is one step, and what is on the disk comes after it
            self._artifacts.move(
                self._files.context(old), old.outputs, old.name, new.name,
                target=self._files.context(new), sort=new.outputs,
            )  # fmt: skip
        if growing:
            path = self._files.path(new)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            durable.replace(self._files.path(old), path)
        else:
            # what was being written there was replaced, too
            self._artifacts.drop(self._files.context(new), new.outputs, new.name)
        for handle in self._desk.handles.values():
            if isinstance(handle, OutputHandle) and handle.key == old:
                handle.key = new
        self._known.hidden.discard(new)
        self._forget_names(old)
        self._files.called(asked, new)
        for view_id in {old.view_id, new.view_id}:
            self._tree.renew(view_id)
        # the kernel goes on to know it by its number, until it looks again
        self._known.forget(source.ino)
        self._tree.bind(source.ino, OutputFile(self._tree, source.ino, new))
        self._desk.invalidate(Stale(directory.ino, asked.name.encode()))
        if growing:
            self._files.keeper.put(new)

    def take(self, source: ScratchFile, path: bytes, directory: OutputsDirectory, asked: Key) -> None:
        """Make an output of a scratch file that is moved here, in the place of what has its name."""
        key = self._new_name(asked, None)
        replaced = self._files.shown(key)
        if replaced is not None:
            self._orphan(replaced)
        to = self._files.path(key)
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(Path(os.fsdecode(path)), to)
        self._known.hidden.discard(key)
        self._files.called(asked, key)
        self._desk.appending.forget(source.ino)
        node = self._files.file(key)
        for fh, handle in list(self._desk.handles.items()):
            if isinstance(handle, ScratchHandle) and handle.ino == source.ino:
                self._desk.handles[fh] = OutputHandle(self._files, node.ino, key, handle.fd)
        self._desk.invalidate(Stale(directory.ino, asked.name.encode()))
        self._files.keeper.put(key)

    def give(self, source: OutputFile, path: bytes, above: int) -> None:
        """Make a scratch file at ``path`` of an output: a program keeps it while it writes the output anew.

        EXDEV for a large one that is kept: whoever moves it copies it then.
        """
        key = source.key
        to = Path(os.fsdecode(path))
        if self._files.growing(key):
            durable.replace(self._files.path(key), to)
        else:
            self._copy(source, to)
        for fh, handle in list(self._desk.handles.items()):
            if isinstance(handle, OutputHandle) and handle.key == key:
                fd = handle.fd if handle.fd >= 0 else os.open(path, os.O_RDWR | os.O_CLOEXEC)
                self._desk.handles[fh] = ScratchHandle(source.ino, fd)
        if self._kept(key) is not None:
            self._hide(key)
        self._forget_names(key)
        self._known.forget(source.ino)
        self._desk.scratch.give(source.ino, path, above)

    def _copy(self, source: OutputFile, to: Path) -> None:
        output = source.output
        if output.size > LARGEST_COPY:
            raise FUSEError(errno.EXDEV)
        temporary = self._desk.drafts.temporary(source.begin().read(0, LARGEST_COPY), synced=False)
        try:
            os.utime(temporary, ns=(output.modified_ns,) * 2)
            durable.replace(temporary, to)
        except BaseException:
            remove_quietly(temporary)
            raise

    def _new_name(self, asked: Key, source: Key | None) -> Key:
        """Return the name that an output gets which is moved to ``asked``: with a number, its own if it has one."""
        if self._files.shown(asked) is not None or asked in self._known.hidden:
            return asked
        context = self._files.context(asked)
        taken = self._artifacts.listed(context, asked.outputs).keys() - self._known.leaving(asked)
        if source is not None and source._replace(name=asked.name) == asked:
            taken.discard(source.name)
        return asked._replace(name=listed_name(asked.outputs, asked.name, taken))
