"""Finding sessions under the paths that a user names."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct

from store.errors import Fault, told
from store.formats.core.format import Format, Source
from store.formats.core.look import Look, open_regular
from store.formats.registry import FORMATS, candidates

_OWN_TYPE = "fuse.convfs"
_MOST_STEPS = 1000
"""The number of names that are followed before a path is taken to go round in circles."""
_MANY = 16
"""The files of a session in one folder of which that is asked, not each by itself."""
_LEADS_OUT = "it is a link that leads out of what was named: name the file that it leads to"
_FOREIGN = (b"\x1f\x8b", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF-", b"\x7fELF")
"""The beginnings of files that are no sessions, though some tools keep thousands of them: gzip, images and the like."""
_CONTENTS, _SESSIONS = "blobs", "conversations"
"""A folder of contents, thousands of files in as many folders, and that of the sessions beside it: so JP keeps them."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Unchanged(Struct, frozen=True):
    """A known session that has not changed."""

    path: Path


class Skipped(Struct, frozen=True):
    """A file that is no session of any tool."""

    path: Path


class Unreadable(Struct, frozen=True):
    """A path that could not be looked at, and why."""

    path: Path
    reason: str


Found = Source | Unchanged | Skipped | Unreadable

Known = Callable[[Path], "Collection[str] | None"]
"""Returns the files of a session beside the path that names it, None if it is new or has changed."""


def walk(
    path: Path,
    formats: Sequence[Format] = FORMATS,
    known: Known = lambda _path: None,
    apart: frozenset[Path] = frozenset(),
    *,
    guess: bool = False,
) -> Iterator[Found]:
    """Yield everything at or under ``path``: by name, a directory's files before those in its directories.

    Files that belong to a session are not yielded, nor is what lies in a folder of contents of sessions. The
    directories ``apart`` are skipped, and so are mounts of convfs itself (by the system's mount table: touching one
    from its own daemon would hang). ``path`` may be a link; of those below it, links to directories are not followed,
    nor any that lead out: an unpacked archive may hold a link to whatever its maker wants to see imported.

    With ``guess``, ``path`` itself is a session of the first format, if it is a file.
    """
    mounts = own_mounts()
    start = Path(os.path.abspath(path))
    if leads_into(start, mounts):
        yield Unreadable(path, "it lies in a mounted store: name the session files themselves")
        return
    try:
        mode = os.stat(start).st_mode
    except (OSError, ValueError) as error:
        yield Unreadable(path, _reason(error))
        return
    apart |= mounts
    belonging: set[str] = set()
    # a stack, not recursion: directories nest deeper than calls may
    waiting = [(start, mode)]
    bounds = _Bounds(start)
    while waiting:
        path, mode = waiting.pop()
        if os.fspath(path) in belonging:
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            yield Skipped(path)
            continue
        files = known(path)
        if files is not None:
            belonging.update(files)
            yield Unchanged(path)
            continue
        try:
            try:
                source = claim(path, formats)
            except Fault as error:
                yield Unreadable(path, str(error))
                if stat.S_ISREG(mode):
                    continue
                # what is below may be sessions all the same
                source = None
            if source is None and guess and path == start and stat.S_ISREG(mode):
                source = Source(formats[0].name, path, path)
            if source is not None:
                belonging.update(source.first, (os.fspath(beside) for _name, beside in source.sidecars))
                yield from bounds.kept(source)
            elif stat.S_ISREG(mode):
                open_regular(path).close()
                yield Skipped(path)
            else:
                waiting += reversed(_entries(path, apart, bounds))
        except FileNotFoundError:
            # gone since it was listed
            continue
        except OSError as error:
            yield Unreadable(path, _reason(error))


def oldest_first(found: Iterable[Found]) -> Iterator[Found]:
    """Yield what :func:`walk` has found, the sessions of each directory in the order in which they changed last.

    That is about the order in which listings show them: what is read in a row is stored in a row.
    """
    for _folder, together in groupby(found, key=lambda one: one.path.parent):
        yield from sorted(together, key=_changed_ns)


def _changed_ns(found: Found) -> int:
    try:
        return os.stat(found.main).st_mtime_ns if isinstance(found, Source) else 0
    except OSError:
        # who imports it tells
        return 0


