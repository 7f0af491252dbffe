"""What is left of a conversation for a model: after compactions, and of the last exchanges only."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from store.errors import UsageError
from store.events.event import Block, Compaction, Kind
from store.exporting.dialogue import Dialogue
from store.exporting.steps import Step


class Summary(Struct, frozen=True):
    """A summary that stands for the events from ``first`` to ``last``, and is read before event ``at``."""

    at: int
    first: int
    last: int
    step: Step


class Left:
    """What is left of a dialogue. ``last``: only of so many exchanges (None: of all)."""

    def __init__(self, dialogue: Dialogue, last: int | None) -> None:
        if last is not None and last < 1:
            raise UsageError(f"the last {last} exchanges are nothing: ask for 1 or more")
        self._dialogue = dialogue
        self._gone: set[int] = set()
        self._summaries: list[Summary] = []
        self._policies: list[tuple[int, int, Compaction]] = []
        for number, compaction in dialogue.compactions:
            self._compact(number, compaction)
        requests = dialogue.requests.numbers
        if last is not None and last < len(requests):
            self._cut(requests[-last])
        dialogue.leave_out(self._gone)

    def steps(self) -> Iterator[Step]:
        """Yield the steps that are left, summaries in the place of what they stand for."""
        waiting = sorted(self._summaries, key=lambda summary: (summary.at, summary.step.number))
        for step in self._dialogue.steps():
            # a result stands after its call, whatever its number is
            while waiting and waiting[0].at <= step.number and step.kind is not Kind.TOOL_RESULT:
                yield waiting.pop(0).step
            if left := self._left_of(step):
                yield left
        yield from (summary.step for summary in waiting)

    def _compact(self, number: int, compaction: Compaction) -> None:
        """Do what event ``number`` says."""
        self._gone.add(number)
        if compaction.forgotten:
            self._forget(number, compaction)
            return
        if compaction.exchanges is None:
            kept = min(self._dialogue.places.get(compaction.kept_from, number), number)
            self._replace(number, compaction, 1, kept - 1)
            return
        first, last = compaction.exchanges
        # what came later, in the last of them or after it, is not meant
        requests = self._dialogue.requests.before(number)
        if 0 <= first <= last and first < len(requests):
            ends = requests[last + 1] if last + 1 < len(requests) else number
            self._replace(number, compaction, requests[first] if first else 1, ends - 1)

    def _forget(self, number: int, compaction: Compaction) -> None:
        """Have a summary stand for single events, and for earlier summaries among them."""
        places = self._dialogue.places
        forgotten = {place for key in compaction.forgotten if (place := places.get(key, number)) < number}
        if compaction.summary is None:
            return
        self._gone |= forgotten
        self._summaries = [earlier for earlier in self._summaries if earlier.step.number not in forgotten]
        first, last = min(forgotten, default=number), max(forgotten, default=number)
        self._summaries.append(Summary(first, first, last, Step(number, 0, Kind.SUMMARY, compaction.summary)))

    def _replace(self, number: int, compaction: Compaction, first: int, last: int) -> None:
        if compaction.summary is None:
            self._policies.append((first, last, compaction))
            return
        self._gone.update(range(first, last + 1))
        # what one summary stands for, a later one may stand for too, unless both are one that came in parts
        whole = compaction.exchanges is None
        self._summaries = [
            earlier
            for earlier in self._summaries
            if (whole and self._dialogue.is_silent(earlier.step.number, number))
            or not (whole or first <= earlier.first <= earlier.last <= last)
        ]
        step = Step(number, 0, Kind.SUMMARY, compaction.summary)
        self._summaries.append(Summary(first, first, last, step))

    def _cut(self, number: int) -> None:
        """Leave out what is before an event, but for summaries that stand for something after it or are told there."""
        self._gone.update(range(1, number))
        self._summaries = [
            structs.replace(summary, at=max(summary.at, number))
            for summary in self._summaries
            if max(summary.last, summary.step.number) >= number
        ]

    def _left_of(self, step: Step) -> Step | None:
        thoughts = True
        calls: Compaction | None = None
        for first, last, policy in self._policies:
            if first <= step.number <= last:
                thoughts = thoughts and not policy.reasoning
                # of those that say something of calls, the later one holds
                calls = policy if policy.calls or policy.requests or policy.responses else calls
        if step.kind is Kind.REASONING and not thoughts:
            return None
        if calls is None or step.kind not in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
            return step
        if calls.calls:
            return None
        if step.kind is Kind.TOOL_CALL and calls.requests:
            return structs.replace(step, arguments={})
        if step.kind is Kind.TOOL_RESULT and calls.responses:
            said = f"[left out: {step.tool or 'the call'} {'failed' if step.failed else 'succeeded'}]"
            return structs.replace(step, blocks=(Block("text", said),), resources=())
        return step
