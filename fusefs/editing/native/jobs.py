"""Jobs that import writes to a session's file into the store, and the worker that does them in a thread."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import trio
from msgspec import Struct, field

from fusefs.editing.delays import Clock, Quiet
from fusefs.editing.inode import State
from fusefs.editing.native.spool import COPY, Spool, pieces
from fusefs.editing.stand_in import StandIn
from fusefs.tree.native.paths import GONE, Parts
from fusefs.tree.tree import Tree
from store.errors import Fault, StoreBusy, told
from store.formats.core.format import Format
from store.importing import native
from store.importing.native import NativeFile
from store.importing.snapshot import Snapshot, path_text
from store.index.catalogue import ContextEntry
from store.paths import HIDDEN_COPY, SCRATCH
from store.store import Store

if TYPE_CHECKING:
    from tempfile import _TemporaryFileWrapper

log = logging.getLogger(__name__)

T = TypeVar("T")

LARGE = 1 << 20
"""A job with more bytes than this to read is done by a thread."""


class UpTo(ABC):
    """An import of a file up to offset ``end``; ``name`` is a path named like the session's.

    ``committed`` is the conversation after the last commit, None before the first. Calling :meth:`run` again after a
    failure does not import again what was committed.
    """

    def __init__(self, store: Store, format_: Format, name: Path, end: int, size: int) -> None:
        self.store = store
        self.format = format_
        self.name = name
        self.end = end
        self.is_large = size > LARGE
        """True if it takes long."""
        self.committed: ContextEntry | None = None

    def run(self) -> ContextEntry:
        """Do it, and return the conversation. Raises ConvfsError and OSError."""
        if self.committed is None:
            self.committed = self._commit()
        return self.committed

    @abstractmethod
    def _commit(self) -> ContextEntry: ...


class SpoolJob(UpTo):
    """An import of what stands in a spool."""

    def __init__(self, store: Store, format_: Format, name: Path, spool: Spool, end: int) -> None:
        super().__init__(store, format_, name, end, end if spool.rewrites else end - spool.base)
        self._spool = spool
        self._base = min(spool.base, end)
        self._lower = NativeFile(store, spool.lower.entry) if self.is_large else spool.lower


class AppendJob(SpoolJob):
    """Appends what stands in a spool behind what the store has."""

    _added = b""

    def run(self) -> ContextEntry:
        time_ns = self._spool.time_ns
        committed = super().run()
        return native.agree(self.store, self.format, self._lower, committed, self.name, self._added, time_ns)

    def _commit(self) -> ContextEntry:
        # it may be written to by the time that this is called once more
        self._added = self._spool.written(self._base, self.end - self._base)
        return native.go_on(self.store, self.format, self._lower, self.name, self._added, self._spool.time_ns)


def _temporary(folder: Path, prefix: str) -> _TemporaryFileWrapper[bytes]:
    # imported here, as most files are small
    from tempfile import NamedTemporaryFile

    return NamedTemporaryFile(dir=folder, prefix=prefix)


class RewriteJob(SpoolJob):
    """Compares all of a spool with what the store has, and brings in what differs."""

    def _commit(self) -> ContextEntry:
        now = NativeFile(self.store, self.store.catalogue.entry(self._lower.entry.id))
        time_ns = self._spool.time_ns
        if not self.is_large:
            data = self._lower.read(0, self._base) + self._spool.written(self._base, self.end - self._base)
            return native.write_anew(self.store, self.format, now, self.name, data, time_ns)
        # writes to the file meanwhile are compared another time
        with _temporary(self._spool.folder, COPY) as copy:
            copy.writelines(pieces(self._lower.read, 0, self._base))
            copy.writelines(pieces(self._spool.written, self._base, self.end))
            copy.flush()
            return native.write_anew(self.store, self.format, now, self.name, Path(copy.name), time_ns)


class Begin(UpTo):
    """Makes a conversation of the new session ``file``; ``known``: of one removed that had this ``path`` before."""

    def __init__(
        self, store: Store, format_: Format, file: Path, path: Path, end: int, known: ContextEntry | None = None
    ) -> None:
        super().__init__(store, format_, file, end, end)
        self._path = path
        self._known = known

    def _commit(self) -> ContextEntry:
        with self.name.open("rb") as file:
            if not self.is_large:
                return self._begun(file.read(self.end))
            with _temporary(self.store.root / SCRATCH, HIDDEN_COPY) as copy:
                copy.writelines(pieces(lambda _offset, size: file.read(size), 0, self.end))
                copy.flush()
                return self._begun(Path(copy.name))

    def _begun(self, data: bytes | Path) -> ContextEntry:
        time_ns = self.name.stat().st_mtime_ns
        if self._known is None:
            return native.begin(self.store, self.format, self._path, self.name, data, time_ns)
        known = NativeFile(self.store, self._known)
        return native.write_anew(self.store, self.format, known, self.name, data, time_ns)


class NewSession(Struct):
    """A file that may be a session: ``quiet`` says when it was written to.

    ``lowest`` is the lowest offset that was written to since a thread began to make a conversation of it.
    ``is_partial`` says that it is a session whose first line is not complete, ``is_many`` that it holds several
    conversations and is to be imported. ``begun`` has made a conversation of it, which is not the file's yet.
    """

    tool: str
    parts: Parts
    quiet: Quiet = field(default_factory=Quiet)
    lowest: int = 0
    busy: bool = False
    is_partial: bool = False
    is_many: bool = False
    begun: Begin | None = None
    state: ClassVar[State] = State.NEW_SESSION

    @property
    def label(self) -> str:
        """Its path below the tools' directories, for messages."""
        return "/".join((self.tool, *self.parts))


