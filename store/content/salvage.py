"""Reading one blob with all care, where the fast way has failed: every place, every content verified, and why not."""

from __future__ import annotations

from store.content.cutting import join
from store.content.sealed import SealedGroup, is_inner
from store.content.shelf import Shelf
from store.content.source import Place
from store.disk import skeleton_format
from store.disk.blob_format import Compression, Form, Record
from store.disk.pack import PackRemoved
from store.errors import ConvfsError, DamageError, FormatTooNew, NotFound
from store.ids import Hash, hash_bytes

_DEEPEST = 64


def salvage(shelf: Shelf, digest: Hash) -> bytes:
    """Return a blob from the first place that has it intact.

    Raises NotFound where the store does not have it, DamageError (or FormatTooNew) where no place will do.
    """
    return _Salvage(shelf).blob(digest, 0)


class _Salvage:
    """Remembers every blob that it has tried, so that blobs made of each other in hostile ways cost no more."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._tried: dict[Hash, bytes | ConvfsError] = {}

    def blob(self, digest: Hash, depth: int) -> bytes:
        known = self._tried.get(digest)
        if known is None:
            inside = DamageError(f"blob {digest.hex()} contains itself")
            if depth > _DEEPEST:
                raise inside
            self._tried[digest] = inside
            try:
                known = self._search(digest, depth)
            except ConvfsError as error:
                known = error
            self._tried[digest] = known
        if isinstance(known, ConvfsError):
            raise known
        return known

    def _search(self, digest: Hash, depth: int) -> bytes:
        source = self._shelf.source
        pending = source.pending(digest)
        if pending is not None:
            return _verified(self._spelt(*pending, depth), digest, "it waits to be packed, but")

        def take(place: Place, member: int) -> bytes | None:
            try:
                return self._at(place, member, digest, depth)
            except (FormatTooNew, PackRemoved):
                raise
            except ConvfsError as error:
                raise DamageError(f"blob {digest.hex()} cannot be read: {error}") from error

        return self._shelf.search(digest, take, NotFound(f"no blob {digest.hex()} in this store"))

    def _at(self, place: Place, member: int, digest: Hash, depth: int) -> bytes | None:
        """Return a blob from one place, read afresh; None if another blob lies there."""
        opened = self._shelf.open(self._record(place))
        where = f"in pack {place[0]} at offset {place[1]},"
        if opened.sealed is not None:
            return _verified(self._unsealed(opened.sealed, member, depth), digest, where)
        entry = opened.members.get(digest)
        if entry is None:
            return None
        if opened.chunks is not None:
            data = b"".join([self.blob(chunk.hash, depth + 1) for chunk in opened.chunks])
        else:
            if opened.base is not None:
                opened.patch(self.blob(opened.base, depth + 1))
            data = self._spelt(entry[0], opened.body(entry), depth)
        return _verified(data, digest, where)

    def _record(self, place: Place) -> Record:
        """Read a record; a sealed group also where it is damaged: most of its blobs may be as they were."""
        source = self._shelf.source
        try:
            return source.read(*place)
        except PackRemoved:
            raise
        except DamageError as damage:
            try:
                record = source.read(*place, damaged=True)
            except ConvfsError:
                raise damage from None
            if record.compression != Compression.SEALED:
                raise
            return record

    def _unsealed(self, group: SealedGroup, member: int, depth: int) -> bytes:
        """Return one blob of a sealed group."""
        if group.form(member) == Form.PLAIN:
            return group.plain(member)
        skeleton = group.skeleton(member)
        names = {cut[3] for cut in skeleton.cuts}
        return join(
            skeleton, {name: group.inner(name) if is_inner(name) else self.blob(name, depth + 1) for name in names}
        )

    def _spelt(self, form: int, body: bytes, depth: int) -> bytes:
        """Return the blob that ``body`` spells."""
        if form == Form.PLAIN:
            return body
        skeleton = skeleton_format.decode(body)
        return join(skeleton, {cut[3]: self.blob(cut[3], depth + 1) for cut in skeleton.cuts})


def _verified(data: bytes, digest: Hash, where: str) -> bytes:
    if hash_bytes(data) != digest:
        raise DamageError(f"{where} its bytes do not have its hash")
    return data