class _Bounds:
    """The bounds of ``start``: it, and its surroundings, but not the targets of links there."""

    def __init__(self, start: Path) -> None:
        self._start = start
        self._inside: dict[str, bool] = {}
        """Directories that were asked for, and whether what is in them, but for links, is inside."""

    def holds(self, path: Path | str) -> bool:
        """Return whether links, followed, lead from ``path`` only to where it seems to be.

        That is below what it has in common with ``start``: sessions may have files beside the directory of sessions.
        """
        # a session may have thousands of files in one
        text = os.fspath(path)
        folder, _slash, name = text.rpartition("/")
        if os.path.islink(text):
            return self._leads_inside(text, os.path.realpath(text))
        if folder not in self._inside:
            self._inside[folder] = self._leads_inside(text, os.path.join(os.path.realpath(folder), name))
        return self._inside[folder]

    def _leads_inside(self, path: str, where: str) -> bool:
        common = os.path.commonpath((self._start, os.path.abspath(path)))
        return within(Path(where), frozenset((Path(os.path.realpath(common)),)))

    def kept(self, source: Source) -> Iterator[Found]:
        """Yield a session without the files beside it that links lead out to, then those; only these if it is one."""
        files: list[Path | str] = [source.main, *source.first, *source.beside]
        folder = os.path.dirname(source.main)
        if len(source.first) >= _MANY and os.path.dirname(source.first[-1]) == folder:
            # it tells at once which of them are links
            with os.scandir(folder) as entries:
                plain = {entry.path for entry in entries if not entry.is_symlink()}
            files = [source.main, *(path for path in files if path not in plain)]
        if out := [path for path in files if not self.holds(path)]:
            yield Unreadable(Path(out[0]), _LEADS_OUT)
            return
        inside = tuple(one for one in source.sidecars if self.holds(one[1]))
        yield source if len(inside) == len(source.sidecars) else msgspec.structs.replace(source, sidecars=inside)
        for one in source.sidecars:
            if one not in inside:
                yield Unreadable(one[1], _LEADS_OUT)


def discover(home: Path, cwd: Path, folders: Sequence[str] = ()) -> list[Path]:
    """Return the directories in which this user's tools keep sessions, except those in a mounted store.

    ``folders`` are further ones, from ``home`` on (``~`` is that, too); those that do not exist are left out.
    """
    mounts = own_mounts()
    found = [path for format_ in FORMATS for path in format_.homes(home, cwd)]
    more = (home / re.sub(r"\A~(?=/|\Z)/*", "", folder) for folder in folders)
    found += [path for path in more if path.exists() and path not in found]
    return [path for path in found if not leads_into(Path(os.path.abspath(path)), mounts)]


def own_mounts(table: Path = Path("/proc/self/mountinfo")) -> frozenset[Path]:
    """Return the mount points of every convfs on this machine."""
    mounts = set()
    for line in table.read_bytes().splitlines():
        fields, _dash, kind = line.partition(b" - ")
        if kind.split(b" ", 1)[0] == _OWN_TYPE.encode():
            where = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), fields.split(b" ")[4])
            mounts.add(Path(os.fsdecode(where)))
    return frozenset(mounts)


def claim(path: Path, formats: Sequence[Format]) -> Source | None:
    """Return the session that stands at a path, None if none does. Raises OSError for what cannot be read; Fault."""
    look = Look(path)
    if look.head.startswith(_FOREIGN):
        return None
    for format_ in candidates(formats, look):
        try:
            source = format_.claim(look)
        except Exception as error:
            # another format might take it for one of its own
            raise told(error) from None
        if source is not None:
            return source
    return None


def is_empty(source: Source) -> bool:
    """Return whether a session has nothing but the name of its file. Raises OSError if that has gone."""
    return not source.first and source.main.stat().st_size == 0


def _entries(folder: Path, apart: frozenset[Path], bounds: _Bounds) -> list[tuple[Path, int]]:
    """Return the paths in a directory and their modes, files first, without those that are not looked into."""
    found: list[tuple[bool, str, Path, int]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = folder / entry.name
            mode = None if path in apart else _mode(entry, apart, bounds)
            if mode is not None:
                found.append((mode == stat.S_IFDIR, entry.name, path, mode))
    found.sort()
    folders = {name for is_folder, name, *_rest in found if is_folder}
    passed = _CONTENTS if folders.issuperset((_CONTENTS, _SESSIONS)) else None
    return [(path, mode) for is_folder, name, path, mode in found if not (is_folder and name == passed)]


def _mode(entry: os.DirEntry[str], apart: frozenset[Path], bounds: _Bounds) -> int | None:
    """Return S_IFREG or S_IFDIR, 0 for anything else, None for links that are not followed."""
    try:
        if not entry.is_symlink():
            return stat.S_IFDIR if entry.is_dir() else stat.S_IFREG if entry.is_file() else 0
        target = Path(os.path.abspath(os.path.join(os.path.dirname(entry.path), os.readlink(entry.path))))
        if within(target, apart) or entry.is_dir():
            return None
        return stat.S_IFREG if entry.is_file() and bounds.holds(Path(entry.path)) else 0
    except OSError:
        return 0


def leads_into(path: Path, mounts: frozenset[Path]) -> bool:
    """Return whether an absolute path leads into a mount, by links too; nothing in the mounts is touched for it."""
    if within(path, mounts):
        return True
    left = list(path.parts[1:])
    at = Path("/")
    for _ in range(_MOST_STEPS):
        if not mounts or not left:
            return False
        at /= left.pop(0)
        if at in mounts:
            return True
        try:
            target = os.readlink(at)
        except (OSError, ValueError):
            continue
        left = [*Path(os.path.abspath(at.parent / target)).parts[1:], *left]
        at = Path("/")
    return False


def within(path: Path, apart: frozenset[Path]) -> bool:
    """Return whether a path is one of the directories ``apart``, or below one."""
    return bool(apart) and not apart.isdisjoint((path, *path.parents))


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
