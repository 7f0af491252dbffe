"""Items of the Responses API, which the model is sent: messages, reasoning, calls and their outputs."""

from collections.abc import Callable

from store.events.event import Block, Kind, Path
from store.formats.blocks import argument_blocks
from store.formats.codex.content import Content, plain_text
from store.formats.json_view import JsonObject, as_object, as_text, scalar
from store.formats.lens import Before
from store.formats.nested import document_blocks, document_in
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.ids import hash_bytes

ITEMS = "codex: items"
"""What every item defines: from here on, what events say is said by items too."""
USER = "codex: user"
"""What a request defines: the next event that tells of a request tells of this one."""
SAID = "said"
"""As what both are defined where an item says it. A request that only an event told of is defined as :func:`alone`."""

View = Callable[[JsonObject, Path, Before], Shown]

_WRAPPINGS = ('{"output":', '[{"type":"text",', '[{"text":')
_INJECTED = (
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<apps_instructions",
    "<codex_internal_context",
    "<collaboration_mode>",
    "<environment_context",
    "<hook_prompt",
    "<model_switch>",
    "<multi_agent_mode>",
    "<permissions instructions>",
    "<personality_spec>",
    "<plugins_instructions",
    "<realtime_conversation>",
    "<recommended_plugins>",
    "<skill>",
    "<skills_instructions>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_action>",
    "<user_instructions>",
    "<user_shell_command>",
)
"""How messages begin that the program puts into the user's mouth."""


def item(value: JsonObject, base: Path, before: Before) -> Shown:
    """View an item of any type."""
    what = value.get("type")
    if what is None and "role" in value:
        what = "message"
    return _VIEWS.get(what if isinstance(what, str) else "", unknown)(value, base, before)


def unknown(value: JsonObject, base: Path, before: Before) -> Shown:
    """View an item of a type that a newer program writes."""
    what = scalar(value.get("type"))
    own = {key: inner for key, inner in value.items() if key not in ("type", "timestamp")}
    header: Header = {"record": what} if what is not None else {}
    return Shown(Kind.NOTE, argument_blocks(own, base, "record"), header=header)


def alone(text: str) -> str:
    """Return what a request is defined as that an event told of, and no item before it."""
    return f"alone {hash_bytes(text.encode()).hex()[:16]}"


def failed(is_error: bool) -> Header:
    """Return what the head of a result says where it failed."""
    return {"is_error": True} if is_error else {}


def is_injected(text: str) -> bool:
    """Say whether a user's message is one that the program wrote."""
    return text.startswith(_INJECTED)


def _message(value: JsonObject, base: Path, before: Before) -> Shown:
    content = Content()
    content.add(value.get("content"), (*base, "content"))
    if not content.blocks:
        return BOOKKEEPING
    blocks, resources = tuple(content.blocks), tuple(content.resources)
    match value.get("role"):
        case "user":
            if is_injected(plain_text(value.get("content"))):
                return Shown(Kind.SYSTEM, blocks, resources=resources)
            if before.tool(USER) == (told := alone(plain_text(value.get("content")))):
                return Shown(Kind.RECORD, tool=told, defines=((USER, ""),))
            return Shown(Kind.USER, blocks, defines=((USER, SAID),), resources=resources)
        case "assistant":
            return Shown(Kind.ASSISTANT, blocks, header=_own(value, "model", "phase"), resources=resources)
        case "developer" | "system":
            return Shown(Kind.SYSTEM, blocks, resources=resources)
    return Shown(Kind.NOTE, blocks, header=_own(value, "role"), resources=resources)


