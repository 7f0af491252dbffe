"""OpenHands: trajectories of events, in a file of their own or a line each of an evaluation's output.

An action has ``action`` and ``args``, an observation ``observation``, ``content`` and ``extras``; both may name the
model's call (``tool_call_metadata``). The events of its later software kit have a ``kind``.

A file holds one array of events, or an object with ``history``; ``output.jsonl`` of an evaluation has such an object a
line, in older ones with pairs of action and observation. A submission to one is an array of patches. Where it works,
OpenHands keeps a folder ``events`` a session, with a file an event: ``12.json``, later ``event-00012-ID.json``. Beside
that, ``subagents`` has those of its delegates. Its server keeps ``v1_conversations/SESSION/ID.json``: there, the times
in the events are their order.
"""

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from blake3 import blake3
from msgspec import structs

from store.errors import UsageError
from store.events.event import Compaction, Kind, Resource, ValuePath
from store.events.usage import Usage
from store.formats.core.blocks import document_in
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.editing import Twins
from store.formats.core.format import About, Part, Source, Span
from store.formats.core.json_cuts import choice_of, cut_spans, cuts
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, object_in
from store.formats.core.lens import BOOKKEEPING, Before, Shown
from store.formats.core.look import HEAD_SIZE, Look, read_head
from store.formats.core.media import file_uri, mime_of
from store.formats.core.splices import put, spell
from store.formats.core.times import in_iso
from store.formats.core.token_counts import counted
from store.formats.declared.description import read_views
from store.formats.declared.format import DeclaredFormat
from store.formats.declared.lens import DeclaredLens

_is_of_kit = re.compile(
    r"(?:Action|AgentError|ConversationError|ConversationStateUpdate|Message|Observation|Pause|SystemPrompt|Token)Event"
    r"|Condensation(?:Request)?|UserRejectObservation"
).fullmatch
"""Tells the kinds of events of the software kit."""
_FILES = frozenset(("read", "write"))
_LOOKED_AT = 4
_numbered = re.compile(r"Here's the result of running `cat -n`").match
_MOST_FORGOTTEN = 1 << 20
"""Events that a summary takes the place of, whatever numbers it tells."""


def _is_event(value: object) -> bool:
    if not is_object(value) or not ("timestamp" in value or "source" in value or "id" in value):
        return False
    if isinstance(value.get("action"), str):
        return is_object(value.get("args"))
    if isinstance(value.get("observation"), str):
        return "extras" in value or "content" in value
    return "timestamp" in value and "source" in value and _is_of_kit(as_text(value.get("kind"))) is not None


def _files(record: JsonObject, what: str) -> Iterator[Resource]:
    """Yield the file that an observation holds."""
    file, content = as_text(as_object(record.get("extras")).get("path")), as_text(record.get("content"))
    if what in _FILES and file.startswith("/") and content and not _numbered(content):
        yield Resource(file_uri(file), mime_of(file), content, ("content",))


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


_ACTIONS = {"bash": "run", "execute_bash": "run", "str_replace_editor": "edit", "execute_ipython_cell": "run_ipython"}
"""The actions that calls of these tools are; calls of others are ``call_tool_mcp``."""


def _enveloped(event: JsonObject, before: JsonObject, now_ms: int, *, is_later: bool) -> JsonObject:
    """Return an event with its id, which counts on where ``before`` has a number, and its time."""
    number = before.get("id")
    own: object = number + 1 if type(number) is int else str(uuid.uuid4())
    # these programs tell the time without its zone
    return ({} if number is None and not is_later else {"id": own}) | {"timestamp": in_iso(now_ms)[:-1]} | event


def _told(kind: Kind, text: str, more: Particulars) -> dict[str, object]:
    """Return what the templates of older events ask for beside the usual."""
    if kind is Kind.TOOL_CALL:
        return {"action": _ACTIONS.get(more.tool, "call_tool_mcp"), "given": {**more.arguments(text), "thought": ""}}
    asked = object_in(more.asked)
    metadata = {"function_name": more.tool, "tool_call_id": more.id} if "tool_call_metadata" in asked else None
    return {"observation": "error" if more.failed else as_text(asked.get("action")) or "run", "answered": metadata}


def _told_kit(kind: Kind, text: str, more: Particulars) -> dict[str, object]:
    """Return the same for those of the software kit."""
    if kind is Kind.TOOL_CALL:
        return {"action": {**more.arguments(text), "kind": f"{more.tool.title().replace('_', '')}Action"}}
    named = as_text(as_object(object_in(more.asked).get("action")).get("kind")).removesuffix("Action")
    return {"observation": f"{named}Observation"}


_ANSWER: ValuePath = ("tool_call_metadata", "model_response", "choices", 0, "message")


