"""A space in a directory that all machines reach, without a server.

``DIR/NAME/``: ``space.json`` (format, id), ``log/PREV`` (an entry, named by the ``seq`` that it follows, 16 hex
digits), ``records/KEY/VERSION`` (a value; the key percent-encoded, the version in 16 hex digits), ``objects/KEY``,
``new/`` (files in the making) and ``turn`` (locked).

A file is written and synced in ``new/``, then gets its name by link(2), which fails if there is one of that name: that
is the compare-and-append, and the compare-and-swap. The name is durable before anybody is told of it, or goes by it.

Entries that are in the archive are removed, and then their names are free: who was asleep may link another entry there.
So whoever has linked one, or read one, looks at the record of the archive afterwards. If that says no more than before,
the name was never free; else what is there counts for nothing.

Of a record the last versions are kept, some of them only so that who has read one of these cannot bring it back.
"""

import fcntl
import itertools
import os
import select
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
from inotify_simple import INotify, flags  # type: ignore[import-untyped]  # it has no annotations
from msgspec import Struct

from store import typed
from store.disk import durable
from store.errors import DamageError, FormatTooNew, Missing, NotFound, StoreFailed, Unreachable, UsageError
from store.ids import new_store_id
from store.shared import entry as entries
from store.shared import packs, roster
from store.shared.entry import Entry
from store.shared.packs import PackNote
from store.shared.roster import Member
from store.shared.space import ARCHIVE, ENCRYPTED, FORMAT, ArchiveEnd, Behind, Generation, Outdated, Record, Space

_AT_ONCE_BYTES = 4 << 20
_TURN_SECONDS = 2.0
_LOOK_SECONDS = 0.005
_KEPT_VERSIONS = 64
_DIRECTORIES = ("log", "records", "objects", "new")


class _Description(Struct, frozen=True, omit_defaults=True):
    """The contents of ``space.json``. ``upgrading`` until all of an older format is where this one has it."""

    format: int
    id: str
    upgrading: bool = False


class _Files:
    """The files of a space: how they are written, and what their errors mean."""

    def __init__(self, root: Path, mode: int) -> None:
        self.root = root
        self._mode = mode
        self._own = f"{os.uname().nodename}-{os.getpid()}-{id(self):x}"
        self._count = itertools.count()

    def open(self, path: Path) -> int:
        """Open a file for writing; make it if it is missing."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(fd, self._mode & 0o666)
        return fd

    def make_directory(self, path: Path) -> None:
        """Make a directory of the space durably, and those above it, if they are missing."""
        if path.is_dir():
            return
        if path.parent != self.root:
            self.make_directory(path.parent)
        with suppress(FileExistsError):
            os.mkdir(path)
        os.chmod(path, self._mode)
        durable.sync_directory(path.parent)

    def put(self, path: Path, data: bytes, *, replace: bool = False) -> bool:
        """Write a file durably; return False if something has that name, and is not to be replaced.

        Unreachable if it has not got the name; StoreFailed if it has, and the disk may not.
        """
        with self.reaching():
            if not replace and path.exists():
                return False
            temporary = self.root / "new" / f"{self._own}-{next(self._count)}"
            fd = self.open(temporary)
            try:
                durable.truncate(fd, 0)
                durable.pwrite_all(fd, data, 0)
                durable.fdatasync(fd)
            finally:
                os.close(fd)
            try:
                durable.link(temporary, path)
            except FileExistsError:
                if not replace:
                    return False
                durable.replace(temporary, path)
            finally:
                with suppress(FileNotFoundError):
                    durable.remove(temporary)
        try:
            durable.sync_directory(path.parent)
        except OSError as error:
            raise StoreFailed(
                f"{path.parent}: {error.strerror}: what was written last may not be on its disk"
            ) from error
        return True

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Raise Unreachable for errors of the directory."""
        try:
            yield
        except OSError as error:
            raise Unreachable(
                f"the space in {self.root} cannot be reached: {error.strerror}; try again once it can"
            ) from error


