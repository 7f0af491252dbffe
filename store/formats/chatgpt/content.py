"""What messages of ChatGPT say, by the type of their content."""

import re
from collections.abc import Callable, Iterator

from store.events.event import Block, Path, Resource
from store.formats.blocks import argument_blocks, listed_links, numbered
from store.formats.chatgpt.assets import asset, within
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.lens import Before
from store.formats.shown import Blocks

CONTENT: Path = ("message", "content")
_ASSETS = frozenset(("audio_asset_pointer", "image_asset_pointer", "video_container_asset_pointer"))
_CALL = "real_time_user_audio_video_asset_pointer"
_scheme = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE).match
_NOTHING: Blocks = ((), ())

_TEXTS = {
    "code": ("text",),
    "execution_output": ("text",),
    "model_editable_context": ("model_set_context", "repository", "repo_summary"),
    "reasoning_recap": ("content",),
    "system_error": ("text",),
    "tether_browsing_code": ("text",),
    "tether_browsing_display": ("result", "summary"),
    "user_editable_context": ("user_profile", "user_instructions"),
}
"""The members that hold the text, the main one first; the others are named."""
_UNNAMED = frozenset(("content", "result", "text"))
_PAGES = frozenset(("sonic_webpage", "tether_quote"))
_SPOKEN = frozenset(("", "multimodal_text", "text"))
_READ = frozenset(("content_type", "language", "name", "response_format_name", "tether_id", "assets"))
"""Members that are no text of their own: shown in the head, or nothing that a reader would ask for."""


def content_blocks(message: JsonObject, before: Before) -> Blocks:
    """Return the blocks and resources of a message's content."""
    content = as_object(message.get("content"))
    what = as_text(content.get("content_type"))
    if what in _SPOKEN and isinstance(parts := content.get("parts"), list):
        return _parts(parts, message, before)
    if what == "thoughts":
        return tuple(_thoughts(content)), ()
    if what in _PAGES and isinstance(content.get("text"), str):
        return _page(content, CONTENT)
    known = _TEXTS.get(what)
    if known and all(isinstance(content.get(key, ""), str) for key in known):
        return tuple(_texts(content, known)), ()
    own = {key: value for key, value in content.items() if key != "content_type"}
    return argument_blocks(own, CONTENT, "content"), ()


def _texts(content: JsonObject, keys: tuple[str, ...]) -> Iterator[Block]:
    for key in keys:
        if text := as_text(content.get(key)):
            yield Block("text", text, name="" if key in _UNNAMED else key, path=(*CONTENT, key))
    rest = {key: value for key, value in content.items() if key not in _READ and key not in keys and value}
    if rest:
        yield from argument_blocks(rest, CONTENT, "content")


def _thoughts(content: JsonObject) -> Iterator[Block]:
    for at, thought in enumerate(as_list(content.get("thoughts"))):
        path: Path = (*CONTENT, "thoughts", at)
        if not isinstance(thought, dict):
            yield from argument_blocks(thought, path, numbered("thought", path))
            continue
        for key, name in (("summary", "summary"), ("content", "")):
            value = thought.get(key)
            if isinstance(value, str) and value:
                yield Block("text", value, name=name, path=(*path, key))
            elif value:
                yield from argument_blocks(value, (*path, key), numbered(key, path))


def _page(page: JsonObject, path: Path) -> Blocks:
    """Show a page that was read as a resource under its address."""
    text, address = as_text(page.get("text")), as_text(page.get("url"))
    place = (*path, "text")
    blocks: list[Block] = []
    if title := as_text(page.get("title")):
        blocks.append(Block("text", title, name="title", path=(*path, "title")))
    if snippet := as_text(page.get("snippet")):
        blocks.append(Block("text", snippet, name="snippet", path=(*path, "snippet")))
    if not address:
        return (*blocks, Block("text", text, path=place)), ()
    uri = address if _scheme(address) else f"attachment:{address}"
    block = Block("resource", text, uri=uri, mime="text/plain", path=place)
    return (*blocks, block), (Resource(uri, "text/plain", text, place),)


def _parts(parts: list[object], message: JsonObject, before: Before) -> Blocks:
    blocks: list[Block] = []
    resources: list[Resource] = []
    for at, part in enumerate(parts):
        path: Path = (*CONTENT, "parts", at)
        if isinstance(part, str):
            if part or len(parts) == 1:
                blocks.append(Block("text", part, path=path))
            continue
        more, held = _part(part, path, message, before)
        blocks += more
        resources += held
    if all(block.text == "" for block in blocks):
        blocks.clear()
    return tuple(blocks), tuple(resources)


def _part(part: object, path: Path, message: JsonObject, before: Before) -> Blocks:
    if not isinstance(part, dict):
        return argument_blocks(part, path, numbered("part", path)), ()
    what = as_text(part.get("content_type"))
    if what in _ASSETS:
        return asset(part, path, message, before)
    if what == _CALL:
        blocks, resources = _NOTHING
        for inner, place in within(part, path):
            more, held = asset(inner, place, message, before)
            blocks, resources = blocks + more, resources + held
        return blocks, resources
    if what in _PAGES and isinstance(part.get("text"), str):
        return _page(part, path)
    text = part.get("text")
    if what in ("audio_transcription", "text") and isinstance(text, str):
        return ((Block("text", text, path=(*path, "text")),) if text else ()), ()
    own = {key: value for key, value in part.items() if key != "content_type"}
    return argument_blocks(own, path, numbered(what or "part", path)), ()


def citations(message: JsonObject, before: Before) -> Blocks:
    """Return what a message cites, one a line, as a text that is put together from its metadata."""
    metadata = as_object(message.get("metadata"))
    cited: dict[str, str] = {}
    for key, address_of in _CITED:
        for item in as_list(metadata.get(key)):
            for address, title in address_of(as_object(item)):
                if address and not cited.get(address):
                    cited[address] = title
    return ((Block("text", listed_links(cited), name="citations"),) if cited else ()), ()


def citations_alone(message: JsonObject, before: Before) -> Blocks:
    """Return what a message cites that has no newer references, which :func:`citations` shows with them."""
    return _NOTHING if as_object(message.get("metadata")).get("content_references") else citations(message, before)


def search_results(message: JsonObject, before: Before) -> Blocks:
    """Return what a search found, one a line, as a text that is put together from the message's metadata."""
    groups = as_list(as_object(message.get("metadata")).get("search_result_groups"))
    entries = [as_object(entry) for group in groups for entry in as_list(as_object(group).get("entries"))]
    titles = {address: as_text(entry.get("title")) for entry in entries if (address := as_text(entry.get("url")))}
    path: Path = ("message", "metadata", "search_result_groups", 0)
    return ((Block("text", listed_links(titles), name="search_results", path=path),) if titles else ()), ()


def _reference(reference: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the addresses that a reference is to, with their titles."""
    for item in (reference, *as_list(reference.get("items")), *as_list(reference.get("sources"))):
        if isinstance(item, dict):
            yield as_text(item.get("url")), as_text(item.get("title"))


def _citation(citation: JsonObject) -> Iterator[tuple[str, str]]:
    told = as_object(citation.get("metadata")) or citation
    yield as_text(told.get("url")), as_text(told.get("title"))


_CITED: tuple[tuple[str, Callable[[JsonObject], Iterator[tuple[str, str]]]], ...] = (
    ("content_references", _reference),
    ("citations", _citation),
)
