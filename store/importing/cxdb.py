"""A data directory of CXDB's server, taken over: contexts with their turns, forks, and trees of files.

Layouts are those of the server (https://github.com/strongdm/cxdb), little-endian, each record with the CRC-32 of what
is before it at its end, unless said otherwise:

* ``turns/turns.log``: turn u64, parent u64, depth u32, encoding u32, tag u64, payload hash, flags u32, created u64;
* ``turns/turns.meta``, without a CRC: turn u64, size u32, type, version u32, encoding, compression and raw size u32;
* ``turns/heads.tbl``: context u64, head u64, depth u32, flags u32, created u64; the last of a context counts, the first
  tells when it was made, and which turn a fork began with;
* ``fs/roots.idx``: turn u64, hash of a tree; the last of a turn counts;
* ``blobs/blobs.pack``: magic u32, version u16, codec u16 (1: zstd), raw size u32, size u32, hash; then the bytes.

A turn keeps its bytes, type, encoding, time and depth, and gets an id of this store; contexts that share turns share
them here. What a context came from, and how far, is noted in its metadata, so that what is new comes with a later
import. A server that runs may write meanwhile: what it has not finished is left for the next time.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from store import typed
from store.content import trees, zstd
from store.conversations.contexts import Append
from store.errors import DamageError, NotFound, told
from store.ids import Hash, hash_bytes, turn_of
from store.importing.snapshot import path_text
from store.index.catalogue import ContextEntry
from store.store import Store

_CRC = struct.Struct("<I")
_TURN = struct.Struct("<QQIIQ32sIQ")
_HEAD = struct.Struct("<QQIIQ")
_ROOT = struct.Struct("<Q32s")
_BLOB = struct.Struct("<IHHII32s")
_MAGIC = 0x42534C42
_META_HEAD, _META_TAIL = struct.Struct("<QI"), struct.Struct("<IIII")
_TURNS_LOG = Path("turns", "turns.log")
_TURNS_AT_ONCE = 500


def is_data(path: Path) -> bool:
    """Return whether a directory is one that CXDB's server keeps its data in."""
    return (path / _TURNS_LOG).is_file() and (path / "blobs" / "blobs.pack").is_file()


class _Turn(NamedTuple):
    parent: int
    payload: Hash
    created_ms: int


class _Kind(NamedTuple):
    name: str
    version: int
    encoding: int


class _Head(Struct):
    base: int
    created_ms: int
    turn: int


