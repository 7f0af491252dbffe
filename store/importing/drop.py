"""Files dropped to be imported: each is imported, the outcome is reported, and what the store has can be removed."""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blake3 import blake3
from msgspec import Struct

from store import visible
from store.disk import durable
from store.formats.core.format import Source
from store.importing.importer import Importer, ImportReport
from store.importing.native import NativeFile, as_it_came, is_one_file
from store.importing.snapshot import path_text
from store.importing.walk import Skipped, is_empty, walk
from store.store import Store

_HEAD = 64 << 10
_MOST_NAMED = 1000
_FOLDER = "import"
_NO_SESSION = "not a session of any tool that is known; left where it is"


class Drop(Struct):
    """Something that was dropped, and its outcome. ``said`` is the report, lines of text.

    ``files`` are those that the store has now, as they were at ``began``, in Unix nanoseconds. They lie at ``path``, or
    below it.
    """

    path: Path
    began: int
    said: str = ""
    files: list[Path] = []

    def remove(self, held: Collection[Path]) -> bool:
        """Remove what the store has, except files that have changed since; return whether none of these is ``held``.

        A file that somebody holds open is left: data written to it would be lost with it.
        """
        free = [file for file in self.files if file not in held]
        folders: set[Path] = set()
        for file in free:
            with suppress(FileNotFoundError):
                if os.stat(file).st_ctime_ns <= self.began:
                    file.unlink()
                    folders.add(file.parent)
        while folders:
            folder = max(folders, key=lambda folder: len(folder.parts))
            folders.discard(folder)
            # everything in it was imported
            if folder.is_relative_to(self.path):
                with suppress(OSError):
                    os.rmdir(folder)
                    folders.add(folder.parent)
        return len(free) == len(self.files)


@contextmanager
def take(store: Store, path: Path, apart: Path) -> Iterator[Drop]:
    """Import everything at or under ``path``, and yield the outcomes. The caller does the removing.

    A file that is dropped alone is read at a path below the directory ``apart`` that is derived from its beginning: so
    another session of the same name is another conversation, and the same one, grown, stays the same. A file that is no
    session stays where it is, and so does one that could not be imported.
    """
    alone = path.is_file() and not path.is_symlink() and not path.with_suffix("").is_dir()
    at = _apart(path, apart) if alone else path
    # a file that is dropped again meanwhile has not been looked at
    began = os.stat(path).st_ctime_ns if alone else time.time_ns()
    try:
        report = Importer(store).run([at])
        found = list(walk(at))
        # that there is no session is reported for each file
        none = f"{path_text(at)}: holds no session"
        failed = [error for error in report.errors if not (report.skipped and error.startswith(none))]
        begun = [one for one in found if isinstance(one, Source) and not is_empty(one)]
        left = [one.path for one in found if isinstance(one, Skipped | Source) and one not in begun]
        sources = [one for one in begun if not any(error.startswith(f"{path_text(one.path)}: ") for error in failed)]
        lines = _said(report, failed)
        lines += [f"{_name(file, at, path)}: {_NO_SESSION}" for file in left[:_MOST_NAMED]]
        lines += [error.replace(str(at), path.name) for error in failed]
        files = [file for source in sources for file in ((path,) if alone else _files(source))]
        yield Drop(path, began, "".join(f"{visible.line(line)}\n" for line in lines), files)
    finally:
        if alone:
            shutil.rmtree(at.parent.parent, ignore_errors=True)


def taken_before(store: Store, path: Path, apart: Path) -> NativeFile | None:
    """Return the file that was last dropped at ``path`` if it is a session and goes on being one; else None."""
    source = path_text(path)
    entry = store.catalogue.by_source(source) or store.catalogue.by_source_within(
        path_text(apart), f"/{_FOLDER}/{path.name}"
    )
    if entry is None or "trashed_ms" in entry.metadata or not is_one_file(entry):
        return None
    return as_it_came(store, entry)


def _apart(path: Path, apart: Path) -> Path:
    """Give a file one more name, derived from its beginning."""
    with path.open("rb") as file:
        begins = file.read(_HEAD).split(b"\n", 1)[0]
    folder = apart / blake3(begins).hexdigest()[:16] / _FOLDER
    durable.make_directories(folder)
    at = folder / path.name
    at.unlink(missing_ok=True)
    try:
        os.link(path, at)
    except OSError:
        # a disk without links
        shutil.copy2(path, at)
    return at


def _name(file: Path, at: Path, path: Path) -> str:
    return path_text(path.name if file == at else Path(path.name, file.relative_to(at)))


def _said(report: ImportReport, failed: list[str]) -> list[str]:
    counts = report.imported, report.grown, report.unchanged, len(failed)
    outcomes = zip(counts, ("imported", "grown", "known already", "failed"), strict=True)
    said = ", ".join(f"{count} {what}" for count, what in outcomes if count)
    lines = [f"{said}; {report.records} records, {report.bytes_read} bytes"] if said else ["nothing was imported"]
    lines += sorted(f"conversations/{name}" for name in report.conversations)
    return lines + [f"warning: {warning}" for warning in report.warnings]


def _files(source: Source) -> tuple[Path, ...]:
    return (source.main, *map(Path, source.first), *(file for _name, file in source.sidecars))
