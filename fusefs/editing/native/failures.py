"""Why something that a tool has written is not in the store."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from store.errors import StoreBusy

if TYPE_CHECKING:
    from fusefs.tree.tree import Tree

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


class Failures:
    """Says in ``.convfs/errors/`` what could not be committed. ``again_at``: when that is tried again, monotonic."""

    def __init__(self, tree: Tree) -> None:
        self.again_at = 0.0
        self._tree = tree
        self._noted: dict[str, str] = {}
        """What was noted last of each thing."""

    def add(self, what: str, error: Exception) -> None:
        """Take note that something could not be committed: it is tried again later."""
        self.again_at = time.monotonic() + _AGAIN_SECONDS
        if not isinstance(error, StoreBusy):
            self.note(what, f"{error}; what was written is kept, and is what the file shows")

    def note(self, what: str, reason: str) -> None:
        """Note in ``.convfs/errors/`` why something is not in the store."""
        subject = f"native/{what}"
        if self._noted.get(subject) != reason:
            # it may be tried again every second
            log.warning("%s: %s", subject, reason)
        self._noted[subject] = reason
        self._tree.errors.add(subject, reason)
