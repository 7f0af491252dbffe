"""Drafts that a killed mount left: what had been saved is committed, the rest is kept beside its event."""

from __future__ import annotations

import logging
import os

from fusefs.editing.appending import Candidate, new_event
from fusefs.editing.desk import Desk
from fusefs.editing.drafts import NEW, Draft
from fusefs.editing.scratch import ScratchFile
from store.errors import ConvfsError, NotFound

log = logging.getLogger(__name__)


def recover(desk: Desk) -> None:
    """Settle every draft that is left; called before the mount answers."""
    for path, draft, text in desk.drafts.left():
        try:
            if draft.key == NEW:
                _recover_new(desk, draft)
            else:
                _recover_saved(desk, draft, text)
        except NotFound as error:
            log.warning("the draft %s stays where it is: %s", path, error)
            continue
        except (ConvfsError, OSError):
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
        except ConvfsError as error:
            reason = str(error)
    elif draft.complete:
        reason = "it was changed by somebody else before this could be saved"
    kept = desk.keep_beside(target.directory(), draft.name, text)
    desk.note(target, f"{reason}; the text is kept as {kept.name}")


def _recover_new(desk: Desk, draft: Draft) -> None:
    """Append what was to become a new event. Its file is there as long as it has not."""
    view_id = desk.tree.view_id(draft.context)
    path = os.fsencode(desk.scratch.events_of(draft.context) / draft.name)
    asked = new_event(draft.name)
    node = desk.scratch.node_at(path, 0)
    if node is None:
        return
    try:
        if isinstance(node, ScratchFile) and asked is not None:
            with open(path, "rb") as file:
                data = file.read()
            desk.appending.append(node, path, Candidate(view_id, draft.name, asked[1]), data)
    except ConvfsError as error:
        desk.note_path(view_id, f"events/{draft.name}", f"{error}; the text is kept as it is")
    finally:
        desk.forget(node.ino)
