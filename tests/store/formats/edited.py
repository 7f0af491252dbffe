"""Edits of a record: the parts that stay as they were, and those that change."""

from collections.abc import Callable

from store.errors import UsageError
from store.events.event import Block, BlockEdit, Event, EventEdit, ValuePath
from store.formats.core.editing import Lens
from store.formats.core.json_spans import elements, locate, members
from tests.store.formats.earlier import Earlier


def edit_of(block: Block, text: str) -> EventEdit:
    """Return the edit that gives a block another text."""
    assert block.type in ("text", "resource", "json")
    return EventEdit((BlockEdit(block.path, text, block.name, block.type, block.encoding),))  # type: ignore[arg-type]


def leaves(payload: bytes) -> dict[ValuePath, bytes]:
    """Return the bytes of every value in a payload that holds no other, by path."""
    found: dict[ValuePath, bytes] = {}
    start, end = locate(payload, ())
    pending: list[tuple[ValuePath, int, int]] = [((), start, end)]
    while pending:
        path, start, end = pending.pop()
        inside: list[tuple[ValuePath, int, int]] = []
        if payload[start : start + 1] == b"{":
            inside = [((*path, member.key), member.value, member.end) for member in members(payload, start)]
        elif payload[start : start + 1] == b"[":
            inside = [((*path, at), *span) for at, span in enumerate(elements(payload, start))]
        else:
            found[path] = payload[start:end]
        pending += inside
    return found


def skeleton(payload: bytes, paths: set[ValuePath]) -> list[bytes]:
    """Return what stands between the values at ``paths``."""
    spans = sorted(locate(payload, path) for path in paths)
    position, pieces = 0, []
    for start, end in spans:
        pieces.append(payload[position:start])
        position = end
    return [*pieces, payload[position:]]


def changed_paths(old: bytes, new: bytes) -> set[ValuePath]:
    """Return where two payloads of the same shape differ; all bytes outside these values are the same."""
    before, after = leaves(old), leaves(new)
    assert list(before) == list(after)
    paths = {path for path, value in before.items() if value != after[path]}
    assert skeleton(old, paths) == skeleton(new, paths)
    return paths


def check_text_edit(lens: Lens, payload: bytes, before: Earlier, event: Event, at: int, text: str) -> set[ValuePath]:
    """Give block ``at`` of an event another text, check that the view changes just there, and return what changed."""
    block = event.blocks[at]
    edited = lens.edit(payload, edit_of(block, text), before)
    now = lens.view(edited, before)
    for which, (one, other) in enumerate(zip(event.blocks, now.blocks, strict=True)):
        if which == at:
            assert (other.text, other.path, other.encoding) == (text, one.path, one.encoding)
        else:
            assert one == other
    assert (now.tool, now.header, now.time_ms, now.parent) == (event.tool, event.header, event.time_ms, event.parent)
    if now.kind is event.kind:
        assert [key for key, _ in now.defines] == [key for key, _ in event.defines]
    assert len(now.resources) == len(event.resources)
    paths = changed_paths(payload, edited)
    # where the block is of a document in a string, that string changes
    assert any(block.path[: len(path)] == path for path in paths)
    return paths


def made_or_refused(edit: Callable[[], bytes]) -> bytes | str:
    """Return what an edit makes, or in which one line it is refused."""
    try:
        return edit()
    except UsageError as error:
        told = str(error)
    assert told
    assert "\n" not in told
    return told
