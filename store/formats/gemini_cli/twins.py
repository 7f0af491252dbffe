"""What a message says twice: as it is sent and as it is displayed, what a tool returned and what is shown of that."""

from collections.abc import Iterator

from store.events.event import Path
from store.formats.json_view import JsonObject, as_list, as_object
from store.formats.twins import carried


def twins(record: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
    """Yield the other texts of ``record`` to change, and to what, where that at ``path`` changes from old to new."""
    if path[0] in ("content", "displayContent"):
        other = "displayContent" if path[0] == "content" else "content"
        if record.get("content") == record.get("displayContent"):
            yield (other, *path[1:]), new
    elif path[:1] == ("toolCalls",) and len(path) > 2 and path[2] == "result":
        at = path[1]
        calls = as_list(record.get("toolCalls"))
        display = as_object(calls[at]).get("resultDisplay") if isinstance(at, int) and at < len(calls) else None
        if isinstance(display, str) and (now := carried(display, old, new)) is not None and now != display:
            yield ("toolCalls", at, "resultDisplay"), now
