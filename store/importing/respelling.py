"""Records that a session has copied from another: what its copy says anew, as changes of top-level members.

A copy says most of a record byte for byte, and a few members otherwise: its own session's id, the time of the copy.
A change is a list of steps, each ``[kind, key, text]``: ``=`` gives the member another value, ``+`` puts text behind
the member (``""``: behind the opening brace), ``-`` takes the member out with what separates it from its neighbour. In
``text``, NUL key NUL stands for what the member ``key`` says: an id that a copy repeats is not kept again. Text is
bytes as Latin-1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from contextlib import suppress

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.errors import UsageError
from store.formats.json_spans import Member, members
from store.formats.json_view import decode, is_object

Step = tuple[str, str, str]
Change = tuple[Step, ...]

_SHORTEST_NAMED, _LONGEST_NAMED = 16, 128
LARGEST = 1 << 20
"""Of a record larger than this, copies are the same or are not."""


class Changes(Struct, frozen=True):
    """Changes of the records of a branch: ``kinds`` are those that there are, none of them empty.

    ``records`` says of which: (number of the first, how many, which kind) each, rising.
    """

    kinds: tuple[Change, ...] = ()
    records: tuple[tuple[int, int, int], ...] = ()

    def by_number(self) -> dict[int, Change]:
        """Return the changes by the number of the record."""
        return {
            number: self.kinds[kind] for first, count, kind in self.records for number in range(first, first + count)
        }

    def encode(self) -> bytes:
        """Return the changes as JSON."""
        return msgspec.json.encode(self)


def read_changes(data: bytes) -> Changes:
    """Return what :meth:`Changes.encode` has written. Raises msgspec.ValidationError for anything else."""
    return msgspec.json.decode(data, type=Changes)


def collected(changes: Iterable[tuple[int, Change]]) -> Changes:
    """Return changes of records, by their numbers, which rise."""
    kinds: dict[Change, int] = {}
    records: list[tuple[int, int, int]] = []
    for number, change in changes:
        if not change:
            continue
        kind = kinds.setdefault(change, len(kinds))
        if records and records[-1][2] == kind and sum(records[-1][:2]) == number:
            records[-1] = (records[-1][0], records[-1][1] + 1, kind)
        else:
            records.append((number, 1, kind))
    return Changes(tuple(kinds), tuple(records))


def essence(record: bytes, volatile: Set[str]) -> bytes:
    """Return a digest of what a copy of a record has in common with it: all but the volatile members."""
    decoded = decode(record) if volatile and len(record) <= LARGEST else None
    if decoded is not None and is_object(decoded.value):
        stable = {key: value for key, value in decoded.value.items() if key not in volatile}
        # one that is nested too deeply is known as it is
        with suppress(RecursionError):
            record = msgspec.json.encode(stable)
    return blake3(record).digest()


def difference(theirs: bytes, ours: bytes, volatile: Set[str]) -> Change | None:
    """Return what makes ``ours`` of the record ``theirs``; None where more differs than members that may."""
    if theirs == ours:
        return ()
    if not volatile or max(len(theirs), len(ours)) > LARGEST:
        return None
    old, new = _members(theirs), _members(ours)
    if old is None or new is None:
        return None
    known = {member.key: member for member in old}
    fresh = {member.key: member for member in new}
    if len(known) < len(old) or len(fresh) < len(new):
        return None
    if any(key not in volatile for key in known.keys() ^ fresh.keys()):
        return None
    steps: list[Step] = [("-", key, "") for key in known if key not in fresh]
    ids = _ids(theirs, [member for member in old if member.key not in volatile])
    before = ""
    for at, member in enumerate(new):
        if (was := known.get(member.key)) is not None:
            value = ours[member.value : member.end]
            if value != theirs[was.value : was.end]:
                if member.key not in volatile:
                    return None
                steps.append(("=", member.key, _named(value, ids)))
            before = member.key
            continue
        start, end = (new[at - 1].end, member.end) if before else _with_separator(new, at, range(at + 1))
        steps.append(("+", before, _named(ours[start:end], ids)))
    change = tuple(steps)
    try:
        return change if respelled(theirs, change) == ours else None
    except UsageError:
        return None


def respelled(record: bytes, change: Change) -> bytes:
    """Return a record with a change made; where its members are others by now, with as much of it as can be.

    Raises UsageError for what is no JSON object.
    """
    if not change:
        return record
    found = _members(record)
    if found is None:
        raise UsageError("the record is no JSON object: what its copy says anew has no place in it")
    at = {member.key: number for number, member in enumerate(found)}
    gone = {at[key] for kind, key, _text in change if kind == "-" and key in at}
    pieces: list[tuple[int, int, int, bytes]] = []
    for order, (kind, key, text) in enumerate(change):
        if key not in at and key:
            continue
        member = found[at[key]] if key else None
        if kind == "+":
            place = member.end if member else _opening(record)
            pieces.append((place, place, order, _unnamed(text, record, found)))
        elif member is not None and kind == "=":
            pieces.append((member.value, member.end, order, _unnamed(text, record, found)))
        elif member is not None:
            pieces.append((*_with_separator(found, at[key], gone), order, b""))
    done = 0
    result: list[bytes] = []
    for start, end, _order, text_bytes in sorted(pieces, key=lambda piece: piece[:3]):
        if start < done:
            continue
        result += (record[done:start], text_bytes)
        done = end
    return b"".join((*result, record[done:]))


def _members(record: bytes) -> list[Member] | None:
    start = _opening(record) - 1
    if start < 0:
        return None
    try:
        return list(members(record, start))
    except UsageError:
        return None


def _opening(record: bytes) -> int:
    """Return where the content of an object begins, 0 if it is none."""
    start = len(record) - len(record.lstrip(b" \t\r\n"))
    return start + 1 if record[start : start + 1] == b"{" else 0


def _with_separator(found: Sequence[Member], at: int, gone: Collection[int]) -> tuple[int, int]:
    """Return where a member stands with what separates it from one before that stays, else from what follows."""
    if any(earlier not in gone for earlier in range(at)):
        return found[at - 1].end, found[at].end
    return found[at].start, found[at + 1].start if at + 1 < len(found) else found[at].end


def _ids(record: bytes, among: Iterable[Member]) -> dict[bytes, str]:
    """Return the keys of members that are strings which a copy may repeat, by these."""
    found: dict[bytes, str] = {}
    for member in among:
        value = record[member.value : member.end]
        if value[:1] == b'"' and _SHORTEST_NAMED <= len(value) - 2 <= _LONGEST_NAMED and b"\\" not in value:
            found.setdefault(value[1:-1], member.key)
    return found


def _named(text: bytes, ids: dict[bytes, str]) -> str:
    for value, key in ids.items():
        if value in text:
            text = text.replace(value, b"\0%b\0" % key.encode("utf-8", "surrogatepass"))
    return text.decode("latin-1")


def _unnamed(text: str, record: bytes, found: Sequence[Member]) -> bytes:
    parts = text.encode("latin-1").split(b"\0")
    keys = {member.key.encode("utf-8", "surrogatepass"): member for member in found}
    for at in range(1, len(parts), 2):
        member = keys.get(parts[at])
        parts[at] = record[member.value + 1 : member.end - 1] if member else b""
    return b"".join(parts)
