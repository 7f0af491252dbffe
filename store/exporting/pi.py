"""Sessions that pi and oh-my-pi resume: ``sessions/<directory>/<time>_<id>.jsonl`` below ``agent/`` in their homes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from store.events.conversation import Conversation
from store.events.event import Kind
from store.exporting.losses import Losses
from store.exporting.sessions import NewSession, SessionTarget, worked_in
from store.exporting.spoken import as_object, lost_kind, pieces_of, said, tool_name
from store.exporting.steps import OF_THE_MODEL, Step
from store.exporting.target import Stage
from store.formats.json_view import JsonObject
from store.formats.pi.blobs import BLOBS
from store.formats.pi.compose import NO_MODEL, NO_TOKENS
from store.formats.pi.outside import moved_outside
from store.formats.pi.title_slot import title_slot

_VERSION = 3
"""Of sessions whose lines are a tree."""


class Pi(SessionTarget):
    """One line a message: all that a model says at once, then each result."""

    name = "pi"

    def folder(self, conversation: Conversation) -> PurePath:
        """Return the folder of the directory that was worked in."""
        where = worked_in(conversation).strip("/\\").replace("/", "-").replace("\\", "-").replace(":", "-")
        return PurePath("sessions", f"--{where}--")

    def file_name(self, session: NewSession) -> str:
        """Return a name that holds the time and the id."""
        return f"{session.started.replace(':', '-').replace('.', '-')}_{session.id}.jsonl"

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines, linked."""
        about: JsonObject = {"version": _VERSION, "id": str(session.id), "timestamp": session.started}
        yield {"type": "session", **about, "cwd": session.folder}
        parent: str | None = None
        for step, held in _said(session):
            entry = session.id_of(step).replace("-", "")[:8]
            link: JsonObject = {"id": entry, "parentId": parent, "timestamp": session.time(step)}
            match step.kind:
                case Kind.SYSTEM:
                    yield {"type": "custom_message", **link, "customType": "note", **held, "display": True}
                case Kind.SUMMARY:
                    yield {"type": "branch_summary", **link, "fromId": parent or "root", **held}
                case _:
                    yield {"type": "message", **link, "message": held | {"timestamp": step.time_ms}}
            parent = entry
        if session.title:
            last: JsonObject = {"id": session.id.hex[:8], "parentId": parent, "timestamp": session.started}
            yield {"type": "session_info", **last, "name": session.title}


class OhMyPi(Pi):
    """As pi, but with the title in its place at the beginning, and with images in ``blobs/`` beside ``sessions/``."""

    name = "oh-my-pi"

    @property
    def own(self) -> str:
        """The format of its sessions, which is that of pi's."""
        return Pi.name

    def put(self, stage: Stage, folder: PurePath, name: PurePath, pieces: Iterable[bytes]) -> None:
        """Write a file of a session where the program looks for it."""
        if name.parts[0] == BLOBS:
            stage.share(name, lambda: b"".join(pieces))
        else:
            super().put(stage, folder, name, pieces)

    def written(self, session: NewSession) -> Iterator[bytes]:
        """Yield the title, then the lines without larger images, which are outside of the session afterwards."""
        yield title_slot(session.title, session.started)
        for line in super().written(session):
            moved, outside = moved_outside(line)
            session.outside |= outside
            yield moved

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines, linked; the title stands elsewhere."""
        return (line for line in super().lines(session) if line["type"] != "session_info")


def _said(session: NewSession) -> Iterator[tuple[Step, JsonObject]]:
    """Yield what the lines hold, each with the step that it begins with."""
    first: Step | None = None
    parts: list[JsonObject] = []
    for step in session.dialogue.steps():
        if step.kind in OF_THE_MODEL:
            if added := _parts(step, session.losses):
                first = first or step
                parts += added
        elif message := _message(step, session.losses):
            if first:
                yield first, _answer(parts)
                first, parts = None, []
            yield step, message
    if first:
        yield first, _answer(parts)


def _parts(step: Step, losses: Losses) -> list[JsonObject]:
    match step.kind:
        case Kind.REASONING:
            signed: JsonObject = {"thinkingSignature": step.signature} if step.signature else {}
            return [{"type": "thinking", "thinking": step.text, **signed}]
        case Kind.TOOL_CALL:
            name, arguments = tool_name(step, losses), as_object(step.arguments)
            return [{"type": "toolCall", "id": step.id, "name": name, "arguments": arguments}]
        case _:
            return _content(step, losses)


def _answer(parts: list[JsonObject]) -> JsonObject:
    stop = "toolUse" if any(part["type"] == "toolCall" for part in parts) else "stop"
    return {"role": "assistant", "content": parts, **NO_MODEL, "usage": NO_TOKENS, "stopReason": stop}


def _message(step: Step, losses: Losses) -> JsonObject | None:
    match step.kind:
        case Kind.USER:
            content = _content(step, losses)
            return {"role": "user", "content": content} if content else None
        case Kind.SYSTEM:
            content = _content(step, losses)
            return {"content": content} if content else None
        case Kind.SUMMARY:
            text = said(step, losses)
            return {"summary": text} if text else None
        case Kind.TOOL_RESULT:
            name = tool_name(step, losses)
            result: JsonObject = {"role": "toolResult", "toolCallId": step.id, "toolName": name}
            return result | {"content": _content(step, losses), "isError": step.failed}
        case _:
            losses.add(lost_kind(step), step.number)
            return None


def _content(step: Step, losses: Losses) -> list[JsonObject]:
    return [
        {"type": "image", "data": piece.data, "mimeType": piece.mime}
        if piece.data
        else {"type": "text", "text": piece.text}
        for piece in pieces_of(step, losses)
    ]
