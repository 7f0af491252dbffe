"""Messages, items and answers of the model vendors' APIs as events.

``{"role": …, "content": …}`` of Anthropic's Messages and OpenAI's Chat Completions, ``{"role": …, "parts": […]}`` of
Gemini, and the items of OpenAI's Responses (``{"type": "function_call", …}``). Content is a string, or a list of parts:
Anthropic's content blocks, OpenAI's content parts, or the ``parts`` of Gemini.
"""

from collections.abc import Iterator, Sequence

from blake3 import blake3

from store.errors import UsageError
from store.events.event import Block, BlockType, Kind, ValuePath
from store.formats.core.blocks import argument_blocks, document_blocks, numbered
from store.formats.core.composing import Particulars, Template, recorded
from store.formats.core.editing import JsonLens
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, object_in, value_at
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, Gathered, Shown, nth
from store.formats.core.media import as_data_url, from_base64, from_numbers, suffix_of
from store.formats.core.removal import links_of_message

_TEXTS = frozenset(("text", "input_text", "output_text", "summary_text", "reasoning_text"))
CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_RESULTS = frozenset(("tool_result", "mcp_tool_result"))
_TEXT_ALONE, _TEXT_STEP = frozenset(("type", "text")), ("text",)
_THINKING = frozenset(("thinking", "think"))
_INLINE = (
    ("source", "data", "media_type"),
    ("inlineData", "data", "mimeType"),
    ("inline_data", "data", "mime_type"),
    ("Image", "source", ""),
    ("", "data", "mimeType"),
    ("", "data", "mediaType"),
    ("", "image", "mediaType"),
)
"""Where base64 stands in a part: in a member, or beside its type, as in the Model Context Protocol and the AI SDK."""
_FORMATS = frozenset(("gif", "jpeg", "png", "webp"))
_BYTES = ("data", "bytes", "Bytes")
_URLS = ("image_url", "imageUrl", "image", "uri", "url", "video_url", "audio_url")
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def gather(content: object, path: ValuePath, label: str, into: Gathered) -> None:
    """Add content that stands at ``path``; ``label`` names its blocks."""
    if isinstance(content, str):
        into.text(content, path, label)
    elif isinstance(content, list):
        for at, part in enumerate(content):
            _part(part, (*path, at), label, into)
    elif is_object(content):
        _part(content, path, label, into)
    elif content is not None:
        into.blocks += argument_blocks(content, path, label or "content")


def arguments(value: object, path: ValuePath, label: str, into: Gathered) -> None:
    """Add a call's arguments: an object, or a string that holds one."""
    into.blocks += (
        document_blocks(value, path, label) if isinstance(value, str) else argument_blocks(value, path, label)
    )


def _text_of(part: JsonObject) -> str:
    """Return the member with the text of a part; Rust's programs name it after the kind, or tell that beside it."""
    return "Text" if "Text" in part else "data" if part.get("kind") == "text" and "text" not in part else "text"


def _part(part: object, path: ValuePath, label: str, into: Gathered) -> None:
    if not is_object(part):
        gather(part if isinstance(part, str) else None, path, label, into)
        if not isinstance(part, str):
            into.blocks += argument_blocks(part, path, numbered(label or "content", path))
        return
    what = as_text(part.get("type"))
    if what == "text" and part.keys() == _TEXT_ALONE and isinstance(text := part["text"], str):
        # as most are
        into.text(text, path + _TEXT_STEP, label)
    elif what in CALLS:
        arguments(part.get("input"), (*path, "input"), into.call(part, path, "name", "id"), into)
    elif what in _RESULTS or what.endswith("_tool_result"):
        name = into.result(part, path, "tool_use_id")
        into.failed(part, path, "is_error")
        gather(part.get("content"), (*path, "content"), name, into)
    elif what in _THINKING:
        gather(part.get(what), (*path, what), "thinking", into)
    elif what == "redacted_thinking":
        return
    elif what == "refusal":
        into.text(as_text(part.get("refusal")), (*path, "refusal"), "refusal")
    elif (what in _TEXTS or not what) and isinstance(part.get(key := _text_of(part)), str):
        into.text(as_text(part[key]), (*path, key), "thinking" if part.get("thought") is True else label)
    elif not (_gemini(part, path, label, into) or _media(part, path, label, into)):
        own = {key: value for key, value in part.items() if key != "type"}
        into.said += 1
        into.blocks += argument_blocks(own, path, numbered(label or what or "content", path))


