"""A model of a store, kept in dictionaries, and how to compare a store with it."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store import paths
from store.disk import identity
from store.disk.turn_format import Turn
from store.errors import NotFound
from store.ids import Hash, hash_bytes
from store.store import Store
from store.upkeep.fsck import Violation, fsck


class Model:
    """Turns by id with what was appended, heads and metadata by context, blobs by name."""

    def __init__(self) -> None:
        self.turns: dict[int, tuple[int, bytes, str]] = {}
        self.heads: dict[int, int] = {}
        self.metadata: dict[int, dict[str, object]] = {}
        self.blobs: dict[Hash, bytes] = {}
        self.keys: dict[tuple[int, bytes], int] = {}
        self.roots: dict[int, Hash] = {}

    def append(self, context: int, turn: Turn, payload: bytes, type_name: str, parent: int = 0) -> None:
        assert turn.turn_id not in self.turns
        assert turn.parent == (parent or self.heads[context])
        assert turn.payload_hash == hash_bytes(payload)
        self.turns[turn.turn_id] = (turn.parent, payload, type_name)
        assert turn.depth == len(self.branch(turn.turn_id)) - 1
        self.heads[context] = turn.turn_id

    def change(self, context: int, changes: dict[str, object]) -> None:
        merged = {**self.metadata[context], **changes}
        self.metadata[context] = {key: value for key, value in merged.items() if value is not None}

    def branch(self, turn: int) -> list[int]:
        """Return the turns from the root to ``turn``."""
        found = []
        while turn:
            found.append(turn)
            turn = self.turns[turn][0]
        return found[::-1]

    # -- comparing -------------------------------------------------------------------------------------------------

    def check(self, store: Store) -> None:
        """Assert that the store holds all of this, and says so in every way that it can be asked."""
        assert store.files.turns.count == len(self.turns)
        for context in self.heads:
            self.check_context(store, context)
        for turn, (_, payload, type_name) in self.turns.items():
            assert store.contents.payload(turn) == payload
            assert store.contents.type_name(store.turns.get(turn).type_tag) == type_name
            assert store.contexts.fs_root(turn) == self.roots.get(turn)
        assert dict(store.contents.payloads(list(self.turns))) == {turn: item[1] for turn, item in self.turns.items()}
        for name, data in self.blobs.items():
            assert store.blobs.blob(name) == data
            assert store.blobs.size(name) == len(data)
            assert b"".join(store.blobs.pieces(name)) == data

    def check_context(self, store: Store, context: int) -> None:
        branch = self.branch(self.heads[context])
        head = store.writer.head(context)
        assert (head.turn, head.depth) == (self.heads[context], max(len(branch) - 1, 0))
        for count in (0, 1, 3, len(branch), len(branch) + 5):
            assert ids(store.contexts.last(context, count)) == (branch[-count:] if count else [])
        for start in (0, 1, len(branch) // 2, len(branch), len(branch) + 1):
            for count in (0, 1, 2, len(branch) + 1):
                assert ids(store.contexts.range_by_depth(context, start, count)) == branch[start : start + count]
        for at in {0, len(branch) // 2, len(branch) - 1} if branch else ():
            assert ids(store.contexts.before(context, branch[at], 2)) == branch[max(at - 2, 0) : at]
            assert ids(store.turns.path_to_root(branch[at])) == branch[: at + 1]
        conversation = store.library.conversation(context)
        assert conversation.metadata == self.metadata[context]
        assert (conversation.head, conversation.records) == (head.turn, len(branch))

    def check_absent(self, store: Store) -> None:
        """Assert that what was never written is not there."""
        for missing in (len(self.turns) + 1, 1 << 62, 1 << 70, -1, 0):
            for ask in (store.turns.get, store.contents.payload, store.turns.path_to_root):
                refuses(NotFound, ask, missing)
        for missing in (max(self.heads, default=0) + 1, 1 << 70, -1, 0):
            refuses(NotFound, store.writer.head, missing)
            refuses(NotFound, store.contexts.append, missing, b"x", "x.v1")
            refuses(NotFound, store.contexts.set_metadata, missing, {"a": 1})
            refuses(NotFound, store.contexts.fork, missing)
        refuses(NotFound, store.blobs.blob, hash_bytes(b"never written"))


def refuses(kind: type[Exception], call: object, *arguments: object) -> None:
    try:
        call(*arguments)  # type: ignore[operator]  # any bound method
    except kind:
        return
    raise AssertionError(f"{call} took {arguments}")


def ids(turns: list[Turn]) -> list[int]:
    return [turn.turn_id for turn in turns]


def findings(store: Store) -> list[Violation]:
    return fsck(store)


def freeze(store: Store, target: Path) -> Path:
    """Copy an open store as a kill of its process at this moment would leave it."""
    writer, checkpointer = store.writer, store.checkpointer
    with writer.commit_lock:
        with checkpointer._work:
            while checkpointer._tasks:
                checkpointer._work.wait()
        with writer._applying._lock, writer.index.db._lock:
            shutil.copytree(store.root, target)
    return instead(target)


def instead(copy: Path) -> Path:
    """Let a copy of a store stand for the very store, as that was left."""
    known, status = identity.read(copy), copy.stat()
    assert known is not None
    noted = identity.Identity(known.store_id, status.st_dev, status.st_ino, os.fsencode(os.path.realpath(copy)))
    (copy / paths.IDENTITY).write_bytes(identity.encode(noted))
    return copy


@contextmanager
def unreadable_packs(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the disk read nothing of any pack while the block runs."""
    read = os.pread

    def pread(fd: int, length: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".pack"):
            raise OSError(errno.EIO, "the disk fails, for a test")
        return read(fd, length, offset)

    with patch.context() as context:
        context.setattr(os, "pread", pread)
        yield
