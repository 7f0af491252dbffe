"""The desk: the writers of one mount, joined together."""

import time
from collections.abc import Callable

from fusefs.editing.bursts import Bursts
from fusefs.editing.copies import Copies
from fusefs.editing.delays import Clock
from fusefs.editing.drafts import Drafts
from fusefs.editing.imports import Imports
from fusefs.editing.inode import Inodes, Kernel
from fusefs.editing.native.sessions import Sessions
from fusefs.editing.new_events import NewEvents
from fusefs.editing.outputs import Outputs
from fusefs.editing.programs import Programs
from fusefs.editing.records import EventCommits
from fusefs.editing.saves import Saves
from fusefs.editing.scratch import Scratch
from fusefs.editing.stand_in import StandIn
from fusefs.editing.targets import Targets
from fusefs.editing.typed_names import TypedNames
from fusefs.tree.changes import Stale
from fusefs.tree.router import Router


class Desk:
    """The writers of one mount. ``tell`` makes the kernel forget something at once; without a mount it does nothing."""

    def __init__(
        self, router: Router, tell: Callable[[Stale], None] = lambda _stale: None, clock: Clock = time.monotonic
    ) -> None:
        self.router = router
        self.tree = tree = router.tree
        self.clock = clock
        self.kernel = Kernel(tell)
        self.programs = Programs()
        self.stand_in = StandIn(tree, self.programs)
        self.bursts = Bursts(self.programs, tree.store.settings.version_seconds, clock)
        self.scratch = Scratch(tree, self.programs)
        tree.new_projects |= self.scratch.projects()
        self.inodes = Inodes(tree, self.kernel, self.scratch)
        self.drafts = Drafts(tree, self.scratch)
        self.records = EventCommits(tree, self.bursts)
        self.copies = Copies(router, self.records, self.scratch, clock)
        self.targets = Targets(self.records)
        self.saves = Saves(router, self.inodes, self.records, self.drafts, clock)
        self.typed_names = TypedNames(tree, self.programs)
        self.new_events = NewEvents(self.saves, self.typed_names)
        self.outputs = Outputs(self.inodes, self.records, self.drafts, self.stand_in, clock)
        self.imports = Imports(self.inodes, self.drafts)
        self.native = Sessions(router, self.inodes, self.stand_in, clock)

    def check(self, view_id: int) -> None:
        """Drop outdated saves of a conversation: somebody else has changed it."""
        if context := self.tree.context_at_head(view_id):
            self.native.changed(context)
        self.saves.check(view_id)

    def forget_all(self) -> None:
        """Drop everything that was drawn: stored contents have changed."""
        self.tree.forget_all()
        self.saves.forget_all()

    def forget(self, ino: int) -> None:
        """Drop everything kept for an inode that the kernel no longer knows."""
        self.saves.forget(ino)
        self.inodes.forget(ino)
