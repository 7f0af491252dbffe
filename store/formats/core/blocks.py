"""Structured values (a tool's arguments, a configuration) as blocks that a person can read and edit.

A string that JSON would have to escape is a text block of its own, so that text is text, one line a line; the rest is
one ``json`` block.

JSON documents that stand in a string of a payload: a tool's arguments as the model wrote them, an output with its
exit code, the body of a recorded request (in base64 too).

They are shown decoded. A block's path then leads through the string into the document: ``("payload", "arguments",
"command")``, where ``payload.arguments`` is a string. The ``json`` block of such a document has the path of the string.
"""

import re
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Set
from typing import Literal

from store.errors import UsageError
from store.events.event import Block, ValuePath
from store.formats.core.json_spans import locate, text_of
from store.formats.core.json_view import decode, pretty
from store.formats.core.media import from_base64
from store.formats.core.splices import put, spell

Decode = Callable[[str], str | None]
"""Returns the decoded form of a string of the payload, None if it stands for itself."""

_needs_escape = re.compile(r'["\\\x00-\x1f]').search
_unfit_for_names = re.compile(r"[^\w$@/:+-]").sub
DEEPEST = 64
"""Strings nested deeper than this stay in the JSON block."""
MOST_BLOCKS = 1 << 16
"""The most blocks of an event: each takes a kilobyte while it is drawn. Strings beyond stay in the JSON block."""


def argument_blocks(value: object, path: ValuePath, name: str, decode: Decode | None = None) -> tuple[Block, ...]:
    """Return the blocks of a parsed JSON value that stands at ``path`` of a payload.

    Strings to be escaped come as text blocks after the ``json`` block, named by their path (``arguments.command``,
    ``arguments.edits[0].old_string``). Those at the top of an object are left out of the JSON, nested ones are
    replaced there by ``{"$block": "<name>"}``. There is no ``json`` block where nothing is left (an empty object,
    null). ``decode`` is applied to every string first.
    """
    lifted: list[Block] = []
    left: object = None
    if isinstance(value, dict):
        rest: dict[str, object] = {}
        for key, item in value.items():
            if isinstance(item, str):
                plain, encoding = _decoded(item, decode)
                if _needs_escape(plain) and len(lifted) < MOST_BLOCKS:
                    lifted.append(_text(plain, _member(name, key), (*path, key), encoding))
                else:
                    rest[key] = plain
            elif isinstance(item, (dict, list)):
                rest[key] = _lift(item, (*path, key), _member(name, key), decode, lifted, 1)
            else:
                rest[key] = item
        left = rest or None
    elif isinstance(value, str):
        plain, encoding = _decoded(value, decode)
        return (_text(plain, name, path, encoding),)
    elif isinstance(value, list):
        left = _lift(value, path, name, decode, lifted, 0)
    else:
        left = value
    if left is None:
        return tuple(lifted)
    return (Block("json", pretty(left), name=name, path=path, encoding="base64" if decode else "json"), *lifted)


def numbered(name: str, path: ValuePath) -> str:
    """Return ``name`` with the list positions in ``path``, so that it is one of its kind; as it is for the first."""
    positions = [step for step in path if isinstance(step, int)]
    return name + "".join(f"[{position}]" for position in positions) if any(positions) else name


def listed_links(titles: Mapping[str, str]) -> str:
    """Return addresses, given with their titles or "", as a list of Markdown links."""
    spelled = ((" ".join(title.split()), address) for address, title in titles.items())
    return "\n".join(f"- [{title}]({address})" if title else f"- {address}" for title, address in spelled)


def _lift(value: object, path: ValuePath, name: str, decode: Decode | None, lifted: list[Block], depth: int) -> object:
    """Return ``value`` with strings to be escaped replaced by references to the blocks added to ``lifted``."""
    if isinstance(value, str):
        plain, encoding = _decoded(value, decode)
        if not _needs_escape(plain) or len(lifted) >= MOST_BLOCKS:
            return plain
        lifted.append(_text(plain, name, path, encoding))
        return {"$block": name}
    if depth >= DEEPEST or len(lifted) >= MOST_BLOCKS:
        return value
    if isinstance(value, dict):
        return {
            key: _lift(item, (*path, key), _member(name, key), decode, lifted, depth + 1)
            if isinstance(item, (str, dict, list))
            else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _lift(item, (*path, at), f"{name}[{at}]", decode, lifted, depth + 1)
            if isinstance(item, (str, dict, list))
            else item
            for at, item in enumerate(value)
        ]
    return value


def stands_for(value: object) -> str:
    """Return the name of the block that a value in a document stands for, "" where it stands for itself."""
    name = value.get("$block") if isinstance(value, dict) and len(value) == 1 else ""
    return name if isinstance(name, str) else ""


def _decoded(text: str, decode: Decode | None) -> tuple[str, Literal["json", "base64"]]:
    if decode is not None and (plain := decode(text)) is not None:
        return plain, "base64"
    return text, "json"


def _text(text: str, name: str, path: ValuePath, encoding: Literal["json", "base64"]) -> Block:
    return Block("text", text, name=name, path=path, encoding=encoding)


def _member(name: str, key: str) -> str:
    """Name a member of the object ``name``; characters that would end or split a name are percent-encoded."""
    return f"{name}.{_unfit_for_names(_percent, key)}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def document_of(block: Block, shown: Set[tuple[ValuePath, str]]) -> tuple[ValuePath, str] | None:
    """Return the place and the name of the document that a text block is a member of, None where it is of none.

    ``shown`` are those of the documents that have a ``json`` block; another one is an object whose members are all
    text blocks.
    """
    path, name = block.path, block.name
    while path:
        member = f"[{path[-1]}]" if isinstance(path[-1], int) else _member("", path[-1])
        if not name.endswith(member) or name == member:
            break
        path, name = path[:-1], name.removesuffix(member)
        if (path, name) in shown:
            return path, name
    last = block.path[-1] if block.path else 0
    name = block.name.removesuffix(_member("", last)) if isinstance(last, str) else ""
    return (block.path[:-1], name) if name and name != block.name else None


_BRACKETS_IN_BASE64 = ("ey", "ew", "Wy", "Ww", "W3")
"""The beginnings of base64 for a bracket followed by a quote, a blank or another bracket."""


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


def document_blocks(text: str, path: ValuePath, name: str) -> tuple[Block, ...]:
    """Return the blocks of a document in a string at ``path`` (none if it is empty), or of the text that it is."""
    document = document_in(text)
    if document is None:
        return (Block("text", text, name=name, path=path),)
    return argument_blocks(document, path, name) if document else ()


def string_before(record: object, path: ValuePath) -> int | None:
    """Return the number of steps of ``path`` to a string that the other steps lead into, None where there is none."""
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


def within(payload: bytes, path: ValuePath, change: Callable[[bytes], bytes]) -> bytes:
    """Return ``payload`` with the document in the string at ``path`` changed. UsageError: it is no valid Unicode."""
    start, end = locate(payload, path)
    literal = payload[start:end]
    decoded = decode(literal)
    if decoded is None or decoded.lossy:
        raise UsageError("the text is no valid Unicode in the record, so it can only be read")
    if (data := document_in_base64(text_of(literal))) is not None:
        return put(payload, path, b'"%b"' % b2a_base64(change(data), newline=False))
    changed = change(text_of(literal).encode())
    return put(payload, path, spell(changed.decode(), payload, literal))
