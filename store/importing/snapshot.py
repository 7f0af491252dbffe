"""A file as it was at one moment, safe to read while its owner goes on writing; one that is no text, as text.

A mapped file that is cut short under the reader, or that the disk has no room for, ends the process with SIGBUS. So
small files are read whole, and large ones are copied first, to where room was set aside for all of it; and the copy,
which nobody else can touch, is mapped.
"""

import mmap
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import quote, unquote_to_bytes

from blake3 import blake3
from msgspec import Struct

from store.commit.intake import Load
from store.disk import durable
from store.disk.files import temporary_folder
from store.errors import StoreFull, UsageError
from store.formats.core.budget import check_file
from store.formats.core.format import AS_READ, Format, Source
from store.formats.core.look import open_regular
from store.ids import Hash

_SCHEME = "file:"


def path_text(path: Path | str) -> str:
    """Return ``path`` as text; one that is no UTF-8, and it alone, as ``file:`` and its bytes percent-encoded."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SCHEME + quote(os.fsencode(text))
    return _SCHEME + quote(text) if text.startswith(_SCHEME) else text


def text_path(text: str) -> Path:
    """Return the path that :func:`path_text` turned into ``text``."""
    if text.startswith(_SCHEME):
        return Path(os.fsdecode(unquote_to_bytes(text.removeprefix(_SCHEME))))
    return Path(text)


Passed = Callable[[int], None]
"""Takes the offset that reading, forwards, has reached."""


def nowhere(_offset: int) -> None:
    """Ignore how far reading has come."""


Stamp = tuple[int, int]
"""A file's size in bytes and the time of its last change in ns; at least one differs after any write."""

_CLOCK_TICK_NS = 20_000_000
"""The clock that stamps files goes in steps of up to 10 ms: a file may change again within one."""


_ABSENT: Stamp = (-1, 0)
"""The stamp of a file that is not there."""


class Cursor(Struct, frozen=True, omit_defaults=True):
    """The point that an import of a file has reached.

    ``offset`` is the end of the last finished record of the main file, ``prefix`` the BLAKE3 of the bytes before it in
    hex, ``records`` the number of records up to there (those of ``Source.first`` too), ``stamp`` the main file's.

    ``prefix`` leaves out what comes before ``since``: redacted records, which it would reveal.
    """

    offset: int
    prefix: str
    records: int
    stamp: Stamp
    since: int = 0


def stamp(path: Path | str) -> Stamp:
    """Return the stamp of a file; one that has just changed gets a stamp unlike any other."""
    return _stamp_of(os.stat(path))


def _stamp_of(status: os.stat_result) -> Stamp:
    now = time.time_ns()
    fresh = now - status.st_ctime_ns < _CLOCK_TICK_NS
    return status.st_size, -now if fresh else status.st_ctime_ns


def stamps_of_first(source: Source) -> dict[str, Stamp]:
    """Return the stamps of a session's first files."""
    return _stamps_of(source.first)


def stamps_beside(source: Source) -> dict[str, Stamp]:
    """Return the stamps of a session's other files, and of their folders and those of the first ones.

    What may be absent has one even then.
    """
    files = [os.fspath(path) for _name, path in source.sidecars]
    # as text: a session may be thousands of files
    folders = {path.rpartition("/")[0] for path in (*source.first, *files)} - {os.fspath(source.path.parent)}
    if source.path != source.main:
        folders.add(os.fspath(source.path))
    optional = source.beside if source.folder is None else (*source.beside, source.folder)
    return _stamps_of((*files, *sorted(folders))) | {path_text(path): _stamp_if_there(path) for path in optional}


def _stamps_of(paths: Iterable[str]) -> dict[str, Stamp]:
    found: dict[str, Stamp] = {}
    for path in paths:
        # a file that has gone meanwhile has no stamp
        with suppress(OSError):
            found[path_text(path)] = stamp(path)
    return found


