"""A conversation as a model may be sent it: one branch, every call followed by its result.

Tools write down more than they send: branches that somebody went back from, subagents in between, calls that were
interrupted, results after what was said later. Other tools and models take none of that.
"""

import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Protocol

from msgspec import Struct, structs

from store.conversations.library import Library
from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError
from store.events.conversation import Conversation, EventRow, cwd_of, roots_of
from store.events.event import Block, Compaction, Event, Kind
from store.exporting.steps import OF_THE_MODEL, CallIds, Requests, Spoken, Step, spoken_by, steps_of

DAMAGED = "what is damaged in the store"
TOO_LARGE = "a record too large to be looked into: the native format has it"
_SHOWN = 8


class Loss(Struct, frozen=True):
    """One thing that the other form cannot express: ``what`` names it, ``events`` are the numbers of its events."""

    what: str
    events: tuple[int, ...]

    def line(self) -> str:
        """Return this as a sentence of one line."""
        count = len(self.events)
        if not count:
            return self.what
        shown = ", ".join(map(str, self.events[:_SHOWN])) + (", …" if count > _SHOWN else "")
        return f"{self.what} ({count} events: {shown})" if count > 1 else f"{self.what} (event {shown})"


class Losses:
    """The losses of one export, grouped by kind."""

    def __init__(self) -> None:
        self._events: dict[str, list[int]] = {}

    def add(self, what: str, *events: int) -> None:
        """Record that ``what`` was lost from these events, given by number."""
        noted = self._events.setdefault(what, [])
        for event in events:
            if not noted or noted[-1] != event:
                noted.append(event)

    def all(self) -> tuple[Loss, ...]:
        return tuple(Loss(what, tuple(events)) for what, events in self._events.items())


_IMAGES = frozenset(("image/gif", "image/jpeg", "image/png", "image/webp"))
_CALLED = {
    Kind.ANSWER: "an answer to a question of the tool",
    Kind.CONFIG: "a change of the configuration",
    Kind.NOTE: "a note of the tool",
    Kind.QUESTION: "a question of the tool",
    Kind.SUMMARY: "a summary",
    Kind.SYSTEM: "a message that the tool slipped in",
}
_unfit = re.compile(r"[^A-Za-z0-9_-]").sub
_LONGEST_NAME = 64


class Piece(Struct, frozen=True):
    """A text, or an image, in base64."""

    text: str = ""
    mime: str = ""
    data: str = ""

    @property
    def url(self) -> str:
        return f"data:{self.mime};base64,{self.data}"


def is_said(block: Block) -> bool:
    """Return whether a block is a piece of a message: not blank, and not content that no model takes."""
    return bool(text_of(block).strip()) if block.data is None else block.mime in _IMAGES


def pieces_of(step: Step, losses: Losses) -> list[Piece]:
    """Return the blocks of a step except blank ones, which no model takes."""
    pieces = []
    for block in step.blocks:
        if block.data is None and is_said(block):
            pieces.append(Piece(text_of(block)))
        elif block.data is not None and is_said(block):
            pieces.append(Piece(mime=block.mime, data=b64encode(block.data).decode()))
        elif block.data is not None:
            losses.add(f"content that is neither text nor an image of a usual kind ({block.mime})", step.number)
    return pieces


def said(step: Step, losses: Losses) -> str:
    """Return the texts of a step, a blank line between two of them; images are noted as lost."""
    pieces = pieces_of(step, losses)
    if any(piece.data for piece in pieces):
        losses.add("an image", step.number)
    return "\n\n".join(piece.text for piece in pieces if piece.text)


def tool_name(step: Step, losses: Losses) -> str:
    """Return the name of a tool as every model takes it."""
    fit = _unfit("_", step.tool)[:_LONGEST_NAME] or "tool"
    if fit != step.tool:
        losses.add(f"the name of the tool {step.tool!r}: it is called {fit}", step.number)
    return fit


def lost_kind(step: Step) -> str:
    """Return the kind of loss to record for a step that the other form cannot express."""
    return _CALLED.get(step.kind, step.kind.name.lower())


