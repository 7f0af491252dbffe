"""OpenHands: trajectories of events, in a file of their own or a line each of an evaluation's output.

An action has ``action`` and ``args``, an observation ``observation``, ``content`` and ``extras``; both may name the
model's call (``tool_call_metadata``). The events of its later software kit have a ``kind``.

A file holds one array of events, or an object with ``history``; ``output.jsonl`` of an evaluation has such an object a
line, in older ones with pairs of action and observation. A submission to one is an array of patches. Where it works,
OpenHands keeps a folder ``events`` a session, with a file an event: ``12.json``, later ``event-00012-ID.json``.
"""

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from blake3 import blake3
from msgspec import structs

from store.errors import UsageError
from store.events.event import Compaction, Kind, Resource, ValuePath
from store.events.usage import Usage
from store.formats.core.blocks import argument_blocks, document_in
from store.formats.core.chat_messages import arguments, gather, gather_message, part, shown
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.editing import JsonLens, Twins
from store.formats.core.format import About, Format, Part, Source, Span, first_line
from store.formats.core.json_cuts import Choice, cut_spans, cuts
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, object_in
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, Gathered, Nothing, Places, Shown
from store.formats.core.look import HEAD_SIZE, Look
from store.formats.core.media import file_uri, mime_of
from store.formats.core.splices import put, spell
from store.formats.core.times import in_iso, milliseconds
from store.formats.core.token_counts import counted

_SPEAKERS = {"agent": Kind.ASSISTANT, "environment": Kind.SYSTEM, "user": Kind.USER}
_BOOKKEEPING_ACTIONS = frozenset(
    ["change_agent_state", "condensation_request", "loop_recovery", "null", "recall", "start_hook_execution"]
)
_BOOKKEEPING_OBSERVATIONS = frozenset(["agent_state_changed", "null"])
_NO_ARGUMENTS = frozenset(
    ["blocking", "confirmation_state", "hidden", "is_confirmed", "is_input", "is_static", "security_risk", "thought"]
)
_TEXTS = {
    "condensation": (Kind.SUMMARY, ("summary",)),
    "finish": (Kind.ASSISTANT, ("thought", "final_thought")),
    "message": (Kind.NOTE, ("content",)),
    "reject": (Kind.ASSISTANT, ("thought", "final_thought")),
    "system": (Kind.SYSTEM, ("content",)),
    "think": (Kind.REASONING, ("thought",)),
}
"""Actions that only say something, and the arguments that hold it, the main one first."""
_CALL: Places = {"id": ("tool_call_metadata", "tool_call_id"), "tool": ("tool_call_metadata", "function_name")}
_FILES = frozenset(("read", "write"))
_LOOKED_AT = 4
_numbered = re.compile(r"Here's the result of running `cat -n`").match
_MOST_FORGOTTEN = 1 << 20
"""Events that a summary takes the place of, whatever numbers it tells."""


def _event(record: JsonObject, before: Before) -> Shown:
    if isinstance(what := record.get("action"), str):
        if what in _BOOKKEEPING_ACTIONS:
            return BOOKKEEPING
        kind = _action(record, what, into := Gathered())
    elif isinstance(what := record.get("observation"), str):
        if what in _BOOKKEEPING_OBSERVATIONS:
            return BOOKKEEPING
        kind = _observation(record, what, before, into := Gathered())
    elif isinstance(what := record.get("kind"), str):
        kind = _LATER.get(what, _other)(record, into := Gathered())
    elif "role" in record:
        kind = gather_message(record, (), into := Gathered())
    elif isinstance(patch := record.get("model_patch", record.get("git_patch")), str):
        return _prediction(record, patch)
    else:
        return BOOKKEEPING
    seen = shown(kind, into, before)
    if seen.kind is Kind.SUMMARY and (forgotten := _forgotten(as_object(record.get("args")) or record)):
        return structs.replace(seen, compaction=Compaction(seen.blocks, forgotten=forgotten))
    return seen


def _is_event(value: object) -> bool:
    if not is_object(value) or not ("timestamp" in value or "source" in value or "id" in value):
        return False
    if isinstance(value.get("action"), str):
        return is_object(value.get("args"))
    if isinstance(value.get("observation"), str):
        return "extras" in value or "content" in value
    return "timestamp" in value and "source" in value and as_text(value.get("kind")) in _LATER


