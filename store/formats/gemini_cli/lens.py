"""One record of a session as an event: a message, a description of the session, or a change to either.

``{"id", "timestamp", "type", "content", …}`` is a message; one with an id that was before replaces that one.
``{"sessionId", "projectHash", "startTime", …}`` begins a file of lines, ``{"$set": {…}}`` replaces some of that, and
``{"$rewindTo": "<id>"}`` takes back a message and all after it. ``$set`` may hold ``messages``: all that the model is
sent from there on. ``{"$patch": {"id", "content", …}}`` changes what it is sent of one.
"""

import copy
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import ClassVar

from msgspec import structs

from store.errors import UsageError
from store.events.event import Block, EventEdit, Kind, ValuePath
from store.events.usage import Usage
from store.formats.core import documents
from store.formats.core.blocks import argument_blocks
from store.formats.core.chat_messages import arguments, gather
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.editing import JsonLens, Near, Twins, check_intact
from store.formats.core.json_cuts import LITERAL
from store.formats.core.json_spans import locate
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, has_sentence, object_in, value_at
from store.formats.core.lens import BOOKKEEPING, Before, FieldPlace, Gathered, Shown, nth, unknown_record
from store.formats.core.splices import put, spell
from store.formats.core.times import in_iso
from store.formats.core.token_counts import counted_by_google
from store.formats.core.twins import copies

_FROM_MODELS = (Kind.ASSISTANT, Kind.REASONING, Kind.TOOL_CALL)
_TYPES = {**dict.fromkeys(_FROM_MODELS, "gemini"), Kind.NOTE: "info", Kind.USER: "user"}
_SAYS = ("output", "error")


SPEAKERS = frozenset(("error", "gemini", "info", "model", "user", "warning"))
"""The types of messages."""

