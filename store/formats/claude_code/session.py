"""Claude Code's session files: where they lie, how they are told from others, how they are cut.

``<project>/<session>.jsonl``, one a session; subagents are files of their own, ``agent-<id>.jsonl`` beside it or under
``<session>/subagents/``, a workflow's in ``workflows/<id>/`` there. ``<session>/tool-results/`` holds output that was
too long for a line.
"""

import mmap
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from store.events.event import Kind
from store.formats.claude_code.lens import ClaudeCodeLens, ElsewhereLens
from store.formats.claude_code.messages import user
from store.formats.claude_code.notes import OF_THE_SESSION
from store.formats.core.format import About, Format, Resuming, Source, Titled, first_line, last_part, told
from store.formats.core.json_view import JsonObject, as_object, as_text, decode, is_object, object_in
from store.formats.core.lens import Nothing
from store.formats.core.look import Look, companions, head_lines, read_head
from store.formats.core.splices import with_members
from store.formats.core.times import milliseconds

_FROM_FIRST = ("cwd", "sessionId", "timestamp", "gitBranch", "version")
_summarizes = re.compile(rb'\s*+\{\s*+"type"\s*+:\s*+"summary"').match
_FIRST_LINES = frozenset(("summary", "file-history-snapshot"))
_SPOKEN = frozenset(("assistant", "user"))
is_session_name = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_command = re.compile(r"<command-name>(.*?)</command-name>").search
_arguments = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL).search
_mangled = re.compile(r"[^a-zA-Z0-9]").sub
_AGENTS = "subagents"
_MOST_NEIGHBOURS = 20


def is_line(line: JsonObject) -> bool | None:
    """Return whether a parsed JSON object is a line of a Claude Code session; None where others may write it too.

    A message has the members of Anthropic's API; tools that began as a copy have others there.
    """
    what = line.get("type")
    if not isinstance(what, str):
        return False
    if what in _SPOKEN:
        message = as_object(line.get("message"))
        linked = isinstance(line.get("uuid"), str) and "sessionId" in line
        return linked and message.get("role") == what and "content" in message
    if what in _FIRST_LINES:
        return "leafUuid" in line or "messageId" in line
    if "uuid" in line:
        return "sessionId" in line and "parentUuid" in line and "isSidechain" in line
    if "sessionId" not in line:
        return False
    return what in OF_THE_SESSION or None


def _titled(given: str, made: str, prompt: str) -> Titled:
    if given:
        return Titled.BY_USER
    return Titled.BY_TOOL if made else Titled.BY_REQUEST if prompt else Titled.PROVISIONALLY


def folder_name(path: str) -> str:
    """Return the name of the folder for the sessions of a working directory."""
    return _mangled("-", path)


def project_of_folder(folder: Path) -> str:
    """Name the project of a folder of sessions.

    A folder is called after the project's path with everything but letters and digits as ``-``, which hides where the
    last part begins; a neighbouring session that names its working directory tells.
    """
    if not folder.name.startswith("-"):
        folder = next((one.parent.parent for one in (folder, *folder.parents[:2]) if one.name == _AGENTS), folder)
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
    return last_part(next(exact, found[0] if found else ""))


def _working_directory(session: Path) -> str:
    for payload in head_lines(read_head(session) or b"", 10):
        decoded = decode(payload)
        if decoded and is_object(decoded.value) and (path := as_text(decoded.value.get("cwd"))):
            return path
    return ""


def _request(line: JsonObject) -> tuple[str, str]:
    """Return the request on a user line, in words and as a slash command ("" where there is none)."""
    shown = user(line, Nothing())
    if shown.kind is not Kind.USER:
        return "", ""
    text = next((block.text for block in shown.blocks if block.text and not block.name), "") or ""
    if (named := _command(text)) is not None:
        arguments = _arguments(text)
        return "", f"{named[1]} {arguments[1] if arguments else ''}".strip()
    return ("", "") if text.startswith("<bash-input>") else (text, "")


_agent_name = re.compile(r"agent-[\w-]+").fullmatch
_ENOUGH = 3
"""The surplus of own lines over foreign ones that leaves no doubt."""
_cut_off_parts = re.compile(rb'"message"\s*:\s*\{\s*(?:"role"\s*:\s*"\w+"\s*,\s*)?"parts"\s*:').search
_cut_off_line = re.compile(rb'\s*\{.*?(?<!\\)"(?:parentUuid|leafUuid|isSidechain|sessionId)"\s*:', re.DOTALL).match


_OWN = ("$CLAUDE_CONFIG_DIR", "~/.claude")
_COWORK = ("~/.config/Claude", "~/Library/Application Support/Claude")
_TASKS = tuple(f"local-agent-mode-sessions/*/*/{place}local_*/.claude/projects" for place in ("", "agent/"))
_LARGEST_TASK = 1 << 20


