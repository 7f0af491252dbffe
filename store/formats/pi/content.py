"""What messages hold: text, images (as base64, or by reference), and what newer programs add."""

from msgspec import Struct

from store.events.event import Block, Path, Resource
from store.formats.blocks import argument_blocks, numbered
from store.formats.json_view import JsonObject, as_text
from store.formats.lens import Before
from store.formats.media import from_base64, suffix_of
from store.formats.pi.blobs import ALGORITHM, digest_of, is_reference

CUT = "[Session persistence truncated large content]"
"""How a text ends that the program cut when it wrote it."""


class Content(Struct):
    """The blocks and resources of a line, as they are found; ``owner`` is its id, for the names of its images."""

    before: Before
    owner: str
    blocks: list[Block] = []
    resources: list[Resource] = []

    def add(self, content: object, path: Path, name: str = "") -> None:
        """Add what stands at ``path``: a text, or a list of parts."""
        if isinstance(content, str):
            self.blocks.append(Block("text", content, name=name, path=path))
        elif isinstance(content, list):
            for at, part in enumerate(content):
                self.add_part(part, (*path, at), name)
        elif content is not None:
            self.blocks += argument_blocks(content, path, name or "content")

    def add_part(self, part: object, path: Path, name: str = "") -> None:
        """Add one part of a message."""
        if not isinstance(part, dict):
            self.add(part, path, name) if isinstance(part, str) else self._add_other(part, path, name)
        elif part.get("type") == "text" and isinstance(text := part.get("text"), str):
            self.blocks.append(Block("text", text, name=name, path=(*path, "text")))
        elif part.get("type") == "image" and isinstance(part.get("data"), str):
            self.add_image(part, path, name)
        else:
            own = {key: item for key, item in part.items() if key != "type"}
            self._add_other(own, path, name or as_text(part.get("type")))

    def add_image(self, part: JsonObject, path: Path, name: str = "") -> None:
        """Add an image; one whose bytes are not to be had is shown as the text that stands for them."""
        encoded, place = as_text(part.get("data")), (*path, "data")
        data = None
        if is_reference(encoded):
            digest = digest_of(encoded)
            data = self.before.blob(ALGORITHM, digest) if digest else None
        elif not encoded.endswith(CUT):
            data = from_base64(encoded)
        if data is None:
            self.blocks.append(Block("text", encoded, name=name or "image", path=place))
            return
        mime = as_text(part.get("mimeType")) or "image/png"
        uri = f"attachment:{self.owner or 'line'}/image-{len(self.resources) + 1}.{suffix_of(mime)}"
        self.blocks.append(Block("image", data=data, name=name, uri=uri, mime=mime, path=place, encoding="base64"))
        self.resources.append(Resource(uri, mime, data, place, "base64"))

    def _add_other(self, value: object, path: Path, name: str) -> None:
        self.blocks += argument_blocks(value, path, numbered(name or "content", path))