class _Log:
    """The entries, a file each; see :class:`store.shared.space.Log`."""

    def __init__(self, files: _Files, space: bytes, records: "_Records") -> None:
        self._files = files
        self._space = space
        self._records = records
        self._directory = files.root / "log"
        self._turn = os.open(files.root / "turn", os.O_RDWR | os.O_CLOEXEC)
        self._held = False
        self._end = (0, 0)
        """The version of the record of the archive that was read last, and up to which commit that was."""
        self._inotify: INotify | None = None
        self._woken = os.eventfd(0, os.EFD_CLOEXEC)

    def append(self, entry: Entry) -> Sequence[Entry]:
        self._let_others()
        current = self._records.record(ENCRYPTED)
        if current.value and typed.decode(current.value, Generation).generation > entry.generation:
            raise Outdated(f"the space in {self._files.root} has a newer key")
        path = self._path(entry.prev)
        if self._files.put(path, entries.encode(entry, self._space)):
            if self._archived() > entry.prev:
                with self._files.reaching(), suppress(FileNotFoundError):
                    durable.remove(path)
                raise self._behind(entry.prev)
            return ()
        others = self.entries(entry.prev)
        return () if others and others[0].token == entry.token else others

    def entries(self, after: int) -> Sequence[Entry]:
        found = self._read(after)
        if self._archived() > after:
            raise self._behind(after)
        return found

    def _behind(self, after: int) -> Behind:
        return Behind(f"the space in {self._files.root} has archived what follows commit {after}")

    def _archived(self) -> int:
        """Return the last commit of which all entries up to it are in objects."""
        version, seq = self._end
        if version == 0 or not self._records.is_last(ARCHIVE, version):
            record = self._records.record(ARCHIVE)
            seq = typed.decode(record.value, ArchiveEnd).seq if record.value else 0
            self._end = record.version, seq
        return seq

    def _read(self, after: int) -> list[Entry]:
        found: list[Entry] = []
        size = 0
        with self._files.reaching():
            while size < _AT_ONCE_BYTES:
                path = self._path(after)
                try:
                    data = path.read_bytes()
                    found.append(entries.decode(data, after, self._space))
                except FileNotFoundError:
                    # the directory of all tells whether the space is there
                    os.stat(self._directory)
                    break
                except DamageError as error:
                    if found:
                        break
                    raise DamageError(f"{path}: {error}") from None
                after = found[-1].seq
                size += len(data)
            if found:
                # whoever put them there may have died before their names were on the disk
                durable.sync_directory(self._directory)
        return found

    def replace(self, entry: Entry) -> None:
        self._files.put(self._path(entry.prev), entries.encode(entry, self._space), replace=True)

    def old(self, keep: int, seconds: float) -> tuple[int, int]:
        before = time.time() - seconds
        with self._files.reaching():
            count, last = 0, 0
            names = sorted(os.listdir(self._directory))
            some = names[: max(0, len(names) - max(keep, 1) + 1)]
            for name, following in itertools.pairwise(some):
                if os.stat(self._directory / name).st_mtime > before:
                    break
                count, last = count + 1, int(following, 16)
        return count, last

    def trim(self) -> None:
        archived = self._archived()
        with self._files.reaching():
            names = sorted(os.listdir(self._directory))
            for name in names[:-1]:
                if int(name, 16) >= archived:
                    break
                with suppress(FileNotFoundError):
                    durable.remove(self._directory / name)
            durable.sync_directory(self._directory)

    @contextmanager
    def turn(self) -> Iterator[None]:
        self._lock(fcntl.LOCK_EX)
        self._held = True
        try:
            yield
        finally:
            self._held = False
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def _let_others(self) -> None:
        if not self._held:
            self._lock(fcntl.LOCK_SH)
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def _lock(self, kind: int) -> None:
        """Lock the turn; go on without the lock after a while, as it is for progress alone."""
        until = time.monotonic() + _TURN_SECONDS
        while time.monotonic() < until:
            with self._files.reaching():
                try:
                    fcntl.flock(self._turn, kind | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_LOOK_SECONDS)
                else:
                    return

    def wait(self, seconds: float) -> None:
        try:
            if self._inotify is None:
                self._inotify = INotify()
                self._inotify.add_watch(self._directory, flags.CREATE | flags.MOVED_TO)
        except OSError:
            # without it, and where other machines' changes are not told of, this looks once in so many seconds
            watched = []
        else:
            watched = [self._inotify]
        ready, _, _ = select.select([self._woken, *watched], [], [], seconds)
        if self._inotify in ready and self._inotify is not None:
            self._inotify.read(timeout=0)

    def listen(self) -> None:
        return

    def wake(self) -> None:
        os.eventfd_write(self._woken, 1)

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._woken)
        os.close(self._turn)

    def _path(self, after: int) -> Path:
        return self._directory / f"{after:016x}"


