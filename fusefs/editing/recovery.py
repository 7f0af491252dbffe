"""Recovery: what becomes of the drafts that an earlier mount has left.

Saved texts are committed, and the rest is kept beside its file. What cannot be committed now, as while the space is
away, waits in this mount as what is saved in it does.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from fusefs.editing.desk import Desk
from fusefs.editing.drafts import NEW, REMOVED, Draft, remove_quietly
from fusefs.editing.new_events import NewEvent
from fusefs.editing.records import CHANGED, Prepared
from fusefs.editing.removal import Removals
from fusefs.editing.saves import Session
from fusefs.editing.targets import Target
from fusefs.text.new_event import new_event
from store.disk import durable
from store.errors import Conflict, NotFound, StoreFailed, Unreachable, UsageError

log = logging.getLogger(__name__)

T = TypeVar("T")

Step = Callable[[], bool]
"""Settles one draft; returns False if it goes on to wait, with its draft."""


def recover(desk: Desk, removals: Removals) -> None:
    """Settle every draft that is left, and resume unfinished writes; called before the mount answers."""
    desk.native.writing.take_up()
    recovery = Recovery(desk, removals)
    # all are worked out before any is committed: each was saved as things were without the others
    left = sorted(desk.drafts.left(), key=lambda one: one[1].key != REMOVED)
    steps = [(path, _guarded(path, partial(recovery.step, path, draft, text))) for path, draft, text in left]
    for path, step in steps:
        if step is not None and _guarded(path, step):
            remove_quietly(path)


def _guarded(path: Path, work: Callable[[], T]) -> T | None:
    try:
        return work()
    except NotFound as error:
        log.warning("the draft %s stays where it is: %s", path, error)
    except Exception:
        # whatever is wrong with one, the others are there too, and so must the mount be
        log.exception("the draft %s stays where it is", path)
    return None


class Recovery:
    """Settles the drafts of one mount, oldest first."""

    def __init__(self, desk: Desk, removals: Removals) -> None:
        self._desk = desk
        self._removals = removals
        self._waits: dict[int, StoreFailed | OSError] = {}
        """Why the drafts of a conversation wait, by view, once one of them does: the others come after it."""

    def step(self, path: Path, draft: Draft, text: bytes) -> Step:
        """Return what settles a draft. Raises NotFound where nothing can."""
        view_id = self._desk.tree.view_id(draft.context)
        if draft.key == NEW:
            return partial(self._new, view_id, path, draft, text)
        if draft.key == REMOVED:
            waits = self._removals.take_up(path, view_id, text)
            return lambda: not waits
        target = self._desk.targets.keyed(view_id, draft.key)
        if target is None:
            raise NotFound(f"it belongs to {draft.key}, which cannot be saved")
        now = target.state()
        if now == draft.result or target.draws(text):
            return lambda: True
        if not draft.complete:
            return partial(self._beside, target, draft, text, "it was being written when the mount ended")
        try:
            if target.is_in(draft.base):
                prepared = target.prepare(draft.base, text)
            elif _says_the_same(target, now, text):
                # it was committed, and led to a state that was not known before
                return lambda: True
            else:
                prepared = target.prepare_late(draft.base, text)
                if prepared is not None and prepared.adds:
                    # it may have been committed, and what it adds is there
                    raise Conflict(f"{target.path} {CHANGED}")
        except UsageError as error:
            return partial(self._beside, target, draft, text, str(error))
        return partial(self._saved, target, path, draft, text, prepared)

    def _saved(self, target: Target, path: Path, draft: Draft, text: bytes, prepared: Prepared | None) -> bool:
        session = partial(self._session, target, path, draft, text, prepared)
        if self._removals.hides(target.view_id, target.ino):
            self._desk.saves.put_aside(session(Unreachable("its file is being removed")), target)
            return False
        try:
            if prepared is not None:
                self._check(target.view_id)
                target.commit(prepared, draft.base, text, draft.written_ms)
        except (StoreFailed, OSError) as error:
            self._waits[target.view_id] = error
            session(error)
            return False
        except UsageError as error:
            return self._beside(target, draft, text, str(error))
        return True

    def _session(
        self,
        target: Target,
        path: Path,
        draft: Draft,
        text: bytes,
        prepared: Prepared | None,
        error: StoreFailed | OSError,
    ) -> int:
        """Have a text wait as one that was saved in this mount; return the number that its file is known by."""
        session = Session(self._desk.saves, self._desk.inodes.known(target), target, None, anew=True)
        session.take_up(path, draft, text, prepared)
        session.wait(error)
        return session.ino

    def _beside(self, target: Target, draft: Draft, text: bytes, reason: str) -> bool:
        kept = self._desk.drafts.keep_beside(target.directory(), draft.name, text)
        self._desk.drafts.note(target.view_id, target.path, f"{reason}; the text is kept as {kept.name}")
        return True

    def _check(self, view_id: int) -> None:
        """Raise the error for which a commit in a conversation has to wait, if it is known that it has to."""
        if view_id in self._waits:
            raise self._waits[view_id]
        if away := self._desk.tree.store.writer.order.away:
            raise Unreachable(away)

    def _new(self, view_id: int, path: Path, draft: Draft, text: bytes) -> bool:
        asked = new_event(draft.name)
        if asked is None:
            raise NotFound(f"{draft.name} is no name for a new event")
        new_events, file = self._desk.new_events, self._desk.scratch.events_of(draft.context) / draft.name
        if not new_events.is_there(view_id, draft.result):
            candidate = NewEvent(view_id, draft.name, asked)
            candidate.draft = path
            try:
                new_events.commit(candidate, text, path)
            except (StoreFailed, OSError) as error:
                self._waits[view_id] = error
                new_events.take_up(candidate, text, error)
                return False
            except UsageError as error:
                with suppress(FileExistsError):
                    self._desk.drafts.put_new(file, text)
                new_events.stays(candidate, error)
                return True
        if file.is_file() and not file.is_symlink() and file.read_bytes() == text:
            # with an error the draft stays, and the next start tries again
            durable.remove(file)
        return True


def _says_the_same(target: Target, state: str, text: bytes) -> bool:
    try:
        return target.prepare(state, text) is None
    except UsageError:
        return False
