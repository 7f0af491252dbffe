"""Sessions of other tools that are files of one JSON object a line, where the tool looks for them below its home.

Claude Code resumes ``projects/<directory>/<session>.jsonl``, Codex ``sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``,
Gemini CLI ``tmp/<project>/chats/session-<time>-<id>.jsonl``, and pi and oh-my-pi, below ``agent/`` in their homes,
``sessions/<directory>/<time>_<id>.jsonl``.
"""

import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath
from uuid import UUID, uuid5

from store.errors import ConvfsError
from store.events.conversation import Conversation
from store.events.event import Kind, utf8
from store.exporting.dialogue import Dialogue, Losses, Piece, arguments_object, lost_kind, pieces_of, said, tool_name
from store.exporting.event_json import encoded
from store.exporting.messages import parts_of
from store.exporting.steps import OF_THE_MODEL, CallIds, Step, steps_of
from store.exporting.target import ExportJob, Target
from store.filenames import safe_name
from store.formats.claude_code.lens import SYNTHETIC
from store.formats.claude_code.lens import answer as claude_code_answer
from store.formats.claude_code.session import folder_name
from store.formats.codex.lens import SPEAKERS
from store.formats.core.json_view import JsonObject, object_in
from store.formats.core.times import iso
from store.formats.gemini_cli.session import PROJECT_MARKER
from store.formats.pi.images import moved_outside
from store.formats.pi.lens import NO_MODEL
from store.formats.pi.lens import answer as pi_answer
from store.formats.pi.slot import is_slot, title_slot
from store.ids import now_ms
from store.importing.exporter import (
    Identity,
    came_in_files,
    content_beside,
    has_own_forks,
    identity,
    is_fork,
    native_files,
)
from store.importing.snapshot import path_text

_NOWHERE = "/"
_BEFORE_TIME = "1970-01-01T00:00:00.000Z"


class NewSession:
    """A conversation about to become a session of ``tool``: its name there, and its contents."""

    def __init__(self, job: ExportJob, tool: str) -> None:
        self.conversation = job.conversation
        self.losses = job.losses
        self.dialogue = Dialogue(job.store.library, job.conversation, job.losses)
        self.id = uuid5(UUID(bytes=job.store.store_id[:16]), f"{tool} {job.conversation.id}{job.copy}")
        self.title = " ".join(job.conversation.title.split())
        self.started = started(job.conversation)
        self.folder = worked_in(job.conversation)
        self.outside: dict[str, bytes] = {}
        """Contents of files that the tool keeps outside of its sessions, by names derived from the content."""
        self.beside: dict[str, bytes] = {}
        """Files that belong to the session alone, by names relative to its own."""
        self.parent: Identity | None = None
        """The tool's own session that this one is a fork of."""
        self._time = self.started
        if self.folder is _NOWHERE:
            self.losses.add(f"the directory that was worked in, which is not known: {_NOWHERE} is said")
        if self.dialogue.prompt:
            self.losses.add("the system prompt: the tool has its own")

    def time(self, step: Step) -> str:
        """Return the time of a step; where it has none, that of the one before it."""
        self._time = iso(step.time_ms) or self._time
        return self._time

    def id_of(self, step: Step, part: int = 0) -> str:
        """Return an id for a record that says a step, or a part of one."""
        return str(uuid5(self.id, f"{step.number}.{step.kind.name}.{step.index}.{part}"))


