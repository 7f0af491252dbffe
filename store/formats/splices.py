"""Values put into a JSON document by cutting its bytes, so that all others stay as they are."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise

from store.errors import UsageError
from store.events.event import Path
from store.formats.json_spans import Member, elements, locate, members
from store.formats.new_literals import spell

_colon_and_space = re.compile(rb'(?<!\\)":[ ]').search
_HEAD = 4096


def put(payload: bytes, path: Path, value: bytes) -> bytes:
    """Return ``payload`` with the JSON ``value`` at ``path`` instead of the one that stands there."""
    start, end = locate(payload, path)
    return payload[:start] + value + payload[end:]


def with_members(payload: bytes, path: Path, removed: Set[str], added: Mapping[str, bytes]) -> bytes:
    """Return ``payload`` with members of the object at ``path`` removed, and JSON values added to it at its end."""
    start, end = locate(payload, path)
    present = list(members(payload, start))
    kept = [member for member in present if member.key not in removed]
    pieces = [payload[member.start : member.end] for member in kept]
    pieces += (new_member(payload, start, present, key, value) for key, value in added.items())
    spans = [(member.start, member.end) for member in present]
    return payload[:start] + joined(payload, (start, end), spans, pieces) + payload[end:]


def without_elements(payload: bytes, path: Path, removed: Set[int]) -> bytes:
    """Return ``payload`` without some elements, given by their positions, of the list at ``path``."""
    start, end = locate(payload, path)
    spans = list(elements(payload, start))
    pieces = [payload[slice(*span)] for at, span in enumerate(spans) if at not in removed]
    return payload[:start] + joined(payload, (start, end), spans, pieces) + payload[end:]


def joined(payload: bytes, span: tuple[int, int], old: Sequence[tuple[int, int]], pieces: Sequence[bytes]) -> bytes:
    """Return the object or list at ``span``, of members or elements ``old``, with ``pieces`` instead of these.

    What stands between them stays as it was, as far as there is any.
    """
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
    """Return the key and colon for an object that is to be a member of another, called as its own ``member`` says.

    Raises UsageError where it has no such text.
    """
    start, end = locate(payload, (member,))
    if payload[start : start + 1] != b'"':
        raise UsageError(f"the record has no {member!r} that is a text, which is to be its key")
    return payload[start:end] + (b": " if is_spaced(payload) else b":")


def is_spaced(payload: bytes) -> bool:
    """Say whether a document has a space after its colons."""
    return _colon_and_space(payload, 0, _HEAD) is not None


def replaced(payload: bytes, span: tuple[int, int], changes: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes at ``span`` with each ``(start, end, new)`` within it put in place; ``changes`` must rise."""
    pieces: list[bytes] = []
    position = span[0]
    for start, end, new in changes:
        pieces += (payload[position:start], new)
        position = end
    return b"".join((*pieces, payload[position : span[1]]))
