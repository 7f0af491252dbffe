"""Rebuild: a new index from the logs and the packs, with rows of the old index that the log has lost.

The index follows from the log, but not from the remains of a log that was damaged since. So an index is never thrown
away: it is set aside while another is made. If the log is damaged, the two are compared. Rows that can be proved (the
turn that a conversation ends with is there, as deep as was filed; a row has its checksum) become frames at the end of
the log. The others are listed, and then the old index is kept as ``index.kept-1`` and so on. A replica tells its log
nothing, as its space has what was lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

import store.disk.head_format as heads
from store import paths
from store.content.compression import Member
from store.content.sealed import SealedGroup, names_of
from store.disk import durable
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_format import HeadFrame
from store.disk.head_log import HeadLog
from store.disk.pack import PackSet
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError
from store.ids import Hash, hash_key, patch_of, turn_of, type_tag
from store.index.beside import remove_database
from store.index.database import Row, held_if_full, holds
from store.index.fresh import BlobPlace
from store.index.index import Index
from store.index.origins import origin

RECOVERED = "recover"
"""The action of a version that a conversation is in again after it had been lost from the log."""

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_MOVED = ("-wal", "")
"""The parts of a database in the order in which they move: SQLite's log must never stand beside another database."""

_COMPARED = (
    "types",
    "contexts",
    "versions",
    "superseded",
    "pruned",
    "patches",
    "open_turns",
    "aliases",
    "dictionaries",
    "keys",
    "fs_roots",
)

Told = tuple[int, heads.Body]
"""The context that a frame is about, and what it says."""


def rebuild(index: Index, heads: HeadLog, packs: PackSet) -> list[str]:
    """Fill an empty index; return what was found damaged, a line each."""
    damage: list[str] = []
    index.apply(_frames(heads, 0, damage))
    file_packs(index, packs, damage)
    return damage


def missing_packs(index: Index, packs: PackSet) -> list[str]:
    """Return a line for each pack that is filed but missing. Its blobs stay filed: the file may come back."""
    there = packs.numbers()
    return [
        f"{packs.path(number)} is missing, and what it held cannot be read: restore it from a backup"
        for number in index.packs()
        if number not in there and number < paths.REMOTE
    ]


def file_packs(index: Index, packs: PackSet, damage: list[str]) -> None:
    """File the blobs of all packs that are there. Packs that the index already knows are not read again."""
    filed, there = index.packs(), packs.numbers()
    for number in there:
        known, length = filed.get(number, HEADER_SIZE), packs.length(number)
        if known < length:
            # what opening reports of a header is said where the pack is read from there
            start = (number, known) if known > HEADER_SIZE else None
            places = [(hash_key(name), *place) for name, place in blob_places(packs, [number], damage, start)]
            # if it is held for want of room, the next opening reads it again
            held_if_full(index.add_blobs)(places, {number: length}, hold=True)


@held_if_full
def catch_up(index: Index, heads: HeadLog) -> None:
    """Apply the frames that the index has not seen."""
    index.apply(_frames(heads, index.seq, []))


def _frames(heads: HeadLog, after: int, damage: list[str]) -> Iterator[HeadFrame]:
    for found in heads.frames():
        if isinstance(found, Damage):
            damage.append(f"heads.log, offset {found.offset}: {found.reason}")
        elif found.seq > after:
            yield found


def blob_places(
    packs: PackSet, numbers: Sequence[int], damage: list[str], start: tuple[int, int] | None = None
) -> Iterator[tuple[Hash, BlobPlace]]:
    """Yield every blob in some packs, from ``start`` on, and where it lies."""
    for pack, offset, found in packs.scan(start, numbers):
        if isinstance(found, Damage):
            damage.append(f"{packs.path(pack).name}, offset {found.offset}: {found.reason}")
            yield from ((member.hash, (pack, offset, number)) for number, member in readable(packs, pack, offset))
            continue
        try:
            names = names_of(found)
        except DamageError as error:
            damage.append(f"{packs.path(pack).name}, offset {offset}: {error}")
            continue
        for member, name in enumerate(names):
            yield name, (pack, offset, member)


def readable(packs: PackSet, pack: int, offset: int) -> Iterator[tuple[int, Member]]:
    """Yield what can be read of a damaged record, by its members' numbers: of a sealed group, and of nothing else."""
    with suppress(ConvfsError):
        record = packs.read(pack, offset, damaged=True)
        if record.sealed:
            yield from SealedGroup(record).readable()


# -- the old index ---------------------------------------------------------------------------------------------------


def set_aside(root: Path) -> None:
    """Make the index the old index. If there is an old one already, that stays: it was not compared yet."""
    if not (root / paths.INDEX).exists():
        return
    if (root / paths.OLD_INDEX).exists():
        remove_database(root / paths.INDEX)
        return
    _move(root, paths.OLD_INDEX, paths.INDEX)


def forget_old(root: Path, *, keep: bool) -> str:
    """Delete the old index, or ``keep`` it under a name that nothing else has; return that name."""
    if not keep:
        remove_database(root / paths.OLD_INDEX)
        return ""
    number = 1
    while (root / f"{paths.KEPT_INDEX}{number}").exists():
        number += 1
    kept = f"{paths.KEPT_INDEX}{number}"
    _move(root, kept, paths.OLD_INDEX)
    durable.sync_directory(root)
    return kept


