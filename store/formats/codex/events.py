"""Events, which the program shows: most repeat what an item says, and only what no item says is shown here.

An event names no item, so it is told by order. A request's event follows its item. An answer's event, and that of
reasoning, comes before its item, as those of a turn do that ends: where items are kept at all, and one was before,
these are as well. A tool's event has the id of its call.
"""

from collections.abc import Callable, Iterator

from store.events.event import Block, Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.codex.content import Content
from store.formats.codex.items import ITEMS, SAID, USER, alone, failed
from store.formats.json_view import JsonObject, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, Header, Shown

_View = Callable[[JsonObject, Path, Before], Shown]

_QUIET = frozenset(
    [
        "agent_reasoning_section_break",
        "background_event",
        "codex/event/raw_item",
        "context_compacted",
        "item_started",
        "mcp_startup_complete",
        "mcp_startup_update",
        "plan_update",
        "raw_response_item",
        "session_configured",
        "shutdown_complete",
        "skills_update_available",
        "sub_agent_activity",
        "task_started",
        "thread_goal_updated",
        "thread_name_updated",
        "thread_settings_applied",
        "token_count",
        "turn.completed",
        "turn.started",
        "turn_diff",
        "turn_started",
    ]
)
"""Types of events that no reader asks for; names among them are read when a session is described."""

_WHOSE = frozenset(("call_id", "callId", "thread_id", "threadId", "turn_id", "turnId", "type"))
_OF_EVERY_END = frozenset(("completed_at", "duration_ms", "last_agent_message", "started_at", "time_to_first_token_ms"))
OUTPUTS = ("aggregated_output", "stdout", "formatted_output")
"""What a command's event may hold its output as, all of it first."""


def event(value: JsonObject, base: Path, before: Before) -> Shown:
    """View an event of any type."""
    what = as_text(value.get("type"))
    if what in _QUIET or what.endswith(("_begin", "_delta")):
        return BOOKKEEPING
    return _VIEWS.get(what, _other)(value, base, before)


def _user(value: JsonObject, base: Path, before: Before) -> Shown:
    told = before.tool(USER)
    if told == SAID:
        return Shown(Kind.RECORD, tool=told, defines=((USER, ""),))
    content = Content()
    content.add(value.get("message"), (*base, "message"))
    for key in ("images", "local_images"):
        urls = value.get(key)
        for at, url in enumerate(urls if isinstance(urls, list) else ()):
            if isinstance(url, str) and not content.image(url, (*base, key, at)):
                content.add(url, (*base, key, at), f"{key}[{at}]")
    if not content.blocks:
        return Shown(Kind.RECORD, tool=told, defines=((USER, ""),))
    defines = ((USER, alone(as_text(value.get("message")))),)
    return Shown(Kind.USER, tuple(content.blocks), "", {}, defines, tuple(content.resources))


def _agent(value: JsonObject, base: Path, before: Before) -> Shown:
    return _unless_items(Kind.ASSISTANT, value, "message", base, before)


def _reasoning(value: JsonObject, base: Path, before: Before) -> Shown:
    return _unless_items(Kind.REASONING, value, "text", base, before)


def _unless_items(kind: Kind, value: JsonObject, key: str, base: Path, before: Before) -> Shown:
    """View a text that an item says too, if there are any."""
    told = before.tool(ITEMS)
    if told == SAID or not (text := as_text(value.get(key))):
        return Shown(Kind.RECORD, tool=told)
    header: Header = {}
    if (phase := scalar(value.get("phase"))) is not None:
        header["phase"] = phase
    return Shown(kind, (Block("text", text, path=(*base, key)),), told, header, ((ITEMS, told),))


def _completed(value: JsonObject, base: Path, before: Before) -> Shown:
    """View an item of the program's own list of them."""
    told = before.tool(ITEMS)
    held, path = as_object(value.get("item")), (*base, "item")
    if told == SAID:
        return Shown(Kind.RECORD, tool=told)
    content = Content()
    kind = Kind.NOTE
    what = as_text(held.get("type"))
    match what:
        case "UserMessage":
            kind = Kind.USER
            content.add(held.get("content"), (*path, "content"))
        case "AgentMessage":
            kind = Kind.ASSISTANT
            content.add(held.get("content"), (*path, "content"))
        case "Plan":
            kind = Kind.ASSISTANT
            content.add(held.get("text"), (*path, "text"))
        case "Reasoning":
            kind = Kind.REASONING
            content.add(held.get("summary_text"), (*path, "summary_text"))
            content.add(held.get("raw_content"), (*path, "raw_content"))
        case _:
            own = {key: inner for key, inner in held.items() if key not in ("id", "type")}
            content.blocks += argument_blocks(own, path, "item")
    header: Header = {"item": what} if kind is Kind.NOTE and what else {}
    shown = kind if content.blocks else Kind.RECORD
    return Shown(shown, tuple(content.blocks), told, header, ((ITEMS, told),), tuple(content.resources))


