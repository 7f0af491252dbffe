"""The forms of messages that a model can be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from store.errors import UsageError
from store.events.event import Block, Kind
from store.exporting.anthropic import messages_of as anthropic_messages
from store.exporting.dialogue import Sendable
from store.exporting.event_json import block_object
from store.exporting.losses import Losses
from store.exporting.openai import messages_of as openai_messages
from store.exporting.spoken import is_said
from store.exporting.steps import OF_THE_MODEL, Step
from store.formats.json_view import JsonObject
from store.formats.times import iso


class Form(Struct, frozen=True):
    """A form: its messages, and which blocks of a step they have a way to say.

    ``apart`` says that the system prompt is no message.
    """

    messages: Callable[[Sendable, Losses], Iterator[JsonObject]]
    is_sent: Callable[[Step, Block], bool]
    apart: bool = False


def form_named(name: str) -> Form:
    """Return a form by its name. Raises UsageError where there is none."""
    if name not in FORMS:
        raise UsageError(f"there is no format {name} of messages: choose one of {', '.join(FORMS)}")
    return FORMS[name]


def _said_anywhere(step: Step, block: Block) -> bool:
    return is_said(block)


def _said_to_openai(step: Step, block: Block) -> bool:
    """Say whether the Chat Completions API takes a block: pictures it takes of users only."""
    return is_said(block) and (block.data is None or step.kind in (Kind.USER, Kind.SUMMARY))


def _lines(dialogue: Sendable, losses: Losses) -> Iterator[JsonObject]:
    """Yield one object a step, for programs that make messages of their own; nothing is lost."""
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
    "anthropic": Form(anthropic_messages, _said_anywhere, apart=True),
    "openai": Form(openai_messages, _said_to_openai),
    "jsonl": Form(_lines, lambda step, block: bool(block.data or block.text)),
}
