"""SWE-agent: trajectories of runs over an issue, ``.traj``; those of mini-SWE-agent too.

One JSON object: ``trajectory`` (a step each: action, observation, the model's answer), ``history`` (the messages that
the model was sent, which say the same), ``info`` (how it ended), ``replay_config``. mini-SWE-agent has ``messages``; by
OpenAI's Responses those are answers as they came, and items.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from store.errors import UsageError
from store.events.event import Block, Kind, ValuePath
from store.events.usage import Tokens, Usage
from store.formats.core import documents
from store.formats.core.blocks import argument_blocks
from store.formats.core.chat_messages import ChatLens, first_request, gather_answer, gather_message, is_message, shown
from store.formats.core.composing import Particulars
from store.formats.core.documents import new_record
from store.formats.core.editing import Twins
from store.formats.core.format import About, Format, Source, Span, Titled, first_line
from store.formats.core.json_cuts import choice_of, cut_spans
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, object_in
from store.formats.core.lens import Before, Gathered, Shown
from store.formats.core.look import Look
from store.formats.core.token_counts import count, counted, dollars
from store.formats.core.twins import carried

_LAST_ACTION = "action"
"""The key under which a message that calls a tool without an id of the call is asked for."""
_RESULT_OF_RUN = frozenset(("exit_status", "submission", "model_stats"))
_SAID_AGAIN = ("thought", "action")
_OBSERVATION = "observation"
_FIRST_WORD = "is the first word of the action: change that"


class SweAgentLens(ChatLens):
    """A lens for a trajectory's ``history``, or its steps where it has none; and for the end of the run."""

    type_name = "swe-agent.record.v1"
    telling = (b'"model_stats"', b'"usage"')
    writes = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT)
    lacks: ClassVar[Mapping[Kind, str]] = {
        Kind.CONFIG: "a run has one, replay_config: edit that",
        Kind.SUMMARY: "a run has one, its end: edit that",
    }

    objects_only = False
    time_key = ""
    times = (("extra", "timestamp"),)

    def shown(self, record: JsonObject, before: Before) -> Shown:
        """View a record by its members; steps that the history repeats are bookkeeping."""
        if "role" in record or is_message(record) or _is_answer(record):
            return _message(record, before)
        if _is_step(record):
            return _step(record)
        if record.keys() & _RESULT_OF_RUN:
            into = Gathered()
            into.field("exit_status", record.get("exit_status"), "exit_status")
            into.blocks += argument_blocks({key: record[key] for key in record if key not in into.header}, (), "info")
            return into.shown(Kind.SUMMARY)
        return Shown(Kind.CONFIG, argument_blocks(record, (), "config"))

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        """Return a message as those of the history, or a step where a run has none."""
        before = object_in(previous)
        if _is_step(object_in(more.first)) or _is_step(before):
            return new_record(_new_step(kind, text, more), previous)
        style = before if "role" in before else object_in(more.first)
        return new_record(_new_message(kind, text, style, more), previous)

    def answered(self, payload: bytes, text: str, now_ms: int, more: Particulars) -> bytes | None:
        """Return a step with the observation that it led to."""
        step = object_in(payload)
        if not _is_step(step):
            return None
        if as_text(step.get("observation")):
            raise UsageError("the step has its observation: edit that")
        was = documents.parse(payload.decode("utf-8", "replace"))
        return documents.carried(payload, (), was, {**as_object(was), "observation": text})

    def used(self, record: JsonObject) -> Usage | None:
        """Return what a run cost, and its tokens; those of the mini version are told with each answer."""
        told = as_object(record.get("model_stats"))
        tokens = Tokens(count(told, "tokens_sent"), count(told, "tokens_received"))
        cost = dollars(told.get("instance_cost"))
        answer = record if _is_answer(record) else as_object(as_object(record.get("extra")).get("response"))
        tokens = tokens if told else counted(as_object(answer.get("usage")))
        named = as_text(answer.get("id")), as_text(answer.get("model"))
        return Usage(*named, tokens, cost or None) if tokens.total or cost else None

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        """Yield the thought and the action that were extracted from the model's answer, or from its call."""
        for key in _SAID_AGAIN:
            twin = record.get(key)
            if path != (key,) and isinstance(twin, str) and (now := carried(twin, old, new)) is not None:
                yield (key,), now


def _is_answer(record: JsonObject) -> bool:
    return record.get("object") == "response" and isinstance(record.get("output"), list)


def _is_step(record: JsonObject) -> bool:
    return "action" in record and ("observation" in record or "response" in record) and "role" not in record


def _new_step(kind: Kind, text: str, more: Particulars) -> JsonObject:
    if kind is not Kind.TOOL_CALL:
        raise UsageError(f"a run without a history is steps, and no {kind.word} is one: write call")
    _check_action(text, more)
    return {"action": text, "observation": "", "response": text, "state": "{}", "thought": ""}


def _check_action(text: str, more: Particulars) -> None:
    if more.document is not None or _tool(text) != more.tool:
        raise UsageError(f"the action is a command, whose first word is the tool: write {more.tool} and its arguments")


