"""The messages that OpenAI's Chat Completions API takes, and whatever understands the same."""

from collections.abc import Iterator

from store.events.event import Kind
from store.exporting.dialogue import (
    Dialogue,
    Losses,
    Piece,
    Sendable,
    arguments_object,
    lost_kind,
    pieces_of,
    said,
    tool_name,
)
from store.exporting.event_json import encoded, listed
from store.exporting.steps import OF_THE_MODEL, Step
from store.exporting.target import ExportJob
from store.formats.core.json_view import JsonObject


def openai_file(job: ExportJob) -> Iterator[bytes]:
    """Yield the pieces of ``{"messages": […]}``."""
    dialogue = Dialogue(job.store.library, job.conversation, job.losses)
    return map(str.encode, listed('{"messages":[', openai_messages(dialogue, job.losses)))


def openai_messages(dialogue: Sendable, losses: Losses) -> Iterator[JsonObject]:
    """Yield the messages as they are sent, the system prompt first."""
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
    if step.kind is Kind.REASONING:
        losses.add("a thought", step.number)
    elif step.kind is Kind.TOOL_CALL:
        function = {"name": tool_name(step, losses), "arguments": encoded(arguments_object(step.arguments))}
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
            return {"role": "user", "content": _chat_content(pieces)} if pieces else None
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


def _chat_content(pieces: list[Piece]) -> object:
    if len(pieces) == 1 and not pieces[0].data:
        return pieces[0].text
    return [
        {"type": "image_url", "image_url": {"url": piece.url}} if piece.data else {"type": "text", "text": piece.text}
        for piece in pieces
    ]


_BEGINNING: JsonObject = {"type": "text", "text": "[the conversation begins with the answer that follows]"}


def anthropic_file(job: ExportJob) -> Iterator[bytes]:
    """Yield the pieces of ``{"system": "…", "messages": […]}``."""
    dialogue = Dialogue(job.store.library, job.conversation, job.losses)
    prompt = f'"system":{encoded(dialogue.prompt)},' if dialogue.prompt else ""
    return map(str.encode, listed(f'{{{prompt}"messages":[', anthropic_messages(dialogue, job.losses)))


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
            tool, arguments = tool_name(step, losses), arguments_object(step.arguments)
            return [{"type": "tool_use", "id": step.id, "name": tool, "input": arguments}]
        case Kind.TOOL_RESULT:
            result: JsonObject = {"type": "tool_result", "tool_use_id": step.id}
            result["content"] = _content(pieces_of(step, losses))
            return [result | {"is_error": True} if step.failed else result]
        case _:
            losses.add(lost_kind(step), step.number)
    return []


def anthropic_messages(dialogue: Sendable, losses: Losses) -> Iterator[JsonObject]:
    """Yield the messages as they are sent, without the system prompt."""
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
    return [
        {"type": "image", "source": {"type": "base64", "media_type": piece.mime, "data": piece.data}}
        if piece.data
        else {"type": "text", "text": piece.text}
        for piece in pieces
    ]
