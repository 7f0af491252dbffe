"""Leases: work in a space that one machine at a time should do, such as collecting.

The record ``lease/WORK`` is JSON: ``{"number", "token", "beat", "seconds"}``; number is that of the replica. Who holds
a lease changes ``beat`` again and again, and removes the value in the end. A lease whose record has stayed as it is for
its ``seconds``, by the clock of who looks, is over: no two clocks are compared. So is one that an earlier process of
the same replica has left.

A lease saves work, and no more: a machine that was asleep may believe that it still holds one. What is done under it is
decided by commits and by compare-and-swap.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from store import typed
from store.errors import StoreFailed
from store.shared.presence import Unchanged
from store.shared.space import Record, Records

_LOG = logging.getLogger(__name__)

PREFIX = "lease/"
_SECONDS = 30.0
_BEATS = 4
_LOOK_SECONDS = 0.1


class Lease(Struct, frozen=True):
    """The value of a lease's record."""

    number: int
    token: str
    beat: int = 0
    seconds: float = _SECONDS


class Leases:
    """The leases of one replica, with the number ``number``. Safe to share between threads."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._records = Unchanged()
        self._held: set[str] = set()
        """The tokens of those that this process holds."""

    @contextmanager
    def held(self, records: Records, work: str, *, wait: bool = False) -> Iterator[int]:
        """Hold a lease while the block runs; yields 0, or the number of the replica that holds it.

        ``wait`` for a holder that may have died. Raises Unreachable.
        """
        key = f"{PREFIX}{work}"
        own = Lease(self._number, os.urandom(8).hex(), seconds=_SECONDS)
        self._held.add(own.token)
        holder = self._taken(records, key, own)
        waited = holder and wait
        while waited:
            time.sleep(_LOOK_SECONDS)
            # the first look has noted what it was
            waited = self._records.since_looked(records.record(key))
            holder = self._taken(records, key, own)
            waited = holder and waited
        if holder:
            self._held.discard(own.token)
            yield holder
            return
        ended = threading.Event()
        beating = threading.Thread(target=_beat, args=(records, key, own, ended), name=f"convfs-{work}", daemon=True)
        beating.start()
        try:
            yield 0
        finally:
            ended.set()
            beating.join()
            with suppress(StoreFailed):
                _change(records, key, own, b"")
            self._held.discard(own.token)

    def alive(self, records: Records, work: str) -> bool:
        """Return whether another holds a lease, as far as can be told by looking now and then. Raises Unreachable."""
        record = records.record(f"{PREFIX}{work}")
        lease = _lease(record)
        return lease is not None and lease.token not in self._held and not self._over(record)

    def _taken(self, records: Records, key: str, own: Lease) -> int:
        """Take a lease if it is free or over; return 0, or who holds it."""
        record = records.record(key)
        lease = _lease(record)
        if lease is not None and not self._over(record):
            return lease.number
        if records.swap(key, record.version, msgspec.json.encode(own)):
            return 0
        lease = _lease(record := records.record(key))
        if lease is not None and lease.token == own.token:
            return 0
        self._over(record)
        return lease.number if lease is not None else self._number

    def _over(self, record: Record) -> bool:
        """Note what is under a key; return whether that has been so for as long as the lease lasts."""
        lease = _lease(record)
        if lease is not None and lease.number == self._number and lease.token not in self._held:
            return True
        known = self._records.since_looked(record)
        lasted = self._records.seconds(record)
        return known and (lease is None or lasted >= lease.seconds)


def _lease(record: Record) -> Lease | None:
    try:
        return typed.decode(record.value, Lease) if record.value else None
    except msgspec.DecodeError:
        return None


def _beat(records: Records, key: str, own: Lease, ended: threading.Event) -> None:
    beat = 0
    while not ended.wait(own.seconds / _BEATS):
        beat += 1
        try:
            if not _change(records, key, own, msgspec.json.encode(msgspec.structs.replace(own, beat=beat))):
                _LOG.warning("%s: another machine has taken this over", key)
                return
        except StoreFailed:
            # it is over, or can be told of again
            continue


def _change(records: Records, key: str, own: Lease, value: bytes) -> bool:
    """Change a lease while it is one's own; return whether it was."""
    record = records.record(key)
    lease = _lease(record)
    return lease is not None and lease.token == own.token and records.swap(key, record.version, value)
