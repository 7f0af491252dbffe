"""Reading one blob with all care, where the fast way has failed: every place, every content verified, and why not."""

from __future__ import annotations

from store.content.cutting import join
from store.content.shelf import Shelf
from store.content.source import Place
from store.disk import skeleton_format
from store.disk.blob_format import Form
from store.errors import ConvfsError, DamageError, FormatTooNew, NotFound
from store.ids import Hash, hash_bytes

_DEEPEST = 64


def salvage(shelf: Shelf, digest: Hash, depth: int = 0) -> bytes:
    """Return a blob from the first place that has it intact.

    Raises NotFound where the store does not have it, DamageError (or FormatTooNew) where no place will do.
    """
    if depth > _DEEPEST:
        raise DamageError(f"blob {digest.hex()} contains itself")
    reason: ConvfsError = NotFound(f"no blob {digest.hex()} in this store")
    pending = shelf.source.pending(digest)
    if pending is not None:
        data = _plain(shelf, *pending, depth)
        if hash_bytes(data) != digest:
            raise DamageError(f"blob {digest.hex()} is damaged: its bytes do not have its hash")
        return data
    for pack, offset, _member in shelf.source.locations((digest,)).get(digest, ()):
        try:
            found = _at(shelf, (pack, offset), digest, depth)
        except FormatTooNew as error:
            reason = error
        except ConvfsError as error:
            reason = DamageError(f"blob {digest.hex()} cannot be read: {error}")
        else:
            if found is not None:
                return found
    raise reason


def _at(shelf: Shelf, place: Place, digest: Hash, depth: int) -> bytes | None:
    """Return a blob from one place, read afresh; None if another blob lies there."""
    opened = shelf.open(shelf.source.read(*place))
    entry = opened.members.get(digest)
    if entry is None:
        return None
    if opened.chunks is not None:
        data = b"".join([salvage(shelf, chunk.hash, depth + 1) for chunk in opened.chunks])
    else:
        data = _plain(shelf, entry[0], opened.body(entry), depth)
    if hash_bytes(data) != digest:
        raise DamageError(f"pack {place[0]}, offset {place[1]}: its bytes do not have its hash")
    return data


def _plain(shelf: Shelf, form: int, body: bytes, depth: int) -> bytes:
    """Return the blob that ``body`` spells, unverified."""
    if form == Form.PLAIN:
        return body
    skeleton = skeleton_format.decode(body)
    contents = {cut[3]: salvage(shelf, cut[3], depth + 1) for cut in skeleton.cuts}
    return join(skeleton, contents)
