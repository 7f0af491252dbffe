r"""Reading the files that ``fusefs.text.grammar`` describes, as people and their programs leave them.

What does no harm is let pass: a byte order mark, ``\r\n`` and trailing blanks in the head and around blocks, empty
lines between these, no newline at the end. Texts are taken exactly as they stand. What could be meant in two ways is
an error that says what to write.
"""

import json
import re
from typing import get_args

from msgspec import Struct

from fusefs.text.grammar import BLOCK_LINK, HEAD_LINE, OPENING_FENCE, RESERVED_KEYS, TYPES, is_plain_key, quote, scalar
from store.errors import UsageError
from store.events.event import BlockType

Value = str | int | float | bool


class ParseError(UsageError):
    """A file that cannot be read, or says what cannot be done: the line, counted from 1, and what to do about it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class Field(Struct, frozen=True):
    """A value of the head and the line that it stands on."""

    value: Value
    line: int


class ParsedBlock(Struct, frozen=True):
    """A block as its file shows it.

    ``text`` is None for content that is not text; ``link`` is then where it is found. ``line`` is that of the fence,
    the link, or the first line of a text without a fence. ``opening`` is that fence or link, "" where there is none.
    """

    type: BlockType
    text: str | None
    line: int
    name: str = ""
    uri: str = ""
    mime: str = ""
    link: str = ""
    opening: str = ""


class ParsedEvent(Struct, frozen=True):
    """The content of a file.

    ``head`` holds what is the head's own (``event``, ``type``, ``tool``, ``parent``), ``header`` all other fields,
    both in their order. Both are empty where there is no head; then all of the file is content.
    """

    head: dict[str, Field]
    header: dict[str, Field]
    blocks: tuple[ParsedBlock, ...]


_BLANKS = " \t\r"
_BYTE_ORDER_MARK = "\ufeff"
_BLOCK_TYPES: dict[str, BlockType] = {name: name for name in get_args(BlockType)}
_TYPE_NAMES = frozenset(TYPES.values())

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)").fullmatch
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").fullmatch
_NOT_FINITE = {".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}

_OPENING = re.compile(r"(`{4,})block((?:[ \t].*)?)").fullmatch
_LINK = re.compile(r'!?\[[^\]]*\]\(([^)\s]*)[ \t]+"block([^"\\]*(?:\\.[^"\\]*)*)"\)').fullmatch
_FIRST_WORD = re.compile(r"[ \t]+([^\s\"]+)").match
_WORD = re.compile(r'[ \t]+(?:(name|uri|mime)=)?("[^"\\]*(?:\\.[^"\\]*)*"|[^\s"]+)').match
_string = json.JSONDecoder().raw_decode


def text_of(data: bytes) -> str:
    """Return the text of a file, without a byte order mark; raises :class:`ParseError`."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ParseError(line, f"the byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8") from None
    return text.removeprefix(_BYTE_ORDER_MARK)


def parse_event(data: bytes) -> ParsedEvent:
    """Parse the file of an event; raises :class:`ParseError`.

    One newline is stripped from the end of each text, if there is one; empty content gives no block.
    """
    text = text_of(data)
    head: dict[str, Field] = {}
    header: dict[str, Field] = {}
    at, line = 0, 1
    if _row(text, 0) == HEAD_LINE:
        at, line = _read_head(text, head, header)
    return ParsedEvent(head, header, tuple(_content(text, at, line)))


def _row(text: str, at: int) -> str:
    """Return the line that begins at ``at``, without its end and the blanks before it."""
    return text[at : _next(text, at)].rstrip(_BLANKS + "\n")


def _next(text: str, at: int) -> int:
    """Return the beginning of the line after the one at ``at``; the end of the text if there is none."""
    return text.find("\n", at) + 1 or len(text)


def shorten(text: str) -> str:
    """Return a user's text as it stands in an error: short, on one line, in quotes."""
    return quote(text if len(text) <= 60 else text[:59] + "…")


# The head


def _read_head(text: str, head: dict[str, Field], header: dict[str, Field]) -> tuple[int, int]:
    """Fill ``head`` and ``header``; return where the content begins, and on which line."""
    at, line = _next(text, 0), 1
    while at < len(text):
        row, line = _row(text, at), line + 1
        at = _next(text, at)
        if row == HEAD_LINE:
            return at, line + 1
        if row:
            key, own, value = _field(row, line)
            fields = head if own else header
            if key in fields:
                reason = f"{shorten(key)} stands on line {fields[key].line} already: remove one of the two"
                raise ParseError(line, reason)
            fields[key] = Field(value, line)
    raise ParseError(1, f"the head has no end: write a line {HEAD_LINE} after its last field")


