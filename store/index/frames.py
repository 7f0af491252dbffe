"""Changes of the index by frames of the head log: contexts, their versions, names, types, patches and notes."""

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

import store.disk.head_format as heads
from store.disk.head_format import GONE, NOTES
from store.errors import DamageError
from store.events.conversation import labels_of
from store.ids import HASH_SIZE, patch_of, tip_of, turn_of
from store.index.asides import file_aside
from store.index.database import Row, holds, put, sum_of
from store.index.notes import file_notes
from store.index.origins import mark_of, origin, origins_of, pruned_origins

PINNED, USUAL, ARCHIVED = 1, 0, -1


def rank_of(metadata: Mapping[str, object]) -> int:
    """Return how a conversation ranks."""
    if metadata.get("archived") is True:
        return ARCHIVED
    return PINNED if metadata.get("pinned") is True else USUAL


def _file_marks(
    sql: sqlite3.Connection, table: str, column: str, context: int, before: list[str], now: list[str]
) -> None:
    """File the labels or origins that a context has ``now``, in place of those that it had ``before``."""
    gone = [(mark, context) for mark in before if mark not in now]
    sql.executemany(f"DELETE FROM {table} WHERE {column} = ? AND context = ?", gone)
    put(sql, table, [(mark, context) for mark in now if mark not in before])


_OF_CONTEXT = (
    "asides",
    "versions",
    "superseded",
    "keys",
    "open_turns",
    "pruned_versions",
    "measures",
)
"""Tables in which the rows of a context are found by it, and go with it."""
_OF_TURN = ("views", "resources")


def delete(sql: sqlite3.Connection, context: int, time_ms: int, metadata: Mapping[str, object]) -> None:
    """Drop all that is filed of a context, and remember what it was found by: ``metadata`` is what was said of it."""
    names = dict.fromkeys((origin(""), *pruned_origins(metadata)))
    put(sql, "pruned", [(name, context, time_ms) for name in names])
    # by what they are filed under: to look through all rows for each of very many contexts would take long
    _file_marks(sql, "labels", "name", context, labels_of(metadata), [])
    _file_marks(sql, "origins", "origin", context, origins_of(metadata), [])
    for table in _OF_CONTEXT:
        sql.execute(f"DELETE FROM {table} WHERE context = ?", (context,))
    sql.execute("DELETE FROM contexts WHERE id = ?", (context,))


def prune_versions(sql: sqlite3.Connection, context: int, last: int) -> None:
    """Drop the versions of a context that began up to seq ``last``, but for its newest.

    DamageError where the row that counts those is damaged.
    """
    newest = "SELECT max(seq) FROM versions WHERE context = :context"
    gone = f"DELETE FROM versions WHERE context = :context AND seq <= :last AND seq < ({newest})"
    count = sql.execute(gone, {"context": context, "last": last}).rowcount
    if not count:
        return
    known = _one(sql, "pruned_versions", "SELECT * FROM pruned_versions WHERE context = ?", context)
    put(sql, "pruned_versions", [(context, count + (known[1] if known else 0))])


def forget_turns(sql: sqlite3.Connection, first: int, last: int) -> None:
    """Drop the rows of the turns from ``first`` to ``last``, also as they were seen through patches."""
    sql.execute("DELETE FROM fs_roots WHERE turn BETWEEN ? AND ?", (first, last))
    patched = sql.execute("SELECT number, turn FROM patches WHERE turn BETWEEN ? AND ?", (first, last)).fetchall()
    seen = [(tip_of(turn, number),) for number, turn in patched]
    for table in _OF_TURN:
        sql.execute(f"DELETE FROM {table} WHERE turn BETWEEN ? AND ?", (first, last))
        sql.executemany(f"DELETE FROM {table} WHERE turn = ?", seen)


_LARGEST = (1 << 63) - 1
_IMPORTS = ("import", "pull")
"""The actions of moves to what a session's imports have made, unless metadata says otherwise."""
_LAST_VERSION = "SELECT * FROM versions WHERE context = ? ORDER BY seq DESC LIMIT 1"
_DESCRIBED = (
    "SELECT id, created_ms, project, name, title, format, source, day, trashed_ms, rank, described_ms, metadata, sum"
    " FROM contexts WHERE id = ?"
)


