"""A format to copy: "chat lines", the log of an invented tool.

Sessions are ``*.chatlines`` files of one JSON object a line. The first line introduces the session, every other one is
something that was said::

    {"chatlines": 1, "title": "Fix the login", "project": "shop", "at": "2026-03-05T19:31:54Z"}
    {"at": "2026-03-05T19:31:55Z", "from": "user", "text": "Why does the login fail?"}
    {"at": "2026-03-05T19:31:58Z", "from": "model", "calls": "read", "id": "c1", "with": {"path": "login.py"}}
    {"at": "2026-03-05T19:31:59Z", "from": "tool", "id": "c1", "text": "def login(): ...", "path": "/shop/login.py"}
    {"at": "2026-03-05T19:32:07Z", "from": "model", "text": "It returns nothing.", "took": {"in": 210, "out": 6}}

To add a format: copy this module, replace what it says of chat lines, and add one line to ``_KNOWN`` in
``registry.py``. Nothing else in convfs knows formats by name. What to keep in mind:

* A lens never raises and never changes a payload. Look at values with ``as_text`` and its kin: files are damaged,
  and tools change what they write.
* A block's ``path`` says where in the payload its text stands, so that an edit finds its way back: ``EditableLens``
  does the rest. ``place`` says the same of what stands in the head, ``twins`` of a text that stands twice.
* ``compose`` writes what a person adds, as the tool would have written it.
* ``defines`` is what later records may ask for: here a call's id, so that its result knows the tool's name.
* ``usage_told`` says what an answer took, in tokens, under a name that all tellings of it have; ``telling`` is what
  only such records hold, so that the others are not parsed for it.
* ``spans`` only cuts. A line that makes no sense is a record like any other.
* ``without`` takes records out in such a way that the tool can go on with the rest.
* ``claim`` reads a bounded beginning, and says no to what belongs to somebody else.
"""

import json
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.errors import UsageError
from store.events.event import Block, Event, Kind, Resource
from store.events.usage import Running, Tokens, Usage
from store.formats.blocks import argument_blocks
from store.formats.editing import EditableLens, Place
from store.formats.format import About, Format, Source, Span
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.lens import Before, Lens
from store.formats.lines import line_spans
from store.formats.look import Look
from store.formats.media import file_uri, mime_of
from store.formats.times import in_iso, milliseconds
from store.formats.titles import first_line
from store.formats.token_counts import count
from store.formats.unknown import as_it_is

_SPEAKERS = {"user": Kind.USER, "model": Kind.ASSISTANT}
_FIELDS = {"id": "id", "timestamp": "at", "tool": "calls"}


class ChatLinesLens(EditableLens):
    """Sees one line as an event."""

    type_name = "chat-lines.line.v1"
    one_line = True
    telling = (b'"took"',)

    def view(self, payload: bytes, before: Before) -> Event:
        """Return what the line says; damaged lines and unknown speakers are notes."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        line = decoded.value
        time, call, text = milliseconds(line.get("at")), as_text(line.get("id")), as_text(line.get("text"))
        if "chatlines" in line:
            return Event(Kind.RECORD, time_ms=time, native=line, lossy=decoded.lossy)
        if "calls" in line:
            tool = as_text(line["calls"])
            blocks = argument_blocks(line.get("with"), ("with",), "arguments")
            return Event(Kind.TOOL_CALL, tool, {"id": call}, blocks, time, 0, ((call, tool),), (), line, decoded.lossy)
        blocks = (Block("text", text, path=("text",)),) if text else ()
        if line.get("from") == "tool":
            path = as_text(line.get("path"))
            read = (Resource(file_uri(path), mime_of(path), text, ("text",)),) if path else ()
            return Event(
                Kind.TOOL_RESULT, before.tool(call), {"id": call}, blocks, time, 0, (), read, line, decoded.lossy
            )
        kind = _SPEAKERS.get(as_text(line.get("from")), Kind.NOTE)
        return Event(kind, blocks=blocks, time_ms=time, native=line, lossy=decoded.lossy)

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what an answer took; nobody answers twice at the same time."""
        took = as_object(record.get("took"))
        tokens = Tokens(input=count(took, "in"), output=count(took, "out"))
        return (Usage(as_text(record.get("at")), "", tokens) if tokens.total else None), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a line holds field ``key``."""
        return Place((_FIELDS[key],)) if key in _FIELDS else None

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a line that says ``text``."""
        speaker = next((name for name, speaks in _SPEAKERS.items() if speaks is kind), None)
        if speaker is None or not text:
            raise UsageError("only what a user or a model says can be written by hand: write user or assistant")
        return json.dumps({"at": in_iso(now_ms), "from": speaker, "text": text}).encode()


class ChatLines(Format):
    """The invented tool."""

    name = "chat-lines"
    lenses: Sequence[Lens] = (ChatLinesLens(),)
    main_type = ChatLinesLens.type_name

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield ``~/.chatlines``."""
        if (folder := home / ".chatlines").is_dir():
            yield folder

    def claim(self, look: Look) -> Source | None:
        """Claim a file whose first line introduces a session, or an empty one by its name."""
        if look.path.suffix != ".chatlines" or look.is_folder:
            return None
        if look.lines(1) and not any("chatlines" in line for line in look.objects(1)):
            return None
        return Source(self.name, look.path, look.path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the lines."""
        return line_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Say what the first line says."""
        said = _object(records[0]) if records else {}
        return About(
            title=first_line(as_text(said.get("title"))),
            project=as_text(said.get("project")),
            started_ms=milliseconds(said.get("at")),
            session_id=source.path.stem,
        )

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other lines; a call and its result go together."""
        gone = {as_text(_object(records[at]).get("id")) for at in deleted} - {""}
        kept = [record for at, record in enumerate(records) if at not in deleted]
        return [record for record in kept if as_text(_object(record).get("id")) not in gone]


def _object(line: bytes) -> dict[str, object]:
    decoded = decode(line)
    return as_object(decoded.value) if decoded else {}
