"""Conversations as people know them: found by project, name or day, with the sums of what they are drawn as."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter, itemgetter

import msgspec

from store.conversations import branch
from store.conversations.listing import Listing
from store.conversations.places import called_in_trash
from store.conversations.records import Records
from store.conversations.turns import Contents, Turns
from store.conversations.viewer import Viewer
from store.errors import ConvfsError, DamageError
from store.events.conversation import Conversation, EventRow
from store.ids import patch_of, tip_of, turn_of
from store.index.catalogue import Catalogue, ContextEntry, Superseded
from store.index.views import Measure, Run, Views

_FEW = 64
"""The number of rows that are read to sum them up."""

Stretch = tuple[int, int, int]
"""Turns that follow each other: the number of the first, its turn, and how many there are."""


class Lineage:
    """Answers from what edits have noted in the head log."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def successor(self, context: int, turn: int) -> int | None:
        """Return what became of a turn that is not in the branch of a context as it now is; 0: it was taken out.

        None if no edit of this context tells of it. Patches change nothing of that.
        """
        at, seq = turn, 0
        while at and (step := self._catalogue.successor(context, at, seq)) is not None:
            at, seq = step.of(at), step.seq
        return at if seq else None

    def places(self, context: int, base: tuple[Run, ...], ours: tuple[Run, ...]) -> list[tuple[int, int, int]]:
        """Return where the records of an earlier branch of a context now are in the branch ``ours``.

        (number there, number in ours, how many) each; those that are in ours no more are left out.
        """
        *_before, last = self._stages(context, base)
        return _held(last, ours)

    def places_then(self, context: int, base: tuple[Run, ...], ours: tuple[Run, ...]) -> dict[int, int]:
        """Return where the records of an earlier branch of a context were in one that ``ours`` was forked from.

        Numbers in ours by numbers there. What edits have made of the context since then changes nothing of it.
        """
        found: dict[int, int] = {}
        for stage in self._stages(context, base):
            for number, mine, count in _held(stage, ours):
                found.update(zip(range(number, number + count), range(mine, mine + count), strict=True))
        return found

    def _stages(self, context: int, base: tuple[Run, ...]) -> Iterator[list[Stretch]]:
        """Yield a branch, by its numbers, and what has become of its records by each edit since."""
        stretches = list(_stretches(branch.plain(base)))
        yield stretches
        for _seq, steps in groupby(self._catalogue.superseded(context), key=attrgetter("seq")):
            edit = list(steps)
            stretches = [part for stretch in stretches for part in _follow(stretch, edit)]
            yield stretches


def _held(stretches: Sequence[Stretch], ours: tuple[Run, ...]) -> list[tuple[int, int, int]]:
    """Return which records of stretches a branch has: (number there, number in the branch, how many) each."""
    found: list[tuple[int, int, int]] = []
    held = sorted(_stretches(branch.plain(ours)), key=itemgetter(1))
    firsts = [turn for _number, turn, _count in held]
    for number, turn, count in stretches:
        at = max(bisect_right(firsts, turn) - 1, 0)
        while at < len(held) and held[at][1] < turn + count:
            mine, first, length = held[at]
            start, end = max(turn, first), min(turn + count, first + length)
            if start < end:
                found.append((number + start - turn, mine + start - first, end - start))
            at += 1
    return found


def _stretches(runs: tuple[Run, ...]) -> Iterator[Stretch]:
    number = 1
    for first, count in runs:
        yield number, first, count
        number += count


def _follow(stretch: Stretch, steps: Sequence[Superseded]) -> list[Stretch]:
    """Return the successors of a stretch after one edit, whose steps are in the order of the old turns."""
    number, turn, count = stretch
    found: list[Stretch] = []
    for step in steps:
        if step.old + step.count <= turn:
            continue
        if step.old >= turn + count:
            break
        if step.old > turn:
            found.append((number, turn, step.old - turn))
            number, turn, count = number + step.old - turn, step.old, count - (step.old - turn)
        taken = min(count, step.old + step.count - turn)
        if step.new:
            found.append((number, step.of(turn), taken))
        number, turn, count = number + taken, turn + taken, count - taken
        if not count:
            return found
    found.append((number, turn, count))
    return found


