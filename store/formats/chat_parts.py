"""Content of messages as the model vendors' APIs have it: a string, or a list of parts.

Anthropic's content blocks, OpenAI's content parts of Chat Completions and of Responses, and the ``parts`` of Gemini.
"""

from blake3 import blake3
from msgspec import Struct

from store.events.event import Block, BlockType, Path, Resource
from store.formats.blocks import argument_blocks, numbered
from store.formats.json_view import JsonObject, as_object, as_text, is_object
from store.formats.media import as_data_url, from_base64, suffix_of
from store.formats.nested import document_blocks
from store.formats.shown import Header

_TEXTS = frozenset(("text", "input_text", "output_text", "summary_text", "reasoning_text"))
_CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_RESULTS = frozenset(("tool_result", "mcp_tool_result"))
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


class Gathered(Struct):
    """What has been found in a message so far.

    ``header`` and ``tool`` are those of its event, ``places`` says where each of these fields stands. ``defines`` are
    the calls that it makes, ``asked`` is the id of the call that it answers first. ``said`` counts blocks that are
    neither thoughts nor belong to a call or a result.
    """

    blocks: list[Block] = []
    resources: list[Resource] = []
    header: Header = {}
    places: dict[str, Path] = {}
    defines: list[tuple[str, str]] = []
    tool: str = ""
    asked: str = ""
    calls: int = 0
    results: int = 0
    said: int = 0

    def call(self, holder: JsonObject, path: Path, name: str, identifier: str) -> str:
        """Take in a call whose tool and id stand under these keys of ``holder``; return how its arguments are named."""
        self.calls += 1
        tool, call = as_text(holder.get(name)), as_text(holder.get(identifier))
        number = f"_{self.calls}" if self.calls > 1 else ""
        if number:
            self.header[f"tool{number}"] = tool
        else:
            self.tool = tool
        self.places[f"tool{number}"] = (*path, name)
        if call:
            self.header[f"id{number}"] = call
            self.places[f"id{number}"] = (*path, identifier)
        if key := call or tool:
            self.defines.append((key, tool))
        return f"call{self.calls}.arguments" if number else "arguments"

    def result(self, holder: JsonObject, path: Path, identifier: str) -> str:
        """Take in a result whose call's id stands under ``identifier``; return how its content is named."""
        self.results += 1
        number = f"_{self.results}" if self.results > 1 else ""
        if call := as_text(holder.get(identifier)):
            self.header[f"id{number}"] = call
            self.places[f"id{number}"] = (*path, identifier)
            self.asked = self.asked or call
        return f"result{self.results}" if number else ""

    def failed(self, holder: JsonObject, path: Path, key: str) -> None:
        """Take in whether the last result is that of a call that failed."""
        number = f"_{self.results}" if self.results > 1 else ""
        self.header[f"is_error{number}"] = holder.get(key) is True
        self.places[f"is_error{number}"] = (*path, key)

    def text(self, text: str, path: Path, name: str = "") -> None:
        """Take in a text; an empty one says nothing."""
        if text:
            self.said += name != "thinking"
            self.blocks.append(Block("text", text, name=name, path=path))


def gather(content: object, path: Path, label: str, into: Gathered) -> None:
    """Take in content that stands at ``path``; ``label`` names its blocks."""
    if isinstance(content, str):
        into.text(content, path, label)
    elif isinstance(content, list):
        for at, part in enumerate(content):
            _part(part, (*path, at), label, into)
    elif is_object(content):
        _part(content, path, label, into)
    elif content is not None:
        into.blocks += argument_blocks(content, path, label or "content")


def arguments(value: object, path: Path, label: str, into: Gathered) -> None:
    """Take in a call's arguments: an object, or a string that holds one."""
    into.blocks += (
        document_blocks(value, path, label) if isinstance(value, str) else argument_blocks(value, path, label)
    )