class SessionTarget(Target):
    """A tool whose sessions are such files.

    A session of the tool's own becomes its own file again, and a fork of one a session that names its parent. Where the
    tool has no such forks, it becomes a new session.
    """

    @property
    def own(self) -> str:
        """The format of sessions that are the tool's own."""
        return self.name

    @abstractmethod
    def path(self, conversation: Conversation, session: str) -> PurePath:
        """Return the file below its home in which the tool keeps a conversation as the session of this id."""

    @abstractmethod
    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        """Yield the lines of a session's file."""

    def folder(self, path: PurePath, name: PurePath) -> PurePath:
        """Return the folder for a file ``name`` of the tool's own session, whose main file is at ``path``."""
        return path.parent

    def write(self, job: ExportJob) -> None:
        """Write one file, or those of the tool's own session."""
        conversation = job.conversation
        if self.is_own(job):
            path = self.path(conversation, identity(job.store, conversation).session)
            for file in native_files(job.store, conversation):
                job.stage.add((file,), _safe(self.folder(path, file.name)))
            job.stage.add(content_beside(job.store, conversation, job.losses.add))
            return
        session = NewSession(job, self.name)
        if conversation.format == self.own and came_in_files(conversation):
            own = identity(job.store, conversation)
            session.parent = own if job.copy else own.parent
        path = self.path(conversation, self.session_id(session))
        job.stage.write(_safe(path), self.written(session))
        for beside, content in session.beside.items():
            job.stage.write(_safe(seen_from(path, beside)), (content,))
        for outside, content in session.outside.items():
            job.stage.share(PurePath(outside), (content,))

    def is_own(self, job: ExportJob) -> bool:
        """Return whether a conversation is a session of the tool's own, and to be exported as that."""
        conversation = job.conversation
        if conversation.format != self.own or not came_in_files(conversation) or job.copy:
            return False
        if not is_fork(conversation):
            return True
        # a fork in the middle of a call is told so that models take it
        return has_own_forks(conversation) and _is_answered(job)

    def session_id(self, session: NewSession) -> str:
        """Return the id by which the tool knows a session."""
        return str(session.id)

    def written(self, session: NewSession) -> Iterator[bytes]:
        """Yield the bytes of a session's file; content kept elsewhere is in the session's ``outside`` afterwards."""
        return (f"{encoded(line)}\n".encode() for line in self.lines(session))


def seen_from(path: PurePath, name: str) -> PurePath:
    """Return the path of a file called ``name`` from where the session at ``path`` lies: it may be above that."""
    return PurePath(os.path.normpath(path.parent / name))


def _safe(path: PurePath) -> PurePath:
    return PurePath(*map(safe_name, path.parts))


def _is_answered(job: ExportJob) -> bool:
    """Return whether each call of a conversation has its result."""
    library, ids = job.store.library, CallIds()
    rows = library.records.rows(job.conversation.head) if job.conversation.head else ()
    for row, event in library.viewer.events(rows):
        for step in () if isinstance(event, ConvfsError) else steps_of(row.number, event):
            if step.kind is Kind.TOOL_CALL:
                ids.call(row.number, step.id, step.tool)
            elif step.kind is Kind.TOOL_RESULT:
                ids.result(step.id, step.tool)
    return not ids.waiting


def started(conversation: Conversation) -> str:
    """Return the time at which a conversation began, in ISO 8601."""
    return iso(conversation.created_ms) or _BEFORE_TIME


def worked_in(conversation: Conversation) -> str:
    """Return the directory that was worked in, ``/`` where it is not known."""
    known = conversation.metadata.get("cwd")
    return known if isinstance(known, str) and known else _NOWHERE


_CLAUDE_CODE_VERSION = "2.0.0"
"""Of the program that wrote lines as these are; it looks for no more than that there is one."""


class ClaudeCode(SessionTarget):
    """Claude Code's sessions: one line a content block, as the program writes them."""

    name = "claude-code"

    def path(self, conversation: Conversation, session: str) -> PurePath:
        return PurePath("projects", folder_name(worked_in(conversation)), f"{session}.jsonl")

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        parent: str | None = None
        message = ""
        forked = {"forkedFrom": {"sessionId": session.parent.session}} if session.parent else {}
        for step in session.dialogue.steps():
            parts = parts_of(step, session.losses)
            if not parts:
                continue
            # everything the model says in one go is one message, though each part of it is a line
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
                    "version": _CLAUDE_CODE_VERSION,
                    "gitBranch": "",
                    **(_claude_code_answer(step, content, message) if message else _claude_code_request(step, content)),
                    "uuid": uuid,
                    "timestamp": session.time(step),
                    **forked,
                }
                parent = uuid
        if session.title:
            yield {"type": "custom-title", "customTitle": session.title, "sessionId": str(session.id)}


