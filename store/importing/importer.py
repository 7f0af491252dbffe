"""Importing sessions: what is new of each, whole or not at all.

A session's records go in as turns that no branch shows yet, a batch at a time; its conversation appears (or grows)
with one last commit that moves the head and keeps the cursor. Interrupted anywhere, the next import begins that
session again and finds its content already there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from store.errors import ConvfsError, StoreFailed
from store.formats.format import Format, Source
from store.formats.registry import FORMATS, format_named
from store.importing.cursor import unchanged
from store.importing.imported import read_imported
from store.importing.paths import path_text, text_path
from store.importing.session import SessionImport
from store.importing.walk import Skipped, Unreadable, walk
from store.index.catalogue import Entry
from store.store import Store

Progress = Callable[[int, str], None]
"""Told of bytes that have been dealt with since the last call, and of what."""


class ImportReport(Struct):
    """What an import did; counts of sessions, but ``skipped`` of files and ``records`` of records.

    ``opaque`` counts records too large to be looked into. ``errors`` says, a line each, what could not be imported,
    or was left out of a session that was; ``conversations`` are the names of those that are new or have changed.
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


class Importer:
    """Imports sessions into one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._apart = frozenset([Path(os.path.abspath(store.root))])

    def run(
        self,
        paths: Sequence[Path],
        *,
        format_name: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import the sessions at or under ``paths``; ``dry_run`` only counts them.

        What cannot be imported is an entry in the report's ``errors`` and stops nothing else, but for StoreFailed:
        then nothing more can be.
        """
        formats: tuple[Format, ...] = (format_named(format_name),) if format_name else FORMATS
        report = ImportReport()
        for path in paths:
            nothing = True
            for found in walk(path, formats, self._unchanged, self._apart):
                if isinstance(found, Skipped):
                    report.skipped += 1
                    continue
                nothing = False
                if isinstance(found, Source):
                    self._import(found, formats, report, dry_run, progress)
                elif isinstance(found, Unreadable):
                    report.errors.append(f"{path_text(found.path)}: {found.reason}")
                else:
                    report.unchanged += 1
            if nothing:
                report.errors.append(f"{path_text(path)}: holds no session of {', '.join(f.name for f in formats)}")
        return report

    def _unchanged(self, path: Path) -> list[Path] | None:
        """Return what belongs to the session at ``path`` if it is known and as it was."""
        entry = self._known(path)
        return _beside(entry, path) if entry else None

    def _known(self, path: Path) -> Entry | None:
        return self._store.by_source(path_text(path))

    def _import(
        self,
        source: Source,
        formats: Sequence[Format],
        report: ImportReport,
        dry_run: bool,
        progress: Progress | None,
    ) -> None:
        format_ = next(f for f in formats if f.name == source.format)
        try:
            # two at once would find the session new both, or take the same name
            with self._store.importing:
                known = self._known(source.path)
                if known and _beside(known, source.path) is not None:
                    report.unchanged += 1
                    return
                done = None if dry_run else SessionImport(self._store, format_, source, known).run(progress)
        except StoreFailed:
            raise
        except (ConvfsError, OSError) as error:
            report.errors.append(f"{path_text(source.path)}: {error}")
            return
        if done:
            report.records += done.records
            report.opaque += done.opaque
            report.bytes_read += done.bytes_read
            report.errors += done.problems
            if not done.changed:
                report.unchanged += 1
                return
            report.conversations.append(f"{done.project}/{done.name}")
        if known is None:
            report.imported += 1
        else:
            report.grown += 1


def _beside(entry: Entry, path: Path) -> list[Path] | None:
    """Return the files that belong to the session at ``path`` beside it if it is as ``entry`` says, else None."""
    imported = read_imported(entry.metadata)
    if imported is None or not unchanged(path / text_path(imported.main), imported.cursor, imported.beside):
        return None
    folder = path if imported.main else path.parent
    return [folder / text_path(name) for name in (*imported.first, *imported.sidecars)]
