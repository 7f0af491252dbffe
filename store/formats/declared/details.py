"""Texts in which ``<details>`` elements tell of thoughts and calls, as Open WebUI writes them: in parts, and whole.

A thought is quoted and escaped in its element, a call stands in the attributes, escaped, as JSON. The parts say all of
that: joined, they are the same text again, byte for byte. A text of which that is not so stays whole.
"""

import json
import re
from collections.abc import Sequence

import msgspec

from store.formats.core.json_view import JsonObject, as_object, as_text, is_object, object_in
from store.formats.core.splices import put, spell

_element = re.compile(
    r'<details type="(reasoning|tool_calls)"([^>]*)>(\s*)<summary>([^<]*)</summary>(\n?)(.*?)</details>(\s*)', re.DOTALL
)
_attributes = re.compile(r' ([\w-]+)="([^"]*)"').findall
_IN_JSON = ("arguments", "result")


def parted(message: bytes, member: str) -> bytes:
    """Return a message with a text of it in parts, where that has such elements."""
    if b"<details type=" not in message:
        return message
    text = object_in(message).get(member)
    if not isinstance(text, str):
        return message
    for plain in (True, False):
        parts = _parts(text, plain=plain)
        if len(parts) > sum(part["as"] == "text" for part in parts) and _joined(parts) == text:
            return put(message, (member,), msgspec.json.encode(parts))
    return message


def whole(message: bytes, member: str) -> bytes:
    """Return a message with the text that was parted."""
    if b'"as"' not in message:
        return message
    parts = object_in(message).get(member)
    if not isinstance(parts, list) or not parts or not all(is_object(part) and "as" in part for part in parts):
        return message
    return put(message, (member,), spell(_joined(parts), message))


def _parts(text: str, *, plain: bool) -> list[JsonObject]:
    """Return the parts of a text; ``plain``: JSON in attributes has only ASCII."""
    # imported here, as it has a table of 2231 names
    import html

    parts: list[JsonObject] = []
    end = 0
    for found in _element.finditer(text):
        if before := text[end : found.start()]:
            parts.append({"as": "text", "text": before})
        end = found.end()
        what, attributes, opening, summary, closing, body, after = found.groups()
        around = {"opening": opening, "closing": closing, "after": after}
        part: JsonObject = {"as": what, "plain": plain, "summary": summary, **around}
        if what == "reasoning":
            escaped = body.startswith("&gt;")
            quoted = html.unescape(body) if escaped else body
            lines = [line.removeprefix(">").removeprefix(" ") for line in quoted.removesuffix("\n").split("\n")]
            part |= {"attributes": attributes, "escaped": escaped, "text": "\n".join(lines)}
        else:
            pairs = _attributes(attributes)
            told = {name: _read(html.unescape(value)) if name in _IN_JSON else value for name, value in pairs}
            part |= {"body": body, "attributes": told}
        parts.append(part)
    if rest := text[end:]:
        parts.append({"as": "text", "text": rest})
    return parts


def _read(value: str) -> object:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {"text": value}
    return found if isinstance(found, str) else {"json": found}


def _joined(parts: Sequence[JsonObject]) -> str:
    pieces: list[str] = []
    for part in parts:
        if part["as"] == "text":
            pieces.append(as_text(part.get("text")))
            continue
        told, body = part.get("attributes"), as_text(part.get("body"))
        if part["as"] == "reasoning":
            body = "".join(f"> {line}\n" for line in as_text(part.get("text")).split("\n"))
            body = _escaped(body) if part.get("escaped") else body
            attributes = as_text(told)
        else:
            attributes = "".join(
                f' {name}="{_written(value, plain=part.get("plain") is True) if name in _IN_JSON else as_text(value)}"'
                for name, value in as_object(told).items()
            )
        keys = ("opening", "summary", "closing", "after")
        opening, summary, closing, after = (as_text(part.get(key)) for key in keys)
        head = f'<details type="{part["as"]}"{attributes}>{opening}<summary>{summary}</summary>{closing}'
        pieces.append(f"{head}{body}</details>{after}")
    return "".join(pieces)


def _written(value: object, *, plain: bool) -> str:
    if is_object(value) and "text" in value:
        return _escaped(as_text(value["text"]))
    return _escaped(json.dumps(value["json"] if is_object(value) else value, ensure_ascii=plain))


def _escaped(text: str) -> str:
    import html

    return html.escape(text)
