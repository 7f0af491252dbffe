"""Changes that a person made in the file of an event, as an edit of the event.

Texts may change, and the fields of :data:`EDITABLE`. All else that is drawn (the number, the time, what the blocks are
and in which order they stand) is there to be read: where it was changed, the file is refused, with the line.
"""

import json
import re
from collections import Counter
from typing import NoReturn

from fusefs.text.grammar import HEAD_LINE, OPENING_FENCE, quote, scalar
from fusefs.text.parse import Field, ParsedBlock, ParseError, Value, parse_event, shorten
from store.events.event import Block, BlockEdit, Event, EventEdit, FieldEdit

EDITABLE = frozenset({"tool", "is_error", "model", "stop_reason", "api_error", "level", "default"})
"""Fields that may change, numbered ones (``is_error_2``) too; whether one can in a certain event, its lens says."""

_NUMBERED = re.compile(r"_[0-9]+$")


def changes(number: int, event: Event, drawn: bytes, data: bytes) -> EventEdit:
    """Return the edit that leads from ``drawn``, the file of event ``number``, to ``data``; raises :class:`ParseError`.

    A file without any head changes no field: all of it is content.
    """
    if data == drawn:
        return EventEdit()
    if not data:
        reason = "the file is empty: to empty the text, leave the head; to delete the event, remove its file"
        raise ParseError(1, reason)
    if event.lossy:
        reason = f"event {number} is read-only, its record is not valid Unicode or JSON: take the change back"
        raise ParseError(_first_difference(drawn, data), reason)
    old, new = parse_event(drawn), parse_event(data)
    fields: list[FieldEdit] = []
    if new.head or new.header:
        lines = drawn.decode().split("\n")
        fields += _field_edits(old.head, new.head, lines, own=True)
        fields += _field_edits(old.header, new.header, lines, own=False)
        _check_missing(old.head, new.head, lines)
        _check_missing(old.header, new.header, lines)
    else:
        _refuse_half_a_head(drawn, data)
    return EventEdit(_block_edits(event.blocks, old.blocks, new.blocks, _last_line(data)), tuple(fields))


def _last_line(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _first_difference(drawn: bytes, data: bytes) -> int:
    pairs = zip(drawn.split(b"\n"), data.split(b"\n"), strict=False)
    return next((line for line, (left, right) in enumerate(pairs, 1) if left != right), _last_line(data))


# The head


def _field_edits(old: dict[str, Field], new: dict[str, Field], lines: list[str], *, own: bool) -> list[FieldEdit]:
    """Compare the head's own fields or all others; ``lines`` are those of the file as it was drawn."""
    edits: list[FieldEdit] = []
    for key, field in new.items():
        before = old.get(key)
        if before is not None and _same(before.value, field.value):
            continue
        if not _is_editable(key, own=own):
            if before is None:
                raise ParseError(field.line, f"an event has no field {shorten(key)} to write: remove this line")
            raise ParseError(field.line, f"{shorten(key)} cannot be changed: write back {lines[before.line - 1]}")
        if before is not None:
            _check_type(key, before.value, field)
        edits.append(FieldEdit(key, field.value))
    return edits


def _check_missing(old: dict[str, Field], new: dict[str, Field], lines: list[str]) -> None:
    for key, field in old.items():
        if key not in new:
            raise ParseError(1, f"a field is missing from the head: write back {lines[field.line - 1]}")


def _is_editable(key: str, *, own: bool) -> bool:
    # an event's own field may be called "tool" as well, but no edit could say so
    return key == "tool" if own else key != "tool" and _NUMBERED.sub("", key) in EDITABLE


def _same(left: Value, right: Value) -> bool:
    return type(left) is type(right) and (left == right or (left != left and right != right))


def _check_type(key: str, before: Value, field: Field) -> None:
    if isinstance(before, bool):
        if not isinstance(field.value, bool):
            raise ParseError(field.line, f"{shorten(key)} is true or false: write one of these")
    elif isinstance(before, str):
        if not isinstance(field.value, str):
            reason = f"{shorten(key)} is a text: write {quote(scalar(field.value))}, in double quotes"
            raise ParseError(field.line, reason)
    elif isinstance(field.value, (bool, str)):
        raise ParseError(field.line, f"{shorten(key)} is a number: write one, as {scalar(before)}")


def _refuse_half_a_head(drawn: bytes, data: bytes) -> None:
    """Refuse a file that lost the line which begins the head, but not all of the head."""
    lines = [line.strip() for line in drawn.decode().split("\n")]
    head = lines[1 : lines.index(HEAD_LINE, 1)]
    for number, line in enumerate(data.decode("utf-8-sig").splitlines()[: len(head) + 2], 1):
        if line.strip() in head:
            reason = f"this line is one of the head's: begin the head in line 1 with {HEAD_LINE}"
            raise ParseError(number, f"{reason}, or remove all of it")


# The content


def _block_edits(
    blocks: tuple[Block, ...], old: tuple[ParsedBlock, ...], new: tuple[ParsedBlock, ...], last: int
) -> tuple[BlockEdit, ...]:
    """Compare blocks; ``last`` is the number of the file's last line."""
    if not new and len(old) == 1 and _is_unnamed_text(old[0]):
        # nothing at all is an empty text whose newline is gone
        new = (ParsedBlock("text", "", last),)
    elif not old and len(new) == 1 and not new[0].opening and not (new[0].text or "").strip():
        return ()
    _check_openings(old, new, last)
    edits: list[BlockEdit] = []
    for block, before, after in zip(blocks, old, new, strict=True):
        if after.text is None:
            if before.opening != after.opening:
                raise ParseError(after.line, f"this link stands for what is not text: write back {before.opening}")
        elif before.text != after.text:
            edits.append(_block_edit(block, after.text, after.line))
    return tuple(edits)


def _block_edit(block: Block, text: str, line: int) -> BlockEdit:
    """Return the edit that gives ``block`` a new text; ``line`` is that of its fence."""
    if block.type == "image" or block.type == "artifact":  # noqa: PLR1714  (mypy narrows the type by it)
        raise ParseError(line, f"the text of an {block.type} cannot be changed here: take the change back")
    if block.type == "json":
        _check_json(text, line)
    return BlockEdit(block.path, text, block.name, block.type, block.encoding)


def _check_json(text: str, line: int) -> None:
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = f"this is not JSON, in column {error.colno} ({error.msg}): correct it"
        raise ParseError(line + error.lineno, reason) from None
    except (ValueError, RecursionError) as error:
        raise ParseError(line, f"this block is not JSON ({error}): correct it") from None


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"there is no {literal}")


