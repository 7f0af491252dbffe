"""Requests: what callers want made durable; a group of them is worked out before anything is written."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, count

from msgspec import Struct

from store.commit.reliance import Region
from store.disk import head_format as heads
from store.disk import turn_format
from store.disk.head_format import Body, Deleted, Dropped, FsRoot, TextAdded
from store.disk.journal_format import JournalBlob, JournalEntry
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import Conflict, DamageError, NotFound, UsageError
from store.ids import HEX, PATCHES_BEYOND, TURNS_BEYOND, Hash, now_ms, patch_of, tip_of, turn_of
from store.index.notes import KeyPlace


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


class Gate:
    """Shut at first: the one who acquires it waits until somebody releases it."""

    __slots__ = ("acquire", "release")

    def __init__(self) -> None:
        lock = threading.Lock()
        self.acquire, self.release = lock.acquire, lock.release
        lock.acquire()


class Request(Struct, eq=False):
    """One unit of work: all of it becomes durable, or none.

    ``context`` None creates one, whose branch begins at ``parent`` (0: empty); 0 is none at all: turns that no branch
    shows yet. Else ``parent`` 0 means the context's head, and None that nothing precedes: the branch starts over.
    Turns follow each other. ``move_head`` False leaves the head where it is: the turns are durable, but no branch
    shows them yet. ``changes`` is a JSON object of metadata. ``action`` names the move for ``versions``; "append"
    makes no version of its own, unless it leaves turns behind.

    ``patches`` give turns of the branch other flags and payloads, as one patch: (turn, payload hash,
    flags, created_ms) each.
    ``patch`` is the last one that is to hold for the branch (None: as it is; for a new context, that of ``parent``, if
    that is a tip).

    ``expected_head`` is the tip that the context must have, ``name`` the project and name that no other
    conversation may have (None: nothing is expected), ``expected_metadata`` values that the context must have under
    some keys (None: none); else Conflict. ``superseded`` gives the successors of turns
    that were in the branch: (old, new, count) each, see :class:`store.disk.head_format.Superseded`; a negative ``new``
    counts this request's own turns from -1 on: -1, -2 and so on.

    ``expected_turn`` is the turn that the context's head must be at (0: it must be empty), through whatever patches.

    ``key`` is the client's own for its one turn. Where the context has had that key within a day, nothing happens, and
    ``written`` is what was appended then; Conflict if that is not the same. ``fs_root`` belongs to the turn, too;
    ``closes`` is the number of the open turn that it ends. ``notes`` are put in the head log as they are. ``still`` is
    asked for each state that the request may be committed to, and says whether it is to be; else Conflict.

    The writer fills in ``written`` and ``head``, and ``seq``: of its first note, or the last of its frames if it has
    none; or ``error``.
    """

    context: int | None = None
    parent: int | None = 0
    turns: Sequence[NewTurn | Turn] = ()
    blobs: list[JournalBlob] = []
    changes: bytes | None = None
    action: str = "append"
    move_head: bool = True
    types: tuple[tuple[str, int], ...] = ()
    aliases: tuple[tuple[str, bytes, Hash], ...] = ()
    dictionaries: tuple[tuple[int, Hash], ...] = ()
    expected_head: int | None = None
    name: tuple[str, str] | None = None
    expected_metadata: Mapping[str, object] | None = None
    superseded: Sequence[tuple[int, int, int]] = ()
    patches: Sequence[tuple[int, Hash, int, int]] = ()
    patch: int | None = None
    expected_turn: int | None = None
    key: bytes = b""
    fs_root: Hash | None = None
    closes: int = 0
    notes: Sequence[Body] = ()
    still: Callable[[], bool] | None = None
    relies: Region | None = None
    """The blobs that it relies on, if its caller does not hold these."""

    error: Exception | None = None
    written: list[Turn] = []
    head: ContextHead = ContextHead(0, 0, 0)
    repeated: bool = False
    seq: int = 0

    plain: bool = False
    """True if all that it does is to append a turn, with its blob, behind the head of a context, perhaps with a key."""

    size: int = 0
    """About how many bytes it takes in the journal; the writer measures it."""
    leads: bool = False
    gate: Gate | None = None
    """Opened when the request is done, or leads; None if nobody waits for that."""
    follows: bool = False
    """True if its caller waits for another one first."""
    following: "Request | None" = None
    """The next of its group whose gate is to be opened, by whoever waits at this one's."""

    def shut(self) -> None:
        """Have a thread wait for it at a gate."""
        self.gate = self.gate or Gate()

    def open(self) -> None:
        """Let the thread go on that waits for it."""
        gate = self.gate
        if gate is not None:
            gate.release()

    def pass_on(self) -> None:
        """Open the gate of the one that follows."""
        if self.following is not None:
            self.following.open()
            self.following = None

    def expect(self, head: int) -> None:
        """Require the head to be at a turn (0: the context must be empty) or at a tip; otherwise Conflict."""
        if patch_of(head):
            self.expected_head = head
        else:
            self.expected_turn = head

    def names(self) -> Iterator[Hash]:
        """Yield the names of blobs that it does not bring itself."""
        brought = {blob.hash for blob in self.blobs}
        yield from (turn.payload_hash for turn in self.turns if turn.payload_hash not in brought)
        yield from (digest for _turn, digest, _flags, _created_ms in self.patches if digest not in brought)
        yield from (digest for _algorithm, _foreign, digest in self.aliases)
        yield from (digest for _number, digest in self.dictionaries)
        yield from (note.root for note in self.notes if isinstance(note, FsRoot))
        if self.fs_root is not None:
            yield self.fs_root
        for match in HEX.finditer(self.changes or b""):
            yield Hash(bytes.fromhex(match[0].decode()))

    @property
    def deletes(self) -> bool:
        """True if it deletes its context."""
        return any(isinstance(note, Deleted) for note in self.notes)

    @property
    def place(self) -> tuple[int, bytes]:
        """The context and key to file :attr:`key` under. Keys of open turns are kept apart from clients' keys."""
        return (0 if self.closes else self.context or 0), self.key

    def measure(self) -> int:
        """Set and return :attr:`size`."""
        if self.plain:
            self.size = _PLAIN_BYTES + len(self.blobs[0].body) + len(self.key)
            return self.size
        size = 256 + 80 * len(self.turns) + 100 * len(self.aliases) + len(self.changes or b"") + len(self.action)
        size += 20 * len(self.superseded) + 52 * len(self.patches)
        for blob in self.blobs:
            size += 48 + len(blob.body)
        if self.key:
            size += 64 + len(self.key)
        for note in self.notes:
            size += 128 + (len(note.text) if isinstance(note, TextAdded) else 0)
            size += len(note.keys) if isinstance(note, Dropped) else 0
        for name, _tag in self.types:
            size += 64 + len(name) * 4
        self.size = size
        return size


