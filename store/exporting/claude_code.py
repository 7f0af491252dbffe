"""Sessions that Claude Code resumes: ``projects/<directory>/<session>.jsonl`` below its home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from store.events.conversation import Conversation
from store.events.event import Kind
from store.exporting.anthropic import parts_of
from store.exporting.sessions import NewSession, SessionTarget, worked_in
from store.exporting.steps import OF_THE_MODEL, Step
from store.formats.claude_code.about import folder_name
from store.formats.claude_code.compose import NO_TOKENS, SYNTHETIC
from store.formats.json_view import JsonObject

_VERSION = "2.0.0"
"""Of the program that wrote lines as these are; it looks for no more than that there is one."""


class ClaudeCode(SessionTarget):
    """One line a content block, as the program writes them."""

    name = "claude-code"

    def folder(self, conversation: Conversation) -> PurePath:
        """Return the folder of the directory that was worked in."""
        return PurePath("projects", folder_name(worked_in(conversation)))

    def file_name(self, session: NewSession) -> str:
        """Return the name that the program finds a session by."""
        return f"{session.id}.jsonl"

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines, linked."""
        parent: str | None = None
        message = ""
        for step in session.dialogue.steps():
            parts = parts_of(step, session.losses)
            if not parts:
                continue
            # what the model says at once is one message, though each part of it is a line
            of_the_model = step.kind in OF_THE_MODEL
            message = message or f"msg_{session.id_of(step).replace('-', '')}" if of_the_model else ""
            for index, content in enumerate([[part] for part in parts] if message else [parts]):
                uuid = session.id_of(step, index)
                yield {
                    "parentUuid": parent,
                    "isSidechain": False,
                    "userType": "external",
                    "cwd": session.folder,
                    "sessionId": str(session.id),
                    "version": _VERSION,
                    "gitBranch": "",
                    **(_answer(step, content, message) if message else _request(step, content)),
                    "uuid": uuid,
                    "timestamp": session.time(step),
                }
                parent = uuid
        if session.title:
            yield {"type": "custom-title", "customTitle": session.title, "sessionId": str(session.id)}


def _request(step: Step, parts: list[JsonObject]) -> JsonObject:
    content: object = parts
    if step.kind is not Kind.TOOL_RESULT and len(parts) == 1 and parts[0]["type"] == "text":
        content = parts[0]["text"]
    line: JsonObject = {"type": "user", "message": {"role": "user", "content": content}}
    match step.kind:
        case Kind.SYSTEM:
            line["isMeta"] = True
        case Kind.SUMMARY:
            line["isCompactSummary"] = True
    return line


def _answer(step: Step, parts: list[JsonObject], message: str) -> JsonObject:
    return {
        "type": "assistant",
        "message": {
            "id": message,
            "type": "message",
            "role": "assistant",
            "model": step.model if step.model.startswith("claude") else SYNTHETIC,
            "content": parts,
            "stop_reason": "tool_use" if step.kind is Kind.TOOL_CALL else "end_turn",
            "stop_sequence": None,
            "usage": NO_TOKENS,
        },
    }
