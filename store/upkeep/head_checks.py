"""Checks of the head log: what it says of contexts, edits, patches and turns holds together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from store.disk.file_header import Damage
from store.disk.head_format import (
    Appended,
    Closed,
    Commit,
    ContextCreated,
    Deleted,
    Frame,
    FsRoot,
    HeadMoved,
    Opened,
    Patched,
    Reclaimed,
    Superseded,
    TextAdded,
)
from store.errors import ConvfsError
from store.ids import patch_of, turn_of
from store.index.patches import Patches
from store.store import Store
from store.upkeep.turn_runs import TurnRuns


class Finding(Struct, frozen=True):
    """One thing that does not hold: the check that found it, and what it is."""

    check: str
    severity: Literal["error", "warning"]
    message: str


def fault(check: str, message: str) -> Finding:
    """Return what is found where something is damaged."""
    return Finding(check, "error", message)


def frames(store: Store) -> Iterator[Frame | Damage]:
    """Yield the frames of the head log."""
    return store.files.heads.frames()


def reclaimed(store: Store) -> TurnRuns:
    """Return the turns that nothing leads to, as the head log says: what is wrong with one of them is no loss."""
    bodies = (frame.body for frame in frames(store) if isinstance(frame, Frame))
    return TurnRuns(run for body in bodies if isinstance(body, Reclaimed) for run in body.runs)


def check_head_log(store: Store) -> Iterator[Finding]:
    """Frames are sound, their numbers rise, and each COMMIT says how many turns there were."""
    if store.files.heads.damage:
        yield fault("head log", str(store.files.heads.damage))
    last, turns = 0, 0
    for frame in frames(store):
        if isinstance(frame, Damage):
            yield fault("head log", f"heads.log, offset {frame.offset}: {frame.length} bytes: {frame.reason}")
            continue
        if frame.seq <= last:
            yield fault("head log", f"heads.log, offset {frame.offset}: seq {frame.seq} comes after {last}")
        last = frame.seq
        if isinstance(frame.body, Commit):
            if frame.body.turn_count < turns:
                yield fault("head log", f"COMMIT {frame.seq} counts {frame.body.turn_count} turns after {turns}")
            turns = frame.body.turn_count
    if turns != store.files.turns.count:
        yield fault("head log", f"the last COMMIT counts {turns} turns, but turns.log has {store.files.turns.count}")


def check_heads(store: Store) -> Iterator[Finding]:
    """A head is 0 or names a turn of its depth, and belongs to a context that was created, and is there."""
    created: set[int] = set()
    deleted: set[int] = set()
    gone = reclaimed(store)
    for frame in frames(store):
        if isinstance(frame, Damage):
            continue
        body = frame.body
        if isinstance(body, ContextCreated):
            if frame.context in created:
                yield fault("heads", f"context {frame.context} was created twice")
            created.add(frame.context)
        elif frame.context in deleted:
            yield fault("heads", f"frame {frame.seq} is of context {frame.context}, which was deleted before")
        elif isinstance(body, Deleted):
            deleted.add(frame.context)
        elif isinstance(body, HeadMoved):
            if frame.context not in created:
                yield fault("heads", f"the head of context {frame.context} moved, but it was never created")
            if (turn := turn_of(body.tip)) and turn not in gone:
                try:
                    depth = store.turn(turn).depth
                except ConvfsError as error:
                    yield fault("heads", f"the head of context {frame.context}: {error}")
                    continue
                if depth != body.depth:
                    yield fault("heads", f"head {turn} of context {frame.context} has depth {depth}")


def check_edits(store: Store) -> Iterator[Finding]:
    """What an edit says of turns is said of turns that are there; what took a turn's place came at another time."""
    last = store.files.turns.count
    for frame in frames(store):
        if isinstance(frame, Damage) or not isinstance(frame.body, Superseded):
            continue
        for old, new, count in frame.body.turns:
            if not (old and count) or max(old, new) + count - 1 > last:
                yield fault(
                    "edits", f"edit {frame.seq} of context {frame.context}: {count} turns from {old} are not there"
                )
            elif old == new:
                yield fault("edits", f"edit {frame.seq} of context {frame.context}: turn {old} took its own place")
    for entry in store.entries():
        try:
            store.runs(entry.imported_head)
        except ConvfsError as error:
            yield fault("edits", f"{entry.project}/{entry.name}: what was imported: {error}")


def check_patches(store: Store) -> Iterator[Finding]:
    """A patch is of turns that are there; one that is followed, or holds, was made before.

    What is seen through it is there.
    """
    made, last = {0}, 0
    for frame in frames(store):
        if isinstance(frame, Damage) or not isinstance(frame.body, HeadMoved | Patched):
            continue
        body = frame.body
        where = f"frame {frame.seq} of context {frame.context}"
        before = patch_of(body.tip) if isinstance(body, HeadMoved) else body.previous
        if before not in made:
            yield fault("patches", f"{where}: there is no patch {before} before it")
        if isinstance(body, HeadMoved):
            continue
        if body.number <= last:
            yield fault("patches", f"{where}: patch {body.number} comes after patch {last}")
        last = body.number
        made.add(last)
        for turn, *_what in body.turns:
            if not 0 < turn <= store.files.turns.count:
                yield fault("patches", f"{where}: patch {body.number} is of turn {turn}, which is not there")
    gone = reclaimed(store)
    for patch in Patches(store.files.index.db).in_force():
        for turn, (digest, _flags, _created) in patch.turns.items():
            try:
                if turn not in gone:
                    store.resolver.check(digest)
            except ConvfsError as error:
                yield fault("patches", f"patch {patch.number} of turn {turn}: {error}")


def check_notes(store: Store) -> Iterator[Finding]:
    """Notes of turns are of turns that are there; an open turn goes on where it was, until it is closed."""
    sizes: dict[int, int] = {}
    for frame in frames(store):
        if isinstance(frame, Damage):
            continue
        body, where = frame.body, f"frame {frame.seq}"
        if isinstance(body, Appended | FsRoot | Closed) and body.turn > store.files.turns.count:
            yield fault("notes", f"{where}: turn {body.turn} is not there")
        if isinstance(body, Opened):
            sizes[frame.seq] = 0
        elif isinstance(body, TextAdded):
            if sizes.get(body.number) != body.offset:
                yield fault("notes", f"{where}: the text of open turn {body.number} does not go on at {body.offset}")
            sizes[body.number] = body.offset + len(body.text)
        elif isinstance(body, Closed) and sizes.pop(body.number, None) is None:
            yield fault("notes", f"{where}: there is no open turn {body.number} to close")
