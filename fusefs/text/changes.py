"""Changes that a person made in the file of an event, as an edit of the event.

Texts may change, what blocks there are and in which order, and the fields of the head but the number, the type and the
parent. Whether a certain record can hold that, its lens says; what no record could is refused here, with the line.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NoReturn

from fusefs.text.grammar import HEAD_LINE, OPENING_FENCE, is_plain, quote, scalar
from fusefs.text.parse import Field, ParsedBlock, ParseError, Value, parse_event, shorten
from store.errors import UsageError
from store.events.event import Block, BlockEdit, Event, EventEdit, FieldEdit, NewBlock
from store.results import to_texts, with_documents

_ADDABLE = frozenset({"tool", "is_error", "model", "stop_reason", "api_error", "level", "default", "timestamp"})
"""Fields that a head may get, numbered ones (``is_error_2``) too; whether it can in a certain event, its lens says."""

_NUMBERED = re.compile(r"_[0-9]+$")
_MOST_COMPARED = 2000
"""The characters of a text that tell which of several it was."""


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
    shown = with_documents(event)
    before = old.blocks
    if shown is not event and is_plain(event.blocks) and _is_whole(new.blocks):
        # a document is drawn in blocks; whoever writes a text in its place means all of it
        shown, before = event, (ParsedBlock("text", event.blocks[0].text, 1),)
    edits, order = _block_edits(shown.blocks, before, new.blocks, _last_line(data))
    try:
        return to_texts(event, EventEdit(edits, tuple(fields), order))
    except UsageError as error:
        raise ParseError(_first_difference(drawn, data), str(error)) from None


def _is_whole(blocks: tuple[ParsedBlock, ...]) -> bool:
    """Return whether the content of a file is one text, in a fence or with none left in it."""
    if len(blocks) != 1 or not _is_unnamed_text(blocks[0]):
        return False
    return blocks[0].opening != "" or not OPENING_FENCE.search(blocks[0].text or "")


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
        if not _is_editable(key, own=own, added=before is None):
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


def _is_editable(key: str, *, own: bool, added: bool) -> bool:
    # an event's own field may be called "tool" as well, but no edit could say so
    if own or key == "tool":
        return own and key == "tool"
    return not added or _NUMBERED.sub("", key) in _ADDABLE


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
) -> tuple[tuple[BlockEdit, ...], tuple[int | NewBlock, ...] | None]:
    """Compare blocks: return the new texts, and what the blocks are to be if these are not the same ones in order.

    ``last`` is the number of the file's last line.
    """
    if not new and len(old) == 1 and _is_unnamed_text(old[0]):
        # nothing at all is an empty text whose newline is gone
        new = (ParsedBlock("text", "", last),)
    elif not old and len(new) == 1 and not new[0].opening and not (new[0].text or "").strip():
        return (), None
    unfenced = old and old[0].opening and new and not new[0].opening
    if unfenced:
        _check_unfenced(old, new[0])
    was = range(1) if unfenced else _alignment(old, new)
    edits: list[BlockEdit] = []
    order: list[int | NewBlock] = []
    for at, after in zip(was, new, strict=True):
        if at < 0:
            order.append(_new_block(old, after))
            continue
        order.append(at)
        if after.text is None:
            if old[at].opening != after.opening:
                raise ParseError(after.line, f"this link stands for what is not text: write back {old[at].opening}")
        elif old[at].text != after.text:
            edits.append(block_edit(blocks[at], after.text, after.line))
    return tuple(edits), None if order == list(range(len(old))) else tuple(order)


def _alignment(old: Sequence[ParsedBlock], new: Sequence[ParsedBlock]) -> Sequence[int]:
    """Return which block each of the new ones was before, -1 for those that were none."""
    was, now = [_what(block) for block in old], [_what(block) for block in new]
    before, after = (Counter((block.text, block.opening) for block in blocks) for blocks in (old, new))
    if was == now and (before != after or all(one.text == other.text for one, other in zip(old, new, strict=True))):
        return range(len(old))
    found = [-1] * len(new)
    left = set(range(len(old)))

    def pair(at: int, which: int) -> None:
        found[which] = at
        left.discard(at)

    for which, block in enumerate(new):
        for at in sorted(left):
            if was[at] == now[which] and old[at].text == block.text and old[at].opening == block.opening:
                pair(at, which)
                break
    for what in dict.fromkeys(now):
        ours = [at for at in sorted(left) if was[at] == what]
        theirs = [which for which, place in enumerate(found) if place < 0 and now[which] == what]
        if len(ours) != len(theirs) and ours and theirs:
            alike = sorted((-_likeness(old[at], new[which]), at, which) for at in ours for which in theirs)
            for _ratio, at, which in alike:
                if at in left and found[which] < 0:
                    pair(at, which)
        else:
            for at, which in zip(ours, theirs, strict=False):
                pair(at, which)
    for at in sorted(left):
        if at < len(new) and found[at] < 0:
            reason = f"what a block is cannot be changed: write back {old[at].opening or '````block text'}"
            raise ParseError(new[at].line, reason)
    return found


def _likeness(one: ParsedBlock, other: ParsedBlock) -> float:
    old, new = ((block.text or "")[:_MOST_COMPARED] for block in (one, other))
    return SequenceMatcher(None, old, new, autojunk=False).quick_ratio()


def _new_block(old: Sequence[ParsedBlock], block: ParsedBlock) -> NewBlock:
    """Return a block that the event has not had; one that is no text can only be there once more."""
    if block.text is None:
        like = next((at for at, one in enumerate(old) if one.opening == block.opening), -1)
        if like < 0:
            reason = "this link leads to nothing that the event holds: add what is not text in events.json"
            raise ParseError(block.line, reason)
        return NewBlock(block.type, None, block.name, like)
    if block.type not in ("text", "json"):
        raise ParseError(block.line, f"a block of the type {block.type} cannot be added by hand: add it in events.json")
    if block.type == "json":
        _check_json(block.text, block.line)
    return NewBlock(block.type, block.text, block.name)


def block_edit(block: Block, text: str, line: int) -> BlockEdit:
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


def _check_unfenced(old: tuple[ParsedBlock, ...], text: ParsedBlock) -> None:
    """Refuse a text without a fence where blocks stood, but for that of the only one, if no fence is left in it."""
    opening = old[0].opening
    if len(old) > 1 or not _is_unnamed_text(old[0]):
        raise ParseError(text.line, f"the content stands in blocks: let it begin with {opening}")
    if left := OPENING_FENCE.search(text.text or ""):
        line = text.line + (text.text or "").count("\n", 0, left.start())
        raise ParseError(line, "the text begins before this fence: move it into the block, or remove both fences")
