"""The steps of a conversation to send to a model: those that still count, each resource once."""

from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from store.delivery.answers import ReferencesSaved
from store.delivery.files import FilesRead
from store.delivery.ledger import Delivery, Ledger, contents_of
from store.errors import UsageError
from store.events.event import Block, Compaction, Kind, utf8
from store.exporting.dialogue import Dialogue, text_of
from store.exporting.steps import OF_THE_MODEL, Step
from store.settings import Rules

IsSent = Callable[[Step, Block], bool]
"""Tells whether a form of messages can express a block of a step."""

_BYTES_PER_TOKEN = 4
"""Bytes per token, about, of code and of English."""
_IMAGE_TOKENS = 1600
"""The tokens of the largest image, whatever its size in bytes."""


class Summary(Struct, frozen=True):
    """A summary that stands for the events from ``first`` to ``last``, and is read before event ``at``."""

    at: int
    first: int
    last: int
    step: Step


class Left:
    """The part of a dialogue that still counts. ``last``: only of the last exchanges (None: of all)."""

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
        """Yield the steps that are left, with summaries in place of the steps that they replace."""
        waiting = sorted(self._summaries, key=lambda summary: (summary.at, summary.step.number))
        for step in self._dialogue.steps():
            # a result stands after its call, whatever its number is
            while waiting and waiting[0].at <= step.number and step.kind is not Kind.TOOL_RESULT:
                yield waiting.pop(0).step
            if left := self._left_of(step):
                yield left
        yield from (summary.step for summary in waiting)

    def _compact(self, number: int, compaction: Compaction) -> None:
        self._gone.add(number)
        if compaction.forgotten:
            self._forget(number, compaction)
            return
        if compaction.exchanges is None:
            kept = min(self._dialogue.places.get(compaction.kept_from, number), number)
            self._replace(number, compaction, 1, kept - 1)
            return
        first, last = compaction.exchanges
        # later records, in the last of them or after it, are not meant
        requests = self._dialogue.requests.before(number)
        if 0 <= first <= last and first < len(requests):
            ends = requests[last + 1] if last + 1 < len(requests) else number
            self._replace(number, compaction, requests[first] if first else 1, ends - 1)

    def _forget(self, number: int, compaction: Compaction) -> None:
        """Replace single events, and earlier summaries among them, by a summary."""
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
        """Drop everything before an event, except summaries that cover something after it or are read there."""
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


class Sent:
    """The steps to send, as a :class:`store.exporting.dialogue.Sendable`.

    ``ledger`` and ``saved`` are complete once all :meth:`steps` are taken, which can be done once.
    """

    def __init__(self, dialogue: Dialogue, rules: Rules, is_sent: IsSent, last: int | None = None) -> None:
        self.prompt = dialogue.prompt
        self.ledger = Ledger(rules)
        self.saved = ReferencesSaved()
        self.files = FilesRead(dialogue.cwd, dialogue.roots)
        self._dialogue = dialogue
        self._left = Left(dialogue, last)
        self._is_sent = is_sent

    def steps(self) -> Iterator[Step]:
        """Yield the steps, with references in place of contents that were sent before."""
        for step in self._left.steps():
            exchange = self._dialogue.requests.exchange(step.number)
            yield delivered(self.files.take(step), exchange, self.ledger, self._is_sent, self.saved)


def delivered(step: Step, exchange: int, ledger: Ledger, is_sent: IsSent, saved: ReferencesSaved) -> Step:
    """Return the part of a step to send, and record it in ``ledger`` and ``saved``."""
    if step.kind in OF_THE_MODEL or not step.resources:
        return step
    held = list(contents_of(step, is_sent))
    # attachments are always sent, and a picture is seen where it is: a reference to one says nothing
    kept = [each for each in held if step.kind is not Kind.TOOL_RESULT or not each.is_file]
    delivery = Delivery(step.number, exchange, step.id if step.kind is Kind.TOOL_RESULT else "")
    ledger.note([each.content for each in kept], delivery)
    files = [each for each in held if each not in kept]
    references = ledger.take(step.tool, [each.content for each in files], delivery)
    blocks = list(step.blocks)
    for each, reference in zip(files, references, strict=True):
        if reference is not None:
            before = blocks[each.at]
            said = Block("text", each.replaced(reference.message), name=before.name)
            if cost_of(said)[0] < cost_of(before)[0]:
                blocks[each.at] = said
                saved.add(cost_of(before), cost_of(said))
    return structs.replace(step, blocks=tuple(blocks))


def tokens_of(size: int) -> int:
    """Return the estimated number of tokens of a text of ``size`` bytes."""
    return -(-size // _BYTES_PER_TOKEN)


def cost_of(block: Block) -> tuple[int, int]:
    """Return the size of a block in bytes, and in estimated tokens."""
    if block.data is not None:
        return len(block.data), _IMAGE_TOKENS
    size = len(utf8(text_of(block)))
    return size, tokens_of(size)
