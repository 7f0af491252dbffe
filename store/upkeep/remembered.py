"""The names of the blobs that a redaction has replaced, kept so that none of them comes back from another store.

The names are keyed: the BLAKE3 of the name with a key that is in the file, too, of which 16 bytes are kept. So no name
of what is gone lies on the disk, and no search for one finds it.

The file ``redacted``: ``CVRD``, a version u32, the key[32], then for each blob its keyed name[16] and the name[32] of
the blob that took its place (zeros: nothing did).
"""

import os
from collections.abc import Container, Mapping
from pathlib import Path

from blake3 import blake3

from store import paths
from store.disk import durable
from store.disk.turn_format import NO_PAYLOAD
from store.errors import DamageError
from store.ids import HASH_SIZE, Hash

_MAGIC = b"CVRD" + (1).to_bytes(4, "little")
_KEY_SIZE = 32
_NAME_SIZE = 16
_ROW = _NAME_SIZE + HASH_SIZE


class Remembered:
    """The redacted contents of the store at ``root``. Raises DamageError where the file is damaged."""

    def __init__(self, root: Path) -> None:
        self._path = root / paths.REDACTED
        self._key = b""
        self._new: dict[bytes, Hash] = {}
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        head = len(_MAGIC) + _KEY_SIZE
        if not data.startswith(_MAGIC) or len(data) < head or (len(data) - head) % _ROW:
            raise DamageError(f"{self._path} is damaged: bring it back from a backup, or remove it and redact again")
        self._key = data[len(_MAGIC) : head]
        for at in range(head, len(data), _ROW):
            self._new[data[at : at + _NAME_SIZE]] = Hash(data[at + _NAME_SIZE : at + _ROW])

    def __bool__(self) -> bool:
        return bool(self._new)

    @property
    def replacements(self) -> Container[Hash]:
        """The blobs that took the places of others."""
        return self._new.values()

    def instead(self, digest: bytes) -> Hash | None:
        """Return what took the place of a blob; ``NO_PAYLOAD`` where nothing did, None where it was not redacted."""
        return self._new.get(self._keyed(digest)) if self._new else None

    def add(self, made: Mapping[Hash, Hash]) -> None:
        """Remember blobs that others take the places of. Durable when it returns."""
        self._key = self._key or os.urandom(_KEY_SIZE)
        fresh = {self._keyed(old): new for old, new in made.items() if old != new}
        if not fresh:
            return
        # what took a place before may be replaced itself
        kept = {name: made.get(new, new) for name, new in self._new.items()}
        self._new = kept | fresh
        rows = b"".join(name + (new or NO_PAYLOAD) for name, new in self._new.items())
        durable.write_whole(self._path, _MAGIC + self._key + rows)

    def _keyed(self, digest: bytes) -> bytes:
        return blake3(digest, key=self._key).digest(length=_NAME_SIZE)