def _gemini(part: JsonObject, path: ValuePath, label: str, into: Gathered) -> bool:
    """Add a part that is a call or a result in Gemini's terms; return whether it is one."""
    for key in ("functionCall", "function_call"):
        if is_object(call := part.get(key)):
            name = into.call(call, (*path, key), "name", "id")
            arguments(call.get("args"), (*path, key, "args"), name, into)
            return True
    for key in ("functionResponse", "function_response"):
        if is_object(response := part.get(key)):
            name = into.result(response, (*path, key), "id" if response.get("id") else "name") or "response"
            returned, where = response.get("response"), (*path, key, "response")
            only = next(iter(returned)) if is_object(returned) and len(returned) == 1 else ""
            if only in ("output", "error") and (text := as_text(as_object(returned)[only])):
                into.text(text, (*where, only), f"{name}.{only}")
                if only == "error":
                    into.header[nth("is_error", into.results)] = True
            else:
                arguments(returned, where, name, into)
            return True
    return False


def _media(part: JsonObject, path: ValuePath, label: str, into: Gathered) -> bool:
    """Add a part that holds an image, a document or a sound; return whether it is one."""
    what = as_text(part.get("type"))
    if _with_format(part, path, label, into):
        return True
    source = as_object(part.get("source"))
    if source.get("type") == "text" and isinstance(text := source.get("data"), str):
        into.text(text, (*path, "source", "data"), label or "document")
        return True
    for member, key, kind in _INLINE:
        held = as_object(part.get(member)) if member else part
        mime = as_text(held.get(kind))
        if (member or mime) and (data := from_base64(as_text(held.get(key)))):
            mime = mime or ("image/png" if "image" in (what, member.lower()) else "application/octet-stream")
            shape: BlockType = "image" if what == "image" or mime.startswith("image/") else "resource"
            attach(data, mime, (*path, member, key) if member else (*path, key), shape, label, into)
            return True
    audio = as_object(part.get("input_audio"))
    if audio and (data := from_base64(as_text(audio.get("data")))):
        mime = _AUDIO.get(as_text(audio.get("format")), "application/octet-stream")
        attach(data, mime, (*path, "input_audio", "data"), "resource", label, into)
        return True
    for member in _URLS:
        place: ValuePath = (*path, member, "url") if isinstance(part.get(member), dict) else (*path, member)
        url = as_text(as_object(part.get(member)).get("url")) or as_text(part.get(member))
        if (linked := as_data_url(url)) is not None:
            shape = "image" if linked.mime.startswith("image/") else "resource"
            attach(linked.data, linked.mime, place, shape, label, into, encoded=False)
            return True
    several = [as_data_url(as_text(url)) for url in as_list(part.get("image_urls"))]
    for at, linked in enumerate(filter(None, several) if all(several) else ()):
        attach(linked.data, linked.mime, (*path, "image_urls", at), "image", label, into, encoded=False)
    return bool(several) and all(several)


def _with_format(part: JsonObject, path: ValuePath, label: str, into: Gathered) -> bool:
    """Add an image as Amazon's programs have it: its bytes may be numbers; return whether it is one."""
    if "format" not in part:
        part, path = as_object(part.get("data")), (*path, "data")
    name = as_text(part.get("format")).lower().replace("jpg", "jpeg")
    if name not in _FORMATS:
        return False
    held, path = part.get("source"), (*path, "source")
    key = next((key for key in _BYTES if key in as_object(held)), "")
    if key:
        held, path = as_object(held)[key], (*path, key)
    data = from_base64(held) if isinstance(held, str) else from_numbers(held)
    if data:
        attach(data, f"image/{name}", path, "image", label, into, encoded=isinstance(held, str))
    return bool(data)


def attach(
    data: bytes, mime: str, path: ValuePath, shape: BlockType, label: str, into: Gathered, *, encoded: bool = True
) -> None:
    """Add content that is not text; it has no name of its own, so it is named after its bytes."""
    uri = f"attachment:{blake3(data).hexdigest()[:16]}.{suffix_of(mime)}"
    into.attach(data, uri, mime, path, shape=shape, name=label, encoding="base64" if encoded else "json")


ROLES: dict[str, Kind] = {
    **dict.fromkeys(("ai", "assistant", "model"), Kind.ASSISTANT),
    **dict.fromkeys(("developer", "supervisor", "system"), Kind.SYSTEM),
    **dict.fromkeys(("function", "tool"), Kind.TOOL_RESULT),
    **dict.fromkeys(("human", "user"), Kind.USER),
}

