"""What messages of claude.ai say: text, thinking, calls of tools and what these answered, attachments.

A message is all of an answer: what was thought, each call with its result, and the text between them.
"""

from store.events.event import Block, BlockType, Path, Resource
from store.formats.blocks import argument_blocks, listed_links, numbered
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.media import from_base64, mime_of, suffix_of

CALLS = frozenset(("mcp_tool_use", "server_tool_use", "tool_use"))
RESULTS = frozenset(("mcp_tool_result", "tool_result", "web_search_tool_result"))
_SILENT = frozenset(("redacted_thinking", "token_budget"))
_ENVELOPE = frozenset(("flags", "start_timestamp", "stop_timestamp", "type"))


class Said:
    """What a message shows; filled part by part."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.resources: list[Resource] = []
        self.texts = self.thoughts = 0
        """How many parts are text, and how many thinking."""
        self.calls: list[tuple[str, str]] = []
        """The calls in it: the tool, and the call's id where it has one."""
        self.results: list[tuple[str, str, bool]] = []
        """The results in it: the tool, the id of the call, whether it failed."""
        self.cited: dict[str, str] = {}
        """The addresses that it cites, with their titles."""


def said_in(message: JsonObject) -> Said:
    """Return what a message shows, whichever its parts are."""
    said = Said()
    parts = message.get("content")
    for at, part in enumerate(as_list(parts)):
        _part(part, ("content", at), said)
    if not said.blocks and isinstance(text := message.get("text"), str) and text:
        # as older exports have it, and files in which a message failed
        said.blocks.append(Block("text", text, path=("text",)))
        said.texts += 1
    if isinstance(parts, str) and parts:
        said.blocks.append(Block("text", parts, path=("content",)))
        said.texts += 1
    identifier = as_text(message.get("uuid")) or "message"
    for at, attached in enumerate(as_list(message.get("attachments"))):
        _attachment(as_object(attached), ("attachments", at), identifier, said)
    _files(message, said)
    if said.cited:
        said.blocks.append(Block("text", listed_links(said.cited), name="citations"))
    return said


def _part(part: object, path: Path, said: Said) -> None:
    if not isinstance(part, dict):
        if part is not None:
            said.blocks += argument_blocks(part, path, numbered("content", path))
        return
    what = as_text(part.get("type"))
    if what == "text" and isinstance(text := part.get("text"), str):
        if text:
            said.blocks.append(Block("text", text, path=(*path, "text")))
            said.texts += 1
        _cite(part, said)
    elif what == "thinking" and isinstance(text := part.get("thinking"), str):
        if text:
            said.blocks.append(Block("text", text, name="thinking", path=(*path, "thinking")))
            said.thoughts += 1
    elif what in CALLS:
        tool = as_text(part.get("name"))
        said.calls.append((tool, as_text(part.get("id"))))
        said.blocks += argument_blocks(part.get("input"), (*path, "input"), f"call{len(said.calls)}.{tool}")
    elif what in RESULTS:
        tool = as_text(part.get("name"))
        said.results.append((tool, as_text(part.get("tool_use_id")), part.get("is_error") is True))
        _result(part.get("content"), (*path, "content"), f"result{len(said.results)}.{tool}", said)
    elif what not in _SILENT:
        own = {key: value for key, value in part.items() if key not in _ENVELOPE and value not in (None, [], {})}
        said.blocks += argument_blocks(own, path, numbered(what or "content", path))


def _result(content: object, path: Path, label: str, said: Said) -> None:
    if isinstance(content, str):
        said.blocks.append(Block("text", content, name=label, path=path))
        return
    if not isinstance(content, list):
        said.blocks += argument_blocks(content, path, label)
        return
    for at, item in enumerate(content):
        place = (*path, at)
        text = as_object(item).get("text")
        address = as_text(as_object(item).get("url"))
        if not isinstance(item, dict):
            said.blocks += argument_blocks(item, place, numbered(label, place))
        elif isinstance(text, str) and address:
            _page(text, address, as_text(item.get("title")), place, said)
        elif isinstance(text, str) and item.get("type") in ("text", None):
            said.blocks.append(Block("text", text, name=numbered(label, (at,)), path=(*place, "text")))
        elif not _image(item, place, numbered(label, (at,)), said):
            own = {key: value for key, value in item.items() if key != "type" and value not in (None, [], {})}
            said.blocks += argument_blocks(own, place, numbered(label, (at,)))


def _page(text: str, address: str, title: str, path: Path, said: Said) -> None:
    """Show a page that a tool has read as a resource under its address."""
    if title:
        said.blocks.append(Block("text", title, name="title", path=(*path, "title")))
    said.blocks.append(Block("resource", text, uri=address, mime="text/plain", path=(*path, "text")))
    said.resources.append(Resource(address, "text/plain", text, (*path, "text")))


def _image(item: JsonObject, path: Path, label: str, said: Said) -> bool:
    source = as_object(item.get("source"))
    encoded = source.get("data")
    data = from_base64(encoded) if isinstance(encoded, str) else None
    if data is None or item.get("type") not in ("document", "image"):
        return False
    shape: BlockType = "image" if item["type"] == "image" else "resource"
    mime = as_text(source.get("media_type")) or ("image/png" if shape == "image" else "application/octet-stream")
    uri = f"attachment:{label}/{shape}-{len(said.resources) + 1}.{suffix_of(mime)}"
    place = (*path, "source", "data")
    said.blocks.append(Block(shape, data=data, name=label, uri=uri, mime=mime, path=place, encoding="base64"))
    said.resources.append(Resource(uri, mime, data, place, "base64"))
    return True


def _attachment(attached: JsonObject, path: Path, message: str, said: Said) -> None:
    """Show a file whose text the service took out and kept."""
    name = as_text(attached.get("file_name"))
    text = attached.get("extracted_content")
    if not isinstance(text, str) or not text:
        _told(attached, name, path, said)
        return
    at = path[-1]
    uri = f"attachment:{message}/{name.replace('/', '_') or f'attachment-{at}.txt'}"
    place = (*path, "extracted_content")
    mime = mime_of(name)
    said.blocks.append(Block("resource", text, uri=uri, mime=mime, path=place))
    said.resources.append(Resource(uri, mime, text, place))


def _files(message: JsonObject, said: Said) -> None:
    """Name the files of a message, which the export does not hold."""
    named = {as_text(as_object(attached).get("file_name")) for attached in as_list(message.get("attachments"))}
    for listed in ("files", "files_v2"):
        for at, file in enumerate(as_list(message.get(listed))):
            name = as_text(as_object(file).get("file_name")) or as_text(as_object(file).get("file_uuid"))
            if name and name not in named:
                named.add(name)
                _told(as_object(file), name, (listed, at), said)


def _told(file: JsonObject, name: str, path: Path, said: Said) -> None:
    size = scalar(file.get("file_size"))
    told = f", {size} bytes" if isinstance(size, int) and size else ""
    if name or told:
        said.blocks.append(Block("text", f"[file {name}{told}: not in the export]", path=path))


def _cite(part: JsonObject, said: Said) -> None:
    for citation in as_list(part.get("citations")):
        told = as_object(citation)
        address = as_text(told.get("url")) or as_text(as_object(told.get("details")).get("url"))
        title = as_text(told.get("title"))
        if address and not said.cited.get(address):
            said.cited[address] = title
