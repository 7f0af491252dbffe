"""Whether a new session begins with what another conversation says: a checkpoint of it, or a fork that copies it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from store.conversations import branch
from store.errors import ConvfsError
from store.events.event import Kind
from store.formats.format import Format
from store.formats.registry import lens_for
from store.ids import Hash
from store.importing.group import Group
from store.importing.respelling import LARGEST, Change, difference, essence
from store.index.catalogue import Entry
from store.index.views import Run
from store.store import Store

LOOKED_AT = 3
"""How many records at the beginning of a conversation another one can be known by: all but the last are none that
anybody said."""
_SAID_BY_NOBODY = frozenset((Kind.RECORD, Kind.CONFIG))

_MOST = 8
_FEWEST = 4
"""Fewer records than these are not worth saying how they differ."""

_AT_ONCE = 64
_BYTES_AT_ONCE = 8 << 20
_KEY_SIZE = 8


def beginning(record: bytes, format_: Format) -> str:
    """Return what a record at the beginning of a conversation, and each copy of it, is known by."""
    return essence(record, format_.volatile)[:_KEY_SIZE].hex()


class Found(Struct, frozen=True):
    """What a session shares with another conversation: the first ``records`` of the branch ``runs``.

    But for the first ``left_out``; ``changes`` are how it says them otherwise, by their numbers. ``begins`` is what the
    branch is known by.
    """

    runs: tuple[Run, ...]
    records: int
    left_out: int
    changes: tuple[tuple[int, Change], ...]
    begins: tuple[str, ...]


class _Candidate:
    """A conversation that has said the same so far; ``number`` is its record that comes next."""

    def __init__(self, store: Store, format_: Format, entry: Entry, left_out: int) -> None:
        self.runs = branch.plain(store.runs(entry.imported_head))
        self.left_out = left_out
        self.number = left_out + 1
        self.changes: list[tuple[int, Change]] = []
        begins = entry.metadata.get("begins")
        self.begins = tuple(map(str, begins)) if isinstance(begins, list) else ()
        self._store = store
        self._volatile = format_.volatile
        self._block: list[tuple[int, Hash]] = []
        self._payloads: dict[int, bytes] = {}
        self._ahead = 1
        """How many payloads are read at once: more and more, for most likenesses end with the next record."""
        self._from = 0

    def follow(self, payload: bytes, digest: Hash) -> bool:
        """Say whether the next record is this one, and go past it if it is."""
        at = self.number - 1 - self._from
        if not 0 <= at < len(self._block):
            self._from, at = self.number - 1, 0
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
            self.changes.append((self.number, change))
        self.number += 1
        return True

    def _payload(self, turn: int) -> bytes:
        """Return a payload of the block, nothing if it is damaged or very large: then nothing else is like it."""
        if turn not in self._payloads:
            some: list[int] = []
            room = _BYTES_AT_ONCE
            following = [(known, digest) for known, digest in self._block if known >= turn]
            for known, digest in following[: self._ahead]:
                size = self._store.blob_size(digest)
                room -= size if size <= LARGEST else 0
                if size <= LARGEST and room > 0:
                    some.append(known)
            self._ahead = min(4 * self._ahead, _AT_ONCE)
            found = self._store.payloads(some)
            self._payloads = {turn: b""} | {known: data for known, data in found if isinstance(data, bytes)}
        return self._payloads[turn]


class Likeness:
    """Sees the records of a new session as long as it may be, or is, like another conversation."""

    def __init__(self, store: Store, group: Group, format_: Format, *, alone: bool = False) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._alone = alone
        self._lens = lens_for(format_.main_type)
        self._before = store.viewer.chain(lambda _number: 0, 1)
        self._bookkeeping = True
        self._candidates: list[_Candidate] = []
        self.held: list[bytes] = []
        """The first records that are the session's own, and those that may yet turn out to be."""
        self.own = 0
        """How many records come first that are the session's own."""
        self._shared = 0
        self.begins: list[str] = []
        """What the session is known by."""

    @property
    def over(self) -> bool:
        """Whether the session has turned out to be like no other."""
        return not self._candidates and (self.own == LOOKED_AT or not self._bookkeeping)

    @property
    def follows(self) -> bool:
        """Whether the session is surely like another one so far, so that nothing more of it is held."""
        return bool(self._candidates) and self._shared >= _FEWEST

    def see(self, payload: bytes, digest: Hash) -> bool:
        """Say whether the next record is shared, or held; after a no, no more is to be seen.

        Of one that is too large to be held, as soon as it :attr:`follows`, the payload need not be given.
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

    def found(self) -> Found | None:
        """Return what the session shares; ``held`` is then what is its own before that. None: all that is held is."""
        best = min(self._candidates, key=lambda candidate: len(candidate.changes), default=None)
        if best is None:
            return None
        plain = not (self.own or best.left_out or best.changes)
        if self._shared < _FEWEST and not plain:
            return None
        self.held = self.held[: self.own]
        return Found(best.runs, best.left_out + self._shared, best.left_out, tuple(best.changes), best.begins)

    def _known_by(self, key: str) -> Sequence[_Candidate]:
        found: list[_Candidate] = []
        if self._alone:
            return found
        if key in self._group.begins:
            self._group.hurry()
        for entry in self._store.by_origin("begins", self._format.name, key, most=_MOST):
            begins = entry.metadata.get("begins")
            try:
                if isinstance(begins, list) and key in begins:
                    found.append(_Candidate(self._store, self._format, entry, begins.index(key)))
            except ConvfsError:
                # its branch cannot be read
                continue
        return found
