"""Checks of a store: one function for each invariant, which reads and changes nothing.

A finding states the broken invariant and the place. ``error`` is damage; ``warning`` is something that another program
may have brought in, such as a reference to content that never was in the store. If only the index is wrong,
:func:`reindex` rebuilds it.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from store import paths
from store.content.sealed import names_of
from store.disk import head_format as heads
from store.disk.file_header import Damage
from store.disk.head_format import HeadFrame
from store.disk.pack import PackRemoved
from store.disk.turn_format import DELETED, Turn
from store.errors import Away, ConvfsError, DamageError, NotFound, StoreFull, Unreachable
from store.events.conversation import EventRow, Renderer, outputs_of
from store.events.event import Event
from store.ids import TURNS_BEYOND, Hash, hash_key, patch_of, turn_of
from store.index.beside import remove_database
from store.index.catalogue import ContextEntry
from store.index.database import DERIVED_FROM_LOGS, DERIVED_FROM_RENDERER, numbered_holds
from store.index.index import Index
from store.index.patches import Patches
from store.index.views import Measure
from store.shared.archive import Archive
from store.store import Store
from store.upkeep.rebuild import rebuild
from store.upkeep.roots import TurnRuns

Severity = Literal["error", "warning"]
_BATCH = 512
_BLOBS_AT_ONCE = 64
_SMALL = 1 << 20
"""Blobs of up to this many bytes are read together."""
_UNKNOWN = 0xFFFF_FFFF
_HERE = {"blobs": f"WHERE pack < {paths.REMOTE}", "packs": f"WHERE number < {paths.REMOTE}"}
"""Which rows of a table are of packs on this machine."""


class Violation(Struct, frozen=True):
    """One thing that does not hold: the check that found it, and what it is."""

    check: str
    severity: Severity
    message: str


def fault(check: str, message: str) -> Violation:
    """Return what is found where something is damaged."""
    return Violation(check, "error", message)


def frames(store: Store) -> Iterator[HeadFrame]:
    """Yield the sound frames of the head log."""
    return (frame for frame in store.files.heads.frames() if isinstance(frame, HeadFrame))


class Looked:
    """One look through a store. What several checks ask is found out once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._sound: set[int] = set()
        self.bad: dict[Hash, ConvfsError] = {}
        """Blobs that cannot be read, and why."""

    @cached_property
    def reclaimed(self) -> TurnRuns:
        """The turns that nothing leads to, as the head log says: what is wrong with one of them is no loss."""
        return TurnRuns(
            run for frame in frames(self.store) if isinstance(frame.body, heads.Reclaimed) for run in frame.body.runs
        )

    def wrong(self, name: object) -> ConvfsError | ValueError | None:
        """Return why a blob cannot be read, by its hash or that in hex; None if it can be."""
        try:
            digest = Hash(name if isinstance(name, bytes) else bytes.fromhex(str(name)))
        except ValueError as error:
            return error
        self.look((digest,))
        return self.bad.get(digest)

    def look(self, digests: Sequence[Hash]) -> None:
        """Read blobs, and compare each with its hash: those in one record together. None is read a second time."""
        new = [digest for digest in dict.fromkeys(digests) if hash_key(digest) not in self._sound]
        new = [digest for digest in new if digest not in self.bad]
        blobs = self.store.blobs
        for start in range(0, len(new), _BLOBS_AT_ONCE):
            some = new[start : start + _BLOBS_AT_ONCE]
            small = []
            for digest in some:
                with suppress(ConvfsError):
                    if blobs.size(digest) > _SMALL:
                        blobs.check(digest)
                        self._sound.add(hash_key(digest))
                        continue
                # the reason is found with the others
                small.append(digest)
            for digest, found in blobs.blobs(small).items():
                if isinstance(found, Away):
                    # it is not here, and was not to be fetched, or cannot be
                    continue
                if isinstance(found, ConvfsError):
                    self.bad[digest] = found
                else:
                    self._sound.add(hash_key(digest))


