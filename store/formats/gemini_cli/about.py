"""What a session is called and belongs to."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from store.events.event import Kind
from store.formats.files import open_regular, read_head
from store.formats.format import About
from store.formats.gemini_cli import messages
from store.formats.gemini_cli.records import beginning
from store.formats.json_view import JsonObject, as_list, as_object, as_text, decode
from store.formats.lens import Nothing
from store.formats.times import milliseconds
from store.formats.titles import first_line

PROJECT_MARKER, _REGISTRY = ".project_root", "projects.json"
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch
_LITERAL = rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"'
_last_summary = re.compile(rb'\]\s*+,[^\[\]{}]*?("summary"\s*+:\s*+' + _LITERAL + rb")[^{}]*\}\s*\Z").search
_tells = re.compile(rb'"(?:\$set|sessionId)"').search
_TAIL = 16 << 10
_LONGEST_PATH = 4096
_DIGITS = 8


def describe(path: Path, records: Sequence[bytes]) -> About:
    """Describe the session at ``path`` from its first records: by its summary, else by its first request."""
    said = _beside_messages(path)
    request = ""
    for record in records:
        # parsing costs more than everything else
        if request and not _tells(record):
            continue
        decoded = decode(record)
        value = as_object(decoded.value) if decoded else {}
        if (changed := as_object(value.get("$set"))) or ("sessionId" in value and "projectHash" in value):
            said |= {key: item for key, item in (changed or value).items() if key != "messages"}
        elif not request and value.get("type") == "user":
            shown, _ = messages.view(value, Nothing())
            if shown.kind is Kind.USER:
                request = next((block.text for block in shown.blocks if block.text), "") or ""
    root = _project_root(path, as_text(said.get("projectHash"))) or as_text(
        next(iter(as_list(said.get("directories"))), "")
    )
    extra = {"cwd": root}
    if said.get("kind") == "subagent":
        extra |= {"agent": path.stem, "parent_session": path.parent.name}
    return About(
        title=first_line(as_text(said.get("summary")) or request),
        project=_last_part(root) or _folder_of(path) or as_text(said.get("projectHash"))[:_DIGITS],
        started_ms=milliseconds(said.get("startTime")),
        session_id=as_text(said.get("sessionId")) or path.stem,
        extra={key: value for key, value in extra.items() if value},
    )


def _beside_messages(path: Path) -> JsonObject:
    """Return what a session that is one document says beside its messages, before and after them."""
    head = beginning(read_head(path) or b"")
    if not head:
        return {}
    decoded = decode(head + b"]}")
    said = dict(as_object(decoded.value)) if decoded else {}
    if (summary := _last_summary(_tail(path))) is not None and (decoded := decode(b"{" + summary[1] + b"}")):
        said |= as_object(decoded.value)
    return said


def _tail(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""


def _project_root(path: Path, digest: str) -> str:
    """Return the directory that a session was held in, as the program's own lists tell it, "" where they do not."""
    folder = _project_folder(path)
    if folder is None:
        return ""
    if marked := (read_head(folder / PROJECT_MARKER, _LONGEST_PATH) or b"").decode("utf-8", "replace").strip():
        return marked
    registry = folder.parent.parent / _REGISTRY
    try:
        return _registered(registry, registry.stat().st_mtime_ns).get(digest or folder.name, "")
    except OSError:
        return ""


@lru_cache(8)
def _registered(registry: Path, changed: int) -> dict[str, str]:
    """Return the directories of the program's list of projects, by the hash of each."""
    decoded = decode(read_head(registry, 4 << 20) or b"")
    listed = as_object(as_object(decoded.value).get("projects")) if decoded else {}
    return {hashlib.sha256(root.encode()).hexdigest(): root for root in listed}


def _project_folder(path: Path) -> Path | None:
    return next((above.parent for above in path.parents if above.name == "chats"), None)


def _folder_of(path: Path) -> str:
    folder = _project_folder(path)
    return folder.name if folder is not None and folder.parent.name == "tmp" and not _is_hash(folder.name) else ""


def _last_part(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]
