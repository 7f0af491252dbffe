"""New lines for the end of a rollout, shaped as the program's own."""

from store.events.event import Kind
from store.formats.codex.records import object_of, said
from store.formats.composing import check_said
from store.formats.json_view import JsonObject
from store.formats.new_records import new_record
from store.formats.times import in_iso

_SPEAKERS = {
    Kind.ASSISTANT: ("assistant", "output_text"),
    Kind.SYSTEM: ("developer", "input_text"),
    Kind.USER: ("user", "input_text"),
}


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a line that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`.

    It is an item, so that the model is told; bare where the lines before are.
    """
    check_said(text, kind, _SPEAKERS)
    role, what = _SPEAKERS[kind]
    item: JsonObject = {"type": "message", "role": role, "content": [{"type": what, "text": text}]}
    before = object_of(previous) if previous else {}
    if before and not said(before).base:
        line = item
    else:
        line = {"timestamp": in_iso(now_ms), "type": "response_item", "payload": item}
    return new_record(line, previous)
