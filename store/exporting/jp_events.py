"""What other tools' conversations are as events of JP."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from store.events.event import Block, Kind, utf8
from store.exporting.dialogue import Dialogue
from store.exporting.jp_contents import Contents
from store.exporting.losses import Losses
from store.exporting.spoken import as_object, lost_kind
from store.exporting.steps import Step
from store.formats.jp.editing import stamp
from store.formats.json_view import JsonObject
from store.formats.times import iso

_BINARY = "application/octet-stream"


def jp_events(dialogue: Dialogue, contents: Contents, losses: Losses, started: str) -> Iterator[JsonObject]:
    """Yield the events, led by a time; ``started`` is that of the conversation, in ISO 8601."""
    time = started
    exchanges = 0
    for step in dialogue.steps():
        time = iso(step.time_ms) or time
        own = _event(step, contents, losses, exchanges)
        if step.kind is Kind.USER and own:
            exchanges += 1
            yield {"timestamp": stamp(time), "type": "turn_start"}
        if own:
            yield {"timestamp": stamp(time), **own}


def _event(step: Step, contents: Contents, losses: Losses, exchanges: int) -> JsonObject:
    match step.kind:
        case Kind.USER:
            event: JsonObject = {"type": "chat_request", "content": _texts(step)}
            attached = [_resource(block, contents) for block in step.blocks if _is_resource(block)]
            return event | {"resources": attached} if attached else event
        case Kind.ASSISTANT:
            _note_binary(step, losses)
            return {"type": "chat_response", "message": _texts(step)} if _texts(step) else {}
        case Kind.REASONING:
            event = {"type": "chat_response", "reasoning": step.text}
            if step.signature:
                event["metadata"] = {"anthropic_thinking_signature": _base64(step.signature)}
            return event
        case Kind.TOOL_CALL:
            arguments = _hidden(as_object(step.arguments))
            return {"type": "tool_call_request", "id": step.id, "name": step.tool, "arguments": arguments}
        case Kind.TOOL_RESULT:
            parts = [_part(block, contents) for block in step.blocks]
            return {"type": "tool_call_response", "id": step.id, "content": parts, "is_error": step.failed}
        case Kind.QUESTION:
            question: JsonObject = {"text": step.text, "answer_type": {"type": "text"}}
            source: JsonObject = {"source": "tool", "name": step.tool} if step.tool else {"source": "assistant"}
            return {"type": "inquiry_request", "id": step.id, "source": source, "question": question}
        case Kind.ANSWER:
            return {"type": "inquiry_response", "id": step.id, "answer": step.text}
        case Kind.SUMMARY if exchanges and step.text:
            summary = {"summary": step.text}
            return {"type": "compaction", "from_turn": 0, "to_turn": exchanges - 1, "summary": summary}
        case _:
            losses.add(lost_kind(step), step.number)
            return {}


def _is_resource(block: Block) -> bool:
    return block.data is not None or block.type == "resource"


def _texts(step: Step) -> str:
    return "\n\n".join(block.text for block in step.blocks if block.text and not _is_resource(block))


def _note_binary(step: Step, losses: Losses) -> None:
    if any(_is_resource(block) for block in step.blocks):
        losses.add("an image or a file that the model gave", step.number)


def _part(block: Block, contents: Contents) -> JsonObject:
    if _is_resource(block):
        return {"type": "resource", "resource": _resource(block, contents)}
    return {"type": "text", "content": contents.reference(block.text or "")}


def _resource(block: Block, contents: Contents) -> JsonObject:
    content = block.data if block.data is not None else block.text or ""
    mime = block.mime or ("text/plain" if block.data is None else _BINARY)
    return {"uri": block.uri, "mimeType": mime, "content": contents.reference(content)}


def _hidden(value: object) -> object:
    """Return arguments with every string in base64, in which JP keeps them out of searches."""
    match value:
        case str():
            return _base64(value)
        case dict():
            return {key: _hidden(item) for key, item in value.items()}
        case list():
            return [_hidden(item) for item in value]
        case _:
            return value


def _base64(text: str) -> str:
    return b64encode(utf8(text)).decode()
