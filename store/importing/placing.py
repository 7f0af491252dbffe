"""Where exports go: files appear under their names once they are whole and on disk, and take nobody else's place."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from store.disk import durable
from store.errors import Conflict, UsageError

_NO_LINKS = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS))


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """Make ``directory`` and yield a folder in it for what is not to be seen yet, gone afterwards.

    What the system refuses within the block is raised as UsageError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".convfs-export-", dir=directory) as folder:
            yield Path(folder)
    except OSError as error:
        raise UsageError(f"cannot export to {error.filename or directory}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"cannot export to {directory!r}: {error}") from error


def write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a new file, given in pieces, to disk; the folders that it lies in are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        durable.fdatasync(file.fileno())


def there(staged: Path, directory: Path, names: Iterable[PurePath]) -> bool:
    """Say whether ``directory`` has files of these names, just as they were staged."""
    with suppress(OSError):
        return all(filecmp.cmp(staged / name, directory / name, shallow=False) for name in names)
    return False


def put(
    staged: Path,
    directory: Path,
    own: PurePath,
    names: Sequence[PurePath] | None = None,
    shared: Collection[PurePath] = (),
) -> Path:
    """Move what was staged into ``directory``, or into ``own`` within it, and return where it went.

    ``names`` are the files and folders to move (None: all there is); none of them may be taken there, else Conflict.
    ``shared`` are files that go first, and may be there already: their names say what they hold.
    """
    if names is None:
        names = [PurePath(name) for name in sorted(os.listdir(staged))]
    for target in (directory, directory / own):
        if any(os.path.lexists(target / name) for name in names):
            continue
        placed: list[Path] = []
        try:
            for name in (*(name for name in shared if not os.path.lexists(target / name)), *names):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                _move(staged / name, target / name)
                placed.append(target / name)
        except BaseException:
            for path in placed:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise
        for folder in sorted({path.parent for path in placed}):
            durable.sync_directory(folder)
        return target
    raise Conflict(f"{directory / own / names[0]} exists already: export into another directory, or move it away")


def _move(staged: Path, target: Path) -> None:
    """Give what was staged its name, unless that has been taken meanwhile."""
    if staged.is_dir():
        os.rename(staged, target)
        return
    try:
        os.link(staged, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # a file system without links; here a name that is taken in this very moment is lost
        os.rename(staged, target)
