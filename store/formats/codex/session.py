"""Codex's rollouts: finding, recognising and cutting them.

``$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, one a session, subagents' too; archived ones are in
``archived_sessions``. A fork is a file that begins with a line of its own, then has the lines of the session that it
was made from, with new times, and goes on.

Sessions of the first Codex, which was written in TypeScript, are a document each, ``rollout-<date>-<id>.json``:
``{"session": {"timestamp", "id", "instructions"}, "items": [...]}``, with items as on the lines of later ones.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from pathlib import Path

import msgspec

from store.formats.codex.items import is_injected, plain_text
from store.formats.codex.lens import CodexLens, Said, is_line, is_own, said
from store.formats.core.compressed import Compressed
from store.formats.core.format import About, Format, Part, Resuming, Source, Span, Titled, first_line, last_part, told
from store.formats.core.json_cuts import LITERAL, choice_of, cut_spans
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, is_object, object_in
from store.formats.core.look import Look, read_head
from store.formats.core.splices import with_members, without_elements
from store.formats.core.times import milliseconds

_working_directory = re.compile(r"<cwd>(.*?)</cwd>|Current working directory: (.+)").search
_named = re.compile(r"rollout-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(.+)").fullmatch
_FOLDERS = ("sessions", "archived_sessions")
_INDEX = "session_index.jsonl"
_PROJECT = "codex"
_MOST_OF_INDEX = 4 << 20
_NAMING = b'"thread_name_updated"'
_tells = re.compile(rb'"(?:session_meta|user|user_message|instructions|git|thread_name_updated)"').search
_OF_IDE = "## My request for Codex:"


def _asked(line: Said) -> str:
    if line.what == "event_msg":
        return as_text(line.item.get("message")) if line.item.get("type") == "user_message" else ""
    if line.what == "response_item" and line.item.get("role") == "user":
        return plain_text(line.item.get("content"))
    return ""


def _agent(meta: JsonObject) -> dict[str, str]:
    """Return the agent of a session, and the session that started it, where it is a subagent's."""
    spawned = as_object(as_object(as_object(meta.get("source")).get("subagent")).get("thread_spawn"))
    parent = as_text(meta.get("parent_thread_id")) or as_text(spawned.get("parent_thread_id"))
    agent = as_text(meta.get("agent_nickname")) or as_text(spawned.get("agent_nickname"))
    return {"parent_session": parent, "agent": agent}


def _time_in_name(stem: re.Match[str] | None) -> int:
    return milliseconds(f"{stem[1]}T{stem[2]}:{stem[3]}:{stem[4]}") if stem else 0


def _indexed_name(path: Path, session: str) -> str:
    """Return the name that the list of sessions, which lies beside their directories, gives one."""
    kept_in = next((above for above in path.parents if above.name in _FOLDERS), None)
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
    entries = map(object_in, (read_head(index, _MOST_OF_INDEX, from_end=True) or b"").split(b"\n"))
    return {as_text(entry.get("id")): name for entry in entries if (name := as_text(entry.get("thread_name")).strip())}


_Message = tuple[str, str]
"""A message: its speaker and its text."""

_TWINS = {"user_message": "user", "agent_message": "assistant"}
_NEAR = 32
"""The most lines between an event and the item that says the same."""


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
    """Yield the places near line ``at`` of the same message as the other kind of line."""
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
    if line.what == "event_msg":
        role = _TWINS.get(as_text(line.item.get("type")), "")
        return (role, as_text(line.item.get("message"))) if role else None
    return _message_of(line.item) if line.what == "response_item" else None


def _message_of(item: dict[str, object]) -> _Message | None:
    role, text = as_text(item.get("role")), plain_text(item.get("content"))
    return (role, text) if role in _TWINS.values() and text else None


def _call(line: Said) -> str:
    return as_text(line.item.get("call_id")) if line.what in ("response_item", "event_msg") else ""


