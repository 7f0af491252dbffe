"""Contexts: created, forked, appended to, patched, and read as branches of turns.

Patches: turns of a context are shown with other payloads from then on, and nothing is appended. Names that other
records refer to must stay the same, since these records keep their measures.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import lru_cache

import msgspec
from msgspec import Struct, structs

from store.commit.intake import Intake
from store.commit.reliance import Region
from store.commit.request import ContextHead, NewTurn, Request
from store.commit.writer import Writer
from store.content.compression import LEAST_BYTES
from store.conversations import branch
from store.conversations.canonical import Hooks
from store.conversations.chain import Recorded
from store.conversations.library import Library
from store.conversations.viewer import LARGEST_VIEWED
from store.disk import turn_format
from store.disk.blob_format import Form
from store.disk.head_format import FsRoot, HeadMoved, Patched, TypeRegistered
from store.disk.journal_format import JournalBlob
from store.disk.turn_format import Encoding, Turn
from store.errors import Conflict, ConvfsError, NotFound, TooLarge, UsageError
from store.events.conversation import outputs_of
from store.events.event import DELETED, Replacement, named
from store.ids import HASH_SIZE, Hash, hash_bytes, now_ms, patch_of, tip_of, turn_of, type_tag
from store.index.notes import Notes

# looked up once, for every append
_PLAIN = Form.PLAIN
_LONGEST_TYPE = 1024
_LONGEST_KEY = 1024
_LOOKED_THROUGH = 1000
"""The number of contexts, those with the nearest heads, that are asked whether a turn is theirs."""


class Append(Struct, frozen=True):
    """One turn to append: the producer's bytes, the name of their type, and how they are encoded.

    Those that are ``imported`` are stored as they come, whatever their type asks for.
    """

    payload: bytes
    type_name: str
    encoding: int = Encoding.JSON
    type_version: int = 0
    created_ms: int = 0
    imported: bool = False


class Contexts:
    """The contexts of one store. Safe to call from any thread.

    ``flush`` brings everything that was committed into the packs. ``hooks`` say in which form payloads are stored when
    they are appended.
    """

    def __init__(
        self,
        writer: Writer,
        intake: Intake,
        library: Library,
        flush: Callable[[], None],
        hooks: Hooks,
    ) -> None:
        self._writer = writer
        self._intake = intake
        self._library = library
        self._turns = library.turns
        self._flush = flush
        self._notes = Notes(writer.index.db)
        self.hooks = hooks
        self.labelling = threading.Lock()
        """Held while labels are changed: often that is to read them first."""

    # -- reading ---------------------------------------------------------------------------------------------------

    def exists(self, context_id: int) -> bool:
        """Return whether there is a context of that id."""
        try:
            self._writer.head(context_id)
        except NotFound:
            return False
        return True

    def tip(self, context_id: int, seq: int | None = None) -> int:
        """Return the tip of a context, now or as of the frame ``seq`` of the head log; 0 if it was empty then.

        NotFound if there is no such context, or it is not known any more what it was then.
        """
        if seq is None:
            return self._writer.head(context_id).tip
        self._library.catalogue.entry(context_id)
        earlier = [version.head for version in self._library.catalogue.versions(context_id) if version.seq <= seq]
        if not earlier:
            if self._library.catalogue.pruned_versions(context_id):
                raise NotFound(f"what context {context_id} was at {seq} was pruned")
            return 0
        # a version grows with appends: its length at the time
        turns, frames = self._writer.head_log.group_at(seq)
        there = self._turns.at(earlier[-1], turns)
        tip = tip_of(there, patch_of(earlier[-1]) if there else 0)
        for body in (frame.body for frame in frames if frame.context == context_id):
            if isinstance(body, HeadMoved):
                tip = body.tip
            elif isinstance(body, Patched):
                tip = tip_of(turn_of(tip), body.number)
        return tip

    def last(self, context_id: int, count: int, *, latest: bool = False, as_of: int | None = None) -> list[Turn]:
        """Return the last ``count`` turns of a context, oldest first.

        As they were appended; ``latest``: as they now are, through patches, and what was deleted flagged so. ``as_of``
        is a seq of the head log: as they were then, through the patches of that time.
        """
        return self._turns.back(self._end(context_id, latest, as_of), count)

    def before(
        self, context_id: int, turn_id: int, count: int, *, latest: bool = False, as_of: int | None = None
    ) -> list[Turn]:
        """Return the ``count`` turns before ``turn_id`` in a context, oldest first, without it; else as :meth:`last`.

        Of a turn that an edit has superseded, those that it was appended after; ``latest``: those before what became
        of it, or before what is now at its depth. NotFound if the turn neither is in the context nor ever was.
        """
        turn = self._turns.get(turn_of(turn_id))
        end = self._end(context_id, latest, as_of)
        depth = turn.depth
        if self._turns.ancestor(end, depth) != turn.turn_id:
            became = self._library.lineage.successor(context_id, turn.turn_id)
            if became is None:
                raise NotFound(f"turn {turn_id} is not in context {context_id}")
            if not latest and as_of is None:
                end = turn.turn_id
            elif became:
                depth = self._turns.get(became).depth
        return self._turns.back(self._before(end, depth), count)

    def range_by_depth(
        self, context_id: int, start: int, count: int, *, latest: bool = False, as_of: int | None = None
    ) -> list[Turn]:
        """Return up to ``count`` turns of a context from depth ``start`` (the root's is 0) on; else as :meth:`last`."""
        return self._turns.range_to(self._end(context_id, latest, as_of), start, count)

    def _end(self, context_id: int, latest: bool, as_of: int | None) -> int:
        if as_of is not None:
            return self.tip(context_id, as_of)
        head = self._writer.head(context_id)
        return head.tip if latest else head.turn

    def _before(self, tip: int, depth: int) -> int:
        """Return the tip of the part of a branch that is less deep than ``depth``."""
        if not tip or not depth:
            return 0
        return tip_of(self._turns.ancestor(tip, min(depth - 1, self._turns.get(tip).depth)), patch_of(tip))

    def _position(self, context_id: int, turn_id: int) -> Turn:
        """Return a turn that must be in a context."""
        turn = self._turns.get(turn_of(turn_id))
        if self._turns.ancestor(self._writer.head(context_id).turn, turn.depth) != turn.turn_id:
            raise NotFound(f"turn {turn_id} is not in context {context_id}")
        return turn

    def _became(self, head: ContextHead, turn: Turn) -> int | None:
        """Return the turn that a turn has become in a context's branch: itself, its replacement, or 0 if taken out.

        None if neither it nor a replacement ever was in an edited branch of this context.
        """
        if self._turns.ancestor(head.turn, turn.depth) == turn.turn_id:
            return turn.turn_id
        return self._library.lineage.successor(head.context, turn.turn_id)

    def _goes_on_at(self, head: ContextHead, turn: Turn) -> int:
        """Return the turn of a context's branch to continue from when a caller continues after ``turn``.

        For a turn that was taken out, this is the turn now at its depth, or the end of the branch. A turn that never
        was in an edited branch of this context stands for itself.
        """
        became = self._became(head, turn)
        if became is None:
            return turn.turn_id
        return became or self._turns.ancestor(head.turn, min(turn.depth, head.depth))

    # -- appending -------------------------------------------------------------------------------------------------

    def create(self, base_turn: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context whose branch is empty, or ends in ``base_turn`` (or tip); durable when it returns."""
        changes = _json(metadata) if metadata else None
        return self._writer.submit(Request(None, parent=base_turn, changes=changes, action="create")).head

    def fork(self, context_id: int, at: int = 0, *, metadata: dict[str, object] | None = None) -> ContextHead:
        """Create a context that branches off another at turn ``at`` (0: its head). Copies nothing, shares its outputs.

        NotFound if there is no such context, or ``at`` is not in it.
        """
        head = self._writer.head(context_id)
        if at:
            self._position(context_id, at)
        base = turn_of(at) or head.turn
        forked: dict[str, object] = outputs_of(self._library.catalogue.entry(context_id).metadata)
        forked |= {"forked_from": {"context": context_id, "turn": base}, **(metadata or {})}
        parent = tip_of(base, head.patch)
        return self._writer.submit(Request(None, parent=parent, changes=_json(forked), action="fork")).head

    def fork_at(self, turn_id: int) -> ContextHead:
        """Create a context that branches off at a turn, as :meth:`fork` does, of a context that has the turn.

        Of several, it is that which goes on least after it; without one, as :meth:`create`.
        """
        turn = self._turns.get(turn_of(turn_id))
        heads = sorted((turn_of(tip), context) for context, tip in self._library.catalogue.states())
        behind = heads[bisect_left(heads, (turn.turn_id, 0)) :]
        for tip, context in behind[:_LOOKED_THROUGH]:
            if self._turns.ancestor(tip, turn.depth) == turn.turn_id:
                with suppress(NotFound):
                    return self.fork(context, turn.turn_id)
        return self.create(turn_id)

    def append(
        self,
        context_id: int,
        payload: bytes,
        type_name: str,
        *,
        encoding: int = Encoding.JSON,
        type_version: int = 0,
        parent: int = 0,
        expected_head: int | None = None,
        idempotency_key: bytes = b"",
        fs_root: bytes | None = None,
        created_ms: int = 0,
    ) -> Turn:
        """Append one turn to a context and return it once it is durable.

        It follows ``parent`` (0: the head), or what an edit has put in its place, and the context's head moves to it.
        ``expected_head`` is the turn (0: none), or the tip, that the head must be at, else Conflict. With an
        ``idempotency_key``, the same turn appended once more within a day is returned as it was, and another is a
        Conflict. ``fs_root`` as of :meth:`attach_fs`.
        """
        item = Append(payload, type_name, encoding, type_version, created_ms)
        request = None
        if not parent:
            request = self.appending(
                context_id, item, expected_head=expected_head, idempotency_key=idempotency_key, fs_root=fs_root
            )
        if request is None:
            items = self._in_form([item])
            return self._append_many(context_id, items, parent, expected_head, idempotency_key, fs_root)[0]
        return self._writer.submit(request).written[0]

    def appending(
        self,
        context_id: int,
        item: Append,
        *,
        expected_head: int | None = None,
        idempotency_key: bytes = b"",
        fs_root: bytes | None = None,
        digest: Hash | None = None,
    ) -> Request | None:
        """Return the request that :meth:`append` submits, for submitting many at once (:meth:`Writer.submit_all`).

        The new turn follows the head. None where the payload is so large that it does not go through the journal.
        ``digest`` is the hash of the payload, where the caller has taken it.
        """
        # append_many for one turn, the most common case
        payload, writer = item.payload, self._writer
        if self.hooks and not item.imported:
            payload, digest = self.hooks.apply(payload, item.type_name, item.encoding), None
        size = len(payload)
        if size > writer.journalled_bytes:
            return None
        digest = digest or hash_bytes(payload)
        turn = self.new_turn(digest, item.type_name, item.encoding, item.type_version, item.created_ms)
        request = Request(context_id, 0, (turn,), [JournalBlob(digest, _PLAIN, size, payload)])
        if idempotency_key:
            request.key = _key(idempotency_key)
        if turn.type_tag in writer.types and expected_head is None and fs_root is None:
            request.plain = True
            return request
        self._known(context_id)
        request.types = self._writer.types_for((item.type_name,))
        if expected_head is not None:
            request.expect(expected_head)
        if fs_root is not None:
            request.relies = self._intake.reliance.region()
            request.fs_root = self.held_root(fs_root, request.relies)
        return request

    def append_many(self, context_id: int, items: Sequence[Append], *, parent: int = 0) -> list[Turn]:
        """Append turns that follow each other; all of them become durable, or none."""
        return self._append_many(context_id, self._in_form(items), parent) if items else []

    def _append_many(
        self,
        context_id: int,
        items: Sequence[Append],
        parent: int,
        expected: int | None = None,
        key: bytes = b"",
        fs_root: bytes | None = None,
    ) -> list[Turn]:
        self._known(context_id)
        with self._intake.reliance.relying():
            root = None if fs_root is None else self.held_root(fs_root, self._intake.reliance.region())
            turns = [self.described(item) for item in items]
            fresh = self.journalled([item.payload for item in items])
            types = self._writer.types_for([item.type_name for item in items])
            while True:
                request = Request(context_id, parent, turns, fresh, types=types, key=_key(key), fs_root=root)
                if expected is not None:
                    request.expect(expected)
                if not parent:
                    return self._writer.submit(request).written
                now = self._writer.head(context_id)
                request.parent = self._goes_on_at(now, self._turns.get(turn_of(parent)))
                if request.expected_head is None:
                    request.expected_head = now.tip
                try:
                    return self._writer.submit(request).written
                except Conflict:
                    # an edit may have superseded the parent meanwhile
                    if expected is not None or self._writer.head(context_id).tip == now.tip:
                        raise

    def _known(self, context_id: int) -> None:
        # a request for context 0 is one for none, which is not for callers to make
        if context_id <= 0:
            raise NotFound(f"there is no context {context_id}")

    def journalled(self, payloads: Iterable[bytes], earlier: Mapping[Hash, Hash] | None = None) -> list[JournalBlob]:
        """Return what a request must bring for turns with these payloads: nothing where it is better packed at once.

        The request is made in the same ``relying()``. ``earlier`` says of payloads, by their hashes, which one each
        takes the place of: so an edit of a large one takes little. TooLarge if one is.
        """
        earlier = earlier or {}
        blobs: dict[Hash, JournalBlob] = {}
        for payload in payloads:
            if len(payload) > LARGEST_VIEWED:
                raise TooLarge(f"a payload of {len(payload)} bytes is too large: {LARGEST_VIEWED} at most")
            digest = hash_bytes(payload)
            blobs[digest] = JournalBlob(digest, _PLAIN, len(payload), payload)
        if sum(blob.raw_len for blob in blobs.values()) <= self._writer.journalled_bytes:
            self._intake.note_earlier(earlier)
            return list(blobs.values())
        if any(digest in self._writer.pending for digest in earlier.values()):
            # a base must lie in the packs
            self._flush()
        load = self._intake.load()
        load.payloads([blob.body for blob in blobs.values()], earlier)
        load.sync()
        return []

    def set_metadata(self, context_id: int, changes: dict[str, object]) -> None:
        """Change metadata of a context: keys replace, None removes."""
        self.exchange_metadata(context_id, changes, None)

    def exchange_metadata(
        self,
        context_id: int,
        changes: dict[str, object],
        expected: Mapping[str, object] | None,
        still: Callable[[], bool] | None = None,
    ) -> None:
        """Change metadata so where the values ``expected`` are there (None: whatever is); else raise Conflict.

        ``still`` is asked when the change is committed whether what it was worked out from is so, too.
        """
        self._known(context_id)
        with self.labelling if "labels" in changes else nullcontext():
            self._writer.submit(Request(context_id, changes=_json(changes), expected_metadata=expected, still=still))

    def canonicalize(self, type_name: str) -> None:
        """Store payloads of a type that are appended in their canonical form, until the store is closed.

        Those in other encodings than JSON, MessagePack and CBOR have none.
        """
        self.hooks.add(type_name)

    def _in_form(self, items: Sequence[Append]) -> Sequence[Append]:
        if not self.hooks:
            return items
        apply = self.hooks.apply
        return [
            one
            if one.imported
            else structs.replace(one, payload=apply(one.payload, one.type_name, one.encoding))
            for one in items
        ]

    def described(self, item: Append) -> NewTurn:
        """Describe the turn that an append makes."""
        digest = hash_bytes(item.payload)
        return self.new_turn(digest, item.type_name, item.encoding, item.type_version, item.created_ms)

    @staticmethod
    def new_turn(digest: Hash, type_name: str, encoding: int, type_version: int = 0, created_ms: int = 0) -> NewTurn:
        """Describe a turn whose payload is the blob ``digest``. UsageError where a number is out of range."""
        if created_ms and not 0 < created_ms < 1 << 63:
            raise UsageError(f"{created_ms} is no time in milliseconds since 1970")
        tag, codec, wide = _spelled(type_name, encoding, type_version)
        return NewTurn(digest, tag, codec, wide, created_ms or now_ms())

    # -- what else is noted ----------------------------------------------------------------------------------------

    def attach_fs(self, turn_id: int, root: bytes) -> None:
        """Record the tree ``root``, 32 bytes, as the files that a turn was made with, from now on.

        NotFound if there is no such turn, or no such blob: the tree comes first. What it names may come later.
        """
        turn = self._turns.get(turn_of(turn_id))
        with self._intake.reliance.relying() as region:
            self._writer.submit(Request(0, move_head=False, notes=[FsRoot(turn.turn_id, self.held_root(root, region))]))

    def held_root(self, root: bytes, region: Region) -> Hash:
        """Return the name of a tree of files that the store has; it stays while ``region`` is held.

        NotFound if it has none of that name.
        """
        digest = fs_root_of(root)
        if not self._intake.held([digest], region):
            raise NotFound(f"the tree {digest.hex()} is not in this store: put its blob there first")
        return digest

    def fs_root(self, turn_id: int) -> Hash | None:
        """Return the root of the tree of files that was attached to a turn, None if none was."""
        turn = self._turns.get(turn_of(turn_id))
        self._writer.settle()
        return self._notes.fs_root(turn.turn_id)

    @property
    def has_fs_roots(self) -> bool:
        """True if a tree of files was attached to any turn."""
        self._writer.settle()
        return self._notes.has_fs_roots

    def fs_roots(self, context_id: int, tip: int) -> dict[int, Hash]:
        """Return the roots of the trees of files in a branch of a context, by the numbers of its records, from 1 on.

        A record that an edit has moved or changed keeps the tree that it was made with.
        """
        moved: dict[int, Hash] = {}
        for step in self._library.catalogue.superseded(context_id):
            here = self._roots_within(step.old, step.count, moved)
            moved |= {step.of(turn): root for turn, root in here.items() if step.new}
        found: dict[int, Hash] = {}
        number = 1
        for first, count in branch.plain(self._library.records.runs(tip)) if tip else ():
            found |= {
                number + turn - first: root for turn, root in sorted(self._roots_within(first, count, moved).items())
            }
            number += count
        return found

    def _roots_within(self, first: int, count: int, moved: Mapping[int, Hash]) -> dict[int, Hash]:
        some = range(first, first + count)
        here = {turn: moved[turn] for turn in (some if count < len(moved) else moved) if turn in some and turn in moved}
        return here | self._notes.fs_roots(first, count)

    def register_type(self, name: str, version: int = 0) -> int:
        """Record that there are payloads of this version of a type; return the type's tag."""
        tag = self.new_turn(Hash(bytes(HASH_SIZE)), name, Encoding.UNKNOWN, version).type_tag
        self._writer.settle()
        if (tag, version, name) not in self._writer.index.types():
            self._writer.submit(Request(0, move_head=False, notes=[TypeRegistered(tag, version, name)]))
        return tag

    # -- patching --------------------------------------------------------------------------------------------------

    def patch(
        self, context_id: int, changes: Mapping[int, Replacement], *, expected_head: int | None = None
    ) -> ContextHead:
        """Give turns of a context other payloads, or delete them (DELETED), by one patch; return the head.

        A turn that an edit has superseded stands for its successor. ``expected_head`` is the turn, or the tip, that
        the head must be at, else Conflict. NotFound for a turn that is not in the context; UsageError where a payload
        is too large, or records after it could no longer refer to what it defines.
        """
        self._known(context_id)
        with self._writer.precedence.attempts(context_id) as attempt:
            while True:
                attempt()
                head = self._writer.head(context_id)
                if expected_head is not None and expected_head not in (head.turn, head.tip):
                    raise Conflict(
                        f"context {context_id} has moved on to turn {head.turn}: look at what is new, then try again"
                    )
                request, payloads, earlier = self._patched(head, changes)
                if not request.patches:
                    return head
                try:
                    with self._intake.reliance.relying():
                        request.blobs = self.journalled(payloads, earlier)
                        return self._writer.submit(request).head
                except Conflict:
                    # it is made to what the context is when it is committed, if that is what is expected
                    continue

    def defines_the_same(self, turn: Turn, payload: bytes) -> bool:
        """Return whether other records can refer to a record as before, once it has another payload."""
        if self._library.contents.blobs.size(turn.payload_hash) > LARGEST_VIEWED:
            return False
        try:
            was = self._library.contents.payload(turn.turn_id)
        except ConvfsError:
            # the names that it defined are no longer known
            return False
        lens, before = self._library.viewer.lens(turn), Recorded("", 0, self._library.contents.aliased)
        seen = (lens.view(data, before).defines for data in (was, payload))
        return next(seen) == next(seen)

    def _patched(
        self, head: ContextHead, changes: Mapping[int, Replacement]
    ) -> tuple[Request, list[bytes], dict[Hash, Hash]]:
        """Return the request for a patch, the payloads that are new, and by their hashes those that they replace."""
        turns: dict[int, tuple[int, Hash, int, int]] = {}
        numbers: dict[int, Replacement] = {}
        payloads: list[bytes] = []
        earlier: dict[Hash, Hash] = {}
        for turn_id, content in changes.items():
            turn = self._present(head, turn_id)
            if content is DELETED:
                if turn.deleted:
                    continue
                what = (turn.payload_hash, turn.flags | turn_format.DELETED, turn.created_ms)
            else:
                digest = hash_bytes(content)
                if digest == turn.payload_hash and not turn.deleted:
                    continue
                if not self.defines_the_same(turn, content):
                    raise UsageError(
                        f"records refer to what turn {turn_id} defines: edit it, with all after it, instead"
                    )
                payloads.append(content)
                if len(content) >= LEAST_BYTES:
                    earlier[digest] = turn.payload_hash
                what = (digest, turn.flags & ~turn_format.DELETED | turn_format.EDITED, now_ms())
            place = turn_of(turn.turn_id)
            turns[place] = (place, *what)
            numbers[turn.depth + 1] = content
        patches = [turns[place] for place in sorted(turns)]
        request = Request(head.context, action=named(numbers), expected_head=head.tip, patches=patches)
        return request, payloads, earlier

    def _present(self, head: ContextHead, turn_id: int) -> Turn:
        """Return what a turn of a context now is, as it is seen."""
        became = self._became(head, self._turns.get(turn_of(turn_id)))
        if became is None or (became and self._became(head, self._turns.get(became)) != became):
            raise NotFound(f"turn {turn_id} is not in context {head.context}")
        if not became:
            raise NotFound(f"turn {turn_id} is no longer in context {head.context}: an edit has taken it out")
        return self._turns.get(tip_of(became, head.patch))


def fs_root_of(root: bytes) -> Hash:
    """Return the name of a tree of files; UsageError if it cannot be one."""
    if len(root) != HASH_SIZE:
        raise UsageError(f"the root of a file system has {HASH_SIZE} bytes, not {len(root)}")
    return Hash(root)


@lru_cache(maxsize=1024)
def _spelled(type_name: str, encoding: int, type_version: int) -> tuple[int, int, int]:
    """Return the tag, the codec and the flags of turns of a type. UsageError where a number is out of range."""
    if len(type_name) > _LONGEST_TYPE:
        raise UsageError(f"the name of a type has {len(type_name)} characters: {_LONGEST_TYPE} at most")
    if not 0 <= encoding < 1 << 32:
        raise UsageError(f"an encoding is a number of 32 bits: {encoding} is none")
    wide = encoding & turn_format.WIDE_ENCODING
    try:
        return type_tag(type_name), turn_format.codec(encoding - wide, type_version), wide
    except ValueError as error:
        raise UsageError(str(error)) from None


def _key(key: bytes) -> bytes:
    if len(key) > _LONGEST_KEY:
        raise UsageError(f"an idempotency key of {len(key)} bytes is too long: {_LONGEST_KEY} at most")
    return key


def _json(metadata: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(metadata)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"metadata must be what JSON can hold: {error}") from None
