"""One line of a session as an event."""

import re
from collections.abc import Iterable

from store.events.edit import EventEdit
from store.events.event import Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_object, decode
from store.formats.lens import Before
from store.formats.pi import compose, entries, fields, twins, usage
from store.formats.pi.blobs import REFERENCE
from store.formats.pi.content import CUT
from store.formats.pi.title_slot import padded
from store.formats.shown import BOOKKEEPING, Header
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

_TRANSIENT = ("partialJson", "jsonlEvents")
"""Members that only mean something while a message is being made; versions that wrote them say all of it elsewhere."""
_may_be_transient = re.compile(b'"(?:%b)"' % "|".join(_TRANSIENT).encode()).search
_REFERENCE = REFERENCE.encode()


class PiLens(EditableLens):
    """Sees lines of a session. The order of lines is the conversation; a parent is named where it is another line."""

    type_name = "pi.entry.v1"
    one_line = True
    telling = usage.MAY_TELL

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a line tells of; a line that is no JSON object is a note with its text."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        line: JsonObject = decoded.value
        # one search of the whole line for both: it costs as much as parsing a third of it
        if _may_be_transient(payload):
            line = as_object(_without_transient(line))
        what = line.get("type")
        if isinstance(what, str) and what in entries.BOOKKEEPING_TYPES:
            shown = BOOKKEEPING
        else:
            shown = (entries.VIEWS.get(what, entries.unknown) if isinstance(what, str) else entries.unknown)(
                line, before
            )
        header: Header = shown.header
        for block in shown.blocks:
            if block.text and block.text.endswith(CUT):
                header = {**header, "truncated": True}
                break
        for block in shown.blocks:
            if block.name == "image" and block.text and _REFERENCE in payload:
                header = {**header, "missing": True}
                break
        defines = shown.defines
        parent = 0
        if isinstance(key := line.get("id"), str) and what != "session":
            defines = ((key, ""), *defines)
            if "parentId" in line:
                named = line["parentId"]
                parent = before.parent(named if isinstance(named, str) else None)
        return shown.event(line, _time(line), lossy=decoded.lossy, parent=parent, header=header, defines=defines)

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what the message on a line took."""
        return usage.usage(record), running

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """Return ``payload`` with the changes of ``edit``."""
        return padded(super().edit(payload, edit, before))

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        """Return ``payload`` so that it says ``new``; a title keeps the size of its place."""
        edited = super().revise(payload, old, new, before)
        return edited if edited == payload else padded(edited)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a line holds field ``key``."""
        return fields.place(record, key)

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield what else a line says of a tool's result."""
        return twins.twins(record, path, old, new)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a line that follows ``previous``."""
        return compose.compose(kind, text, previous, now_ms)


def _time(line: JsonObject) -> int:
    if time := milliseconds(line.get("timestamp")):
        return time
    counted = as_object(line.get("message")).get("timestamp")
    return int(counted) if isinstance(counted, (int, float)) and 0 < counted < 1 << 48 else 0


def _without_transient(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_transient(item) for key, item in value.items() if key not in _TRANSIENT}
    if isinstance(value, list):
        return [_without_transient(item) for item in value]
    return value
