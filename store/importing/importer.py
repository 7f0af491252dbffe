"""Importing sessions: what is new of each, whole or not at all.

A session's records go in as turns that no branch shows yet, a batch at a time; its conversation appears (or grows)
with one last commit that moves the head and keeps the cursor. Interrupted anywhere, the next import begins that
session again and finds its content already there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from store.errors import ConvfsError
from store.formats.format import Format, Source
from store.formats.registry import FORMATS
from store.importing.cursor import Cursor
from store.importing.session import SessionImport
from store.importing.walk import Skipped, Unreadable, format_named, walk
from store.store import Store

Progress = Callable[[int, str], None]
"""Told of bytes that have been dealt with since the last call, and of what."""


class ImportReport(Struct):
    """What an import did; counts of sessions, but ``skipped`` of files and ``records`` of records."""

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

    def run(
        self,
        paths: Sequence[Path],
        *,
        format_name: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Import the sessions at or under ``paths``; ``dry_run`` only counts them.

        What cannot be imported is an entry in the report's ``errors`` and stops nothing else.
        """
        formats: tuple[Format, ...] = (format_named(format_name),) if format_name else FORMATS
        report = ImportReport()
        for path in paths:
            before = report.imported + report.grown + report.unchanged + len(report.errors)
            for found in walk(path, formats, unchanged=self._unchanged):
                if isinstance(found, Source):
                    self._import(found, formats, report, dry_run, progress)
                elif isinstance(found, Skipped):
                    report.skipped += 1
                elif isinstance(found, Unreadable):
                    report.errors.append(f"{found.path}: {found.reason}")
                else:
                    report.unchanged += 1
            if before == report.imported + report.grown + report.unchanged + len(report.errors):
                report.errors.append(f"{path}: holds no session of {', '.join(f.name for f in formats)}")
        return report

    def _unchanged(self, path: Path) -> bool:
        entry = self._store.by_source(str(path))
        cursor = entry.metadata.get("cursor") if entry else None
        return cursor is not None and msgspec.convert(cursor, Cursor).unchanged()

    def _import(
        self,
        source: Source,
        formats: Sequence[Format],
        report: ImportReport,
        dry_run: bool,
        progress: Progress | None,
    ) -> None:
        format_ = next(f for f in formats if f.name == source.format)
        known = self._store.by_source(str(source.path))
        if dry_run:
            if known:
                report.grown += 1
            else:
                report.imported += 1
            return
        try:
            session = SessionImport(self._store, format_, source, known)
            done = session.run(progress)
        except (ConvfsError, OSError) as error:
            report.errors.append(f"{source.path}: {error}")
            return
        report.records += done.records
        report.opaque += done.opaque
        report.bytes_read += done.bytes_read
        report.conversations.append(f"{done.project}/{done.name}")
        if known is None:
            report.imported += 1
        elif done.records:
            report.grown += 1
        else:
            report.unchanged += 1

