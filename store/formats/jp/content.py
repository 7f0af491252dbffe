"""Content in JP's events: inline text, inline base64, or a reference to a blob beside the conversation.

``{"$blob": "<sha256>", "size": n}``, ``{"text": "…"}`` and ``{"blob": "<base64>"}`` stand under ``content``; older
files have ``text`` and ``blob`` in the holder itself, or a bare string under ``content``.
"""

import binascii
from typing import Literal, NamedTuple

from store.events.event import Block, Path, Resource
from store.formats.blocks import argument_blocks, numbered
from store.formats.jp.encoding import plain_text
from store.formats.json_view import JsonObject, as_text, scalar
from store.formats.lens import Before
from store.formats.media import from_base64, mime_of

_FORMS = ("$blob", "text", "blob")
_NOT_TEXT = ("image/", "audio/", "video/", "font/", "application/pdf", "application/zip", "application/octet-stream")


class Content(NamedTuple):
    """What a holder contains. ``path`` is where, () where it is not in the payload; ``missing`` has no content."""

    value: str | bytes
    path: Path
    encoding: Literal["json", "base64"] = "json"
    missing: bool = False


def read_content(holder: JsonObject, path: Path, mime: str, before: Before) -> Content | None:
    """Return the content of ``holder``, None where it has none or contradicts itself (two forms at once)."""
    inner = holder.get("content")
    if isinstance(inner, str):
        return Content(inner, (*path, "content"))
    if isinstance(inner, dict):
        holder, path = inner, (*path, "content")
    present = [form for form in _FORMS if form in holder]
    if len(present) != 1 or not isinstance(value := holder[present[0]], str):
        return None
    match present[0]:
        case "text":
            return Content(value, (*path, "text"))
        case "blob":
            data = from_base64(value)
            return Content(value, (*path, "blob")) if data is None else _typed(data, mime, (*path, "blob"), "base64")
        case _:
            return _referenced(value, holder, path, mime, before)


def result_blocks(content: object, path: Path, before: Before) -> tuple[tuple[Block, ...], tuple[Resource, ...]]:
    """Return the blocks and resources of what a tool answered with: a string, a content object, a list of blocks."""
    if isinstance(content, str):
        plain = plain_text(content)
        if plain is not None:
            return (Block("text", plain, path=path, encoding="base64"),), ()
        return (Block("text", content, path=path),), ()
    if isinstance(content, dict):
        read = read_content({"content": content}, path[:-1], "text/plain", before)
        return (_text_block(read),) if read else argument_blocks(content, path, "content"), ()
    if not isinstance(content, list):
        return argument_blocks(content, path, "content"), ()
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, part in enumerate(content):
        _add_part(part, (*path, at), before, blocks, resources)
    return tuple(blocks), tuple(resources)


def resource_blocks(listed: list[object], path: Path, before: Before) -> tuple[tuple[Block, ...], tuple[Resource, ...]]:
    """Return the blocks and resources of a list of attached resources."""
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, item in enumerate(listed):
        if isinstance(item, dict):
            _add_resource(item, (*path, at), before, blocks, resources)
    return tuple(blocks), tuple(resources)


def _add_part(part: object, path: Path, before: Before, blocks: list[Block], resources: list[Resource]) -> None:
    if not isinstance(part, dict):
        blocks += argument_blocks(part, path, numbered("content", path))
        return
    match part.get("type"):
        case "text" if read := read_content(part, path, "text/plain", before):
            blocks.append(_text_block(read))
        case "resource" if isinstance(resource := part.get("resource"), dict):
            _add_resource(resource, (*path, "resource"), before, blocks, resources)
        case "image" if data := from_base64(as_text(part.get("data"))):
            mime = as_text(part.get("mimeType")) or "image/png"
            blocks.append(Block("image", data=data, mime=mime, path=(*path, "data"), encoding="base64"))
        case what:
            own = {key: value for key, value in part.items() if key != "type"}
            blocks += argument_blocks(own, path, numbered(as_text(what) or "content", path))


def _add_resource(
    resource: JsonObject, path: Path, before: Before, blocks: list[Block], resources: list[Resource]
) -> None:
    uri = as_text(resource.get("uri"))
    mime = as_text(resource.get("mimeType"))
    read = read_content(resource, path, mime, before)
    if read is None:
        blocks += argument_blocks(resource, path, numbered("resource", path))
        return
    is_text = isinstance(read.value, str)
    mime = mime or (mime_of(uri.partition("#")[0]) if is_text else "application/octet-stream")
    text, data = (read.value, None) if isinstance(read.value, str) else (None, read.value)
    blocks.append(Block("resource", text, data, uri=uri, mime=mime, path=read.path, encoding=read.encoding))
    if uri and not read.missing:
        resources.append(Resource(uri, mime, read.value, read.path, read.encoding))


def _text_block(read: Content) -> Block:
    if isinstance(read.value, bytes):
        mime = "application/octet-stream"
        return Block("resource", data=read.value, mime=mime, path=read.path, encoding=read.encoding)
    return Block("text", read.value, path=read.path, encoding=read.encoding)


def _referenced(digest: str, holder: JsonObject, path: Path, mime: str, before: Before) -> Content | None:
    try:
        data = before.blob("sha256", binascii.unhexlify(digest)) if len(digest) == 64 else None
    except ValueError:
        data = None
    if data is None:
        size = scalar(holder.get("size"))
        told = f", {size} bytes" if isinstance(size, int) else ""
        return Content(f"[blob sha256:{digest[:64]}{told}: not in the store]", (), missing=True)
    return _typed(data, mime, path, "json")


def _typed(data: bytes, mime: str, path: Path, encoding: Literal["json", "base64"]) -> Content:
    """Return bytes as text where they are, unless their type says otherwise."""
    if mime == "text/plain" or (not mime.startswith(_NOT_TEXT) and b"\0" not in data):
        try:
            return Content(data.decode(), path, encoding)
        except UnicodeDecodeError:
            pass
    return Content(data, path, encoding)