def check_head_log(looked: Looked) -> Iterator[Violation]:
    """Frames are sound, their numbers rise, and each COMMIT says how many turns there were."""
    store = looked.store
    if store.files.heads.damage:
        yield fault("head log", str(store.files.heads.damage))
    last, turns = 0, 0
    for frame in store.files.heads.frames():
        if isinstance(frame, Damage):
            yield fault("head log", f"heads.log, offset {frame.offset}: {frame.length} bytes: {frame.reason}")
            continue
        if frame.seq <= last:
            yield fault("head log", f"heads.log, offset {frame.offset}: seq {frame.seq} comes after {last}")
        last = frame.seq
        if isinstance(frame.body, heads.Commit):
            if frame.body.turn_count < turns:
                yield fault("head log", f"COMMIT {frame.seq} counts {frame.body.turn_count} turns after {turns}")
            turns = frame.body.turn_count
    if turns != store.files.turns.count:
        yield fault("head log", f"the last COMMIT counts {turns} turns, but turns.log has {store.files.turns.count}")


def check_heads(looked: Looked) -> Iterator[Violation]:
    """A head is 0 or names a turn of its depth, and belongs to a context that was created, and is there."""
    store = looked.store
    created: set[int] = set()
    deleted: set[int] = set()
    gone = looked.reclaimed
    for frame in frames(store):
        body = frame.body
        if isinstance(body, heads.ContextCreated):
            if frame.context in created:
                yield fault("heads", f"context {frame.context} was created twice")
            created.add(frame.context)
        elif frame.context in deleted:
            yield fault("heads", f"frame {frame.seq} is of context {frame.context}, which was deleted before")
        elif isinstance(body, heads.Deleted):
            deleted.add(frame.context)
        elif isinstance(body, heads.HeadMoved):
            if frame.context not in created:
                yield fault("heads", f"the head of context {frame.context} moved, but it was never created")
            if (turn := turn_of(body.tip)) and turn not in gone:
                try:
                    depth = store.turns.get(turn).depth
                except ConvfsError as error:
                    yield fault("heads", f"the head of context {frame.context}: {error}")
                    continue
                if depth != body.depth:
                    yield fault("heads", f"head {turn} of context {frame.context} has depth {depth}")


def check_edits(looked: Looked) -> Iterator[Violation]:
    """Edits name turns that are there; no turn took its own place."""
    store = looked.store
    last = store.files.turns.count
    for frame in frames(store):
        if not isinstance(frame.body, heads.Superseded):
            continue
        for old, new, count in frame.body.turns:
            if not (old and count) or max(old, new) + count - 1 > last:
                yield fault(
                    "edits", f"edit {frame.seq} of context {frame.context}: {count} turns from {old} are not there"
                )
            elif old == new:
                yield fault("edits", f"edit {frame.seq} of context {frame.context}: turn {old} took its own place")
    for entry in store.catalogue.every():
        try:
            store.records.runs(entry.imported_head)
        except ConvfsError as error:
            yield fault("edits", f"{entry.project}/{entry.name}: what was imported: {error}")


def check_patches(looked: Looked) -> Iterator[Violation]:
    """A patch is of turns that are there, follows patches made before it, and shows payloads that are there."""
    store = looked.store
    made, last = {0}, 0
    for frame in frames(store):
        if not isinstance(frame.body, heads.HeadMoved | heads.Patched):
            continue
        body = frame.body
        where = f"frame {frame.seq} of context {frame.context}"
        before = patch_of(body.tip) if isinstance(body, heads.HeadMoved) else body.previous
        if before not in made:
            yield fault("patches", f"{where}: there is no patch {before} before it")
        if isinstance(body, heads.HeadMoved):
            continue
        if body.number <= last:
            yield fault("patches", f"{where}: patch {body.number} comes after patch {last}")
        last = body.number
        made.add(last)
        for turn, *_what in body.turns:
            if not 0 < turn <= store.files.turns.count:
                yield fault("patches", f"{where}: patch {body.number} is of turn {turn}, which is not there")
    gone = looked.reclaimed
    for patch in Patches(store.files.index.db).in_force():
        for turn, (digest, _flags, _created) in patch.turns.items():
            if turn not in gone and (error := looked.wrong(digest)):
                yield fault("patches", f"patch {patch.number} of turn {turn}: {error}")


