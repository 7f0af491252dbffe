"""ChatGPT's exports: trees of messages, many in a file, and the images and files that they name beside it.

An export is an archive, or its folder, with ``conversations.json``, a list of conversations, and the images and files
that they name. The service's own answer for one conversation, which many tools save, is the same object alone.

A message points to a file as ``file-service://file-…`` or ``sediment://file_…``. In an export it is a file whose name
begins with that id: ``file-AbC123-photo.png`` beside the conversations, ``dalle-generations/file-….webp``,
``user-…/file_…-….png``, ``<conversation>/audio/file_….wav``, ``file-….dat``.
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct, structs

from store.errors import NotFound
from store.events.event import Block, BlockType, Kind, Resource, ValuePath
from store.formats.core import export_format
from store.formats.core.blocks import argument_blocks, document_blocks, document_in, listed_links, numbered
from store.formats.core.composing import Particulars
from store.formats.core.editing import JsonLens
from store.formats.core.export_format import ExportFormat, Node
from store.formats.core.format import About, ExternalBlob, Source, Titled, first_line
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, object_in, scalar
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, FieldPlace, Gathered, Places, Shown, is_utf8
from store.formats.core.media import mime_of, sniffed, suffix_of
from store.formats.core.removal import Tree
from store.formats.core.splices import put, spell
from store.formats.core.times import milliseconds, of_seconds

ALGORITHM = "chatgpt-file"
"""The name of this kind of ids among the names of content."""

_LONGEST_ID = 255

_pointer = re.compile(r"(?:file-service://|sediment://(?=file))([^?#]+)").match
_is_id = re.compile(r"file[-_][0-9A-Za-z_-]+").fullmatch
_named_file = re.compile(r"file[-_][0-9A-Za-z]|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").match
_names_any = re.compile(rb'"(?:file[-_]|sediment:)').search


def _file_id(pointer: object) -> str:
    """Return the id of the file that ``pointer`` (or a bare id) names, "" where it names none."""
    if not isinstance(pointer, str):
        return ""
    found = _pointer(pointer)
    identifier = found[1] if found else pointer if _is_id(pointer) else ""
    return identifier if len(identifier) <= _LONGEST_ID and identifier.isascii() else ""


def named_files(payload: bytes) -> list[str]:
    """Return the ids of the files that a node names, each once."""
    if b"file" not in payload or not _names_any(payload):
        return []
    message = as_object(object_in(payload).get("message"))
    found = [_file_id(part.get("asset_pointer")) for part in _parts(message)]
    found += (_file_id(attached.get("id")) for attached in _attachments(message))
    found += (_file_id(drawn.get("image_url")) for drawn, _path in _drawn(message))
    return [identifier for identifier in dict.fromkeys(found) if identifier]


@lru_cache(4)
def _by_id(names: tuple[str, ...]) -> dict[str, str]:
    """Return the files of an export, given as paths within it, by every id that they may have."""
    found: dict[str, str] = {}
    for path in sorted(names):
        name = path.rpartition("/")[2]
        if not _named_file(name):
            continue
        stem = name.partition(".")[0]
        found.setdefault(stem, path)
        # after the id comes the file's own name, or another id
        for at in range(len("file-"), len(stem)):
            if stem[at] == "-":
                found.setdefault(stem[:at], path)
    return found


def _add_asset(part: JsonObject, path: ValuePath, message: JsonObject, before: Before, into: Gathered) -> None:
    identifier = _file_id(part.get("asset_pointer"))
    attached = next((item for item in _attachments(message) if _file_id(item.get("id")) == identifier), {})
    what = as_text(part.get("content_type")).partition("_")[0] or "file"
    _add(identifier or as_text(part.get("asset_pointer")), attached, what, _size(part), path, before, into)
    prompt = as_object(as_object(part.get("metadata")).get("dalle")).get("prompt")
    into.text(as_text(prompt), (*path, "metadata", "dalle", "prompt"), "prompt")


def _add_attachments(message: JsonObject, before: Before, into: Gathered) -> None:
    """Add the attachments of a message that are in none of its parts."""
    shown = {_file_id(part.get("asset_pointer")) for part in _parts(message)}
    for at, attached in enumerate(as_list(as_object(message.get("metadata")).get("attachments"))):
        identifier = _file_id(as_object(attached).get("id"))
        if isinstance(attached, dict) and not (identifier and identifier in shown):
            path: ValuePath = ("message", "metadata", "attachments", at)
            _add(identifier or as_text(attached.get("id")), attached, "file", "", path, before, into)


def _add_drawings(message: JsonObject, before: Before, into: Gathered) -> None:
    """Add the images drawn by code that was run; newer exports have them as parts."""
    for drawn, path in _drawn(message):
        _add(_file_id(drawn.get("image_url")), {}, "image", _size(drawn), path, before, into)


def _add(
    identifier: str, attached: JsonObject, what: str, told: str, path: ValuePath, before: Before, into: Gathered
) -> None:
    """Add a file that is named at ``path``; its content lies elsewhere, and cannot be changed here."""
    name = as_text(attached.get("name"))
    data = before.blob(ALGORITHM, identifier.encode("ascii", "replace")) if identifier else None
    if data is None:
        size = scalar(attached.get("size"))
        told += f", {size} bytes" if isinstance(size, int) else ""
        into.blocks.append(Block("text", f"[{what} {name or identifier}{told}: not in the export]", path=path))
        return
    mime = sniffed(data) or as_text(attached.get("mime_type") or attached.get("mimeType")) or mime_of(name)
    uri = f"attachment:{identifier}/{name.replace('/', '_') or f'{what}.{suffix_of(mime)}'}"
    is_text = not mime.startswith("image/") and b"\0" not in data and is_utf8(data)
    content = data.decode() if is_text else data
    shape: BlockType = "image" if mime.startswith("image/") else "resource"
    text, left = (None, content) if isinstance(content, bytes) else (content, None)
    into.blocks.append(Block(shape, text, left, uri=uri, mime=mime, path=path))
    into.resources.append(Resource(uri, mime, content))


def _size(image: JsonObject) -> str:
    width, height = image.get("width"), image.get("height")
    return f", {width}x{height}" if isinstance(width, int) and isinstance(height, int) and width and height else ""


def _attachments(message: JsonObject) -> Iterator[JsonObject]:
    return filter(is_object, as_list(as_object(message.get("metadata")).get("attachments")))


def _drawn(message: JsonObject) -> Iterator[tuple[JsonObject, ValuePath]]:
    run = as_object(as_object(message.get("metadata")).get("aggregate_result"))
    for at, told in enumerate(as_list(run.get("messages"))):
        if isinstance(told, dict) and _file_id(told.get("image_url")):
            yield told, ("message", "metadata", "aggregate_result", "messages", at)


def _parts(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of a message that point to files, those within others too."""
    for part in filter(is_object, as_list(as_object(message.get("content")).get("parts"))):
        yield part
        yield from (inner for inner, _path in _within(part, ()))


