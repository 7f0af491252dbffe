"""Looks at files, to tell whose they are: each is read once, however many formats look at it."""

import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from store.errors import DamageError, NotFound, UsageError
from store.formats.core.budget import LARGEST_WHOLE
from store.formats.core.json_beginning import completed
from store.formats.core.json_view import BYTE_ORDER_MARK, PADDING, JsonObject, decode, is_object
from store.ids import sha256

HEAD_SIZE = 64 * 1024
"""The bytes of a file that are read to tell whose it is."""
DATABASE = b"SQLite format 3\0"
"""The beginning of an SQLite database."""
_MOST_COMPANIONS = 10_000


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file for reading, unbuffered. Raises OSError for anything else; a FIFO is never waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is no regular file", path)
        return open(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def read_document(path: Path) -> bytes:
    """Return a regular file that is read whole. Raises UsageError for more than 256 MiB, and OSError."""
    with open_regular(path) as file:
        data = file.read(LARGEST_WHOLE + 1)
    if len(data) > LARGEST_WHOLE:
        raise UsageError(f"{path} holds more than {LARGEST_WHOLE} bytes of one document; it is not read")
    return data


def read_by_hash(
    paths: Iterable[Path], digest: bytes, what: str, content_of: Callable[[BinaryIO, Path], bytes]
) -> bytes:
    """Return the content whose SHA-256 is ``digest``, of the first of ``paths`` that is there; ``what`` it is.

    ``content_of`` reads an opened file. Raises NotFound where there is none, and DamageError where one cannot be read,
    or holds other content.
    """
    for path in paths:
        try:
            with open_regular(path) as file:
                content = content_of(file, path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, EOFError, zlib.error) as error:
            raise DamageError(f"{what} {path} cannot be read: {error}; restore it or drop the reference") from error
        if sha256(content) != digest:
            raise DamageError(f"{what} {path} is not what its name says; restore it or drop the reference")
        return content
    raise NotFound(f"{what} {digest.hex()} is not there; the conversation refers to it")


def read_head(path: Path, size: int = HEAD_SIZE, *, from_end: bool = False) -> bytes | None:
    """Return the first (or last) ``size`` bytes of a regular file; None if it is not one or cannot be read."""
    try:
        with open_regular(path) as file:
            if from_end:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size)
    except OSError:
        return None


def head_lines(head: bytes, limit: int = 50) -> list[bytes]:
    """Return the first lines of a head that are not blank; the last may be cut off where the head ends."""
    lines = head.split(b"\n", 2 * limit)[: 2 * limit]
    return [line for line in lines if line.strip()][:limit]


def companions(session: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files in a session's folder (its name without suffix), as sidecars, but for sessions among them."""
    folder = session.with_suffix("")
    if not folder.is_dir():
        return
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in sorted(names))
    for file in islice(found, _MOST_COMPANIONS):
        if file.suffix != session.suffix and file.is_file() and not file.is_symlink():
            yield str(file.relative_to(session.parent)), file


_SHORTEST_BEGINNING = 16


class Look:
    """A path that a session may stand at. Its content is read when first asked for, and kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: set[str] | None = None
        """The tables of a database, once :mod:`store.formats.core.sqlite` was asked for them."""
        self._objects: list[JsonObject | None] = []
        """The first lines as far as they were decoded: most files are offered to every format."""

    @cached_property
    def is_folder(self) -> bool:
        """Return whether the path is a directory."""
        return os.path.isdir(self.path)

    @cached_property
    def head(self) -> bytes:
        """The first 64 KB of a regular file, nothing of a directory. Raises OSError where it cannot be read."""
        if self.is_folder:
            return b""
        with open_regular(self.path) as file:
            return file.read(HEAD_SIZE)

    @property
    def is_database(self) -> bool:
        """Whether the path is an SQLite database. Raises OSError as ``head`` does."""
        return self.head.startswith(DATABASE)

    @cached_property
    def document(self) -> object:
        """The first JSON document of the head as far as it is there and makes sense, None where there is none.

        A text that is cut off is an empty one. Takes some 20 ms: look for what must be in the head first.

        Raises OSError as ``head`` does.
        """
        head = self.head.removeprefix(BYTE_ORDER_MARK).rstrip(PADDING)
        return _document(head) if head.lstrip().startswith((b"{", b"[")) else None

    @cached_property
    def _lines(self) -> list[bytes]:
        return head_lines(self.head)

    def lines(self, limit: int = 50) -> list[bytes]:
        """Return the first lines of the head, up to 50, that are not blank; the last may be cut off.

        Raises OSError as ``head`` does.
        """
        return self._lines[:limit]

    def decoded(self, limit: int = 50) -> Iterator[tuple[bytes, JsonObject | None]]:
        """Yield the first lines, each with the object that it is, None if it is none. Raises OSError as they do."""
        for at, line in enumerate(self.lines(limit)):
            if at == len(self._objects):
                self._objects.append(_object(line))
            yield line, self._objects[at]

    def objects(self, limit: int = 50) -> list[JsonObject]:
        """Return those of the first lines that are JSON objects. Raises OSError as they do."""
        return [value for _line, value in self.decoded(limit) if value is not None]


@lru_cache(2)
def _document(head: bytes) -> object:
    """Return the document that a beginning is of; whoever describes a session asks for it again."""
    # one that is cut off is whole in its first line at most
    for whole in (*([head] if len(head) < HEAD_SIZE - len(BYTE_ORDER_MARK) else []), *head_lines(head, 1)):
        if (decoded := decode(whole)) is not None:
            return decoded.value
    while len(head) >= _SHORTEST_BEGINNING:
        if (begun := completed(head)) is not None and (decoded := decode(begun.empty)) is not None:
            return decoded.value
        head = head[: len(head) // 2]
    return None


def _object(line: bytes) -> JsonObject | None:
    decoded = decode(line)
    return decoded.value if decoded and is_object(decoded.value) else None
