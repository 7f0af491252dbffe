"""Redaction in a space: the same patch on all machines, and nothing older left in the space.

Who redacts holds a lease for it, and says with an entry that others are to wait with their commits (``Held``); they do
as long as the lease is alive. It works out the patch, which changes nothing yet, and puts it into the bucket. One more
entry (``Redacted``), which follows the first and no other, is the redaction: a machine that dies before that has
changed nothing, and who finds that somebody has gone on meanwhile begins again. Whoever applies entries has to apply
the patch before that one, and cannot commit before: the machine that redacts no less than the others. The chain of the
entry is that of the new history, so all have the same logs again, byte by byte.

In an encrypted space a redaction begins with a new key, with which the patch and all that comes later are sealed.

Then the space is *purged*: entries are replaced by what they are with the patch, and the packs that were there before
by what this replica now has, all of it sealed with that key. Whoever has applied the patch can do that, and what was
interrupted is done once more. Entries are replaced from the last to the first: so at any time those that are as they
are to be follow those that are not, and no key is older than that of the entry before. A machine that was away finds
entries of a history that is not its own, or the ``Redacted`` one, and applies the patch first. Once the space is purged
each machine erases the keys from before, and says so. The patch stays in the bucket until all machines have.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from store.commit.request import Request
from store.content.sealed import leans_on
from store.disk.blob_format import decode_record
from store.disk.head_format import HeadFrame, Held, Redacted, decode_all
from store.disk.journal_format import decode_entry, encode_entry
from store.errors import Conflict, DamageError, Unredacted, UsageError
from store.ids import Hash, now_ms
from store.shared import generations, roster, snapshot
from store.shared.archive import Archive
from store.shared.entry import BEGINNING, Entry, chained
from store.shared.generations import Generation
from store.shared.packs import records_of
from store.shared.redactions import LEASE
from store.shared.replica import Replica
from store.shared.space import Log, Space
from store.upkeep.patching import Patch, Patched, Patching, TurnRewriter

_ENTRIES_AT_ONCE = 64


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
        space_key = replica.access.rotate() if replica.access is not None else 0
        key = f"{generations.PATCHES}{os.urandom(16).hex()}"
        last = generations.current(space.records).next(key, patch.seq, space_key)
        patch = structs.replace(patch, chain=_rewritten_chain(space.log, patch, self._store, patch.seq))
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


def renew(store: Patched, replica: Replica, data: bytes, log: Log) -> tuple[int, bytes]:
    """Do to a store what a redaction on another machine has done to its space, and see that nothing is left.

    Returns a commit and the chain that it has now: the last that was rewritten or, if this replica had not come so far
    and cannot say what its own last one has, that one. Raises StoreFailed, DamageError.
    """
    patch = Patch.decoded(data)
    with store.rewriting.alone:
        _renew(store, patch)
    seq = store.writer.seq
    if seq >= patch.seq or replica.history.logged(seq, anew=True):
        return patch.seq, patch.chain
    # what follows may be replaced in the space already, and this one not
    return seq, _rewritten_chain(log, patch, store, seq)


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
    if replica.member.only_follows or not replica.administers:
        return
    last = generations.current(space.records)
    if last.generation == replica.generation and last.purged:
        return
    with store.rewriting.alone, replica.leases.held(space.records, LEASE) as other:
        if not other:
            _complete(store, replica)


def _complete(store: Patched, replica: Replica) -> None:
    space, _packs = replica.connected()
    last = generations.current(space.records)
    if last.generation < replica.generation:
        last = _committed(store, replica, space, last) or last
    if not last.purged and last.generation == replica.generation:
        _purge(store, replica, Patch.decoded(space.bucket.get(last.key)), last)


def _committed(store: Patched, replica: Replica, space: Space, noted: Generation) -> Generation | None:
    """Return the redaction that this replica has applied and nobody has noted yet, as the log has it."""
    for frame in store.files.heads.frames():
        body = frame.body if isinstance(frame, HeadFrame) else None
        if isinstance(body, Redacted) and body.generation == replica.generation:
            seq = Patch.decoded(space.bucket.get(body.key)).seq
            return noted.next(body.key, seq, space.log.entries(seq)[0].generation)
    return None


def _purge(store: Patched, replica: Replica, patch: Patch, last: Generation) -> None:
    space, packs = replica.connected()
    generations.note(space.records, last)
    archive = Archive(space)
    # what was about to be archived as it was is not, and what was archived is in the archive alone
    archive.bar()
    space.log.trim()
    snapshot.drop(space)
    if replica.access is not None:
        replica.access.reseal_invitations()
    # what is sealed with the key from before has a number by now, or gets none
    packs.bar(now_ms())
    replica.take_all()
    if replica.holdings.filed():
        # packs of the space may have what this replica has no longer
        replica.holdings.bring_all()
        _renew(store, patch)
    _republish(store, replica, patch, last.space_key)
    _replace(space, patch, store, packs.known(packs.reached), last.space_key)
    # also of machines that were killed before they had named theirs
    archive.remove(archive.objects())
    packs.remove(now_ms())
    generations.note(space.records, structs.replace(last, purged=True))
    replica.say()


def _replace(space: Space, patch: Patch, store: Patched, packs: int, space_key: int) -> None:
    """Replace the entries up to the commit that a patch rewrites, from the last to the first, then the archive."""
    log, archive = space.log, Archive(space)
    archived = archive.now().seq
    rewriter = _Rewriter(patch, store)
    places: list[tuple[int, bytes]] = []
    reached = 0
    for number, old in enumerate(_entries(log, 0, patch.seq)):
        if old.prev == archived or (old.prev > archived and number % _ENTRIES_AT_ONCE == 0):
            places.append((old.prev, rewriter.chain))
        rewriter(old)
        reached = old.seq
    until = reached

    def to_be(new: Entry) -> Entry:
        return structs.replace(new, packs=max(new.packs, packs), generation=max(new.generation, space_key))

    for after, chain in reversed(places):
        rewriter = _Rewriter(patch, store, chain)
        some = [(old, to_be(rewriter(old))) for old in _entries(log, after, until)]
        for old, new in reversed(some):
            if (new.body, new.chain, new.generation) != (old.body, old.chain, old.generation):
                log.replace(new)
        until = after

    def changing() -> Callable[[Entry], Entry]:
        rewriter = _Rewriter(patch, store)
        return lambda old: to_be(rewriter(old)) if old.seq <= patch.seq else old

    archive.rewrite(changing, space_key)


def _republish(store: Patched, replica: Replica, patch: Patch, space_key: int) -> None:
    """Publish what this replica has in the place of the packs from before, and of those with something that is gone."""
    space, packs = replica.connected()
    gone = frozenset(map(Hash, patch.gone))
    old: list[int] = []
    for number, note in packs.notes():
        if note.doomed_ms:
            continue
        if number <= patch.packs or space.sealed_with(note.key) < space_key:
            old.append(number)
            continue
        data = packs.data(number, note)
        if data is not None and any(_leads_to(record, names, gone) for record, names in records_of(data, number)):
            old.append(number)
    if not old:
        return
    store.intake.cold(roll=True)
    replica.publish_all(packs, again=True)
    packs.doom(old, now_ms())


def _leads_to(data: bytes, names: Sequence[Hash], gone: frozenset[Hash]) -> bool:
    """Return whether a record holds one of some blobs, or is made from one."""
    return not gone.isdisjoint(names) or leans_on(decode_record(memoryview(data))) in gone


class _Rewriter:
    """Makes of entries, one after the other, what they are with a patch. ``chain`` is that of the last one by then."""

    def __init__(self, patch: Patch, store: Patched, chain: bytes = BEGINNING) -> None:
        self.chain = chain
        self._frames = patch.frames
        self._turns = TurnRewriter(patch.new)
        self._gone = frozenset(map(Hash, patch.gone))
        self._has = store.intake.has

    def __call__(self, old: Entry) -> Entry:
        entry = decode_entry(old.body)
        heads = bytearray(entry.heads)
        for frame in decode_all(entry.heads, 0):
            if (now := self._frames.get(frame.seq)) is not None:
                heads[frame.offset : frame.offset + len(now)] = now
        # what was dropped before may hold anything
        riding = [blob for blob in entry.blobs if blob.hash not in self._gone and self._has(blob.hash)]
        turns = self._turns.records(entry.first_turn, entry.turns)
        frames = bytes(heads)
        body = old.body
        if (turns, frames, len(riding)) != (entry.turns, entry.heads, len(entry.blobs)):
            body = encode_entry(structs.replace(entry, turns=turns, heads=frames, blobs=riding))
        self.chain = chained(self.chain, body)
        return structs.replace(old, body=body, chain=self.chain if old.chain else b"")


def _entries(log: Log, after: int, until: int) -> Iterator[Entry]:
    """Yield the entries behind one commit, up to another."""
    while after < until and (found := log.entries(after)):
        for entry in found:
            if entry.seq > until:
                return
            yield entry
        after = found[-1].seq


def _rewritten_chain(log: Log, patch: Patch, store: Patched, until: int) -> bytes:
    """Return the chain that the commit ``until`` has with a patch."""
    rewriter = _Rewriter(patch, store)
    for entry in _entries(log, 0, until):
        rewriter(entry)
    return rewriter.chain
