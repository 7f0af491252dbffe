"""Gemini CLI's session files: finding, recognising and cutting them.

``~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl``; a subagent's is ``chats/<session>/<id>.jsonl``. Older
sessions are one JSON document each, ``session-….json``, that holds ``messages``.

The conversation in a file of lines is the last record of each id, where the first one stood.

A record that replaces another takes its place, and that one goes to the place of the new record: so every other record
keeps its own, however often the program replaces one. Messages taken back are a branch of their own.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from store.events.event import Kind
from store.formats.core.format import (
    About,
    Format,
    Part,
    Resuming,
    Source,
    Span,
    Titled,
    first_line,
    last_part,
    line_spans,
    told,
)
from store.formats.core.json_cuts import LITERAL, choice_of, cut_spans, cuts
from store.formats.core.json_view import JsonObject, as_list, as_object, as_text, decode, object_in
from store.formats.core.lens import Nothing
from store.formats.core.look import HEAD_SIZE, Look, read_head
from store.formats.core.times import milliseconds
from store.formats.gemini_cli.lens import (
    GeminiCliLens,
    answered_in,
    beginning,
    calls_in,
    is_checkpoint,
    is_line,
    is_message,
    is_own,
    view,
)
from store.ids import sha256

PROJECT_MARKER, _REGISTRY = ".project_root", "projects.json"
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch
_last_summary = re.compile(rb'\]\s*+,[^\[\]{}]*?("summary"\s*+:\s*+' + LITERAL + rb")[^{}]*\}\s*\Z").search
_tells = re.compile(rb'"(?:\$set|sessionId)"').search
_TAIL = 16 << 10
_LONGEST_PATH = 4096
_DIGITS = 8


def _beside_messages(path: Path) -> JsonObject:
    """Return the members of a one-document session around its messages, before and after them."""
    head = beginning(read_head(path) or b"")
    if not head:
        return {}
    decoded = decode(head + b"]}")
    said = dict(as_object(decoded.value)) if decoded else {}
    tail = read_head(path, _TAIL, from_end=True) or b""
    if (summary := _last_summary(tail)) is not None and (decoded := decode(b"{" + summary[1] + b"}")):
        said |= as_object(decoded.value)
    return said


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
    return {sha256(root.encode()).hex(): root for root in listed}


def _project_folder(path: Path) -> Path | None:
    return next((above.parent for above in path.parents if above.name == "chats"), None)


def _folder_of(path: Path) -> str:
    folder = _project_folder(path)
    return folder.name if folder is not None and folder.parent.name == "tmp" and not _is_hash(folder.name) else ""


class Thread(NamedTuple):
    """Records, by position, in the order of the conversation. ``key`` is the message that was taken back, "" for the
    conversation itself; ``shared`` says how many records of that come before these.
    """

    key: str
    records: list[int]
    shared: int = 0


def threads(records: Iterable[JsonObject]) -> list[Thread]:
    """Return the conversation that records (empty ones for damaged lines) are, then the messages taken back."""
    order: list[int] = []
    places: dict[str, int] = {}
    taken_back: list[Thread] = []
    for at, record in enumerate(records):
        rewound = record.get("$rewindTo")
        if isinstance(rewound, str):
            start = places.get(rewound, min(places.values(), default=len(order)))
            if start < len(order):
                taken_back.append(Thread(rewound, order[start:], start))
            order = order[:start]
            places = {key: place for key, place in places.items() if place < start}
        identifier = as_text(record.get("id")) if is_message(record) else ""
        if identifier in places:
            place = places[identifier]
            order[place], replaced = at, order[place]
            order.append(replaced)
            continue
        if identifier:
            places[identifier] = len(order)
        order.append(at)
    return [Thread("", order), *taken_back]


_messages, _replacing = choice_of("messages[]"), choice_of("$set.messages[]")
_LOOKED_AT = 20
_DESCRIBING = 200
_LARGEST_DESCRIBING = 1 << 20
_MARKS = (b'"sessionId"', b'"projectHash"', b'"startTime"')


class GeminiCli(Format):
    """Google's Gemini CLI."""

    name = "gemini-cli"
    lenses = (GeminiCliLens(),)
    main_type = GeminiCliLens.type_name
    kept = native = ("$GEMINI_CLI_HOME/.gemini/tmp", "~/.gemini/tmp")
    resuming = (
        Resuming("gemini-cli", ("gemini", "--resume", "{session}"), ("$GEMINI_CLI_HOME/.gemini", "~/.gemini")),
    )

    def in_lines(self, head: Callable[[], bytes]) -> bool:
        """Return whether a file is lines: it is, unless it begins as a document."""
        return not beginning(head())

    def is_ours(self, look: Look) -> bool:
        """Claim a file of messages and descriptions of a session; an empty or damaged one by its name and place."""
        if look.path.suffix not in (".json", ".jsonl") or look.is_folder:
            return False
        if before := beginning(look.head):
            return sum(mark in before for mark in _MARKS) > 1
        if not (objects := look.objects(_LOOKED_AT)):
            return _lies_like_one(look.path)
        return any(map(is_own, objects)) and 2 * sum(map(is_line, objects)) > len(objects)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the messages of a document; or the lines, of one that replaces all messages these."""
        # of a file that has grown, only the end may be here: no line begins as the rest of a list does
        following = bytes(data[start : start + HEAD_SIZE]).lstrip()
        if beginning(bytes(data[:HEAD_SIZE])) or (start and following.startswith((b",", b"]"))):
            yield from cut_spans(data, start, _messages)
            return
        for span in line_spans(data, start):
            if not is_checkpoint(bytes(data[span.start : min(span.end, span.start + HEAD_SIZE)])):
                yield span
                continue
            for cut in cuts(data[span.start : span.end], _replacing):
                yield Span(span.start + cut.start, span.start + cut.end)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the lines of the conversation, and those taken back; a document is one conversation as it is."""
        if beginning(bytes(data[:HEAD_SIZE])):
            return None
        found = threads(_glance(bytes(data[span.start : span.end])) for span in spans)
        about = self.about(source, [bytes(data[span.start : span.end]) for span in self._describing(data, spans)])
        parts: list[Part] = []
        for thread in found:
            key = f"{about.session_id}~{thread.key}" if thread.key else about.session_id
            parts.append(Part(key, thread.records, about, 0 if thread.key else -1, thread.shared))
        return parts

    def titles(self, record: bytes) -> bool:
        return record.startswith(b'{"$set"') and b'"summary"' in record

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other records; with a message go its earlier states, and repetitions of its calls' results."""
        seen = [_glance(record) for record in records]
        gone = {as_text(seen[at].get("id")) for at in deleted if is_message(seen[at])}
        calls = {as_text(call.get("id")) for at in deleted for call in _calls(records[at])} - {""}
        return [
            record
            for at, (record, glance) in enumerate(zip(records, seen, strict=True))
            if at not in deleted
            and not (is_message(glance) and (glance["id"] in gone or calls.issuperset(answered_in(glance) or ("",))))
        ]

    def _describing(self, data: memoryview, spans: Sequence[Span]) -> Iterator[Span]:
        for at, span in enumerate(spans):
            if span.end - span.start <= _LARGEST_DESCRIBING and (
                at < _DESCRIBING or self.titles(bytes(data[span.start : span.end]))
            ):
                yield span

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session from its first records: by its summary, else by its first request."""
        said = _beside_messages(source.path)
        request = ""
        for record in records:
            # parsing costs more than everything else
            if request and not _tells(record):
                continue
            value = object_in(record)
            if (changed := as_object(value.get("$set"))) or ("sessionId" in value and "projectHash" in value):
                said |= {key: item for key, item in (changed or value).items() if key != "messages"}
            elif not request and value.get("type") == "user":
                shown = view(value, Nothing())
                if shown.kind is Kind.USER:
                    request = next((block.text for block in shown.blocks if block.text), "") or ""
        root = _project_root(source.path, as_text(said.get("projectHash"))) or as_text(
            next(iter(as_list(said.get("directories"))), "")
        )
        extra = {"cwd": root}
        if said.get("kind") == "subagent":
            extra |= {"agent": source.path.stem, "parent_session": source.path.parent.name}
        project, summary = last_part(root), as_text(said.get("summary"))
        return About(
            title=first_line(summary or request),
            project=project or _folder_of(source.path) or as_text(said.get("projectHash"))[:_DIGITS],
            started_ms=milliseconds(said.get("startTime")),
            session_id=as_text(said.get("sessionId")) or source.path.stem,
            extra=told(**extra),
            titled=Titled.BY_TOOL if summary else Titled.BY_REQUEST,
            placed=bool(project),
        )


def _lies_like_one(path: Path) -> bool:
    return path.name.startswith("session-") and path.parent.name == "chats" and path.parent.parent.parent.name == "tmp"


def _calls(record: bytes) -> list[JsonObject]:
    return calls_in(object_in(record)) if b'"toolCalls"' in record else []


class _Glance(msgspec.Struct):
    identifier: object = msgspec.field(default=None, name="id")
    timestamp: object = None
    what: object = msgspec.field(default=None, name="type")
    content: msgspec.Raw = msgspec.Raw()
    rewound: object = msgspec.field(default=None, name="$rewindTo")


_glance_at = msgspec.json.Decoder(_Glance).decode


def _glance(record: bytes) -> JsonObject:
    """Return the members of a record that say where it belongs; reading no others is many times faster."""
    try:
        found = _glance_at(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return object_in(record)
    glance: JsonObject = {"id": found.identifier, "timestamp": found.timestamp, "$rewindTo": found.rewound}
    if found.what == "user" and b'"functionResponse"' in bytes(found.content):
        glance |= {"type": found.what, "content": msgspec.json.decode(found.content)}
    return glance
