"""Likeness of sessions: whether a file goes on from a conversation, and whether it begins with a copy of another.

Ids do not tell: tools leave several files of one id, copies diverge, and a file can be moved. The content tells. A
file goes on from a conversation if it has everything that the imports of that one brought.

A checkpoint, or a fork, has the turns of the session that it copies, and the file states the differences. A copy
repeats most of a record byte for byte, but for a few members: its own session's id, the time of the copy.
A change is a list of steps, each ``[kind, key, text]``: ``=`` gives the member another value, ``+`` puts text behind
the member (``""``: behind the opening brace), ``-`` takes the member out with what separates it from its neighbour. In
``text``, NUL key NUL stands for the value of the member ``key``: an id that a copy repeats is not kept again. Text is
bytes as Latin-1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from store import typed
from store.content.cuts import MAX_CUT_BYTES
from store.conversations import branch
from store.disk.turn_format import REDACTED, Turn
from store.errors import ConvfsError, DamageError, UsageError
from store.events.event import Event, Kind
from store.formats.core.format import Format
from store.formats.core.json_spans import Member, members
from store.formats.core.lens import Nothing
from store.formats.registry import lens_for
from store.ids import Hash, hash_bytes
from store.importing.reading import LARGEST, LOOKED_AT, beginning
from store.index.catalogue import ContextEntry
from store.store import Store

if TYPE_CHECKING:
    # it takes a while to load, and whoever compares may import nothing
    from store.importing.group import Group

MARK = b"[redacted]"
"""The mark in place of a secret."""


def is_of(kept: bytes, brought: bytes) -> bool:
    """Return whether ``brought`` is the redacted record ``kept``: it differs where that has marks, and nowhere else."""
    first, *pieces = kept.split(MARK)
    if not pieces or not brought.startswith(first):
        return False
    last = pieces.pop()
    at, end = len(first), len(brought) - len(last)
    if end < at or not brought.endswith(last):
        return False
    for piece in pieces:
        found = brought.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


_Said = tuple[Kind, int, tuple[str | bytes | None, ...]]


class Relation(Enum):
    """How a file stands to a conversation of its id: neither has all of the other, or which of them has more."""

    APART = auto()
    OLDER = auto()
    SAME = auto()
    NEWER = auto()


class Continuation:
    """A session as a file has it, compared with conversations of its id that came from other files.

    ``records`` yields its records, each with those of what branches off it; it is called when they are needed, and
    again where they must be read and not only recognized. ``digests`` are their hashes, if these are known.
    """

    def __init__(
        self,
        store: Store,
        format_: Format,
        records: Callable[[], Iterable[bytes]],
        digests: Iterable[Hash] | None = None,
    ) -> None:
        self._store = store
        self._lens = lens_for(format_.main_type)
        self._records = records
        self._order = tuple(digests) if digests is not None else None
        self._digests = frozenset(self._order) if self._order is not None else None
        self._said: frozenset[_Said] | None = None

    def goes_on_from(self, known: ContextEntry) -> bool:
        """Return whether the file has every imported record of a conversation, whatever people edited in it.

        A record that the tool has rewritten counts as long as it says the same at the same time; one that says nothing
        may be absent.
        """
        try:
            runs = self._store.records.runs(known.imported_head)
            return all(self._has(turn) for run in runs for turn in self._store.turns.range(*run))
        except DamageError:
            # what cannot be read cannot be compared
            return False

    def relation_to(self, known: ContextEntry, *, in_place: bool = False) -> Relation:
        """Return how the file stands to what another machine has imported of a conversation.

        It is newer where it goes on from that, and has what that lacks: so of the files of two machines one is, at
        most. A file that was rewritten, and says no more, is newer only if it lies at the same path (``in_place``).
        """
        try:
            runs = self._store.records.runs(known.imported_head)
            turns = [turn for run in runs for turn in self._store.turns.range(*run)]
        except DamageError:
            return Relation.APART
        ours = self._in_order()
        theirs = [turn.payload_hash for turn in turns]
        if ours == tuple(theirs):
            return Relation.SAME
        own, lacking = set(ours).difference(theirs), {turn.payload_hash: turn for turn in turns}
        for digest in ours:
            lacking.pop(digest, None)
        self._forget_unfinished(ours, theirs, own, lacking)
        self._forget_redacted(own, lacking)
        if not own:
            return Relation.OLDER if lacking or len(ours) <= len(theirs) else Relation.NEWER
        if not all(self._has(turn) for turn in lacking.values()):
            return Relation.APART
        is_newer = not lacking or in_place or self._says_more(own, lacking.values())
        return Relation.NEWER if is_newer else Relation.APART

    def _in_order(self) -> tuple[Hash, ...]:
        if self._order is None:
            self._order = tuple(map(hash_bytes, self._records()))
        return self._order

    def _forget_unfinished(
        self, ours: Sequence[Hash], theirs: Sequence[Hash], own: set[Hash], lacking: dict[Hash, Turn]
    ) -> None:
        """Leave out a last record that the other has whole: it was being written."""
        at = min(len(ours), len(theirs)) - 1
        if at < 0 or ours[at] not in own or theirs[at] not in lacking:
            return
        kept, brought = self._payload(theirs[at]), next(islice(self._records(), at, None), b"")
        if at == len(ours) - 1 and kept.startswith(brought):
            own.discard(ours[at])
        elif at == len(theirs) - 1 and kept and brought.startswith(kept):
            del lacking[theirs[at]]

    def _forget_redacted(self, own: set[Hash], lacking: dict[Hash, Turn]) -> None:
        """Leave out records that only lack a secret here."""
        redacted = [turn.payload_hash for turn in lacking.values() if turn.flags & REDACTED]
        for digest in redacted if own else ():
            kept = self._payload(digest)
            of_it = {ours for ours, record in self._named() if ours in own and is_of(kept, record)}
            if of_it:
                own -= of_it
                del lacking[digest]

    def _says_more(self, own: Set[Hash], lacking: Iterable[Turn]) -> bool:
        known = {self._saying(self._payload(turn.payload_hash)) for turn in lacking} | {None}
        return any(self._saying(record) not in known for digest, record in self._named() if digest in own)

    def _named(self) -> Iterator[tuple[Hash, bytes]]:
        # by now there may be more of them
        return zip(self._in_order(), self._records(), strict=False)

    def _payload(self, digest: Hash) -> bytes:
        """Return a payload, empty if it is damaged or very large: then nothing is like it."""
        try:
            return b"" if self._store.blobs.size(digest) > MAX_CUT_BYTES else self._store.blobs.blob(digest)
        except ConvfsError:
            return b""

    def _has(self, turn: Turn) -> bool:
        if self._digests is None:
            self._digests = frozenset(self._in_order())
        if turn.payload_hash in self._digests:
            return True
        if self._store.blobs.size(turn.payload_hash) > MAX_CUT_BYTES:
            return False
        try:
            payload = self._store.blobs.blob(turn.payload_hash)
        except ConvfsError:
            return False
        if turn.flags & REDACTED:
            return any(is_of(payload, record) for record in self._records())
        if (said := self._saying(payload)) is None:
            return True
        if self._said is None:
            sayings = (self._saying(record) for record in self._records() if len(record) <= MAX_CUT_BYTES)
            self._said = frozenset(saying for saying in sayings if saying is not None)
        return said in self._said

    def _saying(self, payload: bytes) -> _Said | None:
        event: Event = self._lens.view(payload, Nothing())
        if event.kind is Kind.RECORD:
            return None
        return event.kind, event.time_ms, tuple(block.data or block.text for block in event.blocks)


def begins_with(store: Store, known: ContextEntry, digests: Sequence[Hash]) -> bool:
    """Return whether a conversation, as imported, begins with exactly these records: then they are an older state."""
    try:
        runs = branch.part(store.records.runs(known.imported_head), 0, len(digests))
        return [turn.payload_hash for run in runs for turn in store.turns.range(*run)] == list(digests)
    except DamageError:
        return False


Step = tuple[str, str, str]
Change = tuple[Step, ...]

_SHORTEST_NAMED, _LONGEST_NAMED = 16, 128
class Changes(Struct, frozen=True):
    """Changes of the records of a branch: ``kinds`` are the different ones, none of them empty.

    ``records`` tells where they apply: (number of the first, count, kind) each, rising.
    """

    kinds: tuple[Change, ...] = ()
    records: tuple[tuple[int, int, int], ...] = ()

    def by_number(self) -> dict[int, Change]:
        return {at: self.kinds[kind] for first, count, kind in self.records for at in range(first, first + count)}

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def read_changes(data: bytes) -> Changes:
    """Return the changes that :meth:`Changes.encode` has written. Raises msgspec.ValidationError for anything else."""
    return typed.decode(data, Changes)


def collected(changes: Iterable[tuple[int, Change]]) -> Changes:
    """Collect changes of records; their numbers rise."""
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


def difference(theirs: bytes, ours: bytes, volatile: Set[str]) -> Change | None:
    """Return the change that makes ``ours`` of the record ``theirs``; None where more differs than members that may."""
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
    """Return a record with as much of a change made as its members allow. UsageError for what is no JSON object."""
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
    """Return the range of a member, with its separator from one before that stays, else from the next one."""
    if any(earlier not in gone for earlier in range(at)):
        return found[at - 1].end, found[at].end
    return found[at].start, found[at + 1].start if at + 1 < len(found) else found[at].end


def _ids(record: bytes, among: Iterable[Member]) -> dict[bytes, str]:
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


_SAID_BY_NOBODY = frozenset((Kind.RECORD, Kind.CONFIG))

_MOST = 8
_FEWEST = 4
"""The fewest records whose differences are worth storing."""

_AT_ONCE = 64
_BYTES_AT_ONCE = 8 << 20


class Candidate:
    """A conversation that a session has begun like so far: with its first ``records``, but for those ``left_out``.

    ``changes`` are the session's differences from them, by their numbers. ``begins`` identifies the branch ``runs``.
    """

    def __init__(self, store: Store, format_: Format, entry: ContextEntry, left_out: int) -> None:
        self.runs = branch.plain(store.records.runs(entry.imported_head))
        self.left_out = self.records = left_out
        self.changes: list[tuple[int, Change]] = []
        begins = entry.metadata.get("begins")
        self.begins = tuple(map(str, begins)) if isinstance(begins, list) else ()
        self._store = store
        self._volatile = format_.volatile
        self._block: list[tuple[int, Hash]] = []
        self._payloads: dict[int, bytes] = {}
        self._ahead = 1
        """The number of payloads to read at once; it grows, for most likenesses end with the next record."""
        self._from = 0

    def follow(self, payload: bytes, digest: Hash) -> bool:
        at = self.records - self._from
        if not 0 <= at < len(self._block):
            self._from, at = self.records, 0
            runs = branch.part(self.runs, self._from, _AT_ONCE)
            turns = [turn for run in runs for turn in self._store.turns.range(*run)]
            self._block = [(turn.turn_id, turn.payload_hash) for turn in turns]
            self._payloads = {}
            if not self._block:
                return False
        turn, known = self._block[at]
        if known != digest:
            change = difference(self._payload(turn), payload, self._volatile) if self._volatile else None
            if change is None:
                return False
            self.changes.append((self.records + 1, change))
        self.records += 1
        return True

    def _payload(self, turn: int) -> bytes:
        """Return a payload of the block, empty if it is damaged or very large: then nothing else is like it."""
        if turn not in self._payloads:
            some: list[int] = []
            room = _BYTES_AT_ONCE
            following = [(known, digest) for known, digest in self._block if known >= turn]
            for known, digest in following[: self._ahead]:
                size = self._store.blobs.size(digest)
                room -= size if size <= LARGEST else 0
                if size <= LARGEST and room > 0:
                    some.append(known)
            self._ahead = min(4 * self._ahead, _AT_ONCE)
            found = self._store.contents.payloads(some)
            self._payloads = {turn: b""} | {known: data for known, data in found if isinstance(data, bytes)}
        return self._payloads[turn]


class Likeness:
    """Watches the records of a new session as long as it may be, or is, like another conversation."""

    def __init__(self, store: Store, group: Group, format_: Format, *, alone: bool = False) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._alone = alone
        self._lens = lens_for(format_.main_type)
        self._before = store.viewer.chain(lambda _number: 0, 1)
        self._bookkeeping = True
        self._candidates: list[Candidate] = []
        self.held: list[bytes] = []
        """The first records that are the session's own, and those that may still turn out to be."""
        self.own = 0
        """The number of first records that are the session's own."""
        self._shared = 0
        self.begins: list[str] = []
        """The beginnings that identify the session."""

    @property
    def over(self) -> bool:
        """True if the session has turned out to be like no other."""
        return not self._candidates and (self.own == LOOKED_AT or not self._bookkeeping)

    @property
    def has_candidates(self) -> bool:
        """True if the session is like another one so far."""
        return bool(self._candidates)

    @property
    def follows(self) -> bool:
        """True if the session is surely like another one so far, so that no more of it is held."""
        return bool(self._candidates) and self._shared >= _FEWEST

    def see(self, payload: bytes, digest: Hash) -> bool:
        """Return whether the next record is shared, or held; after False, this must not be called again.

        Once the session :attr:`follows`, the payload of a record too large to be held may be omitted.
        """
        if self._candidates:
            left = [candidate for candidate in self._candidates if candidate.follow(payload, digest)]
            if not left:
                return False
            self._candidates = left
        else:
            key = beginning(payload, self._format)
            self.begins.append(key)
            self._candidates = [one for one in self._known_by(key) if one.follow(payload, digest)]
        if not self._candidates:
            self.own += 1
            self.held.append(payload)
            # what was said stays where it is
            self._bookkeeping = self._lens.view(payload, self._before).kind in _SAID_BY_NOBODY
            return True
        self._shared += 1
        if self._shared < _FEWEST:
            self.held.append(payload)
        return True

    def found(self) -> Candidate | None:
        """Return what the session shares; ``held`` is then its own part before that. None: all held is its own."""
        best = min(self._candidates, key=lambda candidate: len(candidate.changes), default=None)
        if best is None:
            return None
        plain = not (self.own or best.left_out or best.changes)
        if self._shared < _FEWEST and not plain:
            return None
        self.held = self.held[: self.own]
        return best

    def _known_by(self, key: str) -> Sequence[Candidate]:
        found: list[Candidate] = []
        if self._alone:
            return found
        if key in self._group.begins:
            self._group.commit()
        for entry in self._store.catalogue.by_origin("begins", self._format.name, key, most=_MOST):
            begins = entry.metadata.get("begins")
            try:
                if isinstance(begins, list) and key in begins:
                    found.append(Candidate(self._store, self._format, entry, begins.index(key)))
            except ConvfsError:
                # its branch cannot be read
                continue
        return found


