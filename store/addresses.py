"""Addresses: content by a digest, wherever in a store it is.

A digest is a BLAKE3, as the store names blobs and ``events.json`` contents, or a SHA-256, as some tools and exports
name theirs. Long contents are blobs; short ones are found in the records that show them.
"""

from store.content.resolver import Chunked, Reader
from store.conversations.turns import Contents
from store.disk.blob_format import Chunk
from store.errors import NotFound
from store.ids import Hash
from store.search.holders import Holders


class Addresses:
    """The addresses of one store, as of its last commit. Safe to call from any thread.

    ``algorithm`` is ``blake3``, ``sha256``, or "" for either. Raises DamageError for content that cannot be read.
    """

    def __init__(self, contents: Contents, holders: Holders) -> None:
        self._contents = contents
        self._holders = holders

    def blob(self, algorithm: str, digest: bytes) -> Hash | None:
        """Return the blob that has a digest, None if none is known to."""
        if algorithm != "sha256":
            try:
                self._contents.blobs.size(Hash(digest))
            except NotFound:
                pass
            else:
                return Hash(digest)
        return None if algorithm == "blake3" else self._contents.alias("sha256", digest)

    def content(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return the content that has a digest; None if the store does not have it."""
        blob = self.blob(algorithm, digest)
        return self._holders.shown(Hash(digest)) if blob is None else self._contents.blobs.blob(blob)

    def reader(self, algorithm: str, digest: bytes) -> Reader | None:
        """Begin to read the content that has a digest in parts; None if the store does not have it."""
        blob = self.blob(algorithm, digest)
        if blob is not None:
            return self._contents.blobs.reader(blob)
        content = self._holders.shown(Hash(digest))
        return None if content is None else Chunked([Chunk(Hash(digest), len(content))], lambda _chunk: content)
