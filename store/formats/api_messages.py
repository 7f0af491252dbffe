"""Message arrays of the model vendors' APIs: bare, in requests, in recorded HTTP, in lines for fine-tuning.

A document is an array of messages; a request (``messages``, ``input`` or ``contents``); a line for fine-tuning; a
recording of HTTP (``interactions`` of ``request`` and ``response``, whose bodies are JSON, or a string that holds it).
Its messages, answers and system prompts are the records.

The format belongs to no tool: every caller of a model may write it. So it is claimed only where nothing else fits, and
has no place of its own. Of several documents in a file (lines for fine-tuning) each is a conversation.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

from blake3 import blake3

from store.errors import UsageError
from store.events.event import Block, Kind, ValuePath
from store.events.usage import Usage
from store.formats.core.blocks import document_in, document_in_base64
from store.formats.core.chat_messages import (
    WRITES,
    ChatLens,
    first_request,
    gather,
    gather_answer,
    gather_message,
    is_message,
    new_message,
    shown,
)
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.format import About, Format, Part, Source, Span, first_line
from store.formats.core.json_cuts import Choice, RecordCut, cut_spans, cuts
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, decode, is_object, object_in
from store.formats.core.lens import Before, Gathered, Shown
from store.formats.core.look import Look
from store.formats.core.token_counts import counted

MESSAGES = ("messages", "contents", "input")
_SYSTEM = frozenset(("system", "instructions"))
_SYSTEM_OF_GEMINI = frozenset(("systemInstruction", "system_instruction"))
_AROUND = frozenset((*MESSAGES, *_SYSTEM_OF_GEMINI, "interactions", "params", "request", "response", "body_segments"))
_BODIES = frozenset(("body", "content", "json"))
_OF_REQUESTS = """
    anthropic_beta anthropic_version audio background betas cachedContent cached_content config container
    context_management conversation extra_body extra_headers frequency_penalty function_call functions
    generationConfig generation_config include logit_bias logprobs max_completion_tokens max_output_tokens max_tokens
    max_tool_calls mcp_servers metadata modalities model n output_config parallel_tool_calls prediction
    presence_penalty previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning reasoning_effort
    response_format safetySettings safety_identifier safety_settings seed service_tier stop stop_sequences store
    stream stream_options temperature text thinking toolConfig tool_choice tool_config tools top_k top_logprobs top_p
    truncation user verbosity web_search_options
"""
"""Members of requests to the APIs of Anthropic, OpenAI and Gemini, beside the messages and the system prompt."""
_OF_LINES = "body custom_id id ideal key method params rejected_message request response url weight"
"""Members of the lines of batches, of fine-tuning and of evaluations."""
_MEMBERS = frozenset((*MESSAGES, *_SYSTEM, *_SYSTEM_OF_GEMINI, *_OF_REQUESTS.split(), *_OF_LINES.split()))
"""The members that stand beside messages; a document with any other is another program's own."""
_OF_MESSAGES = """
    annotations audio cache_control content function_call id model name object parts phase prefix reasoning
    reasoning_content reasoning_details refusal role status stop_details stop_reason stop_sequence thinking
    tool_call_id tool_calls type usage weight
"""
_OF_A_MESSAGE = frozenset(_OF_MESSAGES.split())
"""The members of messages with a role; a message with others (times, own marks) is some program's."""
_REQUESTS = ("body", "params")
"""The members of a batch's lines that hold a request."""
_SPEAK = frozenset(("role", "parts"))
_MOST_LOOKED_AT = 20


def _choose(path: ValuePath) -> Choice:
    if not path:
        return Choice.ENTER
    last, holder = path[-1], path[-2] if len(path) > 1 else None
    in_answer = "response" in path[:-1]
    if isinstance(last, int):
        if holder == "interactions":
            return Choice.ENTER
        if holder == "body_segments":
            return Choice.TAKE if in_answer else Choice.ENTER
        return Choice.TAKE if holder in MESSAGES or holder is None else Choice.PASS
    if last in _BODIES:
        return Choice.TAKE if in_answer else Choice.ENTER
    if last in _SYSTEM or (last == "parts" and holder in _SYSTEM_OF_GEMINI):
        return Choice.TAKE
    return Choice.ENTER if last in _AROUND else Choice.PASS


def _holds_messages(document: object) -> bool:
    """Return whether the parsed beginning of a document is one that :func:`_choose` cuts, and no other tool's."""
    if isinstance(document, list):
        return _all_messages(document)
    if not is_object(document):
        return False
    if (recorded := as_list(document.get("interactions"))) and _is_recording(as_object(recorded[0])):
        return True
    if not document.keys() <= _MEMBERS:
        return False
    if any(_all_messages(as_list(document.get(key))) for key in MESSAGES):
        return True
    return any(is_object(request := document.get(key)) and _holds_messages(request) for key in _REQUESTS)


def _is_recording(interaction: JsonObject) -> bool:
    request = as_object(interaction.get("request"))
    method = as_text(request.get("method"))
    bodies = (request.get("body"), request.get("content"), *as_list(request.get("body_segments")))
    return method.isalpha() and any(_holds_messages(body) for body in bodies)


