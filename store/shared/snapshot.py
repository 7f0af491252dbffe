"""Snapshots: the files of a replica in the bucket of its space, from which other replicas begin.

A replica that joins applies every entry of the space, and writes every pack of it to packs of its own. With a snapshot
it has most of that by copying: logs, packs and index as they were at one commit. All replicas have the same logs, and
whatever else a replica holds follows from these and from what the space holds: any of them may begin with the files of
another.

The files are those of a replica that nobody uses and that only follows: it is brought up to date and closed, so they
are whole and belong together. One after the other, in the order of their names,
they are cut into pieces of 16 MiB, ``snapshot/ID/NNNNNN``. ``snapshot/ID/files`` is JSON: ``{"files": [[name,
length], …], "pieces": [BLAKE3 of a piece in hex, …]}``. The record ``snapshot`` says which there is: ``{"id",
"machine", "made_ms", "seq"}``. There is one at most. Whoever begins to make one notes the version of that record first
and publishes it only if that is still so: what was redacted meanwhile drops the record, and does not come back.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from blake3 import blake3
from msgspec import Struct

from store import paths, typed
from store.disk import durable
from store.errors import DamageError, Missing, NotFound
from store.ids import now_ms
from store.shared.space import Record, Space

RECORD = "snapshot"
_PREFIX = "snapshot/"
_PIECE_BYTES = 16 << 20
_TRIES = 3

_NAMES = re.compile(
    rf"(?:{paths.TURN_LOG}|{paths.HEAD_LOG}|{paths.JUMPS}|{paths.BLOBS}/r?[0-9]{{8,}}\.pack|{paths.JOURNAL}/[a-z0-9]+"
    rf"|{paths.INDEX}|{paths.PUBLISHED}|{paths.DOOMED}|{paths.REDACTED})"
)
"""The files that a replica may begin with. All others are of one machine, or follow from these."""


class Snapshot(Struct, frozen=True):
    """A snapshot as its record tells of it. ``seq`` is the commit that it has reached."""

    id: str
    machine: str
    made_ms: int
    seq: int


class _Files(Struct, frozen=True):
    files: list[tuple[str, int]]
    pieces: list[str]


def latest(space: Space) -> tuple[Snapshot | None, Record]:
    """Return the snapshot that a space has, None if it has none, and its record. Raises Unreachable, DamageError."""
    record = space.records.record(RECORD)
    if not record.value:
        return None, record
    try:
        return typed.decode(record.value, Snapshot), record
    except msgspec.DecodeError as error:
        raise DamageError(f"what the space says of its snapshot makes no sense: {error}") from None


def publish(space: Space, root: Path, machine: str, seq: int, before: Record) -> bool:
    """Put the files of the closed replica at ``root`` into the space; False if the record is not that of ``before``.

    Raises Unreachable; OSError where a file cannot be read.
    """
    made = Snapshot(os.urandom(16).hex(), machine, now_ms(), seq)
    prefix = f"{_PREFIX}{made.id}/"
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    files = [(name, (root / name).stat().st_size) for name in names if _NAMES.fullmatch(name)]
    pieces: list[str] = []
    for number, piece in enumerate(_pieces(root, files)):
        space.bucket.put(f"{prefix}{number:06}", piece)
        pieces.append(blake3(piece).hexdigest())
    space.bucket.put(f"{prefix}files", msgspec.json.encode(_Files(files, pieces)))
    placed = space.records.swap(RECORD, before.version, msgspec.json.encode(made))
    _clean(space, prefix if placed else "", prefix)
    return placed


def fetch(space: Space, root: Path) -> Snapshot | None:
    """Write the files of the latest snapshot to the new directory ``root``; None if there is none.

    Raises Unreachable, DamageError, StoreFull, OSError; no file is left then.
    """
    for _try in range(_TRIES):
        snapshot, _record = latest(space)
        if snapshot is None:
            return None
        try:
            return _fetched(space, snapshot, root)
        except Missing:
            # another has taken its place
            continue
    raise NotFound("the snapshot of the space is not whole: convfs remote snapshot makes another")


def drop(space: Space) -> None:
    """Drop the snapshot, and those that are being made. Raises Unreachable."""
    while not space.records.swap(RECORD, space.records.record(RECORD).version, b""):
        continue
    _clean(space)


def _clean(space: Space, kept: str = "", own: str = _PREFIX) -> None:
    """Remove the objects of snapshots other than ``kept``; if none is kept, only those that begin with ``own``."""
    for key, _length in list(space.bucket.list(_PREFIX)):
        if not key.startswith(kept) if kept else key.startswith(own):
            space.bucket.delete(key)


def _pieces(root: Path, files: list[tuple[str, int]]) -> Iterator[bytes]:
    piece = bytearray()
    for name, length in files:
        with open(root / name, "rb") as file:
            while length:
                part = file.read(min(_PIECE_BYTES - len(piece), length))
                if not part:
                    raise OSError(f"{root / name}: it has become shorter")
                piece += part
                length -= len(part)
                if len(piece) == _PIECE_BYTES:
                    yield bytes(piece)
                    piece.clear()
    if piece:
        yield bytes(piece)


def _fetched(space: Space, snapshot: Snapshot, root: Path) -> Snapshot:
    prefix = f"{_PREFIX}{snapshot.id}/"
    written: list[Path] = []
    try:
        try:
            said = typed.decode(space.bucket.get(f"{prefix}files"), _Files)
        except msgspec.DecodeError as error:
            raise DamageError(f"the list of files of the snapshot makes no sense: {error}") from None
        for name, _length in said.files:
            if not _NAMES.fullmatch(name):
                raise DamageError(f"the snapshot has a file {name!r}, which is none of a replica")
        pieces = _checked(space, prefix, said.pieces)
        rest = b""
        for name, length in said.files:
            path = root / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            written.append(path)
            try:
                at = 0
                while at < length:
                    rest = rest or next(pieces, b"")
                    if not rest:
                        raise DamageError("the snapshot has fewer bytes than its files")
                    part, rest = rest[: length - at], rest[length - at :]
                    durable.pwrite_all(fd, part, at)
                    at += len(part)
                durable.fdatasync(fd)
            finally:
                os.close(fd)
        for directory in {path.parent for path in written} | {root}:
            durable.sync_directory(directory)
    except BaseException:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise
    return snapshot


def _checked(space: Space, prefix: str, hashes: list[str]) -> Iterator[bytes]:
    for number, digest in enumerate(hashes):
        piece = space.bucket.get(f"{prefix}{number:06}")
        if blake3(piece).hexdigest() != digest:
            raise DamageError(f"piece {number} of the snapshot is damaged: convfs remote snapshot makes another")
        yield piece
