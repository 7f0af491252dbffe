"""A conversation as a model may be sent it: one branch, every call followed by its result.

Tools write down more than they send: branches that somebody went back from, subagents in between, calls that were
interrupted, results after what was said later. Other tools and models take none of that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from msgspec import structs

from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Compaction, Event, Kind
from store.exporting.call_ids import CallIds
from store.exporting.exchanges import Requests, Spoken, spoken_by
from store.exporting.losses import DAMAGED, TOO_LARGE, Losses
from store.exporting.steps import OF_THE_MODEL, Step, steps_of
from store.store import Store

_INTERRUPTING = frozenset((Kind.USER, Kind.SYSTEM, Kind.SUMMARY))
"""What no model takes between a call and its result."""
_NO_RESULT = "[no result of this call was recorded]"

_number = attrgetter("number")

_Place = tuple[int, int]
"""A step: its event's number, and its index there."""


class _Fact(NamedTuple):
    """What pairing needs of a call or a result."""

    place: _Place
    is_call: bool
    id: str
    tool: str


class Sendable(Protocol):
    """What is sent to a model."""

    prompt: str
    """The system prompt, "" for none."""

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, the results of calls after all that the model said at once."""


class Dialogue:
    """The steps of a conversation; what is left out is noted in ``losses``.

    It is read twice, once here, to find which result belongs to which call, and once by :meth:`steps`. Neither holds
    more of it than one batch.
    """

    def __init__(self, store: Store, conversation: Conversation, losses: Losses) -> None:
        self._store = store
        self._losses = losses
        self._rows = store.rows(conversation.head) if conversation.head else ()
        self._inner: set[int] = set()
        self._ids: dict[_Place, str] = {}
        self._results: dict[str, _Place] = {}
        self.calls = CallIds()
        self.prompt = ""
        """The system prompt: what stands before anything that was said."""
        self._prompted = 0
        self.requests = Requests()
        """Those of the branch."""
        self.compactions: list[tuple[int, Compaction]] = []
        """What tells, and the numbers of the events that do, that a model is not sent all that was said."""
        self.places: dict[str, int] = {}
        """Which event defines a key."""
        self._spoken: list[Spoken] = []
        facts = list(self._facts(is_agent="agent" in conversation.metadata))
        branch = _branch(self._rows, self._inner)
        self._pair(facts, branch)
        self._spoken = [spoken for spoken in self._spoken if spoken.number in branch]
        for spoken in self._spoken:
            self.requests.add(spoken)
        self.compactions = [found for found in self.compactions if found[0] in branch]
        self._gone: Collection[int] = ()
        answered = {number for number, _index in self._ids}
        self._left = {row.number for row in self._rows} - branch - self._inner - answered
        """Events of branches that are not the one that goes on."""

    @property
    def is_plain(self) -> bool:
        """Whether all of it is one branch, without a subagent within it."""
        return not self._inner and not self._left

    def is_silent(self, first: int, last: int) -> bool:
        """Say whether neither the user nor the model says anything after event ``first`` and before event ``last``."""
        after = bisect_right(self._spoken, first, key=_number)
        return after == len(self._spoken) or self._spoken[after].number >= last

    def leave_out(self, numbers: Collection[int]) -> None:
        """Have :meth:`steps` pass over these events, and over the results of their calls."""
        self._gone = numbers

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order: all that a model said and called at once, then the results of these calls."""
        waiting: dict[str, Step] = {}
        come: dict[str, Step] = {}
        for step in self._all():
            if step.kind is Kind.TOOL_RESULT:
                if step.id in waiting:
                    come[step.id] = step
                continue
            if waiting and (step.kind in _INTERRUPTING or (come and step.kind in OF_THE_MODEL)):
                yield from self._answers(waiting, come)
                waiting, come = {}, {}
            yield step
            if step.kind is Kind.TOOL_CALL:
                waiting[step.id] = step
        yield from self._answers(waiting, come)

    def _all(self) -> Iterator[Step]:
        """Yield the steps that are not left out, as they stand; calls and results have ids of their own."""
        for row, event in self._store.events([row for row in self._rows if self._is_told(row)]):
            if isinstance(event, ConvfsError):
                self._losses.add(DAMAGED, row.number)
            elif row.payload_size > LARGEST_VIEWED:
                self._losses.add(TOO_LARGE, row.number)
            elif row.number in self._left:
                self._losses.add("a branch that the conversation did not go on from", row.number)
            elif event.kind is Kind.SUMMARY and not event.time_ms and event.compaction is None:
                # nobody said it: tools keep such for their lists of sessions
                self._losses.add("a summary that is not part of the conversation", row.number)
            else:
                for step in steps_of(row.number, event):
                    place = step.number, step.index
                    if step.kind not in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
                        yield step
                    elif place in self._ids:
                        yield self._paired(step)
                    else:
                        self._losses.add("a result without its call", row.number)
        if self._inner:
            self._losses.add("what a subagent did within the conversation", *sorted(self._inner))

    def _is_told(self, row: EventRow) -> bool:
        if row.kind is Kind.SYSTEM and row.number <= self._prompted:
            return False
        return row.kind is not Kind.RECORD and row.number not in self._inner and row.number not in self._gone

    def _answers(self, calls: dict[str, Step], come: dict[str, Step]) -> Iterator[Step]:
        for call_id, call in calls.items():
            if call_id in come:
                yield come[call_id]
            elif call_id in self._results and (found := self._fetched(self._results[call_id])):
                yield found
            else:
                self._losses.add(f"a call without a result: one that says {_NO_RESULT!r} was added", call.number)
                blocks = (Block("text", _NO_RESULT),)
                yield structs.replace(call, kind=Kind.TOOL_RESULT, blocks=blocks, arguments=None)

    def _fetched(self, place: _Place) -> Step | None:
        """Return a result that stands elsewhere than right after its call."""
        for row, event in self._store.events([self._rows[place[0] - 1]]):
            if isinstance(event, Event):
                steps = list(steps_of(row.number, event))
                return self._paired(steps[place[1]])
        return None

    def _paired(self, step: Step) -> Step:
        own = self._ids[step.number, step.index]
        return structs.replace(step, id=own, tool=self.calls.tools[own])

    # -- what belongs together ---------------------------------------------------------------------------------------

    def _facts(self, *, is_agent: bool) -> Iterator[_Fact]:
        """Go through all events once, and yield the calls and results."""
        said = False
        prompts: list[str] = []
        for row, event in self._store.events([row for row in self._rows if row.kind is not Kind.RECORD]):
            if isinstance(event, ConvfsError):
                continue
            if event.header.get("sidechain") is True and not is_agent:
                self._inner.add(row.number)
                continue
            if spoken := spoken_by(row.number, event):
                self._spoken.append(spoken)
            if event.compaction:
                self.compactions.append((row.number, event.compaction))
            self.places |= ((key, row.number) for key, _tool in event.defines)
            if event.kind is Kind.SYSTEM and not said:
                prompts += [block.text for block in event.blocks if block.text]
                self._prompted = row.number
            elif event.kind in (Kind.USER, Kind.TOOL_RESULT, *OF_THE_MODEL):
                said = True
            if event.kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
                for step in steps_of(row.number, event):
                    if step.kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
                        is_call = step.kind is Kind.TOOL_CALL
                        yield _Fact((step.number, step.index), is_call, step.id, step.tool)
        self.prompt = "\n\n".join(prompts)

    def _pair(self, facts: Sequence[_Fact], branch: set[int]) -> None:
        for fact in facts:
            if fact.is_call and fact.place[0] in branch:
                self._ids[fact.place] = self.calls.call(fact.place[0], fact.id, fact.tool)
            elif not fact.is_call and (call := self.calls.result(fact.id, fact.tool)):
                self._ids[fact.place] = call
                self._results[call] = fact.place


def _branch(rows: Sequence[EventRow], apart: set[int]) -> set[int]:
    """Return the numbers of the records that lead to the last one that is not ``apart``."""
    number = len(rows)
    while number and (number in apart or rows[number - 1].kind is Kind.RECORD):
        number -= 1
    branch = set()
    while number > 0:
        branch.add(number)
        parent = rows[number - 1].parent
        # 0 is the record before; what begins anew (after a compaction) goes on from it, too
        number = parent if 0 < parent < number else number - 1
    return branch
