"""A space in a directory that all machines reach, without a server.

``DIR/NAME/``: ``space.json`` (format, id), ``entries/PREV`` (an entry, named by the ``seq`` that it follows, 16 hex
digits), ``packs/NUMBER`` (8 digits), ``machines/NUMBER`` (JSON), ``new/`` (files in the making) and ``turn`` (locked).

A file is written and synced in ``new/``, then gets its name by link(2), which fails if there is one of that name: that
is the compare-and-append. The name is durable before anybody is told of it, or goes by it.
"""

import fcntl
import itertools
import os
import select
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from inotify_simple import INotify, flags  # type: ignore[import-untyped]  # it has no annotations
from msgspec import Struct

from store import typed
from store.disk import durable, file_header
from store.disk.file_header import PACK
from store.disk.journal_format import entry_seq, frame, unframe
from store.errors import DamageError, FormatTooNew, NotFound, StoreFailed, Unreachable, UsageError
from store.ids import new_store_id, now_ms
from store.shared.space import FORMAT, Member

_AT_ONCE_BYTES = 4 << 20
_TURN_SECONDS = 2.0
_LOOK_SECONDS = 0.005
_DIRECTORIES = ("entries", "packs", "machines", "new")


class _Description(Struct, frozen=True):
    """The contents of ``space.json``."""

    format: int
    id: str


def create(root: Path) -> None:
    """Make a new, empty space at ``root``. UsageError if there is one; Unreachable if it cannot be made."""
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        mode = os.stat(root.parent).st_mode & 0o777
        try:
            # who may reach the directory may reach the spaces in it
            os.mkdir(root, mode)
        except FileExistsError:
            if (root / "space.json").exists():
                raise UsageError(f"{root}: there is a space: convfs remote join makes a replica of it") from None
        for name in _DIRECTORIES:
            with suppress(FileExistsError):
                os.mkdir(root / name)
            os.chmod(root / name, mode)
        os.close(_made(root / "turn", mode))
        described = msgspec.json.encode(_Description(FORMAT, new_store_id().hex()))
        _put(root / "new" / f"space-{os.getpid()}", root / "space.json", described, mode)
        durable.sync_directory(root.parent)
    except OSError as error:
        raise Unreachable(f"{root}: a space cannot be made there: {error.strerror}") from error


def _made(path: Path, mode: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, mode & 0o666)
    return fd


def _put(temporary: Path, path: Path, data: bytes, mode: int) -> bool:
    """Write a file durably and link it to ``path``; False if something has that name.

    OSError if it has not got the name; StoreFailed if it has, and the disk may not.
    """
    if path.exists():
        return False
    fd = _made(temporary, mode)
    try:
        durable.truncate(fd, 0)
        durable.pwrite_all(fd, data, 0)
        durable.fdatasync(fd)
    finally:
        os.close(fd)
    try:
        durable.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        durable.remove(temporary)
    try:
        durable.sync_directory(path.parent)
    except OSError as error:
        raise StoreFailed(f"{path.parent}: {error.strerror}: what was written last may not be on its disk") from error
    return True