def _claude_code_request(step: Step, parts: list[JsonObject]) -> JsonObject:
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


def _claude_code_answer(step: Step, parts: list[JsonObject], message: str) -> JsonObject:
    model = step.model if step.model.startswith("claude") else SYNTHETIC
    return claude_code_answer(message, model, parts, "tool_use" if step.kind is Kind.TOOL_CALL else "end_turn", None)


_CODEX_VERSION = "0.50.0"
"""Of the program that wrote lines as these are."""
_ROLES = {**SPEAKERS, Kind.SUMMARY: SPEAKERS[Kind.USER]}


class Codex(SessionTarget):
    """Items for the model, and beside them the events that the program shows."""

    name = "codex"

    def path(self, conversation: Conversation, session: str) -> PurePath:
        time = started(conversation)
        return PurePath("sessions", *time[:10].split("-"), f"rollout-{time[:19].replace(':', '-')}-{session}.jsonl")

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        meta: JsonObject = {
            "id": str(session.id),
            "timestamp": session.started,
            "cwd": session.folder,
            "originator": "convfs",
            "cli_version": _CODEX_VERSION,
            "instructions": None,
            "source": "cli",
        }
        if session.parent:
            meta["forked_from_id"] = session.parent.session
        yield {"timestamp": session.started, "type": "session_meta", "payload": meta}
        for step in session.dialogue.steps():
            time = session.time(step)
            for what, payload in _codex_lines(step, session.losses):
                yield {"timestamp": time, "type": what, "payload": payload}


def _codex_lines(step: Step, losses: Losses) -> Iterator[tuple[str, JsonObject]]:
    match step.kind:
        case Kind.TOOL_CALL:
            arguments = encoded(arguments_object(step.arguments))
            call = {"name": tool_name(step, losses), "arguments": arguments, "call_id": step.id}
            yield "response_item", {"type": "function_call", **call}
        case Kind.TOOL_RESULT:
            if step.failed:
                losses.add("that a call failed, but for what its result says", step.number)
            pieces = pieces_of(step, losses)
            has_images = any(piece.data for piece in pieces)
            texts = "\n\n".join(piece.text for piece in pieces)
            output = _codex_content(pieces, "input_text") if has_images else texts
            yield "response_item", {"type": "function_call_output", "call_id": step.id, "output": output}
        case Kind.REASONING:
            losses.add("a thought: it is shown, but not given to the model", step.number)
            yield "event_msg", {"type": "agent_reasoning", "text": step.text}
        case kind if kind in _ROLES:
            yield from _codex_message(step, pieces_of(step, losses))
        case _:
            losses.add(lost_kind(step), step.number)


def _codex_message(step: Step, pieces: list[Piece]) -> Iterator[tuple[str, JsonObject]]:
    if not pieces:
        return
    role, what = _ROLES[step.kind]
    text = "\n\n".join(piece.text for piece in pieces if piece.text)
    item: JsonObject = {"type": "message", "role": role, "content": _codex_content(pieces, what)}
    if step.kind is Kind.ASSISTANT:
        yield "event_msg", {"type": "agent_message", "message": text}
    yield "response_item", item
    if step.kind is Kind.USER:
        yield "event_msg", {"type": "user_message", "message": text, "images": []}


def _codex_content(pieces: list[Piece], what: str) -> list[JsonObject]:
    return [
        {"type": "input_image", "image_url": piece.url} if piece.data else {"type": what, "text": piece.text}
        for piece in pieces
    ]


_PI_VERSION = 3
"""Of sessions whose lines are a tree."""