_beginning = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+\{\s*+"session"\s*+:\s*+\{(?:[^{}"]++|' + LITERAL + rb')*+\}\s*+,\s*+"items"\s*+:\s*+\['
).match
_DESCRIBING = 200
_items = choice_of("session", "items[]")


class CodexItemLens(CodexLens):
    """Sees the items of a document."""

    type_name = "codex.item.v1"
    one_line = False


class Rollouts(Format):
    """Sessions of Codex, as files of whichever age."""

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session: its title is its user's name for it, else the first request."""
        meta: JsonObject = {}
        name = request = directory = ""
        begun = milliseconds(object_in(records[0]).get("timestamp")) if records else 0
        for at, record in enumerate(records):
            # parsing costs more than everything else
            complete = meta and request and directory
            if at and not (_NAMING in record if complete else _tells(record)):
                continue
            line = said(object_in(record))
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
        stem = _named(source.path.name.partition(".json")[0])
        session = as_text(meta.get("id")) or (stem[5] if stem else source.path.stem)
        git, version = as_object(meta.get("git")), meta.get("cli_version")
        project, named = last_part(directory), _indexed_name(source.path, session) or name
        return About(
            title=first_line(named or request.rpartition(_OF_IDE)[2] or request),
            # the folders that it lies in are called after a day
            project=project or (_PROJECT if any(above.name in _FOLDERS for above in source.path.parents) else ""),
            started_ms=milliseconds(meta.get("timestamp")) or _time_in_name(stem) or begun,
            session_id=session,
            extra=told(
                cwd=directory,
                branch=git.get("branch"),
                repository=git.get("repository_url"),
                tool_version=version,
                **_agent(meta),
            ),
            forked_from=as_text(meta.get("forked_from_id")),
            titled=Titled.BY_USER if named else Titled.BY_REQUEST,
            placed=bool(project),
        )

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other records.

        An item takes along the event that says the same; a call its output and events; a text or call of the model the
        reasoning before it, which may not stand alone. Messages also leave the histories that compactions kept.
        """
        lines = [said(object_in(record)) for record in records]
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


class CodexDocument(Rollouts):
    """OpenAI's Codex, as it was until summer 2025."""

    name = "codex-json"
    lenses = (CodexItemLens(),)
    main_type = CodexItemLens.type_name
    joints = (b'{\n  "items": [\n    ', b",\n    ", b"\n  ]\n}\n")

    def is_ours(self, look: Look) -> bool:
        return _beginning(look.head) is not None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        return cut_spans(data, start, _items)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return all as one conversation: the bytes between its first two records are no separator."""
        about = self.about(source, [bytes(data[span.start : span.end]) for span in spans[:_DESCRIBING]])
        return [Part(about.session_id, range(len(spans)), about)]


_LOOKED_AT = 20
_cut_off_line = re.compile(
    rb'\s*\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"type"\s*:\s*"'
    rb'(?:session_meta|response_item|event_msg|turn_context|compacted|world_state)"'
).match


class Codex(Rollouts):
    """OpenAI's Codex."""

    name = "codex"
    lenses = (CodexLens(),)
    main_type = CodexLens.type_name
    volatile = frozenset(("timestamp",))
    native_folders = _FOLDERS
    titling = re.compile(_NAMING)
    kept = tuple(f"{home}/{name}" for home in ("$CODEX_HOME", "~/.codex") for name in _FOLDERS)
    # sessions move between two folders of it
    native: Sequence[str] = ("$CODEX_HOME", "~/.codex")
    resuming = (Resuming("codex", ("codex", "resume", "{session}"), ("$CODEX_HOME", "~/.codex")),)

    def forked(self, record: bytes, session: str, parent: str, path: str) -> bytes:
        line = object_in(record)
        about = line.get("payload")
        if line.get("type") != "session_meta" or not is_object(about):
            return record
        own = msgspec.json.encode(session)
        added = {"id": own, "forked_from_id": msgspec.json.encode(parent)}
        if "session_id" in about:
            added["session_id"] = own
        return with_members(record, ("payload",), frozenset(added), added)

    def is_ours(self, look: Look) -> bool:
        """Claim a ``.jsonl`` file by its first lines; one that is empty or damaged by its name and place."""
        if look.path.suffix != ".jsonl" or look.is_folder:
            return False
        if objects := look.objects(_LOOKED_AT):
            return 2 * sum(map(is_line, objects)) > len(objects) and any(map(is_own, objects))
        return any(map(_cut_off_line, look.lines(_LOOKED_AT))) or _lies_like_one(look.path)


class CodexCompressed(Compressed, Codex):
    """OpenAI's Codex, which compresses the files of older sessions: ``rollout-<time>-<id>.jsonl.zst``."""

    name = "codex-zst"
    unpacked = Codex.name
    native = ()


def _lies_like_one(path: Path) -> bool:
    return _named(path.name.partition(".jsonl")[0]) is not None and any(
        above.name in _FOLDERS for above in path.parents
    )
