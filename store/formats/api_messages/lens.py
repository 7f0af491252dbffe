"""A message, an answer or a system prompt as an event."""

import json

from store.errors import UsageError
from store.events.edit import EventEdit
from store.events.event import Block, Event, Kind
from store.events.usage import Running, Usage
from store.formats.chat_messages import gather_answer, gather_message, is_message, shown
from store.formats.chat_parts import Gathered, gather
from store.formats.composing import check_said, object_before
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_object, as_text, decode, is_object
from store.formats.lens import Before
from store.formats.nested import document_in, document_in_base64
from store.formats.new_literals import spell
from store.formats.new_records import new_record
from store.formats.shown import BOOKKEEPING, Shown
from store.formats.splices import put
from store.formats.times import milliseconds
from store.formats.token_counts import counted
from store.formats.unknown import as_it_is

_HOLDERS = ("data", "string", "text")
"""Where a recording of HTTP keeps the text of a body."""
_ANSWERS = frozenset(("choices", "candidates", "output", "error"))
_COMPOSED = {Kind.USER: "user", Kind.ASSISTANT: "assistant", Kind.SYSTEM: "system"}
_ANSWERED = frozenset(("usage", "stop_reason", "status"))
"""Members of messages that were an answer: nothing can be said after them in the place where they stand."""


class ApiMessageLens(EditableLens):
    """Sees messages; what a request holds beside them is bookkeeping."""

    type_name = "api.message.v1"
    telling = (b'"usage"', b'"usageMetadata"', *(b'"%s"' % key.encode() for key in _HOLDERS))

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a record tells of; damaged ones are notes."""
        decoded = decode(payload)
        if decoded is None:
            return as_it_is(payload)
        value = decoded.value
        seen = _view(value, before)
        time = milliseconds(as_object(value).get("timestamp")) if isinstance(value, dict) else 0
        return Event(
            seen.kind, seen.tool, seen.header, seen.blocks, time, 0, seen.defines, seen.resources, value, decoded.lossy
        )

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what an answer took, as it came or in a recording of HTTP."""
        held = (_body(as_text(record.get(key))) for key in _HOLDERS if key in record)
        for answer in (record, *filter(is_object, held)):
            tokens = counted(as_object(answer.get("usage")) or as_object(answer.get("usageMetadata")))
            if tokens.total:
                named = as_text(answer.get("id")) or as_text(answer.get("responseId"))
                return Usage(
                    named, as_text(answer.get("model")) or as_text(answer.get("modelVersion")), tokens
                ), running
        return None, running

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """Return ``payload`` with the changes of ``edit``; a record may be nothing but a text."""
        decoded = decode(payload)
        if decoded is not None and isinstance(decoded.value, str) and not edit.fields:
            texts = [change.text for change in edit.blocks if change.type == "text" and not change.path]
            if texts and not texts[-1]:
                raise UsageError("an empty text would not be shown any more: write something, or delete the event")
            if texts and decoded.lossy:
                raise UsageError("the text is no valid Unicode in the record, so it can only be read")
            return put(payload, (), spell(texts[-1], payload)) if texts and texts[-1] != decoded.value else payload
        return super().edit(payload, edit, before)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a message holds field ``key``. Raises UsageError for the tool of a result."""
        gathered = Gathered()
        kind = gather_record(record, gathered)
        if key == "tool" and kind is Kind.TOOL_RESULT:
            raise UsageError("the tool of a result is that of its call: change 'tool' in the call's file")
        path = gathered.places.get(key)
        return Place(path, may_add=key.startswith("is_error")) if path else None

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a message, with ``parts`` where ``previous`` has them."""
        check_said(text, kind, _COMPOSED)
        said = object_before(previous)
        if previous and (not is_message(said) or said.keys() & _ANSWERED):
            raise UsageError("what comes last is no message of a request: nothing can be written after it")
        role = _COMPOSED[kind]
        value: JsonObject = {"role": role, "content": text}
        if "parts" in said:
            value = {"role": "model" if kind is Kind.ASSISTANT else "user", "parts": [{"text": text}]}
        return new_record(value, previous) if previous else json.dumps(value, ensure_ascii=False).encode()


def gather_record(record: JsonObject, into: Gathered) -> Kind:
    """Take in a record that is an object; return what kind of event it is."""
    if is_message(record) or "role" in record:
        return gather_message(record, (), into)
    if record.keys() & _ANSWERS:
        return gather_answer(record, (), into)
    for key in _HOLDERS:
        text = as_text(record.get(key))
        if is_object(body := _body(text)):
            return gather_answer(body, (key,), into)
        if text:
            into.text(text, (key,))
            return Kind.ASSISTANT
    return Kind.RECORD


def _body(text: str) -> object:
    data = document_in_base64(text)
    decoded = decode(data) if data is not None else None
    return decoded.value if decoded is not None else document_in(text)


def _view(value: object, before: Before) -> Shown:
    if isinstance(value, str):
        return Shown(Kind.SYSTEM, (Block("text", value),)) if value else BOOKKEEPING
    gathered = Gathered()
    if isinstance(value, list):
        gather(value, (), "", gathered)
        return shown(Kind.SYSTEM, gathered, before)
    if not is_object(value):
        return BOOKKEEPING
    kind = gather_record(value, gathered)
    return shown(kind, gathered, before)
