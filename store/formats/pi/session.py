"""The session files of pi and oh-my-pi: finding, recognising and cutting them.

``sessions/<working directory>/<time>_<id>.jsonl``, one a session. A folder of the same name without ``.jsonl`` holds
the overlong outputs of tools (``<n>.<tool>.log``), the answers of subagents (``<id>.md``), and the subagents' own
sessions (``<id>.jsonl``). Images lie in ``blobs/`` beside ``sessions/``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath

from store.formats.core.compressed import Compressed
from store.formats.core.format import About, ExternalBlob, Format, Resuming, Source, Titled, first_line
from store.formats.core.json_view import JsonObject, as_object, as_text, decode, is_object, object_in
from store.formats.core.look import Look, companions
from store.formats.core.splices import put, spell, with_members
from store.formats.core.times import milliseconds
from store.formats.pi.images import moved_outside, referenced_blobs
from store.formats.pi.lens import PiLens, is_type
from store.formats.pi.slot import is_slot

_folder = re.compile(r"--?(.+?)(?:--)?").fullmatch


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


def _labels_of_nothing(lines: Sequence[JsonObject], kept: Mapping[int, bytes]) -> Iterator[int]:
    left = {as_text(lines[at].get("id")) for at in kept}
    gone = {as_text(line.get("id")) for line in lines} - left
    yield from (at for at in kept if lines[at].get("type") == "label" and as_text(lines[at].get("targetId")) in gone)


def _keeping(record: bytes, line: JsonObject, lines: Sequence[JsonObject], kept: Mapping[int, bytes]) -> bytes:
    """Return a compaction that keeps the remaining ones of the messages that it kept."""
    entries = [at for at, entry in enumerate(lines) if entry]
    index = line.get("firstKeptEntryIndex")
    if isinstance(index, int) and 0 <= index < len(entries):
        # as version 1 had it: a position among the lines that make sense
        before = sum(at in kept for at in entries[:index])
        return put(record, ("firstKeptEntryIndex",), str(before).encode()) if before != index else record
    first = next((at for at in entries if as_text(lines[at].get("id")) == line.get("firstKeptEntryId")), None)
    if first is None or first in kept:
        return record
    later = (as_text(lines[at].get("id")) for at in entries if at > first and at in kept)
    return put(record, ("firstKeptEntryId",), spell(next(filter(None, later)), record))


_is_of_lines = re.compile(
    r".+\.jsonl(?:\.(?:(?:deleted|reset)\.\d{4}-\d\d-\d\dT[\d-]+(?:\.\d+)?Z(?:\.[0-9a-f]{32})?|migrated(?:\.\d+)?))?"
).fullmatch
"""Tells the names of files of lines; OpenClaw's sessions that have ended have another one."""
_is_session_name = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:-\d+)?Z_.+").fullmatch
_ROLES = frozenset(("assistant", "bashExecution", "custom", "hookMessage", "toolResult", "user"))
_cut_off_line = re.compile(rb'\s*+\{"type":"(?:session|message|compaction)",.{0,200}?"(?:parentId|cwd|message)":').match


_LENS = PiLens()
_PROFILES = ("agent/sessions", "profiles/*/agent/sessions")


