"""Messages that stand inside a document of their session: cut out of it, and put back.

What is left of the document is its frame: the list or the object that held the messages is empty there.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise

import msgspec
from msgspec import Struct

from store.errors import DamageError, UsageError
from store.events.event import ValuePath
from store.formats.core import sqlite
from store.formats.core.json_spans import elements, locate, members
from store.formats.core.json_view import as_list, as_text, decode, is_json, is_json_line, object_in, place, value_in
from store.formats.core.splices import is_spaced, put, spell
from store.formats.declared.description import Database

MOST_ITEMS = 200_000
"""The most messages that one document may have, and other values: each takes up to a kilobyte of memory."""
_OBJECT, _LIST = b"{["
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Item(Struct, frozen=True):
    """A message: its JSON, its position among the others (-1: it is new), and its key, if it is a member."""

    json: bytes
    at: int = -1
    key: str = ""


_blanks = re.compile(r'("(?:[^"\\]|\\.)*+")|\s+').sub


def on_one_line(document: str) -> bytes | None:
    """Return a JSON document without blanks between values, if it has line breaks; None where it is none."""
    if document.lstrip()[:1] not in ("{", "["):
        return None
    try:
        if "\n" in document or "\r" in document:
            try:
                document = msgspec.json.format(document, indent=-1)
            except msgspec.DecodeError:
                # it refuses half a character, too
                document = _blanks(r"\1", document) if is_json(document.encode()) else ""
                if "\n" in document or "\r" in document:
                    return None
        # what cannot be read cannot be cut, nor can what it is put into be read
        line = document.strip("\0 \t\r\n").encode()
        return line if sqlite.fits_a_line(line) else None
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def whole_on_one_line(held: bytes) -> bytes | None:
    """Return what :func:`on_one_line` does of a large document in bytes, as it is or compressed, with few copies."""
    if is_json_line(held):
        return held
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if is_json_line(line := msgspec.json.format(held, indent=-1)):
            return line
    text = sqlite.unpacked(held)
    return on_one_line(text) if text is not None else None


def units(document: bytes, each: str) -> Iterator[tuple[str, bytes]]:
    """Yield the sessions of a document with their places: all of it, or the elements of a list in it.

    Raises DamageError for more than could be held, as :func:`cut` does.
    """
    _check_few(document, 0, len(document))
    if not each:
        yield "", document
        return
    for at, unit in enumerate(_elements(document, place(each))[2]):
        yield f"{each}.{at}", unit


def cut(unit: bytes, said: Database) -> tuple[bytes, list[Item]]:
    """Return the frame of a session's document, and its messages."""
    for spelled in said.items:
        try:
            start, end = locate(unit, place(spelled[:-2]))
        except UsageError:
            continue
        if not (found := _items(unit, start, end)):
            continue
        frame = unit[:start] + (b"{}" if unit[start] == _OBJECT else b"[]") + unit[end:]
        found = [side for item in found for side in _sides(item, said.sides)]
        return _without_copies(frame, place(said.copies), found) if said.copies else frame, found
    return unit, []


def filled(frame: bytes, given: Sequence[Item], said: Database) -> bytes:
    """Return the document of a session: its frame with messages, new ones after the one that they come after."""
    holder = next((place(one[:-2]) for one in said.items if _holds(frame, place(one[:-2]))), None)
    if holder is None or not given:
        return frame
    placed: list[tuple[int, int, Item]] = []
    for number, item in enumerate(given):
        placed.append((item.at if item.at >= 0 else placed[-1][0] if placed else -1, number, item))
    kept = [item for _at, _number, item in sorted(placed, key=lambda one: one[:2])]
    if said.follows:
        frame, kept = _linked(frame, kept, said)
    comma, colon = (b", ", b": ") if is_spaced(frame) else (b",", b":")
    if said.sides:
        kept = list(_together(kept, said.sides, comma))
    if said.copies:
        frame = _with_copies(frame, place(said.copies), kept, comma)
    if frame[locate(frame, holder)[0]] == _OBJECT:
        return put(frame, holder, b"{%b}" % comma.join(spell(_key(one), frame) + colon + one.json for one in kept))
    return put(frame, holder, b"[%b]" % comma.join(one.json for one in kept))


def _linked(frame: bytes, items: Sequence[Item], said: Database) -> tuple[bytes, list[Item]]:
    """Return a frame and messages that lead to each other in both directions, and to the last one."""
    parsed = {_key(item): object_in(item.json) for item in items}
    above = {key: as_text(message.get(said.follows)) for key, message in parsed.items()}
    if not any(above.values()):
        return frame, list(items)
    linked: list[Item] = []
    for item in items:
        key = _key(item)
        listed = parsed[key].get(said.followed)
        if isinstance(listed, list):
            below = [one for one in listed if one in above]
            below += [one for one, parent in above.items() if parent == key and one not in below]
            if below != listed:
                item = Item(put(item.json, (said.followed,), msgspec.json.encode(below)), item.at, item.key)
        linked.append(item)
    current = seen = as_text(value_in(frame, place(said.current)))
    added = {above[_key(item)]: _key(item) for item in items if item.at < 0}
    if current not in above:
        current = next(reversed(above))
    while current in added:
        # what a person writes after the last message is the last one now
        current = added.pop(current)
    if current != seen and said.current:
        frame = put(frame, place(said.current), spell(current, frame))
        if said.copies and all(isinstance(one, str) for one in as_list(value_in(frame, place(said.copies)))):
            way: list[str] = []
            while current in above and current not in way:
                way.insert(0, current)
                current = above[current]
            frame = put(frame, place(said.copies), msgspec.json.encode(way))
    return frame, linked


