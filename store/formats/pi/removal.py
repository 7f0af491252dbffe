"""Lines taken out of a session so that the program can go on with the rest."""

from collections.abc import Iterator, Mapping, Sequence, Set

from store.formats import tree_removal
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.new_literals import spell
from store.formats.splices import put
from store.formats.tree_removal import WHOLE, Shape, object_of


def without(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    """Return ``records`` without those at positions ``deleted``. See :func:`store.formats.tree_removal.without`.

    Labels go with what they mark. What a compaction kept of the messages before it begins with the next one that is
    left.
    """
    lines = [object_of(record) for record in records]
    kept = tree_removal.without(records, deleted, _SHAPE)
    while labels := set(_labels_of_nothing(lines, kept)):
        deleted = set(range(len(records))) - (kept.keys() - labels)
        kept = tree_removal.without(records, deleted, _SHAPE)
    if len(kept) < len(records):
        for at, record in kept.items():
            if lines[at].get("type") == "compaction":
                kept[at] = _keeping(record, lines[at], lines, kept)
    return list(kept.values())


def _labels_of_nothing(lines: Sequence[JsonObject], kept: Mapping[int, bytes]) -> Iterator[int]:
    left = {as_text(lines[at].get("id")) for at in kept}
    gone = {as_text(line.get("id")) for line in lines} - left
    yield from (at for at in kept if lines[at].get("type") == "label" and as_text(lines[at].get("targetId")) in gone)


def _keeping(record: bytes, line: JsonObject, lines: Sequence[JsonObject], kept: Mapping[int, bytes]) -> bytes:
    """Return a compaction that keeps what is left of the messages that it kept."""
    entries = [at for at, entry in enumerate(lines) if entry]
    index = line.get("firstKeptEntryIndex")
    if isinstance(index, int) and 0 <= index < len(entries):
        # as version 1 had it: a position among the lines that make sense
        before = sum(at in kept for at in entries[:index])
        return put(record, ("firstKeptEntryIndex",), str(before).encode()) if before != index else record
    first = next((at for at in entries if as_text(lines[at].get("id")) == line.get("firstKeptEntryId")), None)
    if first is None or first in kept:
        return record
    later = (as_text(lines[at].get("id")) for at in entries if at > first and at in kept)
    return put(record, ("firstKeptEntryId",), spell(next(filter(None, later)), record))


def _calls(line: JsonObject) -> Iterator[tuple[int, str, bool]]:
    message = as_object(line.get("message"))
    if message.get("role") == "toolResult" and (call := as_text(message.get("toolCallId"))):
        yield WHOLE, call, False
    for at, part in enumerate(as_list(message.get("content"))):
        if isinstance(part, dict) and part.get("type") == "toolCall" and (call := as_text(part.get("id"))):
            yield at, call, True


_SHAPE = Shape("id", "parentId", ("parentId", "fromId"), ("message", "content"), _calls)
