"""Gemini CLI's session files: where they lie, how they are told from others, how they are cut.

``~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl``; a subagent's is ``chats/<session>/<id>.jsonl``. Older
sessions are one JSON document each, ``session-….json``, that holds ``messages``.
"""

import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import msgspec

from store.events.event import Path as Place
from store.formats.files import HEAD_SIZE
from store.formats.format import About, Format, Part, Source, Span
from store.formats.gemini_cli.about import describe
from store.formats.gemini_cli.lens import GeminiCliLens
from store.formats.gemini_cli.records import beginning, is_checkpoint, is_line, is_message
from store.formats.gemini_cli.threads import threads
from store.formats.json_cuts import Choice, cut_spans, cuts
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.lines import line_spans
from store.formats.look import Look

_LOOKED_AT = 20
_DESCRIBING = 200
_LARGEST_DESCRIBING = 1 << 20
_MARKS = (b'"sessionId"', b'"projectHash"', b'"startTime"')


class GeminiCli(Format):
    """Google's Gemini CLI."""

    name = "gemini-cli"
    lenses = (GeminiCliLens(),)
    main_type = GeminiCliLens.type_name

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield ``~/.gemini/tmp``, and that of ``$GEMINI_CLI_HOME``."""
        candidates = [home]
        if (moved := os.environ.get("GEMINI_CLI_HOME")) and home == Path.home():
            candidates.insert(0, Path(moved))
        for candidate in dict.fromkeys(candidates):
            if (folder := candidate / ".gemini" / "tmp").is_dir():
                yield folder

    def native_home(self, home: Path) -> Path | None:
        """Return ``~/.gemini/tmp``, or that of ``$GEMINI_CLI_HOME``."""
        moved = os.environ.get("GEMINI_CLI_HOME") if home == Path.home() else None
        return Path(moved or home) / ".gemini" / "tmp"

    def claim(self, look: Look) -> Source | None:
        """Claim a document that holds messages beside what sessions say of themselves, or a file of such lines.

        An empty or damaged file is claimed by its name and place.
        """
        path = look.path
        if path.suffix not in (".json", ".jsonl") or look.is_folder:
            return None
        before = beginning(look.head)
        if before:
            ours = sum(mark in before for mark in _MARKS) > 1
        else:
            objects = look.objects(_LOOKED_AT)
            ours = 2 * sum(map(is_line, objects)) > len(objects) or (not objects and _lies_like_one(path))
        return Source(self.name, path, path) if ours else None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the messages of a document; or the lines, of one that replaces all messages these."""
        if beginning(bytes(data[:HEAD_SIZE])):
            yield from cut_spans(data, start, _messages)
            return
        for span in line_spans(data, start):
            if not is_checkpoint(bytes(data[span.start : min(span.end, span.start + HEAD_SIZE)])):
                yield span
                continue
            for cut in cuts(data[span.start : span.end], _replacing):
                yield Span(span.start + cut.start, span.start + cut.end)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Say which lines are the conversation, and what was taken back of it; a document is one as it is."""
        if beginning(bytes(data[:HEAD_SIZE])):
            return None
        found = threads(_glance(bytes(data[span.start : span.end])) for span in spans)
        about = describe(source.path, [bytes(data[span.start : span.end]) for span in self._describing(data, spans)])
        parts: list[Part] = []
        for thread in found:
            key = f"{about.session_id}~{thread.key}" if thread.key else about.session_id
            parts.append(Part(key, thread.records, about, 0 if thread.key else -1, thread.shared))
        return parts

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a session: its summary or else its first request; the project by its directory."""
        return describe(source.path, records)

    def titles(self, record: bytes) -> bool:
        """Say whether a line may give the session a summary."""
        return record.startswith(b'{"$set"') and b'"summary"' in record

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other records; a message goes with its earlier states, which would be the last ones then."""
        seen = [_glance(record) for record in records]
        gone = {as_text(seen[at].get("id")) for at in deleted if is_message(seen[at])}
        return [
            record
            for at, (record, glance) in enumerate(zip(records, seen, strict=True))
            if at not in deleted and not (is_message(glance) and glance["id"] in gone)
        ]

    def _describing(self, data: memoryview, spans: Sequence[Span]) -> Iterator[Span]:
        for at, span in enumerate(spans):
            if span.end - span.start <= _LARGEST_DESCRIBING and (
                at < _DESCRIBING or self.titles(bytes(data[span.start : span.end]))
            ):
                yield span


def _lies_like_one(path: Path) -> bool:
    return path.name.startswith("session-") and path.parent.name == "chats" and path.parent.parent.parent.name == "tmp"


class _Glance(msgspec.Struct):
    """What of a record says where it belongs."""

    identifier: object = msgspec.field(default=None, name="id")
    timestamp: object = None
    rewound: object = msgspec.field(default=None, name="$rewindTo")


_glance_at = msgspec.json.Decoder(_Glance).decode


def _glance(record: bytes) -> JsonObject:
    """Return the members of a record that say where it belongs; reading no others is many times faster."""
    try:
        found = _glance_at(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = decode(record)
        return as_object(decoded.value) if decoded else {}
    return {"id": found.identifier, "timestamp": found.timestamp, "$rewindTo": found.rewound}


def _messages(path: Place) -> Choice:
    match path:
        case () | ("messages",):
            return Choice.ENTER
        case ("messages", int()):
            return Choice.TAKE
    return Choice.PASS


def _replacing(path: Place) -> Choice:
    match path:
        case () | ("$set",) | ("$set", "messages"):
            return Choice.ENTER
        case ("$set", "messages", int()):
            return Choice.TAKE
    return Choice.PASS
