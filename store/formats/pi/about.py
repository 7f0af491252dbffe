"""What a session is called and belongs to."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from store.formats.format import About
from store.formats.json_view import JsonObject, as_object, as_text, decode, is_object
from store.formats.pi.title_slot import is_slot
from store.formats.times import milliseconds
from store.formats.titles import first_line

_title_line = re.compile(rb'"type"\s*+:\s*+"(?:title|title_change|session_info)"').search
_LONGEST_TITLE_LINE = 4096
_folder = re.compile(r"--?(.+?)(?:--)?").fullmatch


def describe(path: Path, records: Sequence[bytes]) -> About:
    """Describe the session at ``path`` from its first records.

    The title is the one in its place at the beginning, else that which it got last, else the first request.
    """
    slot = named = prompt = ""
    header: JsonObject = {}
    for record in records:
        if not may_title(record) and (header or b'"session"' not in record) and (prompt or b'"user"' not in record):
            continue
        decoded = decode(record)
        if decoded is None or not is_object(line := decoded.value):
            continue
        match line.get("type"):
            case "title" if is_slot(line):
                slot = slot or as_text(line.get("title"))
            case "session" if not header:
                header = line
            case "title_change":
                named = as_text(line.get("title")) or named
            case "session_info":
                named = as_text(line.get("name")) or named
            case "message" if not prompt:
                prompt = _request(as_object(line.get("message")))
    cwd = as_text(header.get("cwd"))
    extra = {"cwd": cwd} if cwd else {}
    if (above := path.parent.with_name(path.parent.name + path.suffix)).is_file():
        extra |= {"agent": path.stem, "parent_session": _session_of(above.name)}
    parent = as_text(header.get("parentSession")) or as_text(header.get("branchedFrom"))
    return About(
        title=first_line(slot or named or as_text(header.get("title")) or prompt),
        project=PurePosixPath(cwd.replace("\\", "/")).name or _project_of(path.parent),
        started_ms=milliseconds(header.get("timestamp")),
        session_id=as_text(header.get("id")) or path.stem,
        extra=extra,
        forked_from=_session_of(parent),
    )


def may_title(record: bytes) -> bool:
    """Say whether a line may be of a type that carries a title, without parsing it."""
    return len(record) <= _LONGEST_TITLE_LINE and _title_line(record) is not None


def _request(message: JsonObject) -> str:
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    if isinstance(content, list):
        content = next((part["text"] for part in content if isinstance(part, dict) and part.get("type") == "text"), "")
    return as_text(content)


def _session_of(parent: str) -> str:
    """Return the id of a session that is named by its id or by the path of its file (``…/<time>_<id>.jsonl``)."""
    name = parent.replace("\\", "/").rpartition("/")[2]
    return name.removesuffix(".jsonl").rpartition("_")[2] if name.endswith(".jsonl") else parent


def _project_of(folder: Path) -> str:
    """Name the project of a folder called after a working directory, which hides where its last part begins."""
    named = _folder(folder.name)
    return named[1] if named else folder.name
