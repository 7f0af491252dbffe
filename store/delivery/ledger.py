"""What a model has been sent, by URI and checksum: the ledger in which what is about to be sent is looked up.

The same content under the same URI is sent once in a while, and is referred to in between. URIs are compared as they
are. A reference is no delivery: after ``lookback_turns`` exchanges the content is sent again, and counts from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from store.delivery.contents import Content
from store.ids import Hash
from store.rules import Rules


class Delivery(Struct, frozen=True):
    """Where content was sent: as an attachment in an exchange, or as the result of ``call``."""

    exchange: int
    call: str = ""


class Reference(Struct, frozen=True):
    """What is said in place of content that was sent before."""

    content: Content
    delivery: Delivery

    @property
    def checksum(self) -> str:
        """The checksum, with its algorithm."""
        return f"blake3:{self.content.hash.hex()}"

    @property
    def message(self) -> str:
        """The message that a model is sent."""
        turn = self.delivery.exchange
        call = self.delivery.call
        where = f"the result of tool call `{call}` in turn {turn}" if call else f"the attachment at turn {turn}"
        return (
            f"The file has not changed: the content of {self.content.uri} is that of {where} "
            f"(checksum {self.checksum}). Read it there."
        )


class Ledger:
    """What was sent so far of one conversation."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._sent: dict[tuple[str, Hash], Delivery] = {}

    def note(self, contents: Sequence[Content], delivery: Delivery) -> None:
        """Take note of what is sent."""
        for content in contents:
            self._sent[content.uri, content.hash] = delivery

    def find(self, tool: str, call: str, contents: Sequence[Content], exchange: int) -> list[Reference | None]:
        """Return for each content of a result what is said in its place, None where it has to be sent.

        ``call`` is the id of the call that it is a result of; what that returned itself does not count.
        """
        return [self._find(tool, call, content, exchange) for content in contents]

    def take(self, tool: str, call: str, contents: Sequence[Content], exchange: int) -> list[Reference | None]:
        """As :meth:`find`, and take note of what is sent."""
        found = self.find(tool, call, contents, exchange)
        sent = [content for content, reference in zip(contents, found, strict=True) if reference is None]
        self.note(sent, Delivery(exchange, call))
        return found

    def _find(self, tool: str, call: str, content: Content, exchange: int) -> Reference | None:
        rules = self.rules.deduplication
        if content.size < rules.min_bytes or not self.rules.hold_for(tool):
            return None
        sent = self._sent.get((content.uri, content.hash))
        if sent is None or exchange - sent.exchange > rules.lookback_turns or (call and sent.call == call):
            return None
        return Reference(content, sent)
