"""The grammar of an event's file: a head of ``key: value`` lines, then the content.

::

    ---
    event: 7
    type: tool_result
    tool: fs_read_file
    id: call_7
    timestamp: 2026-03-05T19:31:54.356Z
    ---
    Found one file.

**Head.** A subset of YAML: one value a line. A value is ``true``, ``false``, a number, a plain string, or a JSON
string in double quotes. A string is plain only where nobody, a YAML reader included, can take it for anything else.
A key that is not a plain word, or that the head uses itself, is a JSON string too.

**Content.** The only text of an event stands there as it is. Otherwise every block is fenced, a blank line between
two of them::

    ````block resource file:///project/src/main.rs text/x-rust
    fn main() {}
    ````

The fence has four backticks, or one more than the longest run of them in the block. After ``block`` stands the type,
then words: of ``text`` and ``json`` blocks the name, of the others URI and MIME type; what is out of this order is
led by ``name=``, ``uri=`` or ``mime=``. A word that could be misread is a JSON string. A block that is not text is a
Markdown link, whose title holds the same words::

    ![shot.png](../resources/tmp/shot@00007.png "block image file:///tmp/shot.png image/png")

Content is fenced if its first line is such a link or an opening fence, and plain otherwise. One newline is added to
each text. No text is ever taken for a fence: see :func:`is_plain`.
"""

import json
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache

from store.events.event import Block, Event, Kind
from store.visible import UNSEEN

HEAD_LINE = "---"

TYPES = {kind: kind.name.lower() for kind in Kind}
"""The spelling of each kind in the head: ``tool_result``."""

RESERVED_KEYS = frozenset({"event", "type", "tool", "parent"})
"""Keys that the head uses itself; ``timestamp`` is shared: an event's own wins."""

# What YAML 1.1 or 1.2 takes for something else than a string.
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_YAML_NUMBER = re.compile(
    r"[-+]?(?:\.?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?:inf|nan))",
    re.IGNORECASE,
)
# The common cases in one step: words, paths, addresses; dates and UUIDs that begin with a digit.
_SIMPLE = re.compile(
    r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*"
    r"|[0-9][0-9a-f]{3,}-[0-9a-f]{2,4}-[0-9A-Za-z.:+-]*[0-9A-Za-z]"
).fullmatch
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`=<~.")
is_plain_key = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$-]*").fullmatch
"""Tells whether a key stands in a head without quotes, if the head does not use it itself."""

# Line ends, controls, marks that turn the direction of text, and surrogates are spelled out inside quotes.
_HIDDEN = re.compile(rf"[{UNSEEN}\ud800-\udfff]")

_RUN = re.compile("```+")
OPENING_FENCE = re.compile(r"^[ \t]*`{4,}block(?=\s|$)", re.MULTILINE)
"""A line that looks as if it opened a block."""

BLOCK_LINK = re.compile(r'!?\[[^\]\n]*\]\([^)\s]*[ \t]+"block[ "]')
"""The beginning of a line that looks like the link to a block that is not text."""

_WORD = re.compile(r"[^\s\"\\`\x00-\x1f]+").fullmatch
_NAMED_WORD = re.compile(r"(?:name|uri|mime)=")

# What the lines of a head take that every head has, but for the event's number.
_FRAME_SIZES = {kind: len(f"---\nevent: \ntype: {name}\n---\n") for kind, name in TYPES.items()}

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (only differences are taken, faster)
_MINUTE = 60_000
_FIRST_MS = -62_135_596_800_000
_END_MS = 253_402_300_800_000
_TIMESTAMP_SIZE = len("2026-03-05T19:31:54.356Z")


def encoded_size(text: str) -> int:
    """Return ``len(utf8(text))``."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return len(text.encode(errors="surrogatepass"))


def quote(text: str) -> str:
    """Return ``text`` as a JSON string on one line, in which nothing is hidden."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _is_plain_string(text: str) -> bool:
    return not (
        not text.isprintable()
        or text[:1] in _INDICATORS
        or text != text.strip()
        or not text
        or text[-1] == ":"
        or ": " in text
        or " #" in text
        or text.lower() in _YAML_WORDS
        or _YAML_NUMBER.fullmatch(text)
    )


