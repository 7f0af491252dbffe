"""Content beside conversations: ``content/ID/data``, named in messages by ``content_id``.

The id is whatever the tool made of it, ``sha256:<hex>`` or a uuid: nothing is concluded from it.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from store.errors import DamageError, NotFound
from store.formats.files import open_regular
from store.formats.format import ExternalBlob
from store.formats.json_view import as_object, as_text, decode

ALGORITHM = "content-id"
LARGEST = 256 * 1024 * 1024
"""The most bytes that content may have."""
_LONGEST_ID = 255


def named_contents(message: object) -> list[str]:
    """Return the ids that a message names, each once."""
    content = as_object(message).get("content")
    parts = content if isinstance(content, list) else [content]
    ids = (as_text(as_object(part).get("content_id")) for part in parts)
    return [identifier for identifier in dict.fromkeys(ids) if 0 < len(digest_of(identifier)) <= _LONGEST_ID]


def referenced_blobs(folder: Path, payload: bytes) -> Iterator[ExternalBlob]:
    """Yield the content that a line in ``folder`` names."""
    if b'"content_id"' in payload and (decoded := decode(payload)) is not None:
        for identifier in named_contents(decoded.value):
            yield ExternalBlob(ALGORITHM, digest_of(identifier), partial(read_content, folder, identifier))


def digest_of(identifier: str) -> bytes:
    """Return an id as the name of content."""
    return identifier.encode("utf-8", "replace")


def read_content(folder: Path, identifier: str) -> bytes:
    """Return the content named ``identifier``: of the conversation in ``folder``, or shared by those around it.

    Raises NotFound where there is none, DamageError where it cannot be read or is too large.
    """
    bare = identifier.rpartition(":")[2]
    for around in (folder, *folder.parents[:2]):
        for name in dict.fromkeys((identifier, bare)):
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                continue
            try:
                with open_regular(around / "content" / name / "data") as file:
                    content = file.read(LARGEST + 1)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                told = f"content {identifier} of {folder} cannot be read: {error.strerror}"
                raise DamageError(f"{told}; restore it or drop the reference") from error
            if len(content) > LARGEST:
                raise DamageError(f"content {identifier} of {folder} has more than {LARGEST} bytes; it is not read")
            return content
    raise NotFound(f"there is no content {identifier} beside {folder}; the conversation refers to it")
