"""A tool's own file put together again from the records of conversations, as people have edited them."""

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path, PurePath
from typing import TypeVar

import msgspec
from blake3 import blake3
from msgspec import Struct

from store.conversations import branch
from store.disk import durable
from store.disk.files import temporary_folder
from store.errors import ConvfsError, UsageError
from store.events.conversation import Conversation
from store.filenames import inside
from store.formats.core.format import Format
from store.formats.core.json_view import as_object, as_text, decode
from store.formats.core.splices import new_key, spell
from store.formats.registry import format_named
from store.importing.envelope import Gaps, Layout, Share, families
from store.importing.likeness import Copied, Spelling
from store.importing.provenance import ImportedFile, Rewritten, SessionFiles, named_hash, read_as
from store.importing.snapshot import path_text, text_path
from store.index.catalogue import ContextEntry
from store.store import Store

_RECORDS_AT_ONCE = 256
_BYTES_AT_ONCE = 8 << 20

_Item = TypeVar("_Item")


def batches(items: Iterable[_Item], size_of: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Yield items, of ``size_of`` bytes each, in lists of what is read in one pass; a large one stands alone."""
    batch: list[_Item] = []
    room = _BYTES_AT_ONCE
    for item in items:
        size = size_of(item)
        if batch and (len(batch) == _RECORDS_AT_ONCE or size > room):
            yield batch
            batch, room = [], _BYTES_AT_ONCE
        batch.append(item)
        room -= size
    if batch:
        yield batch


def stored_records(store: Store, turns: Iterable[int]) -> Iterator[Iterable[bytes]]:
    """Yield the payloads of turns, each in pieces; many small ones are read in one pass. Raises the error of one."""

    def size_of(turn: int) -> int:
        return store.blobs.size(store.turns.get(turn).payload_hash)

    for some in batches(turns, size_of):
        if size_of(some[0]) > _BYTES_AT_ONCE:
            yield store.blobs.pieces(store.turns.get(some[0]).payload_hash)
            continue
        for _turn, payload in store.contents.payloads(some):
            if isinstance(payload, ConvfsError):
                raise payload
            yield (payload,)


def main_as_imported(store: Store, kept: SessionFiles, head: int) -> Iterator[bytes]:
    """Yield the main file of a session as it was when imports had reached ``head``."""
    turns = [turn for start, count in store.records.runs(head) for turn in range(start, start + count)]
    spelling = Spelling(store, kept.copied)
    numbers, turns = spelling.in_file(turns[len(kept.first) :])
    yield from kept.read_envelope(store).join(spelling.spell(numbers, stored_records(store, turns)))


class _Row(Struct, gc=False):
    """A record of the main file: its number there from 1, its position from 0; an added one has neither of them."""

    turn: int
    number: int | None
    position: int | None
    deleted: bool


class Edited:
    """The main file of a session whose conversation has been edited since it was imported up to the turn ``imported``.

    ``kept`` are the session's files as they were then. ``outside``: records of images and the like are written as
    their tool writes them, with their content kept elsewhere.
    """

    def __init__(
        self,
        store: Store,
        conversation: Conversation | ContextEntry,
        imported: int,
        kept: SessionFiles,
        *,
        outside: bool = True,
    ) -> None:
        first, copied = len(kept.first), kept.copied
        self._store = store
        self._envelope = kept.read_envelope(store)
        self._format: Format = format_named(conversation.format)
        self.first: list[tuple[int, int]] = []
        """Remaining records that are files of their own: (position among these files, turn)."""
        self._rows: list[_Row] = []
        """The other records, deleted ones included, in the order of the main file."""
        self.outside: dict[str, bytes] = {}
        """The contents of edited and added records that the tool keeps in other files, by name."""
        self._moved: dict[int, bytes] = {}
        runs = store.records.runs(conversation.head)
        places = store.library.lineage.places(conversation.id, store.records.runs(imported), runs)
        numbers = {now + step: was + step for was, now, count in places for step in range(count)}
        number = 0
        for run in runs:
            for turn in store.turns.range(*run):
                number += 1
                was = numbers.get(number, 0)
                if was > first or not was:
                    stood = was - first if was else None
                    self._rows.append(_Row(turn.turn_id, stood, stood - 1 if stood else None, turn.deleted))
                elif not turn.deleted:
                    self.first.append((was - 1, turn.turn_id))
        self.added: list[int] = []
        """Records that become files of their own, by turn."""
        self.each_a_file = self._format.file_names(kept.main, ()) is not None
        """True if all others are, too."""
        if self.each_a_file:
            self.added = [row.turn for row in self._rows if row.number is None and not row.deleted]
            self._rows = [row for row in self._rows if row.number is not None]
        self._spelling = Spelling(store, copied)
        if copied is not None:
            self._arrange(copied)
        else:
            self._put_in_lists()
        self.deleted = any(row.deleted for row in self._rows)
        """True if records of the main file were deleted."""
        self.left = [row.turn for row in self._rows if not row.deleted]
        """Those that were not, by turn."""
        if outside and type(self._format).moved_outside is not Format.moved_outside:
            self._move_outside(store, imported)

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file. Raises the error of a record that cannot be read."""
        there = (row.position for row in self._rows)
        records = self._without() if self.deleted else zip(there, self._records(), strict=True)
        yield from self._envelope.rejoin(records, self._format.joints, self._count)

    def gaps(self) -> Iterator[bytes]:
        """Yield the bytes before each record, if none was deleted, and after the last one."""
        return self._envelope.rejoin(((row.position, ()) for row in self._rows), self._format.joints, self._count)

    def _records(self) -> Iterator[Iterable[bytes]]:
        stored = stored_records(self._store, (row.turn for row in self._rows))
        records = self._spelling.spell((row.number for row in self._rows), stored)
        for row, pieces in zip(self._rows, records, strict=True):
            yield (self._moved[row.turn],) if row.turn in self._moved else pieces

    def _put_in_lists(self) -> None:
        """Move added records that follow one which is in no list behind the last one that is in a list."""
        if all(row.number for row in self._rows) or not self._envelope.gaps:
            return
        gaps = Gaps(self._envelope, self._format.joints[1], self._count)
        rows: list[_Row] = []
        place = 0
        for row in self._rows:
            if row.position is not None or not gaps.in_lists or not place:
                rows.append(row)
                place = len(rows) if row.position is None or gaps.listed(row.position) else place
            else:
                rows.insert(place, row)
                place += 1
        self._rows = rows

    def _arrange(self, copied: Copied) -> None:
        placed: list[tuple[int, _Row]] = []
        last = copied.first - 1
        for row in self._rows:
            row.position = copied.position(row.number) if row.number else None
            if row.number and row.position is None:
                continue
            if row.position is not None:
                # what follows those that stand first follows what stands behind these, too
                last = copied.reach - 1 if row.position < copied.first else row.position
            placed.append((last if row.position is None else row.position, row))
        self._rows = [row for _place, row in sorted(placed, key=itemgetter(0))]

    def _move_outside(self, store: Store, imported: int) -> None:
        was = {turn.payload_hash for run in store.records.runs(imported) for turn in store.turns.range(*run)}
        turns = [row.turn for row in self._rows]
        fresh = [turn for turn in turns if store.turns.get(turn).payload_hash not in was]
        beginning = b"".join(next(stored_records(store, turns[:1]), ()))
        for turn, pieces in zip(fresh, stored_records(store, fresh), strict=True):
            record = b"".join(pieces)
            written, outside = self._format.moved_outside(record, beginning)
            if written != record:
                self._moved[turn] = written
                self.outside.update(outside)

    def _without(self) -> Iterator[tuple[int | None, Iterable[bytes]]]:
        payloads = [b"".join(pieces) for pieces in self._records()]
        for at, record in _left(self._format, payloads, {at for at, row in enumerate(self._rows) if row.deleted}):
            yield self._rows[at].position, (record,)

    @property
    def _count(self) -> int:
        """The number of records that the main file had."""
        return max((row.position + 1 for row in self._rows if row.position is not None), default=0)


def _left(format_: Format, payloads: Sequence[bytes], deleted: set[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the records that are left, each with its old position; a changed one has that of the one most like it."""
    kept = [at for at in range(len(payloads)) if at not in deleted]
    left = format_.without(payloads, deleted) if kept else ()
    at = 0
    for number, record in enumerate(left):
        if len(left) < len(kept):
            there = range(at, len(kept) - (len(left) - number) + 1)
            same = (one for one in there if payloads[kept[one]] == record)
            at = next(same, -1)
            if at < 0:
                at = max(there, key=lambda one: _alike(payloads[kept[one]], record))
        yield kept[min(at, len(kept) - 1)], record
        at += 1


def _alike(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])


_READ_AT_ONCE = 1 << 20


class Claim(Struct, frozen=True):
    """A record of the file as a conversation has it: the turn that it now is, and whether it was deleted."""

    turn: int
    deleted: bool = False


class Standing(Struct, frozen=True):
    """The claims of a conversation on a file: on the records that it has, or had, by position in the file.

    ``added`` are the turns that did not come in the file, in order, each with the position that it follows (None:
    it stands before everything that the conversation had).
    """

    claims: dict[int, Claim]
    added: Sequence[tuple[int | None, int]] = ()


def as_imported(store: Store, layout: Layout, place: Share) -> Standing:
    """Return the standing of a conversation that nobody has edited."""
    turns = (turn for first, count in store.records.runs(place.tip) for turn in range(first, first + count))
    return Standing({position: Claim(turn) for position, turn in zip(_positions(layout, place), turns, strict=True)})


def as_it_is(store: Store, layout: Layout, place: Share, entry: ContextEntry) -> Standing:
    """Return the standing of the conversation of ``place``, or of a fork of it: ``entry``."""
    stood = _positions(layout, place)
    then = store.records.runs(place.tip)
    numbers = _numbers(store, place, entry)
    claims: dict[int, Claim] = {}
    added: list[tuple[int | None, int]] = []
    last: int | None = None
    number = 0
    for run in store.records.runs(entry.head):
        for turn in store.turns.range(*run):
            number += 1
            was = numbers.get(number)
            if was is not None:
                last = stood[was - 1]
                claims[last] = Claim(turn.turn_id, turn.deleted)
            elif not turn.deleted:
                added.append((last, turn.turn_id))
    for was, position in enumerate(stood, 1):
        if position not in claims:
            # taken out
            claims[position] = Claim(branch.position(then, was), deleted=True)
    return Standing(claims, added)


def _positions(layout: Layout, place: Share) -> list[int]:
    above: list[int] = []
    if place.base >= 0:
        above = _positions(layout, layout.places[place.base])[: place.shared]
    return [*above, *place.positions()]


def _numbers(store: Store, place: Share, entry: ContextEntry) -> dict[int, int]:
    """Return the numbers of records when the file was imported, by their present ones; later records are left out."""
    numbers: dict[int, int] | None = None
    then, context = store.records.runs(place.tip), place.context
    for fork in _forks(store, place.context, entry):
        at = store.records.runs(fork.imported_head)
        places = store.library.lineage.places_then(context, then, at)
        numbers = _through(numbers, {now: was for was, now in places.items()})
        then, context = at, fork.id
    here = store.library.lineage.places(context, then, store.records.runs(entry.head))
    return _through(numbers, {now + step: was + step for was, now, count in here for step in range(count)})


def _forks(store: Store, context: int, entry: ContextEntry) -> list[ContextEntry]:
    found: list[ContextEntry] = []
    while entry.id != context:
        found.insert(0, entry)
        parent = entry.metadata.get("forked_from")
        above = parent.get("context") if isinstance(parent, dict) else None
        if not isinstance(above, int) or above == context:
            break
        entry = store.catalogue.entry(above)
    return found


def _through(first: dict[int, int] | None, second: dict[int, int]) -> dict[int, int]:
    if first is None:
        return second
    return {now: first[between] for now, between in second.items() if between in first}


class _Record(Struct):
    """A record to write at ``position``, or ``added`` behind it (negative: before it), with its ``payload`` if new."""

    position: int
    added: bool
    turn: int
    payload: bytes | None = None


class Assembly:
    """The bytes of the file of the context ``file``.

    Each record is taken from one conversation: the first of ``chosen`` that has it, else its owner. A conversation
    that has since come in another file is as it was in this one; one that is in the trash or deleted is left out. A
    fork of a conversation among ``chosen`` takes its place. If that is None, all are as they were in the file.
    """

    def __init__(self, store: Store, file: ContextEntry, layout: Layout, chosen: Sequence[ContextEntry] | None) -> None:
        self._store = store
        self._file = file
        self._format = format_named(file.format)
        self._layout = layout
        self._as_imported = chosen is None
        self._chosen = chosen = chosen or ()
        self._ranks = {entry.metadata.get("part"): rank for rank, entry in reversed(list(enumerate(chosen)))}
        self._ids = {entry.id for entry in chosen}
        self._keyed = self._format.keyed
        self._gaps = Gaps(layout.envelope, self._format.joints[1], layout.count, keyed=bool(self._keyed))
        self._records: list[_Record | None] = [None] * layout.count
        self._renamed: dict[int, list[tuple[re.Pattern[bytes], bytes]]] = {}
        """The names of last records in the gap before a position: the old bytes as a pattern, and the new ones."""
        self._added: dict[int, list[_Record]] = {}
        """Records inserted behind the one at a position; those before all others of a conversation, at its negative."""
        self.edited = False
        """True if anything in the file differs from what was imported."""
        for family in families(place.base for place in layout.places):
            self._resolve([layout.places[at] for at in family])

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file. Raises the error of a record that cannot be read."""
        gaps = self._gaps
        there = (here for position, record in enumerate(self._records) for here in self._at(position, record))
        stored = stored_records(self._store, (record.turn for record in there if record.payload is None))
        for position, record in enumerate(self._records):
            some = self._at(position, record)
            yield self._mended(position, (gaps.opening if some else gaps.instead)(position))
            for here in some:
                yield gaps.before(position)
                yield from self._with_key(here, stored)
        yield self._mended(len(self._records), gaps.suffix)

    def _with_key(self, record: _Record, stored: Iterator[Iterable[bytes]]) -> Iterator[bytes]:
        content = next(stored) if record.payload is None else (record.payload,)
        if self._keyed and (record.payload is not None or record.added):
            # what is written here need not be what stood here
            payload = b"".join(content)
            try:
                yield new_key(payload, self._keyed)
            except UsageError:
                # damaged as it may be, it has the key that it had
                if record.added:
                    raise
                yield self._gaps.key(record.position)
            yield payload
            return
        if self._keyed:
            yield self._gaps.key(record.position)
        yield from content

    def _at(self, position: int, record: _Record | None) -> list[_Record]:
        """Return what to write where ``record`` is, or is left out: with those that were added beside it."""
        own = [] if record is None else [record]
        return [*self._added.get(~position, ()), *own, *self._added.get(position, ())]

    def _resolve(self, places: Sequence[Share]) -> None:
        store, layout = self._store, self._layout
        there = [store.contexts.exists(place.context) for place in places]
        entries = [self._entry(place) for place in places]
        if all(there) and all(entry is None for entry in entries):
            for place in places:
                standing = as_imported(store, layout, place)
                for position in place.positions():
                    self._records[position] = _Record(position, False, standing.claims[position].turn)
            return
        self.edited = True
        imported = [
            as_imported(store, layout, place) if is_there else Standing({})
            for place, is_there in zip(places, there, strict=True)
        ]
        standings = [
            was if entry is None else Standing({}) if self._is_gone(entry) else as_it_is(store, layout, place, entry)
            for place, entry, was in zip(places, entries, imported, strict=True)
        ]
        ranked = sorted(range(len(places)), key=lambda at: self._rank(places[at]))
        chosen = [at for at in ranked if self._rank(places[at]) < len(self._chosen)]
        sequence: list[_Record] = []
        deleted: set[int] = set()
        added = self._put_in(places, standings)
        for owner, place in enumerate(places):
            for position in place.positions():
                sequence += added.get(~position, ())
                said = (standings[at].claims.get(position) for at in (*chosen, owner, *ranked))
                claim = next((claim for claim in said if claim is not None), None)
                was = claim or imported[owner].claims.get(position)
                # records of a deleted conversation that no other one has are unknown
                if was is not None and (there[owner] or not was.deleted):
                    if claim is None or claim.deleted:
                        deleted.add(len(sequence))
                    sequence.append(_Record(position, False, was.turn))
                sequence += added.get(position, ())
        if deleted or added:
            turns = [record.turn for record in sequence] if len(deleted) < len(sequence) else []
            payloads = [b"".join(pieces) for pieces in stored_records(self._store, turns)]
            left = _left(self._format, payloads, deleted)
            sequence = [msgspec.structs.replace(sequence[at], payload=payload) for at, payload in left]
            self._follow(places, entries[0], sequence)
        for record in sequence:
            if record.added:
                self._added.setdefault(record.position, []).append(record)
            else:
                self._records[record.position] = record

    def _follow(self, places: Sequence[Share], main: ContextEntry | None, left: Sequence[_Record]) -> None:
        """Make the conversation that others branch off name, in a gap, the last of its records that are ``left``."""
        stood = [position for place in places for position in place.positions()]
        member, tip = self._format.leaf[0], places[0].tip
        if not member or main is None or self._is_gone(main) or not stood:
            return
        names = {self._named(record.payload) for record in left if record.payload is not None} - {""}
        was = self._named(self._store.contents.payload(tip)) if tip else ""
        now = next((name for name in self._backwards(main) if name in names), "")
        if was and now and was != now:
            said = re.compile(rb'("%b"\s*+:\s*+)%b' % (re.escape(member.encode()), re.escape(spell(was, b""))))
            for gap in (min(stood), max(stood) + 1):
                self._renamed.setdefault(gap, []).append((said, spell(now, b"")))

    def _mended(self, position: int, gap: bytes) -> bytes:
        for said, name in self._renamed.get(position, ()):
            if found := said.search(gap):
                gap = gap[: found.end(1)] + name + gap[found.end() :]
        return gap

    def _backwards(self, entry: ContextEntry) -> Iterator[str]:
        runs = self._store.records.runs(entry.head)
        for number in range(branch.length(runs), 0, -1):
            turn = self._store.turns.get(branch.position(runs, number))
            if not turn.deleted:
                yield self._named(self._store.blobs.blob(turn.payload_hash))

    def _named(self, payload: bytes) -> str:
        decoded = decode(payload)
        return as_text(as_object(decoded.value).get(self._format.leaf[1])) if decoded else ""

    def _put_in(self, places: Sequence[Share], standings: Sequence[Standing]) -> dict[int, list[_Record]]:
        found: dict[int, list[_Record]] = {}
        for place, standing in zip(places, standings, strict=True):
            stood = list(standing.claims)
            own = list(place.positions())
            for after, turn in standing.added:
                if not stood:
                    raise UsageError(f"{place.key} has no records in the file that others could follow")
                if own and after == own[-1]:
                    # at the end of a conversation: behind all its records in the file, in any order
                    after = max(own)
                at = ~min(own, default=stood[0]) if after is None else self._listed(own, after)
                found.setdefault(at, []).append(_Record(at, True, turn))
        return found

    def _listed(self, own: list[int], after: int) -> int:
        """Return the last of a conversation's own records up to ``after`` that is in a list, else ``after``."""
        if not self._gaps.in_lists or after not in own:
            return after
        for position in reversed(own[: own.index(after) + 1]):
            if self._gaps.separates(position) or (
                position + 1 < len(self._records) and self._gaps.separates(position + 1)
            ):
                return position
        return after

    def _entry(self, place: Share) -> ContextEntry | None:
        """Return a conversation's present state; None if it is as in the file, came in another one, or is gone."""
        if self._as_imported:
            return None
        rank = self._rank(place)
        if rank < len(self._chosen):
            entry = self._chosen[rank]
        elif self._store.contexts.exists(place.context):
            entry = self._store.catalogue.entry(place.context)
        else:
            return None
        if entry.metadata.get("file") != self._file.id:
            return None
        return None if entry.head == place.tip and not self._is_gone(entry) else entry

    def _is_gone(self, entry: ContextEntry) -> bool:
        return "trashed_ms" in entry.metadata and entry.id not in self._ids

    def _rank(self, place: Share) -> int:
        """Return the rank of a conversation: chosen ones by their order, all others alike."""
        return self._ranks.get(place.key, len(self._chosen))


def restored(
    store: Store, format_: Format, main: str, original: Mapping[str, str], pieces: Iterable[bytes]
) -> Iterator[bytes]:
    """Yield the file ``main`` of ``original``, changed to say what the rendition ``pieces`` says.

    ``original`` are blobs, in hex, by name. Raises UsageError where the format cannot write it.
    """
    with _restored(store, format_, main, original, pieces) as path, path.open("rb") as file:
        while piece := file.read(_READ_AT_ONCE):
            yield piece


def restored_files(
    store: Store, format_: Format, main: str, original: Mapping[str, str], pieces: Iterable[bytes]
) -> dict[str, bytes]:
    """Return the files that change in a session's folder, by their names there, as :func:`restored` does.

    An empty one has gone.
    """
    with _restored(store, format_, main, original, pieces) as folder:
        paths = (Path(at, name) for at, _folders, names in os.walk(folder) for name in names)
        return {path_text(path.relative_to(folder)): path.read_bytes() for path in paths}


@contextmanager
def _restored(
    store: Store, format_: Format, main: str, original: Mapping[str, str], pieces: Iterable[bytes]
) -> Iterator[Path]:
    if main not in original:
        raise UsageError(f"{main} itself was not kept, only its conversations: import it with convfs import")
    with temporary_folder(store.files.aside.scratch) as folder:
        for beside, digest in original.items():
            _write(folder / inside(PurePath("original"), text_path(beside)), store.blobs.pieces(named_hash(digest)))
        _write(folder / "rendition", pieces)
        format_.restore(folder / "original" / text_path(main).name, folder / "rendition", folder / "restored")
        yield folder / "restored"


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.make_file(path)
    with path.open("wb") as file:
        file.writelines(pieces)


_STATES = 2


def rewrite(store: Store, file: int, path: Path, folder: Path, prefix: str) -> Path | None:
    """Write the new content of the file at ``path`` to a new file in ``folder``, on disk, and return its path.

    ``file`` is the context of the file; the name of the new one begins with ``prefix``. None if there is nothing to
    do, or part of the file is not imported yet. Once the new file has replaced the old one, the tool's additions
    continue from it; until then, from the old one.
    """
    entry = store.catalogue.entry(file)
    imported = read_as(entry.metadata, ImportedFile)
    if imported is None or imported.rendered or imported.main:
        return None
    data = path.read_bytes()
    was = blake3(data).hexdigest()
    before = [state for state in imported.rewritten if state.prefix == was]
    if not before and was != imported.cursor.prefix:
        return None
    layout = imported.read_layout(store)
    there = [
        (place, store.catalogue.entry(place.context)) for place in layout.places if store.contexts.exists(place.context)
    ]
    own = [(place, known) for place, known in there if known.metadata.get("file") == file]
    if all(known.head == place.tip for place, known in own) and not before:
        return None
    content = b"".join(Assembly(store, entry, layout, [known for _place, known in own]).pieces())
    if content == data or not content:
        return None
    heads = {str(known.id): known.head for place, known in own if known.head != place.tip}
    state = Rewritten(len(content), blake3(content).hexdigest(), heads)
    number, name = tempfile.mkstemp(dir=folder, prefix=prefix)
    with os.fdopen(number, "wb") as new:
        new.write(content)
        new.flush()
        durable.fdatasync(new.fileno())
    states = msgspec.to_builtins([*before, state][-_STATES:])
    store.contexts.set_metadata(file, {"rewritten": states})
    return Path(name)
