"""Redaction in a space: the same patch on all machines, and nothing older left in the space.

Who redacts holds a lease for it, and says with an entry that others are to wait with their commits (``Held``); they do
as long as the lease is alive. It works out the patch, which changes nothing yet, and puts it into the bucket. One more
entry (``Redacted``), which follows the first and no other, is the redaction: a machine that dies before that has
changed nothing, and who finds that somebody has gone on meanwhile begins again. Whoever applies entries has to apply
the patch before that one, and cannot commit before: the machine that redacts no less than the others. The chain of the
entry is that of the new history, so all have the same logs again, byte by byte.

Then the space is *purged*: entries are replaced by what they are with the patch, and the packs that were there before
by what this replica now has. Whoever has applied the patch can do that, and what was interrupted is done once more. A
machine that was away finds entries of a history that is not its own, or the ``Redacted`` one, and applies the patch
first. The patch stays in the bucket until all machines have.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from store.commit.request import Request
from store.disk.blob_format import Record, decode_record, encode_record
from store.disk.head_format import Held, Redacted, decode_all
from store.disk.journal_format import decode_entry, encode_entry
from store.errors import Conflict, DamageError, Unredacted, UsageError
from store.ids import HASH_SIZE, Hash, now_ms
from store.shared import generations, roster, snapshot
from store.shared.entry import BEGINNING, Entry, chained
from store.shared.generations import Generation
from store.shared.packs import PackNote, records_of
from store.shared.redactions import LEASE
from store.shared.replica import Replica
from store.shared.space import Log
from store.upkeep.patching import LEANING, Patch, Patched, Patching, TurnRewriter

_PUBLISHED_BYTES = 16 << 20


class SharedRedaction:
    """One redaction in a space, by the machine that holds the lease for it: see :func:`redacting`."""

    def __init__(self, store: Patched, replica: Replica) -> None:
        self._store = store
        self._replica = replica
        self._last = Generation()
        self._patch = Patch()

    @contextmanager
    def held(self) -> Iterator[int]:
        """Have all machines wait with their commits while the block runs; yields the last pack from before."""
        store, replica = self._store, self._replica
        packs = replica.take_all()
        replica.holdings.bring_all()
        held = Held(replica.member.number, now_ms())
        store.writer.submit_alone(Request(0, move_head=False, notes=[held]))
        with store.checkpointer.still():
            yield packs

    def commit(self, patch: Patch) -> None:
        """Commit the redaction, while others wait. Raises Conflict if one of them has gone on, and StoreFailed."""
        writer, replica = self._store.writer, self._replica
        space, _packs = replica.connected()
        key = f"{generations.PATCHES}{os.urandom(16).hex()}"
        last = Generation(replica.generation + 1, key, patch.seq, purged=False)
        chain = BEGINNING
        for _old, new in rewritten(space.log, patch, self._store):
            chain = new.chain
        patch = structs.replace(patch, chain=chain)
        space.bucket.put(key, patch.encoded())
        replica.history.reach(patch.seq, patch.chain)
        note = Redacted(last.generation, now_ms(), key)
        request = Request(0, move_head=False, notes=[note], still=lambda: writer.seq == patch.seq)
        try:
            writer.submit_within(request)
        except Unredacted:
            # it is in its place, and this machine has not applied it yet
            self._last, self._patch = last, patch
        except Conflict:
            space.bucket.delete(key)
            raise Conflict("another machine has gone on meanwhile: redact again") from None

    def apply(self, blank: Callable[[bytes], bytes]) -> int:
        """Apply the patch here; return how many packs were rewritten. Raises StoreFailed."""
        patching = Patching(self._store)
        with patching.standstill():
            packs = patching.rewrite(self._patch, blank)
        patching.finish()
        self._replica.renewed(self._last.generation, self._patch.seq, self._patch.chain)
        self._store.writer.catch_up()
        return packs

    def purge(self) -> None:
        """Leave nothing older in the space. Raises StoreFailed."""
        _purge(self._store, self._replica, self._patch, self._last)


@contextmanager
def redacting(store: Patched, replica: Replica) -> Iterator[SharedRedaction]:
    """Give the redaction of this machine while the block runs. Raises Conflict if another one redacts, StoreFailed.

    UsageError if this machine is no admin of the space: it could not take away what the space has.
    """
    space, _packs = replica.connected()
    if not replica.administers:
        raise UsageError(f"this machine is no admin of the space {replica.member.space}: redact on one that is")
    with replica.leases.held(space.records, LEASE, wait=True) as other:
        if other:
            names = {member.number: member.machine for member in roster.members(space.records)}
            raise Conflict(f"{names.get(other, other)} redacts in this space just now: try again later")
        _complete(store, replica)
        with replica.redactions.applying:
            yield SharedRedaction(store, replica)


def renew(store: Patched, data: bytes) -> tuple[int, bytes]:
    """Do to a store what a redaction on another machine has done to its space, and see that nothing is left.

    Returns the last commit that was rewritten, and the chain that it has now. Raises StoreFailed, DamageError.
    """
    patch = Patch.decoded(data)
    with store.rewriting.alone:
        _renew(store, patch)
    return patch.seq, patch.chain


def _renew(store: Patched, patch: Patch) -> None:
    patching = Patching(store)
    with patching.standstill():
        patching.rewrite(patch)
    patching.finish()
    gone = list(map(Hash, patch.gone))
    if store.files.index.locate(gone):
        raise DamageError("packs of this replica still have what was redacted: make another with convfs remote join")


def complete(store: Patched, replica: Replica) -> None:
    """Purge the space if whoever has redacted did not come to that. Raises StoreFailed."""
    space, _packs = replica.connected()
    if replica.member.only_follows or not replica.administers or generations.current(space.records).purged:
        return
    with store.rewriting.alone, replica.leases.held(space.records, LEASE) as other:
        if not other:
            _complete(store, replica)


def _complete(store: Patched, replica: Replica) -> None:
    space, _packs = replica.connected()
    last = generations.current(space.records)
    if not last.purged and last.generation == replica.generation:
        _purge(store, replica, Patch.decoded(space.bucket.get(last.key)), last)


def _purge(store: Patched, replica: Replica, patch: Patch, last: Generation) -> None:
    space, packs = replica.connected()
    generations.note(space.records, last)
    snapshot.drop(space)
    replica.take_all()
    if replica.holdings.filed():
        # packs of the space may have what this replica has no longer
        replica.holdings.bring_all()
        _renew(store, patch)
    _republish(store, replica, patch, [(number, note) for number, note in packs.notes() if not note.doomed_ms])
    for old, new in rewritten(space.log, patch, store, packs.known(packs.reached)):
        if new != old:
            space.log.replace(new)
    packs.remove(now_ms())
    generations.note(space.records, structs.replace(last, purged=True))
    replica.say()


def _republish(store: Patched, replica: Replica, patch: Patch, noted: Sequence[tuple[int, PackNote]]) -> None:
    """Publish what this replica has in the place of the packs from before, and of those with something that is gone."""
    _space, packs = replica.connected()
    gone = frozenset(map(Hash, patch.gone))
    old = [number for number, _note in noted if number <= patch.packs]
    for number, note in noted:
        data = packs.data(number, note) if number > patch.packs else None
        if data is not None and any(_leads_to(record, names, gone) for record, names in records_of(data, number)):
            old.append(number)
    if not old:
        return
    store.intake.cold(roll=True)
    records: list[bytes] = []
    size = 0
    for _pack, _offset, found in store.files.packs.scan():
        if isinstance(found, Record):
            records.append(encode_record(found.codec, found.raw_len, found.hash, found.stored))
            size += len(records[-1])
        if size >= _PUBLISHED_BYTES:
            replica.holdings.own(packs.publish(records, again=True))
            records, size = [], 0
    if records:
        replica.holdings.own(packs.publish(records, again=True))
    packs.doom(old, now_ms())


def _leads_to(data: bytes, names: Sequence[Hash], gone: frozenset[Hash]) -> bool:
    """Return whether a record holds one of some blobs, or is made from one."""
    record = decode_record(memoryview(data))
    return not gone.isdisjoint(names) or (
        record.compression in LEANING and Hash(bytes(record.stored[:HASH_SIZE])) in gone
    )


def rewritten(log: Log, patch: Patch, store: Patched, packs: int = 0) -> Iterator[tuple[Entry, Entry]]:
    """Yield the entries up to the commit that a patch rewrites, each as it is and as it is to be.

    The new ones name blobs in packs up to the number ``packs``.
    """
    made = patch.new
    gone = frozenset(map(Hash, patch.gone))
    chain, reached = BEGINNING, 0
    while reached < patch.seq and (found := log.entries(reached)):
        for old in found:
            if old.seq > patch.seq:
                return
            entry = decode_entry(old.body)
            heads = bytearray(entry.heads)
            for frame in decode_all(entry.heads, 0):
                if (now := patch.frames.get(frame.seq)) is not None:
                    heads[frame.offset : frame.offset + len(now)] = now
            # what was dropped before may hold anything
            riding = [blob for blob in entry.blobs if blob.hash not in gone and store.intake.has(blob.hash)]
            turns = TurnRewriter(made).records(entry.first_turn, entry.turns)
            frames = bytes(heads)
            body = old.body
            if (turns, frames, len(riding)) != (entry.turns, entry.heads, len(entry.blobs)):
                body = encode_entry(structs.replace(entry, turns=turns, heads=frames, blobs=riding))
            chain = chained(chain, body)
            reached = old.seq
            told = chain if old.chain else b""
            new = structs.replace(old, body=body, chain=told, packs=max(old.packs, packs))
            yield old, new if (body, told) != (old.body, old.chain) else old
