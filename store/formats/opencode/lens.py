"""Records of opencode as events: rows of its database, and the files of older versions."""

from collections.abc import Iterable

from store.errors import UsageError
from store.events.event import Block, Event, Kind, Path
from store.events.usage import Running, Usage
from store.formats.editing import EditableLens, Place
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.lens import Before, Lens
from store.formats.opencode import compose, usage
from store.formats.opencode.views import Speaker, twins_of, view_message, view_part
from store.formats.shown import BOOKKEEPING, Header, Shown
from store.formats.unknown import as_it_is

_DATA: Path = ("json", "data")
_SPEAKERS = {speaker.value: speaker for speaker in Speaker}
_OF_PARTS = {"agent": "agent", "id": "callID", "tool": "tool"}


class OpencodeRowLens(EditableLens):
    """Sees rows of the database as lines (:mod:`store.formats.sqlite.rows`), and the file of a session."""

    type_name = "opencode.row.v1"
    one_line = True
    telling = usage.MAY_TELL

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a row tells of."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        row: JsonObject = decoded.value
        data, about = as_object(as_object(row.get("json")).get("data")), as_object(row.get("about"))
        shown = BOOKKEEPING
        if row.get("table") == "message":
            shown = view_message(data, _DATA)
        elif row.get("table") == "part":
            shown = view_part(data, _DATA, _SPEAKERS.get(as_text(about.get("role")), Speaker.MODEL))
        elif "table" not in row and "id" not in row and "begins" not in row:
            return as_it_is(payload)
        if isinstance(damaged := as_object(row.get("cells")).get("data"), str):
            shown = Shown(Kind.NOTE, (Block("text", damaged, path=("cells", "data")),))
        if (model := as_text(about.get("model"))) and shown.kind in _FROM_MODELS:
            shown = Shown(
                shown.kind, shown.blocks, shown.tool, {**shown.header, "model": model}, shown.defines, shown.resources
            )
        created = as_object(row.get("cells")).get("time_created")
        return _event(shown, row, data, created, lossy=decoded.lossy)

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what the message in a row took; its parts say the same once more."""
        if record.get("table") != "message":
            return None, running
        return usage.usage(as_object(as_object(record.get("json")).get("data"))), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a row holds field ``key``."""
        if key == "model":
            raise UsageError(
                "the model is that of the message, which is a record of its own: it cannot be changed here"
            )
        return _place(_DATA, key)

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield what else a row says of a tool's output."""
        return twins_of(as_object(as_object(record.get("json")).get("data")), _DATA, path, old, new)

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a new part and its message."""
        return compose.compose(kind, text, previous, now_ms)


class OpencodeMessageLens(EditableLens):
    """Sees the file of a message."""

    type_name = "opencode.message.v1"
    telling = usage.MAY_TELL

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a message tells of by itself."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        return _event(view_message(decoded.value, ()), decoded.value, decoded.value, None, lossy=decoded.lossy)

    def usage_told(self, record: JsonObject, running: Running) -> tuple[Usage | None, Running]:
        """Return what a message took."""
        return usage.usage(record), running

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a message holds field ``key``."""
        return _place((), key)


class OpencodePartLens(EditableLens):
    """Sees the file of a part, of a message of ``speaker``."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self.type_name = part_type(speaker)

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that a part tells of."""
        decoded = decode(payload)
        if decoded is None or not isinstance(decoded.value, dict):
            return as_it_is(payload)
        shown = view_part(decoded.value, (), self._speaker)
        return _event(shown, decoded.value, decoded.value, None, lossy=decoded.lossy)

    def place(self, record: JsonObject, key: str) -> Place | None:
        """Return where a part holds field ``key``."""
        return _place((), key)

    def twins(self, record: JsonObject, path: Path, old: str, new: str) -> Iterable[tuple[Path, str]]:
        """Yield what else a part says of a tool's output."""
        return twins_of(record, (), path, old, new)


def part_type(speaker: Speaker) -> str:
    """Return the payload type of the files of parts of messages of ``speaker``."""
    return f"opencode.{speaker.value}-part.v1"


LENSES: tuple[Lens, ...] = (OpencodeRowLens(), OpencodeMessageLens(), *map(OpencodePartLens, Speaker))
_FROM_MODELS = frozenset((Kind.ASSISTANT, Kind.REASONING, Kind.SUMMARY, Kind.TOOL_CALL))


def _event(shown: Shown, native: JsonObject, data: JsonObject, created: object, *, lossy: bool) -> Event:
    times = as_object(data.get("time"))
    times = times or as_object(as_object(data.get("state")).get("time"))
    stamp = next((time for time in (times.get("start"), times.get("created"), created) if isinstance(time, int)), 0)
    header: Header = shown.header
    said = shown.kind, shown.tool, header, shown.blocks
    time_ms = stamp if 0 < stamp < 1 << 48 else 0
    return Event(*said, time_ms, 0, shown.defines, shown.resources, native, lossy, shown.compaction)


def _place(path: Path, key: str) -> Place | None:
    if key in ("record", "status", "is_error", "error"):
        raise UsageError(f"{key!r} says what became of it: it cannot be changed")
    return Place((*path, _OF_PARTS[key])) if key in _OF_PARTS else None