def _within(part: JsonObject, path: ValuePath) -> Iterator[tuple[JsonObject, ValuePath]]:
    """Yield the parts that a recorded call holds, each with its place."""
    for key in ("audio_asset_pointer", "video_container_asset_pointer"):
        if isinstance(inner := part.get(key), dict):
            yield inner, (*path, key)
    for at, frame in enumerate(as_list(part.get("frames_asset_pointers"))):
        if isinstance(frame, dict):
            yield frame, (*path, "frames_asset_pointers", at)


_ROLES = {
    **dict.fromkeys((Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL, Kind.NOTE), "assistant"),
    Kind.SYSTEM: "system",
    Kind.USER: "user",
    Kind.TOOL_RESULT: "tool",
}
_encode = msgspec.json.Encoder().encode

CONTENT: ValuePath = ("message", "content")
_ASSETS = frozenset(("audio_asset_pointer", "image_asset_pointer", "video_container_asset_pointer"))
_CALL = "real_time_user_audio_video_asset_pointer"
_scheme = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE).match

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


def _add_content(message: JsonObject, before: Before, into: Gathered) -> None:
    content = as_object(message.get("content"))
    what = as_text(content.get("content_type"))
    known = _TEXTS.get(what)
    if what in _SPOKEN and isinstance(parts := content.get("parts"), list):
        _add_parts(parts, message, before, into)
    elif what == "thoughts":
        _add_thoughts(content, into)
    elif what in _PAGES and isinstance(content.get("text"), str):
        _add_page(content, CONTENT, into)
    elif known and all(isinstance(content.get(key, ""), str) for key in known):
        for key in known:
            into.text(as_text(content.get(key)), (*CONTENT, key), "" if key in _UNNAMED else key)
        rest = {key: value for key, value in content.items() if key not in _READ and key not in known and value}
        into.blocks += argument_blocks(rest, CONTENT, "content") if rest else ()
    else:
        own = {key: value for key, value in content.items() if key != "content_type"}
        into.blocks += argument_blocks(own, CONTENT, "content")


