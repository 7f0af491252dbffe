"""What a model should be sent of a conversation, written out."""

from __future__ import annotations

from collections.abc import Iterator

from store.delivery.answers import Report
from store.delivery.forms import form_named
from store.delivery.sent import Sent
from store.events.conversation import Conversation
from store.exporting.dialogue import Dialogue
from store.exporting.event_json import encoded
from store.exporting.losses import Losses
from store.formats.json_view import JsonObject
from store.rules import rules_of
from store.store import Store


class Context:
    """The messages of one conversation in the form that is called ``form``: all that count, or the ``last`` exchanges.

    Written once, by one of its methods; ``report`` is complete then. Raises UsageError for what cannot be asked for.
    """

    def __init__(self, store: Store, conversation: Conversation, form: str, last: int | None = None) -> None:
        self._form = form_named(form)
        self._name = form
        self._losses = Losses()
        rules = rules_of(store.settings, conversation.metadata)
        self._sent = Sent(Dialogue(store, conversation, self._losses), rules, self._form.is_sent, last)
        self._count = 0

    @property
    def report(self) -> Report:
        """What came of it."""
        return Report(self._count, self._sent.saved, list(self._losses.all()))

    def messages(self) -> Iterator[bytes]:
        """Yield the pieces of what the model's API takes: one object, or a line each."""
        if self._name == "jsonl":
            for message in self._counted():
                yield (encoded(message) + "\n").encode()
            return
        yield from self._object("")
        yield b"}\n"

    def document(self) -> Iterator[bytes]:
        """Yield the pieces of one object that says what was done, too: ``format``, ``saved`` and ``lost``."""
        yield from self._object(f'"format":{encoded(self._name)},')
        report = self.report
        yield f',"saved":{encoded(report.saved)},"lost":{encoded(report.lost)}}}\n'.encode()

    def _object(self, head: str) -> Iterator[bytes]:
        prompt = self._sent.prompt
        system = f'"system":{encoded(prompt)},' if prompt and self._form.apart else ""
        yield f'{{{head}{system}"messages":['.encode()
        separator = "\n"
        for message in self._counted():
            yield (separator + encoded(message)).encode()
            separator = ",\n"
        yield b"\n]"

    def _counted(self) -> Iterator[JsonObject]:
        for message in self._form.messages(self._sent, self._losses):
            self._count += 1
            yield message