def check_notes(looked: Looked) -> Iterator[Violation]:
    """Notes of turns are of turns that are there; an open turn goes on where it was, until it is closed."""
    store = looked.store
    sizes: dict[int, int] = {}
    for frame in frames(store):
        body, where = frame.body, f"frame {frame.seq}"
        if isinstance(body, heads.AppendNoted | heads.FsRoot | heads.Closed) and body.turn > store.files.turns.count:
            yield fault("notes", f"{where}: turn {body.turn} is not there")
        if isinstance(body, heads.TurnOpened):
            sizes[frame.seq] = 0
        elif isinstance(body, heads.TextAdded):
            if sizes.get(body.number) != body.offset:
                yield fault("notes", f"{where}: the text of open turn {body.number} does not go on at {body.offset}")
            sizes[body.number] = body.offset + len(body.text)
        elif isinstance(body, heads.Closed) and sizes.pop(body.number, None) is None:
            yield fault("notes", f"{where}: there is no open turn {body.number} to close")


def fsck(
    store: Store, progress: Callable[[str], None] | None = None, *, remote: bool = False
) -> list[Violation]:
    """Run every check on an open store; return what was found. Reads everything that is here.

    With ``remote``, of a replica also what only its space has, which is fetched.
    """
    packs = store.files.packs
    with nullcontext() if remote or packs.remote is None else packs.remote.only_kept():
        findings = _fsck(store, progress)
    if remote and store.replica is not None:
        try:
            findings += [fault("archive", line) for line in Archive(store.replica.connected()[0]).problems()]
        except Unreachable as error:
            findings.append(fault("archive", str(error)))
    return findings


def _fsck(store: Store, progress: Callable[[str], None] | None) -> list[Violation]:
    with suppress(StoreFull):
        # else what waits for room is looked at where it waits
        store.checkpointer.quiesce()
    findings: list[Violation] = []
    looked = Looked(store)
    for check in CHECKS:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        if progress:
            progress(name)
        try:
            findings += check(looked)
        except Away:
            # it needs what is not here
            continue
        except ConvfsError as error:
            findings.append(fault(name, str(error)))
    return findings


def check_turns(looked: Looked) -> Iterator[Violation]:
    """Ids are those of the places; a parent is 0 or an earlier turn; a depth is the parent's and one.

    Of a turn that was reclaimed, nothing but its place need be there.
    """
    store = looked.store
    gone = looked.reclaimed
    if store.files.turns.damage:
        yield fault("turns", str(store.files.turns.damage))
    depths = array("I")
    for turn_id, turn in store.files.turns.scan():
        if turn_id in gone:
            depths.append(_UNKNOWN)
            if not isinstance(turn, Turn):
                yield Violation("turns", "warning", f"{turn}, but nothing leads to it: convfs gc mends it")
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


def check_jumps(looked: Looked) -> Iterator[Violation]:
    """Jumps lead from turns to the ancestors that the turns have."""
    store = looked.store
    jumps = store.files.jumps
    for first in range(1, jumps.count + 1, _BATCH):
        for turn_id in jumps.wrong(first, min(_BATCH, jumps.count + 1 - first)):
            yield fault("jumps", f"turns.jump: the entry of turn {turn_id} is damaged: run convfs reindex")


def check_payloads(looked: Looked) -> Iterator[Violation]:
    """Every turn's payload resolves and has its hash."""
    store = looked.store
    turns = (turn for _turn_id, turn in store.files.turns.scan() if isinstance(turn, Turn) and not turn.reclaimed)
    while some := list(islice(turns, _BATCH)):
        looked.look([turn.payload_hash for turn in some])
        for turn in some:
            if error := looked.bad.get(turn.payload_hash):
                yield fault("payloads", f"turn {turn.turn_id}: {error}")