def _sides(item: Item, sides: Sequence[str]) -> Iterator[Item]:
    """Yield a message in pieces, each of which begins with one of the members ``sides``."""
    try:
        found = list(members(item.json, 0)) if sides and item.json.startswith(b"{") else []
    except UsageError:
        found = []
    starts = [at for at, one in enumerate(found) if at and one.key in sides]
    if not starts:
        yield item
        return
    for first, beyond in pairwise((0, *starts, len(found))):
        yield Item(b"{%b}" % item.json[found[first].start : found[beyond - 1].end], item.at, item.key)


def _together(items: Sequence[Item], sides: Sequence[str], comma: bytes) -> Iterator[Item]:
    """Yield whole messages: a piece joins the one before it if that is of the same message, or has no such side yet."""
    whole: Item | None = None
    for item in items:
        if whole is not None and item.at in (whole.at, -1) and _side(item, sides) > _side(whole, sides) >= 0:
            whole = Item(whole.json[:-1] + comma + item.json[1:], whole.at, whole.key)
            continue
        if whole is not None:
            yield whole
        whole = item
    if whole is not None:
        yield whole


def _side(item: Item, sides: Sequence[str]) -> int:
    """Return the position of the last of ``sides`` that a message has, -1 if it has none."""
    held = object_in(item.json)
    return max((at for at, side in enumerate(sides) if side in held), default=-1)


def _key(item: Item) -> str:
    return item.key or as_text(object_in(item.json).get("id"))


def _elements(document: bytes, path: ValuePath) -> tuple[int, int, list[bytes]]:
    """Return where a list in a document begins and ends, and its elements; none where there is no list."""
    try:
        start, end = locate(document, path)
        found = _items(document, start, end) if document[start] != _OBJECT else []
        return start, end, [item.json for item in found]
    except UsageError:
        return 0, 0, []


def _holds(document: bytes, path: ValuePath) -> bool:
    try:
        start, end = locate(document, path)
    except UsageError:
        return False
    return document[start:end] in (b"[]", b"{}")


def _items(document: bytes, start: int, end: int) -> list[Item]:
    """Return the members of the object, or the elements of the list, that stands at a place of a document.

    Raises DamageError for more than could be held.
    """
    _check_few(document, start, end)
    first, held = document[start], memoryview(document)[start:end]
    try:
        if first == _OBJECT:
            return [Item(bytes(raw), at, key) for at, (key, raw) in enumerate(_members(held).items())]
        return [Item(bytes(raw), at) for at, raw in enumerate(_list(held))] if first == _LIST else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # what other parsers pass, half of a character for instance
        text = bytes(held)
        if first == _OBJECT:
            return [Item(text[one.value : one.end], at, one.key) for at, one in enumerate(members(text, 0))]
        return [Item(text[start:end], at) for at, (start, end) in enumerate(elements(text, 0))]


def _check_few(document: bytes, start: int, end: int) -> None:
    """Check that an object or a list has no more values than can be held. Raises DamageError."""
    # most commas stand in texts
    if document.count(b",", start, end) < MOST_ITEMS or document[start] not in (_OBJECT, _LIST):
        return
    each = members(document, start) if document[start] == _OBJECT else elements(document, start)
    if next(islice(each, MOST_ITEMS, None), None) is not None:
        raise DamageError(f"it has more than {MOST_ITEMS} values in a list or an object, which is too many")


def _without_copies(frame: bytes, path: ValuePath, items: Sequence[Item]) -> bytes:
    """Return a frame in which copies of messages are the keys of these."""
    keys = {item.json: msgspec.json.encode(item.key) for item in items if item.key}
    start, end, pieces = _elements(frame, path)
    if not any(piece in keys for piece in pieces):
        return frame
    return frame[:start] + b"[%b]" % b",".join(keys.get(one, one) for one in pieces) + frame[end:]


def _with_copies(frame: bytes, path: ValuePath, items: Sequence[Item], comma: bytes) -> bytes:
    start, end, pieces = _elements(frame, path)
    if not pieces:
        return frame
    held = {_key(item): item.json for item in items}
    found: list[bytes] = []
    for piece in pieces:
        decoded = decode(piece)
        if decoded is None or not isinstance(decoded.value, str):
            found.append(piece)
        elif decoded.value in held:
            found.append(held[decoded.value])
    return frame[:start] + b"[%b]" % comma.join(found) + frame[end:]
