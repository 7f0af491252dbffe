"""``messages.jsonl``: ``conversations/ID/messages.jsonl``, its long texts and its images beside it in ``content/``.

The form knows texts and images, and who says them. So calls of tools and their results are told as texts.
"""

from base64 import b64decode
from collections.abc import Iterator
from pathlib import PurePath
from uuid import UUID, uuid5

from store.events.event import Kind, utf8
from store.exporting.dialogue import Dialogue, arguments_object, lost_kind, pieces_of
from store.exporting.event_json import encoded
from store.exporting.steps import Step
from store.exporting.target import ExportJob, Target
from store.filenames import safe_name
from store.formats.core.json_view import JsonObject
from store.formats.core.times import iso
from store.formats.messages_jsonl import FILE, LONGEST_INSIDE, content_place, new_id
from store.formats.messages_jsonl import MessagesJsonl as MessagesJsonlFormat
from store.importing.exporter import came_in_files, content_beside, identity, native_files

_ROLES = {
    Kind.ASSISTANT: "assistant",
    Kind.SUMMARY: "user",
    Kind.SYSTEM: "supervisor",
    Kind.TOOL_CALL: "assistant",
    Kind.TOOL_RESULT: "supervisor",
    Kind.USER: "user",
}


class MessagesJsonl(Target):
    """A conversation of this form becomes its own file again; of another one, each step becomes a line."""

    name = MessagesJsonlFormat.name

    def write(self, job: ExportJob) -> None:
        """Write the messages, and the contents that they name."""
        conversation = job.conversation
        if conversation.format == self.name and came_in_files(conversation):
            main, *outside = native_files(job.store, conversation)
            folder = _folder(identity(job.store, conversation).session)
            job.stage.write(folder / FILE, main.pieces, unit=folder)
            job.stage.add(outside)
            job.stage.add(content_beside(job.store, conversation, job.losses.add))
            return
        folder = _folder(str(uuid5(UUID(bytes=job.store.store_id[:16]), f"{self.name} {conversation.id}")))
        job.stage.write(folder / FILE, _lines(job), unit=folder)


def _folder(name: str) -> PurePath:
    return PurePath("conversations", safe_name(name))


def _lines(job: ExportJob) -> Iterator[bytes]:
    dialogue = Dialogue(job.store.library, job.conversation, job.losses)
    if dialogue.prompt:
        yield _line({"role": _ROLES[Kind.SYSTEM], "content": [_text(job, dialogue.prompt)]})
    for step in dialogue.steps():
        if parts := _parts(job, step):
            line: JsonObject = {"role": _ROLES[step.kind], "content": parts}
            about = {"timestamp": iso(step.time_ms), "model": step.model if step.kind is Kind.ASSISTANT else ""}
            yield _line(line | {key: value for key, value in about.items() if value})


def _line(line: JsonObject) -> bytes:
    return f"{encoded(line)}\n".encode()


def _parts(job: ExportJob, step: Step) -> list[JsonObject]:
    if step.kind not in _ROLES:
        job.losses.add("a thought" if step.kind is Kind.REASONING else lost_kind(step), step.number)
        return []
    pieces = pieces_of(step, job.losses)
    parts = [
        _outside(job, "image", b64decode(piece.data)) if piece.data else _text(job, piece.text) for piece in pieces
    ]
    if step.kind is Kind.TOOL_CALL:
        job.losses.add("a call of a tool, but as a text", step.number)
        return [_text(job, f"[call of {step.tool}]\n{encoded(arguments_object(step.arguments))}")]
    if step.kind is Kind.TOOL_RESULT:
        job.losses.add("the result of a call, but as a text", step.number)
        return [_text(job, f"[{'error' if step.failed else 'result'} of {step.tool}]"), *parts]
    return parts


def _text(job: ExportJob, text: str) -> JsonObject:
    data = utf8(text)
    return {"type": "text", "text": text} if len(data) <= LONGEST_INSIDE else _outside(job, "text", data)


def _outside(job: ExportJob, what: str, data: bytes) -> JsonObject:
    identifier = new_id(data)
    job.stage.share(PurePath(content_place(identifier)), (data,))
    return {"type": what, "content_id": identifier}
