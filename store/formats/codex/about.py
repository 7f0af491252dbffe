"""What a rollout is called and belongs to."""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from store.formats.codex.content import plain_text
from store.formats.codex.items import is_injected
from store.formats.codex.records import Said, object_of, said
from store.formats.files import open_regular
from store.formats.format import About
from store.formats.json_view import JsonObject, as_object, as_text
from store.formats.times import milliseconds
from store.formats.titles import first_line

_LONGEST_TITLE_LINE = 4096
_working_directory = re.compile(r"<cwd>(.*?)</cwd>|Current working directory: (.+)").search
_named = re.compile(r"rollout-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(.+)").fullmatch
_KEPT_IN = ("sessions", "archived_sessions")
_INDEX = "session_index.jsonl"
_MOST_OF_INDEX = 4 << 20
_NAMING = b'"thread_name_updated"'
_tells = re.compile(rb'"(?:session_meta|user|user_message|instructions|git|thread_name_updated)"').search
_OF_IDE = "## My request for Codex:"


def describe(path: Path, records: Sequence[bytes]) -> About:
    """Describe the rollout at ``path`` from its first records.

    The title is the name that its user gave it, else the first request; the project its working directory's.
    """
    meta: JsonObject = {}
    name = request = directory = ""
    begun = milliseconds(object_of(records[0]).get("timestamp")) if records else 0
    for at, record in enumerate(records):
        # parsing costs more than everything else
        complete = meta and request and directory
        if at and not (_NAMING in record if complete else _tells(record)):
            continue
        line = said(object_of(record))
        match line.what:
            case "session_meta" if not meta:
                meta = line.item
                directory = as_text(meta.get("cwd"))
            case "event_msg" if line.item.get("type") == "thread_name_updated":
                name = as_text(line.item.get("thread_name")) or name
            case _ if not request or not directory:
                asked = _asked(line)
                if not directory and (found := _working_directory(asked)) is not None:
                    directory = found[1] or found[2]
                if asked and not request and not is_injected(asked):
                    request = asked
    stem = _named(path.name.removesuffix(".json").removesuffix(".jsonl"))
    session = as_text(meta.get("id")) or (stem[5] if stem else path.stem)
    extra = {
        "cwd": directory,
        "branch": as_text(as_object(meta.get("git")).get("branch")),
        "tool_version": as_text(meta.get("cli_version")),
        **_agent(meta),
    }
    return About(
        title=first_line(_indexed_name(path, session) or name or request.rpartition(_OF_IDE)[2] or request),
        project=directory.replace("\\", "/").rstrip("/").rpartition("/")[2],
        started_ms=milliseconds(meta.get("timestamp")) or _time_in_name(stem) or begun,
        session_id=session,
        extra={key: value for key, value in extra.items() if value},
        forked_from=as_text(meta.get("forked_from_id")),
    )


def may_title(record: bytes) -> bool:
    """Say whether a line may be one that names the session, without parsing it."""
    return len(record) <= _LONGEST_TITLE_LINE and _NAMING in record


def is_rollout_name(name: str) -> bool:
    """Say whether a file is called as rollouts are."""
    return _named(name.removesuffix(".jsonl")) is not None


def _asked(line: Said) -> str:
    """Return what a line asks for, "" where it does not."""
    if line.what == "event_msg":
        return as_text(line.item.get("message")) if line.item.get("type") == "user_message" else ""
    if line.what == "response_item" and line.item.get("role") == "user":
        return plain_text(line.item.get("content"))
    return ""


def _agent(meta: JsonObject) -> dict[str, str]:
    """Say which agent a session is of, and which session started it, where it is a subagent's."""
    spawned = as_object(as_object(as_object(meta.get("source")).get("subagent")).get("thread_spawn"))
    parent = as_text(meta.get("parent_thread_id")) or as_text(spawned.get("parent_thread_id"))
    agent = as_text(meta.get("agent_nickname")) or as_text(spawned.get("agent_nickname"))
    return {"parent_session": parent, "agent": agent}


def _time_in_name(stem: re.Match[str] | None) -> int:
    return milliseconds(f"{stem[1]}T{stem[2]}:{stem[3]}:{stem[4]}") if stem else 0


def _indexed_name(path: Path, session: str) -> str:
    """Return the name that the list of sessions, which lies beside their directories, gives one."""
    kept_in = next((above for above in path.parents if above.name in _KEPT_IN), None)
    if kept_in is None:
        return ""
    index = kept_in.parent / _INDEX
    try:
        return _names(index, index.stat().st_mtime_ns).get(session, "")
    except OSError:
        return ""


@lru_cache(8)
def _names(index: Path, changed: int) -> dict[str, str]:
    """Return the last name of each session in a list, by id; of a long list only its end is read."""
    with open_regular(index) as file:
        size = index.stat().st_size
        file.seek(max(0, size - _MOST_OF_INDEX))
        lines = file.read(_MOST_OF_INDEX).split(b"\n")
    entries = map(object_of, lines)
    return {as_text(entry.get("id")): name for entry in entries if (name := as_text(entry.get("thread_name")).strip())}