class _Records:
    """The records, a directory of versions each; see :class:`store.shared.space.Records`."""

    def __init__(self, files: _Files) -> None:
        self._files = files
        self._directory = files.root / "records"

    def record(self, key: str) -> Record:
        with self._files.reaching():
            while versions := self._versions(key):
                try:
                    return Record(key, versions[-1], self._path(key, versions[-1]).read_bytes())
                except FileNotFoundError:
                    # others were so fast that it was removed in between
                    continue
        return Record(key, 0, b"")

    def is_last(self, key: str, version: int) -> bool:
        """Return whether a version of a record that was there is still the last."""
        with self._files.reaching():
            # in this order: as long as it is kept, so are all that came behind it
            try:
                os.stat(self._path(key, version + 1))
            except FileNotFoundError:
                return self._path(key, version).exists()
        return False

    def records(self, prefix: str, after: str = "") -> list[Record]:
        with self._files.reaching():
            keys = sorted(map(unquote, os.listdir(self._directory)))
        found = [self.record(key) for key in keys if key.startswith(prefix) and key > after]
        return [record for record in found if record.value]

    def swap(self, key: str, version: int, value: bytes) -> bool:
        with self._files.reaching():
            versions = self._versions(key)
            if version != (versions[-1] if versions else 0):
                return False
            if not versions:
                self._files.make_directory(self._path(key, 0).parent)
        if not self._files.put(self._path(key, version + 1), value):
            return False
        with self._files.reaching():
            versions = self._versions(key)
            if version + 1 <= versions[-1] - _KEPT_VERSIONS:
                # others were first, so long ago that theirs was removed
                durable.remove(self._path(key, version + 1))
                return False
            for old in versions[:-_KEPT_VERSIONS]:
                with suppress(FileNotFoundError):
                    durable.remove(self._path(key, old))
        return True

    def _versions(self, key: str) -> list[int]:
        try:
            return sorted(int(name, 16) for name in os.listdir(self._path(key, 0).parent))
        except FileNotFoundError:
            # the directory of all tells whether the space is there
            os.stat(self._directory)
            return []

    def _path(self, key: str, version: int) -> Path:
        return self._directory / quote(key, safe="") / f"{version:016x}"


class _Bucket:
    """The objects, a file each; see :class:`store.shared.space.Bucket`."""

    def __init__(self, files: _Files) -> None:
        self._files = files
        self._directory = files.root / "objects"

    def put(self, key: str, data: bytes) -> None:
        path = self._directory / key
        with self._files.reaching():
            self._files.make_directory(path.parent)
        self._files.put(path, data, replace=True)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        with self._files.reaching():
            try:
                with (self._directory / key).open("rb") as file:
                    file.seek(start)
                    return file.read(-1 if length is None else length)
            except FileNotFoundError:
                os.stat(self._directory)
                raise Missing(f"there is no object {key} in the space in {self._files.root}") from None

    def delete(self, key: str) -> None:
        path = self._directory / key
        with self._files.reaching(), suppress(FileNotFoundError):
            durable.remove(path)
            durable.sync_directory(path.parent)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        with self._files.reaching():
            for directory, _directories, names in os.walk(self._directory):
                for name in names:
                    path = Path(directory) / name
                    key = str(path.relative_to(self._directory))
                    if key.startswith(prefix):
                        with suppress(FileNotFoundError):
                            yield key, path.stat().st_size