class Copied(Struct, frozen=True, omit_defaults=True):
    """The beginning of a branch as it stands in the file of its session.

    The first ``records`` of the branch are those of another session; the file lacks the first ``left_out`` of them.
    Before the others stand the ``first`` records that follow them in the branch. ``changes`` is a blob, in hex,
    with the file's spelling of them.
    """

    records: int
    left_out: int = 0
    first: int = 0
    changes: str = ""

    @property
    def reach(self) -> int:
        return self.records - self.left_out + self.first

    def number(self, position: int) -> int:
        """Return the number, from 1, in the branch of the record at a position of the file."""
        if position < self.first:
            return self.records + position + 1
        if position < self.reach:
            return position - self.first + self.left_out + 1
        return position + self.left_out + 1

    def position(self, number: int) -> int | None:
        """Return the position in the file of a record of the branch, None if it is not there."""
        if number <= self.left_out:
            return None
        if number <= self.records:
            return number - 1 - self.left_out + self.first
        if number <= self.records + self.first:
            return number - 1 - self.records
        return number - 1 - self.left_out


class Spelling:
    """The records of a branch as they are in the file of its session; ``copied`` is None if both are the same.

    Raises DamageError and NotFound if the differences cannot be read.
    """

    def __init__(self, store: Store, copied: Copied | None) -> None:
        self.copied = copied
        self._changes: dict[int, Change] = {}
        if copied and copied.changes:
            self._changes = read_changes(store.blobs.blob(Hash(bytes.fromhex(copied.changes)))).by_number()

    def in_file(self, turns: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the records of a branch of ``turns`` that the file has, in its order: numbers, and turns."""
        if self.copied is None:
            return list(range(1, len(turns) + 1)), list(turns)
        count = len(turns) - self.copied.left_out
        numbers = [self.copied.number(position) for position in range(max(count, 0))]
        numbers = [number for number in numbers if number <= len(turns)]
        return numbers, [turns[number - 1] for number in numbers]

    def spell(self, numbers: Iterable[int | None], records: Iterable[Iterable[bytes]]) -> Iterator[Iterable[bytes]]:
        """Yield records, each in pieces, as the file has them; ``numbers`` are those that they had at the import."""
        if not self._changes:
            yield from records
            return
        for number, pieces in zip(numbers, records, strict=True):
            yield (self.spelled(number, b"".join(pieces)),) if number and number in self._changes else pieces

    def changes(self, number: int) -> bool:
        return number in self._changes

    def spelled(self, number: int, record: bytes) -> bytes:
        try:
            return respelled(record, self._changes.get(number, ()))
        except UsageError:
            # it was edited so that it cannot be changed
            return record
