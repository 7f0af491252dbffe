"""A space that is encrypted: all that goes into its log and its bucket is sealed, and opened when it comes back.

The servers see keys of objects, lengths, numbers of machines and of packs, and who appended when. Records stay as they
are: they hold numbers, and what ``store.shared.access`` seals itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from store.errors import DamageError
from store.shared import ciphertext
from store.shared.access import Access
from store.shared.ciphertext import OBJECT_HEAD, Keys, Locked, ObjectHead, open_entry, seal_entry
from store.shared.entry import Entry
from store.shared.space import Bucket, Log, LogOver, Outdated, Space

_T = TypeVar("_T")
_HEADS = 4096


def encrypted(space: Space, access: Access) -> Space:
    """Return a space whose log and bucket hold ciphertext, by the keys of a replica.

    Beside what they raise otherwise, its methods raise DamageError for what was changed, moved, or sealed with a key
    that was given up or that this replica does not get (Revoked).
    """
    return Space(
        space.id,
        space.where,
        _Log(space.log, space.id, access),
        space.records,
        _Bucket(space.bucket, space.id, access),
        space.close,
        space.logins,
        lambda key: ciphertext.object_head(space.bucket.get(key, 0, OBJECT_HEAD), key).generation,
    )


def _with_keys(access: Access, opened: Callable[[Keys], _T]) -> _T:
    """Open what is sealed, with keys that may have been made just now."""
    try:
        return opened(access.keys)
    except Locked:
        access.refresh()
        return opened(access.keys)


class _Log(LogOver):
    """The log of an encrypted space; see :class:`store.shared.space.Log`."""

    def __init__(self, log: Log, space: bytes, access: Access) -> None:
        super().__init__(log)
        self._space = space
        self._access = access
        self._last = (0, 0)
        """The last entry that was read or appended: its ``seq``, and the generation of its key."""

    def append(self, entry: Entry) -> Sequence[Entry]:
        self._access.check_writes()
        while True:
            generation, key = self._access.newest
            try:
                others = self._log.append(seal_entry(key, generation, self._space, entry))
            except Outdated:
                self._access.refresh()
            else:
                break
        if others:
            return self._opened(entry.prev, others)
        self._last = (entry.seq, generation)
        return ()

    def entries(self, after: int) -> Sequence[Entry]:
        return self._opened(after, self._log.entries(after))

    def replace(self, entry: Entry) -> None:
        if entry.generation not in self._access.keys:
            self._access.refresh()
        self._log.replace(seal_entry(self._access.keys[entry.generation], entry.generation, self._space, entry))

    def _opened(self, after: int, entries: Sequence[Entry]) -> list[Entry]:
        """Return entries that follow ``after``, opened: those before the first that cannot be. DamageError if none."""
        found: list[Entry] = []
        seq, generation = self._last
        if seq != after:
            generation = 0
        for entry in entries:
            try:
                if entry.generation < generation:
                    raise DamageError(
                        f"commit {entry.seq} of the space is sealed with key {entry.generation}, which was given up"
                    )
                found.append(self._open(entry))
            except DamageError:
                if found:
                    break
                raise
            generation = entry.generation
        if found:
            self._last = (found[-1].seq, generation)
        return found

    def _open(self, entry: Entry) -> Entry:
        return _with_keys(self._access, lambda keys: open_entry(keys, self._space, entry))


class _Bucket:
    """The bucket of an encrypted space; see :class:`store.shared.space.Bucket`. Lengths are those of the texts."""

    def __init__(self, bucket: Bucket, space: bytes, access: Access) -> None:
        self._bucket = bucket
        self._space = space
        self._access = access
        self._heads: dict[str, ObjectHead] = {}
        """The headers of objects of which parts were read."""

    def put(self, key: str, data: bytes) -> None:
        generation, secret = self._access.current()
        self._heads.pop(key, None)
        self._bucket.put(key, ciphertext.seal_object(secret, generation, self._space, key, data))

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        if start == 0 and length is None:
            data = self._bucket.get(key)
            return _with_keys(self._access, lambda keys: ciphertext.open_object(keys, self._space, key, data))
        head = self._head(key)
        end = head.length if length is None else min(head.length, start + length)
        if start >= end:
            return b""
        first, at, size = ciphertext.frame_place(head, start, end)
        data = self._bucket.get(key, at, size)
        if len(data) < size:
            raise DamageError(f"{key}: this object was cut")
        text = _with_keys(
            self._access, lambda keys: ciphertext.open_frames(keys, self._space, key, head, first, data)
        )
        skipped = first * ciphertext.FRAME
        return text[start - skipped : end - skipped]

    def _head(self, key: str) -> ObjectHead:
        """Return the header of an object, which nobody writes a second time with other contents."""
        head = self._heads.get(key)
        if head is None:
            head = ciphertext.object_head(self._bucket.get(key, 0, OBJECT_HEAD), key)
            if len(self._heads) >= _HEADS:
                self._heads = {}
            self._heads[key] = head
        return head

    def delete(self, key: str) -> None:
        self._heads.pop(key, None)
        self._bucket.delete(key)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        for key, length in self._bucket.list(prefix):
            yield key, ciphertext.text_length(length)
