"""The messages to send to a model, written out."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from store.conversations.library import Library
from store.delivery.answers import Report
from store.delivery.sent import Sent
from store.errors import UsageError
from store.events.conversation import Conversation
from store.events.event import Block, Kind
from store.exporting.dialogue import Dialogue, Losses, Sendable, is_said
from store.exporting.event_json import block_object, encoded
from store.exporting.messages import anthropic_messages as anthropic_messages
from store.exporting.messages import openai_messages as openai_messages
from store.exporting.steps import OF_THE_MODEL, Step
from store.formats.core.json_view import JsonObject
from store.formats.core.times import iso
from store.settings import Settings, rules_of


class Form(Struct, frozen=True):
    """A form of messages, the blocks of a step that it can express, and if the system prompt stands ``apart``."""

    messages: Callable[[Sendable, Losses], Iterator[JsonObject]]
    is_sent: Callable[[Step, Block], bool]
    apart: bool = False


def form_named(name: str) -> Form:
    """Return a form by its name. Raises UsageError if there is none."""
    if name not in FORMS:
        raise UsageError(f"there is no format {name} of messages: choose one of {', '.join(FORMS)}")
    return FORMS[name]


def _said_to_openai(step: Step, block: Block) -> bool:
    """Return whether the Chat Completions API takes a block: it takes pictures from users only."""
    return is_said(block) and (block.data is None or step.kind in (Kind.USER, Kind.SUMMARY))


def _lines(dialogue: Sendable, losses: Losses) -> Iterator[JsonObject]:
    """Yield one object per step, for programs that make their own messages; nothing is lost."""
    if dialogue.prompt:
        yield {"role": "system", "content": [{"type": "text", "text": dialogue.prompt}]}
    for step in dialogue.steps():
        roles = {Kind.SYSTEM: "system", Kind.TOOL_RESULT: "tool"}
        role = "assistant" if step.kind in OF_THE_MODEL else roles.get(step.kind, "user")
        line: JsonObject = {"role": role, "event": step.number, "kind": step.kind.name.lower()}
        line |= {"tool": step.tool} if step.tool else {}
        line |= {"id": step.id} if step.id else {}
        line |= {"is_error": True} if step.failed else {}
        line |= {"timestamp": iso(step.time_ms)} if step.time_ms else {}
        line |= {"signature": step.signature} if step.signature else {}
        line |= {"arguments": step.arguments} if step.kind is Kind.TOOL_CALL else {}
        yield line | {"content": [block_object(block) for block in step.blocks]}


FORMS = {
    "anthropic": Form(anthropic_messages, lambda step, block: is_said(block), apart=True),
    "openai": Form(openai_messages, _said_to_openai),
    "jsonl": Form(_lines, lambda step, block: bool(block.data or block.text)),
}


class Context:
    """The messages of one conversation in the form ``form``: all that count, or the ``last`` exchanges.

    Written once, by one of its methods; ``report`` is then complete. Raises UsageError for invalid parameters.
    """

    def __init__(
        self, library: Library, settings: Settings, conversation: Conversation, form: str, last: int | None = None
    ) -> None:
        self._form = form_named(form)
        self._name = form
        self._losses = Losses()
        rules = rules_of(settings, conversation.metadata)
        self._sent = Sent(Dialogue(library, conversation, self._losses), rules, self._form.is_sent, last)
        self._count = 0

    @property
    def report(self) -> Report:
        return Report(self._count, self._sent.saved, list(self._losses.all()))

    def messages(self) -> Iterator[bytes]:
        """Yield the pieces of the request that the model's API takes: one object, or one line each."""
        if self._name == "jsonl":
            for message in self._counted():
                yield (encoded(message) + "\n").encode()
            return
        yield from self._object("")
        yield b"}\n"

    def document(self) -> Iterator[bytes]:
        """Yield the pieces of one object that also has ``format``, ``saved`` and ``lost``."""
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