class Pi(Format):
    """pi, and oh-my-pi, which began as a copy of it."""

    name = "pi"
    lenses = (_LENS,)
    main_type = _LENS.type_name
    resuming = (
        Resuming("pi", ("pi", "--session", "{path}"), ("$PI_CODING_AGENT_DIR", "~/.pi/agent")),
        Resuming("oh-my-pi", ("omp", "--resume", "{path}"), ("~/$PI_CONFIG_DIR/agent", "~/.omp/agent")),
    )
    kept = (
        *("$PI_CODING_AGENT_SESSION_DIR", "$PI_CODING_AGENT_DIR/sessions"),
        *(f"~/{folder}/{name}" for folder in (".pi", "$PI_CONFIG_DIR", ".omp") for name in _PROFILES),
        "$XDG_DATA_HOME/omp/sessions",
        *(f"{folder}/agents/*/sessions" for folder in ("$OPENCLAW_STATE_DIR", "~/.openclaw", "~/.clawdbot")),
    )
    outputs_beside = True
    titling = re.compile(rb'"type"\s*+:\s*+"(?:title|title_change|session_info)"')
    native = (*kept[:2], "~/.pi/agent/sessions")

    def is_ours(self, look: Look) -> bool:
        """Claim a ``.jsonl`` file by its first lines; one that is empty or damaged by its name and place."""
        if not _is_of_lines(look.path.name) or look.is_folder:
            return False
        objects = look.objects()
        # the lines of others may look like pi's, but not the beginnings of their sessions
        return _begins_one(objects[0]) if objects else _is_damaged_one(look)

    def claim(self, look: Look) -> Source | None:
        path = look.path
        if not self.is_ours(look):
            return None
        return Source(self.name, path, path, sidecars=tuple(companions(path)), folder=path.with_suffix(""))

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        return referenced_blobs(source.path, payload)

    def moved_outside(self, record: bytes, beginning: bytes) -> tuple[bytes, Mapping[str, bytes]]:
        """Return a line with its images as references, and these; of oh-my-pi alone: pi knows no references."""
        return moved_outside(record) if is_slot(object_in(beginning)) else (record, {})

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session: its title is the one in its place at the beginning, else the last, else the request."""
        slot = named = prompt = ""
        header: JsonObject = {}
        for record in records:
            if (
                not self.titles(record)
                and (header or b'"session"' not in record)
                and (prompt or b'"user"' not in record)
            ):
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
        if (above := source.path.parent.with_name(source.path.parent.name + source.path.suffix)).is_file():
            extra |= {"agent": source.path.stem, "parent_session": _session_of(above.name)}
        parent = as_text(header.get("parentSession")) or as_text(header.get("branchedFrom"))
        title = slot or named or as_text(header.get("title"))
        project = PurePosixPath(cwd.replace("\\", "/")).name
        return About(
            title=first_line(title or prompt),
            project=project or _project_of(source.path.parent),
            started_ms=milliseconds(header.get("timestamp")),
            session_id=as_text(header.get("id")) or source.path.stem,
            extra=extra,
            forked_from=_session_of(parent),
            titled=Titled.BY_TOOL if title else Titled.BY_REQUEST,
            placed=bool(project),
        )

    def forked(self, record: bytes, session: str, parent: str, path: str) -> bytes:
        if object_in(record).get("type") != "session":
            return record
        added = {"id": spell(session, record), "parentSession": spell(path, record)}
        return with_members(record, (), frozenset(added), added)

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other lines, linked past those that are gone; tool calls and their results go together.

        Labels go with the lines that they mark. The messages that a compaction kept begin with the next one that is
        left.
        """
        lines = [object_in(record) for record in records]
        lens = self.lenses[0]
        kept = lens.without(records, deleted)
        while labels := set(_labels_of_nothing(lines, kept)):
            deleted = set(range(len(records))) - (kept.keys() - labels)
            kept = lens.without(records, deleted)
        if len(kept) < len(records):
            for at, record in kept.items():
                if lines[at].get("type") == "compaction":
                    kept[at] = _keeping(record, lines[at], lines, kept)
        return list(kept.values())


class PiCompressed(Compressed, Pi):
    """OpenClaw, which compresses sessions that have ended."""

    name = "pi-zst"
    unpacked = Pi.name
    native = ()


def _begins_one(line: JsonObject) -> bool:
    match line:
        case {"type": "session", "id": str(), "timestamp": str()}:
            return "cwd" in line or "version" in line
        case {"type": str(what), "id": str(), "parentId": _, "timestamp": str()}:
            return is_type(what)
        case {"type": "message", "timestamp": str(), "message": {"role": str(role)}}:
            return role in _ROLES and "uuid" not in line
    return is_slot(line)


def _is_damaged_one(look: Look) -> bool:
    if any(map(_cut_off_line, look.lines())):
        return True
    path = look.path
    return _is_session_name(path.stem) is not None and path.parent.parent.name == "sessions"