def _finished(value: JsonObject, base: Path, before: Before) -> Shown:
    """View the end of a turn: what was said last was said before, but why it failed was not."""
    if not value.get("error"):
        return BOOKKEEPING
    return _note({key: inner for key, inner in value.items() if key not in _OF_EVERY_END}, base)


def _tool(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what a tool did whose call, and so its output, is no item. The tool is called as the event is."""
    call = as_text(value.get("call_id")) or as_text(value.get("callId"))
    own = as_text(value.get("type"))
    if (told := before.tool(call)) not in ("", own):
        return Shown(Kind.RECORD, tool=told)
    header: Header = {"id": call} if call else {}
    for key in ("exit_code", "success"):
        if (held := scalar(value.get(key))) is not None:
            header[key] = held
    header |= failed(header.get("exit_code", 0) != 0 or header.get("success") is False)
    rest = {key: inner for key, inner in value.items() if key not in header.keys() | _WHOSE and inner not in ("", None)}
    for key, _ in repeated_outputs(value):
        del rest[key]
    kind = Kind.TOOL_CALL if own.endswith("_request") else Kind.TOOL_RESULT
    return Shown(kind, argument_blocks(rest, base, "event"), own, header)


def repeated_outputs(value: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the members of a command's event that repeat its output, and that they do: an empty one repeats none."""
    outputs = [(key, as_text(value.get(key))) for key in OUTPUTS]
    first = next((text for _, text in outputs if text), "")
    shown = next((key for key, text in outputs if text), "")
    yield from ((key, text) for key, text in outputs if text and text == first and key != shown)


def _searched(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what a search found, where that is told."""
    if not value.get("results"):
        return _repeated(value, base, before)
    rest = {key: inner for key, inner in value.items() if key not in _WHOSE and inner not in ("", None)}
    call = as_text(value.get("call_id"))
    header: Header = {"id": call} if call else {}
    return Shown(Kind.TOOL_RESULT, argument_blocks(rest, base, "event"), "web_search", header)


def _repeated(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what items repeat in words, if there are any."""
    told = before.tool(ITEMS)
    if told == SAID:
        return Shown(Kind.RECORD, tool=told)
    note = _note(value, base)
    return Shown(note.kind, note.blocks, told, note.header, ((ITEMS, told),))


def _review(value: JsonObject, base: Path, before: Before) -> Shown:
    hint = value.get("user_facing_hint")
    if isinstance(hint, str) and hint:
        block = Block("text", hint, path=(*base, "user_facing_hint"))
        return Shown(Kind.NOTE, (block,), header={"record": "entered_review_mode"})
    return _note(value, base)


def _agents(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what happened to an agent whose call is no item."""
    if told := before.tool(as_text(value.get("call_id"))):
        return Shown(Kind.RECORD, tool=told)
    return _note(value, base)


def _other(value: JsonObject, base: Path, before: Before) -> Shown:
    return _note(value, base)


def _note(value: JsonObject, base: Path) -> Shown:
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


_VIEWS: dict[str, _View] = {
    "agent_message": _agent,
    "agent_reasoning": _reasoning,
    "agent_reasoning_raw_content": _reasoning,
    "collab_agent_interaction_end": _agents,
    "collab_agent_spawn_end": _agents,
    "collab_close_end": _agents,
    "collab_resume_end": _agents,
    "collab_waiting_end": _agents,
    "dynamic_tool_call_request": _tool,
    "dynamic_tool_call_response": _tool,
    "entered_review_mode": _review,
    "exec_command_end": _tool,
    "exited_review_mode": _repeated,
    "image_generation_end": _repeated,
    "item_completed": _completed,
    "mcp_tool_call_end": _tool,
    "patch_apply_end": _tool,
    "task_complete": _finished,
    "turn_complete": _finished,
    "user_message": _user,
    "view_image_tool_call": _tool,
    "web_search_end": _searched,
}
