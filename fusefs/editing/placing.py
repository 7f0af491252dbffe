"""Files that are put in the place of a conversation's file, or taken out of it: programs that save do both."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyfuse3 import FUSEError

from fusefs.editing.buffer import check_size
from fusefs.editing.drafts import remove_quietly
from fusefs.editing.handle import ScratchHandle
from fusefs.editing.saving import FileHandle
from fusefs.editing.written import Saved, saved_as
from fusefs.tree.node import Bytes
from store.disk import durable
from store.errors import Conflict, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fusefs.editing.desk import Desk
    from fusefs.editing.scratch import ScratchFile
    from fusefs.editing.target import Target
    from fusefs.tree.node import Node
    from fusefs.tree.view_node import ViewNode


def save_onto(
    desk: Desk, source: ScratchFile, path: bytes, node: Node, target: Target, come_back: Callable[[Node], bool]
) -> None:
    """Make the content of a scratch file that of a file, which the kernel then knows under the scratch file's inode.

    ``come_back`` is told of the file once it is saved, and says whether it was being removed.
    """
    status = source.status()
    check_size(status.st_size)
    with open(path, "rb") as opened:
        data = opened.read()
    before = desk.saved_text(node.ino)
    held = Bytes(before) if before is not None else target.snapshot()
    size = target.size() if before is None else len(before)
    saved, touched = _save(desk, target, data, before, status.st_mtime_ns)
    if not come_back(node):
        desk.identities.orphan(node.ino, target, held, size)
    desk.appending.forget(source.ino)
    for fh, handle in desk.handles.items():
        if isinstance(handle, ScratchHandle) and handle.ino == source.ino:
            handle.release()
            desk.handles[fh] = FileHandle(desk, source.ino, target)
    if not remove_quietly(Path(os.fsdecode(path))) or status.st_nlink > 1:
        desk.scratch.renumber(source)
    desk.identities.become(source.ino, target)
    desk.show_saved(source.ino, target, saved)
    desk.unsettle(target.view_id, touched)


def _save(desk: Desk, target: Target, data: bytes, before: bytes | None, time_ns: int) -> tuple[Saved, Sequence[int]]:
    """Commit ``data`` as a file that was shown as ``before`` (None: as it is drawn).

    Returns the numbers of the files that are then drawn otherwise, too. Raises EINVAL for what cannot be; the text is
    then kept beside the file as well.
    """
    desk.settle_waiting(target.view_id)
    state = target.state()
    touched: Sequence[int] = ()
    try:
        prepared = None if data == before else target.prepare(state, data)
        if prepared is not None:
            touched = prepared.touches
            state = prepared.commit()
    except UsageError as error:
        desk.reject(target, data, str(error), None)
        raise FUSEError(errno.ESTALE if isinstance(error, Conflict) else errno.EINVAL) from None
    return saved_as(target, data, time_ns, state), touched


def move_away(desk: Desk, node: ViewNode, target: Target, path: bytes, above: int) -> ViewNode:
    """Make a scratch file at ``path`` of a file: a program keeps it while it writes the file anew.

    Returns the file under the number that it is known by from then on.
    """
    attributes = node.attributes()
    # not synced: the conversation has the same until it is saved, and then as an earlier version
    temporary = desk.drafts.temporary(desk.all_shown(node.ino, target), synced=False)
    try:
        os.utime(temporary, ns=(attributes.time_ns or attributes.time_ms * 1_000_000,) * 2)
        durable.replace(temporary, Path(os.fsdecode(path)))
    except BaseException:
        remove_quietly(temporary)
        raise
    desk.identities.make_scratch(node.ino, target, path, above)
    return target.node(desk.identities.known(target))