def _add_thoughts(content: JsonObject, into: Gathered) -> None:
    for at, thought in enumerate(as_list(content.get("thoughts"))):
        path: ValuePath = (*CONTENT, "thoughts", at)
        if not isinstance(thought, dict):
            into.blocks += argument_blocks(thought, path, numbered("thought", path))
            continue
        for key, name in (("summary", "summary"), ("content", "")):
            value = thought.get(key)
            if isinstance(value, str):
                into.text(value, (*path, key), name)
            elif value:
                into.blocks += argument_blocks(value, (*path, key), numbered(key, path))


def _add_page(page: JsonObject, path: ValuePath, into: Gathered) -> None:
    text, address = as_text(page.get("text")), as_text(page.get("url"))
    for key in ("title", "snippet"):
        into.text(as_text(page.get(key)), (*path, key), key)
    if address:
        into.attach(text, address if _scheme(address) else f"attachment:{address}", "text/plain", (*path, "text"))
    else:
        into.blocks.append(Block("text", text, path=(*path, "text")))


def _add_parts(parts: list[object], message: JsonObject, before: Before, into: Gathered) -> None:
    for at, part in enumerate(parts):
        path: ValuePath = (*CONTENT, "parts", at)
        if not isinstance(part, str):
            _add_part(part, path, message, before, into)
        elif part or len(parts) == 1:
            into.blocks.append(Block("text", part, path=path))
    if all(block.text == "" for block in into.blocks):
        into.blocks.clear()


def _add_part(part: object, path: ValuePath, message: JsonObject, before: Before, into: Gathered) -> None:
    if not isinstance(part, dict):
        into.blocks += argument_blocks(part, path, numbered("part", path))
        return
    what, text = as_text(part.get("content_type")), part.get("text")
    if what in _ASSETS:
        _add_asset(part, path, message, before, into)
    elif what == _CALL:
        for inner, place in _within(part, path):
            _add_asset(inner, place, message, before, into)
    elif what in _PAGES and isinstance(text, str):
        _add_page(part, path, into)
    elif what in ("audio_transcription", "text") and isinstance(text, str):
        into.text(text, (*path, "text"))
    else:
        own = {key: value for key, value in part.items() if key != "content_type"}
        into.blocks += argument_blocks(own, path, numbered(what or "part", path))


def _add_citations(message: JsonObject, before: Before, into: Gathered) -> None:
    """Add the citations of a message, one a line, as a text built from its metadata."""
    cited: dict[str, str] = {}
    for told in _cited(as_object(message.get("metadata"))):
        address = as_text(told.get("url"))
        if address and not cited.get(address):
            cited[address] = as_text(told.get("title"))
    into.text(listed_links(cited), (), "citations")


def _cited(metadata: JsonObject) -> Iterator[JsonObject]:
    for reference in map(as_object, as_list(metadata.get("content_references"))):
        yield reference
        yield from map(as_object, (*as_list(reference.get("items")), *as_list(reference.get("sources"))))
    for citation in map(as_object, as_list(metadata.get("citations"))):
        yield as_object(citation.get("metadata")) or citation


