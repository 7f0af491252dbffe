"""Importing sessions: what is new of each, whole or not at all.

A session's records go in as turns that no branch shows yet, a batch at a time; its conversation appears (or grows)
with one last commit that moves the head and keeps the cursor; those of small sessions are made together. Interrupted
anywhere, the next import begins that session again and finds its content already there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from msgspec import Struct

from store.errors import ConvfsError, StoreFailed
from store.formats.format import Format, Source
from store.formats.registry import FORMATS, format_named
from store.importing.cursor import unchanged
from store.importing.group import Group
from store.importing.imported import Imported, ImportedFile, missing_of, read_file, read_imported
from store.importing.parted import PartedImport
from store.importing.paths import path_text, text_path
from store.importing.session import Done, SessionImport
from store.importing.walk import Skipped, Unreadable, walk
from store.index.catalogue import Entry
from store.store import Store

Progress = Callable[[int, str], None]
"""Told of bytes that have been dealt with since the last call, and of what."""


class ImportReport(Struct):
    """What an import did; counts of sessions, but ``skipped`` of files and ``records`` of records.

    ``pruned`` counts those that were here, were deleted for good, and so were left out.
    ``opaque`` counts records too large to be looked into. ``errors`` says, a line each, what could not be imported,
    or was left out of a session that was; ``warnings``, a line a session, that content which it refers to is not there:
    it stays a reference. ``conversations`` are the names of those that are new or have changed.
    """

    imported: int = 0
    grown: int = 0
    unchanged: int = 0
    skipped: int = 0
    records: int = 0
    opaque: int = 0
    bytes_read: int = 0
    errors: list[str] = []
    conversations: list[str] = []
    warnings: list[str] = []
    pruned: int = 0


class Importer:
    """Imports sessions into one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(
        self,
        paths: Sequence[Path],
        *,
        format_name: str | None = None,
        dry_run: bool = False,
        by_hand: bool = True,
        pruned: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import the sessions at or under ``paths``; ``dry_run`` only counts them.

        ``by_hand``: databases and archives are kept whole, so that an export gives back the very same file. What is
        imported again and again, as it grows, should not be. ``pruned``: also what was here and was deleted for good.

        What cannot be imported is an entry in the report's ``errors`` and stops nothing else, but for StoreFailed:
        then nothing more can be.
        """
        formats: Sequence[Format] = (format_named(format_name),) if format_name else FORMATS
        with _Run(self._store, formats, progress, dry_run=dry_run, by_hand=by_hand, pruned=pruned) as run:
            for path in paths:
                run.take_all(path)
            run.commit()
            run.show_arrived()
        return run.report


class _Run:
    """One import. While sessions wait for their commit, no other import of the store goes on."""

    def __init__(
        self,
        store: Store,
        formats: Sequence[Format],
        progress: Progress | None,
        *,
        dry_run: bool,
        by_hand: bool,
        pruned: bool,
    ) -> None:
        self.report = ImportReport()
        self._store = store
        self._formats = formats
        self._dry_run = dry_run
        self._by_hand = by_hand
        self._pruned = pruned
        self._progress = progress
        self._apart = frozenset([Path(os.path.abspath(store.root))])
        self._group = Group(store)
        self._waiting: dict[Path, tuple[Done, bool]] = {}
        """The sessions that wait for their commit, by path; and whether they are new."""
        self._holds = False
        self._arrived: set[bytes] = set()
        """The foreign digests that records of files of many conversations name and whose content the store has."""

    def __enter__(self) -> _Run:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._release()

    def take_all(self, path: Path) -> None:
        """Import the sessions at or under ``path``."""
        report = self.report
        nothing = True
        for found in walk(path, self._formats, self._unchanged, self._apart):
            if isinstance(found, Skipped):
                report.skipped += 1
                continue
            nothing = False
            if isinstance(found, Source):
                self._take(found)
            elif isinstance(found, Unreadable):
                report.errors.append(f"{path_text(found.path)}: {found.reason}")
            else:
                report.unchanged += 1
        if nothing:
            names = ", ".join(format_.name for format_ in self._formats)
            report.errors.append(f"{path_text(path)}: holds no session of {names}")

    def commit(self) -> None:
        """Commit the sessions that wait, and report them."""
        self._commit_waiting()
        self._release()

    def _commit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for (path, (done, new)), error in zip(waiting.items(), self._group.commit(), strict=True):
            if error is None:
                self._count(done, new)
            else:
                self._failed(path, error)

    def show_arrived(self) -> None:
        """Have conversations drawn anew that refer to content which was missing and is now here."""
        arrived = {digest.hex() for digest in self._arrived | self._group.arrived}
        for entry in self._store.having("missing") if arrived else ():
            missing = missing_of(entry.metadata)
            left = {digest: number for digest, number in missing.items() if digest not in arrived}
            if len(left) < len(missing):
                self._store.forget(entry)
                self._store.set_metadata(entry.id, {"missing": left or None})

    def _take(self, source: Source) -> None:
        format_ = next(format_ for format_ in self._formats if format_.name == source.format)
        if source.path in self._waiting:
            self.commit()
        # two imports at once would find a session new both, or take the same name
        if not self._holds:
            self._store.importing.acquire()
            self._holds = True
        try:
            self._import(source, format_)
        except (ConvfsError, OSError) as error:
            self._failed(source.path, error)
        if self._group.full:
            self.commit()
        elif not self._waiting:
            self._release()

    def _import(self, source: Source, format_: Format) -> None:
        known = self._known(source.path)
        if self._as_it_was(source.path, known) is not None:
            self.report.unchanged += 1
            return
        if known is None and not self._pruned and self._store.pruned("source", path_text(source.path)):
            self.report.pruned += 1
            return
        if _may_be_parted(format_) and self._import_parts(source, format_):
            return
        if self._dry_run:
            self._count(None, known is None)
            return
        session = SessionImport(self._store, self._group, format_, source, known)
        done = session.run(self._progress)
        if session.waits:
            self._waiting[source.path] = (done, known is None)
        else:
            self._count(done, known is None)

    def _import_parts(self, source: Source, format_: Format) -> bool:
        """Import a file of many conversations; say whether it is one."""
        self._commit_waiting()
        file = self._file(source.path)
        parted = PartedImport(self._store, format_, source, file, by_hand=self._by_hand, pruned=self._pruned)
        found = parted.survey() if self._dry_run else parted.run(self._progress)
        if found is None:
            return False
        self.report.errors += parted.problems
        self.report.pruned += parted.left_out
        self._arrived |= parted.arrived
        if not found and not parted.left_out:
            self.report.unchanged += 1
        for done in found:
            self._count(done, done.new)
        return True

    def _release(self) -> None:
        if self._holds:
            self._holds = False
            self._store.importing.release()

    # -- the report ------------------------------------------------------------------------------------------------

    def _count(self, done: Done | None, new: bool) -> None:
        report = self.report
        if done:
            report.records += done.records
            report.opaque += done.opaque
            report.bytes_read += done.bytes_read
            report.errors += done.problems
            if done.missing:
                more = f" ({len(done.missing)} such)" if len(done.missing) > 1 else ""
                report.warnings.append(f"{done.project}/{done.name}: {done.missing[0]}{more}")
            if not done.changed:
                report.unchanged += 1
                return
        if done and not self._dry_run:
            report.conversations.append(f"{done.project}/{done.name}")
        if new:
            report.imported += 1
        else:
            report.grown += 1

    def _failed(self, path: Path, error: Exception) -> None:
        if isinstance(error, StoreFailed):
            raise error
        self.report.errors.append(f"{path_text(path)}: {error}")

    # -- what is known -----------------------------------------------------------------------------------------------

    def _known(self, path: Path) -> Entry | None:
        entry = self._store.by_source(path_text(path))
        return None if entry is None or "part" in entry.metadata else entry

    def _file(self, path: Path) -> Entry | None:
        """Return the context that stands for a file of many conversations."""
        return next(iter(self._store.by_origin("layout", path_text(path))), None)

    def _unchanged(self, path: Path) -> list[Path] | None:
        """Return what belongs to the session at ``path``, or the file of many, if it is known and as it was."""
        return self._as_it_was(path, self._known(path))

    def _as_it_was(self, path: Path, session: Entry | None) -> list[Path] | None:
        if session is not None:
            imported = read_imported(session.metadata)
            if imported is None or imported.missing:
                return None
            return _beside(path, imported, imported.first)
        if (entry := self._file(path)) is not None:
            file = read_file(entry.metadata)
            if file is None or file.incomplete or self._pruned or (self._by_hand and not file.has_original):
                return None
            return _beside(path, file)
        return None


def _beside(path: Path, known: Imported | ImportedFile, first: tuple[str, ...] = ()) -> list[Path] | None:
    """Return the files that belong to what stands at ``path`` beside it if all is as it was imported, else None."""
    if not unchanged(path / text_path(known.main), known.cursor, known.beside):
        return None
    folder = path if known.main else path.parent
    return [Path(os.path.normpath(folder / text_path(name))) for name in (*first, *known.sidecars)]


def _may_be_parted(format_: Format) -> bool:
    """Whether files of a format may hold many conversations: it says something of parts, or of a rendition."""
    return type(format_).parts is not Format.parts or type(format_).rendition is not Format.rendition