def _part(part: object, path: Path, label: str, into: Gathered) -> None:
    if not is_object(part):
        gather(part if isinstance(part, str) else None, path, label, into)
        if not isinstance(part, str):
            into.blocks += argument_blocks(part, path, numbered(label or "content", path))
        return
    what = as_text(part.get("type"))
    if what in _CALLS:
        arguments(part.get("input"), (*path, "input"), into.call(part, path, "name", "id"), into)
    elif what in _RESULTS or what.endswith("_tool_result"):
        name = into.result(part, path, "tool_use_id")
        into.failed(part, path, "is_error")
        gather(part.get("content"), (*path, "content"), name, into)
    elif what == "thinking":
        into.text(as_text(part.get("thinking")), (*path, "thinking"), "thinking")
    elif what == "redacted_thinking":
        return
    elif what == "refusal":
        into.text(as_text(part.get("refusal")), (*path, "refusal"), "refusal")
    elif (what in _TEXTS or not what) and isinstance(text := part.get("text"), str):
        into.text(text, (*path, "text"), "thinking" if part.get("thought") is True else label)
    elif not (_gemini(part, path, label, into) or _media(part, path, label, into)):
        own = {key: value for key, value in part.items() if key != "type"}
        into.said += 1
        into.blocks += argument_blocks(own, path, numbered(label or what or "content", path))


def _gemini(part: JsonObject, path: Path, label: str, into: Gathered) -> bool:
    """Take in a part that is a call or a result in Gemini's terms; return whether it is one."""
    for key in ("functionCall", "function_call"):
        if is_object(call := part.get(key)):
            name = into.call(call, (*path, key), "name", "id")
            arguments(call.get("args"), (*path, key, "args"), name, into)
            return True
    for key in ("functionResponse", "function_response"):
        if is_object(response := part.get(key)):
            name = into.result(response, (*path, key), "id" if response.get("id") else "name")
            arguments(response.get("response"), (*path, key, "response"), name or "response", into)
            return True
    return False


def _media(part: JsonObject, path: Path, label: str, into: Gathered) -> bool:
    """Take in a part that holds an image, a document or a sound; return whether it is one."""
    what = as_text(part.get("type"))
    source = as_object(part.get("source"))
    mime = as_text(source.get("media_type"))
    if source.get("type") == "text" and isinstance(text := source.get("data"), str):
        into.text(text, (*path, "source", "data"), label or "document")
        return True
    if source and (data := from_base64(as_text(source.get("data")))):
        shape: BlockType = "image" if what == "image" else "resource"
        _attach(data, mime or "image/png", (*path, "source", "data"), shape, label, into)
        return True
    for key, kind in (("inlineData", "mimeType"), ("inline_data", "mime_type")):
        inline = as_object(part.get(key))
        if inline and (data := from_base64(as_text(inline.get("data")))):
            mime = as_text(inline.get(kind)) or "application/octet-stream"
            _attach(data, mime, (*path, key, "data"), "image" if mime.startswith("image/") else "resource", label, into)
            return True
    audio = as_object(part.get("input_audio"))
    if audio and (data := from_base64(as_text(audio.get("data")))):
        mime = _AUDIO.get(as_text(audio.get("format")), "application/octet-stream")
        _attach(data, mime, (*path, "input_audio", "data"), "resource", label, into)
        return True
    place: Path = (*path, "image_url", "url") if isinstance(part.get("image_url"), dict) else (*path, "image_url")
    url = as_text(as_object(part.get("image_url")).get("url")) or as_text(part.get("image_url"))
    if (held := as_data_url(url)) is not None:
        _attach(held.data, held.mime, place, "image", label, into, encoded=False)
        return True
    return False


def _attach(
    data: bytes, mime: str, path: Path, shape: BlockType, label: str, into: Gathered, *, encoded: bool = True
) -> None:
    """Take in content that is not text; it has no name of its own, so it is called after its bytes."""
    uri = f"attachment:{blake3(data).hexdigest()[:16]}.{suffix_of(mime)}"
    into.said += 1
    if encoded:
        into.blocks.append(Block(shape, data=data, name=label, uri=uri, mime=mime, path=path, encoding="base64"))
        into.resources.append(Resource(uri, mime, data, path, "base64"))
    else:
        into.blocks.append(Block(shape, data=data, name=label, uri=uri, mime=mime, path=path))
        into.resources.append(Resource(uri, mime, data, path))
