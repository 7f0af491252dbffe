"""Images that oh-my-pi keeps outside its sessions, in a folder that all of them share.

``blob:sha256:<64 hex>`` stands where the base64 would; the file ``blobs/<64 hex>`` holds the raw bytes. That folder
lies beside ``sessions/``.
"""

import binascii
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from store.events.event import ValuePath
from store.formats.core.budget import Budget, size_on_disk
from store.formats.core.format import ExternalBlob
from store.formats.core.json_view import as_object, as_text, decode
from store.formats.core.look import read_by_hash
from store.formats.core.media import from_base64
from store.formats.core.splices import put
from store.ids import sha256

ALGORITHM = "sha256"
BLOBS = "blobs"
REFERENCE = "blob:sha256:"
"""The beginning of a text that stands for content in that folder."""

_reference = re.compile(r"blob:sha256:([0-9a-f]{64})").fullmatch
_references = re.compile(rb'"blob:sha256:([0-9a-f]{64})"').findall
_HIGHEST = 6
"""The levels above a session searched for the folder: sessions of subagents lie within that of their parent."""


def is_reference(text: str) -> bool:
    """Return whether a text stands for content that lies elsewhere, even if it does so wrongly."""
    return text.startswith(REFERENCE)


def digest_of(text: str) -> bytes | None:
    """Return the digest that a reference names, None where it is no valid one."""
    named = _reference(text)
    return binascii.unhexlify(named[1]) if named else None


def referenced_blobs(session: Path, payload: bytes) -> Iterator[ExternalBlob]:
    """Yield the blobs that a line of the file ``session`` refers to, each once."""
    if b'"blob:sha256:' in payload:
        for digest in dict.fromkeys(map(binascii.unhexlify, _references(payload))):
            yield ExternalBlob(ALGORITHM, digest, partial(read_blob, session, digest), f"{BLOBS}/{digest.hex()}")


def read_blob(session: Path, digest: bytes) -> bytes:
    """Return a verified blob from the ``blobs`` nearest above a session. Raises NotFound and DamageError."""
    paths = (folder / BLOBS / digest.hex() for folder in session.absolute().parents[:_HIGHEST])
    # of a file with holes no more than it has on the disk
    return read_by_hash(paths, digest, "the image", lambda file, path: Budget(path, size_on_disk(file)).whole(file))


_SHORTEST = 1024
"""Images of fewer characters of base64 stay in the line."""


def moved_outside(record: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return a line with references for large images in lists called ``content``, and these, by path in ``blobs``."""
    decoded = decode(record) if b'"image"' in record and len(record) > _SHORTEST else None
    outside: dict[str, bytes] = {}
    for path, encoded in list(_images(decoded.value, ())) if decoded and not decoded.lossy else ():
        content = from_base64(encoded)
        if content is not None:
            digest = sha256(content).hex()
            outside[f"{BLOBS}/{digest}"] = content
            record = put(record, path, f'"{REFERENCE}{digest}"'.encode())
    return record, outside


def _images(value: object, path: ValuePath) -> Iterator[tuple[ValuePath, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _images(item, (*path, key))
    elif isinstance(value, list):
        in_content = path[-1:] == ("content",)
        for at, item in enumerate(value):
            part = as_object(item)
            encoded = as_text(part.get("data"))
            if in_content and part.get("type") == "image" and len(encoded) >= _SHORTEST and not is_reference(encoded):
                yield (*path, at, "data"), encoded
            else:
                yield from _images(item, (*path, at))
