"""New events as people write them: what a format is told of one beside its text, and the records that they become.

A template of a record is JSON, in which words that begin with ``$`` stand for what the event says: those of
store/FORMATS.md, and ``$asked.PLACE`` for a value of the call or the question that it answers. A member whose key ends
in ``?`` is left out where it would say nothing.
"""

import json
import os
import uuid
from collections.abc import Mapping

from msgspec import Struct

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.json_view import JsonObject, object_in, place, value_at
from store.formats.core.lens import Value
from store.formats.core.times import in_iso


class Particulars(Struct, frozen=True):
    """The particulars of a new event.

    ``tool`` is the tool of a call or a result. ``id`` is the id of a call or a question (in itself "" for a new one);
    a result and an answer have that of theirs. ``document`` is the JSON object of a call's arguments, a configuration
    or a question's options; None where there is none. ``failed`` says whether a result is that of a call that failed.
    ``head`` are the other fields of its head. ``session`` is the tool's own id of the conversation, ``first`` and
    ``last`` are records of that, and ``asked`` is the call or question that this one answers.
    """

    tool: str = ""
    id: str = ""
    document: JsonObject | None = None
    failed: bool = False
    head: Mapping[str, Value] = {}
    session: str = ""
    first: bytes | None = None
    last: bytes | None = None
    asked: bytes | None = None

    def new_id(self, prefix: str) -> str:
        """Return the id of a call or a question: the one asked for, else a new one that begins with ``prefix``."""
        return self.id or prefix + os.urandom(12).hex()

    def arguments(self, text: str) -> JsonObject:
        """Return the arguments of a call. Raises UsageError for those that are a ``text`` and no JSON."""
        if self.document is None and text.strip():
            raise UsageError(
                f"the arguments of {self.tool} are a JSON object: write one, or blocks such as arguments.command"
            )
        return self.document or {}

    def configuration(self, text: str) -> JsonObject:
        """Return a configuration. Raises UsageError where it is none."""
        if not self.document:
            raise UsageError("a config is a JSON object: write one, or a block of json")
        return self.document


NO_PARTICULARS = Particulars()


Template = JsonObject


def recorded(
    template: Template, kind: Kind, text: str, now_ms: int, more: Particulars, prefix: str = "call_", /, **other: object
) -> JsonObject:
    """Return a template with what an event says, and ``other`` values; new ids of calls begin with ``prefix``.

    Raises UsageError for arguments that are no JSON, and for a template that asks for what there is not.
    """
    values: dict[str, object] = {
        "text": text,
        "tool": more.tool,
        "id": more.new_id(prefix) if kind is Kind.TOOL_CALL else more.id,
        "failed": more.failed,
        "worked": not more.failed,
        "output": "" if more.failed else text,
        "error": text if more.failed else "",
        "time": in_iso(now_ms),
        "ms": now_ms,
        "seconds": now_ms // 1000,
        "null": None,
        "session": more.session,
        "asked": object_in(more.asked),
        **other,
    }
    if kind is Kind.TOOL_CALL:
        given = more.arguments(text)
        values |= {"arguments": given, "arguments_json": json.dumps(given, ensure_ascii=False)}
    if kind is Kind.CONFIG:
        values["configuration"] = more.configuration(text)
    return dict(_members(template, values))


def filled(template: object, values: Mapping[str, object]) -> object:
    """Return a template, or a part of one, with these values."""
    if isinstance(template, str) and template.startswith("$"):
        name, _, where = template[1:].partition(".")
        if name not in values and name != "uuid":
            raise UsageError(f"the description of this format asks for ${name}, which such an event has not")
        value = values.get(name, uuid.uuid4)
        return str(value()) if callable(value) else value_at(value, place(where))
    if isinstance(template, dict):
        return dict(_members(template, values))
    return [filled(item, values) for item in template] if isinstance(template, list) else template


def _members(template: Template, values: Mapping[str, object]) -> list[tuple[str, object]]:
    found = [(key, filled(item, values)) for key, item in template.items()]
    return [(key.removesuffix("?"), item) for key, item in found if item not in (None, "", {}) or not key.endswith("?")]
