"""The differences between two states, as a daemon tells of them."""

from collections.abc import Iterator

from fusefs.daemon.answers import Change, Difference, DiffSide, State
from fusefs.tree.paths import Paths, event_path
from store.compare import NOTHING, Branch, pairs, unified
from store.errors import ConvfsError, DamageError
from store.events.conversation import EventRow
from store.store import Store

_LARGEST = 4 << 20
"""Event files with more bytes than this are not compared line by line."""


def differences(store: Store, a: State, b: State) -> Iterator[Difference]:
    """Yield how two states differ, event by event."""
    old_state, new_state = _Shown(store, a), _Shown(store, b)
    for old, new in pairs(store.library, old_state.branch, new_state.branch):
        difference = _difference(old_state, new_state, old, new)
        if difference is not None:
            yield difference


class _Shown:
    """One state, as it is shown: its branch, and the files of its events."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        conversation = store.library.conversation(state.id)
        version = store.catalogue.version(state.id, state.version) if state.version else None
        self.branch = Branch(state.id, conversation.head if version is None else version.head)
        self._records = conversation.records if version is None else version.records
        self._path = Paths(store).conversation(conversation, version)

    def side(self, row: EventRow | None) -> DiffSide | None:
        """Return an event as it is told of."""
        if row is None:
            return None
        return DiffSide(row.number, row.kind.word, row.tool, event_path(self._path, row, self._records))

    def file(self, row: EventRow | None) -> str:
        """Return the file of an event; raises DamageError."""
        if row is None:
            return ""
        [(_row, text)] = self._store.texts.files_of([row])
        if isinstance(text, ConvfsError):
            raise text
        return text.decode()


def _difference(a: _Shown, b: _Shown, old: EventRow | None, new: EventRow | None) -> Difference | None:
    """Return the difference of an event between two states, None if its file is the same in both."""
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
