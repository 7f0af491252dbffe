"""Repair: whatever of a damaged store can be had again without a guess.

A record of a turn whose checksum does not hold is put back from a copy of this store; or as it was before one of its
bytes changed, if exactly one byte makes the checksum hold, and the turn then has its place, its parent and its payload.

A blob that cannot be read is taken anew from wherever something has its hash: a copy or another store, session files,
the file that a conversation was imported from. Files are imported into a store of their own for that, so a record is
found as the import had cut it.

Packs with damage are then rewritten without it. What is taken out of any file is kept in the directory ``damaged``.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from store import paths
from store.content.compression import pack_records
from store.content.sealed import names_of
from store.conversations import branch
from store.disk import durable, identity
from store.disk.blob_format import OVERHEAD, Record, encode_record
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.files import pread_around
from store.disk.turn_format import RECORD_SIZE, Turn, mended
from store.errors import ConvfsError, DamageError, NotFound
from store.ids import Hash, turn_of
from store.importing.importer import Importer
from store.importing.snapshot import text_path
from store.index.index import Places
from store.index.views import Run
from store.store import Store
from store.upkeep.fsck import Looked, check_packs, check_patches, check_payloads, check_references
from store.upkeep.rebuild import readable
from store.upkeep.roots import named_in

_AT_ONCE = 64
_LARGE = 16 << 20
"""Blobs beyond this many bytes are not looked into for contents to be stored apart."""


class Repaired(Struct):
    """The outcome: ``taken`` and ``lost`` have a line for each thing, ``kept`` are the files with damaged bytes.

    ``turns`` is how many records of turns were put back: what follows from these must be made anew.
    """

    taken: list[str] = []
    lost: list[str] = []
    kept: list[Path] = []
    turns: int = 0


def repair(store: Store, sources: Sequence[Path] = ()) -> Repaired:
    """Repair what the store has lost; ``sources`` are stores, files of sessions or folders of these.

    Raises NotFound if one of them is not there, StoreBusy for a store that another process has open.
    """
    done = Repaired()
    for source in sources:
        if not source.exists():
            raise NotFound(f"{source}: there is nothing to repair from")
    _put_turns_back(store, [source for source in sources if _is_store(source)], done)
    lacking = _lacking(store)
    for source in sources:
        _take_from(store, source, lacking, done)
    for source in _imported_from(store, lacking) if lacking else ():
        _take_from(store, source, lacking, done)
    for pack in sorted({pack for pack, _offset, found in store.files.packs.scan() if isinstance(found, Damage)}):
        _rewrite(store, pack, done)
    store.blobs.forget()
    done.lost += _lost(store, lacking)
    return done


def _is_store(path: Path) -> bool:
    return path.is_dir() and identity.files_id(path) is not None


def _keep(store: Store, name: str, data: bytes, done: Repaired) -> None:
    folder = store.root / paths.DAMAGED
    durable.make_directory(folder)
    path = folder / name
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}"
    durable.write_whole(path, data)
    done.kept.append(path)


# -- turns -------------------------------------------------------------------------------------------------------------


def _put_turns_back(store: Store, copies: Sequence[Path], done: Repaired) -> None:
    gone, log = Looked(store).reclaimed, store.files.turns
    damaged = [at for at, turn in log.scan() if not isinstance(turn, Turn) and at not in gone]
    for copy in copies if damaged else ():
        with Store.open(copy, create=False, only_read=True) as other:
            if other.files.files_id != store.files.files_id:
                continue
            for turn_id in damaged:
                with suppress(ConvfsError):
                    _put_back(store, other.files.turns.get(turn_id), f"{copy}", done)
    for turn_id in damaged:
        with suppress(ConvfsError):
            log.get(turn_id)
            continue
        fitting = [turn for turn in mended(log.damaged_bytes(turn_id)) if _fits(store, turn_id, turn)]
        if len(fitting) == 1:
            _put_back(store, fitting[0], "its checksum: one byte was wrong", done)
        else:
            done.lost.append(f"turn {turn_id}, and what came before it in its conversations: its record is damaged")


def _fits(store: Store, turn_id: int, turn: Turn) -> bool:
    try:
        store.blobs.size(turn.payload_hash)
        depth = store.files.turns.get(turn.parent).depth + 1 if turn.parent else 0
    except ConvfsError:
        return False
    return turn.turn_id == turn_id and turn.parent < turn_id and turn.depth == depth


def _put_back(store: Store, turn: Turn, source: str, done: Repaired) -> None:
    log, turn_id = store.files.turns, turn.turn_id
    if turn.reclaimed:
        return
    _keep(store, f"{log.name}-{HEADER_SIZE + (turn_id - 1) * RECORD_SIZE}", log.damaged_bytes(turn_id), done)
    log.put_back(turn)
    done.turns += 1
    done.taken.append(f"the record of turn {turn_id}, by {source}")


# -- blobs -------------------------------------------------------------------------------------------------------------


def _lacking(store: Store) -> dict[Hash, ConvfsError]:
    """Return the blobs that something names and that cannot be read."""
    looked = Looked(store)
    for check in (check_payloads, check_patches, check_references, check_packs):
        with suppress(ConvfsError):
            for _finding in check(looked):
                pass
    return looked.bad


def _take_from(store: Store, source: Path, lacking: dict[Hash, ConvfsError], done: Repaired) -> None:
    """Take what is lacking from a store or from files, and strike it off."""
    if not lacking:
        return
    before = len(lacking)
    if _is_store(source):
        with Store.open(source, create=False, only_read=True) as other:
            _copy(store, other, lacking)
    else:
        scratch = store.files.aside.scratch
        scratch.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch) as folder, Store.open(Path(folder) / "store") as other:
            Importer(other).run([source])
            other.checkpointer.flush()
            _copy(store, other, lacking)
    if taken := before - len(lacking):
        done.taken.append(f"{taken} contents from {source}")


def _copy(store: Store, other: Store, lacking: dict[Hash, ConvfsError]) -> None:
    wanted = list(lacking)
    load = store.intake.load()
    for start in range(0, len(wanted), _AT_ONCE):
        for digest in wanted[start : start + _AT_ONCE]:
            try:
                if other.blobs.size(digest) > _LARGE:
                    load.stream(other.blobs.pieces(digest))
                else:
                    load.payloads([other.blobs.blob(digest)])
            except ConvfsError:
                continue
            del lacking[digest]
    load.sync()
    store.blobs.forget()


def _held(store: Store, lacking: Iterable[Hash]) -> list[int]:
    """Return the turns whose payloads are lacking, in order."""
    wanted = frozenset(lacking)
    scanned = store.files.turns.scan()
    return [at for at, turn in scanned if isinstance(turn, Turn) and turn.payload_hash in wanted]


def _imported_from(store: Store, lacking: dict[Hash, ConvfsError]) -> Iterator[Path]:
    """Yield the files, still there, that conversations were imported from which have lost something."""
    turns = _held(store, lacking)
    seen: set[Path] = set()
    for entry in store.catalogue.every():
        path = text_path(entry.source) if entry.source else None
        if path is None or path in seen or not path.exists():
            continue
        held = any(branch.meets(runs, turns) for runs in _branches(store, entry.head, entry.imported_head))
        if held or lacking.keys() & set(named_in(str(entry.metadata))):
            seen.add(path)
            yield path


def _branches(store: Store, *tips: int) -> Iterator[tuple[Run, ...]]:
    for tip in tips:
        # the records as they were imported, not as patches show them
        with suppress(ConvfsError):
            yield store.records.runs(turn_of(tip))


def _lost(store: Store, lacking: dict[Hash, ConvfsError]) -> Iterator[str]:
    """Yield a line for each event whose content is lost, and one for everything else."""
    turns = dict.fromkeys(_held(store, lacking))
    if not lacking:
        return
    told: set[Hash] = set()
    for entry in store.catalogue.every():
        runs: tuple[Run, ...] = ()
        with suppress(ConvfsError):
            runs = store.records.runs(entry.head)
        if branch.meets(runs, list(turns)):
            number = 1
            for first, count in runs:
                for turn in range(first, first + count):
                    if turn in turns:
                        told.add(store.files.turns.get(turn).payload_hash)
                        yield f"{entry.project}/{entry.name}, event {number + turn - first}"
                number += count
    rest = [digest for digest in lacking if digest not in told]
    yield from (f"content {digest.hex()}, which no conversation shows as it is now" for digest in rest)


# -- packs -------------------------------------------------------------------------------------------------------------


def _rewrite(store: Store, pack: int, done: Repaired) -> None:
    """Put a pack without damage in the place of one with it; the damaged bytes are kept aside."""
    packs = store.files.packs
    path = packs.path(pack)
    with store.rewriting.alone:
        store.intake.cold(roll=True)
        places = Places()
        writer = packs.rewrite()
        try:
            for _pack, offset, found in packs.scan(numbers=[pack]):
                records: list[tuple[bytes, list[Hash]]] = []
                length = found.length if isinstance(found, Damage) else OVERHEAD + len(found.stored)
                with suppress(DamageError):
                    if isinstance(found, Record):
                        again = encode_record(found.codec, found.raw_len, found.hash, found.stored)
                        records = [(again, names_of(found))]
                if not records:
                    _keep(store, f"{path.name}-{offset}", _bytes_at(path, offset, length), done)
                    records = pack_records(member for _number, member in readable(packs, pack, offset))
                for record, names in records:
                    place = writer.append(record)
                    for number, name in enumerate(names):
                        places.add(name, (*place, number))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        # nothing of the old one is lost: the damage is kept, the rest is in the new one
        store.rewriting.switch(places, {writer.number: writer.length}, [pack], overwrite=True)


def _bytes_at(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        return pread_around(file.fileno(), length, offset)