def _add_citations_alone(message: JsonObject, before: Before, into: Gathered) -> None:
    """Add the citations of a message without newer references, which would show them already."""
    if not as_object(message.get("metadata")).get("content_references"):
        _add_citations(message, before, into)


def _add_search_results(message: JsonObject, before: Before, into: Gathered) -> None:
    """Add the results of a search, one a line, as a text built from the message's metadata."""
    groups = as_list(as_object(message.get("metadata")).get("search_result_groups"))
    entries = [as_object(entry) for group in groups for entry in as_list(as_object(group).get("entries"))]
    titles = {address: as_text(entry.get("title")) for entry in entries if (address := as_text(entry.get("url")))}
    into.text(listed_links(titles), ("message", "metadata", "search_result_groups", 0), "search_results")


_METADATA: ValuePath = ("message", "metadata")
_RUN: ValuePath = (*_METADATA, "aggregate_result")


def _copies(metadata: JsonObject) -> Iterator[tuple[ValuePath, str]]:
    run = as_object(metadata.get("aggregate_result"))
    context = as_object(metadata.get("user_context_message_data"))
    holders: list[tuple[ValuePath, JsonObject, tuple[str, ...]]] = [(_RUN, run, ("code", "final_expression_output"))]
    for at, told in enumerate(as_list(run.get("messages"))):
        holders.append(((*_RUN, "messages", at), as_object(told), ("text",)))
    said = ("about_user_message", "about_model_message")
    holders.append(((*_METADATA, "user_context_message_data"), context, said))
    for path, holder, keys in holders:
        for key in keys:
            if (text := as_text(holder.get(key))).strip():
                yield (*path, key), text


def _carried_within(twin: str, old: str, new: str) -> str | None:
    """Return the new text of ``twin``, which is ``old`` or occurs in it once; None where that cannot be told."""
    before, found, after = old.partition(twin)
    return _between(before, new, after) if found and twin not in after else None


def _between(before: str, text: str, after: str) -> str | None:
    if text.startswith(before) and text.endswith(after) and len(text) >= len(before) + len(after):
        return text[len(before) : len(text) - len(after)]
    return None


def _carried(pieces: list[str], old: str, new: str) -> Iterator[tuple[int, str]]:
    position = 0
    for at, piece in enumerate(pieces):
        start = old.find(piece, position)
        if start < 0 or not piece:
            return
        position = start + len(piece)
        if (now := _between(old[:start], new, old[position:])) is not None:
            yield at, now
            return


_SPEAKERS = {"assistant": Kind.ASSISTANT, "system": Kind.SYSTEM, "tool": Kind.TOOL_RESULT, "user": Kind.USER}
_KINDS = {
    "model_editable_context": Kind.SYSTEM,
    "reasoning_recap": Kind.NOTE,
    "thoughts": Kind.REASONING,
    "user_editable_context": Kind.SYSTEM,
}
"""The kinds of contents that do not depend on the speaker."""
_EVERYBODY = frozenset(("", "all"))
_NODE = frozenset(("children", "id", "message", "parent"))
_BESIDE = (
    ("attachments", _add_attachments),
    ("aggregate_result", _add_drawings),
    ("content_references", _add_citations),
    ("citations", _add_citations_alone),
    ("search_result_groups", _add_search_results),
)
"""Members of a message's metadata, and the functions that add the files they name."""


