"""New events as files: the event that a name asks for, and what the content of such a file says."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from fusefs.text.event_names import shown_tool
from fusefs.text.parse import ParsedBlock, parse_event
from store.errors import UsageError
from store.events.event import Block, Kind
from store.exporting.steps import joined
from store.formats.core import documents
from store.formats.core.composing import Particulars
from store.formats.core.json_view import JsonObject, decode, is_object

_KINDS = {kind.word: kind for kind in Kind if kind is not Kind.RECORD}
_OF_TOOLS = (Kind.TOOL_CALL, Kind.TOOL_RESULT)
_TOOL = "|".join(kind.word for kind in _OF_TOOLS)
_name = re.compile(rf"(?:([0-9]{{5,18}})-)?(?:({_TOOL})-(.+)|({'|'.join(_KINDS)}))\.md", re.DOTALL).fullmatch
_WORDS = "|".join(kind.word for kind in Kind)
_like_a_name = re.compile(
    rf"[0-9]{{5,18}}-.+\.md|(?:[0-9]+-)?(?:{_WORDS})(?:-.*)?\.md", re.DOTALL | re.IGNORECASE
).fullmatch
_FOUND_IN_HEAD = frozenset(("id", "is_error"))
_INPUTS = ("input", "prompt")
"""The names of a call's input that is no JSON."""


class Asked(NamedTuple):
    """The event that a name asks for: its number (0: none is given), its kind, and its tool as names have it."""

    number: int
    kind: Kind
    tool: str


def new_event(name: str) -> Asked | None:
    """Return the event that a name asks for; None for any other name."""
    found = _name(name)
    return Asked(int(found[1] or 0), _KINDS[found[2] or found[4]], found[3] or "") if found else None


def is_like_an_event(name: str) -> bool:
    """Return whether a name would be taken for that of an event."""
    return _like_a_name(name) is not None


class Said(NamedTuple):
    """The content of a file that becomes an event: its main text, and its particulars."""

    text: str
    more: Particulars


def said_in(asked: Asked, name: str, data: bytes) -> Said:
    """Return the contents of a file called ``name``. Raises ParseError and UsageError for what no event can say."""
    parsed = parse_event(data)
    kind = asked.kind
    wanted = kind.name.lower()
    if (said := parsed.head.get("type")) is not None and said.value != wanted:
        raise UsageError(f"line {said.line}: the file is called {name}: write type: {wanted}")
    head = {key: field.value for key, field in parsed.header.items()}
    tool = asked.tool
    if (named := parsed.head.get("tool")) is not None:
        if kind in _OF_TOOLS and asked.tool not in ("", shown_tool(str(named.value))):
            raise UsageError(f"line {named.line}: the file is called {name}: write tool: {asked.tool}")
        tool = str(named.value)
    if kind is Kind.TOOL_CALL and not tool:
        raise UsageError("a call is one of a tool: call the file call-TOOL.md, or write tool: TOOL in its head")
    identifier, failed = head.get("id", ""), head.get("is_error", False)
    if not isinstance(identifier, str) or not isinstance(failed, bool):
        raise UsageError("in the head, id is a text and is_error is true or false")
    text, document = _contents(kind, parsed.blocks)
    about = {key: value for key, value in head.items() if key not in _FOUND_IN_HEAD}
    return Said(text, Particulars(tool, identifier, document, failed, about))


def _contents(kind: Kind, blocks: Sequence[ParsedBlock]) -> tuple[str, JsonObject | None]:
    """Return the text of an event, and the JSON object that it holds, if its kind has one."""
    if any(block.text is None or block.type not in ("text", "json") for block in blocks):
        raise UsageError("a new event is text: leave out images and other files")
    structured = kind in (Kind.TOOL_CALL, Kind.CONFIG, Kind.QUESTION)
    plain = [block.text or "" for block in blocks if block.type == "text" and not (structured and block.name)]
    given = [block for block in blocks if block.type == "json" or (structured and block.name)]
    if len(plain) > 1 or (given and not structured):
        raise UsageError(f"a new {kind.word} is one text: write it without blocks")
    text = plain[0] if plain else ""
    if kind is Kind.QUESTION:
        return text, {"options": joined(_as_blocks(given), given[0].name)} if given else None
    if not structured:
        return text, None
    if given and text:
        raise UsageError(f"a new {kind.word} is JSON, or blocks of it: write its text in an event of its own")
    if not given:
        return text, document if is_object(document := _parsed(text)) else None
    if given[0].name in _INPUTS and len(given) == 1 and given[0].type == "text":
        return given[0].text or "", None
    value = joined(_as_blocks(given), given[0].name.partition(".")[0].partition("[")[0])
    return "", value if is_object(value) else None


def _as_blocks(parsed: Sequence[ParsedBlock]) -> list[Block]:
    for block in parsed:
        if block.type == "json":
            # says where it is wrong
            documents.parse(block.text or "")
    return [Block(block.type, block.text, name=block.name) for block in parsed]


def _parsed(text: str) -> object:
    decoded = decode(text.encode("utf-8", "replace")) if text.lstrip().startswith("{") else None
    return decoded.value if decoded is not None else None
