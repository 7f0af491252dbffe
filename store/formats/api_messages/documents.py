"""What of a document is a record: messages of requests, answers, system prompts.

A document is an array of messages; a request (``messages``, ``input`` or ``contents``); a line for fine-tuning; a
recording of HTTP (``interactions`` of ``request`` and ``response``, whose bodies are JSON, or a string that holds it).
"""

from store.events.event import Path
from store.formats.chat_messages import is_message
from store.formats.json_cuts import Choice
from store.formats.json_view import JsonObject, as_list, as_object, as_text, is_object

MESSAGES = ("messages", "contents", "input")
_SYSTEM = frozenset(("system", "instructions"))
_SYSTEM_OF_GEMINI = frozenset(("systemInstruction", "system_instruction"))
_AROUND = frozenset((*MESSAGES, *_SYSTEM_OF_GEMINI, "interactions", "params", "request", "response", "body_segments"))
_BODIES = frozenset(("body", "content", "json"))
_OTHERS = frozenset(
    ("mapping", "trajectory", "trajectory_format", "history", "sessionId", "sessionID", "chat_messages", "uuid")
)
"""Members of documents in which other tools keep messages."""
_REQUESTS = ("body", "params")
"""Where lines of batches hold a request."""
_SPEAK = frozenset(("role", "parts"))
_MOST_LOOKED_AT = 20


def choose(path: Path) -> Choice:
    """See :class:`store.formats.json_cuts.Choice`."""
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


def holds_messages(document: object) -> bool:
    """Say whether the beginning of a document, parsed, is one that :func:`choose` cuts, and nobody else's."""
    if isinstance(document, list):
        return _all_messages(document)
    if not is_object(document) or document.keys() & _OTHERS:
        return False
    if any(_all_messages(as_list(document.get(key))) for key in MESSAGES):
        return True
    for key in _REQUESTS:
        if is_object(request := document.get(key)):
            return holds_messages(request)
    return any(_is_recording(as_object(one)) for one in as_list(document.get("interactions"))[:1])


def _is_recording(interaction: JsonObject) -> bool:
    request = as_object(interaction.get("request"))
    method = as_text(request.get("method"))
    bodies = (request.get("body"), request.get("content"), *as_list(request.get("body_segments")))
    return method.isalpha() and any(holds_messages(body) for body in bodies)


def _all_messages(listed: list[object]) -> bool:
    """Say whether all that can be seen of a list are messages; its last one may be cut off."""
    looked_at = listed[:_MOST_LOOKED_AT]
    whole = looked_at[:-1] if len(looked_at) > 1 else looked_at
    return bool(whole) and all(map(is_message, whole)) and any(as_object(one).keys() & _SPEAK for one in whole)