def arguments_object(arguments: object) -> dict[str, object]:
    """Return a call's arguments as an object, as all tools take them."""
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def text_of(block: Block) -> str:
    """Return the text of a block that holds only text; an attachment's address comes first."""
    text = block.text or ""
    # the reader of an attachment has to know which one it is
    return f"{block.uri}\n\n{text}" if block.type == "resource" and block.uri else text


_INTERRUPTING = frozenset((Kind.USER, Kind.SYSTEM, Kind.SUMMARY))
"""The kinds that no model takes between a call and its result."""
_NO_RESULT = "[no result of this call was recorded]"

_number = attrgetter("number")

_Place = tuple[int, int]
"""A step: its event's number, and its index there."""


class Sendable(Protocol):
    """A conversation as it is sent to a model."""

    prompt: str
    """The system prompt, "" for none."""

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, the results of calls after all that the model said at once."""


class Dialogue:
    """The steps of a conversation; omissions are recorded in ``losses``.

    It is read twice, once here, to find which result belongs to which call, and once by :meth:`steps`. Neither holds
    more of it than one batch.
    """

    def __init__(self, library: Library, conversation: Conversation, losses: Losses) -> None:
        self._viewer = library.viewer
        self._losses = losses
        self.cwd, self.roots = cwd_of(conversation.metadata), roots_of(conversation.metadata)
        self._rows = library.records.rows(conversation.head) if conversation.head else ()
        self._inner: set[int] = set()
        self._ids: dict[_Place, str] = {}
        self._results: dict[str, _Place] = {}
        self.calls = CallIds()
        self.prompt = ""
        """The system prompt, which stands before the first message."""
        self._prompted = 0
        self.requests = Requests()
        """Those of the branch."""
        self.compactions: list[tuple[int, Compaction]] = []
        """The compactions, after which a model is not sent all that was said, with the numbers of their events."""
        self.places: dict[str, int] = {}
        """The event that defines each key."""
        self._spoken: list[Spoken] = []
        calls = list(self._calls(is_agent="agent" in conversation.metadata))
        branch = _branch(self._rows, self._inner)
        for step in calls:
            place = step.number, step.index
            if step.kind is Kind.TOOL_CALL and step.number in branch:
                self._ids[place] = self.calls.call(step.number, step.id, step.tool)
            elif step.kind is Kind.TOOL_RESULT and (call := self.calls.result(step.id, step.tool)):
                self._ids[place] = call
                self._results[call] = place
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
        return not self._inner and not self._left

    def is_silent(self, first: int, last: int) -> bool:
        """Return whether neither user nor model says anything after event ``first`` and before event ``last``."""
        after = bisect_right(self._spoken, first, key=_number)
        return after == len(self._spoken) or self._spoken[after].number >= last

    def leave_out(self, numbers: Collection[int]) -> None:
        """Make :meth:`steps` skip these events and the results of their calls."""
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
        for row, event in self._viewer.events([row for row in self._rows if self._is_told(row)]):
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
        for row, event in self._viewer.events([self._rows[place[0] - 1]]):
            if isinstance(event, Event):
                steps = list(steps_of(row.number, event))
                return self._paired(steps[place[1]])
        return None

    def _paired(self, step: Step) -> Step:
        own = self._ids[step.number, step.index]
        return structs.replace(step, id=own, tool=self.calls.tools[own])

    def _calls(self, *, is_agent: bool) -> Iterator[Step]:
        """Look at all events; yield the calls and the results, without their contents."""
        said = False
        prompts: list[str] = []
        for row, event in self._viewer.events([row for row in self._rows if row.kind is not Kind.RECORD]):
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
                        yield Step(step.number, step.index, step.kind, tool=step.tool, id=step.id)
        self.prompt = "\n\n".join(prompts)


def _branch(rows: Sequence[EventRow], apart: set[int]) -> set[int]:
    """Return the numbers of the records that lead to the last one that is not ``apart``."""
    number = len(rows)
    while number and (number in apart or rows[number - 1].kind is Kind.RECORD):
        number -= 1
    branch = set()
    while number > 0:
        branch.add(number)
        parent = rows[number - 1].parent
        # 0 is the record before; a new beginning (after a compaction) goes on from it, too
        number = parent if 0 < parent < number else number - 1
    return branch