_VALUE = rb"(?:" + LITERAL + rb'|\{[^{}]*+\}|\[[^\[\]]*+\]|[^\s,{}\[\]"]++)'
_document = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+\{(?:\s*+(?!"messages")' + LITERAL + rb"\s*+:\s*+" + _VALUE + rb"\s*+,)*+"
    rb'\s*+"messages"\s*+:\s*+\['
).match
_checkpoint = re.compile(rb'\s*+\{\s*+"\$set"\s*+:\s*+\{').match
_MESSAGES = b'"messages"'


def beginning(head: bytes) -> bytes:
    """Return the beginning, up to its messages, of a session that is one document; nothing for any other file."""
    found = _document(head)
    if found is None:
        return b""
    line, _, rest = head.partition(b"\n")
    first = object_in(line)
    return b"" if first and (rest.strip() or not first.get("messages")) else found[0]


def is_checkpoint(line: bytes) -> bool:
    """Return whether a line may be one that replaces all messages, without parsing it."""
    return _checkpoint(line) is not None and _MESSAGES in line


def is_message(record: JsonObject) -> bool:
    """Return whether a record is a message."""
    return isinstance(record.get("id"), str) and ("timestamp" in record or "content" in record)


def is_own(record: JsonObject) -> bool:
    """Return whether a parsed JSON object is a line that only Gemini CLI writes."""
    if isinstance(record.get("$rewindTo"), str) or as_object(record.get("$set")) or as_object(record.get("$patch")):
        return True
    return isinstance(record.get("sessionId"), str) and "projectHash" in record and "type" not in record


def is_line(record: JsonObject) -> bool:
    """Return whether a parsed JSON object is a line of a session; other programs may write such messages, too."""
    what = record.get("type")
    spoken = isinstance(what, str) and what in SPEAKERS and "content" in record and "timestamp" in record
    return is_own(record) or (spoken and is_message(record) and "parentId" not in record)


REPLACED = "replaced"
"""The value that a message's key is defined with: a later record of the same id is an earlier state of it."""
REPEATED = "repeated"
"""The value of the key for the result of a call that a record has: a later message with that repeats it."""

_INJECTED = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_NOTES = frozenset(("error", "info", "warning"))
_CONTENTS = ("content", "displayContent", "parts", "thoughts", "toolCalls")
_OWN = frozenset((*_CONTENTS, "id", "model", "role", "timestamp", "tokens", "type"))
_ENVELOPE = frozenset(("id", "timestamp", "type"))
_DONE = ("", "success")
_FAILED = ("cancelled", "error")


def view(record: JsonObject, before: Before) -> Shown:
    """View a record of any type."""
    if not is_message(record):
        says = has_sentence(record) and ("$patch" in record or not is_own(record))
        return unknown_record(record, _ENVELOPE) if says else BOOKKEEPING
    answered = answered_in(record)
    repeated = {call for call in answered if before.tool(_result_of(call)) == REPEATED}
    key = f"message {as_text(record.get('id'))}"
    if answered and len(repeated) == len({*answered}):
        return Shown(Kind.RECORD, tool=REPEATED)
    if not answered and before.tool(key) == REPLACED:
        return Shown(Kind.RECORD, tool=REPLACED)
    shown = _message(record, as_text(record.get("type")) or as_text(record.get("role")), repeated, Gathered())
    returned = [*answered, *(_id_of(call) for call in calls_in(record) if call.get("result"))]
    defines = [(_result_of(call), REPEATED) for call in returned if call and call not in repeated]
    return structs.replace(shown, defines=(*([] if answered else [(key, REPLACED)]), *shown.defines, *defines))


def calls_in(record: JsonObject) -> list[JsonObject]:
    """Return the calls that a message of the model keeps with their results."""
    return [as_object(call) for call in as_list(record.get("toolCalls"))]


def repeated_calls(record: JsonObject) -> Iterator[tuple[int, int]]:
    """Yield which of these calls the content holds, too, as the model is sent it: (position there, position here)."""
    at = {_id_of(call): position for position, call in enumerate(calls_in(record))}
    for place, part in enumerate(as_list(record.get("content"))) if at else ():
        asked = as_object(as_object(part).get("functionCall"))
        if (identifier := _id_of(asked)) and identifier in at:
            yield at[identifier], place


def answered_in(record: JsonObject) -> tuple[str, ...]:
    """Return the ids of the calls of which a message holds the results; none if it says anything else."""
    parts = [as_object(as_object(part).get("functionResponse")) for part in as_list(record.get("content"))]
    ids = tuple(_id_of(part) for part in parts)
    return ids if record.get("type") == "user" and all(ids) else ()


def _id_of(call: JsonObject) -> str:
    return as_text(call.get("id"))


def _result_of(call: str) -> str:
    return f"result of {call}"


def _message(record: JsonObject, what: str, repeated: Set[str], into: Gathered) -> Shown:
    """View a message, without the results of those calls that it repeats."""
    into.field("model", record.get("model"), "model")
    _thoughts(record, into)
    key = "content" if "content" in record else "parts"
    content = record.get(key)
    repeats = {at for _call, at in repeated_calls(record)}
    if repeated:
        repeats |= {at for at, call in enumerate(answered_in(record)) if call in repeated}
    if repeats:
        for at, part in enumerate(as_list(content)):
            if at not in repeats and not (as_object(part).get("thought") is True and into.blocks):
                gather(part, (key, at), "", into)
    else:
        gather(content, (key,), "", into)
    if (displayed := record.get("displayContent")) is not None and displayed != content:
        gather(displayed, ("displayContent",), "display", into)
    # calls that were made at once may each have the results of all
    answered = {one for call in calls_in(record) for one, _place in _responses(call) if one == _id_of(call)}
    for at, call in enumerate(as_list(record.get("toolCalls"))):
        if isinstance(call, dict):
            _call(call, ("toolCalls", at), answered - {_id_of(call)} if _id_of(call) in answered else frozenset(), into)
    if what in _NOTES:
        into.header["level"] = what
        into.places["level"] = ("type",)
        kind = Kind.NOTE
    elif into.calls:
        kind = Kind.TOOL_CALL
    elif into.results:
        kind = Kind.TOOL_RESULT
    elif what == "user":
        text = next((block.text for block in into.blocks if block.text and not block.name), "") or ""
        kind = Kind.SYSTEM if text.startswith(_INJECTED) else Kind.USER
    elif what in ("gemini", "model", "assistant"):
        kind = Kind.ASSISTANT if into.said else Kind.REASONING
    else:
        own = {key: value for key, value in record.items() if key not in _OWN}
        into.blocks += argument_blocks(own, (), "record")
        kind = Kind.NOTE
    return into.shown(kind) if kind is Kind.TOOL_CALL else into.shown_if_any(kind)


def _thoughts(record: JsonObject, into: Gathered) -> None:
    """Add the model's thoughts: each has a heading and a text."""
    for at, thought in enumerate(as_list(record.get("thoughts"))):
        for key in ("subject", "description"):
            gather(as_object(thought).get(key), ("thoughts", at, key), "thinking", into)


def _call(call: JsonObject, path: ValuePath, others: Set[str], into: Gathered) -> None:
    label = into.call(call, path, "name", "id")
    told, failed = nth("status", into.calls), nth("is_error", into.calls)
    into.places[failed] = FieldPlace((*path, "status"), True, lambda value: "error" if value else "success")
    if (status := as_text(call.get("status"))) not in _DONE:
        into.header[told] = status
        into.places[told] = (*path, "status")
        if status in _FAILED:
            into.header[failed] = True
    arguments(call.get("args"), (*path, "args"), label, into)
    name = label.replace("arguments", "result")
    returned = call.get("result")
    shown = len(into.blocks)
    for at, part in enumerate(returned if isinstance(returned, list) else [returned]):
        place: ValuePath = (*path, "result", at) if isinstance(returned, list) else (*path, "result")
        response = as_object(part).get("functionResponse")
        if isinstance(response, dict) and _id_of(response) in others:
            continue
        if isinstance(response, dict):
            _response(response.get("response"), (*place, "functionResponse", "response"), name, into)
        else:
            gather(part, place, name, into)
    if len(into.blocks) == shown:
        gather(call.get("resultDisplay"), (*path, "resultDisplay"), name, into)
    if len(into.blocks) == shown and returned:
        # a result that says nothing is one, too
        into.blocks.append(Block("text", "", name=name, path=_empty_in(call, path)))


def _empty_in(call: JsonObject, path: ValuePath) -> ValuePath:
    """Return where the result of a call says nothing; () where it has no text at all."""
    places = ((*place, key) for _identifier, place in _responses(call) for key in _SAYS)
    return next(((*path, *place) for place in places if value_at(call, place) == ""), ())


def _response(response: object, path: ValuePath, name: str, into: Gathered) -> None:
    held = as_object(response)
    for key in _SAYS:
        if held.keys() == {key} and isinstance(text := held[key], str):
            into.text(text, (*path, key), name)
            return
    into.blocks += argument_blocks(response, path, name)


REACH = 200
"""The records around a call searched for messages that repeat its result: a resumed session repeats all of it."""

_ASKED = ("id", "name", "args")


def carried_over(payload: bytes, edited: bytes) -> bytes:
    """Return an edited message that says of its calls the same in all places that said the same before."""
    was, now = object_in(payload), object_in(edited)
    calls = calls_in(was)
    if len(calls) != len(calls_in(now)):
        return edited
    pairs: list[tuple[ValuePath, ValuePath]] = []
    for call, part in repeated_calls(was):
        pairs += ((("toolCalls", call, key), ("content", part, "functionCall", key)) for key in _ASKED)
    own = {as_text(call.get("id")): at for at, call in enumerate(calls)}
    places = {(at, identifier): place for at, call in enumerate(calls) for identifier, place in _responses(call)}
    for (at, identifier), place in places.items():
        first = own.get(identifier, at)
        if at != first and (first, identifier) in places:
            pairs.append((("toolCalls", first, *places[first, identifier]), ("toolCalls", at, *place)))
    for source, target in pairs:
        before, after = value_at(was, source), value_at(now, source)
        if after is not None and before != after and value_at(was, target) == before == value_at(now, target):
            edited = put(edited, target, edited[slice(*locate(edited, source))])
    return edited


def _responses(call: JsonObject) -> Iterator[tuple[str, ValuePath]]:
    for at, part in enumerate(as_list(call.get("result"))):
        if identifier := as_text(as_object(as_object(part).get("functionResponse")).get("id")):
            yield identifier, ("result", at, "functionResponse", "response")


def _returned(message: JsonObject) -> dict[str, str]:
    found: dict[str, str] = {}
    for call in calls_in(message):
        for identifier, place in _responses(call):
            held = as_object(value_at(call, place))
            text = next((text for key in _SAYS if (text := as_text(held.get(key)))), "")
            if text and identifier == call.get("id"):
                found[identifier] = text
    return found


class GeminiCliLens(JsonLens):
    """Sees messages. Of those with the same id the first one is shown: records are brought in in such an order."""

    type_name = "gemini-cli.record.v1"
    telling = (b'"tokens"',)
    reach = REACH
    writes = (*_TYPES, Kind.TOOL_RESULT)
    lacks: ClassVar[Mapping[Kind, str]] = {
        Kind.SYSTEM: "Gemini CLI makes its prompt anew whenever it starts",
        Kind.SUMMARY: "it is sent what its messages say",
    }
    objects_only = False

    def shown(self, record: JsonObject, before: Before) -> Shown:
        return view(record, before)

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        edited = carried_over(payload, super().edit(payload, edit, before))
        check_intact(payload, edited)
        if b"\n" in edited and b"\n" not in payload:
            raise UsageError("this record is one line of its file: keep it on one line")
        return edited

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        return carried_over(payload, super().revise(payload, old, new, before))

    def echoes(self, old: bytes, new: bytes, before: Near, after: Near) -> Mapping[int, bytes]:
        """Return the messages of results after an edited one of the model that are to say something else now."""
        was, now = _returned(object_in(old)), _returned(object_in(new))
        changed = {call: (text, now[call]) for call, text in was.items() if now.get(call, text) != text}
        found: dict[int, bytes] = {}
        for number, record in after if changed else ():
            message = object_in(record)
            edited = record
            for at, call in enumerate(answered_in(message)):
                for key in _SAYS:
                    path: ValuePath = ("content", at, "functionResponse", "response", key)
                    if call in changed and value_at(message, path) == changed[call][0]:
                        edited = put(edited, path, spell(changed[call][1], record))
            if edited != record:
                found[number] = edited
        return found

    def used(self, record: JsonObject) -> Usage | None:
        tokens = counted_by_google(as_object(record.get("tokens")))
        return Usage(as_text(record.get("id")), as_text(record.get("model")), tokens) if tokens.total else None

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the other places where a message says the same."""
        if path[0] in ("content", "displayContent"):
            other = "displayContent" if path[0] == "content" else "content"
            if record.get("content") == record.get("displayContent"):
                yield (other, *path[1:]), new
        elif path[:1] == ("toolCalls",) and len(path) > 2 and path[2] == "result":
            at = path[1]
            calls = as_list(record.get("toolCalls"))
            display = as_object(calls[at]).get("resultDisplay") if isinstance(at, int) and at < len(calls) else None
            if isinstance(display, str):
                yield from copies(display, ("toolCalls", at, "resultDisplay"), old, new, 0)

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        if path == ("thoughts",) and name == "thinking":
            return {"subject": "", "description": text, "timestamp": record.get("timestamp")}
        texts = path in (("content",), ("displayContent",), ("parts",)) and name != "thinking"
        return {"text": text} if texts else None

    def room(self, record: JsonObject) -> ValuePath | None:
        return ("toolCalls", 0, "args") if calls_in(record) else None

    def mirrors(self, record: JsonObject) -> Iterator[tuple[ValuePath, ValuePath]]:
        yield ("content",), ("displayContent",)

    def goes_along(self, record: JsonObject, path: ValuePath, at: int) -> Sequence[tuple[ValuePath, int]]:
        """Return the part of the content that repeats a call."""
        repeated = repeated_calls(record) if path == ("toolCalls",) else ()
        return [(("content",), place) for call, place in repeated if call == at]

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        if kind is Kind.TOOL_RESULT:
            raise UsageError("a result stands in the record of its call, and that is no message of Gemini CLI")
        time = in_iso(now_ms)
        message: JsonObject = {"id": str(uuid.uuid4()), "timestamp": time, "type": _TYPES[kind], "content": text}
        if kind is Kind.USER:
            message["content"] = [{"text": text}]
        elif kind is Kind.REASONING:
            message |= {"content": "", "thoughts": [{"subject": "", "description": text, "timestamp": time}]}
        elif kind is Kind.TOOL_CALL:
            call: JsonObject = {"id": more.new_id(f"{more.tool}-"), "name": more.tool, "args": more.arguments(text)}
            message |= {"content": "", "toolCalls": [call | {"status": "scheduled", "timestamp": time}]}
        return new_record(message, previous)

    def answered(self, payload: bytes, text: str, now_ms: int, more: Particulars) -> bytes | None:
        """Return the message with the call, and its result beside it."""
        was = documents.parse(payload.decode("utf-8", "replace"))
        now = copy.deepcopy(was)
        asked = next((call for call in calls_in(as_object(now)) if _id_of(call) == more.id), None)
        if asked is None:
            return None
        if asked.get("result"):
            raise UsageError(f"the call {more.id} has its result: edit that")
        told: JsonObject = {"id": more.id, "name": asked.get("name"), "response": {_SAYS[more.failed]: text}}
        result: list[object] = [{"functionResponse": told}]
        asked |= {"status": "error" if more.failed else "success", "result": result, "resultDisplay": text}
        return documents.carried(payload, (), was, now)
