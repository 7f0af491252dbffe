"""The records of one conversation on their way in: past those that it has, and the rest appended."""

from __future__ import annotations

from collections.abc import Callable

from blake3 import blake3

from store.content.cutting import MAX_CUT_BYTES
from store.conversations import branch
from store.disk.turn_format import REDACTED, Turn
from store.errors import ConvfsError, DamageError
from store.formats.format import Format, Source
from store.ids import Hash, hash_bytes
from store.importing.appender import Appender
from store.importing.copied import Copied, Spelling
from store.importing.group import Group
from store.importing.imported import missing_of, read_files
from store.importing.likeness import LOOKED_AT, Likeness
from store.importing.redacted import is_of
from store.importing.respelling import collected
from store.importing.samples import Samples
from store.index.catalogue import Entry
from store.index.views import Measure, Run
from store.store import Store

_HASHED_AT_ONCE = 4 << 20
_LOOKED_UP_AT_ONCE = 256


class Diverged(Exception):
    """A session that shared its beginning with another one begins otherwise now: all of it must be taken anew."""


class Records:
    """Takes the records of a conversation, in order; ``known`` is it as it was imported before. Used once.

    What is left when all have been taken waits in ``group`` to be committed (:meth:`end`).
    """

    def __init__(self, store: Store, group: Group, format_: Format, source: Source, known: Entry | None) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._source = source
        self._known = known
        self.head = known.imported_head if known else 0
        # those that imports made, not those of the conversation as it may have been edited
        self.runs: tuple[Run, ...] = ()
        self.lost = False
        """Whether it cannot be told what the conversation has: then all of the session is brought in anew."""
        try:
            self.runs = store.runs(self.head)
        except DamageError:
            self.lost = True
        self.kept = branch.length(self.runs)
        """How many records the conversation has."""
        self._replaced = False
        self.begun = 0
        """How many records of the session there are before those that are taken."""
        self.count = 0
        """How many records of the session there are up to the one at hand, with that."""
        self.number = 0
        """The number of the record at hand in the branch, once it is appended."""
        files = read_files(known.metadata) if known and not self.lost else None
        self.copied: Copied | None = files.copied if files else None
        """How the session says what it shares with another."""
        self._left_out = self.copied.left_out if self.copied else 0
        self.number += self._left_out
        self._spelling: Spelling | None = None
        self._likeness: Likeness | None = None
        self.begins: list[str] = []
        """What a new session is known by."""
        self.samples = Samples(format_)
        self.appender: Appender | None = None
        self.ended = False
        """Whether there was anything to commit."""
        self.redacted = 0
        """The last record of the session that the conversation has without a secret, 0 if there is none."""
        self._turns: list[Turn] = []
        self._turns_from = 0
        self._earlier_missing = missing_of(known.metadata) if known else {}
        self._missing = dict(self._earlier_missing)

    def replace(self, head: int, runs: tuple[Run, ...]) -> None:
        """Take the place of another branch that the conversation has: the one of ``head``, compared with ``runs``."""
        self.head, self.runs, self.kept = head, runs, branch.length(runs)
        self._replaced = True
        self.copied, self._left_out = None, 0
        self.samples = Samples(self._format)
        self.begin(0)

    def begin(self, count: int) -> None:
        """Begin after so many records of the session, which the conversation has."""
        self.count = self.begun = count
        self.number = count + self._left_out

    def follow(self, runs: tuple[Run, ...]) -> None:
        """Begin after the records of another branch; the conversation's own are compared where it shares these."""
        shared = branch.length(runs)
        if tuple(branch.part(self.runs, 0, shared)) != tuple(branch.part(runs, 0, shared)):
            self.runs, self.kept = runs, shared
        self.begin(shared)

    def look_for_likes(self, *, alone: bool) -> None:
        """Let a new session share what it begins with, if another says the same and it is not to stand ``alone``."""
        if self._known is None:
            self._likeness = Likeness(self._store, self._group, self._format, alone=alone)

    def take(self, type_name: str, data: memoryview, passed: Callable[[int], None]) -> None:
        """Go past the next record if the conversation has it; from the first that it has not on, append.

        Releases ``data``. ``passed`` is told how far reading in it has come, if it is very large. Raises Diverged where
        a session no longer begins with what it shared with another.
        """
        self.count += 1
        self.number += 1
        with data:
            if len(data) > MAX_CUT_BYTES:
                like = self._likeness
                if like is not None and like.follows and like.see(b"", _hash_of(data, passed)):
                    return
                self.settle()
                if not self._comparing or not self._has(_hash_of(data, passed)):
                    self._diverge()
                    self.appending(self.number - 1).add_huge(type_name, data, passed)
                return
            payload = bytes(data)
        instead = self._redacted(payload)
        self.samples.see(self.count, payload if instead is None else instead)
        if instead is not None:
            self.redacted = self.count
            return
        if self._likeness is not None:
            taken = self._likeness.see(payload, hash_bytes(payload))
            if not taken or self._likeness.over:
                self.settle()
            if taken:
                return
        if not self._comparing or not self._has(hash_bytes(payload)):
            self._diverge()
            self._append(self.number, type_name, payload)

    def settle(self) -> None:
        """Look no more whether the session is like another: what has been taken is shared with that, or appended."""
        likeness, self._likeness = self._likeness, None
        if likeness is None:
            return
        found = likeness.found()
        self.begins = likeness.begins
        if found is not None:
            self.runs, self.kept = tuple(branch.part(found.runs, 0, found.records)), found.records
            self.begins = [*found.begins[: found.records], *likeness.begins[: likeness.own]][:LOOKED_AT]
            self._left_out = found.left_out
            self.number = self.count + found.left_out
            changes = collected(found.changes)
            if likeness.own or found.left_out or changes.kinds:
                blob = self._group.load.blob(changes.encode()).hex() if changes.kinds else ""
                self.copied = Copied(found.records, found.left_out, likeness.own, blob)
        for number, payload in enumerate(likeness.held, self.kept + 1):
            self._append(number, self._format.main_type, payload)

    def finish(self) -> None:
        """Take note that there are no more records. Raises Diverged as :meth:`take` does."""
        self.settle()
        if self.copied is not None and self.count < self.copied.reach:
            raise Diverged

    @property
    def _comparing(self) -> bool:
        return self.appender is None and self.number <= self.kept

    def _diverge(self) -> None:
        """Raise Diverged if the record at hand is one that the session shared with another, and is another now."""
        if self.copied is not None and self.count <= self.copied.reach:
            raise Diverged

    def _append(self, number: int, type_name: str, payload: bytes) -> None:
        appender = self.appending(number - 1)
        for blob in self._format.blobs(self._source, payload):
            if not appender.external(blob):
                self._missing.setdefault(blob.digest.hex(), number)
        appender.add(type_name, payload)

    def look_again(self) -> None:
        """Look once more for content that records of the last import refer to, and that was missing then."""
        known = self._earlier_missing.items()
        for number in sorted({number for digest, number in known if self._missing.get(digest) == number}):
            try:
                payload = self._store.payload(branch.position(self.runs, number))
            except ConvfsError:
                # a damaged record, which the store's own check tells of
                continue
            for blob in self._format.blobs(self._source, payload):
                if blob.digest.hex() in self._missing:
                    self.appending().external(blob)

    def appending(self, after: int = -1) -> Appender:
        """Append, from here on if not already: after record ``after`` (-1: the one at hand)."""
        if self.appender is None:
            after = self.number if after < 0 else after
            self._missing = {digest: number for digest, number in self._missing.items() if number <= after}
            parent = branch.position(self.runs, after) if after else None
            sums = self._sums(after)
            self.appender = Appender(self._store, self._group.load, self.runs, after, parent, sums)
        return self.appender

    def blob(self, data: memoryview, passed: Callable[[int], None]) -> Hash:
        """Store content that is no record, of any size."""
        return self.appending().blob(data, passed)

    @property
    def shared(self) -> int:
        """How many records a new session shares with another."""
        return self.kept if self._known is None else 0

    @property
    def missing(self) -> dict[str, int]:
        """Content that records refer to and that was not to be found, see :class:`Imported`."""
        return {digest: number for digest, number in self._missing.items() if number <= self.number}

    @property
    def added(self) -> int:
        """How many records were appended."""
        return self.appender.appended if self.appender else 0

    @property
    def tip(self) -> int:
        """The turn that the records taken end in, once they are committed; 0 if there are none."""
        if self.appender is not None:
            return self.appender.parent or 0
        return branch.position(self.runs, self.number) if self.number else 0

    @property
    def moved(self) -> bool:
        """Whether the conversation's branch is not to end where it ended."""
        return self._known is None or self._replaced or self.added > 0 or self._position != self.head

    @property
    def _position(self) -> int:
        return branch.position(self.runs, self.number) if self.number else 0

    def end(self, changes: dict[str, object]) -> None:
        """Have what is new committed, with ``changes`` of metadata; nothing if there is nothing to commit."""
        known, moved = self._known, self.moved
        if not (moved or changes or (self.appender and self.appender.aliases)):
            return
        if known:
            changes["updated_ms"] = known.updated_ms
        if moved and known and "imported_head" in known.metadata:
            # where the head moves to is where imports are, unless people have edited what they move
            changes["imported_head"] = None
        self.ended = True
        self._group.end(self.appending(), known.id if known else None, changes, self.head)

    def has(self, count: int) -> bool:
        """Whether the conversation has so many records of the session."""
        return count + self._left_out <= self.kept

    def _has(self, digest: Hash) -> bool:
        """Whether the record at hand is the one that the conversation has in its place."""
        number = self._place()
        if self._spelling is not None and self._spelling.changes(number):
            payload = self._store.payload(branch.position(self.runs, number))
            return hash_bytes(self._spelling.spelled(number, payload)) == digest
        return self._turn(number).payload_hash == digest

    def _redacted(self, payload: bytes) -> bytes | None:
        """Return what the conversation has of the record at hand if that is all of it but for a secret."""
        if not self._comparing:
            return None
        number = self._place()
        if not self._turn(number).flags & REDACTED:
            return None
        try:
            kept = self._store.payload(branch.position(self.runs, number))
        except ConvfsError:
            return None
        if self._spelling is not None:
            kept = self._spelling.spelled(number, kept)
        return kept if is_of(kept, payload) else None

    def _place(self) -> int:
        """Return the number in the branch of the record at hand."""
        if self.copied is None:
            return self.number
        if self._spelling is None:
            self._spelling = Spelling(self._store, self.copied)
        return self.copied.number(self.count - 1)

    def _turn(self, number: int) -> Turn:
        at = number - 1
        if not self._turns_from <= at < self._turns_from + len(self._turns):
            self._turns_from, self._turns = at, self._look_up(at)
        return self._turns[at - self._turns_from]

    def _look_up(self, at: int) -> list[Turn]:
        turns = self._store.turns
        try:
            return [turn for run in branch.part(self.runs, at, _LOOKED_UP_AT_ONCE) for turn in turns.range(*run)]
        except DamageError:
            # perhaps not this one
            return [turns.get(branch.position(self.runs, at + 1))]

    def _sums(self, after: int) -> Measure | None:
        """Return the measures of the records up to ``after``, if they are at hand."""
        if after == 0:
            return Measure(0, 0, 0, 0)
        if self._known is None or branch.position(self.runs, after) != self.head:
            return None
        sums = self._store.views.measures([self._known.id]).get(self._known.id)
        return sums if sums and sums.head == self.head else None


def _hash_of(data: memoryview, passed: Callable[[int], None]) -> Hash:
    """Return the hash of what may be larger than memory."""
    whole = blake3()
    for start in range(0, len(data), _HASHED_AT_ONCE):
        whole.update(data[start : start + _HASHED_AT_ONCE])
        passed(start)
    return Hash(whole.digest())
