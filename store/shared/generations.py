"""Generations: how often a space was redacted, and which replicas have done what that takes.

The record ``redaction`` is JSON: ``{"generation", "key", "seq", "purged", "space_key", "earlier"}``. The object ``key``
is the patch (``store.upkeep.patching``) of the last redaction, which rewrites all up to the commit ``seq``; ``purged``
is true once the space has nothing older any more, and nothing that is sealed with keys before ``space_key``. The object
is removed, and ``key`` empty, once all replicas have said that they have done the same. Until then those of redactions
before that are there, too, in ``earlier``, as ``[generation, key]``: who was away applies one after the other.

The record ``seen/`` and 6 digits is what a replica says of itself: ``{"ms", "seq", "generation", "dropped",
"collected"}``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec
from msgspec import Struct

from store import typed
from store.errors import DamageError
from store.shared import roster
from store.shared.space import Record, Records, Space

KEY = "redaction"
SEEN = "seen/"
PATCHES = "patch/"


class Generation(Struct, frozen=True):
    """The last redaction of a space."""

    generation: int = 0
    key: str = ""
    seq: int = 0
    purged: bool = True
    space_key: int = 0
    """The first key of the space that nothing from before was sealed with; 0 if it is not encrypted."""
    earlier: tuple[tuple[int, str], ...] = ()
    """The generations and patches of redactions before that, which some replica has not applied."""

    def next(self, key: str, seq: int, space_key: int) -> Generation:
        """Return the next redaction, which has not been purged."""
        earlier = (*self.earlier, (self.generation, self.key)) if self.key else ()
        return Generation(self.generation + 1, key, seq, False, space_key, earlier)

    def after(self, generation: int) -> tuple[int, str]:
        """Return the number and the patch of the first redaction after another; (0, "") if there is none."""
        later = [one for one in (*self.earlier, (self.generation, self.key)) if one[0] > generation]
        return later[0] if later else (0, "")


class Seen(Struct, frozen=True):
    """When a replica was last there, in Unix milliseconds, its commit then, and the last redaction that it has done.

    That is once it has applied it, and erased the keys from before. ``dropped`` is the last commit by which the space
    has dropped something, as far as it knows, and ``collected`` the last one of which nothing is left in its files.
    """

    ms: int = 0
    seq: int = 0
    generation: int = 0
    dropped: int = 0
    collected: int = 0


def current(records: Records) -> Generation:
    """Return the last redaction. Raises Unreachable, DamageError."""
    return _generation(records.record(KEY))


def note(records: Records, generation: Generation) -> None:
    """Note a redaction, or how far it is. An older one than is noted is not."""
    while True:
        record = records.record(KEY)
        known = _generation(record)
        if (known.generation, known.purged) >= (generation.generation, generation.purged):
            return
        if records.swap(KEY, record.version, msgspec.json.encode(generation)):
            return


def say(records: Records, number: int, seen: Seen, version: int | None = None) -> int | None:
    """Have a replica say that it is there; return the version of its record then, None if another process said so.

    ``version`` is that of the record now, if it is known.
    """
    key, value = f"{SEEN}{number:06}", msgspec.json.encode(seen)
    if version is None or not records.swap(key, version, value):
        version = records.record(key).version
        if not records.swap(key, version, value):
            return None
    return version + 1


def seen(records: Records) -> dict[int, Seen]:
    """Return what the replicas have said last, by their numbers. Raises Unreachable, DamageError."""
    try:
        return {
            int(record.key.removeprefix(SEEN)): typed.decode(record.value, Seen) for record in records.records(SEEN)
        }
    except (msgspec.DecodeError, ValueError) as error:
        raise DamageError(f"what the space says of its machines makes no sense: {error}") from None


Behind = list[tuple[roster.Member, Seen]]
"""Replicas that have not done something yet, and what they have said last."""


def behind(records: Records, revoked: Container[int] = ()) -> Behind:
    """Return the replicas that have not applied the last redaction; no revoked ones."""
    generation = current(records).generation
    return [one for one in _said(records, revoked) if one[1].generation < generation]


def uncollected(records: Records, revoked: Container[int] = ()) -> Behind:
    """Return the replicas that may still have something that the space has dropped; no revoked ones."""
    said = _said(records, revoked)
    dropped = last_drop(one for _member, one in said)
    return [one for one in said if one[1].collected < dropped]


def last_drop(said: Iterable[Seen]) -> int:
    """Return the last commit by which the space has dropped something, as far as anybody has said."""
    return max((one.dropped for one in said), default=0)


def _said(records: Records, revoked: Container[int]) -> Behind:
    known = seen(records)
    members = (member for member in roster.members(records) if member.number not in revoked)
    return [(member, known.get(member.number, Seen())) for member in members]


def forget_patch(space: Space, revoked: Container[int] = ()) -> None:
    """Remove the patch of the last redaction once all replicas have applied it, but for revoked ones."""
    record = space.records.record(KEY)
    last = _generation(record)
    if last.key and last.purged and not behind(space.records, revoked):
        done = msgspec.json.encode(msgspec.structs.replace(last, key="", earlier=()))
        if space.records.swap(KEY, record.version, done):
            for _generation_of_it, key in (*last.earlier, (last.generation, last.key)):
                space.bucket.delete(key)


def orphans(space: Space) -> list[str]:
    """Return the keys of patches that no redaction has: a machine is about to commit one, or died before it did."""
    found = [key for key, _length in space.bucket.list(PATCHES)]
    # in this order: a redaction is noted after its patch was put
    last = current(space.records)
    known = {last.key, *(key for _generation_of_it, key in last.earlier)}
    return [key for key in found if key not in known]


def _generation(record: Record) -> Generation:
    try:
        return typed.decode(record.value, Generation) if record.value else Generation()
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its redactions makes no sense: {error}") from None
