"""What events repeat of an item that was edited: where it is plain which they are, they say the same again."""

from collections.abc import Iterable, Iterator

from store.events.event import Path
from store.formats.codex.content import plain_text
from store.formats.codex.events import OUTPUTS
from store.formats.codex.records import Said, object_of, said
from store.formats.json_view import JsonObject, as_list, as_object, as_text
from store.formats.nested import document_in
from store.formats.new_literals import spell
from store.formats.splices import put
from store.formats.twins import carried

Near = Iterable[tuple[int, bytes]]


def echoes(old: bytes, new: bytes, before: Near, after: Near) -> dict[int, bytes]:
    """Return the records around an edited one that are to say something else now. See ``EditableLens.echoes``."""
    was, now = said(object_of(old)), said(object_of(new))
    changed: dict[int, bytes] = {}
    if was.what == "event_msg":
        if was.item.get("type") == "user_message":
            texts = as_text(was.item.get("message")), as_text(now.item.get("message"))
            _put_first(changed, (after,), "user", *texts)
        return changed
    if was.what != "response_item":
        return changed
    match was.item.get("type"):
        case "message" | None:
            texts = plain_text(was.item.get("content")), plain_text(now.item.get("content"))
            if was.item.get("role") == "user":
                _put_first(changed, (after,), "user_message", *texts)
            elif was.item.get("role") == "assistant":
                _put_first(changed, (before, after), "agent_message", *texts)
                _put_first(changed, (after,), "task_complete", *texts)
        case "reasoning":
            for one, other in zip(_summary(was.item), _summary(now.item), strict=False):
                _put_first(changed, (before, after), "agent_reasoning", one, other)
        case str(what) if what.endswith("_output"):
            call, texts = as_text(was.item.get("call_id")), (_output(was.item), _output(now.item))
            _put_outputs(changed, (before, after), call, *texts)
    return changed


_SAID_IN = {"agent_message": "message", "agent_reasoning": "text", "task_complete": "last_agent_message"}


def _put_first(changed: dict[int, bytes], near: Iterable[Near], what: str, old: str, new: str) -> None:
    """Have the first record of type ``what`` that says ``old`` say ``new``."""
    if old == new or not old:
        return
    for number, record in (found for some in near for found in some):
        line = said(object_of(record))
        for path, text in _places(line, what):
            if text == old and number not in changed:
                changed[number] = put(record, path, spell(new, record))
                return


def _places(line: Said, what: str) -> Iterator[tuple[Path, str]]:
    """Yield where a line says something, and what, if it is of type ``what``: an event's, or a role for an item."""
    if line.what == "event_msg" and line.item.get("type") == what:
        key = _SAID_IN.get(what, "message")
        yield (*line.base, key), as_text(line.item.get(key))
    elif line.what == "response_item" and line.item.get("role") == what:
        parts = as_list(line.item.get("content"))
        if len(parts) == 1:
            yield (*line.base, "content", 0, "text"), as_text(as_object(parts[0]).get("text"))


def _put_outputs(changed: dict[int, bytes], near: Iterable[Near], call: str, old: str, new: str) -> None:
    """Have the event of a call say of its output what the item says now."""
    if old == new or not call:
        return
    for number, record in (found for some in near for found in some):
        line = said(object_of(record))
        if line.what != "event_msg" or line.item.get("call_id") != call:
            continue
        edited = record
        for key in OUTPUTS:
            text = line.item.get(key)
            if isinstance(text, str) and (now := carried(text, old, new)) is not None and now != text:
                edited = put(edited, (*line.base, key), spell(now, record))
        if edited != record:
            changed[number] = edited
            return


def _summary(item: JsonObject) -> list[str]:
    return [as_text(as_object(part).get("text")) for part in as_list(item.get("summary"))]


def _output(item: JsonObject) -> str:
    """Return what a call returned, out of its wrapping."""
    output = item.get("output")
    if isinstance(output, str):
        wrapped = as_object(document_in(output)).get("output") if output.startswith('{"output":') else None
        return wrapped if isinstance(wrapped, str) else output
    return plain_text(output) or as_text(as_object(output).get("content"))
