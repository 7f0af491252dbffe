"""Trees of files, as CXDB's clients upload them: a snapshot of what a turn was made with.

A tree is a blob: a MessagePack array of maps, one an entry, sorted by name. Keys are numbers, or the same as texts:
1 name, 2 kind, 3 mode, 4 size, 5 hash. The hash is that of a file's content, of a directory's own tree, or of a link's
target. An empty directory may be nil.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum

import msgspec
from msgspec import Struct

from store.errors import DamageError, NotFound
from store.ids import HASH_SIZE, Hash

_LONGEST_NAME = 255


class EntryKind(IntEnum):
    """The kind of an entry; any other number stands for a file."""

    FILE = 0
    DIRECTORY = 1
    LINK = 2


class TreeEntry(Struct, frozen=True):
    """An entry of a tree; ``mode`` has the nine bits of permissions, ``size`` is that of the content in bytes."""

    name: str
    kind: EntryKind
    mode: int
    size: int
    hash: Hash


_decode = msgspec.msgpack.Decoder(list[dict[str | int, object]] | None).decode


def entries(tree: bytes) -> list[TreeEntry]:
    """Return the entries of a tree in their order, without those that no directory can hold. DamageError if it is none.

    Left out are entries without a hash, with a name that is no file name, or with the name of an earlier one.
    """
    try:
        found = _decode(tree) or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamageError(f"this is no tree of files: {error}") from None
    known: dict[str, TreeEntry] = {}
    for fields in found:
        name, kind, mode, size, digest = (fields.get(str(key), fields.get(key)) for key in range(1, 6))
        if isinstance(name, str) and _is_name(name) and isinstance(digest, bytes) and len(digest) == HASH_SIZE:
            sort = EntryKind(kind) if isinstance(kind, int) and kind in tuple(EntryKind) else EntryKind.FILE
            entry = TreeEntry(name, sort, _number(mode) & 0o777, _number(size), Hash(digest))
            known.setdefault(name, entry)
    return list(known.values())


def find(blob: Callable[[Hash], bytes], root: Hash, path: str) -> TreeEntry:
    """Return the entry at a path below a root, the root itself for "". NotFound if there is none there."""
    entry = TreeEntry("", EntryKind.DIRECTORY, 0o755, 0, root)
    for part in filter(None, path.split("/")):
        inner = entries(blob(entry.hash)) if entry.kind is EntryKind.DIRECTORY else []
        found = next((one for one in inner if one.name == part), None)
        if found is None:
            raise NotFound(f"path component not found: {part}")
        entry = found
    return entry


def walk(blob: Callable[[Hash], bytes], root: Hash) -> Iterator[bytes]:
    """Yield a tree and the blobs of all that is in it, each once, as far as ``blob`` finds them."""
    waiting, seen = [(root, EntryKind.DIRECTORY)], set[Hash]()
    while waiting:
        digest, kind = waiting.pop()
        if digest in seen:
            continue
        seen.add(digest)
        try:
            data = blob(digest)
        except NotFound:
            continue
        yield data
        if kind is EntryKind.DIRECTORY:
            with suppress(DamageError):
                waiting += ((entry.hash, entry.kind) for entry in entries(data))


def _is_name(name: str) -> bool:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        return False
    return len(name.encode(errors="replace")) <= _LONGEST_NAME


def _number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