def _move(root: Path, new: str, old: str) -> None:
    for part in _MOVED:
        if (root / f"{old}{part}").exists():
            (root / f"{old}{part}").replace(root / f"{new}{part}")
    (root / f"{old}-shm").unlink(missing_ok=True)


class Lost(Struct):
    """Knowledge of the old index that the log does not have: ``told`` is to be written to the log again.

    ``lines`` says it, and what cannot be proved; ``unproved`` whether there is anything of the latter.
    """

    told: Sequence[Told]
    lines: list[str]
    unproved: bool


def lost_from_log(root: Path, new: Index, log: HeadLog, turns: TurnLog, seq: int) -> Lost:
    """Compare the old index with ``new``, which was made of the log, whose last frame is ``seq``."""
    try:
        old = Index(root / paths.OLD_INDEX)
    except DamageError as error:
        return _silent(error)
    try:
        compared = _Comparison(old, new, log, turns, seq)
        told = compared.run()
    except ConvfsError as error:
        return _silent(error)
    finally:
        old.close()
    return Lost(told, compared.lines, compared.lost > 0)


def _silent(error: ConvfsError) -> Lost:
    return Lost((), [f"what the log has lost, the old index cannot say: {error}"], unproved=True)


class _Comparison:
    """Compares two indexes of one store. ``lines`` lists the differences, ``lost`` counts the unprovable ones."""

    def __init__(self, old: Index, new: Index, log: HeadLog, turns: TurnLog, seq: int) -> None:
        self.lines: list[str] = []
        self.lost = 0
        self._turns = turns
        self._old = old
        self._new = new
        self._told: list[Told] = []
        for table in _COMPARED:
            columns = f"PRAGMA table_info({table})"
            if old.db.query(columns) != new.db.query(columns):
                raise DamageError(f"it is of another version, with another table {table}, and was not compared")
        # only one of this version can be brought up to the log
        self._exact = old.db.trusted and (old.db.current or old.seq >= seq)
        """True if the old index has everything that was filed; otherwise any row may be out of date."""
        if self._exact and old.seq < seq:
            after = old.seq
            old.apply(frame for frame in log.frames() if isinstance(frame, HeadFrame) and frame.seq > after)

    def run(self) -> list[Told]:
        self._types()
        self._names()
        contexts = {row[0]: row for row in self._rows(self._new, "contexts")}
        gone = {row[1]: row[2] for row in self._sound(self._new, "pruned") if row[0] == origin("")}
        known = set()
        for row in self._rows(self._old, "contexts"):
            known.add(row[0])
            if row[0] not in gone:
                self._context(row, contexts.get(row[0]))
        if self._exact:
            self._deleted(contexts.keys() - known)
        self._notes(gone)
        for table, what in (("patches", "patch {0} of turn {1}"), ("open_turns", "the open turn {0}")):
            missing = {row[:2] for row in self._sound(self._old, table)} - {
                row[:2] for row in self._sound(self._new, table)
            }
            for row in sorted(missing):
                self._cannot(what.format(*row))
        for found_by, context, _time in self._missing("pruned"):
            if found_by != origin(""):
                self._cannot(f"that what context {context} was imported from is not to be imported again")
        return self._told

    @staticmethod
    def _rows(index: Index, table: str) -> list[Row]:
        return index.db.query(f"SELECT * FROM {table} ORDER BY 1, 2")

    def _sound(self, index: Index, table: str) -> Iterator[Row]:
        """Yield the rows of a table whose checksums hold, without these."""
        for row in self._rows(index, table):
            if holds(row):
                yield row[:-1]
            elif index is self._old:
                self._cannot(f"a row of {table} that is damaged")

    def _of(self, index: Index, table: str, context: int) -> list[Row]:
        rows = index.db.query(f"SELECT * FROM {table} WHERE context = ? ORDER BY 1, 2", (context,))
        return [row[:-1] for row in rows if holds(row)]

    def _cannot(self, what: str) -> None:
        self.lost += 1
        self.lines.append(f"only the old index knows, and it cannot be proved: {what}")

    def _again(self, what: str, told: Sequence[Told]) -> None:
        if told:
            self._told += told
            self.lines.append(f"the log had lost, and has again: {what}")

    def _context(self, row: Row, new: Row | None) -> None:
        context, head, records, updated, imported = row[:5]
        described = (context, *row[6:17])
        name = f"{row[7]}/{row[8]}" if row[8] else f"context {context}"
        if not holds((*described, row[17])):
            self._cannot(f"what is said of context {context}")
            return
        if not holds(row[:6]):
            self._cannot(f"what {name} ends with")
            return
        if new is None:
            told: list[Told] = [(context, heads.ContextCreated(0, row[6], 0))]
            if row[16] != "{}":
                told.append((context, heads.Metadata(row[15], row[16].encode())))
            self._again(name, told + self._history(name, context, head, records, updated, imported, 0, 0))
            return
        if not self._exact:
            if new[1] != head or new[16] != row[16]:
                self._cannot(f"whether {name} is what it was")
            return
        told = []
        before, after = msgspec.json.decode(new[16]), msgspec.json.decode(row[16])
        changes = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
        if changes:
            told.append((context, heads.Metadata(row[15], msgspec.json.encode(changes, order="sorted"))))
        told += self._history(name, context, head, records, updated, imported, new[1], new[4])
        self._again(name, told)

    def _history(
        self, name: str, context: int, head: int, records: int, updated: int, imported: int, at: int, imported_at: int
    ) -> list[Told]:
        """Return the moves of a head that the log does not have; it is at the tip ``at`` by the log."""
        told: list[Told] = []
        known = {(row[3], row[4]) for row in self._of(self._new, "versions", context)}
        there = {row[2:] for row in self._of(self._new, "superseded", context)}
        replaced: dict[int, list[tuple[int, int, int]]] = {}
        for _context, seq, *turns in self._of(self._old, "superseded", context):
            if tuple(turns) not in there:
                replaced.setdefault(seq, []).append((turns[0], turns[1], turns[2]))
        versions = {row[1]: row for row in self._of(self._old, "versions", context)}
        moved = False
        for seq in sorted({*versions, *replaced}):
            if seq in versions and versions[seq][3:5] not in known:
                _context, _seq, time_ms, tip, length, action = versions[seq]
                if not self._leads(tip, length):
                    self._cannot(f"a version of {name}, which ends with turn {turn_of(tip)}")
                    continue
                told.append((context, heads.HeadMoved(tip, max(length - 1, 0), time_ms, action)))
                moved, at = True, tip
                imported_at = turn_of(tip) if action == "import" else imported_at
            if seq in replaced:
                told.append((context, heads.Superseded(tuple(replaced[seq]))))
        if not self._leads(head, records):
            self._cannot(f"what {name} ends with, turn {turn_of(head)}")
            return told
        if imported and imported != imported_at and (depth := self._depth(imported)) is not None:
            told.append((context, heads.HeadMoved(imported, depth, updated, "import")))
            moved, at = True, imported
        if head and (moved or at != head):
            # where nothing but appends is lost, they are part of the version that the log has
            action = "append" if at == head or not moved else RECOVERED
            told.append((context, heads.HeadMoved(head, records - 1, updated, action)))
        return told

    def _depth(self, turn_id: int) -> int | None:
        """Return how deep a turn is, None if its record is not there."""
        try:
            turn = self._turns.get(turn_id)
        except ConvfsError:
            return None
        return None if turn.reclaimed else turn.depth

    def _leads(self, tip: int, records: int) -> bool:
        """Return whether a tip leads to ``records`` turns, and to a patch that the log has."""
        if not turn_of(tip):
            return records == 0
        if number := patch_of(tip):
            row = self._new.db.one("SELECT 1 FROM patches WHERE number = ? AND turn != 0", (number,))
            if row is None:
                return False
        return self._depth(turn_of(tip)) == records - 1

    def _deleted(self, contexts: set[int]) -> None:
        times = {row[1]: row[2] for row in self._sound(self._old, "pruned") if row[0] == origin("")}
        for context in sorted(contexts):
            if context in times:
                self._again(f"context {context} was deleted", [(context, heads.Deleted(times[context]))])
            else:
                self._cannot(f"that there is no context {context}")

    def _missing(self, table: str) -> list[Row]:
        there = set(self._sound(self._new, table))
        return [row for row in self._sound(self._old, table) if row not in there]

    def _types(self) -> None:
        there = set(self._rows(self._new, "types"))
        for tag, version, name in self._rows(self._old, "types"):
            if (tag, version, name) in there:
                continue
            if type_tag(name) == tag & _MASK:
                self._again(f"the type {name}", [(0, heads.TypeRegistered(tag & _MASK, version, name))])
            else:
                self._cannot("the name of a type")

    def _names(self) -> None:
        named: list[Told] = [
            (0, heads.Alias(Hash(target), algorithm, digest))
            for algorithm, digest, target in self._missing("aliases")
            if self._is_there(target)
        ]
        self._again(f"{len(named)} other names of contents", named)
        there = set(self._rows(self._new, "dictionaries"))
        for tag, target in self._rows(self._old, "dictionaries"):
            if (tag, target) not in there and self._is_there(target):
                self._again("a dictionary", [(0, heads.Dictionary(tag & _MASK, Hash(target)))])

    def _is_there(self, digest: bytes) -> bool:
        if self._new.locate([Hash(digest)]):
            return True
        self._cannot(f"content {digest.hex()}")
        return False

    def _notes(self, gone: Mapping[int, int]) -> None:
        notes: list[Told] = []
        for context, key, turn, time_ms in self._missing("keys"):
            if self._depth(turn) is not None and context not in gone:
                notes.append((context, heads.AppendNoted(turn, time_ms, key)))
        for turn, root in self._missing("fs_roots"):
            if self._depth(turn) is not None:
                notes.append((0, heads.FsRoot(turn, Hash(root))))
        self._again(f"{len(notes)} notes of turns", notes)