class ChatGptLens(JsonLens):
    """Sees nodes of a conversation's ``mapping``."""

    type_name = "chatgpt.node.v1"
    writes = tuple(_ROLES)
    time_key = ""
    times = (("message", "create_time"),)
    places: ClassVar[Places] = {
        **dict.fromkeys(("hidden", "id"), "belongs to the tree of messages: it cannot be changed"),
        "error": (*CONTENT, "name"),
        "is_error": "is what the status of the run says: it cannot be changed",
        "language": (*CONTENT, "language"),
        "model": ("message", "metadata", "model_slug"),
        # in seconds, of which a whole number may become another
        "timestamp": FieldPlace(("message", "create_time"), write=lambda value: milliseconds(value) / 1000),
    }

    def shown(self, record: JsonObject, before: Before) -> Shown:
        message = record.get("message")
        if isinstance(message, dict):
            shown = _said(record, message, before)
        else:
            own = {key: value for key, value in record.items() if key not in _NODE or key == "message"}
            blocks = argument_blocks(own, (), "node") if any(own.values()) else ()
            shown = Shown(Kind.NOTE, blocks) if blocks else BOOKKEEPING
        if not isinstance(identifier := record.get("id"), str):
            return shown
        named = record.get("parent")
        parent = before.parent(named if isinstance(named, str) else None)
        tool = shown.tool if shown.kind is Kind.TOOL_CALL else ""
        return structs.replace(shown, defines=((identifier, tool),), parent=parent)

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Iterator[tuple[ValuePath, str]]:
        if path[:2] != CONTENT:
            return
        message = as_object(record.get("message"))
        metadata = as_object(message.get("metadata"))
        if path[2:3] == ("thoughts",) and path[-1:] == ("content",):
            thoughts = as_list(as_object(message.get("content")).get("thoughts"))
            at = path[3]
            pieces = as_list(as_object(thoughts[at]).get("chunks")) if isinstance(at, int) else []
            for piece, text in _carried([piece for piece in pieces if isinstance(piece, str)], old, new):
                yield (*CONTENT, "thoughts", at, "chunks", piece), text
            return
        for place, text in _copies(metadata):
            now = _carried_within(text, old, new)
            if now is not None and now != text:
                yield place, now

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        if path == (*CONTENT, "thoughts"):
            return {"summary": "", "content": text, "chunks": [], "finished": True}
        return text if path == (*CONTENT, "parts") else None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        parent = more.id if kind is Kind.TOOL_RESULT else as_text(object_in(previous).get("id"))
        identifier = more.id if kind is Kind.TOOL_CALL and more.id else str(uuid.uuid4())
        message: JsonObject = {
            "id": identifier,
            "author": {"role": _ROLES[kind], "name": more.tool if kind is Kind.TOOL_RESULT else None, "metadata": {}},
            "create_time": now_ms / 1000,
            "update_time": None,
            "content": _new_content(kind, text, more),
            "status": "finished_successfully",
            "end_turn": True if kind is Kind.ASSISTANT else None,
            "weight": 1.0,
            "metadata": {},
            "recipient": more.tool if kind is Kind.TOOL_CALL else "all",
            "channel": None,
        }
        return _encode({"id": identifier, "message": message, "parent": parent or None, "children": []})


def _new_content(kind: Kind, text: str, more: Particulars) -> JsonObject:
    match kind:
        case Kind.REASONING:
            return {"content_type": "thoughts", "thoughts": [{"summary": "", "content": text}]}
        case Kind.TOOL_CALL:
            code = text if more.document is None else _encode(more.document).decode()
            return {"content_type": "code", "language": "unknown", "response_format_name": None, "text": code}
        case Kind.TOOL_RESULT if more.failed:
            return {"content_type": "system_error", "name": "Error", "text": text}
        case Kind.NOTE:
            return {"content_type": "reasoning_recap", "content": text}
    return {"content_type": "text", "parts": [text]}


