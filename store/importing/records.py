"""The records of one conversation on their way in: past those that it has, and the rest appended."""

from collections.abc import Iterable, Iterator
from functools import partial

from msgspec import Struct

from store.content.cuts import MAX_CUT_BYTES
from store.conversations import branch
from store.disk.turn_format import REDACTED, Turn
from store.errors import ConvfsError, DamageError
from store.formats.core.format import Format, Source
from store.ids import Hash, hash_bytes
from store.importing.crew import Records
from store.importing.group import Appender, Ending, Group, events_of
from store.importing.likeness import Copied, Likeness, Spelling, collected, is_of
from store.importing.provenance import missing_of, read_files
from store.importing.reading import FIRST_BYTES, FIRST_RECORDS, LOOKED_AT, Samples
from store.importing.snapshot import Passed, hash_of_large
from store.importing.unclaimed import Unclaimed
from store.importing.unseen import Unseen
from store.index.catalogue import ContextEntry
from store.index.views import Measure, Run
from store.store import Store


def recalled(
    store: Store, runs: tuple[Run, ...], spelling: Spelling, seen: int, titled: Iterable[int]
) -> Iterator[bytes]:
    """Yield what an earlier import saw of the first ``seen`` records of a session; ``titled`` are the late ones.

    The branch ``runs`` has them as ``spelling`` says.
    """
    room = FIRST_BYTES
    for count in (*range(1, min(seen, FIRST_RECORDS) + 1), *titled):
        number = spelling.copied.number(count - 1) if spelling.copied else count
        digest = store.turns.get(branch.position(runs, number)).payload_hash
        try:
            size = store.blobs.size(digest)
            if size <= room:
                room -= size
                yield spelling.spelled(number, store.blobs.blob(digest))
        except ConvfsError:
            # a damaged record tells nothing
            continue


_LOOKED_UP_AT_ONCE = 256
_LARGE = 8 << 20


class Diverged(Exception):
    """A session no longer begins with what it shared with another one: all of it must be taken anew."""


_TOUCHED = frozenset(("cursor", "beside", "file", "updated_ms", "written_ns"))
"""Metadata that changes when the files of a conversation were rewritten or replaced, and still say the same."""


class Done(Struct, frozen=True):
    """The outcome for one conversation: its name, and how many of its records and bytes were new.

    ``changed``: the conversation is not as it was, or was not there at all (``new``). ``opaque`` counts records too
    large to be looked into, ``problems`` lists what was left out, ``missing`` the missing content that records
    refer to, a line each.
    """

    project: str = ""
    name: str = ""
    changed: bool = False
    records: int = 0
    opaque: int = 0
    bytes_read: int = 0
    problems: list[str] = []
    new: bool = False
    missing: list[str] = []


