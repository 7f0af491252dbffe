"""What one caller asks the writer to make durable, and what comes back."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec import Struct

from store.disk.head_format import Body, Deleted, TextAdded
from store.disk.journal_format import JournalBlob
from store.disk.turn_format import Turn
from store.ids import Hash, patch_of, tip_of


class NewTurn(Struct, frozen=True, gc=False):
    """A turn to be: everything but what the writer allots (id, parent, depth).

    A :class:`Turn` does in its place: then it is that one once more.
    """

    payload_hash: Hash
    type_tag: int
    codec: int
    flags: int
    created_ms: int


class ContextHead(Struct, frozen=True, gc=False):
    """The end of a branch: ``turn`` and its ``depth`` (both 0 while the context is empty).

    ``patch`` is the last that holds for the branch, 0 if none does.
    """

    context: int
    turn: int
    depth: int
    patch: int = 0

    @property
    def tip(self) -> int:
        """The state that the context is in (``store.ids``)."""
        return tip_of(self.turn, self.patch)


class Request:
    """One unit of work: all of it becomes durable, or none.

    ``context`` None creates one, whose branch begins at ``parent`` (0: empty); 0 is none at all: turns that no branch
    shows yet. Else ``parent`` 0 means the context's head, and None that nothing precedes: the branch begins anew.
    Turns follow each other. ``move_head`` False leaves the head where it is: the turns are durable, but no branch
    shows them yet. ``changes`` is a JSON object of metadata. ``action`` names the move for ``versions``; "append"
    makes no version of its own, unless it leaves turns behind.

    ``patches`` give turns of the branch other flags and payloads, as one patch: (turn, payload hash,
    flags, created_ms) each.
    ``patch`` is the last one that is to hold for the branch (None: as it is; for a new context, that of ``parent``, if
    that is a tip).

    ``expected_head`` is the tip that the context must have, ``name`` the project and name that no other
    conversation may have (None: nothing is expected); else Conflict. ``superseded`` says what became of turns that
    were in the branch: (old, new, count) each, see :class:`store.disk.head_format.Superseded`; a negative ``new``
    counts this request's own turns from -1 on: -1, -2 and so on.

    ``expected_turn`` is the turn that the context's head must be at (0: it must be empty), through whatever patches.

    ``key`` is the client's own for its one turn. Where the context has had that key within a day, nothing happens, and
    ``written`` is what was appended then; Conflict if that is not the same. ``fs_root`` belongs to the turn, too;
    ``closes`` is the number of the open turn that it ends. ``notes`` are put in the head log as they are.

    The writer fills in ``written`` and ``head``, and ``seq``: of its first note, or the last of its frames if it has
    none; or ``error``.
    """

    __slots__ = (
        "action",
        "aliases",
        "blobs",
        "changes",
        "closes",
        "context",
        "dictionaries",
        "error",
        "expected_head",
        "expected_turn",
        "fs_root",
        "gate",
        "head",
        "key",
        "leads",
        "move_head",
        "name",
        "notes",
        "parent",
        "patch",
        "patches",
        "repeated",
        "seq",
        "size",
        "superseded",
        "turns",
        "types",
        "written",
    )

    def __init__(
        self,
        context: int | None = None,
        *,
        parent: int | None = 0,
        turns: Sequence[NewTurn | Turn] = (),
        blobs: list[JournalBlob] | None = None,
        changes: bytes | None = None,
        action: str = "append",
        move_head: bool = True,
        types: tuple[tuple[str, int], ...] = (),
        aliases: tuple[tuple[str, bytes, Hash], ...] = (),
        dictionaries: tuple[tuple[int, Hash], ...] = (),
        expected_head: int | None = None,
        name: tuple[str, str] | None = None,
        superseded: Sequence[tuple[int, int, int]] = (),
        patches: Sequence[tuple[int, Hash, int, int]] = (),
        patch: int | None = None,
        expected_turn: int | None = None,
        key: bytes = b"",
        fs_root: Hash | None = None,
        closes: int = 0,
        notes: Sequence[Body] = (),
    ) -> None:
        self.context = context
        self.parent = parent
        self.turns = turns
        self.blobs = blobs or []
        self.changes = changes
        self.action = action
        self.move_head = move_head
        self.types = types
        self.aliases = aliases
        self.dictionaries = dictionaries
        self.expected_head = expected_head
        self.name = name
        self.superseded = superseded
        self.patches = patches
        self.patch = patch
        self.expected_turn = expected_turn
        self.key = key
        self.fs_root = fs_root
        self.closes = closes
        self.notes = notes
        self.size = 0
        """About how many bytes it takes in the journal; the writer measures it."""
        self.gate = threading.Lock()
        self.gate.acquire()
        self.leads = False
        self.error: Exception | None = None
        self.written: list[Turn] = []
        self.head = ContextHead(0, 0, 0)
        self.repeated = False
        self.seq = 0

    def expect(self, head: int) -> None:
        """Have the head be at a turn (0: the context must be empty), or at a tip, else Conflict."""
        if patch_of(head):
            self.expected_head = head
        else:
            self.expected_turn = head

    @property
    def deletes(self) -> bool:
        """Whether its context is there no more after it."""
        return any(isinstance(note, Deleted) for note in self.notes)

    @property
    def place(self) -> tuple[int, bytes]:
        """What :attr:`key` is filed under: the keys of open turns are not their clients'."""
        return (0 if self.closes else self.context or 0), self.key

    def measure(self) -> int:
        """Set and return :attr:`size`."""
        size = 256 + 80 * len(self.turns) + 100 * len(self.aliases) + len(self.changes or b"") + len(self.action)
        size += 20 * len(self.superseded) + 52 * len(self.patches)
        for blob in self.blobs:
            size += 48 + len(blob.body)
        if self.key:
            size += 64 + len(self.key)
        for note in self.notes:
            size += 128 + (len(note.text) if isinstance(note, TextAdded) else 0)
        for name, _tag in self.types:
            size += 64 + len(name) * 4
        self.size = size
        return size
