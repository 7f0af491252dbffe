"""What a node says twice: code that was run and what came of it, thoughts in pieces, what a user said of themselves."""

from collections.abc import Iterator

from store.events.event import Path
from store.formats.chatgpt.content import CONTENT
from store.formats.json_view import JsonObject, as_list, as_object

_METADATA: Path = ("message", "metadata")
_RUN: Path = (*_METADATA, "aggregate_result")


def twins(node: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
    """Yield the other texts of ``node`` to change, and to what, where that at ``path`` changes from old to new."""
    if path[:2] != CONTENT:
        return
    message = as_object(node.get("message"))
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


def _copies(metadata: JsonObject) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a message's metadata that its content says too."""
    run = as_object(metadata.get("aggregate_result"))
    places: list[tuple[Path, object]] = [((*_RUN, key), run.get(key)) for key in ("code", "final_expression_output")]
    for at, told in enumerate(as_list(run.get("messages"))):
        places.append(((*_RUN, "messages", at, "text"), as_object(told).get("text")))
    context = as_object(metadata.get("user_context_message_data"))
    for key in ("about_user_message", "about_model_message"):
        places.append(((*_METADATA, "user_context_message_data", key), context.get(key)))
    for place, text in places:
        if isinstance(text, str) and text.strip():
            yield place, text


def _carried_within(twin: str, old: str, new: str) -> str | None:
    """Return what ``twin`` becomes, which is ``old`` or stands in it once; None where that cannot be told."""
    before, found, after = old.partition(twin)
    if not found or twin in after:
        return None
    if new.startswith(before) and new.endswith(after) and len(new) >= len(before) + len(after):
        return new[len(before) : len(new) - len(after)]
    return None


def _carried(pieces: list[str], old: str, new: str) -> Iterator[tuple[int, str]]:
    """Yield which of the pieces that ``old`` is made of changes, and to what."""
    position = 0
    for at, piece in enumerate(pieces):
        start = old.find(piece, position)
        if start < 0 or not piece:
            return
        position = start + len(piece)
        before, after = old[:start], old[position:]
        if new.startswith(before) and new.endswith(after) and len(new) >= len(before) + len(after):
            yield at, new[len(before) : len(new) - len(after)]
            return
