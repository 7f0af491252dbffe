"""Items of the Responses API, which the model is sent: messages, reasoning, calls and their outputs."""

from collections.abc import Callable

from store.events.event import Block, Kind, ValuePath
from store.formats.core.blocks import argument_blocks, document_blocks, document_in, numbered
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, value_at
from store.formats.core.lens import BOOKKEEPING, Before, Gathered, Header, Shown, unknown_record
from store.formats.core.media import as_data_url, from_base64, suffix_of
from store.ids import hash_bytes

_TEXTS = frozenset(("input_text", "inputText", "output_text", "reasoning_text", "summary_text", "text", "Text"))
_IMAGES = frozenset(("input_image", "inputImage", "image"))
_ENVELOPE = frozenset(("type", "timestamp"))


class CodexContent(Gathered):
    """The collected contents of an item or event, which stands at ``base`` of its line."""

    base: ValuePath = ()

    def own(self, value: JsonObject, *keys: str) -> None:
        for key in keys:
            self.field(key, value.get(key), *self.base, key)

    def image(self, url: str, path: ValuePath, name: str = "") -> bool:
        """Add an image that stands as a ``data:`` URL at ``path``; return whether it is one."""
        held = as_data_url(url)
        if held is not None:
            self.attach(held.data, self._uri(held.mime), held.mime, path, shape="image", name=name)
        return held is not None

    def encoded_image(self, encoded: str, mime: str, path: ValuePath) -> None:
        """Add an image that stands as base64 at ``path``, if it is one."""
        if encoded and (data := from_base64(encoded)):
            self.attach(data, self._uri(mime), mime, path, shape="image", encoding="base64")

    def _uri(self, mime: str) -> str:
        return f"attachment:codex/image-{len(self.resources) + 1}.{suffix_of(mime)}"

    def add_part(self, part: object, path: ValuePath, name: str = "") -> None:
        """Add one part of a content; an encrypted one says nothing."""
        if not isinstance(part, dict):
            self.add_json(part, path, name)
            return
        what, text = as_text(part.get("type")), part.get("text")
        if isinstance(text, str) and (what in _TEXTS or not what):
            self.blocks.append(Block("text", text, name=name, path=(*path, "text")))
        elif what in _IMAGES:
            self._image_part(part, path, name)
        elif what == "refusal" and isinstance(refusal := part.get("refusal"), str):
            self.blocks.append(Block("text", refusal, name=name or "refusal", path=(*path, "refusal")))
        elif what != "encrypted_content":
            self.add_json(part, path, name)

    def _image_part(self, part: JsonObject, path: ValuePath, name: str) -> None:
        for key in ("image_url", "imageUrl"):
            url = part.get(key)
            if not isinstance(url, str):
                continue
            if not self.image(url, (*path, key), name):
                self.blocks.append(Block("text", url, name=name or numbered("image", path), path=(*path, key)))
            return
        if isinstance(data := part.get("data"), str):
            self.encoded_image(data, as_text(part.get("mimeType")) or "image/png", (*path, "data"))

    def failed_if(self, is_error: bool) -> None:
        if is_error:
            self.header["is_error"] = True


def plain_text(content: object) -> str:
    """Return the texts of a content, joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(as_text(as_object(part).get("text")) for part in content)


ITEMS = "codex: items"
"""A key that every item defines: from here on, items repeat whatever events say."""
THOUGHTS = "codex: thoughts"
"""A key that items of reasoning define, and lines of which there are none without: items repeat what events think."""
USER = "codex: user"
"""A key that a request defines: the next event of a request is of this one."""
SAID = "said"
"""The value of these keys where an item says it. For a request that only an event told of it is :func:`alone`."""

ItemView = Callable[[JsonObject, ValuePath, Before], Shown]

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
"""The beginnings of messages that the program writes in the user's name."""