_OF_MCP = ("mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools")
_OF_THE_SERVICE = ("code_interpreter_call", "file_search_call", "image_generation_call", "web_search_call")
_WITH_OUTPUT = ("computer_call", "custom_tool_call", "function_call", "local_shell_call", "shell_call")
_WITHOUT_OUTPUT = (*_OF_MCP, *_OF_THE_SERVICE, "item_reference", "reasoning")
ITEMS = frozenset((*_WITH_OUTPUT, *(f"{call}_output" for call in _WITH_OUTPUT), *_WITHOUT_OUTPUT))
"""The types of the items of a Responses request that are no messages."""

_ENVELOPE = frozenset(("type", "id", "status", "call_id"))
_PLAIN = frozenset(("role", "content"))
_THOUGHTS = ("reasoning_content", "reasoning")
_STOPS = ("stop_reason", "finish_reason", "finishReason")
_BESIDE_CONTENT = frozenset((*_THOUGHTS, *_STOPS, "function_call", "model", "parts", "refusal", "tool_calls"))
"""The members of a message that say something beside its content."""
MEMBERS = frozenset((
    *_ENVELOPE, *_PLAIN, *_THOUGHTS, "action", "arguments", "function_call", "input", "model", "name", "output",
    "parts", "reasoning_details", "refusal", "summary", "tool_call_id", "tool_calls",
))
"""The members of messages and items whose texts are shown, or that repeat them."""
_USUAL_STOPS = frozenset(("end_turn", "function_call", "stop", "stop_sequence", "tool_calls", "tool_use", "STOP"))


def is_message(value: object) -> bool:
    """Return whether a parsed value is a message or an item."""
    if not is_object(value):
        return False
    if as_text(value.get("role")) in ROLES:
        return "content" in value or "parts" in value or "tool_calls" in value or "function_call" in value
    return as_text(value.get("type")) in ITEMS or (value.keys() == {"parts"} and isinstance(value["parts"], list))


