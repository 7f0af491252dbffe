"""The redactions of a space, as a replica learns of them, applies them and says that it has.

A replica that does not know one commits nothing, and reads nothing newer: what comes next follows another history than
its own, or is the entry that says so. Then that redaction is *due*. How it is worked out, applied to a store and to
what the space has is ``store.upkeep.purging``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from store.commit.writer import Writer
from store.disk.head_format import HeadFrame, Held, Redacted, decode_all
from store.disk.journal_format import decode_entry
from store.errors import NotFound, Unreachable, Unredacted
from store.ids import now_ms
from store.shared import generations
from store.shared.entry import Entry
from store.shared.generations import Seen
from store.shared.history import History
from store.shared.leases import Leases
from store.shared.published import PublishedFile, Reached
from store.shared.space import ANOTHER, Log, Membership, Records, Space

if TYPE_CHECKING:
    from store.shared.access import Access, Standing

_LOG = logging.getLogger(__name__)

LEASE = "redaction"
"""The lease of who redacts."""


class Redactions:
    """The redactions of the space of one replica. ``only_read`` has it write nothing more, and returns the error."""

    def __init__(
        self,
        member: Membership,
        writer: Writer,
        published: PublishedFile,
        history: History,
        only_read: Callable[[str], Unreachable],
    ) -> None:
        self._member = member
        self._writer = writer
        self._published = published
        self._history = history
        self._only_read = only_read
        self.patch: Callable[[bytes, Log], tuple[int, bytes]] = lambda _patch, _log: (0, b"")
        """Does to the store what a redaction has done to the space; see ``store.upkeep.purging.renew``."""
        self.complete: Callable[[], None] = lambda: None
        """Purges the space if whoever has redacted did not come to that."""
        self.applying = threading.RLock()
        """Held while the replica does that."""
        self.holder = 0
        """The replica for whose redaction commits wait."""
        self._due: Redacted | None = None
        self.last = generations.Generation()
        """The last redaction of the space, as it was when that was looked at."""
        self._said = Seen()
        """The last that this replica has said of itself."""
        self._said_version: int | None = None
        """The version of the record with that; None if it is not known."""
        self.owes = False
        """True while the space was not purged since a redaction that it has applied, or it has keys from before."""

    @property
    def generation(self) -> int:
        """The last redaction that this replica has applied."""
        return self._published.now.generation

    # -- learning of them ------------------------------------------------------------------------------------------

    @property
    def due(self) -> Redacted | None:
        """The redaction that comes next; None if there is none."""
        return self._due if self._due is not None and self._due.generation > self.generation else None

    def look(self, space: Space) -> None:
        """Look at the last redaction of the space."""
        self.last = generations.current(space.records)

    def begin(self, space: Space) -> None:
        """Have a new replica begin with the space as it is, and one that has lost what it has applied with its log."""
        self.look(space)
        last = self.last
        if self.generation or not last.generation:
            return
        generation = last.generation if last.purged else 0
        if self._writer.seq:
            # it was applied before the commit that says so
            frames = (frame.body for frame in self._writer.head_log.frames() if isinstance(frame, HeadFrame))
            generation = max((body.generation for body in frames if isinstance(body, Redacted)), default=0)
        if generation:
            self._published.note(generation=generation)

    def check(self, space: Space, entry: Entry | None = None) -> None:
        """Raise Unredacted if this replica does not know a redaction that the space, or an entry of it, knows."""
        for frame in decode_all(decode_entry(entry.body).heads, 0) if entry is not None else ():
            if isinstance(frame.body, Redacted) and frame.body.generation == self.generation + 1:
                self._check_redacted(frame.body)
        # it may be on the way, from the last entry to the first
        generation, key = generations.current(space.records).after(self.generation)
        self._check_redacted(Redacted(generation, 0, key))

    def told(self, note: Held | Redacted) -> None:
        """Take what an entry says. Raises Unredacted if that is a redaction which this replica does not know."""
        if isinstance(note, Held):
            self.holder = note.number if note.number != self._member.number else 0
        else:
            self.holder = 0
            self._check_redacted(note)

    def waits(self, records: Records, leases: Leases) -> bool:
        """Return whether commits have to wait for another machine, which redacts. Raises Unreachable."""
        if self.holder and not leases.alive(records, LEASE):
            self.holder = 0
        return self.holder != 0

    def _check_redacted(self, redacted: Redacted) -> None:
        if redacted.generation > self.generation:
            self._due = redacted
            raise Unredacted(f"the space {self._member.space} was redacted: what this replica has is, first: try again")

    # -- applying them ---------------------------------------------------------------------------------------------

    def patch_of(self, space: Space, redacted: Redacted) -> bytes:
        """Return what a redaction changes. Raises Unreachable if the space no longer says so, or is away."""
        try:
            return space.bucket.get(redacted.key)
        except NotFound:
            raise self._only_read(f"the space was redacted, and no longer says how: {ANOTHER}") from None

    def applied(self, generation: int, seq: int, chain: bytes) -> None:
        """Note that a redaction was applied, with which the commit ``seq`` has the chain ``chain``.

        Raises Unreachable if that of this replica is another.
        """
        reached = self._writer.seq
        known = self._history.logged(reached, anew=True)
        if reached == seq:
            if known not in (b"", chain):
                raise self._only_read(f"this replica differs from the space since it was redacted: {ANOTHER}")
            known = chain
        # the space may still have it as it was
        place = self._history.place(reached, known) if known else Reached()
        self._published.note(generation=generation, reached=place)
        if known:
            self._history.reach(reached, known)
        else:
            # the space says it
            self._history.forget()

    def ahead(self, space: Space) -> bool:
        """Return whether this replica has applied a redaction that the space was not purged after."""
        last = generations.current(space.records) if self.generation else generations.Generation()
        return last.generation < self.generation or not last.purged

    # -- saying so -------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """True if this replica has applied the last redaction, and the space was purged, when that was looked at."""
        return self.last.purged and self.last.generation == self.generation

    @property
    def has_news(self) -> bool:
        """True if there is anything else to be said of this replica than was said last."""
        return structs.replace(self._seen(), ms=0) != structs.replace(self._said, ms=0)

    def say(self, space: Space, access: Access | None, administers: Callable[[], bool]) -> None:
        """Say in the space that this replica is there, and which redaction it has done, as :meth:`look` has found them.

        If the space has been purged, it gives up its keys from before that.
        """
        if self._member.only_follows:
            # it has the number of the replica that it was made beside, which may not have come as far
            return
        last, generation = self.last, self.generation
        self.owes = generation > 0 and last.generation <= generation and not self._done(last, access)
        seen = self._seen()
        self._said_version = generations.say(space.records, self._member.number, seen, self._said_version)
        self._said = Seen() if self._said_version is None else seen
        # mostly there is none: then nobody is asked who may remove it
        if last.key and administers():
            generations.forget_patch(space, _revoked(_standing(access)))

    def _seen(self) -> Seen:
        now = self._published.now
        return Seen(now_ms(), self._writer.seq, self.generation - self.owes, now.dropped, now.collected)

    def _done(self, last: generations.Generation, access: Access | None) -> bool:
        """Give up the keys from before the last redaction, if it was purged; return whether they are."""
        if last.generation < self.generation or not last.purged:
            return False
        if access is not None:
            try:
                access.give_up(last.space_key)
            except Unreachable as error:
                _LOG.warning("the keys from before the last redaction are still there: %s", error)
                return False
        return True

    def named(
        self, space: Space, access: Access | None, which: Callable[[Records, Container[int]], generations.Behind]
    ) -> list[tuple[str, int]]:
        """Return some machines that are not revoked by their names, and when they were last there, in Unix ms.

        Raises Unreachable, DamageError.
        """
        standing = _standing(access)
        names = {one.number: one.machine for one in standing}
        return [
            (names.get(member.number, member.machine), seen.ms)
            for member, seen in which(space.records, _revoked(standing))
        ]


def _standing(access: Access | None) -> Sequence[Standing]:
    return access.members() if access is not None else ()


def _revoked(standing: Sequence[Standing]) -> list[int]:
    return [one.number for one in standing if one.revoked_ms]
