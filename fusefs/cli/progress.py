"""Progress of imports and exports: a bar on a terminal, nothing in a pipe."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fusefs.cli.output import escape
from store.service.exporting import ExportProgress
from store.service.insight import CountProgress
from store.service.operations import ImportProgress

if TYPE_CHECKING:
    from store.service.redacting import RedactProgress

_SESSION_SUFFIXES = (".jsonl", ".json")
_NAME_WIDTH = 36
# Told of every record; drawing each would take longer than importing it.
_SECONDS = 0.1


@contextmanager
def import_progress(paths: Sequence[Path]) -> Iterator[Callable[[ImportProgress], None] | None]:
    """Show how far an import of ``paths`` is, if standard error is a terminal; yields what to tell it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("Importing".ljust(_NAME_WIDTH), total=_size_of(paths))

        last = 0.0

        def show(progress: ImportProgress) -> None:
            nonlocal last
            if time.monotonic() - last < _SECONDS:
                return
            last = time.monotonic()
            name = escape(progress.session)[:_NAME_WIDTH].ljust(_NAME_WIDTH)
            bars.update(task, completed=progress.bytes, description=name)

        yield show


@contextmanager
def export_progress(name: str) -> Iterator[Callable[[ExportProgress], None] | None]:
    """Show how much of the conversation ``name`` is written; as :func:`import_progress`."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import FileSizeColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), FileSizeColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(escape(name)[:_NAME_WIDTH].ljust(_NAME_WIDTH), total=None)
        yield lambda progress: bars.update(task, completed=progress.bytes)


@contextmanager
def count_progress() -> Iterator[Callable[[CountProgress], None] | None]:
    """Show how many turns are counted; as :func:`import_progress`."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("Counting", total=None)
        yield lambda progress: bars.update(task, completed=progress.counted, total=progress.turns)


@contextmanager
def redact_progress() -> Iterator[Callable[["RedactProgress"], None] | None]:
    """Show how far a redaction is; as :func:`import_progress`."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda progress: bars.update(
            task, description=progress.doing, completed=progress.done, total=progress.total
        )


def _size_of(paths: Sequence[Path]) -> int:
    """Return about how many bytes of sessions lie at or under ``paths``."""
    total = 0
    for path in paths:
        if path.is_file():
            total += path.stat().st_size
        for directory, _, files in os.walk(path):
            for name in files:
                if name.endswith(_SESSION_SUFFIXES):
                    try:
                        total += os.lstat(os.path.join(directory, name)).st_size
                    except OSError:
                        continue
    return total