_PLAIN_BYTES = 512


class Group:
    """Collects requests; :meth:`close` makes one journal entry of them.

    ``seq`` is the last number so far, ``next_context`` and ``next_patch`` are those that come next, ``heads_offset`` is
    where the first frame will lie.
    ``head`` returns the committed head of a context, ``described`` its metadata, ``named`` which one has a project and
    name (0: none); ``keyed``
    says under which of the requests' keys a turn was appended before, and which, or what is wrong with what is known.
    """

    def __init__(
        self,
        turns: TurnLog,
        seq: int,
        next_context: int,
        next_patch: int,
        heads_offset: int,
        head: Callable[[int], ContextHead],
        described: Callable[[int], Mapping[str, object]],
        named: Callable[[str, str], int],
        keyed: Mapping[KeyPlace, int | DamageError],
    ) -> None:
        self.seq = seq
        self.next_context = next_context
        self.next_patch = next_patch
        self.heads: dict[int, ContextHead] = {}
        self.frames: list[heads.HeadFrame] = []
        """The frames of the entry, once that is made."""
        self.blobs: list[JournalBlob] = []
        self.deleted: set[int] = set()
        """The contexts that are there no more."""
        self._log = turns
        self._now = now_ms()
        self._first_turn = self._next_turn = turns.count + 1
        self._heads_offset = heads_offset
        self._head = head
        self._described = described
        self._changed: set[int] = set()
        """The contexts whose metadata this group changes."""
        self._named = named
        self._keyed = keyed
        self._names: dict[tuple[str, str], int] = {}
        self._keys: dict[KeyPlace, int] = {}
        self._turns: list[bytes] = []
        self._encoded: list[bytes] = []
        self._bodies: list[heads.Body] = []
        self._owners: list[int] = []

    @property
    def empty(self) -> bool:
        """True if there is nothing to write."""
        return not (self._encoded or self._turns or self.blobs)

    def add(self, request: Request) -> None:
        """Work out one request, and fill in its ``written`` and ``head``.

        Raises what is wrong with it, and changes nothing then.
        """
        if request.still is not None and not request.still():
            raise Conflict("the store has changed meanwhile: try again")
        if request.plain:
            self._append(request)
            return
        now = self._now
        created = request.context is None
        context = self.next_context if request.context is None else request.context
        head = ContextHead(context, 0, 0)
        if not created and context:
            if context in self.deleted:
                raise NotFound(f"there is no context {context}")
            head = self.heads.get(context) or self._head(context)
        if request.key and (done := self._keys.get(request.place) or self._keyed.get(request.place)):
            if isinstance(done, DamageError):
                raise done
            self._repeat(request, done, head)
            return
        if (request.expected_head is not None and head.tip != request.expected_head) or (
            request.expected_turn is not None and head.turn != request.expected_turn
        ):
            raise Conflict(f"context {context} has moved on to turn {head.turn}: look at what is new, then try again")
        if request.expected_metadata is not None and not self._is_described(context, request.expected_metadata):
            raise Conflict(f"what context {context} is described by was changed meanwhile: look at it, then try again")
        if request.name is not None:
            holder = self._names.get(request.name) or self._named(*request.name)
            if holder not in (0, context):
                raise Conflict(f"{'/'.join(request.name)} is the name of another conversation: choose another name")
        action, after = request.action, request.parent and turn_of(request.parent)
        if action == "append" and head.turn and after not in (0, head.turn):
            action = "branch"
        parent, depth = head.turn, head.depth
        if after:
            base = self._turn(after)
            parent, depth = base.turn_id, base.depth
        elif after is None:
            parent, depth = 0, 0

        written: list[Turn] = []
        turn_id = self._next_turn
        for new in request.turns:
            depth = depth + 1 if parent else 0
            written.append(
                Turn(turn_id, parent, depth, new.codec, new.type_tag, new.payload_hash, new.flags, new.created_ms)
            )
            parent = turn_id
            turn_id += 1
        if parent >= TURNS_BEYOND:
            raise _no_room()
        patch = self._patch(request, head, created=created) if parent else 0
        records = turn_format.encode_all(written)

        # most requests are appends of one turn: nothing is gone through that is not there
        bodies: list[tuple[int, heads.Body]] = []
        if created:
            bodies.append((context, heads.ContextCreated(after or 0, now, 0)))
        if request.types:
            bodies += [(0, heads.TypeRegistered(tag, 0, name)) for name, tag in request.types]
        if request.aliases:
            bodies += [(0, heads.Alias(target, algorithm, digest)) for algorithm, digest, target in request.aliases]
        if request.dictionaries:
            bodies += [(0, heads.Dictionary(tag, target)) for tag, target in request.dictionaries]
        if context and request.move_head and (parent != head.turn or patch != head.patch):
            head = ContextHead(context, parent, depth, patch)
            bodies.append((context, heads.HeadMoved(tip_of(parent, patch), depth, now, action)))
        if request.patches:
            if self.next_patch >= PATCHES_BEYOND:
                raise UsageError(f'a store has at most {PATCHES_BEYOND - 1} patches: set edits = "branch"')
            for turn, *_what in request.patches:
                self._turn(turn)
            head = ContextHead(context, parent, depth, self.next_patch)
            bodies.append((context, heads.Patched(head.patch, patch, now, tuple(request.patches), action)))
        if request.superseded:
            bodies.append((context, heads.Superseded(self._placed(request.superseded))))
        if request.changes is not None:
            bodies.append((context, heads.Metadata(now, request.changes)))
        if request.notes:
            bodies += [(context, note) for note in request.notes]
        if request.key:
            bodies.append((request.place[0], heads.AppendNoted(parent, now, request.key)))
        if request.fs_root:
            bodies.append((context, heads.FsRoot(parent, request.fs_root)))
        if request.closes:
            bodies.append((context, heads.Closed(request.closes, parent)))
        encoded = [heads.encode(seq, *body) for seq, body in enumerate(bodies, self.seq + 1)]

        # from here on nothing can fail
        request.seq = self.seq + len(bodies)
        if request.notes:
            request.seq = self.seq + 1 + next(at for at, body in enumerate(bodies) if body[1] is request.notes[0])
        if request.key:
            self._keys[request.place] = parent
        for frame, (owner, body) in zip(encoded, bodies, strict=True):
            self._note(frame, owner, body)
        self._turns += records
        self._next_turn += len(written)
        self.next_context += created
        self.next_patch += bool(request.patches)
        if request.name is not None:
            self._names[request.name] = context
        if request.changes is not None:
            self._changed.add(context)
        if context:
            self.heads[context] = head
        if request.notes and request.deletes:
            self.deleted.add(context)
        self.blobs += request.blobs
        request.written = written
        request.head = head

    def _append(self, request: Request) -> None:
        """Work out a request that is plain: most are, so that nothing is gone through that it does not have."""
        context, key = request.context or 0, request.key
        if context in self.deleted:
            raise NotFound(f"there is no context {context}")
        head = self.heads.get(context) or self._head(context)
        if key and (done := self._keys.get((context, key)) or self._keyed.get((context, key))):
            if isinstance(done, DamageError):
                raise done
            self._repeat(request, done, head)
            return
        turn_id, parent, now = self._next_turn, head.turn, self._now
        if turn_id >= TURNS_BEYOND:
            raise _no_room()
        new, depth = request.turns[0], head.depth + 1 if parent else 0
        turn = Turn(turn_id, parent, depth, new.codec, new.type_tag, new.payload_hash, new.flags, new.created_ms)
        # from here on nothing can fail
        self._turns.append(turn_format.encode(turn))
        moved = heads.HeadMoved(tip_of(turn_id, head.patch), depth, now, "append")
        self._note(heads.encode_append(self.seq + 1, context, moved), context, moved)
        if key:
            noted = heads.AppendNoted(turn_id, now, key)
            self._note(heads.encode(self.seq + 1, context, noted), context, noted)
            self._keys[context, key] = turn_id
        request.seq = self.seq
        self._next_turn = turn_id + 1
        self.heads[context] = request.head = ContextHead(context, turn_id, depth, head.patch)
        self.blobs += request.blobs
        request.written = [turn]

    def close(self, packed: tuple[int, int]) -> JournalEntry:
        """End the group with its COMMIT and return it; ``packed`` is how far the packs are on disk."""
        commit = heads.Commit(self._next_turn - 1, *packed, self._heads_offset)
        self._note(heads.encode(self.seq + 1, 0, commit), 0, commit)
        offsets = accumulate(map(len, self._encoded), initial=self._heads_offset)
        seqs = count(self.seq - len(self._encoded) + 1)
        self.frames = list(map(heads.HeadFrame, offsets, seqs, self._owners, self._bodies))
        turns, frames = b"".join(self._turns), b"".join(self._encoded)
        return JournalEntry(self.seq, self._first_turn, turns, self._heads_offset, frames, packed, self.blobs)

    def _repeat(self, request: Request, done: int, head: ContextHead) -> None:
        """Answer a request with the turn that it has made before."""
        before, again = self._turn(done), request.turns[0]
        if (before.payload_hash, before.type_tag, before.codec) != (again.payload_hash, again.type_tag, again.codec):
            raise Conflict(f"turn {done} has this idempotency key, and is another: use a key for one turn only")
        request.written = [before]
        request.head = head
        request.repeated = True

    def _is_described(self, context: int, expected: Mapping[str, object]) -> bool:
        if context in self._changed:
            # what it is then is only known once this group is committed
            return False
        known = self._described(context)
        return all(known.get(key) == value for key, value in expected.items())

    def _patch(self, request: Request, head: ContextHead, *, created: bool) -> int:
        """Return the last patch that holds for the branch which a request makes, before those that it brings."""
        patch = request.patch
        if patch is None:
            patch = patch_of(request.parent or 0) if created else head.patch
        if patch >= self.next_patch:
            raise NotFound(f"there is no patch {patch}; the last is {self.next_patch - 1}")
        return patch

    def _placed(self, superseded: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
        """Replace the positions of a request's own turns by their ids."""
        first = self._next_turn
        return tuple((old, new if new >= 0 else first - 1 - new, count) for old, new, count in superseded)

    def _note(self, encoded: bytes, context: int, body: heads.Body) -> None:
        self.seq += 1
        self._encoded.append(encoded)
        self._bodies.append(body)
        self._owners.append(context)

    def _turn(self, turn_id: int) -> Turn:
        """Return a turn, also one of this group; NotFound if there is none, or it was reclaimed."""
        if turn_id < self._first_turn:
            turn = self._log.get(turn_id)
            if turn.reclaimed:
                raise NotFound(f"turn {turn_id} was pruned: nothing can follow it")
            return turn
        position = turn_id - self._first_turn
        if position >= len(self._turns):
            raise NotFound(f"there is no turn {turn_id} to follow")
        return turn_format.decode(self._turns[position])


def _no_room() -> UsageError:
    return UsageError(f"there is no room for more than {TURNS_BEYOND - 1} turns in a store: begin another")