def scalar(value: str | float | bool) -> str:
    """Return a value as it stands in a head: on one line, and so that it reads back as the same value."""
    if isinstance(value, str):
        if _SIMPLE(value):
            return value if len(value) > 5 or value.lower() not in _YAML_WORDS else quote(value)
        return value if _is_plain_string(value) else quote(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if value != value else ".inf" if value > 0 else "-.inf"
    return repr(value)


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    return key if is_plain_key(key) and key not in RESERVED_KEYS else quote(key)


@lru_cache(maxsize=1024)
def _key_size(key: str) -> int:
    """Return the size of a line of the head without its value."""
    return encoded_size(_key(key)) + len(": \n")


def in_calendar(time_ms: int) -> bool:
    """Return whether a time lies in the years 1 to 9999."""
    return _FIRST_MS <= time_ms < _END_MS


def timestamp(time_ms: int) -> str:
    """Return Unix milliseconds in ISO 8601, UTC: ``2026-03-05T19:31:54.356Z``; the bare number beyond year 9999."""
    if in_calendar(time_ms):
        second, rest = divmod(time_ms % _MINUTE, 1000)
        return f"{_minute(time_ms // _MINUTE)}:{second:02}.{rest:03}Z"
    return str(time_ms)


def minute(time_ms: int) -> str:
    """Return Unix milliseconds that are :func:`in_calendar` to the minute, UTC: ``2026-03-05 19:31``."""
    return _minute(time_ms // _MINUTE).replace("T", " ")


@lru_cache(maxsize=64)
def _minute(number: int) -> str:
    """Return a minute since 1970 in ISO 8601: events come several a minute, and each draws it twice."""
    return (_EPOCH + timedelta(minutes=number)).isoformat(timespec="minutes")


def head(number: int, event: Event) -> str:
    """Return the head of event ``number``, from ``---`` to ``---``, with the newline that ends it."""
    text = f"---\nevent: {number}\ntype: {TYPES[event.kind]}\n"
    if event.tool:
        text += f"tool: {scalar(event.tool)}\n"
    time: str | int | float | bool | None = None
    for key, value in event.header.items():
        if key == "timestamp":
            time = value
        else:
            text += f"{_key(key)}: {scalar(value)}\n"
    if event.parent:
        text += f"parent: {event.parent if event.parent > 0 else 'none'}\n"
    if time is not None:
        return f"{text}timestamp: {scalar(time)}\n---\n"
    if event.time_ms:
        return f"{text}timestamp: {timestamp(event.time_ms)}\n---\n"
    return text + "---\n"


def head_size(number: int, event: Event) -> int:
    """Return the size in bytes of ``head(number, event)``, for a fraction of its time."""
    size = _FRAME_SIZES[event.kind] + len(str(number))
    if event.tool:
        size += 7 + encoded_size(scalar(event.tool))
    for key, value in event.header.items():
        size += _key_size(key)
        # most are simple: ASCII, and longer than any word that must be quoted
        if isinstance(value, str) and len(value) > 5 and _SIMPLE(value):
            size += len(value)
        else:
            size += encoded_size(scalar(value))
    if event.parent:
        size += 9 + (len(str(event.parent)) if event.parent > 0 else 4)
    if event.time_ms and "timestamp" not in event.header:
        size += 12 + (_TIMESTAMP_SIZE if in_calendar(event.time_ms) else len(str(event.time_ms)))
    return size


def is_plain(blocks: tuple[Block, ...]) -> bool:
    """Return whether ``blocks`` are one text that stands in a file as it is, without a fence.

    A text is fenced if any of its lines looks like an opening fence, or its first like a link to a block.
    """
    # here and in fence(): one character is found many times faster than several, and often is not there
    if len(blocks) != 1:
        return False
    block = blocks[0]
    text = block.text
    return (
        text is not None
        and block.type == "text"
        and not block.name
        and not block.uri
        and not block.mime
        and not ("`" in text and "````block" in text and OPENING_FENCE.search(text))
        and not (text.startswith(("![", "[")) and BLOCK_LINK.match(text))
    )


def fence(text: str, least: int = 4) -> str:
    """Return the fence for ``text``: four backticks (or ``least``), or one more than its longest run has."""
    if "`" not in text or "```" not in text:
        return "`" * least
    return "`" * max(least, max(map(len, _RUN.findall(text))) + 1)


def _word(text: str) -> str:
    if _WORD(text) and not _NAMED_WORD.match(text) and not _HIDDEN.search(text):
        return text
    return quote(text).replace("`", "\\u0060")


def description(block: Block) -> str:
    """Return the text in a fence after its backticks: ``block``, the type, and the block's words."""
    words = f"block {block.type}"
    if block.type in ("text", "json"):
        if block.name:
            words += f" {_word(block.name)}"
        if block.uri:
            words += f" uri={_word(block.uri)}"
        if block.mime:
            words += f" mime={_word(block.mime)}"
        return words
    if block.uri:
        words += f" {_word(block.uri)}"
    if block.mime:
        words += f" {_word(block.mime)}" if block.uri else f" mime={_word(block.mime)}"
    if block.name:
        words += f" name={_word(block.name)}"
    return words


def link(block: Block, target: str) -> str:
    """Return the line that stands for a block that is not text; ``target`` is a path, percent-encoded."""
    label = re.sub(r"[\[\]\\`<>]", "_", _HIDDEN.sub("_", block.name or target.rpartition("/")[2]))
    label = " ".join(re.sub(r"[\x00-\x1f]", " ", label).split())
    title = description(block).replace("\\", "\\\\").replace('"', '\\"')
    return f'{"!" if block.type == "image" else ""}[{label}]({target} "{title}")\n'


Target = Callable[[Block], str]
"""The function that links from a text to the content of a block that is not text."""


def body(blocks: tuple[Block, ...], target: Target) -> str:
    """Return the content of an event as text; "" where it has none."""
    if is_plain(blocks):
        return f"{blocks[0].text}\n"
    parts: list[str] = []
    for block in blocks:
        if block.text is None:
            parts.append(link(block, target(block)))
        else:
            ticks = fence(block.text)
            parts.append(f"{ticks}{description(block)}\n{block.text}\n{ticks}\n")
    return "\n".join(parts)


def body_size(blocks: tuple[Block, ...], target: Target) -> int:
    """Return the size in bytes of ``body(blocks, target)``; a target need only be as long as the real one."""
    if is_plain(blocks):
        return encoded_size(blocks[0].text or "") + 1
    size = max(len(blocks) - 1, 0)
    for block in blocks:
        if block.text is None:
            size += encoded_size(link(block, target(block)))
        else:
            size += 2 * len(fence(block.text)) + encoded_size(description(block)) + encoded_size(block.text) + 3
    return size