def part(record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
    """Return a new part with a text for the content at ``path`` of a message, an item or an answer."""
    key = path[-1] if path else "content"
    held = as_list(value_at(record, path))
    if key == "parts":
        return {"text": text, "thought": True} if name == "thinking" else {"text": text}
    if key == "summary" and record.get("type") == "reasoning":
        return {"type": "summary_text", "text": text}
    if key not in ("content", "output", "thought", "system_prompt") or "choices" in path:
        return None
    if name == "thinking":
        raise UsageError("a thought is signed by the model that had it: none can be written by hand")
    types = [as_text(as_object(item).get("type")) for item in held]
    usual = "output_text" if record.get("role") == "assistant" else "input_text"
    own = usual if record.get("type") == "message" or key == "output" else "text"
    return {"type": next((what for what in types if what in _TEXTS), own), "text": text}


def room(record: JsonObject) -> ValuePath | None:
    """Return the place for the arguments of a call, or the content of a result, that has none."""
    if "content" in record and record.get("role") in ("tool", "function"):
        return ("content",)
    for at, call in enumerate(as_list(record.get("tool_calls"))):
        if "function" in as_object(call):
            return ("tool_calls", at, "function", "arguments")
    for key in ("arguments", "input", "output"):
        if key in record:
            return (key,)
    for at, item in enumerate(as_list(record.get("content"))):
        what = as_text(as_object(item).get("type"))
        if what in CALLS or what in _RESULTS:
            return ("content", at, "input" if what in CALLS else "content")
    return None


class ChatLens(JsonLens):
    """A lens for records that are messages, items or answers of a model's interface as they are."""

    def part(self, record: JsonObject, path: ValuePath, name: str, text: str) -> object | None:
        return part(record, path, name, text)

    def room(self, record: JsonObject) -> ValuePath | None:
        return room(record)

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        return links_of_message(record)


def message(record: JsonObject, before: Before) -> Shown:
    """View a message or an item."""
    gathered = Gathered()
    kind = gather_message(record, (), gathered)
    return shown(kind, gathered, before)


def shown(kind: Kind, gathered: Gathered, before: Before) -> Shown:
    """Return the collected contents of a message, as an event of ``kind``."""
    if kind is Kind.TOOL_RESULT and gathered.asked:
        gathered.tool = before.tool(gathered.asked) or gathered.tool
    if not gathered.blocks and kind not in (Kind.TOOL_CALL, Kind.TOOL_RESULT):
        return BOOKKEEPING
    if len(gathered.blocks) == 1 and (only := gathered.blocks[0]).name == "thinking" and only.type == "text":
        # a lone thought needs no name
        gathered.blocks = [Block("text", only.text, path=only.path)]
    return gathered.shown(kind)


def first_request(records: Sequence[bytes]) -> str:
    """Return the first text of a user's message among records, "" where there is none."""
    for record in records:
        message = object_in(record)
        gathered = Gathered()
        if is_message(message) and gather_message(message, (), gathered) is Kind.USER:
            text = next((block.text for block in gathered.blocks if block.text), "")
            if text:
                return text
    return ""


def gather_message(record: JsonObject, path: ValuePath, into: Gathered) -> Kind:
    """Add a message or an item that stands at ``path``; return its kind of event."""
    what = as_text(record.get("type"))
    if "role" not in record and what in ITEMS:
        return _item(record, what, path, into)
    kind = ROLES.get(as_text(record.get("role")), Kind.USER if "parts" in record else Kind.NOTE)
    if _BESIDE_CONTENT.isdisjoint(record) and kind is not Kind.TOOL_RESULT:
        # as most are
        gather(record.get("content"), (*path, "content"), "", into)
        return kind_of(kind, into)
    if record.get("role") in ("tool", "function"):
        into.result(record, path, "tool_call_id" if "tool_call_id" in record else "name")
    for key in _THOUGHTS:
        if thought := record.get(key):
            gather(thought, (*path, key), "thinking", into)
            break
    for key in ("content", "parts"):
        gather(record.get(key), (*path, key), "", into)
    into.text(as_text(record.get("refusal")), (*path, "refusal"), "refusal")
    for at, call in enumerate(as_list(record.get("tool_calls"))):
        _call(as_object(call), (*path, "tool_calls", at), into)
    if is_object(called := record.get("function_call")):
        name = into.call(called, (*path, "function_call"), "name", "id")
        arguments(called.get("arguments"), (*path, "function_call", "arguments"), name, into)
    _model(record, path, into)
    return kind_of(kind, into)


def gather_answer(record: JsonObject, path: ValuePath, into: Gathered) -> Kind:
    """Add the answer to a request, or one of several that a model gave; return its kind of event."""
    for at, choice in enumerate(as_list(record.get("choices"))):
        gather_answer(as_object(choice), (*path, "choices", at), into)
    for at, candidate in enumerate(as_list(record.get("candidates"))):
        gather_answer(as_object(candidate), (*path, "candidates", at), into)
    for at, item in enumerate(as_list(record.get("output"))):
        gather_message(as_object(item), (*path, "output", at), into)
    for key in ("message", "content"):
        if is_object(said := record.get(key)):
            gather_message(said, (*path, key), into)
    if "role" in record:
        gather_message(record, path, into)
    if is_object(error := record.get("error")):
        into.text(as_text(error.get("message")), (*path, "error", "message"), "error")
    _model(record, path, into)
    return kind_of(Kind.ASSISTANT, into)


def _item(record: JsonObject, what: str, path: ValuePath, into: Gathered) -> Kind:
    if what == "reasoning":
        for key in ("summary", "content"):
            gather(record.get(key), (*path, key), "thinking", into)
        return Kind.REASONING
    if what == "item_reference":
        return Kind.RECORD
    if what.endswith(("_output", "_response")):
        into.result(record, path, "call_id")
        gather(record.get("output"), (*path, "output"), "", into)
        return Kind.TOOL_RESULT
    if what == "mcp_list_tools":
        return Kind.RECORD
    label = into.call(record, path, "name", "call_id" if "call_id" in record else "id")
    into.tool = into.tool or what.removesuffix("_call")
    for key in ("arguments", "input", "action"):
        if key in record:
            arguments(record[key], (*path, key), label, into)
            return Kind.TOOL_CALL
    own = {key: value for key, value in record.items() if key not in _ENVELOPE}
    into.blocks += argument_blocks(own, path, label)
    return Kind.TOOL_CALL


def _call(call: JsonObject, path: ValuePath, into: Gathered) -> None:
    """Add one call of a Chat Completions message: a function's, or that of a tool with free-form input."""
    key = "function" if "function" in call else as_text(call.get("type"))
    called = as_object(call.get(key))
    name = into.call({**called, "id": call.get("id")}, path, "name", "id")
    into.places[nth("tool", into.calls)] = (*path, key, "name")
    for held in ("arguments", "input"):
        if held in called:
            arguments(called[held], (*path, key, held), name, into)


def _model(record: JsonObject, path: ValuePath, into: Gathered) -> None:
    if model := as_text(record.get("model")):
        into.header["model"] = model
        into.places["model"] = (*path, "model")
    for key in _STOPS:
        stop = as_text(record.get(key))
        if stop and stop not in _USUAL_STOPS:
            into.header["stop_reason"] = stop
            into.places["stop_reason"] = (*path, key)


def kind_of(kind: Kind, gathered: Gathered) -> Kind:
    """Return the kind of an event with these contents, in a record that is of ``kind`` by itself."""
    if gathered.calls:
        return Kind.TOOL_CALL
    if gathered.results:
        return Kind.TOOL_RESULT
    if kind is Kind.ASSISTANT and gathered.blocks and not gathered.said:
        return Kind.REASONING
    return kind


# -- new messages, in the terms of the APIs that the ones before are in ------------------------------------------------

WRITES = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.REASONING, Kind.TOOL_CALL, Kind.TOOL_RESULT)
_FUNCTION = {"name": "$tool", "arguments": "$arguments_json"}
_CHAT: dict[Kind, Template] = {
    Kind.REASONING: {"role": "assistant", "content": None, "reasoning_content": "$text"},
    Kind.TOOL_CALL: {
        "role": "assistant", "content": None,
        "tool_calls": [{"id": "$id", "type": "function", "function": _FUNCTION}],
    },
    Kind.TOOL_RESULT: {"role": "tool", "tool_call_id": "$id", "content": "$text"},
}
_RESPONSES: dict[Kind, Template] = {
    Kind.REASONING: {"type": "reasoning", "summary": [{"type": "summary_text", "text": "$text"}]},
    Kind.TOOL_CALL: {"type": "function_call", "call_id": "$id", **_FUNCTION},
    Kind.TOOL_RESULT: {"type": "function_call_output", "call_id": "$id", "output": "$text"},
}
_ANTHROPIC: dict[Kind, Template] = {
    Kind.REASONING: {"type": "thinking", "thinking": "$text", "signature": ""},
    Kind.TOOL_CALL: {"type": "tool_use", "id": "$id", "name": "$tool", "input": "$arguments"},
    Kind.TOOL_RESULT: {"type": "tool_result", "tool_use_id": "$id", "content": "$text", "is_error": "$failed"},
}
_GEMINI: dict[Kind, Template] = {
    Kind.REASONING: {"text": "$text", "thought": True},
    Kind.TOOL_CALL: {"functionCall": {"id?": "$given", "name": "$tool", "args": "$arguments"}},
    Kind.TOOL_RESULT: {"functionResponse": {"id?": "$given", "name": "$tool", "response": "$response"}},
}
_OF_ANTHROPIC = ("tool_use", "tool_result", "thinking", "text", "image", "document")


