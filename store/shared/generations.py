"""Generations: how often a space was redacted, and which replicas have done what that takes.

The record ``redaction`` is JSON: ``{"generation", "key", "seq", "purged"}``. The object ``key`` is the patch
(``store.upkeep.patching``) of the last redaction, which rewrites all up to the commit ``seq``; ``purged`` is true once
the space has nothing older any more. The object is removed, and ``key`` empty, once all replicas have said that they
have applied it.

The record ``seen/`` and 6 digits is what a replica says of itself: ``{"ms", "seq", "generation"}``.
"""

from __future__ import annotations

from collections.abc import Container

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


class Seen(Struct, frozen=True):
    """When a replica was last there, in Unix milliseconds, the commit and the generation that it had."""

    ms: int = 0
    seq: int = 0
    generation: int = 0


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


def say(records: Records, number: int, seen: Seen) -> None:
    """Have a replica say that it is there."""
    record = records.record(f"{SEEN}{number:06}")
    records.swap(record.key, record.version, msgspec.json.encode(seen))


def seen(records: Records) -> dict[int, Seen]:
    """Return what the replicas have said last, by their numbers. Raises Unreachable, DamageError."""
    try:
        return {
            int(record.key.removeprefix(SEEN)): typed.decode(record.value, Seen) for record in records.records(SEEN)
        }
    except (msgspec.DecodeError, ValueError) as error:
        raise DamageError(f"what the space says of its machines makes no sense: {error}") from None


def behind(records: Records, revoked: Container[int] = ()) -> list[tuple[roster.Member, Seen]]:
    """Return the replicas that have not applied the last redaction, and when they were last there; no revoked ones."""
    last, known = current(records), seen(records)
    said = [(member, known.get(member.number, Seen())) for member in roster.members(records)]
    return [(member, one) for member, one in said if one.generation < last.generation and member.number not in revoked]


def forget_patch(space: Space, revoked: Container[int] = ()) -> None:
    """Remove the patch of the last redaction once all replicas have applied it, but for revoked ones."""
    record = space.records.record(KEY)
    last = _generation(record)
    if last.key and last.purged and not behind(space.records, revoked):
        done = msgspec.json.encode(msgspec.structs.replace(last, key=""))
        if space.records.swap(KEY, record.version, done):
            space.bucket.delete(last.key)


def _generation(record: Record) -> Generation:
    try:
        return typed.decode(record.value, Generation) if record.value else Generation()
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its redactions makes no sense: {error}") from None
