"""Removing events: an event whose file is removed gets a tombstone, but not at once.

Programs that save remove a file and create it again, or move it away and write a new one: that is one edit, not a
removal. So the event is hidden at once, and a second later, if it has not come back, one version is made without it.
"""

from __future__ import annotations

import logging
import time

from fusefs.editing.desk import Desk
from fusefs.editing.records import Base
from fusefs.tree.changes import Stale
from fusefs.tree.events import EventFile
from store.errors import ConvfsError

log = logging.getLogger(__name__)

DELAY_SECONDS = 1.0


class Removals:
    """The events that are being removed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due: dict[tuple[int, int], Base] = {}
        """What is being removed, by view and number."""
        self._latest: dict[int, float] = {}
        """By view: when what was removed last is due. What is removed in one go is removed together."""

    def hide(self, file: EventFile) -> None:
        """Take note that an event has been removed, or moved away."""
        self._desk.tree.overlay(file.view_id).hidden.add(file.number)
        self._due[file.view_id, file.number] = self._desk.records.base(file.view_id, file.number)
        self._latest[file.view_id] = time.monotonic() + DELAY_SECONDS

    def cancel(self, view_id: int, number: int) -> bool:
        """Take note that an event has come back; say whether it was being removed."""
        self._desk.tree.overlay(view_id).hidden.discard(number)
        return self._due.pop((view_id, number), None) is not None

    def commit(self, view_id: int) -> None:
        """Remove now what is being removed of one conversation. Raises what the store says.

        What has become something else meanwhile stays: a number may be another record's by now.
        """
        numbers = sorted(number for view, number in self._due if view == view_id)
        if not numbers:
            return
        records = self._desk.records
        bases = [self._due.pop((view_id, number)) for number in numbers]
        overlay = self._desk.tree.overlay(view_id)
        try:
            left = [base.number for base in bases if records.base(view_id, base.number) == base]
            if left:
                records.remove(view_id, left)
            self._desk.unsettle(view_id)
        except ConvfsError:
            for number in numbers:
                self._desk.invalidate(Stale(self._desk.tree.event(view_id, number).ino, content=True))
            raise
        finally:
            overlay.hidden.difference_update(numbers)

    def drop(self, view_id: int) -> None:
        """Let nothing of a conversation be removed: all of it is."""
        for view, number in [key for key in self._due if key[0] == view_id]:
            self.cancel(view, number)
        self._latest.pop(view_id, None)

    def tick(self) -> None:
        """Remove what has not come back."""
        now = time.monotonic()
        for view_id, due in list(self._latest.items()):
            if due <= now:
                del self._latest[view_id]
                self._commit_quietly(view_id)

    def close(self) -> None:
        """Remove everything that is being removed."""
        for view_id in {view for view, _number in self._due}:
            self._commit_quietly(view_id)

    def _commit_quietly(self, view_id: int) -> None:
        try:
            self.commit(view_id)
        except ConvfsError as error:
            log.error("events of view %d could not be removed, and are there again: %s", view_id, error)