def item(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View an item of any type."""
    what = value.get("type")
    if what is None and "role" in value:
        what = "message"
    return _VIEWS.get(what if isinstance(what, str) else "", unknown)(value, base, before)


def unknown(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View an item of a type that a newer program writes."""
    return unknown_record(value, _ENVELOPE, base)


def alone(text: str) -> str:
    """Return the value of the key for a request that an event told of, and no item before it."""
    return f"alone {hash_bytes(text.encode()).hex()[:16]}"


def is_injected(text: str) -> bool:
    """Return whether the program wrote this message in the user's name."""
    return text.startswith(_INJECTED)


def _message(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    into = CodexContent(base=base)
    into.add(value.get("content"), (*base, "content"))
    if not into.blocks:
        return BOOKKEEPING
    into.places["role"] = (*base, "role")
    match value.get("role"):
        case "user":
            if is_injected(plain_text(value.get("content"))):
                return into.shown(Kind.SYSTEM)
            if before.tool(USER) == (told := alone(plain_text(value.get("content")))):
                return Shown(Kind.RECORD, tool=told, defines=((USER, ""),))
            into.defines.append((USER, SAID))
            return into.shown(Kind.USER)
        case "assistant":
            into.own(value, "model", "phase")
            return into.shown(Kind.ASSISTANT)
        case "developer" | "system":
            return into.shown(Kind.SYSTEM)
    into.own(value, "role")
    return into.shown(Kind.NOTE)


def agent_message(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View what one agent tells another: an item, or on a line of its own."""
    into = CodexContent(base=base)
    into.add(value.get("content"), (*base, "content"))
    into.own(value, "author", "recipient")
    if not into.blocks:
        into.header["encrypted"] = True
    return into.shown(Kind.NOTE)


def spoken(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View what was said aloud; that such a conversation begins and ends is bookkeeping."""
    into = CodexContent(base=base)
    into.add(value.get("text"), (*base, "text"))
    return into.shown_if_any(Kind.USER if value.get("role") == "user" else Kind.ASSISTANT)


def _reasoning(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View a thought: a summary, or all of it; where only the model can read it, the head says so."""
    into = CodexContent()
    into.add(value.get("summary"), (*base, "summary"))
    into.add(value.get("content"), (*base, "content"))
    blocks = tuple(block for block in into.blocks if block.text)
    header: Header = {"encrypted": True} if value.get("encrypted_content") else {}
    return Shown(Kind.REASONING, blocks, header=header) if blocks or header else BOOKKEEPING


def _function_call(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    into = CodexContent(base=base)
    into.blocks += _written(value.get("arguments"), (*base, "arguments"), "arguments")
    function = as_object(value.get("function"))
    into.places["tool"] = (*base, "function", "name") if "name" in function else (*base, "name")
    return _call(value, as_text(value.get("name")) or as_text(function.get("name")), into)


_BY_TYPE = "is told by the type of the call: it cannot be changed"
_CALLED = {
    "local_shell_call": ("local_shell", "action"),
    "tool_search_call": ("tool_search", "arguments"),
    "web_search_call": ("web_search", "action"),
}
"""By their types, the tools that calls are always for, and the members that hold their arguments."""


def _own_call(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    tool, key = _CALLED[as_text(value.get("type"))]
    into, given = CodexContent(base=base, places={"tool": _BY_TYPE}), value.get(key)
    if tool == "local_shell":
        given = {key: inner for key, inner in as_object(given).items() if key != "type"}
    blocks_of = _written if key == "arguments" else argument_blocks
    into.blocks += blocks_of(given, (*base, key), "arguments")
    return _call(value, tool, into)


def _custom_call(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    into = CodexContent(base=base, places={"tool": (*base, "name")})
    into.add(value.get("input"), (*base, "input"), "input")
    return _call(value, as_text(value.get("name")), into)


def _image_call(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    into = CodexContent(base=base, places={"tool": _BY_TYPE})
    if prompt := as_text(value.get("revised_prompt")):
        into.add(prompt, (*base, "revised_prompt"), "prompt")
    into.encoded_image(as_text(value.get("result")), "image/png", (*base, "result"))
    return _call(value, "image_generation", into)


def _output(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    """View a call's result, which older programs wrap in a string: with ``metadata``, or as a list of parts."""
    into = CodexContent(base=base)
    into.result(value, base, "call_id")
    into.tool = before.tool(into.asked) if into.asked else as_text(value.get("name"))
    key = "output" if "output" in value else "tools" if "tools" in value else "result"
    output, path = value.get(key), (*base, key)
    wrapped = document_in(output) if isinstance(output, str) and output.startswith(_WRAPPINGS) else None
    if isinstance(wrapped, dict) and isinstance(text := wrapped.get("output"), str):
        into.add(text, (*path, "output"))
        exit_code = as_object(wrapped.get("metadata")).get("exit_code")
        if isinstance(exit_code, int):
            into.field("exit_code", exit_code, *path, "metadata", "exit_code")
            into.failed_if(exit_code != 0)
    elif isinstance(wrapped, list) and wrapped:
        into.add(wrapped, path)
    elif isinstance(output, dict) and isinstance(text := output.get("content"), str):
        into.add(text, (*path, "content"))
        if isinstance(success := output.get("success"), bool):
            into.field("success", success, *path, "success")
            into.failed_if(not success)
    elif key == "tools":
        into.blocks += argument_blocks(output, path, "tools")
    else:
        into.add(output, path)
    return into.shown(Kind.TOOL_RESULT)


def _compaction(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    return Shown(Kind.SUMMARY, header={"encrypted": True})


def _quiet(value: JsonObject, base: ValuePath, before: Before) -> Shown:
    return BOOKKEEPING


def _call(value: JsonObject, tool: str, into: CodexContent) -> Shown:
    key = "call_id" if as_text(value.get("call_id")) else "id"
    into.tool = tool
    if call := as_text(value.get(key)):
        into.field("id", call, *into.base, key)
        into.header["id"] = call
        into.defines.append((call, tool))
    into.own(value, "namespace")
    if (status := as_text(value.get("status"))) not in ("", "completed"):
        into.header["status"] = status
    into.places["status"] = (*into.base, "status")
    return into.shown(Kind.TOOL_CALL)


def _written(arguments: object, path: ValuePath, name: str) -> tuple[Block, ...]:
    """Return the blocks of arguments, which the model writes as a JSON document in a string."""
    if isinstance(arguments, str):
        return document_blocks(arguments, path, name) if arguments else ()
    return argument_blocks(arguments, path, name)


def part(value: JsonObject, base: ValuePath, path: ValuePath, text: str) -> object | None:
    """Return a new part of the content, summary or output of an item, which stands at ``base`` of its line."""
    held = value_at(value, path[len(base) :]) if path[: len(base)] == base else None
    shown = next((part for part in map(as_object, as_list(held)) if as_text(part.get("type")) in _TEXTS), {})
    usual = "output_text" if value.get("role") == "assistant" else "input_text"
    match path[len(base) :]:
        case ("content",) if value.get("type") != "reasoning":
            return {"type": shown.get("type") or usual, "text": text}
        case ("summary",) | ("content",):
            return {"type": "summary_text" if path[-1] == "summary" else "reasoning_text", "text": text}
        case ("output",) if isinstance(held, str) and held.startswith(_WRAPPINGS):
            # the list of a result, in a string
            return {"type": "text", "text": text}
        case ("output",) if as_text(value.get("type")).endswith("_output"):
            return {"type": "input_text", "text": text}
    return None


def room(value: JsonObject, base: ValuePath) -> ValuePath | None:
    """Return the place for the content of an item that shows none."""
    what = as_text(value.get("type"))
    if what in _CALLED:
        return (*base, _CALLED[what][1])
    keys = ("arguments",) if what in ("function_call", "tool_call") else ("output", "summary")
    return next(((*base, key) for key in keys if key in value), None)


_VIEWS: dict[str, ItemView] = {
    **dict.fromkeys(_CALLED, _own_call),
    **dict.fromkeys(("additional_tools", "compaction_trigger", "ghost_snapshot"), _quiet),
    **dict.fromkeys(("compaction", "compaction_summary", "context_compaction"), _compaction),
    **dict.fromkeys(("custom_tool_call_output", "function_call_output", "local_shell_call_output"), _output),
    **dict.fromkeys(("mcp_tool_call_output", "tool_result", "tool_search_output"), _output),
    "agent_message": agent_message,
    "custom_tool_call": _custom_call,
    "function_call": _function_call,
    "image_generation_call": _image_call,
    "message": _message,
    "reasoning": _reasoning,
    "tool_call": _function_call,
}