def _new_message(kind: Kind, text: str, style: JsonObject, more: Particulars) -> JsonObject:
    """Return a message as ``style`` is one; the mini version has no marks of its own but ``extra``."""
    is_mini = "agent" not in style
    marks: JsonObject = {} if is_mini else {"agent": style["agent"]}
    match kind:
        case Kind.TOOL_CALL if more.document is not None:
            function: JsonObject = {"name": more.tool, "arguments": json.dumps(more.document)}
            call: JsonObject = {"id": more.new_id("call_"), "type": "function", "function": function}
            said: JsonObject = {"role": "assistant", "content": "", **marks, "tool_calls": [call]}
            return said if is_mini else said | {"thought": "", "action": more.tool, "message_type": "action"}
        case Kind.TOOL_CALL if is_mini:
            if more.tool != "bash":
                raise UsageError("mini-SWE-agent has one tool, bash: write call-bash.md")
            block = f"```bash\n{text}\n```"
            return {"role": "assistant", "content": block, "extra": {"actions": [text]}}
        case Kind.TOOL_CALL:
            _check_action(text, more)
            called: JsonObject = {"role": "assistant", "content": f"```\n{text}\n```", "thought": "", "action": text}
            return called | marks | {"message_type": "action"}
        case Kind.TOOL_RESULT:
            calls = as_list(object_in(more.asked).get("tool_calls"))
            result: JsonObject = {"role": "tool" if calls else "user", "content": text, **marks}
            ids: JsonObject = {"tool_call_ids": [more.id]} if calls and not is_mini else {}
            ids |= {"tool_call_id": more.id} if calls and is_mini else {}
            return result | ({} if is_mini else {"message_type": _OBSERVATION}) | ids
        case Kind.REASONING:
            return {"role": "assistant", "content": "", **marks, "reasoning_content": text}
        case Kind.ASSISTANT:
            answer: JsonObject = {"role": "assistant", "content": text, **marks}
            return answer if is_mini else answer | {"thought": text, "action": ""}
    # a user's message after an action is its result unless it says that it is something else
    return {"role": kind.word, "content": text, **marks, "message_type": kind.word}


def _message(record: JsonObject, before: Before) -> Shown:
    gathered = Gathered()
    kind = (gather_answer if _is_answer(record) else gather_message)(record, (), gathered)
    action = as_text(record.get("action"))
    if kind is Kind.ASSISTANT and (action.strip() or _runs_commands(record)):
        kind = Kind.TOOL_CALL
        gathered.tool = _tool(action) or "bash"
        gathered.places["tool"] = _FIRST_WORD
    if kind is Kind.TOOL_CALL:
        gathered.defines.append((_LAST_ACTION, gathered.tool))
    if record.get("is_demo") is True:
        gathered.header["demonstration"] = True
        return shown(kind, gathered, before)
    if kind is Kind.TOOL_RESULT and (calls := as_list(record.get("tool_call_ids"))):
        gathered.asked = as_text(calls[0])
        gathered.header = {"id": gathered.asked} if gathered.asked else {}
        gathered.places["id"] = ("tool_call_ids", 0)
    elif kind is Kind.USER and record.get("message_type") != "user":
        gathered.places["tool"] = _FIRST_WORD
        gathered.tool = before.tool(_LAST_ACTION)
        kind = Kind.TOOL_RESULT if gathered.tool else kind
    return shown(kind, gathered, before)


def _runs_commands(record: JsonObject) -> bool:
    """Return whether a message of the mini version asks for commands: they stand in its text, and beside it."""
    extra = as_object(record.get("extra"))
    return bool(extra) and (bool(extra.get("actions")) or "```bash\n" in as_text(record.get("content")))


def _step(record: JsonObject) -> Shown:
    said = "response" if as_text(record.get("response")) else "thought"
    blocks = [Block("text", text, path=(said,))] if (text := as_text(record.get(said))) else []
    action = as_text(record.get("action"))
    if action and action.strip() not in text:
        blocks.append(Block("text", action, name="action", path=("action",)))
    if observed := as_text(record.get("observation")):
        blocks.append(Block("text", observed, name="observation", path=("observation",)))
    return Shown(Kind.TOOL_CALL, tuple(blocks), _tool(action), places={"tool": _FIRST_WORD})


def _tool(action: str) -> str:
    return (action.split(None, 1) or [""])[0][:100]


_MINI = "mini-swe-agent"
_STEP = frozenset(("action", "observation", "response", "thought"))
_SAID = ("info", "replay_config", "history[]", "messages[]")
_with_history, _with_steps = choice_of(*_SAID, "trajectory"), choice_of(*_SAID, "trajectory[]")
_may_be = re.compile(rb'"(?:history|trajectory|trajectory_format)"').search
_has_history = re.compile(rb'(?<!\\)"history"\s*+:\s*+\[\s*+\{').search
_issue = re.compile(r"^ISSUE:\s*(.*)", re.MULTILINE | re.DOTALL).search


class SweAgent(Format):
    """SWE-agent of Princeton and Stanford, and its mini version."""

    name = "swe-agent"
    lenses = (SweAgentLens(),)
    main_type = SweAgentLens.type_name
    kept = ("./trajectories", "$XDG_CONFIG_HOME/mini-swe-agent")
    joints = (b'{"history": [', b", ", b"]}")

    def is_ours(self, look: Look) -> bool:
        """Claim a file that begins with a trajectory's steps, or that says which format it is."""
        document = as_object(look.document if _may_be(look.head) else None)
        step = as_object(next(iter(as_list(document.get("trajectory"))), None))
        ours = len(step.keys() & _STEP) > 1 or as_text(document.get("trajectory_format")).startswith(_MINI)
        return ours or _is_history(document.get("history"))

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        return cut_spans(data, start, _with_history if _has_history(data) else _with_steps)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        request = first_request(records)
        issue = _issue(request)
        stem = source.path.name.removesuffix(".json").removesuffix(".traj")
        title = first_line(issue[1] if issue else request)
        return About(title=title or stem, session_id=stem, titled=Titled.BY_REQUEST if title else Titled.PROVISIONALLY)


def _is_history(value: object) -> bool:
    message = as_object(next(iter(as_list(value)), None))
    return "role" in message and ("agent" in message or "message_type" in message)
