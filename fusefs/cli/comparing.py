"""The operation that compares two states of conversations, event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, structs

from fusefs.text.names import kind_word
from fusefs.text.render import render_event
from fusefs.tree.paths import conversation_path, event_path
from store.comparing.pairing import Branch, pairs
from store.comparing.unified import NOTHING, unified
from store.errors import DamageError
from store.events.conversation import EventRow
from store.service.operation import Holder, Operation
from store.store import Store

_LARGEST = 4 << 20
"""Event files with more bytes than this are not compared line by line."""


Change = Literal["changed", "added", "removed"]


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation by its id, as it is, or as its ``version`` of that number was."""

    id: int
    version: int = 0


class DiffParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``summary``: how much differs is told, and not what."""

    a: State
    b: State
    summary: bool = False


class DiffSide(Struct, frozen=True):
    """An event of one state, and the path of its file, from the root of a mount on."""

    event: int
    kind: str
    tool: str
    path: str


class Difference(Struct, frozen=True):
    """An event that differs, or that only one state has: what lines of its file differ, and how many.

    ``diff`` is a unified diff; "" where ``note`` says why there is none, or none was asked for.
    """

    change: Change
    a: DiffSide | None
    b: DiffSide | None
    added: int
    removed: int
    diff: str = ""
    note: str = ""


class DiffSums(Struct, frozen=True):
    """How many events differ, and by how many lines."""

    changed: int
    added: int
    removed: int
    added_lines: int
    removed_lines: int


class _Shown:
    """One state, as it is shown: its branch, and the files of its events."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        conversation = store.conversation(state.id)
        version = store.version(state.id, state.version) if state.version else None
        self.branch = Branch(state.id, conversation.head if version is None else version.head)
        self._records = conversation.records if version is None else version.records
        self._path = conversation_path(store, conversation, version)

    def side(self, row: EventRow | None) -> DiffSide | None:
        """Return an event as it is told of."""
        if row is None:
            return None
        return DiffSide(row.number, kind_word(row.kind), row.tool, event_path(self._path, row, self._records))

    def file(self, row: EventRow | None) -> str:
        """Return the file of an event; raises DamageError."""
        return "" if row is None else render_event(row.number, self._store.event(row)).decode()


def _diff(holder: Holder, params: DiffParams, emit: Callable[[list[Difference]], None]) -> DiffSums:
    store = holder.store
    a, b = _Shown(store, params.a), _Shown(store, params.b)
    counts = {"changed": 0, "added": 0, "removed": 0}
    added = removed = 0
    for old, new in pairs(store, a.branch, b.branch):
        difference = _difference(a, b, old, new)
        if difference is None:
            continue
        counts[difference.change] += 1
        added, removed = added + difference.added, removed + difference.removed
        emit([structs.replace(difference, diff="") if params.summary else difference])
    return DiffSums(**counts, added_lines=added, removed_lines=removed)


def _difference(a: _Shown, b: _Shown, old: EventRow | None, new: EventRow | None) -> Difference | None:
    """Return how an event differs between two states, None where its file is the same in both."""
    change: Change = "added" if old is None else "removed" if new is None else "changed"
    sides = a.side(old), b.side(new)
    if any(row is not None and row.file_size > _LARGEST for row in (old, new)):
        return Difference(change, *sides, 0, 0, note="too large to be compared line by line")
    try:
        before, after = a.file(old), b.file(new)
    except DamageError as error:
        return Difference(change, *sides, 0, 0, note=f"cannot be read: {error}")
    names = (NOTHING if side is None else side.path for side in sides)
    found = unified(before, after, *names)
    return Difference(change, *sides, found.added, found.removed, found.text) if found.text else None


DIFF = Operation(430, DiffParams, list[Difference], DiffSums, _diff)
