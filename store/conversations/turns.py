"""Turns as conversations see them: those of the turn log, those through patches, and their payloads.

The id of a turn that is seen through a patch has the patch's number in its upper bits (``store.ids``), so that the same
turn can be in one branch as it was appended and in another as it was corrected.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from store.content.resolver import Resolver
from store.disk.jumps import Jumps
from store.disk.turn_format import NO_PAYLOAD, Turn
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError, Missing, UsageError
from store.ids import TURNS_BEYOND, Hash, patch_of, tip_of, turn_of
from store.index.index import Index
from store.index.patches import Patches

_BLOCK = 16
_LARGEST_BLOCK = 512


class Turns:
    """Reads turns by ids, and branches by their tips. Safe to call from any thread."""

    def __init__(self, log: TurnLog, jumps: Jumps, patches: Patches) -> None:
        self.log = log
        self._jumps = jumps
        self.patches = patches

    def get(self, turn_id: int) -> Turn:
        """Return a turn as it is seen through a patch and those before it, or as it was appended.

        NotFound if there is none of that id, DamageError if its record is damaged.
        """
        if turn_id < TURNS_BEYOND:
            return self.log.get(turn_id)
        turn = self.log.get(turn_of(turn_id))
        number = self.patches.seen(patch_of(turn_id)).get(turn.turn_id)
        if number is None:
            return turn
        patch = self.patches.get(number)
        payload_hash, flags, created_ms = patch.turns[turn.turn_id]
        return msgspec.structs.replace(
            turn, turn_id=tip_of(turn.turn_id, number), payload_hash=payload_hash, flags=flags, created_ms=created_ms
        )

    def range(self, first: int, count: int) -> list[Turn]:
        """Return the turns ``first``, ``first + 1`` …, ``count`` of them; raises as :meth:`get`."""
        if first < TURNS_BEYOND:
            return self.log.range(first, count)
        return [self.get(turn_id) for turn_id in range(first, first + count)]

    def ancestor(self, tip: int, depth: int) -> int:
        """Return the turn at ``depth`` of the branch that ends in ``tip``, 0 if it is not that long."""
        turn = turn_of(tip)
        return self._jumps.ancestor(turn, depth) if turn and 0 <= depth <= self.log.get(turn).depth else 0

    def seen(self, tip: int, depth: int) -> int:
        """Return the turn at ``depth`` of the branch that ends in ``tip`` as it is seen there, 0 if there is none."""
        return self.shown(tip, self.ancestor(tip, depth))

    def shown(self, tip: int, turn: int) -> int:
        """Return a turn of the branch that ends in ``tip`` as it is seen there."""
        return tip_of(turn, self.patches.seen(patch_of(tip)).get(turn, 0))

    def at(self, tip: int, last: int) -> int:
        """Return the turn that the branch which ends in ``tip`` ended in when ``last`` was the last of all turns."""
        return self._jumps.not_after(turn_of(tip), last)

    def back(self, tip: int, count: int) -> list[Turn]:
        """Return the last ``count`` turns of the branch that ends in ``tip``, oldest first."""
        turn_id, patch = turn_of(tip), patch_of(tip)
        seen = self.patches.seen(patch)
        found: list[Turn] = []
        block: list[Turn] = []
        low, size = 0, _BLOCK
        while turn_id and len(found) < count:
            if not low <= turn_id < low + len(block):
                # often they lie together, and sometimes very many
                size = min(4 * size, _LARGEST_BLOCK) if turn_id == low - 1 else _BLOCK
                low = max(1, turn_id + 1 - min(count - len(found), size))
                try:
                    block = self.log.range(low, turn_id + 1 - low)
                except DamageError:
                    # perhaps not of this branch
                    low, block = turn_id, [self.log.get(turn_id)]
            turn = block[turn_id - low]
            found.append(self.get(tip_of(turn_id, patch)) if turn_id in seen else turn)
            turn_id = turn.parent
        return found[::-1]

    def range_to(self, tip: int, start: int, count: int) -> list[Turn]:
        """Return up to ``count`` turns, from depth ``start`` on, of the branch that ends in a tip, oldest first."""
        if start < 0 or count < 0:
            raise UsageError("a range starts at depth 0 or later and has no negative length")
        if not tip or not count or start > (depth := self.get(turn_of(tip)).depth):
            return []
        stop = min(start + count - 1, depth)
        return self.back(tip_of(self.ancestor(tip, stop), patch_of(tip)), stop - start + 1)

    def path_to_root(self, turn_id: int) -> list[Turn]:
        """Return every turn from the root to ``turn_id``, which may be a tip."""
        return self.back(turn_id, self.get(turn_id).depth + 1)

    def goes_on(self, old: int, new: int) -> bool:
        """Return whether the branch whose tip is ``new`` is that of the tip ``old``, or has grown from it."""
        if old == new:
            return True
        turn = turn_of(old)
        known = self.ancestor(new, self.get(turn).depth) if turn else 0
        return patch_of(old) == patch_of(new) and known == turn


_PAYLOADS_AT_ONCE = 256


class Contents:
    """The contents of one store. Safe to call from any thread.

    ``types`` are the names of payload types by tag. ``settle`` brings the index up to the last commit.
    """

    def __init__(
        self, turns: Turns, blobs: Resolver, types: Mapping[int, str], index: Index, settle: Callable[[], None]
    ) -> None:
        self._turns = turns
        self.blobs = blobs
        self._types = types
        self._index = index
        self._settle = settle

    def type_name(self, tag: int) -> str:
        """Return the name of a payload type, its tag in hex if it was never registered."""
        return self._types.get(tag, f"{tag:016x}")

    def types(self) -> list[tuple[int, int, str]]:
        """Return (tag, version, name) of all types that are known, by name and version.

        A type is registered when its first turn comes, under version 0, and by :meth:`Contexts.register_type`.
        """
        self._settle()
        return self._index.types()

    def alias(self, algorithm: str, digest: bytes) -> Hash | None:
        """Return the blob that is known by a digest in another algorithm (``sha256``), None if none is."""
        self._settle()
        return self._index.alias(algorithm, digest)

    def aliased(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content by its digest in another algorithm (``sha256``), None if the store does not have it."""
        target = self.alias(algorithm, digest)
        try:
            return self.blobs.blob(target) if target else None
        except ConvfsError:
            return None

    def payload(self, turn_id: int) -> bytes:
        """Return the payload of a turn, verified; DamageError also where it is missing."""
        payload = self._said([self._turns.get(turn_id).payload_hash]).popitem()[1]
        if isinstance(payload, ConvfsError):
            raise payload
        return payload

    def payloads(self, turn_ids: Sequence[int]) -> Iterator[tuple[int, bytes | ConvfsError]]:
        """Yield the payloads of turns, read in sorted passes over the packs; errors in place of what is damaged."""
        for start in range(0, len(turn_ids), _PAYLOADS_AT_ONCE):
            some: dict[int, Turn | ConvfsError] = {}
            for turn_id in turn_ids[start : start + _PAYLOADS_AT_ONCE]:
                try:
                    some[turn_id] = self._turns.get(turn_id)
                except ConvfsError as error:
                    some[turn_id] = error
            found = self._said([turn.payload_hash for turn in some.values() if isinstance(turn, Turn)])
            for turn_id in turn_ids[start : start + _PAYLOADS_AT_ONCE]:
                turn = some[turn_id]
                yield turn_id, found[turn.payload_hash] if isinstance(turn, Turn) else turn

    def of_turns(self, turns: Sequence[Turn]) -> Iterator[tuple[Turn, bytes | ConvfsError]]:
        """Return turns with their payloads, read in one pass over the packs; errors in place of what is damaged."""
        found = self._said([turn.payload_hash for turn in turns])
        return ((turn, found[turn.payload_hash]) for turn in turns)

    def _said(self, digests: Sequence[Hash]) -> dict[Hash, bytes | ConvfsError]:
        """Return blobs that turns name: one that the store does not have was lost."""
        found = self.blobs.blobs(digests)
        for digest, payload in found.items():
            if isinstance(payload, Missing) and digest != NO_PAYLOAD:
                found[digest] = DamageError(f"{payload}, which was there: restore its packs or journals from a backup")
        return found
