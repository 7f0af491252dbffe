"""Messages and their parts, which say the same in a database and in files: only where they stand differs."""

import re
from collections.abc import Callable, Iterator
from enum import Enum

from store.events.event import Block, BlockType, Compaction, Kind, Path, Resource
from store.formats.blocks import argument_blocks
from store.formats.json_view import JsonObject, as_list, as_object, as_text, scalar
from store.formats.media import from_base64
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.twins import carried, texts_in

BOOKKEEPING_PARTS = frozenset(("agent", "compaction", "patch", "snapshot", "step-finish", "step-start"))
_ENVELOPE = frozenset(("id", "messageID", "sessionID", "time", "type"))
_data_url = re.compile(r"data:([^;,]*)[^,]*;base64,").match
_LONG = 20
"""Shorter texts than this say the same by chance."""


class Speaker(Enum):
    """Whose message a part is of."""

    USER = "user"
    MODEL = "assistant"
    SUMMARY = "summary"
    """The model's, in the place of all before it."""


def speaker_of(message: JsonObject) -> Speaker:
    """Return whose a message is."""
    if message.get("role") == "user":
        return Speaker.USER
    return Speaker.SUMMARY if message.get("summary") is True else Speaker.MODEL


def view_message(message: JsonObject, path: Path) -> Shown:
    """View a message: its parts are records of their own, so that only a failure or a prompt of its own is left."""
    if isinstance(system := message.get("system"), str) and system:
        return Shown(Kind.SYSTEM, (Block("text", system, path=(*path, "system")),))
    error = as_object(message.get("error"))
    told = as_object(error.get("data")).get("message")
    if not isinstance(told, str):
        blocks = argument_blocks(error, (*path, "error"), "error")
        return Shown(Kind.NOTE, blocks, header={"record": "error"}) if blocks else BOOKKEEPING
    header: Header = {"record": "error"}
    if (name := scalar(error.get("name"))) is not None:
        header["error"] = name
    return Shown(Kind.NOTE, (Block("text", told, path=(*path, "error", "data", "message")),), header=header)


def view_part(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    """View a part of a message."""
    what = part.get("type")
    if isinstance(what, str):
        if what in BOOKKEEPING_PARTS:
            return BOOKKEEPING
        if (view := _VIEWS.get(what)) is not None:
            return view(part, path, speaker)
    own = {key: value for key, value in part.items() if key not in _ENVELOPE}
    kind = scalar(what)
    return Shown(Kind.NOTE, argument_blocks(own, path, "part"), header={"record": kind} if kind is not None else {})


def twins_of(part: JsonObject, path: Path, place: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
    """Yield where else ``part``, at ``path``, says what a tool put out: among what the program notes of it."""
    if place != (*path, "state", "output") or len(old) < _LONG:
        return
    noted = as_object(part.get("state")).get("metadata")
    for where, text in texts_in(noted, (*path, "state", "metadata")):
        if len(text) >= _LONG and (now := carried(text, old, new)) is not None and now != text:
            yield where, now


def _text(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    text = part.get("text")
    if not isinstance(text, str) or not text:
        return BOOKKEEPING
    kind = {Speaker.USER: Kind.USER, Speaker.MODEL: Kind.ASSISTANT, Speaker.SUMMARY: Kind.SUMMARY}[speaker]
    if speaker is Speaker.USER and part.get("synthetic") is True:
        kind = Kind.SYSTEM
    said = (Block("text", text, path=(*path, "text")),)
    return Shown(kind, said, compaction=Compaction(said) if kind is Kind.SUMMARY else None)


def _reasoning(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    if not isinstance(text := part.get("text"), str) or not text:
        return BOOKKEEPING
    return Shown(Kind.REASONING, (Block("text", text, path=(*path, "text")),))


def _file(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    block, resource = _attached(part, path)
    kind = Kind.USER if speaker is Speaker.USER else Kind.NOTE
    return Shown(kind, (block,), resources=(resource,) if resource else ()) if block.text or block.data else BOOKKEEPING


def _tool(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    """View a call of a tool with what came of it: the program keeps both in one part."""
    state, place = as_object(part.get("state")), (*path, "state")
    call, tool = as_text(part.get("callID")), as_text(part.get("tool"))
    header: Header = {"id": call} if call else {}
    status = as_text(state.get("status"))
    if status != "completed":
        header["status"] = status
    if status in ("completed", "error"):
        header["is_error"] = status == "error"
    blocks = list(argument_blocks(state.get("input"), (*place, "input"), "arguments"))
    for key, name in (("output", "result"), ("error", "error")):
        if isinstance(text := state.get(key), str):
            blocks.append(Block("text", text, name=name, path=(*place, key)))
    resources: list[Resource] = []
    for at, item in enumerate(as_list(state.get("attachments"))):
        block, resource = _attached(as_object(item), (*place, "attachments", at), "result")
        blocks.append(block)
        resources += [resource] if resource else []
    defines = ((call, tool),) if call else ()
    return Shown(Kind.TOOL_CALL, tuple(blocks), tool, header, defines, tuple(resources))


def _subtask(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    header: Header = {"record": "subtask"}
    if (agent := scalar(part.get("agent"))) is not None:
        header["agent"] = agent
    keys = [key for key in ("description", "command", "prompt") if isinstance(part.get(key), str)]
    blocks = tuple(Block("text", as_text(part[key]), name=key, path=(*path, key)) for key in keys)
    return Shown(Kind.NOTE, blocks, header=header) if blocks else BOOKKEEPING


def _retry(part: JsonObject, path: Path, speaker: Speaker) -> Shown:
    return Shown(Kind.NOTE, argument_blocks(part.get("error"), (*path, "error"), "error"), header={"record": "retry"})


def _attached(part: JsonObject, path: Path, name: str = "") -> tuple[Block, Resource | None]:
    """Return a file that was attached: its content where it is here, else where it is."""
    url, place = as_text(part.get("url")), (*path, "url")
    named = _data_url(url)
    data = from_base64(url[named.end() :]) if named else None
    if named is None or data is None:
        return Block("text", url, name=name or "file", path=place), None
    mime = as_text(part.get("mime")) or named[1] or "application/octet-stream"
    uri = f"attachment:{as_text(part.get('id')) or 'part'}/{as_text(part.get('filename')) or 'file'}"
    shape: BlockType = "image" if mime.startswith("image/") else "resource"
    return Block(shape, data=data, name=name, uri=uri, mime=mime), Resource(uri, mime, data)


_VIEWS: dict[str, Callable[[JsonObject, Path, Speaker], Shown]] = {
    "file": _file,
    "reasoning": _reasoning,
    "retry": _retry,
    "subtask": _subtask,
    "text": _text,
    "tool": _tool,
}
