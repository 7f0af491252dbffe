"""Archiving: old entries of a space go from its log into its archive, and contents go that were dropped since.

One machine does it at a time, an admin of the space that holds a lease for it; what it does is decided by
``store.shared.archive``. The last entries, and those of the last hour, stay where machines look first.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from store.disk.file_header import Damage
from store.disk.head_format import Dropped, HeadFrame
from store.settings import Remote

if TYPE_CHECKING:
    from store.shared.replica import Replica

_HOUR_SECONDS = 3600.0


class Drop(NamedTuple):
    """Something that a space has dropped, and the number of the frame that says so."""

    seq: int
    note: Dropped


def drops_in(frames: Iterable[HeadFrame | Damage]) -> list[Drop]:
    """Return what some frames of the head log say that their space has dropped."""
    return [
        Drop(frame.seq, frame.body)
        for frame in frames
        if isinstance(frame, HeadFrame) and isinstance(frame.body, Dropped)
    ]


class Archived(NamedTuple):
    """The outcome: how many entries went into the archive, and the bytes that were freed there."""

    entries: int = 0
    freed_bytes: int = 0


class Archiving:
    """The archiving of one replica, by the settings of its store. Nothing is done where that is no admin."""

    def __init__(self, replica: Replica, settings: Remote) -> None:
        self._replica = replica
        self._settings = settings

    def steps(
        self, *, least: int | None = None, drops: Sequence[Drop] = (), least_part: float = 0.0
    ) -> Generator[None, None, Archived]:
        """Archive the old entries, if there are ``least`` of them (by default, as many as stay).

        Then leave out the contents that were dropped, ``drops`` are all that ever were, where that is ``least_part`` of
        a segment. Pauses after each segment. Raises StoreFailed, DamageError.
        """
        # imported here, as most stores are of no space
        from store.shared.archive import Archive

        replica = self._replica
        space, _packs = replica.connected()
        if replica.member.only_follows or not replica.administers:
            return Archived()
        kept, seconds = self._settings.keep_entries, self._settings.keep_hours * _HOUR_SECONDS
        enough = max(1, kept if least is None else least)
        if space.log.old(kept, seconds)[0] < enough and not drops:
            return Archived()
        moved = freed = 0
        with replica.leases.held(space.records, "archive") as other:
            if other:
                return Archived()
            archive = Archive(space)
            # those of a machine that died before it could
            space.log.trim()
            count, upto = space.log.old(kept, seconds)
            if count >= enough:
                while some := archive.grow(upto):
                    moved += some
                    yield
                space.log.trim()
            if drops:
                dropped = {key: drop.seq for drop in drops for key in array("q", drop.note.keys)}
                for some in archive.thin(dropped, drops[-1].seq, least_part):
                    freed += some
                    yield
        return Archived(moved, freed)
