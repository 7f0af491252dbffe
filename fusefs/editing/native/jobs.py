"""Bringing into the store what was written to a session's file: what may be done by a thread, beside the mount."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from fusefs.editing.native.spool import COPY
from fusefs.tree.native.sidecars import GONE
from store.importing import written
from store.importing.importer import Importer, ImportReport
from store.importing.native import NativeFile
from store.importing.paths import path_text
from store.importing.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusefs.editing.native.spool import Spool
    from store.formats.format import Format
    from store.index.catalogue import Entry
    from store.store import Store

T = TypeVar("T")

LARGE = 1 << 20
"""What has more bytes than this to be gone through is done by a thread."""
_AT_ONCE = 1 << 20


class Job(ABC, Generic[T]):
    """Something that is to be brought into the store."""

    is_large = True
    """Whether it takes long."""

    @abstractmethod
    def run(self) -> T:
        """Do it, and return what came of it. Raises ConvfsError and OSError."""


class _UpTo(Job["Entry"]):
    """What is to be brought in up to offset ``end`` of a file; ``name`` is a path called as the session's is."""

    def __init__(self, store: Store, format_: Format, name: Path, end: int, size: int) -> None:
        self.store = store
        self.format = format_
        self.name = name
        self.end = end
        self.is_large = size > LARGE


class Append(_UpTo):
    """Appends what stands in a spool behind what the store has."""

    def __init__(self, store: Store, format_: Format, name: Path, spool: Spool, end: int) -> None:
        super().__init__(store, format_, name, end, end - spool.base)
        self._spool = spool
        self._base = spool.base
        self._lower = NativeFile(store, spool.lower.entry) if self.is_large else spool.lower

    def run(self) -> Entry:
        added = self._spool.written(self._base, self.end - self._base)
        return written.go_on(self.store, self.format, self._lower, self.name, added)


class Rewrite(_UpTo):
    """Compares all of a spool with what the store has, and brings in what differs."""

    def __init__(self, store: Store, format_: Format, name: Path, spool: Spool, end: int) -> None:
        super().__init__(store, format_, name, end, end)
        self._spool = spool
        self._base = min(spool.base, end)
        self._lower = NativeFile(store, spool.lower.entry) if self.is_large else spool.lower

    def run(self) -> Entry:
        now = NativeFile(self.store, self.store.entry(self._lower.entry.id))
        if not self.is_large:
            data = self._lower.read(0, self._base) + self._spool.written(self._base, self.end - self._base)
            return written.write_anew(self.store, self.format, now, self.name, data)
        # what is written to the file meanwhile is compared another time
        with tempfile.NamedTemporaryFile(dir=self._spool.folder, prefix=COPY) as copy:
            for start in range(0, self._base, _AT_ONCE):
                copy.write(self._lower.read(start, min(_AT_ONCE, self._base - start)))
            for start in range(self._base, self.end, _AT_ONCE):
                copy.write(self._spool.written(start, min(_AT_ONCE, self.end - start)))
            copy.flush()
            return written.write_anew(self.store, self.format, now, self.name, Path(copy.name))


class Begin(_UpTo):
    """Makes a conversation of a new session's file, which lies at ``file`` and is to be known by ``path``.

    ``known`` is a conversation that had this file before, and was removed.
    """

    def __init__(
        self, store: Store, format_: Format, file: Path, path: Path, end: int, known: Entry | None = None
    ) -> None:
        super().__init__(store, format_, file, end, end)
        self._path = path
        self._known = known

    def run(self) -> Entry:
        if self.is_large:
            with tempfile.NamedTemporaryFile(dir=self.store.root / "scratch", prefix=".copy-") as copy:
                with self.name.open("rb") as file:
                    left = self.end
                    while left and (piece := file.read(min(_AT_ONCE, left))):
                        copy.write(piece)
                        left -= len(piece)
                copy.flush()
                return self._begun(Path(copy.name))
        with self.name.open("rb") as file:
            return self._begun(file.read(self.end))

    def _begun(self, data: bytes | Path) -> Entry:
        if self._known is None:
            return written.begin(self.store, self.format, self._path, self.name, data)
        return written.write_anew(self.store, self.format, NativeFile(self.store, self._known), self.name, data)


class Beside(Job["Entry"]):
    """Keeps files beside a conversation, each under the name that it is exported by."""

    def __init__(self, store: Store, context: int, files: Mapping[str, Path]) -> None:
        self._store = store
        self._context = context
        self._files = files

    def run(self) -> Entry:
        store = self._store
        load = store.load()
        found: dict[str, str] = {}
        for name, path in self._files.items():
            with Snapshot(path, store.root / "scratch") as snapshot:
                data = snapshot.data
                large = len(data) > LARGE
                digest = load.huge(data, snapshot.passed) if large else load.blob(bytes(data))
                found[path_text(name)] = digest.hex()
        load.sync()
        metadata = store.entry(self._context).metadata
        known, gone = metadata.get("sidecars"), metadata.get(GONE)
        changes: dict[str, object] = {"sidecars": {**(known if isinstance(known, dict) else {}), **found}}
        if isinstance(gone, list):
            changes[GONE] = [name for name in gone if name not in found] or None
        store.set_metadata(self._context, changes)
        return store.entry(self._context)


class Whole(Job[ImportReport]):
    """Imports a file that holds many conversations, which stays where it is."""

    def __init__(self, store: Store, file: Path) -> None:
        self._store = store
        self._file = file

    def run(self) -> ImportReport:
        return Importer(self._store).run([self._file])