def _action(record: JsonObject, what: str, into: Gathered) -> Kind:
    args = as_object(record.get("args"))
    if what in _TEXTS:
        kind, keys = _TEXTS[what]
        for key in keys:
            into.text(as_text(args.get(key)), ("args", key), "" if key == keys[0] else key)
        return _SPEAKERS.get(as_text(record.get("source")), kind) if what == "message" else kind
    into.tool = _of_call(record, into) or what
    into.text(as_text(args.get("thought")), ("args", "thought"))
    own = {key: value for key, value in args.items() if value is not None and key not in _NO_ARGUMENTS}
    into.blocks += argument_blocks(own, ("args",), "arguments")
    into.defines = [(key, into.tool) for key in (as_text(into.header.get("id")), _key_of(record.get("id"))) if key]
    return Kind.TOOL_CALL


def _observation(record: JsonObject, what: str, before: Before, into: Gathered) -> Kind:
    content = as_text(record.get("content"))
    into.text(content, ("content",))
    if what == "recall":
        return Kind.SYSTEM
    into.tool = _of_call(record, into) or before.tool(_key_of(record.get("cause"))) or what
    extras = as_object(record.get("extras"))
    metadata = as_object(extras.get("metadata"))
    held, path = (metadata, ("extras", "metadata")) if "exit_code" in metadata else (extras, ("extras",))
    into.field("exit_code", held.get("exit_code"), *path, "exit_code")
    if what == "error":
        into.header["is_error"] = True
    file = as_text(extras.get("path"))
    if what in _FILES and file.startswith("/") and content and not _numbered(content):
        into.resources.append(Resource(file_uri(file), mime_of(file), content, ("content",)))
    return Kind.TOOL_RESULT


def _prediction(record: JsonObject, patch: str) -> Shown:
    """View a submission to an evaluation: the patch that a run made."""
    into = Gathered()
    for name in ("instance_id", "model_name_or_path"):
        into.field(name, record.get(name), name)
    into.text(patch, ("model_patch" if "model_patch" in record else "git_patch",), "patch")
    return into.shown_if_any(Kind.SUMMARY)


def _of_call(record: JsonObject, into: Gathered) -> str:
    """Add the id of the model's call that a record is or answers, where it names one; return the call's tool."""
    named = as_object(record.get("tool_call_metadata"))
    if record.get("tool_call_metadata") is not None:
        into.places |= _CALL
    if call := as_text(named.get("tool_call_id")):
        into.header["id"] = call
    return as_text(named.get("function_name"))


def _key_of(value: object) -> str:
    """Return the key of an event by its own id, "" for an invalid one."""
    return f"event {value}" if (value and isinstance(value, str)) or type(value) is int else ""


def _forgotten(said: JsonObject) -> tuple[str, ...]:
    """Return the events whose ids stand in ``said``, in a list or as the first and the last."""
    first, last = said.get("forgotten_events_start_id"), said.get("forgotten_events_end_id")
    ids: Iterable[object] = as_list(said.get("forgotten_event_ids"))
    if isinstance(first, int) and isinstance(last, int):
        ids = range(first, min(last, first + _MOST_FORGOTTEN) + 1)
    return tuple(key for key in map(_key_of, ids) if key)


# -- events of the software kit --------------------------------------------------------------------------------------


def _message(record: JsonObject, into: Gathered) -> Kind:
    return gather_message(as_object(record.get("llm_message")), ("llm_message",), into)


def _system_prompt(record: JsonObject, into: Gathered) -> Kind:
    gather(record.get("system_prompt"), ("system_prompt",), "", into)
    return Kind.SYSTEM


def _called(record: JsonObject, into: Gathered) -> Kind:
    into.text(as_text(record.get("reasoning_content")), ("reasoning_content",), "thinking")
    gather(record.get("thought"), ("thought",), "", into)
    label = into.call(record, (), "tool_name", "tool_call_id")
    own = {key: value for key, value in as_object(record.get("action")).items() if key != "kind"}
    arguments(own, ("action",), label, into)
    return Kind.TOOL_CALL


def _returned(record: JsonObject, into: Gathered) -> Kind:
    observed = as_object(record.get("observation"))
    into.result(record, (), "tool_call_id")
    if "is_error" in observed:
        into.failed(observed, ("observation",), "is_error")
    for key in ("content", "output", "error"):
        gather(observed.get(key), ("observation", key), "" if key == "content" else key, into)
    if not into.blocks:
        own = {key: value for key, value in observed.items() if key not in ("is_error", "kind")}
        arguments(own, ("observation",), "observation", into)
    return Kind.TOOL_RESULT


