"""Checking a store: one function an invariant, each reading what it checks and changing nothing.

A finding says what does not hold and where. ``error`` is damage; ``warning`` is something that another program may
have brought in, such as a reference to content that never was in the store.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from store.disk import blob_format
from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.disk.head_format import Alias, Commit, ContextCreated, Dictionary, Frame, HeadMoved, Patched, Superseded
from store.disk.turn_format import DELETED, Turn
from store.errors import ConvfsError, DamageError
from store.ids import TURNS_BEYOND, Hash, patch_of, turn_of
from store.index.index import Index
from store.index.schema import DERIVED_FROM_LOGS, DERIVED_FROM_RENDERER
from store.index.sums import numbered_holds
from store.store import Store
from store.upkeep.rebuild import rebuild

_BATCH = 512
_UNKNOWN = 0xFFFF_FFFF


class Finding(Struct, frozen=True):
    """One thing that does not hold: the check that found it, and what it is."""

    check: str
    severity: Literal["error", "warning"]
    message: str


Check = Callable[[Store], Iterator[Finding]]


def fsck(store: Store, progress: Callable[[str], None] | None = None) -> list[Finding]:
    """Run every check on an open store; return what was found. Reads everything."""
    store.quiesce()
    findings: list[Finding] = []
    for check in CHECKS:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        if progress:
            progress(name)
        try:
            findings += check(store)
        except ConvfsError as error:
            findings.append(_error(name, str(error)))
    return findings


def _error(check: str, message: str) -> Finding:
    return Finding(check, "error", message)


def _turns(store: Store) -> Iterator[tuple[int, Turn | DamageError]]:
    return store.files.turns.scan()


def check_turns(store: Store) -> Iterator[Finding]:
    """Ids are those of the places; a parent is 0 or an earlier turn; a depth is the parent's and one."""
    if store.files.turns.damage:
        yield _error("turns", str(store.files.turns.damage))
    depths = array("I")
    for turn_id, turn in _turns(store):
        if not isinstance(turn, Turn):
            yield _error("turns", str(turn))
            depths.append(_UNKNOWN)
            continue
        depths.append(turn.depth)
        if turn.turn_id != turn_id:
            yield _error("turns", f"the record at the place of turn {turn_id} calls itself {turn.turn_id}")
        elif turn.parent >= turn_id:
            yield _error("turns", f"turn {turn_id} has the later turn {turn.parent} as its parent")
        elif turn.parent == 0 and turn.depth != 0:
            yield _error("turns", f"turn {turn_id} is a root at depth {turn.depth}")
        elif turn.parent and depths[turn.parent - 1] not in (turn.depth - 1, _UNKNOWN):
            yield _error("turns", f"turn {turn_id} has depth {turn.depth} below one of depth {depths[turn.parent - 1]}")


def check_payloads(store: Store) -> Iterator[Finding]:
    """Every turn's payload resolves and has its hash."""
    batch: list[tuple[int, Hash]] = []
    sound: set[Hash] = set()

    def resolve() -> Iterator[Finding]:
        wanted = list(dict.fromkeys(digest for _turn, digest in batch if digest not in sound))
        bad: dict[Hash, ConvfsError] = {}
        for digest in wanted:
            try:
                store.resolver.check(digest)
                sound.add(digest)
            except ConvfsError as error:
                bad[digest] = error
        for turn_id, digest in batch:
            if digest in bad:
                yield _error("payloads", f"turn {turn_id}: {bad[digest]}")

    for turn_id, turn in _turns(store):
        if isinstance(turn, Turn):
            batch.append((turn_id, turn.payload_hash))
            if len(batch) == _BATCH:
                yield from resolve()
                batch.clear()
    yield from resolve()


def check_packs(store: Store) -> Iterator[Finding]:
    """Every record's checksum holds, every blob has its hash, and what a blob is made of is there."""
    packs = store.files.packs
    for pack, offset, record in packs.scan():
        where = f"{packs.path(pack).name}, offset {offset}"
        if isinstance(record, Damage):
            yield _error("packs", f"{where}: {record.length} bytes: {record.reason}")
            continue
        for digest in _blobs_of(record):
            try:
                store.resolver.check(digest)
            except ConvfsError as error:
                yield _error("packs", f"{where}: {error}")


