"""Sessions: who has a replica now.

A replica is a directory, and may be copied: with a machine, a disk, a backup. Two copies with one number would both
speak for it. So whoever opens a replica puts a new random session into the record ``session/`` and 6 digits, in the
place of one that the directory had. Who finds one there that it never had is a copy, or was copied from.

The directory keeps the last of its sessions: a space that was put back from a backup has an older one.
"""

import secrets
from collections.abc import Sequence

from store.shared.space import Record, Records

KEPT = 64
"""How many sessions a replica remembers."""
_BYTES = 16


def of(records: Records, number: int) -> Record:
    """Return the record of the session of replica ``number``. Raises Unreachable."""
    return records.record(f"session/{number:06}")


def new() -> str:
    """Return a new session."""
    return secrets.token_hex(_BYTES)


def own(record: Record, known: Sequence[str]) -> bool:
    """Return whether a session is among those that a replica ever had; so is none.

    Who knows of none has never been opened, or has lost the file with them: it takes the place of whoever had it.
    """
    return not (record.value and known) or record.value.decode() in known