def _failed(record: JsonObject, into: Gathered) -> Kind:
    into.result(record, (), "tool_call_id")
    for key in ("error", "detail", "rejection_reason"):
        into.text(as_text(record.get(key)), (key,))
    return Kind.TOOL_RESULT if into.asked else Kind.NOTE


def _condensed(record: JsonObject, into: Gathered) -> Kind:
    into.text(as_text(record.get("summary")), ("summary",))
    return Kind.SUMMARY


def _other(record: JsonObject, into: Gathered) -> Kind:
    return Kind.RECORD


_LATER: dict[str, Callable[[JsonObject, Gathered], Kind]] = {
    "ActionEvent": _called,
    "AgentErrorEvent": _failed,
    "Condensation": _condensed,
    "CondensationRequest": _other,
    "ConversationErrorEvent": _failed,
    "ConversationStateUpdateEvent": _other,
    "MessageEvent": _message,
    "ObservationEvent": _returned,
    "PauseEvent": _other,
    "SystemPromptEvent": _system_prompt,
    "TokenEvent": _other,
    "UserRejectObservation": _failed,
}
"""Events of OpenHands' software kit, by ``kind``."""

_SOURCES = {
    Kind.USER: "user",
    Kind.ASSISTANT: "agent",
    Kind.REASONING: "agent",
    Kind.SYSTEM: "agent",
    Kind.TOOL_CALL: "agent",
    Kind.TOOL_RESULT: "agent",
}
_ACTIONS = {"bash": "run", "execute_bash": "run", "str_replace_editor": "edit", "execute_ipython_cell": "run_ipython"}
"""The actions that calls of these tools are; calls of others are ``call_tool_mcp``."""


def _enveloped(event: JsonObject, before: JsonObject, now_ms: int, *, is_later: bool) -> JsonObject:
    """Return an event with its id, which counts on where ``before`` has a number, and its time."""
    number = before.get("id")
    own: object = number + 1 if type(number) is int else str(uuid.uuid4())
    # these programs tell the time without its zone
    return ({} if number is None and not is_later else {"id": own}) | {"timestamp": in_iso(now_ms)[:-1]} | event


def _new_event(kind: Kind, text: str, more: Particulars) -> JsonObject:
    event: JsonObject = {"source": _SOURCES.get(kind, "agent"), "message": text}
    match kind:
        case Kind.USER | Kind.ASSISTANT:
            args: JsonObject = {"content": text, "image_urls": None, "wait_for_response": kind is Kind.ASSISTANT}
            return event | {"action": "message", "args": args}
        case Kind.SYSTEM:
            return event | {"action": "system", "args": {"content": text}}
        case Kind.REASONING:
            return event | {"action": "think", "args": {"thought": text}}
        case Kind.SUMMARY:
            # nothing is forgotten for it: that is what a condenser decides
            args = {"forgotten_event_ids": [], "summary": text, "summary_offset": 0}
            return event | {"action": "condensation", "args": args}
        case Kind.TOOL_CALL:
            arguments = more.arguments(text)
            metadata: JsonObject = {"function_name": more.tool, "tool_call_id": more.new_id("call_")}
            called = event | {"message": "", "action": _ACTIONS.get(more.tool, "call_tool_mcp")}
            return called | {"tool_call_metadata": metadata, "args": {**arguments, "thought": ""}}
    asked = object_in(more.asked)
    metadata = {"function_name": more.tool, "tool_call_id": more.id}
    answered: JsonObject = {"tool_call_metadata": metadata} if "tool_call_metadata" in asked else {}
    what = "error" if more.failed else as_text(asked.get("action")) or "run"
    return event | {"cause": asked.get("id"), "observation": what, "content": text, "extras": {}} | answered


def _later_event(kind: Kind, text: str, more: Particulars) -> JsonObject:
    event: JsonObject = {"source": _SOURCES.get(kind, "environment")}
    said: JsonObject = {"type": "text", "text": text}
    match kind:
        case Kind.USER | Kind.ASSISTANT | Kind.REASONING:
            message: JsonObject = {"role": "user" if kind is Kind.USER else "assistant", "content": [said]}
            if kind is Kind.REASONING:
                message |= {"content": [], "reasoning_content": text}
            return event | {"llm_message": message, "kind": "MessageEvent"}
        case Kind.SYSTEM:
            return event | {"system_prompt": said, "tools": [], "kind": "SystemPromptEvent"}
        case Kind.SUMMARY:
            return event | {"forgotten_event_ids": [], "summary": text, "kind": "Condensation"}
        case Kind.TOOL_CALL:
            arguments, call = more.arguments(text), more.new_id("call_")
            made = {"id": call, "name": more.tool, "arguments": json.dumps(arguments), "origin": "completion"}
            action = {**arguments, "kind": f"{more.tool.title().replace('_', '')}Action"}
            thought: JsonObject = {"thought": [], "thinking_blocks": [], "action": action}
            called: JsonObject = {"tool_name": more.tool, "tool_call_id": call, "tool_call": made}
            return event | thought | called | {"kind": "ActionEvent"}
    asked = object_in(more.asked)
    named = as_text(as_object(asked.get("action")).get("kind")).removesuffix("Action")
    observation: JsonObject = {"content": [said], "is_error": more.failed, "kind": f"{named}Observation"}
    returned: JsonObject = {"source": "environment", "tool_name": more.tool, "tool_call_id": more.id}
    return returned | {"observation": observation, "action_id": asked.get("id"), "kind": "ObservationEvent"}


