"""The files of a store that are neither logs nor packs: scratch, drafts, what tools are writing, settings.

They are written to where they lie, and keep their lengths: whoever has one open goes on with it, and nothing of what it
was stays on the disk. What is a copy of something derived is taken away.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from store.disk import durable
from store.ids import Hash, hash_bytes
from store.redaction.names import renamed
from store.redaction.secrets import Secrets

APART = frozenset(("blobs", "turns", "journal"))
"""Directories whose files have formats of their own."""
_DATABASES = (".db", ".db-wal", ".db-shm")
_AT_ONCE = 8 << 20
_DIGEST = b'"digest":"%b"'


class Loose:
    """Takes ``secrets`` out of the loose files of the store at ``root``; ``new`` has other names for what they name."""

    def __init__(self, root: Path, secrets: Secrets, new: Mapping[Hash, Hash]) -> None:
        self._root = root
        self._secrets = secrets
        self._new = new
        self.changed: list[str] = []
        """The paths of those that held one, relative to the store."""

    def run(self) -> None:
        """Go through them all. Raises OSError."""
        for path in self._files():
            with suppress(FileNotFoundError):
                if path.is_symlink():
                    self._link(path)
                elif path.is_file():
                    self._attributes(path)
                    self._file(path)
        self._names()

    def _files(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self._root):
            if Path(folder) == self._root:
                folders[:] = [name for name in folders if name not in APART]
                names = [name for name in names if not name.endswith(_DATABASES)]
            yield from (Path(folder, name) for name in names)

    def _file(self, path: Path) -> None:
        fd = durable.open_file(path)
        try:
            size, start, written = os.fstat(fd).st_size, 0, False
            digests = _digests(fd, size) if size <= _AT_ONCE else None
            while start < size:
                data = os.pread(fd, _AT_ONCE, start)
                clean = self._clean(data)
                if clean != data:
                    durable.pwrite_all(fd, clean, start)
                    written = True
                # what lies across is seen the next time
                start += max(len(data) - self._secrets.reach, 1) if start + len(data) < size else len(data)
            if written:
                if digests is not None:
                    _say_digest(fd, *digests)
                durable.fdatasync(fd)
                self.changed.append(str(path.relative_to(self._root)))
        finally:
            os.close(fd)

    def _clean(self, data: bytes) -> bytes:
        return renamed(self._secrets.blanked(data), lambda digest: self._new.get(Hash(digest)))

    def _link(self, path: Path) -> None:
        target = os.fsencode(os.readlink(path))
        if self._secrets.hold(target):
            path.unlink()
            path.symlink_to(os.fsdecode(self._secrets.blanked(target)))
            self.changed.append(str(path.relative_to(self._root)))

    def _attributes(self, path: Path) -> None:
        for name in os.listxattr(path):
            if name.startswith("user."):
                value = os.getxattr(path, name)
                if self._secrets.hold(value):
                    os.setxattr(path, name, self._secrets.blanked(value))

    def _names(self) -> None:
        """Rename what a secret is in the name of, the deepest first."""
        for folder, folders, names in os.walk(self._root, topdown=False):
            for name in (*names, *folders):
                if self._secrets.hold(os.fsencode(name)):
                    self._rename(Path(folder), name)

    def _rename(self, folder: Path, name: str) -> None:
        stem = os.fsdecode(self._secrets.blanked(os.fsencode(name)).replace(b"/", b"*"))
        number = 0
        while (path := folder / (f"{stem}~{number}" if number else stem)).exists():
            number += 1
        durable.replace(folder / name, path)
        durable.sync_directory(folder)
        self.changed.append(str(path.relative_to(self._root)))


def _digests(fd: int, size: int) -> tuple[int, bytes] | None:
    """Return where the text of a file begins that says its own digest in its first line, and that digest in hex."""
    data = os.pread(fd, size, 0)
    head, _, text = data.partition(b"\n")
    digest = hash_bytes(text).hex().encode()
    return (len(head) + 1, digest) if _DIGEST % digest in head else None


def _say_digest(fd: int, start: int, before: bytes) -> None:
    """Have the first line of a file say the digest of the rest as it is now."""
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    digest = hash_bytes(data[start:]).hex().encode()
    durable.pwrite_all(fd, data[:start].replace(before, digest), 0)
