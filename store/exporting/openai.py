"""The messages that OpenAI's Chat Completions API takes, and whatever understands the same."""

from __future__ import annotations

from collections.abc import Iterator

from store.events.event import Kind
from store.exporting.dialogue import Dialogue, Sendable
from store.exporting.event_json import encoded
from store.exporting.losses import Losses
from store.exporting.naming import file_name
from store.exporting.spoken import Piece, as_object, lost_kind, pieces_of, said, tool_name
from store.exporting.steps import OF_THE_MODEL, Step
from store.exporting.target import Job, Target
from store.formats.json_view import JsonObject


class OpenAi(Target):
    """``{"messages": […]}``."""

    name = "openai"

    def write(self, job: Job) -> None:
        """Write one file."""
        messages = messages_of(Dialogue(job.store, job.conversation, job.losses), job.losses)
        job.stage.write(file_name(job.conversation, ".openai.json"), written("", messages))


def written(head: str, messages: Iterator[JsonObject]) -> Iterator[bytes]:
    """Yield the pieces of a JSON object with the members ``head`` and ``messages``."""
    yield f'{{{head}"messages":['.encode()
    separator = "\n"
    for message in messages:
        yield (separator + encoded(message)).encode()
        separator = ",\n"
    yield b"\n]}\n"


def messages_of(dialogue: Sendable, losses: Losses) -> Iterator[JsonObject]:
    """Yield the messages that say what is sent, the system prompt first."""
    if dialogue.prompt:
        yield {"role": "system", "content": dialogue.prompt}
    waiting: JsonObject = {}
    for step in dialogue.steps():
        if step.kind in OF_THE_MODEL:
            _add(waiting, step, losses)
        elif message := _message(step, losses):
            if waiting:
                yield _whole(waiting)
                waiting = {}
            yield message
    if waiting:
        yield _whole(waiting)


def _add(message: JsonObject, step: Step, losses: Losses) -> None:
    """Add to what the model says at once."""
    if step.kind is Kind.REASONING:
        losses.add("a thought", step.number)
    elif step.kind is Kind.TOOL_CALL:
        function = {"name": tool_name(step, losses), "arguments": encoded(as_object(step.arguments))}
        calls = message.setdefault("tool_calls", [])
        assert isinstance(calls, list)
        calls.append({"id": step.id, "type": "function", "function": function})
    elif text := said(step, losses):
        before = message.get("content")
        message["content"] = f"{before}\n\n{text}" if before else text


def _whole(message: JsonObject) -> JsonObject:
    return {"role": "assistant", "content": None} | message


def _message(step: Step, losses: Losses) -> JsonObject | None:
    match step.kind:
        case Kind.USER | Kind.SUMMARY:
            pieces = pieces_of(step, losses)
            return {"role": "user", "content": _content(pieces)} if pieces else None
        case Kind.SYSTEM:
            text = said(step, losses)
            return {"role": "system", "content": text} if text else None
        case Kind.TOOL_RESULT:
            if step.failed:
                losses.add("that a call failed, but for what its result says", step.number)
            return {"role": "tool", "tool_call_id": step.id, "content": said(step, losses)}
        case _:
            losses.add(lost_kind(step), step.number)
            return None


def _content(pieces: list[Piece]) -> object:
    if len(pieces) == 1 and not pieces[0].data:
        return pieces[0].text
    return [
        {"type": "image_url", "image_url": {"url": piece.url}} if piece.data else {"type": "text", "text": piece.text}
        for piece in pieces
    ]
