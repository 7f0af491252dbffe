"""Presence: which machines of a space are there.

A machine that has its replica open says so again and again in the record ``seen/NNNNNN``
(``store.shared.generations``). One whose record has stayed as it is for an hour, by the clock of who looks, is away: no
two clocks are compared.
"""

from __future__ import annotations

import time

from store.shared.generations import SEEN
from store.shared.space import Record, Records

SAY_SECONDS = 600.0
"""How often a machine says that it is there."""
_AWAY_SECONDS = 3600.0


class Unchanged:
    """Tells for how long records have stayed as they are, as far as was looked at them."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}
        """The version of each record when it was looked at, and since when it has been that."""

    def since_looked(self, record: Record) -> bool:
        """Return whether a record is as it was when it was looked at last."""
        return self._seen.get(record.key, (-1, 0.0))[0] == record.version

    def seconds(self, record: Record) -> float:
        """Look at a record; return for how many seconds it is known to be as it is."""
        now = time.monotonic()
        if not self.since_looked(record):
            self._seen[record.key] = record.version, now
        return now - self._seen[record.key][1]


class Presence:
    """The other machines of a space, as one of them sees them."""

    def __init__(self) -> None:
        self._records = Unchanged()

    def is_away(self, records: Records, number: int) -> bool:
        """Return whether a replica has not been heard of for an hour of looking now and then. Raises Unreachable."""
        return self._records.seconds(records.record(f"{SEEN}{number:06}")) >= _AWAY_SECONDS