class Stamps(Struct, frozen=True):
    """The stamps of a session's files before they were read: later changes are looked at next time.

    ``modified_ms`` is when the main file changed, in Unix milliseconds, ``main`` its stamp, ``beside`` those of what
    belongs to it.
    """

    modified_ms: int
    main: Stamp
    beside: dict[str, Stamp]


def stamps_of(source: Source) -> Stamps:
    """Return the stamps of a session's files, but the first ones. Raises OSError if there is no main file."""
    modified_ms = os.stat(source.main).st_mtime_ns // 1_000_000
    return Stamps(modified_ms, stamp(source.main), stamps_beside(source))


def unchanged(main: Path, cursor: Cursor, beside: dict[str, Stamp]) -> bool:
    """Return whether a session's main file and everything in ``beside`` are unchanged."""
    try:
        known = beside.items()
        return stamp(main) == cursor.stamp and all(_stamp_if_there(text_path(path)) == was for path, was in known)
    except OSError:
        return False


def _stamp_if_there(path: Path) -> Stamp:
    try:
        return stamp(path)
    except FileNotFoundError:
        return _ABSENT


_MAPPED_FROM = 32 << 20
_COPIED_AT_ONCE = 1 << 20
_RELEASED_AT_ONCE = 8 << 20
_HASHED_AT_ONCE = 4 << 20
_LOOK_BACK = 4096
"""The number of bytes before the new part that formats may look at, to tell how records are laid out."""


class Snapshot:
    """The bytes of ``path`` as a memoryview (``data``). Copies of large files go to ``scratch``, unlinked.

    A file that nobody writes to, as ``own`` says, needs no copy.

    If the file has more than was ``known`` of it, and still begins so, ``data`` has the rest, and a little
    before it; then ``base`` is the offset in the file of ``data``, and ``start`` the offset in ``data`` of the new
    part. Else both are 0.

    Raises UsageError if there is no regular file that can be read, DamageError for one that is too large. Growth of the
    file in the meantime is left out.
    """

    since = 0
    """The offset in the file where the hash :attr:`before` begins."""

    def __init__(self, path: Path | str, scratch: Path, known: Cursor | None = None, *, own: bool = False) -> None:
        self.base = self.start = 0
        self.stamp = _ABSENT
        """The stamp of the file as it was opened."""
        self.before = blake3()
        """The hash of the bytes before the new part."""
        self._map: mmap.mmap | None = None
        self._released = 0
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                self.stamp, size = _stamp_of(status), status.st_size
                if known and 0 < known.offset < size:
                    file.seek(known.since)
                    before = _hash_of(file, known.offset - known.since)
                    if before.hexdigest() == known.prefix:
                        self.before, self.since = before, known.since
                        self.base = max(known.offset - _LOOK_BACK, 0)
                        self.start = known.offset - self.base
                    file.seek(self.base)
                if size - self.base < _MAPPED_FROM:
                    self.data = memoryview(_read(file, size - self.base))
                elif own:
                    self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
                    self.data = memoryview(self._map)
                else:
                    scratch.mkdir(mode=0o700, exist_ok=True)
                    check_file(file, Path(path), scratch)
                    file.seek(self.base)
                    self._map = _private_copy(file, size - self.base, scratch)
                    self.data = memoryview(self._map or b"")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error

    def passed(self, offset: int) -> None:
        """Note that reading, forwards, has reached ``offset``: bytes before it take no memory until read again.

        An offset before the last one begins another pass.
        """
        if self._map is None:
            return
        if offset < self._released:
            self._released = offset - offset % mmap.PAGESIZE
        elif offset - self._released >= _RELEASED_AT_ONCE:
            end = offset - offset % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, self._released, end - self._released)
            self._released = end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        # after an error something may still look at them: they are released with it
        with suppress(BufferError):
            self.data.release()
            if self._map is not None:
                self._map.close()


