"""Events: what the payload of one turn says happened, independent of the tool that wrote it.

These are values that a lens makes from a payload (``store.formats.lens``). They are msgspec structs, not
dataclasses, because one is built for every file that a ``grep -r`` reads: a frozen dataclass costs ten times as
much to construct.
"""

import re
from enum import IntEnum
from typing import Literal

from msgspec import Struct


class Kind(IntEnum):
    """What an event is. RECORD is bookkeeping: it keeps its number but has no file in ``events/``."""

    RECORD = 0
    SYSTEM = 1
    USER = 2
    ASSISTANT = 3
    REASONING = 4
    TOOL_CALL = 5
    TOOL_RESULT = 6
    QUESTION = 7
    ANSWER = 8
    CONFIG = 9
    SUMMARY = 10
    NOTE = 11


BlockType = Literal["text", "resource", "image", "json", "artifact"]

Path = tuple[str | int, ...]
"""Where in a parsed payload a value stands: keys and list positions from the outermost in."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def utf8(text: str) -> bytes:
    """Return ``text`` in UTF-8, each half of a surrogate pair as U+FFFD (which has the same size)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


class Block(Struct, frozen=True, gc=False):
    """One piece of an event's content.

    ``text`` holds what is shown (for ``json``: a pretty-printed document); ``data`` holds content that is not text
    (an image), and exactly one of the two is set. ``name`` tells blocks of one event apart (``arguments.command``,
    ``thinking``; empty for the plain text of a message). ``path`` is the place in the payload that it came from;
    empty where the block is put together from several places. ``encoding`` says how the payload spells the content
    at that place: as a JSON string (``json``) or as a JSON string of base64 (``base64``).
    """

    type: BlockType
    text: str | None = None
    data: bytes | None = None
    name: str = ""
    uri: str = ""
    mime: str = ""
    path: Path = ()
    encoding: Literal["json", "base64"] = "json"


class Resource(Struct, frozen=True, gc=False):
    """Content with a URI: an attachment, an image, or a file that a tool returned (for ``resources/``).

    ``path`` and ``encoding`` say where in the payload the content stands, and how, as those of a :class:`Block` do.
    """

    uri: str
    mime: str
    content: str | bytes
    path: Path = ()
    encoding: Literal["json", "base64"] = "json"

    @property
    def data(self) -> bytes:
        """The content's bytes: text in UTF-8, each half of a surrogate pair as U+FFFD."""
        return utf8(self.content) if isinstance(self.content, str) else self.content


class Compaction(Struct, frozen=True, gc=False):
    """What a model is sent in place of what stands before an event; the records stay as they are.

    ``summary`` is what it reads instead (None: nothing takes a place). That stands for all that comes before the event,
    but for what begins with the record that defines the key ``kept_from``; or for the ``exchanges`` alone, the first
    and the last of them, counted from 0; or for the records alone that define the keys ``forgotten``. Where there is
    no summary, what the model thought in these exchanges may be left out (``reasoning``), and of calls what was asked
    (``requests``), what came back (``responses``), or all (``calls``).
    """

    summary: tuple[Block, ...] | None = None
    kept_from: str = ""
    forgotten: tuple[str, ...] = ()
    exchanges: tuple[int, int] | None = None
    reasoning: bool = False
    requests: bool = False
    responses: bool = False
    calls: bool = False


class Event(Struct, frozen=True, gc=False):
    """One event, fully resolved.

    ``tool`` names the tool of a call or a result ("" else). ``header`` holds further fields for the head of the
    event's file, in order (id, is_error, model, …); values are str, int, float or bool. ``time_ms`` is the
    event's own time in Unix milliseconds, 0 if it has none. ``parent`` is 0 where the event follows the record
    before it, the number of the event it follows where that is another one, -1 where that one is not in the
    conversation. ``defines`` names what later records may refer to: (key, tool name or "") pairs, such as a
    message's uuid or a tool call's id. ``native`` is the parsed payload in JSON's terms (None
    where it has none). ``lossy`` says that some text is not valid Unicode and is shown with U+FFFD in its place.
    ``compaction`` says what a model is no longer sent from here on.
    """

    kind: Kind
    tool: str = ""
    header: dict[str, str | int | float | bool] = {}
    blocks: tuple[Block, ...] = ()
    time_ms: int = 0
    parent: int = 0
    defines: tuple[tuple[str, str], ...] = ()
    resources: tuple[Resource, ...] = ()
    native: object = None
    lossy: bool = False
    compaction: Compaction | None = None