def keep_beside(store: Store, context: int, files: Mapping[str, Path]) -> ContextEntry:
    """Keep files beside a conversation, each under the name that it is exported by."""
    load = store.intake.load()
    found: dict[str, str] = {}
    for name, path in files.items():
        with Snapshot(path, store.root / SCRATCH) as snapshot:
            data = snapshot.data
            digest = load.huge(data, snapshot.passed) if len(data) > LARGE else load.blob(bytes(data))
            found[path_text(name)] = digest.hex()
    load.sync()
    metadata = store.catalogue.entry(context).metadata
    known, gone = metadata.get("sidecars"), metadata.get(GONE)
    changes: dict[str, object] = {"sidecars": {**(known if isinstance(known, dict) else {}), **found}}
    if isinstance(gone, list):
        changes[GONE] = [name for name in gone if name not in found] or None
    store.contexts.set_metadata(context, changes)
    return store.catalogue.entry(context)


_AGAIN_SECONDS = 1.0


class Worker:
    """Runs jobs in a thread, one after the other, and reports each to the loop. Jobs are called without arguments."""

    def __init__(self, tree: Tree, stand_in: StandIn, clock: Clock) -> None:
        self.clock = clock
        self.again_at = 0.0
        """The time for what failed to be tried again."""
        self.stand_in = stand_in
        self._tree = tree
        self._noted: dict[str, str] = {}
        """The last note on each thing in ``.convfs/errors/``."""
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]] = []
        self._something = trio.Event()

    def later(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Queue a job for a thread; the loop then calls ``done`` or ``failed``."""
        self.jobs.append((job, done, failed))
        self.wake()

    def failed(self, what: str, error: Exception) -> None:
        """Record that something could not be committed: it is tried again later."""
        self.again_at = self.clock() + _AGAIN_SECONDS
        said = told(error)
        if not isinstance(error, StoreBusy):
            fault = error if isinstance(said, Fault) else None
            self.note(what, f"{said}; what was written is kept, and is what the file shows", fault)

    def note(self, what: str, reason: str, fault: Exception | None = None) -> None:
        """Note in ``.convfs/errors/`` why something is not in the store; a ``fault`` is logged with its traceback."""
        subject = f"native/{what}"
        if self._noted.get(subject) != reason:
            # it may be tried again every second
            log.warning("%s: %s", subject, reason, exc_info=fault)
        self._noted[subject] = reason
        self._tree.errors.add(subject, reason)

    def wake(self) -> None:
        """Wake the worker, so that writes are committed before long."""
        self.stand_in.soon(self._wake)

    def _wake(self) -> None:
        self._something.set()

    async def work(self) -> None:
        """Do the queued jobs."""
        while self.jobs:
            job, done, failed = self.jobs.pop(0)
            try:
                await self.stand_in.make(done, await trio.to_thread.run_sync(job))
            except Exception as error:
                failed(error)

    async def wait(self) -> None:
        """Wait for something to do, or that was written."""
        await self._something.wait()
        self._something = trio.Event()
