"""Events, which the program shows: most repeat what an item says, and only what no item says is shown here.

An event names no item, so it is told by order. A request's event follows its item. An answer's event, and that of
reasoning, comes before its item, as those of a turn do that ends: where items are kept at all, and one was before,
these are as well. Reasoning is no item in what other programs write, as a model would refuse that of others: so it is
one where Codex itself has noted a turn, or such an item was before. A tool's event has the id of its call.
"""

from collections.abc import Iterator
from functools import partial

from msgspec import structs

from store.events.event import Block, Compaction, Kind, ValuePath
from store.formats.codex.items import ITEMS, SAID, THOUGHTS, USER, CodexContent, ItemView, alone
from store.formats.core.blocks import argument_blocks
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, scalar, value_at
from store.formats.core.lens import BOOKKEEPING, Before, Header, Shown

_FIELDS = {
    "session": "id",
    "forked_from": "forked_from_id",
    "parent_session": "parent_thread_id",
    "agent": "agent_nickname",
    "cwd": "cwd",
    "originator": "originator",
    "version": "cli_version",
    "model_provider": "model_provider",
}
"""The fields in the head of a session's first event, and the members that hold them."""


def session_meta(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View the first line of a session: its identity, and the instructions that the model got."""
    into = CodexContent(base=base)
    for name, key in _FIELDS.items():
        into.field(name, value.get(key), *base, key)
    at = ("base_instructions", "text")[: 2 if is_object(value.get("base_instructions")) else 1]
    if instructions := value_at(value, at):
        into.add(instructions, (*base, *at))
    name = "instructions" if into.blocks else ""
    into.text(as_text(value.get("instructions")), (*base, "instructions"), name)
    return into.shown(Kind.CONFIG)


def compacted(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View a compaction: the summary that stands for all before it, from here on, with the requests that stay.

    Today's programs leave the summary to the service, which encrypts it, or keep it as the last of the requests.
    """
    into = CodexContent(base=base)
    if message := value.get("message"):
        into.add(message, (*base, "message"))
    blocks, header = into.blocks, into.header
    history = as_list(value.get("replacement_history"))
    encrypted = any(as_text(as_object(item).get("type")).startswith("compaction") for item in history)
    if encrypted:
        header["encrypted"] = True
    if history:
        header["kept"] = len(history)
    # text that only the model can read must not take the place of readable text
    sent = () if encrypted else _requests(history) or tuple(blocks)
    return Shown(Kind.SUMMARY, tuple(blocks), header=header, compaction=Compaction(sent) if sent else None)


def _requests(history: list[object]) -> tuple[Block, ...]:
    """Return the texts of the user's messages in a history, a summary at its end included."""
    content = CodexContent()
    for item in map(as_object, history):
        if item.get("type") == "message" and item.get("role") == "user":
            content.add(item.get("content"), ())
    return tuple(block for block in content.blocks if block.text)


TURN = Shown(Kind.RECORD, defines=((THOUGHTS, SAID),))
"""A note of Codex that a turn begins."""

_BEGINNINGS = ("task_started", "turn_started")
_OF_TURNS = ("turn.completed", "turn.started", "turn_diff")
_OF_THREADS = ("thread_goal_updated", "thread_name_updated", "thread_settings_applied", "sub_agent_activity")
_OF_STARTING = ("mcp_startup_complete", "mcp_startup_update", "session_configured", "skills_update_available")
_OF_ITEMS = ("agent_reasoning_section_break", "codex/event/raw_item", "item_started", "raw_response_item")
_OF_WORK = ("background_event", "context_compacted", "plan_update", "shutdown_complete", "token_count")
_QUIET = frozenset((*_OF_TURNS, *_OF_THREADS, *_OF_STARTING, *_OF_ITEMS, *_OF_WORK))
"""Types of events that no reader asks for; names among them are read when a session is described."""

_WHOSE = frozenset(("call_id", "callId", "thread_id", "threadId", "turn_id", "turnId", "type"))
_OF_EVERY_END = frozenset(("completed_at", "duration_ms", "last_agent_message", "started_at", "time_to_first_token_ms"))
_OF_SCRIPTS = "exec-"
"""The ids of calls that the scripts of a model make begin so."""
OUTPUTS = ("aggregated_output", "stdout", "formatted_output")
"""The members that may hold the output of a command, all of it first."""


def event(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View an event of any type."""
    what = as_text(value.get("type"))
    if what in _BEGINNINGS:
        return TURN
    if what in _QUIET or what.endswith(("_begin", "_delta")):
        return BOOKKEEPING
    return _VIEWS.get(what, _note)(value, base, before)


def _user(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    told = before.tool(USER)
    if told == SAID:
        return Shown(Kind.RECORD, tool=told, defines=((USER, ""),))
    into = CodexContent(base=base)
    into.add(value.get("message"), (*base, "message"))
    for key in ("images", "local_images"):
        for at, url in enumerate(as_list(value.get(key))):
            if isinstance(url, str) and not into.image(url, (*base, key, at)):
                into.add(url, (*base, key, at), f"{key}[{at}]")
    if not into.blocks:
        return Shown(Kind.RECORD, tool=told, defines=((USER, ""),))
    into.defines.append((USER, alone(as_text(value.get("message")))))
    return into.shown(Kind.USER)


def _unless_items(items: str, kind: Kind, key: str, value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View a text that an item says too, if there are any of these ``items``."""
    told = before.tool(items)
    if told == SAID or not (text := as_text(value.get(key))):
        return Shown(Kind.RECORD, tool=told)
    into = CodexContent(base=base, tool=told, defines=[(items, told)])
    into.text(text, (*base, key))
    into.own(value, "phase")
    return into.shown(kind)


_COMPLETED = {
    "AgentMessage": (Kind.ASSISTANT, ("content",)),
    "Plan": (Kind.ASSISTANT, ("text",)),
    "Reasoning": (Kind.REASONING, ("summary_text", "raw_content")),
    "UserMessage": (Kind.USER, ("content",)),
}
"""The kinds of items that an event tells of, and the members that hold what they say."""


def _completed(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    told = before.tool(ITEMS)
    held, path = as_object(value.get("item")), (*base, "item")
    if told == SAID:
        return Shown(Kind.RECORD, tool=told)
    into = CodexContent(tool=told, defines=[(ITEMS, told)])
    what = as_text(held.get("type"))
    kind, keys = _COMPLETED.get(what, (Kind.NOTE, ()))
    for key in keys:
        into.add(held.get(key), (*path, key))
    if kind is Kind.NOTE:
        own = {key: inner for key, inner in held.items() if key not in ("id", "type")}
        into.blocks += argument_blocks(own, path, "item")
        into.header |= {"item": what} if what else {}
    return into.shown(kind if into.blocks else Kind.RECORD)


def _finished(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View the end of a turn: its last message was shown before, but the reason of a failure was not."""
    if not value.get("error"):
        return BOOKKEEPING
    return _note({key: inner for key, inner in value.items() if key not in _OF_EVERY_END}, base, before)


def _tool(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View the work of a tool whose call, and so its output, is no item. The tool is named after the event."""
    call = as_text(value.get("call_id")) or as_text(value.get("callId"))
    own = as_text(value.get("type"))
    if (told := before.tool(call)) not in ("", own):
        return Shown(Kind.RECORD, tool=told)
    into = CodexContent(base=base, tool=own)
    into.result(value, base, "call_id" if as_text(value.get("call_id")) else "callId")
    into.own(value, "exit_code", "success")
    header = into.header
    into.failed_if(header.get("exit_code", 0) != 0 or header.get("success") is False)
    rest = {key: inner for key, inner in value.items() if key not in header.keys() | _WHOSE and inner not in ("", None)}
    for key, _ in repeated_outputs(value):
        del rest[key]
    into.blocks += argument_blocks(rest, base, "event")
    return into.shown(Kind.TOOL_CALL if own.endswith("_request") else Kind.TOOL_RESULT)


def repeated_outputs(value: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the members of a command's event that repeat its output, and that they do: an empty one repeats none."""
    outputs = [(key, as_text(value.get(key))) for key in OUTPUTS]
    first = next((text for _, text in outputs if text), "")
    shown = next((key for key, text in outputs if text), "")
    yield from ((key, text) for key, text in outputs if text and text == first and key != shown)


def _searched(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    if not value.get("results"):
        return _repeated(value, base, before)
    rest = {key: inner for key, inner in value.items() if key not in _WHOSE and inner not in ("", None)}
    into = CodexContent(tool="web_search")
    into.result(value, base, "call_id")
    into.blocks += argument_blocks(rest, base, "event")
    return into.shown(Kind.TOOL_RESULT)


def _repeated(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    told = before.tool(ITEMS)
    if told == SAID:
        return Shown(Kind.RECORD, tool=told)
    note = _note(value, base, before)
    return structs.replace(note, tool=told, defines=((ITEMS, told),))


def _generated(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View an image that was made: an item of its own follows, but not where a script of the model made it."""
    into = CodexContent(base=base)
    if prompt := as_text(value.get("revised_prompt")):
        into.add(prompt, (*base, "revised_prompt"), "prompt")
    into.encoded_image(as_text(value.get("result")), "image/png", (*base, "result"))
    is_script = as_text(value.get("call_id")).startswith(_OF_SCRIPTS)
    shown = _note(value, base, before) if is_script else _repeated(value, base, before)
    if not into.resources or shown.kind is Kind.RECORD:
        return shown
    return structs.replace(shown, blocks=tuple(into.blocks), resources=tuple(into.resources))


def _review(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    hint = value.get("user_facing_hint")
    if isinstance(hint, str) and hint:
        block = Block("text", hint, path=(*base, "user_facing_hint"))
        return Shown(Kind.NOTE, (block,), header={"record": "entered_review_mode"})
    return _note(value, base, before)


def _agents(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    if told := before.tool(as_text(value.get("call_id"))):
        return Shown(Kind.RECORD, tool=told)
    return _note(value, base, before)


def _note(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View an event as a message, if it has one, and the rest as JSON."""
    header: Header = {}
    if (what := scalar(value.get("type"))) is not None:
        header["record"] = what
    blocks: tuple[Block, ...] = ()
    rest = {key: inner for key, inner in value.items() if key not in _WHOSE and inner not in ("", None)}
    if isinstance(message := rest.get("message"), str):
        del rest["message"]
        blocks = (Block("text", message, path=(*base, "message")),)
    blocks += argument_blocks(rest, base, "event")
    return Shown(Kind.NOTE, blocks, header=header)


_OF_AGENTS = ("collab_agent_interaction", "collab_agent_spawn", "collab_close", "collab_resume", "collab_waiting")
_OF_TOOLS = ("exec_command_end", "mcp_tool_call_end", "patch_apply_end", "view_image_tool_call")
_VIEWS: dict[str, ItemView] = {
    **dict.fromkeys((f"{what}_end" for what in _OF_AGENTS), _agents),
    **dict.fromkeys((*_OF_TOOLS, "dynamic_tool_call_request", "dynamic_tool_call_response"), _tool),
    "agent_message": partial(_unless_items, ITEMS, Kind.ASSISTANT, "message"),
    "agent_reasoning": partial(_unless_items, THOUGHTS, Kind.REASONING, "text"),
    "agent_reasoning_raw_content": partial(_unless_items, THOUGHTS, Kind.REASONING, "text"),
    "entered_review_mode": _review,
    "exited_review_mode": _repeated,
    "image_generation_end": _generated,
    "item_completed": _completed,
    "task_complete": _finished,
    "turn_complete": _finished,
    "user_message": _user,
    "web_search_end": _searched,
}