def file_frames(sql: sqlite3.Connection, frames: Iterable[heads.HeadFrame]) -> None:
    """File ``frames``, in the order of the log. DamageError if a row that they change is damaged."""
    last = 0
    # of the moves that appends make, only a context's first and last one show
    moved: dict[int, tuple[heads.HeadFrame, heads.HeadMoved]] = {}
    notes: list[heads.HeadFrame] = []
    for frame in frames:
        last, body = frame.seq, frame.body
        if isinstance(body, heads.HeadMoved) and body.action == "append":
            first, before = moved.get(frame.context, (frame, body))
            if patch_of(before.tip) != patch_of(body.tip):
                # the frame of a patch between them is lost
                _extend(sql, *moved.pop(frame.context))
                first = frame
            moved[frame.context] = (first, body)
        elif isinstance(body, NOTES):
            # of text, all that is filed is where it begins
            if not isinstance(body, heads.TextAdded):
                notes.append(frame)
        elif not isinstance(body, heads.Commit):
            # the first frame that names a lost patch tells whose it is
            patched = isinstance(body, heads.Patched | heads.HeadMoved)
            for context in list(moved) if patched else [frame.context]:
                if (moves := moved.pop(context, None)) is not None:
                    _extend(sql, *moves)
            if isinstance(body, GONE):
                # and what was noted before it
                file_notes(sql, notes)
                notes = []
            _apply(sql, frame)
    for moves in moved.values():
        _extend(sql, *moves)
    if notes:
        file_notes(sql, notes)
    if last:
        sql.execute("INSERT OR REPLACE INTO state VALUES ('seq', ?)", (last,))


def _one(sql: sqlite3.Connection, table: str, query: str, *parameters: object) -> Row | None:
    """Return a row that is about to be changed, without its checksum, None if there is none.

    DamageError if it is damaged: it must not be given a checksum that holds.
    """
    row: Row | None = sql.execute(query, parameters).fetchone()
    if row is None:
        return None
    if not holds(row):
        raise DamageError(f"a row of {table} is damaged")
    return row[:-1]


def _head_of(sql: sqlite3.Connection, context: int) -> Row | None:
    """Return (id, head, records, updated_ms, imported) of a context."""
    query = "SELECT id, head, records, updated_ms, imported, head_sum FROM contexts WHERE id = ?"
    return _one(sql, "contexts", query, context)


def _apply(sql: sqlite3.Connection, frame: heads.HeadFrame) -> None:
    body, context = frame.body, frame.context
    if isinstance(body, heads.HeadMoved):
        _move(sql, context, body)
        _begin_version(sql, (context, frame.seq, body.time_ms, body.tip, _records(body)), body.action)
    elif isinstance(body, heads.Patched):
        _apply_patch(sql, frame, body)
    elif isinstance(body, heads.Metadata):
        _apply_metadata(sql, context, body)
    elif isinstance(body, heads.ContextCreated):
        head = (context, 0, 0, body.created_ms, 0)
        described = (context, body.created_ms, *_described({}, body.created_ms, 0))
        sql.execute(
            "INSERT OR IGNORE INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*head, sum_of(head), *described[1:], sum_of(described)),
        )
    elif isinstance(body, heads.TypeRegistered):
        sql.execute("INSERT OR REPLACE INTO types VALUES (?, ?, ?)", (signed(body.tag), body.version, body.name))
    elif isinstance(body, heads.Alias):
        put(sql, "aliases", [(body.algorithm, body.digest, body.hash)])
    elif isinstance(body, heads.Dictionary):
        sql.execute("INSERT OR IGNORE INTO dictionaries VALUES (?, ?)", (signed(body.tag), body.hash))
    elif isinstance(body, heads.Superseded):
        put(sql, "superseded", [(context, frame.seq, *turns) for turns in body.turns])
    elif isinstance(body, heads.Deleted):
        row = _one(sql, "contexts", _DESCRIBED, context)
        metadata = msgspec.json.decode(row[-1]) if row else {}
        _count(sql, row[2] if row else None, -1)
        delete(sql, context, body.time_ms, metadata)
        _file_subagents(sql, metadata)
    elif isinstance(body, heads.VersionsPruned):
        prune_versions(sql, context, body.last)
    elif isinstance(body, heads.Reclaimed):
        for first, count in body.runs:
            forget_turns(sql, first, first + count - 1)


