"""The first line of oh-my-pi's files: the session's title, padded so that a new one can be written in its place.

``{"type":"title","v":1,"title":"…","source":"auto","updatedAt":"…","pad":"   "}``, always 256 bytes with its newline.
"""

import msgspec

from store.errors import UsageError
from store.formats.core.json_view import JsonObject, as_text, object_in
from store.formats.core.splices import put

SLOT_BYTES = 256
"""The length of the line, its newline included."""
_encode = msgspec.json.Encoder().encode


def is_slot(line: JsonObject) -> bool:
    """Return whether a line is the one that holds the title."""
    return line.get("type") == "title" and isinstance(line.get("pad"), str)


def title_slot(title: str, updated: str) -> bytes:
    """Return the line for a title given at ``updated`` (ISO 8601), cut to its place as the program does."""
    while True:
        line: JsonObject = {"type": "title", "v": 1, "title": title, "source": "user", "updatedAt": updated, "pad": ""}
        room = SLOT_BYTES - 1 - len(_encode(line))
        if room >= 0:
            return _encode(line | {"pad": " " * room}) + b"\n"
        # a character has at most six bytes, written as an escape
        title = title[: min(len(title) - 1, len(title) + room // 6)]


def padded(payload: bytes) -> bytes:
    """Return a line that holds the title, without its newline, with as much padding as its place needs.

    Lines of other types come back as they are. Raises UsageError where the title is too long for its place.
    """
    line = object_in(payload)
    if not is_slot(line):
        return payload
    pad = len(as_text(line["pad"])) + SLOT_BYTES - 1 - len(payload)
    if pad < 0:
        raise UsageError(f"the title is {-pad} bytes too long for its place at the beginning of the file: shorten it")
    return put(payload, ("pad",), b'"%b"' % (b" " * pad))