class RecordIntake:
    """Takes the records of a conversation, in order; ``known`` is the conversation as imported before. Used once.

    When all have been taken, the rest waits in ``group`` for a commit (:meth:`end`).
    """

    def __init__(
        self,
        store: Store,
        group: Group,
        format_: Format,
        source: Source,
        known: ContextEntry | None,
        unseen: Unseen,
        unclaimed: Unclaimed | None = None,
    ) -> None:
        self._store = store
        self._group = group
        self._format = format_
        self._source = source
        self._known = known
        self._unclaimed = unclaimed
        self.head = known.imported_head if known else 0
        # the records of imports, not those of the conversation, which may have been edited
        self.runs: tuple[Run, ...] = ()
        self.lost = False
        """True if the conversation's records cannot be determined: then all of the session is brought in anew."""
        try:
            self.runs = store.records.runs(self.head)
        except DamageError:
            self.lost = True
        self.kept = branch.length(self.runs)
        """The number of records in the conversation."""
        self._replaced = False
        self.begun = 0
        """The number of records of the session before those that are taken."""
        self.count = 0
        """The number of records of the session up to the one at hand, with that."""
        self.number = 0
        """The number of the record at hand in the branch, once it is appended."""
        files = read_files(known.metadata) if known and not self.lost else None
        self.copied: Copied | None = files.copied if files else None
        """The part that the session shares with another, and how it spells that."""
        self._left_out = self.copied.left_out if self.copied else 0
        self.number += self._left_out
        self._spelling: Spelling | None = None
        self._likeness: Likeness | None = None
        self.begins: list[str] = []
        """The beginnings that identify a new session."""
        self.samples = Samples(format_)
        self.unseen = unseen
        """The texts of the records that no event shows."""
        if self.head:
            self.unseen.read_by(partial(events_of, store, self.head))
        self._prepared: Records | None = None
        self.problems: list[str] = []
        """Files beside the session that were left out, a line each."""
        self.appender: Appender | None = None
        self.ending: Ending | None = None
        """The commit that it waits for, None if nothing of it is to be committed."""
        self.redacted = 0
        """The last record of the session that the conversation has without a secret, 0 if there is none."""
        self._turns: list[Turn] = []
        self._turns_from = 0
        self._earlier_missing = missing_of(known.metadata) if known else {}
        self._missing = dict(self._earlier_missing)

    def replace(self, head: int, runs: tuple[Run, ...]) -> None:
        """Replace another branch of the conversation, that of ``head``; the records are compared with ``runs``."""
        self.head, self.runs, self.kept = head, runs, branch.length(runs)
        self._replaced = True
        self.copied, self._left_out = None, 0
        self.samples = Samples(self._format)
        self.begin(0)

    def begin(self, count: int) -> None:
        """Begin after the first ``count`` records of the session, which the conversation has."""
        self.count = self.begun = count
        self.number = count + self._left_out

    def follow(self, runs: tuple[Run, ...]) -> None:
        """Begin after the records of another branch; the conversation's own are compared where it shares these."""
        shared = branch.length(runs)
        if tuple(branch.part(self.runs, 0, shared)) != tuple(branch.part(runs, 0, shared)):
            self.runs, self.kept = runs, shared
        self.begin(shared)

    def look_for_likes(self, *, alone: bool) -> None:
        """Look for another conversation whose beginning a new session can share, unless it must stand ``alone``."""
        if self._known is None:
            self._likeness = Likeness(self._store, self._group, self._format, alone=alone)

    def take(self, type_name: str, data: memoryview, passed: Passed) -> None:
        """Skip the next record if the conversation has it; from the first that it lacks on, append.

        Releases ``data``. ``passed`` gets the progress of reading it, if it is very large. Raises Diverged where a
        session no longer begins with what it shared with another.
        """
        self.count += 1
        self.number += 1
        with data:
            if len(data) > MAX_CUT_BYTES:
                like = self._likeness
                if like is not None and like.follows and like.see(b"", hash_of_large(data, passed)):
                    return
                self.settle()
                if not self._comparing or not self._has(hash_of_large(data, passed)):
                    self._diverge()
                    self.appending(self.number - 1).add_huge(type_name, data, passed)
                return
            payload = bytes(data)
            if len(payload) > _LARGE:
                # of a mapped file, it would be in memory twice
                passed(len(payload))
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

    def take_prepared(self, prepared: Records, passed: Passed) -> bool:
        """Take a new session as it was prepared; ``passed`` gets the bytes of its records so far.

        Returns False where it may begin as another one does, or was not prepared to its end. Then it must be read, by
        another intake.
        """
        self._prepared = prepared
        likeness, self._likeness = self._likeness, None
        has_blobs = type(self._format).blobs is not Format.blobs
        size = 0
        while (chunk := prepared.take()).records:
            appender = self.appending(0)
            appender.prepared_outside(chunk.aliases)
            for number, record in enumerate(chunk.records if has_blobs or likeness else (), self.count + 1):
                if record.payload is None:
                    continue
                if likeness is not None:
                    likeness.see(record.payload, record.digest)
                    if likeness.has_candidates:
                        return False
                    self.begins = likeness.begins
                    likeness = None if likeness.over else likeness
                if has_blobs:
                    self._bring_blobs(appender, number, record.payload)
            appender.add_prepared(chunk)
            self.count += len(chunk.records)
            self.number = self.count
            size += chunk.size
            passed(size)
        return prepared.whole is not None

    def settle(self) -> None:
        """Stop comparing the session with others: the records taken so far are shared with one, or appended."""
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
        """End the records. Raises Diverged as :meth:`take` does."""
        self.settle()
        if self.copied is not None and self.count < self.copied.reach:
            raise Diverged

    @property
    def _comparing(self) -> bool:
        return self.appender is None and self.number <= self.kept

    def _diverge(self) -> None:
        if self.copied is not None and self.count <= self.copied.reach:
            raise Diverged

    def _append(self, number: int, type_name: str, payload: bytes) -> None:
        if type_name == self._format.main_type:
            type_name = self._format.type_of(self._source, payload)
        appender = self.appending(number - 1)
        self._bring_blobs(appender, number, payload)
        appender.add(type_name, payload)

    def _bring_blobs(self, appender: Appender, number: int, payload: bytes) -> None:
        for blob in self._format.blobs(self._source, payload):
            if not appender.external(blob):
                self._missing.setdefault(blob.digest.hex(), number)

    def look_again(self) -> None:
        """Look again for content that records of the last import refer to, and that was missing then."""
        known = self._earlier_missing.items()
        for number in sorted({number for digest, number in known if self._missing.get(digest) == number}):
            try:
                payload = self._store.contents.payload(branch.position(self.runs, number))
            except ConvfsError:
                # a damaged record, which the store's own check tells of
                continue
            for blob in self._format.blobs(self._source, payload):
                if blob.digest.hex() in self._missing:
                    self.appending().external(blob)

    def appending(self, after: int = -1) -> Appender:
        """Return the appender; unless one exists, it begins after record ``after`` (-1: the one at hand)."""
        if self.appender is None:
            after = self.number if after < 0 else after
            self._missing = {digest: number for digest, number in self._missing.items() if number <= after}
            sums = self._sums(after)
            group, unseen, prepared = self._group, self.unseen, self._prepared
            self.appender = Appender(
                self._store, group.load, self.runs, after, sums, unseen, prepared, measures=group.measures
            )
        return self.appender

    @property
    def missing(self) -> dict[str, int]:
        """The missing content that records refer to, see :class:`Imported`."""
        return {digest: number for digest, number in self._missing.items() if number <= self.number}

    @property
    def added(self) -> int:
        return self.appender.appended if self.appender else 0

    @property
    def tip(self) -> int:
        """The last turn of the records taken, once they are committed; 0 if there are none."""
        return self._position if self.appender is None else self.appender.parent or 0

    @property
    def moved(self) -> bool:
        """True if the conversation's branch must end elsewhere than before."""
        return self._known is None or self._replaced or self.added > 0 or self._position != self.head

    @property
    def _position(self) -> int:
        return branch.position(self.runs, self.number) if self.number else 0

    def end(self, changes: dict[str, object], size: int) -> Done:
        """Queue what is new for a commit, with ``changes`` of metadata; return the outcome, of ``size`` bytes read."""
        known, moved = self._known, self.moved
        changed = moved or not changes.keys() <= _TOUCHED
        if moved or changes or (self.appender and self.appender.aliases):
            if known:
                changes["updated_ms"] = known.updated_ms
            if moved and known and "imported_head" in known.metadata:
                # where the head moves to is where imports are, unless people have edited what they move
                changes["imported_head"] = None
            context = known.id if known else None
            self.ending = self._group.end(self.appending(), context, changes, self.head, self._unclaimed)
        return self.done(changes, size, changed=changed)

    def done(self, changes: dict[str, object], size: int, *, changed: bool) -> Done:
        """Return the outcome for the conversation, whose metadata has ``changes``: also for one in the trash."""
        known, appender = self._known, self.appender
        described = {**known.metadata, **changes} if known else changes
        return Done(
            str(described.get("project", "")),
            str(described.get("name", "")),
            changed,
            self.added,
            appender.opaque if appender else 0,
            size,
            self.problems + (appender.problems if appender else []),
            known is None,
            appender.missing if appender else [],
        )

    def has(self, count: int) -> bool:
        """Return whether the conversation has ``count`` records of the session."""
        return count + self._left_out <= self.kept

    def _has(self, digest: Hash) -> bool:
        number = self._place()
        if self._spelling is not None and self._spelling.changes(number):
            payload = self._store.contents.payload(branch.position(self.runs, number))
            return hash_bytes(self._spelling.spelled(number, payload)) == digest
        return self._turn(number).payload_hash == digest

    def _redacted(self, payload: bytes) -> bytes | None:
        """Return the conversation's version of the record at hand if that only lacks a secret."""
        if not self._comparing:
            return None
        number = self._place()
        if not self._turn(number).flags & REDACTED:
            return None
        try:
            kept = self._store.contents.payload(branch.position(self.runs, number))
        except ConvfsError:
            return None
        if self._spelling is not None:
            kept = self._spelling.spelled(number, kept)
        return kept if is_of(kept, payload) else None

    def _place(self) -> int:
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
        if after == 0:
            return Measure(0)
        if self._known is None or branch.position(self.runs, after) != self.head:
            return None
        sums = self._store.views.measures([self._known.id]).get(self._known.id)
        return sums if sums and sums.head == self.head else None