_ANSWER: ValuePath = ("tool_call_metadata", "model_response", "choices", 0, "message")


class OpenHandsLens(JsonLens):
    """A lens for events; states, acknowledgements and the figures of an evaluation are bookkeeping."""

    type_name = "openhands.event.v1"
    telling = (b'"model_response"',)
    objects_only = False
    writes = (*_SOURCES, Kind.SUMMARY)
    lacks: ClassVar[Mapping[Kind, str]] = {Kind.NOTE: "whatever has no other name is what an agent or a user says"}

    def shown(self, record: JsonObject, before: Before) -> Shown:
        """View a record; later ones know it by its own id."""
        shown = _event(record, before)
        if (key := _key_of(record.get("id"))) and all(key != defined for defined, _tool in shown.defines):
            return structs.replace(shown, defines=(*shown.defines, (key, "")))
        return shown

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        """Return an event of the generation that the ones before are of."""
        last = more.last or previous
        before, begun = object_in(last), object_in(more.first)
        if "role" in before or before.keys() >= _PREDICTION:
            raise UsageError("there are no events here, but what models were sent, or patches: it can only be edited")
        # what stands beside the events is of no generation
        is_later = isinstance((before if _is_event(before) else begun).get("kind"), str)
        event = (_later_event if is_later else _new_event)(kind, text, more)
        return new_record(_enveloped(event, before, now_ms, is_later=is_later), last)

    def used(self, record: JsonObject) -> Usage | None:
        answer = as_object(as_object(record.get("tool_call_metadata")).get("model_response"))
        tokens = counted(as_object(answer.get("usage")))
        return Usage(as_text(answer.get("id")), as_text(answer.get("model")), tokens) if tokens.total else None

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        said_in_parts = record.get("kind") is not None or "role" in record
        return part(record, path, name, text) if said_in_parts else None

    def room(self, record: JsonObject) -> ValuePath | None:
        if isinstance(record.get("action"), (str, dict)):
            return ("args",) if isinstance(record["action"], str) else ("action",)
        return ("content",) if "content" in record else None

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        named = as_object(record.get("tool_call_metadata")) or record
        if call := as_text(named.get("tool_call_id")):
            yield CallLink((), 0, call, "action" in record)

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        if record.get("message") == old:
            yield ("message",), new
        metadata = as_object(record.get("tool_call_metadata"))
        choices = as_list(as_object(metadata.get("model_response")).get("choices"))
        answer = as_object(as_object(choices[0]).get("message")) if choices else {}
        if path == ("args", "thought") and answer.get("content") == old:
            yield (*_ANSWER, "content"), new
        for at, call in enumerate(as_list(answer.get("tool_calls"))):
            held = as_text(as_object(as_object(call).get("function")).get("arguments"))
            document = document_in(held)
            if len(path) == 2 and path[0] == "args" and isinstance(document, dict):
                key = next((key for key, value in document.items() if value == old), None)
                if key is not None:
                    said = held.encode()
                    changed = put(said, (key,), spell(new, said)).decode()
                    yield (*_ANSWER, "tool_calls", at, "function", "arguments"), changed


_HISTORIES = ("history", "events", "trajectory")
_PREDICTION = frozenset(("instance_id", "model_patch"))
_INSTANCE_ID = b'"instance_id"'
_KEY_DIGITS = 16
_may_be = re.compile(rb'"(?:action|instance_id|kind|observation)"').search
_event_file = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json").fullmatch
_holds_events = re.compile(rb'(?<!\\)"(?:history|events|trajectory)"\s*+:\s*+\[').search
_EVENTS, _COPIES = "events", "event_cache"
_STORES = ("$FILE_STORE_PATH", "~/.openhands", "~/.openhands-state")