class OpenHandsLens(DeclaredLens):
    """A lens for events; states, acknowledgements and the figures of an evaluation are bookkeeping."""

    lacks: ClassVar[Mapping[Kind, str]] = {Kind.NOTE: "whatever has no other name is what an agent or a user says"}

    def __init__(self) -> None:
        super().__init__(read_views("openhands"), "openhands.event.v1")
        self.telling = (b'"model_response"',)
        self._kit = DeclaredLens(read_views("openhands-kit"))

    def shown(self, record: JsonObject, before: Before) -> Shown:
        """View a record; later ones know it by its own id, as a summary does that takes the place of others."""
        shown = super().shown(record, before)
        tool, resources, compaction = shown.tool, shown.resources, shown.compaction
        if shown.kind is Kind.TOOL_RESULT and (what := as_text(record.get("observation"))):
            # one that names its call has asked for that
            tool = tool or ("" if "id" in shown.header else before.tool(_key_of(record.get("cause")))) or what
            resources = tuple(_files(record, what))
        elif shown.kind is Kind.SUMMARY and (forgotten := _forgotten(as_object(record.get("args")) or record)):
            compaction = Compaction(shown.blocks, forgotten=forgotten)
        defines, key = shown.defines, _key_of(record.get("id"))
        if key:
            defines += ((key, tool if shown.kind is Kind.TOOL_CALL else ""),)
        return structs.replace(shown, tool=tool, resources=resources, compaction=compaction, defines=defines)

    def shown_other(self, value: object, before: Before) -> Shown:
        return BOOKKEEPING

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        """Return an event of the generation that the ones before are of."""
        last = more.last or previous
        before, begun = object_in(last), object_in(more.first)
        if "role" in before or before.keys() >= _PREDICTION:
            raise UsageError("there are no events here, but what models were sent, or patches: it can only be edited")
        # what stands beside the events is of no generation
        is_later = isinstance((before if _is_event(before) else begun).get("kind"), str)
        told = _told_kit(kind, text, more) if is_later else _told(kind, text, more)
        event = (self._kit if is_later else self).made(kind, text, now_ms, more, **told)
        return new_record(_enveloped(event, before, now_ms, is_later=is_later), last)

    def used(self, record: JsonObject) -> Usage | None:
        answer = as_object(as_object(record.get("tool_call_metadata")).get("model_response"))
        tokens = counted(as_object(answer.get("usage")))
        return Usage(as_text(answer.get("id")), as_text(answer.get("model")), tokens) if tokens.total else None

    def room(self, record: JsonObject) -> ValuePath | None:
        if isinstance(record.get("action"), (str, dict)):
            return ("args",) if isinstance(record["action"], str) else ("action",)
        return ("content",) if "content" in record else None

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
_event_file = re.compile(r"(?:event-)?(\d+)(?:-([\w-]+))?\.json").fullmatch
_holds_events = re.compile(rb'(?<!\\)"(?:history|events|trajectory)"\s*+:\s*+\[').search
_alone = choice_of("")
_served_file = re.compile(r"[0-9a-f]{32}\.json").fullmatch
_told_at = re.compile(rb'"timestamp"\s*+:\s*+"([^"]*+)"').search
_EVENTS, _COPIES, _SERVED = "events", "event_cache", "v1_conversations"


class OpenHands(DeclaredFormat):
    """OpenHands, once OpenDevin."""

    def __init__(self) -> None:
        super().__init__(read_views("openhands"), OpenHandsLens())
        self.first_type = self.main_type

    def file_names(self, like: str, files: Sequence[tuple[str, bytes]]) -> Sequence[str] | None:
        """Return names that count up. The later generation refuses a session in which a number is left out."""
        if _served_file(like):
            return [name or f"{as_text(object_in(record).get('id')).replace('-', '')}.json" for name, record in files]
        known = [_event_file(name) for name, _record in files]
        named = next(filter(None, known), _event_file(like))
        if named is None:
            return None
        later, width = like.startswith("event-"), len(named[1])
        number = 0 if later else int(named[1])
        names = []
        for own, (_name, record) in zip(known, files, strict=True):
            if later:
                key = own[2] if own else as_text(object_in(record).get("id")) or str(uuid.uuid4())
                names.append(f"event-{number:0{width}}-{key}.json")
            else:
                number = max(number, int(own[1]) if own else 0)
                names.append(f"{number}.json")
            number += 1
        return names

    def claim(self, look: Look) -> Source | None:
        """Claim a file that begins with events, or with patches that an evaluation was handed in; a folder of events.

        Their copies in blocks, which OpenHands keeps beside that, are not claimed.
        """
        path = look.path
        if look.is_folder:
            files = [file for _order, file in sorted(_event_files(path))]
            # a system prompt is long, and its kind may stand at its end
            if not any(_is_event(Look(Path(file)).document) for file in files[:_LOOKED_AT]):
                return None
            *first, main = files
            return Source(self.name, path, Path(main), first=tuple(first))
        if path.parent.name == _COPIES or not _may_be(look.head) or not _is_ours(look.document):
            return None
        return Source(self.name, path, path)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        about = super().about(source, records)
        # what a delegate takes is in the sum of its parent, too
        return structs.replace(about, usage=None) if "agent" in about.extra else about

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        head = bytes(data[:HEAD_SIZE]).lstrip(b"\xef\xbb\xbf \t\r\n\0")
        alone = head.startswith(b"{") and not _holds_events(head)
        return cut_spans(data, start, _alone if alone else self.choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the events of each line; a file of one document that is no line is one conversation."""
        found = list(cuts(data, self.choose))
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


def _event_files(folder: Path) -> Iterator[tuple[tuple[bytes, int], str]]:
    """Yield the files of a folder's events, with what they are in the order of."""
    is_served = folder.parent.name == _SERVED
    if folder.name != _EVENTS and not is_served:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            named = (_served_file if is_served else _event_file)(entry.name)
            if named and entry.is_file(follow_symlinks=False):
                told = _told_at(read_head(folder / entry.name) or b"") if is_served else None
                yield (told[1] if told else b"", 0 if is_served else int(named[1])), entry.path


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


def _instance(before: bytes) -> str:
    """Return the instance that a line is of, from the bytes before its first event."""
    _others, key, after = before.rpartition(_INSTANCE_ID)
    return as_text(object_in(b"{" + key + after.split(b",", 1)[0] + b"}").get("instance_id"))
