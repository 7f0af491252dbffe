"""Rollouts that Codex resumes: ``sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`` below its home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from store.events.conversation import Conversation
from store.events.event import Kind
from store.exporting.event_json import encoded
from store.exporting.losses import Losses
from store.exporting.sessions import NewSession, SessionTarget, started
from store.exporting.spoken import Piece, as_object, lost_kind, pieces_of, tool_name
from store.exporting.steps import Step
from store.formats.json_view import JsonObject

_VERSION = "0.50.0"
"""Of the program that wrote lines as these are."""
_ROLES = {
    Kind.USER: ("user", "input_text"),
    Kind.SUMMARY: ("user", "input_text"),
    Kind.SYSTEM: ("developer", "input_text"),
    Kind.ASSISTANT: ("assistant", "output_text"),
}


class Codex(SessionTarget):
    """Items for the model, and beside them the events that the program shows."""

    name = "codex"

    def folder(self, conversation: Conversation) -> PurePath:
        """Return the folder of the day on which it began."""
        return PurePath("sessions", *started(conversation)[:10].split("-"))

    def file_name(self, session: NewSession) -> str:
        """Return a name that holds the time and the id."""
        return f"rollout-{session.started[:19].replace(':', '-')}-{session.id}.jsonl"

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines."""
        meta: JsonObject = {
            "id": str(session.id),
            "timestamp": session.started,
            "cwd": session.folder,
            "originator": "convfs",
            "cli_version": _VERSION,
            "instructions": None,
            "source": "cli",
        }
        yield {"timestamp": session.started, "type": "session_meta", "payload": meta}
        for step in session.dialogue.steps():
            time = session.time(step)
            for what, payload in _said(step, session.losses):
                yield {"timestamp": time, "type": what, "payload": payload}


def _said(step: Step, losses: Losses) -> Iterator[tuple[str, JsonObject]]:
    """Yield the types of the lines that say a step, and what they hold."""
    match step.kind:
        case Kind.TOOL_CALL:
            arguments = encoded(as_object(step.arguments))
            call = {"name": tool_name(step, losses), "arguments": arguments, "call_id": step.id}
            yield "response_item", {"type": "function_call", **call}
        case Kind.TOOL_RESULT:
            if step.failed:
                losses.add("that a call failed, but for what its result says", step.number)
            output = _output(pieces_of(step, losses))
            yield "response_item", {"type": "function_call_output", "call_id": step.id, "output": output}
        case Kind.REASONING:
            losses.add("a thought: it is shown, but not given to the model", step.number)
            yield "event_msg", {"type": "agent_reasoning", "text": step.text}
        case kind if kind in _ROLES:
            yield from _message(step, pieces_of(step, losses))
        case _:
            losses.add(lost_kind(step), step.number)


def _message(step: Step, pieces: list[Piece]) -> Iterator[tuple[str, JsonObject]]:
    if not pieces:
        return
    role, what = _ROLES[step.kind]
    text = "\n\n".join(piece.text for piece in pieces if piece.text)
    item: JsonObject = {"type": "message", "role": role, "content": _content(pieces, what)}
    if step.kind is Kind.ASSISTANT:
        yield "event_msg", {"type": "agent_message", "message": text}
    yield "response_item", item
    if step.kind is Kind.USER:
        yield "event_msg", {"type": "user_message", "message": text, "images": []}


def _output(pieces: list[Piece]) -> object:
    if any(piece.data for piece in pieces):
        return _content(pieces, "input_text")
    return "\n\n".join(piece.text for piece in pieces)


def _content(pieces: list[Piece], what: str) -> list[JsonObject]:
    return [
        {"type": "input_image", "image_url": piece.url} if piece.data else {"type": what, "text": piece.text}
        for piece in pieces
    ]