def _records(move: heads.HeadMoved) -> int:
    return move.depth + 1 if turn_of(move.tip) else 0


def _move(sql: sqlite3.Connection, context: int, move: heads.HeadMoved) -> None:
    found = _head_of(sql, context)
    if found is not None:
        imported = turn_of(move.tip) if move.action in _IMPORTS else found[4]
        _note_patch(sql, context, patch_of(move.tip), found[1])
        _set_head(sql, context, move.tip, _records(move), move.time_ms, imported)


def _apply_patch(sql: sqlite3.Connection, frame: heads.HeadFrame, patch: heads.Patched) -> None:
    context, number = frame.context, patch.number
    found = _head_of(sql, context)
    _context, head, records, _updated, imported = found or (context, 0, 0, 0, 0)
    _note_patch(sql, context, patch.previous, head)
    put(sql, "patches", [(number, turn, context, patch.previous, *what) for turn, *what in patch.turns])
    if found is None:
        return
    tip = tip_of(turn_of(head), number)
    _set_head(sql, context, tip, records, patch.time_ms, imported)
    _begin_version(sql, (context, frame.seq, patch.time_ms, tip, records), patch.action)


def _note_patch(sql: sqlite3.Connection, context: int, number: int, head: int) -> None:
    """Ensure that a patch is filed. If its frame is lost, the state before it goes on to hold."""
    if number not in (0, patch_of(head)):
        known = sql.execute("SELECT 1 FROM patches WHERE number = ? LIMIT 1", (number,)).fetchone()
        if known is None:
            put(sql, "patches", [(number, 0, context, patch_of(head), bytes(HASH_SIZE), 0, 0)])


def _set_head(sql: sqlite3.Connection, context: int, head: int, records: int, updated: int, imported: int) -> None:
    sql.execute(
        "UPDATE contexts SET head = ?, records = ?, updated_ms = ?, imported = ?, head_sum = ? WHERE id = ?",
        (head, records, updated, imported, sum_of((context, head, records, updated, imported)), context),
    )


def _extend(sql: sqlite3.Connection, first: heads.HeadFrame, last: heads.HeadMoved) -> None:
    """Apply appends: they are part of the version before, or begin one where there is none."""
    context, begun = first.context, first.body
    _move(sql, context, last)
    version = _one(sql, "versions", _LAST_VERSION, context)
    if version is None:
        assert isinstance(begun, heads.HeadMoved)
        version = (context, first.seq, begun.time_ms, 0, 0, begun.action)
    put(sql, "versions", [(*version[:3], last.tip, _records(last), version[5])])


def _begin_version(sql: sqlite3.Connection, version: tuple[object, ...], action: str) -> None:
    """File a version; one that amends a deletion or an empty beginning, or goes on with a save, takes its place."""
    for marked, replaced in ((heads.AMENDS, ("delete ", "create")), (heads.AGAIN, heads.SAVES)):
        if action.startswith(marked):
            action = action.removeprefix(marked)
            last = _one(sql, "versions", _LAST_VERSION, version[0])
            if last is not None and last[5].startswith(replaced):
                sql.execute("DELETE FROM versions WHERE context = ? AND seq = ?", last[:2])
                version = (*version[:2], last[2], *version[3:]) if marked == heads.AGAIN else version
            break
    put(sql, "versions", [(*version, action)])