def _blobs_of(record: blob_format.Record) -> Sequence[Hash]:
    if record.compression in (Compression.GROUP, Compression.GROUP_DICT):
        return [member.hash for member in blob_format.decode_group_table(record.compression, record.stored).members]
    return [record.hash]


def _frames(store: Store) -> Iterator[Frame | Damage]:
    return store.files.heads.frames()


def check_head_log(store: Store) -> Iterator[Finding]:
    """Frames are sound, their numbers rise, and each COMMIT says how many turns there were."""
    if store.files.heads.damage:
        yield _error("head log", str(store.files.heads.damage))
    last, turns = 0, 0
    for frame in _frames(store):
        if isinstance(frame, Damage):
            yield _error("head log", f"heads.log, offset {frame.offset}: {frame.length} bytes: {frame.reason}")
            continue
        if frame.seq <= last:
            yield _error("head log", f"heads.log, offset {frame.offset}: seq {frame.seq} comes after {last}")
        last = frame.seq
        if isinstance(frame.body, Commit):
            if frame.body.turn_count < turns:
                yield _error("head log", f"COMMIT {frame.seq} counts {frame.body.turn_count} turns after {turns}")
            turns = frame.body.turn_count
    if turns != store.files.turns.count:
        yield _error("head log", f"the last COMMIT counts {turns} turns, but turns.log has {store.files.turns.count}")


def check_heads(store: Store) -> Iterator[Finding]:
    """A head is 0 or names a turn of its depth, and belongs to a context that was created."""
    created: set[int] = set()
    for frame in _frames(store):
        if isinstance(frame, Damage):
            continue
        body = frame.body
        if isinstance(body, ContextCreated):
            if frame.context in created:
                yield _error("heads", f"context {frame.context} was created twice")
            created.add(frame.context)
        elif isinstance(body, HeadMoved):
            if frame.context not in created:
                yield _error("heads", f"the head of context {frame.context} moved, but it was never created")
            if turn := turn_of(body.tip):
                try:
                    depth = store.turn(turn).depth
                except ConvfsError as error:
                    yield _error("heads", f"the head of context {frame.context}: {error}")
                    continue
                if depth != body.depth:
                    yield _error("heads", f"head {turn} of context {frame.context} has depth {depth}")


def check_edits(store: Store) -> Iterator[Finding]:
    """What an edit says of turns is said of turns that are there; what took a turn's place came at another time."""
    last = store.files.turns.count
    for frame in _frames(store):
        if isinstance(frame, Damage) or not isinstance(frame.body, Superseded):
            continue
        for old, new, count in frame.body.turns:
            if not (old and count) or max(old, new) + count - 1 > last:
                yield _error(
                    "edits", f"edit {frame.seq} of context {frame.context}: {count} turns from {old} are not there"
                )
            elif old == new:
                yield _error("edits", f"edit {frame.seq} of context {frame.context}: turn {old} took its own place")
    for entry in store.entries():
        try:
            store.runs(entry.imported_head)
        except ConvfsError as error:
            yield _error("edits", f"{entry.project}/{entry.name}: what was imported: {error}")


def check_patches(store: Store) -> Iterator[Finding]:
    """A patch gives turns that are there payloads that are there; one that is followed, or holds, was made before."""
    made, last = {0}, 0
    for frame in _frames(store):
        if isinstance(frame, Damage) or not isinstance(frame.body, HeadMoved | Patched):
            continue
        body = frame.body
        where = f"frame {frame.seq} of context {frame.context}"
        before = patch_of(body.tip) if isinstance(body, HeadMoved) else body.previous
        if before not in made:
            yield _error("patches", f"{where}: there is no patch {before} before it")
        if isinstance(body, HeadMoved):
            continue
        if body.number <= last:
            yield _error("patches", f"{where}: patch {body.number} comes after patch {last}")
        last = body.number
        made.add(last)
        for turn, digest, _flags, _created in body.turns:
            if not 0 < turn <= store.files.turns.count:
                yield _error("patches", f"{where}: patch {body.number} is of turn {turn}, which is not there")
            try:
                store.resolver.check(digest)
            except ConvfsError as error:
                yield _error("patches", f"{where}: patch {body.number} of turn {turn}: {error}")


