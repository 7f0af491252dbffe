"""Structured values (a tool's arguments, a configuration) as blocks that a person can read and edit.

A string that JSON would have to escape is a text block of its own, so that text is text, one line a line; what is
left is one ``json`` block.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from store.events.event import Block, Path
from store.formats.json_view import pretty

Decode = Callable[[str], str | None]
"""Returns what a string of the payload stands for, None if it stands for itself."""

_needs_escape = re.compile(r'["\\\x00-\x1f]').search
_unfit_for_names = re.compile(r"[^\w$@/:+-]").sub
DEEPEST = 64
"""Strings nested deeper than this stay in the JSON block."""


def argument_blocks(value: object, path: Path, name: str, decode: Decode | None = None) -> tuple[Block, ...]:
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
                if _needs_escape(plain):
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


def numbered(name: str, path: Path) -> str:
    """Return ``name`` with the list positions in ``path``, so that it is one of its kind; as it is for the first."""
    positions = [step for step in path if isinstance(step, int)]
    return name + "".join(f"[{position}]" for position in positions) if any(positions) else name


def listed_links(titles: Mapping[str, str]) -> str:
    """Return addresses, given with their titles or "", as a list of Markdown links."""
    spelled = ((" ".join(title.split()), address) for address, title in titles.items())
    return "\n".join(f"- [{title}]({address})" if title else f"- {address}" for title, address in spelled)


def _lift(value: object, path: Path, name: str, decode: Decode | None, lifted: list[Block], depth: int) -> object:
    """Return ``value`` with strings to be escaped replaced by references to the blocks added to ``lifted``."""
    if isinstance(value, str):
        plain, encoding = _decoded(value, decode)
        if not _needs_escape(plain):
            return plain
        lifted.append(_text(plain, name, path, encoding))
        return {"$block": name}
    if depth >= DEEPEST:
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


def _decoded(text: str, decode: Decode | None) -> tuple[str, Literal["json", "base64"]]:
    if decode is not None and (plain := decode(text)) is not None:
        return plain, "base64"
    return text, "json"


def _text(text: str, name: str, path: Path, encoding: Literal["json", "base64"]) -> Block:
    return Block("text", text, name=name, path=path, encoding=encoding)


def _member(name: str, key: str) -> str:
    """Name a member of the object ``name``; what would end or split a name is percent-encoded."""
    return f"{name}.{_unfit_for_names(_percent, key)}"


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
