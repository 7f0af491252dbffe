"""What an earlier process left that was written to sessions' files and is perhaps not in the store."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from fusefs.editing.native.spool import COPY, Spool, noted
from store.errors import ConvfsError
from store.importing.native import NativeFile, is_one_file

if TYPE_CHECKING:
    from fusefs.editing.desk import Desk

log = logging.getLogger(__name__)

_LOOKED_AT = 1 << 20


def take_up_spools(desk: Desk) -> None:
    """Show what was written, which is then committed before long; called before the mount answers."""
    folder = desk.native.folder
    try:
        paths = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    except FileNotFoundError:
        return
    for path in paths:
        try:
            _take_up(desk, path)
        except (ConvfsError, OSError) as error:
            log.error("what was written to a session stays at %s: %s", path, error)


def _take_up(desk: Desk, path: Path) -> None:
    said = noted(path)
    if said is None:
        if path.name.startswith(COPY):
            path.unlink()
        return
    entry = desk.tree.store.entry(said.context)
    if not is_one_file(entry):
        raise ConvfsError(f"conversation {said.context} is no file of a tool")
    lower = desk.tree.native.file(said.context)
    size = path.stat().st_size
    spool = Spool(desk.native.folder, lower, min(said.base, lower.size) if said.rewrites else said.base)
    spool.adopt(path)
    if entry.head != said.head or (not said.rewrites and said.base != lower.size):
        is_whole = not said.rewrites or size == lower.size
        if size <= lower.size and is_whole and _same(spool, lower, said.base, size):
            # it was committed before its file could be removed
            spool.discard()
            return
        if not said.rewrites:
            # of the lines that are there the first may be in the store already
            tail = spool.written(said.base, size - said.base)
            held = lower.read(said.base, lower.size - said.base) if lower.size > said.base else b""
            tail = tail[len(held) :] if held and tail.startswith(held) else tail
            spool.put(lower, lower.size, tail)
    desk.native.hold(spool)


def _same(spool: Spool, lower: NativeFile, start: int, end: int) -> bool:
    """Say whether the store has the bytes of a spool from ``start`` to ``end``."""
    for offset in range(start, end, _LOOKED_AT):
        size = min(_LOOKED_AT, end - offset)
        if spool.written(offset, size) != lower.read(offset, size):
            return False
    return True