def check_packs(looked: Looked) -> Iterator[Violation]:
    """Every record's checksum holds, every blob has its hash, and what a blob is made of is there.

    Of records that only the space of a replica has, the checksums, if they are here or are to be fetched. What the
    space does not hold counts as missing: what it was made of may be gone before it.
    """
    store = looked.store
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
        looked.look(names)
        for digest in names:
            if (wrong := looked.bad.get(digest)) and hash_key(digest) not in store.intake.doomed:
                yield fault("packs", f"{where}: {wrong}")
    read: set[int] = set()
    while places := [place for place in store.files.index.remote_places() if place[0] not in read]:
        # whoever reads from a pack that was replaced files those that came again
        for _place, found in packs.read_many(places):
            if isinstance(found, ConvfsError) and not isinstance(found, Away | PackRemoved):
                yield fault("packs", str(found))
        read.update(pack for pack, _offset in places)


def check_deleted(looked: Looked) -> Iterator[Violation]:
    """The index calls those turns deleted that the log does."""
    store = looked.store
    db = store.files.index.db
    known = {turn for (turn,) in db.query("SELECT turn FROM views WHERE deleted != 0")}
    gone = {turn_id for turn_id, turn in store.files.turns.scan() if isinstance(turn, Turn) and turn.flags & DELETED}
    patched = db.query("SELECT turn FROM views WHERE turn >= ?", (TURNS_BEYOND,))
    gone |= {turn_id for (turn_id,) in patched if store.turns.get(turn_id).deleted}
    for turn in sorted(known - gone):
        yield fault("deleted", f"the index calls turn {turn} deleted: run convfs reindex")
    for turn in sorted(gone - known):
        if db.one("SELECT 1 FROM views WHERE turn = ?", (turn,)):
            yield fault("deleted", f"turn {turn} was deleted, and the index does not say so: run convfs reindex")


def check_references(looked: Looked) -> Iterator[Violation]:
    """The blobs that conversations keep beside their turns are there, and so are those that aliases stand for."""
    store = looked.store
    for conversation in (*store.catalogue.every(), *store.catalogue.layouts()):
        told, where = conversation.metadata, f"{conversation.project}/{conversation.name}"
        sidecars, copied, original = (_table(told.get(key)) for key in ("sidecars", "copied", "original"))
        own = {"envelope": told.get("envelope_blob"), "layout": told.get("layout"), "copied": copied.get("changes")}
        for name, digest in (sidecars | {name: one for name, one in own.items() if one} | original).items():
            if error := looked.wrong(digest):
                yield fault("references", f"{where}, {name}: {error}")
        for key, output in outputs_of(told).items():
            if error := looked.wrong(_table(output).get("blob")):
                # the tree may name a blob that never was here
                severity: Severity = "warning" if isinstance(error, NotFound) else "error"
                yield Violation("references", severity, f"{where}, {key}: {error}")
    for frame in frames(store):
        body = frame.body
        if isinstance(body, heads.Alias | heads.Dictionary) and (error := looked.wrong(body.hash)):
            if isinstance(body, heads.Dictionary):
                yield fault("references", f"the dictionary of small groups: {error}")
            else:
                yield Violation("references", "warning", f"{body.algorithm}:{body.digest.hex()}: {error}")


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def check_index(looked: Looked) -> Iterator[Violation]:
    """The index agrees with the logs and packs (where these are not damaged): a rebuilt one has the same rows."""
    store = looked.store
    for problem in store.files.index.db.problems():
        yield fault("index", f"index.db: {problem}: run convfs reindex")
    if store.files.index.db.held:
        yield Violation(
            "index", "warning", "index.db: changes wait for room on the disk: it is not compared with the logs"
        )
        return
    try:
        yield from _compare_index(store, store.files.aside.path(paths.FSCK_INDEX))
    except StoreFull:
        yield from _compare_index(store, store.files.aside.elsewhere(paths.FSCK_INDEX))


