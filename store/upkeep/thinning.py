"""Thinning: the packs of a space without what it has dropped.

Whoever collects reads what is in the packs that all machines may fetch. A blob is garbage if it was dropped after its
pack was brought, and is not held again. One that something else, which stays, is made from (a base, a dictionary, a
chunk) stays as well, dropped or not.

Packs with garbage are published once more without it, as they are otherwise, and then doomed: replicas that have all of
it skip the new ones, others fetch these instead. The objects of doomed packs are removed some time later, and so are
those that no record names: of a machine that died before it could register them.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Generator, Sequence, Set

import msgspec
from msgspec import Struct

from store import typed
from store.commit.intake import Intake
from store.disk.blob_format import decode_record
from store.disk.head_format import Dropped
from store.ids import now_ms
from store.shared import archive as segments
from store.shared import generations
from store.shared.archive import Archive
from store.shared.packs import Named, PackNote, Replacement, records_of
from store.shared.replica import Replica
from store.shared.space import Records
from store.upkeep.copying import Stripping

_ORPHANS = "orphans"
_ORPHAN_MS = 3600 * 1000


class _Record(Struct, gc=False):
    """A record of a pack: the keys of its blobs, and of those that it is made from."""

    names: list[int]
    needs: list[int]
    gone: set[int]
    """Those of its blobs that are garbage."""

    @property
    def stays(self) -> bool:
        """True if anything of it does."""
        return len(self.gone) < len(set(self.names))


class Thinning:
    """The removal of what a space has dropped from its packs, by the machine that holds the lease for it.

    Packs up to the number ``upto`` are thinned: what came later may have been brought again.
    """

    def __init__(self, replica: Replica, intake: Intake, upto: int) -> None:
        self._replica = replica
        self._intake = intake
        self._upto = upto

    def run(self, drops: Sequence[Dropped]) -> Generator[None, None, None]:
        """Thin packs; ``drops`` is all that the space has ever dropped. Raises StoreFailed, DamageError."""
        if not drops:
            return
        _space, packs = self._replica.connected()
        held = self._held(set().union(*(array("q", drop.keys) for drop in drops)))
        known: dict[int, list[_Record]] = {}
        notes: dict[int, PackNote] = {}
        garbage: set[int] = set()
        waiting = sorted(drops, key=lambda drop: drop.packs)
        for number, note in reversed(packs.notes()):
            # what was brought after it was dropped is none
            while waiting and waiting[-1].packs >= number:
                garbage.update(set(array("q", waiting.pop().keys)) - held)
            if number > self._upto or note.doomed_ms:
                continue
            yield
            if (named := packs.named(number, note)) is not None:
                notes[number] = note
                known[number] = [_looked_at(one, garbage) for one in named]
        _keep_needed(known)
        chosen = sorted(number for number, records in known.items() if any(record.gone for record in records))
        for sealed in (False, True):
            some = [number for number in chosen if notes[number].sealed == sealed]
            replacement = Replacement(packs, sealed=sealed)
            stripping = Stripping(self._intake.writer, self._intake.dictionary(), replacement)
            for number in some:
                yield
                if (data := packs.data(number, notes[number])) is not None:
                    both = zip(records_of(data, number), known[number], strict=True)
                    for (record, _names), looked in both:
                        if looked.stays:
                            yield from stripping.take(decode_record(memoryview(record)), looked.names, looked.gone)
            replacement.finish(some, now_ms())

    def remove(self, grace_seconds: float) -> int:
        """Remove what has been doomed for so long; return how many bytes that has freed. Raises StoreFailed."""
        space, packs = self._replica.connected()
        now = now_ms()
        freed = packs.remove(now - int(grace_seconds * 1000))
        archive = Archive(space)
        orphans = packs.orphans() + archive.orphans()
        if not self._replica.redactions.ahead(space):
            orphans += generations.orphans(space)
        abandoned = _abandoned(space.records, orphans, now, max(int(grace_seconds * 1000), _ORPHAN_MS))
        archive.remove([key for key in abandoned if key.startswith(segments.PREFIX)])
        for key in abandoned:
            if not key.startswith(segments.PREFIX):
                space.bucket.delete(key)
        return freed

    def _held(self, keys: Set[int]) -> set[int]:
        index, doomed = self._intake.writer.index, self._intake.doomed
        return {key for key in keys if key not in doomed and index.places_of(key)}


def _looked_at(named: Named, garbage: set[int]) -> _Record:
    names = array("q", named.names).tolist()
    return _Record(names, array("q", named.needs).tolist(), garbage.intersection(names))


def _keep_needed(packs: dict[int, list[_Record]]) -> None:
    """Have blobs stay that records which stay are made from."""
    holding: dict[int, list[_Record]] = {}
    todo: deque[_Record] = deque()
    for records in packs.values():
        for record in records:
            if record.stays:
                todo.append(record)
            for key in record.gone:
                holding.setdefault(key, []).append(record)
    while todo:
        for key in todo.popleft().needs:
            for needed in holding.pop(key, ()):
                if not needed.stays:
                    todo.append(needed)
                needed.gone.discard(key)


def _abandoned(records: Records, orphans: Sequence[str], now: int, after_ms: int) -> list[str]:
    """Return those of the objects without a record that have been seen for long; note the others, with the time."""
    record = records.record(_ORPHANS)
    before = typed.decode(record.value, dict[str, int]) if record.value else {}
    seen = {key: min(before.get(key, now), now) for key in orphans}
    old = [key for key, since in seen.items() if since <= now - after_ms]
    left = {key: since for key, since in seen.items() if key not in old}
    if left != before:
        records.swap(_ORPHANS, record.version, msgspec.json.encode(left) if left else b"")
    return old