class Library(Listing):
    """The conversations of one store with their sums, and the parts that they are read by. What is missing is measured.

    It answers from the index alone, once everything in a conversation has been measured.
    """

    def __init__(
        self, catalogue: Catalogue, turns: Turns, contents: Contents, views: Views, viewer: Viewer, records: Records
    ) -> None:
        super().__init__(catalogue, views)
        self.turns = turns
        self.contents = contents
        self.viewer = viewer
        self.records = records
        self.lineage = Lineage(catalogue)
        """The successors of turns that edits have superseded."""

    def find(self, project: str, name: str) -> Conversation | None:
        """Return the conversation ``project/name``, or the one that was called so before its session told better."""
        entry = self.catalogue.by_name(project, name) or self.catalogue.called_before(project, name)
        return self.with_sums([entry])[0] if entry else None

    def trash(self) -> list[Conversation]:
        """Return the conversations in the trash, latest first, with the project and name that each had."""
        return list(map(called_in_trash, self.with_sums(self.catalogue.trash())))

    def with_its_sums(self, entry: ContextEntry) -> Conversation:
        """Return one conversation as :meth:`with_sums` does."""
        return self.with_sums([entry])[0]

    def _measure_now(self, entry: ContextEntry, known: Measure | None) -> tuple[Measure, bool]:
        try:
            return self._measured(entry, known)
        except DamageError:
            # a damaged turn concerns readers of this conversation, not listings of it
            return Measure(entry.head), True

    def measure(self, entry: ContextEntry) -> Measure:
        """Sum up a conversation's rows and file the sums, unless a row is unsure."""
        return self._measured(entry, self.views.measures([entry.id]).get(entry.id))[0]

    def unmeasured(self, entries: Sequence[ContextEntry]) -> int:
        """Return how many records must be measured before the sums of some conversations are known."""
        known = self.views.measures([entry.id for entry in entries])
        count = 0
        for entry in entries:
            measure = known.get(entry.id)
            if entry.head and (measure is None or measure.head != entry.head) and self.viewer.renderer is not None:
                # of a damaged branch, nothing is measured
                with suppress(ConvfsError):
                    count += self.records.length(entry.head) - self._length_before(measure, entry.head)
        return count

    def measure_some(self, context_id: int, most: int) -> bool:
        """Measure at most ``most`` unmeasured records of a conversation; return whether all are then measured.

        True, too, where it gets no farther for now, because a record cannot be read.
        """
        entry = self.catalogue.entry(context_id)
        known = self.views.measures([context_id]).get(context_id)
        if self.viewer.renderer is None or not entry.head or (known is not None and known.head == entry.head):
            return True
        before = self._length_before(known, entry.head)
        end = before + most
        if end >= self.records.length(entry.head) or self._summed(entry.head, before) is not None:
            self._measured(entry, known)
            return True
        tip = tip_of(self.turns.ancestor(entry.head, end - 1), patch_of(entry.head))
        _measure, unsure = self._measured(msgspec.structs.replace(entry, head=tip), known)
        return unsure

    def _measured(self, entry: ContextEntry, known: Measure | None) -> tuple[Measure, bool]:
        """Sum up what is not in the sums that are ``known``, where these are of a beginning of the branch.

        Returns the sums, and whether they are unsure.
        """
        if self.viewer.renderer is None:
            return Measure(entry.head), False
        before = self._length_before(known, entry.head)
        measure, unsure = known if known is not None and before else Measure(0), False
        more = self._summed(entry.head, before)
        if more is not None:
            measure = measure.plus(more)
        else:
            rows = self._rows_after(entry.head, before)
            measure, unsure = measure.at(entry.head, rows), any(row.unsure for row in rows)
        if not unsure:
            self.views.add((), (), [(entry.id, measure)])
        return measure, unsure

    def _length_before(self, known: Measure | None, head: int) -> int:
        """Return the length of the branch that sums are of, if the one of ``head`` goes on from it; else 0."""
        if known is None or not head or not known.head or patch_of(known.head) != patch_of(head):
            return 0
        length = self.records.length(known.head)
        return length if self.turns.ancestor(head, length - 1) == turn_of(known.head) else 0

    def _summed(self, head: int, number: int) -> Measure | None:
        """Return the sums over the records of a branch behind some record, None if they are few, or not measured."""
        count = self.records.length(head) - number if head else 0
        if count <= _FEW:
            return None
        known, sums = self.views.sums(branch.part(self.records.runs(head), number, count), head)
        return sums if known == count else None

    def _rows_after(self, head: int, number: int) -> Sequence[EventRow]:
        """Return the rows of a branch behind some record, measured in one go where they are not yet."""
        return self.records.last_rows(head, self.records.length(head) - number) if head else ()
