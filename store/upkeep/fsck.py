"""Checking a store: one function an invariant, each reading what it checks and changing nothing.

A finding says what does not hold and where. ``error`` is damage; ``warning`` is something that another program may
have brought in, such as a reference to content that never was in the store.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from store.content.names import names_of
from store.disk.file_header import Damage
from store.disk.head_format import Alias, Dictionary
from store.disk.turn_format import DELETED, Turn
from store.errors import ConvfsError, DamageError, NotFound
from store.events.outputs import outputs_of
from store.ids import TURNS_BEYOND, Hash
from store.index.catalogue import Entry
from store.index.index import Index
from store.index.schema import DERIVED_FROM_LOGS, DERIVED_FROM_RENDERER
from store.index.sums import numbered_holds
from store.store import Store
from store.upkeep.head_checks import (
    Finding,
    check_edits,
    check_head_log,
    check_heads,
    check_notes,
    check_patches,
    fault,
    frames,
    reclaimed,
)
from store.upkeep.opening_index import remove_database
from store.upkeep.rebuild import rebuild

_BATCH = 512
_UNKNOWN = 0xFFFF_FFFF


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
            findings.append(fault(name, str(error)))
    return findings


def _turns(store: Store) -> Iterator[tuple[int, Turn | DamageError]]:
    return store.files.turns.scan()


def check_turns(store: Store) -> Iterator[Finding]:
    """Ids are those of the places; a parent is 0 or an earlier turn; a depth is the parent's and one.

    Of a turn that was reclaimed, nothing but its place need be there.
    """
    gone = reclaimed(store)
    if store.files.turns.damage:
        yield fault("turns", str(store.files.turns.damage))
    depths = array("I")
    for turn_id, turn in _turns(store):
        if turn_id in gone:
            depths.append(_UNKNOWN)
            if not isinstance(turn, Turn):
                yield Finding("turns", "warning", f"{turn}, but nothing leads to it: convfs gc mends it")
            continue
        if not isinstance(turn, Turn):
            yield fault("turns", str(turn))
            depths.append(_UNKNOWN)
            continue
        depths.append(turn.depth)
        if turn.turn_id != turn_id:
            yield fault("turns", f"the record at the place of turn {turn_id} calls itself {turn.turn_id}")
        elif turn.parent >= turn_id:
            yield fault("turns", f"turn {turn_id} has the later turn {turn.parent} as its parent")
        elif turn.reclaimed:
            yield fault("turns", f"turn {turn_id} is blank, but nobody has reclaimed it")
        elif turn.parent == 0 and turn.depth != 0:
            yield fault("turns", f"turn {turn_id} is a root at depth {turn.depth}")
        elif turn.parent and depths[turn.parent - 1] not in (turn.depth - 1, _UNKNOWN):
            yield fault("turns", f"turn {turn_id} has depth {turn.depth} below one of depth {depths[turn.parent - 1]}")


def check_jumps(store: Store) -> Iterator[Finding]:
    """What leads from turns to ancestors of theirs is what the turns say."""
    jumps = store.files.jumps
    for first in range(1, jumps.count + 1, _BATCH):
        for turn_id in jumps.wrong(first, min(_BATCH, jumps.count + 1 - first)):
            yield fault("jumps", f"turns.jump: the entry of turn {turn_id} is damaged: run convfs reindex")


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
                yield fault("payloads", f"turn {turn_id}: {bad[digest]}")

    for turn_id, turn in _turns(store):
        if isinstance(turn, Turn) and not turn.reclaimed:
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
            yield fault("packs", f"{where}: {record.length} bytes: {record.reason}")
            continue
        try:
            names = names_of(record)
        except DamageError as error:
            yield fault("packs", f"{where}: {error}")
            continue
        for digest in names:
            try:
                store.resolver.check(digest)
            except ConvfsError as error:
                yield fault("packs", f"{where}: {error}")


def check_deleted(store: Store) -> Iterator[Finding]:
    """What the index calls deleted is what the turns call deleted."""
    db = store.files.index.db
    known = {turn for (turn,) in db.query("SELECT turn FROM views WHERE deleted != 0")}
    gone = {turn_id for turn_id, turn in _turns(store) if isinstance(turn, Turn) and turn.flags & DELETED}
    patched = db.query("SELECT turn FROM views WHERE turn >= ?", (TURNS_BEYOND,))
    gone |= {turn_id for (turn_id,) in patched if store.turn(turn_id).deleted}
    for turn in sorted(known - gone):
        yield fault("deleted", f"the index calls turn {turn} deleted: run convfs reindex")
    for turn in sorted(gone - known):
        if db.one("SELECT 1 FROM views WHERE turn = ?", (turn,)):
            yield fault("deleted", f"turn {turn} was deleted, and the index does not say so: run convfs reindex")


def check_references(store: Store) -> Iterator[Finding]:
    """What conversations keep beside their turns is there, and what other digests stand for."""
    for conversation in (*store.entries(), *store.layouts()):
        sidecars = conversation.metadata.get("sidecars")
        kept = dict(sidecars) if isinstance(sidecars, dict) else {}
        if envelope := conversation.metadata.get("envelope_blob"):
            kept["envelope"] = envelope
        if layout := conversation.metadata.get("layout"):
            kept["layout"] = layout
        copied = conversation.metadata.get("copied")
        if isinstance(copied, dict) and copied.get("changes"):
            kept["copied"] = copied["changes"]
        original = conversation.metadata.get("original")
        kept |= original if isinstance(original, dict) else {}
        for name, digest in kept.items():
            try:
                store.resolver.check(Hash(bytes.fromhex(str(digest))))
            except (ConvfsError, ValueError) as error:
                yield fault("references", f"{conversation.project}/{conversation.name}, {name}: {error}")
        yield from _outputs(store, conversation)
    for frame in frames(store):
        if isinstance(frame, Damage):
            continue
        body = frame.body
        if isinstance(body, Alias | Dictionary):
            try:
                store.resolver.check(body.hash)
            except ConvfsError as error:
                if isinstance(body, Dictionary):
                    yield fault("references", f"the dictionary of small groups: {error}")
                else:
                    yield Finding("references", "warning", f"{body.algorithm}:{body.digest.hex()}: {error}")


def _outputs(store: Store, conversation: Entry) -> Iterator[Finding]:
    for key, value in outputs_of(conversation.metadata).items():
        where = f"{conversation.project}/{conversation.name}, {key}"
        digest = value.get("blob") if isinstance(value, dict) else None
        try:
            store.resolver.check(Hash(bytes.fromhex(str(digest))))
        except NotFound as error:
            # whoever named it may have named what never was here
            yield Finding("references", "warning", f"{where}: {error}")
        except (ConvfsError, ValueError) as error:
            yield fault("references", f"{where}: {error}")


def check_index(store: Store) -> Iterator[Finding]:
    """The index says what the logs and packs say (where these are not damaged): one made anew has the same rows."""
    for problem in store.files.index.db.problems():
        yield fault("index", f"index.db: {problem}: run convfs reindex")
    scratch = store.root / "fsck.db"
    remove_database(scratch)
    fresh = Index(scratch)
    try:
        if rebuild(fresh, store.files.heads, store.files.packs):
            # the index may know more than what is left of them
            return
        for table in (*DERIVED_FROM_LOGS, "blobs", "packs"):
            for place, row in differences(fresh, store.files.index.db.path, table):
                yield fault("index", f"{table}: {place} has {row}: run convfs reindex")
    finally:
        fresh.close()
        remove_database(scratch)


def check_views(store: Store) -> Iterator[Finding]:
    """What was measured of events is what was filed."""
    for table in DERIVED_FROM_RENDERER:
        for row in store.files.index.db.query(f"SELECT * FROM {table}"):
            if not numbered_holds(row):
                yield fault("views", f"{table}: the row {row} is damaged: run convfs reindex")


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


CHECKS: tuple[Check, ...] = (
    check_turns,
    check_jumps,
    check_head_log,
    check_heads,
    check_edits,
    check_patches,
    check_notes,
    check_deleted,
    check_packs,
    check_payloads,
    check_references,
    check_index,
    check_views,
)
"""Every check, in the order in which they run."""
