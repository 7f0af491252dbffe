"""Edited JSON documents, and carrying their edits into the payload that they show a part of.

A document shows a value of a payload, but for members that stand elsewhere (texts of many lines are blocks of their
own; members of the record's envelope are not shown) and texts in it that ``{"$block": "<name>"}`` stands for. So the
old document is compared with the new one, and only the difference is put into the payload.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec import Struct

from store.errors import UsageError
from store.events.event import ValuePath
from store.formats.core.blocks import DEEPEST, Decode, stands_for
from store.formats.core.json_spans import elements, locate, members, spelled_path, text_of
from store.formats.core.splices import is_spaced, joined, new_member, spell, spell_base64


class Number(Struct, frozen=True):
    """A number as it was written."""

    text: str


def parse(text: str) -> object:
    """Return a document that a person wrote, its numbers as :class:`Number`. Raises UsageError where it is no JSON."""
    try:
        return read(text)
    except json.JSONDecodeError as error:
        told = f"{error.msg}, line {error.lineno}, column {error.colno}"
        raise UsageError(f"the JSON cannot be read: {told}; correct it and save again") from None
    except RecursionError:
        raise UsageError("the JSON is nested too deeply to be changed") from None


def read(text: str) -> object:
    """As :func:`parse`, but where it is no JSON, json's JSONDecodeError says where."""
    return json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=_refuse, object_pairs_hook=_without_repetition
    )


def carried(
    payload: bytes,
    path: ValuePath,
    before: object,
    after: object,
    lifted: Mapping[str, ValuePath] = {},
    decode: Decode | None = None,
) -> bytes:
    """Return ``payload`` with the difference between documents, as :func:`parse` has them, made at ``path``.

    ``lifted`` maps placeholders to the places of their texts. ``decode`` is the function that the strings of the
    payload were read through (None: none). Raises UsageError for a change that cannot be expressed there.
    """
    span = locate(payload, path)
    try:
        literal = _Revision(payload, path, lifted, decode, before).value(span, before, after, 0, decode)
    except RecursionError:
        raise UsageError("the JSON is nested too deeply to be changed") from None
    return payload[: span[0]] + literal + payload[span[1] :]


class _Revision:
    def __init__(
        self, payload: bytes, path: ValuePath, lifted: Mapping[str, ValuePath], decode: Decode | None, old: object
    ) -> None:
        self._payload = payload
        self._path = path
        self._lifted = lifted
        self._in_base64 = decode is not None and _holds_base64(payload, locate(payload, path), decode)
        self._said = _placeholders(old) - lifted.keys()

    def value(self, span: tuple[int, int], old: object, new: object, depth: int, decode: Decode | None) -> bytes:
        """Return the bytes for ``new`` where ``span`` holds ``old``."""
        if same(old, new):
            return self._payload[slice(*span)]
        if isinstance(old, dict) and isinstance(new, dict) and not self._text_of(old) and not self._text_of(new):
            return self._object(span, old, new, depth, decode if depth < DEEPEST else None)
        if isinstance(old, list) and isinstance(new, list):
            return self._list(span, old, new, depth, decode if depth < DEEPEST else None)
        return self._fresh(new, self._payload[slice(*span)], decode)

    def _object(
        self, span: tuple[int, int], old: dict[str, object], new: dict[str, object], depth: int, decode: Decode | None
    ) -> bytes:
        present = list(members(self._payload, span[0]))
        last = {member.key: member for member in present}
        for key in new.keys() - old.keys():
            if key in last:
                raise UsageError(f"the record has {key!r} already, outside this JSON: change it where it stands")
        if not old.keys() <= last.keys():
            raise self._other()
        kept = [member for member in present if member.key not in old or member.key in new]
        shown = [member for member in kept if last[member.key] is member and member.key in old]
        moved = dict(zip((m.key for m in shown), _order([m.key for m in shown], old, new), strict=True))
        places = {member.start for member in shown}
        added: dict[str | None, list[bytes]] = {}
        for anchor, key in _following(old, new):
            fresh = new_member(self._payload, span[0], present, key, self._fresh(new[key], None, decode))
            added.setdefault(anchor, []).append(fresh)
        pieces: list[bytes] = []
        for member in kept:
            if member.start not in places:
                pieces.append(self._payload[member.start : member.end])
                continue
            pieces += added.pop(None, ())
            member = last[moved[member.key]]
            value = self.value((member.value, member.end), old[member.key], new[member.key], depth + 1, decode)
            pieces += (self._payload[member.start : member.value] + value, *added.pop(member.key, ()))
        pieces += added.pop(None, ())
        return joined(self._payload, span, [(member.start, member.end) for member in present], pieces)

    def _list(
        self, span: tuple[int, int], old: list[object], new: list[object], depth: int, decode: Decode | None
    ) -> bytes:
        spans = list(elements(self._payload, span[0]))
        if len(spans) != len(old):
            raise self._other()
        alike = min(len(old), len(new))
        head = next((at for at in range(alike) if not same(old[at], new[at])), alike)
        tail = next((at for at in range(alike - head) if not same(old[-1 - at], new[-1 - at])), alike - head)
        pieces = [self._payload[slice(*spans[at])] for at in range(head)]
        for at in range(head, len(new) - tail):
            if at < len(old) - tail:
                pieces.append(self.value(spans[at], old[at], new[at], depth + 1, decode))
            else:
                pieces.append(self._fresh(new[at], None, decode))
        pieces += (self._payload[slice(*spans[at])] for at in range(len(old) - tail, len(old)))
        return joined(self._payload, span, spans, pieces)

    def _fresh(self, value: object, replaced_: bytes | None, decode: Decode | None) -> bytes:
        """Return the bytes for a value that the payload does not hold, or holds elsewhere."""
        if isinstance(value, str):
            return self._string(value, replaced_, decode)
        text = partial(self._string, replaced_=None, decode=decode)
        return _Writer(self._payload, None, text, self._held_elsewhere).value(value, b"")

    def _held_elsewhere(self, value: dict[str, object]) -> bytes | None:
        if name := self._text_of(value):
            start, end = locate(self._payload, self._lifted[name])
            return self._payload[start:end]
        if (unknown := stands_for(value)) and unknown not in self._said:
            raise UsageError(f"there is no block {unknown!r} for {{'$block': …}} to stand for")
        return None

    def _string(self, text: str, replaced_: bytes | None, decode: Decode | None) -> bytes:
        if decode is not None:
            was_text = replaced_ is not None and replaced_.startswith(b'"')
            in_base64 = decode(text_of(replaced_)) is not None if replaced_ and was_text else self._in_base64
            if in_base64 or decode(text) is not None:
                return spell_base64(text)
        return spell(text, self._payload, replaced_)

    def _text_of(self, value: dict[str, object]) -> str:
        """Return the name of the block that ``value`` stands for, "" where it stands for itself."""
        name = stands_for(value)
        return name if name in self._lifted else ""

    def _other(self) -> UsageError:
        return UsageError(f"the JSON is not what the record holds at {spelled_path(self._path)}: read it again")


