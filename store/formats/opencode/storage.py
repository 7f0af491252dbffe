"""The files of older versions, each a record.

``storage/session/<project>/<session>.json``, ``storage/message/<session>/<message>.json`` and
``storage/part/<message>/<part>.json``.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from store.formats.files import read_head
from store.formats.format import About
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.opencode.lens import OpencodeMessageLens, part_type
from store.formats.opencode.views import Speaker, speaker_of
from store.formats.titles import first_line

_identifier = re.compile(rb'"id"\s*+:\s*+"([\w-]++)"').search
_role = re.compile(rb'"role"\s*+:\s*+"user"').search
_summary = re.compile(rb'"summary"\s*+:\s*+true').search
_is_session_name = re.compile(r"ses_\w+\.json").fullmatch


def is_session(path: Path, head: bytes) -> bool:
    """Say whether the file at ``path``, which begins with ``head``, is that of a session."""
    if path.suffix != ".json" or path.parent.parent.name != "session":
        return False
    said = document(head)
    if not said:
        return _is_session_name(path.name) is not None and (path.parents[2] / "message" / path.stem).is_dir()
    return isinstance(said.get("id"), str) and isinstance(said.get("time"), dict) and "directory" in said


def records_of(path: Path, head: bytes) -> Iterator[tuple[Path, str]]:
    """Yield the files of a session's messages and parts, in the order of the conversation, with their types."""
    storage = path.parents[2]
    for message in _listed(storage / "message" / (as_text(document(head).get("id")) or path.stem)):
        yield message, OpencodeMessageLens.type_name
        said = read_head(message) or b""
        named = _identifier(said)
        folder = storage / "part" / message.stem
        if not folder.is_dir() and named:
            folder = storage / "part" / named[1].decode()
        kind = part_type(_speaker(said))
        for part in _listed(folder):
            yield part, kind


def describe(path: Path) -> About:
    """Describe the session in the file at ``path``."""
    said = document(read_head(path) or b"")
    directory, started = as_text(said.get("directory")), as_object(said.get("time")).get("created")
    extra = {
        "cwd": directory,
        "tool_version": as_text(said.get("version")),
        "parent_session": as_text(said.get("parentID")),
    }
    return About(
        title=first_line(as_text(said.get("title"))),
        project=directory.replace("\\", "/").rstrip("/").rpartition("/")[2] or path.parent.name,
        started_ms=started if isinstance(started, int) else 0,
        session_id=as_text(said.get("id")) or path.stem,
        extra={key: value for key, value in extra.items() if value},
    )


def document(head: bytes) -> JsonObject:
    """Return what a file says, an empty object for one that is damaged or too long."""
    decoded = decode(head)
    return as_object(decoded.value) if decoded else {}


def _speaker(head: bytes) -> Speaker:
    if said := document(head):
        return speaker_of(said)
    if _role(head):
        return Speaker.USER
    return Speaker.SUMMARY if _summary(head) else Speaker.MODEL


def _listed(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []
