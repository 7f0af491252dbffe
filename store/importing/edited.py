"""An edited conversation on its way back to its tool: where each record stood in the files that were imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from store.events.conversation import Conversation
from store.formats.format import Format
from store.formats.registry import format_named
from store.importing.copied import Copied, Spelling
from store.importing.stored import stored_records
from store.index.catalogue import Entry
from store.store import Store


class Edited:
    """The records of a conversation whose session was imported up to the turn ``imported``.

    The first ``first`` records of a session are files of their own. ``copied`` is how the main file says what the
    session shares with another.
    """

    def __init__(
        self,
        store: Store,
        conversation: Conversation | Entry,
        imported: int,
        first: int,
        copied: Copied | None = None,
    ) -> None:
        self.format: Format = format_named(conversation.format)
        self.first: list[tuple[int, int]] = []
        """Those of the files of their own that are left: (position among these files, turn)."""
        self.turns: list[int] = []
        """The others, in the order of the main file, those too that were deleted."""
        self.positions: list[int | None] = []
        """Where these stood in the main file, None for those that were not in it."""
        self.deleted: set[int] = set()
        """Which of these were deleted, by position in ``turns``."""
        self.outside: dict[str, bytes] = {}
        """What the tool keeps outside of records, of those that were edited or added: contents of files by name."""
        self._moved: dict[int, bytes] = {}
        runs = store.runs(conversation.head)
        numbers: dict[int, int] = {}
        for was, now, count in store.lineage.places(conversation.id, store.runs(imported), runs):
            numbers.update(zip(range(now, now + count), range(was, was + count), strict=True))
        number = 0
        for run in runs:
            for turn in store.turns.range(*run):
                number += 1
                gone = turn.deleted
                was = numbers.get(number, 0)
                if 0 < was <= first:
                    if not gone:
                        self.first.append((was - 1, turn.turn_id))
                    continue
                if gone:
                    self.deleted.add(len(self.turns))
                self.turns.append(turn.turn_id)
                self.positions.append(was - 1 - first if was else None)
        self._numbers = [None if position is None else position + 1 for position in self.positions]
        self._spelling = Spelling(store, copied)
        if copied is not None:
            self._arrange(copied)
        if type(self.format).moved_outside is not Format.moved_outside:
            self._move_outside(store, imported)

    def records(self, store: Store) -> Iterator[Iterable[bytes]]:
        """Yield the records of ``turns`` as the tool writes them, each in pieces."""
        records = self._spelling.spell(self._numbers, stored_records(store, self.turns))
        for turn, pieces in zip(self.turns, records, strict=True):
            yield (self._moved[turn],) if turn in self._moved else pieces

    def _arrange(self, copied: Copied) -> None:
        """Put the records into the order of the file, without those that it has not."""
        placed: list[tuple[int, int, int | None]] = []
        last = copied.first - 1
        for at, number in enumerate(self._numbers):
            position = copied.position(number) if number else None
            if number and position is None:
                continue
            if position is not None:
                # what follows those that stand first follows what stands behind these, too
                last = copied.reach - 1 if position < copied.first else position
            placed.append((last if position is None else position, at, position))
        placed.sort(key=lambda one: (one[0], one[1]))
        deleted = {new for new, (_place, at, _position) in enumerate(placed) if at in self.deleted}
        self.turns, self._numbers = (
            [self.turns[at] for _place, at, _position in placed],
            [self._numbers[at] for _place, at, _position in placed],
        )
        self.positions = [position for _place, _at, position in placed]
        self.deleted = deleted

    def _move_outside(self, store: Store, imported: int) -> None:
        was = {turn.payload_hash for run in store.runs(imported) for turn in store.turns.range(*run)}
        fresh = [turn for turn in self.turns if store.turn(turn).payload_hash not in was]
        beginning = b"".join(next(stored_records(store, self.turns[:1]), ()))
        for turn, pieces in zip(fresh, stored_records(store, fresh), strict=True):
            record = b"".join(pieces)
            written, outside = self.format.moved_outside(record, beginning)
            if written != record:
                self._moved[turn] = written
                self.outside.update(outside)

    def without(self, records: Iterable[Iterable[bytes]]) -> Iterator[tuple[int | None, Iterable[bytes]]]:
        """Yield what is left of ``records``, which are those of ``turns``, and where each stood."""
        payloads = [b"".join(pieces) for pieces in records]
        left = self.format.without(payloads, self.deleted)
        kept = [(position, payloads[at]) for at, position in enumerate(self.positions) if at not in self.deleted]
        if len(left) == len(kept):
            yield from ((position, (record,)) for (position, _was), record in zip(kept, left, strict=True))
            return
        # more went than was deleted, or something of a record: what is there as it was can be told
        at = 0
        for record in left:
            same = next((there for there in range(at, len(kept)) if kept[there][1] == record), None)
            if same is None:
                same = max(range(at, len(kept)), key=lambda there: _alike(kept[there][1], record), default=at)
            yield kept[same][0] if same < len(kept) else None, (record,)
            at = same + 1

    @property
    def count(self) -> int:
        """How many records of the main file there were."""
        return max((position + 1 for position in self.positions if position is not None), default=0)


def _alike(one: bytes, other: bytes) -> int:
    """Return how many bytes two records begin with in common."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])
