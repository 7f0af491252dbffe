"""Taking in what somebody has put down to be imported: what became of it is said, and what is in the store removed."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from store.formats.format import Source
from store.importing.importer import Importer, ImportReport
from store.importing.paths import path_text
from store.importing.walk import Skipped, walk
from store.store import Store

_HEAD = 64 << 10
_MOST_NAMED = 1000
_FOLDER = "import"
_NO_SESSION = "not a session of any tool that is known; left where it is"


def take(store: Store, path: Path, apart: Path) -> str:
    """Import what is at or under ``path``, remove of it what the store then has, and return a report.

    A file that is put down alone is read at a path below the directory ``apart`` that follows from how it begins: so
    another session of the same name is another conversation, and the same one, grown, is the one that it was. What is
    no session stays where it is, and so does what could not be imported. The report is lines of text.
    """
    alone = path.is_file() and not path.is_symlink() and not path.with_suffix("").is_dir()
    at = _apart(path, apart) if alone else path
    # what is put down again meanwhile has not been looked at
    began = os.stat(path).st_ctime_ns if alone else time.time_ns()
    try:
        report = Importer(store).run([at])
        found = list(walk(at))
        failed = [error for error in report.errors if not _says_there_is_none(error, at, report)]
        left = [one.path for one in found if isinstance(one, Skipped)]
        sources = [one for one in found if isinstance(one, Source) and not _is_named(one.path, failed)]
        lines = _said(report, failed)
        lines += [f"{_name(file, at, path)}: {_NO_SESSION}" for file in left[:_MOST_NAMED]]
        lines += [error.replace(str(at), path.name) for error in failed]
        for source in sources:
            _remove((path,) if alone else _files(source), began)
        if not alone:
            _remove_empty(path)
    finally:
        if alone:
            shutil.rmtree(at.parent.parent, ignore_errors=True)
    return "".join(f"{line}\n" for line in lines)


def _apart(path: Path, apart: Path) -> Path:
    """Give a file one more name, which follows from how it begins."""
    with path.open("rb") as file:
        begins = file.read(_HEAD).split(b"\n", 1)[0]
    folder = apart / blake3(begins).hexdigest()[:16] / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    at = folder / path.name
    at.unlink(missing_ok=True)
    try:
        os.link(path, at)
    except OSError:
        # a disk without links
        shutil.copy2(path, at)
    return at


def _says_there_is_none(error: str, at: Path, report: ImportReport) -> bool:
    """Whether an error is that there is no session: that is said of each file."""
    return report.skipped > 0 and error.startswith(f"{path_text(at)}: holds no session")


def _is_named(path: Path, errors: list[str]) -> bool:
    return any(error.startswith(f"{path_text(path)}: ") for error in errors)


def _name(file: Path, at: Path, path: Path) -> str:
    return path_text(path.name if file == at else Path(path.name, file.relative_to(at)))


def _said(report: ImportReport, failed: list[str]) -> list[str]:
    counts = {
        "imported": report.imported,
        "grown": report.grown,
        "known already": report.unchanged,
        "failed": len(failed),
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    lines = [f"{said}; {report.records} records, {report.bytes_read} bytes"] if said else ["nothing was imported"]
    lines += sorted(f"conversations/{name}" for name in report.conversations)
    return lines + [f"warning: {warning}" for warning in report.warnings]


def _files(source: Source) -> tuple[Path, ...]:
    return (source.main, *source.first, *(file for _name, file in source.sidecars))


def _remove(files: tuple[Path, ...], began: int) -> None:
    """Remove files that are in the store, but for those that have changed since a time in Unix nanoseconds."""
    for file in files:
        with suppress(FileNotFoundError):
            if os.stat(file).st_ctime_ns <= began:
                file.unlink()


def _remove_empty(folder: Path) -> None:
    """Remove the directories below a folder in which nothing is left, and the folder itself if nothing is."""
    for where, _folders, _files in os.walk(folder, topdown=False):
        with suppress(OSError):
            os.rmdir(where)