def _agent_message(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what one agent tells another."""
    content = Content()
    content.add(value.get("content"), (*base, "content"))
    header = _own(value, "author", "recipient")
    if not content.blocks:
        header["encrypted"] = True
    return Shown(Kind.NOTE, tuple(content.blocks), header=header, resources=tuple(content.resources))


def _reasoning(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what the model thought: a summary, or all of it; where only the model can read it, the head says so."""
    content = Content()
    content.add(value.get("summary"), (*base, "summary"))
    content.add(value.get("content"), (*base, "content"))
    blocks = tuple(block for block in content.blocks if block.text)
    header: Header = {"encrypted": True} if value.get("encrypted_content") else {}
    return Shown(Kind.REASONING, blocks, header=header) if blocks or header else BOOKKEEPING


def _function_call(value: JsonObject, base: Path, before: Before) -> Shown:
    name = as_text(value.get("name")) or as_text(as_object(value.get("function")).get("name"))
    return _call(value, base, name, _written(value.get("arguments"), (*base, "arguments"), "arguments"))


def _custom_call(value: JsonObject, base: Path, before: Before) -> Shown:
    """View a call whose argument is a text, a patch for instance."""
    written = value.get("input")
    blocks = (Block("text", written, name="input", path=(*base, "input")),) if isinstance(written, str) else ()
    return _call(value, base, as_text(value.get("name")), blocks)


def _shell_call(value: JsonObject, base: Path, before: Before) -> Shown:
    action = {key: inner for key, inner in as_object(value.get("action")).items() if key != "type"}
    return _call(value, base, "local_shell", argument_blocks(action, (*base, "action"), "arguments"))


def _search_call(value: JsonObject, base: Path, before: Before) -> Shown:
    action = value.get("action")
    return _call(value, base, "web_search", argument_blocks(action, (*base, "action"), "arguments"))


def _tool_search_call(value: JsonObject, base: Path, before: Before) -> Shown:
    return _call(value, base, "tool_search", _written(value.get("arguments"), (*base, "arguments"), "arguments"))


def _image_call(value: JsonObject, base: Path, before: Before) -> Shown:
    content = Content()
    if prompt := as_text(value.get("revised_prompt")):
        content.add(prompt, (*base, "revised_prompt"), "prompt")
    content.encoded_image(as_text(value.get("result")), "image/png", (*base, "result"))
    call = _call(value, base, "image_generation", tuple(content.blocks))
    return Shown(call.kind, call.blocks, call.tool, call.header, call.defines, tuple(content.resources))


def _output(value: JsonObject, base: Path, before: Before) -> Shown:
    """View what a call returned.

    Older programs wrap an output, as ``{"output": …, "metadata": {"exit_code": …}}`` or, that of a server, as a list of
    parts, in a string.
    """
    call = as_text(value.get("call_id"))
    header: Header = {"id": call} if call else {}
    tool = before.tool(call) if call else as_text(value.get("name"))
    key = "output" if "output" in value else "tools" if "tools" in value else "result"
    output, path = value.get(key), (*base, key)
    content = Content()
    wrapped = document_in(output) if isinstance(output, str) and output.startswith(_WRAPPINGS) else None
    if isinstance(wrapped, dict) and isinstance(text := wrapped.get("output"), str):
        content.add(text, (*path, "output"))
        exit_code = as_object(wrapped.get("metadata")).get("exit_code")
        if isinstance(exit_code, int):
            header["exit_code"] = exit_code
            header |= failed(exit_code != 0)
    elif isinstance(wrapped, list) and wrapped:
        content.add(wrapped, path)
    elif isinstance(output, dict) and isinstance(text := output.get("content"), str):
        content.add(text, (*path, "content"))
        if isinstance(success := output.get("success"), bool):
            header["success"] = success
            header |= failed(not success)
    elif key == "tools":
        content.blocks += argument_blocks(output, path, "tools")
    else:
        content.add(output, path)
    return Shown(Kind.TOOL_RESULT, tuple(content.blocks), tool, header, (), tuple(content.resources))


def _compaction(value: JsonObject, base: Path, before: Before) -> Shown:
    """View a summary that only the model can read."""
    return Shown(Kind.SUMMARY, header={"encrypted": True})


def _quiet(value: JsonObject, base: Path, before: Before) -> Shown:
    return BOOKKEEPING


def _call(value: JsonObject, base: Path, tool: str, blocks: tuple[Block, ...]) -> Shown:
    call = as_text(value.get("call_id")) or as_text(value.get("id"))
    header: Header = {"id": call} if call else {}
    header |= _own(value, "namespace")
    if (status := as_text(value.get("status"))) not in ("", "completed"):
        header["status"] = status
    return Shown(Kind.TOOL_CALL, blocks, tool, header, ((call, tool),) if call else ())


def _written(arguments: object, path: Path, name: str) -> tuple[Block, ...]:
    """Return the blocks of arguments, which the model writes as a JSON document in a string."""
    if isinstance(arguments, str):
        return document_blocks(arguments, path, name) if arguments else ()
    return argument_blocks(arguments, path, name)


def _own(value: JsonObject, *keys: str) -> Header:
    """Return those of the members ``keys`` that fit in a head."""
    return {key: held for key in keys if (held := scalar(value.get(key))) is not None}


_VIEWS: dict[str, View] = {
    "additional_tools": _quiet,
    "agent_message": _agent_message,
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "compaction_trigger": _quiet,
    "context_compaction": _compaction,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
    "function_call": _function_call,
    "function_call_output": _output,
    "ghost_snapshot": _quiet,
    "image_generation_call": _image_call,
    "local_shell_call": _shell_call,
    "local_shell_call_output": _output,
    "mcp_tool_call_output": _output,
    "message": _message,
    "reasoning": _reasoning,
    "tool_call": _function_call,
    "tool_result": _output,
    "tool_search_call": _tool_search_call,
    "tool_search_output": _output,
    "web_search_call": _search_call,
}
