"""Deliveries: which resources in a tool's result the model was sent already, asked before it is delivered."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from msgspec import structs

from store.conversations.library import Library
from store.delivery.answers import Answer, Offered, ReferencesSaved
from store.delivery.ledger import DeliveredContent, Ledger
from store.delivery.sent import Sent, cost_of, delivered, tokens_of
from store.errors import UsageError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Kind, utf8
from store.exporting.dialogue import Dialogue, Losses
from store.exporting.steps import CallIds, Requests, Step, spoken_by, steps_of
from store.ids import HASH_SIZE, Hash, hash_bytes
from store.settings import Rules, Settings, rules_of

_REMEMBERED = 64
"""The conversations whose deliveries are remembered."""

_ALGORITHM = "blake3:"


class _Followed:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: _Known | None = None


class _Known:
    def __init__(self, library: Library, conversation: Conversation, rules: Rules) -> None:
        dialogue = Dialogue(library, conversation, Losses())
        sent = Sent(dialogue, rules, _anything)
        for _step in sent.steps():
            pass
        self.ledger: Ledger = sent.ledger
        self._files = sent.files
        self.requests: Requests = dialogue.requests
        self._calls: CallIds = dialogue.calls
        self._is_plain = dialogue.is_plain
        self._is_agent = "agent" in conversation.metadata
        self._head = conversation.head
        self._records = conversation.records

    def grow(self, library: Library, conversation: Conversation) -> bool:
        """Add the appended records. Return False if anything else has changed, or the whole must be looked at."""
        if conversation.head == self._head:
            return True
        if not self._is_plain or not self._head or not library.turns.goes_on(self._head, conversation.head):
            return False
        rows = library.records.rows(conversation.head)[self._records :]
        for row, event in library.viewer.events([row for row in rows if row.kind is not Kind.RECORD]):
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
                own = self._calls.call(row.number, step.id, step.tool)
                self._files.take(structs.replace(step, id=own))
            elif step.kind is not Kind.TOOL_RESULT:
                delivered(step, exchange, self.ledger, _anything, ReferencesSaved())
            elif paired := self._calls.paired(step):
                delivered(self._files.take(paired), exchange, self.ledger, _anything, ReferencesSaved())
        return True


class Deliveries:
    """Answers for the conversations of one store, each followed once it is asked about. Safe to use from any thread."""

    def __init__(self, library: Library, settings: Settings) -> None:
        self._library = library
        self._settings = settings
        self._lock = threading.Lock()
        self._known: OrderedDict[int, _Followed] = OrderedDict()

    def check(self, context: int, blocks: Sequence[Offered], *, tool: str = "", call: str = "") -> list[Answer]:
        """Return how to deliver each block of a result, of ``tool`` and the call ``call``.

        Nothing is recorded: only appends to the conversation count. Raises NotFound for a missing context, UsageError
        for content that is neither given nor known.
        """
        offered = [(at, self._content(block)) for at, block in enumerate(blocks) if block.uri]
        followed = self._followed(context)
        with followed.lock:
            known = self._up_to_date(followed, self._library.conversation(context))
            exchange = max(1, len(known.requests.numbers))
            found = known.ledger.find(tool, call, [content for _at, content in offered], exchange)
        answers = [Answer()] * len(blocks)
        for (at, content), reference in zip(offered, found, strict=True):
            if reference is not None:
                saved, sent = ReferencesSaved(), reference.delivery
                saved.add(_cost(blocks[at], content), cost_of(Block("text", reference.message)))
                answers[at] = Answer(reference.message, sent.exchange, sent.call, saved.bytes, saved.tokens)
        return answers

    def forget(self) -> None:
        """Forget all conversations: their contents have changed."""
        with self._lock:
            self._known.clear()

    def _content(self, block: Offered) -> DeliveredContent:
        if block.text is not None:
            data = utf8(block.text)
            return DeliveredContent(block.uri, hash_bytes(data), len(data))
        if block.data is not None:
            return DeliveredContent(block.uri, hash_bytes(block.data), len(block.data))
        digest = _digest(block.checksum)
        size = self._library.contents.blobs.size(digest) if block.size is None else block.size
        return DeliveredContent(block.uri, digest, size)

    def _followed(self, context: int) -> _Followed:
        with self._lock:
            followed = self._known.pop(context, None) or _Followed()
            self._known[context] = followed
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return followed

    def _up_to_date(self, followed: _Followed, conversation: Conversation) -> _Known:
        rules = rules_of(self._settings, conversation.metadata)
        # what fails half-way has taken in a part of it
        known, followed.known = followed.known, None
        if known is None or known.ledger.rules != rules or not known.grow(self._library, conversation):
            known = _Known(self._library, conversation, rules)
        followed.known = known
        return known


def _cost(block: Offered, content: DeliveredContent) -> tuple[int, int]:
    if block.text is None and block.data is None:
        return content.size, tokens_of(content.size)
    return cost_of(Block("text", block.text, block.data))


def _anything(step: Step, block: Block) -> bool:
    """Return true: agents can express every block in their own way."""
    return bool(block.data or block.text)


def _digest(checksum: str) -> Hash:
    try:
        digest = bytes.fromhex(checksum.removeprefix(_ALGORITHM))
    except ValueError:
        digest = b""
    if len(digest) != HASH_SIZE:
        raise UsageError(f"a resource has a text, data or a checksum, {_ALGORITHM} and 64 digits; not {checksum!r}")
    return Hash(digest)
