"""JP's blob store beside its conversations: gzip of the raw bytes, named by the SHA-256 of the uncompressed ones."""

import binascii
import gzip
import hashlib
import re
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from store.errors import DamageError, NotFound
from store.formats.files import open_regular
from store.formats.format import ExternalBlob

ALGORITHM = "sha256"
LARGEST = 256 * 1024 * 1024
"""The most bytes that a blob may decompress to."""

_references = re.compile(rb'"\$blob"\s*+:\s*+"([0-9a-fA-F]{64})"').findall


def referenced_blobs(root: Path, payload: bytes) -> Iterator[ExternalBlob]:
    """Yield the blobs under ``root`` (a ``blobs`` directory) that a payload refers to, each once."""
    # one character is found many times faster than several, and often is not there
    if b"$" in payload and b'"$blob"' in payload:
        for digest in dict.fromkeys(map(binascii.unhexlify, _references(payload))):
            yield ExternalBlob(ALGORITHM, digest, partial(read_blob, root, digest))


def read_blob(root: Path, digest: bytes) -> bytes:
    """Return a verified blob.

    Its file is ``a1/b2/<the other 60 digits>.blob.gz`` or has the whole digest as its name, there or in ``root``.
    Raises NotFound, or DamageError where the file is no gzip, too large, or not what its name says.
    """
    name = digest.hex()
    bucket = root / name[:2] / name[2:4]
    for path in (bucket / f"{name[4:]}.blob.gz", bucket / f"{name}.blob.gz", root / f"{name}.blob.gz"):
        try:
            with open_regular(path) as raw, gzip.open(raw) as file:
                content = file.read(LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, EOFError, zlib.error) as error:
            raise DamageError(f"JP's blob {path} cannot be read: {error}; restore it or drop the reference") from error
        if len(content) > LARGEST:
            raise DamageError(f"JP's blob {path} holds more than {LARGEST} bytes; it is not read")
        if hashlib.sha256(content).digest() != digest:
            raise DamageError(f"JP's blob {path} is not what its name says; restore it or drop the reference")
        return content
    raise NotFound(f"JP's blob {name} is not under {root}; the conversation refers to it")
