"""Files that messages of ChatGPT name: images, sound, what a user attached.

A message points to one as ``file-service://file-…`` or ``sediment://file_…``. In an export it is a file whose name
begins with that id: ``file-AbC123-photo.png`` beside the conversations, ``dalle-generations/file-….webp``,
``user-…/file_…-….png``, ``<conversation>/audio/file_….wav``, ``file-….dat``.
"""

import re
from collections.abc import Iterable, Iterator

from store.events.event import Block, Path, Resource
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode, scalar
from store.formats.lens import Before
from store.formats.media import mime_of, sniffed, suffix_of
from store.formats.shown import Blocks

ALGORITHM = "chatgpt-file"
"""What the ids of files are called among the names of content."""

LONGEST_ID = 255

_pointer = re.compile(r"(?:file-service://|sediment://(?=file))([^?#]+)").match
_is_id = re.compile(r"file[-_][0-9A-Za-z_-]+").fullmatch
_named_file = re.compile(r"file[-_][0-9A-Za-z]|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").match
_names_any = re.compile(rb'"(?:file[-_]|sediment:)').search


def file_id(pointer: object) -> str:
    """Return the id of the file that ``pointer`` (or a bare id) names, "" where it names none."""
    if not isinstance(pointer, str):
        return ""
    found = _pointer(pointer)
    identifier = found[1] if found else pointer if _is_id(pointer) else ""
    return identifier if len(identifier) <= LONGEST_ID and identifier.isascii() else ""


def named_files(payload: bytes) -> list[str]:
    """Return the ids of the files that a node names, each once."""
    if b"file" not in payload or not _names_any(payload):
        return []
    decoded = decode(payload)
    message = as_object(as_object(decoded.value).get("message")) if decoded else {}
    found = [file_id(part.get("asset_pointer")) for part in _parts(message)]
    found += (file_id(attached.get("id")) for attached in _attachments(message))
    found += (file_id(drawn.get("image_url")) for drawn, _path in _drawn(message))
    return [identifier for identifier in dict.fromkeys(found) if identifier]


def by_id(names: Iterable[str]) -> dict[str, str]:
    """Return the files of an export, given as paths within it, by every id that they may have."""
    found: dict[str, str] = {}
    for path in sorted(names):
        name = path.rpartition("/")[2]
        if not _named_file(name):
            continue
        stem = name.partition(".")[0]
        found.setdefault(stem, path)
        # what follows the id is the file's own name, or another id
        for at in range(len("file-"), len(stem)):
            if stem[at] == "-":
                found.setdefault(stem[:at], path)
    return found


def asset(part: JsonObject, path: Path, message: JsonObject, before: Before) -> Blocks:
    """Return what a part that points to a file shows of it."""
    identifier = file_id(part.get("asset_pointer"))
    attached = next((item for item in _attachments(message) if file_id(item.get("id")) == identifier), {})
    what = as_text(part.get("content_type")).partition("_")[0] or "file"
    blocks, resources = _file(
        identifier or as_text(part.get("asset_pointer")), attached, what, _size(part), path, before
    )
    prompt = as_object(as_object(part.get("metadata")).get("dalle")).get("prompt")
    if isinstance(prompt, str) and prompt:
        blocks = (*blocks, Block("text", prompt, name="prompt", path=(*path, "metadata", "dalle", "prompt")))
    return blocks, resources


def attachments(message: JsonObject, before: Before) -> Blocks:
    """Return what is attached to a message and stands in none of its parts."""
    listed = as_list(as_object(message.get("metadata")).get("attachments"))
    shown = {file_id(part.get("asset_pointer")) for part in _parts(message)}
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, attached in enumerate(listed):
        identifier = file_id(as_object(attached).get("id"))
        if not isinstance(attached, dict) or (identifier and identifier in shown):
            continue
        path: Path = ("message", "metadata", "attachments", at)
        more, held = _file(identifier or as_text(attached.get("id")), attached, "file", "", path, before)
        blocks += more
        resources += held
    return tuple(blocks), tuple(resources)


def drawings(message: JsonObject, before: Before) -> Blocks:
    """Return the images that code which was run has drawn; newer exports have them as parts."""
    blocks: list[Block] = []
    resources: list[Resource] = []
    for drawn, path in _drawn(message):
        identifier = file_id(drawn.get("image_url"))
        more, held = _file(identifier, {}, "image", _size(drawn), path, before)
        blocks += more
        resources += held
    return tuple(blocks), tuple(resources)


def _file(identifier: str, attached: JsonObject, what: str, told: str, path: Path, before: Before) -> Blocks:
    """Show a file that is named at ``path``; what it holds stands elsewhere, and cannot be changed here."""
    name = as_text(attached.get("name"))
    data = before.blob(ALGORITHM, identifier.encode("ascii", "replace")) if identifier else None
    if data is None:
        size = scalar(attached.get("size"))
        told += f", {size} bytes" if isinstance(size, int) else ""
        return (Block("text", f"[{what} {name or identifier}{told}: not in the export]", path=path),), ()
    mime = sniffed(data) or as_text(attached.get("mime_type") or attached.get("mimeType")) or mime_of(name)
    uri = f"attachment:{identifier}/{name.replace('/', '_') or f'{what}.{suffix_of(mime)}'}"
    if mime.startswith("image/"):
        return (Block("image", data=data, uri=uri, mime=mime, path=path),), (Resource(uri, mime, data),)
    text = _as_text(data)
    if text is None:
        return (Block("resource", data=data, uri=uri, mime=mime, path=path),), (Resource(uri, mime, data),)
    return (Block("resource", text, uri=uri, mime=mime, path=path),), (Resource(uri, mime, text),)


def _size(image: JsonObject) -> str:
    width, height = image.get("width"), image.get("height")
    return f", {width}x{height}" if isinstance(width, int) and isinstance(height, int) and width and height else ""


def _as_text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _attachments(message: JsonObject) -> Iterator[JsonObject]:
    for attached in as_list(as_object(message.get("metadata")).get("attachments")):
        if isinstance(attached, dict):
            yield attached


def _drawn(message: JsonObject) -> Iterator[tuple[JsonObject, Path]]:
    """Yield what code has drawn, each with its place."""
    run = as_object(as_object(message.get("metadata")).get("aggregate_result"))
    for at, told in enumerate(as_list(run.get("messages"))):
        if isinstance(told, dict) and file_id(told.get("image_url")):
            yield told, ("message", "metadata", "aggregate_result", "messages", at)


def _parts(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of a message that point to files, those within others too."""
    for part in as_list(as_object(message.get("content")).get("parts")):
        if isinstance(part, dict):
            yield part
            yield from (inner for inner, _path in within(part, ()))


def within(part: JsonObject, path: Path) -> Iterator[tuple[JsonObject, Path]]:
    """Yield the parts that a recorded call holds, each with its place."""
    for key in ("audio_asset_pointer", "video_container_asset_pointer"):
        if isinstance(inner := part.get(key), dict):
            yield inner, (*path, key)
    for at, frame in enumerate(as_list(part.get("frames_asset_pointers"))):
        if isinstance(frame, dict):
            yield frame, (*path, "frames_asset_pointers", at)