def new_message(kind: Kind, text: str, near: Sequence[JsonObject], more: Particulars) -> JsonObject:
    """Return a message or an item. Messages ``near`` it say which API is meant, the most telling first."""
    if any("parts" in message for message in near):
        if kind is Kind.SYSTEM:
            raise UsageError("a request to Gemini has one system prompt, beside its messages: edit that")
        said, response = _GEMINI.get(kind, {"text": "$text"}), {"error" if more.failed else "output": text}
        part = recorded(said, kind, text, 0, more, given=more.id, response=response)
        return {"role": "user" if kind in (Kind.USER, Kind.TOOL_RESULT) else "model", "parts": [part]}
    role = kind.word if kind in (Kind.USER, Kind.SYSTEM) else "assistant"
    plain: Template = {"role": role, "content": "$text"}
    if any("role" not in message and message.get("type") in ITEMS for message in near):
        return recorded(_RESPONSES.get(kind, plain), kind, text, 0, more)
    is_chat = any("tool_calls" in one or one.get("role") in ("developer", "system", "tool") for one in near)
    parts = (as_object(part).get("type") for one in near for part in as_list(one.get("content")))
    if is_chat or not any(part in _OF_ANTHROPIC for part in parts):
        return recorded(_CHAT.get(kind, plain), kind, text, 0, more)
    said = _ANTHROPIC.get(kind, {"type": "text", "text": "$text"})
    part = recorded(said, kind, text, 0, more, "toolu_")
    return {"role": "user" if kind is Kind.TOOL_RESULT else role, "content": [part]}
