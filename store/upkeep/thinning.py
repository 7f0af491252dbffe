"""Thinning: the packs of a space without what it has dropped.

Whoever collects reads the packs that all machines may fetch. A record is garbage if all its blobs were dropped, and
are not held again: this replica, which has all that is held, lacks them. A record that another, which stays, is made
from (a base, a dictionary, a chunk) stays as well, dropped or not.

Packs with a good part of garbage are published once more without it, as they are otherwise, and then doomed: replicas
that had them skip the new ones, others fetch these instead. The objects of doomed packs are removed some time later,
and so are those that no record names: of a machine that died before it could register them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence, Set

import msgspec
from msgspec import Struct

from store import typed
from store.commit.intake import Intake
from store.content.sealed import needs_of
from store.disk.blob_format import decode_record
from store.ids import Hash, hash_key, now_ms
from store.shared import generations
from store.shared.packs import PACK_BYTES, PackNote, Packs, records_of
from store.shared.replica import Replica
from store.shared.space import Records

_ORPHANS = "orphans"
_ORPHAN_MS = 3600 * 1000


class _Record(Struct, gc=False):
    """A record of a pack: the keys of its blobs and of those that it is made from, its size, and whether it stays."""

    names: list[int]
    needs: list[int]
    size: int
    stays: bool


class Thinning:
    """The removal of what a space has dropped from its packs, by the machine that holds the lease for it.

    Packs up to the number ``upto`` are thinned: what came later may have been brought again.
    """

    def __init__(self, replica: Replica, intake: Intake, upto: int) -> None:
        self._replica = replica
        self._intake = intake
        self._upto = upto

    def run(self, dropped: Set[int], least_part: float, grace_seconds: float) -> Generator[None, None, int]:
        """Thin packs of which ``least_part`` or more is garbage; ``dropped`` are the keys of all that ever was dropped.

        Removes what has been doomed for ``grace_seconds``. Returns how many bytes that has freed. Raises StoreFailed,
        DamageError.
        """
        space, packs = self._replica.connected()
        if dropped:
            yield from self._thin(packs, dropped, least_part)
        now = now_ms()
        freed = packs.remove(now - int(grace_seconds * 1000))
        orphans = packs.orphans()
        if not self._replica.redactions.ahead(space):
            orphans += generations.orphans(space)
        for key in _abandoned(space.records, orphans, now, max(int(grace_seconds * 1000), _ORPHAN_MS)):
            space.bucket.delete(key)
        return freed

    def _thin(self, packs: Packs, dropped: Set[int], least_part: float) -> Generator[None, None, None]:
        known: dict[int, list[_Record]] = {}
        notes: dict[int, PackNote] = {}
        garbage = dropped - self._held(dropped)
        for number, note in packs.notes():
            if number > self._upto or note.doomed_ms:
                continue
            yield
            if (data := packs.data(number, note)) is not None:
                notes[number] = note
                known[number] = [_looked_at(record, names, garbage) for record, names in records_of(data, number)]
        _keep_needed(known)
        chosen = []
        for number, records in known.items():
            size = sum(record.size for record in records)
            gone = sum(record.size for record in records if not record.stays)
            if gone and gone >= least_part * size:
                chosen.append(number)
        kept: list[bytes] = []
        for number in chosen:
            yield
            if (data := packs.data(number, notes[number])) is not None:
                both = zip(records_of(data, number), known[number], strict=True)
                kept += [record for (record, _names), looked in both if looked.stays]
            if sum(map(len, kept)) >= PACK_BYTES:
                self._publish(packs, kept)
                kept = []
        if kept:
            self._publish(packs, kept)
        packs.doom(chosen, now_ms())

    def _publish(self, packs: Packs, records: Sequence[bytes]) -> None:
        self._replica.holdings.republished(packs.publish(records, again=True))

    def _held(self, keys: Set[int]) -> set[int]:
        index, doomed = self._intake.writer.index, self._intake.doomed
        return {key for key in keys if key not in doomed and index.places_of(key)}


def _looked_at(data: bytes, names: Sequence[Hash], garbage: Set[int]) -> _Record:
    needs = list(map(hash_key, needs_of(decode_record(memoryview(data)))))
    keys = list(map(hash_key, names))
    return _Record(keys, needs, len(data), not garbage >= set(keys))


def _keep_needed(packs: dict[int, list[_Record]]) -> None:
    """Have records stay that others which stay are made from."""
    holding: dict[int, list[_Record]] = {}
    todo: deque[_Record] = deque()
    for records in packs.values():
        for record in records:
            if record.stays:
                todo.append(record)
            for key in () if record.stays else record.names:
                holding.setdefault(key, []).append(record)
    while todo:
        for key in todo.popleft().needs:
            for needed in holding.pop(key, ()):
                if not needed.stays:
                    needed.stays = True
                    todo.append(needed)


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
