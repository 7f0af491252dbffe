"""What is sent of a conversation: what is left of it, each resource once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import structs

from store.delivery.answers import Saved
from store.delivery.compacting import Left
from store.delivery.contents import contents_of
from store.delivery.ledger import Delivery, Ledger
from store.events.event import Block, Kind, utf8
from store.exporting.dialogue import Dialogue
from store.exporting.spoken import text_of
from store.exporting.steps import OF_THE_MODEL, Step
from store.rules import Rules

IsSent = Callable[[Step, Block], bool]
"""Says whether a form of messages has a way to say a block of a step."""

_BYTES_PER_TOKEN = 4
"""About what models' tokenizers make of code and of English."""
_IMAGE_TOKENS = 1600
"""What the largest image costs, whatever its bytes are."""


class Sent:
    """What is sent, as :class:`store.exporting.dialogue.Sendable` says.

    ``ledger`` and ``saved`` are complete once all :meth:`steps` were taken, which can be done once.
    """

    def __init__(self, dialogue: Dialogue, rules: Rules, is_sent: IsSent, last: int | None = None) -> None:
        self.prompt = dialogue.prompt
        self.ledger = Ledger(rules)
        self.saved = Saved()
        self._dialogue = dialogue
        self._left = Left(dialogue, last)
        self._is_sent = is_sent

    def steps(self) -> Iterator[Step]:
        """Yield the steps, with references in place of what was sent before."""
        for step in self._left.steps():
            exchange = self._dialogue.requests.exchange(step.number)
            yield delivered(step, exchange, self.ledger, self._is_sent, self.saved)


def delivered(step: Step, exchange: int, ledger: Ledger, is_sent: IsSent, saved: Saved) -> Step:
    """Return what is sent of a step in an exchange, and take note of it in ``ledger`` and ``saved``."""
    if step.kind in OF_THE_MODEL or not step.resources:
        return step
    held = list(contents_of(step, is_sent))
    # attachments are always sent, and a picture is seen where it is: a reference to one says nothing
    kept = [each for each in held if step.kind is not Kind.TOOL_RESULT or not each.is_file]
    ledger.note([each.content for each in kept], Delivery(exchange, step.id if step.kind is Kind.TOOL_RESULT else ""))
    files = [each for each in held if each not in kept]
    references = ledger.take(step.tool, step.id, [each.content for each in files], exchange)
    blocks = list(step.blocks)
    for each, reference in zip(files, references, strict=True):
        if reference is not None:
            said = each.replaced(reference.message)
            before, blocks[each.at] = blocks[each.at], Block("text", said, name=blocks[each.at].name)
            saved.add(cost_of(before), cost_of(blocks[each.at]))
    return structs.replace(step, blocks=tuple(blocks))


def tokens_of(size: int) -> int:
    """Return about how many tokens so many bytes of text are."""
    return -(-size // _BYTES_PER_TOKEN)


def cost_of(block: Block) -> tuple[int, int]:
    """Return how many bytes a block is, and about how many tokens."""
    if block.data is not None:
        return len(block.data), _IMAGE_TOKENS
    size = len(utf8(text_of(block)))
    return size, tokens_of(size)