def _all_messages(listed: list[object]) -> bool:
    """Return whether the visible part of a list is all messages; the last one may be cut off."""
    looked_at = listed[:_MOST_LOOKED_AT]
    whole = looked_at[:-1] if len(looked_at) > 1 else looked_at
    return bool(whole) and all(map(_is_plain, whole)) and any(as_object(one).keys() & _SPEAK for one in whole)


def _is_plain(value: object) -> bool:
    return is_message(value) and ("role" not in as_object(value) or as_object(value).keys() <= _OF_A_MESSAGE)


_HOLDERS = ("data", "string", "text")
"""The members of an HTTP recording that may hold the text of a body."""
_ANSWERS = frozenset(("choices", "candidates", "output", "error"))
_ANSWERED = frozenset(("usage", "stop_reason", "status"))
"""Members of messages that were an answer: nothing can be said after them in the place where they stand."""


class ApiMessageLens(ChatLens):
    """A lens for messages; the rest of a request is bookkeeping."""

    type_name = "api.message.v1"
    writes = WRITES
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys(Kind, "the APIs have no such message")
    telling = (b'"usage"', b'"usageMetadata"', *(b'"%s"' % key.encode() for key in _HOLDERS))

    def shown(self, record: JsonObject, before: Before) -> Shown:
        gathered = Gathered()
        return shown(_gather_record(record, gathered), gathered, before)

    def shown_other(self, value: object, before: Before) -> Shown | None:
        gathered = Gathered()
        if isinstance(value, str) and value:
            gathered.blocks.append(Block("text", value))
        elif isinstance(value, list):
            gather(value, (), "", gathered)
        return shown(Kind.SYSTEM, gathered, before)

    def used(self, record: JsonObject) -> Usage | None:
        held = (_body(as_text(record.get(key))) for key in _HOLDERS if key in record)
        for answer in (record, *filter(is_object, held)):
            tokens = counted(as_object(answer.get("usage")) or as_object(answer.get("usageMetadata")))
            if tokens.total:
                named = as_text(answer.get("id")) or as_text(answer.get("responseId"))
                return Usage(named, as_text(answer.get("model")) or as_text(answer.get("modelVersion")), tokens)
        return None

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        last = more.last or previous
        said = object_in(last)
        if last and (not is_message(said) or said.keys() & _ANSWERED):
            told = "what comes last is no message of a request, such as the answer that ends one"
            raise UsageError(f"no {kind.word} can be written by hand in api after it: {told}; edit what is there")
        value = new_message(kind, text, [object_in(one) for one in (more.asked, last, more.first) if one], more)
        return new_record(value, last) if last else json.dumps(value, ensure_ascii=False).encode()


def _gather_record(record: JsonObject, into: Gathered) -> Kind:
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


_KEY_DIGITS = 32
_RECORDING = ("interactions",)
_may_be = re.compile(rb'"(?:parts|role)"').search


class ApiMessages(Format):
    """Message arrays of the APIs of Anthropic, OpenAI and Gemini."""

    name = "api-messages"
    lenses = (ApiMessageLens(),)
    main_type = ApiMessageLens.type_name
    joints = (b"[\n  ", b",\n  ", b"\n]")

    def is_ours(self, look: Look) -> bool:
        return _may_be(look.head) is not None and _holds_messages(look.document)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        return cut_spans(data, start, _choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the line that each record belongs to, if there are lines.

        Messages that a later request of a recording repeats belong to none.
        """
        found = list(cuts(data, _choose))
        if len(found) != len(spans):
            return None
        by_document = [list(group) for _, group in groupby(enumerate(found), lambda pair: pair[1].document)]
        own = [_said_first(data, group) for group in by_document]
        is_recording = any(cut.path[:1] == _RECORDING for cut in found)
        if len(own) < 2 and not is_recording and source.path.suffix != ".jsonl":
            return None
        keys: dict[str, int] = {}
        parts: list[Part] = []
        for positions in own:
            records = [bytes(data[found[at].start : found[at].end]) for at in positions]
            # a line is identified by its content; a recording may grow, so it is identified by its place
            told = [os.fsencode(os.path.abspath(source.path))] if is_recording and len(own) == 1 else records
            key = blake3(b"\n".join(told)).hexdigest()[:_KEY_DIGITS]
            keys[key] = keys.get(key, 0) + 1
            key = f"{key}-{keys[key]}" if keys[key] > 1 else key
            parts.append(Part(key, positions, self.about(source, records)))
        return parts

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        return About(title=first_line(first_request(records)), session_id=source.path.stem)


def _said_first(data: memoryview, group: list[tuple[int, RecordCut]]) -> list[int]:
    """Return the positions of those records of a document that no earlier request of it held."""
    seen: set[bytes] = set()
    kept: list[int] = []
    for _request, cuts_ in groupby(group, lambda pair: pair[1].path[:-1]):
        new: set[bytes] = set()
        for at, cut in cuts_:
            digest = blake3(data[cut.start : cut.end]).digest()
            if digest not in seen:
                kept.append(at)
            new.add(digest)
        seen |= new
    return kept
