"""``metadata.json``: what is known of a conversation as a whole, and what people say of it, which they may change."""

import json
import re
from collections.abc import Mapping

import msgspec

from fusefs.text.grammar import timestamp
from fusefs.text.parse import ParseError
from store.events.conversation import Conversation
from store.events.outputs import is_output
from store.rules import OVERRIDING

SETTABLE: Mapping[str, object] = {"title": "", "labels": [], "pinned": False, "archived": False}
"""What may be changed, which comes first, and what says that there is none."""

ADDABLE = OVERRIDING
"""What may be added, changed and taken out: what holds for this conversation instead of the store's settings."""

_MAY = ", ".join((*SETTABLE, *ADDABLE))

_GROWING = ("records", "events", "updated")
"""What rises while a conversation goes on: a file that is written back late may say less."""

_KEPT_FOR_PROGRAMS = frozenset(
    {
        "begins",
        "copied",
        "cursor",
        "envelope",
        "envelope_blob",
        "exported_as",
        "file",
        "first",
        "imported_head",
        "main",
        "native_gone",
        "own_title",
        "part",
        "sidecars",
        "started_ms",
        "updated_ms",
    }
)
"""What importing, exporting and editing keep in a conversation's metadata for themselves."""


def metadata_table(conversation: Conversation) -> dict[str, object]:
    """Return what ``metadata.json`` holds: the metadata, and what the store knows besides."""
    metadata = conversation.metadata
    table: dict[str, object] = {
        "title": conversation.title,
        "labels": conversation.labels,
        "pinned": metadata.get("pinned") is True,
        "archived": metadata.get("archived") is True,
        "project": conversation.project,
        "name": conversation.name,
        "format": conversation.format,
        "source": conversation.source,
        "context": conversation.id,
        "records": conversation.records,
        "events": conversation.events,
        "created": timestamp(conversation.created_ms),
        "updated": timestamp(conversation.updated_ms),
    }
    shown = (key for key in metadata if key not in _KEPT_FOR_PROGRAMS and not is_output(key))
    return table | {key: metadata[key] for key in shown if key not in table}


def metadata_text(conversation: Conversation) -> bytes:
    """Return the text of ``metadata.json``."""
    return msgspec.json.format(msgspec.json.encode(metadata_table(conversation)), indent=2) + b"\n"


def metadata_said(data: bytes) -> dict[str, object]:
    """Return what ``data``, the text of a ``metadata.json``, says. Raises ParseError for what is no object in JSON."""
    try:
        text = data.decode("utf-8-sig")
        table = json.loads(text)
    except UnicodeDecodeError as error:
        raise ParseError(data.count(b"\n", 0, error.start) + 1, "this is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ParseError(error.lineno, f"this is not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise ParseError(1, f"this is too much: {error}") from None
    if not isinstance(table, dict):
        raise ParseError(1, 'this must be an object: {"title": …}')
    return table


def metadata_changes(shown: Mapping[str, object], said: Mapping[str, object], data: bytes) -> dict[str, object]:
    """Return what ``data``, which says ``said``, changes of what is ``shown``; None for what is removed.

    What may be changed and is left out is removed. Raises ParseError where anything else is not what it was.
    """
    for key, value in said.items():
        if key not in (*SETTABLE, *ADDABLE) and not _stands(key, value, shown):
            raise ParseError(line_of(data, key), _refusal(key, shown))
    for key in shown:
        if key not in (*SETTABLE, *ADDABLE) and key not in said:
            raise ParseError(1, f'"{key}" is missing: write all back, and change {_MAY}')
    changed = {key: said.get(key, none) for key, none in SETTABLE.items() if said.get(key, none) != shown[key]}
    changes = {key: None if value == SETTABLE[key] else value for key, value in changed.items()}
    return changes | {
        key: said.get(key) or None for key in ADDABLE if (said.get(key) or None) != (shown.get(key) or None)
    }


def line_of(data: bytes, key: str) -> int:
    """Return the line on which a key stands; 1 where it cannot be told."""
    found = re.search(re.escape(json.dumps(key, ensure_ascii=False).encode(errors="replace")) + rb"\s*:", data)
    return data.count(b"\n", 0, found.start()) + 1 if found else 1


def _stands(key: str, value: object, shown: Mapping[str, object]) -> bool:
    """Say whether a value is what is shown, or was."""
    if key not in shown:
        return False
    now = shown[key]
    if key in _GROWING and type(value) is type(now):
        return bool(value <= now)  # type: ignore[operator]  # both numbers, or both times
    return json.dumps(value, sort_keys=True) == json.dumps(now, sort_keys=True)


def _refusal(key: str, shown: Mapping[str, object]) -> str:
    if key in ("project", "name"):
        return f'"{key}" cannot be changed here: move the directory'
    if key not in shown:
        return f"{json.dumps(key, ensure_ascii=False)} cannot be added: only {_MAY}"
    return f'"{key}" cannot be changed: only {_MAY}'
