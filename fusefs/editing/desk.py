"""The desk: the writers of one mount, joined together.

Drafts that a killed mount left are settled here: saved texts are committed, the rest is kept beside its event.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fusefs.editing.bursts import Bursts
from fusefs.editing.copies import Copies
from fusefs.editing.delays import Clock
from fusefs.editing.drafts import NEW, Draft, Drafts, remove_quietly
from fusefs.editing.imports import Imports
from fusefs.editing.inode import Inodes, Kernel
from fusefs.editing.native.sessions import Sessions
from fusefs.editing.new_events import NewEvent, NewEvents
from fusefs.editing.outputs import Outputs
from fusefs.editing.programs import Programs
from fusefs.editing.records import EventCommits
from fusefs.editing.saves import Saves
from fusefs.editing.scratch import Scratch
from fusefs.editing.stand_in import StandIn
from fusefs.editing.targets import Target, Targets
from fusefs.editing.typed_names import TypedNames
from fusefs.text.new_event import new_event
from fusefs.tree.changes import Stale
from fusefs.tree.router import Router
from store.disk import durable
from store.errors import NotFound, StoreFailed, UsageError

log = logging.getLogger(__name__)


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


def recover(desk: Desk) -> None:
    """Settle every draft that is left, and resume unfinished writes; called before the mount answers.

    What cannot be committed yet, as while a space is away or the disk is full, is shown, and committed once it can be.
    """
    desk.native.writing.take_up()
    for path, draft, text in desk.drafts.left():
        try:
            recover_one = _recover_new if draft.key == NEW else _recover_saved
            if not recover_one(desk, path, draft, text):
                continue
        except (NotFound, StoreFailed, OSError) as error:
            log.warning("the draft %s stays where it is: %s", path, error)
            continue
        except Exception:
            # whatever is wrong with one, the others are there too, and so must the mount be
            log.exception("the draft %s stays where it is", path)
            continue
        remove_quietly(path)


def _recover_saved(desk: Desk, path: Path, draft: Draft, text: bytes) -> bool:
    """Settle the draft of a file that is there; return False if it goes on to wait."""
    view_id = desk.tree.view_id(draft.context)
    target = desk.targets.keyed(view_id, draft.key)
    if target is None:
        raise NotFound(f"it belongs to {draft.key}, which cannot be saved")
    now = target.state()
    if now == draft.result or target.draws(text):
        return True
    reason = "it was being written when the mount ended"
    if draft.complete and target.is_in(draft.base):
        try:
            prepared = target.prepare(draft.base, text)
            if prepared is not None:
                prepared.commit(draft.written_ms)
            return True
        except UsageError as error:
            reason = str(error)
        except (StoreFailed, OSError) as error:
            desk.saves.resume(target, draft, path, text, error)
            return False
    elif draft.complete and _says_the_same(target, now, text):
        # it was committed, and led to a state that was not known before
        return True
    elif draft.complete:
        reason = "it was changed by somebody else before this could be saved"
    kept = desk.drafts.keep_beside(target.directory(), draft.name, text)
    desk.drafts.note(target.view_id, target.path, f"{reason}; the text is kept as {kept.name}")
    return True


def _says_the_same(target: Target, state: str, text: bytes) -> bool:
    try:
        return target.prepare(state, text) is None
    except UsageError:
        return False


def _recover_new(desk: Desk, path: Path, draft: Draft, text: bytes) -> bool:
    """Settle the draft of a new event; return False if it goes on to wait."""
    view_id = desk.tree.view_id(draft.context)
    asked = new_event(draft.name)
    if asked is None:
        raise NotFound(f"{draft.name} is no name for a new event")
    file = desk.scratch.events_of(draft.context) / draft.name
    if not desk.new_events.is_there(view_id, draft.result):
        candidate = NewEvent(view_id, draft.name, asked)
        candidate.draft = path
        try:
            desk.new_events.commit(candidate, text, path)
        except UsageError as error:
            with suppress(FileExistsError):
                desk.drafts.put_new(file, text)
            desk.new_events.stays(candidate, error)
            return True
        except (StoreFailed, OSError) as error:
            if candidate.composed is None:
                raise
            desk.new_events.resume(candidate, text, error)
            return False
    if file.is_file() and not file.is_symlink() and file.read_bytes() == text:
        # with an error the draft stays, and the next start tries again
        durable.remove(file)
    return True