class Directory:
    """A space in a directory; see :class:`store.shared.space.Space`."""

    shared = True

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            described = typed.decode((root / "space.json").read_bytes(), _Description)
            self._mode = os.stat(root).st_mode & 0o777
            self._turn = os.open(root / "turn", os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            if root.parent.is_dir():
                raise NotFound(f"{root}: there is no space: convfs remote init makes one") from None
            raise Unreachable(f"{root.parent} is not there: mount what it is on") from None
        except OSError as error:
            raise Unreachable(f"{root}: the space cannot be reached: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DamageError(f"{root}: its description makes no sense: {error}") from None
        if described.format > FORMAT:
            os.close(self._turn)
            raise FormatTooNew(f"{root}: a space of format {described.format}; this convfs knows {FORMAT}: update it")
        self.files_id = bytes.fromhex(described.id)
        self._seed = zlib.crc32(self.files_id)
        self._temporary = (
            root / "new" / f"{os.uname().nodename}-{os.getpid()}-{id(self):x}-{count}" for count in itertools.count()
        )
        self._held = False
        self._inotify: INotify | None = None
        self._woken = os.eventfd(0, os.EFD_CLOEXEC)

    # -- entries ---------------------------------------------------------------------------------------------------

    def append(self, expected: int, entry: bytes) -> bool:
        self._let_others()
        return self._put(self._entry(expected), frame(entry, 0, 0, self._seed))

    def entries(self, after: int) -> Sequence[bytes]:
        found: list[bytes] = []
        size = 0
        while size < _AT_ONCE_BYTES:
            path = self._entry(after)
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                break
            except OSError as error:
                raise self._unreachable(error) from error
            framed = unframe(memoryview(data), 0, self._seed)
            if framed is None or framed.length != len(data):
                if found:
                    break
                raise DamageError(f"{path}: this entry of the space is damaged: put it back from a backup of the space")
            found.append(bytes(framed.body))
            after = entry_seq(found[-1])
            size += len(data)
        if found:
            try:
                # whoever put them there may have died before their names were on the disk
                durable.sync_directory(self.root / "entries")
            except OSError as error:
                raise self._unreachable(error) from error
        return found

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
            try:
                fcntl.flock(self._turn, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_SECONDS)
            except OSError as error:
                raise self._unreachable(error) from error
            else:
                return

    def _entry(self, after: int) -> Path:
        return self.root / "entries" / f"{after:016x}"

    # -- packs -----------------------------------------------------------------------------------------------------

    def publish(self, records: Sequence[bytes]) -> int:
        data = b"".join((file_header.encode(PACK, self.files_id), *records))
        number = max(self._numbers("packs"), default=0) + 1
        while not self._put(self.root / "packs" / f"{number:08}", data):
            number += 1
        return number

    def packs(self, after: int) -> Iterator[tuple[int, bytes]]:
        while True:
            after += 1
            try:
                data = (self.root / "packs" / f"{after:08}").read_bytes()
            except FileNotFoundError:
                return
            except OSError as error:
                raise self._unreachable(error) from error
            yield after, data

    # -- followers -------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        try:
            if self._inotify is None:
                self._inotify = INotify()
                self._inotify.add_watch(self.root / "entries", flags.CREATE | flags.MOVED_TO)
        except OSError:
            # without it, and where other machines' changes are not told of, this looks once in so many seconds
            watched = []
        else:
            watched = [self._inotify]
        ready, _, _ = select.select([self._woken, *watched], [], [], seconds)
        if self._inotify in ready and self._inotify is not None:
            self._inotify.read(timeout=0)

    def wake(self) -> None:
        os.eventfd_write(self._woken, 1)

    # -- members ---------------------------------------------------------------------------------------------------

    def join(self, machine: str) -> int:
        number = max(self._numbers("machines"), default=0) + 1
        path = self.root / "machines"
        while not self._put(path / str(number), msgspec.json.encode(Member(number, machine, now_ms()))):
            number += 1
        return number

    def members(self) -> list[Member]:
        try:
            return [
                typed.decode((self.root / "machines" / str(number)).read_bytes(), Member)
                for number in sorted(self._numbers("machines"))
            ]
        except OSError as error:
            raise self._unreachable(error) from error
        except msgspec.DecodeError as error:
            raise DamageError(f"{self.root / 'machines'}: a file there makes no sense: {error}") from None

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._woken)
        os.close(self._turn)

    # -- files -----------------------------------------------------------------------------------------------------

    def _put(self, path: Path, data: bytes) -> bool:
        try:
            return _put(next(self._temporary), path, data, self._mode)
        except OSError as error:
            raise self._unreachable(error) from error

    def _numbers(self, directory: str) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self.root / directory) if name.isdecimal()]
        except OSError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: OSError) -> Unreachable:
        return Unreachable(f"the space in {self.root} cannot be reached: {error.strerror}; try again once it can")
