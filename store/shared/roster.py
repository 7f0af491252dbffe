"""The roster of a space: who has joined it.

A replica has a number, from 1 without gaps, and a record, ``machine/`` and 6 digits: ``{"number", "machine",
"joined_ms"}``.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from store import typed
from store.errors import DamageError
from store.ids import now_ms
from store.shared.space import Records

PREFIX = "machine/"


class Member(Struct, frozen=True):
    """A replica as the space knows it. ``joined_ms`` in Unix milliseconds."""

    number: int
    machine: str
    joined_ms: int


def key_of(number: int) -> str:
    """Return the key of a replica's record."""
    return f"{PREFIX}{number:06}"


def join(records: Records, machine: str) -> Member:
    """Note one more replica. Raises Unreachable."""
    number = len(members(records))
    while True:
        number += 1
        member = Member(number, machine, now_ms())
        if records.swap(key_of(number), 0, msgspec.json.encode(member)):
            return member


def keep(records: Records, number: int, machine: str) -> None:
    """Note a replica once more, if the space has lost it. Raises Unreachable."""
    records.swap(key_of(number), 0, msgspec.json.encode(Member(number, machine, now_ms())))


def members(records: Records) -> list[Member]:
    """Return the replicas that have joined, by number. Raises Unreachable, DamageError."""
    try:
        return [typed.decode(record.value, Member) for record in records.records(PREFIX)]
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its machines makes no sense: {error}") from None