class OpenHands(Format):
    """OpenHands, once OpenDevin."""

    name = "openhands"
    lenses = (OpenHandsLens(),)
    main_type = first_type = OpenHandsLens.type_name
    joints = (b"[", b", ", b"]")
    kept = tuple(f"{folder}/{name}" for folder in _STORES for name in ("sessions", "conversations", "trajectories"))

    def next_file(self, last: str, record: bytes) -> str:
        named = _event_file(last)
        if named is None:
            return ""
        number = int(named[1]) + 1
        later = f"event-{number:0{len(named[1])}}-{as_text(object_in(record).get('id')) or uuid.uuid4()}.json"
        return later if last.startswith("event-") else f"{number}.json"

    def claim(self, look: Look) -> Source | None:
        """Claim a file that begins with events, or with patches that an evaluation was handed in; a folder of events.

        Their copies in blocks, which OpenHands keeps beside that, are not claimed.
        """
        path = look.path
        if look.is_folder:
            files = sorted(_event_files(path)) if path.name == _EVENTS else []
            # a system prompt is long, and its kind may stand at its end
            if not any(_is_event(Look(file).document) for _number, file in files[:_LOOKED_AT]):
                return None
            *first, main = (file for _number, file in files)
            return Source(self.name, path, main, first=tuple(first))
        if path.parent.name == _COPIES or not _may_be(look.head) or not _is_ours(look.document):
            return None
        return Source(self.name, path, path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        head = bytes(data[:HEAD_SIZE]).lstrip(b"\xef\xbb\xbf \t\r\n\0")
        alone = head.startswith(b"{") and not _holds_events(head)
        return cut_spans(data, start, (lambda _path: Choice.TAKE) if alone else _choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the events of each line; a file of one document that is no line is one conversation."""
        found = list(cuts(data, _choose))
        in_lines = source.path.suffix == ".jsonl"
        if len(found) != len(spans) or not found or (found[-1].document == 0 and not in_lines):
            return None
        parts: list[Part] = []
        begun = 0
        for document, group in groupby(enumerate(found), lambda pair: pair[1].document):
            positions = [at for at, _cut in group]
            records = [bytes(data[found[at].start : found[at].end]) for at in positions]
            instance = _instance(bytes(data[begun : found[positions[0]].start])) or str(document)
            begun = found[positions[-1]].end
            key = f"{instance}-{blake3(records[0]).hexdigest()[:_KEY_DIGITS]}"
            if any(part.key == key for part in parts):
                key = f"{key}-{document}"
            about = self.about(source, records)
            parts.append(Part(key, positions, About(about.title, "", about.started_ms, instance)))
        return parts

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        title, started = "", 0
        for record in map(object_in, records):
            started = started or milliseconds(record.get("timestamp"))
            seen = _event(record, Nothing())
            if seen.kind is Kind.USER:
                title = first_line(next((block.text for block in seen.blocks if block.text), ""))
                break
        session = source.path.parent.name if source.path.name == _EVENTS else source.path.stem
        return About(title=title, started_ms=started, session_id=session)


def _event_files(folder: Path) -> Iterator[tuple[int, Path]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            named = _event_file(entry.name)
            if named and entry.is_file(follow_symlinks=False):
                yield int(named[1]), folder / entry.name


def _is_ours(document: object) -> bool:
    if is_object(document):
        listed = next((found for key in _HISTORIES if (found := as_list(document.get(key)))), [])
        return "instance_id" in document and bool(listed) and _begins_with_events(listed)
    return _begins_with_events(as_list(document))


def _begins_with_events(listed: list[object]) -> bool:
    first = listed[0] if listed else None
    if isinstance(first, list):
        return bool(first) and all(map(_is_event, first[:1]))
    return _is_event(first) or as_object(first).keys() >= _PREDICTION


def _choose(path: ValuePath) -> Choice:
    match path:
        case ():
            return Choice.ENTER
        case (str(key),):
            return Choice.ENTER if key in _HISTORIES else Choice.TAKE if key == "test_result" else Choice.PASS
        case (int(),) | (str(), int()):
            return Choice.LISTS
        case (*_, int(), int()):
            return Choice.TAKE
    return Choice.PASS


def _instance(before: bytes) -> str:
    """Return the instance that a line is of, from the bytes before its first event."""
    _others, key, after = before.rpartition(_INSTANCE_ID)
    return as_text(object_in(b"{" + key + after.split(b",", 1)[0] + b"}").get("instance_id"))
