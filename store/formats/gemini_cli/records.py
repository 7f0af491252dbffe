"""What the records of a session are: messages, what a session says of itself, and what changes either.

``{"id", "timestamp", "type", "content", …}`` is a message; one with an id that was before replaces that one.
``{"sessionId", "projectHash", "startTime", …}`` begins a file of lines, ``{"$set": {…}}`` replaces some of that, and
``{"$rewindTo": "<id>"}`` takes back a message and all after it. ``$set`` may hold ``messages``: all that the model is
sent from there on.
"""

import re

from store.formats.json_view import JsonObject, as_object, decode

SPEAKERS = frozenset(("error", "gemini", "info", "model", "user", "warning"))
"""The types of messages."""

_LITERAL = rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"'
_VALUE = rb"(?:" + _LITERAL + rb'|\{[^{}]*+\}|\[[^\[\]]*+\]|[^\s,{}\[\]"]++)'
_document = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+\{(?:\s*+(?!"messages")' + _LITERAL + rb"\s*+:\s*+" + _VALUE + rb"\s*+,)*+"
    rb'\s*+"messages"\s*+:\s*+\[',
).match
_checkpoint = re.compile(rb'\s*+\{\s*+"\$set"\s*+:\s*+\{').match
_MESSAGES = b'"messages"'


def beginning(head: bytes) -> bytes:
    """Return the beginning of a session that is one document, up to its messages; nothing for any other file.

    The first of many lines may hold messages too, but none.
    """
    found = _document(head)
    if found is None:
        return b""
    line, _, rest = head.partition(b"\n")
    first = as_object(decoded.value) if (decoded := decode(line)) else {}
    return b"" if first and (rest.strip() or not first.get("messages")) else found[0]


def is_checkpoint(line: bytes) -> bool:
    """Say whether a line may be one that replaces all messages, without parsing it."""
    return _checkpoint(line) is not None and _MESSAGES in line


def is_message(record: JsonObject) -> bool:
    """Say whether a record is a message."""
    return isinstance(record.get("id"), str) and ("timestamp" in record or "content" in record)


def is_line(record: JsonObject) -> bool:
    """Say whether a parsed JSON object is a line of a session that only Gemini CLI writes."""
    if isinstance(record.get("$rewindTo"), str) or as_object(record.get("$set")) or as_object(record.get("$patch")):
        return True
    if isinstance(record.get("sessionId"), str) and "projectHash" in record and "type" not in record:
        return True
    what = record.get("type")
    own = isinstance(what, str) and what in SPEAKERS and "content" in record and "timestamp" in record
    return own and is_message(record) and "parentId" not in record
