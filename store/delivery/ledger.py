"""The ledger of deliveries: the resources that a model has been sent, by URI and checksum.

The same content under the same URI is sent once in a while, and referred to in between. URIs are compared as they are.
A reference is no delivery: after ``lookback_turns`` exchanges the content is sent again, and counts from there.

A resource in a step is a block of its own, or the text in which a tool returned it: a file with numbered lines, for
instance.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from store.events.event import Block, Kind, Resource
from store.exporting.steps import Step
from store.formats.core.twins import standing_in
from store.ids import Hash, hash_bytes
from store.settings import Rules

_NEWLINE = "\n"


class DeliveredContent(Struct, frozen=True):
    """A resource: its URI as given, the BLAKE3 of its bytes, and their number."""

    uri: str
    hash: Hash
    size: int


class Held(Struct, frozen=True):
    """A resource that the block at ``at`` of a step holds.

    ``before`` and ``after`` are lines around it in a text. ``is_file``: it is no picture between texts.
    """

    at: int
    content: DeliveredContent
    before: str = ""
    after: str = ""
    is_file: bool = True

    def replaced(self, message: str) -> str:
        return "\n".join(lines for lines in (self.before, message, self.after) if lines.strip())


def contents_of(step: Step, is_sent: Callable[[Step, Block], bool]) -> Iterator[Held]:
    """Yield the resources of a step, in the order of its blocks; ``is_sent`` tells which blocks are sent at all."""
    left = list(step.resources)
    for at, block in enumerate(step.blocks):
        if not is_sent(step, block):
            continue
        if block.uri:
            for resource in left:
                if resource.uri == block.uri and resource.content == (block.text if block.data is None else block.data):
                    left.remove(resource)
                    yield Held(at, content_of(resource), is_file=block.type == "resource")
                    break
        elif step.kind is Kind.TOOL_RESULT and block.type == "text" and (told := _told(step, block, left)):
            resource, before, after = told
            left.remove(resource)
            yield Held(at, content_of(resource), before, after)


def content_of(resource: Resource) -> DeliveredContent:
    """Return the identity of a resource."""
    data = resource.data
    return DeliveredContent(resource.uri, hash_bytes(data), len(data))


def _told(step: Step, block: Block, resources: list[Resource]) -> tuple[Resource, str, str] | None:
    """Return the resource in a text, and the lines around it; None if there is none.

    A resource with a block of its own is found there, and the text is then just text.
    """
    own = {block.uri for block in step.blocks if block.uri}
    for resource in resources:
        if resource.uri in own or not isinstance(resource.content, str):
            continue
        text = block.text or ""
        around = standing_in(text, resource.content)
        if around is None and not resource.path:
            # no record says so: it was found in the text, without the frame around it
            around = _framed(text, resource.content)
        if around is not None:
            return resource, *around
    return None


def _framed(text: str, said: str) -> tuple[str, str] | None:
    """Return what stands before and after the lines of ``said`` in ``text``; None unless they are there once."""
    before, found, after = f"\n{text}\n".partition(f"\n{said.strip(_NEWLINE)}\n")
    return (before.strip(_NEWLINE), after.strip(_NEWLINE)) if found and said.strip() and said not in after else None


class Delivery(Struct, frozen=True):
    """The place of a delivery: an attachment in an exchange, or the result of ``call``; ``event`` is its number."""

    event: int
    exchange: int
    call: str = ""


_CHECKSUM_DIGITS = 8


class Reference(Struct, frozen=True):
    """The message in place of content that was sent before; ``again``: other content of its URI was sent since."""

    content: DeliveredContent
    delivery: Delivery
    again: bool = False

    @property
    def message(self) -> str:
        """At most 120 bytes: what it stands for is in the same place of the same result, so no name is repeated."""
        event, turn = self.delivery.event, self.delivery.exchange
        said = f"As in event {event} again" if self.again else f"Unchanged: as in event {event}"
        return f"{said} (turn {turn}, blake3 {self.content.hash.hex()[:_CHECKSUM_DIGITS]})."


class Ledger:
    """The deliveries of one conversation so far."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._sent: dict[tuple[str, Hash], Delivery] = {}
        self._latest: dict[str, Hash] = {}
        """By URI, the content that was sent or referred to last."""

    def note(self, contents: Sequence[DeliveredContent], delivery: Delivery) -> None:
        for content in contents:
            self._sent[content.uri, content.hash] = delivery
            self._latest[content.uri] = content.hash

    def find(self, tool: str, call: str, contents: Sequence[DeliveredContent], exchange: int) -> list[Reference | None]:
        """Return the message in place of each content of a result, None for content that has to be sent.

        ``call`` is the id of the result's call; contents that this call returned itself do not count.
        """
        return [self._find(tool, call, content, exchange) for content in contents]

    def take(self, tool: str, contents: Sequence[DeliveredContent], delivery: Delivery) -> list[Reference | None]:
        """Find like :meth:`find`, and record the deliveries."""
        found = self.find(tool, delivery.call, contents, delivery.exchange)
        for content, reference in zip(contents, found, strict=True):
            if reference is None:
                self.note([content], delivery)
            self._latest[content.uri] = content.hash
        return found

    def _find(self, tool: str, call: str, content: DeliveredContent, exchange: int) -> Reference | None:
        rules = self.rules.deduplication
        if content.size <= rules.min_bytes or not self.rules.hold_for(tool):
            return None
        sent = self._sent.get((content.uri, content.hash))
        if sent is None or exchange - sent.exchange > rules.lookback_turns or (call and sent.call == call):
            return None
        reference = Reference(content, sent, again=self._latest[content.uri] != content.hash)
        return reference if len(reference.message) < content.size else None