class Pi(SessionTarget):
    """pi's sessions: one line a message, all that a model says in one go, then each result."""

    name = "pi"

    def is_own(self, job: ExportJob) -> bool:
        return super().is_own(job) and not _begins_with_title(job)

    def path(self, conversation: Conversation, session: str) -> PurePath:
        where = worked_in(conversation).strip("/\\").replace("/", "-").replace("\\", "-").replace(":", "-")
        time = started(conversation).replace(":", "-").replace(".", "-")
        return PurePath("sessions", f"--{where}--", f"{time}_{session}.jsonl")

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        about: JsonObject = {"version": _PI_VERSION, "id": str(session.id), "timestamp": session.started}
        if session.parent:
            about["parentSession"] = path_text(session.parent.path)
        yield {"type": "session", **about, "cwd": session.folder}
        parent: str | None = None
        for step, held in _pi_lines(session):
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
        return Pi.name

    def is_own(self, job: ExportJob) -> bool:
        return SessionTarget.is_own(self, job)

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


def _begins_with_title(job: ExportJob) -> bool:
    """Return whether a session is one of oh-my-pi that pi would take for none, and write over."""
    rows = job.store.records.rows(job.conversation.head) if job.conversation.head else ()
    return any(is_slot(object_in(job.store.contents.payload(row.turn))) for row in islice(rows, 1))


def _pi_lines(session: NewSession) -> Iterator[tuple[Step, JsonObject]]:
    """Yield the content of each line, with the step that it begins with."""
    first: Step | None = None
    parts: list[JsonObject] = []
    for step in session.dialogue.steps():
        if step.kind in OF_THE_MODEL:
            if added := _pi_parts(step, session.losses):
                first = first or step
                parts += added
        elif message := _pi_message(step, session.losses):
            if first:
                yield first, _pi_answer(parts)
                first, parts = None, []
            yield step, message
    if first:
        yield first, _pi_answer(parts)


def _pi_parts(step: Step, losses: Losses) -> list[JsonObject]:
    match step.kind:
        case Kind.REASONING:
            signed: JsonObject = {"thinkingSignature": step.signature} if step.signature else {}
            return [{"type": "thinking", "thinking": step.text, **signed}]
        case Kind.TOOL_CALL:
            name, arguments = tool_name(step, losses), arguments_object(step.arguments)
            return [{"type": "toolCall", "id": step.id, "name": name, "arguments": arguments}]
        case _:
            return _pi_content(step, losses)


def _pi_answer(parts: list[JsonObject]) -> JsonObject:
    stop = "toolUse" if any(part["type"] == "toolCall" for part in parts) else "stop"
    return pi_answer(parts, NO_MODEL, stop)


def _pi_message(step: Step, losses: Losses) -> JsonObject | None:
    match step.kind:
        case Kind.USER:
            content = _pi_content(step, losses)
            return {"role": "user", "content": content} if content else None
        case Kind.SYSTEM:
            content = _pi_content(step, losses)
            return {"content": content} if content else None
        case Kind.SUMMARY:
            text = said(step, losses)
            return {"summary": text} if text else None
        case Kind.TOOL_RESULT:
            name = tool_name(step, losses)
            result: JsonObject = {"role": "toolResult", "toolCallId": step.id, "toolName": name}
            return result | {"content": _pi_content(step, losses), "isError": step.failed}
        case _:
            losses.add(lost_kind(step), step.number)
            return None


def _pi_content(step: Step, losses: Losses) -> list[JsonObject]:
    return [
        {"type": "image", "data": piece.data, "mimeType": piece.mime}
        if piece.data
        else {"type": "text", "text": piece.text}
        for piece in pieces_of(step, losses)
    ]


_unfit = re.compile(r"[^a-z0-9]+").sub