def check_deleted(store: Store) -> Iterator[Finding]:
    """What the index calls deleted is what the turns call deleted."""
    db = store.files.index.db
    known = {turn for (turn,) in db.query("SELECT turn FROM views WHERE deleted != 0")}
    gone = {turn_id for turn_id, turn in _turns(store) if isinstance(turn, Turn) and turn.flags & DELETED}
    patched = db.query("SELECT turn FROM views WHERE turn >= ?", (TURNS_BEYOND,))
    gone |= {turn_id for (turn_id,) in patched if store.turn(turn_id).deleted}
    for turn in sorted(known - gone):
        yield _error("deleted", f"the index calls turn {turn} deleted: run convfs reindex")
    for turn in sorted(gone - known):
        if db.one("SELECT 1 FROM views WHERE turn = ?", (turn,)):
            yield _error("deleted", f"turn {turn} was deleted, and the index does not say so: run convfs reindex")


def check_references(store: Store) -> Iterator[Finding]:
    """What conversations keep beside their turns is there, and what other digests stand for."""
    for conversation in store.entries():
        sidecars = conversation.metadata.get("sidecars")
        kept = dict(sidecars) if isinstance(sidecars, dict) else {}
        if envelope := conversation.metadata.get("envelope_blob"):
            kept["envelope"] = envelope
        for name, digest in kept.items():
            try:
                store.resolver.check(Hash(bytes.fromhex(str(digest))))
            except (ConvfsError, ValueError) as error:
                yield _error("references", f"{conversation.project}/{conversation.name}, {name}: {error}")
    for frame in _frames(store):
        if isinstance(frame, Damage):
            continue
        body = frame.body
        if isinstance(body, Alias | Dictionary):
            try:
                store.resolver.check(body.hash)
            except ConvfsError as error:
                if isinstance(body, Dictionary):
                    yield _error("references", f"the dictionary of small groups: {error}")
                else:
                    yield Finding("references", "warning", f"{body.algorithm}:{body.digest.hex()}: {error}")


def check_index(store: Store) -> Iterator[Finding]:
    """The index says what the logs and packs say (where these are not damaged): one made anew has the same rows."""
    for problem in store.files.index.db.problems():
        yield _error("index", f"index.db: {problem}: run convfs reindex")
    scratch = store.root / "fsck.db"
    _remove(scratch)
    fresh = Index(scratch)
    try:
        if rebuild(fresh, store.files.heads, store.files.packs):
            # the index may know more than what is left of them
            return
        for table in (*DERIVED_FROM_LOGS, "blobs"):
            for place, row in differences(fresh, store.files.index.db.path, table):
                yield _error("index", f"{table}: {place} has {row}: run convfs reindex")
    finally:
        fresh.close()
        _remove(scratch)


def check_views(store: Store) -> Iterator[Finding]:
    """What was measured of events is what was filed."""
    for table in DERIVED_FROM_RENDERER:
        for row in store.files.index.db.query(f"SELECT * FROM {table}"):
            if not numbered_holds(row):
                yield _error("views", f"{table}: the row {row} is damaged: run convfs reindex")


def differences(fresh: Index, other: Path, table: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the rows of ``table`` that only one of two indexes has, and which: ``the index`` or ``the logs``."""
    query = fresh.db.query
    query("ATTACH DATABASE ? AS other", (str(other),))
    try:
        for place, mine, theirs in (("only the index", "other", "main"), ("only what the logs say", "main", "other")):
            for row in query(f"SELECT * FROM {mine}.{table} EXCEPT SELECT * FROM {theirs}.{table}"):
                yield place, row
    finally:
        query("DETACH DATABASE other")


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


CHECKS: tuple[Check, ...] = (
    check_turns,
    check_head_log,
    check_heads,
    check_edits,
    check_patches,
    check_deleted,
    check_packs,
    check_payloads,
    check_references,
    check_index,
    check_views,
)
"""Every check, in the order in which they run."""
