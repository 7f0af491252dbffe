"""Identity of a store: the directory that it is, and its id.

A directory is identified by its device and inode: any number of paths may lead to it, and a copy has other ones. The id
is random. The file ``identity`` holds it, together with the directory's device and inode, and its path at the time. A
different directory at a different path is a copy, or cannot be told from one, and gets an id of its own. All files keep
the id in their headers.

Layout, little-endian: ``file header | device u64 | inode u64 | length u16 | path | crc32 u32`` of all behind the
header, whose store id is the store's own.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout

from msgspec import Struct

from store import paths
from store.disk import durable, file_header
from store.disk.file_header import CHECKPOINT, HEAD_LOG, HEADER_SIZE, IDENTITY, JOURNAL, PACK, TURN_LOG, FileKind
from store.errors import ConvfsError, DamageError
from store.ids import new_store_id

_DERIVED = (paths.INDEX, paths.SEARCH, paths.INSIGHT, paths.WORKTREE, paths.TEXTS)
_FIELDS = Layout("<QQH")
_CRC = Layout("<I")


class Identity(Struct, frozen=True):
    """The id that a store is known by, and which directory it was, where, when that was written."""

    store_id: bytes
    device: int
    inode: int
    path: bytes


def directory_key(directory: Path | int) -> str:
    """Return the key of a directory, or of a descriptor of one, on this machine: ``DEVICE-INODE`` in hex.

    OSError where there is none.
    """
    status = os.stat(directory)
    return f"{status.st_dev:x}-{status.st_ino:x}"


def encode(identity: Identity) -> bytes:
    """Return the bytes of the file."""
    tail = _FIELDS.pack(identity.device, identity.inode, len(identity.path)) + identity.path
    return file_header.encode(IDENTITY, identity.store_id) + tail + _CRC.pack(zlib.crc32(tail))


def decode(data: bytes, path: Path) -> Identity:
    """Read the identity in the file ``path``. DamageError if it holds none; FormatTooNew as of any file."""
    store_id = file_header.decode(data[:HEADER_SIZE], IDENTITY, path)
    tail, crc = data[HEADER_SIZE : -_CRC.size], data[-_CRC.size :]
    if len(tail) < _FIELDS.size or _CRC.pack(zlib.crc32(tail)) != crc:
        raise DamageError(f"{path}: the checksum does not hold")
    device, inode, length = _FIELDS.unpack_from(tail)
    if length != len(tail) - _FIELDS.size:
        raise DamageError(f"{path}: the path has another length than is said")
    return Identity(store_id, device, inode, tail[_FIELDS.size :])


def read(root: Path) -> Identity | None:
    """Return the identity of the store at ``root``, None if it has none; errors as of :func:`decode`, and OSError."""
    try:
        return decode((root / paths.IDENTITY).read_bytes(), root / paths.IDENTITY)
    except FileNotFoundError:
        return None


def files_id(root: Path) -> bytes | None:
    """Return the id that the files of a store have in their headers; None if there is no store.

    Any one file will do: a damaged header costs no more than a report.
    """
    damage: ConvfsError | None = None
    for path, kind in _headed(root):
        try:
            return file_header.read(path, kind)
        except FileNotFoundError:
            continue
        except DamageError as error:
            damage = damage or error
    if damage is not None:
        raise damage
    return None


def _headed(root: Path) -> Iterator[tuple[Path, FileKind]]:
    yield root / paths.TURN_LOG, TURN_LOG
    yield root / paths.HEAD_LOG, HEAD_LOG
    yield root / paths.CHECKPOINT, CHECKPOINT
    yield root / paths.JOURNAL / "1", JOURNAL
    yield root / paths.JOURNAL / "2", JOURNAL
    for path in sorted(root.glob(paths.PACKS)):
        yield path, PACK


def settle(root: Path, files_id: bytes) -> tuple[bytes, list[str]]:
    """Return the id of the store at ``root``, whose files have ``files_id``, and notes to report, if any.

    The caller must have the store to itself. A store that has no identity yet uses the id of its files. After a crash
    either the old identity is there or the new one.
    """
    status, path = os.stat(root), os.fsencode(os.path.realpath(root))
    said: list[str] = []
    try:
        known = read(root)
    except DamageError as error:
        said.append(f"what the store is called is damaged ({error}): it goes by the id of its files")
        known = None
    noted = known
    if known is None:
        known = Identity(files_id, status.st_dev, status.st_ino, path)
    there = Path(os.fsdecode(known.path))
    if known.path != path and _same(there, root):
        return known.store_id, said
    shared = (root / paths.SPACE).exists()
    # replicas have the id of their space, in their headers, copies too
    own = Identity(files_id if shared else known.store_id, status.st_dev, status.st_ino, path)
    moved = (known.device, known.inode) == (own.device, own.inode)
    copied = known.path != path and _id_at(there) == own.store_id
    # device numbers change with each boot
    if not moved and (known.path != path or known.inode != own.inode):
        _remove_derived(root)
    if known.path == path or (moved and not copied):
        if noted != own:
            # without room for the note, too: that is written another time
            with suppress(OSError):
                _write(root, own)
        return own.store_id, said
    kind = "replica" if shared else "store"
    what = f"a copy of the {kind}" if copied else f"another directory than the {kind} was, which is not there any more,"
    if shared:
        said.append(f"this is {what} at {there}: only the one that was opened last goes on, until convfs remote adopt")
    else:
        said.append(f"this is {what} at {there}: it has an id of its own from now on")
        own = Identity(new_store_id(), own.device, own.inode, own.path)
    # clients with the other store's token must not get in here; first, since it is a copy until it has its id
    with suppress(FileNotFoundError):
        durable.remove(root / paths.TOKEN)
    _write(root, own)
    return own.store_id, said


def look(root: Path, files_id: bytes) -> tuple[bytes, bool]:
    """Return the id of a store that may only be read, and whether it is a copy.

    A copy's databases cannot be trusted: they may have been copied in the middle of a write.
    """
    try:
        known = read(root)
    except DamageError:
        known = None
    return (files_id, False) if known is None else (known.store_id, known.inode != os.stat(root).st_ino)


def _remove_derived(root: Path) -> None:
    """Remove the databases, which are then rebuilt: they may have been copied in the middle of a write."""
    for name in _DERIVED:
        for suffix in paths.DATABASE_PARTS:
            with suppress(FileNotFoundError):
                durable.remove(root / f"{name}{suffix}")


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _id_at(root: Path) -> bytes | None:
    """Return the id of the store at ``root``; None where there is none, or that cannot be told."""
    try:
        known = read(root)
        return known.store_id if known else files_id(root)
    except (OSError, ConvfsError):
        return None


def _write(root: Path, identity: Identity) -> None:
    durable.write_whole(root / paths.IDENTITY, encode(identity))
