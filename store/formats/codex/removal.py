"""Lines taken out of a rollout so that the program can go on with the rest."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set

from store.formats.codex.content import plain_text
from store.formats.codex.records import Said, object_of, said
from store.formats.json_view import as_list, as_object, as_text
from store.formats.splices import without_elements

_Message = tuple[str, str]
"""Who says what."""

_TWINS = {"user_message": "user", "agent_message": "assistant"}
_NEAR = 32
"""How many lines away, at most, an event stands from the item that says the same."""


def without(records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
    """Return ``records`` without those at positions ``deleted``.

    With an item goes the event that says the same; with a call its output and events; with what the model said or
    called the reasoning before it, which may not stand alone. Messages leave what compactions kept of them, too.
    """
    lines = [said(object_of(record)) for record in records]
    gone = set(deleted)
    calls = {call for at in deleted if (call := _call(lines[at]))}
    if calls:
        gone |= {at for at, line in enumerate(lines) if _call(line) in calls}
    for at in sorted(gone):
        gone |= set(_twins(lines, at)) | set(_reasoning(lines, at))
    forgotten: Counter[_Message] = Counter()
    kept: list[bytes] = []
    for at, record in enumerate(records):
        if at in gone:
            # of an item and its event, one counts
            if lines[at].what == "response_item" and (message := _message(lines[at])) is not None:
                forgotten[message] += 1
        elif lines[at].what == "compacted" and forgotten:
            kept.append(_without_messages(record, lines[at], forgotten))
        else:
            kept.append(record)
    return kept


def _without_messages(record: bytes, line: Said, forgotten: Counter[_Message]) -> bytes:
    """Return a compaction without messages that are gone, as often as each was deleted before it."""
    left = forgotten.copy()
    removed: set[int] = set()
    for at, item in enumerate(as_list(line.item.get("replacement_history"))):
        message = _message_of(as_object(item))
        if message is not None and left[message] > 0:
            left[message] -= 1
            removed.add(at)
    return without_elements(record, (*line.base, "replacement_history"), removed) if removed else record


def _twins(lines: Sequence[Said], at: int) -> Iterator[int]:
    """Yield where near line ``at`` the same message stands as the other kind of line."""
    message = _message(lines[at])
    if message is None:
        return
    # a request's event follows its item; an answer's comes before it, or after
    is_event, is_request = lines[at].what == "event_msg", message[0] == "user"
    directions = ((-1,) if is_event else (1,)) if is_request else (-1, 1)
    for distance in range(1, _NEAR + 1):
        for other in (at + direction * distance for direction in directions):
            if 0 <= other < len(lines) and lines[other].what != lines[at].what and _message(lines[other]) == message:
                yield other
                return


def _reasoning(lines: Sequence[Said], at: int) -> Iterator[int]:
    """Yield the reasoning that directly precedes the answer or call at ``at``."""
    if lines[at].what != "response_item":
        return
    what, role = lines[at].item.get("type"), lines[at].item.get("role")
    if not (as_text(what).endswith("_call") or (what == "message" and role == "assistant")):
        return
    for before in range(at - 1, -1, -1):
        if lines[before].what != "response_item":
            continue
        if lines[before].item.get("type") != "reasoning":
            return
        yield before


def _message(line: Said) -> _Message | None:
    """Return who says what in a message, None for other lines."""
    if line.what == "event_msg":
        role = _TWINS.get(as_text(line.item.get("type")), "")
        return (role, as_text(line.item.get("message"))) if role else None
    return _message_of(line.item) if line.what == "response_item" else None


def _message_of(item: dict[str, object]) -> _Message | None:
    role, text = as_text(item.get("role")), plain_text(item.get("content"))
    return (role, text) if role in _TWINS.values() and text else None


def _call(line: Said) -> str:
    return as_text(line.item.get("call_id")) if line.what in ("response_item", "event_msg") else ""
