"""What a Claude Code session is called and belongs to."""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from store.events.event import Kind
from store.formats.claude_code.messages import user
from store.formats.files import head_lines, read_head
from store.formats.format import About
from store.formats.json_view import JsonObject, as_object, as_text, decode, is_object
from store.formats.lens import Nothing
from store.formats.times import milliseconds
from store.formats.titles import first_line

_FROM_FIRST = ("cwd", "sessionId", "timestamp", "gitBranch", "version")
_title_line = re.compile(rb'"type"\s*+:\s*+"(?:ai-title|custom-title|summary)"').search
_LONGEST_TITLE_LINE = 4096
_uuid = re.compile(rb'"uuid"\s*+:\s*+"([0-9A-Za-z-]++)"').search
_FIRST_LINES = frozenset(("summary", "file-history-snapshot"))
is_session_name = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_command = re.compile(r"<command-name>(.*?)</command-name>").search
_arguments = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL).search
_mangled = re.compile(r"[^a-zA-Z0-9]").sub
_MOST_NEIGHBOURS = 20


def is_line(line: JsonObject) -> bool:
    """Say whether a parsed JSON object is a line of a Claude Code session."""
    if not isinstance(what := line.get("type"), str):
        return False
    if "parentUuid" in line and "uuid" in line:
        return True
    return "sessionId" in line or (what in _FIRST_LINES and ("leafUuid" in line or "messageId" in line))


def describe(path: Path, records: Sequence[bytes]) -> About:
    """Describe the session at ``path`` from its first records.

    The title is the one that its user gave, else that which the program made, else the first request.
    """
    given = made = prompt = aside = command = ""
    summaries: list[tuple[str, str]] = []
    first: dict[str, str] = {}
    forked_from = ""
    is_agent = path.stem.startswith("agent-")
    # parsing costs more than everything else: only what may tell something is parsed
    missing = {key: f'"{key}"'.encode() for key in (*_FROM_FIRST, *(("agentId",) if is_agent else ()))}
    for record in records:
        tells = may_title(record) or (not prompt and b'"user"' in record)
        if not tells and not any(key in record for key in missing.values()):
            continue
        decoded = decode(record)
        if decoded is None or not is_object(line := decoded.value):
            continue
        forked_from = forked_from or as_text(as_object(line.get("forkedFrom")).get("sessionId"))
        for key in [key for key in missing if as_text(line.get(key))]:
            first[key] = as_text(line[key])
            del missing[key]
        match line.get("type"):
            case "custom-title":
                given = as_text(line.get("customTitle")) or given
            case "ai-title":
                made = as_text(line.get("aiTitle")) or made
            case "summary":
                summaries.append((as_text(line.get("leafUuid")), as_text(line.get("summary"))))
            case "user" if not prompt:
                spoken, slash = _request(line)
                if is_agent or line.get("isSidechain") is not True:
                    prompt, command = spoken, command or slash
                else:
                    aside = aside or spoken
    uuids = {named[1].decode() for record in records if (named := _uuid(record))} if summaries else set()
    own = [text for leaf, text in summaries if leaf in uuids]
    summary = own[-1] if own else summaries[0][1] if summaries else ""
    extra = {"cwd": first.get("cwd"), "branch": first.get("gitBranch"), "tool_version": first.get("version")}
    session = first.get("sessionId", "")
    if is_agent:
        extra |= {"agent": first.get("agentId") or path.stem.removeprefix("agent-"), "parent_session": session}
    return About(
        title=first_line(given or made or summary or prompt or command or aside),
        project=_last_part(first.get("cwd", "")) or project_of_folder(path.parent),
        started_ms=milliseconds(first.get("timestamp")),
        session_id=path.stem if is_agent or is_session_name(path.stem) else session or path.stem,
        extra={key: value for key, value in extra.items() if value},
        forked_from=forked_from,
    )


def may_title(record: bytes) -> bool:
    """Say whether a line may be of a type that carries a title, without parsing it."""
    return len(record) <= _LONGEST_TITLE_LINE and _title_line(record) is not None


def folder_name(path: str) -> str:
    """Return what the folder of the sessions of a working directory is called."""
    return _mangled("-", path)


def project_of_folder(folder: Path) -> str:
    """Name the project of a folder of sessions.

    A folder is called after the project's path with everything but letters and digits as ``-``, which hides where the
    last part begins; a neighbouring session that names its working directory tells.
    """
    if folder.name == "subagents":
        folder = folder.parent.parent
    if not folder.name.startswith("-"):
        return folder.name
    try:
        return _told_by_neighbours(folder, folder.stat().st_mtime_ns) or folder.name.lstrip("-")
    except OSError:
        return folder.name.lstrip("-")


@lru_cache(256)
def _told_by_neighbours(folder: Path, changed: int) -> str:
    """Return the last part of the path in a folder's sessions, of one that the folder is called after if possible."""
    largest = sorted(folder.glob("*.jsonl"), key=lambda path: -path.stat().st_size)
    found = [path for neighbour in largest[:_MOST_NEIGHBOURS] if (path := _working_directory(neighbour))]
    exact = (path for path in found if folder_name(path) == folder_name(folder.name))
    return _last_part(next(exact, found[0] if found else ""))


def _working_directory(session: Path) -> str:
    for payload in head_lines(read_head(session) or b"", 10):
        decoded = decode(payload)
        if decoded and is_object(decoded.value) and (path := as_text(decoded.value.get("cwd"))):
            return path
    return ""


def _request(line: JsonObject) -> tuple[str, str]:
    """Return what a user line asks for, in words and as a slash command ("" where it does not)."""
    shown = user(line, Nothing())
    if shown.kind is not Kind.USER:
        return "", ""
    text = next((block.text for block in shown.blocks if block.text and not block.name), "") or ""
    if (named := _command(text)) is not None:
        arguments = _arguments(text)
        return "", f"{named[1]} {arguments[1] if arguments else ''}".strip()
    return ("", "") if text.startswith("<bash-input>") else (text, "")


def _last_part(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]
