"""New messages for the end of a session: a part with its text, and the message that it is of."""

import secrets
import string

import msgspec

from store.errors import UsageError
from store.events.event import Kind
from store.formats.composing import check_said
from store.formats.json_view import JsonObject
from store.formats.sqlite.rows import Row, decode_row, encode_row

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_DIGITS = 14
_NO_TOKENS: JsonObject = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
_SAID = {Kind.ASSISTANT: "assistant", Kind.USER: "user"}
_encode = msgspec.json.Encoder().encode


def compose(kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
    """Return a row of a part that follows ``previous``. See :meth:`store.formats.lens.Lens.compose`."""
    check_said(text, kind, _SAID)
    before = _row(previous)
    session = before.cells.get("session_id") or (before.key.get("id") if before.table == "session" else None)
    if not isinstance(session, str):
        raise UsageError("messages can only be added to sessions of opencode's database: add it with opencode")
    provider, _, model = str(before.about.get("model", "")).partition("/")
    message: JsonObject = {"role": _SAID[kind], "time": {"created": now_ms}, "agent": "build"}
    if kind is Kind.USER:
        message["model"] = {"providerID": provider, "modelID": model}
    else:
        parent = before.cells.get("message_id") or before.key.get("id")
        message |= {
            "time": {"created": now_ms, "completed": now_ms},
            "parentID": parent,
            "modelID": model,
            "providerID": provider,
            "mode": "build",
            "path": {"cwd": "", "root": ""},
            "cost": 0,
            "tokens": _NO_TOKENS,
            "finish": "stop",
        }
    times: dict[str, str | int | float | None] = {"time_created": now_ms, "time_updated": now_ms}
    owner = _identifier("msg", now_ms)
    said = Row(table="message", key={"id": owner}, cells={"session_id": session, **times}, json={"data": _raw(message)})
    row = Row(
        table="part",
        key={"id": _identifier("prt", now_ms)},
        cells={"message_id": owner, "session_id": session, **times},
        json={"data": _raw({"type": "text", "text": text, "time": {"start": now_ms, "end": now_ms}})},
        about={"role": _SAID[kind], **{key: value for key, value in before.about.items() if key == "model"}},
        rows=(said,),
    )
    return encode_row(row)


def _row(record: bytes | None) -> Row:
    try:
        return decode_row(record or b"{}")
    except (msgspec.DecodeError, msgspec.ValidationError):
        return Row()


def _identifier(prefix: str, now_ms: int) -> str:
    """Return an id as the program makes them: such that later ones come after earlier ones."""
    counted = (now_ms * 0x1000 + 1) & ((1 << 48) - 1)
    return f"{prefix}_{counted:012x}" + "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM_DIGITS))


def _raw(value: JsonObject) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))