def _field(row: str, line: int) -> tuple[str, bool, Value]:
    """Return the key of a line, whether it is one of the head's own, and the value."""
    if row.startswith('"'):
        try:
            key, at = _string(row)
        except ValueError:
            raise ParseError(line, f"{shorten(row)} does not begin with a key spelled as in JSON: correct it") from None
        own = False
        colon, rest = row[at : at + 1], row[at + 1 :]
    else:
        key, colon, rest = row.partition(":")
        if not is_plain_key(key):
            colon = ""
        own = key in RESERVED_KEYS
    if not colon or (rest and rest[0] not in _BLANKS):
        reason = f"{shorten(row)} is no field of the head: write it as key: value"
        raise ParseError(line, f"{reason}, or a line {HEAD_LINE} before it if the text begins here")
    value = _value(key, rest.strip(_BLANKS), line)
    if own:
        _check_own(key, value, line)
    return key, own, value


def _value(key: str, text: str, line: int) -> Value:
    if not text:
        raise ParseError(line, f'{shorten(key)} has no value: write one, "" for an empty text')
    if text in ("true", "false"):
        return text == "true"
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            reason = f"the value of {shorten(key)} is no string as JSON spells it: correct it from {shorten(text)}"
            raise ParseError(line, reason) from None
    if _FLOAT(text):
        try:
            return int(text) if _INTEGER(text) else float(text)
        except ValueError:  # Python reads no more than some 4,000 digits
            reason = f"the value of {shorten(key)} has too many digits: put it in double quotes"
            raise ParseError(line, reason) from None
    if scalar(text) != text:
        raise ParseError(line, f"the value of {shorten(key)} can be misread: if it is a text, write {shorten(text)}")
    return text


def _check_own(key: str, value: Value, line: int) -> None:
    match key:
        case "event" if type(value) is not int or value < 1:
            raise ParseError(line, '"event" is the number of the event: write that')
        case "type" if value not in _TYPE_NAMES:
            names = ", ".join(sorted(_TYPE_NAMES - {"record"}))
            raise ParseError(line, f"there is no type {shorten(str(value))}: write one of {names}")
        case "tool" if type(value) is not str:
            raise ParseError(line, f'"tool" is a name: write {shorten(scalar(value))}, in double quotes')


# The content


def _content(text: str, at: int, line: int) -> list[ParsedBlock]:
    if at == len(text):
        return []
    start, start_line = _skip_empty_lines(text, at, line)
    if OPENING_FENCE.match(text, start):
        return _blocks(text, start, start_line)
    if BLOCK_LINK.match(text, at):
        return _blocks(text, at, line)
    return [ParsedBlock("text", text[at:].removesuffix("\n"), line)]


def _skip_empty_lines(text: str, at: int, line: int) -> tuple[int, int]:
    while at < len(text) and not _row(text, at):
        at, line = _next(text, at), line + 1
    return at, line


def _blocks(text: str, at: int, line: int) -> list[ParsedBlock]:
    blocks: list[ParsedBlock] = []
    while at < len(text):
        row = _row(text, at)
        after = _next(text, at)
        if found := _LINK(row):
            title = re.sub(r"\\(.)", r"\1", found[2])
            blocks.append(_block(title, row, None, line, found[1]))
            at, line = after, line + 1
        elif found := _OPENING(row):
            closing = re.compile(rf"^`{{{len(found[1])}}}[ \t\r]*$", re.MULTILINE).search(text, after)
            if closing is None:
                raise ParseError(line, f"this block has no end: write a line {found[1]} after its text")
            content = text[after : max(closing.start() - 1, after)]
            blocks.append(_block(found[2], row, content, line, ""))
            line += text.count("\n", at, closing.end()) + 1
            at = min(closing.end() + 1, len(text))
        else:
            raise ParseError(line, _outside(row))
        at, line = _skip_empty_lines(text, at, line)
    return blocks


def _outside(row: str) -> str:
    if OPENING_FENCE.match(row):
        return f"{shorten(row)} does not begin a block: write it from the beginning of the line, as ````block text"
    if BLOCK_LINK.match(row):
        return f"{shorten(row)} is no link to a block: write it as it was"
    return (
        f"{shorten(row)} stands outside of the blocks: move it into one; "
        "a block that holds a line like its own fence needs a longer one"
    )


def _block(description: str, opening: str, text: str | None, line: int, link: str) -> ParsedBlock:
    """Return the block that a fence or a link's title describes, after the word ``block``."""
    first = _FIRST_WORD(description)
    kind = _BLOCK_TYPES.get(first[1]) if first else None
    if first is None or kind is None:
        said = shorten(first[1]) if first else "no type"
        raise ParseError(line, f"{said} does not say what the block is: write {', '.join(_BLOCK_TYPES)} after block")
    order = ["name"] if kind in ("text", "json") else ["uri", "mime"]
    words: dict[str, str] = {}
    at = first.end()
    while rest := description[at:].strip(_BLANKS):
        word = _WORD(description, at)
        key = (word[1] or next((key for key in order if key not in words), "")) if word else ""
        if word is None or not key or key in words:
            raise ParseError(line, f"{shorten(rest)} cannot be read here: put a word with blanks in double quotes")
        try:
            words[key] = str(json.loads(word[2])) if word[2].startswith('"') else word[2]
        except ValueError:
            raise ParseError(line, f"{shorten(word[2])} is no string as JSON spells it: correct it") from None
        at = word.end()
    return ParsedBlock(kind, text, line, link=link, opening=opening, **words)
