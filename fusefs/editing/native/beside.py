"""Files below ``.convfs/native/TOOL/`` that belong to a session or hold many conversations.

A file in the folder named after a session is scratch until it has been quiet for a while. Then a thread brings it into
the store, kept beside the conversation, and it is removed from the disk. Reads under its name return the same.

A file of many conversations stays on the disk. Writes of its tool are imported; people's edits of the conversations are
written to it once nobody has it open, so that the tool reads them.
"""

import os
import stat
import time
from functools import partial
from pathlib import Path, PurePath

from fusefs.editing.drafts import remove_quietly
from fusefs.editing.inode import Inodes
from fusefs.editing.native.jobs import NewSession, Worker, keep_beside
from fusefs.editing.scratch import ScratchFile, ScratchNode
from fusefs.tree.changes import Stale
from fusefs.tree.native.paths import KEY, SIDECARS, Parts
from fusefs.tree.router import Router
from store.disk import durable
from store.errors import ConvfsError, NotFound
from store.importing.snapshot import path_text, text_path
from store.index.catalogue import ContextEntry
from store.paths import HIDDEN_COPY
from store.store import Store

_QUIET_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_MOST = 10_000
"""The most files kept beside a session; any more stay scratch."""


class Companions:
    """The files of one mount that are to be kept beside sessions, by tool and path."""

    def __init__(self, inodes: Inodes, worker: Worker) -> None:
        self._tree = inodes.tree
        self._inodes = inodes
        self._worker = worker
        self._noted: set[tuple[str, Parts]] = set()
        self._busy = False
        self._look_at = 0.0

    def note(self, tool: str, parts: Parts) -> None:
        """Record a scratch file below a tool's directory."""
        if len(parts) > 1:
            self._noted.add((tool, parts))

    def moved(self, tool: str, old: Parts, new: Parts) -> None:
        """Record that a folder has a new path."""
        for noted in [(of, parts) for of, parts in self._noted if of == tool and parts[: len(old)] == old]:
            self._noted.discard(noted)
            self._noted.add((tool, (*new, *noted[1][len(old) :])))

    def tick(self) -> None:
        """Import the files that have been quiet for a while."""
        now = self._worker.clock()
        if not self._noted or self._busy or now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        found: dict[int, dict[str, tuple[Parts, Path, os.stat_result]]] = {}
        held = self._inodes.open_paths()
        for tool, parts in list(self._noted):
            path = self._tree.native.on_disk(tool, parts)
            context, name = self._tree.native.sidecars.owner(tool, parts)
            try:
                status = os.lstat(path)
            except OSError:
                status = None
            if status is None or not context or not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                self._noted.discard((tool, parts))
            elif time.time() - status.st_ctime >= _QUIET_SECONDS and path not in held:
                found.setdefault(context, {})[name] = (parts, path, status)
        for context, files in found.items():
            if self._bring(context, files):
                return

    def _bring(self, context: int, files: dict[str, tuple[Parts, Path, os.stat_result]]) -> bool:
        file = self._tree.native.file(context)
        if len(file.imported.sidecars) + len(files) > _MOST:
            for parts, _path, _status in files.values():
                self._noted.discard((file.entry.format, parts))
            return False
        # as an import would have called them
        folder = PurePath(file.name.stem)
        named = {str(folder / name): path for name, (_, path, _) in files.items()}
        job = partial(keep_beside, self._tree.store, context, named)
        self._busy = True
        self._worker.later(job, partial(self._done, list(files.values())), self._failed)
        return True

    def _failed(self, error: Exception) -> None:
        self._busy = False
        self._worker.failed("what lies beside a session", error)

    def _done(self, files: list[tuple[Parts, Path, os.stat_result]], entry: ContextEntry) -> None:
        """Remove from the disk the files that the store has, except those written to meanwhile."""
        self._busy = False
        tree = self._tree
        tree.renew(tree.view_id(entry.id))
        held = self._inodes.open_paths()
        for parts, path, before in files:
            try:
                now = os.lstat(path)
            except OSError:
                continue
            if path in held or _state(now) != _state(before) or now.st_ctime_ns != before.st_ctime_ns:
                continue
            self._noted.discard((entry.format, parts))
            number = self._inodes.scratch.number(now.st_ino)
            node = tree.bound(number)
            kept = tree.ino((KEY[0], SIDECARS, entry.format, *parts))
            if remove_quietly(path) and isinstance(node, ScratchNode) and kept == node.ino:
                # it was made of what the store kept, and is that again
                self._inodes.scratch.drop(node)
            folder = tree.ino((*KEY, entry.format, *parts[:-1]))
            self._inodes.kernel.invalidate(Stale(folder, os.fsencode(parts[-1])))


