"""Lines of Codex's rollouts, as tests write them."""

import json

SESSION = "019d85eb-8e2e-7e83-8d90-640dce44d5f9"
TIME = "2026-04-13T08:18:20.339Z"


def line(what: str, payload: dict[str, object], time: str = TIME) -> dict[str, object]:
    return {"timestamp": time, "type": what, "payload": payload}


def meta(**fields: object) -> dict[str, object]:
    payload = {"id": SESSION, "timestamp": TIME, "cwd": "/home/ada/shop", "originator": "codex-tui", **fields}
    return line("session_meta", payload)


def item(kind: str, **fields: object) -> dict[str, object]:
    return line("response_item", {"type": kind, **fields})


def message(role: str, *texts: str, **fields: object) -> dict[str, object]:
    what = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": what, "text": text} for text in texts], **fields)


def event(kind: str, **fields: object) -> dict[str, object]:
    return line("event_msg", {"type": kind, **fields})


def call(name: str, identifier: str = "c1", **arguments: object) -> dict[str, object]:
    return item("function_call", name=name, arguments=json.dumps(arguments), call_id=identifier)


def output(text: object, identifier: str = "c1") -> dict[str, object]:
    return item("function_call_output", call_id=identifier, output=text)


def written(*records: dict[str, object] | bytes) -> bytes:
    """Return the bytes of a file."""
    return b"".join(spelled(record) + b"\n" for record in records)


def spelled(record: dict[str, object] | bytes) -> bytes:
    """Return a line as the program spells it."""
    if isinstance(record, bytes):
        return record
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