def _following(old: dict[str, object], new: dict[str, object]) -> Iterator[tuple[str | None, str]]:
    """Yield the keys that are new, each with the old key that it stands after (None: before all)."""
    anchor: str | None = None
    for key in new:
        if key in old:
            anchor = key
        else:
            yield anchor, key


def _order(in_payload: list[str], old: dict[str, object], new: dict[str, object]) -> list[str]:
    """Return the keys that stay: in the payload's order, or in the new one where a person changed the order."""
    before = [key for key in old if key in new]
    after = [key for key in new if key in old]
    return in_payload if before == after else after


def same(old: object, new: object) -> bool:
    """Return whether two documents are equal, the order of keys included."""
    if type(old) is not type(new):
        return False
    if isinstance(old, dict) and isinstance(new, dict):
        return list(old) == list(new) and all(same(item, new[key]) for key, item in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(same, old, new))
    return old == new


def _holds_base64(payload: bytes, span: tuple[int, int], decode: Decode) -> bool:
    """Return whether new strings in the value at ``span`` should be base64: its strings are, or it has none."""
    decoded, pending, found = False, [span], False
    while pending:
        start, end = pending.pop()
        match payload[start : start + 1]:
            case b'"':
                found = True
                decoded = decoded or decode(text_of(payload[start:end])) is not None
            case b"{":
                pending += ((member.value, member.end) for member in members(payload, start))
            case b"[":
                pending += elements(payload, start)
    return decoded or not found


def _placeholders(value: object) -> set[str]:
    """Return the names in all that looks like a placeholder; some records hold such a thing as their own."""
    found: set[str] = set()
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            found.add(stands_for(item))
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return found


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members_ = dict(pairs)
    if len(members_) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise UsageError(f"the JSON has {twice!r} twice in one object: keep one of them")
    return members_


def _refuse(word: str) -> object:
    raise UsageError(f"{word} is no JSON: write a number, or the word in double quotes")


_indented = re.compile(rb"\n([ \t]*)[}\]]\s*\Z").search
_STEP = b"  "


def new_record(value: object, like: bytes | None) -> bytes:
    """Return a record that says ``value``, as :func:`store.formats.core.documents.parse` gives it.

    ``like`` is a record of the same file. Raises UsageError for text that is no valid Unicode.
    """
    like = like or b""
    layout = _indented(like)
    line = b"\n" + layout[1] if layout else None
    end = b"\r" if line is None and like.endswith(b"\r") else b""
    return _Writer(like, line, lambda text: spell(text, like)).value(value, line or b"") + end


def on_one_line(value: object, like: bytes) -> bytes:
    """Return the bytes for a value, as :func:`new_record` has it, which is to stand in the record ``like``."""
    return _Writer(like, None, lambda text: spell(text, like)).value(value, b"")


class _Writer:
    """Spells values as the record ``like`` does, on lines that begin as ``line`` (None: on one).

    ``text`` gives the bytes for a text, ``held`` those for an object that stands for others.
    """

    def __init__(
        self,
        like: bytes,
        line: bytes | None,
        text: Callable[[str], bytes],
        held: Callable[[dict[str, object]], bytes | None] = lambda _value: None,
    ) -> None:
        self._like, self._text, self._held = like, text, held
        self._lines = line is not None
        spaced = self._lines or is_spaced(like)
        self._colon = b": " if spaced else b":"
        self._comma = b", " if spaced and not self._lines else b","

    def value(self, value: object, line: bytes) -> bytes:
        match value:
            case Number():
                return value.text.encode()
            case str():
                return self._text(value)
            case dict():
                if (held := self._held(value)) is not None:
                    return held
                inner = [
                    spell(key, self._like) + self._colon + self.value(item, line + _STEP) for key, item in value.items()
                ]
                return self._joined(b"{", inner, b"}", line)
            case list():
                return self._joined(b"[", [self.value(item, line + _STEP) for item in value], b"]", line)
        return json.dumps(value).encode()

    def _joined(self, opening: bytes, inner: list[bytes], closing: bytes, line: bytes) -> bytes:
        if not inner or not self._lines:
            return opening + self._comma.join(inner) + closing
        return opening + line + _STEP + (b"," + line + _STEP).join(inner) + line + closing
