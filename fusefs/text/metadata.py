"""``metadata.json``: the facts about a conversation as a whole, and its users' own entries, which they may change."""

import json
import re
from collections.abc import Mapping, Sequence

import msgspec

from fusefs.text.grammar import timestamp
from fusefs.text.parse import ParseError
from store.events.conversation import BEGUN, Conversation, is_output
from store.settings import OVERRIDING

SETTABLE: Mapping[str, object] = {"title": "", "labels": [], "pinned": False, "archived": False}
"""Fields that may be changed, which come first, each with the value of none."""

ADDABLE = OVERRIDING
"""Fields that may be added, changed and taken out: settings of this conversation in place of the store's."""

_MAY = ", ".join((*SETTABLE, *ADDABLE))

_GROWING = ("records", "events", "updated")
"""Fields that rise while a conversation goes on: a file that is written back late may say less."""

_EVENTS = "events"
"""The field that is left out while it is not known of every record whether it is an event."""

_KEPT_FOR_PROGRAMS = frozenset(
    {
        BEGUN,
        "begins",
        "born",
        "called",
        "copied",
        "cursor",
        "envelope",
        "envelope_blob",
        "exported_as",
        "exports",
        "file",
        "first",
        "imported_head",
        "main",
        "moved_from",
        "naming",
        "native_gone",
        "own_place",
        "own_title",
        "part",
        "sidecars",
        "started_ms",
        "updated_ms",
    }
)
"""Metadata of a conversation that importing, exporting and editing keep for themselves,"""

_OF_FILES = frozenset(
    {
        "beside",
        "incomplete",
        "layout",
        "layout_came",
        "marks",
        "missing",
        "original",
        "original_of",
        "rendered",
        "rewritten",
        "titled",
        "written_ns",
    }
)
"""and what the next import needs to know of a session's files."""

_LONGEST_INTERNAL = 2000
"""The most characters of a value in the extended attribute, which has room for 64 KB."""


def metadata_table(conversation: Conversation) -> dict[str, object]:
    """Return the contents of ``metadata.json``: the metadata, and the store's other facts."""
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
        _EVENTS: conversation.events,
        "created": timestamp(conversation.created_ms),
        "updated": timestamp(conversation.updated_ms),
    }
    if conversation.unsure:
        del table[_EVENTS]
    shown = (key for key in metadata if not _is_internal(key))
    return table | {key: metadata[key] for key in shown if key not in table}


def _is_internal(key: str) -> bool:
    return key in _KEPT_FOR_PROGRAMS or key in _OF_FILES or is_output(key)


def internals_text(conversation: Conversation) -> str:
    """Return as JSON what ``metadata.json`` leaves out; long values are told by their size."""
    kept = {key: value for key, value in conversation.metadata.items() if _is_internal(key) and not is_output(key)}
    sizes = {key: len(json.dumps(value)) for key, value in kept.items()}
    return json.dumps(
        {key: value if sizes[key] <= _LONGEST_INTERNAL else {"size": sizes[key]} for key, value in kept.items()}
    )


def metadata_text(conversation: Conversation) -> bytes:
    """Return the text of ``metadata.json``."""
    return msgspec.json.format(msgspec.json.encode(metadata_table(conversation)), indent=2) + b"\n"


def described(title: str, labels: Sequence[str]) -> list[tuple[int, str]]:
    """Return the lines of a ``metadata.json`` that have the title and each label, each with its number."""
    # these are its first keys, and others follow
    table = {"title": title, "labels": labels, "pinned": False}
    lines = msgspec.json.format(msgspec.json.encode(table), indent=2).decode().split("\n")
    return [(at + 1, lines[at]) for at in (1, *range(3, 3 + len(labels)))]


def metadata_said(data: bytes) -> dict[str, object]:
    """Return the values in ``data``, the text of a ``metadata.json``. Raises ParseError if that is no JSON object."""
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
    """Return the changes that ``data``, which says ``said``, makes to ``shown``; None for removed keys.

    What may be changed and is left out is removed. Raises ParseError where anything else is not what it was.
    """
    for key, value in said.items():
        if key not in (*SETTABLE, *ADDABLE) and not _stands(key, value, shown):
            raise ParseError(line_of(data, key), _refusal(key, shown))
    for key in shown:
        if key not in (*SETTABLE, *ADDABLE, _EVENTS) and key not in said:
            raise ParseError(1, f'"{key}" is missing: write all back, and change {_MAY}')
    changed = {key: said.get(key, none) for key, none in SETTABLE.items() if said.get(key, none) != shown[key]}
    changes = {key: None if value == SETTABLE[key] else value for key, value in changed.items()}
    return changes | {
        key: said.get(key) or None for key in ADDABLE if (said.get(key) or None) != (shown.get(key) or None)
    }


def line_of(data: bytes, key: str) -> int:
    """Return the line on which a key stands; 1 if it cannot be found."""
    found = re.search(re.escape(json.dumps(key, ensure_ascii=False).encode(errors="replace")) + rb"\s*:", data)
    return data.count(b"\n", 0, found.start()) + 1 if found else 1


def _stands(key: str, value: object, shown: Mapping[str, object]) -> bool:
    if key not in shown:
        # the file may have been read while it was known
        return key == _EVENTS
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