def create(root: Path, records: Mapping[str, bytes]) -> None:
    """Make a space with some records at ``root``. UsageError if there is one; Unreachable if it cannot be made."""
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        # who may reach the directory may reach the spaces in it
        mode = os.stat(root.parent).st_mode & 0o777
        try:
            os.mkdir(root, mode)
        except FileExistsError:
            if (root / "space.json").exists():
                raise UsageError(f"{root}: there is a space: convfs remote join makes a replica of it") from None
        files = _Files(root, mode)
        for name in _DIRECTORIES:
            files.make_directory(root / name)
        os.close(files.open(root / "turn"))
        for key, value in records.items():
            _Records(files).swap(key, 0, value)
        files.put(root / "space.json", msgspec.json.encode(_Description(FORMAT, new_store_id().hex())))
        durable.sync_directory(root.parent)
    except OSError as error:
        raise Unreachable(f"{root}: a space cannot be made there: {error.strerror}") from error


def connect(root: Path) -> Space:
    """Return the space at ``root``. Raises NotFound, Unreachable, DamageError, FormatTooNew."""
    try:
        described = typed.decode((root / "space.json").read_bytes(), _Description)
        files = _Files(root, os.stat(root).st_mode & 0o777)
    except (FileNotFoundError, NotADirectoryError):
        if root.parent.is_dir():
            raise NotFound(f"{root}: there is no space: convfs remote init makes one") from None
        raise Unreachable(f"{root.parent} is not there: mount what it is on") from None
    except OSError as error:
        raise Unreachable(f"{root}: the space cannot be reached: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamageError(f"{root}: its description makes no sense: {error}") from None
    if described.format > FORMAT:
        raise FormatTooNew(f"{root}: a space of format {described.format}; this convfs knows {FORMAT}: update it")
    with files.reaching():
        if described.format < FORMAT or described.upgrading:
            _upgrade(files, described.id)
        space = bytes.fromhex(described.id)
        records = _Records(files)
        log = _Log(files, space, records)
    return Space(space, str(root.parent), log, records, _Bucket(files), log.close)


def _upgrade(files: _Files, id: str) -> None:
    """Bring what earlier formats have where this format has it; once more, if that was interrupted."""
    root, records = files.root, _Records(files)
    description = root / "space.json"
    # first, so that no older version begins to read what is about to move
    files.put(description, msgspec.json.encode(_Description(FORMAT, id, upgrading=True)), replace=True)
    files.make_directory(root / "records")
    files.make_directory(root / "objects")
    with suppress(FileNotFoundError):
        # machines with an earlier version, which know no archive, append nothing any more
        os.rename(root / "entries", root / "log")
        durable.sync_directory(root)
    with suppress(FileNotFoundError):
        os.rename(root / "packs", root / "objects" / "packs")
        durable.sync_directory(root / "objects")
    packed = root / "objects" / "packs"
    for name in sorted(os.listdir(packed)) if packed.is_dir() else ():
        if name.isdecimal():
            note = PackNote(f"packs/{name}", (packed / name).stat().st_size)
            records.swap(packs.key_of(int(name)), 0, msgspec.json.encode(note))
    machines = root / "machines"
    for name in os.listdir(machines) if machines.is_dir() else ():
        member = typed.decode((machines / name).read_bytes(), Member)
        records.swap(roster.key_of(member.number), 0, msgspec.json.encode(member))
    shutil.rmtree(machines, ignore_errors=True)
    files.put(description, msgspec.json.encode(_Description(FORMAT, id)), replace=True)