def _said(node: JsonObject, message: JsonObject, before: Before) -> Shown:
    content, author = as_object(message.get("content")), as_object(message.get("author"))
    metadata = as_object(message.get("metadata"))
    what = content.get("content_type")
    into = Gathered(places={"tool": _place_of_tool(author)})
    _add_content(message, before, into)
    for key, add in _BESIDE:
        if metadata.get(key):
            add(message, before, into)
    if not into.blocks:
        return BOOKKEEPING
    role, recipient = author.get("role"), message.get("recipient")
    kind = _SPEAKERS.get(as_text(role), Kind.NOTE)
    if isinstance(what, str) and what in _KINDS:
        kind = _KINDS[what]
    elif kind is Kind.ASSISTANT and isinstance(recipient, str) and recipient not in _EVERYBODY:
        kind, into.tool = Kind.TOOL_CALL, recipient
        into.header["id"] = as_text(node.get("id"))
        into.blocks = [piece for block in into.blocks for piece in _arguments(block)]
    elif kind is Kind.TOOL_RESULT:
        call = as_text(node.get("parent"))
        into.tool = as_text(author.get("name")) or before.tool(call)
        run = as_object(metadata.get("aggregate_result"))
        into.header["id"] = call
        into.header["is_error"] = what == "system_error" or "exception" in as_text(run.get("status"))
    for value, name in (
        (metadata.get("model_slug"), "model"),
        (content.get("language"), "language"),
        (content.get("name"), "error"),
    ):
        if value and isinstance(value, str) and value != "unknown":
            into.header[name] = value
    if metadata.get("is_visually_hidden_from_conversation") is True:
        into.header["hidden"] = True
    return into.shown(kind)


def _place_of_tool(author: JsonObject) -> ValuePath | str:
    if author.get("role") != "tool":
        return ("message", "recipient")
    named = as_text(author.get("name"))
    return ("message", "author", "name") if named else "is that of its call: change 'tool' in the call's file"


def _arguments(block: Block) -> tuple[Block, ...]:
    """Return the arguments of a call, where they are a JSON document; code stays as it is."""
    if block.type != "text" or block.text is None or block.name or not block.path:
        return (block,)
    if not document_in(block.text):
        return (block,)
    return document_blocks(block.text, block.path, numbered("arguments", block.path))


_PARENT_ID: ValuePath = ("message", "metadata", "parent_id")


def _relinked(
    record: bytes, node: JsonObject, gone: Mapping[str, JsonObject], following: Mapping[str, list[str]]
) -> bytes:
    children = node.get("children")
    if isinstance(children, list):
        left = list(_left(children, gone))
        left += (child for child in following.get(as_text(node.get("id")), ()) if child and child not in left)
        if left != children:
            record = put(record, ("children",), b"[%b]" % b", ".join(spell(as_text(child), record) for child in left))
    told = as_text(as_object(as_object(node.get("message")).get("metadata")).get("parent_id"))
    if told in gone:
        parent = as_text(object_in(record).get("parent"))
        record = put(record, _PARENT_ID, spell(parent, record) if parent else b"null")
    return record


def _left(children: Sequence[object], gone: Mapping[str, JsonObject]) -> Iterator[object]:
    """Yield ``children``, each deleted one replaced by the nodes that followed it."""
    pending = list(reversed(children))
    seen: set[str] = set()
    while pending:
        child = pending.pop()
        if not isinstance(child, str) or child not in gone:
            yield child
        elif child not in seen:
            seen.add(child)
            pending += reversed(as_list(gone[child].get("children")))


def _tree(nodes: Sequence[JsonObject]) -> Tree:
    """Return the links between nodes; a result belongs to the call that it follows, past other results."""
    by_id = {as_text(node.get("id")): node for node in nodes}
    called: dict[str, str] = {}
    for identifier, node in by_id.items():
        follows, seen = node, {identifier}
        while _role(follows) == "tool" and (above := as_text(follows.get("parent"))) in by_id and above not in seen:
            seen.add(above)
            follows = by_id[above]
        if _role(node) == "tool" and _is_call(follows):
            called[identifier] = as_text(follows.get("id"))

    def calls(node: JsonObject) -> Iterator[CallLink]:
        identifier = as_text(node.get("id"))
        if call := called.get(identifier):
            yield CallLink((), 0, call, False)
        elif identifier and _is_call(node):
            yield CallLink((), 0, identifier, True)

    return Tree("id", "parent", ("parent",), calls)


def _role(node: JsonObject) -> str:
    return as_text(as_object(as_object(node.get("message")).get("author")).get("role"))


