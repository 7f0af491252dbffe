"""What an agent asks before it delivers a tool's result: which resources in it the model was sent already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Self
from weakref import WeakKeyDictionary

from store.delivery.answers import Answer, Offered, Saved
from store.delivery.contents import Content
from store.delivery.ledger import Ledger
from store.delivery.sent import Sent, cost_of, delivered, tokens_of
from store.errors import UsageError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind, utf8
from store.exporting.call_ids import CallIds
from store.exporting.dialogue import Dialogue
from store.exporting.exchanges import Requests, spoken_by
from store.exporting.losses import Losses
from store.exporting.steps import Step, steps_of
from store.ids import HASH_SIZE, Hash, hash_bytes
from store.rules import Rules, rules_of
from store.store import Store

_REMEMBERED = 64
"""Of how many conversations it is remembered what was sent."""

_ALGORITHM = "blake3:"


class Deliveries:
    """Answers for the conversations of one store. Safe to use from any thread.

    What was sent of a conversation that is asked about is remembered, and followed as it grows.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[int, _Followed] = OrderedDict()

    @classmethod
    def of(cls, store: Store) -> Self:
        """Return the one that remembers for all who ask about a store."""
        found = _OF_STORES.get(store) or _OF_STORES.setdefault(store, cls(store))
        assert isinstance(found, cls)
        return found

    def check(self, context: int, blocks: Sequence[Offered], *, tool: str = "", call: str = "") -> list[Answer]:
        """Say of each block of a result, of ``tool`` and the call ``call``, whether it is to be delivered.

        Nothing is taken note of: what counts is what is appended to the conversation. Raises NotFound for a context
        that is not there, UsageError for content that is neither given nor known.
        """
        offered = [(at, self._content(block)) for at, block in enumerate(blocks) if block.uri]
        followed = self._followed(context)
        with followed.lock:
            known = self._up_to_date(followed, self._store.conversation(context))
            exchange = max(1, len(known.requests.numbers))
            found = known.ledger.find(tool, call, [content for _at, content in offered], exchange)
        answers = [Answer()] * len(blocks)
        for (at, content), reference in zip(offered, found, strict=True):
            if reference is not None:
                saved, sent = Saved(), reference.delivery
                saved.add(_cost(blocks[at], content), cost_of(Block("text", reference.message)))
                answers[at] = Answer(reference.message, sent.exchange, sent.call, saved.bytes, saved.tokens)
        return answers

    def forget(self) -> None:
        """Look at all conversations anew when they are asked about: their contents are other ones now."""
        with self._lock:
            self._known.clear()

    def _content(self, block: Offered) -> Content:
        if block.text is not None:
            data = utf8(block.text)
            return Content(block.uri, hash_bytes(data), len(data))
        if block.data is not None:
            return Content(block.uri, hash_bytes(block.data), len(block.data))
        digest = _digest(block.checksum)
        size = self._store.blob_size(digest) if block.size is None else block.size
        return Content(block.uri, digest, size)

    def _followed(self, context: int) -> _Followed:
        with self._lock:
            followed = self._known.pop(context, None) or _Followed()
            self._known[context] = followed
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return followed

    def _up_to_date(self, followed: _Followed, conversation: Conversation) -> _Known:
        rules = rules_of(self._store.settings, conversation.metadata)
        # what fails half-way has taken in a part of it
        known, followed.known = followed.known, None
        if known is None or known.ledger.rules != rules or not known.grow(self._store, conversation):
            known = _Known(self._store, conversation, rules)
        followed.known = known
        return known


class _Followed:
    """A conversation that is followed; one who asks about it at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: _Known | None = None


class _Known:
    """What was sent of one conversation as far as it went."""

    def __init__(self, store: Store, conversation: Conversation, rules: Rules) -> None:
        dialogue = Dialogue(store, conversation, Losses())
        sent = Sent(dialogue, rules, _anything)
        for _step in sent.steps():
            pass
        self.ledger: Ledger = sent.ledger
        self.requests: Requests = dialogue.requests
        self._calls: CallIds = dialogue.calls
        self._is_plain = dialogue.is_plain
        self._is_agent = "agent" in conversation.metadata
        self._head = conversation.head
        self._records = conversation.records

    def grow(self, store: Store, conversation: Conversation) -> bool:
        """Take in what was appended. Return False where more than that has changed, or it must be seen as a whole."""
        if conversation.head == self._head:
            return True
        if not self._is_plain or not self._head or not store.goes_on(self._head, conversation.head):
            return False
        rows = store.rows(conversation.head)[self._records :]
        for row, event in store.events([row for row in rows if row.kind is not Kind.RECORD]):
            if not isinstance(event, Event) or not self._take(row, event):
                return False
        self._head, self._records = conversation.head, self._records + len(rows)
        return True

    def _take(self, row: EventRow, event: Event) -> bool:
        is_inner = event.header.get("sidechain") is True and not self._is_agent
        may_be_prompt = event.kind is Kind.SYSTEM and not self.requests.numbers
        if row.parent or event.compaction or is_inner or may_be_prompt:
            return False
        if spoken := spoken_by(row.number, event):
            self.requests.add(spoken)
        exchange = self.requests.exchange(row.number)
        for step in steps_of(row.number, event):
            if step.kind is Kind.TOOL_CALL:
                self._calls.call(row.number, step.id, step.tool)
            elif step.kind is not Kind.TOOL_RESULT:
                delivered(step, exchange, self.ledger, _anything, Saved())
            elif paired := self._calls.paired(step):
                delivered(paired, exchange, self.ledger, _anything, Saved())
        return True


_OF_STORES: WeakKeyDictionary[Store, Deliveries] = WeakKeyDictionary()


def _cost(block: Offered, content: Content) -> tuple[int, int]:
    if block.text is None and block.data is None:
        return content.size, tokens_of(content.size)
    return cost_of(Block("text", block.text, block.data))


def _anything(step: Step, block: Block) -> bool:
    """Say that a block is sent: how agents say things is their own matter."""
    return bool(block.data or block.text)


def _digest(checksum: str) -> Hash:
    try:
        digest = bytes.fromhex(checksum.removeprefix(_ALGORITHM))
    except ValueError:
        digest = b""
    if len(digest) != HASH_SIZE:
        raise UsageError(f"a resource has a text, data or a checksum, {_ALGORITHM} and 64 digits; not {checksum!r}")
    return Hash(digest)
