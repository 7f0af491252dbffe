"""One line of a Claude Code session as an event, and the usage of the answer on it.

An answer is written a block a line, each with the usage as it then was: the last one is complete, and all have the
message's id. So have the copies of lines that a resumed session begins with, and the progress of a subagent, which its
own session has too.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec
from msgspec import structs

from store.errors import UsageError
from store.events.event import Kind, ValuePath
from store.events.usage import Usage
from store.formats.claude_code import messages, notes
from store.formats.claude_code.messages import READ_FILE
from store.formats.core.chat_messages import room
from store.formats.core.composing import Particulars, Template, recorded
from store.formats.core.editing import JsonLens, Twins
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in, texts_in, value_at
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, Header, Places, Shown, View, bookkeeping
from store.formats.core.removal import links_of_message
from store.formats.core.times import in_iso
from store.formats.core.token_counts import counted, dollars
from store.formats.core.twins import carried, carried_to_numbered

_COPIED = ("userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "agentId", "slug")
_NO_TOKENS = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
SYNTHETIC = "<synthetic>"
"""The program's own mark, in the place of a model, for answers that came from none."""
_encode = msgspec.json.Encoder().encode


def answer(
    identifier: str, model: str, parts: list[JsonObject], stop_reason: str, stop_sequence: str | None
) -> JsonObject:
    """Return the members peculiar to a line with an answer of the model, or a part of one."""
    message: JsonObject = {
        "id": identifier,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": parts,
        "stop_reason": stop_reason,
        "stop_sequence": stop_sequence,
        "usage": _NO_TOKENS,
    }
    return {"type": "assistant", "message": message}


_WRITES = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.CONFIG)
_ASKS = "Claude Code asks by a call of the tool AskUserQuestion, and its result is the answer"


def _asks(part: JsonObject, stop_reason: str = "end_turn", stop_sequence: str | None = None) -> Template:
    return answer("$uuid", SYNTHETIC, [part], stop_reason, stop_sequence)


def _tells(content: object, **more: object) -> Template:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


_RESULT_PART = {"tool_use_id": "$id", "type": "tool_result", "content": "$text", "is_error": "$failed"}
_NEW: dict[Kind, Template] = {
    Kind.USER: _tells("$text"),
    Kind.SYSTEM: _tells("$text", isMeta=True),
    Kind.TOOL_RESULT: _tells([_RESULT_PART], **{"sourceToolAssistantUUID?": "$asked.uuid"}),
    Kind.REASONING: _asks({"type": "thinking", "thinking": "$text", "signature": ""}),
    Kind.TOOL_CALL: _asks({"type": "tool_use", "id": "$id", "name": "$tool", "input": "$arguments"}, "tool_use"),
    Kind.ASSISTANT: _asks({"type": "text", "text": "$text"}, "stop_sequence", ""),
    Kind.NOTE: {"type": "system", "subtype": "informational", "content": "$text", "isMeta": False, "level": "info"},
}


def _said(kind: Kind, text: str, more: Particulars) -> JsonObject:
    if kind is Kind.CONFIG:
        return {"type": "attachment", "attachment": _configuration(text, more)}
    return recorded(_NEW[kind], kind, text, 0, more, "toolu_")


def _configuration(text: str, more: Particulars) -> JsonObject:
    what = more.head.get("attachment", "output_style")
    if what not in notes.CONFIGURING:
        raise UsageError(f"attachment: {what} is no configuration: write {' or '.join(notes.CONFIGURING)}")
    return {"type": what, **more.configuration(text)}


_CONTENT: ValuePath = ("message", "content")
_RESULT = "toolUseResult"
_ATTACHMENT = "attachment"
_STREAMS = ("error", "output", "result", "results", "stderr", "stdout")
_SAID = frozenset((*_STREAMS, "content", "filenames", "message", "plan", "planContent", "text"))
"""The keys under which a result holds a tool's output. Elsewhere only long texts count as copies."""
_LONG = 20


def _changed(
    copies: list[tuple[ValuePath, str]], old: str, new: str, which: int = 0, of: int = 1
) -> Iterator[tuple[ValuePath, str]]:
    """Yield the ``copies`` that change with the text, which is number ``which`` of ``of`` equal ones."""
    exact = [place for place, text in copies if text == old and (_is_said(place) or len(old) >= _LONG)]
    if not old:
        # the output was empty: the new text goes to one stream, the first
        exact = exact[:1]
    if of > 1:
        exact = [exact[which]] if len(exact) == of else []
    yield from ((place, new) for place in exact)
    for place, text in copies:
        if not _is_said(place) or text == old:
            continue
        now = carried(text, old, new)
        if now is not None and now != text and not (place[-2:-1] == ("filenames",) and (not now or "\n" in now)):
            yield place, now


def _said_by_tools(line: JsonObject) -> Iterator[tuple[ValuePath, str]]:
    for at, part in enumerate(as_list(as_object(line.get("message")).get("content"))):
        if isinstance(part, dict) and part.get("type") == "tool_result":
            place: ValuePath = ("message", "content", at, "content")
            content = part.get("content")
            if isinstance(content, str):
                yield place, content
            for which, inner in enumerate(as_list(content)):
                if isinstance(text := as_object(inner).get("text"), str):
                    yield (*place, which, "text"), text


def _is_said(place: ValuePath) -> bool:
    if len(place) == 1:
        return True
    return next((step for step in reversed(place) if isinstance(step, str)), "") in _SAID


