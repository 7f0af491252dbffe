"""Sessions that Gemini CLI resumes: ``tmp/<project>/chats/session-<time>-<id>.jsonl`` below its home."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePath

from store.events.conversation import Conversation
from store.events.event import Kind, utf8
from store.exporting.sessions import NewSession, SessionTarget, worked_in
from store.exporting.spoken import Piece, as_object, lost_kind, pieces_of, said, tool_name
from store.exporting.steps import OF_THE_MODEL, Step
from store.exporting.target import Job
from store.formats.gemini_cli.about import PROJECT_MARKER
from store.formats.json_view import JsonObject
from store.formats.times import iso
from store.ids import now_ms

_unfit = re.compile(r"[^a-z0-9]+").sub


class GeminiCli(SessionTarget):
    """One line a message: all that the model says at once, and what came of its calls."""

    name = "gemini-cli"

    def write(self, job: Job) -> None:
        """Write one file, and beside its folder which directory that is for: by this the program finds it."""
        super().write(job)
        marker = self.folder(job.conversation).parent / PROJECT_MARKER
        job.stage.share(marker, lambda: utf8(worked_in(job.conversation)))

    def folder(self, conversation: Conversation) -> PurePath:
        """Return the folder of the directory that was worked in."""
        words = _unfit("-", PurePath(worked_in(conversation)).name.lower()).strip("-")
        return PurePath("tmp", words or "project", "chats")

    def file_name(self, session: NewSession) -> str:
        """Return a name that holds the time and the beginning of the id."""
        return f"session-{session.started[:16].replace(':', '-')}-{str(session.id)[:8]}.jsonl"

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines."""
        yield {
            "sessionId": str(session.id),
            "projectHash": hashlib.sha256(utf8(session.folder)).hexdigest(),
            "startTime": session.started,
            # the program deletes sessions that are said to be old
            "lastUpdated": iso(now_ms()),
            "kind": "main",
            "directories": [session.folder],
            "summary": session.title,
        }
        yield from _messages(session)


class _Answer:
    """What a model says at once."""

    def __init__(self, session: NewSession, first: Step) -> None:
        self._session = session
        self._head: JsonObject = {"id": session.id_of(first), "timestamp": session.time(first), "type": "gemini"}
        self._texts: list[str] = []
        self._thoughts: list[JsonObject] = []
        self._calls: dict[str, JsonObject] = {}
        self.is_answered = False

    def add(self, step: Step) -> None:
        """Add what it says, thinks or calls."""
        losses, time = self._session.losses, self._session.time(step)
        if step.kind is Kind.REASONING:
            self._thoughts.append({"subject": "", "description": step.text, "timestamp": time})
        elif step.kind is Kind.TOOL_CALL:
            call: JsonObject = {"id": step.id, "name": tool_name(step, losses), "args": as_object(step.arguments)}
            self._calls[step.id] = call | {"status": "success", "timestamp": time}
        elif text := said(step, losses):
            self._texts.append(text)

    def add_result(self, step: Step) -> None:
        """Add what came of one of its calls."""
        self.is_answered = True
        pieces = pieces_of(step, self._session.losses)
        output = "\n\n".join(piece.text for piece in pieces if piece.text)
        call = self._calls[step.id]
        response: JsonObject = {"error": output} if step.failed else {"output": output}
        returned: JsonObject = {"functionResponse": {"id": step.id, "name": call["name"], "response": response}}
        call["result"] = [returned, *(_part(piece) for piece in pieces if piece.data)]
        if step.failed:
            call["status"] = "error"

    def message(self) -> JsonObject:
        """Return the message."""
        message = self._head | {"content": "\n\n".join(self._texts)}
        if self._thoughts:
            message["thoughts"] = self._thoughts
        if self._calls:
            message["toolCalls"] = list(self._calls.values())
        return message


def _messages(session: NewSession) -> Iterator[JsonObject]:
    answer: _Answer | None = None
    for step in session.dialogue.steps():
        if step.kind is Kind.TOOL_RESULT and answer:
            answer.add_result(step)
        elif step.kind in OF_THE_MODEL:
            if answer and answer.is_answered:
                yield answer.message()
                answer = None
            answer = answer or _Answer(session, step)
            answer.add(step)
        elif step.kind in (Kind.USER, Kind.SUMMARY):
            if answer:
                yield answer.message()
                answer = None
            if pieces := pieces_of(step, session.losses):
                head: JsonObject = {"id": session.id_of(step), "timestamp": session.time(step), "type": "user"}
                yield head | {"content": [_part(piece) for piece in pieces]}
        else:
            session.losses.add(lost_kind(step), step.number)
    if answer:
        yield answer.message()


def _part(piece: Piece) -> JsonObject:
    return {"inlineData": {"mimeType": piece.mime, "data": piece.data}} if piece.data else {"text": piece.text}