class GeminiCli(SessionTarget):
    """Gemini CLI's sessions: one line a message, everything the model says in one go with the results of its calls."""

    name = "gemini-cli"

    def write(self, job: ExportJob) -> None:
        """Write one file, and beside its folder which directory that is for: by this the program finds it."""
        super().write(job)
        marker = _safe(self.path(job.conversation, "")).parents[1] / PROJECT_MARKER
        job.stage.share(marker, (utf8(worked_in(job.conversation)),))

    def path(self, conversation: Conversation, session: str) -> PurePath:
        words = _unfit("-", PurePath(worked_in(conversation)).name.lower()).strip("-")
        time = started(conversation)[:16].replace(":", "-")
        return PurePath("tmp", words or "project", "chats", f"session-{time}-{session[:8]}.jsonl")

    def lines(self, session: NewSession) -> Iterator[JsonObject]:
        yield {
            "sessionId": str(session.id),
            "projectHash": hashlib.sha256(utf8(session.folder)).hexdigest(),
            "startTime": session.started,
            # the program deletes sessions whose recorded time is old
            "lastUpdated": iso(now_ms()),
            "kind": "main",
            "directories": [session.folder],
            "summary": session.title,
        }
        yield from _gemini_messages(session)


class _GeminiAnswer:
    """Everything that a model says at once."""

    def __init__(self, session: NewSession, first: Step) -> None:
        self._session = session
        self._head: JsonObject = {"id": session.id_of(first), "timestamp": session.time(first), "type": "gemini"}
        self._texts: list[str] = []
        self._thoughts: list[JsonObject] = []
        self._calls: dict[str, JsonObject] = {}
        self.is_answered = False

    def add(self, step: Step) -> None:
        losses, time = self._session.losses, self._session.time(step)
        if step.kind is Kind.REASONING:
            self._thoughts.append({"subject": "", "description": step.text, "timestamp": time})
        elif step.kind is Kind.TOOL_CALL:
            name, arguments = tool_name(step, losses), arguments_object(step.arguments)
            call: JsonObject = {"id": step.id, "name": name, "args": arguments}
            self._calls[step.id] = call | {"status": "success", "timestamp": time}
        elif text := said(step, losses):
            self._texts.append(text)

    def add_result(self, step: Step) -> None:
        self.is_answered = True
        pieces = pieces_of(step, self._session.losses)
        output = "\n\n".join(piece.text for piece in pieces if piece.text)
        call = self._calls[step.id]
        response: JsonObject = {"error": output} if step.failed else {"output": output}
        returned: JsonObject = {"functionResponse": {"id": step.id, "name": call["name"], "response": response}}
        call["result"] = [returned, *(_gemini_part(piece) for piece in pieces if piece.data)]
        if step.failed:
            call["status"] = "error"

    def message(self) -> JsonObject:
        message = self._head | {"content": "\n\n".join(self._texts)}
        if self._thoughts:
            message["thoughts"] = self._thoughts
        if self._calls:
            message["toolCalls"] = list(self._calls.values())
        return message


def _gemini_messages(session: NewSession) -> Iterator[JsonObject]:
    answer: _GeminiAnswer | None = None
    for step in session.dialogue.steps():
        if step.kind is Kind.TOOL_RESULT and answer:
            answer.add_result(step)
        elif step.kind in OF_THE_MODEL:
            if answer and answer.is_answered:
                yield answer.message()
                answer = None
            answer = answer or _GeminiAnswer(session, step)
            answer.add(step)
        elif step.kind in (Kind.USER, Kind.SUMMARY):
            if answer:
                yield answer.message()
                answer = None
            if pieces := pieces_of(step, session.losses):
                head: JsonObject = {"id": session.id_of(step), "timestamp": session.time(step), "type": "user"}
                yield head | {"content": [_gemini_part(piece) for piece in pieces]}
        else:
            session.losses.add(lost_kind(step), step.number)
    if answer:
        yield answer.message()


def _gemini_part(piece: Piece) -> JsonObject:
    return {"inlineData": {"mimeType": piece.mime, "data": piece.data}} if piece.data else {"text": piece.text}
