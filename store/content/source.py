"""What a resolver reads from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from store.disk.blob_format import Form, Record
from store.disk.pack_files import Place as Place
from store.errors import ConvfsError
from store.ids import Hash


class BlobSource(Protocol):
    """Where blobs are found. All methods may be called from any thread.

    A blob that moves from the journal into a pack has its location before it stops to be pending.
    """

    def pending(self, digest: Hash) -> tuple[Form, bytes] | None:
        """Return form and body of a blob that is not in a pack yet."""

    def locations(self, digests: Sequence[Hash]) -> Mapping[Hash, Sequence[tuple[int, int, int]]]:
        """Return (pack, offset, member) of the records that may hold each blob; unknown blobs are left out."""

    def read(self, pack: int, offset: int, *, damaged: bool = False) -> Record:
        """Read one record, ``damaged`` if need be.

        DamageError or FormatTooNew if it cannot be, PackRemoved if it is there no more.
        """

    def read_many(self, places: Sequence[Place]) -> Iterator[tuple[Place, Record | ConvfsError]]:
        """Read records in the order in which they lie; what cannot be read is yielded as its error."""