class _Data:
    """The records of a data directory, as they were when it was opened."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._pack = stack.enter_context((directory / "blobs" / "blobs.pack").open("rb"))
        self.turns = {
            turn: _Turn(parent, Hash(payload), created)
            for turn, parent, _depth, _encoding, _tag, payload, _flags, created in self._records(_TURNS_LOG, _TURN)
        }
        self.heads: dict[int, _Head] = {}
        for context, turn, _depth, _flags, created in self._records(Path("turns", "heads.tbl"), _HEAD):
            self.heads.setdefault(context, _Head(turn, created, turn)).turn = turn
        self.roots = {turn: Hash(root) for turn, root in self._records(Path("fs", "roots.idx"), _ROOT)}

    def _records(self, path: Path, layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """Yield the records of a file up to the first that is unfinished or damaged."""
        with suppress(FileNotFoundError):
            data = (self._directory / path).read_bytes()
            for at in range(0, len(data) - layout.size - _CRC.size + 1, layout.size + _CRC.size):
                end = at + layout.size
                if zlib.crc32(data[at:end]) != _CRC.unpack_from(data, end)[0]:
                    return
                yield layout.unpack_from(data, at)

    @cached_property
    def kinds(self) -> dict[int, _Kind]:
        """The types of payloads, by turn."""
        found: dict[int, _Kind] = {}
        data, at = (self._directory / "turns" / "turns.meta").read_bytes(), 0
        with suppress(struct.error):
            while at < len(data):
                turn, size = _META_HEAD.unpack_from(data, at)
                start = at + _META_HEAD.size
                version, encoding, *_ = _META_TAIL.unpack_from(data, start + size)
                found[turn] = _Kind(data[start : start + size].decode(errors="replace"), version, encoding)
                at = start + size + _META_TAIL.size
        return found

    @cached_property
    def _blobs(self) -> dict[bytes, tuple[int, int, int, int]]:
        """The place, size, codec and raw size of each blob. The pack is the truth, its index may be behind."""
        found: dict[bytes, tuple[int, int, int, int]] = {}
        at, size = 0, os.fstat(self._pack.fileno()).st_size
        while len(head := os.pread(self._pack.fileno(), _BLOB.size, at)) == _BLOB.size:
            magic, _version, codec, raw, stored, digest = _BLOB.unpack(head)
            end = at + _BLOB.size + stored + _CRC.size
            if magic != _MAGIC or end > size:
                break
            found[digest] = at + _BLOB.size, stored, codec, raw
            at = end
        return found

    def blob(self, digest: Hash) -> bytes:
        """Return the bytes of a blob. NotFound if it is not there, DamageError if it is another."""
        if digest not in self._blobs:
            raise NotFound(f"blob {digest.hex()} is missing")
        at, stored, codec, raw = self._blobs[digest]
        # not mapped: a server that starts may cut its files
        data = os.pread(self._pack.fileno(), stored, at)
        content = zstd.expand(data, raw) if codec else data
        if hash_bytes(content) != digest:
            raise DamageError(f"blob {digest.hex()} is damaged")
        return content

    def branch(self, turn: int) -> list[int]:
        """Return the turns from the root to ``turn``. DamageError if one is missing."""
        found: list[int] = []
        while turn:
            if turn not in self.turns or (found and turn >= found[-1]):
                raise DamageError(f"turn {turn} is missing")
            found.append(turn)
            turn = self.turns[turn].parent
        return found[::-1]


class Came(Struct, frozen=True):
    """How far a context has come, in its metadata as ``cxdb``: ``turn``, which is ``here`` in this store."""

    directory: str
    context: int
    turn: int
    here: int


class Taken(Struct):
    """The outcome of an import: counts of contexts and turns, and a line for each context that did not come whole."""

    imported: int = 0
    grown: int = 0
    unchanged: int = 0
    turns: int = 0
    errors: list[str] = []


def take(store: Store, directory: Path, *, dry_run: bool = False) -> Taken:
    """Take over what is new in a data directory; ``dry_run`` only counts it. Raises OSError if it cannot be read."""
    with ExitStack() as stack:
        taking = _Taking(store, _Data(directory, stack), path_text(directory.resolve()))
        for context in sorted(taking.data.heads):
            try:
                taking.take(context, dry_run=dry_run)
            except OSError:
                raise
            except Exception as error:
                taking.taken.errors.append(f"{path_text(directory)}: context {context}: {told(error)}")
        return taking.taken


class _Taking:
    """One import."""

    def __init__(self, store: Store, data: _Data, directory: str) -> None:
        self._store = store
        self.data = data
        self.taken = Taken()
        self._directory = directory
        self._here: dict[int, int] = {}
        """The turns that have come, each with its id in this store."""
        self._owners: dict[int, int] = {}
        """The context of this store that a turn came with."""
        self._known: dict[int, tuple[ContextEntry, Came]] = {}
        for entry in store.catalogue.having("cxdb"):
            came = typed.convert(entry.metadata["cxdb"], Came)
            if came.directory == directory:
                self._known[came.context] = entry, came
                self._note_earlier(entry, came)

    def _note_earlier(self, entry: ContextEntry, came: Came) -> None:
        turns = self._store.turns.path_to_root(came.here) if came.here else []
        with suppress(DamageError):
            for turn, own in zip(self.data.branch(came.turn), turns, strict=True):
                self._note(entry.id, turn, own.turn_id)

    def _note(self, context: int, turn: int, here: int) -> None:
        self._here.setdefault(turn, here)
        self._owners.setdefault(turn, context)

    def take(self, context: int, *, dry_run: bool) -> None:
        """Take over one context. Raises ConvfsError if not all of it is there: what is before that has come then."""
        branch = self.data.branch(self.data.heads[context].turn)
        entry, came = self._known.get(context, (None, None))
        if came is not None and came.turn == (branch[-1] if branch else 0):
            self.taken.unchanged += 1
            return
        if entry is None:
            self.taken.imported += 1
        else:
            self.taken.grown += 1
        if dry_run:
            self.taken.turns += sum(turn not in self._here for turn in branch)
            return
        if entry is None or came is None:
            own, at = self._begun(context, branch), len(self._shared(branch))
            parent = 0
        else:
            own = entry.id
            before = self.data.branch(came.turn)
            at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, branch, strict=False)))
            parent = self._here[branch[at - 1]] if at and at < len(before) else 0
            if not parent:
                at += self._unnoted(own, context, branch, at)
        self._append(own, context, branch, at, parent)

    def _shared(self, branch: Sequence[int]) -> Sequence[int]:
        """Return the beginning of a branch that has come with other contexts."""
        return next((branch[:at] for at, turn in enumerate(branch) if turn not in self._here), branch)

    def _begun(self, context: int, branch: Sequence[int]) -> int:
        """Make the context, with what it shares with those before it."""
        base = next(iter(self._shared(branch)[-1:]), 0)
        came = Came(self._directory, context, base, self._here.get(base, 0))
        metadata = {"cxdb": msgspec.to_builtins(came), "started_ms": self.data.heads[context].created_ms}
        if base:
            with suppress(NotFound):
                return self._store.contexts.fork(self._owners[base], came.here, metadata=metadata).context
        return self._store.contexts.create(came.here, metadata=metadata).context

    def _unnoted(self, own: int, context: int, branch: Sequence[int], at: int) -> int:
        """Note the turns that came with an import which was interrupted, and return how many there are."""
        tip = self._store.contexts.tip(own)
        count = 0
        for turn in self._store.turns.range_to(tip, at, len(branch) - at):
            if turn.payload_hash != self.data.turns[branch[at + count]].payload:
                break
            self._note(own, branch[at + count], turn_of(turn.turn_id))
            count += 1
        return count

    def _append(self, own: int, context: int, branch: Sequence[int], at: int, parent: int) -> None:
        store = self._store
        ends = [*range(at, len(branch), _TURNS_AT_ONCE), len(branch)]
        for start, end in pairwise(ends):
            items: list[Append] = []
            try:
                items += (self._item(turn) for turn in branch[start:end])
            finally:
                # what is there comes, though something behind it is missing
                some = branch[start : start + len(items)]
                for turn, made in zip(some, store.contexts.append_many(own, items, parent=parent), strict=True):
                    self._note(own, turn, made.turn_id)
                    self._attach(turn, made.turn_id)
                self.taken.turns += len(items)
                if some:
                    came = Came(self._directory, context, some[-1], self._here[some[-1]])
                    store.contexts.set_metadata(own, {"cxdb": msgspec.to_builtins(came)})
            parent = 0

    def _item(self, number: int) -> Append:
        turn, kind = self.data.turns[number], self.data.kinds.get(number)
        if kind is None:
            raise DamageError(f"the type of turn {number} is missing")
        payload = self.data.blob(turn.payload)
        return Append(payload, kind.name, kind.encoding, kind.version, turn.created_ms, imported=True)

    def _attach(self, turn: int, here: int) -> None:
        root = self.data.roots.get(turn)
        if root is None:
            return
        with self._store.intake.reliance.relying():
            load = self._store.intake.load()
            for data in trees.walk(self.data.blob, root):
                load.blob(data)
            load.sync()
            with suppress(NotFound):
                self._store.contexts.attach_fs(here, root)
