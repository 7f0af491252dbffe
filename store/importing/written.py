"""What a tool writes of its session into the mount, brought into the conversation as an import of the file would.

The file itself lies nowhere: what it was is in the store, and what was written is given here. So a session that has
grown costs what it has grown by, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from blake3 import blake3

from store.errors import StoreBusy
from store.formats.format import Format, Source
from store.ids import now_ms, patch_of
from store.importing.cursor import Stamp
from store.importing.group import Group
from store.importing.native import NativeFile, as_imported
from store.importing.paths import path_text
from store.importing.session import Done, SessionImport
from store.importing.snapshot import Snapshot
from store.index.catalogue import Entry
from store.store import Store

_LOOK_BACK = 4096
_NEVER: Stamp = (0, 0)
"""The stamp of a file that has never been looked at."""


class _Given(Snapshot):
    """Bytes that are given: ``data`` of a file, from ``base`` on, of which what is new begins at ``start``."""

    def __init__(self, data: bytes, base: int = 0, start: int = 0) -> None:
        self.data = memoryview(data)
        self.base = base
        self.start = start
        # of what is not looked at: so the hash of a beginning is none of a file, and all of a file is looked at
        self.before = blake3()
        self._map = None
        self._released = 0


class _WrittenImport(SessionImport):
    """Imports what a tool has written of the session at ``path``, which is not touched."""

    # what a tool writes line by line is read back by offset all the time
    _alone = True

    def __init__(
        self,
        store: Store,
        group: Group,
        format_: Format,
        path: Path,
        known: Entry | None,
        snapshot: Callable[[], Snapshot],
        name: Path,
        *,
        goes_on: bool = False,
        anew: bool = False,
    ) -> None:
        super().__init__(store, group, format_, Source(format_.name, name, name), known)
        self._path = path
        self._snapshot = snapshot
        self._goes_on = goes_on
        self._anew = anew and known is not None and not as_imported(known)
        if self._anew and known is not None:
            # compared with what people have made of it; patches cannot be gone on from at a record in the middle
            self._records.replace(known.head, () if patch_of(known.head) else store.runs(known.head))

    def _stamps(self) -> tuple[int, Stamp, dict[str, Stamp]]:
        imported = self._imported
        # those of files that were imported stay as they were: whatever lies there has not changed by this
        return now_ms(), imported.cursor.stamp if imported else _NEVER, dict(imported.beside) if imported else {}

    def _open(self, beside: dict[str, Stamp]) -> Snapshot:
        if self._goes_on and self._imported is not None:
            self._go_on(self._imported, self._imported.read_envelope(self._store))
        return self._snapshot()

    def _describe(self, modified_ms: int) -> dict[str, object]:
        told = super()._describe(modified_ms)
        return told | {"source": path_text(self._path)} if "source" in told else told


def begin(store: Store, format_: Format, path: Path, name: Path, data: bytes | Path) -> Entry:
    """Make a conversation of a new session, of which ``data`` is the content, or the file that holds it.

    It is as if it had been imported from ``path``. ``name`` is a path that ends as ``path`` does and may be looked at.
    Raises StoreBusy while something else is being imported, and what an import raises.
    """
    if not store.importing.acquire(blocking=False):
        raise StoreBusy("other sessions are being imported")
    try:
        group = Group(store)
        _run(_WrittenImport(store, group, format_, path, None, partial(_snapshot, store, data), name), group)
    finally:
        store.importing.release()
    found = store.by_source(path_text(path))
    assert found is not None
    return found


def go_on(store: Store, format_: Format, file: NativeFile, name: Path, added: bytes) -> Entry:
    """Append to the conversation of ``file`` what was written behind its end; return what it is then.

    Its other records, and what people have changed in them, stay as they are.
    """
    entry, cursor = file.entry, file.imported.cursor
    before, rest = _last(store, file)
    given = partial(_Given, before + rest + added, cursor.offset - len(before), len(before))
    following = next(iter(format_.spans(given().data, len(before))), None)
    copied = file.imported.copied
    if (cursor.offset and following is not None and following.start == len(before)) or (
        copied is not None and cursor.records <= copied.reach
    ):
        # the last record itself goes on, or is not the last one in the file
        return write_anew(store, format_, file, name, b"".join((*file.pieces(), added)))
    group = Group(store)
    _run(_WrittenImport(store, group, format_, file.name, entry, given, name, goes_on=cursor.offset > 0), group)
    now = NativeFile(store, store.entry(entry.id))
    if as_imported(entry) or (now.size == file.size + len(added) and now.read(file.size, len(added)) == added):
        return now.entry
    # what was deleted, or stands behind the last record, makes another file of it
    return write_anew(store, format_, now, name, b"".join((*file.pieces(), added)))


def write_anew(store: Store, format_: Format, file: NativeFile, name: Path, data: bytes | Path) -> Entry:
    """Let the conversation of ``file`` be what its tool has written in the place of it; return what it is then.

    The records before the first that differs keep their turns. What people had changed was in the file that the tool
    wrote anew, so what it has made of that is what holds. Raises Conflict if the conversation has changed since.
    """
    entry = file.entry
    group = Group(store)
    snapshot = partial(_snapshot, store, data)
    _run(_WrittenImport(store, group, format_, file.name, entry, snapshot, name, anew=True), group)
    return store.entry(entry.id)


def _last(store: Store, file: NativeFile) -> tuple[bytes, bytes]:
    """Return the end of the last record that was finished in the file that was imported, and all that followed it.

    That is not always what the file of an edited conversation ends in.
    """
    envelope, records = file.imported.read_envelope(store), file.imported.cursor.records
    suffix = envelope.suffix.encode("latin-1")
    turn = store.turn(file.entry.imported_head) if file.entry.imported_head else None
    copied = file.imported.copied
    if turn is not None and turn.depth == records + (copied.left_out if copied else 0):
        suffix = envelope.gap_before(records) + store.blob(turn.payload_hash) + suffix
        turn = store.turn(turn.parent) if turn.parent else None
    if turn is None:
        return b"", suffix
    size = store.blob_size(turn.payload_hash)
    taken = min(size, _LOOK_BACK)
    return store.resolver.part(turn.payload_hash, size - taken, taken), suffix


def _run(session: SessionImport, group: Group) -> Done:
    done = session.run(None)
    for error in group.commit():
        if error is not None:
            raise error
    return done


def _snapshot(store: Store, data: bytes | Path) -> Snapshot:
    return _Given(data) if isinstance(data, bytes) else Snapshot(data, store.root / "scratch")