def _apply_metadata(sql: sqlite3.Connection, context: int, body: heads.Metadata) -> None:
    row = _one(sql, "contexts", _DESCRIBED, context)
    changed = _object(body.changes)
    if row is None:
        return
    _context, created, project, name, *_rest, data = row
    before = msgspec.json.decode(data)
    metadata = merge(before, changed)
    created = _time(metadata.get("started_ms")) or created
    described = (context, created, *_described(metadata, created, _time(body.time_ms)))
    taken = sql.execute(
        "SELECT 1 FROM contexts WHERE project = ? AND name = ? AND id != ?", (described[2], described[3], context)
    ).fetchone()
    if taken:
        # two programs chose the same name at the same moment: the later one's is made unique
        described = (*described[:3], f"{described[3]}~{context}", *described[4:])
    sql.execute(
        "UPDATE contexts SET created_ms = ?, project = ?, name = ?, title = ?, format = ?, source = ?, day = ?,"
        " trashed_ms = ?, rank = ?, described_ms = ?, metadata = ?, sum = ? WHERE id = ?",
        (*described[1:], sum_of(described), context),
    )
    if described[2] != project:
        _count(sql, project, -1)
        _count(sql, described[2], 1)
    # what has no name, as in the trash, is found by no label either
    labels = labels_of(before) if name else [], labels_of(metadata) if described[3] else []
    _file_marks(sql, "labels", "name", context, *labels)
    _file_marks(sql, "origins", "origin", context, origins_of(before), origins_of(metadata))
    file_aside(sql, context, metadata)
    if any(before.get(key) != metadata.get(key) for key in _PARENTAL):
        _file_subagents(sql, before, metadata)
    if (updated := _time(changed.get("updated_ms"))) and (moved := _head_of(sql, context)) is not None:
        _context, head, records, _updated, imported = moved
        _set_head(sql, context, head, records, updated, imported)


def _count(sql: sqlite3.Connection, project: object, more: int) -> None:
    """Count a conversation that came into a project, or went from it (-1); None is none."""
    if project is None:
        return
    row = _one(sql, "projects", "SELECT * FROM projects WHERE name = ?", project)
    if count := (row[1] if row else 0) + more:
        put(sql, "projects", [(project, count)])
    else:
        sql.execute("DELETE FROM projects WHERE name = ?", (project,))


_PARENTAL = ("format", "name", "project", "session", "source", "trashed_ms")
"""The keys of a conversation's metadata that decide whether subagents are in it."""


def _file_subagents(sql: sqlite3.Connection, *sessions: Mapping[str, object]) -> None:
    """File anew where the subagents of a session stand, which is or was described so."""
    for mark in sorted({mark_of("agent", metadata, "session") for metadata in sessions} - {""}):
        for (context,) in sql.execute("SELECT context FROM origins WHERE origin = ?", (mark,)).fetchall():
            if (row := _one(sql, "contexts", _DESCRIBED, context)) is not None:
                file_aside(sql, context, msgspec.json.decode(row[-1]))


def _described(metadata: dict[str, object], created: int, time_ms: int) -> tuple[str | int | None, ...]:
    """Return project, name, title and all after these as the columns have them; described at ``time_ms``."""
    project, name, title, format_, source = (
        value if isinstance(value := metadata.get(key), str) else ""
        for key in ("project", "name", "title", "format", "source")
    )
    trashed = _time(metadata.get("trashed_ms"))
    called = (project, name) if project and name and not trashed else (None, None)
    text = msgspec.json.encode(metadata, order="sorted").decode()
    return (*called, title, format_, source, day_of(created), trashed, rank_of(metadata), time_ms, text)


def _object(changes: bytes) -> dict[str, object]:
    try:
        changed = msgspec.json.decode(changes)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return changed if isinstance(changed, dict) else {}


def _time(value: object) -> int:
    """Return a time that metadata gives, 0 if it is none."""
    return value if type(value) is int and 0 < value <= _LARGEST else 0


def merge(metadata: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    """Return ``metadata`` with ``changes`` made: keys replace, null removes."""
    return {key: value for key, value in {**metadata, **changes}.items() if value is not None}


def day_of(time_ms: object) -> str:
    """Return the UTC day of a time in Unix milliseconds as ``2026-03-05``, "" where there is none."""
    if not isinstance(time_ms, int):
        return ""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return ""


def signed(tag: int) -> int:
    """Return an unsigned number of 64 bits as the signed one that SQLite keeps."""
    return tag - (1 << 64) if tag >= 1 << 63 else tag