class SharedFiles:
    """The files of one mount to be compared with their conversations, by the contexts that stand for them."""

    def __init__(self, router: Router, inodes: Inodes, worker: Worker) -> None:
        self._router = router
        self._tree = router.tree
        self._inodes = inodes
        self._worker = worker
        self._store = router.tree.store
        self._waiting: set[int] = set()
        self._busy = False

    def changed(self, context: int) -> None:
        """Record that a conversation has changed."""
        try:
            file = self._store.catalogue.entry(context).metadata.get("file")
        except NotFound:
            return
        if isinstance(file, int):
            self._waiting.add(file)

    def imported(self, path: Path) -> None:
        """Record that a file was imported, or exists when the mount begins."""
        self._waiting |= {entry.id for entry in self._store.catalogue.by_origin("layout", path_text(path))}

    def tick(self) -> None:
        """Start to compare, and write, one of the files that nobody is writing to."""
        for file in () if self._busy else sorted(self._waiting):
            path = self._path(file)
            if path is None:
                self._waiting.discard(file)
                continue
            if self._is_held(path):
                continue
            self._waiting.discard(file)
            self._busy = True
            job = partial(_rewrite, self._store, file, path, self._inodes.scratch.root)
            before = os.stat(path)
            self._worker.later(job, partial(self._put, file, path, before), partial(self._failed, file, path))
            return

    def _path(self, file: int) -> Path | None:
        try:
            path = text_path(str(self._store.catalogue.entry(file).metadata.get("layout_of", "")))
        except NotFound:
            return None
        return path if path.is_relative_to(self._tree.native.root) and path.is_file() else None

    def _is_held(self, path: Path) -> bool:
        node = self._node(path)
        if node is None:
            return True
        new = self._inodes.candidate(node.ino, NewSession)
        return (new is not None and (new.busy or new.is_many or new.quiet.first > 0)) or self._inodes.is_open(node.ino)

    def _node(self, path: Path) -> ScratchFile | None:
        tool, *parts = path.relative_to(self._tree.native.root).parts
        directory = self._router.fixed(*KEY, tool, *parts[:-1])
        node = self._inodes.scratch.find(directory, os.fsencode(parts[-1]))
        return node if isinstance(node, ScratchFile) else None

    def _put(self, file: int, path: Path, before: os.stat_result, content: Path | None) -> None:
        """Replace a file by the one made for it, unless it has been written to meanwhile."""
        self._busy = False
        if content is None:
            return
        node = self._node(path)
        if node is None or self._is_held(path) or _state(os.stat(path)) != _state(before):
            remove_quietly(content)
            self._waiting.add(file)
            return
        os.chmod(content, node.status().st_mode & 0o7777)
        durable.replace(content, path)
        durable.sync_directory(path.parent)
        ino, above = node.ino, node.place.above
        # programs that know the file by its number continue to
        self._inodes.scratch.drop(node)
        node.successor = self._inodes.scratch.give(ino, os.fsencode(path), above)
        self._inodes.kernel.refresh(ino)
        self._inodes.kernel.invalidate(Stale(ino, content=True))

    def _failed(self, file: int, path: Path, error: Exception) -> None:
        self._busy = False
        name = "/".join(path.relative_to(self._tree.native.root).parts)
        self._worker.note(name, f"{error}; the file is as its tool wrote it, without what was changed")
        if not isinstance(error, ConvfsError):
            self._waiting.add(file)


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _rewrite(store: Store, file: int, path: Path, folder: Path) -> Path | None:
    # imported here, as few files hold many conversations
    from store.importing.assembly import rewrite

    return rewrite(store, file, path, folder, HIDDEN_COPY)