def _is_call(node: JsonObject) -> bool:
    return _role(node) == "assistant" and as_text(as_object(node.get("message")).get("recipient")) not in ("", "all")


_mapping = re.compile(
    rb'(?<!\\)"mapping"\s*+:\s*+\{\s*+(?:\}|"(?:[^"\\]|\\.)*+"\s*+:\s*+\{\s*+"(?:id|message|parent|children)"\s*+:)'
)
_usual_start = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"title"\s*+:\s*+(?:"(?:[^"\\]|\\.)*+"|null)\s*+,'
    rb'\s*+"create_time"\s*+:\s*+[0-9.eE+-]++\s*+,\s*+"update_time"\s*+:',
    re.DOTALL,
)
_is_file = re.compile(
    r"(?:conversation_asset_file_names|export_manifest|group_chats|library_files|message_feedback|model_comparisons"
    r"|shared_conversations|shopping|sora|user|user_settings)\.json"
).fullmatch
"""The other files of an export; not ``chat.html``, which repeats all conversations."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_is_asset = re.compile(
    r"file[-_][0-9A-Za-z].*|[\w-]+\.dat|" + _UUID + r"\.(?:gif|jpe?g|png|wav|webp)", re.DOTALL
).fullmatch
_is_folder = re.compile(r"dalle-generations|user-[\w-]+|audio|" + _UUID).fullmatch
_TOLD = {"default_model_slug": "model", "gizmo_id": "gpt"}


class _Message(Struct):
    create_time: object = None


class _Node(Struct):
    id: object = None
    parent: object = None
    message: _Message | None = None


_node = msgspec.json.Decoder(_Node).decode


class ChatGpt(ExportFormat):
    """OpenAI's ChatGPT."""

    name = "chatgpt"
    lenses = (ChatGptLens(),)
    main_type = ChatGptLens.type_name
    holder, holds, usual_start = "mapping", _mapping, _usual_start
    keyed = "id"
    leaf = ("current_node", "id")
    read = frozenset(("conversation_id", "create_time", "current_node", "id", "title", *_TOLD))

    def belongs(self, name: str, is_folder: bool) -> bool:
        return bool(_is_folder(name)) if is_folder else bool(_is_file(name) or _is_asset(name))

    def told(self, members: JsonObject, records: Sequence[bytes]) -> About:
        session = as_text(members.get("conversation_id")) or as_text(members.get("id"))
        extra = {name: value for key, name in _TOLD.items() if (value := as_text(members.get(key)))}
        title, started = first_line(as_text(members.get("title"))), of_seconds(members.get("create_time"))
        return About(title, self.name, started, session, extra, titled=Titled.BY_TOOL)

    def node(self, record: bytes) -> Node:
        node = _node(record)
        time = of_seconds(node.message.create_time) if node.message else 0
        return Node(as_text(node.id), as_text(node.parent), time)

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        for identifier in named_files(payload):
            yield ExternalBlob(ALGORITHM, identifier.encode(), partial(self._read, source.path, identifier))

    def _read(self, path: Path, identifier: str) -> bytes:
        name = _by_id(export_format.files_beside(path, self.belongs)).get(identifier)
        if name is None:
            raise NotFound(f"{identifier} is not among the files of {path.name}")
        return export_format.read_beside(path, name)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other nodes, linked past those that are gone; calls and their results go together.

        A node also names its children: there, the children of a deleted node take its place, and nodes that a person
        added come last.
        """
        nodes = [object_in(record) for record in records]
        kept = _tree(nodes).without(records, deleted)
        present = {as_text(nodes[at].get("id")) for at in kept}
        gone = {key: node for node in nodes if (key := as_text(node.get("id"))) and key not in present}
        following: dict[str, list[str]] = {}
        for at in kept:
            following.setdefault(as_text(nodes[at].get("parent")), []).append(as_text(nodes[at].get("id")))
        return [_relinked(record, nodes[at], gone, following) for at, record in kept.items()]
