"""The messages that Anthropic's Messages API takes; Claude Code's lines hold the same content."""

from __future__ import annotations

from collections.abc import Iterator

from store.events.event import Kind
from store.exporting.dialogue import Dialogue, Sendable
from store.exporting.event_json import encoded
from store.exporting.losses import Losses
from store.exporting.naming import file_name
from store.exporting.openai import written
from store.exporting.spoken import Piece, as_object, lost_kind, pieces_of, tool_name
from store.exporting.steps import OF_THE_MODEL, Step
from store.exporting.target import Job, Target
from store.formats.json_view import JsonObject

_BEGINNING: JsonObject = {"type": "text", "text": "[the conversation begins with the answer that follows]"}


class Anthropic(Target):
    """``{"system": "…", "messages": […]}``."""

    name = "anthropic"

    def write(self, job: Job) -> None:
        """Write one file."""
        dialogue = Dialogue(job.store, job.conversation, job.losses)
        head = f'"system":{encoded(dialogue.prompt)},' if dialogue.prompt else ""
        messages = messages_of(dialogue, job.losses)
        job.stage.write(file_name(job.conversation, ".anthropic.json"), written(head, messages))


def parts_of(step: Step, losses: Losses) -> list[JsonObject]:
    """Return the content blocks that say a step; none where there is no way to say it."""
    match step.kind:
        case Kind.USER | Kind.SYSTEM | Kind.SUMMARY | Kind.ASSISTANT:
            return _content(pieces_of(step, losses))
        case Kind.REASONING if step.signature:
            return [{"type": "thinking", "thinking": step.text, "signature": step.signature}]
        case Kind.REASONING:
            losses.add("a thought that Anthropic did not sign", step.number)
        case Kind.TOOL_CALL:
            tool, arguments = tool_name(step, losses), as_object(step.arguments)
            return [{"type": "tool_use", "id": step.id, "name": tool, "input": arguments}]
        case Kind.TOOL_RESULT:
            result: JsonObject = {"type": "tool_result", "tool_use_id": step.id}
            result["content"] = _content(pieces_of(step, losses))
            return [result | {"is_error": True} if step.failed else result]
        case _:
            losses.add(lost_kind(step), step.number)
    return []


def messages_of(dialogue: Sendable, losses: Losses) -> Iterator[JsonObject]:
    """Yield the messages that say what is sent; the system prompt is not one of them."""
    role, content = "user", list[object]()
    for step in dialogue.steps():
        parts = parts_of(step, losses)
        speaks = "assistant" if step.kind in OF_THE_MODEL else "user"
        if parts and speaks != role:
            # the first one must be the user's
            yield {"role": role, "content": content or [_BEGINNING]}
            role, content = speaks, []
        content += parts
    if content:
        yield {"role": role, "content": content}


def _content(pieces: list[Piece]) -> list[JsonObject]:
    return [_image(piece) if piece.data else {"type": "text", "text": piece.text} for piece in pieces]


def _image(piece: Piece) -> JsonObject:
    return {"type": "image", "source": {"type": "base64", "media_type": piece.mime, "data": piece.data}}
