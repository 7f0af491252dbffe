"""Drafts that a killed mount left: what had been saved is committed, the rest is kept beside its event."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from fusefs.editing.appending import Candidate, new_event
from fusefs.editing.desk import Desk
from fusefs.editing.drafts import NEW, Draft
from fusefs.editing.native.recovery import take_up_spools
from fusefs.editing.target import Target
from store.disk import durable
from store.errors import NotFound, UsageError

log = logging.getLogger(__name__)


def recover(desk: Desk) -> None:
    """Settle every draft that is left, and take up what was being written; called before the mount answers."""
    take_up_spools(desk)
    for path, draft, text in desk.drafts.left():
        try:
            if draft.key == NEW:
                _recover_new(desk, path, draft, text)
            else:
                _recover_saved(desk, draft, text)
        except NotFound as error:
            log.warning("the draft %s stays where it is: %s", path, error)
            continue
        except Exception:
            # whatever is wrong with one, the others are there too, and so must the mount be
            log.exception("the draft %s stays where it is", path)
            continue
        desk.drafts.drop(path)


def _recover_saved(desk: Desk, draft: Draft, text: bytes) -> None:
    view_id = desk.tree.view_id(draft.context)
    target = desk.targets.keyed(view_id, draft.key)
    if target is None:
        raise NotFound(f"it belongs to {draft.key}, which cannot be saved")
    now = target.state()
    if now == draft.result or target.draws(text):
        return
    reason = "it was being written when the mount ended"
    if draft.complete and now == draft.base:
        try:
            prepared = target.prepare(now, text)
            if prepared is not None:
                prepared.commit()
            return
        except UsageError as error:
            reason = str(error)
    elif draft.complete and _says_the_same(target, now, text):
        # it was committed, and led to a state that could not be told before
        return
    elif draft.complete:
        reason = "it was changed by somebody else before this could be saved"
    kept = desk.keep_beside(target.directory(), draft.name, text)
    desk.note(target, f"{reason}; the text is kept as {kept.name}")


def _says_the_same(target: Target, state: str, text: bytes) -> bool:
    try:
        return target.prepare(state, text) is None
    except UsageError:
        return False


def _recover_new(desk: Desk, path: Path, draft: Draft, text: bytes) -> None:
    """Append what was to become a new event, if it has not, and remove the file that it was."""
    view_id = desk.tree.view_id(draft.context)
    asked = new_event(draft.name)
    if asked is None:
        raise NotFound(f"{draft.name} is no name for a new event")
    file = desk.scratch.events_of(draft.context) / draft.name
    if not desk.appending.is_there(view_id, draft.result):
        candidate = Candidate(view_id, draft.name, asked[1])
        candidate.draft = path
        try:
            desk.appending.commit(candidate, text)
        except UsageError as error:
            with suppress(FileExistsError):
                desk.drafts.put_new(file, text)
            desk.note_path(view_id, candidate.path, f"{error}; the text is kept as it is")
            return
    if file.is_file() and not file.is_symlink() and file.read_bytes() == text:
        # with an error the draft stays, and the next start tries again
        durable.remove(file)
