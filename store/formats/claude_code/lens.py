"""One line of a Claude Code session as an event."""

from collections.abc import Iterable

from store.events.event import Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats.claude_code import compose, fields, messages, notes, twins, usage
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, decode
from store.formats.lens import Before
from store.formats.shown import BOOKKEEPING, View
from store.formats.times import milliseconds
from store.formats.unknown import as_it_is

_VIEWS: dict[str, View] = {
    "assistant": messages.assistant,
    "attachment": notes.attachment,
    "pr-link": notes.pull_request,
    "summary": notes.summary,
    "system": notes.system,
    "user": messages.user,
}


class ClaudeCodeLens(EditableLens):
    """Sees lines of a session. The order of lines is the conversation; a parent is named where it is another line."""

    type_name = "claude-code.line.v1"
    one_line = True
    telling = usage.MAY_TELL

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a line tells of; a line that is no JSON object is a note with its text."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        line = decoded.value
        what = line.get("type")
        if not isinstance(what, str):
            shown = notes.unknown(line, before)
        elif what in notes.BOOKKEEPING_TYPES:
            shown = BOOKKEEPING
        else:
            shown = _VIEWS.get(what, notes.unknown)(line, before)
        header = shown.header
        if line.get("isSidechain") is True:
            header = {**header, "sidechain": True}
            if isinstance(agent := line.get("agentId"), str):
                header["agent"] = agent
        defines = shown.defines
        parent = 0
        if isinstance(uuid := line.get("uuid"), str):
            defines = ((uuid, ""), *defines)
            if "parentUuid" in line:
                named = line["parentUuid"]
                parent = before.parent(named if isinstance(named, str) else None)
        return shown.event(
            line,
            milliseconds(line.get("timestamp")),
            lossy=decoded.lossy,
            parent=parent,
            header=header,
            defines=defines,
        )

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what the answer on a line took."""
        return usage.usage(record), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a line holds field ``key``."""
        return fields.place(record, key)

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield what else a line says of a tool's result."""
        return twins.twins(record, path, old, new)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a line that follows ``previous``."""
        return compose.compose(kind, text, previous, now_ms)
