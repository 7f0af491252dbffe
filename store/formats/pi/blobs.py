"""Images that oh-my-pi keeps outside its sessions, in a folder that all of them share.

``blob:sha256:<64 hex>`` stands where the base64 would; the file ``blobs/<64 hex>`` holds the raw bytes. That folder
lies beside ``sessions/``.
"""

import binascii
import hashlib
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from store.errors import DamageError, NotFound
from store.formats.files import open_regular
from store.formats.format import ExternalBlob

ALGORITHM = "sha256"
BLOBS = "blobs"
"""What the folder is called."""
LARGEST = 256 * 1024 * 1024
"""The most bytes that such a file may have."""

REFERENCE = "blob:sha256:"
"""How a text begins that stands for content in that folder."""

_reference = re.compile(r"blob:sha256:([0-9a-f]{64})").fullmatch
_references = re.compile(rb'"blob:sha256:([0-9a-f]{64})"').findall
_HIGHEST = 6
"""How far above a session the folder is looked for: sessions of subagents lie within that of their parent."""


def is_reference(text: str) -> bool:
    """Say whether a text stands for content that lies elsewhere, even if it does so wrongly."""
    return text.startswith(REFERENCE)


def digest_of(text: str) -> bytes | None:
    """Return the digest that a reference names, None where it is no valid one."""
    named = _reference(text)
    return binascii.unhexlify(named[1]) if named else None


def reference_to(content: bytes) -> str:
    """Return the reference to ``content``."""
    return REFERENCE + hashlib.sha256(content).hexdigest()


def referenced_blobs(session: Path, payload: bytes) -> Iterator[ExternalBlob]:
    """Yield the blobs that a line of the file ``session`` refers to, each once."""
    if b'"blob:sha256:' in payload:
        for digest in dict.fromkeys(map(binascii.unhexlify, _references(payload))):
            yield ExternalBlob(ALGORITHM, digest, partial(read_blob, session, digest))


def read_blob(session: Path, digest: bytes) -> bytes:
    """Return a verified blob, from the ``blobs`` folder nearest above the file ``session`` that has it.

    Raises NotFound, or DamageError where the file cannot be read, is too large, or is not what its name says.
    """
    name = digest.hex()
    for folder in session.absolute().parents[:_HIGHEST]:
        path = folder / BLOBS / name
        try:
            with open_regular(path) as file:
                content = b"".join(iter(partial(file.read, 1 << 20), b""))[: LARGEST + 1]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise DamageError(f"the image {path} cannot be read: {error}; restore it or drop the reference") from error
        if len(content) > LARGEST:
            raise DamageError(f"the image {path} holds more than {LARGEST} bytes; it is not read")
        if hashlib.sha256(content).digest() != digest:
            raise DamageError(f"the image {path} is not what its name says; restore it or drop the reference")
        return content
    raise NotFound(f"the image blob:sha256:{name} is in no blobs/ above {session}; the conversation refers to it")
