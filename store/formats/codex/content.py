"""The content of messages and outputs: text, images, and whatever else the Responses API has."""

from store.events.event import Block, Path, Resource
from store.formats.blocks import argument_blocks, numbered
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.media import as_data_url, from_base64, suffix_of

_TEXTS = frozenset(("input_text", "inputText", "output_text", "reasoning_text", "summary_text", "text", "Text"))
_IMAGES = frozenset(("input_image", "inputImage", "image"))


class Content:
    """Collects what the parts of a content show."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.resources: list[Resource] = []

    def add(self, content: object, path: Path, name: str = "") -> None:
        """Add a content, a string or a list of parts, that stands at ``path``."""
        if isinstance(content, str):
            self.blocks.append(Block("text", content, name=name, path=path))
        elif isinstance(content, list):
            for at, part in enumerate(content):
                self._part(part, (*path, at), name)
        elif isinstance(content, dict):
            self._part(content, path, name)

    def image(self, url: str, path: Path, name: str = "") -> bool:
        """Add an image that stands as a ``data:`` URL at ``path``; say whether it is one."""
        held = as_data_url(url)
        if held is None:
            return False
        self._image(Block("image", data=held.data, name=name, mime=held.mime, path=path))
        return True

    def encoded_image(self, encoded: str, mime: str, path: Path) -> bool:
        """Add an image that stands as base64 at ``path``; say whether it is one."""
        data = from_base64(encoded) if encoded else None
        if not data:
            return False
        self._image(Block("image", data=data, mime=mime, path=path, encoding="base64"))
        return True

    def _image(self, block: Block) -> None:
        uri = f"attachment:codex/image-{len(self.resources) + 1}.{suffix_of(block.mime)}"
        self.blocks.append(
            Block(
                "image",
                data=block.data,
                name=block.name,
                uri=uri,
                mime=block.mime,
                path=block.path,
                encoding=block.encoding,
            )
        )
        self.resources.append(Resource(uri, block.mime, block.data or b"", block.path, block.encoding))

    def _part(self, part: object, path: Path, name: str) -> None:
        if isinstance(part, str):
            self.blocks.append(Block("text", part, name=name, path=path))
            return
        if not isinstance(part, dict):
            self.blocks += argument_blocks(part, path, numbered(name or "content", path))
            return
        what, text = as_text(part.get("type")), part.get("text")
        if isinstance(text, str) and (what in _TEXTS or not what):
            self.blocks.append(Block("text", text, name=name, path=(*path, "text")))
        elif what in _IMAGES:
            self._image_part(part, path, name)
        elif what == "refusal" and isinstance(refusal := part.get("refusal"), str):
            self.blocks.append(Block("text", refusal, name=name or "refusal", path=(*path, "refusal")))
        elif what != "encrypted_content":
            own = {key: item for key, item in part.items() if key != "type"}
            self.blocks += argument_blocks(own, path, numbered(name or what or "content", path))

    def _image_part(self, part: JsonObject, path: Path, name: str) -> None:
        for key in ("image_url", "imageUrl"):
            url = part.get(key)
            if not isinstance(url, str):
                continue
            if not self.image(url, (*path, key), name):
                self.blocks.append(Block("text", url, name=name or numbered("image", path), path=(*path, key)))
            return
        mime = as_text(part.get("mimeType")) or "image/png"
        if isinstance(data := part.get("data"), str):
            self.encoded_image(data, mime, (*path, "data"))


def plain_text(content: object) -> str:
    """Return the texts of a content, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(as_text(as_object(part).get("text")) for part in content)
