"""What edits of all formats have in common: finding what they change, and checking that it shows as it was written."""

from collections.abc import Iterator

from store.errors import UsageError
from store.events.edit import BlockEdit
from store.events.event import Block, Event, Kind, Path
from store.formats.json_spans import spelled_path
from store.formats.times import milliseconds

Value = str | int | float | bool


def block_of(event: Event, change: BlockEdit) -> Block:
    """Return the block that an edit changes. Raises UsageError where the event has none such."""
    for block in event.blocks:
        if block.path == change.path and (block.type == "json") == (change.type == "json") and block.text is not None:
            return block
    raise UsageError(f"the event has no {change.type} at {spelled_path(change.path)}: read it again, then edit")


def check_blocks(now: Event, texts: list[tuple[Block, str]], *, moved: bool) -> None:
    """Refuse an edit after which the event does not show what was written, in a block or within a JSON document."""
    if now.kind is Kind.RECORD:
        raise UsageError("the event would have nothing left to show: delete its file instead of emptying it")
    if moved:
        return
    for block, text in texts:
        shown = any(other.text == text and begins(other.path, block.path) for other in now.blocks)
        if shown or any(other.type == "json" and begins(block.path, other.path) for other in now.blocks):
            continue
        if not text:
            raise UsageError("an empty text would not be shown any more: write something, or delete the event")
        raise UsageError("the record cannot hold this text as it is written: leave out NUL characters")


def begins(path: Path, start: Path) -> bool:
    """Say whether a path leads to a place, or into it."""
    return path[: len(start)] == start


def check_field(now: Event, key: str, value: Value) -> None:
    """Refuse an edit after which a field of the head does not show what was written."""
    if now.kind is Kind.RECORD:
        raise UsageError(f"with this {key!r} the event would have nothing to show: delete its file instead")
    if key == "timestamp":
        shown: Value = now.time_ms
        if not (value := milliseconds(value)):
            raise UsageError("'timestamp' is a time as 2026-03-05T19:31:54.356Z")
    else:
        shown = now.tool if key == "tool" else now.header.get(key, False if value is False else "")
    if shown != value:
        raise UsageError(f"{key!r} cannot be {value!r} in this record")


def check_type(key: str, present: object, wanted: Value) -> None:
    """Refuse a value of another type than the one that a field has."""
    for kind, told in ((bool, "true or false"), (str, "a text: put it in double quotes"), ((int, float), "a number")):
        if isinstance(present, kind):
            if not isinstance(wanted, kind) or (isinstance(wanted, bool) and kind is not bool):
                raise UsageError(f"{key!r} is {told}")
            return


def value_at(value: object, path: Path) -> object:
    """Return what stands at a path of a parsed payload, None where nothing does."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def changed_texts(old: object, new: object, path: Path = ()) -> Iterator[tuple[Path, str, str]]:
    """Yield the texts that are others in the new document, each with its place and what it was and is."""
    if isinstance(old, str) and isinstance(new, str):
        if old != new:
            yield path, old, new
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() & new.keys():
            yield from changed_texts(old[key], new[key], (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from changed_texts(one, other, (*path, at))