_VIEWS: dict[str, View] = {
    **dict.fromkeys(notes.BOOKKEEPING_TYPES, bookkeeping),
    "assistant": messages.assistant,
    "attachment": notes.attachment,
    **dict.fromkeys(notes.OF_ONE_TEXT, notes.one_text),
    "summary": notes.summary,
    "system": notes.system,
    "user": messages.user,
}


class ClaudeCodeLens(JsonLens):
    """Sees lines of a session. The order of lines is the conversation; a parent is named where it is another line."""

    type_name = "claude-code.line.v1"
    one_line = True
    telling = (b'"usage"',)
    key, follows, links = "uuid", "parentUuid", ("logicalParentUuid", "leafUuid")
    writes = (*_WRITES, Kind.SUMMARY, Kind.NOTE)
    lacks: ClassVar[Mapping[Kind, str]] = dict.fromkeys((Kind.QUESTION, Kind.ANSWER), _ASKS)
    places: ClassVar[Places] = {
        **dict.fromkeys(("attachment", "record", "subtype"), "says what the record is: it cannot be changed"),
        "agent": ("agentId",),
        "api_error": ("isApiErrorMessage",),
        "full_output": ("toolUseResult", "persistedOutputPath"),
        "hook": ("attachment", "hookName"),
        "leaf": ("leafUuid",),
        "level": ("level",),
        "pre_tokens": ("compactMetadata", "preTokens"),
        "sidechain": ("isSidechain",),
        "subagent": ("toolUseResult", "agentId"),
        "trigger": ("compactMetadata", "trigger"),
    }

    def shown(self, record: JsonObject, before: Before) -> Shown:
        what = record.get("type")
        shown = (_VIEWS.get(what, notes.unknown) if isinstance(what, str) else notes.unknown)(record, before)
        if record.get("isSidechain") is not True:
            return shown
        header: Header = {**shown.header, "sidechain": True}
        if isinstance(agent := record.get("agentId"), str):
            header["agent"] = agent
        return structs.replace(shown, header=header)

    def used(self, record: JsonObject) -> Usage | None:
        said = record
        if as_text(record.get("type")) == "progress":
            said = as_object(as_object(record.get("data")).get("message"))
        message = as_object(said.get("message"))
        tokens = counted(as_object(message.get("usage")))
        cost = dollars(record.get("costUSD"))
        if not tokens.total and not cost:
            return None
        answer = as_text(message.get("id")) or as_text(said.get("uuid"))
        return Usage(answer, as_text(message.get("model")), tokens, cost)

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the other copies that a line holds of a tool's result or of an attachment."""
        if path == READ_FILE:
            for place, text in _said_by_tools(record):
                if (now := carried_to_numbered(text, old, new)) is None:
                    now = carried(text, old, new)
                if now is not None:
                    yield place, now
            return
        if path[0] == _ATTACHMENT:
            copies = [
                (place, text) for place, text in texts_in(record.get(_ATTACHMENT), (_ATTACHMENT,)) if place != path
            ]
            yield from _changed(copies, old, new)
            return
        alike = [place for place, text in _said_by_tools(record) if text == old]
        if any(place == path for place, _ in _said_by_tools(record)):
            yield from _changed(
                list(texts_in(record.get(_RESULT), (_RESULT,))), old, new, alike.index(path), len(alike)
            )
        elif path[0] == "message" and isinstance(plan := record.get("planContent"), str):
            yield from _changed([(("planContent",), plan)], old, new)

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        """Return a new part of a line's content, or of a result in it, or a text that a hook said."""
        if path == _CONTENT and name == "thinking":
            raise UsageError("a thought is signed by the model that had it: none can be written by hand")
        if (path[:2] == _CONTENT and path[3:] in ((), ("content",))) or path == (_ATTACHMENT, "prompt"):
            return {"type": "text", "text": text}
        return text if path == (_ATTACHMENT, "content") and isinstance(value_at(record, path), list) else None

    def room(self, record: JsonObject) -> ValuePath | None:
        found = room(as_object(record.get("message")))
        return ("message", *found) if found is not None else None

    def mirrors(self, record: JsonObject) -> Iterator[tuple[ValuePath, ValuePath]]:
        """Yield each result's content and the program's own copy, which tools of other programs have as it is."""
        for at, part in enumerate(as_list(as_object(record.get("message")).get("content"))):
            if as_object(part).get("type") == "tool_result":
                yield from (((*_CONTENT, at, "content"), copy) for copy in ((_RESULT,), (_RESULT, "content")))

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        return links_of_message(as_object(record.get("message")), ("message",))

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        before = object_in(previous)
        parent = as_text(before.get("uuid")) or as_text(before.get("leafUuid")) or None
        line: JsonObject
        if kind is Kind.SUMMARY:
            line = {"type": "summary", "summary": text, "leafUuid": parent or str(uuid.uuid4())}
        else:
            line = {
                "parentUuid": parent,
                "isSidechain": before.get("isSidechain") is True,
                "userType": "external",
                "sessionId": str(uuid.uuid4()),
                **{key: before[key] for key in _COPIED if isinstance(before.get(key), str)},
                **_said(kind, text, more),
                "uuid": str(uuid.uuid4()),
                "timestamp": in_iso(now_ms),
            }
        return _encode(line) + (b"\r" if previous and previous.endswith(b"\r") else b"")


class ElsewhereLens(ClaudeCodeLens):
    """Sees lines about another session, such as the summaries of earlier ones that a file begins with: bookkeeping."""

    type_name = "claude-code.elsewhere.v1"

    def shown(self, record: JsonObject, before: Before) -> Shown:
        return BOOKKEEPING

    def used(self, record: JsonObject) -> Usage | None:
        return None
