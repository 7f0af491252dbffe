"""Images moved out of a line into the folder that all sessions share, as oh-my-pi does when it writes one."""

from collections.abc import Iterator

from store.events.event import Path
from store.formats.json_view import as_object, as_text, decode
from store.formats.media import from_base64
from store.formats.pi.blobs import BLOBS, is_reference, reference_to
from store.formats.splices import put

_SHORTEST = 1024
"""Images of fewer characters of base64 stay in the line."""


def moved_outside(record: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return a line with its images as references, and these images, by path below the directory above ``blobs``.

    Only images in lists called ``content`` are moved, if they are of some size and are no references yet.
    """
    decoded = decode(record) if b'"image"' in record and len(record) > _SHORTEST else None
    outside: dict[str, bytes] = {}
    for path, encoded in list(_images(decoded.value, ())) if decoded and not decoded.lossy else ():
        content = from_base64(encoded)
        if content is not None:
            reference = reference_to(content)
            outside[f"{BLOBS}/{reference.rpartition(':')[2]}"] = content
            record = put(record, path, b'"%b"' % reference.encode())
    return record, outside


def _images(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the base64 of images that are to be moved, and where each stands."""
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
