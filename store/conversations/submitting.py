"""Requests to the writer, and what is noted of turns and of their types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from store.commit.checkpointer import Checkpointer
from store.commit.intake import Intake
from store.commit.load import Load
from store.commit.request import NewTurn, Request
from store.conversations.contents import Contents
from store.conversations.viewer import Viewer
from store.disk import turn_format
from store.disk.head_format import FsRoot, TypeRegistered
from store.disk.turn_format import Encoding
from store.errors import NotFound, UsageError
from store.ids import HASH_SIZE, Hash, now_ms, turn_of, type_tag
from store.index.notes import Notes

_LONGEST_TYPE = 1024


class Submitting(Contents):
    """Makes what it is asked to durable; what it writes with is set by who makes it."""

    _intake: Intake
    _notes: Notes
    _checkpointer: Checkpointer
    viewer: Viewer

    def load(self) -> Load:
        """Begin to write many blobs straight into the packs."""
        return self._intake.load()

    def relying(self) -> AbstractContextManager[None]:
        """Have what the block puts into the store, or finds there, be kept until its end, whatever is swept meanwhile.

        For whoever puts blobs in and lets go of the load before the commit that names them.
        """
        return self._intake.reliance.relying()

    def new_turn(
        self, digest: Hash, type_name: str, encoding: int, type_version: int = 0, created_ms: int = 0
    ) -> NewTurn:
        """Describe a turn whose payload is the blob ``digest``. UsageError where a number is out of range."""
        if not 0 <= created_ms < 1 << 63:
            raise UsageError(f"{created_ms} is no time in milliseconds since 1970")
        if len(type_name) > _LONGEST_TYPE:
            raise UsageError(f"the name of a type has {len(type_name)} characters: {_LONGEST_TYPE} at most")
        try:
            codec, tag = turn_format.codec(encoding, type_version), type_tag(type_name)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return NewTurn(digest, tag, codec, 0, created_ms or now_ms())

    @property
    def turns_at_once(self) -> int:
        """How many turns one request should bring at most."""
        return self._writer.turns_at_once

    def check(self) -> None:
        """Raise StoreFailed if the store takes no more writes, StoreFull while there is no room for any."""
        self._writer.check()
        self._writer.check_room()

    def submit(self, request: Request) -> Request:
        """Make a request durable; types that it is the first to use must be in it (:meth:`types_for`)."""
        return self._writer.submit(request)

    def submit_all(self, requests: Sequence[Request]) -> None:
        """As :meth:`submit`, of many at once, each by itself: what is wrong with one is its ``error``."""
        self._writer.submit_all(requests)

    @property
    def commits_at_once(self) -> bool:
        """Whether a request would have to wait for nothing but its own sync, as far as that can be told."""
        return self._writer.at_once

    def types_for(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Return (name, tag) of those types that the store does not know yet."""
        known = self._writer.types
        return tuple((name, tag) for name in sorted(set(names)) if (tag := type_tag(name)) not in known)

    def quiesce(self) -> None:
        """As :meth:`flush`, and wait until nothing is going on in the background that would change the files."""
        self._checkpointer.quiesce()

    def flush(self) -> None:
        """Bring everything that was committed from the journal into packs and logs."""
        self._checkpointer.flush()

    def _known(self, context_id: int) -> None:
        # a request for context 0 is one for none, which is not for callers to make
        if context_id <= 0:
            raise NotFound(f"there is no context {context_id}")

    def attach_fs(self, turn_id: int, root: bytes) -> None:
        """Note that the files that a turn was made with are those of the tree ``root``, 32 bytes, from now on.

        NotFound if there is no such turn. The tree is its client's own: nothing is looked up in it.
        """
        turn = self.turn(turn_of(turn_id))
        self.submit(Request(0, move_head=False, notes=[FsRoot(turn.turn_id, fs_root_of(root))]))

    def fs_root(self, turn_id: int) -> Hash | None:
        """Return the root of the tree of files that was attached to a turn, None if none was."""
        turn = self.turn(turn_of(turn_id))
        self._writer.settle()
        return self._notes.fs_root(turn.turn_id)

    def register_type(self, name: str, version: int = 0) -> int:
        """Note that there are payloads of this version of a type; return the type's tag."""
        tag = self.new_turn(Hash(bytes(HASH_SIZE)), name, Encoding.UNKNOWN, version).type_tag
        self._writer.settle()
        if (tag, version, name) not in self._index.types():
            self.submit(Request(0, move_head=False, notes=[TypeRegistered(name, version, tag)]))
        return tag

    def types(self) -> list[tuple[int, int, str]]:
        """Return (tag, version, name) of all types that are known, by name and version.

        A type is registered when its first turn comes, under version 0, and by :meth:`register_type`.
        """
        self._writer.settle()
        return self._index.types()


def fs_root_of(root: bytes) -> Hash:
    """Return the name of a tree of files; UsageError if it cannot be one."""
    if len(root) != HASH_SIZE:
        raise UsageError(f"the root of a file system has {HASH_SIZE} bytes, not {len(root)}")
    return Hash(root)