def _title_in_cowork(path: Path) -> str:
    """Return the title that Claude Cowork gives the task of a session, "" for a session that is not its current one.

    A task is ``local_ID.json``, beside ``local_ID/.claude/projects/FOLDER/SESSION.jsonl``.
    """
    folder = path.parents[3] if len(path.parents) > 3 else path
    if not folder.name.startswith("local_") or path.parents[2].name != ".claude":
        return ""
    task = object_in(read_head(folder.with_name(f"{folder.name}.json"), _LARGEST_TASK))
    return as_text(task.get("title")) if task.get("cliSessionId") == path.stem else ""


class ClaudeCode(Format):
    """Anthropic's Claude Code, and Claude Cowork, which runs it for each task."""

    name = "claude-code"
    lenses = (ClaudeCodeLens(), ElsewhereLens())
    main_type = ClaudeCodeLens.type_name
    volatile = frozenset(("sessionId", "forkedFrom"))
    titling = re.compile(rb'"type"\s*+:\s*+"(?:ai-title|custom-title|summary)"')
    kept = (
        *("$CLAUDE_CONFIG_DIR/projects", "~/.claude/projects", "~/.config/claude/projects"),
        *(f"{folder}/{tasks}" for folder in _COWORK for tasks in _TASKS),
    )
    resuming = (Resuming("claude-code", ("claude", "--resume", "{session}"), _OWN),)
    native = kept[:2]

    def claim(self, look: Look) -> Source | None:
        """Claim a ``.jsonl`` file by its first lines; one that is empty or damaged by its name and place."""
        path = look.path
        if path.suffix != ".jsonl" or look.is_folder:
            return None
        ours = foreign = 0
        for line, value in look.decoded():
            verdict = _is_ours(line, value)
            ours += verdict is True
            foreign += verdict is False
            if ours - foreign >= _ENOUGH:
                break
        if ours <= foreign and (foreign or not _lies_like_one(path)):
            return None
        return Source(self.name, path, path, sidecars=tuple(companions(path)), folder=path.with_suffix(""))

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session: its title is its user's, else the program's, else the first request."""
        given = made = prompt = aside = command = ""
        summaries: list[tuple[str, str]] = []
        first: dict[str, str] = {}
        forked_from = ""
        is_agent = source.path.stem.startswith("agent-")
        # parsing costs more than everything else: only lines that may tell something are parsed
        missing = {key: f'"{key}"'.encode() for key in (*_FROM_FIRST, *(("agentId",) if is_agent else ()))}
        for record in records:
            tells = self.titles(record) or (not prompt and b'"user"' in record)
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
        given = given or _title_in_cowork(source.path)
        summary = next((text for leaf, text in reversed(summaries) if _holds(source.main, leaf, records)), "")
        extra = told(cwd=first.get("cwd"), branch=first.get("gitBranch"), tool_version=first.get("version"))
        session = first.get("sessionId", "")
        if is_agent:
            extra |= told(agent=first.get("agentId") or source.path.stem.removeprefix("agent-"), parent_session=session)
        project = last_part(first.get("cwd", ""))
        return About(
            title=first_line(given or made or summary or prompt or command or aside),
            project=project or project_of_folder(source.path.parent),
            started_ms=milliseconds(first.get("timestamp")),
            session_id=source.path.stem
            if is_agent or is_session_name(source.path.stem)
            else session or source.path.stem,
            extra=extra,
            forked_from=forked_from,
            titled=_titled(given, made or summary, prompt),
            placed=bool(project),
        )

    def type_of(self, source: Source, record: bytes) -> str:
        """Tell the summaries of other sessions, which are listed at the beginning of a file, from the session's own."""
        if not _summarizes(record):
            return self.main_type
        decoded = decode(record)
        leaf = as_text(as_object(decoded.value).get("leafUuid")) if decoded else ""
        return self.main_type if _holds(source.main, leaf, ()) else ElsewhereLens.type_name

    def forked(self, record: bytes, session: str, parent: str, path: str) -> bytes:
        line = object_in(record)
        if "sessionId" not in line:
            return record
        added = {"sessionId": msgspec.json.encode(session)}
        if isinstance(uuid := line.get("uuid"), str):
            added["forkedFrom"] = msgspec.json.encode({"sessionId": parent, "messageUuid": uuid})
        return with_members(record, (), frozenset(added), added)


def _holds(session: Path, key: str, records: Sequence[bytes]) -> bool:
    """Return whether a message of a session has this uuid; also true where that cannot be told."""
    name = re.compile(rb'"uuid"\s*+:\s*+"%b"' % re.escape(key.encode("utf-8", "replace"))).search
    if not key or any(map(name, records)):
        return True
    try:
        with session.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return name(data) is not None
    except (OSError, ValueError):
        return True


def _is_ours(line: bytes, value: JsonObject | None) -> bool | None:
    """Return whether a line is Claude Code's; None where that is left open, as by damage."""
    if value is not None:
        return is_line(value)
    if decode(line) is not None:
        return False
    if not _cut_off_line(line):
        return None
    return not _cut_off_parts(line)


def _lies_like_one(path: Path) -> bool:
    folder = path.parent
    by_place = folder.name.startswith("-") or _AGENTS in folder.parts[-3:] or folder.parent.name == "projects"
    return by_place and (is_session_name(path.stem) or _agent_name(path.stem)) is not None