def _is_unnamed_text(block: ParsedBlock) -> bool:
    return _what(block) == ("text", "", "", "", True)


def _what(block: ParsedBlock) -> tuple[str, str, str, str, bool]:
    """Return the description of a block in a fence or a link, independent of its spelling."""
    return block.type, block.name, block.uri, block.mime, block.text is not None


def _check_openings(old: tuple[ParsedBlock, ...], new: tuple[ParsedBlock, ...], last: int) -> None:
    if new and not old:
        raise ParseError(new[0].line, "the event has no content, and can get none: remove what stands below the head")
    if old and old[0].opening and new and not new[0].opening:
        _check_unfenced(old, new[0])
        return
    was, now = [_what(block) for block in old], [_what(block) for block in new]
    at = next((at for at, (left, right) in enumerate(zip(was, now, strict=False)) if left != right), None)
    if at is None:
        if len(old) > len(new):
            raise ParseError(last, f"a block is missing at the end: write back {old[len(new)].opening}")
        if len(old) < len(new):
            raise ParseError(new[len(old)].line, "blocks cannot be added: remove this one, or make it part of a text")
        return
    line, opening = new[at].line, old[at].opening
    if not opening:
        raise ParseError(line, "the content is one text: write it as ````block text, or without a fence")
    if Counter(was) == Counter(now):
        raise ParseError(line, f"blocks cannot be moved: the one that stands here is {opening}")
    if now[at] in was[at:]:
        raise ParseError(line, f"a block is missing before this one: write back {opening}")
    if was[at] in now[at:]:
        raise ParseError(line, "blocks cannot be added: remove this one, or make it part of a text")
    raise ParseError(line, f"what a block is cannot be changed: write back {opening}")


def _check_unfenced(old: tuple[ParsedBlock, ...], text: ParsedBlock) -> None:
    """Refuse a text without a fence where blocks stood, but for that of the only one, if no fence is left in it."""
    opening = old[0].opening
    if len(old) > 1 or not _is_unnamed_text(old[0]):
        raise ParseError(text.line, f"the content stands in blocks: let it begin with {opening}")
    if left := OPENING_FENCE.search(text.text or ""):
        line = text.line + (text.text or "").count("\n", 0, left.start())
        raise ParseError(line, "the text begins before this fence: move it into the block, or remove both fences")
