"""What a line says twice: a tool's result, in the message and in the program's own copy, ``toolUseResult``."""

from collections.abc import Iterator

from store.events.event import Path
from store.formats.claude_code.results import READ_FILE
from store.formats.json_view import JsonObject, as_list, as_object
from store.formats.twins import carried, carried_to_numbered, texts_in

_RESULT = "toolUseResult"
_ATTACHMENT = "attachment"
_SAID = frozenset(
    (
        "content",
        "error",
        "filenames",
        "message",
        "output",
        "plan",
        "planContent",
        "result",
        "results",
        "stderr",
        "stdout",
        "text",
    )
)
"""The keys under which a result holds what a tool said. Elsewhere only what is long can be the same text."""
_LONG = 20


def twins(line: JsonObject, path: Path, old: str, new: str) -> Iterator[tuple[Path, str]]:
    """Yield the other texts of ``line`` to change, and to what, where that at ``path`` changes from old to new."""
    if path == READ_FILE:
        for place, text in _said_by_tools(line):
            if (now := carried_to_numbered(text, old, new)) is None:
                now = carried(text, old, new)
            if now is not None:
                yield place, now
        return
    if path[0] == _ATTACHMENT:
        copies = [(place, text) for place, text in texts_in(line.get(_ATTACHMENT), (_ATTACHMENT,)) if place != path]
        yield from _changed(copies, old, new)
        return
    alike = [place for place, text in _said_by_tools(line) if text == old]
    if any(place == path for place, _ in _said_by_tools(line)):
        yield from _changed(list(texts_in(line.get(_RESULT), (_RESULT,))), old, new, alike.index(path), len(alike))
    elif path[0] == "message" and isinstance(plan := line.get("planContent"), str):
        yield from _changed([(("planContent",), plan)], old, new)


def _changed(
    copies: list[tuple[Path, str]], old: str, new: str, which: int = 0, of: int = 1
) -> Iterator[tuple[Path, str]]:
    """Yield what of ``copies`` changes with the text, which is number ``which`` of ``of`` that say the same."""
    exact = [place for place, text in copies if text == old and (_is_said(place) or len(old) >= _LONG)]
    if not old:
        # an output of nothing: what is written there now was on one stream, the first
        exact = exact[:1]
    if of > 1:
        exact = [exact[which]] if len(exact) == of else []
    yield from ((place, new) for place in exact)
    for place, text in copies:
        if not _is_said(place) or text == old:
            continue
        now = carried(text, old, new)
        if now is not None and now != text and not (place[-2:-1] == ("filenames",) and (not now or "\n" in now)):
            yield place, now


def _said_by_tools(line: JsonObject) -> Iterator[tuple[Path, str]]:
    """Yield the texts of the tool results in a line's message."""
    for at, part in enumerate(as_list(as_object(line.get("message")).get("content"))):
        if isinstance(part, dict) and part.get("type") == "tool_result":
            place: Path = ("message", "content", at, "content")
            content = part.get("content")
            if isinstance(content, str):
                yield place, content
            for which, inner in enumerate(as_list(content)):
                if isinstance(text := as_object(inner).get("text"), str):
                    yield (*place, which, "text"), text


def _is_said(place: Path) -> bool:
    if len(place) == 1:
        return True
    return next((step for step in reversed(place) if isinstance(step, str)), "") in _SAID
