"""What one caller asks the writer to make durable, and what comes back."""

from __future__ import annotations

import threading

from msgspec import Struct

from store.disk.journal_format import JournalBlob
from store.disk.turn_format import Turn
from store.ids import Hash


class NewTurn(Struct, frozen=True, gc=False):
    """A turn to be: everything but what the writer allots (id, parent, depth)."""

    payload_hash: Hash
    type_tag: int
    codec: int
    flags: int
    created_ms: int


class ContextHead(Struct, frozen=True, gc=False):
    """The end of a branch: ``turn`` and its ``depth`` (both 0 while the context is empty)."""

    context: int
    turn: int
    depth: int


class Request:
    """One unit of work: all of it becomes durable, or none.

    ``context`` None creates one, whose branch begins at ``parent`` (0: empty); 0 is none at all: turns that no branch
    shows yet. Else ``parent`` 0 means the context's head, and None that nothing precedes: the branch begins anew.
    Turns follow each other. ``move_head`` False leaves the head where it is: the turns are durable, but no branch
    shows them yet. ``changes`` is a JSON object of metadata. ``action`` names the move for ``versions``; "append"
    makes no version of its own.

    The writer fills in ``written`` and ``head``, or ``error``.
    """

    __slots__ = (
        "action",
        "aliases",
        "blobs",
        "changes",
        "context",
        "dictionaries",
        "error",
        "gate",
        "head",
        "leads",
        "move_head",
        "parent",
        "size",
        "turns",
        "types",
        "written",
    )

    def __init__(
        self,
        context: int | None = None,
        *,
        parent: int | None = 0,
        turns: list[NewTurn] | None = None,
        blobs: list[JournalBlob] | None = None,
        changes: bytes | None = None,
        action: str = "append",
        move_head: bool = True,
        types: tuple[tuple[str, int], ...] = (),
        aliases: tuple[tuple[str, bytes, Hash], ...] = (),
        dictionaries: tuple[tuple[int, Hash], ...] = (),
    ) -> None:
        self.context = context
        self.parent = parent
        self.turns = turns or []
        self.blobs = blobs or []
        self.changes = changes
        self.action = action
        self.move_head = move_head
        self.types = types
        self.aliases = aliases
        self.dictionaries = dictionaries
        self.size = 0
        """About how many bytes it takes in the journal; the writer measures it."""
        self.gate = threading.Lock()
        self.gate.acquire()
        self.leads = False
        self.error: Exception | None = None
        self.written: list[Turn] = []
        self.head = ContextHead(0, 0, 0)

    def measure(self) -> int:
        """Set and return :attr:`size`."""
        size = 256 + 80 * len(self.turns) + 100 * len(self.aliases) + len(self.changes or b"") + len(self.action)
        for blob in self.blobs:
            size += 48 + len(blob.body)
        for name, _tag in self.types:
            size += 64 + len(name) * 4
        self.size = size
        return size