def begins(path: Path, known: Cursor) -> bool:
    """Return whether a file still begins as it did. Raises UsageError if there is no regular file that can be read."""
    try:
        with open_regular(path) as file:
            file.seek(known.since)
            return _hash_of(file, known.offset - known.since).hexdigest() == known.prefix
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def hash_of_large(data: memoryview, passed: Passed) -> Hash:
    """Return the hash of data that may be larger than memory."""
    whole = blake3()
    for start in range(0, len(data), _HASHED_AT_ONCE):
        whole.update(data[start : start + _HASHED_AT_ONCE])
        passed(start)
    return Hash(whole.digest())


def _hash_of(file: BinaryIO, size: int) -> blake3:
    whole = blake3()
    while size > 0 and (piece := file.read(min(_COPIED_AT_ONCE, size))):
        whole.update(piece)
        size -= len(piece)
    return whole


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _private_copy(source: BinaryIO, size: int, scratch: Path) -> mmap.mmap | None:
    """Copy up to ``size`` bytes and return them mapped; None if the file has none left."""
    # imported here, as most are small
    from tempfile import TemporaryFile

    with TemporaryFile(dir=scratch) as copy:
        try:
            durable.reserve(copy.fileno(), size)
            done = 0
            while done < size and (piece := source.read(min(_COPIED_AT_ONCE, size - done))):
                done += len(piece)
                copy.write(piece)
            copy.flush()
        except OSError as error:
            if error.errno not in durable.FULL:
                raise
            raise StoreFull(f"{scratch}: {size} bytes are to be copied there: free space on its disk") from error
        return mmap.mmap(copy.fileno(), done, access=mmap.ACCESS_READ) if done else None


class Prefix:
    """The hash of a file from its beginning to a point of a snapshot that moves on, in the positions of its ``data``.

    Passed bytes take no memory.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.since = snapshot.since
        """The offset in the file where this hash begins."""
        self._hash = snapshot.before
        self._position = snapshot.start

    def leave_out(self, position: int) -> None:
        """Restart the hash at ``position``, without anything before."""
        self.since = self._snapshot.base + position
        self._hash = blake3()
        self._position = position

    def follow(self, position: int) -> None:
        if position - self._position >= _HASHED_AT_ONCE:
            self.at(position)

    def at(self, position: int) -> str:
        """Move on to ``position`` and return the hash of the bytes before it, in hex."""
        while self._position < position:
            end = min(position, self._position + _HASHED_AT_ONCE)
            self._hash.update(self._snapshot.data[self._position : end])
            self._snapshot.passed(end)
            self._position = end
        return self._hash.hexdigest()


def is_rendered(format_: Format) -> bool:
    """Return whether files of a format may be no text, so that their records must be written as such."""
    return type(format_).rendition is not Format.rendition


@contextmanager
def rendition(scratch: Path, format_: Format, source: Source) -> Iterator[Path | None]:
    """Yield the rendition of a file, removed afterwards; None if the file itself holds the records."""
    if not is_rendered(format_):
        yield None
        return
    with temporary_folder(scratch) as folder:
        yield format_.rendition(source, folder)


def keep_original(source: Source, rendered: Path, load: Load) -> dict[str, str]:
    """Store the file itself, as it was read, and those beside it that are there; return their blobs, in hex, by name.

    ``rendered`` is its rendition. A file without a copy beside that is read from its own place: it may have been
    written to since.
    """
    copies = rendered.parent / AS_READ
    found: dict[str, str] = {}
    for path in (source.main, *source.beside):
        path = copies / path.name if copies.is_dir() else path
        if path.name == source.main.name or path.exists():
            with Snapshot(path, rendered.parent, own=copies.is_dir()) as snapshot:
                found[path_text(path.name)] = load.huge(snapshot.data, snapshot.passed).hex()
    return found


def has_copies(rendered: Path) -> bool:
    """Return whether the sources of a rendition were left beside it."""
    return (rendered.parent / AS_READ).is_dir()


def file_state(source: Source) -> list[tuple[int, int] | None]:
    """Return a state that changes when the file, or one beside it, is written to."""
    found: list[tuple[int, int] | None] = []
    for path in (source.main, *source.beside):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_size, status.st_mtime_ns))
    return found
