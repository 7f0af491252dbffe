"""A format to copy: "chat lines", the log of an invented tool.

Sessions are ``*.chatlines`` files of one JSON object a line. The first line introduces the session, every other one is
a message, a call or a result::

    {"chatlines": 1, "title": "Fix the login", "project": "shop", "at": "2026-03-05T19:31:54Z"}
    {"at": "2026-03-05T19:31:55Z", "from": "user", "text": "Why does the login fail?"}
    {"at": "2026-03-05T19:31:58Z", "from": "model", "calls": "read", "id": "c1", "with": {"path": "login.py"}}
    {"at": "2026-03-05T19:31:59Z", "from": "tool", "id": "c1", "text": "def login(): ...", "path": "/shop/login.py"}
    {"at": "2026-03-05T19:32:07Z", "from": "model", "text": "It returns nothing.", "took": {"in": 210, "out": 6}}

To add a format that no page of TOML can say: copy this module into ``store/formats``, replace its parts about chat
lines, and add one line to ``_KNOWN`` in ``registry.py``. Nothing else knows formats by name. What to keep in mind:

* A lens never raises and never changes a payload. Look at values with ``as_text`` and its kin: files are damaged,
  and tools change what they write. ``JsonLens`` sees to lines that are no JSON.
* A block's ``path`` says where in the payload its text stands, so that an edit finds its way back: ``JsonLens``
  does the rest. ``places`` says the same of what stands in the head; where that differs from record to record,
  ``Gathered`` notes it while the record is viewed. ``twins`` yields texts that stand twice.
* ``new`` writes the additions of a person as the tool would have written them, of the kinds in ``writes``.
* ``defines`` is a key that later records may look up: here a call's id, so that its result knows the tool's name.
* ``used`` returns the tokens of an answer, under a name that all records of it share; ``telling`` is a text that
  only such records hold, so that the others are not parsed for it.
* ``spans`` only cuts, into lines where nothing else is said. A line that makes no sense is a record like any other.
* ``calls`` says which call a record is, or is the result of, so that both are taken out together.
* ``claim`` reads a bounded beginning, and declines files of other tools.
"""

import json
from collections.abc import Iterator, Sequence
from typing import ClassVar

from store.events.event import Kind, Resource
from store.events.usage import Tokens, Usage
from store.formats.core.blocks import argument_blocks
from store.formats.core.composing import Particulars
from store.formats.core.editing import JsonLens, Lens
from store.formats.core.format import About, Format, Source, first_line
from store.formats.core.json_view import JsonObject, as_object, as_text, object_in
from store.formats.core.lens import BOOKKEEPING, Before, CallLink, Gathered, Places, Shown
from store.formats.core.look import Look
from store.formats.core.media import file_uri, mime_of
from store.formats.core.times import in_iso, milliseconds
from store.formats.core.token_counts import count

_SPEAKERS = {"user": Kind.USER, "model": Kind.ASSISTANT}


class ChatLinesLens(JsonLens):
    """Sees one line as an event."""

    type_name = "chat-lines.line.v1"
    writes = (Kind.USER, Kind.ASSISTANT, Kind.TOOL_CALL, Kind.TOOL_RESULT)
    one_line = True
    telling = (b'"took"',)
    time_key = "at"
    places: ClassVar[Places] = {"timestamp": ("at",)}

    def shown(self, record: JsonObject, before: Before) -> Shown:
        """View a line by who speaks; unknown speakers are notes."""
        if "chatlines" in record:
            return BOOKKEEPING
        into = Gathered()
        if "calls" in record:
            label = into.call(record, (), "calls", "id")
            into.blocks += argument_blocks(record.get("with"), ("with",), label)
            return into.shown(Kind.TOOL_CALL)
        text = as_text(record.get("text"))
        if record.get("from") != "tool":
            into.text(text, ("text",))
            return into.shown(_SPEAKERS.get(as_text(record.get("from")), Kind.NOTE))
        into.result(record, (), "id")
        into.tool = before.tool(into.asked)
        into.text(text, ("text",))
        if path := as_text(record.get("path")):
            into.resources.append(Resource(file_uri(path), mime_of(path), text, ("text",)))
        return into.shown(Kind.TOOL_RESULT)

    def used(self, record: JsonObject) -> Usage | None:
        """Return the usage of an answer; its time names it, since nobody answers twice at the same time."""
        took = as_object(record.get("took"))
        tokens = Tokens(input=count(took, "in"), output=count(took, "out"))
        return Usage(as_text(record.get("at")), "", tokens) if tokens.total else None

    def calls(self, record: JsonObject) -> Iterator[CallLink]:
        """Yield the call or the result that a line is: they go together."""
        if call := as_text(record.get("id")):
            yield CallLink((), 0, call, "calls" in record)

    def new(self, kind: Kind, text: str, previous: bytes | None, now_ms: int, more: Particulars) -> bytes:
        """Return a line that says ``text``, makes a call, or is the result of one."""
        line: JsonObject = {"at": in_iso(now_ms)}
        match kind:
            case Kind.TOOL_CALL:
                line |= {"from": "model", "calls": more.tool, "id": more.new_id("c"), "with": more.arguments(text)}
            case Kind.TOOL_RESULT:
                line |= {"from": "tool", "id": more.id, "text": text}
            case _:
                line |= {"from": "user" if kind is Kind.USER else "model", "text": text}
        return json.dumps(line).encode()


class ChatLines(Format):
    """The invented tool."""

    name = "chat-lines"
    lenses: Sequence[Lens] = (ChatLinesLens(),)
    main_type = ChatLinesLens.type_name
    kept = ("~/.chatlines",)

    def claim(self, look: Look) -> Source | None:
        """Claim a file whose first line introduces a session, or an empty one by its name."""
        if look.path.suffix != ".chatlines" or look.is_folder:
            return None
        if look.lines(1) and not any("chatlines" in line for line in look.objects(1)):
            return None
        return Source(self.name, look.path, look.path)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Return the session's title and project from its first line."""
        said = object_in(records[0]) if records else {}
        return About(
            title=first_line(as_text(said.get("title"))),
            project=as_text(said.get("project")),
            started_ms=milliseconds(said.get("at")),
            session_id=source.path.stem,
        )
