"""Blobs that are durable in the journal but not yet in a pack."""

import threading

from store.disk.journal_format import JournalBlob
from store.ids import Hash


class Pending:
    """The journalled blobs, by hash, in two generations: those of the journal in use and those being packed."""

    def __init__(self) -> None:
        self._blobs: dict[Hash, JournalBlob] = {}
        self._fresh: list[JournalBlob] = []
        self._lock = threading.Lock()

    def get(self, digest: Hash) -> JournalBlob | None:
        """Return the blob if it waits to be packed."""
        return self._blobs.get(digest)

    def add(self, blobs: list[JournalBlob]) -> None:
        """Take in blobs that have just been journalled."""
        with self._lock:
            for blob in blobs:
                if blob.hash not in self._blobs:
                    self._blobs[blob.hash] = blob
                    self._fresh.append(blob)

    def take(self) -> list[JournalBlob]:
        """Begin a new generation; return the blobs of the one that ends, in order (they stay readable)."""
        with self._lock:
            taken, self._fresh = self._fresh, []
            return taken

    def drop(self, blobs: list[JournalBlob]) -> None:
        """Forget blobs that can now be read from a pack."""
        with self._lock:
            for blob in blobs:
                self._blobs.pop(blob.hash, None)
