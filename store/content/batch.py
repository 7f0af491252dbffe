"""Many blobs at once: one pass over the packs for the blobs, one more for contents that lie elsewhere.

A content that is a delta takes one pass more for each base down to the one that lies there whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from store.content.cutting import join
from store.content.opened import Opened
from store.content.sealed import SealedGroup, is_inner
from store.content.shelf import Shelf
from store.content.source import Place
from store.disk import skeleton_format
from store.disk.blob_format import Chunk, Form
from store.disk.skeleton_format import Skeleton
from store.errors import ConvfsError, DamageError
from store.ids import Hash

_DEEPEST = 64


class Batch:
    """Gathers blobs and everything that they are made of, then puts them together. Of one thread, used once.

    Without ``contents``, what is cut out of skeletons is not read: then they can only be asked what that is.
    """

    def __init__(self, shelf: Shelf, *, contents: bool = True) -> None:
        self._shelf = shelf
        self._contents = contents
        self._at_hand: dict[Hash, Opened] = {}
        self._sealed: dict[Hash, tuple[SealedGroup, int]] = {}
        self._waiting: dict[Hash, tuple[Form, bytes]] = {}
        self._bodies: dict[Hash, bytes] = {}
        self._skeletons: dict[Hash, Skeleton] = {}
        self._lists: dict[Hash, list[Chunk]] = {}
        self._deltas: dict[Hash, Opened] = {}
        self._late: dict[Hash, None] = {}
        """Skeletons that are deltas: what they need is known when their bases have been gathered."""

    def gather(self, digests: Sequence[Hash]) -> None:
        """Read what ``digests`` need; what cannot be read is missing afterwards."""
        seen: set[Hash] = set()
        todo = digests
        while todo or self._late:
            if todo:
                seen.update(todo)
                self._look_up(todo)
            else:
                todo = self._patched()
            needs: dict[Hash, None] = {}
            for digest in todo:
                try:
                    self._take(digest, needs)
                except ConvfsError:
                    continue
            todo = [digest for digest in needs if digest not in seen]

    def references(self, digest: Hash) -> list[Hash]:
        """Return the contents that are cut out of a blob, each once, in order; none if it was not gathered."""
        skeleton = self._skeletons.get(digest)
        return list(dict.fromkeys(cut[3] for cut in skeleton.cuts)) if skeleton else []

    def assemble(self, digest: Hash, depth: int = 0) -> bytes:
        """Return a blob, not yet compared with its hash. Raises KeyError for what is missing, DamageError."""
        skeleton = self._skeletons.get(digest)
        if skeleton is None:
            if digest in self._deltas and digest not in self._late:
                self._bodies[digest] = self._patch(digest, depth)
            chunks = self._lists.get(digest)
            return self._bodies[digest] if chunks is None else self._joined(chunks)
        if depth > _DEEPEST:
            raise DamageError(f"blob {digest.hex()} contains itself")
        bodies = self._bodies
        for cut in skeleton.cuts:
            content = cut[3]
            if content not in bodies:
                bodies[content] = self.assemble(content, depth + 1)
        return join(skeleton, bodies)

    def _patch(self, digest: Hash, depth: int) -> bytes:
        """Return the body of a delta; errors as in :meth:`assemble`."""
        if depth > _DEEPEST:
            raise DamageError(f"blob {digest.hex()} contains itself")
        opened = self._deltas[digest]
        base = opened.lacks
        if base is not None:
            opened.patch(self.assemble(base, depth + 1))
        body = opened.body(opened.members[digest])
        del self._deltas[digest]
        return body

    def _patched(self) -> list[Hash]:
        """Make the body of a skeleton that is a delta, one that no other waits for; return it if that could be done."""
        digest = next(reversed(self._late))
        for _ in range(_DEEPEST):
            base = self._deltas[digest].base
            if base is None or base not in self._late:
                break
            digest = base
        del self._late[digest]
        try:
            self._patch(digest, 0)
        except (ConvfsError, KeyError):
            del self._deltas[digest]
            return []
        return [digest]

    def _joined(self, chunks: list[Chunk]) -> bytes:
        pieces = []
        for digest, length in chunks:
            piece = self._bodies[digest]
            if len(piece) != length:
                raise DamageError(f"chunk {digest.hex()} has another length than it should")
            pieces.append(piece)
        return b"".join(pieces)

    def _look_up(self, digests: Sequence[Hash]) -> None:
        at_hand, pending = self._at_hand, self._shelf.source.pending
        missing = []
        for digest in digests:
            if digest in at_hand:
                continue
            waiting = pending(digest)
            if waiting is None:
                missing.append(digest)
            else:
                self._waiting[digest] = waiting
        if missing:
            found = self._shelf.source.locations(missing)
            sealed = self._read({location[:2] for locations in found.values() for location in locations})
            if sealed:
                self._note_sealed(found, sealed)

    def _note_sealed(
        self, found: Mapping[Hash, Sequence[tuple[int, int, int]]], sealed: Mapping[Place, SealedGroup]
    ) -> None:
        """Note which blobs are in sealed groups, as far as the index knows: these do not say."""
        expected: dict[Place, list[int]] = {}
        for digest, locations in found.items():
            if digest not in self._at_hand:
                for pack, offset, member in locations:
                    if (group := sealed.get((pack, offset))) is not None:
                        self._sealed[digest] = group, member
                        expected.setdefault((pack, offset), []).append(member)
        for place, members in expected.items():
            # what is damaged shows where it is asked for
            with suppress(DamageError):
                sealed[place].expect(members)

    def _read(self, places: set[Place]) -> dict[Place, SealedGroup]:
        """Open the records at ``places``; return those that are sealed groups."""
        shelf, at_hand = self._shelf, self._at_hand
        sealed: dict[Place, SealedGroup] = {}
        unread = []
        for place in places:
            opened = shelf.kept(place)
            if opened is None:
                unread.append(place)
            elif opened.sealed is not None:
                sealed[place] = opened.sealed
            else:
                at_hand.update(dict.fromkeys(opened.members, opened))
        if not unread:
            return sealed
        unread.sort()
        for place, record in shelf.source.read_many(unread):
            if isinstance(record, ConvfsError):
                continue
            try:
                opened = shelf.open(record)
            except ConvfsError:
                continue
            shelf.keep(place, opened)
            if opened.sealed is not None:
                sealed[place] = opened.sealed
            else:
                at_hand.update(dict.fromkeys(opened.members, opened))
        return sealed

    def _take(self, digest: Hash, needs: dict[Hash, None]) -> None:
        """Take one blob apart that is at hand or waits, noting in ``needs`` what it is made of."""
        form: int
        opened = self._at_hand.get(digest)
        sealed = self._sealed.get(digest)
        if opened is None and sealed is not None:
            self._unseal(digest, *sealed, needs)
            return
        if opened is None:
            waiting = self._waiting.get(digest)
            if waiting is None:
                return
            form, body = waiting
        elif opened.chunks is not None:
            self._lists[digest] = opened.chunks
            for chunk in opened.chunks:
                needs[chunk.hash] = None
            return
        elif (base := opened.lacks) is not None:
            self._deltas[digest] = opened
            if opened.members[digest][0] == Form.SKELETON:
                self._late[digest] = None
            needs[base] = None
            return
        else:
            entry = opened.members[digest]
            form, body = entry[0], opened.body(entry)
        if form == Form.SKELETON:
            skeleton = skeleton_format.decode(body)
            self._skeletons[digest] = skeleton
            if self._contents:
                for cut in skeleton.cuts:
                    needs[cut[3]] = None
        else:
            self._bodies[digest] = body

    def _unseal(self, digest: Hash, group: SealedGroup, member: int, needs: dict[Hash, None]) -> None:
        """Take one blob of a sealed group apart, as :meth:`_take`; what is in the group as well is at hand at once."""
        if group.form(member) == Form.PLAIN:
            self._bodies[digest] = group.plain(member)
            return
        skeleton = group.skeleton(member)
        for cut in skeleton.cuts:
            name = cut[3]
            if is_inner(name):
                if name not in self._bodies:
                    self._bodies[name] = group.inner(name)
            else:
                needs[name] = None
        self._skeletons[digest] = skeleton
