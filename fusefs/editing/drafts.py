"""Drafts: uncommitted writes, made durable, so that no text is lost that a program was told is saved.

A draft is one file in ``scratch/.drafts/``: a line of JSON that says which file it belongs to, then the text. An
incomplete file is no draft.
"""

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from fusefs.editing.scratch import Scratch
from fusefs.editing.targets import Target
from fusefs.tree.node import Directory
from fusefs.tree.tree import Tree
from store import typed
from store.disk import durable
from store.errors import StoreFailed, StoreFull, Unreachable
from store.filenames import NAME_MAX, cut
from store.ids import hash_bytes
from store.paths import DRAFTS
from store.paths import NEW as UNFINISHED

log = logging.getLogger(__name__)


NEW = "new"
"""The key of a draft that is to become a new event."""
REMOVED = "removed"
"""The key of a draft of events that are to be removed: its text is an object with their states, by number."""


class Draft(Struct, frozen=True):
    """The origin of a draft: its file, and the states before and after.

    ``context`` and ``key`` say which file it belongs to (:attr:`fusefs.editing.targets.Target.key`, :data:`NEW`, or
    :data:`REMOVED`), ``name`` is that file's name. ``base`` is the state of the file that it was made from and
    ``result`` the state that it leads to; "" if unknown. ``complete`` says that the program had closed the file, and so
    meant it to be saved. ``written_ms`` is the time of writing in Unix milliseconds, 0 if unknown.
    """

    context: int
    key: str
    name: str
    base: str
    result: str
    complete: bool
    digest: str
    written_ms: int = 0


class Drafts:
    """The drafts of one store, and reports of failed saves, whose texts are kept beside their files."""

    def __init__(self, tree: Tree, scratch: Scratch) -> None:
        self._tree = tree
        self._scratch = scratch
        self._directory = scratch.root / DRAFTS
        self._numbers = itertools.count(1)

    def keep(self, draft: Draft, text: bytes, earlier: Path | None = None) -> Path:
        """Make a draft durable and return where it is; it takes the place of ``earlier``. Raises OSError."""
        head = msgspec.json.encode(msgspec.structs.replace(draft, digest=hash_bytes(text).hex()))
        # there is never more than one of a file that is being written: the earlier one would be saved first
        path = earlier or self._unused("")
        try:
            self.put(path, head + b"\n" + text)
        except BaseException:
            if earlier is None:
                # nobody knows of it, so nobody would ever drop it
                remove_quietly(path)
            raise
        return path

    def put_new(self, path: Path, data: bytes) -> None:
        """Make a new file, durably, with all of ``data`` in it. Raises FileExistsError if the name is taken."""
        temporary = self.temporary(data, synced=True)
        try:
            durable.link(temporary, path)
        finally:
            remove_quietly(temporary)
        durable.sync_directory(path.parent)

    def put(self, path: Path, data: bytes) -> None:
        """Give a file the contents ``data``, durably: it holds all of that, or still the old ones."""
        self._place(self.temporary(data, synced=True), path)
        durable.sync_directory(path.parent)

    def put_copy(self, path: Path, data: bytes, time_ns: int) -> None:
        """Put a copy of something in the store at a path, with its time. It is not synced: the store has the same."""
        self._place(self.temporary(data, synced=False), path, time_ns)

    def _place(self, temporary: Path, path: Path, time_ns: int | None = None) -> None:
        try:
            if time_ns is not None:
                os.utime(temporary, ns=(time_ns, time_ns))
            durable.replace(temporary, path)
        except BaseException:
            remove_quietly(temporary)
            raise

    def temporary(self, data: bytes, *, synced: bool) -> Path:
        """Write ``data`` to a file that is to be given a name. Without one it is gone at the next start."""
        if not self._directory.exists():
            durable.make_directory(self._directory)
        path = self._unused(UNFINISHED)
        try:
            fd = durable.open_file(path, create=True)
            try:
                durable.pwrite_all(fd, data, 0)
                if synced:
                    durable.fdatasync(fd)
            finally:
                os.close(fd)
        except BaseException:
            remove_quietly(path)
            raise
        return path

    def left(self) -> Iterator[tuple[Path, Draft, bytes]]:
        """Yield the drafts that an earlier mount left, oldest first; those that are not whole are removed."""
        try:
            paths = sorted(self._directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        except FileNotFoundError:
            return
        for path in paths:
            draft = None
            if path.suffix != UNFINISHED:
                try:
                    head, _, text = path.read_bytes().partition(b"\n")
                except OSError as error:
                    log.error("the draft %s cannot be read: %s", path, error)
                    continue
                with suppress(msgspec.DecodeError):
                    draft = typed.decode(head, Draft)
            if draft is None or draft.digest != hash_bytes(text).hex():
                remove_quietly(path)
            else:
                yield path, draft, text

    def _unused(self, ending: str) -> Path:
        # an earlier process may have had this one's number
        while (path := self._directory / f"{os.getpid()}-{next(self._numbers)}{ending}").exists():
            pass
        return path

    def note(self, view_id: int, path: str, reason: str) -> str:
        """Note in ``.convfs/errors/`` why a text written to a path in a conversation could not be saved.

        Returns the name of the note, for :meth:`withdraw`.
        """
        conversation = self._tree.view(view_id).conversation
        path = f"{conversation.project}/{conversation.name}/{path}"
        log.warning("%s: %s", path, reason)
        return self._tree.errors.add(path, reason)

    def withdraw(self, note: str) -> None:
        """Remove a note: what it tells of is in the store."""
        self._tree.errors.pop(note, None)

    def postponed(self, view_id: int, path: str, error: StoreFailed | OSError) -> str:
        """Note that a text saved is committed later, and why; return the name of the note, as :meth:`note` does."""
        when = "when the mount begins again"
        if isinstance(error, StoreFull) or (isinstance(error, OSError) and error.errno in durable.FULL):
            when = "when there is room"
        elif isinstance(error, Unreachable):
            when = "once it can be"
        return self.note(view_id, path, f"{error}; what was saved is kept, and committed {when}")

    def reject(self, target: Target, data: bytes, reason: str, path: Path | None) -> Path:
        """Keep ``data`` beside the file that it cannot become, at ``path`` if it is kept there already."""
        if path is None or not path.exists():
            path = self.keep_beside(target.directory(), target.name, data)
        else:
            self.put(path, data)
        self.note(target.view_id, target.path, f"{reason}; the text is kept as {path.name}")
        return path

    def keep_beside(self, directory: Directory, name: str, data: bytes) -> Path:
        """Keep a text in a directory as ``NAME.draft``, or ``.draft-2`` and so on, unless one of these holds it."""
        number = 1
        while True:
            ending = ".draft" if number == 1 else f".draft-{number}"
            kept = self._scratch.make_place(directory, os.fsencode(cut(name, NAME_MAX - len(ending)) + ending))
            assert kept is not None
            path = Path(os.fsdecode(kept))
            if os.path.lexists(path):
                if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                    return path
                number += 1
                continue
            # nothing comes in between: whatever makes scratch files waits for this
            self.put_new(path, data)
            return path


def remove_quietly(path: Path) -> bool:
    """Remove a file that has served its purpose, if it is there; a failure is only logged."""
    try:
        durable.remove(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        log.error("%s could not be removed: %s", path, error)
        return False
    return True