def _compare_index(store: Store, scratch: Path) -> Iterator[Violation]:
    remove_database(scratch)
    fresh = Index(scratch)
    try:
        if rebuild(fresh, store.files.heads, store.files.packs):
            # the index may know more than what is left of them
            return
        if fresh.db.held:
            raise StoreFull(f"{scratch}: its disk is full")
        query = fresh.db.query
        query("ATTACH DATABASE ? AS other", (str(store.files.index.db.path),))
        sides = (("only the index", "other", "main"), ("only what the logs say", "main", "other"))
        for table in (*DERIVED_FROM_LOGS, "blobs", "packs"):
            for place, mine, theirs in sides:
                # of what only a space has, neither says anything
                some = _HERE.get(table, "")
                for row in query(f"SELECT * FROM {mine}.{table} {some} EXCEPT SELECT * FROM {theirs}.{table}"):
                    yield fault("index", f"{table}: {place} has {row}: run convfs reindex")
    finally:
        fresh.close()
        remove_database(scratch)


def check_views(looked: Looked) -> Iterator[Violation]:
    """The filed sizes of events are those of their files."""
    store = looked.store
    damaged = False
    for table in DERIVED_FROM_RENDERER:
        for row in store.files.index.db.query(f"SELECT * FROM {table}"):
            if not numbered_holds(row):
                damaged = True
                yield fault("views", f"{table}: the row {row} is damaged: run convfs reindex")
    renderer = store.viewer.renderer
    if renderer is None or damaged:
        return
    seen: set[int] = set()
    for entry in store.catalogue.every():
        try:
            rows = store.views.rows(store.records.runs(entry.head), 1)
        except ConvfsError:
            # for others to say
            continue
        yield from _sums(store, entry, rows)
        new = [row for row in rows if row.turn not in seen]
        seen.update(row.turn for row in new)
        yield from _shown(store, entry, new, renderer)


def _sums(store: Store, entry: ContextEntry, rows: Sequence[EventRow]) -> Iterator[Violation]:
    known = store.views.measures([entry.id]).get(entry.id)
    if known is None or known.head != entry.head or len(rows) < entry.records:
        return
    if known != Measure(0).at(entry.head, rows):
        yield fault("views", f"{entry.project}/{entry.name}: its sums are not those of its events: run convfs reindex")


def _shown(store: Store, entry: ContextEntry, rows: Sequence[EventRow], renderer: Renderer) -> Iterator[Violation]:
    """Compare the filed rows of records with the records as shown. Unreadable records are reported by other checks."""
    try:
        for row, event in store.viewer.events(rows):
            turn = store.turns.get(row.turn)
            size = store.blobs.size(turn.payload_hash)
            shown = filed = (row.file_size, row.section_size, row.json_size)
            if isinstance(event, Event) and not row.deleted and size == row.payload_size:
                sizes = renderer.measure(row.number, event, store.viewer.format_name(turn.type_tag), size)
                shown = (sizes.file, sizes.section, sizes.json)
            if size != row.payload_size or shown != filed:
                where = f"{entry.project}/{entry.name}, event {row.number} (turn {row.turn})"
                yield fault("views", f"{where}: what was measured of it is not what its file shows: run convfs reindex")
    except ConvfsError:
        return


CHECKS: tuple[Callable[[Looked], Iterator[Violation]], ...] = (
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


def reindex(root: Path, renderer: Renderer, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Delete the index of the store at ``root`` and make it again, every conversation measured.

    Returns what was found damaged, a line each; ``progress`` is told how many conversations of how many are done.
    Raises NotFound, and StoreBusy while another process has the store open.
    """
    with Store.open(root, renderer=renderer, create=False, reindex=True) as store:
        entries = store.catalogue.every()
        for done, entry in enumerate(entries, 1):
            store.library.measure(entry)
            if progress:
                progress(done, len(entries))
        return store.recovered
