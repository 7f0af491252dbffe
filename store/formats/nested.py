"""JSON documents that stand in a string of a payload: a tool's arguments as the model wrote them, an output with its
exit code, the body of a recorded request (in base64 too).

They are shown as what they say. A block's path then leads through the string into the document: ``("payload",
"arguments", "command")``, where ``payload.arguments`` is a string. The ``json`` block of such a document has the path
of the string.
"""

from binascii import b2a_base64
from collections.abc import Callable

from store.errors import UsageError
from store.events.event import Block, Path
from store.formats.blocks import argument_blocks
from store.formats.json_spans import locate, text_of
from store.formats.json_view import decode
from store.formats.media import from_base64
from store.formats.new_literals import spell
from store.formats.splices import put

_BRACKETS_IN_BASE64 = ("ey", "ew", "Wy", "Ww", "W3")
"""How base64 begins of a bracket that a quote, a blank or another bracket follows."""


def document_in(text: str) -> dict[str, object] | list[object] | None:
    """Return the JSON object or list that ``text`` is, None where it is none that can be shown exactly."""
    if text[:1] not in ("{", "[") or (decoded := decode(text.encode("utf-8", "replace"))) is None or decoded.lossy:
        return None
    return decoded.value if isinstance(decoded.value, (dict, list)) else None


def document_in_base64(text: str) -> bytes | None:
    """Return the JSON object or list that ``text`` is the base64 of, None where it is no such thing."""
    if not text.startswith(_BRACKETS_IN_BASE64) or (data := from_base64(text)) is None:
        return None
    decoded = decode(data)
    return data if decoded is not None and not decoded.lossy and isinstance(decoded.value, (dict, list)) else None


def document_blocks(text: str, path: Path, name: str) -> tuple[Block, ...]:
    """Return the blocks of a document that stands as a string at ``path``; one text block where it is none.

    An empty object or list has no blocks.
    """
    document = document_in(text)
    if document is None:
        return (Block("text", text, name=name, path=path),)
    return argument_blocks(document, path, name) if document else ()


def string_before(record: object, path: Path) -> int | None:
    """Return how many steps of ``path`` lead to a string that the other steps lead into, None where they do not."""
    for at, step in enumerate(path):
        if isinstance(record, str):
            return at
        if isinstance(record, dict) and isinstance(step, str):
            record = record.get(step)
        elif isinstance(record, list) and isinstance(step, int) and step < len(record):
            record = record[step]
        else:
            return None
    return None


def within(payload: bytes, path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Return ``payload`` with the document in the string at ``path`` changed; all other bytes stay as they are.

    Raises UsageError for a string that is no valid Unicode.
    """
    start, end = locate(payload, path)
    literal = payload[start:end]
    decoded = decode(literal)
    if decoded is None or decoded.lossy:
        raise UsageError("the text is no valid Unicode in the record, so it can only be read")
    if (data := document_in_base64(text_of(literal))) is not None:
        return put(payload, path, b'"%b"' % b2a_base64(change(data), newline=False))
    changed = change(text_of(literal).encode())
    return put(payload, path, spell(changed.decode(), payload, literal))
