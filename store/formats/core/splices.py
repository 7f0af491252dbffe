"""Values put into a JSON document by cutting its bytes, so that all others stay as they are.

New string literals for a payload, spelled as its producer would spell them.

Producers differ in what they escape. The style is the one that gives back the literal that the new one replaces;
where several do, or none does, the record's other literals decide, and JavaScript's style where they do not.
"""

import re
from binascii import b2a_base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise

from store.content.cuts import read_literal, write
from store.disk.skeleton_format import Spelling
from store.errors import UsageError
from store.events.event import ValuePath
from store.formats.core.json_spans import Member, elements, literals, locate, members

_STYLES = (Spelling.JS, Spelling.ASCII, Spelling.GO)
_telling = re.compile(rb"[<>&\x7f-\xff]|\\u").search
"""Found in every literal that the styles spell differently."""


def spell(text: str, payload: bytes, replaced: bytes | None = None) -> bytes:
    """Return the literal for ``text`` in the style of ``replaced``, else of ``payload``. UsageError: no Unicode."""
    content = encoded(text)
    return bytes(write(_style(content, payload, replaced), content))


def spell_base64(text: str) -> bytes:
    """Return the literal that holds ``text`` in base64. Raises UsageError for text that is no valid Unicode."""
    return spell_bytes(encoded(text))


def spell_bytes(data: bytes) -> bytes:
    """Return the literal that holds ``data`` in base64."""
    return b'"%b"' % b2a_base64(data, newline=False)


def encoded(text: str) -> bytes:
    """Return ``text`` in UTF-8. Raises UsageError for text that is no valid Unicode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        where = f"character {error.start + 1} is half of a surrogate pair"
        raise UsageError(f"the text is no valid Unicode: {where}; write the whole character or leave it out") from None


def _style(content: bytes, payload: bytes, replaced: bytes | None) -> Spelling:
    if len({bytes(write(style, content)) for style in _STYLES}) == 1:
        return Spelling.JS
    fitting = [style for style in _STYLES if replaced is not None and _spells(style, replaced)] or list(_STYLES)
    if len(fitting) == 1:
        return fitting[0]
    votes = Counter(dict.fromkeys(fitting, 0))
    for literal in literals(payload):
        if _telling(literal):
            votes.update(style for style in fitting if _spells(style, literal))
    return votes.most_common(1)[0][0]


def _spells(style: Spelling, literal: bytes) -> bool:
    read = read_literal(literal)
    return read is not None and bytes(write(style, read[1])) == literal


def check_text(text: str) -> None:
    """Raise UsageError for a text that says nothing, or is no valid Unicode."""
    encoded(text)
    if not text:
        raise UsageError("an empty message says nothing: write its text, then save again")


_colon_and_space = re.compile(rb'(?<!\\)":[ ]').search
_HEAD = 4096


def put(payload: bytes, path: ValuePath, value: bytes) -> bytes:
    """Return ``payload`` with the JSON ``value`` at ``path`` instead of the one that stands there."""
    start, end = locate(payload, path)
    return payload[:start] + value + payload[end:]


def with_members(payload: bytes, path: ValuePath, removed: Set[str], added: Mapping[str, bytes]) -> bytes:
    """Return ``payload`` with members of the object at ``path`` removed, and JSON values added to it at its end."""
    start, end = locate(payload, path)
    present = list(members(payload, start))
    kept = [member for member in present if member.key not in removed]
    pieces = [payload[member.start : member.end] for member in kept]
    pieces += (new_member(payload, start, present, key, value) for key, value in added.items())
    spans = [(member.start, member.end) for member in present]
    return payload[:start] + joined(payload, (start, end), spans, pieces) + payload[end:]


def without_elements(payload: bytes, path: ValuePath, removed: Set[int]) -> bytes:
    """Return ``payload`` without some elements, given by their positions, of the list at ``path``."""
    start, end = locate(payload, path)
    spans = list(elements(payload, start))
    pieces = [payload[slice(*span)] for at, span in enumerate(spans) if at not in removed]
    return payload[:start] + joined(payload, (start, end), spans, pieces) + payload[end:]


def joined(payload: bytes, span: tuple[int, int], old: Sequence[tuple[int, int]], pieces: Sequence[bytes]) -> bytes:
    """Return the object or list at ``span`` with ``pieces`` for its members ``old``; bytes between them stay."""
    start, end = span
    brackets = payload[start : start + 1], payload[end - 1 : end]
    if not pieces:
        return b"".join(brackets)
    lead = trail = b""
    separators = [b", " if is_spaced(payload) else b","]
    if old:
        lead, trail = payload[start + 1 : old[0][0]], payload[old[-1][1] : end - 1]
        between = [payload[one[1] : other[0]] for one, other in pairwise(old)]
        separators = between or [b"," + lead if b"\n" in lead else separators[0]]
    parts = [pieces[0]]
    for at, piece in enumerate(pieces[1:]):
        parts += (separators[min(at, len(separators) - 1)], piece)
    return b"".join((brackets[0], lead, *parts, trail, brackets[1]))


def new_member(payload: bytes, start: int, present: Sequence[Member], key: str, value: bytes) -> bytes:
    """Return a member for the object at ``start``, whose members are ``present``."""
    usual = b": " if is_spaced(payload) else b":"
    colon = payload[present[-1].key_end : present[-1].value] if present else usual
    return spell(key, payload) + colon + value


def new_key(payload: bytes, member: str) -> bytes:
    """Return the key and colon for an object, named by its own ``member``. Raises UsageError where that is no text."""
    start, end = locate(payload, (member,))
    if payload[start : start + 1] != b'"':
        raise UsageError(f"the record has no {member!r} that is a text, which is to be its key")
    return payload[start:end] + (b": " if is_spaced(payload) else b":")


def is_spaced(payload: bytes) -> bool:
    """Return whether a document has a space after its colons."""
    return _colon_and_space(payload, 0, _HEAD) is not None


def replaced(payload: bytes, span: tuple[int, int], changes: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes at ``span`` with each ``(start, end, new)`` within it put in place; ``changes`` must rise."""
    pieces: list[bytes] = []
    position = span[0]
    for start, end, new in changes:
        pieces += (payload[position:start], new)
        position = end
    return b"".join((*pieces, payload[position : span[1]]))
